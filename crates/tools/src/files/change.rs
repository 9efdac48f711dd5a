//! `write_file`, `edit_file`, `patch_files`, `undo_file` and `diff_file`.

use std::sync::Arc;

use ghostlight_actors::{
    contract::{ToolContext, ToolError, ToolHandle, ToolOutput},
    vocabulary::{Digest, Effect, ToolDefinition},
};
use schemars::JsonSchema;
use serde::Deserialize;
use similar::TextDiff;

use super::{
    Folder, binary_kind, cut, patch,
    root::told,
    versions::{Version, Versions, digest},
};
use crate::blocking::blocking;

/// How many characters of a diff are shown.
const SHOWN: usize = 6_000;
/// How many bytes of text are compared.
const COMPARED: usize = 2 << 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Write {
    /// The file's path from the folder. Folders above it are made.
    path: String,
    /// The whole new content.
    content: String,
    /// Whether a file that is there is replaced.
    #[serde(default = "super::reading::yes")]
    overwrite: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The file's path from the folder.
    path: String,
    /// The text to replace, exactly as it stands there, with enough around it to be found once.
    #[schemars(length(min = 1))]
    old: String,
    /// What stands there instead.
    new: String,
    /// Whether every occurrence is replaced; otherwise there must be one only.
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Patch {
    /// A unified diff of one file or several, with `---` and `+++` lines and `@@` before each part.
    /// `/dev/null` stands for a file that is made or removed.
    patch: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Undo {
    /// The file whose last change is taken back.
    path: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Diff {
    /// The file's path from the folder.
    path: String,
    /// The file that it is compared with; what it was before its last change when left out.
    #[serde(default)]
    other: Option<String>,
}

/// The new content of a file (`None` to remove it), and the message to the model.
type Changed = (Option<Vec<u8>>, String);

pub(super) fn diff_tool(folder: &Arc<Folder>) -> ToolHandle {
    let about =
        "Shows what the last change of a file changed, or how two files differ, as a unified diff.";
    let diff = ToolDefinition::new("diff_file", about).effect(Effect::Read);
    let folder = folder.clone();
    ToolHandle::typed(diff, move |wanted: Diff, _: ToolContext| {
        let folder = folder.clone();
        async move { blocking(move || folder.diff(&wanted)).await }
    })
}

pub(super) fn tools(folder: &Arc<Folder>) -> Vec<ToolHandle> {
    let asking = |name, about, prompt| {
        let definition = ToolDefinition::new(name, about).effect(Effect::Idempotent);
        definition.approval(prompt)
    };
    let [of_write, of_edit, of_patch, of_undo] = [(); 4].map(|()| folder.clone());
    vec![
        ToolHandle::typed(
            asking(
                "write_file",
                "Writes a whole file. Use `edit_file` to change a part of one.",
                "Write the file {path}?",
            ),
            move |wanted: Write, cx: ToolContext| {
                let folder = of_write.clone();
                async move { blocking(move || folder.write(wanted, &cx)).await }
            },
        ),
        ToolHandle::typed(
            asking(
                "edit_file",
                "Replaces one text in a file by another.",
                "Change a text in {path}?",
            ),
            move |wanted: Edit, cx: ToolContext| {
                let folder = of_edit.clone();
                async move { blocking(move || folder.edit(&wanted, &cx)).await }
            },
        ),
        ToolHandle::typed(
            asking(
                "patch_files",
                "Applies a unified diff to one file or several.",
                "Apply this patch to files?",
            ),
            move |wanted: Patch, cx: ToolContext| {
                let folder = of_patch.clone();
                async move { blocking(move || folder.patch(&wanted, &cx)).await }
            },
        ),
        ToolHandle::typed(
            asking(
                "undo_file",
                "Takes back the last change of a file that these tools made.",
                "Take back the last change of {path}?",
            ),
            move |wanted: Undo, cx: ToolContext| {
                let folder = of_undo.clone();
                async move { blocking(move || folder.undo(&wanted, &cx)).await }
            },
        ),
    ]
}

/// The key by which the repetition of a call is recognised: its idempotency key and its arguments.
fn key_of(cx: &ToolContext, asked: &[&str]) -> Option<String> {
    // Calls outside of a run are never repeated.
    cx.origin()?;
    let asked = Digest::of(asked.join("\0").as_bytes());
    Some(format!("{}/{asked}", cx.idempotency_key()))
}

impl Folder {
    fn write(&self, wanted: Write, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let key = key_of(cx, &["write", &wanted.path, &wanted.content]);
        self.within_bounds(&wanted.path, wanted.content.len())?;
        let _changing = self.changing.lock();
        let told = self.change(key, &wanted.path, None, |before| {
            if before.is_some() && !wanted.overwrite {
                return Err(ToolError::new(format!(
                    "{} is there already; nothing was written",
                    wanted.path
                )));
            }
            let new = wanted.content.into_bytes();
            let told = match before {
                Some(before) => format!(
                    "{} was replaced: {} bytes, before {}.",
                    wanted.path,
                    new.len(),
                    before.len()
                ),
                None => format!("{} was made: {} bytes.", wanted.path, new.len()),
            };
            Ok((Some(new), told))
        })?;
        Ok(ToolOutput::text(told))
    }

    fn edit(&self, wanted: &Edit, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let Edit {
            path,
            old,
            new,
            all,
        } = wanted;
        let key = key_of(cx, &["edit", path, old, new, if *all { "all" } else { "" }]);
        let _changing = self.changing.lock();
        let told = self.change(key, path, None, |before| {
            let text = text_of(path, before)?;
            if old.is_empty() || old == new {
                return Err(ToolError::new("`old` must be some text, and `new` another"));
            }
            let (mut old, mut new) = (old.clone(), new.clone());
            if !text.contains(&old) && text.contains("\r\n") {
                (old, new) = (with_returns(&old), with_returns(&new));
            }
            let places: Vec<usize> = text.match_indices(&old).map(|(at, _)| at).take(1_001).collect();
            match places.len() {
                0 => return Err(ToolError::new(format!("{path} does not hold `old`{}", nearly(text, &old)))),
                1 => {}
                _ if *all => {}
                found => {
                    let lines: Vec<String> = places.iter().take(10).map(|at| line_of(text, *at).to_string()).collect();
                    let lines = lines.join(", ");
                    return Err(ToolError::new(format!(
                        "{path} holds `old` {found} times, in the lines {lines}: give more of what stands around it, or set `all`"
                    )));
                }
            }
            let changed = if *all { text.replace(&old, &new) } else { text.replacen(&old, &new, 1) };
            self.within_bounds(path, changed.len())?;
            let told = difference(path, text, path, &changed);
            Ok((Some(changed.into_bytes()), told))
        })?;
        Ok(ToolOutput::text(told))
    }

    fn patch(&self, wanted: &Patch, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.within_bounds("the patch", wanted.patch.len())?;
        let files = patch::parse(&wanted.patch).map_err(ToolError::new)?;
        let _changing = self.changing.lock();
        let keys: Vec<Option<String>> = files
            .iter()
            .map(|file| key_of(cx, &["patch", &file.path, &wanted.patch]))
            .collect();
        // All of the patch is tried before any of it is written.
        for (file, key) in files.iter().zip(&keys) {
            if self.done_before(key.as_deref(), &file.path)?.is_none() {
                let current = self.current(&file.path)?;
                self.patched(file, current.as_deref())?;
            }
        }
        let mut told = Vec::new();
        for (file, key) in files.iter().zip(keys) {
            told.push(self.change(key, &file.path, None, |before| self.patched(file, before))?);
        }
        Ok(ToolOutput::text(told.join("\n")))
    }

    fn patched(
        &self,
        file: &patch::FilePatch,
        before: Option<&[u8]>,
    ) -> Result<Changed, ToolError> {
        let path = &file.path;
        let text = match (before, file.makes) {
            (None, true) => "",
            (Some(_), true) => {
                return Err(ToolError::new(format!(
                    "{path} is there already; nothing was patched"
                )));
            }
            (before, false) => text_of(path, before)?,
        };
        let changed = patch::apply(file, text)
            .map_err(|why| ToolError::new(format!("{path}: {why}; nothing was patched")))?;
        self.within_bounds(path, changed.len())?;
        if file.removes {
            return match changed.is_empty() {
                true => Ok((None, format!("{path} was removed."))),
                false => Err(ToolError::new(format!(
                    "{path} holds more than the patch removes"
                ))),
            };
        }
        let told = difference(path, text, path, &changed);
        Ok((Some(changed.into_bytes()), told))
    }

    fn undo(&self, wanted: &Undo, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let path = self.root.parts(&wanted.path)?.join("/");
        let failed = |error| told(&path, &error);
        let key = key_of(cx, &["undo", &path]);
        let _changing = self.changing.lock();
        let versions = Versions::of(&self.root, self.settings.keep_versions);
        let of_path = |(_, version): &(u64, Version)| version.path == path;
        let all: Vec<(u64, Version)> = versions
            .newest_first()
            .map_err(failed)?
            .into_iter()
            .filter(of_path)
            .collect();
        let again = all
            .iter()
            .find(|(_, version)| key.is_some() && version.key == key.clone().unwrap_or_default());
        let last = match again.and_then(|(_, version)| version.undoes) {
            Some(number) => all.iter().find(|(other, _)| *other == number),
            None => {
                let undone = |number: u64| {
                    all.iter()
                        .any(|(_, version)| version.undoes == Some(number))
                };
                all.iter()
                    .find(|(number, version)| version.undoes.is_none() && !undone(*number))
            }
        };
        let Some((number, last)) = last else {
            return Err(ToolError::new(format!(
                "no change of {path} is known that could be undone"
            )));
        };
        let former = match &last.before {
            None => None,
            Some(_) => {
                let kept = versions
                    .before(*number, self.settings.max_file_bytes)
                    .map_err(failed)?;
                Some(kept.ok_or_else(|| {
                    ToolError::new(format!("what {path} was is not kept any more"))
                })?)
            }
        };
        let told = self.change(key, &path, Some(*number), |current| {
            if current.map(digest) != last.after {
                return Err(ToolError::new(format!(
                    "{path} was changed by others since; nothing was undone"
                )));
            }
            let told = match (&former, current) {
                (None, _) => {
                    format!("{path} was removed: it had been made by the change that is undone.")
                }
                (Some(former), Some(current)) => difference(
                    &path,
                    &String::from_utf8_lossy(current),
                    &path,
                    &String::from_utf8_lossy(former),
                ),
                (Some(former), None) => format!("{path} is there again: {} bytes.", former.len()),
            };
            Ok((former, told))
        })?;
        Ok(ToolOutput::text(told))
    }

    fn diff(&self, wanted: &Diff) -> Result<ToolOutput, ToolError> {
        let path = self.root.parts(&wanted.path)?.join("/");
        let current = self.current(&path)?;
        let (name, other) = match &wanted.other {
            Some(other) => (other.clone(), self.current(other)?),
            None => {
                let failed = |error| told(&path, &error);
                let versions = Versions::of(&self.root, self.settings.keep_versions);
                let all = versions.newest_first().map_err(failed)?;
                let last = all.into_iter().find(|(_, version)| version.path == path);
                let Some((number, last)) = last else {
                    return Ok(ToolOutput::text(format!("No change of {path} is known.")));
                };
                let most = self.settings.max_file_bytes;
                let before = versions.before(number, most).map_err(failed)?;
                if last.before.is_some() && before.is_none() {
                    return Ok(ToolOutput::text(format!(
                        "What {path} was before is not kept any more."
                    )));
                }
                (format!("{path} (before)"), before)
            }
        };
        let (old, new) = match wanted.other {
            // From this file to the other.
            Some(_) => (
                text_of(&path, current.as_deref())?,
                text_of(&name, other.as_deref())?,
            ),
            None => (
                other
                    .as_deref()
                    .map_or(Ok(""), |before| text_of(&name, Some(before)))?,
                current
                    .as_deref()
                    .map_or(Ok(""), |now| text_of(&path, Some(now)))?,
            ),
        };
        let (from, to) = if wanted.other.is_some() {
            (&path, &name)
        } else {
            (&name, &path)
        };
        let shown = difference(from, old, to, new);
        Ok(ToolOutput::text(match shown.is_empty() {
            true => "They do not differ.".to_owned(),
            false => shown,
        }))
    }

    fn current(&self, path: &str) -> Result<Option<Vec<u8>>, ToolError> {
        let parts = self.root.parts(path)?;
        let content = self.root.content(&parts, self.settings.max_file_bytes);
        content.map_err(|error| told(path, &error))
    }

    fn within_bounds(&self, path: &str, bytes: usize) -> Result<(), ToolError> {
        let most = self.settings.max_file_bytes;
        match bytes as u64 > most {
            true => Err(ToolError::new(format!(
                "{path} would have {bytes} bytes; the most is {most}. Nothing was changed"
            ))),
            false => Ok(()),
        }
    }

    /// The message of an earlier attempt at this call, before a crash; `None` if it changed nothing yet.
    fn done_before(&self, key: Option<&str>, path: &str) -> Result<Option<String>, ToolError> {
        let Some(key) = key else { return Ok(None) };
        let path = self.root.parts(path)?.join("/");
        let failed = |error| told(&path, &error);
        let versions = Versions::of(&self.root, self.settings.keep_versions);
        let made = versions.newest_first().map_err(failed)?;
        let made = made
            .into_iter()
            .find(|(_, version)| version.key == key && version.path == path);
        let Some((_, made)) = made else {
            return Ok(None);
        };
        let now = self.current(&path)?.as_deref().map(digest);
        if now == made.after {
            return Ok(Some(made.told));
        }
        if now == made.before {
            return Ok(None);
        }
        Err(ToolError::new(format!(
            "this call began to change {path} before a crash, and others changed it since; nothing was done again"
        )))
    }

    /// Changes one file, once for each key.
    fn change(
        &self,
        key: Option<String>,
        path: &str,
        undoes: Option<u64>,
        new: impl FnOnce(Option<&[u8]>) -> Result<Changed, ToolError>,
    ) -> Result<String, ToolError> {
        let parts = self.root.parts(path)?;
        let path = parts.join("/");
        let failed = |error| told(&path, &error);
        self.may_change(&path)?;
        if let Some(done) = self.done_before(key.as_deref(), &path)? {
            return Ok(done);
        }
        let before = self.current(&path)?;
        let (after, said) = new(before.as_deref())?;
        if after == before {
            return Ok(format!("{path} is so already; nothing was changed."));
        }
        let version = Version {
            key: key.unwrap_or_default(),
            path: path.clone(),
            before: before.as_deref().map(digest),
            after: after.as_deref().map(digest),
            undoes,
            told: said.clone(),
        };
        let versions = Versions::of(&self.root, self.settings.keep_versions);
        versions.keep(&version, before.as_deref()).map_err(failed)?;
        match after {
            Some(content) => self.root.replace(&parts, &content).map_err(failed)?,
            None => self.root.remove(&parts).map_err(failed)?,
        }
        Ok(said)
    }

    fn may_change(&self, path: &str) -> Result<(), ToolError> {
        let Some(allowed) = &self.settings.extensions else {
            return Ok(());
        };
        let name = path.rsplit('/').next().unwrap_or_default();
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        match allowed.iter().any(|one| one.eq_ignore_ascii_case(ending)) {
            true => Ok(()),
            false => Err(ToolError::denied(format!(
                "{path} may not be changed: only files that end in {} may",
                allowed.join(", ")
            ))),
        }
    }
}

fn text_of<'c>(path: &str, content: Option<&'c [u8]>) -> Result<&'c str, ToolError> {
    let Some(content) = content else {
        return Err(told(path, &std::io::ErrorKind::NotFound.into()));
    };
    if let Some(kind) = binary_kind(content) {
        return Err(ToolError::new(format!("{path} is {kind} and no text")));
    }
    let text = std::str::from_utf8(content);
    text.map_err(|_| ToolError::new(format!("{path} is not text in UTF-8")))
}

/// The diff of two texts; empty if they are equal.
fn difference(from: &str, old: &str, to: &str, new: &str) -> String {
    if old.len() + new.len() > COMPARED {
        return format!("{to}: {} bytes, before {}.", new.len(), old.len());
    }
    let mut config = TextDiff::configure();
    config.timeout(std::time::Duration::from_millis(500));
    let diff = config.diff_lines(old, new);
    let shown = diff
        .unified_diff()
        .context_radius(3)
        .header(from, to)
        .to_string();
    cut(&shown, SHOWN)
}

fn with_returns(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// A hint if the text occurs with other whitespace.
fn nearly(text: &str, old: &str) -> String {
    let first = old.lines().map(str::trim).find(|line| !line.is_empty());
    let found = first.and_then(|first| text.lines().position(|line| line.trim() == first));
    match found {
        Some(line) => format!(
            "; line {} is like its beginning but for spaces: read it again",
            line + 1
        ),
        None => "; read the file again".to_owned(),
    }
}
