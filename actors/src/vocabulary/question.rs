//! Questions of a run to the world outside.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Arguments, Digest, Timestamp, ToolCall};

/// A question of a run to the world outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Question {
    /// The kind of answer that is wanted.
    pub kind: QuestionKind,
    /// The question, for a person.
    pub prompt: String,
    /// The tool call in question, as the person who decides sees it: complete, with an escape such as `\u{202e}` for
    /// each character that cannot be seen, and a token with its length instead of each secret.
    pub call: Option<ToolCall>,
    /// The call for which the answer counts: the digest of the tool's name and its exact arguments
    /// ([`ToolCall::digest`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The exact arguments, where `call` shows others. Only the journal has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exact: Option<Arguments>,
    /// The possible answers, when the question is a choice.
    pub options: Vec<String>,
    /// The labels that people read instead of an option, by option.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The JSON Schema of the answer, an object, when the question is a form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// When the question expires.
    pub expires: Option<Timestamp>,
    /// The answer after that time; without one the question fails as expired.
    pub default: Option<Value>,
    /// The agents from the root's to the one that asks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
}

impl Default for Question {
    fn default() -> Self {
        Self::new("")
    }
}

impl Question {
    /// A question with a free answer.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            kind: QuestionKind::Text,
            prompt: prompt.into(),
            call: None,
            digest: None,
            exact: None,
            options: Vec::new(),
            labels: BTreeMap::new(),
            schema: None,
            expires: None,
            default: None,
            path: Vec::new(),
        }
    }

    /// The question in words, with its tool call and its options, for a person who has nothing else to look at.
    pub fn in_words(&self) -> String {
        let mut text = self.prompt.clone();
        if let Some(call) = &self.call {
            text.push_str(&format!("\n{} {}", call.name, call.arguments.text()));
        }
        if !self.options.is_empty() {
            text.push_str(&format!(" ({})", self.options.join(", ")));
        }
        text
    }

    /// The same question without what only the journal holds, as events and [`Run::questions`] give it.
    ///
    /// [`Run::questions`]: crate::actor::Run::questions
    #[must_use]
    pub fn withheld(&self) -> Self {
        Self {
            exact: None,
            ..self.clone()
        }
    }

    /// The call with its exact arguments, secrets included. Only a question that was read from a journal has them; a
    /// question from an event does not.
    pub fn unredacted(&self) -> Option<ToolCall> {
        let shown = self.call.as_ref()?;
        let mut call = shown.clone();
        if let Some(exact) = &self.exact {
            call.arguments = exact.clone();
        }
        (self.digest == Some(call.digest())).then_some(call)
    }

    /// Asks whether a call may be made. The answer is `true`, `false`, or an object with `approved`, and with `reason`
    /// (why not), `arguments` (others than the model's), `value` (instead of the call's result) or `remember` (for
    /// the session: `true` for these very arguments, or an object with patterns such as `{"path": "src/*"}`). With a
    /// `digest` it counts for the call of that digest alone.
    pub fn approval(prompt: impl Into<String>, call: ToolCall) -> Self {
        Self {
            kind: QuestionKind::Approval,
            call: Some(call),
            ..Self::new(prompt)
        }
    }

    /// Asks for the password, code or key of this call. Only the tool gets the answer: the journal records that it
    /// was given, and no model sees it.
    pub fn authentication(prompt: impl Into<String>, call: ToolCall) -> Self {
        Self {
            kind: QuestionKind::Authentication,
            call: Some(call),
            ..Self::new(prompt)
        }
    }

    /// Asks for yes or no. If the question expires, the answer is no.
    pub fn confirmation(prompt: impl Into<String>) -> Self {
        Self {
            kind: QuestionKind::Confirmation,
            default: Some(Value::Bool(false)),
            ..Self::new(prompt)
        }
    }

    /// A choice among options, each with its label: a person reads the labels, and the answer is an option.
    pub fn labelled_choice<O: Into<String>, L: Into<String>>(
        prompt: impl Into<String>,
        options: impl IntoIterator<Item = (O, L)>,
    ) -> Self {
        let pairs = options.into_iter();
        let pairs: Vec<(String, String)> = pairs.map(|(o, l)| (o.into(), l.into())).collect();
        Self {
            labels: pairs.iter().cloned().collect(),
            ..Self::choice(prompt, pairs.into_iter().map(|(option, _)| option))
        }
    }

    /// The text that a person reads for an option.
    pub fn label<'a>(&'a self, option: &'a str) -> &'a str {
        self.labels.get(option).map_or(option, String::as_str)
    }

    /// A form: the answer is an object that fits this JSON Schema. Other programs recognise the question by the
    /// schema's `title`, if it has one. If the schema itself is invalid, any object fits.
    ///
    /// ```
    /// use ghostlight_actors::vocabulary::Question;
    /// use serde_json::json;
    ///
    /// let fields = json!({ "name": { "type": "string" }, "age": { "type": "integer" } });
    /// let schema = json!({ "type": "object", "properties": fields, "required": ["name"] });
    /// let question = Question::form("Who are you?", schema);
    /// # let _ = question;
    /// ```
    pub fn form(prompt: impl Into<String>, schema: Value) -> Self {
        Self {
            kind: QuestionKind::Form,
            schema: Some(schema),
            ..Self::new(prompt)
        }
    }

    /// A choice among options.
    pub fn choice<O: Into<String>>(
        prompt: impl Into<String>,
        options: impl IntoIterator<Item = O>,
    ) -> Self {
        let options = options.into_iter().map(Into::into).collect();
        Self {
            kind: QuestionKind::Choice,
            options,
            ..Self::new(prompt)
        }
    }
}

/// The kind of answer that a question wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QuestionKind {
    /// Approve or deny a tool call.
    Approval,
    /// Yes or no.
    Confirmation,
    /// One of the options.
    Choice,
    /// Any text or JSON value.
    #[default]
    Text,
    /// An object that fits the question's schema.
    Form,
    /// Whether a call in doubt happened.
    InDoubt,
    /// A password, code or key for one call, or `false`. The answer is never recorded.
    Authentication,
    /// The result of a call of one of the caller's own tools
    /// ([`Turn::tool`](crate::session::Turn::tool)): a text or another JSON value, or an object whose one field is
    /// `error`, with a text.
    ToolResult,
}
