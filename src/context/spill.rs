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
use crate::retrieval::{bm25::Bm25Index, chunking::Chunker};

/// The name of the tool with which a model reads what was moved out of its context.
pub const READ_RESULT: &str = "read_result";

/// The prefix of the names of moved results. The tool reads no other artifacts.
const FOLDER: &str = "results/";
/// How many characters a place that fits some words has at most, and how many places one call tells.
const PLACE: usize = 600;
const PLACES: usize = 12;

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
                "{:?} is not a moved result: its name begins with {FOLDER:?}.",
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
        match found_in(text, &read, u64::from(settings.above_tokens), counter) {
            Ok(told) => BeforeTool::done(call, told),
            Err(why) => BeforeTool::failed(call, why),
        },
    )
}

/// The piece that is wanted or, where the text to begin at stands nowhere as it is written, the places that fit its
/// words.
fn found_in(
    text: &str,
    read: &Read,
    tokens: u64,
    counter: &dyn TokenCounter,
) -> Result<String, String> {
    let why = match piece(text, read, tokens, counter) {
        Ok(piece) => return Ok(piece),
        Err(why) => why,
    };
    let words = read.find.as_deref().unwrap_or_default();
    match places(text, words, tokens, counter) {
        told if told.is_empty() => Err(why),
        told => Ok(format!("{why} These places have its words:\n{told}")),
    }
}

/// The places of a text that share the most words with a query, the best first, with at most this many tokens; empty
/// where none shares any.
fn places(text: &str, query: &str, tokens: u64, counter: &dyn TokenCounter) -> String {
    let chunks = Chunker::text(PLACE).chunks(text);
    let hits = Bm25Index::new(chunks.iter().map(|chunk| chunk.text.as_str())).search(query, PLACES);
    let characters = text.chars().count();
    let mut told = String::new();
    for hit in hits {
        let Some(chunk) = chunks.get(hit.document) else {
            continue;
        };
        let from = text[..chunk.range.start].chars().count();
        let to = from + chunk.text.chars().count();
        let place = format!(
            "[Characters {from} to {to} of {characters}:]\n{}\n",
            chunk.text
        );
        if told.is_empty() {
            told = cut_to(&place, tokens, counter).into_owned();
        } else if counter.count(&told) + counter.count(&place) <= tokens {
            told.push_str(&place);
        } else {
            break;
        }
    }
    told.truncate(told.trim_end().len());
    told
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
    fn words_that_do_not_stand_together_lead_to_the_places_that_have_them() {
        let line = |number: usize| format!("Line {number} is about nothing of note.\n\n");
        let mut text: String = (0..200).map(line).collect();
        let at = text.chars().count();
        text.push_str("The größte lamp hangs in the cellar.\n\n");
        text.extend((200..400).map(line));
        let told = found_in(&text, &asked(0, Some("cellar lamp")), 400, &Estimate).unwrap();
        assert!(told.contains("lamp hangs in the cellar"), "{told}");
        let place = told.lines().nth(1).unwrap();
        let from: usize = place.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(from <= at && at < from + PLACE, "{place}");
        // What it says is where `from` begins.
        let there = piece(&text, &asked(from, None), 50, &Estimate).unwrap();
        assert_eq!(there.lines().next(), told.lines().nth(2));
        let none = found_in(&text, &asked(0, Some("aardvark")), 400, &Estimate).unwrap_err();
        assert!(none.contains("at or after character 0"), "{none}");
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
