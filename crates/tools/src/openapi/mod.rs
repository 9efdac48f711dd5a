//! The operations of an OpenAPI document as tools.
//!
//! A document of version 3.0, 3.1 or 3.2, in JSON or YAML, describes the API of a server. Each operation becomes a
//! tool: its parameters and its body are the arguments, and its method gives the effect of a repeated call. Requests go
//! to one address only, by the rules of [`web`](crate::web).
//!
//! The document is not trusted. It cannot choose where credentials go, refer to other documents, lead outside of the
//! API's address, or make anything large; its parts have bounds.

mod call;
mod document;
mod error;
mod operation;
mod request;
mod schema;
mod security;
mod settings;

use std::{io::Read, path::Path, sync::Arc};

use ghostlight_actors::contract::{BoxFuture, ToolError, ToolHandle, Toolset};
use parking_lot::Mutex;
use reqwest::{Method, header::HeaderMap};

pub use error::OpenApiError;
pub use settings::OpenApiSpec;

use crate::{
    blocking::blocking,
    web::{Ask, Client, Resolver, SystemResolver, WebSpec},
};
use call::{Api, OperationTool};
use document::{DOCUMENT_BYTES, Document};
use operation::Operations;
use settings::address;

/// How many operations of a document become tools.
const OPERATIONS: usize = 2_000;

/// The operations of an OpenAPI document as tools.
///
/// ```
/// use ghostlight_actors::{contract::Toolset, vocabulary::Effect};
/// use ghostlight_tools::{OpenApi, OpenApiSpec};
///
/// let document = r#"{
///     "openapi": "3.1.0",
///     "paths": { "/parcels/{number}": { "get": {
///         "operationId": "track",
///         "summary": "Says where a parcel is.",
///         "parameters": [{ "name": "number", "in": "path", "required": true, "schema": { "type": "integer" } }]
///     } } }
/// }"#;
/// let settings = OpenApiSpec::new("").base_url("https://parcels.example/v1");
/// let parcels = OpenApi::read(document, settings)?;
/// let tools = parcels.tools().map_err(|error| error.message)?;
/// assert_eq!(tools[0].definition().name, "track");
/// assert_eq!(tools[0].definition().effect, Effect::Read);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OpenApi {
    settings: OpenApiSpec,
    resolver: Arc<dyn Resolver>,
    /// The tools; none until the document was fetched.
    tools: Mutex<Option<Vec<ToolHandle>>>,
}

impl std::fmt::Debug for OpenApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenApi")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl OpenApi {
    /// Reads the document of these settings. A document at an address is fetched by [`Toolset::open`].
    ///
    /// # Errors
    /// The document cannot be read, or a setting is invalid.
    pub fn open(settings: OpenApiSpec) -> Result<Self, OpenApiError> {
        Self::with_resolver(settings, SystemResolver)
    }

    /// The same, with another resolver; its addresses are checked in the same way.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_resolver(
        settings: OpenApiSpec,
        resolver: impl Resolver,
    ) -> Result<Self, OpenApiError> {
        let fetched = ["https://", "http://"];
        if fetched
            .iter()
            .any(|scheme| settings.document.starts_with(scheme))
        {
            return Ok(Self {
                settings,
                resolver: Arc::new(resolver),
                tools: Mutex::default(),
            });
        }
        let text = file(Path::new(&settings.document))?;
        Self::of(&text, settings, Arc::new(resolver))
    }

    /// Uses this text as the document, whatever the settings name.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn read(document: &str, settings: OpenApiSpec) -> Result<Self, OpenApiError> {
        Self::of(document, settings, Arc::new(SystemResolver))
    }

    fn of(
        text: &str,
        settings: OpenApiSpec,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Self, OpenApiError> {
        let tools = tools(text, &settings, resolver.clone())?;
        Ok(Self {
            settings,
            resolver,
            tools: Mutex::new(Some(tools)),
        })
    }

    async fn fetch(&self) -> Result<(), OpenApiError> {
        let url = address(&self.settings.document)?;
        let client = Client::new(
            &WebSpec {
                max_bytes: DOCUMENT_BYTES + 1,
                ..self.settings.web(&url)
            },
            self.resolver.clone(),
        )?;
        let page = client.ask(Ask {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: None,
        });
        let failed = |error: ToolError| OpenApiError::Fetch(error.message);
        let page = page.await.map_err(failed)?;
        if !page.status.is_success() {
            return Err(OpenApiError::Fetch(format!(
                "it is answered with {}",
                page.status
            )));
        }
        let (settings, resolver) = (self.settings.clone(), self.resolver.clone());
        let read = blocking(move || {
            let text = String::from_utf8_lossy(&page.body);
            Ok(tools(&text, &settings, resolver))
        });
        *self.tools.lock() = Some(read.await.map_err(failed)??);
        Ok(())
    }
}

impl Toolset for OpenApi {
    fn tools(&self) -> Result<Vec<ToolHandle>, ToolError> {
        let tools = self.tools.lock().clone();
        tools.ok_or_else(|| ToolError::new("the document was not fetched"))
    }

    fn revision(&self) -> u64 {
        self.tools.lock().is_some().into()
    }

    fn open(&self) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async {
            let is_there = self.tools.lock().is_some();
            match is_there {
                true => Ok(()),
                false => self.fetch().await.map_err(ToolError::from),
            }
        })
    }
}

/// The text of a regular file that is no larger than a document may be.
fn file(path: &Path) -> Result<String, OpenApiError> {
    let fault = |cause| OpenApiError::File {
        file: path.display().to_string(),
        cause,
    };
    let kind = std::fs::metadata(path).map_err(fault)?;
    if !kind.is_file() {
        return Err(fault(std::io::Error::other("it is not a regular file")));
    }
    let mut text = String::new();
    let opened = std::fs::File::open(path).map_err(fault)?;
    let most = u64::try_from(DOCUMENT_BYTES + 1).unwrap_or(u64::MAX);
    opened.take(most).read_to_string(&mut text).map_err(fault)?;
    Ok(text)
}

/// The tools of a document.
fn tools(
    text: &str,
    settings: &OpenApiSpec,
    resolver: Arc<dyn Resolver>,
) -> Result<Vec<ToolHandle>, OpenApiError> {
    let document = Document::read(text)?;
    let base = settings.base(&document)?;
    let api = Arc::new(Api {
        client: Client::new(&settings.web(&base), resolver)?,
        credentials: security::credentials(&document, &settings.credentials)?,
        headers: settings.extra_headers()?,
        base,
        max_output: settings.max_output,
        reveal: settings.reveal.clone(),
    });
    let mut operations = Operations::new(&document, &api.credentials);
    let mut tools = Vec::new();
    for place in document.operations() {
        if tools.len() == OPERATIONS {
            tracing::warn!(
                "an OpenAPI document has more than {OPERATIONS} operations: the others are left out"
            );
            break;
        }
        match operations.make(place, |name| settings.effect_of(name)) {
            Ok(operation) => tools.push(ToolHandle::new(OperationTool {
                api: api.clone(),
                operation,
            })),
            Err(why) => {
                let path = ghostlight_safety::sanitize_line(place.path, 200);
                tracing::warn!(%path, method = place.method, why, "an operation is left out");
            }
        }
    }
    match tools.is_empty() {
        true => Err(OpenApiError::NoOperation),
        false => Ok(tools),
    }
}
