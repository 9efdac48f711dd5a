//! Reasoning, kept apart from the answer, and the signatures that providers want back.
//!
//! In our vocabulary a signature is one text. Here it is a JSON object of the fields that go back
//! unchanged with the message: `reasoning_details` (OpenRouter), `thinking_blocks` (LiteLLM), and
//! the fields of single tool calls by call id (`extra_content`, Google). It also says under which field
//! the text came, where that is not `reasoning_content`: servers refuse the field of others.

use serde_json::{Map, Value};

use super::answer::take_field;
use crate::models::http::CallIds;

/// The fields that hold a list of blocks to be sent back.
const BLOCKS: [&str; 2] = ["reasoning_details", "thinking_blocks"];
/// The key for the fields of single calls.
const CALLS: &str = "tool_calls";
/// The key for the field under which the text came.
const FIELD: &str = "field";

/// The field under which a server sends the text of a message's reasoning, and takes it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Field {
    /// `reasoning_content` (DeepSeek, vLLM).
    #[default]
    ReasoningContent,
    /// `reasoning` (Groq, Cerebras, Ollama).
    Reasoning,
    /// Parts of the content (Mistral).
    Content,
}

impl Field {
    /// Keeps the field with what goes back.
    pub(super) fn keep(self, signed: &mut Map<String, Value>) {
        let name = match self {
            Self::ReasoningContent => return,
            Self::Reasoning => "reasoning",
            Self::Content => "content",
        };
        signed.insert(FIELD.to_owned(), name.into());
    }

    fn named(name: Option<&Value>) -> Self {
        match name.and_then(Value::as_str) {
            Some("reasoning") => Self::Reasoning,
            Some("content") => Self::Content,
            _ => Self::ReasoningContent,
        }
    }
}

/// Takes the reasoning text out of a message or delta, and adds its signed blocks to `signed`.
pub(super) fn take(message: &mut Value, signed: &mut Map<String, Value>) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut thought = String::new();
    // Some servers send the same text under both names.
    for (name, field) in [
        ("reasoning_content", Field::ReasoningContent),
        ("reasoning", Field::Reasoning),
    ] {
        if thought.is_empty() {
            thought = text(&message[name]);
            if !thought.is_empty() {
                field.keep(signed);
            }
        }
    }
    for field in BLOCKS {
        let Value::Array(blocks) = take_field(message, field) else {
            continue;
        };
        if thought.is_empty() {
            let of_block = |block: &Value| {
                ["text", "summary", "thinking"]
                    .map(|key| text(&block[key]))
                    .concat()
            };
            thought = blocks.iter().map(of_block).collect();
        }
        if let Value::Array(list) = signed
            .entry(field)
            .or_insert_with(|| Value::Array(Vec::new()))
        {
            blocks.into_iter().for_each(|block| join(list, block));
        }
    }
    thought
}

/// Appends a block, or extends the last block by its next piece.
fn join(list: &mut Vec<Value>, block: Value) {
    let goes_on = list.last().is_some_and(|last| {
        let is_signed = !last["signature"].is_null() || !last["data"].is_null();
        last["type"] == block["type"] && last["index"] == block["index"] && !is_signed
    });
    let (Some(Value::Object(last)), true) = (list.last_mut(), goes_on) else {
        list.push(block);
        return;
    };
    let Value::Object(fields) = block else { return };
    for (name, value) in fields {
        match (last.get_mut(&name), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more))
                if matches!(&*name, "text" | "summary" | "thinking") =>
            {
                text.push_str(&more);
            }
            (_, value) => {
                last.insert(name, value);
            }
        }
    }
}

/// Keeps the fields that a provider wants back with this call.
pub(super) fn sign_call(signed: &mut Map<String, Value>, id: &str, extra: Value) {
    let calls = signed
        .entry(CALLS)
        .or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(calls) = calls {
        calls.insert(id.to_owned(), extra);
    }
}

/// The signature made of these fields, if there are any.
pub(super) fn signature(signed: Map<String, Value>) -> Option<String> {
    (!signed.is_empty()).then(|| Value::Object(signed).to_string())
}

/// The fields that a signature sends back: those of the message, and those of its calls by id. The
/// signature of another provider's model sends nothing.
#[derive(Default)]
pub(super) struct Returned {
    /// Fields of the message.
    pub(super) fields: Map<String, Value>,
    /// The field of the text.
    pub(super) field: Field,
    calls: Map<String, Value>,
}

impl Returned {
    /// Reads a signature.
    pub(super) fn read(signature: &str) -> Self {
        let Ok(Value::Object(mut signed)) = serde_json::from_str(signature) else {
            return Self::default();
        };
        let calls = match signed.remove(CALLS) {
            Some(Value::Object(calls)) => calls,
            _ => Map::new(),
        };
        let field = Field::named(signed.get(FIELD));
        signed.retain(|name, _| BLOCKS.contains(&name.as_str()));
        Self {
            fields: signed,
            field,
            calls,
        }
    }

    /// The fields that go back with the call that is sent under this id.
    pub(super) fn of_call(&self, id: &str) -> Option<&Value> {
        let mut calls = self.calls.iter();
        let is_its = |known: &str| known == id || CallIds::OPENAI.sent(known) == id;
        calls
            .find(|(known, _)| is_its(known))
            .map(|(_, extra)| extra)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take_all(pieces: Vec<Value>) -> (String, Map<String, Value>) {
        let mut signed = Map::new();
        let texts = pieces
            .into_iter()
            .map(|mut piece| take(&mut piece, &mut signed));
        (texts.collect(), signed)
    }

    #[test]
    fn text_is_found_under_each_of_its_names_and_counted_once() {
        let (text, signed) = take_all(vec![
            json!({"reasoning_content": "a"}),
            json!({"reasoning": "b"}),
            json!({"reasoning_content": "c", "reasoning": "c"}),
            json!({"reasoning_content": null, "reasoning": {"not": "text"}}),
            json!(null),
        ]);
        assert_eq!(text, "abc");
        let returned = Returned::read(&signature(signed).unwrap());
        assert_eq!(returned.field, Field::Reasoning);
        let (_, signed) = take_all(vec![json!({"reasoning_content": "c", "reasoning": "c"})]);
        assert!(signed.is_empty());
    }

    #[test]
    fn blocks_in_pieces_become_whole_and_go_back_as_they_came() {
        let (text, signed) = take_all(vec![
            json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Let "}]}),
            json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "me."}]}),
            json!({"reasoning_details": [
                {"type": "reasoning.text", "index": 0, "text": null, "signature": "S1"}]}),
            json!({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "E"}]}),
        ]);
        assert_eq!(text, "Let me.");
        let returned = Returned::read(&signature(signed).unwrap());
        assert_eq!(
            returned.fields["reasoning_details"],
            json!([
                {"type": "reasoning.text", "index": 0, "text": "Let me.", "signature": "S1"},
                {"type": "reasoning.encrypted", "index": 1, "data": "E"},
            ])
        );
    }

    #[test]
    fn whole_blocks_stay_apart() {
        let blocks = json!([
            {"type": "thinking", "thinking": "a", "signature": "1"},
            {"type": "thinking", "thinking": "b", "signature": "2"},
        ]);
        let (text, signed) = take_all(vec![json!({"thinking_blocks": blocks})]);
        assert_eq!(text, "ab");
        assert_eq!(signed["thinking_blocks"], blocks);
    }

    #[test]
    fn the_signature_of_another_provider_sends_nothing() {
        for foreign in [
            "",
            "EqQBCg==",
            "[1]",
            "{\"role\": \"system\", \"content\": \"x\"}",
        ] {
            let returned = Returned::read(foreign);
            assert!(
                returned.fields.is_empty() && returned.calls.is_empty(),
                "{foreign}"
            );
        }
    }
}
