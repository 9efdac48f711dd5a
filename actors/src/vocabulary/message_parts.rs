//! Parts of messages in their JSON form: `{"text": …}`, with unknown kinds kept as they are.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{EnumAccess, Error as _, VariantAccess, Visitor},
    ser::{Error as _, SerializeMap},
};

use super::{Part, UnknownPart};

const NAME: &str = "Part";
/// The kinds. Formats such as `bincode` write a kind's place in this list, so a kind keeps its place.
const KINDS: [&str; 7] = [
    "text",
    "tool_call",
    "tool_result",
    "reasoning",
    "data",
    "unknown",
    "provider",
];
/// The place of the kind that JSON has only under the name that came.
const UNKNOWN: usize = 5;

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_newtype_variant(NAME, 0, KINDS[0], text),
            Self::ToolCall(call) => serializer.serialize_newtype_variant(NAME, 1, KINDS[1], call),
            Self::ToolResult(result) => {
                serializer.serialize_newtype_variant(NAME, 2, KINDS[2], result)
            }
            Self::Reasoning(text) => serializer.serialize_newtype_variant(NAME, 3, KINDS[3], text),
            Self::Data(data) => serializer.serialize_newtype_variant(NAME, 4, KINDS[4], data),
            Self::Provider(part) => serializer.serialize_newtype_variant(NAME, 6, KINDS[6], part),
            Self::Unknown(UnknownPart { kind, content }) if serializer.is_human_readable() => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(kind, content)?;
                map.end()
            }
            // Formats other than JSON can hold arbitrary JSON only as a text.
            Self::Unknown(UnknownPart { kind, content }) => {
                let content = serde_json::to_string(content).map_err(S::Error::custom)?;
                serializer.serialize_newtype_variant(NAME, 5, KINDS[5], &(kind, content))
            }
        }
    }
}

/// The kind of a part, given by its name or by its place in the list.
enum Kind {
    Known(usize),
    Named(String),
}

struct KindVisitor;

impl Visitor<'_> for KindVisitor {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kind of a part of a message")
    }

    fn visit_u64<E: serde::de::Error>(self, place: u64) -> Result<Kind, E> {
        let place = usize::try_from(place).ok();
        let place = place.filter(|place| *place < KINDS.len());
        place
            .map(Kind::Known)
            .ok_or_else(|| E::custom("no kind of a part has this place"))
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Kind, E> {
        let place = KINDS.iter().position(|kind| *kind == name);
        let place = place.filter(|place| *place != UNKNOWN);
        Ok(place.map_or_else(|| Kind::Named(name.to_owned()), Kind::Known))
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(KindVisitor)
    }
}

struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part of a message")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Part, A::Error> {
        let (kind, content) = access.variant::<Kind>()?;
        let place = match kind {
            Kind::Known(place) => place,
            Kind::Named(kind) => {
                let content = content.newtype_variant()?;
                return Ok(Part::Unknown(UnknownPart { kind, content }));
            }
        };
        Ok(match place {
            0 => Part::Text(content.newtype_variant()?),
            1 => Part::ToolCall(content.newtype_variant()?),
            2 => Part::ToolResult(content.newtype_variant()?),
            3 => Part::Reasoning(content.newtype_variant()?),
            4 => Part::Data(content.newtype_variant()?),
            6 => Part::Provider(content.newtype_variant()?),
            _ => {
                let (kind, content): (String, String) = content.newtype_variant()?;
                let content = serde_json::from_str(&content).map_err(A::Error::custom)?;
                Part::Unknown(UnknownPart { kind, content })
            }
        })
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_enum(NAME, &KINDS, PartVisitor)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::vocabulary::{
        Data, DataSource, Message, ProviderPart, Reasoning, ToolCall, ToolResult, ToolStatus,
    };

    fn parts() -> Vec<Part> {
        let call = ToolCall::new("1", "look", "{}");
        let result = ToolResult::new(&call, ToolStatus::Success, "seen");
        let source = DataSource::Url("https://example.com".to_owned());
        vec![
            Part::Text("grüß".to_owned()),
            Part::ToolCall(call),
            Part::ToolResult(result),
            Part::Reasoning(Reasoning::default()),
            Part::Data(Data {
                media_type: "image/png".to_owned(),
                name: None,
                source,
            }),
            Part::Unknown(UnknownPart {
                kind: "hologram".to_owned(),
                content: json!({"depth": [1, null, 2.5], "unknown": "x"}),
            }),
            Part::Provider(ProviderPart::block(
                "acme",
                json!({"type": "found", "at": [1, 2.5]}),
            )),
            Part::Provider(ProviderPart::fields("acme", json!({"signature": "c2ln"}))),
        ]
    }

    #[test]
    fn a_part_of_a_later_version_is_kept_as_it_came() {
        let text =
            r#"{"role":"user","author":null,"parts":[{"text":"see"},{"hologram":{"depth":3}}]}"#;
        let message: Message = serde_json::from_str(text).unwrap();
        assert_eq!(message.content(), "see");
        assert_eq!(serde_json::to_string(&message).unwrap(), text);
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::from_value::<Message>(value).unwrap(), message);
    }

    #[test]
    fn every_part_survives_json_and_checkpoints() {
        for part in parts() {
            let json = serde_json::to_string(&part).unwrap();
            assert_eq!(serde_json::from_str::<Part>(&json).unwrap(), part);
            let config = bincode::config::standard();
            let bytes = bincode::serde::encode_to_vec(&part, config).unwrap();
            let (back, read): (Part, usize) =
                bincode::serde::decode_from_slice(&bytes, config).unwrap();
            assert_eq!((back, read), (part, bytes.len()));
        }
        assert_eq!(json!(parts()[0]), json!({"text": "grüß"}));
    }

    #[test]
    fn what_stands_between_the_texts_of_an_answer_does_not_break_its_lines() {
        let text = |text: &str| Part::Text(text.to_owned());
        let cited = || Part::Provider(ProviderPart::fields("acme", json!({"citations": []})));
        let parts = vec![
            text("Runs can "),
            text("be"),
            cited(),
            text(" cancelled"),
            cited(),
            text("."),
        ];
        let mut message = Message::assistant("");
        message.parts = parts;
        assert_eq!(message.content(), "Runs can \nbe cancelled.");
        message.role = crate::vocabulary::Role::User;
        assert_eq!(message.content(), "Runs can \nbe\n cancelled\n.");
    }

    #[test]
    fn what_is_no_part_is_an_error() {
        for text in [
            r#""text""#,
            "{}",
            "3",
            r#"{"text": 3}"#,
            r#"{"text":"a","data":1}"#,
        ] {
            assert!(serde_json::from_str::<Part>(text).is_err(), "{text}");
        }
        assert!(
            bincode::serde::decode_from_slice::<Part, _>(&[9], bincode::config::standard())
                .is_err()
        );
    }
}
