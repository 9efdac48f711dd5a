//! Rules on a graph's values.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::State;

/// A rule on the values of a graph. One about several values holds when it holds for all of them.
///
/// ```yaml
/// when: { any: [{ contains: { verdict: APPROVED } }, { at_least: { draft.times: 3 } }] }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rule {
    /// The value's text contains this, whatever its letters' case.
    Contains(BTreeMap<String, String>),
    /// The value is this one.
    Equals(BTreeMap<String, Value>),
    /// The value is this number or above; a text that is a number counts as one.
    AtLeast(BTreeMap<String, f64>),
    /// The value is below this number.
    Below(BTreeMap<String, f64>),
    /// There is such a value.
    Has(String),
    /// All of these hold; none is true.
    All(Vec<Rule>),
    /// One of these holds; none is false.
    Any(Vec<Rule>),
    /// This does not hold.
    Not(Box<Rule>),
}

impl Rule {
    pub(super) fn holds(&self, state: &State) -> bool {
        match self {
            Self::Contains(texts) => texts.iter().all(|(name, text)| {
                let value = state.text(name).to_lowercase();
                value.contains(&text.to_lowercase())
            }),
            Self::Equals(values) => values
                .iter()
                .all(|(name, value)| state.get(name) == Some(value)),
            Self::AtLeast(bounds) => bounds.iter().all(|(name, bound)| {
                let number = state.number(name);
                number.is_some_and(|number| number >= *bound)
            }),
            Self::Below(bounds) => bounds.iter().all(|(name, bound)| {
                let number = state.number(name);
                number.is_some_and(|number| number < *bound)
            }),
            Self::Has(name) => state.has(name),
            Self::All(rules) => rules.iter().all(|rule| rule.holds(state)),
            Self::Any(rules) => rules.iter().any(|rule| rule.holds(state)),
            Self::Not(rule) => !rule.holds(state),
        }
    }
}

/// The rule as a picture tells it: `verdict contains APPROVED or draft.times ≥ 3`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn each<V>(values: &BTreeMap<String, V>, words: impl Fn(&V) -> String) -> String {
            let told = values
                .iter()
                .map(|(name, value)| format!("{name} {}", words(value)));
            told.collect::<Vec<_>>().join(" and ")
        }
        let several = |rules: &[Rule], word: &str| {
            let told = rules.iter().map(|rule| match rule {
                Self::All(_) | Self::Any(_) => format!("({rule})"),
                rule => rule.to_string(),
            });
            told.collect::<Vec<_>>().join(word)
        };
        f.write_str(&match self {
            Self::Contains(texts) => each(texts, |text| format!("contains {text}")),
            Self::Equals(values) => each(values, |value| match value {
                Value::String(text) => format!("is {text}"),
                value => format!("is {value}"),
            }),
            Self::AtLeast(bounds) => each(bounds, |bound| format!("≥ {bound}")),
            Self::Below(bounds) => each(bounds, |bound| format!("< {bound}")),
            Self::Has(name) => format!("there is {name}"),
            Self::All(rules) => several(rules, " and "),
            Self::Any(rules) => several(rules, " or "),
            Self::Not(rule) => format!("not ({rule})"),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_read_as_they_are_written_in_a_file() {
        let mut state = State::begin("Do it.".to_owned());
        state.put("verdict", json!("It is approved."));
        state.put("score", json!(" 7.5 "));
        state.put("flags", json!([1]));
        for (rule, holds) in [
            (
                json!({"contains": {"verdict": "APPROVED", "task": "do"}}),
                true,
            ),
            (
                json!({"contains": {"verdict": "APPROVED", "task": "not"}}),
                false,
            ),
            (json!({"contains": {"nothing": ""}}), true),
            (json!({"equals": {"flags": [1]}}), true),
            (json!({"equals": {"flags": null}}), false),
            (json!({"at_least": {"score": 7.5}}), true),
            (json!({"at_least": {"verdict": 0}}), false),
            (json!({"below": {"score": 8}}), true),
            (json!({"below": {"nothing": 8}}), false),
            (json!({"has": "flags"}), true),
            (json!({"all": []}), true),
            (json!({"any": []}), false),
            (json!({"any": [{"has": "x"}, {"not": {"has": "x"}}]}), true),
        ] {
            let read: Rule = serde_json::from_value(rule.clone()).unwrap();
            assert_eq!(read.holds(&state), holds, "{rule}");
            assert_eq!(serde_json::to_value(&read).unwrap(), rule_with_floats(rule));
        }
    }

    /// Bounds become numbers with a decimal point.
    fn rule_with_floats(mut rule: Value) -> Value {
        for bound in ["at_least", "below"] {
            if let Some(bounds) = rule.get_mut(bound).and_then(Value::as_object_mut) {
                for value in bounds.values_mut() {
                    *value = json!(value.as_f64());
                }
            }
        }
        rule
    }
}
