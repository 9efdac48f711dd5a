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
