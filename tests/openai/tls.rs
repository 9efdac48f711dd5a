//! TLS, with a certificate made for the test.

use std::{path::PathBuf, process::Command, sync::Arc};

use ghostlight::models::OpenAi;
use ghostlight_actors::vocabulary::ErrorKind;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring::default_provider,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

use crate::{ask, respond};

/// Where the test that trusts the server finds it.
const ADDRESS: &str = "GHOSTLIGHT_TEST_TLS_SERVER";

/// Serves one answer over and over; gives the address and the certificate.
async fn serve() -> (String, String) {
    let made = rcgen::generate_simple_self_signed([String::from("localhost")]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::from(key))
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let Ok(mut socket) = acceptor.accept(socket).await else {
                continue;
            };
            let _ = socket.read(&mut [0; 4096]).await;
            let body = r#"{"choices":[{"message":{"content":"over TLS"}}]}"#;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = socket.write_all(format!("{head}{body}").as_bytes()).await;
            let _ = socket.shutdown().await;
        }
    });
    (format!("https://localhost:{port}/v1"), made.cert.pem())
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_refused_for_good() {
    let (address, _) = serve().await;
    let model = OpenAi::new("m").base_url(address);
    let error = respond(&model, ask("hello")).await.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Model, false));
    assert!(error.message.contains("certificate"), "{}", error.message);
}

/// What the machine trusts is looked up in the environment, so the client is a process: this
/// test once more, with an address to go to.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_the_machine_trusts_is_reached() {
    if let Ok(address) = std::env::var(ADDRESS) {
        let response = respond(&OpenAi::new("m").base_url(address), ask("hello"))
            .await
            .unwrap();
        assert_eq!(response.content(), "over TLS");
        return;
    }
    let (address, certificate) = serve().await;
    let name = format!("certificate-{}.pem", std::process::id());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, certificate).unwrap();
    let mut client = Command::new(std::env::current_exe().unwrap());
    client
        .args([
            "--exact",
            "tls::a_server_that_the_machine_trusts_is_reached",
        ])
        .env("SSL_CERT_FILE", &path)
        .env_remove("SSL_CERT_DIR")
        .env(ADDRESS, address);
    let output = tokio::task::spawn_blocking(move || client.output().unwrap())
        .await
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "{printed}"
    );
}
