//! Prompts with placeholders.

use std::{borrow::Cow, fmt, sync::Arc};

use ghostlight_actors::{run::RunContext, vocabulary::ToolDefinition};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A prompt in which `{name}` is replaced by a text. Only the names that the caller gives are
/// replaced, in one pass from left to right. So other braces stay, and so do braces in the inserted
/// texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Prompt(String);

/// The text of a name, if there is one.
pub(crate) type TextOf<'f, 't> = &'f dyn Fn(&str) -> Option<Cow<'t, str>>;

impl Prompt {
    /// A prompt with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The prompt with each `{name}` replaced by its text.
    pub fn fill(&self, texts: &[(&str, &str)]) -> String {
        self.fill_by(&|name| {
            let mut texts = texts.iter();
            let found = texts.find(|(known, _)| *known == name);
            found.map(|(_, text)| Cow::Borrowed(*text))
        })
    }

    /// The same with the texts of a function, which is asked only for the names that the prompt holds.
    pub(crate) fn fill_by<'t>(&self, text_of: TextOf<'_, 't>) -> String {
        let mut filled = String::with_capacity(self.0.len());
        let mut rest = self.0.as_str();
        while let Some(open) = rest.find('{') {
            filled.push_str(&rest[..open]);
            rest = &rest[open..];
            let found = rest.find('}').and_then(|close| {
                let text = text_of(&rest[1..close])?;
                Some((text, &rest[close + 1..]))
            });
            match found {
                Some((text, after)) => {
                    filled.push_str(&text);
                    rest = after;
                }
                None => {
                    filled.push('{');
                    rest = &rest[1..];
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    /// Checks that every required placeholder is in the prompt.
    ///
    /// # Errors
    /// The first missing placeholder.
    pub(crate) fn needs(&self, setting: &str, names: &[&str]) -> Result<(), String> {
        let missing = names
            .iter()
            .find(|name| !self.0.contains(&format!("{{{name}}}")));
        match missing {
            Some(name) => Err(format!("{setting}: the prompt must contain {{{name}}}")),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A built-in prompt. Its version grows when its text changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuiltIn {
    /// The version. Once there is a second one, runs use `RunContext::version` to choose, and the
    /// older text stays.
    #[allow(dead_code)]
    pub(crate) version: u32,
    pub(crate) text: &'static str,
}

impl From<BuiltIn> for Prompt {
    fn from(built_in: BuiltIn) -> Self {
        Self::new(built_in.text)
    }
}

/// The list of tools, for a model that has to name them.
pub(crate) fn tool_list<'a>(tools: impl Iterator<Item = &'a Arc<ToolDefinition>>) -> String {
    let lines: Vec<String> = tools
        .map(|tool| {
            let ToolDefinition {
                name,
                description,
                parameters,
                ..
            } = &**tool;
            format!("- {name}: {description}\n  Args: {parameters}")
        })
        .collect();
    lines.join("\n")
}

/// The agent's task, in the words of the agent that handed over, or else of the user.
pub(crate) fn task(cx: &RunContext) -> String {
    cx.request()
        .map_or_else(|| cx.input().content(), str::to_owned)
}

/// The agent's instructions, followed by this prompt.
pub(crate) fn below_instructions(instructions: &str, prompt: &str) -> String {
    match instructions.trim() {
        "" => prompt.to_owned(),
        instructions => format!("{instructions}\n\n{prompt}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_once_and_other_braces_stay() {
        let prompt = Prompt::new(r#"{task} as {"json": {task}} {other} {"#);
        let filled = prompt.fill(&[("task", "{draft}"), ("draft", "no")]);
        assert_eq!(filled, r#"{draft} as {"json": {draft}} {other} {"#);
    }

    #[test]
    fn a_prompt_without_its_places_is_refused() {
        let prompt = Prompt::new("Do {task}.");
        assert_eq!(prompt.needs("x", &["task"]), Ok(()));
        let refused = prompt.needs("prompts.revise", &["task", "draft"]);
        let reason = "prompts.revise: the prompt must contain {draft}";
        assert_eq!(refused, Err(reason.to_owned()));
    }
}
