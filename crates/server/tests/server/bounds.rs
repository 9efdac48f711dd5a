//! Nobody takes the server's room from the others: neither one subject, nor strangers with the bodies that they send.

use ghostlight_actors::actor::SystemOptions;
use ghostlight_server::{Scope, ServerOptions};

use crate::{
    client::{Answer, Client},
    desk::Desk,
    webhooks::{now_s, of_ghostlight},
};

const RUN: [Scope; 2] = [Scope::Read, Scope::Run];

/// A server with keys and these bounds.
async fn bounded(set: impl FnOnce(&mut ServerOptions)) -> Desk {
    let mut limits = ServerOptions::default();
    set(&mut limits);
    let set_up = |server: ghostlight_server::Server, keys: &ghostlight_server::KeyFile| {
        server.keys(keys.clone()).options(limits)
    };
    Desk::start(SystemOptions::default(), set_up).await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_subject_with_many_streams_leaves_room_for_the_others() {
    let desk = bounded(|limits| {
        limits.max_subject_requests = 3;
        limits.max_connections = 6;
    })
    .await;
    let [ada, eve] = ["ada", "eve"].map(|name| desk.client_of(name, &RUN));
    let run = desk.begin(&ada, "s", "hang").await;
    let path = format!("/api/v1/runs/{run}/events");
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(ada.events(&path, None, None).await);
    }
    // The connections of those that are refused are not kept, so that there is room for others.
    for _ in 0..9 {
        let refused = ada.send(ada.head("GET", &path, "\r\n").as_bytes()).await;
        let refused = refused.unwrap().is(429);
        assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    }
    desk.say(&eve, "s", "well").await.is(200);
    drop(streams);
    let began = std::time::Instant::now();
    while ada.get("/api/v1/me").await.status == 429 {
        assert!(began.elapsed() < crate::client::PATIENCE);
        tokio::task::yield_now().await;
    }
}

/// The answer to a request of whose body nothing is sent.
async fn without_its_body(client: &Client, path: &str, more: &str, length: usize) -> Answer {
    let more = format!("{more}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    let head = client.head("POST", path, &more);
    client.send(head.as_bytes()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_body_of_a_stranger_is_not_waited_for() {
    let desk = bounded(|_| {}).await;
    let stranger = &desk.client;
    let late = of_ghostlight(now_s() - 600, "{}");
    for (path, more, status) in [
        ("/api/v1/sessions/desk/s/turns", "", 401),
        ("/v1/messages", "X-Api-Key: glk_x\r\n", 401),
        ("/hooks/desk/mine", "", 401),
        ("/hooks/desk/mine", late.as_str(), 401),
        ("/hooks/desk/none", "", 404),
        ("/sign-in", "", 413),
        #[cfg(feature = "deliveries")]
        ("/messengers/desk/chat", "", 401),
    ] {
        let answer = without_its_body(stranger, path, more, 7_900_000).await;
        assert_eq!(answer.status, status, "{path} {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_only_they_can_prove_have_little_room_together() {
    let desk = bounded(|limits| limits.max_unverified_bytes = 1_000).await;
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(1_000));
    let post = async |body: &str| {
        let headers = of_ghostlight(now_s(), body);
        let (path, body) = ("/hooks/desk/mine", Some(body));
        desk.client.request("POST", path, &headers, body).await
    };
    let refused = post(&long).await.is(503);
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    for _ in 0..3 {
        // What was proven takes no room any more.
        post(&format!(r#"{{"text":"{}"}}"#, "x".repeat(900)))
            .await
            .is(200);
    }
}
