//! Files that a tool of an MCP server reads.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ghostlight_actors::{
    contract::{ToolContext, ToolErrorKind, ToolHandle, Toolset as _},
    vocabulary::{Arguments, seconds},
};
use ghostlight_safety::cut;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::{
    mcp::{self, McpToolset},
    retrieval::{
        chunking::Structure,
        readers::{Document, MAX_TEXT_BYTES, Reader, ReaderError, SourceFile},
    },
};

/// How many characters of a server's reason are told.
const REASON: usize = 200;

/// Which files a tool of an MCP server reads, and how it is asked.
///
/// ```yaml
/// readers:
///   - files: [docx, odt]
///     mcp: { command: markitdown-mcp }
///     tool: convert_to_markdown
///     arguments: { uri: "data:application/octet-stream;base64,{base64}" }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ReaderSpec {
    /// The endings of the files' names, such as `docx`. These files are read by no other reader.
    pub files: Vec<String>,
    /// The server, with the settings of an entry of `mcp` in a team file.
    pub mcp: Map<String, Value>,
    /// The server's name for the tool.
    pub tool: String,
    /// The tool's arguments. In each `{name}` is replaced by the file's path below the folder, and `{base64}` by its
    /// content.
    pub arguments: BTreeMap<String, String>,
    /// Whether the tool gives plain text; it gives Markdown, when left out.
    #[serde(default)]
    pub plain: bool,
    /// How long reading one file may take; a minute when left out.
    #[serde(rename = "timeout_s", with = "seconds", default = "default_timeout")]
    #[schemars(with = "f64")]
    pub timeout: Duration,
}

fn default_timeout() -> Duration {
    Duration::from_secs(60)
}

/// A [`Reader`] that asks a tool of an MCP server for the text of a file. The server is connected when the first file is
/// read. The text has at most 16 MiB; a file that the server refuses, or does not read in time, is an error of that file.
#[derive(Clone, Debug)]
pub struct McpReader {
    server: McpToolset,
    tool: String,
    files: Vec<String>,
    arguments: BTreeMap<String, String>,
    structure: Structure,
    time: Duration,
}

impl McpReader {
    /// Reads files with these endings of their names by this tool of a server, in at most a minute each, as Markdown. See
    /// [`argument`](Self::argument).
    pub fn new(
        server: McpToolset,
        tool: impl Into<String>,
        files: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let ending = |file: String| file.trim_start_matches('.').to_ascii_lowercase();
        Self {
            server,
            tool: tool.into(),
            files: files.into_iter().map(Into::into).map(ending).collect(),
            arguments: BTreeMap::new(),
            structure: Structure::Markdown,
            time: default_timeout(),
        }
    }

    /// Adds an argument. In its value `{name}` is replaced by the file's path below the folder, and `{base64}` by its
    /// content.
    #[must_use]
    pub fn argument(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.arguments.insert(name.into(), value.into());
        self
    }

    /// Sets the structure of the texts, for chunking.
    #[must_use]
    pub fn structure(mut self, structure: Structure) -> Self {
        self.structure = structure;
        self
    }

    /// Sets how long reading one file may take.
    #[must_use]
    pub fn time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// The reader of these settings.
    pub(super) fn of(settings: &ReaderSpec) -> Result<Self, String> {
        if settings.files.is_empty() || settings.tool.is_empty() || settings.arguments.is_empty() {
            let needs = "a reader needs `files`, `tool` and `arguments` with {name} or {base64}";
            return Err(needs.to_owned());
        }
        let server = mcp::connection(&settings.tool, &settings.mcp);
        let server = server.map_err(|error| format!("mcp: {error}"))?;
        let mut reader =
            Self::new(server, settings.tool.as_str(), settings.files.iter()).time(settings.timeout);
        reader.arguments = settings.arguments.clone();
        Ok(match settings.plain {
            true => reader.structure(Structure::Text),
            false => reader,
        })
    }

    async fn found(&self) -> Result<ToolHandle, ReaderError> {
        let failed = |error: String| ReaderError::Failed(brief(&error));
        let connected = self.server.connect().await;
        connected.map_err(|error| failed(error.to_string()))?;
        let tools = self.server.tools().map_err(|error| failed(error.message))?;
        let mut tools = tools.into_iter();
        let tool = tools.find(|tool| tool.definition().name == self.tool);
        tool.ok_or_else(|| failed(format!("the server has no tool {:?}", self.tool)))
    }

    async fn ask(&self, file: &SourceFile) -> Result<String, ReaderError> {
        let tool = self.found().await?;
        let mut base64 = String::new();
        if self
            .arguments
            .values()
            .any(|value| value.contains("{base64}"))
        {
            base64 = STANDARD.encode(&file.bytes);
        }
        let value = |value: &String| Value::String(filled(value, &file.name, &base64));
        let arguments = self.arguments.iter();
        let arguments: Map<String, Value> = arguments
            .map(|(name, text)| (name.clone(), value(text)))
            .collect();
        let arguments = Arguments::from(Value::Object(arguments));
        let output = tool.call(arguments, ToolContext::detached()).await;
        let output = output.map_err(|error| match error.kind {
            ToolErrorKind::Failed => ReaderError::Malformed(brief(&error.message)),
            _ => ReaderError::Failed(brief(&error.message)),
        })?;
        if output.continuation.is_some() {
            let reason = "the server asks a person, or takes its time: no reader can wait for it";
            return Err(ReaderError::Malformed(reason.to_owned()));
        }
        Ok(output.text)
    }
}

fn brief(reason: &str) -> String {
    cut(reason, REASON).into_owned()
}

/// An argument's value for a file. What a name contains is not replaced again.
fn filled(value: &str, name: &str, base64: &str) -> String {
    let parts = value.split("{base64}");
    let parts: Vec<String> = parts.map(|part| part.replace("{name}", name)).collect();
    parts.join(base64)
}

impl Reader for McpReader {
    fn reads(&self, name: &str) -> bool {
        let name = name.rsplit('/').next().unwrap_or_default();
        let ending = name
            .rsplit_once('.')
            .map(|(_, ending)| ending.to_ascii_lowercase());
        ending.is_some_and(|ending| self.files.contains(&ending))
    }

    async fn read(&self, file: SourceFile) -> Result<Document, ReaderError> {
        let read = timeout(self.time, self.ask(&file)).await;
        let text = read.map_err(|_| ReaderError::TimedOut(self.time.as_secs()))??;
        if text.len() > MAX_TEXT_BYTES {
            return Err(ReaderError::TooLarge(MAX_TEXT_BYTES));
        }
        if text.trim().is_empty() {
            return Err(ReaderError::NoText);
        }
        Ok(Document {
            title: None,
            text,
            structure: self.structure,
            ..Document::default()
        })
    }
}
