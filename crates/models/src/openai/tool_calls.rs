//! Assembles tool calls from the pieces that a server sends.

use std::collections::HashMap;

use ghostlight_actors::vocabulary::{Delta, Message, Part, ProviderPart, ToolCall, Transcript};
use serde_json::{Map, Value, value::RawValue};

use super::{answer::take_field, reasoning};
use crate::http::{Failure, settle_calls};

/// The calls of one answer, in the order in which they began.
#[derive(Default)]
pub(super) struct CallDrafts {
    drafts: Vec<CallDraft>,
    /// The last draft of each index, which several calls may share.
    last: HashMap<u64, usize>,
}

#[derive(Default)]
struct CallDraft {
    id: String,
    name: String,
    arguments: String,
    /// The last piece of the arguments.
    last_piece: String,
    /// Whether each piece began with the piece before it.
    grows: bool,
    /// The field that a provider wants back with the call (Google's signatures).
    extra: Value,
}

impl CallDraft {
    /// Whether the arguments are complete, so that the next piece belongs to another call.
    fn is_whole(&self) -> bool {
        is_json(&self.arguments)
    }

    /// Adds the next piece of the arguments.
    fn push(&mut self, piece: String) {
        if piece.is_empty() {
            return;
        }
        self.grows =
            (self.last_piece.is_empty() || self.grows) && piece.starts_with(&self.last_piece);
        self.arguments.push_str(&piece);
        self.last_piece = piece;
    }

    /// Settles the arguments. With some servers each piece repeats all pieces before it, or the last one does: then the
    /// last piece is the whole.
    fn settle(&mut self) {
        let before = &self.arguments[..self.arguments.len() - self.last_piece.len()];
        if before.is_empty() || is_json(&self.arguments) || !is_json(&self.last_piece) {
            return;
        }
        let value = |text: &str| serde_json::from_str::<Value>(text).ok();
        let said = value(before);
        if self.grows || (said.is_some() && said == value(&self.last_piece)) {
            self.arguments = std::mem::take(&mut self.last_piece);
        }
    }

    /// The call, and the field that goes back with it.
    fn parts(self) -> impl Iterator<Item = Part> {
        let call = Part::ToolCall(ToolCall::new(self.id, self.name, self.arguments));
        let extra = Some(self.extra).filter(|extra| !extra.is_null());
        let extra = extra.map(|extra| Part::Provider(ProviderPart::fields("", extra)));
        std::iter::once(call).chain(extra)
    }
}

impl CallDrafts {
    /// Takes a call, or a piece of one, from this position of its list.
    pub(super) fn take(&mut self, position: usize, mut piece: Value, show: &mut impl FnMut(Delta)) {
        let index = piece["index"].as_u64().unwrap_or(position as u64);
        let id = text(&piece["id"]);
        let name = text(&piece["function"]["name"]);
        let arguments = match piece
            .get_mut("function")
            .map(|function| take_field(function, "arguments"))
        {
            Some(Value::String(text)) => text,
            None | Some(Value::Null) => String::new(),
            // Some servers send an object instead of its text.
            Some(object) => object.to_string(),
        };
        let place = self.place(index, &id, &name, &arguments);
        let draft = &mut self.drafts[place];
        let is_named_now = draft.name.is_empty() && !name.is_empty();
        if draft.id.is_empty() {
            draft.id = id;
        }
        if is_named_now {
            draft.name.clone_from(&name);
        }
        draft.push(arguments.clone());
        if piece["extra_content"].is_object() {
            draft.extra = take_field(&mut piece, "extra_content");
        }
        if is_named_now || !arguments.is_empty() {
            show(Delta::ToolCall {
                index: u32::try_from(place).unwrap_or(u32::MAX),
                name: is_named_now.then_some(name),
                arguments,
            });
        }
    }

    /// The draft that a piece belongs to. Some servers give every call the index 0. Their next call
    /// is recognised by a second name, together with another id or after complete arguments.
    fn place(&mut self, index: u64, id: &str, name: &str, arguments: &str) -> usize {
        if name.is_empty()
            && let Some(place) = self.place_without_name(index, id)
        {
            return place;
        }
        if let Some(place) = self.last.get(&index).copied() {
            let draft = &self.drafts[place];
            let is_named_twice = !name.is_empty() && !draft.name.is_empty();
            let has_other_id = !id.is_empty() && !draft.id.is_empty() && draft.id != *id;
            let is_repeated = draft.arguments == arguments;
            let is_next = id.is_empty() && draft.is_whole() && !is_repeated;
            let begins = is_named_twice && (has_other_id || is_next);
            if !begins {
                return place;
            }
        }
        let place = self.drafts.len();
        self.drafts.push(CallDraft::default());
        self.last.insert(index, place);
        place
    }

    /// The draft that a piece without a name continues with. Some servers give it an index of its own, or that of another
    /// call: it belongs to the call of its id, else to the call of its index while that is open, else to the last that is open.
    fn place_without_name(&self, index: u64, id: &str) -> Option<usize> {
        let of_id = |draft: &CallDraft| !id.is_empty() && draft.id == id;
        let last = self.drafts.len().checked_sub(1)?;
        self.drafts
            .iter()
            .rposition(of_id)
            .or_else(|| {
                let place = self.last.get(&index).copied()?;
                (place == last || !self.drafts[place].is_whole()).then_some(place)
            })
            .or_else(|| {
                let open = self.drafts.iter().rposition(|draft| !draft.is_whole());
                id.is_empty().then(|| open.unwrap_or(last))
            })
    }

    /// The calls, [settled](settle_calls).
    pub(super) fn complete(
        self,
        conversation: &Transcript,
        signed: &mut Map<String, Value>,
    ) -> Result<Vec<ToolCall>, Failure> {
        if self.drafts.is_empty() {
            return Ok(Vec::new());
        }
        if self.drafts.iter().any(|draft| draft.name.is_empty()) {
            return Err(Failure::Malformed(String::from(
                "it calls a tool without a name",
            )));
        }
        let mut drafts = self.drafts;
        drafts.iter_mut().for_each(CallDraft::settle);
        let mut message = Message::assistant("");
        message.parts = drafts.into_iter().flat_map(CallDraft::parts).collect();
        settle_calls(&mut message, conversation);
        let mut calls: Vec<ToolCall> = Vec::new();
        for part in message.parts {
            match (part, calls.last()) {
                (Part::ToolCall(call), _) => calls.push(call),
                (Part::Provider(extra), Some(call)) => {
                    reasoning::sign_call(signed, &call.id, extra.content);
                }
                _ => {}
            }
        }
        Ok(calls)
    }
}

fn is_json(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && serde_json::from_str::<&RawValue>(text).is_ok()
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::vocabulary::Role;
    use serde_json::json;

    use super::*;

    /// Takes lists of pieces, one list a chunk, and returns the id, name and arguments of each
    /// call.
    fn calls(chunks: &[Value]) -> Vec<(String, String, String)> {
        calls_after(&Transcript::new(), chunks)
    }

    fn calls_after(conversation: &Transcript, chunks: &[Value]) -> Vec<(String, String, String)> {
        let mut drafts = CallDrafts::default();
        for chunk in chunks {
            for (position, piece) in chunk.as_array().unwrap().iter().enumerate() {
                drafts.take(position, piece.clone(), &mut |_| {});
            }
        }
        let calls = drafts.complete(conversation, &mut Map::new()).unwrap();
        let parts = |call: ToolCall| (call.id, call.name, call.arguments.text().to_owned());
        calls.into_iter().map(parts).collect()
    }

    fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
        (id.into(), name.into(), arguments.into())
    }

    #[test]
    fn pieces_are_joined_by_their_index() {
        let chunks = [
            json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]),
            json!([{"index": 0, "function": {"arguments": "{\"x\""}}]),
            json!([{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}},
                   {"index": 0, "function": {"arguments": ":1}"}}]),
        ];
        assert_eq!(
            calls(&chunks),
            [call("a", "f", "{\"x\":1}"), call("b", "g", "{}")]
        );
    }

    #[test]
    fn whole_calls_that_all_claim_index_0_are_several() {
        let chunks = [
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]),
            json!([{"index": 0, "id": "b", "function": {"name": "f", "arguments": "{}"}}]),
        ];
        assert_eq!(calls(&chunks), [call("a", "f", "{}"), call("b", "f", "{}")]);
        let without_ids = [
            json!([{"function": {"name": "f", "arguments": {"x": 1}}}]),
            json!([{"function": {"name": "g", "arguments": {"y": 2}}}]),
        ];
        assert_eq!(
            calls(&without_ids),
            [
                call("call_0", "f", "{\"x\":1}"),
                call("call_1", "g", "{\"y\":2}")
            ]
        );
    }

    #[test]
    fn an_index_left_out_is_the_position_in_the_list() {
        let chunks = [json!([
            {"id": "a", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "function": {"name": "g", "arguments": "{}"}},
        ])];
        assert_eq!(calls(&chunks), [call("a", "f", "{}"), call("b", "g", "{}")]);
    }

    #[test]
    fn an_id_or_a_name_with_every_piece_makes_no_second_call() {
        let fresh_ids = [
            json!([{"index": 0, "id": "r1", "function": {"name": "f", "arguments": "{\"x\""}}]),
            json!([{"index": 0, "id": "r2", "function": {"arguments": ":1}"}}]),
        ];
        assert_eq!(calls(&fresh_ids), [call("r1", "f", "{\"x\":1}")]);
        let same_name = [
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\""}}]),
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": ":1}"}}]),
        ];
        assert_eq!(calls(&same_name), [call("a", "f", "{\"x\":1}")]);
    }

    #[test]
    fn missing_and_repeated_ids_become_unique_in_the_conversation_and_always_the_same() {
        let said = ToolCall::new("call_0", "f", "{}");
        let conversation = Transcript::from_iter([Message {
            role: Role::Assistant,
            author: None,
            parts: vec![Part::ToolCall(said)],
            synthetic: false,
        }]);
        let chunks = [json!([
            {"id": "call_0", "function": {"name": "f", "arguments": "{}"}},
            {"id": "", "function": {"name": "g"}},
            {"id": 7, "function": {"name": "h", "arguments": null}},
        ])];
        let expected = [
            call("call_1", "f", "{}"),
            call("call_2", "g", ""),
            call("7", "h", ""),
        ];
        assert_eq!(calls_after(&conversation, &chunks), expected);
        assert_eq!(calls_after(&conversation, &chunks), expected);
    }

    #[test]
    fn a_call_without_a_name_is_malformed() {
        let mut drafts = CallDrafts::default();
        drafts.take(
            0,
            json!({"id": "a", "function": {"arguments": "{}"}}),
            &mut |_| {},
        );
        let completed = drafts.complete(&Transcript::new(), &mut Map::new());
        assert!(matches!(completed, Err(Failure::Malformed(_))));
    }
}
