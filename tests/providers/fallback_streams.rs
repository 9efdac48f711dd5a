//! A model that takes over in the middle of another's answer begins the answer anew.

use ghostlight::{models::Fallback, prelude::*};

use crate::fake::{Act, Fake, events, piece, stream_head};

#[tokio::test]
async fn what_a_failed_model_has_shown_is_void_for_who_reads_the_stream() {
    let half = r#"{"choices":[{"delta":{"content":"FIRST half of an answ"}}]}"#;
    let whole =
        r#"{"choices":[{"delta":{"content":"SECOND whole answer."},"finish_reason":"stop"}]}"#;
    let first = Fake::start([vec![
        stream_head(),
        piece(format!("data: {half}\n\n")),
        Act::Close,
    ]])
    .await;
    let second = Fake::start([events([whole, "[DONE]"])]).await;
    let desk = Agent::new("desk").model(Fallback::new(first.model()).or(second.model()));
    let mut pieces = desk.stream("hello").await.unwrap();
    let (mut shown, mut all, mut restarts) = (String::new(), String::new(), 0);
    while let Some(piece) = pieces.next().await {
        let piece = piece.unwrap();
        if piece.restarts {
            shown.clear();
            restarts += 1;
        }
        shown.push_str(&piece.text);
        all.push_str(&piece.text);
    }
    assert_eq!(shown, "SECOND whole answer.");
    assert_eq!(
        all.matches("SECOND").count(),
        1,
        "it is shown once: {all:?}"
    );
    // Where the first half came too late to be shown, nothing begins anew.
    assert!(restarts <= 1, "{restarts}");
    assert_eq!((first.received().len(), second.received().len()), (1, 1));
}
