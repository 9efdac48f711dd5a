//! Variables of the environment, and what a `.env` file says of those that are not set.
//!
//! A file is read by the command alone: it may not change the environment of its process, whose other
//! threads read it, so what the file says stands beside it.

#[cfg(feature = "cli")]
use std::collections::BTreeMap;
use std::env;

#[cfg(feature = "cli")]
static SUPPLIED: std::sync::OnceLock<BTreeMap<String, String>> = std::sync::OnceLock::new();

/// A variable's value: that of the environment, or else that of the file.
#[cfg_attr(not(any(feature = "http", feature = "yaml")), allow(dead_code))]
pub(crate) fn variable(name: &str) -> Option<String> {
    let set = env::var(name).ok();
    #[cfg(feature = "cli")]
    let set = set.or_else(|| SUPPLIED.get()?.get(name).cloned());
    set
}

/// A variable's value without the blanks around it, unless nothing else is in it.
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

/// Supplies variables that the environment does not set, once in the life of a process.
#[cfg(feature = "cli")]
pub(crate) fn supply(variables: BTreeMap<String, String>) {
    let _ = SUPPLIED.set(variables);
}
