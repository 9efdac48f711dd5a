//! Pages of other sites do not get in.

use crate::desk::Desk;
use ghostlight_actors::actor::SystemOptions;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_keys_answers_under_the_names_of_this_machine_alone() {
    let desk = Desk::open().await;
    let ask =
        |host: &str| format!("GET /ready HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    for (host, status) in [
        ("localhost", 200),
        ("localhost:8080", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.1:9", 200),
        ("[::1]:9", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:8080", 421),
        ("", 421),
    ] {
        let answer = desk.client.send(ask(host).as_bytes()).await.unwrap();
        assert_eq!(answer.status, status, "{host}");
    }
    let two = "GET /ready HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n";
    assert_eq!(desk.client.send(two.as_bytes()).await.unwrap().status, 400);
    let none = "GET /ready HTTP/1.1\r\nConnection: close\r\n\r\n";
    assert_eq!(desk.client.send(none.as_bytes()).await.unwrap().status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_are_refused_but_for_those_that_are_let_in() {
    let desk = Desk::start(SystemOptions::default(), |server, _| {
        server.origin("https://good.example")
    })
    .await;
    let own = format!("Origin: http://{}\r\n", desk.client.to);
    for (origin, status) in [
        (own.as_str(), 200),
        ("Origin: https://good.example\r\n", 200),
        ("Origin: https://evil.example\r\n", 403),
        ("Origin: http://good.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Origin: https://good.example.evil.example\r\n", 403),
    ] {
        let answer = desk
            .client
            .request("GET", "/api/v1/runs", origin, None)
            .await;
        assert_eq!(answer.status, status, "{origin}");
        let open = answer.headers.get("access-control-allow-origin");
        assert_eq!(
            open.is_some(),
            origin.contains("https://good.example\r"),
            "{origin}"
        );
    }
    // Of two origins the second may be the true one.
    let two = format!("{own}Origin: https://evil.example\r\n");
    let answer = desk.client.request("GET", "/api/v1/runs", &two, None).await;
    answer.is(400);
    let desk = Desk::open().await;
    let answer = desk.client.request(
        "OPTIONS",
        "/api/v1/runs",
        "Origin: https://a.example\r\n",
        None,
    );
    let answer = answer.await;
    assert!(
        !answer.headers.contains_key("access-control-allow-origin"),
        "CORS is off: {answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_an_id_its_own_where_that_is_one() {
    let desk = Desk::open().await;
    let given = desk
        .client
        .request("GET", "/health", "X-Request-Id: abc-1\r\n", None)
        .await;
    assert_eq!(given.headers["x-request-id"], "abc-1");
    let long = format!("X-Request-Id: {}\r\n", "x".repeat(65));
    for odd in ["X-Request-Id: a b\r\n", "X-Request-Id: \r\n", &long] {
        let made = desk.client.request("GET", "/health", odd, None).await;
        assert_eq!(made.headers["x-request-id"].len(), 24, "{odd}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_whose_body_was_not_read_says_that_its_connection_ends() {
    let desk = Desk::locked().await;
    let head = "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    let refused = desk.client.send(head.as_bytes()).await.unwrap().is(401);
    assert_eq!(refused.headers["connection"], "close");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_kept_by_no_cache_and_embedded_by_no_page_of_another_site() {
    let desk = Desk::open().await;
    let run = desk.begin(&desk.client, "s", "well").await;
    let file = format!("/api/v1/runs/{run}");
    for path in [
        "/api/v1/runs",
        file.as_str(),
        "/health",
        "/openapi.json",
        "/metrics",
        "/v1/models",
        "/v1/models/none",
        "/none",
    ] {
        let headers = desk.client.get(path).await.headers;
        assert_eq!(headers["cache-control"], "no-store", "{path}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        let policy = &headers["cross-origin-resource-policy"];
        assert_eq!(policy, "same-origin", "{path}");
    }
}
