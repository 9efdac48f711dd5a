//! Services of a registry of the Agent Network Protocol, found by agents.

use std::time::Duration;

use ghostlight::{
    anp::{RegistrySearch, RegistrySearchError},
    config,
    contract::ToolHandle,
    prelude::*,
    run::Team,
    server::{KeyFile, Scope, Server},
    vocabulary::{Role, ToolCall},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// A model that calls the tool with these arguments, and says what the result is.
fn asking(arguments: Value) -> ScriptedModel {
    ScriptedModel::from_fn(move |request, _| {
        let last = request.conversation.last().unwrap();
        Ok(match last.role {
            Role::Tool => {
                let read = last.tool_results().map(|result| result.text.as_str());
                ModelResponse::text(read.collect::<Vec<_>>().join(" "))
            }
            _ => ModelResponse::tool_calls([ToolCall::new("1", "nearby", arguments.clone())]),
        })
    })
}

/// The answer that a team of a file gets from the registry at this address.
async fn found(url: &str, more: &str, arguments: Value) -> String {
    let text = format!(
        "tools: {{ nearby: {{ kind: anp_registry, url: '{url}', {more} }} }}\n\
         agent: {{ name: desk, tools: [nearby] }}\n"
    );
    let file = config::parse(text, "team.yaml").unwrap_or_else(|error| panic!("{error}"));
    let shown = serde_json::to_string(file.spec()).unwrap();
    assert!(!shown.contains("Bearer ghostlight"), "{shown}");
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", asking(arguments))
        .team(Team::from(file.into_spec()));
    let system = system.start().await.unwrap();
    let answer = system.session("desk", "ada").ask("Who can?").await.unwrap();
    system.stop().await.unwrap();
    answer.text
}

/// A server with a registry, and its address. Its callers need this key, if there is one.
async fn registry(keys: Option<KeyFile>) -> (String, System) {
    let host = Agent::new("host").model(OfflineModel).into_team().unwrap();
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .team(host);
    let system = system.start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let server = Server::new(system.clone());
    let server = keys.into_iter().fold(server, Server::keys);
    tokio::spawn(server.serve(listener, std::future::pending::<()>()));
    (format!("http://{at}"), system)
}

async fn announce(url: &str, key: &str, service: &Value) {
    let at = url.strip_prefix("http://").unwrap();
    let body = service.to_string();
    let mut stream = TcpStream::connect(at).await.unwrap();
    let request = format!(
        "POST /anp-registry/services HTTP/1.1\r\nhost: {at}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// A server that gives one answer, and then what it was asked.
async fn once(answer: String) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 8_192];
        let read = stream.read(&mut request).await.unwrap();
        // A client that has read enough closes.
        let _ = stream.write_all(answer.as_bytes()).await;
        String::from_utf8_lossy(&request[..read]).into_owned()
    });
    (url, asked)
}

fn http(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

/// The services of a result, by their ids.
fn ids(told: &str) -> Vec<String> {
    let lines = told.lines().filter(|line| line.starts_with('{'));
    let services = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    services
        .map(|service| service["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_finds_services_by_type_and_capabilities_and_the_best_first() {
    let folder = tempfile::tempdir().unwrap();
    let keys = KeyFile::open(folder.path().join("keys.json"));
    let key = keys
        .add("poets", &[Scope::Read, Scope::Run], None)
        .unwrap()
        .secret;
    let (url, system) = registry(Some(keys)).await;
    let service = |id: &str, kind: &str, load: f64, can: &[&str]| {
        let endpoints = [format!("https://{id}.example.org/a2a")];
        json!({ "id": id, "type": kind, "load": load, "capabilities": can, "endpoints": endpoints })
    };
    for service in [
        service("busy", "poet", 3.0, &["verse", "prose"]),
        service("free", "poet", 0.0, &["verse"]),
        service("half", "poet", 1.0, &["verse", "prose"]),
        service("clerk", "clerk", 0.0, &["prose"]),
    ] {
        announce(&url, &key, &service).await;
    }
    // Nobody sets this variable.
    let more = "headers: { x-api-key: '${GHOSTLIGHT_TEST_REGISTRY_KEY}' }";
    for (arguments, expected) in [
        (json!({ "type": "poet" }), vec!["free", "half", "busy"]),
        (
            json!({ "type": "poet", "capabilities": ["verse", "prose"] }),
            vec!["half", "busy"],
        ),
        (
            json!({ "capabilities": ["prose"], "limit": 1 }),
            vec!["clerk"],
        ),
        (json!({ "limit": 2 }), vec!["clerk", "free"]),
        (json!({ "type": "singer" }), vec![]),
    ] {
        let search = RegistrySearch::new("nearby", &url).unwrap();
        let search = search.header("x-api-key", &key).unwrap();
        let desk = Agent::new("desk")
            .model(asking(arguments.clone()))
            .tool(search);
        let told = desk.run("Who can?").await.unwrap().text;
        assert_eq!(ids(&told), expected, "{arguments}: {told}");
    }
    let refused = found(&url, "", json!({})).await;
    assert!(refused.contains("401"), "{refused}");
    let missing = found(&url, more, json!({})).await;
    assert!(
        missing.contains("GHOSTLIGHT_TEST_REGISTRY_KEY"),
        "{missing}"
    );
    system.stop().await.unwrap();

    let (open, system) = registry(None).await;
    announce(&open, "", &service("free", "poet", 0.0, &["verse"])).await;
    let told = found(&open, "timeout_s: 10", json!({ "type": "poet" })).await;
    assert_eq!(ids(&told), ["free"], "{told}");
    assert!(
        told.contains("https://free.example.org/a2a") && told.contains("no instruction"),
        "{told}"
    );
    system.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_present_in_a_registry_with_its_health_and_load_until_it_withdraws() {
    let (url, registry) = registry(None).await;
    let acts = async |arguments: Value| {
        let text = format!(
            "tools:
  nearby:
    kind: anp_presence
    url: '{url}'
    service: {{ id: poet-1, type: poet, capabilities: [verse], ttl_s: 60 }}
agent: {{ name: desk, tools: [nearby] }}
"
        );
        let file = config::parse(text, "team.yaml").unwrap();
        let system = System::builder(InMemoryStore::new())
            .registry(ghostlight::builtin())
            .model("default", asking(arguments))
            .team(Team::from(file.into_spec()));
        let system = system.start().await.unwrap();
        let answer = system.session("desk", "ada").ask("Do it.").await.unwrap();
        system.stop().await.unwrap();
        answer.text
    };
    announce(
        &url,
        "",
        &json!({ "id": "poet-2", "type": "poet", "load": 2.0 }),
    )
    .await;
    let told = acts(json!({ "action": "announce", "health": 0.9, "load": 0.5 })).await;
    assert!(
        told.contains("poet-1 is announced; announce it again within"),
        "{told}"
    );
    let best = acts(json!({ "action": "best", "type": "poet" })).await;
    assert!(
        best.contains(r#""id":"poet-1""#) && best.contains(r#""load":0.5"#),
        "{best}"
    );
    acts(json!({ "action": "announce", "load": 9.0 })).await;
    let best = acts(json!({ "action": "best", "type": "poet" })).await;
    assert!(best.contains(r#""id":"poet-2""#), "{best}");
    let figures = acts(json!({ "action": "statistics" })).await;
    assert!(figures.contains(r#""services":2"#), "{figures}");
    let gone = acts(json!({ "action": "withdraw" })).await;
    assert_eq!(gone, "poet-1 is withdrawn.");
    let figures = acts(json!({ "action": "statistics" })).await;
    assert!(figures.contains(r#""services":1"#), "{figures}");
    registry.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_services_say_is_bounded_and_nothing_else_is_asked() {
    // A registry that knows no limit, whose services say a lot.
    let long = "x".repeat(10_000);
    let service = |number: u32| {
        json!({
            "id": format!("s{number:03}"), "type": "poet", "score": number, "unknown": 1,
            "endpoints": vec![&long; 20], "capabilities": vec![&long; 40],
            "metadata": { "say": "ignore\u{202e} all\u{200b}", "more": long },
        })
    };
    let body = json!((0..10).map(service).collect::<Vec<_>>()).to_string();
    let many = json!(
        (0..99)
            .map(|number| json!({ "id": format!("s{number:03}"), "type": "poet", "score": number }))
            .collect::<Vec<_>>()
    );
    let (url, asked) = once(http("200 OK", &many.to_string())).await;
    let more = "headers: { authorization: 'Bearer ${CARGO_PKG_NAME}' }";
    let told = found(&url, more, json!({ "type": "a b&limit=9", "limit": 3 })).await;
    assert_eq!(ids(&told), ["s098", "s097", "s096"]);
    let asked = asked.await.unwrap();
    let line = "GET /anp-registry/services?type=a+b%26limit%3D9&limit=3 HTTP/1.1\r\n";
    assert!(
        asked.starts_with(line) && asked.contains("Bearer ghostlight"),
        "{asked}"
    );

    let (url, _) = once(http(
        "200 OK",
        &json!([service(1), service(2), service(3)]).to_string(),
    ))
    .await;
    let told = found(&url, "", json!({})).await;
    assert!(
        told.len() < 25_000 && told.contains("left out"),
        "{} bytes",
        told.len()
    );
    assert!(
        !told.contains(['\u{202e}', '\u{200b}']),
        "hidden characters"
    );

    assert!(body.len() > 4 << 20);
    for (answer, why) in [
        (http("200 OK", &body), "more than 4 MiB"),
        (http("200 OK", "{}"), "not a list of services"),
        (http("200 OK", r#"[{"id": 7}]"#), "not a list of services"),
        (http("503 Busy", "later"), "503"),
        // Nobody follows to another host, with the header or without.
        (
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
                .to_owned(),
            "302",
        ),
        (String::new(), "did not answer"),
    ] {
        let (url, _) = once(answer).await;
        let told = found(&url, "", json!({})).await;
        assert!(told.contains(why), "{why}: {told:.300}");
    }
    let many = vec!["a"; 21];
    for arguments in [
        json!({ "capabilities": ["a,b"] }),
        json!({ "capabilities": many }),
        json!({ "type": "x".repeat(201) }),
    ] {
        // Nothing is sent, so nobody needs to be there.
        let told = found("http://127.0.0.1:1", "", arguments).await;
        assert!(
            told.contains("comma") || told.contains("at the most"),
            "{told}"
        );
    }
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_refused_with_the_reason() {
    for url in [
        "",
        "x",
        "ftp://example.org",
        "https://ada:secret@example.org",
        "https://example.org?token=abc",
    ] {
        let refused = RegistrySearch::new("nearby", url).unwrap_err();
        assert!(
            matches!(refused, RegistrySearchError::Address { .. }),
            "{url}: {refused}"
        );
    }
    let search = || RegistrySearch::new("nearby", "https://example.org").unwrap();
    assert!(matches!(
        search().header("a b", "c"),
        Err(RegistrySearchError::Header { .. })
    ));
    assert!(matches!(
        search().timeout(Duration::ZERO),
        Err(RegistrySearchError::NoTime)
    ));
    let search = search().header("authorization", "a-secret").unwrap();
    assert!(!format!("{search:?}").contains("a-secret"));
    let _ = ToolHandle::new(search);
    for (settings, why) in [
        ("url: 'ftp://x'", "http"),
        ("url: 'https://x', timeout_s: 0", "must be above 0"),
        (
            "url: 'https://x', timeout_s: -1",
            "a number of seconds, 0 or more",
        ),
        (
            "url: 'https://x', headers: { authorization: abc }",
            "secret",
        ),
        ("url: 'https://x', host: y", "host"),
    ] {
        let text = format!(
            "tools: {{ nearby: {{ kind: anp_registry, {settings} }} }}\nagent: {{ name: desk, tools: [nearby] }}\n"
        );
        let told = match config::parse(text, "team.yaml") {
            Err(error) => error.to_string(),
            Ok(file) => {
                let system = System::builder(InMemoryStore::new()).registry(ghostlight::builtin());
                let system = system.model("default", asking(json!({})));
                let started = system.team(Team::from(file.into_spec())).start().await;
                started.unwrap_err().to_string()
            }
        };
        assert!(told.contains(why), "{settings}: {told}");
    }
}
