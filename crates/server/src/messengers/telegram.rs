//! Telegram's form: its updates come in, and calls of its Bot API go out.

use axum::http::HeaderMap;
use ghostlight_safety::unambiguous_json;
use ring::hmac;
use serde::Deserialize;
use serde_json::{Value, json};

/// The header by which Telegram shows that an update is its own.
const TOKEN: &str = "x-telegram-bot-api-secret-token";
/// The most characters of a message, which Telegram bounds to 4,096.
const MOST: usize = 4_000;

/// Whether an update shows the secret that Telegram was given with the address (`setWebhook`). The comparison takes the same
/// time for every text.
pub(super) fn is_genuine(headers: &HeaderMap, secret: &str) -> bool {
    let given = headers.get(TOKEN).map(|value| value.as_bytes());
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"ghostlight messenger token v1");
    let expected = hmac::sign(&key, secret.as_bytes());
    given.is_some_and(|given| hmac::verify(&key, given, expected.as_ref()).is_ok())
}

#[derive(Deserialize)]
struct Update {
    message: Option<Written>,
}

#[derive(Deserialize)]
struct Written {
    message_id: i64,
    chat: Id,
    from: Option<Sender>,
    text: Option<String>,
}

#[derive(Deserialize)]
struct Id {
    id: i64,
}

#[derive(Deserialize)]
struct Sender {
    id: i64,
    #[serde(default)]
    is_bot: bool,
}

/// A text that a person wrote.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) id: String,
    pub(super) chat: String,
    pub(super) sender: String,
    pub(super) text: String,
}

/// The text of an update; `None` for one of another kind, such as a picture, an edit, or the words of a bot.
///
/// # Errors
/// The body is not an update.
pub(super) fn text_of(body: &[u8]) -> Result<Option<Text>, serde_json::Error> {
    let update: Update = unambiguous_json(body)?;
    Ok(update.message.and_then(|written| {
        let sender = written.from.filter(|sender| !sender.is_bot)?;
        Some(Text {
            id: written.message_id.to_string(),
            chat: written.chat.id.to_string(),
            sender: sender.id.to_string(),
            text: written.text?,
        })
    }))
}

/// The message to a person, as the bodies of calls; a long text is several.
pub(crate) fn calls(said: &Value) -> Vec<Value> {
    let number = |field: &str| {
        said[field]
            .as_str()
            .and_then(|text| text.parse::<i64>().ok())
    };
    let chat = number("chat");
    if said["type"] == "reaction" {
        let reaction = json!([{ "type": "emoji", "emoji": said["emoji"] }]);
        let message = number("message");
        return vec![json!({ "chat_id": chat, "message_id": message, "reaction": reaction })];
    }
    let text: Vec<char> = said["text"].as_str().unwrap_or_default().chars().collect();
    let pieces = text.chunks(MOST).map(|piece| {
        let reply =
            json!({ "message_id": number("reply_to"), "allow_sending_without_reply": true });
        let text: String = piece.iter().collect();
        json!({ "chat_id": chat, "text": text, "reply_parameters": reply })
    });
    pieces.collect()
}

/// Where a call goes: below the address of the Bot API, under the bot's token, by what its body says.
pub(crate) fn address(base: &str, token: &str, body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let method = match body.get("reaction") {
        Some(_) => "setMessageReaction",
        None => "sendMessage",
    };
    format!("{}/bot{token}/{method}", base.trim_end_matches('/'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_a_text_of_a_person_or_nothing() {
        let text = br#"{"update_id": 1, "message": {"message_id": 7, "date": 1, "chat": {"id": -5, "type": "group"},
            "from": {"id": 42, "is_bot": false, "first_name": "Ada"}, "text": "hello"}}"#;
        let read = text_of(text).unwrap().unwrap();
        let expected = ("7", "-5", "42", "hello");
        assert_eq!(
            (&*read.id, &*read.chat, &*read.sender, &*read.text),
            expected
        );
        for nothing in [
            r#"{"update_id": 1, "edited_message": {"message_id": 7}}"#,
            r#"{"update_id": 1, "message": {"message_id": 7, "chat": {"id": 1}, "from": {"id": 2}}}"#,
            r#"{"update_id": 1, "message": {"message_id": 7, "chat": {"id": 1}, "from": {"id": 2, "is_bot": true}, "text": "x"}}"#,
        ] {
            assert_eq!(text_of(nothing.as_bytes()).unwrap(), None, "{nothing}");
        }
        assert!(text_of(b"[]").is_err());
    }

    #[test]
    fn a_long_text_is_several_messages_of_whole_characters() {
        let said = json!({ "type": "message", "chat": "-5", "reply_to": "7", "text": "ü".repeat(MOST + 1) });
        let calls = calls(&said);
        let lengths = calls
            .iter()
            .map(|call| call["text"].as_str().unwrap().chars().count());
        assert_eq!(lengths.collect::<Vec<_>>(), [MOST, 1]);
        assert_eq!(calls[0]["chat_id"], -5);
        assert_eq!(calls[1]["reply_parameters"]["message_id"], 7);
    }
}
