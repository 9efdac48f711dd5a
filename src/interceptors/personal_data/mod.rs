//! What becomes of data about people.

mod stream;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ghostlight_actors::{
    contract::{
        Interceptor, ModelContext, ModelError, NextModel, NextTool, ToolContext, ToolError,
        ToolOutput,
    },
    safety::{PersonalKind, personal_data},
    vocabulary::{
        Arguments, Delta, Digest, ErrorKind, Message, ModelRequest, ModelResponse, Part, Preview,
        Role, Transcript,
    },
};
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::stream::Stream;
use super::{GUARDED, GuardAction, GuardDecision, given_before};
use crate::models::Secret;

/// Why nothing is hashed without a secret.
const NO_SECRET: &str = "a hash that anybody can make is guessed; give `secret`, such as \
                         \"${GHOSTLIGHT_HASH_SECRET}\", or another action";

/// Guards data about people: addresses of mail, telephone, card, social security and bank account
/// numbers, as [`personal_data`] finds them.
///
/// It stands where it is told to: before a model reads, after it answers (pieces of an answer that
/// are shown while it is made are guarded too, also where a number is cut between two of them),
/// before a tool is called, and after. What it does there is masking, removing or hashing the data, or
/// refusing the call; what was found is told by its kind, and never by its text: to observers, as a
/// [`GuardDecision`] that is recorded with the call, and to `tracing` under the target
/// `ghostlight::guards`. What a model is given to read is told of once: with the first call to which
/// the message is new.
///
/// What a conversation holds already stays as it was recorded: guard the results of tools and the
/// answers of models, so that it never comes there.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PersonalDataGuard {
    kinds: Vec<PersonalKind>,
    action: PersonalAction,
    at: Vec<GuardedPoint>,
    secret: Option<Secret>,
}

/// What is done with personal data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PersonalAction {
    /// Its kind stands in its place, as `[email]`.
    #[default]
    Mask,
    /// Nothing stands in its place.
    Remove,
    /// Its kind and the beginning of a hash stand in its place, as `[email 3f2a91bc]`, so that equal
    /// ones can be told from others. It takes a secret: without one anybody can hash all telephone
    /// numbers and look, so nothing passes then.
    Hash,
    /// The call is refused. Pieces of an answer that were shown by then are masked.
    Refuse,
    /// It stays, and is told of.
    Report,
}

/// Where a guard stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GuardedPoint {
    /// Before a model reads what people and tools said.
    Input,
    /// After a model answered, and at each piece of an answer that is shown.
    Output,
    /// Before a tool is called, at its arguments.
    Arguments,
    /// After a tool was called, at its result and each piece of it that is shown.
    Results,
}

impl Default for PersonalDataGuard {
    /// Masks every kind in what models read and answer and in what tools give; arguments of tools
    /// stay, since tools work with them.
    fn default() -> Self {
        Self {
            kinds: Vec::new(),
            action: PersonalAction::Mask,
            at: vec![
                GuardedPoint::Input,
                GuardedPoint::Output,
                GuardedPoint::Results,
            ],
            secret: None,
        }
    }
}

impl PersonalDataGuard {
    /// Does this with every kind of data.
    pub fn new(action: PersonalAction) -> Self {
        Self {
            action,
            ..Self::default()
        }
    }

    /// Guards these kinds alone.
    #[must_use]
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = PersonalKind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Guards these points alone.
    #[must_use]
    pub fn at(mut self, points: impl IntoIterator<Item = GuardedPoint>) -> Self {
        self.at = points.into_iter().collect();
        self
    }

    /// Sets the secret that goes into hashes: with another one the same data has another hash.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Refuses one that could treat nothing.
    pub(super) fn checked(self) -> Result<Self, String> {
        match (self.action, &self.secret) {
            (PersonalAction::Hash, None) => Err(NO_SECRET.to_owned()),
            _ => Ok(self),
        }
    }

    /// How data is treated at this point, if it is guarded.
    ///
    /// # Errors
    /// That there is no secret to hash it with.
    fn treatment(&self, point: GuardedPoint) -> Result<Option<Treatment>, String> {
        if !self.at.contains(&point) {
            return Ok(None);
        }
        let unhashed = |reason: String| format!("personal data cannot be hashed: {reason}");
        let secret = match (self.action, &self.secret) {
            (PersonalAction::Hash, None) => return Err(unhashed(NO_SECRET.to_owned())),
            (PersonalAction::Hash, Some(secret)) => {
                let revealed = secret
                    .reveal()
                    .map_err(|error| unhashed(error.to_string()))?;
                if revealed.expose_secret().trim().is_empty() {
                    return Err(unhashed(NO_SECRET.to_owned()));
                }
                Some(revealed)
            }
            _ => None,
        };
        Ok(Some(Treatment::new(self.action, &self.kinds, secret)))
    }
}

/// What is done with data of some kinds.
#[derive(Clone, Debug)]
struct Treatment {
    action: PersonalAction,
    /// All, when it is empty.
    kinds: BTreeSet<PersonalKind>,
    secret: Option<SecretString>,
}

/// How much of which kind was found.
type Found = BTreeMap<&'static str, usize>;

impl Treatment {
    fn new(action: PersonalAction, kinds: &[PersonalKind], secret: Option<SecretString>) -> Self {
        Self {
            action,
            kinds: kinds.iter().copied().collect(),
            secret,
        }
    }

    fn concerns(&self, kind: PersonalKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    /// What stands in the place of a piece of data.
    fn shown<'t>(&self, kind: PersonalKind, data: &'t str) -> Cow<'t, str> {
        let name = kind.name();
        match self.action {
            PersonalAction::Mask | PersonalAction::Refuse => format!("[{name}]").into(),
            PersonalAction::Remove => "".into(),
            PersonalAction::Report => data.into(),
            PersonalAction::Hash => {
                let secret = self
                    .secret
                    .as_ref()
                    .map_or("", |secret| secret.expose_secret());
                // The same number in other groups is the same.
                let plain: String = data
                    .chars()
                    .filter(|c| c.is_alphanumeric() || *c == '@')
                    .collect();
                let parts = [secret.as_bytes(), name.as_bytes(), plain.as_bytes()];
                let hash = Digest::of_parts(&parts).to_string();
                format!("[{name} {}]", hash.get(..8).unwrap_or(&hash)).into()
            }
        }
    }

    /// A text as it may pass, and what was found in it.
    fn text<'t>(&self, text: &'t str) -> (Cow<'t, str>, Found) {
        let mut found = Found::new();
        let (mut shown, mut at) = (String::new(), 0);
        for data in personal_data(text) {
            if !self.concerns(data.kind) {
                continue;
            }
            *found.entry(data.kind.name()).or_default() += 1;
            shown.push_str(&text[at..data.range.start]);
            shown.push_str(&self.shown(data.kind, &text[data.range.clone()]));
            at = data.range.end;
        }
        if found.is_empty() {
            return (text.into(), found);
        }
        shown.push_str(&text[at..]);
        (shown.into(), found)
    }

    /// Treats a text where it stands.
    fn mend(&self, text: &mut String, found: &mut Found) {
        let (shown, here) = self.text(text);
        if let Cow::Owned(shown) = shown {
            *text = shown;
        }
        add(found, here);
    }

    /// Treats every text of a value, names of fields included.
    fn value(&self, value: Value, found: &mut Found) -> Value {
        match value {
            Value::String(mut text) => {
                self.mend(&mut text, found);
                text.into()
            }
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.value(item, found));
                Value::Array(items.collect())
            }
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(mut name, value)| {
                    self.mend(&mut name, found);
                    (name, self.value(value, found))
                });
                Value::Object(fields.collect())
            }
            Value::Number(number) => {
                let mut text = number.to_string();
                self.mend(&mut text, found);
                if text == number.to_string() {
                    Value::Number(number)
                } else {
                    text.into()
                }
            }
            other => other,
        }
    }

    /// The message as it may pass; `None` when it may pass as it is.
    fn message(&self, message: &Message, found: &mut Found) -> Option<Message> {
        let mut changed: Option<Message> = None;
        for (place, part) in message.parts.iter().enumerate() {
            let text = match part {
                Part::Text(text) => text,
                Part::ToolResult(result) => &result.text,
                // What is signed goes back as it is.
                Part::Reasoning(reasoning) if reasoning.signature.is_none() => &reasoning.text,
                _ => continue,
            };
            let (shown, here) = self.text(text);
            add(found, here);
            let Cow::Owned(shown) = shown else { continue };
            let changed = changed.get_or_insert_with(|| message.clone());
            match &mut changed.parts[place] {
                Part::Text(text) => *text = shown,
                Part::ToolResult(result) => result.text = shown,
                Part::Reasoning(reasoning) => reasoning.text = shown,
                _ => {}
            }
        }
        changed
    }

    /// Tells what was found, and why the call is refused where it is.
    fn judge(
        &self,
        found: &Found,
        (point, call): (GuardedPoint, &str),
        tell: impl FnOnce(&GuardDecision),
    ) -> Result<(), String> {
        if found.is_empty() {
            return Ok(());
        }
        let told: Vec<String> = found
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        let (told, action) = (told.join(", "), self.action);
        tracing::warn!(target: "ghostlight::guards", found = %told, ?action, at = ?point, %call, "personal data");
        let did = match action {
            PersonalAction::Refuse => GuardAction::Refused,
            PersonalAction::Report => GuardAction::Reported,
            _ => GuardAction::Changed,
        };
        tell(&GuardDecision::new("personal_data", point, did, &*told));
        let what = match point {
            GuardedPoint::Input => "the input",
            GuardedPoint::Output => "the answer",
            GuardedPoint::Arguments => "the arguments",
            GuardedPoint::Results => "the result",
        };
        match action {
            PersonalAction::Refuse => Err(format!(
                "{what} holds personal data that may not pass: {told}"
            )),
            _ => Ok(()),
        }
    }
}

fn add(found: &mut Found, more: Found) {
    for (kind, count) in more {
        *found.entry(kind).or_default() += count;
    }
}

/// The pieces of an answer, each sort as a text of its own.
#[derive(Debug, Default)]
struct Pieces {
    text: Stream,
    reasoning: Stream,
}

impl Pieces {
    fn guarded(&mut self, mut preview: Preview, treatment: &Treatment) -> Option<Preview> {
        let text = match &mut preview {
            Preview::Delta { delta, .. } => match delta {
                Delta::Text(text) => {
                    *text = self.text.push(text, treatment);
                    text
                }
                Delta::Reasoning(text) => {
                    *text = self.reasoning.push(text, treatment);
                    text
                }
                _ => return Some(preview),
            },
            Preview::ToolOutput { text, .. } => {
                *text = self.text.push(text, treatment);
                text
            }
            // What follows is of another attempt.
            Preview::ModelRetry { .. } => {
                *self = Self::default();
                return Some(preview);
            }
            _ => return Some(preview),
        };
        let is_empty = text.is_empty();
        (!is_empty).then_some(preview)
    }
}

impl Interceptor for PersonalDataGuard {
    async fn model(
        &self,
        mut request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let refuse = |reason| ModelError::new(ErrorKind::Denied, reason);
        let call = format!("{}/{}", cx.run(), cx.operation());
        let tell = |decision: &GuardDecision| next.emit(GUARDED, decision);
        if let Some(treatment) = self.treatment(GuardedPoint::Input).map_err(refuse)? {
            let (mut known, mut found) = (Found::new(), Found::new());
            let messages = request.conversation.messages();
            let before = match treatment.action {
                // All of it is why.
                PersonalAction::Refuse => 0,
                _ => given_before(&messages),
            };
            let guarded = |(place, message): (usize, &Arc<Message>)| match message.role {
                Role::User | Role::Tool => {
                    let found = if place < before {
                        &mut known
                    } else {
                        &mut found
                    };
                    treatment.message(message, found).map(Arc::new)
                }
                _ => None,
            };
            let guarded: Vec<_> = messages.iter().enumerate().map(guarded).collect();
            let at = (GuardedPoint::Input, &*call);
            treatment.judge(&found, at, tell).map_err(refuse)?;
            if guarded.iter().any(Option::is_some) {
                let guarded = guarded.into_iter().zip(messages);
                let guarded = guarded.map(|(changed, as_said)| changed.unwrap_or(as_said));
                request.conversation = guarded.collect::<Transcript>();
            }
        }
        let Some(treatment) = self.treatment(GuardedPoint::Output).map_err(refuse)? else {
            return next.respond(request, cx).await;
        };
        let pieces = Arc::new(Mutex::new(Pieces::default()));
        let (shown, by) = (pieces.clone(), treatment.clone());
        let watched = cx
            .clone()
            .previews_through(move |preview| shown.lock().guarded(preview, &by));
        let mut answer = next.respond(request, watched).await?;
        let (reasoning, text) = {
            let mut pieces = pieces.lock();
            (
                pieces.reasoning.finish(&treatment),
                pieces.text.finish(&treatment),
            )
        };
        if !reasoning.is_empty() {
            cx.delta(Delta::Reasoning(reasoning));
        }
        if !text.is_empty() {
            cx.delta(Delta::Text(text));
        }
        let mut found = Found::new();
        let guarded = treatment.message(&answer.message, &mut found);
        let at = (GuardedPoint::Output, &*call);
        treatment.judge(&found, at, tell).map_err(refuse)?;
        if let Some(guarded) = guarded {
            answer.message = guarded.into();
        }
        Ok(answer)
    }

    async fn tool(
        &self,
        mut arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let call = cx.idempotency_key();
        let tell = |decision: &GuardDecision| next.emit(GUARDED, decision);
        if let Some(treatment) = self
            .treatment(GuardedPoint::Arguments)
            .map_err(ToolError::denied)?
            && let Ok(value) = arguments.value()
        {
            let mut found = Found::new();
            let guarded = treatment.value(value.clone(), &mut found);
            let judged = treatment.judge(&found, (GuardedPoint::Arguments, &*call), tell);
            judged.map_err(ToolError::denied)?;
            if !found.is_empty() {
                arguments = guarded.into();
            }
        }
        let Some(treatment) = self
            .treatment(GuardedPoint::Results)
            .map_err(ToolError::denied)?
        else {
            return next.call(arguments, cx).await;
        };
        let pieces = Arc::new(Mutex::new(Pieces::default()));
        let (shown, by) = (pieces.clone(), treatment.clone());
        let watched = cx
            .clone()
            .previews_through(move |preview| shown.lock().guarded(preview, &by));
        let mut output = next.call(arguments, watched).await;
        let rest = pieces.lock().text.finish(&treatment);
        if !rest.is_empty() {
            cx.output(rest);
        }
        let mut found = Found::new();
        match &mut output {
            Ok(output) => treatment.mend(&mut output.text, &mut found),
            Err(error) => treatment.mend(&mut error.message, &mut found),
        }
        // The tool has done what it does; only what it says is held back.
        let judged = treatment.judge(&found, (GuardedPoint::Results, &*call), tell);
        if let (Err(reason), Ok(output)) = (judged, &mut output) {
            output.text = format!("The call was made, but {reason}.");
            output.attachments.clear();
        }
        output
    }
}
