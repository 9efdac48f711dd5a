//! Variables of the environment, and those that a program adds to them, as the command does with a `.env` file.
//!
//! A program may not change the environment of its process, which other threads read, so what it adds is kept apart.

use std::collections::BTreeMap;
use std::env;

static SUPPLIED: parking_lot::RwLock<BTreeMap<String, String>> =
    parking_lot::RwLock::new(BTreeMap::new());

/// A variable's value from the environment, or else from what was added.
pub fn variable(name: &str) -> Option<String> {
    let set = env::var(name).ok();
    set.or_else(|| SUPPLIED.read().get(name).cloned())
}

/// A variable's value without surrounding blanks; `None` if it is empty then.
#[cfg(feature = "bedrock")]
pub(crate) fn trimmed(name: &str) -> Option<String> {
    let value = variable(name)?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// Whether the environment itself sets this variable.
pub fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Adds variables that neither the environment nor an earlier file sets.
pub fn supply(variables: BTreeMap<String, String>) {
    let mut supplied = SUPPLIED.write();
    for (name, value) in variables {
        supplied.entry(name).or_insert(value);
    }
}
