//! What the members of a workflow said.

use std::fmt::Write;

/// What a member of a workflow said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The member.
    pub by: String,
    /// Its answer.
    pub text: String,
}

impl Said {
    /// Something that this member said.
    pub fn new(by: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            by: by.into(),
            text: text.into(),
        }
    }
}

/// All that was said, each under its speaker's name.
pub(super) fn minutes(said: &[Said]) -> String {
    let mut minutes = String::new();
    for Said { by, text } in said {
        let gap = if minutes.is_empty() { "" } else { "\n\n" };
        // Writing into a string cannot fail.
        let _ = write!(minutes, "{gap}### {by}\n{text}");
    }
    minutes
}

/// A task, and what the members before have said to it.
pub(super) fn with_minutes(task: &str, said: &[Said]) -> String {
    if said.is_empty() {
        return task.to_owned();
    }
    format!("{task}\n\nWhat was said so far:\n\n{}", minutes(said))
}

/// The last thing that was said.
pub(super) fn last(said: &[Said]) -> &str {
    said.last().map_or("", |said| said.text.as_str())
}
