//! Messages to addresses that others name, by the rules of the web.

use reqwest::{
    Method, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use super::{Ask, Client, Resolver, SystemResolver, WebError, WebSpec};

/// The most bytes of a receiver's response that are read. Nothing is made of them.
const MAX_RESPONSE: usize = 16 << 10;

/// Posts to addresses that others name, by the rules of [`Web`](super::Web): a host's addresses are checked when its name
/// is resolved, and the connection is made to exactly these. Redirects are not followed.
#[derive(Clone, Debug)]
pub struct Poster(Client);

/// Why a message did not arrive.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// The address or a header is not valid, or the rules forbid the address.
    #[error("{0}")]
    Refused(String),
    /// The receiver was not reached, or did not answer in time.
    #[error("{0}")]
    Failed(String),
}

impl Poster {
    /// Posts by these rules; `methods` and the bounds of pages do not count.
    ///
    /// # Errors
    /// A setting that is invalid.
    pub fn new(settings: WebSpec) -> Result<Self, WebError> {
        Self::with_resolver(settings, SystemResolver)
    }

    /// The same with a resolver of one's own.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_resolver(mut settings: WebSpec, resolver: impl Resolver) -> Result<Self, WebError> {
        settings.max_redirects = 0;
        settings.max_bytes = MAX_RESPONSE;
        Client::new(&settings, std::sync::Arc::new(resolver)).map(Self)
    }

    /// Checks an address by the rules that need no look-up of its name.
    ///
    /// # Errors
    /// [`PostError::Refused`] with the reason.
    pub fn check(&self, address: &str) -> Result<(), PostError> {
        self.url(address).map(drop)
    }

    fn url(&self, address: &str) -> Result<Url, PostError> {
        let refused = |why: String| PostError::Refused(format!("the address is refused: {why}"));
        let url = Url::parse(address).map_err(|error| refused(error.to_string()))?;
        self.0
            .refuses(&url)
            .map_or(Ok(url), |why| Err(refused(why)))
    }

    /// Posts a message, and returns the status of the response.
    ///
    /// # Errors
    /// [`PostError`], if there is no response.
    pub async fn post(
        &self,
        address: &str,
        headers: &[(String, String)],
        body: String,
    ) -> Result<u16, PostError> {
        let url = self.url(address)?;
        let mut fields = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_str(value);
            let (Ok(name), Ok(mut value)) = (name, value) else {
                return Err(PostError::Refused("a header is not valid".to_owned()));
            };
            value.set_sensitive(true);
            fields.insert(name, value);
        }
        let ask = Ask {
            method: Method::POST,
            url,
            headers: fields,
            body: Some(body),
        };
        let page = self.0.ask(ask).await;
        let page = page.map_err(|error| PostError::Failed(error.to_string()))?;
        Ok(page.status.as_u16())
    }
}
