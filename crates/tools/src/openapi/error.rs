//! The errors of reading a document.

use super::document::DOCUMENT_BYTES;
use crate::web::WebError;

/// Why the operations of a document cannot become tools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenApiError {
    /// The file cannot be read.
    #[error("the document {file} cannot be read: {cause}; is the path right?")]
    File {
        /// The path of the file.
        file: String,
        /// The error of the file system.
        cause: std::io::Error,
    },
    /// The document could not be fetched from its server.
    #[error("the document could not be fetched: {0}")]
    Fetch(String),
    /// The document is too large.
    #[error("the document has more than {} MiB; cut out the operations that are needed", DOCUMENT_BYTES >> 20)]
    TooLarge,
    /// It is neither JSON nor YAML.
    #[error("the document is neither JSON nor YAML: {0}")]
    Syntax(String),
    /// It is not an OpenAPI document.
    #[error("the document is not an OpenAPI document: it has no `openapi`")]
    NoDocument,
    /// Its version is not supported.
    #[error("the document is of version {0}: 3.0, 3.1 and 3.2 are read; convert it first")]
    Version(String),
    /// No operation of it can become a tool.
    #[error("the document has no operation that can be a tool")]
    NoOperation,
    /// A credential is for a scheme that the document does not have, or whose kind is not supported.
    #[error(
        "`credentials` names {name:?}, which is none of the document's security schemes that can be used; it has: {known}"
    )]
    Scheme {
        /// The name of the scheme.
        name: String,
        /// The names of the known schemes.
        known: String,
    },
    /// A setting is invalid.
    #[error("{0}")]
    Setting(String),
}

ghostlight_actors::parts_of_system_error!(OpenApiError);

impl From<WebError> for OpenApiError {
    fn from(error: WebError) -> Self {
        Self::Setting(error.to_string())
    }
}
