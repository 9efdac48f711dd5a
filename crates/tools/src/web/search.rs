//! Web search, by several providers.

use std::{fmt::Write as _, pin::Pin, sync::Arc};

use futures_util::StreamExt;
use ghostlight_actors::{
    contract::{ToolContext, ToolError, ToolHandle, ToolOutput},
    vocabulary::{Effect, ToolDefinition},
};
use reqwest::{Url, header::HeaderValue};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::{WebError, WebSpec, client::http_client};

/// How many bytes of a response are read.
const ANSWER_BYTES: usize = 4 << 20;
/// How many characters of a title or text are shown.
const SHOWN: usize = 500;

/// One result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct SearchHit {
    /// The page's title.
    pub title: String,
    /// Its address.
    pub url: String,
    /// The part of the page that matches.
    pub text: String,
}

/// A provider of web searches.
pub trait SearchProvider: Send + Sync + 'static {
    /// The best matching pages, up to a limit.
    fn search(
        &self,
        query: &str,
        count: usize,
    ) -> impl Future<Output = Result<Vec<SearchHit>, ToolError>> + Send;
}

/// The search provider, as a team file names it.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "provider", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum SearchSpec {
    /// A SearXNG server, whose settings must allow the format JSON.
    Searxng {
        /// Its address, such as `http://localhost:8080`.
        url: String,
    },
    /// Brave's search.
    Brave {
        /// The key of the subscription.
        api_key: SecretString,
        /// Another address than Brave's own.
        #[serde(default)]
        url: Option<String>,
    },
}

/// A server that the operator chose, which may be in a private network; redirects are not followed.
#[derive(Clone, Debug)]
struct Endpoint {
    http: reqwest::Client,
    url: Url,
}

impl Endpoint {
    fn new(url: &str, settings: &WebSpec) -> Result<Self, WebError> {
        let fault = |error: &dyn std::fmt::Display| {
            WebError::Setting(format!("the address of the search cannot be used: {error}"))
        };
        let http = http_client(settings)?
            .build()
            .map_err(|error| fault(&error))?;
        let url = Url::parse(url).map_err(|error| fault(&error))?;
        Ok(Self { http, url })
    }

    async fn ask(
        &self,
        path: &str,
        query: &[(&str, &str)],
        key: Option<HeaderValue>,
    ) -> Result<serde_json::Value, ToolError> {
        let mut url = self.url.clone();
        url.set_path(&format!("{}{path}", self.url.path().trim_end_matches('/')));
        url.query_pairs_mut().extend_pairs(query);
        let mut request = self.http.get(url).header("accept", "application/json");
        if let Some(key) = key {
            request = request.header("x-subscription-token", key);
        }
        let failed = |error: reqwest::Error| {
            ToolError::new(format!(
                "the search did not answer: {}",
                error.without_url()
            ))
        };
        let answer = request.send().await.map_err(failed)?;
        let status = answer.status();
        if !status.is_success() {
            return Err(ToolError::new(format!("the search answers with {status}")));
        }
        let (mut body, mut pieces) = (Vec::new(), answer.bytes_stream());
        while let Some(piece) = pieces.next().await {
            body.extend_from_slice(&piece.map_err(failed)?);
            if body.len() > ANSWER_BYTES {
                return Err(ToolError::new("the search answers with too much"));
            }
        }
        serde_json::from_slice(&body)
            .map_err(|error| ToolError::new(format!("the search answers with no JSON: {error}")))
    }
}

/// A SearXNG server.
#[derive(Clone, Debug)]
pub struct SearXng(Endpoint);

impl SearXng {
    /// The server at this address.
    ///
    /// # Errors
    /// The address is invalid.
    pub fn new(url: &str) -> Result<Self, WebError> {
        Endpoint::new(url, &WebSpec::default()).map(Self)
    }
}

impl SearchProvider for SearXng {
    async fn search(&self, query: &str, count: usize) -> Result<Vec<SearchHit>, ToolError> {
        let answer = self
            .0
            .ask("/search", &[("q", query), ("format", "json")], None)
            .await?;
        Ok(hits(
            &answer,
            "/results",
            ["title", "url", "content"],
            count,
        ))
    }
}

/// Brave's search.
#[derive(Clone, Debug)]
pub struct Brave {
    endpoint: Endpoint,
    key: SecretString,
}

impl Brave {
    /// Brave's search, with the key of a subscription.
    ///
    /// # Errors
    /// The HTTP client cannot be made.
    pub fn new(key: SecretString) -> Result<Self, WebError> {
        Self::at(
            "https://api.search.brave.com/res/v1",
            key,
            &WebSpec::default(),
        )
    }

    fn at(url: &str, key: SecretString, settings: &WebSpec) -> Result<Self, WebError> {
        let endpoint = Endpoint::new(url, settings)?;
        Ok(Self { endpoint, key })
    }
}

impl SearchProvider for Brave {
    async fn search(&self, query: &str, count: usize) -> Result<Vec<SearchHit>, ToolError> {
        let mut key = HeaderValue::try_from(self.key.expose_secret())
            .map_err(|_| ToolError::new("the key of the search cannot be sent"))?;
        key.set_sensitive(true);
        let wanted = count.min(20).to_string();
        let answer = self
            .endpoint
            .ask(
                "/web/search",
                &[("q", query), ("count", &wanted)],
                Some(key),
            )
            .await?;
        Ok(hits(
            &answer,
            "/web/results",
            ["title", "url", "description"],
            count,
        ))
    }
}

/// The results at this path of a response; its other content is ignored.
fn hits(
    answer: &serde_json::Value,
    place: &str,
    fields: [&str; 3],
    count: usize,
) -> Vec<SearchHit> {
    let found = answer.pointer(place).and_then(serde_json::Value::as_array);
    let text = |hit: &serde_json::Value, field: &str| {
        let text = hit
            .get(field)
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default();
        text.chars()
            .filter(|c| !c.is_control())
            .take(SHOWN)
            .collect::<String>()
    };
    let hit = |hit: &serde_json::Value| SearchHit {
        title: text(hit, fields[0]),
        url: text(hit, fields[1]),
        text: text(hit, fields[2]),
    };
    let found = found.into_iter().flatten().map(hit);
    found
        .filter(|hit| hit.url.starts_with("http://") || hit.url.starts_with("https://"))
        .take(count)
        .collect()
}

type Found<'a> = Pin<Box<dyn Future<Output = Result<Vec<SearchHit>, ToolError>> + Send + 'a>>;

trait ErasedProvider: Send + Sync {
    fn search<'a>(&'a self, query: &'a str, count: usize) -> Found<'a>;
}

impl<P: SearchProvider> ErasedProvider for P {
    fn search<'a>(&'a self, query: &'a str, count: usize) -> Found<'a> {
        Box::pin(SearchProvider::search(self, query, count))
    }
}

/// The tool `web_search`.
#[derive(Clone)]
pub(super) struct Searching(Arc<dyn ErasedProvider>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// What is looked for.
    #[schemars(length(min = 1, max = 1000))]
    query: String,
    /// At most so many results.
    #[serde(default = "eight")]
    #[schemars(range(min = 1, max = 20))]
    count: usize,
}

fn eight() -> usize {
    8
}

impl Searching {
    pub(super) fn of(search: &SearchSpec, settings: &WebSpec) -> Result<Self, WebError> {
        Ok(match search {
            SearchSpec::Searxng { url } => Self::with(SearXng(Endpoint::new(url, settings)?)),
            SearchSpec::Brave { api_key, url } => {
                let url = url
                    .as_deref()
                    .unwrap_or("https://api.search.brave.com/res/v1");
                Self::with(Brave::at(url, api_key.clone(), settings)?)
            }
        })
    }

    pub(super) fn with(provider: impl SearchProvider) -> Self {
        Self(Arc::new(provider))
    }

    pub(super) fn tool(self) -> ToolHandle {
        let about = "Searches the web, and gives titles, addresses and texts. Read a page with `web_fetch`.";
        let search = ToolDefinition::new("web_search", about).effect(Effect::Read);
        ToolHandle::typed(search, move |wanted: Search, _: ToolContext| {
            let provider = self.0.clone();
            async move {
                let count = wanted.count.clamp(1, 20);
                let hits = provider.search(&wanted.query, count).await?;
                if hits.is_empty() {
                    return Ok(ToolOutput::text("Nothing was found."));
                }
                let mut told = String::new();
                for hit in hits {
                    // Writing to a text cannot fail.
                    let _ = writeln!(told, "- {} <{}>\n  {}", hit.title, hit.url, hit.text);
                }
                Ok(ToolOutput::text(told.trim_end()))
            }
        })
    }
}
