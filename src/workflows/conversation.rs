//! The conversation of a workflow's members.

use std::fmt::Write;

/// A message of a workflow's member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Utterance {
    /// The member.
    pub by: String,
    /// Its answer.
    pub text: String,
}

impl Utterance {
    /// An utterance of this member.
    pub fn new(by: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            by: by.into(),
            text: text.into(),
        }
    }
}

/// All utterances, each under its speaker's name.
pub(super) fn transcript(said: &[Utterance]) -> String {
    let mut transcript = String::new();
    for Utterance { by, text } in said {
        let gap = if transcript.is_empty() { "" } else { "\n\n" };
        // Writing into a string cannot fail.
        let _ = write!(transcript, "{gap}### {by}\n{text}");
    }
    transcript
}

/// The text that several have made: one alone as it is, more of them each under its speaker's name.
pub(super) fn together(said: &[Utterance]) -> String {
    match said {
        [alone] => alone.text.clone(),
        said => transcript(said),
    }
}

/// A task, with the earlier members' answers to it.
pub(super) fn with_transcript(task: &str, said: &[Utterance]) -> String {
    if said.is_empty() {
        return task.to_owned();
    }
    format!("{task}\n\nWhat was said so far:\n\n{}", transcript(said))
}
