//! `read_file` and `list_files`.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Read},
    sync::Arc,
};

use cap_std::fs::Dir;
use ghostlight_actors::{
    contract::{ToolContext, ToolError, ToolHandle, ToolOutput},
    vocabulary::{Effect, ToolDefinition},
};
use globset::{Glob, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Folder, binary_kind,
    root::{Kind, told},
};
use crate::blocking::blocking;

/// How many lines one call reads by default.
const LINES: usize = 500;
/// How many bytes of one line are shown.
const LINE_BYTES: usize = 2_000;
/// The most bytes that are skipped or counted to find lines.
const SCANNED: u64 = 256 << 20;
/// How many entries one call lists.
const ENTRIES: usize = 1_000;
/// How many entries one call examines.
const LOOKED_AT: usize = 100_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadLines {
    /// The file's path from the folder, such as `src/main.rs`.
    path: String,
    /// The first line to read, counted from 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    from_line: u64,
    /// At most so many lines.
    #[serde(default = "lines")]
    #[schemars(range(min = 1))]
    lines: usize,
    /// Whether each line begins with its number and a tab.
    #[serde(default = "yes")]
    numbers: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// The folder's path; the whole folder when left out.
    #[serde(default)]
    path: String,
    /// How many levels of folders are listed.
    #[serde(default = "two")]
    #[schemars(range(min = 1, max = 32))]
    depth: usize,
    /// Only files whose path fits this pattern, such as `**/*.rs`.
    #[serde(default)]
    glob: Option<String>,
}

fn one() -> u64 {
    1
}
fn two() -> usize {
    2
}
fn lines() -> usize {
    LINES
}
pub(super) fn yes() -> bool {
    true
}

pub(super) fn tools(folder: &Arc<Folder>) -> Vec<ToolHandle> {
    let read = ToolDefinition::new(
        "read_file",
        "Reads lines of a text file. What is binary or too large is told as such.",
    );
    let list = ToolDefinition::new(
        "list_files",
        "Lists files and folders, with sizes in bytes.",
    );
    let (of_read, of_list) = (folder.clone(), folder.clone());
    vec![
        ToolHandle::typed(
            read.effect(Effect::Read),
            move |wanted: ReadLines, _: ToolContext| {
                let folder = of_read.clone();
                async move { blocking(move || folder.read(&wanted)).await }
            },
        ),
        ToolHandle::typed(
            list.effect(Effect::Read),
            move |wanted: List, _: ToolContext| {
                let folder = of_list.clone();
                async move { blocking(move || folder.list(&wanted)).await }
            },
        ),
    ]
}

impl Folder {
    fn read(&self, wanted: &ReadLines) -> Result<ToolOutput, ToolError> {
        let parts = self.root.parts(&wanted.path)?;
        let failed = |error| told(&wanted.path, &error);
        let (file, size) = self.root.file(&parts).map_err(failed)?;
        let mut reader = BufReader::with_capacity(64 << 10, file.take(SCANNED));
        let start = reader.fill_buf().map_err(failed)?;
        if let Some(kind) = binary_kind(start) {
            return Ok(ToolOutput::text(format!(
                "{} is {kind} of {size} bytes, which is not read as text.",
                wanted.path
            )));
        }
        let (mut shown, mut number, mut taken) = (String::new(), 0_u64, 0_usize);
        let mut line = Vec::new();
        let from = wanted.from_line.max(1);
        let more = loop {
            line.clear();
            let (read, whole) = bounded_line(&mut reader, &mut line).map_err(failed)?;
            if read == 0 {
                break false;
            }
            number += 1;
            if number < from {
                continue;
            }
            if taken >= wanted.lines || shown.len() >= self.settings.max_output_bytes {
                break true;
            }
            taken += 1;
            let text = String::from_utf8_lossy(&line);
            if wanted.numbers {
                // Writing to a text cannot fail.
                let _ = write!(shown, "{number:6}\t");
            }
            shown.push_str(&text);
            if !whole {
                let _ = write!(shown, "… (the line has {read} bytes)");
            }
            shown.push('\n');
        };
        if taken == 0 {
            return Ok(ToolOutput::text(match number {
                0 => format!("{} is empty.", wanted.path),
                _ => format!(
                    "{} has {number} lines; there is no line {from}.",
                    wanted.path
                ),
            }));
        }
        if more {
            let next = from + taken as u64;
            let _ = write!(
                shown,
                "(There is more, {size} bytes in all: go on with from_line {next}.)"
            );
        }
        Ok(ToolOutput::text(shown))
    }

    fn list(&self, wanted: &List) -> Result<ToolOutput, ToolError> {
        let parts = self.root.parts(&wanted.path)?;
        let glob = wanted.glob.as_deref().map(matcher).transpose()?;
        let folder = self.root.folder(&parts);
        let folder = folder.map_err(|error| told(&wanted.path, &error))?;
        let mut lines = Vec::new();
        let mut complete = true;
        self.walk(folder, &parts, wanted.depth.clamp(1, 32), &mut |entry| {
            let Entry { path, kind, .. } = entry;
            if glob.as_ref().is_some_and(|glob| !glob.is_match(path)) {
                return true;
            }
            if lines.len() >= ENTRIES {
                complete = false;
                return false;
            }
            lines.push(match kind {
                Kind::Folder => format!("{path}/"),
                Kind::File(size) => format!("{path}  {size}"),
                Kind::Link => format!("{path}  (a link, which is not followed)"),
                Kind::Other => format!("{path}  (no regular file)"),
            });
            true
        })
        .map_err(|error| told(&wanted.path, &error))?;
        if lines.is_empty() {
            return Ok(ToolOutput::text("There is nothing."));
        }
        if !complete {
            lines.push(format!(
                "(There is more than these {ENTRIES}: list a folder below, or use a glob.)"
            ));
        }
        Ok(ToolOutput::text(lines.join("\n")))
    }

    /// Visits the entries of a folder and of those below it, in the order of names, up to a depth, until `visit` stops
    /// the walk. Links are reported and not followed.
    pub(super) fn walk(
        &self,
        folder: Dir,
        parts: &[&str],
        depth: usize,
        visit: &mut dyn FnMut(&Entry<'_>) -> bool,
    ) -> std::io::Result<()> {
        let mut budget = LOOKED_AT;
        let mut path: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        self.walk_below(&folder, &mut path, depth, &mut budget, visit)?;
        Ok(())
    }

    fn walk_below(
        &self,
        folder: &Dir,
        path: &mut Vec<String>,
        depth: usize,
        budget: &mut usize,
        visit: &mut dyn FnMut(&Entry<'_>) -> bool,
    ) -> std::io::Result<bool> {
        let parts: Vec<&str> = path.iter().map(String::as_str).collect();
        for listed in self.root.list(folder, &parts)? {
            let Some(left) = budget.checked_sub(1) else {
                return Ok(false);
            };
            *budget = left;
            path.push(listed.name);
            let whole = path.join("/");
            let entry = Entry {
                path: &whole,
                folder,
                name: path.last().map_or("", String::as_str),
                kind: listed.kind,
            };
            let mut goes_on = visit(&entry);
            if goes_on && listed.kind == Kind::Folder && depth > 1 {
                // A folder that is gone or unreadable is skipped.
                if let Ok(below) =
                    super::root::below(folder, path.last().map_or("", String::as_str))
                {
                    goes_on = self.walk_below(&below, path, depth - 1, budget, visit)?;
                }
            }
            path.pop();
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// One entry of a walk.
pub(super) struct Entry<'e> {
    /// Its path from the root.
    pub(super) path: &'e str,
    /// The open folder that holds it.
    pub(super) folder: &'e Dir,
    /// Its name in that folder.
    pub(super) name: &'e str,
    pub(super) kind: Kind,
}

/// The matcher of a pattern for paths.
pub(super) fn matcher(pattern: &str) -> Result<GlobMatcher, ToolError> {
    let glob = Glob::new(pattern)
        .map_err(|error| ToolError::new(format!("the glob cannot be read: {error}")))?;
    Ok(glob.compile_matcher())
}

/// Reads a line, and keeps its beginning without the line break. Returns the number of bytes read, and whether the
/// whole line was kept.
fn bounded_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<(u64, bool)> {
    let (mut read, mut whole) = (0_u64, true);
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok((read, whole));
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let piece = &buffer[..end.unwrap_or(buffer.len())];
        let room = LINE_BYTES.saturating_sub(line.len());
        whole &= piece.len() <= room;
        line.extend_from_slice(&piece[..piece.len().min(room)]);
        let used = end.map_or(buffer.len(), |end| end + 1);
        read += used as u64;
        reader.consume(used);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok((read, whole));
        }
    }
}
