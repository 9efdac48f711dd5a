//! Parses a plan as models write it.

use ghostlight_actors::vocabulary::{Message, ModelResponse};
use serde_json::{Value, json};

use crate::{
    behaviors::{ModelTurn, NativeCalls, Reading, TurnFormat},
    structured_output,
};

/// Parses the answer of a planner: a JSON object with `steps`, or numbered lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanReader {
    /// The fewest steps.
    pub(super) min: usize,
    /// The most steps.
    pub(super) max: usize,
}

impl TurnFormat for PlanReader {
    fn read(&self, response: &ModelResponse, step: u32) -> Reading {
        let reading = NativeCalls.read(response, step);
        let ModelTurn::Answer(text) = &reading.turn else {
            return reading;
        };
        let (said, turn) = match read(text) {
            Some(steps) if (self.min..=self.max).contains(&steps.len()) => {
                (as_list(&steps), ModelTurn::Answer(json!(steps).to_string()))
            }
            found => {
                let found = found.map_or(0, |steps| steps.len());
                let (min, max) = (self.min, self.max);
                let feedback = format!(
                    "A plan has {min} to {max} steps, and {found} were found. Write it again, as \
                     JSON only: {{\"steps\": [\"…\", \"…\"]}}"
                );
                (text.clone(), ModelTurn::Unreadable(feedback))
            }
        };
        let said = Message {
            author: reading.said.author,
            ..Message::assistant(said)
        };
        Reading::new(said, turn)
    }
}

/// The plan as a message of the conversation, which must not be empty.
fn as_list(steps: &[String]) -> String {
    match steps {
        [] => "No further steps.".to_owned(),
        steps => numbered(steps),
    }
}

pub(super) fn numbered(steps: &[String]) -> String {
    let lines = steps.iter().enumerate();
    let lines: Vec<String> = lines
        .map(|(place, step)| format!("{}. {step}", place + 1))
        .collect();
    lines.join("\n")
}

/// The steps of a plan; `None` if there is no plan.
fn read(text: &str) -> Option<Vec<String>> {
    let value = structured_output::read(text)
        .ok()
        .map(|reading| reading.value);
    let listed = value
        .as_ref()
        .and_then(|value| value.get("steps").unwrap_or(value).as_array());
    if let Some(listed) = listed {
        return listed.iter().map(step_text).collect();
    }
    let lines: Vec<String> = text.lines().filter_map(numbered_line).collect();
    (!lines.is_empty()).then_some(lines)
}

/// The text of a step: the step itself, or a member of an object.
fn step_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::Object(members) => {
            let names = ["step", "description", "task", "text", "title"];
            names
                .into_iter()
                .find_map(|name| members.get(name)?.as_str())
        }
        value => value.as_str(),
    };
    text.map(str::trim)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// The text of a line such as `2. Look it up` or `Step 2: look it up`.
fn numbered_line(line: &str) -> Option<String> {
    let line = line.trim().trim_start_matches(['*', '#', ' ']);
    let line = line.strip_prefix("Step ").unwrap_or(line);
    let text = line.trim_start_matches(|c: char| c.is_ascii_digit());
    if text.len() == line.len() {
        return None;
    }
    let text = text.strip_prefix(['.', ')', ':'])?;
    // A decimal number begins no step.
    let text = text.strip_prefix(|c: char| c.is_whitespace() || c == '*')?;
    let text = text.trim_matches(['*', ' ']).trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_as_models_write_them() {
        let expected = Some(vec!["look it up".to_owned(), "add VAT".to_owned()]);
        for text in [
            r#"{"steps": ["look it up", "add VAT"]}"#,
            "Here it is:\n```json\n{'steps': ['look it up', 'add VAT',]}\n```",
            r#"["look it up", "add VAT"]"#,
            r#"{"steps": [{"step": "look it up"}, {"description": "add VAT"}]}"#,
            "PLAN:\n1. look it up\n2. add VAT\n",
            "**1.** look it up\n  2) add VAT\n3.5 is not a step",
            "Step 1: look it up\nStep 2: add VAT",
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(read("I would look it up."), None);
        assert_eq!(read(r#"{"steps": []}"#), Some(Vec::new()));
    }

    #[test]
    fn a_plan_that_is_too_long_or_empty_goes_back() {
        let reader = PlanReader { min: 1, max: 2 };
        for (text, found) in [("1. a\n2. b\n3. c", 3), ("none", 0), ("{\"steps\": []}", 0)] {
            match reader.read(&ModelResponse::text(text), 1).turn {
                ModelTurn::Unreadable(feedback) => {
                    assert!(
                        feedback.contains(&format!("and {found} were")),
                        "{feedback}"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
        let reading = reader.read(&ModelResponse::text("1. a\n2. b"), 1);
        assert_eq!(reading.turn, ModelTurn::Answer(r#"["a","b"]"#.to_owned()));
        assert_eq!(reading.said.content(), "1. a\n2. b");
    }
}
