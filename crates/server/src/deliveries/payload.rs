//! The form of messages that a receiver wants.

use serde_json::Value;

use crate::{served::WebhookPiece, webhooks::value_at};

/// The most bytes that the values of a message add to a payload; what is beyond is cut off.
const MAX_BYTES: usize = 1 << 20;

/// A payload with the values of this message in its places.
pub(super) fn filled(payload: &Value, message: &Value) -> Value {
    let room = MAX_BYTES;
    Filling { message, room }.value(payload)
}

struct Filling<'m> {
    message: &'m Value,
    room: usize,
}

impl Filling<'_> {
    fn value(&mut self, payload: &Value) -> Value {
        match payload {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, value)| (name.clone(), self.value(value)));
                Value::Object(fields.collect())
            }
            other => other.clone(),
        }
    }

    fn text(&mut self, text: &str) -> Value {
        // The payload was checked when the team was read.
        let pieces = WebhookPiece::all(text).unwrap_or_default();
        if let [WebhookPiece::Body(path)] = pieces[..] {
            let value = value_at(self.message, path).unwrap_or(&Value::Null);
            let bytes = value.to_string().len();
            if bytes <= self.room {
                self.room -= bytes;
                return value.clone();
            }
        }
        let mut filled = String::new();
        let mut pieces = pieces.into_iter().peekable();
        while let Some(piece) = pieces.next() {
            match piece {
                WebhookPiece::Text(text) => filled.push_str(text),
                WebhookPiece::Body(path) => {
                    let value = match value_at(self.message, path) {
                        None | Some(Value::Null) => None,
                        Some(Value::String(text)) => Some(text.clone()),
                        Some(value) => Some(value.to_string()),
                    };
                    if let Some(value) = WebhookPiece::through(&mut pieces, value) {
                        self.push(&mut filled, &value);
                    }
                }
                WebhookPiece::Header(_) | WebhookPiece::Query(_) | WebhookPiece::Through(_) => {}
            }
        }
        Value::String(filled)
    }

    fn push(&mut self, filled: &mut String, text: &str) {
        let text = &text[..text.floor_char_boundary(self.room)];
        self.room -= text.len();
        filled.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places_are_filled_with_values_that_stay_values() {
        let message = json!({
            "type": "run.completed", "data": { "answer": "it is \"17\"", "session": { "key": "a" }, "list": [1, null] },
        });
        let payload = json!({
            "text": "{body.type}: {body.data.answer}{body.data.none}", "session": "{body.data.session}",
            "blocks": [{ "n": "{body.data.list.0}", "{body.type}": true, "raw": "{{x}} {body.data.list}" }],
            "none": "{body.data.none}", "all": 7,
        });
        let wanted = json!({
            "text": "run.completed: it is \"17\"", "session": { "key": "a" },
            "blocks": [{ "n": 1, "{body.type}": true, "raw": "{x} [1,null]" }],
            "none": null, "all": 7,
        });
        assert_eq!(filled(&payload, &message), wanted);
    }

    #[test]
    fn many_places_of_a_long_text_come_to_a_bounded_message() {
        let message = json!({ "a": "ä".repeat(300_000) });
        let payload = json!(vec!["{body.a}"; 1_000]);
        let filled = filled(&payload, &message).to_string();
        assert!(
            (MAX_BYTES - 1..MAX_BYTES + 10_000).contains(&filled.len()),
            "{}",
            filled.len()
        );
    }
}
