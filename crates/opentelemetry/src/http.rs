//! Posts what exporters encode, with the workspace's HTTP client.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError, ResponseBodyTooLarge};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::runtime::Handle;

use crate::error::OpenTelemetryError;

/// The most bytes of an answer that are read.
const ANSWER: usize = 1 << 20;
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// A client for one signal. Exporters may call it on any thread: requests are sent in the runtime in which it was made.
#[derive(Clone, Debug)]
pub(crate) struct Poster {
    client: reqwest::Client,
    runtime: Handle,
    signal: &'static str,
    /// The status of the latest answer; 0 where there was none.
    pub(crate) status: Arc<AtomicU16>,
    /// Whether the last request failed, which was told then.
    is_failing: Arc<AtomicBool>,
}

impl Poster {
    pub(crate) fn new(signal: &'static str, timeout: Duration) -> Result<Self, OpenTelemetryError> {
        let failed = |reason: String| OpenTelemetryError::Exporter { reason };
        let runtime = Handle::try_current().map_err(|_| OpenTelemetryError::NoRuntime)?;
        // Ring, whatever the process's provider is, and the machine's own trusted certificates.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(error.to_string()))?;
        let tls = match tls.clone().with_platform_verifier() {
            Ok(tls) => tls,
            // An address that begins with http:// needs none.
            Err(error) => {
                tracing::warn!(%error, "the machine has no trusted certificates, so no collector is reached over https");
                tls.with_root_certificates(rustls::RootCertStore::empty())
            }
        };
        let client = reqwest::Client::builder()
            .user_agent(concat!("ghostlight/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT.min(timeout))
            .timeout(timeout)
            // A redirect could carry the headers, and a key in them, to another server.
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .tls_backend_preconfigured(tls.with_no_client_auth())
            .build()
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self {
            client,
            runtime,
            signal,
            status: Arc::default(),
            is_failing: Arc::default(),
        })
    }

    /// Tells once that requests fail, and once that they are answered again.
    fn tell(&self, sent: &Result<Response<Bytes>, HttpError>) {
        let failure = match sent {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("it answers {}", response.status())),
            Err(error) => Some(error.to_string()),
        };
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        let signal = self.signal;
        match failure {
            Some(reason) if !was_failing => {
                tracing::warn!(
                    signal,
                    reason,
                    "the collector of OpenTelemetry takes nothing"
                );
            }
            None if was_failing => {
                tracing::info!(signal, "the collector of OpenTelemetry takes data again");
            }
            _ => {}
        }
    }
}

async fn send(
    client: reqwest::Client,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, HttpError> {
    let request = reqwest::Request::try_from(request)?;
    // The address may hold a key, so no error shows it.
    let sent = client.execute(request).await;
    let mut response = sent.map_err(reqwest::Error::without_url)?;
    let mut answer = Response::builder().status(response.status());
    if let Some(headers) = answer.headers_mut() {
        *headers = std::mem::take(response.headers_mut());
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > ANSWER {
            return Err(Box::new(ResponseBodyTooLarge::new()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(answer.body(body.freeze())?)
}

impl HttpClient for Poster {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let sending = self.runtime.spawn(send(self.client.clone(), request));
            let sent = sending.await.unwrap_or_else(|error| Err(error.into()));
            if let Ok(response) = &sent {
                let status = response.status().as_u16();
                self.status.store(status, Ordering::Relaxed);
            }
            self.tell(&sent);
            sent
        })
    }
}
