//! The treatment of personal data.

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
    vocabulary::{
        Arguments, Delta, Digest, ErrorKind, Message, ModelRequest, ModelResponse, Part, Preview,
        Role, Transcript,
    },
};
use ghostlight_safety::{PersonalKind, personal_data};
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::stream::Stream;
use super::{GUARDED, GuardAction, GuardDecision, given_before};
use crate::models::Secret;

/// Why hashing requires a secret.
const NO_SECRET: &str = "a hash that anybody can make is guessed; give `secret`, such as \
                         \"${GHOSTLIGHT_HASH_SECRET}\", or another action";

/// Guards personal data: e-mail addresses, and telephone, card, social security and bank account
/// numbers, as [`personal_data`] finds them.
///
/// A guard acts at the points where it is installed: before a model reads, after a model answers,
/// before a tool is called, and after the call. Streamed pieces of an answer are guarded too, even
/// if a number is cut between two pieces. At these points it masks, removes or hashes the data, or
/// refuses the call. Findings are reported by their kind and never by their text: to observers, as
/// a [`GuardDecision`] that is recorded with the call, and to `tracing` under the target
/// `ghostlight::guards`. A finding in a model's input is reported once, with the first call to
/// which the message is new.
///
/// Messages already in a conversation stay as they were recorded. Guard the results of tools and
/// the answers of models to keep personal data out of it.
///
/// The arguments that a model writes are guarded where a tool gets them, and only there: in the recorded answer, and
/// in the pieces of it that observers see, the call stays as the model wrote it.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PersonalDataGuard {
    kinds: Vec<PersonalKind>,
    action: PersonalAction,
    at: Vec<GuardedPoint>,
    secret: Option<Secret>,
}

/// The action on personal data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PersonalAction {
    /// Replaces the data by its kind, such as `[email]`.
    #[default]
    Mask,
    /// Removes the data.
    Remove,
    /// Replaces the data by its kind and the beginning of a hash, such as `[email 3f2a91bc]`, so
    /// that equal data can be recognised. This needs a secret, because without one anybody could
    /// hash all telephone numbers and compare. Without a secret nothing passes.
    Hash,
    /// Refuses the call. Pieces of an answer shown before that are masked, and so is the data of a refused message in
    /// the requests of later turns, which are not refused for it.
    Refuse,
    /// Leaves the data, and reports it.
    Report,
}

/// The point at which a guard acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GuardedPoint {
    /// Before a model reads the words of people and the results of tools.
    Input,
    /// After a model has answered, and at each piece of an answer that is shown.
    Output,
    /// Before a tool is called, on its arguments.
    Arguments,
    /// After a tool was called, on its result and each piece of it that is shown.
    Results,
}

impl Default for PersonalDataGuard {
    /// Masks every kind in the input and output of models and in the results of tools. Arguments of
    /// tools stay, because tools work with them.
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
    /// A guard that takes this action on every kind of data.
    pub fn new(action: PersonalAction) -> Self {
        Self {
            action,
            ..Self::default()
        }
    }

    /// Guards only these kinds.
    #[must_use]
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = PersonalKind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Guards only these points.
    #[must_use]
    pub fn at(mut self, points: impl IntoIterator<Item = GuardedPoint>) -> Self {
        self.at = points.into_iter().collect();
        self
    }

    /// Sets the secret of the hashes: with another secret the same data has another hash.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Refuses hashing without a secret.
    pub(super) fn checked(self) -> Result<Self, String> {
        match (self.action, &self.secret) {
            (PersonalAction::Hash, None) => Err(NO_SECRET.to_owned()),
            _ => Ok(self),
        }
    }

    /// The treatment of data at this point, if the point is guarded.
    ///
    /// # Errors
    /// The data is to be hashed, and there is no secret.
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

/// An action on data of some kinds.
#[derive(Clone, Debug)]
struct Treatment {
    action: PersonalAction,
    /// All kinds if it is empty.
    kinds: BTreeSet<PersonalKind>,
    secret: Option<SecretString>,
}

/// The number of findings of each kind.
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

    /// The replacement of a piece of data.
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
                // A number has the same hash however its digits are grouped.
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

    /// A text after treatment, and what was found in it.
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

    /// Treats a text in place.
    fn mend(&self, text: &mut String, found: &mut Found) {
        let (shown, here) = self.text(text);
        if let Cow::Owned(shown) = shown {
            *text = shown;
        }
        add(found, here);
    }

    /// Treats every text of a value, including the names of fields.
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

    /// The message after treatment; `None` if nothing changed. Only findings in parts with new texts count.
    fn message(
        &self,
        message: &Message,
        is_new: impl Fn(usize) -> bool,
        found: &mut Found,
    ) -> Option<Message> {
        let mut changed: Option<Message> = None;
        for (place, part) in message.parts.iter().enumerate() {
            let text = match part {
                Part::Text(text) => text,
                Part::ToolResult(result) => &result.text,
                // Signed reasoning must go back unchanged.
                Part::Reasoning(reasoning) if reasoning.signature.is_none() => &reasoning.text,
                _ => continue,
            };
            let (shown, here) = self.text(text);
            if is_new(place) {
                add(found, here);
            }
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

    /// Reports what was found, and returns the reason if the call is refused.
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

/// The pieces of an answer; each kind of piece is a text of its own.
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
            // The next pieces belong to another attempt.
            Preview::ModelRetry { .. } | Preview::ModelStarted { .. } => {
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
            let mut found = Found::new();
            let messages = request.conversation.messages();
            // What was refused before stays in the session. Masked, it refuses nothing later.
            let before = given_before(&request, &messages);
            let guarded = |(place, message): (usize, &Arc<Message>)| match message.role {
                Role::User | Role::Tool => {
                    let is_new = |part| place >= before && !request.retold.covers(place, part);
                    treatment.message(message, is_new, &mut found).map(Arc::new)
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
        let guarded = treatment.message(&answer.message, |_| true, &mut found);
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
        // The tool has already acted; only its result is held back.
        let judged = treatment.judge(&found, (GuardedPoint::Results, &*call), tell);
        if let (Err(reason), Ok(output)) = (judged, &mut output) {
            output.text = format!("The call was made, but {reason}.");
            output.attachments.clear();
        }
        output
    }
}
