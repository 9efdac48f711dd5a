//! Documents that agents search: through a tool, and as context that is added automatically.
//!
//! ```yaml
//! tools:
//!   handbook:
//!     kind: document_search
//!     folder: ./handbook
//!     description: The handbook of the desk.
//! agent:
//!   name: desk
//!   tools: [handbook]
//!   policies: [{ name: cited_answers }]
//! ```
//!
//! The results of a search are in the run's journal, as with every tool, so a replay does not
//! search again.

mod document_editor;
mod indexed_folder;
#[cfg(feature = "mcp")]
mod mcp_reader;
#[cfg(feature = "postgres")]
mod postgres_vectors;
mod recalled_documents;
#[cfg(feature = "postgres")]
mod server_rows;
#[cfg(feature = "tools")]
mod web_pages;

use ghostlight_actors::{
    contract::ToolHandle,
    run::{PolicyHandle, Registry},
};
use serde::Deserialize;
use serde_json::{Map, Value};

#[cfg(feature = "mcp")]
pub use self::mcp_reader::{McpReader, ReaderSpec};
#[cfg(feature = "postgres")]
pub use self::postgres_vectors::{PostgresVectors, VectorStoreSpec};
#[cfg(feature = "tools")]
pub use self::web_pages::{WebPageSpec, WebPages};
pub use self::{
    document_editor::{DocumentEditor, DocumentEditorSpec},
    indexed_folder::{
        ADDED, ChunkSpec, DatabaseSpec, DocumentSearch, DocumentSpec, IndexedFolder, RerankSpec,
        Reranking,
    },
    recalled_documents::RecalledDocuments,
};
use crate::{context::ContextProvider, retrieval::readers::Readers};

/// The policy's name, and that of its list of pages.
const RECALL: &str = "recall_documents";

/// Registers the kinds of tools `document_search` and `document_editor` and the policy `recall_documents`. The readers
/// decide which files are read: [`Readers::default`], with a
/// [`PdfReader`](crate::retrieval::readers::PdfReader) for PDF.
#[must_use]
pub fn register(registry: Registry, readers: Readers) -> Registry {
    let of_tool = readers.clone();
    registry
        .tool_kind("document_search", move |name, given| {
            tool(name, given, of_tool.clone())
        })
        .tool_kind("document_editor", |name, given| {
            let settings =
                DocumentEditorSpec::deserialize(given).map_err(|error| error.to_string())?;
            Ok(ToolHandle::new(DocumentEditor::new(name, settings)?))
        })
        .policy(RECALL, move |given| policy(given, readers.clone()))
}

fn tool(name: &str, given: &Map<String, Value>, readers: Readers) -> Result<ToolHandle, String> {
    let settings = DocumentSpec::deserialize(given).map_err(|error| error.to_string())?;
    #[cfg(feature = "tools")]
    let settings = {
        let mut settings = settings;
        if let Some(web) = &mut settings.web {
            web.list.get_or_insert_with(|| name.to_owned());
        }
        settings
    };
    let folder = IndexedFolder::new(settings, readers)?;
    Ok(ToolHandle::new(DocumentSearch::new(name, folder)))
}

#[derive(Deserialize)]
struct RecallSpec {
    /// The most tokens of recalled passages.
    max_tokens: Option<u64>,
    /// The most passages.
    limit: Option<usize>,
    #[serde(flatten)]
    documents: Map<String, Value>,
}

fn policy(given: &Value, readers: Readers) -> Result<PolicyHandle, String> {
    let settings = RecallSpec::deserialize(given).map_err(|error| error.to_string())?;
    let documents =
        DocumentSpec::deserialize(&settings.documents).map_err(|error| error.to_string())?;
    #[cfg(feature = "tools")]
    let documents = {
        let mut documents = documents;
        if let Some(web) = &mut documents.web {
            // A policy has no name of its own, and the list without a name is that of the command.
            web.list.get_or_insert_with(|| RECALL.to_owned());
        }
        documents
    };
    let folder = IndexedFolder::new(documents, readers)?;
    Ok(PolicyHandle::new(move || {
        let source = RecalledDocuments::new(folder.clone());
        let source = match settings.limit {
            Some(limit) => source.limit(limit),
            None => source,
        };
        let provider = ContextProvider::new(source);
        match settings.max_tokens {
            Some(tokens) => provider.max_tokens(tokens),
            None => provider,
        }
    }))
}
