//! A page for browsers: its files, the token in its first address, and the cookie that keeps a key.

use ghostlight_actors::actor::SystemOptions;
use ghostlight_server::{PageFile, Scope};
use serde_json::json;

use crate::desk::{Desk, text_at};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const FILES: &[PageFile] = &[
    PageFile {
        path: "/",
        media_type: "text/html; charset=utf-8",
        content: "<!doctype html>",
    },
    PageFile {
        path: "/app.js",
        media_type: "text/javascript",
        content: "export {};",
    },
];

async fn looked_at() -> Desk {
    Desk::start(SystemOptions::default(), |server, _| {
        server.token(TOKEN).page(FILES)
    })
    .await
}

/// What a browser sends of a `Set-Cookie`.
fn cookie(set: &str) -> String {
    format!("Cookie: other=1; {}\r\n", set.split(';').next().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_a_page_are_for_everybody_and_let_browsers_do_nothing_else() {
    let desk = looked_at().await;
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/app.js", "text/javascript"),
    ] {
        let file = desk.client.get(path).await.is(200);
        assert_eq!(file.headers["content-type"], kind);
        let policy = &file.headers["content-security-policy"];
        for rule in [
            "default-src 'none'",
            "script-src 'self';",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(rule), "{rule} in {policy}");
        }
        assert_eq!(file.headers["x-content-type-options"], "nosniff");
        assert_eq!(file.headers["referrer-policy"], "no-referrer");
        let kept = format!("If-None-Match: {}\r\n", file.headers["etag"]);
        let again = desk.client.request("GET", path, &kept, None).await.is(304);
        assert!(again.body.is_empty());
    }
    desk.client.get("/app.css").await.is(404);
    let document = desk.client.get("/openapi.json").await.is(200).json();
    assert!(document["paths"].get("/app.js").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_everything_and_without_it_nothing_is_open() {
    let desk = looked_at().await;
    desk.client.get("/api/v1/runs").await.is(401);
    let mut with = desk.client.clone();
    with.key = Some(format!("{}x", &TOKEN[1..]));
    with.get("/api/v1/runs").await.is(401);
    with.key = Some(TOKEN.to_owned());
    let me = with.get("/api/v1/me").await.is(200).json();
    assert_eq!(me["operator"], true);
    with.get("/api/v1/supervision").await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_the_first_address_becomes_a_cookie_and_leaves_the_address() {
    let desk = looked_at().await;
    let wrong = desk.client.get("/?token=wrong").await.is(303);
    assert!(!wrong.headers.contains_key("set-cookie"));
    let first = desk.client.get(&format!("/?token={TOKEN}")).await.is(303);
    assert_eq!(first.headers["location"], "/");
    assert_eq!(first.headers["referrer-policy"], "no-referrer");
    let set = &first.headers["set-cookie"];
    let port = desk.client.to.port();
    assert!(set.starts_with(&format!("ghostlight-{port}=")), "{set}");
    for rule in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(set.contains(rule), "{rule} in {set}");
    }
    let cookie = cookie(set);
    let runs = desk.client.request("GET", "/api/v1/runs", &cookie, None);
    runs.await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_site_signs_nobody_in_with_a_key_of_its_own() {
    let desk = looked_at().await;
    let path = format!("/?token={TOKEN}");
    for (site, is_kept) in [
        ("cross-site", false),
        ("same-site", false),
        ("none", true),
        ("same-origin", true),
    ] {
        let led = format!("Sec-Fetch-Site: {site}\r\nSec-Fetch-Mode: navigate\r\n");
        let answer = desk.client.request("GET", &path, &led, None).await.is(303);
        assert_eq!(answer.headers.contains_key("set-cookie"), is_kept, "{site}");
        assert_eq!(answer.headers["location"], "/");
    }
}

/// There browsers do not say who led them, and send no cookie by which a person who is signed in could be told.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_signs_nobody_in_at_another_machine_over_plain_http() {
    let desk = Desk::start(SystemOptions::default(), |server, _| {
        let server = server.token(TOKEN).page(FILES);
        ["desk.example", "localhost", "[::1]"]
            .into_iter()
            .fold(server, |server, name| server.host(name))
    })
    .await;
    for (host, site, is_kept) in [
        ("desk.example", "", false),
        ("desk.example:8080", "", false),
        // As behind a proxy that speaks TLS.
        ("desk.example", "Sec-Fetch-Site: none\r\n", true),
        ("desk.example", "Sec-Fetch-Site: cross-site\r\n", false),
        ("localhost:8080", "", true),
        ("[::1]:8080", "", true),
    ] {
        let head = format!(
            "GET /?token={TOKEN} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{site}\r\n"
        );
        let answer = desk.client.send(head.as_bytes()).await.unwrap().is(303);
        assert_eq!(
            answer.headers.contains_key("set-cookie"),
            is_kept,
            "{host} {site}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_opens_nothing_for_a_page_of_another_site_nor_at_another_port() {
    let desk = looked_at().await;
    let first = desk.client.get(&format!("/?token={TOKEN}")).await.is(303);
    let cookie = cookie(&first.headers["set-cookie"]);
    let foreign = format!("{cookie}Origin: https://evil.example\r\n");
    let body = json!({ "text": "well" }).to_string();
    let path = "/api/v1/sessions/desk/s/turns";
    let refused = desk.client.request("POST", path, &foreign, Some(&body));
    refused.await.is(403);
    let elsewhere = cookie.replace("ghostlight-", "ghostlight-1");
    let refused = desk.client.request("GET", "/api/v1/runs", &elsewhere, None);
    refused.await.is(401);
    let rebound = "GET /api/v1/runs HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n";
    let rebound = format!("{rebound}{cookie}\r\n");
    let refused = desk.client.send(rebound.as_bytes()).await.unwrap();
    refused.is(421);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_with_a_key_and_out_again() {
    let desk = Desk::locked().await;
    let ada = desk.client_of("ada", &[Scope::Read]);
    let body = json!({ "key": "glk_000000000000_x" });
    desk.client.post("/sign-in", body).await.is(401);
    let body = json!({ "key": ada.key });
    let signed = desk.client.post("/sign-in", body).await.is(204);
    let cookie = cookie(&signed.headers["set-cookie"]);
    let me = desk
        .client
        .request("GET", "/api/v1/me", &cookie, None)
        .await;
    let me = me.is(200).json();
    assert_eq!(text_at(&me, "/subject"), "ada");
    assert_eq!(me["scopes"], json!(["read"]));
    // She may look and no more, with the cookie as with the key.
    let cancel = desk
        .client
        .request("POST", "/api/v1/runs/x/cancel", &cookie, None);
    cancel.await.is(403);
    // A cookie whose key is revoked is as none: the page is still there, to sign in again.
    let key = desk.keys.list().unwrap().remove(0);
    desk.keys.revoke(&key.id).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    let out = desk
        .client
        .request("GET", "/api/v1/me", &cookie, None)
        .await;
    out.is(401);
    let health = desk.client.request("GET", "/health", &cookie, None).await;
    health.is(200);
    let out = desk
        .client
        .request("POST", "/sign-out", &cookie, None)
        .await;
    assert!(out.is(204).headers["set-cookie"].contains("Max-Age=0"));
}
