//! A server that stops accepts no more, ends its streams, and loses nothing.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::net::TcpStream;

use crate::desk::{Desk, text_at};

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_streams_and_waiting_requests_at_once_and_the_runs_go_on() {
    let mut desk = Desk::open().await;
    let run = desk
        .begin(&desk.client, "s", "ask what is your name?")
        .await;
    let hanging = desk.begin(&desk.client, "h", "hang").await;
    let path = format!("/api/v1/runs/{hanging}/events");
    let mut stream = desk.client.events(&path, None, None).await;
    assert_eq!(stream.next().await.unwrap().name, "run_started");
    let client = desk.client.clone();
    let waits = tokio::spawn(async move {
        let body = json!({ "text": "hang" });
        client
            .post("/api/v1/sessions/desk/w/turns?wait=600", body)
            .await
    });
    // It waits when its turn is recorded.
    while desk
        .system
        .sessions()
        .log(&ghostlight_actors::vocabulary::SessionId {
            team: "desk".into(),
            key: "w".into(),
        })
        .await
        .unwrap()
        .turns
        .is_empty()
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let began = Instant::now();
    desk.stop().await;
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    while stream.next().await.is_some() {}
    let refused = waits.await.unwrap().is(503);
    assert_eq!(
        text_at(&refused.json(), "/type"),
        "urn:ghostlight:problem:stopping"
    );
    assert!(
        TcpStream::connect(desk.client.to).await.is_err(),
        "no more is accepted"
    );
    // The System is not the server: its runs go on.
    let run = desk.system.run(run.parse().unwrap());
    let open = loop {
        let open = run.questions().await.unwrap();
        if !open.is_empty() {
            break open;
        }
    };
    run.answer(open[0].1, json!("Ada")).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "answered \"Ada\"");
}
