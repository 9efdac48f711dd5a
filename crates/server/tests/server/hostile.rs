//! What hostile clients send: nothing of it gets in, hangs a worker or is kept.

use std::time::{Duration, Instant};

use ghostlight_server::{Server, ServerOptions};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::desk::Desk;

const TURNS: &str = "/api/v1/sessions/desk/s/turns";

/// Bytes that are sent as they are, and the statuses that may come back; 0 where the connection may just close.
fn malformed(run: &str) -> Vec<(String, Vec<u16>)> {
    let host = "Host: localhost\r\n";
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
    let json = |path: &str, kind: &str, body: &str| {
        let length = body.len();
        format!(
            "POST {path} HTTP/1.1\r\n{host}Connection: close\r\nContent-Type: {kind}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
    };
    let turn = |body: &str| json(TURNS, "application/json", body);
    let of_run = |rest: &str| format!("/api/v1/runs/{run}/{rest}");
    let deep = "[".repeat(200_000);
    let deep_value = format!(r#"{{"text":"x","budget":{}}}"#, "{\"a\":".repeat(5_000));
    let mut all: Vec<(String, &[u16])> = vec![
        // No HTTP at all, and broken heads.
        ("\r\n\r\n\r\n".into(), &[0, 400]),
        ("\0\0\0\0\0\0\0\0".into(), &[0, 400]),
        ("SSH-2.0-x\r\n\r\n".into(), &[0, 400]),
        ("\u{16}\u{3}\u{1}\u{2}".into(), &[0, 400]),
        ("GET\r\n\r\n".into(), &[400]),
        ("GET / HTTP/9.9\r\n\r\n".into(), &[0, 400]),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), &[0, 400]),
        (format!("GET  / HTTP/1.1\r\n{host}\r\n"), &[400]),
        (
            format!("GET /{} HTTP/1.1\r\n{host}\r\n", "a".repeat(300_000)),
            &[400, 414, 431],
        ),
        (
            format!("GET / HTTP/1.1\r\n{host}X: {}\r\n\r\n", "a".repeat(300_000)),
            &[400, 431],
        ),
        (
            format!("GET / HTTP/1.1\r\n{host}{}\r\n", "X: y\r\n".repeat(5_000)),
            &[400, 431],
        ),
        (
            format!("GET / HTTP/1.1\r\n{host}X\u{0}Y: z\r\n\r\n"),
            &[400],
        ),
        (
            format!("GET / HTTP/1.1\r\n{host} folded: z\r\n\r\n"),
            &[400],
        ),
        (format!("GET / HTTP/1.1\r\n{host}: empty\r\n\r\n"), &[400]),
        (
            format!("BREW / HTTP/1.1\r\n{host}Connection: close\r\n\r\n"),
            &[404, 405],
        ),
        (
            format!("CONNECT evil:1 HTTP/1.1\r\n{host}Connection: close\r\n\r\n"),
            &[400, 404, 405],
        ),
        (
            format!("TRACE /health HTTP/1.1\r\n{host}Connection: close\r\n\r\n"),
            &[404, 405],
        ),
        (
            "GET http://evil.example/health HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(),
            &[421],
        ),
        // Smuggling: two readings of where a request ends.
        (
            format!(
                "POST {TURNS} HTTP/1.1\r\n{host}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n{host}\r\n"
            ),
            &[400, 415],
        ),
        (
            format!(
                "POST {TURNS} HTTP/1.1\r\n{host}Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef"
            ),
            &[400],
        ),
        (
            format!("POST {TURNS} HTTP/1.1\r\n{host}Content-Length: -1\r\n\r\n"),
            &[400],
        ),
        (
            format!("POST {TURNS} HTTP/1.1\r\n{host}Content-Length: +5\r\n\r\nabcde"),
            &[400],
        ),
        (
            format!("POST {TURNS} HTTP/1.1\r\n{host}Content-Length: 99999999999999999999\r\n\r\n"),
            &[400],
        ),
        (
            format!(
                "POST {TURNS} HTTP/1.1\r\n{host}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"
            ),
            &[400, 415],
        ),
        (
            format!("POST {TURNS} HTTP/1.1\r\n{host}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
            &[400, 415],
        ),
        (
            format!(
                "POST {TURNS} HTTP/1.1\r\n{host}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nZZ\r\nx\r\n0\r\n\r\n"
            ),
            &[400],
        ),
        (
            format!(
                "POST {TURNS} HTTP/1.1\r\n{host}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nfffffffffffffffff\r\nx\r\n"
            ),
            &[400],
        ),
        // Too large, said before and while it comes.
        (
            format!(
                "POST {TURNS} HTTP/1.1\r\n{host}Content-Type: application/json\r\nContent-Length: 999999999\r\nConnection: close\r\n\r\n"
            ),
            &[413],
        ),
        (
            format!(
                "POST {TURNS} HTTP/1.1\r\n{host}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{}",
                format!("10000\r\n{}\r\n", "x".repeat(0x10000)).repeat(40)
            ),
            &[0, 413],
        ),
        // Bodies.
        (json(TURNS, "text/plain", r#"{"text":"x"}"#), &[415]),
        (
            json(TURNS, "application/x-www-form-urlencoded", "text=x"),
            &[415],
        ),
        (
            json(TURNS, "multipart/form-data; boundary=x", "--x--"),
            &[415],
        ),
        (json(TURNS, "text/json", r#"{"text":"x"}"#), &[415]),
        (turn(""), &[400]),
        (turn("{"), &[400]),
        (turn("null"), &[422]),
        (turn("[]"), &[422]),
        (turn("\"x\""), &[422]),
        (turn(r#"{"text":5}"#), &[422]),
        (turn(r#"{"text":""}"#), &[422]),
        (turn(r#"{"text":"   "}"#), &[422]),
        (turn(r#"{"txet":"x"}"#), &[422]),
        (turn(r#"{"text":"x","text":"y"}"#), &[422]),
        (turn(r#"{"text":"\ud800"}"#), &[400]),
        (turn("{\"text\":\"\u{0}\"}"), &[400]),
        (turn(&deep), &[400, 422]),
        // A list is not the fields in their order.
        (
            json(&of_run("answers"), "application/json", r#"["0.0","yes"]"#),
            &[422],
        ),
        (turn(&deep_value), &[400, 422]),
        (turn(r#"{"text":"x","deadline":-1}"#), &[422]),
        (
            turn(r#"{"text":"x","budget":{"model_calls":1e99}}"#),
            &[422],
        ),
        (turn(r#"{"text":"x","id":""}"#), &[422]),
        (turn(r#"{"text":"x","id":"a\u0000b"}"#), &[422]),
        (
            turn(&format!(r#"{{"text":"x","id":"{}"}}"#, "i".repeat(5_000))),
            &[422],
        ),
        (
            turn(r#"{"text":"x","files":[{"media_type":"a/b"}]}"#),
            &[422],
        ),
        (
            turn(r#"{"text":"x","files":[{"media_type":"a/b","base64":"!"}]}"#),
            &[422],
        ),
        (
            turn(r#"{"text":"x","files":[{"media_type":"picture","base64":"aa=="}]}"#),
            &[422],
        ),
        // A model's server opens no path of this machine.
        (
            turn(r#"{"text":"x","files":[{"media_type":"image/png","url":"./chart.png"}]}"#),
            &[422],
        ),
        (turn(r#"{"text":"x","owner":"root"}"#), &[422]),
        // Names.
        (
            json(
                "/api/v1/sessions/none/s/turns",
                "application/json",
                r#"{"text":"x"}"#,
            ),
            &[404],
        ),
        (
            json(
                "/api/v1/sessions/secret/s/turns",
                "application/json",
                r#"{"text":"x"}"#,
            ),
            &[404],
        ),
        (
            json(
                "/api/v1/sessions/desk/%20/turns",
                "application/json",
                r#"{"text":"x"}"#,
            ),
            &[422],
        ),
        (
            json(
                "/api/v1/sessions/desk/%00/turns",
                "application/json",
                r#"{"text":"x"}"#,
            ),
            &[422],
        ),
        (
            json(
                "/api/v1/sessions/desk/%ff/turns",
                "application/json",
                r#"{"text":"x"}"#,
            ),
            &[400],
        ),
        (
            json(
                &format!("/api/v1/sessions/desk/{}/turns", "k".repeat(5_000)),
                "application/json",
                r#"{"text":"x"}"#,
            ),
            &[422],
        ),
        (get("/api/v1/runs/../../etc/passwd"), &[404]),
        (get("/api/v1/runs/%2e%2e%2f%2e%2e%2fetc"), &[404]),
        (get("/api/v1/runs/0"), &[404]),
        (
            get("/api/v1/runs/00000000-0000-0000-0000-000000000000"),
            &[404],
        ),
        (get("/api/v1/runs?limit=99999999999999999999999"), &[400]),
        (get("/api/v1/runs?limit=-1"), &[400]),
        (get("/api/v1/runs?after=x"), &[422]),
        (get("/api/v1/runs?session=s"), &[422]),
        (get("/api/v1/sessions?after=AAAA"), &[422]),
        (get("/api/v1/sessions/desk/none"), &[404]),
        (get("/api/v1/sessions/desk/s/state?scope=app%00"), &[422]),
        (
            get("/api/v1/sessions/desk/s/artifacts/..%2f..%2fetc%2fpasswd"),
            &[404],
        ),
        (get(&of_run("entries?from=99999999999999999999")), &[400]),
        (get(&of_run("events?after=-1")), &[422]),
        (
            json(&of_run("calls/0.0.0.0/cancel"), "application/json", "{}"),
            &[422],
        ),
        (
            json(
                &of_run("answers"),
                "application/json",
                r#"{"operation":"x","value":1}"#,
            ),
            &[422],
        ),
        (
            json(&of_run("steer"), "application/json", r#"{"text":""}"#),
            &[422],
        ),
        (
            json(
                &of_run("fork"),
                "application/json",
                r#"{"at":18446744073709551615}"#,
            ),
            &[422],
        ),
        (
            json(&of_run("fork"), "application/json", r#"{"session":""}"#),
            &[422],
        ),
        (
            json(&of_run("cancel"), "application/json", r#"{"reason":7}"#),
            &[422],
        ),
    ];
    all.drain(..)
        .map(|(bytes, statuses)| (bytes, statuses.to_vec()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_are_refused_and_leave_the_server_as_it_was() {
    let mut limits = ServerOptions::default();
    limits.max_body_bytes = 1 << 20;
    let desk = Desk::limited(limits).await;
    let run = desk.begin(&desk.client, "s", "hang").await;
    let all = malformed(&run);
    assert!(all.len() >= 60, "{}", all.len());
    let mut wrong = Vec::new();
    for (bytes, expected) in all {
        let shown: String = bytes.chars().take(300).collect();
        let began = Instant::now();
        let answer = tokio::time::timeout(Duration::from_secs(20), async {
            // Some are heads that end nowhere: the sender has no more to say.
            let mut stream = TcpStream::connect(desk.client.to).await.unwrap();
            let _ = stream.write_all(bytes.as_bytes()).await;
            let _ = stream.shutdown().await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            String::from_utf8_lossy(&answer).into_owned()
        });
        let answer = answer
            .await
            .unwrap_or_else(|_| panic!("no end for {shown}"));
        let status = answer
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or(0);
        if !expected.contains(&status) {
            wrong.push(format!(
                "{status}, expected {expected:?}:\n{shown}\n{answer}"
            ));
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{shown}");
        // What is no request never reaches us.
        if status >= 404 && ![414, 431].contains(&status) {
            assert!(
                answer.contains("application/problem+json"),
                "{shown}\n{answer}"
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n----\n"));
    let listed = desk
        .client
        .get("/api/v1/runs?all=true")
        .await
        .is(200)
        .json();
    assert_eq!(
        listed["runs"].as_array().unwrap().len(),
        1,
        "nothing of it became a run: {listed}"
    );
    let metrics = desk.client.get("/metrics").await.is(200).body;
    assert!(
        metrics.contains("ghostlight_http_connections 1\n"),
        "{metrics}"
    );
    assert!(
        !metrics.contains("etc"),
        "no text of a client's is a label: {metrics}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_senders_are_let_go_in_the_time_that_they_have_and_hold_up_nobody() {
    let mut limits = ServerOptions::default();
    limits.header_time = Duration::from_millis(400);
    limits.body_time = Duration::from_millis(400);
    let desk = Desk::limited(limits).await;
    let to = desk.client.to;
    let head = desk.client.head(
        "POST",
        TURNS,
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n",
    );
    let mut slow = Vec::new();
    for number in 0..50 {
        // A byte at a time: of the head by one half, of the body by the other.
        let begin = if number % 2 == 0 {
            String::new()
        } else {
            head.clone()
        };
        slow.push(tokio::spawn(async move {
            let (began, stream) = (Instant::now(), TcpStream::connect(to).await.unwrap());
            let (mut read, mut write) = stream.into_split();
            write.write_all(begin.as_bytes()).await.unwrap();
            let drips = tokio::spawn(async move {
                while write.write_all(b"a").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(40)).await;
                }
            });
            let mut answer = Vec::new();
            let _ =
                tokio::time::timeout(Duration::from_secs(20), read.read_to_end(&mut answer)).await;
            drips.abort();
            (
                began.elapsed(),
                String::from_utf8_lossy(&answer).into_owned(),
                number,
            )
        }));
    }
    // Meanwhile others are served.
    let said = desk.say(&desk.client, "quick", "well").await.is(200);
    drop(said);
    for sender in slow {
        let (took, answer, number) = sender.await.unwrap();
        assert!(took < Duration::from_secs(15), "{took:?} {answer}");
        if number % 2 == 1 {
            assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_an_address_is_told_in_json_at_every_endpoint() {
    let desk = Desk::open().await;
    let run = desk.begin(&desk.client, "s", "well").await;
    for endpoint in Server::new(desk.system.clone()).endpoints() {
        let broken = endpoint
            .path
            .replace('{', "%ff{")
            .split_inclusive('}')
            .map(|piece| piece.split('{').next().unwrap_or_default().to_owned())
            .collect::<String>();
        let filled = endpoint
            .path
            .replace("{team}", "desk")
            .replace("{run}", &run);
        for path in [broken, format!("{filled}?limit=x&turns=x&nobody=1")] {
            let method = endpoint.method.as_str();
            let answer = desk.client.request(method, &path, "", Some("{}")).await;
            let kind = answer
                .headers
                .get("content-type")
                .map_or("", String::as_str);
            assert!(
                answer.status < 400 || kind.contains("json"),
                "{method} {path}: {answer:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invented_methods_do_not_grow_the_metrics() {
    let desk = Desk::open().await;
    for number in 0..50 {
        let request = format!(
            "INVENTED{number} /none{number} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        );
        desk.client.send(request.as_bytes()).await;
    }
    let metrics = desk.client.get("/metrics").await.is(200).body;
    assert!(!metrics.contains("INVENTED"), "{metrics}");
    let other = "_count{method=\"_OTHER\",route=\"none\",status=\"404\"} 50";
    assert!(metrics.contains(other), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_says_two_things_decides_nothing() {
    let desk = Desk::start(
        ghostlight_actors::actor::SystemOptions::default(),
        |server, _| {
            let service = ghostlight_server::axum::routing::post(|body: String| async { body });
            server.service("/other", ghostlight_server::Scope::Run, service)
        },
    )
    .await;
    let asks = desk.say(&desk.client, "s", "ask why?").await.is(202).json();
    let run = crate::desk::text_at(&asks, "/run/id");
    let operation = crate::desk::text_at(&asks, "/questions/0/operation");
    let two = r#"{"approved": false, "approved": true}"#;
    let answers = format!("/api/v1/runs/{run}/answers");
    let answer = format!(r#"{{"operation": "{operation}", "value": {two}}}"#);
    let rpc = format!(
        r#"{{"jsonrpc": "2.0", "id": 1, "method": "ask", "params": {{"text": "x", "data": {two}}}}}"#
    );
    for (path, body) in [(answers.as_str(), &answer), ("/other", &rpc)] {
        let refused = desk.client.request("POST", path, "", Some(body)).await;
        let refused = refused.is(422);
        assert!(
            refused.body.contains("approved stands twice"),
            "{refused:?}"
        );
    }
    #[cfg(feature = "anp")]
    {
        let told = desk
            .client
            .request("POST", "/anp/desk/rpc", "", Some(&rpc))
            .await;
        assert!(told.body.contains("approved stands twice"), "{told:?}");
    }
    #[cfg(feature = "a2a")]
    {
        let told = desk
            .client
            .request("POST", "/a2a/desk", "A2A-Version: 1.0\r\n", Some(&rpc))
            .await;
        assert!(told.body.contains("approved stands twice"), "{told:?}");
    }
    let open = desk.client.get(&format!("/api/v1/runs/{run}")).await.json();
    assert_eq!(crate::desk::text_at(&open, "/run/status"), "waiting");
}
