//! Settings that all providers have in common.

use std::{collections::BTreeMap, time::Duration};

use ghostlight_actors::vocabulary::seconds;
use ghostlight_safety::is_secret_key;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::Value;

use super::endpoint::parse_address;
use crate::{SecretError, SecretText};

/// The time limits of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// For connecting.
    #[serde(rename = "connect_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub connect: Duration,
    /// From the start of the attempt to the first byte of the answer's body. A server that does not
    /// stream sends that byte only when the whole answer is ready.
    #[serde(rename = "first_byte_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub first_byte: Duration,
    /// Between two pieces of the body.
    #[serde(rename = "idle_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub idle: Duration,
    /// For the whole attempt.
    #[serde(rename = "total_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub total: Duration,
}

impl Default for Timeouts {
    /// 10 seconds to connect, 5 minutes to the first byte, 2 minutes between pieces, 20 minutes
    /// in all: reasoning models are silent for minutes, and a retry is paid again.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(120),
            total: Duration::from_secs(1_200),
        }
    }
}

/// Reads an address, and refuses one that holds a credential.
pub(crate) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    // Other faults of the address are reported when it is used; a credential must not be kept until
    // then.
    match parse_address(&text) {
        Err(error) if text.contains(['@', '?', '#']) => Err(D::Error::custom(error.message)),
        _ => Ok(text),
    }
}

/// Reads headers, and refuses a credential in plain text.
pub(crate) fn without_credentials<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let headers = BTreeMap::<String, String>::deserialize(deserializer)?;
    for (name, value) in &headers {
        let text = SecretText::read(value)
            .map_err(|error| D::Error::custom(format!("headers: {name}: {error}")))?;
        if is_secret_key(name) && !value.is_empty() && !text.has_place() {
            return Err(D::Error::custom(SecretError::InClear(name.to_owned())));
        }
    }
    Ok(headers)
}

/// Reads further fields of a body, and refuses a credential among them.
pub(crate) fn no_credentials<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Value>, D::Error> {
    let extra = BTreeMap::<String, Value>::deserialize(deserializer)?;
    match extra
        .iter()
        .find_map(|(name, value)| credential(name, value))
    {
        None => Ok(extra),
        Some(name) => Err(D::Error::custom(format!(
            "extra: `{name}` is a credential, and what is here is stored as it stands: give it in \
             `api_key` or `headers`"
        ))),
    }
}

/// The name of a credential in this field or below it.
fn credential<'v>(name: &'v str, value: &'v Value) -> Option<&'v str> {
    match value {
        Value::String(_) if is_secret_key(name) => Some(name),
        Value::Object(fields) => fields
            .iter()
            .find_map(|(name, value)| credential(name, value)),
        Value::Array(items) => items.iter().find_map(|item| credential(name, item)),
        _ => None,
    }
}

/// Puts settings into those that are there, at every depth; `null` removes one.
pub(crate) fn merge(known: &mut Value, further: &Value) {
    match (known, further) {
        (Value::Object(known), Value::Object(further)) => {
            for (name, value) in further {
                if value.is_null() {
                    known.remove(name);
                } else {
                    merge(known.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (known, further) => further.clone_into(known),
    }
}
