//! Tools with which a model keeps notes: `write_note`, `read_note`, `find_notes`.
//!
//! A note is an artifact with a text, so it has versions, is committed with the result of its call, and is in the
//! exported session.

use std::fmt::Write as _;

use ghostlight_actors::{
    contract::{ToolContext, ToolError, ToolHandle, ToolOutput},
    vocabulary::{ArtifactInfo, Effect, Scope, ToolDefinition},
};
use ghostlight_safety::cut;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{artifacts::Shelf, tool_fn_with_context};
use crate::retrieval::bm25::Bm25Index;

/// The name of the tool that writes a note.
pub const WRITE_NOTE: &str = "write_note";
/// The name of the tool that reads one.
pub const READ_NOTE: &str = "read_note";
/// The name of the tool that finds some.
pub const FIND_NOTES: &str = "find_notes";

/// The prefix of the names of artifacts that are notes.
const PREFIX: &str = "notes/";
/// The MIME type of a note.
const MEDIA_TYPE: &str = "text/markdown";
/// The most characters of a note.
const LENGTH: usize = 20_000;
/// How the kind of a note stands behind its MIME type.
const KIND: &str = "; kind=";
/// How many notes a search reads, the latest first.
const READ: usize = 500;
/// How many notes one call shows.
const SHOWN: usize = 20;
/// How many characters of each it shows.
const EXCERPT: usize = 160;

/// The kind of a note.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum NoteKind {
    /// How far the work is.
    TaskState,
    /// A finding or a decision.
    Conclusion,
    /// An obstacle.
    Blocker,
    /// A task.
    Action,
    /// Where something stands or is to be had.
    Reference,
    /// Anything else.
    #[default]
    General,
}

impl NoteKind {
    const ALL: [Self; 6] = [
        Self::TaskState,
        Self::Conclusion,
        Self::Blocker,
        Self::Action,
        Self::Reference,
        Self::General,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::TaskState => "task_state",
            Self::Conclusion => "conclusion",
            Self::Blocker => "blocker",
            Self::Action => "action",
            Self::Reference => "reference",
            Self::General => "general",
        }
    }

    fn media_type(self) -> String {
        match self {
            Self::General => MEDIA_TYPE.to_owned(),
            kind => format!("{MEDIA_TYPE}{KIND}{}", kind.as_str()),
        }
    }

    fn of(media_type: &str) -> Self {
        let named = media_type.split_once(KIND).map_or("", |(_, kind)| kind);
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.as_str() == named).unwrap_or_default()
    }
}

/// A note that there is.
struct Note {
    title: String,
    kind: NoteKind,
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Write {
    /// The note's title, by which it is read. Writing under a title again replaces the note.
    #[schemars(length(min = 1, max = 120))]
    title: String,
    /// The whole note, as Markdown; a note without text is deleted.
    #[schemars(length(max = 20_000))]
    text: String,
    /// Its kind.
    #[serde(default)]
    kind: NoteKind,
    /// Whose note it is.
    #[serde(default)]
    scope: Shelf,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Read {
    /// The note's title.
    #[schemars(length(min = 1, max = 120))]
    title: String,
    /// Whose note it is.
    #[serde(default)]
    scope: Shelf,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Find {
    /// What the notes are about, in a few words; the latest notes when left out.
    #[serde(default)]
    #[schemars(length(max = 500))]
    query: String,
    /// Only notes of this kind; of all kinds when left out.
    #[serde(default)]
    kind: Option<NoteKind>,
    /// Whose notes are meant.
    #[serde(default)]
    scope: Shelf,
}

/// The tool `write_note`: the model writes, replaces or deletes a note.
#[must_use]
pub fn write_note() -> ToolHandle {
    let description = "Keeps a note that can be read later, also in later turns: a decision, a fact, how far you are.";
    let definition = ToolDefinition::new(WRITE_NOTE, description).effect(Effect::Idempotent);
    tool_fn_with_context(definition, |write: Write, cx: ToolContext| async move {
        let scope = write.scope.scope(&cx)?;
        let length = write.text.chars().count();
        if length > LENGTH {
            return Err(ToolError::new(format!(
                "the note has {length} characters; at most {LENGTH} are possible: write several notes"
            )));
        }
        let (name, title) = (name(&write.title), write.title.trim());
        let told = match write.text.trim().is_empty() {
            true => format!("The note {title:?} is empty now, and listed no more."),
            false => format!("The note {title:?} is kept."),
        };
        let text = write.text.trim().to_owned().into_bytes();
        let media_type = write.kind.media_type();
        Ok(ToolOutput::text(told).save(scope, name, media_type, text))
    })
}

/// The tool `read_note`: the model reads a note whole.
#[must_use]
pub fn read_note() -> ToolHandle {
    let description = "Reads a note that was kept.";
    let definition = ToolDefinition::new(READ_NOTE, description).effect(Effect::Read);
    tool_fn_with_context(definition, |read: Read, cx: ToolContext| async move {
        let scope = read.scope.scope(&cx)?;
        match text_of(&cx, &scope, &name(&read.title)).await? {
            Some(text) => Ok(ToolOutput::text(text)),
            None => Err(ToolError::new(format!(
                "there is no note {:?}; `{FIND_NOTES}` lists those that there are",
                read.title.trim()
            ))),
        }
    })
}

/// The tool `find_notes`: the model lists its notes, or searches them by words.
#[must_use]
pub fn find_notes() -> ToolHandle {
    let description = "Lists the notes that were kept, or those that fit some words or are of one kind: how many of each kind \
                       there are, their titles and how they begin.";
    let definition = ToolDefinition::new(FIND_NOTES, description).effect(Effect::Read);
    tool_fn_with_context(definition, |find: Find, cx: ToolContext| async move {
        let scope = find.scope.scope(&cx)?;
        let all = notes(&cx, &scope).await?;
        let query = find.query.trim();
        let of_kind = |note: &&Note| find.kind.is_none_or(|kind| kind == note.kind);
        let notes: Vec<&Note> = all.iter().filter(of_kind).collect();
        let found: Vec<&Note> = match query.is_empty() {
            true => notes.into_iter().take(SHOWN).collect(),
            false => {
                let texts = notes
                    .iter()
                    .map(|note| format!("{}\n{}", note.title, note.text));
                let hits = Bm25Index::new(texts).search(query, SHOWN);
                let found = hits.iter().filter_map(|hit| notes.get(hit.document));
                found.copied().collect()
            }
        };
        Ok(ToolOutput::text(told(&found, &all, query)))
    })
}

/// The name of the artifact that is the note of this title.
fn name(title: &str) -> String {
    format!("{PREFIX}{}", title.trim())
}

/// A note's text; `None` where there is none, or it was deleted.
async fn text_of(cx: &ToolContext, scope: &Scope, name: &str) -> Result<Option<String>, ToolError> {
    let found = cx.artifact(scope, name, None).await?;
    let text = found.and_then(|note| note.text().map(str::to_owned));
    Ok(text.filter(|text| !text.is_empty()))
}

/// The notes that there are, the latest first.
async fn notes(cx: &ToolContext, scope: &Scope) -> Result<Vec<Note>, ToolError> {
    let mut there: Vec<ArtifactInfo> = cx.artifacts(scope).await?;
    there.retain(|info| info.name.starts_with(PREFIX) && info.bytes > 0);
    there.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.name.cmp(&b.name)));
    let mut notes = Vec::new();
    for info in there.iter().take(READ) {
        if let Some(text) = text_of(cx, scope, &info.name).await? {
            notes.push(Note {
                title: info.name[PREFIX.len()..].to_owned(),
                kind: NoteKind::of(&info.media_type),
                text,
            });
        }
    }
    Ok(notes)
}

/// How many notes of each kind there are; empty where all are of no special kind.
fn summary(all: &[Note]) -> String {
    let mut counts = Vec::new();
    for kind in NoteKind::ALL {
        match all.iter().filter(|note| note.kind == kind).count() {
            0 => {}
            count => counts.push(format!("{count} {}", kind.as_str())),
        }
    }
    match all.iter().all(|note| note.kind == NoteKind::General) {
        true => String::new(),
        false => format!(" ({})", counts.join(", ")),
    }
}

fn told(found: &[&Note], all: &[Note], query: &str) -> String {
    let summary = summary(all);
    let mut told = match (all.len(), found.len()) {
        (0, _) => return "There are no notes.".to_owned(),
        (all, 0) if query.is_empty() => {
            return format!("None of {all} notes{summary} is of that kind.");
        }
        (all, 0) => return format!("None of {all} notes{summary} fits {query:?}."),
        (all, shown) if shown < all => format!("{shown} of {all} notes{summary}:"),
        (all, _) if !summary.is_empty() => format!("{all} notes{summary}:"),
        _ => String::new(),
    };
    for Note { title, kind, text } in found {
        let excerpt = cut(text, EXCERPT);
        let kind = match kind {
            NoteKind::General => String::new(),
            kind => format!("[{}] ", kind.as_str()),
        };
        // Writing to a text cannot fail.
        let _ = write!(told, "\n- {kind}{title}: {}", excerpt.replace('\n', " "));
    }
    told.trim_start().to_owned()
}
