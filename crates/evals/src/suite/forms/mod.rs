//! Data in the forms in which benchmarks are published.

mod bfcl;
mod gaia;
mod gsm8k;
mod tau2;

use serde_json::{Map, Value};

pub(super) use self::{
    bfcl::{Answers, answers_beside, sample as bfcl},
    gaia::sample as gaia,
    gsm8k::sample as gsm8k,
    tau2::sample as tau2,
};

/// A field that must be a text.
fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    match fields.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("{name:?} is not text")),
        None => Err(format!("it has no {name:?}")),
    }
}

/// A text that may be absent, empty or `null`.
fn optional<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    let text = fields.get(name)?.as_str()?;
    (!text.trim().is_empty()).then_some(text)
}

/// A number where a text is one, and else the text.
fn number_or_text(text: &str) -> Value {
    let plain = text.trim().replace(',', "");
    match plain.parse::<serde_json::Number>() {
        Ok(number) => Value::Number(number),
        Err(_) => Value::from(text.trim()),
    }
}
