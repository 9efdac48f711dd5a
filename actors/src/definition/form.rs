//! The form of names and settings.

/// How many levels of agents a team may have.
pub(super) const MAX_DEPTH: usize = 32;

/// Whether a setting need not be written.
pub(super) fn is_default<T: Default + PartialEq>(setting: &T) -> bool {
    *setting == T::default()
}

/// Whether this is a valid name for a team, agent or schedule.
pub(super) fn well_formed(name: &str) -> bool {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= 64 && name.chars().all(ok)
}

/// The name of the environment variable to which a text like `${NAME}` refers.
pub(super) fn secret_variable(reference: &str) -> Option<&str> {
    let name = reference.strip_prefix("${")?.strip_suffix('}')?;
    is_variable_name(name).then_some(name)
}

/// Whether this can be the name of an environment variable.
pub(super) fn is_variable_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(fits)
}
