//! Streamable HTTP.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use reqwest::{
    Client,
    header::{HeaderName, HeaderValue},
    redirect,
};
use rmcp::transport::{
    StreamableHttpClientTransport,
    auth::{AuthClient, AuthorizationManager},
    streamable_http_client::StreamableHttpClientTransportConfig,
};

use super::{MAX_MESSAGE_BYTES, error::ServerSpecError, references::Variables, wire::Wire};

/// The time limit for connecting to the address.
const CONNECT: Duration = Duration::from_secs(10);
/// The most redirects; all of them must keep the scheme, the host and the port.
const REDIRECTS: usize = 3;

/// The transport to this server at its address, with the stored tokens for it.
pub(super) fn transport(
    server: &str,
    (url, headers): (&str, &BTreeMap<String, String>),
    variables: Variables,
    manager: AuthorizationManager,
) -> Result<StreamableHttpClientTransport<AuthClient<Wire>>, ServerSpecError> {
    let mut sent = HashMap::new();
    for (name, value) in headers {
        let wrong = || ServerSpecError::Header(name.clone());
        let value = variables.reveal(value)?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        sent.insert(
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?,
            value,
        );
    }
    let config = StreamableHttpClientTransportConfig::with_uri(variables.reveal(url)?)
        .custom_headers(sent)
        .max_json_response_size(MAX_MESSAGE_BYTES)
        .max_sse_event_size(MAX_MESSAGE_BYTES);
    let client = AuthClient::new(Wire::new(client()?, server), manager);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Chooses the cryptography of TLS, unless the program has installed a provider already.
pub(super) fn choose_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn client() -> Result<Client, ServerSpecError> {
    choose_provider();
    // The headers hold secrets, so they are sent nowhere else.
    let same_origin = redirect::Policy::custom(|attempt| {
        let origin = attempt.previous().first().map(|url| url.origin());
        match origin {
            Some(origin)
                if origin == attempt.url().origin() && attempt.previous().len() <= REDIRECTS =>
            {
                attempt.follow()
            }
            _ => attempt.stop(),
        }
    });
    let client = Client::builder()
        .connect_timeout(CONNECT)
        .redirect(same_origin)
        .build();
    client.map_err(|error| ServerSpecError::Client(error.to_string()))
}
