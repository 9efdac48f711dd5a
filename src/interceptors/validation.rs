use std::sync::{Arc, OnceLock};

use ghostlight_actors::{
    contract::{
        Interceptor, ModelContext, ModelError, NextModel, NextTool, ToolContext, ToolError,
        ToolOutput,
    },
    vocabulary::{
        Arguments, Delta, ErrorKind, Message, ModelRequest, ModelResponse, Part, Preview, Retold,
        Role, Transcript,
    },
};
use parking_lot::Mutex;
use regex::RegexSet;
use serde::Deserialize;
use serde_json::Value;

use super::{GUARDED, GuardAction, GuardDecision, GuardedPoint, given_before};

/// Refuses texts that are too long or contain a blocked pattern: the latest words of people and
/// tools before a model reads them, a model's answer, and the arguments of tools, however their
/// JSON is written.
///
/// A text that was refused stays in its session, and no model reads it later: in the requests of later turns a note
/// stands in its place, and they are not refused for it.
///
/// If answers are validated, observers see no part of an answer before it was validated: its pieces
/// are held back until the whole answer may pass.
///
/// A refused request or answer is an error of the call, which no retry repeats. A refused tool call
/// gets a result that the model reads. Observers get a [`GuardDecision`]. The message names the
/// pattern's position in the list and never the text.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Validation {
    max_input: Option<usize>,
    max_output: Option<usize>,
    blocked: Vec<String>,
    blocked_output: Vec<String>,
    #[serde(skip)]
    patterns: OnceLock<Result<(RegexSet, RegexSet), String>>,
}

impl Validation {
    /// A validation without rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Refuses input with more characters.
    #[must_use]
    pub fn max_input(mut self, characters: usize) -> Self {
        self.max_input = Some(characters);
        self
    }

    /// Refuses answers with more characters.
    #[must_use]
    pub fn max_output(mut self, characters: usize) -> Self {
        self.max_output = Some(characters);
        self
    }

    /// Refuses input that matches this regular expression. An invalid expression refuses
    /// everything.
    #[must_use]
    pub fn block(mut self, pattern: impl Into<String>) -> Self {
        self.blocked.push(pattern.into());
        self
    }

    /// Refuses answers that match this regular expression. An invalid expression refuses
    /// everything.
    #[must_use]
    pub fn block_output(mut self, pattern: impl Into<String>) -> Self {
        self.blocked_output.push(pattern.into());
        self
    }

    pub(super) fn checked(self) -> Result<Self, String> {
        self.patterns()?;
        Ok(self)
    }

    fn patterns(&self) -> Result<&(RegexSet, RegexSet), String> {
        let patterns = self.patterns.get_or_init(|| {
            let set = |patterns: &[String]| RegexSet::new(patterns).map_err(|e| e.to_string());
            Ok((set(&self.blocked)?, set(&self.blocked_output)?))
        });
        patterns.as_ref().map_err(Clone::clone)
    }

    fn judges_answers(&self) -> bool {
        self.max_output.is_some() || !self.blocked_output.is_empty()
    }

    /// Why a text may not pass.
    fn fault(&self, text: &str, output: bool) -> Option<String> {
        let too_long = self.too_long(text, output);
        too_long.or_else(|| self.blocked(text, output))
    }

    fn too_long(&self, text: &str, output: bool) -> Option<String> {
        let (what, max) = if output {
            ("the answer", self.max_output)
        } else {
            ("the input", self.max_input)
        };
        let max = max.filter(|max| text.chars().nth(*max).is_some())?;
        Some(format!("{what} has more than {max} characters"))
    }

    /// The pattern that is found in a text.
    fn blocked(&self, text: &str, output: bool) -> Option<String> {
        let what = if output { "the answer" } else { "the input" };
        match self.patterns() {
            Err(fault) => Some(format!("{what} cannot be validated: {fault}")),
            Ok((input, of_output)) => {
                let patterns = if output { of_output } else { input };
                let found = patterns.matches(text).iter().next()?;
                Some(format!(
                    "{what} matches a blocked pattern (number {})",
                    found + 1
                ))
            }
        }
    }

    /// A message with a note instead of each text that was refused before; `None` where there is none. Answers of the
    /// model were validated when they were given.
    fn without_refused(
        &self,
        message: &Message,
        note: impl Fn(usize, &str) -> Option<String>,
    ) -> Option<Message> {
        if message.role == Role::Assistant {
            return None;
        }
        let mut changed: Option<Message> = None;
        for (place, part) in message.parts.iter().enumerate() {
            let Some(note) = text_of(part).and_then(|text| note(place, text)) else {
                continue;
            };
            match &mut changed.get_or_insert_with(|| message.clone()).parts[place] {
                Part::Text(text) => *text = note,
                Part::ToolResult(result) => result.text = note,
                _ => {}
            }
        }
        changed
    }

    /// A note instead of a text that was refused.
    fn note(&self, text: &str) -> Option<String> {
        self.fault(text, false).map(left_out)
    }

    /// A text that stands for other messages, with a note instead of each line that holds a blocked pattern, or of the
    /// whole where a pattern takes several lines.
    fn retold(&self, text: &str) -> Option<String> {
        let lines = text.lines().map(|line| match self.blocked(line, false) {
            Some(fault) => left_out(fault),
            None => line.to_owned(),
        });
        let kept = lines.collect::<Vec<_>>().join("\n");
        match self.blocked(&kept, false) {
            Some(fault) => Some(left_out(fault)),
            None => (kept != text.trim_end()).then_some(kept),
        }
    }

    /// The same for a part of a request to sum these messages up, of this many parts: what tells a message that was refused
    /// becomes a note.
    fn told(&self, text: &str, told: &[Arc<Message>], part: usize, parts: usize) -> Option<String> {
        let told = match parts {
            // In runs that began long ago, one text tells all of them.
            1 => told,
            _ => part
                .checked_sub(1)
                .and_then(|place| told.get(place..=place))
                .unwrap_or_default(),
        };
        let of_others = told.iter().filter(|told| told.role != Role::Assistant);
        let mut said = of_others.flat_map(|told| texts(told));
        match said.find_map(|text| self.note(text)) {
            Some(note) => Some(note),
            None => self.retold(text),
        }
    }

    /// Why arguments may not pass: as they were written, as JSON without needless escapes and
    /// spaces, or by any text that a tool would read in them.
    fn fault_of(&self, arguments: &Arguments) -> Option<String> {
        let read = || {
            let value = arguments.value().ok()?;
            let blocked = |text: &str| self.blocked(text, false);
            blocked(&value.to_string()).or_else(|| first_in(value, &blocked))
        };
        self.fault(arguments.text(), false).or_else(read)
    }
}

fn left_out(fault: String) -> String {
    format!("[left out: {fault}]")
}

/// The text of a part that people or tools gave.
fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        Part::ToolResult(result) => Some(&result.text),
        _ => None,
    }
}

fn texts(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(text_of)
}

/// The first finding in the texts of a value, including the names of fields.
fn first_in(value: &Value, find: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    match value {
        Value::String(text) => find(text),
        Value::Array(items) => items.iter().find_map(|item| first_in(item, find)),
        Value::Object(fields) => fields
            .iter()
            .find_map(|(name, value)| find(name).or_else(|| first_in(value, find))),
        _ => None,
    }
}

/// The pieces of an answer that was not validated yet.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The attempt that the pieces belong to; those of earlier attempts are dropped.
    attempt: u32,
    deltas: Vec<Delta>,
}

impl Held {
    /// Keeps a piece of an answer; any other preview may be shown at once.
    pub(super) fn hold(&mut self, preview: Preview) -> Option<Preview> {
        let Preview::Delta { attempt, delta, .. } = preview else {
            return Some(preview);
        };
        if attempt != self.attempt {
            (self.attempt, self.deltas) = (attempt, Vec::new());
        }
        match (self.deltas.last_mut(), delta) {
            // One text takes less memory than single characters.
            (Some(Delta::Text(before)), Delta::Text(more))
            | (Some(Delta::Reasoning(before)), Delta::Reasoning(more)) => before.push_str(&more),
            (_, delta) => self.deltas.push(delta),
        }
        None
    }

    /// The attempt, and its pieces.
    pub(super) fn into_parts(self) -> (u32, Vec<Delta>) {
        (self.attempt, self.deltas)
    }
}

fn refused(at: GuardedPoint, fault: &str) -> GuardDecision {
    GuardDecision::new("validation", at, GuardAction::Refused, fault)
}

impl Interceptor for Validation {
    async fn model(
        &self,
        mut request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let refuse = |at, fault: String| {
            next.emit(GUARDED, &refused(at, &fault));
            ModelError::new(ErrorKind::InvalidInput, fault)
        };
        let messages = request.conversation.messages();
        let before = given_before(&request, &messages);
        let retold = request.retold.clone();
        for (place, message) in messages.iter().enumerate().skip(before) {
            for (part, said) in message.parts.iter().enumerate() {
                let text = text_of(said).filter(|_| !retold.covers(place, part));
                if let Some(fault) = text.and_then(|text| self.fault(text, false)) {
                    return Err(refuse(GuardedPoint::Input, fault));
                }
            }
        }
        let kept = messages.iter().enumerate().map(|(place, message)| {
            self.without_refused(message, |part, text| match &retold {
                Retold::Messages(told) => self.told(text, told, part, message.parts.len()),
                retold if retold.covers(place, part) => self.retold(text),
                _ if place < before => self.note(text),
                _ => None,
            })
        });
        let kept: Vec<_> = kept.collect();
        if kept.iter().any(Option::is_some) {
            let kept = kept.into_iter().zip(messages);
            let kept = kept.map(|(changed, as_said)| changed.map_or(as_said, Arc::new));
            request.conversation = kept.collect::<Transcript>();
        }
        if !self.judges_answers() {
            return next.respond(request, cx).await;
        }
        let held = Arc::new(Mutex::new(Held::default()));
        let holding = held.clone();
        let watched = cx
            .clone()
            .previews_through(move |preview| holding.lock().hold(preview));
        let answer = next.respond(request, watched).await?;
        if let Some(fault) = self.fault(&answer.content(), true) {
            return Err(refuse(GuardedPoint::Output, fault));
        }
        let (attempt, deltas) = std::mem::take(&mut *held.lock()).into_parts();
        let cx = cx.with_attempt(attempt);
        for delta in deltas {
            cx.delta(delta);
        }
        Ok(answer)
    }

    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        match self.fault_of(&arguments) {
            Some(fault) => {
                next.emit(GUARDED, &refused(GuardedPoint::Arguments, &fault));
                Err(ToolError::denied(fault))
            }
            None => next.call(arguments, cx).await,
        }
    }
}
