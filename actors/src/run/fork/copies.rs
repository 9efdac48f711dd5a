//! The names of copied runs, in the places of the original runs.

use std::collections::{HashMap, HashSet};

use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};

use crate::{
    run::operations::{copied_result, copied_value},
    vocabulary::{Entry, OperationId, RunId},
};

/// How long a run's id is as text.
const ID_LENGTH: usize = 36;

/// The operations of which these entries record a start or an end.
pub(super) fn calls<'a>(entries: impl Iterator<Item = &'a Entry>) -> HashSet<OperationId> {
    let calls = entries.filter_map(|entry| match entry {
        Entry::Started { op, .. } | Entry::Completed { op, .. } => Some(*op),
        _ => None,
    });
    calls.collect()
}

/// The copy of each run. Copied results and copied shared state name the copies.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    of: HashMap<RunId, RunId>,
    all: HashSet<RunId>,
}

impl Copies {
    pub(super) fn add(&mut self, run: RunId, copy: RunId) {
        self.of.insert(run, copy);
        self.all.insert(copy);
    }

    /// A JSON text with the ids of runs replaced by those of their copies. `None` if no string of
    /// the text is exactly the id of a copied run.
    fn renamed(&self, text: &str) -> Option<String> {
        let mut renamed = String::new();
        let mut found = false;
        let mut rest = text;
        while let Some(quote) = rest.find('"') {
            let (before, after) = rest.split_at(quote + 1);
            renamed.push_str(before);
            rest = after;
            // A quotation mark after a backslash is part of a string.
            let id = after
                .get(..ID_LENGTH)
                .filter(|_| after[ID_LENGTH..].starts_with('"') && !before.ends_with("\\\""));
            let run: Option<RunId> = id.and_then(|id| id.parse().ok());
            if let Some(copy) = run.and_then(|run| self.of.get(&run)) {
                renamed.push_str(&copy.to_string());
                rest = &after[ID_LENGTH..];
                found = true;
            }
        }
        renamed.push_str(rest);
        found.then_some(renamed)
    }

    fn again<T: DeserializeOwned>(&self, text: &str) -> Option<T> {
        serde_json::from_str(&self.renamed(text)?).ok()
    }

    /// Replaces the ids of runs in a copied entry by those of their copies.
    pub(super) fn rename(&self, entry: &mut Entry) {
        match entry {
            Entry::Completed {
                kind, name, result, ..
            } => {
                if let Some(renamed) = self.again::<Box<RawValue>>(result.get()) {
                    *result = renamed;
                }
                let is_copy = |run| self.all.contains(&run);
                if let Some(copied) = copied_result(kind, name, result, is_copy) {
                    *result = copied;
                }
            }
            Entry::Changed { changed, .. } => {
                let text = serde_json::to_string(changed).unwrap_or_default();
                if let Some(renamed) = self.again(&text) {
                    *changed = renamed;
                }
            }
            _ => {}
        }
    }

    /// A value of shared state for the copies.
    pub(crate) fn value(&self, key: &str, value: Value) -> Value {
        let value = match self.of.is_empty() {
            true => value,
            false => self.again(&value.to_string()).unwrap_or(value),
        };
        copied_value(key, value, |run| self.all.contains(&run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_renamed_where_it_is_a_string_for_itself() {
        let [run, copy, other] = [1, 2, 3].map(RunId::from_random);
        let mut copies = Copies::default();
        copies.add(run, copy);
        let text = |id: RunId| {
            format!(
                r#"["{id}",{{"{id}":["\\","{id}"]}},"of {run}","\"{run}\"","a \"{run}","{run}\"","{other}","ä{run}"]"#
            )
        };
        assert_eq!(copies.renamed(&text(run)), Some(text(copy)));
        for same in ["", "\"", "[1,\"ä\"]", &format!("\"{other}\"")] {
            assert_eq!(copies.renamed(same), None, "{same}");
        }
    }
}
