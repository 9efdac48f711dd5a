//! `serve --listen`: clients over HTTP, also while the server is killed and started again.

use std::{fs, io::Write as _, time::Duration};

use ghostlight_actors::{
    run::RunContext,
    vocabulary::{AgentError, Effect, Outcome},
};
use serde_json::Value;

/// Writes a line for each number into the file `first`, none of them twice.
pub(crate) async fn counts(settings: Value, cx: RunContext) -> Result<Outcome, AgentError> {
    let first = settings["first"].as_str().unwrap_or_default();
    let most = settings["to"].as_u64().unwrap_or_default();
    for number in 0..most {
        let (file, line) = (first.to_owned(), format!("{} {number}\n", cx.run()));
        let write = async move {
            let mut file = fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(file)?;
            file.write_all(line.as_bytes())
        };
        // A step whose outcome is unknown is in doubt, and is not done again.
        let _ = cx
            .step(format!("write {number}"), Effect::Once, write)
            .await;
        cx.emit("tick", &number);
        cx.sleep(Duration::from_millis(5)).await?;
    }
    Ok(Outcome::answer("counted"))
}

#[cfg(all(unix, feature = "full"))]
pub(crate) mod over_http {
    use std::{
        collections::BTreeSet,
        fs,
        io::{BufRead as _, BufReader, Read as _, Write as _},
        net::{SocketAddr, TcpListener, TcpStream},
        thread,
        time::{Duration, Instant},
    };

    #[cfg(feature = "full")]
    use std::{
        collections::BTreeMap,
        sync::mpsc::{Receiver, channel},
    };

    use serde_json::{Value, json};

    use crate::own_command::{Desk, Started};

    /// An address at which nobody listens.
    pub(crate) fn free() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
    }

    /// Sends a request; its answer ends with its connection, which may come to nothing.
    pub(crate) fn open(
        to: SocketAddr,
        method: &str,
        path: &str,
        more: &str,
        body: &str,
    ) -> Option<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(to).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let length = body.len();
        // HTTP 1.0 has no chunks to take apart.
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: {to}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n{more}\r\n{body}"
        );
        stream.write_all(head.as_bytes()).ok()?;
        Some(BufReader::new(stream))
    }

    /// The status and the JSON of an answer; nothing where the server is not there.
    pub(crate) fn ask(
        to: SocketAddr,
        method: &str,
        path: &str,
        more: &str,
        body: &str,
    ) -> Option<(u16, Value)> {
        let (status, _, body) = exchange(to, method, path, more, body)?;
        Some((status, body))
    }

    /// The same, with the head of the answer.
    pub(crate) fn exchange(
        to: SocketAddr,
        method: &str,
        path: &str,
        more: &str,
        body: &str,
    ) -> Option<(u16, String, Value)> {
        let mut text = String::new();
        open(to, method, path, more, body)?
            .read_to_string(&mut text)
            .ok()?;
        let status = text.split(' ').nth(1)?.parse().ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let body = serde_json::from_str(body).unwrap_or_default();
        Some((status, head.to_owned(), body))
    }

    pub(crate) fn until_answered(to: SocketAddr, method: &str, path: &str, body: &str) -> Value {
        let began = Instant::now();
        loop {
            if let Some((200 | 202, value)) = ask(to, method, path, "", body) {
                return value;
            }
            assert!(
                began.elapsed() < Duration::from_secs(120),
                "{path} is not answered"
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn serve(desk: &Desk, to: SocketAddr) -> Started {
        let mut serving = desk.start(&["serve", "team.yaml", "--listen", &to.to_string()]);
        serving.says("Ctrl-C ends it");
        serving.says("listens at");
        serving
    }

    /// Takes each post, answers every second with success and the others with a failure, and tells what they were: the id,
    /// the kind and the run of each, and whether it was taken.
    #[cfg(feature = "full")]
    fn receiver() -> (SocketAddr, Receiver<(String, String, String, bool)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let (tell, told) = channel();
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let mut stream = BufReader::new(stream.unwrap());
                let (mut id, mut length) = (String::new(), 0);
                // A sender that was killed may have said half of it.
                for line in stream.by_ref().lines().map_while(Result::ok) {
                    match line.split_once(": ") {
                        Some(("webhook-id", value)) => id = value.to_owned(),
                        Some(("content-length", value)) => length = value.parse().unwrap(),
                        _ if line.is_empty() => break,
                        _ => {}
                    }
                }
                let mut body = vec![0; length];
                if stream.read_exact(&mut body).is_err() || length == 0 {
                    continue;
                }
                let body: Value = serde_json::from_slice(&body).unwrap();
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let (kind, run) = (text(&body["type"]), text(&body["data"]["run"]));
                let is_taken = number % 2 == 1;
                let status = if is_taken {
                    "204 No Content"
                } else {
                    "503 Unavailable"
                };
                let answer =
                    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                let _ = stream.get_mut().write_all(answer.as_bytes());
                let _ = tell.send((id, kind, run, is_taken));
            }
        });
        (at, told)
    }

    #[cfg(feature = "full")]
    #[test]
    fn notifications_arrive_although_the_server_is_killed_while_it_posts_them() {
        let desk = Desk::new("counts", json!({ "to": 20 }));
        let (receiver, told) = receiver();
        let team = fs::read_to_string(desk.path("team.yaml")).unwrap();
        let mut team: Value = serde_json::from_str(&team).unwrap();
        team["notifications"] = json!([{
            "url": format!("http://{receiver}/"), "secret": "${CARGO_PKG_NAME}", "events": ["started", "completed"],
        }]);
        desk.write("team.yaml", &team.to_string());
        let to = free();
        let serve = || {
            let listen = to.to_string();
            let words = [
                "serve",
                "team.yaml",
                "--listen",
                &listen,
                "--deliver-network",
                "127.0.0.1/32",
            ];
            let mut serving = desk.start(&words);
            serving.says("listens at");
            serving
        };
        let mut serving = serve();
        let mut runs = BTreeSet::new();
        for number in 0..4 {
            let path = format!("/api/v1/sessions/desk/s{number}/turns");
            let said = until_answered(to, "POST", &path, r#"{"text":"go","id":"t"}"#);
            runs.insert(said["run"]["id"].as_str().unwrap().to_owned());
        }
        let mut kills = 0;
        let mut arrived: Vec<(String, String)> = Vec::new();
        let mut ids: BTreeMap<(String, String), String> = BTreeMap::new();
        let mut heard = 0;
        while arrived.len() < 8 {
            let (id, kind, run, is_taken) = told.recv_timeout(Duration::from_secs(120)).unwrap();
            assert!(runs.contains(&run));
            let news = (run, kind);
            // Whenever a message is made, before and after a kill, its id is the same.
            let known = ids.entry(news.clone()).or_insert_with(|| id.clone());
            assert_eq!(*known, id);
            if is_taken && !arrived.contains(&news) {
                arrived.push(news);
            }
            heard += 1;
            if kills < 2 && heard % 5 == 2 {
                serving.signal("KILL");
                serving.ends();
                serving = serve();
                kills += 1;
            }
        }
        assert_eq!(kills, 2);
        let distinct: BTreeSet<&String> = ids.values().collect();
        assert_eq!((ids.len(), distinct.len()), (8, 8));
        // Of each run its beginning came first.
        for run in &runs {
            let of_run = arrived.iter().filter(|(of, _)| of == run);
            let kinds: Vec<&str> = of_run.map(|(_, kind)| kind.as_str()).collect();
            assert_eq!(kinds, ["run.started", "run.completed"]);
        }
        serving.signal("TERM");
        serving.ends().exits(0);
    }

    #[test]
    fn a_server_that_is_asked_to_end_lets_its_runs_go_and_the_next_start_takes_them_up() {
        let desk = Desk::new("gated", json!({}));
        let to = free();
        let serving = serve(&desk, to);
        let said = until_answered(
            to,
            "POST",
            "/api/v1/sessions/desk/s/turns",
            r#"{"text":"go"}"#,
        );
        let run = said["run"]["id"].as_str().unwrap();
        desk.until_at_the_gate();
        serving.signal("TERM");
        serving.ends().exits(0);
        assert!(ask(to, "GET", "/health", "", "").is_none());
        let serving = serve(&desk, to);
        desk.open_gate();
        desk.until("the end", |desk| desk.status() == "answered");
        let shown = until_answered(to, "GET", &format!("/api/v1/runs/{run}"), "");
        assert_eq!(shown["end"]["answer"], "through the gate");
        serving.signal("INT");
        serving.ends().exits(0);
    }

    #[test]
    fn keys_are_made_listed_and_revoked_and_guard_the_server() {
        let desk = Desk::new("says", json!({ "text": "hello" }));
        let made = desk
            .run(&["key", "add", "ada", "--expires", "30d"])
            .exits(0);
        let key = made.out.trim();
        assert!(key.starts_with("glk_"), "{key}");
        let to = free();
        let mut serving = serve(&desk, to);
        serving.says("keys in");
        let path = "/api/v1/sessions/desk/s/turns?wait=50";
        let body = r#"{"text":"go"}"#;
        let bearer = format!("Authorization: Bearer {key}\r\n");
        assert_eq!(ask(to, "POST", path, "", body).unwrap().0, 401);
        let (status, said) = ask(to, "POST", path, &bearer, body).unwrap();
        assert_eq!((status, &said["end"]["answer"]), (200, &json!("hello")));
        assert_eq!(ask(to, "GET", "/metrics", &bearer, "").unwrap().0, 403);
        let listed = desk.run(&["key", "list", "--json"]).exits(0).json();
        assert_eq!(listed[0]["subject"], "ada");
        assert_eq!(listed[0]["scopes"], json!(["read", "run"]));
        assert!(!listed[0].to_string().contains(&key[20..]));
        desk.run(&["key", "revoke", listed[0]["id"].as_str().unwrap()])
            .exits(0);
        desk.until("the key's end", |_| {
            ask(to, "POST", path, &bearer, body).unwrap().0 == 401
        });
        let table = desk.run(&["key", "list"]).exits(0);
        assert!(table.out.contains("revoked"), "{}", table.out);
        desk.run(&["key", "revoke", "none"]).exits(2);
        desk.run(&["key", "add", "ada", "--expires", "0d"]).exits(2);
        // What the subject began is in the store as its own.
        let sessions = desk
            .shipped(&["session", "list", "--owner", "ada"])
            .exits(0);
        assert!(sessions.out.contains("ada/s"), "{}", sessions.out);
    }

    #[cfg(feature = "full")]
    #[test]
    fn a_scraper_with_its_key_is_told_what_the_agents_did() {
        let desk = Desk::new("says", json!({ "text": "hello" }));
        let key = |words: &[&str]| {
            let made = desk.run(&[&["key", "add"], words].concat()).exits(0);
            format!("Authorization: Bearer {}\r\n", made.out.trim())
        };
        let (client, scraper) = (key(&["ada"]), key(&["prometheus", "--scopes", "metrics"]));
        let to = free();
        let serving = serve(&desk, to);
        let scrape = || {
            let mut text = String::new();
            let told = open(to, "GET", "/metrics", &scraper, "").unwrap();
            { told }.read_to_string(&mut text).unwrap();
            text
        };
        desk.until("the first scrape", |_| {
            ask(to, "GET", "/health", "", "").is_some()
        });
        let first = scrape();
        assert!(first.contains("ghostlight_live_runs 0\n"), "{first}");
        let path = "/api/v1/sessions/desk/s/turns?wait=50";
        let said = ask(to, "POST", path, &client, r#"{"text":"go"}"#).unwrap();
        assert_eq!(said.0, 200);
        let ended = "ghostlight_runs_ended_total{gen_ai_agent_name=\"desk\",ghostlight_run_end=\"answered\",ghostlight_team=\"desk\"} 1\n";
        desk.until("the count", |_| scrape().contains(ended));
        serving.signal("TERM");
        let ended = serving.ends().exits(0);
        assert!(!ended.err.contains("WARN"), "{}", ended.err);
    }

    #[test]
    fn it_does_not_listen_where_others_can_reach_it_without_a_key() {
        let desk = Desk::new("says", json!({ "text": "hello" }));
        let refused = desk
            .run(&["serve", "team.yaml", "--listen", "0.0.0.0:0"])
            .exits(2);
        assert!(
            refused.err.contains("ghostlight key add"),
            "{}",
            refused.err
        );
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = taken.local_addr().unwrap().to_string();
        let refused = desk.run(&["serve", "team.yaml", "--listen", &at]).exits(2);
        assert!(
            refused.err.contains("cannot be listened at"),
            "{}",
            refused.err
        );
        assert!(!refused.err.contains("at work"), "{}", refused.err);
        let named = at.replace("127.0.0.1", "localhost");
        let refused = desk
            .run(&["serve", "team.yaml", "--listen", &named])
            .exits(2);
        assert!(refused.err.contains(&at), "{}", refused.err);
        for wrong in ["8080", "localhost", "example.org:80"] {
            let refused = desk
                .run(&["serve", "team.yaml", "--listen", wrong])
                .exits(2);
            assert!(
                refused.err.contains("such as 127.0.0.1:8080"),
                "{}",
                refused.err
            );
        }
        desk.run(&["serve", "team.yaml", "--host", "x"]).exits(2);
    }
}
