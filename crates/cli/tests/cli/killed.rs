//! The server is killed at random while clients of every protocol stream, and is started again on the same store: each
//! client that comes back in its protocol's way sees each event once, all of them see the same end, and nothing is done
//! twice. `GHOSTLIGHT_SERVER_KILLS=600` goes on for that many seconds, with 50 clients of each protocol.

mod client;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use self::client::{ALL, ANSWER, Client, Protocol, SAYS, TIMES};
use crate::{
    listening::over_http::{free, serve, until_answered},
    own_command::Desk,
};

fn desk() -> Desk {
    let desk = Desk::new("toils", json!({}));
    let agent = |name: &str, agents: Value| json!({ "name": name, "behavior": "toils", "tools": ["note"], "stream": true, "agents": agents });
    let script = json!({ "order": "turns", "replies": [{ "text": SAYS }], "repeat_last": true });
    let team = json!({
        "models": { "default": { "provider": "scripted", "script": script, "delay_ms": 0, "piece_ms": 3 } },
        "agent": agent("desk", json!([agent("left", json!([])), agent("right", json!([]))])),
    });
    desk.write("team.yaml", &team.to_string());
    desk
}

/// Lets so many clients of each protocol follow so many turns while the server is killed so often, and tells how many
/// connections of each protocol were cut.
fn round(clients: usize, turns: usize, kills: usize) -> BTreeMap<Protocol, usize> {
    let (desk, to) = (desk(), free());
    let mut serving = serve(&desk, to);
    let mut under_way = Vec::new();
    for client in 0..clients {
        for protocol in ALL {
            let turn = format!("{protocol:?}-{}", client % turns);
            let follow = move || (turn.clone(), Client::follow(protocol, to, &turn));
            under_way.push((protocol, thread::spawn(follow)));
        }
    }
    for _ in 0..kills {
        thread::sleep(Duration::from_millis(rand::random_range(30..300)));
        serving.signal("KILL");
        serving.ends();
        serving = serve(&desk, to);
    }
    let mut cut: BTreeMap<Protocol, usize> = BTreeMap::new();
    let mut seen = Vec::new();
    for (protocol, client) in under_way {
        let (turn, client) = client
            .join()
            .unwrap_or_else(|_| panic!("a client of {protocol:?}"));
        *cut.entry(protocol).or_default() += client.cuts;
        seen.push((protocol, turn, client));
    }
    // A reader of a later life sees what all the others saw.
    serving.signal("KILL");
    serving.ends();
    let serving = serve(&desk, to);
    let mut whole: BTreeMap<String, Client> = BTreeMap::new();
    for (protocol, turn, client) in seen {
        let reference = whole
            .entry(turn.clone())
            .or_insert_with(|| Client::follow(protocol, to, &turn));
        assert_eq!(client.end, reference.end, "{turn}");
        let end = client.end.as_deref().unwrap_or_default();
        assert!(end.contains(ANSWER), "{turn}");
        let ids = client.ids();
        let ((recorded, others), (all, all_others)) = (client.whole(&ids), reference.whole(&ids));
        for (place, sent) in recorded.iter().enumerate() {
            assert_eq!(Some(sent), all.get(place), "{turn}, event {place}");
        }
        assert_eq!((recorded.len(), others), (all.len(), all_others), "{turn}");
    }
    let effects = fs::read_to_string(desk.path("effects")).unwrap();
    let once: BTreeSet<&str> = effects.lines().collect();
    assert_eq!(
        once.len(),
        effects.lines().count(),
        "something was done twice"
    );
    let runs = ALL.len() * turns;
    // At each kill a call of each run may be in doubt, and is then not made again.
    let missing = 3 * runs * TIMES - once.len();
    assert!(
        missing <= 3 * runs * (kills + 1),
        "{missing} calls were left out"
    );
    let listed = until_answered(to, "GET", "/api/v1/runs?limit=1000", "");
    assert_eq!(
        listed["runs"].as_array().unwrap().len(),
        runs,
        "one run a turn"
    );
    drop(serving);
    cut
}

#[test]
fn clients_of_every_protocol_that_stream_while_the_server_is_killed_see_each_event_once_and_the_same_end()
 {
    let Ok(seconds) = std::env::var("GHOSTLIGHT_SERVER_KILLS") else {
        let cut = round(4, 2, 3);
        assert!(cut.values().all(|cuts| *cuts > 0), "{cut:?}");
        return;
    };
    let (begun, time) = (
        Instant::now(),
        Duration::from_secs(seconds.parse().unwrap()),
    );
    let (mut rounds, mut kills, mut cut) = (0, 0, BTreeMap::new());
    while begun.elapsed() < time {
        let times = rand::random_range(3..9);
        for (protocol, cuts) in round(50, 5, times) {
            *cut.entry(protocol).or_insert(0) += cuts;
        }
        (rounds, kills) = (rounds + 1, kills + times + 1);
        let took = begun.elapsed();
        eprintln!("{rounds} rounds, {kills} kills, {took:?}; connections that were cut: {cut:?}");
    }
}
