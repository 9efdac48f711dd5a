//! A tool with which an agent keeps documents in an index.

use std::path::PathBuf;

use ghostlight_actors::{
    contract::{EmbedderHandle, Tool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, Effect, ToolDefinition},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::indexed_folder::{ADDED, ChunkSpec};
use crate::{
    models::EmbedderSpec,
    retrieval::index::{Index, IndexError, NewDocument, SyncOptions},
};

/// The most characters of a document that an agent puts into an index, and of its name.
const MOST: (usize, usize) = (200_000, 200);
/// How many names a list has at most.
const LISTED: usize = 200;

const ABOUT: &str = "Keeps texts where they are searched later. `put` stores a text under a name, in the place of an \
                     earlier one of that name; `remove` takes it out; `list` names what is there, and `statistics` \
                     says how much.";

/// Which index an agent may add documents to. A `document_search` with `added: true` and the same `index` finds them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DocumentEditorSpec {
    /// The file of the index. Unlike one of a folder it cannot be made again: what is added stands nowhere else.
    pub index: PathBuf,
    /// The subject of the documents.
    #[serde(default)]
    pub description: Option<String>,
    /// The source of vectors; the same as that of the tools that search the index.
    #[serde(default)]
    pub embedder: Option<EmbedderSpec>,
    /// How texts are cut into passages.
    #[serde(default)]
    pub chunks: ChunkSpec,
}

impl DocumentEditorSpec {
    /// The settings for this index, without an embedder.
    pub fn new(index: impl Into<PathBuf>) -> Self {
        Self {
            index: index.into(),
            description: None,
            embedder: None,
            chunks: ChunkSpec::default(),
        }
    }
}

/// An `idempotent` tool that puts documents into an index and removes them: the kind of tool `document_editor`.
#[derive(Debug)]
pub struct DocumentEditor {
    definition: ToolDefinition,
    settings: DocumentEditorSpec,
    embedder: Option<EmbedderHandle>,
    options: SyncOptions,
    index: OnceCell<Index>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Put,
    Remove,
    List,
    Statistics,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditorArguments {
    action: Action,
    /// The name of the document, for `put` and `remove`.
    #[serde(default)]
    name: Option<String>,
    /// Its text in Markdown, for `put`.
    #[serde(default)]
    text: Option<String>,
}

impl DocumentEditor {
    /// A tool of this name.
    ///
    /// # Errors
    /// When the embedder cannot be made, or a setting is out of its bounds.
    pub fn new(name: impl Into<String>, settings: DocumentEditorSpec) -> Result<Self, String> {
        let embedder = settings.embedder.as_ref().map(EmbedderSpec::embedder);
        let embedder = embedder.transpose();
        let mut options = SyncOptions::default();
        let cut = settings.chunks.apply(&mut options);
        cut.map_err(|error| format!("chunks: {error}"))?;
        let about = settings.description.as_deref();
        let description = about.map_or(ABOUT.to_owned(), |about| format!("{about} {ABOUT}"));
        Ok(Self {
            definition: ToolDefinition::new(name, description)
                .effect(Effect::Idempotent)
                .parameters_of::<EditorArguments>(),
            embedder: embedder.map_err(|error| format!("embedder: {error}"))?,
            settings,
            options,
            index: OnceCell::new(),
        })
    }

    async fn index(&self) -> Result<&Index, IndexError> {
        let open = || Index::open(&self.settings.index, self.embedder.clone());
        self.index.get_or_try_init(open).await
    }

    async fn put(&self, name: &str, text: String) -> Result<String, ToolError> {
        let characters = text.chars().count();
        if text.trim().is_empty() || characters > MOST.0 {
            let most = MOST.0;
            return Err(ToolError::new(format!(
                "a text has 1 to {most} characters, and this one has {characters}"
            )));
        }
        let document = NewDocument::text(ADDED, name, text);
        let index = self.index().await.map_err(failed)?;
        index.put(document, &self.options).await.map_err(failed)?;
        Ok(format!("kept as {name}"))
    }

    async fn list(&self) -> Result<String, IndexError> {
        let documents = self.index().await?.documents().await?;
        let added = documents.into_iter().filter(|row| row.folder == ADDED);
        let mut names: Vec<String> = added.map(|row| row.name).collect();
        let more = names.len().saturating_sub(LISTED);
        names.truncate(LISTED);
        if more > 0 {
            names.push(format!("({more} more)"));
        }
        Ok(match names.is_empty() {
            true => "There is nothing yet.".to_owned(),
            false => names.join("\n"),
        })
    }

    async fn statistics(&self) -> Result<String, IndexError> {
        let statistics = self.index().await?.statistics().await?;
        Ok(format!(
            "{} documents in {} passages of {} bytes; {}",
            statistics.documents,
            statistics.chunks,
            statistics.text_bytes,
            statistics.health().as_str()
        ))
    }
}

fn failed(error: IndexError) -> ToolError {
    ToolError::new(error.to_string())
}

impl Tool for DocumentEditor {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    async fn call(&self, arguments: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments: EditorArguments = arguments
            .parse()
            .map_err(|error| ToolError::new(format!("the arguments do not fit: {error}")))?;
        let name = || {
            let name = arguments.name.as_deref().unwrap_or_default().trim();
            let fits = !name.is_empty() && name.chars().count() <= MOST.1;
            match fits && !name.chars().any(char::is_control) {
                true => Ok(name),
                false => Err(ToolError::new(format!(
                    "this needs `name`: 1 to {} characters on one line",
                    MOST.1
                ))),
            }
        };
        let told = match arguments.action {
            Action::Put => {
                let text = arguments.text.clone().unwrap_or_default();
                self.put(name()?, text).await?
            }
            Action::Remove => {
                let name = name()?;
                let index = self.index().await.map_err(failed)?;
                match index.remove(ADDED, name).await.map_err(failed)? {
                    true => format!("removed {name}"),
                    false => format!("there is no {name} here; `list` names what is there"),
                }
            }
            Action::List => self.list().await.map_err(failed)?,
            Action::Statistics => self.statistics().await.map_err(failed)?,
        };
        Ok(ToolOutput::text(told))
    }
}
