//! Attempts to reach what is not public, to wait for ever, and to fill memory.

use std::{
    collections::HashMap,
    io::Write as _,
    net::IpAddr,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use ghostlight_tools::{
    Web, WebSpec,
    web::{Resolver, SearXng, SearchProvider},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{call, call_as, server::Server, tool};

/// A server that answers by the path.
async fn serve() -> Server {
    Server::start(answer).await
}

/// The address of a path of it, by a name that the tests' resolver knows.
pub(super) fn url(server: &Server, path: &str) -> String {
    format!("http://public.test:{}{path}", server.port)
}

async fn answer(mut stream: TcpStream, request: String, port: u16) -> std::io::Result<()> {
    let target = request.split(' ').nth(1).unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let whole = |status: &str, headers: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body].concat()
    };
    let html = "content-type: text/html\r\n";
    let bytes = match path {
        "/robots.txt" => whole("200 OK", "", b"User-agent: *\nDisallow: /secret"),
        "/page" => whole(
            "200 OK",
            html,
            b"<h1>Hello</h1><script>steal()</script><p>A <a href='/x'>link</a></p>",
        ),
        "/go" => whole("302 Found", &format!("location: {query}\r\n"), b""),
        "/keep" => whole(
            "307 Temporary Redirect",
            &format!("location: {query}\r\n"),
            b"",
        ),
        "/circle" => whole(
            "302 Found",
            &format!("location: http://public.test:{port}/circle\r\n"),
            b"",
        ),
        "/bomb" => {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            let zeros = vec![b'z'; 1 << 20];
            for _ in 0..16 {
                packed.write_all(&zeros)?;
            }
            whole(
                "200 OK",
                "content-type: text/plain\r\ncontent-encoding: gzip\r\n",
                &packed.finish()?,
            )
        }
        "/broken" => whole("200 OK", "content-encoding: gzip\r\n", b"not gzip at all"),
        "/brotli" => whole("200 OK", "content-encoding: br\r\n", b"xxxx"),
        "/twice" => whole("200 OK", "content-encoding: gzip, gzip\r\n", b"xxxx"),
        "/deep" => whole("200 OK", html, "<div><b>".repeat(60_000).as_bytes()),
        "/binary" => whole("200 OK", "content-type: image/png\r\n", b"\x89PNG\0\0"),
        "/lies" => whole("200 OK", "content-type: text/plain\r\n", b"text\0\x01\x02"),
        "/long" => whole(
            "200 OK",
            "content-type: text/plain\r\n",
            "0123456789".repeat(5_000).as_bytes(),
        ),
        "/empty" => whole("204 No Content", "", b""),
        "/wrong" => whole("500 Internal Server Error", "", b"it broke"),
        "/nonsense" => b"SSH-2.0-OpenSSH\r\n\r\n".to_vec(),
        "/short" => b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort".to_vec(),
        "/search" => whole(
            "200 OK",
            "content-type: application/json\r\n",
            SEARXNG.as_bytes(),
        ),
        "/web/search" => whole(
            "200 OK",
            "content-type: application/json\r\n",
            BRAVE.as_bytes(),
        ),
        "/endless" | "/drip" | "/headers" => {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n")
                .await?;
            if path != "/headers" {
                stream.write_all(b"\r\n").await?;
            }
            loop {
                match path {
                    "/endless" => stream.write_all(&[b'e'; 16 << 10]).await?,
                    "/headers" => {
                        stream
                            .write_all(format!("x-{0}: {0}\r\n", "h".repeat(900)).as_bytes())
                            .await?
                    }
                    _ => {
                        stream.write_all(b"d").await?;
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        }
        "/silent" => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Vec::new()
        }
        _ => whole("404 Not Found", "", b"nothing"),
    };
    stream.write_all(&bytes).await?;
    stream.shutdown().await
}

const SEARXNG: &str = r#"{"results": [
    {"title": "One\u0007", "url": "https://one.example/", "content": "first"},
    {"title": "Bad", "url": "javascript:alert(1)", "content": "x"},
    {"title": 7, "url": "https://two.example/"}], "more": true}"#;
const BRAVE: &str =
    r#"{"web": {"results": [{"title": "B", "url": "https://b.example/", "description": "text"}]}}"#;

/// Names with their addresses, in the order in which they are asked for; the last stays.
struct Names {
    table: HashMap<&'static str, Vec<Vec<IpAddr>>>,
    asked: Mutex<HashMap<String, usize>>,
}

impl Resolver for Names {
    fn resolve(
        &self,
        host: String,
    ) -> Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>> {
        let mut asked = self.asked.lock();
        let number = asked.entry(host.clone()).or_default();
        let found = self
            .table
            .get(host.as_str())
            .map(|turns| turns[(*number).min(turns.len() - 1)].clone());
        *number += 1;
        Box::pin(async move { found.ok_or_else(|| std::io::Error::other("no such host")) })
    }
}

fn names() -> Names {
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let here = ip("127.0.0.1");
    let table = [
        ("public.test", vec![vec![here]]),
        ("other.test", vec![vec![here]]),
        ("loop.test", vec![vec![ip("127.0.0.2")]]),
        ("private.test", vec![vec![ip("10.0.0.1")]]),
        ("metadata.test", vec![vec![ip("169.254.169.254")]]),
        ("six.test", vec![vec![ip("::1")]]),
        ("mapped.test", vec![vec![ip("::ffff:192.168.0.1")]]),
        ("unique.test", vec![vec![ip("fd00:ec2::254")]]),
        ("mixed.test", vec![vec![here, ip("10.0.0.1")]]),
        // At first public, and then not: what a rebinding name server says.
        ("rebind.test", vec![vec![here], vec![ip("10.0.0.1")]]),
        ("empty.test", vec![vec![]]),
    ];
    Names {
        table: table.into(),
        asked: Mutex::default(),
    }
}

fn settings(more: Value) -> WebSpec {
    let mut all = json!({
        "schemes": ["http", "https"], "ports": [], "allow_addresses": ["127.0.0.1"],
        "timeout_s": 3, "robots": false, "max_bytes": 100_000,
    });
    all.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    serde_json::from_value(all).unwrap()
}

pub(super) fn web(more: Value) -> Web {
    Web::with_resolver(settings(more), names()).unwrap()
}

pub(super) async fn fetch(web: &Web, url: &str) -> Result<String, String> {
    call(&tool(web, "web_fetch"), json!({ "url": url })).await
}

/// Every way to write an address that is not public.
const PRIVATE: &[&str] = &[
    "127.0.0.2",
    "127.2",
    "127.0.2",
    "0x7f.0.0.2",
    "0x7f000002",
    "2130706434",
    "017700000002",
    "0177.0.0.2",
    "127.0.0.0x2",
    "0",
    "0.0.0.0",
    "0x0",
    "10.0.0.1",
    "10.1",
    "0xa000001",
    "167772161",
    "012.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "3232235777",
    "0xc0a80101",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.170.2",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "192.88.99.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::127.0.0.2]",
    "[::ffff:127.0.0.2]",
    "[::ffff:7f00:2]",
    "[0:0:0:0:0:ffff:10.0.0.1]",
    "[::ffff:0:10.0.0.1]",
    "[fe80::1]",
    "[febf::1]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[ff02::1]",
    "[ff0e::1]",
    "[64:ff9b::10.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::1]",
    "[2002:7f00:2::]",
    "[2002:a00:1::1]",
    "[2001::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[100::1]",
    "[5f00::1]",
    "[4000::1]",
    // Digits that are read as others, and full stops.
    "①②⑦.⓪.⓪.②",
    "１２７.0.0.2",
    "127。0。0。2",
    "127.0.0.2.",
    "%31%32%37.0.0.2",
];

#[tokio::test]
async fn no_way_to_write_an_address_reaches_what_is_not_public() {
    let server = serve().await;
    let web = web(json!({}));
    for host in PRIVATE {
        let port = server.port;
        for url in [
            format!("http://{host}:{port}/page"),
            format!("http://public.test:{port}/go?http://{host}:{port}/page"),
        ] {
            let refused = fetch(&web, &url).await.unwrap_err();
            let known = ["reserved one", "cannot be read", "leads on to no address"];
            assert!(
                known.iter().any(|why| refused.contains(why)),
                "{url}: {refused}"
            );
        }
    }
    assert!(PRIVATE.len() >= 70);
    assert!(
        server
            .asked()
            .iter()
            .all(|request| request.starts_with("GET /go?")),
        "a page was asked for"
    );
}

#[tokio::test]
async fn names_that_lead_to_private_addresses_are_refused_also_after_a_redirect() {
    let server = serve().await;
    let web = web(json!({}));
    for host in [
        "loop", "private", "metadata", "six", "mapped", "unique", "mixed",
    ] {
        let direct = format!("http://{host}.test:{}/page", server.port);
        let redirected = url(&server, &format!("/go?{direct}"));
        for url in [direct, redirected] {
            let refused = fetch(&web, &url).await.unwrap_err();
            assert!(refused.contains("private network"), "{url}: {refused}");
        }
    }
    assert!(fetch(&web, "http://empty.test/").await.is_err());
    assert!(fetch(&web, "http://nobody.test/").await.is_err());
    // The addresses of a connection are those that were looked at: the name is asked for once a connection.
    let url = format!("http://rebind.test:{}/page", server.port);
    assert!(fetch(&web, &url).await.unwrap().contains("Hello"));
    assert!(
        fetch(&web, &url)
            .await
            .unwrap_err()
            .contains("private network")
    );
    let asked = server
        .asked()
        .into_iter()
        .filter(|request| request.contains("GET /page"))
        .count();
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn addresses_that_are_not_asked_for_are_refused_before_a_connection() {
    let server = serve().await;
    let port = server.port;
    let strict = web(
        json!({ "hosts": ["*.test"], "deny_hosts": ["other.test"], "ports": [port], "schemes": ["http"] }),
    );
    for url in [
        "file:///etc/passwd".to_owned(),
        "FILE:///etc/passwd".to_owned(),
        "ftp://public.test/".to_owned(),
        "gopher://public.test/_x".to_owned(),
        "data:text/html,hi".to_owned(),
        "javascript:alert(1)".to_owned(),
        "https://public.test/".to_owned(),
        "//public.test/".to_owned(),
        "public.test".to_owned(),
        String::new(),
        "http://".to_owned(),
        "http://public.test/".to_owned(),
        "http://public.test:22/".to_owned(),
        format!("http://public.test:{}/", 70_000),
        format!("http://user:password@public.test:{port}/page"),
        format!("http://public.test@evil.example:{port}/page"),
        format!("http://public.test.evil.example:{port}/page"),
        format!("http://evil.example#.test:{port}/page"),
        format!("http://evil.example/.test:{port}/page"),
        format!("http://test:{port}/page"),
        format!("http://other.test:{port}/page"),
        format!("http://OTHER.TEST.:{port}/page"),
        format!("http://%6fther.test:{port}/page"),
        format!("http://public.test:{port}/pa\nge"),
        format!("http://public.test:{port}/\0"),
        format!("http://public.test:{port}/{}", "x".repeat(9_000)),
        format!("http://public.test:{port}/go?http://other.test:{port}/page"),
        format!("http://public.test:{port}/go?//other.test:{port}/page"),
        format!("http://public.test:{port}/go?https://public.test:{port}/page"),
        format!("http://public.test:{port}/go?file:///etc/passwd"),
        format!("http://public.test:{port}/go?http://a:b@public.test:{port}/page"),
    ] {
        let refused = fetch(&strict, &url).await.unwrap_err();
        assert!(
            !refused.contains("Hello") && !refused.contains("root:x"),
            "{url}: {refused}"
        );
        assert!(!refused.contains("password@"), "{refused}");
    }
    assert!(
        server
            .asked()
            .iter()
            .all(|request| !request.starts_with("GET /page"))
    );
    assert!(
        fetch(&strict, &url(&server, "/page"))
            .await
            .unwrap()
            .contains("# Hello\n\nA [link](/x)")
    );
}

#[tokio::test]
async fn no_answer_is_endless_or_makes_a_call_wait() {
    let server = serve().await;
    let web = web(json!({}));
    for (path, told) in [
        ("/bomb", "of 1000"),
        ("/broken", "compression is broken"),
        ("/brotli", "was not asked for"),
        ("/twice", "was not asked for"),
        ("/endless", "of 1000"),
        ("/drip", "broke off"),
        ("/silent", "did not answer in time"),
        ("/headers", "failed"),
        ("/nonsense", "failed"),
        ("/short", "broke off"),
        ("/circle", "5 redirects"),
        ("/deep", "200 OK"),
        ("/binary", "6 bytes that are not text"),
        ("/lies", "not text"),
        ("/wrong", "it broke"),
        ("/empty", "204"),
        ("/missing", "404"),
        ("/go?", ""),
        ("/go?http://[", "leads on to no address"),
    ] {
        let began = Instant::now();
        let told_by = fetch(&web, &url(&server, path)).await;
        let text = told_by.unwrap_or_else(|failed| failed);
        assert!(text.contains(told), "{path}: {text:.300}");
        assert!(text.len() < 90_000, "{path}: {} bytes", text.len());
        assert!(
            began.elapsed() < Duration::from_secs(8),
            "{path}: {:?}",
            began.elapsed()
        );
    }
    let long = tool(&web, "web_fetch");
    let first = call(&long, json!({ "url": url(&server, "/long") }))
        .await
        .unwrap();
    assert!(
        first.contains("go on with from 20000, of 50000"),
        "{first:.200}"
    );
    let last = call(
        &long,
        json!({ "url": url(&server, "/long"), "from": 49_990 }),
    )
    .await
    .unwrap();
    assert!(last.ends_with("\n\n0123456789"));
}

#[tokio::test]
async fn a_request_sends_only_what_it_may_and_nothing_to_others() {
    let server = serve().await;
    let web = web(json!({ "methods": ["GET", "POST"] }));
    let request = tool(&web, "web_request");
    let go = async |number: u32, arguments: Value| call_as(&request, number, arguments).await;
    for (name, value) in [
        ("Host", "evil.example"),
        ("content-length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("connection", "keep-alive"),
        ("x y", "1"),
        ("x", "a\r\nhost: evil"),
        ("x\r\nhost", "evil"),
        ("x", "\0"),
    ] {
        let refused = go(
            1,
            json!({ "url": url(&server, "/page"), "method": "GET", "headers": { name: value } }),
        )
        .await;
        assert!(refused.is_err(), "{name}");
    }
    for method in [
        "DELETE",
        "PUT",
        "TRACE",
        "CONNECT",
        "GET / HTTP/1.1\r\nx: y",
        "",
    ] {
        let refused = go(1, json!({ "url": url(&server, "/page"), "method": method })).await;
        assert!(refused.unwrap_err().contains("is none of"), "{method}");
    }
    assert!(server.asked().is_empty());
    let secret = json!({ "authorization": "Bearer s3cret", "content-type": "text/plain" });
    let sent =
        json!({ "url": url(&server, "/page"), "method": "post", "headers": secret, "body": "hi" });
    for _ in 0..2 {
        assert!(go(7, sent.clone()).await.unwrap().contains("Hello"));
    }
    let keys: Vec<String> = server
        .asked()
        .iter()
        .filter_map(|request| {
            Some(
                request
                    .lines()
                    .find(|line| line.starts_with("idempotency-key"))?
                    .to_owned(),
            )
        })
        .collect();
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
    // Headers for one server do not reach another, nor does a body.
    let other = format!("http://other.test:{}/page", server.port);
    let away = json!({ "url": url(&server, &format!("/go?{other}")), "method": "POST", "headers": secret, "body": "hi" });
    go(8, away).await.unwrap();
    let asked = server.asked();
    let last = asked.last().unwrap();
    assert!(
        last.starts_with("GET /page") && !last.contains("s3cret"),
        "{last}"
    );
    let kept =
        json!({ "url": url(&server, &format!("/keep?{other}")), "method": "POST", "body": "hi" });
    assert!(
        go(9, kept)
            .await
            .unwrap_err()
            .contains("to which the body is not sent")
    );
    let same = json!({ "url": url(&server, "/keep?/page"), "method": "POST", "headers": secret, "body": "hi" });
    go(10, same).await.unwrap();
    let asked = server.asked();
    let last = asked.last().unwrap();
    assert!(
        last.starts_with("POST /page") && last.contains("s3cret"),
        "{last}"
    );
}

#[tokio::test]
async fn what_a_site_asks_of_robots_is_honoured_by_setting() {
    let server = serve().await;
    let polite = web(json!({ "robots": true }));
    assert!(fetch(&polite, &url(&server, "/page")).await.is_ok());
    assert!(
        fetch(&polite, &url(&server, "/secret/x"))
            .await
            .unwrap_err()
            .contains("asks robots")
    );
    let asked = server.asked();
    assert_eq!(
        asked
            .iter()
            .filter(|request| request.contains("/robots.txt"))
            .count(),
        1
    );
    assert!(!asked.iter().any(|request| request.contains("/secret")));
    assert!(
        fetch(&web(json!({})), &url(&server, "/secret/x"))
            .await
            .unwrap_err()
            .contains("404")
    );
}

#[tokio::test]
async fn a_search_asks_the_server_that_is_set_up() {
    let server = serve().await;
    let base = format!("http://127.0.0.1:{}", server.port);
    let searxng = SearXng::new(&base)
        .unwrap()
        .search("two words", 5)
        .await
        .unwrap();
    assert_eq!(searxng.len(), 2);
    assert_eq!(
        (searxng[0].title.as_str(), searxng[0].text.as_str()),
        ("One", "first")
    );
    assert!(server.asked()[0].starts_with("GET /search?q=two+words&format=json "));
    let brave = web(json!({ "search": { "provider": "brave", "api_key": "k3y", "url": base } }));
    let told = call(&tool(&brave, "web_search"), json!({ "query": "x" }))
        .await
        .unwrap();
    assert_eq!(told, "- B <https://b.example/>\n  text");
    assert!(server.asked()[0].contains("x-subscription-token: k3y"));
    assert!(!format!("{brave:?}").contains("k3y"));
    let lost =
        web(json!({ "search": { "provider": "searxng", "url": format!("{base}/missing") } }));
    assert!(
        call(&tool(&lost, "web_search"), json!({ "query": "x" }))
            .await
            .unwrap_err()
            .contains("404")
    );
    static MADE: AtomicUsize = AtomicUsize::new(0);
    struct Own;
    impl SearchProvider for Own {
        async fn search(
            &self,
            _: &str,
            _: usize,
        ) -> Result<Vec<ghostlight_tools::web::SearchHit>, ghostlight_actors::contract::ToolError>
        {
            MADE.fetch_add(1, Ordering::SeqCst);
            Ok(Vec::new())
        }
    }
    let own = web(json!({})).search(Own);
    assert_eq!(
        call(&tool(&own, "web_search"), json!({ "query": "x" }))
            .await
            .unwrap(),
        "Nothing was found."
    );
    assert_eq!(MADE.load(Ordering::SeqCst), 1);
}

#[test]
fn settings_that_cannot_be_kept_are_refused() {
    for wrong in [
        json!({ "schemes": ["file"] }),
        json!({ "hosts": ["https://example.org"] }),
        json!({ "hosts": ["example.org:8080"] }),
        json!({ "deny_hosts": ["example.org/private"] }),
        json!({ "allow_addresses": ["nowhere"] }),
        json!({ "search": { "provider": "searxng", "url": "no address" } }),
    ] {
        assert!(
            Web::with_resolver(settings(wrong.clone()), names()).is_err(),
            "{wrong}"
        );
    }
}
