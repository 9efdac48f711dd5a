//! Why the operations of a document are no tools.

use super::document::DOCUMENT_BYTES;
use crate::web::WebError;

/// Why the operations of a document are no tools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenApiError {
    /// The file cannot be read.
    #[error("the document {file} cannot be read: {cause}; is the path right?")]
    File {
        /// The path of the file.
        file: String,
        /// What the file system says.
        cause: std::io::Error,
    },
    /// The document's server did not give it.
    #[error("the document could not be fetched: {0}")]
    Fetch(String),
    /// There is more than is read.
    #[error("the document has more than {} MiB; cut out the operations that are needed", DOCUMENT_BYTES >> 20)]
    TooLarge,
    /// It is neither JSON nor YAML.
    #[error("the document is neither JSON nor YAML: {0}")]
    Syntax(String),
    /// It says nothing of OpenAPI.
    #[error("the document is no OpenAPI document: it has no `openapi`")]
    NoDocument,
    /// It is of another version.
    #[error("the document is of version {0}: 3.0, 3.1 and 3.2 are read; convert it first")]
    Version(String),
    /// It has nothing that a tool could be.
    #[error("the document has no operation that can be a tool")]
    NoOperation,
    /// A credential is for a scheme that is not there, or that is of a kind that nobody here speaks.
    #[error(
        "`credentials` names {name:?}, which is none of the document's security schemes that can be used; it has: {known}"
    )]
    Scheme {
        /// The name of the scheme.
        name: String,
        /// The names of those that are there.
        known: String,
    },
    /// A setting cannot be kept.
    #[error("{0}")]
    Setting(String),
}

impl From<WebError> for OpenApiError {
    fn from(error: WebError) -> Self {
        Self::Setting(error.to_string())
    }
}
