//! Three processes carry thousands of sessions, and everything around them fails in turn.
//!
//! `GHOSTLIGHT_CHAOS=10000,500,200` sets how many sessions there are, how many of them work, and how many rounds of
//! failures come: `GHOSTLIGHT_CHAOS=10000,500,200 cargo test -p ghostlight-postgres -- --nocapture chaos`.

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use ghostlight_actors::{
    contract::{DynStore as _, RunStatus},
    vocabulary::{Entry, JournalId},
};
use ghostlight_postgres::PostgresStore;
use tokio_postgres::{Client, NoTls, Row, types::ToSql};

use crate::{
    fleet::{Node, NodeOptions, Turns, run_of, traces, undisturbed},
    proxy::{Proxy, Way},
    server::{Server, is_left_out},
};

/// How long a node keeps what it owns while it is frozen or cut off.
const LEASE: Duration = Duration::from_millis(1_000);

const NODES: usize = 3;

/// A folder of its own, which is left where a test failed.
pub(crate) struct Scene {
    folder: PathBuf,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let name = format!("gl-fleet-{:08x}", rand::random::<u32>());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Self { folder }
    }

    pub(crate) fn effects(&self) -> PathBuf {
        self.folder.join("effects")
    }

    pub(crate) fn options(&self, url: String, name: &str, version: u32) -> NodeOptions {
        NodeOptions {
            url,
            version,
            lease_ms: LEASE.as_millis() as u64,
            call_ms: 20,
            recover_ms: 500,
            effects: self.effects(),
            name: name.to_owned(),
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("left for inspection: {}", self.folder.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// Looks at the tables, also while the database comes and goes.
pub(crate) struct Observer {
    url: String,
    client: Option<Client>,
}

impl Observer {
    pub(crate) fn of(server: &Server) -> Self {
        Self {
            url: server.url(),
            client: None,
        }
    }

    /// Looks at another server from now on.
    fn follow(&mut self, server: &Server) {
        *self = Self::of(server);
    }

    pub(crate) async fn rows(&mut self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
        let mut refused = None;
        for _ in 0..1_000 {
            if self.client.as_ref().is_none_or(Client::is_closed) {
                if let Ok((client, connection)) = tokio_postgres::connect(&self.url, NoTls).await {
                    tokio::spawn(connection);
                    self.client = Some(client);
                }
            } else if let Some(client) = &self.client {
                match client.query(sql, parameters).await {
                    Ok(rows) => return rows,
                    Err(error) => refused = Some(error),
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the database does not come back: {refused:?}")
    }

    /// The sessions with an open run; none of these runs is parked.
    async fn open(&mut self) -> HashSet<String> {
        let open = "SELECT session_key, status FROM ghostlight.runs \
             WHERE status IN ('running', 'waiting', 'parked', 'cancelling') AND session_key LIKE 'w%'";
        let rows = self.rows(open, &[]).await;
        let session = |row: &Row| {
            assert_ne!(row.get::<_, &str>(1), "parked", "{}", row.get::<_, &str>(0));
            row.get(0)
        };
        rows.iter().map(session).collect()
    }

    /// Returns when no run that is under way belongs to this dead node any more.
    async fn wait_until_left(&mut self, node: &str) {
        let left = "SELECT r.run, s.owner, s.epoch FROM ghostlight.journals AS j \
             JOIN ghostlight.runs AS r ON r.run = j.key JOIN ghostlight.journals AS s \
             ON s.key = 'session:' || r.session_team || '/' || r.session_key \
             WHERE j.owner = $1 AND r.status = 'running'";
        let begun = Instant::now();
        loop {
            let rows = self.rows(left, &[&node]).await;
            let Some(row) = rows.first() else { return };
            let (run, owner): (String, Option<String>) = (row.get(0), row.get(1));
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "{} runs of {node} are left behind: the session of {run} is of {owner:?}",
                rows.len()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Keeps the sessions at work for this time, each with its next turn as soon as one has ended. Without `begins` no turn
/// begins, and it returns when all have ended.
pub(crate) async fn load(
    observer: &mut Observer,
    nodes: &mut [Node],
    turns: &mut Turns,
    (time, begins): (Duration, bool),
) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        turns.hear(nodes);
        // What is acknowledged now has ended if it is not open afterwards.
        let workers = turns.idle().filter(|session| session.starts_with('w'));
        let acknowledged: Vec<String> = workers.cloned().collect();
        let open = observer.open().await;
        if !begins && open.is_empty() && turns.all_are_acknowledged() {
            return;
        }
        let ended = acknowledged
            .iter()
            .filter(|session| !open.contains(*session));
        for (number, session) in ended.enumerate().filter(|_| begins) {
            let count = nodes.len();
            turns.begin(&mut nodes[number % count], session);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(begins, "the runs do not come to their ends");
}

/// What was promised about these turns: each acknowledged one is there and came to its undisturbed end; no call of the
/// class `once` was made twice, and none was made again after its result was recorded. Calls of `disturbed` nodes do not
/// count for the last: what they had begun may end late.
pub(crate) async fn check(
    store: &PostgresStore,
    scene: &Scene,
    turns: &Turns,
    disturbed: &[String],
) {
    let mut calls: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut once = HashSet::new();
    for trace in traces(&scene.effects()) {
        let is_new = trace.tool != "charge" || once.insert(trace.key.clone());
        assert!(is_new, "{} was charged twice", trace.key);
        calls
            .entry(trace.key)
            .or_default()
            .push((trace.nonce, trace.node));
    }
    let mut recorded = HashSet::new();
    for (session, turn) in &turns.acknowledged {
        let run = run_of(session, *turn);
        let row = store.run(run).await.unwrap();
        let row = row.unwrap_or_else(|| panic!("turn {turn} of {session} is lost"));
        if session.starts_with("sleeper") {
            assert_eq!(row.status, RunStatus::Waiting, "{session}");
            continue;
        }
        assert_eq!(row.status, RunStatus::Answered, "turn {turn} of {session}");
        let journal = JournalId::Run(run);
        let mut epoch = 1;
        let mut ended = None;
        for stored in store.read(journal.clone(), 0, usize::MAX).await.unwrap() {
            let pieces = stored.line.text.split('"');
            let nonces = pieces.filter(|piece| piece.starts_with("trace"));
            recorded.extend(nonces.map(str::to_owned));
            match stored.decode(&journal).unwrap() {
                Entry::Activated { epoch: next, .. } => {
                    assert!(next > epoch, "epoch {next} of {run} after {epoch}");
                    epoch = next;
                }
                Entry::RunEnded(end) => ended = end.outcome(),
                _ => {}
            }
        }
        let text = ended.unwrap().unwrap().text().to_owned();
        assert_eq!(text, undisturbed(), "turn {turn} of {session}");
    }
    for (key, calls) in &calls {
        let of_record = calls.iter().position(|(nonce, _)| recorded.contains(nonce));
        let Some(of_record) = of_record else { continue };
        let later = calls[of_record + 1..].iter();
        let again: Vec<_> = later
            .filter(|(_, node)| !disturbed.contains(node))
            .collect();
        assert_eq!(
            again,
            Vec::<&(String, String)>::new(),
            "{key} was made again"
        );
    }
    store.verify().await.unwrap();
}

/// The sizes of this run: sessions, those of them that work, rounds.
fn sizes() -> (usize, usize, usize) {
    let Ok(sizes) = std::env::var("GHOSTLIGHT_CHAOS") else {
        return (1_000, 100, FAILURES.len());
    };
    let sizes: Vec<usize> = sizes.split(',').map(|size| size.parse().unwrap()).collect();
    (sizes[0], sizes[1], sizes[2])
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Failure {
    Killed,
    Frozen,
    Mute,
    Deaf,
    Cut,
    Late,
    Restarted,
    Terminated,
    FailedOver,
    Full,
}

const FAILURES: [Failure; 10] = [
    Failure::Killed,
    Failure::Frozen,
    Failure::Mute,
    Failure::Deaf,
    Failure::Cut,
    Failure::Late,
    Failure::Restarted,
    Failure::Terminated,
    Failure::FailedOver,
    Failure::Full,
];

/// The failure of a round, and the node that meets it: in as many times ten rounds as there are nodes each of them meets
/// each failure.
fn failure_of(round: usize) -> (Failure, usize) {
    let (time, number) = (round / FAILURES.len(), round % FAILURES.len());
    (FAILURES[number], (time + number) % NODES)
}

#[test]
fn each_failure_comes_to_each_node() {
    let all = FAILURES.len() * NODES;
    let met: Vec<_> = (0..all).map(failure_of).collect();
    for failure in FAILURES {
        for node in 0..NODES {
            assert!(met.contains(&(failure, node)), "{failure:?} of node {node}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_sessions_come_through_every_failure() {
    if is_left_out() {
        return;
    }
    let (sessions, working, rounds) = sizes();
    // A server that is crashed syncs.
    let settings = ["max_connections = 200", "max_wal_size = 128MB"];
    let megabytes = 512 + sessions as u64 / 8;
    let small = Server::small(&settings, megabytes);
    let has_disk = small.is_some();
    let mut server = Arc::new(small.unwrap_or_else(|| Server::start(&settings)));
    let scene = Scene::new();
    let mut proxies = Vec::new();
    for _ in 0..NODES {
        proxies.push(Proxy::to(server.port()).await);
    }
    let urls: Vec<String> = proxies
        .iter()
        .map(|proxy| server.url_at(proxy.port))
        .collect();
    let start = |place: usize, life: usize| {
        let name = format!("node-{place}-{life}");
        let mut options = scene.options(urls[place].clone(), &name, 0);
        (options.recover_ms, options.call_ms) = (2_000, 100);
        Node::start(&options)
    };
    let mut nodes: Vec<Node> = (0..NODES).map(|place| start(place, 0)).collect();
    let (mut turns, mut observer) = (Turns::default(), Observer::of(&server));
    let begun = Instant::now();
    for number in 0..sessions {
        let name = if number < working { "w" } else { "sleeper" };
        turns.begin(&mut nodes[number % NODES], &format!("{name}{number}"));
    }
    while !turns.all_are_acknowledged() {
        turns.hear(&mut nodes);
        assert!(
            begun.elapsed() < Duration::from_secs(600),
            "turns are not acknowledged"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eprintln!("{sessions} sessions after {:?}", begun.elapsed());
    let (mut disturbed, mut gone_on): (Vec<String>, Vec<Duration>) = (Vec::new(), Vec::new());
    let some_time = (Duration::from_millis(300), true);
    let longer_than_a_lease = (LEASE * 3 / 2, true);
    for round in 0..rounds {
        let (failure, place) = failure_of(round);
        load(&mut observer, &mut nodes, &mut turns, some_time).await;
        if matches!(
            failure,
            Failure::Frozen | Failure::Mute | Failure::Deaf | Failure::Cut | Failure::Late
        ) {
            disturbed.push(nodes[place].name.clone());
        }
        match failure {
            Failure::Killed => {
                let dead = nodes[place].id.clone();
                nodes[place].kill();
                let killed = Instant::now();
                observer.wait_until_left(&dead).await;
                gone_on.push(killed.elapsed());
                nodes[place] = start(place, round + 1);
            }
            Failure::Frozen => {
                nodes[place].signal("-STOP");
                load(&mut observer, &mut nodes, &mut turns, longer_than_a_lease).await;
                nodes[place].signal("-CONT");
            }
            Failure::Mute | Failure::Deaf => {
                proxies[place].set(match failure {
                    Failure::Mute => Way::Mute,
                    _ => Way::Deaf,
                });
                load(&mut observer, &mut nodes, &mut turns, longer_than_a_lease).await;
                proxies[place].set(Way::Open);
            }
            Failure::Cut => {
                proxies[place].set(Way::Cut);
                load(&mut observer, &mut nodes, &mut turns, longer_than_a_lease).await;
                proxies[place].set(Way::Open);
            }
            Failure::Late => {
                // A lease is renewed in three round trips, so some come too late.
                proxies[place].set(Way::Late(LEASE.as_millis() as u64 / 6));
                load(&mut observer, &mut nodes, &mut turns, longer_than_a_lease).await;
                proxies[place].set(Way::Open);
            }
            Failure::Restarted => {
                let server = server.clone();
                let restart = move || {
                    server.crash();
                    server.restart();
                };
                tokio::task::spawn_blocking(restart).await.unwrap();
            }
            Failure::Terminated => {
                let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                     WHERE pid <> pg_backend_pid() AND application_name = 'ghostlight'";
                observer.rows(all, &[]).await;
            }
            Failure::FailedOver => {
                let old = server.clone();
                let follow = move || {
                    let replica = old.replica();
                    old.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
                    old.sql("SELECT pg_reload_conf()");
                    replica
                };
                let replica = tokio::task::spawn_blocking(follow).await.unwrap();
                let follows = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
                while observer.rows(follows, &[]).await.is_empty() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                load(&mut observer, &mut nodes, &mut turns, some_time).await;
                let old = std::mem::replace(&mut server, Arc::new(replica));
                let new = server.clone();
                let fail_over = move || {
                    old.crash();
                    new.promote();
                };
                tokio::task::spawn_blocking(fail_over).await.unwrap();
                let port = server.port();
                proxies.iter().for_each(|proxy| proxy.lead_to(port));
                observer.follow(&server);
            }
            Failure::Full if !has_disk => eprintln!("left out: no file system can be mounted"),
            Failure::Full => {
                let full = server.clone();
                tokio::task::spawn_blocking(move || full.fill())
                    .await
                    .unwrap();
                // What is under way comes to a halt, so nothing is looked at meanwhile.
                tokio::time::sleep(LEASE * 3 / 2).await;
                let full = server.clone();
                tokio::task::spawn_blocking(move || full.make_room())
                    .await
                    .unwrap();
            }
        }
        load(&mut observer, &mut nodes, &mut turns, some_time).await;
        let charged = traces(&scene.effects());
        let charged = charged.iter().filter(|trace| trace.tool == "charge");
        let mut keys = HashSet::new();
        let twice: Vec<_> = charged.filter(|trace| !keys.insert(&trace.key)).collect();
        assert!(twice.is_empty(), "round {round} ({failure:?}): {twice:?}");
        if rounds > FAILURES.len() {
            eprintln!(
                "round {round} {failure:?}: {} turns",
                turns.acknowledged.len()
            );
        }
    }
    load(
        &mut observer,
        &mut nodes,
        &mut turns,
        (Duration::from_secs(300), false),
    )
    .await;
    let store = PostgresStore::open(&server.url()).await.unwrap();
    check(&store, &scene, &turns, &disturbed).await;
    gone_on.sort_unstable();
    eprintln!(
        "{rounds} rounds, {} turns, {} calls, {:?}; a dead node's runs went on after {:?} (median), {:?} (worst of {})",
        turns.acknowledged.len(),
        traces(&scene.effects()).len(),
        begun.elapsed(),
        gone_on[gone_on.len() / 2],
        gone_on[gone_on.len() - 1],
        gone_on.len(),
    );
    assert!(
        gone_on[gone_on.len() / 2] < Duration::from_secs(5),
        "{gone_on:?}"
    );
}

/// `GHOSTLIGHT_KILLED_NODES=200` measures longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_nodes_sessions_go_on_elsewhere_within_five_seconds() {
    let kills = std::env::var("GHOSTLIGHT_KILLED_NODES").map_or(3, |kills| kills.parse().unwrap());
    let server = Server::start(&["max_connections = 200"]);
    let scene = Scene::new();
    let start = |name: String| {
        let mut options = scene.options(server.url(), &name, 0);
        (options.recover_ms, options.call_ms, options.lease_ms) = (2_000, 100, 5_000);
        Node::start(&options)
    };
    let mut nodes: Vec<Node> = (0..3).map(|place| start(format!("node-{place}"))).collect();
    let (mut turns, mut observer) = (Turns::default(), Observer::of(&server));
    for number in 0..60 {
        turns.begin(&mut nodes[number % 3], &format!("w{number}"));
    }
    let mut gone_on = Vec::new();
    for kill in 0..kills {
        let chance = Duration::from_millis(700 + rand::random::<u64>() % 500);
        load(&mut observer, &mut nodes, &mut turns, (chance, true)).await;
        let dead = nodes[kill % 3].id.clone();
        nodes[kill % 3].kill();
        let killed = Instant::now();
        observer.wait_until_left(&dead).await;
        gone_on.push(killed.elapsed());
        nodes[kill % 3] = start(format!("node-{kill}-again"));
    }
    load(
        &mut observer,
        &mut nodes,
        &mut turns,
        (Duration::from_secs(120), false),
    )
    .await;
    let store = PostgresStore::open(&server.url()).await.unwrap();
    check(&store, &scene, &turns, &[]).await;
    gone_on.sort_unstable();
    let (median, worst) = (gone_on[gone_on.len() / 2], gone_on[gone_on.len() - 1]);
    eprintln!("{kills} kills: median {median:?}, worst {worst:?}");
    assert!(median < Duration::from_secs(5), "{gone_on:?}");
}
