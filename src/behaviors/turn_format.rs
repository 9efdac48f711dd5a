//! The form of a loop's requests and responses.

use ghostlight_actors::vocabulary::{
    Message, ModelRequest, ModelResponse, Part, ToolCall, ToolResult,
};

/// How an [`AgentLoop`](super::AgentLoop) builds a request, reads a response, and presents the
/// results of calls to the model. Implement it to change only one of these; by default every method
/// does native tool calling.
///
/// ```
/// use ghostlight::behaviors::TurnFormat;
/// use ghostlight_actors::vocabulary::ModelRequest;
///
/// /// Native tool calling, one call at a time.
/// struct OneByOne;
///
/// impl TurnFormat for OneByOne {
///     fn request(&self, request: ModelRequest) -> ModelRequest {
///         let mut settings = (*request.settings).clone();
///         settings.parallel_tool_calls = Some(false);
///         request.settings(settings)
///     }
/// }
/// ```
///
/// Its methods must return the same for the same arguments, because runs are replayed.
pub trait TurnFormat: Send + Sync + 'static {
    /// Changes the request of a step, which contains the agent's instructions and settings, the
    /// conversation, and the tools that the loop offers.
    fn request(&self, request: ModelRequest) -> ModelRequest {
        request
    }

    /// Reads a response. The step counts from 1.
    fn read(&self, response: &ModelResponse, step: u32) -> Reading {
        read_native(response, step)
    }

    /// The message that shows the model the results of one step, in the order of the calls.
    fn results(&self, results: Vec<ToolResult>) -> Message {
        Message::results(results)
    }
}

/// Native tool calling: the calls are parts of the response, and an answer has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeCalls;

impl TurnFormat for NativeCalls {}

/// The meaning of a response.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reading {
    /// The message that the conversation keeps.
    pub said: Message,
    /// The text for the reader: the partial answer, if the run stops here.
    pub text: String,
    /// The action that the model asks for.
    pub turn: ModelTurn,
}

impl Reading {
    /// A response with the message that the conversation keeps, and the action that it asks for.
    /// The text for the reader is the answer, or else the text of that message.
    pub fn new(said: Message, turn: ModelTurn) -> Self {
        let text = match &turn {
            ModelTurn::Answer(answer) => answer.clone(),
            _ => said.content(),
        };
        Self { said, text, turn }
    }

    /// Sets the text for the reader.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }
}

/// The requests of a model in one step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelTurn {
    /// These calls, each with a unique id.
    Calls(Vec<ToolCall>),
    /// No calls: this is its answer.
    Answer(String),
    /// Nothing: the turn is empty.
    Empty,
    /// The turn cannot be parsed; the text tells the model what is wrong.
    Unreadable(String),
}

/// Reads native tool calls. Only the presence of calls counts, because servers disagree on the
/// finish reason.
fn read_native(response: &ModelResponse, step: u32) -> Reading {
    let mut said = Message::clone(&response.message);
    let calls = said.name_calls(step);
    let text = said.content();
    let turn = if !calls.is_empty() {
        ModelTurn::Calls(calls)
    } else if !text.trim().is_empty() {
        ModelTurn::Answer(text)
    } else {
        match files(&said) {
            files if files.is_empty() => ModelTurn::Empty,
            files => ModelTurn::Answer(files),
        }
    };
    Reading::new(said, turn)
}

/// The pictures and other files of a message in words, for an answer that has none of its own.
fn files(said: &Message) -> String {
    let files = said.parts.iter().filter_map(|part| match part {
        Part::Data(data) => {
            let name = data.name.as_deref().unwrap_or("file");
            Some(format!("[{name} ({})]", data.media_type))
        }
        _ => None,
    });
    files.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use ghostlight_actors::vocabulary::{FinishReason, Reasoning, Role};
    use proptest::prelude::{prop, prop_assert_eq, proptest};

    use super::*;

    fn response(parts: Vec<Part>) -> ModelResponse {
        ModelResponse::new(Message {
            role: Role::Assistant,
            author: None,
            parts,
            synthetic: false,
        })
    }

    fn turn(parts: Vec<Part>, finish: FinishReason) -> ModelTurn {
        let mut response = response(parts);
        response.finish = finish;
        NativeCalls.read(&response, 1).turn
    }

    #[test]
    fn calls_decide_and_the_finish_reason_does_not() {
        let call = ToolCall::new("a", "search", "{}");
        let parts = vec![Part::Text("so".into()), Part::ToolCall(call.clone())];
        assert_eq!(
            turn(parts, FinishReason::Stop),
            ModelTurn::Calls(vec![call])
        );
        let parts = vec![Part::Text("so".into())];
        assert_eq!(
            turn(parts, FinishReason::ToolCalls),
            ModelTurn::Answer("so".into())
        );
        let parts = vec![
            Part::Text(" \n".into()),
            Part::Reasoning(Reasoning::default()),
        ];
        assert_eq!(turn(parts, FinishReason::Stop), ModelTurn::Empty);
    }

    #[test]
    fn text_beside_calls_is_kept() {
        let call = ToolCall::new("a", "search", "{}");
        let parts = vec![Part::Text("I look it up.".into()), Part::ToolCall(call)];
        let reading = NativeCalls.read(&response(parts.clone()), 1);
        assert_eq!(reading.said.parts, parts);
    }

    proptest! {
        /// Each call has a unique id, whatever ids a model gives: the first call with a given id
        /// keeps it, and the conversation has the same ids as the calls.
        #[test]
        fn every_call_has_an_id_of_its_own(ids in prop::collection::vec("(a|b|call_1_[0-3]| )?", 0..8)) {
            let parts = ids.iter().map(|id| Part::ToolCall(ToolCall::new(id, "t", "{}"))).collect();
            let reading = NativeCalls.read(&response(parts), 1);
            let said: Vec<_> = reading.said.tool_calls().cloned().collect();
            let own: BTreeSet<&str> = said.iter().map(|call| call.id.as_str()).collect();
            prop_assert_eq!(own.len(), ids.len());
            for (place, id) in ids.iter().enumerate() {
                if !id.trim().is_empty() && !ids[..place].contains(id) {
                    prop_assert_eq!(&said[place].id, id);
                }
            }
            if !said.is_empty() {
                prop_assert_eq!(reading.turn, ModelTurn::Calls(said));
            }
        }
    }
}
