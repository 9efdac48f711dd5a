//! Sessions that outlive their connection.

use std::{
    sync::atomic::Ordering::SeqCst,
    time::{Duration, Instant},
};

use ghostlight_actors::contract::RunStatus;
use serde_json::{Value, json};

use crate::{
    Desk,
    client::{Decision, texts},
};

fn kinds(updates: &[Value]) -> Vec<&str> {
    let kinds = updates
        .iter()
        .map(|update| update["sessionUpdate"].as_str().unwrap());
    let mut kinds: Vec<&str> = kinds.collect();
    kinds.dedup();
    kinds
}

async fn status(desk: &Desk) -> RunStatus {
    let filter = ghostlight_actors::contract::RunFilter::default();
    desk.system.runs(filter).await.unwrap()[0].status
}

#[tokio::test]
async fn a_loaded_session_shows_what_was_said_and_how_its_run_goes_on() {
    let desk = Desk::new().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    editor.prompt(&session, "send it").await.unwrap();
    let _prompt = editor.prompts(&session, "send_approved it");
    editor.until(|editor| editor.asked().len() == 1).await;
    let before = texts(&editor.updates(&session));
    editor.goes().await;
    assert_eq!(
        status(&desk).await,
        RunStatus::Waiting,
        "the run is not cancelled"
    );

    let editor = desk.editor().await;
    editor.decides(Decision::Choose("allow_once"));
    editor.open("session/load", &session).await.unwrap();
    let updates = editor.updates(&session);
    assert_eq!(
        kinds(&updates)[..5],
        [
            "user_message_chunk",
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "agent_message_chunk"
        ]
    );
    assert_eq!(updates[0]["content"]["text"], "send it");
    assert!(texts(&updates).starts_with(&before), "{updates:?}");
    // Nobody waits for the run that goes on, and it is shown all the same.
    editor
        .until(|editor| texts(&editor.updates(&session)).matches("Done:").count() == 2)
        .await;
    assert_eq!((editor.asked().len(), desk.sent.load(SeqCst)), (1, 2));
    let ended = editor.prompt(&session, "Thanks").await.unwrap();
    assert_eq!(ended["stopReason"], "end_turn");
    assert!(texts(&editor.updates(&session)).ends_with("You said Thanks."));
}

#[tokio::test]
async fn a_resumed_session_goes_on_without_what_was_said() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    editor.prompt(&session, "hello").await.unwrap();
    let _prompt = editor.prompts(&session, "confirm");
    editor.until(|editor| editor.asked().len() == 1).await;
    editor.goes().await;
    let editor = desk.editor().await;
    editor.decides(Decision::Choose("Yes"));
    editor.open("session/resume", &session).await.unwrap();
    editor
        .until(|editor| texts(&editor.updates(&session)) == "It is true.")
        .await;
    assert_eq!(kinds(&editor.updates(&session)), ["agent_message_chunk"]);
}

#[tokio::test]
async fn a_cancel_ends_the_prompt_or_the_run_that_goes_on_after_a_load() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    let prompt = editor.prompts(&session, "wait");
    // The cancel may overtake the turn.
    editor.cancel(&session).await;
    while !prompt.is_finished() {
        editor.cancel(&session).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(prompt.await.unwrap().unwrap()["stopReason"], "cancelled");
    assert_eq!(status(&desk).await, RunStatus::Cancelled);

    let _prompt = editor.prompts(&session, "wait");
    while desk.runs().await < 2 {
        tokio::task::yield_now().await;
    }
    editor.goes().await;
    let editor = desk.editor().await;
    editor.open("session/load", &session).await.unwrap();
    editor.cancel(&session).await;
    while status(&desk).await != RunStatus::Cancelled {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn sessions_are_listed_by_directory_and_in_pages() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    // The list is in the order of milliseconds, and each of the last two has some of its own.
    let next_millisecond = async || {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(2) {
            tokio::task::yield_now().await;
        }
    };
    for number in 0..60 {
        if number == 59 {
            next_millisecond().await;
        }
        let params = json!({ "cwd": format!("/home/{}", number % 2), "mcpServers": [] });
        let begun = editor.request("session/new", params).await.unwrap();
        let session = begun["sessionId"].as_str().unwrap();
        editor
            .prompt(session, &format!("number {number}"))
            .await
            .unwrap();
    }
    next_millisecond().await;
    desk.system
        .session("clerk", "customer-42")
        .ask("hello")
        .await
        .unwrap();
    let (mut listed, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = editor
            .request("session/list", json!({ "cursor": cursor }))
            .await
            .unwrap();
        listed.extend(page["sessions"].as_array().unwrap().clone());
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(listed.len(), 61);
    assert_eq!(listed[0]["sessionId"], "customer-42");
    assert_eq!(
        (&listed[1]["title"], &listed[1]["cwd"]),
        (&json!("number 59"), &json!("/home/1"))
    );
    assert!(listed[1]["updatedAt"].as_str().unwrap().ends_with('Z'));
    let of_one = editor
        .request("session/list", json!({ "cwd": "/home/1" }))
        .await
        .unwrap();
    let of_one = of_one["sessions"].as_array().unwrap();
    assert_eq!(of_one.len(), 30);
    assert!(of_one.iter().all(|session| session["cwd"] == "/home/1"));
    let error = editor
        .request("session/list", json!({ "cursor": "x" }))
        .await
        .unwrap_err();
    assert!(error.message.contains("nextCursor"), "{error}");
}

#[tokio::test]
async fn no_secret_is_in_what_an_editor_is_shown() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    let secret = "password: swordfish";
    editor.prompt(&session, secret).await.unwrap();
    let failed = editor.prompt(&session, "fail with password: swordfish");
    let failed = failed.await.unwrap_err();
    let listed = editor.request("session/list", json!({})).await.unwrap();
    let live = editor.updates(&session);
    let again = desk.editor().await;
    again.open("session/load", &session).await.unwrap();
    let loaded = again.updates(&session);
    for shown in [
        format!("{failed}"),
        listed.to_string(),
        Value::from(live).to_string(),
        Value::from(loaded).to_string(),
    ] {
        assert!(
            shown.contains("[redacted]") && !shown.contains("swordfish"),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn a_fork_goes_on_alone_and_a_deleted_session_is_gone() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    editor.prompt(&session, "one").await.unwrap();
    let forked = editor.open("session/fork", &session).await.unwrap();
    let fork = forked["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(fork, session);
    editor.prompt(&fork, "two").await.unwrap();
    editor.open("session/load", &fork).await.unwrap();
    assert_eq!(
        texts(&editor.updates(&fork)),
        "You said two.You said one.You said two.",
        "it is shown what was said before the fork, too"
    );
    let turns = |key: &str| desk.system.session("clerk", key);
    assert_eq!(turns(&session).log().await.unwrap().turns.len(), 1);
    editor
        .request("session/delete", json!({ "sessionId": session }))
        .await
        .unwrap();
    assert!(turns(&session).log().await.unwrap().turns.is_empty());
    assert_eq!(turns(&fork).log().await.unwrap().turns.len(), 2);
    // A fork while a turn is under way leaves that turn out.
    let _prompt = editor.prompts(&fork, "confirm");
    editor.until(|editor| editor.asked().len() == 1).await;
    let second = editor.open("session/fork", &fork).await.unwrap();
    let second = second["sessionId"].as_str().unwrap();
    assert_eq!(turns(second).log().await.unwrap().turns.len(), 2);
}

#[tokio::test]
async fn closing_a_session_cancels_what_is_under_way_in_it() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    let prompt = editor.prompts(&session, "confirm");
    editor.until(|editor| editor.asked().len() == 1).await;
    editor
        .request("session/close", json!({ "sessionId": session }))
        .await
        .unwrap();
    assert_eq!(prompt.await.unwrap().unwrap()["stopReason"], "cancelled");
    let error = editor.prompt(&session, "hello").await.unwrap_err();
    assert!(error.message.contains("not open"), "{error}");
    editor.open("session/load", &session).await.unwrap();
    editor.prompt(&session, "hello").await.unwrap();
}

#[tokio::test]
async fn a_session_without_a_turn_outlives_its_connection_too() {
    let desk = Desk::by_hand().await;
    for directory in ["/home/ada/shop", "/", "C:\\shop", "/a@b"] {
        let editor = desk.editor().await;
        let params = json!({ "cwd": directory, "mcpServers": [] });
        let begun = editor.request("session/new", params).await.unwrap();
        let session = begun["sessionId"].as_str().unwrap().to_owned();
        editor.goes().await;
        let editor = desk.editor().await;
        editor.open("session/load", &session).await.unwrap();
        editor.prompt(&session, "hello").await.unwrap();
        let params = json!({ "cwd": directory });
        let listed = editor.request("session/list", params).await.unwrap();
        assert_eq!(listed["sessions"][0]["sessionId"], session);
    }
    let editor = desk.editor().await;
    for unknown in [
        "customer-42",
        "x@/home",
        "0123456789ab@shop",
        "@/",
        "0123456789ag@/",
    ] {
        let error = editor.open("session/load", unknown).await.unwrap_err();
        assert_eq!(
            error.code,
            ghostlight_acp::wire::RpcError::NOT_FOUND,
            "{unknown}"
        );
    }
}

#[tokio::test]
async fn a_prompt_that_is_sent_again_after_a_load_is_shown_once() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    let params = json!({
        "sessionId": session,
        "prompt": [{ "type": "text", "text": "confirm" }],
        "_meta": { "ghostlight/idempotencyKey": "one" },
    });
    let sent = {
        let (peer, params) = (editor.peer.clone(), params.clone());
        tokio::spawn(async move { peer.request::<Value>("session/prompt", &params).await })
    };
    editor.until(|editor| editor.asked().len() == 1).await;
    sent.abort();
    let _ = sent.await;
    editor.goes().await;

    let editor = desk.editor().await;
    editor.open("session/load", &session).await.unwrap();
    editor.until(|editor| editor.asked().len() == 1).await;
    editor.decides(Decision::Choose("Yes"));
    let ended = editor.request("session/prompt", params).await.unwrap();
    assert_eq!(ended["stopReason"], "end_turn");
    assert_eq!(texts(&editor.updates(&session)), "It is true.");
    assert_eq!((desk.runs().await, editor.asked().len()), (1, 2));
}

#[tokio::test]
async fn a_prompt_that_waits_behind_the_run_of_another_program_can_be_cancelled() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    let other = desk.system.session("clerk", &session);
    let other = other.send("wait").await.unwrap();
    let prompt = editor.prompts(&session, "hello");
    tokio::time::sleep(Duration::from_millis(100)).await;
    editor.cancel(&session).await;
    let ended = tokio::time::timeout(Duration::from_secs(20), prompt).await;
    assert_eq!(ended.unwrap().unwrap().unwrap()["stopReason"], "cancelled");
    other.cancel("enough").await.unwrap();
    other.quiet().await.unwrap();
    // The next prompt is served, and the cancelled one never began.
    editor.prompt(&session, "thank you").await.unwrap();
    assert_eq!(desk.runs().await, 2);
}
