//! One call is one attempt: it ends in time, keeps its status, and is not repeated.
//!
//! Time is real here: tokio's paused clock jumps to the next timer while bytes are on their way.

use std::time::Duration;

use ghostlight::models::{OpenAi, openai::Timeouts};
use ghostlight_actors::vocabulary::ErrorKind;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::{
    ask,
    fake::{Act, Fake, json, piece, reply, stream_end, stream_head},
    respond, stream,
};

/// More than anything here takes, and less than the limits that are not set.
const LONG: Duration = Duration::from_secs(60);

fn said(text: &str) -> Value {
    json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})
}

/// Pitfall 1 of async-openai: no time limit at all.
#[tokio::test]
async fn a_silent_server_is_given_up_on() {
    let fake = Fake::start([vec![Act::Silence]]).await;
    let model = fake.model().timeouts(Timeouts {
        first_byte: Duration::from_secs(1),
        ..Timeouts::default()
    });
    for streaming in [false, true] {
        let started = Instant::now();
        let mut request = ask("hello");
        request.stream = streaming;
        let error = respond(&model, request).await.unwrap_err();
        assert_eq!((error.kind, error.retryable), (ErrorKind::Timeout, true));
        assert!(error.message.contains("first_byte_s"), "{}", error.message);
        assert!(started.elapsed() >= Duration::from_secs(1));
    }
}

#[tokio::test]
async fn headers_alone_are_not_the_first_byte() {
    let head = Act::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n".to_vec());
    let fake = Fake::start([vec![head, Act::Silence], vec![stream_head(), Act::Silence]]).await;
    let model = fake.model().timeouts(Timeouts {
        first_byte: Duration::from_secs(1),
        ..Timeouts::default()
    });
    let error = respond(&model, ask("hello")).await.unwrap_err();
    assert!(error.message.contains("first_byte_s"), "{}", error.message);
    let (response, _) = stream(&model, ask("hello")).await;
    assert!(response.unwrap_err().message.contains("first_byte_s"));
}

#[tokio::test]
async fn a_server_that_falls_silent_is_given_up_on() {
    let event = piece("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n");
    let acts = vec![stream_head(), event, Act::Silence];
    let fake = Fake::start([acts]).await;
    let model = fake.model().timeouts(Timeouts {
        idle: Duration::from_secs(1),
        ..Timeouts::default()
    });
    let started = Instant::now();
    let (response, shown) = stream(&model, ask("hello")).await;
    let error = response.unwrap_err();
    assert_eq!(
        (error.kind, error.retryable, shown.len()),
        (ErrorKind::Timeout, true, 1)
    );
    assert!(error.message.contains("idle_s"), "{}", error.message);
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_server_that_never_comes_to_an_end_is_given_up_on() {
    let beat = [
        piece(": still here\n\n"),
        Act::Pause(Duration::from_millis(100)),
    ];
    let mut acts = vec![stream_head()];
    acts.extend(beat.iter().cycle().take(10_000).cloned());
    let fake = Fake::start([acts]).await;
    let model = fake.model().timeouts(Timeouts {
        total: Duration::from_secs(2),
        ..Timeouts::default()
    });
    let started = Instant::now();
    let error = stream(&model, ask("hello")).await.0.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Timeout, true));
    assert!(error.message.contains("total_s"), "{}", error.message);
    assert!(started.elapsed() >= Duration::from_secs(2));
}

#[tokio::test]
async fn an_answer_that_takes_too_long_costs_what_came_of_it() {
    let words = [
        piece("data: {\"choices\":[{\"delta\":{\"content\":\"word \"}}]}\n\n"),
        Act::Pause(Duration::from_millis(20)),
    ];
    let mut acts = vec![stream_head()];
    acts.extend(words.iter().cycle().take(10_000).cloned());
    let fake = Fake::start([acts]).await;
    let model = fake.model().timeouts(Timeouts {
        total: Duration::from_secs(1),
        ..Timeouts::default()
    });
    let error = stream(&model, ask("hello")).await.0.unwrap_err();
    assert!(error.message.contains("total_s"), "{}", error.message);
    assert!(error.usage.output_tokens > 5, "{:?}", error.usage);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_worth_another_attempt() {
    // Nobody listens there, and the port is nobody else's while it is bound.
    let bound = tokio::net::TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = bound.local_addr().unwrap();
    let model = OpenAi::new("m").base_url(format!("http://{address}/v1"));
    let error = respond(&model, ask("hello")).await.unwrap_err();
    assert_eq!(
        (error.kind, error.retryable, error.status),
        (ErrorKind::Model, true, None)
    );
    assert!(
        error.message.contains("connection refused"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_host_whose_name_nobody_knows_is_told_as_such() {
    // The name is reserved: no server of names knows it.
    let model = OpenAi::new("m").base_url("http://nowhere.invalid/v1");
    let error = respond(&model, ask("hello")).await.unwrap_err();
    assert!(
        error.message.contains("its name was not found"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_worth_another_attempt() {
    let half = Act::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"cho".to_vec());
    for acts in [vec![Act::Close], vec![half, Act::Close]] {
        let fake = Fake::start([acts]).await;
        let error = respond(&fake.model(), ask("hello")).await.unwrap_err();
        assert_eq!((error.kind, error.retryable), (ErrorKind::Model, true));
        assert_eq!(fake.received().len(), 1);
    }
}

/// Pitfall 2 of async-openai: it sleeps for as long as a header says.
#[tokio::test]
async fn a_wish_to_wait_is_told_and_not_slept() {
    let refusal =
        r#"{"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":null}}"#;
    let headers = [
        ("content-type", "application/json"),
        ("retry-after", "3600"),
    ];
    let fake = Fake::start([vec![reply(429, &headers, refusal)]]).await;
    let model = fake.model();
    let told = timeout(LONG, respond(&model, ask("hello"))).await;
    let error = told.expect("it sleeps").unwrap_err();
    assert_eq!(error.retry_after, Some(Duration::from_secs(3600)));
    assert_eq!(fake.received().len(), 1, "it was repeated");
}

/// Pitfall 3 of async-openai: only some shapes of a 429 count as one.
#[tokio::test]
async fn a_429_of_any_shape_is_a_rate_limit_and_is_not_repeated() {
    for body in [
        r#"{"error":{"message":"x","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#,
        r#"{"error":{"message":"x","code":429}}"#,
        r#"{"object":"error","message":"x","code":429}"#,
        r#"{"error":"x"}"#,
        r#"{"detail":"x"}"#,
        "too many requests, says the proxy",
        "",
    ] {
        for streaming in [false, true] {
            let headers = [("retry-after", "2")];
            let fake = Fake::start([vec![reply(429, &headers, body)]]).await;
            let mut request = ask("hello");
            request.stream = streaming;
            let error = respond(&fake.model(), request).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::RateLimited, "{body}");
            assert_eq!((error.retryable, error.status), (true, Some(429)), "{body}");
            assert_eq!(error.retry_after, Some(Duration::from_secs(2)), "{body}");
            assert_eq!(fake.received().len(), 1, "it was repeated");
        }
    }
}

/// Pitfall 4 of async-openai: the status is lost where the body has another shape.
#[tokio::test]
async fn the_status_decides_whatever_the_body_looks_like() {
    let bodies = [
        r#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#,
        r#"{"error":{"message":"m","code":7}}"#,
        r#"{"object":"error","message":"m","code":7}"#,
        r#"{"error":"m"}"#,
        "<html>m</html>",
        "404 page not found",
        "",
    ];
    let cases = [
        (301, ErrorKind::Model, false),
        (400, ErrorKind::InvalidInput, false),
        (401, ErrorKind::Authentication, false),
        (403, ErrorKind::Authentication, false),
        (404, ErrorKind::NotFound, false),
        (408, ErrorKind::Timeout, true),
        (409, ErrorKind::Model, true),
        (413, ErrorKind::ContextOverflow, false),
        (422, ErrorKind::InvalidInput, false),
        (500, ErrorKind::Model, true),
        (502, ErrorKind::Model, true),
        (503, ErrorKind::Model, true),
        (529, ErrorKind::Model, true),
    ];
    for (status, kind, retryable) in cases {
        let fake = Fake::start(bodies.map(|body| vec![json(status, body)])).await;
        for body in bodies {
            let error = respond(&fake.model(), ask("hello")).await.unwrap_err();
            assert_eq!(
                (&error.kind, error.retryable),
                (&kind, retryable),
                "{status} {body}"
            );
            assert_eq!(error.status, Some(status), "{body}");
            assert!(
                error.message.contains(&status.to_string()),
                "{}",
                error.message
            );
        }
        assert_eq!(fake.received().len(), bodies.len(), "{status} was repeated");
    }
}

#[tokio::test]
async fn the_status_is_told_although_the_body_never_comes() {
    let head = Act::Send(b"HTTP/1.1 503 X\r\ncontent-length: 99\r\n\r\n".to_vec());
    let fake = Fake::start([vec![head, Act::Silence]]).await;
    let model = fake.model();
    let told = timeout(LONG, respond(&model, ask("hello"))).await;
    let error = told.expect("it waits for the body").unwrap_err();
    assert_eq!((error.status, error.retryable), (Some(503), true));
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_conversation() {
    let elsewhere = Fake::json(said("gotcha")).await;
    let place = format!("{}/chat/completions", elsewhere.model().settings().base_url);
    let fake = Fake::start([vec![reply(307, &[("location", &place)], "")]]).await;
    let error = respond(&fake.model(), ask("hello")).await.unwrap_err();
    assert!(error.message.contains("redirects"), "{}", error.message);
    assert!(elsewhere.received().is_empty());
}

#[tokio::test]
async fn what_is_not_an_answer_is_malformed_and_worth_another_attempt() {
    for body in [
        "",
        "<html>hello</html>",
        "{\"choices\": [",
        "{}",
        "[]",
        "\"x\"",
        "{\"choices\":[]}",
    ] {
        for streaming in [false, true] {
            let fake = Fake::start([vec![json(200, body)]]).await;
            let mut request = ask("hello");
            request.stream = streaming;
            let error = respond(&fake.model(), request).await.unwrap_err();
            assert_eq!(
                (error.kind, error.retryable),
                (ErrorKind::Malformed, true),
                "{body}"
            );
        }
    }
}

#[tokio::test]
async fn an_answer_beyond_its_bound_is_refused() {
    let long = said(&"x".repeat(5_000)).to_string();
    let fake = Fake::start([vec![json(200, &long)]]).await;
    let model = fake.model().max_response_bytes(4_000);
    let error = respond(&model, ask("hello")).await.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::TooLarge, false));
    assert!(error.message.contains("4000 bytes"), "{}", error.message);
    assert!(respond(&fake.model(), ask("hello")).await.is_ok());
}

#[tokio::test]
async fn dropping_the_call_closes_its_connection() {
    let event = piece("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n");
    let streaming = vec![stream_head(), event, Act::Silence];
    for acts in [vec![Act::Silence], streaming] {
        let mut fake = Fake::start([acts]).await;
        let model = fake.model();
        let mut request = ask("hello");
        request.stream = true;
        let call = tokio::spawn(async move { respond(&model, request).await });
        fake.request_came().await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        timeout(LONG, fake.client_left()).await.unwrap();
    }
}

#[tokio::test]
async fn connections_are_used_again_after_whole_answers() {
    let chunk =
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n";
    let streamed = vec![
        stream_head(),
        piece(chunk),
        piece("data: [DONE]\n\n"),
        stream_end(),
    ];
    let fake = Fake::start([vec![json(200, &said("a").to_string())], streamed]).await;
    let model = fake.model();
    respond(&model, ask("one")).await.unwrap();
    for _ in 0..3 {
        stream(&model, ask("more")).await.0.unwrap();
    }
    assert_eq!((fake.received().len(), fake.connections()), (4, 1));
}

#[tokio::test]
async fn a_missing_key_is_known_before_anything_is_sent() {
    let fake = Fake::json(said("x")).await;
    let key = ghostlight::models::Secret::variable("GHOSTLIGHT_NO_SUCH_VARIABLE");
    let error = respond(&fake.model().api_key(key), ask("hello"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.retryable),
        (ErrorKind::Authentication, false)
    );
    assert!(fake.received().is_empty());
}
