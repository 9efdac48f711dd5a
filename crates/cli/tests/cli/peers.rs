//! Servers over one database show each other what is under way and not recorded.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    listening::over_http::{ask, free, open},
    own_command::{Desk, Started},
    quotas::postgres::{Server, is_left_out},
};

const TEXT: &str = "once upon a time there was a ghost in the machine";

/// An event stream, and what it said so far.
struct Stream {
    lines: BufReader<TcpStream>,
    events: Vec<Value>,
}

impl Stream {
    fn of(to: SocketAddr, method: &str, path: &str, key: &str, body: &str) -> Self {
        let more = format!("Authorization: Bearer {key}\r\nAccept: text/event-stream\r\n");
        let lines = open(to, method, path, &more, body).unwrap();
        let events = Vec::new();
        Self { lines, events }
    }

    /// The next event; `None` at the end of the stream.
    fn next(&mut self) -> Option<&Value> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data:") {
                self.events.push(serde_json::from_str(data).unwrap());
                return self.events.last();
            }
        }
    }

    /// The pieces of text that it showed and that are not recorded.
    fn pieces(&self) -> String {
        let previews = self
            .events
            .iter()
            .filter(|event| event["position"].is_null());
        let pieces = previews.filter_map(|event| event["data"]["delta"]["delta"]["text"].as_str());
        pieces.collect()
    }

    fn until(&mut self, pieces: &str) {
        while !self.pieces().ends_with(pieces) {
            assert!(self.next().is_some(), "{:?}", self.events);
        }
    }

    fn read_whole(mut self) -> Self {
        while self.next().is_some() {}
        self
    }

    fn recorded(&self) -> Vec<&Value> {
        let events = self.events.iter();
        events
            .filter(|event| !event["position"].is_null())
            .collect()
    }
}

fn begin(desk: &Desk, store: &str, at: SocketAddr, is_reached: bool) -> Started {
    let (listen, address) = (at.to_string(), format!("http://{at}"));
    let words = ["serve", "team.yaml", "--store", store, "--listen", &listen];
    let keys = ["--keys", "keys.json"];
    let reached = ["--node-address", &address];
    let mut words = [&words[..], &keys].concat();
    if is_reached {
        words.extend(reached);
    }
    let mut serving = desk.start(&words);
    serving.says("listens at");
    serving
}

#[test]
fn text_that_one_server_makes_is_seen_piece_by_piece_at_another() {
    if is_left_out() {
        return;
    }
    let database = Server::quick();
    let store = database.url();
    let desk = Desk::typing_slowly(TEXT, Duration::from_millis(50));
    let key = |words: &[&str]| {
        let words = [&["key", "add"], words, &["--keys", "keys.json"]].concat();
        desk.run(&words).exits(0).out.trim().to_owned()
    };
    let (client, nodes) = (key(&["ada"]), key(&["nodes", "--scopes", "admin"]));
    desk.write(".env", &format!("GHOSTLIGHT_NODE_KEY={nodes}\n"));
    let (one, other, lonely) = (free(), free(), free());
    let first = begin(&desk, &store, one, true);
    let second = begin(&desk, &store, other, true);
    let third = begin(&desk, &store, lonely, false);

    // The first server carries the run; it is followed at the others.
    let bearer = format!("Authorization: Bearer {client}\r\n");
    let turn = json!({ "text": "tell me", "streaming": true }).to_string();
    let turns = "/api/v1/sessions/desk/s/turns";
    let (status, said) = ask(one, "POST", turns, &bearer, &turn).unwrap();
    assert_eq!(status, 202, "{said}");
    let events = format!(
        "/api/v1/runs/{}/events",
        said["run"]["id"].as_str().unwrap()
    );
    let follow = |at| Stream::of(at, "GET", &events, &client, "");
    let (there, alone) = (follow(other), follow(lonely));
    until_asked(one, &nodes);
    desk.open_gate();
    let (there, alone, here) = (
        there.read_whole(),
        alone.read_whole(),
        follow(one).read_whole(),
    );
    let (half, _) = TEXT.split_at(TEXT.len() / 2);
    let pieces = there.pieces();
    // The first ones may have come before the other server heard anything; what the first server had by then is made up for.
    assert!(
        pieces.len() > 10 && TEXT.ends_with(&pieces),
        "each piece once, in its order: {pieces:?} of {TEXT:?}"
    );
    assert_eq!(alone.pieces(), "");
    for stream in [&there, &alone] {
        assert_eq!(stream.recorded(), here.recorded());
    }
    third.signal("TERM");
    third.ends().exits(0);

    // A turn that is said at the other server, in a session of the first one, which then dies. The run goes on at the other,
    // whose reader sees the second attempt.
    std::fs::remove_file(desk.path("gate")).unwrap();
    let mut said = Stream::of(other, "POST", turns, &client, &turn);
    until_asked(one, &nodes);
    first.signal("KILL");
    first.ends();
    said.until(half);
    desk.open_gate();
    let said = said.read_whole();
    // What came of the first attempt stands before the second one, which voids it.
    let pieces = said.pieces();
    let voided = pieces.strip_suffix(TEXT);
    assert!(
        voided.is_some_and(|first| half.starts_with(first)),
        "{pieces:?}"
    );
    assert_eq!(said.recorded().last().unwrap()["type"], "run_ended");
    second.signal("TERM");
    second.ends().exits(0);
}

/// Waits until another server reads an event stream of this one.
fn until_asked(at: SocketAddr, key: &str) {
    let bearer = format!("Authorization: Bearer {key}\r\n");
    loop {
        let mut text = String::new();
        let metrics = open(at, "GET", "/metrics", &bearer, "");
        metrics.unwrap().read_to_string(&mut text).unwrap();
        if text.lines().any(|line| line == "ghostlight_http_streams 1") {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
