//! Reasoning and acting in text, for models without tool calling.

mod parser;

use ghostlight_actors::{
    definition::{AgentSpec, ContextStrategy},
    run::{Behavior, RunContext},
    vocabulary::{
        AgentError, Message, ModelRequest, ModelResponse, ModelSettings, Outcome, Part, Role,
        ToolCall, ToolResult, ToolSet, ToolStatus, Transcript,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::parser::Meaning;
use super::{
    AgentLoop, Checked, LoopOptions, ModelTurn, Prompt, Reading, TurnFormat, at_least_one,
    prompt::{BuiltIn, below_instructions, tool_list},
};

/// The text at which the model must stop, because only tools make observations.
const OBSERVATION: &str = "\nObservation:";

const PROTOCOL: BuiltIn = BuiltIn {
    version: 1,
    text: "\
You work in turns. In each turn write either an action or the final answer, in exactly one of \
these two forms:

Thought: what you know and what to do next
Action: the name of one tool
Args: its arguments as one JSON object

Thought: why you are done
Final: the answer, complete

After an action stop writing: the next message gives its result as an observation. To use several \
tools at once, write several pairs of Action and Args. Never write an observation yourself.

The tools:
{tools}",
};

const REMINDER: &str = "Write either `Action:` with the name of a tool and `Args:` with one JSON \
     object, or `Final:` with the answer.";

/// ReAct: the model thinks, names a tool and its arguments in plain text, reads the observation,
/// and so on until it writes a final answer. It needs no tool calling of the server.
///
/// It is an [`AgentLoop`] with its own [`TurnFormat`], so tools, transfers, delegation, limits and
/// output schemas work as in [`FunctionCalling`](super::FunctionCalling). Arguments and answers may
/// have several lines, with or without a fence. A turn that cannot be parsed is returned to the
/// model with the reason, up to a limit. After Yao et al., "ReAct: Synergizing Reasoning and Acting
/// in Language Models" (2022).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct React {
    /// The most steps; by default the agent's own limit, or 40 if it has none.
    pub max_steps: Option<u32>,
    /// The most turns in a row that are returned because they cannot be parsed.
    pub max_parse_failures: u32,
    /// The most empty turns of the model in a row.
    pub max_empty_turns: u32,
    /// How often an answer that does not fit its schema is returned for correction.
    pub max_repairs: u32,
    /// The explanation of the protocol, after the agent's instructions; `{tools}` is the list of
    /// tools.
    pub prompt: Prompt,
}

impl Default for React {
    fn default() -> Self {
        let limits = LoopOptions::default();
        Self {
            max_steps: None,
            max_parse_failures: limits.max_unreadable_turns,
            max_empty_turns: limits.max_empty_turns,
            max_repairs: limits.max_repairs,
            prompt: PROTOCOL.into(),
        }
    }
}

impl Checked for React {
    fn check(&self) -> Result<(), String> {
        at_least_one("max_steps", self.max_steps)?;
        at_least_one("max_empty_turns", Some(self.max_empty_turns))?;
        self.prompt.needs("prompt", &["tools"])
    }
}

impl Behavior for React {
    fn asks_model(&self) -> bool {
        true
    }

    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let limits = LoopOptions {
            max_empty_turns: self.max_empty_turns,
            max_unreadable_turns: self.max_parse_failures,
            max_repairs: self.max_repairs,
            ..LoopOptions::of(&cx, self.max_steps)
        };
        let protocol = TextProtocol(self.prompt.clone());
        let conversation = protocol.as_text(cx.conversation());
        let agent = AgentLoop::new(&cx)?
            .options(limits)
            .conversation(conversation);
        agent.format(protocol).run().await
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        let strategies = agent.context.iter().flat_map(|context| &context.strategies);
        let is_compact = |found: &ContextStrategy| matches!(found, ContextStrategy::Compact(_));
        let mut strategies = strategies.peekable();
        if strategies.peek().is_some() && strategies.all(is_compact) {
            return Err(
                "its only strategy to keep the context in bounds, compact, finds nothing to \
                 replace: in ReAct calls and results are text; add token_window"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// Tools by text: the system prompt explains the protocol, and calls and results are text.
#[derive(Clone, Debug)]
struct TextProtocol(Prompt);

impl TextProtocol {
    /// The conversation with calls and results as text. A conversation without any is shared
    /// unchanged.
    fn as_text(&self, conversation: Transcript) -> Transcript {
        let is_native = |part: &Part| matches!(part, Part::ToolCall(_) | Part::ToolResult(_));
        let messages = conversation.messages();
        if !messages
            .iter()
            .any(|message| message.parts.iter().any(is_native))
        {
            return conversation;
        }
        let as_text = |message: &Message| match message.role {
            Role::Tool => self.results(message.tool_results().cloned().collect()),
            _ => {
                let mut text = Message::clone(message);
                text.parts.retain(|part| !matches!(part, Part::Provider(_)));
                for part in &mut text.parts {
                    if let Part::ToolCall(call) = part {
                        let args = call.arguments.text();
                        *part = Part::Text(format!("Action: {}\nArgs: {args}", call.name));
                    }
                }
                text
            }
        };
        messages.iter().map(|message| as_text(message)).collect()
    }
}

impl TurnFormat for TextProtocol {
    fn request(&self, mut request: ModelRequest) -> ModelRequest {
        let tools = if request.tools.is_empty() {
            "There are none: write the final answer at once.".to_owned()
        } else {
            tool_list(request.tools.iter())
        };
        let protocol = self.0.fill(&[("tools", &tools)]);
        let mut instructions = below_instructions(&request.instructions, &protocol);
        if let Some(output) = request.output.take() {
            let schema = &output.schema;
            instructions.push_str("\n\nThe final answer is JSON that fits this schema: ");
            instructions.push_str(&schema.to_string());
        }
        request.instructions = instructions.into();
        request.tools = ToolSet::default();
        let mut settings = ModelSettings::clone(&request.settings);
        settings.stop.push(OBSERVATION.to_owned());
        request.settings(settings)
    }

    fn read(&self, response: &ModelResponse, step: u32) -> Reading {
        let content = response.content();
        let written = parser::read(&content);
        let (said, text, turn) = match written.meaning {
            // The session and other agents read the answer without its markup.
            Meaning::Final(answer) => (answer.clone(), answer.clone(), ModelTurn::Answer(answer)),
            Meaning::Nothing => (String::new(), String::new(), ModelTurn::Empty),
            Meaning::Actions(actions) => {
                let calls = actions.into_iter().enumerate();
                let calls = calls.map(|(place, (name, arguments))| {
                    ToolCall::new(format!("call_{step}_{place}"), name, arguments)
                });
                let (said, thought) = (written.text.to_owned(), written.thought.to_owned());
                (said, thought, ModelTurn::Calls(calls.collect()))
            }
            Meaning::Unreadable(reason) => {
                let (said, text) = (written.text.to_owned(), written.text.to_owned());
                (
                    said,
                    text,
                    ModelTurn::Unreadable(format!("{reason} {REMINDER}")),
                )
            }
        };
        let mut said = Message::assistant(said);
        let mut kept = Message::clone(&response.message);
        kept.retain_parts(|part| matches!(part, Part::Reasoning(_)));
        said.parts.splice(0..0, kept.parts);
        Reading::new(said, turn).text(text)
    }

    fn results(&self, results: Vec<ToolResult>) -> Message {
        let several = results.len() > 1;
        let mut attachments = Vec::new();
        let mut texts = Vec::new();
        for (place, result) in results.into_iter().enumerate() {
            let head = match several {
                true => format!("Observation {} ({})", place + 1, result.name),
                false => "Observation".to_owned(),
            };
            let failed = match result.status {
                ToolStatus::Success => "",
                _ => "[not done] ",
            };
            texts.push(format!("{head}: {failed}{}", result.text));
            attachments.extend(result.attachments.into_iter().map(Part::Data));
        }
        let mut message = Message::synthetic(texts.join("\n"));
        message.parts.extend(attachments);
        message
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use ghostlight_actors::{testing::check_transcript, vocabulary::ToolDefinition};

    use super::*;

    fn protocol() -> TextProtocol {
        TextProtocol(PROTOCOL.into())
    }

    #[test]
    fn a_request_explains_the_tools_and_offers_none() {
        let tool = ToolDefinition::new("search", "Searches.");
        let mut request = ModelRequest::new(Transcript::new()).instructions("Be brief.");
        request.tools = [tool].into_iter().collect();
        let request = protocol().request(request);
        assert!(
            request
                .instructions
                .starts_with("Be brief.\n\nYou work in turns.")
        );
        assert!(
            request
                .instructions
                .contains("- search: Searches.\n  Args: {\"properties\"")
        );
        assert!(request.tools.is_empty());
        assert_eq!(request.settings.stop, [OBSERVATION]);
    }

    #[test]
    fn calls_of_earlier_agents_become_text() {
        let call = ToolCall::new("1", "search", r#"{"q":"x"}"#);
        let asks = ModelResponse::tool_calls([call.clone()]).message;
        let result = ToolResult::new(&call, ToolStatus::Success, "found");
        let plain = Transcript::from_iter([Message::user("hello")]);
        let mut native = plain.clone();
        native.push(asks);
        native.push(Message::results([result]));
        let text = protocol().as_text(native).messages();
        check_transcript(&text).unwrap();
        let contents: Vec<String> = text.iter().map(|message| message.content()).collect();
        assert_eq!(
            contents,
            [
                "hello",
                "Action: search\nArgs: {\"q\":\"x\"}",
                "Observation: found"
            ]
        );
        assert!(text[2].role == Role::User && !text[2].is_from_user());
        let same = protocol().as_text(plain.clone()).messages();
        assert!(Arc::ptr_eq(&same[0], &plain.messages()[0]));
    }
}
