//! TLS of the server's own, with a certificate made for the test.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use ghostlight_actors::actor::SystemOptions;
use ghostlight_server::{Scope, ServerOptions};
use rcgen::{CertifiedKey, KeyPair};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::{client::PATIENCE, desk::Desk};

fn certificate() -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed([String::from("localhost")]).unwrap()
}

fn serving(made: &CertifiedKey<KeyPair>) -> Arc<ServerConfig> {
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::from(key));
    Arc::new(config.unwrap())
}

/// Connects as a client that trusts this certificate alone.
fn trusting(made: &CertifiedKey<KeyPair>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// Sends a request over TLS, and reads until the server closes.
async fn ask(connector: &TlsConnector, to: SocketAddr, request: &str) -> std::io::Result<String> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector
        .connect(name, TcpStream::connect(to).await?)
        .await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await??;
    Ok(String::from_utf8(answer).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_requests_streams_and_cookies_are_served_and_in_clear_nothing_is() {
    let made = certificate();
    let config = serving(&made);
    let desk = Desk::start(SystemOptions::default(), |server, keys| {
        server.keys(keys.clone()).tls(config)
    })
    .await;
    let key = desk
        .client_of("ada", &[Scope::Read, Scope::Run])
        .key
        .unwrap();
    let (connector, to) = (trusting(&made), desk.client.to);
    let head = |line: &str, more: &str, body: &str| {
        format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n{more}\r\n{body}",
            body.len()
        )
    };
    let turn = "POST /api/v1/sessions/desk/s/turns";
    let events = "Accept: text/event-stream\r\n";
    let streamed = ask(&connector, to, &head(turn, events, r#"{"text":"well"}"#))
        .await
        .unwrap();
    assert!(streamed.contains("event: run_ended"), "{streamed}");
    // What a browser keeps goes over TLS alone.
    let signing = format!(r#"{{"key":"{key}"}}"#);
    let signed = ask(&connector, to, &head("POST /sign-in", "", &signing))
        .await
        .unwrap();
    let cookie = signed.lines().find(|line| line.starts_with("set-cookie:"));
    assert!(cookie.unwrap().contains("; Secure"), "{signed}");
    // A client that trusts another certificate does not speak, and one in clear is not heard.
    let other = trusting(&certificate());
    assert!(ask(&other, to, &head("GET /health", "", "")).await.is_err());
    let answer = desk
        .client
        .send(head("GET /health", "", "").as_bytes())
        .await;
    assert!(answer.is_none(), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_ends_its_handshake_is_let_go_and_holds_up_nobody() {
    let made = certificate();
    let config = serving(&made);
    let desk = Desk::start(SystemOptions::default(), |server, _| {
        let mut limits = ServerOptions::default();
        limits.header_time = Duration::from_millis(200);
        server.options(limits).tls(config)
    })
    .await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(desk.client.to).await.unwrap());
    }
    let request = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = ask(&trusting(&made), desk.client.to, request)
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for mut stream in silent {
        let end = timeout(PATIENCE, stream.read(&mut [0; 8])).await.unwrap();
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    }
}

#[cfg(feature = "a2a")]
#[tokio::test(flavor = "multi_thread")]
async fn over_tls_http2_is_agreed_on_and_grpc_is_served() {
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let made = certificate();
    let desk = Desk::start(SystemOptions::default(), |server, _| {
        server.tls(serving(&made))
    })
    .await;
    let mut config = ClientConfig::clone(trusting(&made).config());
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(desk.client.to).await.unwrap();
    let stream = TlsConnector::from(Arc::new(config))
        .connect(ServerName::try_from("localhost").unwrap(), stream)
        .await
        .unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let made = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = made.await.unwrap();
    let connection = tokio::spawn(connection);
    // A message without content, in its frame.
    let body = http_body_util::Full::new(bytes::Bytes::from_static(&[0; 5]));
    let port = desk.client.to.port();
    let request = axum::http::Request::post(format!(
        "https://localhost:{port}/lf.a2a.v1.A2AService/GetTask"
    ))
    .header("content-type", "application/grpc")
    .header("a2a-version", "1.0")
    .body(body)
    .unwrap();
    let answer = timeout(PATIENCE, sender.send_request(request)).await;
    let answer = answer.unwrap().unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["grpc-status"]),
        (200, &"5".parse().unwrap())
    );
    connection.abort();
}
