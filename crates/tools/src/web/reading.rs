//! Reading documents of the web for a program, with the rules of the tools.

use std::sync::Arc;

use ghostlight_actors::contract::{ToolError, ToolErrorKind};
use parking_lot::Mutex;
use reqwest::{
    StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH},
};

use super::{
    Client, Resolver, Shared, SystemResolver, WebError, WebSpec, address, check_schemes, encoding,
    get,
};

/// The most bytes of a validator that is kept.
const MAX_VALIDATOR_BYTES: usize = 1_024;

/// Reads pages of the web again and again: with the rules and bounds of [`WebSpec`], and only where they have
/// changed. Addresses that are not public are refused, also after a redirect.
#[derive(Clone, Debug)]
pub struct PageReader(Arc<Shared>);

/// The answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadPage {
    /// The page.
    Page {
        /// Its bytes, decompressed. A text that is in another encoding than UTF-8, as the server says, is in UTF-8 here,
        /// behind a byte order mark.
        bytes: Vec<u8>,
        /// Its type, such as `text/html; charset=utf-8`; empty if the server gives none.
        content_type: String,
        /// The mark by which the server recognises this version, its `ETag` or its time, for the next [`PageReader::read`].
        validator: Option<String>,
    },
    /// It is as it was when the server gave this validator.
    Unchanged,
}

/// Why a page is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The server says that there is no such page (404), or none any more (410).
    #[error("the server answers {0}: there is no such page")]
    Gone(u16),
    /// The server cannot be reached, or fails for now.
    #[error("{0}")]
    Unavailable(String),
    /// The rules do not allow it, or it cannot be read.
    #[error("{0}")]
    Refused(String),
}

ghostlight_actors::parts_of_system_error!(PageError);

impl PageReader {
    /// A reader with these rules.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn open(settings: WebSpec) -> Result<Self, WebError> {
        Self::with_resolver(settings, SystemResolver)
    }

    /// The same, with another resolver; its addresses are checked in the same way.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_resolver(settings: WebSpec, resolver: impl Resolver) -> Result<Self, WebError> {
        check_schemes(&settings)?;
        Ok(Self(Arc::new(Shared {
            client: Client::new(&settings, Arc::new(resolver))?,
            settings,
            robots: Mutex::default(),
        })))
    }

    /// Reads a page, unless it is still as it was when the server gave this validator.
    ///
    /// # Errors
    /// There is no such page, it cannot be reached now, or it may not be read.
    pub async fn read(&self, url: &str, validator: Option<&str>) -> Result<ReadPage, PageError> {
        let refused = |error: ToolError| PageError::Refused(error.to_string());
        let url = address(url).map_err(refused)?;
        let failed = |error: ToolError| match error.kind == ToolErrorKind::Denied {
            true => PageError::Refused(error.to_string()),
            false => PageError::Unavailable(error.to_string()),
        };
        if self.0.settings.robots && !self.0.robots_allow(&url).await.map_err(failed)? {
            let why = "the site asks robots not to read this page";
            return Err(PageError::Refused(why.to_owned()));
        }
        let mut ask = get(url);
        ask.headers = conditions(validator);
        let page = self.0.client.ask(ask).await.map_err(failed)?;
        match page.status {
            StatusCode::NOT_MODIFIED if validator.is_some() => Ok(ReadPage::Unchanged),
            StatusCode::NOT_FOUND | StatusCode::GONE => Err(PageError::Gone(page.status.as_u16())),
            status if status.is_success() && page.cut => Err(PageError::Refused(format!(
                "it is larger than {} bytes",
                self.0.settings.max_bytes
            ))),
            status if status.is_success() => Ok(ReadPage::Page {
                bytes: in_utf8(page.body, &page.content_type),
                content_type: page.content_type,
                validator: page
                    .validator
                    .filter(|text| text.len() <= MAX_VALIDATOR_BYTES),
            }),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Err(unavailable(page.status))
            }
            status if status.is_server_error() => Err(unavailable(status)),
            status => Err(PageError::Refused(format!("the server answers {status}"))),
        }
    }
}

/// A text that the server says to be in another encoding, in UTF-8 with a byte order mark, which counts more than what the
/// text declares itself.
fn in_utf8(bytes: Vec<u8>, content_type: &str) -> Vec<u8> {
    let is_text = content_type.starts_with("text/") || content_type.contains("xml");
    match encoding::said_by(content_type) {
        Some(said) if is_text && said != encoding_rs::UTF_8 => {
            let text = encoding::decoded(&bytes, content_type);
            ["\u{feff}", &text].concat().into_bytes()
        }
        _ => bytes,
    }
}

fn unavailable(status: StatusCode) -> PageError {
    PageError::Unavailable(format!("the server answers {status}"))
}

/// The headers that ask only for another version than this.
fn conditions(validator: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let header = |text: &str| -> Option<(HeaderName, HeaderValue)> {
        let (kind, value) = text.split_once(' ')?;
        let name = match kind {
            "etag" => IF_NONE_MATCH,
            _ => IF_MODIFIED_SINCE,
        };
        Some((name, HeaderValue::try_from(value).ok()?))
    };
    headers.extend(
        validator
            .and_then(header)
            .map(|(name, value)| (Some(name), value)),
    );
    headers
}
