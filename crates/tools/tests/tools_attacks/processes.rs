//! Attempts to reach a background process of another session.

use std::sync::Arc;

use ghostlight_actors::{
    contract::{Origin, ToolContext},
    vocabulary::{Arguments, OperationId, RunId, SessionId},
};
use ghostlight_tools::Terminal;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    terminal::{Stage, all_end},
    tool,
};

/// The session, the owner and the run of a call, and the root of its runs.
#[derive(Clone, Copy)]
struct Caller(Option<&'static str>, Option<&'static str>, u128, u128);

/// Calls a tool in a run, and gives what the model reads.
async fn go(
    terminal: &Terminal,
    Caller(session, user, run, root): Caller,
    name: &str,
    arguments: Value,
) -> Result<String, String> {
    let mut origin = Origin::default();
    origin.session = session.map(|key| SessionId {
        team: "desk".into(),
        key: key.into(),
    });
    origin.user = user.map(str::to_owned);
    origin.root = Some(RunId::from_random(root));
    let cx = ToolContext::new(
        RunId::from_random(run),
        OperationId::default(),
        "desk",
        CancellationToken::new(),
    );
    let cx = cx.with_origin(Arc::new(origin));
    let tool = tool(terminal, name);
    let called = tool.call(Arguments::from(arguments), cx).await;
    called
        .map(|output| output.text)
        .map_err(|error| error.message)
}

#[tokio::test]
async fn a_process_is_there_for_its_session_only() {
    let stage = Stage::new();
    let mut settings = stage.settings(json!({ "cat": true, "sleep": true, "true": true }));
    settings.processes = 3;
    let terminal = Terminal::open(settings).unwrap();
    let begin = json!({ "command": "cat" });
    // Pairs of a holder, and of another one who must not reach its processes.
    let ada = Caller(Some("a"), Some("acme:ada"), 1, 1);
    let task = Caller(None, Some("acme:ada"), 5, 4);
    for (of, others) in [
        (
            ada,
            vec![
                Caller(Some("b"), Some("acme:ada"), 2, 2),
                Caller(Some("a"), Some("acme:bob"), 1, 1),
                Caller(Some("a"), Some("other:ada"), 1, 1),
                Caller(Some("a"), None, 1, 1),
                Caller(None, Some("acme:ada"), 1, 1),
            ],
        ),
        (
            task,
            vec![
                Caller(None, Some("acme:ada"), 5, 5),
                Caller(None, Some("acme:bob"), 5, 4),
            ],
        ),
    ] {
        let started = go(&terminal, of, "start_process", begin.clone())
            .await
            .unwrap();
        let number = started.trim_end_matches('.').rsplit(' ').next().unwrap();
        let number: u64 = number.parse().unwrap();
        let write = json!({ "process": number, "text": "a secret\n" });
        go(&terminal, of, "write_process", write.clone())
            .await
            .unwrap();
        let read = json!({ "process": number, "wait_s": 10 });
        for other in others {
            for (name, arguments) in [
                ("read_process", read.clone()),
                ("write_process", write.clone()),
                ("stop_process", json!({ "process": number })),
            ] {
                let told = go(&terminal, other, name, arguments).await.unwrap_err();
                let expected = format!("there is no process {number}; there are: none.");
                assert!(told.starts_with(&expected), "{name}: {told}");
            }
        }
        // Another run of the same conversation goes on with it.
        let later = Caller(of.0, of.1, 77, of.3);
        let told = go(&terminal, later, "read_process", read).await.unwrap();
        assert!(told.starts_with("a secret\n\n(running"), "{told}");
    }
    // The bound is for all of them, and what is said about it names one's own.
    let sleep = json!({ "command": "sleep", "args": ["4741.01"] });
    go(&terminal, ada, "start_process", sleep.clone())
        .await
        .unwrap();
    let full = go(&terminal, ada, "start_process", sleep.clone())
        .await
        .unwrap_err();
    assert!(full.ends_with("stop one of yours (1, 3)"), "{full}");
    let stranger = Caller(Some("c"), None, 9, 9);
    let full = go(&terminal, stranger, "start_process", sleep)
        .await
        .unwrap_err();
    assert!(full.ends_with("stop one of yours (none)"), "{full}");
    drop(terminal);
    all_end("4741.01").await;
}

#[tokio::test]
async fn one_session_does_not_make_the_output_of_another_one_vanish() {
    let stage = Stage::new();
    let mut settings = stage.settings(json!({ "echo": true }));
    settings.processes = 1;
    let terminal = Terminal::open(settings).unwrap();
    let (quiet, busy) = (Caller(Some("a"), None, 1, 1), Caller(Some("b"), None, 2, 2));
    let echo = json!({ "command": "echo", "args": ["kept"] });
    for number in 1..=40_u64 {
        let caller = if number == 1 { quiet } else { busy };
        go(&terminal, caller, "start_process", echo.clone())
            .await
            .unwrap();
        let wait = json!({ "process": number, "from": 5, "wait_s": 20 });
        let told = go(&terminal, caller, "read_process", wait).await.unwrap();
        assert!(told.contains("exit code 0"), "{told}");
    }
    let first = json!({ "process": 1 });
    let told = go(&terminal, quiet, "read_process", first).await.unwrap();
    assert!(told.starts_with("kept\n"), "{told}");
    let second = go(&terminal, busy, "read_process", json!({ "process": 2 })).await;
    assert!(second.unwrap_err().contains("no process 2"));
}
