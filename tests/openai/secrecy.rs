//! Nothing is told: keys, prompts and answers are in no log and in no error.

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex},
};

use ghostlight::models::Secret;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::{
    ask,
    fake::{Act, Fake, events, json, piece, stream_end, stream_head},
    respond, stream,
};

const KEY: &str = "sk-hunter2hunter2";
const PROMPT: &str = "The vault is behind the grey painting.";
const OUTPUT: &str = "Bring the ladder at midnight.";

/// Keeps every field of every event and span, at every level.
#[derive(Clone, Default)]
struct Capture(Arc<Mutex<String>>);

impl Subscriber for Capture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        attributes.record(&mut Text(&mut self.0.lock().unwrap()));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Text(&mut self.0.lock().unwrap()));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Text(&mut self.0.lock().unwrap()));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = writeln!(self.0, "{field}={value:?}");
    }
}

/// Pitfall 10 of async-openai: it logs what it cannot read, and what failed.
#[tokio::test]
async fn no_log_and_no_error_holds_a_key_a_prompt_or_an_answer() {
    let capture = Capture::default();
    let _guard = tracing::subscriber::set_default(capture.clone());
    tracing::info!("the capture works");
    let echo =
        format!(r#"{{"error":{{"message":"bad input '{PROMPT}' for key {KEY}","code":9}}}}"#);
    let failed = format!("cannot parse '{OUTPUT}' of {PROMPT}");
    let broken_answer = format!("{{\"choices\": [{{\"message\": {{\"content\": \"{OUTPUT}\"}}}}");
    let odd = format!("{{\"choices\": 7, \"x\": \"{OUTPUT}\"}}");
    let broken = format!("{{\"choices\": [{{\"delta\": {{\"content\": \"{OUTPUT}\"");
    let lone = format!("{{\"choices\": [{{\"delta\": {{\"content\": \"{OUTPUT} \\uZZZZ\"}}}}]}}");
    let good = format!("{{\"choices\": [{{\"delta\": {{\"content\": \"{OUTPUT}\"}}}}]}}");
    let in_band = format!(r#"{{"error":{{"message":"generated {OUTPUT} from {PROMPT}"}}}}"#);
    let not_utf8 = [&b"data: {\"x\": \""[..], OUTPUT.as_bytes(), b"\xff\"}\n\n"].concat();
    let not_utf8_line = [&b"x: "[..], OUTPUT.as_bytes(), b"\xff\n\n"].concat();
    let replies: Vec<Vec<Act>> = vec![
        vec![json(400, &echo)],
        vec![json(401, &echo)],
        vec![json(404, &failed)],
        vec![json(429, &echo)],
        vec![json(500, &failed)],
        vec![json(200, &broken_answer)],
        vec![json(200, &odd)],
        vec![json(200, &in_band)],
        events([&*broken, "[DONE]"]),
        events([&*lone, "[DONE]"]),
        events([&*good, &*in_band]),
        events([&*good]),
        vec![stream_head(), piece(&not_utf8), stream_end()],
        vec![stream_head(), piece(&not_utf8_line), stream_end()],
        vec![
            stream_head(),
            piece(format!("data: {good}\n\n")),
            Act::Close,
        ],
    ];
    for reply in replies {
        let fake = Fake::start([reply.clone()]).await;
        let model = fake.model().api_key(Secret::value(KEY));
        for streaming in [false, true] {
            let outcome = match streaming {
                false => respond(&model, ask(PROMPT)).await,
                true => stream(&model, ask(PROMPT)).await.0,
            };
            let error = outcome.expect_err(&format!("{reply:?}"));
            let shown = format!("{error} {error:?} {model:?} {:?}", model.settings());
            for secret in ["hunter2", "grey painting", "ladder"] {
                assert!(!shown.contains(secret), "{shown}");
            }
        }
        assert!(fake.received()[0].head.contains(KEY), "the key was sent");
    }
    let log = capture.0.lock().unwrap();
    assert!(log.contains("the capture works"));
    for secret in ["hunter2", "grey painting", "ladder"] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[tokio::test]
async fn a_secret_has_its_place_inside_of_a_header() {
    // What every test has in its environment stands for a secret.
    let value = std::env::var("CARGO_PKG_NAME").unwrap();
    let body = r#"{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}"#;
    let fake = Fake::start([vec![json(200, body)]]).await;
    let model = fake
        .model()
        .header("authorization", "Bearer ${CARGO_PKG_NAME}")
        .header("x-price", "$$5 or $6");
    respond(&model, ask("hello")).await.unwrap();
    let head = fake.received()[0].head.to_lowercase();
    assert!(
        head.contains(&format!("authorization: bearer {value}")),
        "{head}"
    );
    assert!(head.contains("x-price: $5 or $6"), "{head}");
    let model = fake
        .model()
        .header("authorization", "Bearer ${GHOSTLIGHT_NO_SUCH}");
    let error = respond(&model, ask("hello")).await.unwrap_err();
    assert!(error.message.contains("GHOSTLIGHT_NO_SUCH"), "{error}");
    assert_eq!(fake.received().len(), 1, "nothing was sent without it");
}

#[tokio::test]
async fn what_helps_to_correct_a_request_is_shown() {
    let body = r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.2.","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}"#;
    let fake = Fake::start([vec![json(400, body)]]).await;
    let error = respond(&fake.model(), ask(PROMPT)).await.unwrap_err();
    for help in [
        "400",
        "invalid_request_error",
        "unsupported_value",
        "does not support 0.2",
    ] {
        assert!(error.message.contains(help), "{}", error.message);
    }
}
