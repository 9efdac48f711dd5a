//! Templates as prompts.

use std::collections::BTreeMap;

use rmcp::{
    ErrorData,
    model::{
        GetPromptResult, JsonObject, ListPromptsResult, Prompt, PromptArgument, PromptMessage, Role,
    },
};
use serde_json::Value;

/// The longest value of an argument, in bytes.
const MAX_VALUE: usize = 64 << 10;

/// A template that clients offer to people as a prompt: a text with places such as `{topic}`, each of which is an
/// argument of the prompt.
///
/// ```
/// use ghostlight_mcp::PromptTemplate;
///
/// let review = PromptTemplate::new("review", "Reviews a change", "Review this change for {concern}:\n{change}");
/// assert_eq!(review.arguments(), ["concern", "change"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptTemplate {
    name: String,
    description: String,
    text: String,
}

impl PromptTemplate {
    /// A prompt of this name. What stands in braces and is no name stays as it is.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            text: text.into(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The arguments, in the order of their first places.
    pub fn arguments(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for piece in pieces(&self.text) {
            if let Piece::Place(name) = piece
                && !names.contains(&name)
            {
                names.push(name);
            }
        }
        names
    }

    /// The text with these values in its places. What stands in a value is not read as a template.
    fn filled(&self, values: &BTreeMap<&str, &str>) -> String {
        let pieces = pieces(&self.text).into_iter();
        let filled = pieces.map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Place(name) => values.get(name).copied().unwrap_or_default(),
        });
        filled.collect()
    }
}

enum Piece<'a> {
    Text(&'a str),
    Place(&'a str),
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let is_name = |name: &str| {
        let fits = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        !name.is_empty() && name.chars().all(fits)
    };
    let (mut pieces, mut from, mut at) = (Vec::new(), 0, 0);
    while let Some(open) = text[at..].find('{').map(|found| at + found) {
        let inside = &text[open + 1..];
        let name = inside.find('}').map(|close| &inside[..close]);
        match name.filter(|name| is_name(name)) {
            Some(name) => {
                pieces.push(Piece::Text(&text[from..open]));
                pieces.push(Piece::Place(name));
                at = open + name.len() + 2;
                from = at;
            }
            None => at = open + 1,
        }
    }
    pieces.push(Piece::Text(&text[from..]));
    pieces
}

/// All prompts.
pub(super) fn list(prompts: &BTreeMap<String, PromptTemplate>) -> ListPromptsResult {
    let prompts = prompts.values().map(|prompt| {
        let arguments = prompt.arguments().into_iter();
        let arguments = arguments.map(|name| PromptArgument::new(name).with_required(true));
        Prompt::new(
            &prompt.name,
            Some(&prompt.description),
            Some(arguments.collect()),
        )
    });
    ListPromptsResult::with_all_items(prompts.collect())
}

/// A prompt with its arguments.
///
/// # Errors
/// Where there is none of this name, or an argument is missing, unknown or too large.
pub(super) fn get(
    prompts: &BTreeMap<String, PromptTemplate>,
    name: &str,
    arguments: Option<JsonObject>,
) -> Result<GetPromptResult, ErrorData> {
    let wrong = |reason: String| ErrorData::invalid_params(reason, None);
    let prompt = prompts
        .get(name)
        .ok_or_else(|| wrong(format!("there is no prompt {name:?}")))?;
    let (wanted, given) = (prompt.arguments(), arguments.unwrap_or_default());
    let mut values = BTreeMap::new();
    for (name, value) in &given {
        if !wanted.contains(&name.as_str()) {
            return Err(wrong(format!("the prompt has no argument {name:?}")));
        }
        match value {
            Value::String(value) if value.len() <= MAX_VALUE => {
                values.insert(name.as_str(), value.as_str());
            }
            _ => {
                return Err(wrong(format!(
                    "{name:?} must be a text of at most {MAX_VALUE} bytes"
                )));
            }
        }
    }
    if let Some(missing) = wanted.iter().find(|name| !values.contains_key(*name)) {
        return Err(wrong(format!("the argument {missing:?} is missing")));
    }
    let message = PromptMessage::new_text(Role::User, prompt.filled(&values));
    Ok(GetPromptResult::new(vec![message]).with_description(&prompt.description))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_are_filled_once_and_other_braces_stay() {
        let prompt = PromptTemplate::new("p", "", "{a} {b} {a} {not a name} {} {c");
        assert_eq!(prompt.arguments(), ["a", "b"]);
        let values = BTreeMap::from([("a", "{b}"), ("b", "2")]);
        assert_eq!(prompt.filled(&values), "{b} 2 {b} {not a name} {} {c");
    }

    proptest! {
        #[test]
        fn a_text_without_values_for_its_places_loses_only_these(text in "[a{} ]{0,30}") {
            let prompt = PromptTemplate::new("p", "", text.clone());
            let values: BTreeMap<&str, String> =
                prompt.arguments().into_iter().map(|name| (name, format!("{{{name}}}"))).collect();
            let values = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
            prop_assert_eq!(prompt.filled(&values), text);
        }
    }
}
