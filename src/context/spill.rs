//! Long results that are moved out of the context, and the tool that reads them.

use ghostlight_actors::{
    definition::Spill,
    run::{BeforeTool, OwnTool, PolicyContext, operations::Scope},
    vocabulary::{AgentError, Effect, ErrorKind, ToolCall, ToolDefinition, ToolResult, ToolStatus},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{TokenCounter, cutting::cut_to};

/// The name of the tool with which a model reads what was moved out of its context.
pub const READ_RESULT: &str = "read_result";

/// The prefix of the names of moved results. The tool reads no other artifacts.
const FOLDER: &str = "results/";

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Read {
    /// The result's name.
    name: String,
    /// Its version.
    version: u64,
    /// From which character on it is read.
    #[serde(default)]
    from: usize,
    /// A text to begin at: the first place at or after `from` where it stands.
    #[serde(default)]
    find: Option<String>,
}

pub(super) fn own_tool() -> OwnTool {
    let description = "Reads a result that was moved out of this conversation because it is long, \
                       a piece at a time.";
    let definition = ToolDefinition::new(READ_RESULT, description);
    OwnTool::new(definition.parameters_of::<Read>().effect(Effect::Read))
}

/// Moves a long result into an artifact, and returns its replacement: the beginning, the end, and
/// how to read the rest. `None` if the result stays, or cannot be saved.
pub(super) async fn moved(
    cx: &PolicyContext<'_>,
    settings: &Spill,
    result: &ToolResult,
    counter: &dyn TokenCounter,
) -> Result<Option<ToolResult>, AgentError> {
    let tokens = counter.count(&result.text);
    let is_long = tokens > u64::from(settings.above_tokens);
    // The result that ends a step is the answer, and a person who reads it has no tool to read
    // more.
    let stays = result.ends_step || result.name == READ_RESULT;
    if !is_long || result.status != ToolStatus::Success || stays {
        return Ok(None);
    }
    let name = format!("{FOLDER}{}", result.name);
    let content = result.text.as_bytes().to_vec();
    let artifacts = cx.artifacts(Scope::Session);
    let saved = match artifacts.save(name, "text/plain", content).await {
        Ok(saved) => saved,
        Err(AgentError::Operation(error)) if !matches!(error.kind, ErrorKind::Budget(_)) => {
            let told = json!({ "call": result.call_id, "reason": error.to_string() });
            cx.emit("result_not_moved", &told);
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let characters = result.text.chars().count();
    let shown = cut_to(&result.text, u64::from(settings.keep_tokens), counter);
    let mut kept = result.clone();
    kept.text = format!(
        "{shown}\n[This is the beginning and the end of {characters} characters. Read more with \
         `{READ_RESULT}`, name {:?}, version {}.]",
        saved.name, saved.version
    );
    let told = json!({
        "call": result.call_id,
        "artifact": saved.name,
        "version": saved.version,
        "tokens": tokens,
    });
    cx.emit("result_moved", &told);
    Ok(Some(kept))
}

/// Answers a call of `read_result`.
pub(super) async fn read(
    cx: &PolicyContext<'_>,
    settings: &Spill,
    call: &ToolCall,
    counter: &dyn TokenCounter,
) -> Result<BeforeTool, AgentError> {
    let read = match call.arguments.parse::<Read>() {
        Ok(read) if read.name.starts_with(FOLDER) => read,
        Ok(read) => {
            let why = format!(
                "{:?} is no moved result: its name begins with {FOLDER:?}.",
                read.name
            );
            return Ok(BeforeTool::failed(call, why));
        }
        Err(reason) => return Ok(BeforeTool::failed(call, format!("Not read: {reason}."))),
    };
    let artifacts = cx.artifacts(Scope::Session);
    let found = match artifacts
        .load_version(read.name.as_str(), read.version)
        .await
    {
        Ok(found) => found,
        Err(AgentError::Operation(error)) if !matches!(error.kind, ErrorKind::Budget(_)) => {
            return Ok(BeforeTool::failed(call, format!("Not read: {error}")));
        }
        Err(error) => return Err(error),
    };
    let Some(text) = found.as_ref().and_then(|found| found.text()) else {
        let why = format!("There is no {:?} of version {}.", read.name, read.version);
        return Ok(BeforeTool::failed(call, why));
    };
    Ok(
        match piece(text, &read, u64::from(settings.above_tokens), counter) {
            Ok(piece) => BeforeTool::done(call, piece),
            Err(why) => BeforeTool::failed(call, why),
        },
    )
}

/// A piece of a text with at most this many tokens, but at least one character, and a note about
/// its position.
fn piece(
    text: &str,
    read: &Read,
    tokens: u64,
    counter: &dyn TokenCounter,
) -> Result<String, String> {
    let characters = text.chars().count();
    let at = |place: usize| {
        text.char_indices()
            .nth(place)
            .map_or(text.len(), |(at, _)| at)
    };
    let mut from = read.from.min(characters);
    if let Some(find) = read.find.as_deref().filter(|find| !find.is_empty()) {
        let begin = at(from);
        let Some(found) = text[begin..].find(find) else {
            return Err(format!(
                "{find:?} does not stand at or after character {from}."
            ));
        };
        from += text[begin..begin + found].chars().count();
    }
    let (mut least, mut most) = ((from + 1).min(characters), characters);
    // Finds the longest piece that fits.
    while least < most {
        let middle = most - (most - least) / 2;
        match counter.count(&text[at(from)..at(middle)]) <= tokens {
            true => least = middle,
            false => most = middle - 1,
        }
    }
    let shown = &text[at(from)..at(least)];
    let more = match least {
        end if end == characters => String::new(),
        end => format!("; go on with `from` {end}"),
    };
    Ok(format!(
        "{shown}\n[Characters {from} to {least} of {characters}{more}.]"
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::context::Estimate;

    fn asked(from: usize, find: Option<&str>) -> Read {
        Read {
            name: String::new(),
            version: 1,
            from,
            find: find.map(str::to_owned),
        }
    }

    proptest! {
        /// Piece by piece, all of it can be read back.
        #[test]
        fn every_character_can_be_read_back(text in "(\\PC|世|\n|🎉){0,400}", tokens in 1_u64..60) {
            let mut whole = String::new();
            let mut from = 0;
            let characters = text.chars().count();
            loop {
                let piece = piece(&text, &asked(from, None), tokens, &Estimate).unwrap();
                let (shown, note) = piece.rsplit_once("\n[Characters ").unwrap();
                prop_assert!(Estimate.count(shown) <= tokens || shown.chars().count() == 1);
                whole.push_str(shown);
                let next = from + shown.chars().count();
                if next == characters {
                    prop_assert!(!note.contains("go on"));
                    break;
                }
                prop_assert!(next > from);
                let go_on = format!("`from` {}", next);
                prop_assert!(note.contains(&go_on));
                from = next;
            }
            prop_assert_eq!(whole, text);
        }
    }

    #[test]
    fn a_piece_begins_where_something_stands() {
        let text = "größe 世界 and then the end";
        let found = piece(text, &asked(0, Some("世")), 50, &Estimate).unwrap();
        assert!(found.starts_with("世界 and then"), "{found}");
        assert!(found.ends_with("[Characters 6 to 25 of 25.]"), "{found}");
        let missing = piece(text, &asked(8, Some("世")), 50, &Estimate).unwrap_err();
        assert!(missing.contains("at or after character 8"), "{missing}");
        assert!(piece(text, &asked(1_000, None), 50, &Estimate).is_ok());
    }
}
