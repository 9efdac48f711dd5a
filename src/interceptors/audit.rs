use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use ghostlight_actors::{
    contract::{
        Clock, Interceptor, ModelContext, ModelError, NextModel, NextTool, Origin, ToolContext,
        ToolError, ToolOutput, Unattempted,
    },
    vocabulary::{
        Arguments, ErrorKind, ModelRequest, ModelResponse, OperationId, RunId, Timestamp,
    },
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::logging::tool_end;
use crate::files;

/// Writes an audit line before each attempt and one after it, redacted, as JSON. A line contains
/// the run, operation, session, user (the session's owner) and agent. For a call that needed
/// approval it also contains the `approver` and the `decision` (`approved`, `edited` or
/// `remembered`). A call that gets its result without an attempt (denied, refused, answered by a
/// policy, unknown tool) has one line, with `answered_by` and its outcome. The second line of an
/// attempt that is cut off (by a cancellation or a bound on time) has the `end` `interrupted`. If the
/// line before an attempt cannot be written, the attempt is not made.
///
/// A file that has reached its bound is renamed by adding `.1`, and a new one is begun, so both
/// together hold at most twice the bound. The file must be a regular file: a link, device, FIFO or
/// socket is refused. Several processes may write one file. Without a file the lines go to
/// `tracing`, under the target `ghostlight::audit`.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    file: Option<PathBuf>,
    max_bytes: u64,
    #[serde(skip)]
    open: Mutex<Option<File>>,
}

impl Default for Audit {
    /// Writes to `tracing`.
    fn default() -> Self {
        Self {
            file: None,
            max_bytes: 16 << 20,
            open: Mutex::default(),
        }
    }
}

impl Audit {
    /// Writes to this file, which is renamed at 16 MiB.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            file: Some(path.into()),
            ..Self::default()
        }
    }

    /// Sets the size in bytes at which the file is renamed.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Checks that the file can be written, so that a fault is known before anything is called. The
    /// file is created with its first line, so loading a team writes nothing.
    pub(super) fn checked(self) -> Result<Self, String> {
        if let Some(path) = &self.file {
            let looked = match files::open_regular(OpenOptions::new().append(true), path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let folder = path.parent().filter(|folder| *folder != Path::new(""));
                    fs::metadata(folder.unwrap_or(Path::new("."))).map(drop)
                }
                opened => opened.map(drop),
            };
            looked.map_err(|error| format!("{}: {error}", path.display()))?;
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
        let written = self.append(path, &mut self.open.lock(), text.as_bytes());
        written.map_err(|error| {
            format!(
                "the audit file {} cannot be written: {error}",
                path.display()
            )
        })
    }

    /// Appends a line. After an error the next line opens the file again.
    fn append(&self, path: &Path, kept: &mut Option<File>, line: &[u8]) -> io::Result<()> {
        let mut file = kept.take().map_or_else(|| open(path), Ok)?;
        loop {
            // Other processes may write and rename it too.
            file.lock()?;
            let about = file.metadata()?;
            if !is_at(path, &about)? {
                file = open(path)?;
                continue;
            }
            let full = about.len() > 0 && about.len() + line.len() as u64 > self.max_bytes;
            if full {
                let mut before = path.to_owned().into_os_string();
                before.push(".1");
                fs::rename(path, before)?;
                // The new file gets the same permissions; if that fails, only the user can read it.
                let fresh = open(path)?;
                let _ = fresh.set_permissions(about.permissions());
                file = fresh;
                continue;
            }
            file.write_all(line)?;
            file.unlock()?;
            *kept = Some(file);
            return Ok(());
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    files::open_regular(files::private().create(true).append(true), path)
}

/// Whether this metadata belongs to the file that is now at the path.
fn is_at(path: &Path, about: &Metadata) -> io::Result<bool> {
    #[cfg(unix)]
    let identity = {
        use std::os::unix::fs::MetadataExt as _;
        |file: &Metadata| (file.dev(), file.ino())
    };
    // While the file is locked, no other process changes its length.
    #[cfg(not(unix))]
    let identity = Metadata::len;
    match fs::metadata(path) {
        Ok(there) => Ok(identity(&there) == identity(about)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A line, with the fields that all lines have.
fn line(at: u64, what: Value, run: String, operation: String, origin: Option<&Origin>) -> Value {
    let mut line = json!({ "at_ms": at, "run": run, "operation": operation });
    if let Some(origin) = origin {
        line["session"] = json!(origin.session.as_ref().map(ToString::to_string));
        line["user"] = json!(origin.user);
        line["agent"] = json!(origin.agent);
        if !origin.makers.is_empty() {
            line["makers"] = json!(origin.makers);
        }
        if let Some(approval) = &origin.approval {
            line["approver"] = json!(approval.by);
            line["decision"] = json!(approval.decision);
        }
    }
    if let (Some(line), Value::Object(what)) = (line.as_object_mut(), what) {
        line.extend(what);
    }
    line
}

/// An attempt whose first line is written. It writes its second line when it is dropped, since nobody comes back to an
/// attempt that is cut off.
struct Attempt<'a> {
    audit: &'a Audit,
    clock: &'a Arc<dyn Clock>,
    began: Timestamp,
    run: String,
    operation: String,
    origin: Option<Origin>,
    /// The fields of the second line, beside those that all lines have and the duration.
    end: Value,
}

impl<'a> Attempt<'a> {
    /// Writes the first line. The second begins with the same name.
    fn begin(
        (audit, clock): (&'a Audit, &'a Arc<dyn Clock>),
        (run, operation): (RunId, OperationId),
        origin: Option<&Origin>,
        (kind, name): (&str, &str),
        mut begins: Value,
    ) -> Result<Self, String> {
        begins[kind] = name.into();
        begins["begins"] = true.into();
        let (run, operation) = (run.to_string(), operation.to_string());
        let first = line(
            clock.now().0,
            begins,
            run.clone(),
            operation.clone(),
            origin,
        );
        audit.write(&first)?;
        Ok(Self {
            audit,
            clock,
            began: clock.monotonic(),
            run,
            operation,
            origin: origin.cloned(),
            end: json!({ kind: name, "end": "interrupted" }),
        })
    }

    fn error(&mut self, message: &str) {
        self.end["error"] = ghostlight_safety::redact_text(message).into();
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut end = std::mem::take(&mut self.end);
        end["ms"] = super::millis(self.clock.monotonic().since(self.began)).into();
        let (run, operation) = (
            std::mem::take(&mut self.run),
            std::mem::take(&mut self.operation),
        );
        let line = line(
            self.clock.now().0,
            end,
            run,
            operation,
            self.origin.as_ref(),
        );
        // The attempt was made, so its outcome stays.
        if let Err(error) = self.audit.write(&line) {
            tracing::error!(%error, "the end of a call was not written down");
        }
    }
}

impl Interceptor for Audit {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let begins = json!({ "messages": request.conversation.len() });
        let mut attempt = Attempt::begin(
            (self, next.clock()),
            (cx.run(), cx.operation()),
            cx.origin(),
            ("model", &request.model),
            begins,
        )
        .map_err(|reason| ModelError::new(ErrorKind::Denied, reason))?;
        let answer = next.respond(request, cx).await;
        match &answer {
            Ok(answer) => {
                attempt.end["end"] = "success".into();
                attempt.end["tokens"] = answer.usage.total_tokens().into();
            }
            Err(error) => {
                attempt.end["end"] = "error".into();
                attempt.error(&error.message);
            }
        }
        answer
    }

    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let begins = json!({
            "agent": cx.agent(),
            "arguments": ghostlight_safety::redact_arguments(arguments.text()),
        });
        let mut attempt = Attempt::begin(
            (self, next.clock()),
            (cx.run(), cx.operation()),
            cx.origin(),
            ("tool", &next.definition().name),
            begins,
        )
        .map_err(ToolError::new)?;
        let output = next.call(arguments, cx).await;
        attempt.end["end"] = tool_end(&output).into();
        if let Err(error) = &output {
            attempt.error(&error.message);
        }
        output
    }

    fn unattempted(&self, call: &Unattempted<'_>) {
        let what = json!({
            "tool": call.result.name,
            "arguments": ghostlight_safety::redact_arguments(call.call.arguments.text()),
            "answered_by": call.call.by,
            "end": call.result.status,
        });
        let (run, operation) = (call.run.to_string(), call.operation.to_string());
        let written = self.write(&line(call.at.0, what, run, operation, Some(call.origin)));
        // No attempt is made in any case.
        if let Err(error) = written {
            tracing::error!(%error, "a call that was not made was not written down");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn two_that_write_one_file_lose_nothing_of_what_fits() {
        let name = format!("ghostlight-audited-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("audit.jsonl");
        let both = [0, 1].map(|_| Audit::file(&path).max_bytes(100));
        for n in 0..200 {
            // The two writers take turns, with several lines each.
            both[(n / 3 + n / 7) % 2].write(&json!({ "n": n })).unwrap();
            let before = folder.join("audit.jsonl.1");
            let read = |path| fs::read_to_string(path).unwrap_or_default();
            let (before, now) = (read(&before), read(&path));
            assert!(before.len() <= 100 && now.len() <= 100);
            let kept: Vec<Value> = (before.clone() + &now)
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            let first = n + 1 - kept.len();
            let expected: Vec<Value> = (first..=n).map(|n| json!({ "n": n })).collect();
            assert_eq!(kept, expected);
            assert!(first == 0 || before.len() > 85, "it was full");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
