//! Variables of the environment, and those that a `.env` file adds to them.
//!
//! Only the command reads such a file. It may not change the environment of its process, which
//! other threads read, so the file's variables are kept apart.

#[cfg(feature = "cli")]
use std::collections::BTreeMap;
use std::env;

#[cfg(feature = "cli")]
static SUPPLIED: parking_lot::RwLock<BTreeMap<String, String>> =
    parking_lot::RwLock::new(BTreeMap::new());

/// A variable's value from the environment, or else from the file.
#[cfg_attr(not(any(feature = "http", feature = "yaml")), allow(dead_code))]
pub(crate) fn variable(name: &str) -> Option<String> {
    let set = env::var(name).ok();
    #[cfg(feature = "cli")]
    let set = set.or_else(|| SUPPLIED.read().get(name).cloned());
    set
}

/// A variable's value without surrounding blanks; `None` if it is empty then.
#[cfg(any(feature = "anthropic", feature = "gemini"))]
pub(crate) fn trimmed(name: &str) -> Option<String> {
    let value = variable(name)?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// Whether the environment itself sets this variable.
#[cfg(feature = "cli")]
pub(crate) fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Adds variables that neither the environment nor an earlier file sets.
#[cfg(feature = "cli")]
pub(crate) fn supply(variables: BTreeMap<String, String>) {
    let mut supplied = SUPPLIED.write();
    for (name, value) in variables {
        supplied.entry(name).or_insert(value);
    }
}
