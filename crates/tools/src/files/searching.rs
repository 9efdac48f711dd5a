//! `grep_files`.

use std::{collections::VecDeque, fmt::Write as _, io::Read, sync::Arc};

use ghostlight_actors::{
    contract::{ToolContext, ToolError, ToolHandle, ToolOutput},
    vocabulary::{Effect, ToolDefinition},
};
use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Folder, binary_kind, cut,
    reading::{matcher, yes},
    root::{Kind, told},
};
use crate::blocking::blocking;

/// How many bytes one call searches in all files.
const SEARCHED: u64 = 512 << 20;
/// How many characters of a line are shown.
const LINE: usize = 400;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Grep {
    /// A regular expression, matched against each line.
    pattern: String,
    /// A file or folder; the whole folder when left out.
    #[serde(default)]
    path: String,
    /// Only files whose path fits this pattern, such as `**/*.rs`.
    #[serde(default)]
    glob: Option<String>,
    /// Whether `a` finds `A`.
    #[serde(default)]
    ignore_case: bool,
    /// Whether folders below are searched.
    #[serde(default = "yes")]
    recursive: bool,
    /// How many lines before and after each match are shown.
    #[serde(default)]
    #[schemars(range(max = 20))]
    context: usize,
    /// At most so many matches.
    #[serde(default = "most")]
    #[schemars(range(min = 1, max = 1000))]
    max_matches: usize,
}

fn most() -> usize {
    100
}

pub(super) fn tools(folder: &Arc<Folder>) -> Vec<ToolHandle> {
    let about = "Searches files for lines that match a regular expression, and shows them as path:line:text.";
    let grep = ToolDefinition::new("grep_files", about).effect(Effect::Read);
    let folder = folder.clone();
    vec![ToolHandle::typed(
        grep,
        move |wanted: Grep, cx: ToolContext| {
            let folder = folder.clone();
            async move { blocking(move || folder.grep(&wanted, &cx)).await }
        },
    )]
}

/// The results of a search so far.
struct Found {
    shown: String,
    matches: usize,
    files: usize,
    bytes: u64,
    /// Files that were not searched, and why.
    left_out: Vec<String>,
    /// Why the search stopped before the end.
    stopped: Option<&'static str>,
}

impl Folder {
    fn grep(&self, wanted: &Grep, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let pattern = RegexBuilder::new(&wanted.pattern)
            .case_insensitive(wanted.ignore_case)
            .size_limit(1 << 20)
            .dfa_size_limit(4 << 20)
            .build()
            .map_err(|error| ToolError::new(format!("the pattern cannot be read: {error}")))?;
        let glob = wanted.glob.as_deref().map(matcher).transpose()?;
        let parts = self.root.parts(&wanted.path)?;
        let mut found = Found {
            shown: String::new(),
            matches: 0,
            files: 0,
            bytes: 0,
            left_out: Vec::new(),
            stopped: None,
        };
        let failed = |error| told(&wanted.path, &error);
        match self.root.folder(&parts) {
            Ok(dir) => {
                let depth = if wanted.recursive { 64 } else { 1 };
                self.walk(dir, &parts, depth, &mut |entry| {
                    let fits = glob.as_ref().is_none_or(|glob| glob.is_match(entry.path));
                    if !matches!(entry.kind, Kind::File(_)) || !fits {
                        return true;
                    }
                    if cx.cancelled().is_cancelled() {
                        found.stopped = Some("it was cancelled");
                        return false;
                    }
                    // The path is opened from the root's handle, so that a folder swapped meanwhile is not followed.
                    let parts: Vec<&str> = entry.path.split('/').collect();
                    let content = self.content_in(entry.folder, entry.name);
                    self.grep_file(&parts.join("/"), content, &pattern, wanted, &mut found);
                    found.stopped.is_none()
                })
                .map_err(failed)?;
            }
            Err(_) => {
                let content = self.root.content(&parts, self.settings.max_file_bytes);
                let content = content.map_err(failed)?;
                let none = || failed(std::io::ErrorKind::NotFound.into());
                let content = content.ok_or_else(none)?;
                self.grep_file(&wanted.path, Ok(content), &pattern, wanted, &mut found);
            }
        }
        Ok(ToolOutput::text(found.told()))
    }

    fn content_in(&self, folder: &cap_std::fs::Dir, name: &str) -> std::io::Result<Vec<u8>> {
        let (file, size) = super::root::file_in(folder, name)?;
        let most = self.settings.max_file_bytes;
        let mut content = Vec::with_capacity(size.min(most) as usize);
        file.take(most + 1).read_to_end(&mut content)?;
        match content.len() as u64 > most {
            true => Err(std::io::Error::other(format!("more than {most} bytes"))),
            false => Ok(content),
        }
    }

    fn grep_file(
        &self,
        path: &str,
        content: std::io::Result<Vec<u8>>,
        pattern: &Regex,
        wanted: &Grep,
        found: &mut Found,
    ) {
        let content = match content {
            Ok(content) => content,
            Err(error) => {
                if found.left_out.len() < 20 {
                    found.left_out.push(format!("{path}: {error}"));
                }
                return;
            }
        };
        if binary_kind(&content).is_some() {
            return;
        }
        found.files += 1;
        found.bytes += content.len() as u64;
        let around = wanted.context.min(20);
        let mut before: VecDeque<(usize, &[u8])> = VecDeque::new();
        let mut after = 0;
        let lines = content.strip_suffix(b"\n").unwrap_or(&content);
        for (number, line) in lines.split(|byte| *byte == b'\n').enumerate() {
            if pattern.is_match(line) {
                if found.matches >= wanted.max_matches.clamp(1, 1_000) {
                    found.stopped = Some("there are more matches");
                    return;
                }
                found.matches += 1;
                for (number, line) in before.drain(..) {
                    found.show(path, number, '-', line);
                }
                found.show(path, number, ':', line);
                after = around;
            } else if after > 0 {
                after -= 1;
                found.show(path, number, '-', line);
            } else if around > 0 {
                if before.len() == around {
                    before.pop_front();
                }
                before.push_back((number, line));
            }
            if found.shown.len() > self.settings.max_output_bytes {
                found.stopped = Some("the output is full");
                return;
            }
        }
        if found.bytes > SEARCHED {
            found.stopped = Some("so much is not searched in one call");
        }
    }
}

impl Found {
    fn show(&mut self, path: &str, number: usize, mark: char, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let line = cut(line.trim_end_matches('\r'), LINE);
        // Writing to a text cannot fail.
        let _ = writeln!(self.shown, "{path}{mark}{}{mark}{line}", number + 1);
    }

    fn told(mut self) -> String {
        if self.matches == 0 {
            let _ = writeln!(self.shown, "No line of {} text files matches.", self.files);
        }
        if let Some(stopped) = self.stopped {
            let _ = writeln!(
                self.shown,
                "(Stopped: {stopped}. Narrow the path, the glob or the pattern.)"
            );
        }
        for left in &self.left_out {
            let _ = writeln!(self.shown, "(Not searched: {left}.)");
        }
        self.shown.truncate(self.shown.trim_end().len());
        self.shown
    }
}
