//! What people are asked about an agent's work, as plain data.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use ghostlight_supervisor::seconds;

/// Whether and how somebody is asked before an agent calls a tool.
///
/// In a file: `true`, `false`, the question alone, or a mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "InFile")]
#[schemars(with = "InFile")]
#[non_exhaustive]
pub struct ApprovalRule {
    /// Whether anybody is asked at all.
    pub required: bool,
    /// The question, in which `{name}` stands for that argument and `{tool}` for the tool; the
    /// tool's own where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The tool that decides instead of a person, such as a webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The time after which the question expires; never, where it is left out.
    #[serde(
        rename = "expires_s",
        with = "seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub expires: Option<Duration>,
    /// What counts as the answer then.
    pub on_expiry: OnExpiry,
    /// Arguments that are shown whole, because nothing in them is taken for a secret. An argument whose name says that
    /// it is a secret stays hidden.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reveal: Vec<String>,
    /// Whether a person may decide for the whole session at once.
    pub remember: bool,
    /// What the model reads of a call that was denied, before the reason if one was given; the engine's
    /// own words where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denial: Option<String>,
}

/// What counts as the answer to a question that nobody answered in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// No.
    #[default]
    Deny,
    /// Yes.
    Approve,
}

impl ApprovalRule {
    /// A person is asked, with the tool's own question, however long it takes.
    pub fn required() -> Self {
        Self {
            required: true,
            prompt: None,
            by: None,
            expires: None,
            on_expiry: OnExpiry::Deny,
            reveal: Vec::new(),
            remember: false,
            denial: None,
        }
    }

    /// Nobody is asked, whatever the tool says of itself.
    pub fn not_needed() -> Self {
        Self {
            required: false,
            ..Self::required()
        }
    }

    /// Sets the question.
    #[must_use]
    pub fn prompt(mut self, template: impl Into<String>) -> Self {
        self.prompt = Some(template.into());
        self
    }

    /// Lets this tool decide instead of a person: see
    /// [`RunContext::tools`](crate::run::RunContext::tools).
    #[must_use]
    pub fn by(mut self, tool: impl Into<String>) -> Self {
        self.by = Some(tool.into());
        self
    }

    /// Sets the time after which the question expires, and what counts as the answer then.
    #[must_use]
    pub fn expires(mut self, after: Duration, on_expiry: OnExpiry) -> Self {
        (self.expires, self.on_expiry) = (Some(after), on_expiry);
        self
    }

    /// Shows all of this argument: nothing in it is taken for a secret, unless its name says so.
    #[must_use]
    pub fn reveal(mut self, argument: impl Into<String>) -> Self {
        self.reveal.push(argument.into());
        self
    }

    /// Sets what the model reads of a call that was denied.
    #[must_use]
    pub fn denial(mut self, text: impl Into<String>) -> Self {
        self.denial = Some(text.into());
        self
    }

    /// Lets a person decide for the whole session at once.
    #[must_use]
    pub fn remember(mut self) -> Self {
        self.remember = true;
        self
    }
}

/// The ways to write a rule.
#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected true, false, the question, or a mapping with `prompt`, `by`, `expires_s`, \
                 `on_expiry`, `reveal`, `remember` or `denial`"
)]
enum InFile {
    /// Whether a person is asked.
    Asked(bool),
    /// A person is asked this.
    Prompt(String),
    /// All of it.
    Rule(RuleInFile),
}

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RuleInFile {
    /// Whether anybody is asked at all.
    required: bool,
    /// The question, in which `{name}` stands for that argument and `{tool}` for the tool.
    prompt: Option<String>,
    /// The tool that decides instead of a person.
    by: Option<String>,
    /// The time after which nobody's answer counts any more.
    #[serde(rename = "expires_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    expires: Option<Duration>,
    /// What counts as the answer then.
    on_expiry: OnExpiry,
    /// Arguments of which all is shown, also what looks like a secret.
    reveal: Vec<String>,
    /// Whether a person may decide for the whole session at once.
    remember: bool,
    /// What the model reads of a call that was denied.
    denial: Option<String>,
}

impl Default for RuleInFile {
    fn default() -> Self {
        Self {
            required: true,
            prompt: None,
            by: None,
            expires: None,
            on_expiry: OnExpiry::Deny,
            reveal: Vec::new(),
            remember: false,
            denial: None,
        }
    }
}

impl From<InFile> for ApprovalRule {
    fn from(written: InFile) -> Self {
        match written {
            InFile::Asked(true) => Self::required(),
            InFile::Asked(false) => Self::not_needed(),
            InFile::Prompt(prompt) => Self::required().prompt(prompt),
            InFile::Rule(rule) => Self {
                required: rule.required,
                prompt: rule.prompt,
                by: rule.by,
                expires: rule.expires,
                on_expiry: rule.on_expiry,
                reveal: rule.reveal,
                remember: rule.remember,
                denial: rule.denial,
            },
        }
    }
}

/// How an agent's model may ask people: with the tool `clarify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ClarifySpec {
    /// How many questions it may ask in one run.
    pub questions: u32,
    /// The time after which it continues without an answer; never, where it is left out.
    #[serde(
        rename = "expires_s",
        with = "seconds",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<f64>")]
    pub expires: Option<Duration>,
}

impl Default for ClarifySpec {
    fn default() -> Self {
        Self {
            questions: 1,
            expires: None,
        }
    }
}

impl ClarifySpec {
    /// At most this many questions in one run.
    pub fn questions(questions: u32) -> Self {
        Self {
            questions,
            expires: None,
        }
    }

    /// Goes on without an answer after this time.
    #[must_use]
    pub fn expires(mut self, after: Duration) -> Self {
        self.expires = Some(after);
        self
    }
}

/// What becomes of a session's next turn while a run of it waits for a person's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WhileAsking {
    /// It is refused: the question is to be answered first.
    #[default]
    Refuse,
    /// The run that asks is cancelled, and the turn begins. A turn of another owner than the run's
    /// waits.
    Cancel,
    /// It waits until the run has ended.
    Wait,
}
