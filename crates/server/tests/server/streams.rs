//! A stream is a reading of recorded events: it can be broken off anywhere and goes on exactly there.

use serde_json::json;

use crate::{
    client::Sent,
    desk::{Desk, text_at},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_broken_off_after_any_event_goes_on_with_the_next() {
    let desk = Desk::open().await;
    let run = desk.begin(&desk.client, "s", "count 20").await;
    let path = format!("/api/v1/runs/{run}/events");
    let mut whole = desk.client.events(&path, None, None).await;
    assert_eq!(
        (whole.status, whole.headers["content-type"].as_str()),
        (200, "text/event-stream")
    );
    let whole = whole.recorded().await;
    assert_eq!(whole.last().unwrap().name, "run_ended");
    for (cut, last) in whole.iter().enumerate() {
        let id = last.id.as_deref();
        let mut rest = desk.client.events(&path, id, None).await;
        if cut + 1 == whole.len() {
            assert_eq!(rest.status, 204, "a browser is told not to come back");
            continue;
        }
        assert_eq!(rest.recorded().await, whole[cut + 1..], "after event {cut}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_cut_off_again_and_again_while_the_run_works_sees_each_event_once() {
    let desk = Desk::open().await;
    let run = desk.begin(&desk.client, "s", "count 60").await;
    let path = format!("/api/v1/runs/{run}/events");
    let mut seen: Vec<Sent> = Vec::new();
    while seen.last().is_none_or(|sent| sent.name != "run_ended") {
        let last = seen.last().and_then(|sent| sent.id.clone());
        let mut events = desk.client.events(&path, last.as_deref(), None).await;
        // Each connection is dropped after a few events.
        for _ in 0..4 {
            match events.next().await {
                Some(sent) if sent.id.is_some() => seen.push(sent),
                Some(_) => {}
                None => break,
            }
        }
    }
    let whole = desk.client.events(&path, None, None).await.recorded().await;
    assert_eq!(seen, whole);
    let ticks = whole.iter().filter(|sent| sent.name == "custom");
    let ticks: Vec<String> = ticks
        .map(|sent| text_at(&sent.data, "/data/data"))
        .collect();
    assert_eq!(ticks, (0..60).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_can_be_said_and_followed_in_one_request_and_sent_again() {
    let desk = Desk::open().await;
    let path = "/api/v1/sessions/desk/s/turns";
    let body = json!({ "text": "count 3", "id": "once" });
    let first = desk
        .client
        .events(path, None, Some(body.clone()))
        .await
        .recorded()
        .await;
    let again = desk
        .client
        .events(path, None, Some(body))
        .await
        .recorded()
        .await;
    assert_eq!(first, again);
    assert_eq!(first.first().unwrap().name, "run_started");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_a_delegated_run_has_its_events_alone_and_ends_with_it() {
    let desk = Desk::open().await;
    let said = desk.say(&desk.client, "s", "delegate delegate well").await;
    let said = said.json();
    let run = text_at(&said, "/run/id");
    let tree = desk
        .client
        .get(&format!("/api/v1/runs/{run}/tree"))
        .await
        .is(200)
        .json();
    let child = text_at(&tree, "/1/id");
    let path = format!("/api/v1/runs/{child}/events");
    let events = desk.client.events(&path, None, None).await.recorded().await;
    let of: Vec<String> = events
        .iter()
        .map(|sent| text_at(&sent.data, "/run"))
        .collect();
    assert!(
        !of.contains(&run) && of.contains(&text_at(&tree, "/2/id")),
        "{events:?}"
    );
    let (first, last) = (of.first().unwrap(), of.last().unwrap());
    assert_eq!((first, last), (&child, &child));
    assert_eq!(events.last().unwrap().name, "run_ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_streams_are_the_same_events() {
    let desk = Desk::open().await;
    let said = desk
        .say(&desk.client, "s", "delegate count 7")
        .await
        .is(200)
        .json();
    let path = format!("/api/v1/runs/{}/events", text_at(&said, "/run/id"));
    let streamed = desk.client.events(&path, None, None).await.recorded().await;
    let (mut paged, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let page = desk
            .client
            .get(&format!("{path}?limit=3&after={after}"))
            .await
            .is(200)
            .json();
        paged.extend(page["events"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    let streamed: Vec<_> = streamed.into_iter().map(|sent| sent.data).collect();
    assert_eq!(paged, streamed);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_id_of_an_event_is_refused() {
    let desk = Desk::open().await;
    let said = desk.say(&desk.client, "s", "well").await.is(200).json();
    let path = format!("/api/v1/runs/{}/events", text_at(&said, "/run/id"));
    for id in [
        "-1",
        "x",
        "1.x",
        "99999999999999999999999",
        "1; drop table runs",
    ] {
        let events = desk.client.events(&path, Some(id), None).await;
        assert_eq!(events.status, 422, "{id}");
    }
}
