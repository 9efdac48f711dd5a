//! The course of a piece of work as text.

use ghostlight_actors::vocabulary::{Part, Role, ToolStatus, Transcript};

use crate::{clean_line, episode::TRAJECTORY};

/// How many characters of a thought, of a call's arguments and of a result are kept.
const PART: usize = 400;

/// The thoughts, calls and results of a conversation, a line each, and the final result. Of a text that is too long,
/// lines of the middle are left out: the beginning and the end say most.
pub(crate) fn trajectory(said: &Transcript, result: &str) -> String {
    let mut lines = Vec::new();
    for message in said.messages() {
        for part in &message.parts {
            lines.extend(match part {
                Part::Text(text) if message.role == Role::Assistant && !text.trim().is_empty() => {
                    Some(clean_line(text, PART))
                }
                Part::ToolCall(call) => {
                    let arguments = clean_line(call.arguments.text(), PART);
                    Some(format!("{}({arguments})", clean_line(&call.name, PART)))
                }
                Part::ToolResult(result) => {
                    let failed = match result.status {
                        ToolStatus::Success => "",
                        _ => "failed: ",
                    };
                    Some(format!("  → {failed}{}", clean_line(&result.text, PART)))
                }
                _ => None,
            });
        }
    }
    let end = format!("It came to: {}", clean_line(result, PART));
    let room = TRAJECTORY - end.chars().count() - 40;
    let length = |line: &String| line.chars().count() + 1;
    let mut left: usize = lines.iter().map(length).sum();
    let mut gone = 0;
    while left > room && !lines.is_empty() {
        left -= length(&lines.remove(lines.len() / 2));
        gone += 1;
    }
    if gone > 0 {
        lines.insert(lines.len() / 2, format!("… {gone} lines left out …"));
    }
    lines.push(end);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use ghostlight_actors::vocabulary::{Message, ToolCall, ToolResult};
    use serde_json::json;

    use super::*;
    use crate::episode::TRAJECTORY;

    fn step(number: usize, text: &str) -> [Message; 2] {
        let call = ToolCall::new(format!("c{number}"), "look", json!({ "place": number }));
        let result = ToolResult::new(&call, ToolStatus::Error, text);
        let mut asked = Message::assistant("");
        asked.parts = vec![Part::ToolCall(call)];
        [asked, Message::results([result])]
    }

    #[test]
    fn a_trajectory_tells_each_call_and_result_and_keeps_its_ends_when_it_is_too_long() {
        let said: Transcript = step(1, "dark").into_iter().collect();
        assert_eq!(
            trajectory(&said, "gave up"),
            "look({\"place\":1})\n  → failed: dark\nIt came to: gave up"
        );
        let long = (0..500).flat_map(|number| step(number, &"灯".repeat(300)));
        let told = trajectory(&long.collect(), "gave up");
        assert!(
            told.chars().count() <= TRAJECTORY,
            "{}",
            told.chars().count()
        );
        assert!(told.starts_with("look({\"place\":0})") && told.contains("look({\"place\":499})"));
        assert!(told.contains("lines left out"));
    }
}
