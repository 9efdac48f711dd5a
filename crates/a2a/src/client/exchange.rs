//! Requests and responses over HTTP, in either binding.

use std::sync::Arc;

use futures_util::StreamExt as _;
use reqwest::{Client, RequestBuilder, Response, Url, redirect};
use rustls_platform_verifier::BuilderVerifierExt;
use serde_json::{Value, json};

use super::{
    Binding, ClientError, ClientOptions, ClientOptionsError, Reached, channel::Channel,
    settings::Addresses, stream::Following,
};
use crate::protocol::{ErrorCode, MEDIA_TYPE, Method, ProtocolError, VERSION, VERSION_HEADER};

/// The most bytes of a response.
pub(super) const MAX_BYTES: usize = 16 << 20;
/// The most redirects; all of them must keep the scheme, the host and the port.
const REDIRECTS: usize = 3;
/// The most characters of an agent's text in an error.
const SHOWN: usize = 300;

/// TLS with ring, whichever provider the process has, and the machine's own trusted certificates.
fn tls() -> Result<rustls::ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = tls.and_then(BuilderVerifierExt::with_platform_verifier)?;
    Ok(tls.with_no_client_auth())
}

/// The HTTP side of a client.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    http: Client,
    pub(super) settings: ClientOptions,
    addresses: Addresses,
    pub(super) channel: Channel,
}

impl Exchange {
    pub(super) fn new(settings: ClientOptions) -> Result<Self, ClientOptionsError> {
        let addresses = settings.check()?;
        let tls = tls().map_err(|error| ClientOptionsError::Client(error.to_string()))?;
        // The headers hold secrets, so they are sent nowhere else.
        let same_origin = redirect::Policy::custom(|attempt| {
            let origin = attempt.previous().first().map(Url::origin);
            let stays = origin.is_some_and(|origin| origin == attempt.url().origin());
            match stays && attempt.previous().len() <= REDIRECTS {
                true => attempt.follow(),
                false => attempt.stop(),
            }
        });
        let http = Client::builder()
            .connect_timeout(settings.request_timeout)
            .redirect(same_origin)
            .tls_backend_preconfigured(tls.clone())
            .build()
            .map_err(|error| ClientOptionsError::Client(error.to_string()))?;
        let channel = Channel::new(&settings, tls);
        Ok(Self {
            http,
            settings,
            addresses,
            channel,
        })
    }

    pub(super) fn card_address(&self) -> Url {
        self.addresses.card.clone()
    }

    /// Whether the headers, which hold secrets, may be sent to this address.
    pub(super) fn may_reach(&self, url: &Url) -> bool {
        let own = [&self.addresses.card, &self.addresses.agent];
        own.into_iter().any(|own| own.origin() == url.origin())
    }

    /// Fetches JSON from an address.
    pub(super) async fn fetch(&self, at: Url) -> Result<Value, ClientError> {
        let response = self
            .send(self.http.get(at).header("accept", "application/json"))
            .await?;
        self.json(response).await
    }

    /// Calls a method, and returns the result.
    pub(super) async fn call(
        &self,
        reached: &Reached,
        method: Method,
        id: Option<&str>,
        params: Value,
    ) -> Result<Value, ClientError> {
        if reached.binding == Binding::Grpc {
            let params = addressed(reached, params);
            let (settings, at) = (&self.settings, &reached.url);
            return self.channel.call(settings, at, method, params).await;
        }
        let response = self.open(reached, method, id, params).await?;
        let answer = self.json(response).await?;
        match reached.binding {
            Binding::JsonRpc => result_of(answer),
            _ => Ok(answer),
        }
    }

    /// Follows a task.
    pub(super) async fn follow(
        &self,
        reached: &Reached,
        task: &str,
    ) -> Result<Following, ClientError> {
        let (method, params) = (Method::SubscribeToTask, json!({ "id": task }));
        if reached.binding == Binding::Grpc {
            let params = addressed(reached, params);
            let (settings, at) = (&self.settings, &reached.url);
            let stream = self.channel.open(settings, at, method, params).await?;
            return Ok(Following::messages(stream));
        }
        let response = self.open(reached, method, Some(task), params).await?;
        Ok(Following::events(response, reached.binding))
    }

    /// Calls a method, and returns the response before its body is read.
    async fn open(
        &self,
        reached: &Reached,
        method: Method,
        id: Option<&str>,
        params: Value,
    ) -> Result<Response, ClientError> {
        let request = match reached.binding {
            Binding::JsonRpc => {
                let body = json!({
                    "jsonrpc": "2.0", "id": 1, "method": method.name(),
                    "params": addressed(reached, params),
                });
                self.http.post(reached.url.clone()).json(&body)
            }
            _ => self.resource(reached, method, id, &params)?,
        };
        let response = self.send(request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let body = self.bytes(response).await?;
        let body = read(&body).map_err(|_| body);
        Err(match body {
            Ok(body) => refusal(&body).unwrap_or_else(|| {
                let text = shown(&body.to_string());
                ClientError::Status { status, text }
            }),
            Err(body) => {
                let text = shown(&String::from_utf8_lossy(&body));
                ClientError::Status { status, text }
            }
        })
    }

    fn resource(
        &self,
        reached: &Reached,
        method: Method,
        id: Option<&str>,
        params: &Value,
    ) -> Result<RequestBuilder, ClientError> {
        let task = |verb: &str| {
            let id = id.unwrap_or_default();
            // A task's id must be a single path segment, whatever the agent put into it.
            let fits = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
            match !id.is_empty() && id.chars().all(fits) {
                true => Ok(format!("tasks/{id}{verb}")),
                false => Err(ClientError::Malformed(
                    "the id of a task has odd characters".to_owned(),
                )),
            }
        };
        let (is_post, path) = match method {
            Method::SendMessage => (true, "message:send".to_owned()),
            Method::SendStreamingMessage => (true, "message:stream".to_owned()),
            Method::GetTask => (false, task("")?),
            Method::ListTasks => (false, "tasks".to_owned()),
            Method::CancelTask => (true, task(":cancel")?),
            Method::SubscribeToTask => (true, task(":subscribe")?),
            Method::CreatePushConfig => (true, task("/pushNotificationConfigs")?),
            // This client follows streams: it makes no request about receivers.
            Method::GetPushConfig | Method::ListPushConfigs | Method::DeletePushConfig => {
                (false, task("/pushNotificationConfigs")?)
            }
            Method::GetExtendedAgentCard => (false, "extendedAgentCard".to_owned()),
        };
        let mut url = reached.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty();
            // The tenant is a segment of the path here.
            segments.extend((!reached.tenant.is_empty()).then_some(&reached.tenant));
            segments.extend(path.split('/'));
        }
        if is_post {
            let body = params.to_string();
            return Ok(self
                .http
                .post(url)
                .header("content-type", MEDIA_TYPE)
                .body(body));
        }
        if let (Some(params), None) = (params.as_object(), id) {
            let mut query = url.query_pairs_mut();
            for (name, value) in params {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                query.append_pair(name, &text);
            }
        }
        Ok(self.http.get(url))
    }

    /// Sends a request, and waits for the response's head within the time limit.
    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let request = request
            .headers(self.settings.sent_headers()?)
            .header(VERSION_HEADER, VERSION);
        let sent = tokio::time::timeout(self.settings.request_timeout, request.send());
        match sent.await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) if error.is_connect() || error.is_builder() => {
                Err(ClientError::Unreachable(causes(&error)))
            }
            Ok(Err(error)) => Err(ClientError::Lost(causes(&error))),
            Err(_) => Err(ClientError::Lost(format!(
                "nothing came for {:?}",
                self.settings.request_timeout
            ))),
        }
    }

    async fn json(&self, response: Response) -> Result<Value, ClientError> {
        let status = response.status();
        let body = self.bytes(response).await?;
        if !status.is_success() {
            let text = shown(&String::from_utf8_lossy(&body));
            return Err(ClientError::Status {
                status: status.as_u16(),
                text,
            });
        }
        read(&body)
    }

    async fn bytes(&self, response: Response) -> Result<Vec<u8>, ClientError> {
        let read = async {
            let (mut body, mut pieces) = (Vec::new(), response.bytes_stream());
            while let Some(piece) = pieces.next().await {
                let piece = piece.map_err(|error| ClientError::Lost(causes(&error)))?;
                if body.len() + piece.len() > MAX_BYTES {
                    return Err(ClientError::TooLarge(MAX_BYTES));
                }
                body.extend_from_slice(&piece);
            }
            Ok(body)
        };
        let read = tokio::time::timeout(self.settings.request_timeout, read).await;
        read.unwrap_or_else(|_| Err(ClientError::Lost("its answer came too slowly".to_owned())))
    }
}

/// Parameters with the tenant that the agent's card wants to be named.
fn addressed(reached: &Reached, mut params: Value) -> Value {
    if let (Some(params), false) = (params.as_object_mut(), reached.tenant.is_empty()) {
        params.insert("tenant".to_owned(), reached.tenant.clone().into());
    }
    params
}

/// The result in a JSON-RPC response.
pub(super) fn result_of(mut answer: Value) -> Result<Value, ClientError> {
    if let Some(refused) = refusal(&answer) {
        return Err(refused);
    }
    let result = answer.get_mut("result").map(Value::take);
    result.ok_or_else(|| ClientError::Malformed("neither `result` nor `error`".to_owned()))
}

/// A body of JSON. An agent's answer that names something twice is none, since readers differ in what it says.
fn read(body: &[u8]) -> Result<Value, ClientError> {
    ghostlight_safety::unambiguous_json(body)
        .map_err(|error| ClientError::Malformed(error.to_string()))
}

/// The error in a response of either binding.
pub(super) fn refusal(answer: &Value) -> Option<ClientError> {
    let error = answer.get("error").filter(|error| !error.is_null())?;
    let message = error["message"].as_str().unwrap_or("it does not say why");
    let details = error["data"]
        .as_array()
        .or_else(|| error["details"].as_array());
    let reasons = details
        .into_iter()
        .flatten()
        .filter_map(|detail| detail["reason"].as_str());
    let code = reasons.filter_map(ErrorCode::of_reason).next();
    let code = code.or_else(|| ErrorCode::of_number(error["code"].as_i64()?));
    let code = code.unwrap_or(ErrorCode::Internal);
    Some(ClientError::Refused(ProtocolError::new(
        code,
        shown(message),
    )))
}

/// An agent's text, shortened, without characters that control a terminal or mislead a model.
pub(super) fn shown(text: &str) -> String {
    ghostlight_safety::sanitize_line(text, SHOWN)
}

/// An error with its causes, but without the address, which may contain a secret.
pub(super) fn causes(error: &reqwest::Error) -> String {
    use std::error::Error as _;
    let mut text = if error.is_timeout() {
        "it took too long"
    } else {
        "the connection failed"
    }
    .to_owned();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_answer_that_names_something_twice_is_none() {
        let two = br#"{"result": {"state": "failed", "state": "completed"}}"#;
        let error = super::read(two).unwrap_err();
        assert!(error.to_string().contains("state stands twice"), "{error}");
    }
}
