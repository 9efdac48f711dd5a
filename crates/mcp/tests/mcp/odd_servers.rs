//! Servers that answer otherwise than the protocol says.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{contract::ToolErrorKind, vocabulary::Effect};
use ghostlight_mcp::{McpToolset, ServerSpec};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    call, connected, names,
    odd::{Answer, Odd},
    peer::Peer,
    tool,
};

/// Much shorter than what a call may take, and much longer than an answer takes.
const AT_ONCE: Duration = Duration::from_secs(10);

async fn call_at_once(toolset: &McpToolset) -> Result<String, (ToolErrorKind, String)> {
    let called = timeout(AT_ONCE, call(toolset, "echo")).await;
    called.expect("the call ends at once")
}

fn is_call(asked: &Value) -> bool {
    asked["method"] == "tools/call"
}

#[tokio::test]
async fn an_error_that_names_no_request_ends_the_call_that_it_answers() {
    let error = json!({ "code": -32600, "message": "the arguments are too hot" });
    let nameless = json!({ "jsonrpc": "2.0", "id": null, "error": error });
    let told = json!({ "jsonrpc": "2.0", "id": "server-error", "error": error });
    let short = json!({ "jsonrpc": "2.0", "error": "the arguments are too hot" });
    for answer in [&nameless, &told, &short] {
        for (status, kind) in [
            (200, "application/json"),
            (400, "application/json"),
            (500, "application/json"),
            (200, "text/event-stream"),
        ] {
            let content = match kind {
                "text/event-stream" => format!("event: message\ndata: {answer}\n\n"),
                _ => answer.to_string(),
            };
            let calls = Arc::new(AtomicUsize::new(0));
            let odd = Odd::new(move |asked, _| {
                let is_first = is_call(asked) && calls.fetch_add(1, Ordering::SeqCst) == 0;
                is_first.then(|| Answer(status, kind, content.clone()))
            })
            .await;
            let toolset = odd.connected().await;
            let (how, error) = call_at_once(&toolset).await.unwrap_err();
            assert_eq!(how, ToolErrorKind::Failed, "{status} {kind}: {error}");
            assert!(error.contains("the arguments are too hot"), "{error}");
            assert_eq!(call_at_once(&toolset).await.unwrap(), "done");
            assert_eq!(odd.count("initialize"), 1, "the session goes on");
            toolset.disconnect().await;
        }
    }
}

#[tokio::test]
async fn an_error_in_plain_text_ends_the_only_request_of_a_process() {
    for (number, said) in [
        "Traceback (most recent call last):\n  File \"s.py\", line 3\nValueError: it is too hot",
        r#"{"error": "it is too hot"}"#,
        r#"{"id": 3, "error": {"message": "it is too hot"}}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let peer = Peer::new(&format!("plain{number}"), &[("plain", said)]);
        let toolset = connected(peer.settings()).await;
        let (how, error) = call_at_once(&toolset).await.unwrap_err();
        assert_eq!(how, ToolErrorKind::Failed, "{error}");
        assert!(error.contains("it is too hot"), "{error}");
        toolset.disconnect().await;
    }
    // Who says more after that answers.
    let peer = Peer::new("talks", &[("talks", "")]);
    let toolset = connected(peer.settings()).await;
    assert_eq!(call_at_once(&toolset).await.unwrap(), "done");
    toolset.disconnect().await;
}

#[tokio::test]
async fn an_error_that_names_no_request_ends_the_only_one_of_a_process() {
    for (number, wire) in [&[][..], &[("new_wire", "")][..]].into_iter().enumerate() {
        let peer = Peer::new(&format!("nameless{number}"), wire);
        peer.set("nameless", "");
        let toolset = connected(peer.settings()).await;
        let (how, error) = call_at_once(&toolset).await.unwrap_err();
        assert_eq!(how, ToolErrorKind::Failed, "{error}");
        assert!(error.contains("it does not parse"), "{error}");
        toolset.disconnect().await;
    }
}

#[tokio::test]
async fn a_session_that_the_server_lost_is_begun_again() {
    let nameless = json!({
        "jsonrpc": "2.0", "id": null,
        "error": { "code": -32000, "message": "Bad Request: No valid session ID provided" },
    });
    for lost in [
        Answer::text(404, "session not found"),
        Answer::text(400, "Invalid session ID"),
        Answer::json(400, &nameless),
    ] {
        // The server is started anew after the first call, and knows only what is begun from then on.
        let calls = Arc::new(AtomicUsize::new(0));
        let odd = Odd::new(move |asked, session| {
            let is_old = session == Some(1) && calls.load(Ordering::SeqCst) > 0;
            if is_old {
                return Some(lost.clone());
            }
            if is_call(asked) {
                calls.fetch_add(1, Ordering::SeqCst);
            }
            None
        })
        .await;
        let toolset = odd.connected().await;
        for _ in 0..3 {
            assert_eq!(call_at_once(&toolset).await.unwrap(), "done");
        }
        assert_eq!(odd.count("initialize"), 2);
        toolset.disconnect().await;
    }
}

#[tokio::test]
async fn a_server_that_knows_no_session_at_all_is_asked_twice_and_no_more() {
    let odd =
        Odd::new(|asked, _| is_call(asked).then(|| Answer::text(400, "no such session, sorry")))
            .await;
    let toolset = odd.connected().await;
    let (how, error) = call_at_once(&toolset).await.unwrap_err();
    assert_eq!(how, ToolErrorKind::Failed, "{error}");
    assert!(error.contains("session"), "{error}");
    assert_eq!(odd.count("tools/call"), 2);
    toolset.disconnect().await;
}

#[tokio::test]
async fn a_refusal_tells_its_status_and_the_servers_words() {
    let page = format!(
        "<html>the upstream is\u{1b}[31m gone</html>{}",
        "x".repeat(200_000)
    );
    for (status, words, how) in [
        (400, "text is required".to_owned(), ToolErrorKind::Failed),
        (
            403,
            "your plan has no echo".to_owned(),
            ToolErrorKind::Failed,
        ),
        (429, "come back at noon".to_owned(), ToolErrorKind::Failed),
        (500, "the disk is full".to_owned(), ToolErrorKind::InDoubt),
        (502, page.clone(), ToolErrorKind::InDoubt),
    ] {
        for kind in ["text/plain", "application/json"] {
            let content = words.clone();
            let odd = Odd::new(move |asked, _| {
                is_call(asked).then(|| Answer(status, kind, content.clone()))
            })
            .await;
            for effect in [Effect::Once, Effect::Read] {
                let settings = odd.settings().effect("*", effect);
                let toolset = connected(settings).await;
                let (told, error) = call_at_once(&toolset).await.unwrap_err();
                assert_eq!(told, how, "{status}: {error}");
                let start: String = words.chars().take(20).collect();
                assert!(
                    error.contains(&status.to_string()) && error.contains(&start),
                    "{status}: {error}"
                );
                assert!(error.len() < 3_000 && !error.contains('\u{1b}'), "{error}");
                toolset.disconnect().await;
            }
        }
    }
}

#[tokio::test]
async fn a_refused_beginning_tells_the_servers_words() {
    for (method, status) in [
        ("initialize", 403),
        ("initialize", 502),
        ("tools/list", 500),
    ] {
        let odd = Odd::new(move |asked, _| {
            (asked["method"] == method).then(|| Answer::text(status, "the licence has ended"))
        })
        .await;
        let toolset = McpToolset::new("odd", odd.settings()).unwrap();
        let error = toolset.connect().await.unwrap_err().to_string();
        assert!(
            error.contains("the licence has ended") && error.contains(&status.to_string()),
            "{method} {status}: {error}"
        );
        assert!(!error.contains("rmcp"), "{error}");
        toolset.disconnect().await;
    }
}

/// Over HTTP the connection outlives a request that broke off, so nothing waits for another connection.
#[tokio::test]
async fn a_request_that_broke_off_is_made_again_at_once_where_that_does_no_harm() {
    for (effect, calls) in [(Effect::Once, 1), (Effect::Read, 2)] {
        let count = Arc::new(AtomicUsize::new(0));
        let odd = Odd::new(move |asked, _| {
            let is_first = is_call(asked) && count.fetch_add(1, Ordering::SeqCst) == 0;
            // A stream that ends before the answer.
            is_first.then(|| Answer(200, "text/event-stream", ": nothing\n\n".to_owned()))
        })
        .await;
        let toolset = connected(odd.settings().effect("*", effect)).await;
        let called = call_at_once(&toolset).await;
        match effect {
            Effect::Once => assert_eq!(called.unwrap_err().0, ToolErrorKind::InDoubt),
            _ => assert_eq!(called.unwrap(), "done"),
        }
        assert_eq!(odd.count("tools/call"), calls);
        toolset.disconnect().await;
    }
}

/// Both transports with these answers in place of those of the server: pairs of a method and its result.
async fn answering(name: &str, answers: &[(&'static str, Value)]) -> [McpToolset; 2] {
    let peer = Peer::new(name, &[]);
    for (method, result) in answers {
        peer.set(&method.replace('/', "."), &result.to_string());
    }
    let known: Vec<(&str, Value)> = answers.to_vec();
    let odd = Odd::new(move |asked, _| {
        let known = known.iter().find(|(method, _)| asked["method"] == *method);
        known.map(|(_, result)| Answer::result(asked, result.clone()))
    })
    .await;
    [connected(peer.settings()).await, odd.connected().await]
}

#[tokio::test]
async fn a_bad_tool_does_not_take_the_others() {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let tools = json!([
        { "name": "echo", "description": "Says it again.", "inputSchema": schema },
        { "name": "bare" },
        { "name": "empty", "inputSchema": null },
        { "name": "sure", "inputSchema": schema, "annotations": { "readOnlyHint": "yes" } },
        { "name": "told", "description": 7, "inputSchema": schema, "outputSchema": "text", "icons": "none" },
        { "name": "odd", "inputSchema": "text" },
        { "description": "has no name", "inputSchema": schema },
        null,
        "echo",
    ]);
    let page = json!({ "tools": tools, "nextCursor": null, "_meta": [] });
    for toolset in answering("bad-tools", &[("tools/list", page)]).await {
        assert_eq!(names(&toolset), ["echo", "bare", "empty", "sure", "told"]);
        let echo = tool(&toolset, "echo").definition().clone();
        assert_eq!(echo.parameters, schema);
        assert_eq!(echo.description, "Says it again.");
        let bare = tool(&toolset, "bare").definition().clone();
        assert_eq!(bare.parameters, json!({ "type": "object" }));
        toolset.disconnect().await;
    }
}

#[tokio::test]
async fn a_hint_that_does_not_read_is_none() {
    let tool_of = |hints: Value| {
        let tool =
            json!({ "name": "echo", "inputSchema": { "type": "object" }, "annotations": hints });
        json!({ "tools": [tool] })
    };
    let peer = Peer::new("hints", &[]);
    let hints = json!({ "readOnlyHint": "yes", "idempotentHint": true });
    peer.set("tools.list", &tool_of(hints).to_string());
    let toolset = connected(peer.settings().trust_annotations()).await;
    assert_eq!(tool(&toolset, "echo").definition().effect, Effect::Once);
    toolset.disconnect().await;
}

#[tokio::test]
async fn a_bad_resource_or_prompt_does_not_take_the_others() {
    let answers = [
        (
            "resources/list",
            json!({ "resources": [
                { "uri": "house://attic", "name": "attic", "size": "large" },
                { "uri": "house://cellar" },
                { "name": "nowhere" },
            ]}),
        ),
        (
            "resources/templates/list",
            json!({ "resourceTemplates": [{ "uriTemplate": "house://{room}" }, 7] }),
        ),
        (
            "prompts/list",
            json!({ "prompts": [
                { "name": "tidy", "arguments": [{ "name": "room", "required": "yes" }, { "required": true }] },
                { "description": "has no name" },
            ]}),
        ),
        (
            "prompts/get",
            json!({ "messages": [
                { "role": "user", "content": "Tidy it." },
                { "role": "assistant", "content": [{ "type": "text", "text": "Which?" }, { "type": "video" }] },
            ]}),
        ),
        (
            "resources/read",
            json!({ "contents": [
                { "uri": "house://attic", "text": "a trunk" },
                { "uri": "house://attic" },
                { "uri": "house://attic", "text": "a lamp", "mimeType": 7 },
            ]}),
        ),
    ];
    for toolset in answering("bad-resources", &answers).await {
        let resources = toolset.resources().await.unwrap();
        let resources: Vec<&str> = resources.iter().map(|one| one.uri.as_str()).collect();
        assert_eq!(resources, ["house://attic", "house://cellar"]);
        let templates = toolset.resource_templates().await.unwrap();
        assert_eq!(templates.len(), 1);
        let prompts = toolset.prompts().await.unwrap();
        assert_eq!((prompts.len(), prompts[0].name.as_str()), (1, "tidy"));
        assert_eq!(prompts[0].arguments, [("room".to_owned(), false)]);
        let messages = toolset.prompt("tidy", []).await.unwrap();
        let messages: Vec<String> = messages.iter().map(|one| one.content()).collect();
        assert_eq!(messages[..2], ["Tidy it.", "Which?"]);
        assert!(messages[2].contains("video"), "{messages:?}");
        let read = toolset.read_resource("house://attic").await.unwrap();
        assert_eq!(read.text, "a trunk\na lamp");
        toolset.disconnect().await;
    }
}

#[tokio::test]
async fn content_that_does_not_read_leaves_the_rest_of_the_result() {
    let cases = [
        (
            json!([{ "type": "text", "text": "one" }, { "type": "video", "data": "AAAA" }]),
            "one",
        ),
        (
            json!([{ "type": "text", "text": "one" }, { "type": "image", "data": 7 }]),
            "one",
        ),
        (
            json!([{ "type": "text", "text": { "degrees": 21 } }]),
            "{\"degrees\":21}",
        ),
        (
            json!([{ "type": "text", "text": "one", "annotations": "none" }]),
            "one",
        ),
        (json!("one"), "one"),
        (json!({ "type": "text", "text": "one" }), "one"),
        (json!(["one", null]), "one"),
    ];
    for (number, (content, expected)) in cases.into_iter().enumerate() {
        for failed in [false, true] {
            let result = json!({ "content": content, "isError": failed });
            let answers = [("tools/call", result)];
            for toolset in answering(&format!("content{number}{failed}"), &answers).await {
                let text = match (call_at_once(&toolset).await, failed) {
                    (Ok(text), false) => text,
                    (Err((ToolErrorKind::Failed, text)), true) => text,
                    (other, _) => panic!("{content}: {other:?}"),
                };
                assert!(text.starts_with(expected), "{content}: {text}");
                toolset.disconnect().await;
            }
        }
    }
}

#[tokio::test]
async fn a_failure_is_one_whatever_stands_beside_it() {
    for (number, result) in [
        json!({ "isError": true, "content": 7 }),
        json!({ "isError": true, "content": null, "structuredContent": { "why": "rain" } }),
        json!({ "isError": "true", "content": [] }),
        json!({ "isError": true, "content": [], "_meta": "x" }),
    ]
    .into_iter()
    .enumerate()
    {
        let answers = [("tools/call", result.clone())];
        for toolset in answering(&format!("failure{number}"), &answers).await {
            let (how, _) = call_at_once(&toolset).await.unwrap_err();
            assert_eq!(how, ToolErrorKind::Failed, "{result}");
            toolset.disconnect().await;
        }
    }
}

/// What turns in a circle is read once, and what was read stays.
#[tokio::test]
async fn a_listing_whose_cursor_does_not_advance_ends() {
    type Next = fn(&str) -> &'static str;
    let rules: [(Next, usize); 4] = [
        (|_| "x", 2),
        (|cursor| if cursor == "x" { "y" } else { "x" }, 3),
        (|_| "", 1),
        (|cursor| if cursor.is_empty() { "x" } else { "?" }, 2),
    ];
    for (next, pages) in rules {
        let odd = Odd::new(move |asked, _| {
            let cursor = asked["params"]["cursor"].as_str().unwrap_or_default();
            let listing = asked["method"].as_str()?.strip_suffix("/list")?;
            let (key, of) = match listing {
                "resources/templates" => ("resourceTemplates", "uriTemplate"),
                "resources" => (listing, "uri"),
                _ => (listing, "name"),
            };
            if next(cursor) == "?" {
                let error = json!({ "code": -32602, "message": "no such cursor" });
                let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error });
                return Some(Answer::json(200, &answer));
            }
            let member = |name: &str| {
                let schema = json!({ "type": "object" });
                json!({ of: name, "name": name, "inputSchema": schema })
            };
            let members = [member("one"), member("two"), member(&format!("at{cursor}"))];
            let page = json!({ key: members, "nextCursor": next(cursor) });
            Some(Answer::result(asked, page))
        })
        .await;
        let toolset = odd.connected().await;
        let expected: Vec<String> = match (pages, next("")) {
            (1, _) => vec!["one", "two", "at"],
            (3, _) => vec!["one", "two", "at", "atx", "aty"],
            (_, _) if next("x") == "?" => vec!["one", "two", "at"],
            _ => vec!["one", "two", "at", "atx"],
        }
        .into_iter()
        .map(str::to_owned)
        .collect();
        assert_eq!(names(&toolset), expected);
        assert_eq!(toolset.resources().await.unwrap().len(), expected.len());
        let templates = toolset.resource_templates().await.unwrap();
        assert_eq!(templates.len(), expected.len());
        assert_eq!(toolset.prompts().await.unwrap().len(), expected.len());
        for listing in ["tools", "resources", "resources/templates", "prompts"] {
            assert_eq!(odd.count(&format!("{listing}/list")), pages, "{listing}");
        }
        toolset.disconnect().await;
    }
}

#[tokio::test]
async fn a_key_in_the_address_is_looked_up_and_is_a_secret_of_the_tools() {
    fn variable(name: &str) -> Option<String> {
        let value = match name {
            "ODD_PLACE" => "a8f2c91b7e4d5a60",
            "ODD_PASSWORD" => "rosebud",
            "ODD_HOST" => "127.0.0.1",
            "ODD_PATH" => "mcp",
            _ => return None,
        };
        Some(value.to_owned())
    }
    let odd = Odd::new(|_, _| None).await;
    let port = odd.url.trim_end_matches("/mcp").rsplit(':').next().unwrap();
    let query = "place=${ODD_PLACE}&word=${ODD_PASSWORD}";
    let url = format!("http://${{ODD_HOST}}:{port}/${{ODD_PATH}}?{query}");
    let toolset = connected(ServerSpec::url(url).variables(variable)).await;
    let secrets = tool(&toolset, "echo").secrets();
    let secrets: Vec<&str> = secrets.iter().map(|one| one.reveal()).collect();
    assert_eq!(secrets, ["a8f2c91b7e4d5a60", "rosebud"]);
    assert_eq!(call_at_once(&toolset).await.unwrap(), "done");
    toolset.disconnect().await;

    let unset = ServerSpec::url("https://${ODD_NOWHERE}/mcp").variables(variable);
    let error = McpToolset::new("odd", unset).unwrap_err().to_string();
    assert!(error.contains("ODD_NOWHERE"), "{error}");
}

#[tokio::test]
async fn a_server_that_introduces_itself_badly_is_served_as_far_as_it_reads() {
    let result = json!({
        "protocolVersion": "2025-06-18", "instructions": 7,
        "capabilities": { "tools": true, "resources": { "subscribe": "yes" }, "prompts": false, "other": 7 },
        "serverInfo": "odd",
    });
    for kind in ["application/json", "text/event-stream"] {
        let result = result.clone();
        let odd = Odd::new(move |asked, _| {
            let is_first = asked["method"] == "initialize";
            let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
            let content = match kind {
                "application/json" => answer.to_string(),
                _ => format!("data: {answer}\n\n"),
            };
            is_first.then_some(Answer(200, kind, content))
        })
        .await;
        let toolset = odd.connected().await;
        let version = toolset.protocol_version().await;
        assert_eq!(version.as_deref(), Some("2025-06-18"));
        assert_eq!(call_at_once(&toolset).await.unwrap(), "done");
        toolset.disconnect().await;
    }
    let peer = Peer::new("introduction", &[]);
    peer.set("initialize", &result.to_string());
    let toolset = connected(peer.settings()).await;
    assert_eq!(call_at_once(&toolset).await.unwrap(), "\"hello\"");
    toolset.disconnect().await;
}
