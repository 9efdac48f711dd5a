//! Tools with which a model keeps files: `save_artifact`, `load_artifact`, `list_artifacts`.

use std::fmt::Write as _;

use ghostlight_actors::{
    contract::{ToolContext, ToolError, ToolHandle, ToolOutput},
    vocabulary::{ArtifactInfo, Effect, Scope, ToolDefinition},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::tool_fn_with_context;

/// The name of the tool that saves.
pub const SAVE_ARTIFACT: &str = "save_artifact";
/// The name of the tool that loads.
pub const LOAD_ARTIFACT: &str = "load_artifact";
/// The name of the tool that lists.
pub const LIST_ARTIFACTS: &str = "list_artifacts";

/// How many characters of an artifact one call reads, where the call does not say.
const READ: usize = 8_000;

/// Whose artifacts are meant.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Shelf {
    /// This conversation's.
    #[default]
    Session,
    /// The user's, in all of the user's conversations.
    User,
}

impl Shelf {
    pub(super) fn scope(self, cx: &ToolContext) -> Result<Scope, ToolError> {
        match self {
            Self::Session => Ok(Scope::Session),
            Self::User => match cx.owner() {
                Some(owner) => Ok(Scope::User(owner.to_owned())),
                None => Err(ToolError::new(
                    "nobody owns this conversation, so there is no user whose files these could \
                     be; use the scope `session`",
                )),
            },
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Save {
    /// The file's name, such as `report.md`. Saving under a name again makes a new version.
    name: String,
    /// The whole content.
    content: String,
    /// Its MIME type; `text/plain` when left out.
    #[serde(default)]
    media_type: Option<String>,
    /// Whose file it is.
    #[serde(default)]
    scope: Shelf,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Load {
    /// The file's name.
    name: String,
    /// Which version; the latest when left out.
    #[serde(default)]
    version: Option<u64>,
    /// From which character on, counted from 0.
    #[serde(default)]
    from: usize,
    /// At most this many characters.
    #[serde(default)]
    length: Option<usize>,
    /// Whose file it is.
    #[serde(default)]
    scope: Shelf,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// Whose files are meant.
    #[serde(default)]
    scope: Shelf,
}

/// The tool `save_artifact`: the model saves a text as the next version of a file.
#[must_use]
pub fn save_artifact() -> ToolHandle {
    let description = "Saves a text as a file that can be loaded later, also in later turns.";
    let definition = ToolDefinition::new(SAVE_ARTIFACT, description).effect(Effect::Idempotent);
    tool_fn_with_context(definition, |save: Save, cx: ToolContext| async move {
        let scope = save.scope.scope(&cx)?;
        let media_type = save.media_type.unwrap_or_else(|| "text/plain".to_owned());
        let output = ToolOutput::default();
        Ok(output.save(scope, save.name, media_type, save.content.into_bytes()))
    })
}

/// The tool `load_artifact`: the model reads a file, or a part of it.
#[must_use]
pub fn load_artifact() -> ToolHandle {
    let description = "Reads a file that was saved as an artifact. A long one is read in parts.";
    let definition = ToolDefinition::new(LOAD_ARTIFACT, description).effect(Effect::Read);
    tool_fn_with_context(definition, |load: Load, cx: ToolContext| async move {
        let scope = load.scope.scope(&cx)?;
        let found = cx.artifact(&scope, &load.name, load.version).await?;
        let Some(artifact) = found else {
            let there = cx.artifacts(&scope).await?;
            let version = load
                .version
                .map_or_else(String::new, |version| format!(" with a version {version}"));
            return Err(ToolError::new(format!(
                "there is no artifact {:?}{version}; there are: {}",
                load.name,
                names(&there)
            )));
        };
        let Some(text) = artifact.text() else {
            return Ok(ToolOutput::text(format!("{} is not text.", artifact.info)));
        };
        let length = load.length.unwrap_or(READ);
        Ok(ToolOutput::text(part(text, load.from, length)))
    })
}

/// The tool `list_artifacts`: the model sees which files there are.
#[must_use]
pub fn list_artifacts() -> ToolHandle {
    let description = "Lists the files that were saved as artifacts, each with its latest version.";
    let definition = ToolDefinition::new(LIST_ARTIFACTS, description).effect(Effect::Read);
    tool_fn_with_context(definition, |list: List, cx: ToolContext| async move {
        let there = cx.artifacts(&list.scope.scope(&cx)?).await?;
        let lines: Vec<String> = there.iter().map(ArtifactInfo::to_string).collect();
        Ok(ToolOutput::text(match lines.is_empty() {
            true => "There are no artifacts.".to_owned(),
            false => lines.join("\n"),
        }))
    })
}

fn names(there: &[ArtifactInfo]) -> String {
    let names: Vec<&str> = there.iter().map(|info| info.name.as_str()).collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

/// So many characters of a text from one on, with a note where there is more.
fn part(text: &str, from: usize, length: usize) -> String {
    let total = text.chars().count();
    let mut shown: String = text.chars().skip(from).take(length).collect();
    let end = from.saturating_add(length).min(total);
    if from > 0 || end < total {
        let (first, last) = (from.min(total), end.max(from.min(total)));
        let _ = write!(shown, "\n[characters {first} to {last} of {total}]");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn a_part_ends_between_characters_and_says_what_it_is() {
        assert_eq!(part("grüße", 0, 9), "grüße");
        assert_eq!(part("grüße", 2, 2), "üß\n[characters 2 to 4 of 5]");
        assert_eq!(part("世界", 7, 3), "\n[characters 2 to 2 of 2]");
        assert_eq!(part("世界", 1, usize::MAX), "界\n[characters 1 to 2 of 2]");
    }
}
