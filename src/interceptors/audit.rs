use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::PathBuf,
};

use ghostlight_actors::{
    contract::{
        Interceptor, ModelContext, ModelError, NextModel, NextTool, ToolContext, ToolError,
        ToolOutput,
    },
    safety,
    vocabulary::{Arguments, ErrorKind, ModelRequest, ModelResponse},
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::logging::tool_end;

/// Writes down each attempt before it is made and how it ended, redacted, one JSON object a line.
/// What cannot be written down is not done.
///
/// A file that has reached its bound is kept once more, with `.1` added to its name, and begun
/// anew; so both together hold at most twice the bound. Without a file the lines go to `tracing`,
/// under the target `ghostlight::audit`.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    file: Option<PathBuf>,
    max_bytes: u64,
    #[serde(skip)]
    open: Mutex<Option<(File, u64)>>,
}

impl Default for Audit {
    /// To `tracing`.
    fn default() -> Self {
        Self {
            file: None,
            max_bytes: 16 << 20,
            open: Mutex::default(),
        }
    }
}

impl Audit {
    /// To this file, which begins anew at 16 MiB.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            file: Some(path.into()),
            ..Self::default()
        }
    }

    /// Sets at how many bytes the file begins anew.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Opens the file, so that what is wrong with it is known before anything is called.
    pub(super) fn checked(self) -> Result<Self, String> {
        if let Some(path) = &self.file {
            let opened = open(path).map_err(|error| format!("{}: {error}", path.display()))?;
            *self.open.lock() = Some(opened);
        }
        Ok(self)
    }

    fn write(&self, line: &Value) -> Result<(), String> {
        let mut text = line.to_string();
        let Some(path) = &self.file else {
            tracing::info!(target: "ghostlight::audit", "{text}");
            return Ok(());
        };
        text.push('\n');
        let mut open_file = self.open.lock();
        let written = self.append(path, &mut open_file, text.as_bytes());
        written.map_err(|error| {
            // It is opened again with the next line.
            *open_file = None;
            format!(
                "the audit file {} cannot be written: {error}",
                path.display()
            )
        })
    }

    fn append(
        &self,
        path: &PathBuf,
        open_file: &mut Option<(File, u64)>,
        line: &[u8],
    ) -> io::Result<()> {
        let length = line.len() as u64;
        let full = open_file
            .as_ref()
            .is_some_and(|(_, bytes)| *bytes > 0 && bytes + length > self.max_bytes);
        if full {
            *open_file = None;
            let mut before = path.clone().into_os_string();
            before.push(".1");
            fs::rename(path, before)?;
        }
        if open_file.is_none() {
            *open_file = Some(open(path)?);
        }
        if let Some((file, bytes)) = open_file {
            file.write_all(line)?;
            *bytes += length;
        }
        Ok(())
    }
}

fn open(path: &PathBuf) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

/// What both lines of an attempt begin with.
fn line(at: u64, what: Value, run: String, operation: String) -> Value {
    let mut line = json!({ "at_ms": at, "run": run, "operation": operation });
    if let (Some(line), Value::Object(what)) = (line.as_object_mut(), what) {
        line.extend(what);
    }
    line
}

impl Interceptor for Audit {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let refuse = |reason| ModelError::new(ErrorKind::Denied, reason);
        let (run, operation) = (cx.run().to_string(), cx.operation().to_string());
        let (model, began) = (request.model.clone(), next.clock().now());
        let begins = json!({
            "model": model, "begins": true, "messages": request.conversation.len(),
        });
        self.write(&line(began.0, begins, run.clone(), operation.clone()))
            .map_err(refuse)?;
        let answer = next.respond(request, cx).await;
        let now = next.clock().now();
        let mut ended = json!({ "model": model, "ms": super::millis(now.since(began)) });
        match &answer {
            Ok(answer) => ended["tokens"] = answer.usage.total_tokens().into(),
            Err(error) => ended["error"] = safety::redact_text(&error.message).into(),
        }
        // What was answered was paid for.
        if let Err(error) = self.write(&line(now.0, ended, run, operation)) {
            tracing::error!(%error, "the end of a call was not written down");
        }
        answer
    }

    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let (run, operation) = (cx.run().to_string(), cx.operation().to_string());
        let (tool, began) = (next.definition().name.clone(), next.clock().now());
        let begins = json!({
            "tool": tool, "begins": true, "agent": cx.agent(),
            "arguments": safety::redact_arguments(arguments.text()),
        });
        self.write(&line(began.0, begins, run.clone(), operation.clone()))
            .map_err(ToolError::new)?;
        let output = next.call(arguments, cx).await;
        let now = next.clock().now();
        let mut ended = json!({
            "tool": tool, "end": tool_end(&output), "ms": super::millis(now.since(began)),
        });
        if let Err(error) = &output {
            ended["error"] = safety::redact_text(&error.message).into();
        }
        // What has happened stays what it was.
        if let Err(error) = self.write(&line(now.0, ended, run, operation)) {
            tracing::error!(%error, "the end of a call was not written down");
        }
        output
    }
}
