//! The canonical form of a card: the bytes that are signed.

use serde_json::{Map, Value};

/// A field of a message of the protocol.
struct Field {
    name: &'static str,
    shape: Shape,
    /// Whether a default value stays: the field is required or `optional`, or a message, whose presence is known.
    keeps_default: bool,
}

/// The messages within a field.
#[derive(Clone, Copy)]
enum Shape {
    /// None: a text, a flag, a list or map of texts, or any JSON.
    Plain,
    One(&'static [Field]),
    List(&'static [Field]),
    Map(&'static [Field]),
}

/// A field that is left out when it has its default value.
const fn implicit(name: &'static str, shape: Shape) -> Field {
    Field {
        name,
        shape,
        keeps_default: false,
    }
}

/// A field that stays as it is given.
const fn explicit(name: &'static str, shape: Shape) -> Field {
    Field {
        name,
        shape,
        keeps_default: true,
    }
}

use Shape::{List, Map as Named, One, Plain};

// The messages of `a2a.proto` in version 1.0. A field that is not here is not part of a card: readers ignore it, so it is
// not signed either. The official SDK for Python adds such fields to what it serves, for clients of version 0.3.
const CARD: &[Field] = &[
    explicit("name", Plain),
    explicit("description", Plain),
    explicit("supportedInterfaces", List(INTERFACE)),
    explicit("provider", One(PROVIDER)),
    explicit("version", Plain),
    explicit("documentationUrl", Plain),
    explicit("capabilities", One(CAPABILITIES)),
    implicit("securitySchemes", Named(SECURITY_SCHEME)),
    implicit("securityRequirements", List(SECURITY_REQUIREMENT)),
    explicit("defaultInputModes", Plain),
    explicit("defaultOutputModes", Plain),
    explicit("skills", List(SKILL)),
    explicit("iconUrl", Plain),
];
const INTERFACE: &[Field] = &[
    explicit("url", Plain),
    explicit("protocolBinding", Plain),
    implicit("tenant", Plain),
    explicit("protocolVersion", Plain),
];
const PROVIDER: &[Field] = &[explicit("url", Plain), explicit("organization", Plain)];
const CAPABILITIES: &[Field] = &[
    explicit("streaming", Plain),
    explicit("pushNotifications", Plain),
    implicit("extensions", List(EXTENSION)),
    explicit("extendedAgentCard", Plain),
];
const EXTENSION: &[Field] = &[
    implicit("uri", Plain),
    implicit("description", Plain),
    implicit("required", Plain),
    explicit("params", Plain),
];
const SKILL: &[Field] = &[
    explicit("id", Plain),
    explicit("name", Plain),
    explicit("description", Plain),
    explicit("tags", Plain),
    implicit("examples", Plain),
    implicit("inputModes", Plain),
    implicit("outputModes", Plain),
    implicit("securityRequirements", List(SECURITY_REQUIREMENT)),
];
const SECURITY_REQUIREMENT: &[Field] = &[implicit("schemes", Named(TEXTS))];
const TEXTS: &[Field] = &[implicit("list", Plain)];
const SECURITY_SCHEME: &[Field] = &[
    explicit("apiKeySecurityScheme", One(API_KEY)),
    explicit("httpAuthSecurityScheme", One(HTTP_AUTH)),
    explicit("oauth2SecurityScheme", One(OAUTH2)),
    explicit("openIdConnectSecurityScheme", One(OPEN_ID)),
    explicit("mtlsSecurityScheme", One(MUTUAL_TLS)),
];
const API_KEY: &[Field] = &[
    implicit("description", Plain),
    explicit("location", Plain),
    explicit("name", Plain),
];
const HTTP_AUTH: &[Field] = &[
    implicit("description", Plain),
    explicit("scheme", Plain),
    implicit("bearerFormat", Plain),
];
const OAUTH2: &[Field] = &[
    implicit("description", Plain),
    explicit("flows", One(FLOWS)),
    implicit("oauth2MetadataUrl", Plain),
];
const OPEN_ID: &[Field] = &[
    implicit("description", Plain),
    explicit("openIdConnectUrl", Plain),
];
const MUTUAL_TLS: &[Field] = &[implicit("description", Plain)];
const FLOWS: &[Field] = &[
    explicit("authorizationCode", One(AUTHORIZATION_CODE)),
    explicit("clientCredentials", One(CLIENT_CREDENTIALS)),
    explicit("implicit", One(OLD_FLOW)),
    explicit("password", One(OLD_FLOW)),
    explicit("deviceCode", One(DEVICE_CODE)),
];
const AUTHORIZATION_CODE: &[Field] = &[
    explicit("authorizationUrl", Plain),
    explicit("tokenUrl", Plain),
    implicit("refreshUrl", Plain),
    explicit("scopes", Plain),
    implicit("pkceRequired", Plain),
];
const CLIENT_CREDENTIALS: &[Field] = &[
    explicit("tokenUrl", Plain),
    implicit("refreshUrl", Plain),
    explicit("scopes", Plain),
];
/// The flows `implicit` and `password`, which have no required fields.
const OLD_FLOW: &[Field] = &[
    implicit("authorizationUrl", Plain),
    implicit("tokenUrl", Plain),
    implicit("refreshUrl", Plain),
    implicit("scopes", Plain),
];
const DEVICE_CODE: &[Field] = &[
    explicit("deviceAuthorizationUrl", Plain),
    explicit("tokenUrl", Plain),
    implicit("refreshUrl", Plain),
    explicit("scopes", Plain),
];

/// The bytes that are signed, by the rules of the specification; `None` for what is not a JSON object.
pub(super) fn canonical(card: &Value) -> Option<Vec<u8>> {
    serde_json_canonicalizer::to_vec(&by_the_rules(card)?).ok()
}

/// The bytes that the official SDKs for Python and JavaScript sign: all empty texts, lists and objects are left out, also
/// those of required fields. The meaning is the same, since a field that is left out is read as its default.
pub(super) fn canonical_without_empty(card: &Value) -> Option<Vec<u8>> {
    let card = without_empty(by_the_rules(card)?).unwrap_or_else(|| Value::Object(Map::new()));
    serde_json_canonicalizer::to_vec(&card).ok()
}

fn by_the_rules(card: &Value) -> Option<Value> {
    card.is_object().then(|| reduced(card, CARD))
}

/// A message with the fields of the protocol alone, and without defaults that are left out.
fn reduced(value: &Value, message: &[Field]) -> Value {
    let Value::Object(given) = value else {
        return value.clone();
    };
    let mut kept = Map::new();
    for field in message {
        let Some(value) = given.get(field.name).filter(|value| !value.is_null()) else {
            continue;
        };
        let value = match (field.shape, value) {
            (One(message), value) => reduced(value, message),
            (List(message), Value::Array(list)) => {
                list.iter().map(|one| reduced(one, message)).collect()
            }
            (Named(message), Value::Object(map)) => {
                let reduced =
                    |(name, one): (&String, &Value)| (name.clone(), reduced(one, message));
                Value::Object(map.iter().map(reduced).collect())
            }
            (_, value) => value.clone(),
        };
        if field.keeps_default || !(is_empty(&value) || value == Value::Bool(false)) {
            kept.insert(field.name.to_owned(), value);
        }
    }
    Value::Object(kept)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// A value without all that is empty, or becomes empty by this; `None` if nothing is left.
fn without_empty(value: Value) -> Option<Value> {
    let value = match value {
        Value::Array(list) => list.into_iter().filter_map(without_empty).collect(),
        Value::Object(map) => {
            let left = map
                .into_iter()
                .filter_map(|(name, value)| Some((name, without_empty(value)?)));
            Value::Object(left.collect())
        }
        value => value,
    };
    (!is_empty(&value)).then_some(value)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(bytes: Option<Vec<u8>>) -> String {
        String::from_utf8(bytes.unwrap()).unwrap()
    }

    /// The example of section 8.4.1.
    #[test]
    fn defaults_are_left_out_unless_they_are_required_or_were_given() {
        let card = json!({
            "name": "Example Agent",
            "description": "",
            "capabilities": { "streaming": false, "pushNotifications": false, "extensions": [] },
            "skills": [],
        });
        assert_eq!(
            text(canonical(&card)),
            r#"{"capabilities":{"pushNotifications":false,"streaming":false},"description":"","name":"Example Agent","skills":[]}"#
        );
        assert_eq!(
            text(canonical_without_empty(&card)),
            r#"{"capabilities":{"pushNotifications":false,"streaming":false},"name":"Example Agent"}"#
        );
    }

    #[test]
    fn what_is_no_part_of_a_card_and_its_signatures_are_not_signed() {
        let card = json!({
            "name": "a", "url": "http://old.example", "signatures": [{ "protected": "x" }], "provider": null,
            "skills": [{ "id": "s", "inputModes": [], "input_modes": ["text"] }],
            "securitySchemes": { "k": { "type": "http", "httpAuthSecurityScheme": { "scheme": "Bearer" } } },
        });
        assert_eq!(
            text(canonical(&card)),
            r#"{"name":"a","securitySchemes":{"k":{"httpAuthSecurityScheme":{"scheme":"Bearer"}}},"skills":[{"id":"s"}]}"#
        );
    }

    /// RFC 8785: names in the order of their UTF-16 code units, numbers as JavaScript writes them, no needless escapes.
    #[test]
    fn names_numbers_and_texts_are_written_in_one_way() {
        let params = json!({ "\u{ff01}": 1e30, "\u{1f600}": 1.0, "\u{e4}": "\u{e4}\u{7}/\n", "b": 0.000_001 });
        let card = json!({ "capabilities": { "extensions": [{ "params": params }] } });
        let written =
            "{\"b\":0.000001,\"\u{e4}\":\"\u{e4}\\u0007/\\n\",\"\u{1f600}\":1,\"\u{ff01}\":1e+30}";
        assert_eq!(
            text(canonical(&card)),
            format!(r#"{{"capabilities":{{"extensions":[{{"params":{written}}}]}}}}"#)
        );
    }

    #[test]
    fn what_is_no_object_is_no_card() {
        for value in [json!(null), json!([]), json!("card"), json!(7)] {
            assert_eq!(canonical(&value), None);
            assert_eq!(canonical_without_empty(&value), None);
        }
    }
}
