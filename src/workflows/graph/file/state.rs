//! The values of a graph while it is walked.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::workflows::conversation::{Utterance, transcript};

/// How the values that several branches gave to one name are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reducer {
    /// The value of the last branch counts.
    #[default]
    Last,
    /// All are appended, in the order of the branches, to the earlier values, as a list.
    Append,
    /// The amounts that each branch added to the number at the fork are added up.
    Sum,
    /// The highest number counts.
    Max,
    /// The lowest number counts.
    Min,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    values: BTreeMap<String, Value>,
    /// The name of the value that was set last.
    last: String,
    /// The names of the nodes' results, the latest last.
    results: Vec<String>,
}

impl State {
    pub(super) fn begin(task: String) -> Self {
        let mut state = Self::default();
        state.put("task", Value::String(task));
        state
    }

    pub(super) fn put(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), value);
        name.clone_into(&mut self.last);
    }

    /// Keeps the result of a node.
    pub(super) fn result(&mut self, name: &str, value: Value) {
        self.put(name, value);
        self.results.retain(|other| other != name);
        self.results.push(name.to_owned());
    }

    /// The nodes' results so far, each under its name if there are several.
    pub(super) fn made(&self) -> String {
        let said = self.results.iter();
        let mut said: Vec<Utterance> = said
            .map(|name| Utterance::new(name, self.text(name)))
            .collect();
        match said.len() {
            1 => said.pop().map(|said| said.text).unwrap_or_default(),
            _ => transcript(&said),
        }
    }

    pub(super) fn clear(&mut self, name: &str) {
        self.values.remove(name);
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// A value as text; empty if there is none.
    pub(super) fn text(&self, name: &str) -> String {
        self.text_of(name).unwrap_or_default().into_owned()
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        number(self.get(name)?)
    }

    /// The value that was set last, as text.
    pub(super) fn last(&self) -> String {
        self.text(&self.last)
    }

    /// Counts a walk through a node, and returns the count.
    pub(super) fn walked(&mut self, node: &str) -> u64 {
        let name = format!("{node}.times");
        let times = self.get(&name).and_then(Value::as_u64).unwrap_or(0) + 1;
        self.values.insert(name, json!(times));
        times
    }

    /// A value as text, for a template.
    pub(super) fn text_of(&self, name: &str) -> Option<Cow<'_, str>> {
        Some(match self.get(name)? {
            Value::String(text) => text.into(),
            other => other.to_string().into(),
        })
    }

    /// The state after the branches meet.
    pub(super) fn merge(
        fork: Self,
        branches: Vec<Self>,
        rules: &BTreeMap<String, Reducer>,
    ) -> Self {
        let mut merged = fork.clone();
        for branch in branches {
            for (name, value) in branch.values {
                let before = fork.get(&name);
                if before == Some(&value) {
                    continue;
                }
                let rule = rules.get(&name).copied().unwrap_or_default();
                let so_far = merged.get(&name);
                let reduced = reduce(rule, before, so_far, value);
                merged.values.insert(name, reduced);
            }
            merged.last = branch.last;
            for name in branch.results {
                if !merged.results.contains(&name) {
                    merged.results.push(name);
                }
            }
        }
        merged
    }
}

/// Merges a branch's value with the merged value of the branches before it.
fn reduce(rule: Reducer, fork: Option<&Value>, so_far: Option<&Value>, value: Value) -> Value {
    let numbers = || Some((so_far.and_then(number), number(&value)?));
    match rule {
        Reducer::Last => value,
        Reducer::Append => {
            let mut list = match so_far {
                None => Vec::new(),
                Some(Value::Array(list)) => list.clone(),
                Some(other) => vec![other.clone()],
            };
            list.push(value);
            Value::Array(list)
        }
        Reducer::Sum => match numbers() {
            Some((so_far, number)) => {
                let before = fork.and_then(self::number).unwrap_or(0.0);
                json!(so_far.unwrap_or(0.0) + number - before)
            }
            None => value,
        },
        Reducer::Max | Reducer::Min => match numbers() {
            Some((Some(so_far), number)) if (so_far < number) != (rule == Reducer::Max) => {
                json!(so_far)
            }
            _ => value,
        },
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_meet_by_the_rule_of_each_value() {
        let mut fork = State::begin("t".to_owned());
        for name in ["sum", "max", "min", "last"] {
            fork.put(name, json!(3));
        }
        fork.put("list", json!(["old"]));
        let branch = |number: i64| {
            let mut branch = fork.clone();
            for name in ["sum", "max", "min", "last"] {
                branch.put(name, json!(number));
            }
            branch.put("list", json!(number));
            branch.put(&format!("own-{number}"), json!(true));
            branch
        };
        let rules = [
            ("sum", Reducer::Sum),
            ("max", Reducer::Max),
            ("min", Reducer::Min),
            ("list", Reducer::Append),
        ];
        let rules = rules.map(|(name, rule)| (name.to_owned(), rule)).into();
        let branches = vec![branch(5), branch(-1), branch(4)];
        let merged = State::merge(fork, branches, &rules);
        // 3 at the fork, and +2, -4, +1.
        assert_eq!(merged.number("sum"), Some(2.0));
        assert_eq!(merged.number("max"), Some(5.0));
        assert_eq!(merged.number("min"), Some(-1.0));
        assert_eq!(merged.number("last"), Some(4.0));
        assert_eq!(merged.get("list"), Some(&json!(["old", 5, -1, 4])));
        assert!(merged.has("own-5") && merged.has("own--1") && merged.has("own-4"));
    }
}
