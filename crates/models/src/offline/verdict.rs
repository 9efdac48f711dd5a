//! The verdict of the offline model as a judge.

use std::collections::BTreeSet;

use ghostlight_actors::vocabulary::ModelRequest;
use serde_json::{Value, json};

/// The name of the schema that a judge's request has.
const NAME: &str = "verdict";

/// The verdict that an evaluation's judge asks for; `None` for any other request. It goes by words alone: how many of those
/// that are expected, or else of the question's, stand in the answer.
pub(super) fn verdict(request: &ModelRequest) -> Option<String> {
    let schema = &request.output.as_ref().filter(|o| o.name == NAME)?.schema;
    let shown = request.conversation.get(0)?.content();
    let material: Value = serde_json::from_str(&shown).ok()?;
    let wanted = match material.get("expected") {
        Some(expected) => words(expected),
        None => words(material.get("asked")?),
    };
    let share = |answer: &Value| {
        let found = words(answer);
        let hits = wanted.iter().filter(|word| found.contains(*word)).count();
        hits as f64 / wanted.len().max(1) as f64
    };
    if let Some(answer) = material.get("answer") {
        let scale = schema.pointer("/properties/score/maximum")?.as_u64()?;
        let share = share(answer);
        let score = 1 + (share * (scale.saturating_sub(1)) as f64).round() as u64;
        let reason = format!("{:.0} % of the words are there", 100.0 * share);
        return Some(json!({ "reason": reason, "score": score }).to_string());
    }
    let (first, second) = (share(material.get("A")?), share(material.get("B")?));
    let winner = match first.total_cmp(&second) {
        std::cmp::Ordering::Greater => "A",
        std::cmp::Ordering::Less => "B",
        std::cmp::Ordering::Equal => "tie",
    };
    let reason = "by the words that are there";
    Some(json!({ "reason": reason, "winner": winner }).to_string())
}

/// The words and numbers of all texts in a value, in lower case.
fn words(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Array(values) => values.iter().flat_map(words).collect(),
        Value::Object(fields) => fields.values().flat_map(words).collect(),
        Value::String(text) => text
            .split(|c: char| c.is_whitespace() || matches!(c, '`' | '"' | ',' | '?' | '!'))
            .map(|word| word.trim_matches('.').to_lowercase())
            .filter(|word| !word.is_empty())
            .collect(),
        other => BTreeSet::from([other.to_string()]),
    }
}
