//! Questions to the editor's user.

use std::sync::atomic::Ordering::SeqCst;

use serde_json::json;

use crate::{
    Desk,
    client::{Decision, texts},
};

#[tokio::test]
async fn an_approval_is_a_permission_request_and_the_answer_decides() {
    let desk = Desk::new().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    for (decision, sent, status) in [
        (Decision::Choose("allow_once"), 1, "completed"),
        (Decision::Choose("reject_once"), 1, "failed"),
    ] {
        editor.decides(decision);
        let ended = editor.prompt(&session, "send_approved it").await.unwrap();
        assert_eq!(ended["stopReason"], "end_turn");
        assert_eq!(desk.sent.load(SeqCst), sent, "{decision:?}");
        let request = editor.asked().pop().unwrap();
        assert_eq!(request["toolCall"]["title"], "May I send to Ada?");
        assert_eq!(request["toolCall"]["rawInput"], json!({ "to": "Ada" }));
        let updates = editor.updates(&session);
        let of_call =
            |update: &&serde_json::Value| update["toolCallId"] == request["toolCall"]["toolCallId"];
        let last = updates.iter().rev().find(of_call).unwrap();
        assert_eq!(
            last["status"], status,
            "the request is about the call that was shown"
        );
    }
}

#[tokio::test]
async fn what_is_allowed_for_a_session_is_not_asked_again_in_it() {
    let desk = Desk::new().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    editor.decides(Decision::Choose("allow_always"));
    for sent in 1..=2 {
        editor.prompt(&session, "send_approved it").await.unwrap();
        assert_eq!(desk.sent.load(SeqCst), sent);
    }
    assert_eq!(editor.asked().len(), 1);
    let other = editor.begin().await;
    editor.decides(Decision::Choose("reject_once"));
    editor.prompt(&other, "send_approved it").await.unwrap();
    assert_eq!((editor.asked().len(), desk.sent.load(SeqCst)), (2, 2));
}

#[tokio::test]
async fn confirmations_and_choices_are_asked_by_their_labels() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    for (text, label, answer) in [
        ("confirm", "Yes", "It is true."),
        ("confirm", "No", "It is false."),
        ("choose", "blue", "It is \"b\"."),
    ] {
        editor.decides(Decision::Choose(label));
        editor.prompt(&session, text).await.unwrap();
        assert!(texts(&editor.updates(&session)).ends_with(answer));
    }
}

#[tokio::test]
async fn a_question_in_words_ends_the_prompt_and_the_next_prompt_answers_it() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    let ended = editor.prompt(&session, "ask").await.unwrap();
    assert_eq!(ended["stopReason"], "end_turn");
    assert_eq!(texts(&editor.updates(&session)), "Which colour?");
    let ended = editor.prompt(&session, "red").await.unwrap();
    assert_eq!(ended["stopReason"], "end_turn");
    assert_eq!(
        texts(&editor.updates(&session)),
        "Which colour?It is \"red\"."
    );
    assert!(editor.asked().is_empty());
    assert_eq!(desk.runs().await, 1);
}

#[tokio::test]
async fn an_editor_that_cannot_ask_is_told_the_question_and_answers_in_words() {
    let desk = Desk::new().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    editor.decides(Decision::Refuse);
    editor.prompt(&session, "send_approved it").await.unwrap();
    let said = texts(&editor.updates(&session));
    assert!(said.ends_with("Answer yes or no."), "{said}");
    editor.prompt(&session, "perhaps").await.unwrap();
    assert_eq!(desk.sent.load(SeqCst), 0, "that is no answer");
    editor.prompt(&session, "Yes!").await.unwrap();
    assert_eq!((desk.sent.load(SeqCst), desk.runs().await), (1, 1));
}

/// A task that shows how the run goes on hears the answer at its own time, so this is tried many times over threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_prompt_right_after_an_answer_is_a_new_turn() {
    let desk = Desk::new().await;
    for round in 1..=50 {
        let editor = desk.editor().await;
        let session = editor.begin().await;
        let _left = editor.prompts(&session, "send_approved it");
        editor.until(|editor| editor.asked().len() == 1).await;
        drop(editor);
        let editor = desk.editor().await;
        editor.open("session/load", &session).await.unwrap();
        editor.until(|editor| editor.asked().len() == 1).await;
        let allowed = json!({ "outcome": { "outcome": "selected", "optionId": "0" } });
        // The first request of the other side.
        editor.peer.respond(&json!(1), Ok(allowed)).await.unwrap();
        let ended = editor.prompt(&session, "thank you").await.unwrap();
        let said = texts(&editor.updates(&session));
        assert!(said.ends_with("You said thank you."), "{said:?} {ended}");
        assert_eq!(desk.sent.load(SeqCst), round);
    }
}

#[tokio::test]
async fn a_question_that_is_answered_elsewhere_holds_up_nobody() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    let prompt = editor.prompts(&session, "confirm");
    editor.until(|editor| editor.asked().len() == 1).await;
    let (run, operation, _) = desk.system.open_questions().await.unwrap().remove(0);
    desk.system
        .run(run)
        .answer(operation, json!(true))
        .await
        .unwrap();
    assert_eq!(prompt.await.unwrap().unwrap()["stopReason"], "end_turn");
    assert_eq!(texts(&editor.updates(&session)), "It is true.");
}

#[tokio::test]
async fn a_permission_that_is_withheld_leaves_the_question_open_and_a_cancel_ends_the_run() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    editor.decides(Decision::Cancel);
    let prompt = editor.prompts(&session, "confirm");
    editor.until(|editor| editor.asked().len() == 1).await;
    assert_eq!(desk.system.open_questions().await.unwrap().len(), 1);
    editor.cancel(&session).await;
    assert_eq!(prompt.await.unwrap().unwrap()["stopReason"], "cancelled");
    assert!(desk.system.open_questions().await.unwrap().is_empty());
}
