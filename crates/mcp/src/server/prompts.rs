//! Templates as prompts.

use std::collections::{BTreeMap, BTreeSet};

use rmcp::{
    ErrorData, RoleServer,
    model::{
        ContentBlock, ElicitResult, ElicitationAction, GetPromptRequestParams, GetPromptResponse,
        GetPromptResult, InputResponses, JsonObject, ListPromptsResult, Prompt, PromptArgument,
        PromptMessage, Role,
    },
    service::RequestContext,
};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::{
    questions,
    resources::Resources,
    template::{self, Piece},
};

/// The longest value of an argument, in bytes.
const MAX_VALUE: usize = 64 << 10;
/// The key of the request to the client for missing arguments.
const ARGUMENTS: &str = "arguments";

/// A template that clients offer to people as a prompt: a text with variables such as `{topic}`, each of which is an
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
    /// The addresses of resources that come with the text; they may have variables, too.
    resources: Vec<String>,
}

impl PromptTemplate {
    /// A prompt with this name. Braces around a text that is not a name stay as they are.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            text: text.into(),
            resources: Vec::new(),
        }
    }

    /// Adds a resource of the server before the text: a document, a session or an artifact at this address, which may
    /// have variables, too. Images and audio are embedded; a resource of more than 1 MiB is given by its address.
    ///
    /// ```
    /// # use ghostlight_mcp::PromptTemplate;
    /// let explain = PromptTemplate::new("explain", "Explains a file", "Explain this file.")
    ///     .resource("docs://handbook/{chapter}");
    /// assert_eq!(explain.arguments(), ["chapter"]);
    /// ```
    #[must_use]
    pub fn resource(mut self, uri: impl Into<String>) -> Self {
        self.resources.push(uri.into());
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The arguments, in the order in which they first occur, those of the text before those of the resources.
    pub fn arguments(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let texts = std::iter::once(&self.text).chain(&self.resources);
        for piece in texts.flat_map(|text| template::pieces(text)) {
            if let Piece::Place(name) = piece
                && !names.contains(&name)
            {
                names.push(name);
            }
        }
        names
    }

    /// The form that asks for these arguments.
    fn form(&self, missing: &BTreeSet<&str>) -> Value {
        let each = missing.iter();
        let each = each.map(|name| ((*name).to_owned(), json!({ "type": "string" })));
        let properties: Map<String, Value> = each.collect();
        json!({ "type": "object", "properties": properties, "required": missing })
    }
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

/// A prompt filled with its arguments. If some are missing, a client of the newest revision is asked to get them from
/// its user, if it can.
///
/// # Errors
/// There is no prompt with this name, an argument is missing, unknown or too large, or one of its resources does not
/// exist.
pub(super) async fn get(
    prompts: &BTreeMap<String, PromptTemplate>,
    params: GetPromptRequestParams,
    resources: &Resources<'_>,
    context: &RequestContext<RoleServer>,
) -> Result<GetPromptResponse, ErrorData> {
    let name = params.name;
    let prompt = prompts
        .get(&name)
        .ok_or_else(|| wrong(format!("there is no prompt {name:?}")))?;
    let wanted = prompt.arguments();
    let mut values = BTreeMap::new();
    let answered = params.input_responses.map(answered).unwrap_or_default();
    let given = params.arguments.unwrap_or_default();
    for (name, value) in answered.into_iter().chain(given) {
        let Some(known) = wanted.iter().find(|known| **known == name) else {
            return Err(wrong(format!("the prompt has no argument {name:?}")));
        };
        match value {
            Value::String(value) if value.len() <= MAX_VALUE => values.insert(*known, value),
            _ => {
                return Err(wrong(format!(
                    "{name:?} must be a text of at most {MAX_VALUE} bytes"
                )));
            }
        };
    }
    let missing = wanted.iter().copied();
    let missing: BTreeSet<&str> = missing.filter(|name| !values.contains_key(name)).collect();
    if let Some(first) = missing.first() {
        let message = format!("What is to stand in the prompt {}?", prompt.name);
        let asked = questions::required(context, ARGUMENTS, message, prompt.form(&missing));
        return match asked {
            Some(asked) => Ok(asked.into()),
            None => Err(wrong(format!("the argument {first:?} is missing"))),
        };
    }
    let mut messages = Vec::with_capacity(prompt.resources.len() + 1);
    for uri in &prompt.resources {
        let found = resources.embedded(&template::filled(uri, &values)).await?;
        messages.push(PromptMessage::new(Role::User, found));
    }
    let text = ContentBlock::text(template::filled(&prompt.text, &values));
    messages.push(PromptMessage::new(Role::User, text));
    let result = GetPromptResult::new(messages).with_description(&prompt.description);
    Ok(result.into())
}

/// The arguments that the client's user gave.
fn answered(answers: InputResponses) -> JsonObject {
    let answer = answers.into_iter().find(|(key, _)| key == ARGUMENTS);
    let answer = answer.and_then(|(_, answer)| ElicitResult::deserialize(answer).ok());
    let answer = answer.filter(|answer| answer.action == ElicitationAction::Accept);
    match answer.and_then(|answer| answer.content) {
        Some(Value::Object(given)) => given,
        _ => JsonObject::default(),
    }
}

fn wrong(reason: String) -> ErrorData {
    ErrorData::invalid_params(reason, None)
}
