//! Parses a turn of the text protocol.

use serde_json::Value;

use crate::structured_output;

/// The content of one turn of a model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Written<'a> {
    /// The text before the first observation that the model made up.
    pub(super) text: &'a str,
    /// The last thought.
    pub(super) thought: &'a str,
    /// The meaning of the turn.
    pub(super) meaning: Meaning,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    /// Calls of tools, with their arguments.
    Actions(Vec<(String, Value)>),
    /// The answer.
    Final(String),
    /// An empty turn.
    Nothing,
    /// Anything else; the text describes the fault.
    Unreadable(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Marker {
    Thought,
    Action,
    Args,
    Observation,
    Final,
}

/// The words that begin a section, the longer ones first.
const WORDS: [(&str, Marker); 9] = [
    ("thought", Marker::Thought),
    ("action input", Marker::Args),
    ("action", Marker::Action),
    ("arguments", Marker::Args),
    ("args", Marker::Args),
    ("input", Marker::Args),
    ("observation", Marker::Observation),
    ("final answer", Marker::Final),
    ("final", Marker::Final),
];

/// Parses a turn. A final answer extends to the end of the text and takes precedence over actions.
/// Arguments may have several lines, with or without a fence. Text after an observation is ignored,
/// because only tools make observations.
pub(super) fn read(text: &str) -> Written<'_> {
    let text = after_thoughts(text);
    let mut sections = sections(text);
    let made_up = sections
        .iter()
        .position(|section| section.marker == Marker::Observation);
    let mut end = text.len();
    if let Some(place) = made_up {
        end = sections[place].start;
        sections.truncate(place);
    }
    let text = text[..end].trim();
    let meaning = match meaning(&sections) {
        Some(meaning) => meaning,
        None if text.is_empty() => Meaning::Nothing,
        None => Meaning::Unreadable("There is neither `Action:` nor `Final:`.".to_owned()),
    };
    let thoughts = sections.iter().rev();
    let thought = thoughts
        .into_iter()
        .find(|section| section.marker == Marker::Thought);
    let thought = thought.map_or("", |thought| thought.content.trim());
    Written {
        text,
        thought,
        meaning,
    }
}

fn meaning(sections: &[Section<'_>]) -> Option<Meaning> {
    if let Some(last) = sections
        .iter()
        .find(|section| section.marker == Marker::Final)
    {
        let answer = last.content.trim().trim_start_matches('*').trim_start();
        return Some(if answer.is_empty() {
            Meaning::Unreadable("`Final:` is empty.".to_owned())
        } else {
            Meaning::Final(answer.to_owned())
        });
    }
    let mut actions = Vec::new();
    for (place, section) in sections.iter().enumerate() {
        if section.marker != Marker::Action {
            continue;
        }
        let following = sections[place + 1..].iter();
        let own = following.take_while(|section| section.marker != Marker::Action);
        let args = own
            .into_iter()
            .find(|section| section.marker == Marker::Args);
        match action(section.content, args.map(|args| args.content)) {
            Ok(action) => actions.push(action),
            Err(reason) => return Some(Meaning::Unreadable(reason)),
        }
    }
    (!actions.is_empty()).then_some(Meaning::Actions(actions))
}

/// The tool's name, and the arguments from their own section or from the line of the name.
fn action(content: &str, args: Option<&str>) -> Result<(String, Value), String> {
    let content = content.trim();
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
    let from = content.find(is_name).unwrap_or(content.len());
    let (name, beside) = match content[from..].find(|c| !is_name(c)) {
        Some(to) => content[from..].split_at(to),
        None => (&content[from..], ""),
    };
    let name = name.trim_end_matches(['.', ':']);
    if name.is_empty() {
        return Err("`Action:` names no tool.".to_owned());
    }
    let beside = beside.find('{').map(|open| &beside[open..]);
    let args = args.filter(|args| !args.trim().is_empty()).or(beside);
    let args = match args {
        Some(args) => {
            arguments(args).map_err(|reason| format!("The arguments of {name}: {reason}"))?
        }
        None => Value::Object(serde_json::Map::new()),
    };
    Ok((name.to_owned(), args))
}

fn arguments(text: &str) -> Result<Value, String> {
    let reading = structured_output::read(text).map_err(|error| error.to_string())?;
    if reading.is_truncated() {
        return Err("they end before they are complete.".to_owned());
    }
    match reading.value {
        Value::Object(_) => Ok(reading.value),
        other => Err(format!("they must be one JSON object, and are {other}.")),
    }
}

/// A part of a turn, from its marker to the next.
struct Section<'a> {
    marker: Marker,
    /// The start of its marker's line.
    start: usize,
    content: &'a str,
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut marks: Vec<(Marker, usize, usize)> = Vec::new();
    let mut place = 0;
    let mut fenced = false;
    while place < text.len() {
        let line_end = text[place..]
            .find('\n')
            .map_or(text.len(), |at| place + at + 1);
        let line = &text[place..line_end];
        let marked = if fenced { None } else { marker(line) };
        if let Some((marker, offset)) = marked {
            let content = place + offset;
            marks.push((marker, place, content));
            if marker == Marker::Final {
                break;
            }
            if marker == Marker::Args
                && let Some(length) = object_length(&text[content..])
            {
                // Nothing inside the object is a marker.
                place = content + length;
                place += text[place..]
                    .find('\n')
                    .map_or(text.len() - place, |at| at + 1);
                continue;
            }
        }
        if line.matches("```").count() % 2 == 1 {
            fenced = !fenced;
        }
        place = line_end;
    }
    let ends = marks
        .iter()
        .skip(1)
        .map(|(_, start, _)| *start)
        .chain([text.len()]);
    let sections = marks.iter().zip(ends);
    sections
        .map(|((marker, start, content), end)| Section {
            marker: *marker,
            start: *start,
            content: &text[*content..end],
        })
        .collect()
}

/// The marker at the beginning of a line, and the start of its content. The word may be emphasised.
fn marker(line: &str) -> Option<(Marker, usize)> {
    let ornament = |c: char| c.is_whitespace() || matches!(c, '*' | '#' | '>' | '_' | '`');
    let word = line.trim_start_matches(ornament);
    WORDS.into_iter().find_map(|(name, marker)| {
        let beginning = word.get(..name.len())?;
        let after = word[name.len()..].trim_start_matches(|c: char| ornament(c) && c != '\n');
        let content = after
            .strip_prefix(':')
            .filter(|_| beginning.eq_ignore_ascii_case(name))?;
        Some((marker, line.len() - content.len()))
    })
}

/// The length in bytes of the JSON object at the beginning of a text, including its fence. `None`
/// if the text begins with anything else, or the object does not end.
fn object_length(text: &str) -> Option<usize> {
    let mut body = text.trim_start();
    let fenced = body.strip_prefix("```");
    if let Some(fenced) = fenced {
        body = fenced
            .trim_start_matches(|c: char| c.is_ascii_alphanumeric())
            .trim_start();
    }
    if !body.starts_with('{') {
        return None;
    }
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (place, byte) in body.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' if !in_text => depth += 1,
            b'}' if !in_text => {
                depth -= 1;
                if depth == 0 {
                    let rest = &body[place + 1..];
                    // A fence that was opened before the object is closed after it.
                    let closed = fenced.and_then(|_| rest.trim_start().strip_prefix("```"));
                    return Some(text.len() - closed.unwrap_or(rest).len());
                }
            }
            _ => {}
        }
    }
    None
}

/// The text without the thoughts that some models put before it.
fn after_thoughts(text: &str) -> &str {
    let trimmed = text.trim_start();
    match trimmed.strip_prefix("<think>") {
        Some(thoughts) => thoughts.split_once("</think>").map_or("", |(_, text)| text),
        None => text,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};
    use serde_json::json;

    use super::*;

    fn actions(text: &str) -> Vec<(String, Value)> {
        match read(text).meaning {
            Meaning::Actions(actions) => actions,
            other => panic!("{other:?} for {text}"),
        }
    }

    fn unreadable(text: &str) -> String {
        match read(text).meaning {
            Meaning::Unreadable(reason) => reason,
            other => panic!("{other:?} for {text}"),
        }
    }

    #[test]
    fn arguments_go_over_lines_and_into_fences() {
        let expected = vec![("search".to_owned(), json!({"query": "a {b}", "top": 3}))];
        for args in [
            r#"{"query": "a {b}", "top": 3}"#,
            "\n{\n  \"query\": \"a {b}\",\n  \"top\": 3\n}",
            "\n```json\n{\n  \"query\": \"a {b}\",\n\n  \"top\": 3\n}\n```",
            "```\n{'query': 'a {b}', 'top': 3,}\n```\n",
        ] {
            let text = format!("Thought: I look.\nAction: search\nArgs: {args}");
            assert_eq!(actions(&text), expected, "{text}");
        }
    }

    #[test]
    fn words_are_understood_in_other_letters_and_with_emphasis() {
        let expected = vec![("search".to_owned(), json!({"q": 1}))];
        for text in [
            "**Thought:** so\n**Action:** `search`\n**Action Input:** {\"q\": 1}",
            "action : search\nARGUMENTS:{\"q\": 1}",
            "### Action: search\n### Args:\n{\"q\": 1}",
            "Action: search({\"q\": 1})",
            "<think>Action: other</think>Action: search {\"q\": 1}",
        ] {
            assert_eq!(actions(text), expected, "{text}");
        }
        assert_eq!(actions("Action: now"), [("now".to_owned(), json!({}))]);
    }

    #[test]
    fn several_actions_are_all_read() {
        let text = "Action: a\nArgs: {\"x\": 1}\nAction: b\nThought: and\nAction: c\nArgs: {}";
        let names: Vec<String> = actions(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn a_final_answer_keeps_its_lines_and_counts_before_actions() {
        let text = "Thought: done\nFinal: first\n\nsecond\nAction: this is quoted";
        let answer = "first\n\nsecond\nAction: this is quoted".to_owned();
        assert_eq!(read(text).meaning, Meaning::Final(answer));
        let both = "Action: a\nArgs: {}\n**Final Answer:** 42";
        assert_eq!(read(both).meaning, Meaning::Final("42".to_owned()));
    }

    #[test]
    fn what_a_model_makes_up_after_an_observation_is_not_read() {
        let text = "Thought: x\nAction: a\nArgs: {}\nObservation: fine\nFinal: 42";
        let written = read(text);
        assert_eq!(
            (written.text, written.thought),
            ("Thought: x\nAction: a\nArgs: {}", "x")
        );
        assert_eq!(
            written.meaning,
            Meaning::Actions(vec![("a".to_owned(), json!({}))])
        );
    }

    #[test]
    fn markers_inside_of_arguments_and_fences_are_none() {
        let text = "Action: write\nArgs: {\"text\": \"a\nFinal: b\nAction: c\"}";
        assert_eq!(
            actions(text)[0].1,
            json!({"text": "a\nFinal: b\nAction: c"})
        );
        assert_eq!(actions(text).len(), 1);
        let text = "Thought: as in\n```\nFinal: no\n```\nAction: a";
        assert_eq!(actions(text), [("a".to_owned(), json!({}))]);
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        assert!(unreadable("I think it is 42.").contains("neither"));
        assert!(unreadable("Final:  ").contains("empty"));
        assert!(unreadable("Action:\nArgs: {}").contains("no tool"));
        assert!(unreadable("Action: a\nArgs: {\"x\": \"cut").contains("before they are complete"));
        assert!(unreadable("Action: a\nArgs: [1]").contains("one JSON object"));
        assert!(unreadable("Action: a\nArgs: the first one").contains("arguments of a"));
        assert_eq!(read(" \n ").meaning, Meaning::Nothing);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "((Thought|Action|Args|Final|Observation): ?|```|[{}\"\\\\]|\n|é|a| ){0,40}") {
            let written = read(&text);
            prop_assert!(text.contains(written.text));
        }

        /// Text in the form of the protocol is parsed as intended, whatever the values.
        #[test]
        fn arguments_survive(
            name in "[a-z][a-z0-9_]{0,8}",
            values in prop::collection::btree_map("[a-zA-Z\n\": {}]{1,6}", "(?s).{0,12}", 0..4),
            pretty in proptest::bool::ANY,
        ) {
            let value = json!(values);
            let args = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
            let text = format!("Thought: so\nAction: {name}\nArgs: {args}\n");
            prop_assert_eq!(read(&text).meaning, Meaning::Actions(vec![(name, value)]));
        }
    }
}
