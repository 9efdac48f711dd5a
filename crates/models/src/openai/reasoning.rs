//! Reasoning, kept apart from the answer, and the signatures that providers want back.
//!
//! In our vocabulary a signature is one text. Here it is a JSON object of the fields that go back
//! unchanged with the message: `reasoning_details` (OpenRouter), `thinking_blocks` (LiteLLM), and
//! the fields of single tool calls by call id (`extra_content`, Google). Servers refuse the fields of
//! others, so a part after the reasoning says which server sent it, and under which field.

use ghostlight_actors::vocabulary::{Message, Part, ProviderPart, ProviderPartKind};
use serde_json::{Map, Value, json};

use super::{
    answer::take_field,
    profile::{Profile, ThinkingField},
};
use crate::http::CallIds;

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
    /// The part that keeps the field, and whose it is.
    pub(super) fn part(self, server: &str) -> Part {
        let name = match self {
            Self::ReasoningContent => "reasoning_content",
            Self::Reasoning => "reasoning",
            Self::Content => "content",
        };
        Part::Provider(ProviderPart::fields(server, json!({ FIELD: name })))
    }

    fn named(name: &Value) -> Option<Self> {
        match name.as_str()? {
            "reasoning_content" => Some(Self::ReasoningContent),
            "reasoning" => Some(Self::Reasoning),
            "content" => Some(Self::Content),
            _ => None,
        }
    }
}

/// A server, and what it wants of reasoning that it did not send itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    /// The host, without a port: the server may move to another one.
    pub(super) name: String,
    /// The field in which it takes reasoning; `None` if it takes none.
    field: Option<Field>,
    /// Whether it refuses a conversation without the reasoning of past calls.
    requires: bool,
}

impl Server {
    /// The server at this host and port, which has this profile.
    pub(super) fn of(host: &str, profile: &Profile) -> Self {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host,
        };
        Self {
            name: name.to_owned(),
            field: match profile.thinking {
                ThinkingField::AsItCame | ThinkingField::ReasoningContent => {
                    Some(Field::ReasoningContent)
                }
                ThinkingField::Reasoning => Some(Field::Reasoning),
                ThinkingField::Content => Some(Field::Content),
                ThinkingField::None => None,
            },
            requires: profile.thinking_required,
        }
    }
}

/// Takes the reasoning text out of a message or delta, adds its signed blocks to `signed`, and says under which field
/// it came.
pub(super) fn take(
    message: &mut Value,
    signed: &mut Map<String, Value>,
    came_in: &mut Option<Field>,
) -> String {
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
                *came_in = Some(field);
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

/// The parts of a message's reasoning that go back: its text under one field, or fields of the message, and fields of its
/// calls by id.
#[derive(Default)]
pub(super) struct Returned {
    /// The text.
    pub(super) text: String,
    /// Fields of the message.
    pub(super) fields: Map<String, Value>,
    /// The field of the text; `None` where the server does not want it.
    pub(super) field: Option<Field>,
    calls: Map<String, Value>,
}

impl Returned {
    /// The reasoning that goes back to this server; `always` says that it wants the reasoning of others too.
    pub(super) fn of(message: &Message, server: &Server, always: bool) -> Self {
        let mut returned = Self::default();
        // The field that its own server named, and whether another adapter or server made it.
        let (mut own, mut is_foreign) = (None, false);
        for part in &message.parts {
            match part {
                Part::Reasoning(reasoning) => {
                    returned.text.push_str(&reasoning.text);
                    if let Some(signature) = &reasoning.signature {
                        is_foreign |= !returned.read(signature, &mut own);
                    }
                }
                Part::Provider(part) if part.provider != server.name => {
                    is_foreign |= part.kind != ProviderPartKind::Note;
                }
                Part::Provider(part) => own = Field::named(&part.content[FIELD]).or(own),
                _ => {}
            }
        }
        if own.is_none() && is_foreign {
            (returned.fields, returned.calls) = (Map::new(), Map::new());
        }
        let of_others = match is_foreign && !always && !server.requires {
            true => None,
            false => server.field,
        };
        returned.field = own.or(of_others);
        returned
    }

    /// Reads a signature; `false` for that of another provider's model, which sends nothing.
    fn read(&mut self, signature: &str, field: &mut Option<Field>) -> bool {
        let Ok(Value::Object(mut signed)) = serde_json::from_str(signature) else {
            return false;
        };
        let calls = signed.remove(CALLS);
        // Earlier programs kept the field here.
        let named = signed.remove(FIELD);
        *field = named.as_ref().and_then(Field::named).or(*field);
        let has_own = calls.is_some() || named.is_some();
        if let Some(Value::Object(calls)) = calls {
            self.calls = calls;
        }
        signed.retain(|name, _| BLOCKS.contains(&name.as_str()));
        let has_own = has_own || !signed.is_empty();
        if !signed.is_empty() {
            self.fields = signed;
        }
        has_own
    }

    /// The fields that go back with the call that is sent under this id.
    pub(super) fn of_call(&self, id: &str, ids: CallIds) -> Option<&Value> {
        let mut calls = self.calls.iter();
        let is_its = |known: &str| known == id || ids.sent(known) == id;
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

    fn take_all(pieces: Vec<Value>) -> (String, Map<String, Value>, Option<Field>) {
        let (mut signed, mut field) = (Map::new(), None);
        let texts = pieces
            .into_iter()
            .map(|mut piece| take(&mut piece, &mut signed, &mut field));
        (texts.collect(), signed, field)
    }

    fn read(signature: &str) -> Returned {
        let mut returned = Returned::default();
        returned.read(signature, &mut None);
        returned
    }

    #[test]
    fn text_is_found_under_each_of_its_names_and_counted_once() {
        let (text, _, field) = take_all(vec![
            json!({"reasoning_content": "a"}),
            json!({"reasoning": "b"}),
            json!({"reasoning_content": "c", "reasoning": "c"}),
            json!({"reasoning_content": null, "reasoning": {"not": "text"}}),
            json!(null),
        ]);
        assert_eq!(text, "abc");
        assert_eq!(field, Some(Field::ReasoningContent));
        let (_, signed, field) = take_all(vec![json!({"reasoning": "c"})]);
        assert!(signed.is_empty());
        assert_eq!(field, Some(Field::Reasoning));
    }

    #[test]
    fn blocks_in_pieces_become_whole_and_go_back_as_they_came() {
        let (text, signed, _) = take_all(vec![
            json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Let "}]}),
            json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "me."}]}),
            json!({"reasoning_details": [
                {"type": "reasoning.text", "index": 0, "text": null, "signature": "S1"}]}),
            json!({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "E"}]}),
        ]);
        assert_eq!(text, "Let me.");
        let returned = read(&signature(signed).unwrap());
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
        let (text, signed, _) = take_all(vec![json!({"thinking_blocks": blocks})]);
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
            let returned = read(foreign);
            assert!(
                returned.fields.is_empty() && returned.calls.is_empty(),
                "{foreign}"
            );
        }
    }

    #[test]
    fn reasoning_goes_to_whom_it_came_from_and_to_no_server_that_refuses_it() {
        let field_at = |host: &str, parts: Vec<Part>| {
            let mut message = Message::assistant("");
            message.parts = parts;
            let profile = Profile::of(&format!("https://{host}/v1"), "m");
            Returned::of(&message, &Server::of(host, &profile), false).field
        };
        let thought = |signature: Option<&str>| {
            Part::Reasoning(ghostlight_actors::vocabulary::Reasoning {
                text: "hm".to_owned(),
                signature: signature.map(str::to_owned),
            })
        };
        let groq = || vec![thought(None), Field::Reasoning.part("api.groq.com")];
        assert_eq!(field_at("api.groq.com", groq()), Some(Field::Reasoning));
        assert_eq!(field_at("api.cerebras.ai", groq()), None);
        assert_eq!(field_at("127.0.0.1:8000", groq()), None);
        let content = Some(Field::ReasoningContent);
        assert_eq!(field_at("api.deepseek.com", groq()), content);
        // Journals of earlier programs.
        assert_eq!(field_at("127.0.0.1:8000", vec![thought(None)]), content);
        let reasoning = Some(Field::Reasoning);
        assert_eq!(field_at("api.groq.com", vec![thought(None)]), reasoning);
        assert_eq!(field_at("api.openai.com", vec![thought(None)]), None);
        let kept = vec![thought(Some("{\"field\":\"reasoning\"}"))];
        assert_eq!(field_at("api.groq.com", kept), Some(Field::Reasoning));
        let foreign = vec![thought(Some("{\"anthropic\":{\"signature\":\"c2ln\"}}"))];
        assert_eq!(field_at("127.0.0.1", foreign), None);
        let signed = vec![
            thought(None),
            Part::Provider(ProviderPart::fields("gemini", json!({}))),
        ];
        assert_eq!(field_at("127.0.0.1", signed), None);
    }
}
