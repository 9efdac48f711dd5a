//! Requests and streams over gRPC.

use std::{error::Error as _, time::Duration};

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, Error as HyperError, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use reqwest::Url;
use serde_json::Value;
use tonic::{
    Code, Extensions, Request, Status, Streaming, body::Body, client::Grpc, metadata::MetadataMap,
};

use super::{ClientError, ClientOptions, exchange::MAX_BYTES};
use crate::{
    grpc::{Codec, UnreadError, error_of, path},
    protocol::{Method, ProtocolError, VERSION, VERSION_HEADER},
};

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(60);

/// The connections to an agent that speaks gRPC. They are made when they are needed; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    connections: Client<HttpsConnector<HttpConnector>, Body>,
}

impl Channel {
    pub(super) fn new(settings: &ClientOptions, tls: rustls::ClientConfig) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(settings.request_timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http2()
            .wrap_connector(tcp);
        let connections = Client::builder(TokioExecutor::new())
            .http2_only(true)
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        Self { connections }
    }

    /// Calls a method, and returns the result.
    pub(super) async fn call(
        &self,
        settings: &ClientOptions,
        at: &Url,
        method: Method,
        params: Value,
    ) -> Result<Value, ClientError> {
        let mut grpc = self.to(at)?;
        let request = request(settings, method, params)?;
        let called = async {
            ready(&mut grpc).await?;
            grpc.unary(request, uri(&path(method))?, Codec::of_client(method))
                .await
                .map_err(|status| error(&status))
        };
        let answered = in_time(settings, called).await?;
        Ok(answered.into_inner())
    }

    /// Calls a method that answers with a stream, and returns the stream when it begins.
    pub(super) async fn open(
        &self,
        settings: &ClientOptions,
        at: &Url,
        method: Method,
        params: Value,
    ) -> Result<Streaming<Value>, ClientError> {
        let mut grpc = self.to(at)?;
        let request = request(settings, method, params)?;
        let called = async {
            ready(&mut grpc).await?;
            grpc.server_streaming(request, uri(&path(method))?, Codec::of_client(method))
                .await
                .map_err(|status| error(&status))
        };
        let answered = in_time(settings, called).await?;
        Ok(answered.into_inner())
    }

    fn to(
        &self,
        at: &Url,
    ) -> Result<Grpc<Client<HttpsConnector<HttpConnector>, Body>>, ClientError> {
        let origin = at.as_str().trim_end_matches('/').parse();
        let origin = origin.map_err(|_| malformed("its address is none of HTTP"))?;
        let grpc = Grpc::with_origin(self.connections.clone(), origin);
        Ok(grpc.max_decoding_message_size(MAX_BYTES))
    }
}

fn malformed(what: &str) -> ClientError {
    ClientError::Malformed(what.to_owned())
}

fn uri(path: &str) -> Result<http::uri::PathAndQuery, ClientError> {
    path.parse().map_err(|_| malformed("a method's path"))
}

fn request(
    settings: &ClientOptions,
    method: Method,
    params: Value,
) -> Result<Request<Value>, ClientError> {
    let fits = Codec::of_client(method).check(&params);
    fits.map_err(|status| error(&status))?;
    let mut headers = settings.sent_headers()?;
    headers.insert(VERSION_HEADER, http::HeaderValue::from_static(VERSION));
    let metadata = MetadataMap::from_headers(headers);
    Ok(Request::from_parts(metadata, Extensions::default(), params))
}

async fn ready(
    grpc: &mut Grpc<Client<HttpsConnector<HttpConnector>, Body>>,
) -> Result<(), ClientError> {
    let ready = grpc.ready().await;
    ready.map_err(|error| ClientError::Unreachable(error.to_string()))
}

async fn in_time<T>(
    settings: &ClientOptions,
    called: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let time = settings.request_timeout;
    let called = tokio::time::timeout(time, called).await;
    called.unwrap_or_else(|_| Err(ClientError::Lost(format!("nothing came for {time:?}"))))
}

/// The error of a status. One with a cause is of an answer that does not read, or of the connection; any other is what the agent
/// says.
pub(super) fn error(status: &Status) -> ClientError {
    let mut cause = status.source();
    if let Some(unread) = cause.and_then(|cause| cause.downcast_ref::<UnreadError>()) {
        return ClientError::Malformed(unread.to_string());
    }
    if cause.is_some() {
        let mut text = "the connection failed".to_owned();
        let mut was_sent = true;
        while let Some(error) = cause {
            let hyper = error.downcast_ref::<HyperError>();
            was_sent &= !hyper.is_some_and(HyperError::is_connect);
            text = format!("{text}: {error}");
            cause = error.source();
        }
        return match was_sent {
            true => ClientError::Lost(text),
            false => ClientError::Unreachable(text),
        };
    }
    match status.code() {
        // The codec's words for a message that is too long.
        Code::OutOfRange if status.details().is_empty() => ClientError::TooLarge(MAX_BYTES),
        Code::Cancelled | Code::DeadlineExceeded => ClientError::Lost(told(status.message())),
        _ => {
            let ProtocolError { code, message } = error_of(status);
            ClientError::Refused(ProtocolError::new(code, told(&message)))
        }
    }
}

/// An agent's text, as it may be shown.
fn told(text: &str) -> String {
    match text {
        "" => "it does not say why".to_owned(),
        text => super::exchange::shown(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_does_not_read_is_no_refusal_of_the_agent() {
        let status = Status::from_error(Box::new(UnreadError::of("a stands twice")));
        let unread = error(&status);
        assert!(matches!(&unread, ClientError::Malformed(text) if text == "a stands twice"));
        // The agent may have done its task.
        assert!(unread.was_sent());
        assert!(!error(&Status::invalid_argument("no")).was_sent());
    }
}
