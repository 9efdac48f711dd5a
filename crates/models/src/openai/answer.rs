//! Reads answers, whole or in pieces, from any server that roughly follows OpenAI's API.
//!
//! The only required part of an answer is a choice. Servers omit ids, types, roles, indexes and
//! totals, send objects where the API has texts, and use words of their own.

use std::sync::Arc;

use ghostlight_actors::vocabulary::{
    Data, Delta, FinishReason, Message, ModelResponse, Part, Reasoning, Role, ToolCall, Transcript,
    Usage,
};
use serde_json::{Map, Value};

use super::{files, reasoning, tool_calls::CallDrafts, usage};
use crate::http::{Failure, Notes};

/// An answer in the making. A whole answer is handled as a stream of one piece.
#[derive(Default)]
pub(super) struct Answer {
    text: String,
    refusal: String,
    reasoning: String,
    /// Fields that a provider wants back unchanged, by name.
    signed: Map<String, Value>,
    /// The field under which the reasoning came.
    field: Option<reasoning::Field>,
    /// Pictures and sound.
    files: Vec<Data>,
    /// Sources, probabilities and the like.
    notes: Notes,
    calls: CallDrafts,
    has_choice: bool,
    finish: Option<String>,
    usage: Value,
    model: String,
}

impl Answer {
    /// Takes the next piece, and shows what is new in it.
    pub(super) fn take(&mut self, mut piece: Value, mut show: impl FnMut(Delta)) {
        if let Some(model) = piece["model"].as_str().filter(|model| !model.is_empty()) {
            model.clone_into(&mut self.model);
        }
        for place in [Some("x_groq"), None] {
            let holder = match place {
                Some(place) => piece.get_mut(place),
                None => Some(&mut piece),
            };
            let usage = holder.and_then(|holder| holder.get_mut("usage"));
            if let Some(usage) = usage.filter(|usage| usage.is_object()) {
                // Some servers repeat growing counts in each piece: the last counts are kept.
                self.usage = usage.take();
            }
        }
        for name in ["citations", "search_results"] {
            self.notes.set(name, take_field(&mut piece, name));
        }
        let Some(Value::Array(choices)) = piece.get_mut("choices") else {
            return;
        };
        // One answer was requested. If a server sends several, the first is read.
        let is_first = |choice: &&mut Value| choice["index"].as_u64().unwrap_or(0) == 0;
        if let Some(choice) = choices.iter_mut().find(is_first) {
            self.take_choice(choice, &mut show);
        }
    }

    fn take_choice(&mut self, choice: &mut Value, show: &mut impl FnMut(Delta)) {
        self.has_choice = true;
        if let Some(finish) = choice["finish_reason"]
            .as_str()
            .filter(|word| !word.is_empty())
        {
            self.finish = Some(finish.to_owned());
        }
        self.notes.add("logprobs", take_field(choice, "logprobs"));
        // A stream has deltas; some servers send whole messages instead.
        let key = if choice["delta"].is_object() {
            "delta"
        } else {
            "message"
        };
        let Some(message) = choice.get_mut(key) else {
            return;
        };
        let thought = reasoning::take(message, &mut self.signed, &mut self.field);
        let mut content = Content::default();
        content.read(&message["content"]);
        self.think(thought, show);
        if !content.thinking.is_empty() {
            self.field = Some(reasoning::Field::Content);
        }
        self.think(content.thinking, show);
        self.files.append(&mut content.files);
        for name in ["annotations", "executed_tools"] {
            self.notes.add(name, take_field(message, name));
        }
        if let Value::Array(images) = take_field(message, "images") {
            self.files.extend(images.iter().filter_map(files::picture));
        }
        let sound = take_field(message, "audio");
        self.files.extend(files::sound(&sound));
        if let Some(spoken) = sound["transcript"].as_str() {
            content.text.push_str(spoken);
        }
        if !content.text.is_empty() {
            self.text.push_str(&content.text);
            show(Delta::Text(content.text));
        }
        if let Some(refusal) = message["refusal"].as_str() {
            self.refusal.push_str(refusal);
        }
        if let Value::Array(calls) = take_field(message, "tool_calls") {
            for (position, call) in calls.into_iter().enumerate() {
                self.calls.take(position, call, show);
            }
        }
    }

    fn think(&mut self, thought: String, show: &mut impl FnMut(Delta)) {
        if !thought.is_empty() {
            self.reasoning.push_str(&thought);
            show(Delta::Reasoning(thought));
        }
    }

    /// Whether the server said why it stopped: then nothing of the answer is missing.
    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// The usage that the server told.
    pub(super) fn told(&self) -> Usage {
        usage::read(&self.usage)
    }

    /// The usage and the text of an answer that failed; `None` if it had not begun.
    pub(super) fn spent(&self) -> Option<(Usage, String)> {
        let has_begun = self.has_choice || self.usage.is_object();
        has_begun.then(|| (self.told(), format!("{}{}", self.reasoning, self.text)))
    }

    /// The whole answer, as the next message of this conversation.
    pub(super) fn complete(
        mut self,
        conversation: &Transcript,
        server: &str,
    ) -> Result<ModelResponse, Failure> {
        if !self.has_choice {
            return Err(Failure::Malformed(String::from("it has no choices")));
        }
        if let Some(word) = self.finish.as_deref().filter(|word| is_error(word)) {
            // The server broke off, so the text so far is not an answer.
            return Err(Failure::broken_off(word));
        }
        let calls = std::mem::take(&mut self.calls).complete(conversation, &mut self.signed)?;
        let refused = self.text.is_empty() && calls.is_empty() && !self.refusal.is_empty();
        let finish = finish(self.finish.take(), refused, !calls.is_empty());
        let mut response = ModelResponse::new(self.message(calls, refused, server));
        response.finish = finish;
        response.usage = usage::read(&self.usage);
        response.model = self.model;
        Ok(response)
    }

    fn message(&mut self, calls: Vec<ToolCall>, refused: bool, server: &str) -> Arc<Message> {
        let mut parts = Vec::new();
        let signature = reasoning::signature(std::mem::take(&mut self.signed));
        if !self.reasoning.is_empty() || signature.is_some() {
            let text = std::mem::take(&mut self.reasoning);
            parts.push(Part::Reasoning(Reasoning { text, signature }));
            parts.push(self.field.unwrap_or_default().part(server));
        }
        let said = if refused {
            &mut self.refusal
        } else {
            &mut self.text
        };
        if !said.is_empty() {
            parts.push(Part::Text(std::mem::take(said)));
        }
        parts.extend(self.files.drain(..).map(Part::Data));
        parts.extend(calls.into_iter().map(Part::ToolCall));
        parts.extend(std::mem::take(&mut self.notes).part(server));
        Arc::new(Message {
            role: Role::Assistant,
            author: None,
            parts,
            synthetic: false,
        })
    }
}

/// Takes a field out of a value that may not be an object.
pub(super) fn take_field(value: &mut Value, name: &str) -> Value {
    value.get_mut(name).map(Value::take).unwrap_or_default()
}

/// The content of a message: a text, or a list of parts. Some servers put the model's thinking
/// among the parts.
#[derive(Default)]
struct Content {
    text: String,
    thinking: String,
    files: Vec<Data>,
}

impl Content {
    fn read(&mut self, content: &Value) {
        match content {
            Value::String(text) => self.text.push_str(text),
            Value::Array(parts) => parts.iter().for_each(|part| self.read_part(part)),
            _ => {}
        }
    }

    fn read_part(&mut self, part: &Value) {
        if let Some(text) = part.as_str().or_else(|| part["text"].as_str()) {
            self.text.push_str(text);
        }
        self.files.extend(files::picture(part));
        match &part["thinking"] {
            Value::String(text) => self.thinking.push_str(text),
            Value::Array(parts) => {
                let texts = parts.iter().filter_map(|part| part["text"].as_str());
                self.thinking.extend(texts);
            }
            _ => {}
        }
    }
}

/// Whether this finish reason says that the server failed.
fn is_error(word: &str) -> bool {
    let words = [
        "error",
        "failed",
        "failure",
        "network_error",
        "server_error",
        "internal_error",
    ];
    words.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// The meaning of the server's finish reason. Calls are recognised by their presence, not by the
/// reason. Only a length limit or a content filter overrides them, because a call may then be cut
/// off.
fn finish(word: Option<String>, refused: bool, calls: bool) -> FinishReason {
    let said = match word.as_deref().map(str::to_lowercase).as_deref() {
        None => FinishReason::Unknown,
        Some("stop" | "eos" | "end_turn" | "stop_sequence" | "complete") => FinishReason::Stop,
        Some("length" | "max_tokens" | "model_length") => FinishReason::Length,
        Some("tool_calls" | "tool_call" | "tool_use" | "function_call") => FinishReason::ToolCalls,
        Some("content_filter" | "safety" | "refusal") => FinishReason::ContentFilter,
        Some(_) => FinishReason::Other(word.unwrap_or_default()),
    };
    match said {
        FinishReason::Length | FinishReason::ContentFilter => said,
        _ if calls => FinishReason::ToolCalls,
        _ if refused => FinishReason::ContentFilter,
        // `tool_calls` without a call is an ordinary end of the answer.
        FinishReason::ToolCalls => FinishReason::Stop,
        said => said,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(pieces: Vec<Value>) -> Result<ModelResponse, Failure> {
        let mut answer = Answer::default();
        pieces
            .into_iter()
            .for_each(|piece| answer.take(piece, |_| {}));
        answer.complete(&Transcript::new(), "test")
    }

    fn of(message: Value, finish: Value) -> ModelResponse {
        read(vec![
            json!({"choices": [{"message": message, "finish_reason": finish}]}),
        ])
        .unwrap()
    }

    #[test]
    fn tool_calls_are_known_by_their_presence_and_not_by_the_finish_reason() {
        let call = json!([{"id": "a", "function": {"name": "f", "arguments": "{}"}}]);
        for word in [
            json!("stop"),
            json!(""),
            json!(null),
            json!("tool_calls"),
            json!("eos"),
        ] {
            let response = of(json!({"tool_calls": call}), word.clone());
            assert_eq!(
                (response.calls().len(), response.finish),
                (1, FinishReason::ToolCalls),
                "{word}"
            );
        }
        let cut = of(json!({"tool_calls": call}), json!("length"));
        assert_eq!(cut.finish, FinishReason::Length);
        let none = of(
            json!({"content": "done", "tool_calls": []}),
            json!("tool_calls"),
        );
        assert_eq!((none.calls().len(), none.finish), (0, FinishReason::Stop));
    }

    #[test]
    fn any_word_is_a_finish_reason() {
        let text = json!({"content": "x"});
        assert_eq!(
            of(text.clone(), json!("end_turn")).finish,
            FinishReason::Stop
        );
        assert_eq!(
            of(text.clone(), json!("SAFETY")).finish,
            FinishReason::ContentFilter
        );
        assert_eq!(of(text.clone(), json!("")).finish, FinishReason::Unknown);
        assert_eq!(of(text.clone(), json!(7)).finish, FinishReason::Unknown);
        assert_eq!(
            of(text, json!("Vendor")).finish,
            FinishReason::Other("Vendor".into())
        );
    }

    #[test]
    fn a_refusal_is_shown_and_known_as_one() {
        let response = of(
            json!({"content": null, "refusal": "I cannot."}),
            json!("stop"),
        );
        assert_eq!(response.content(), "I cannot.");
        assert_eq!(response.finish, FinishReason::ContentFilter);
    }

    #[test]
    fn what_was_said_before_a_server_failed_is_no_answer() {
        for word in ["error", "ERROR", "failed", "network_error"] {
            let piece = json!({"choices": [{
                "message": {"content": "Half of"}, "finish_reason": word,
            }]});
            let failed = read(vec![piece]);
            assert!(
                matches!(failed, Err(Failure::InBand(_))),
                "{word}: {failed:?}"
            );
        }
    }

    #[test]
    fn content_in_parts_keeps_thinking_apart() {
        let parts = json!([
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "yes"}, "!", 7,
        ]);
        let response = of(json!({"content": parts}), json!("stop"));
        assert_eq!(response.content(), "yes!");
        assert!(matches!(&response.message.parts[0], Part::Reasoning(r) if r.text == "hm"));
    }

    #[test]
    fn only_the_first_of_several_choices_counts() {
        let response = read(vec![json!({"choices": [
            {"index": 1, "message": {"content": "second"}},
            {"index": 0, "message": {"content": "first"}},
        ]})]);
        assert_eq!(response.unwrap().content(), "first");
    }

    #[test]
    fn an_answer_without_a_choice_is_malformed() {
        for piece in [
            json!({}),
            json!({"choices": []}),
            json!({"choices": null}),
            json!([1]),
        ] {
            assert!(matches!(read(vec![piece]), Err(Failure::Malformed(_))));
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let keys = prop_oneof![
            Just("choices"),
            Just("delta"),
            Just("message"),
            Just("content"),
            Just("tool_calls"),
            Just("function"),
            Just("name"),
            Just("arguments"),
            Just("index"),
            Just("id"),
            Just("usage"),
            Just("reasoning_details"),
            Just("thinking"),
            Just("extra_content"),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[a-z{}\"]{0,6}".prop_map(Value::from)
        ];
        leaf.prop_recursive(8, 64, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((keys.clone(), inner), 0..6).prop_map(|fields| {
                    Value::Object(fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(
            outer in any_json(), choice in any_json(), message in any_json(), call in any_json(),
        ) {
            let mut answer = Answer::default();
            for piece in [
                outer,
                json!({"choices": [choice]}),
                json!({"choices": [{"delta": message.clone()}]}),
                json!({"choices": [{"message": message}]}),
                json!({"choices": [{"delta": {"tool_calls": [call.clone(), {"function": call}]}}]}),
            ] {
                answer.take(piece, |_| {});
            }
            let _ = answer.complete(&Transcript::new(), "test");
        }
    }
}
