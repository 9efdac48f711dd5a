//! Named sets of rules over texts.

mod html;
mod rule;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use ghostlight_actors::{
    contract::{
        Interceptor, ModelContext, ModelError, NextModel, NextTool, ToolContext, ToolError,
        ToolOutput,
    },
    vocabulary::{
        Arguments, Delta, ErrorKind, Message, ModelRequest, ModelResponse, Part, Preview, Role,
        ToolFilter, Transcript,
    },
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

pub use self::rule::{GuardRule, Html, NormalForm, RuleAction, Severity};
use super::{GUARDED, GuardAction, GuardDecision, GuardedPoint, given_before, validation::Held};

/// A named set of [rules](GuardRule) over the texts that go to models and tools and come from them: lengths, patterns,
/// words, markup and normal forms. Each rule says what happens where it finds something: the call is refused, the text is
/// changed, or the finding is only told.
///
/// In a team file a set stands below `guards`, and agents name the sets that hold for them, all of a set or what it has
/// for their `input`, `output` or `tools` (arguments and results). A set that no agent names holds for every agent; what
/// holds for an agent holds for the agents that it makes.
///
/// ```yaml
/// guards:
///   careful:
///     chain: all                 # goes on after a refusal, so that all findings are told; `first` when left out
///     rules:
///       - { html: remove, normal_form: nfc, trim: true, action: allow }
///       - { min: 3, max: 4000 }
///       - { pattern: "ignore (all|previous) instructions", ignore_case: true, severity: high }
///       - { at: [output, results], words: [project x], action: modify, with: "[a project]" }
///       - { at: [arguments], pattern: "(?i)drop table", severity: critical }
/// agent:
///   name: desk
///   guards: [careful]            # or { input: [careful], output: [careful], tools: [careful] }
/// ```
///
/// Rules are applied in their order, each to what the rules before it left. A text that was refused stays in its session,
/// and no model reads it later: a note stands in its place. Where a set has rules for output, observers see no part of an
/// answer before all of it was judged; where it has rules for results, they see no output of a tool before its end.
/// Each finding is a [`GuardDecision`] with its severity, which never contains the text.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Guard {
    set: String,
    agents: Option<Agents>,
    chain: Chain,
    rules: Vec<GuardRule>,
}

/// Whether the rules after a refusal are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Chain {
    /// The first rule that refuses ends it.
    #[default]
    First,
    /// All rules are applied, so that all findings are told.
    All,
}

/// The agents for which a set holds, by patterns, and the points at which it does.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a list of agents, or a mapping of agents to points"
)]
enum Agents {
    Everywhere(Vec<String>),
    At(BTreeMap<String, Vec<GuardedPoint>>),
}

impl Agents {
    fn include<'a>(&self, point: GuardedPoint, mut names: impl Iterator<Item = &'a str>) -> bool {
        let fits = |pattern: &String, name: &str| ToolFilter::Name(pattern.clone()).takes(name);
        names.any(|name| match self {
            Self::Everywhere(agents) => agents.iter().any(|agent| fits(agent, name)),
            Self::At(agents) => agents
                .iter()
                .any(|(agent, points)| fits(agent, name) && points.contains(&point)),
        })
    }
}

/// The end of the rules over one text.
#[derive(Debug, Default)]
struct Judged {
    /// The text afterwards; `None` where it is as before.
    text: Option<String>,
    /// Why it may not pass.
    refused: Option<String>,
}

impl Guard {
    /// An empty set of this name, for all agents.
    pub fn new(set: impl Into<String>) -> Self {
        Self {
            set: set.into(),
            ..Self::default()
        }
    }

    /// Adds a rule after those that are there.
    #[must_use]
    pub fn rule(mut self, rule: GuardRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Lets the set hold for these agents alone, and for those that they make. `*` stands for any text.
    #[must_use]
    pub fn agents<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(Into::into);
        self.agents = Some(Agents::Everywhere(names.collect()));
        self
    }

    /// Sets whether the rules after a refusal are applied.
    #[must_use]
    pub fn chain(mut self, chain: Chain) -> Self {
        self.chain = chain;
        self
    }

    pub(super) fn checked(self) -> Result<Self, String> {
        if self.rules.is_empty() {
            return Err("`rules` must have at least one rule".to_owned());
        }
        for (place, rule) in self.rules.iter().enumerate() {
            let label = rule.label(place);
            rule.check()
                .map_err(|fault| format!("`rules`, {label}: {fault}"))?;
        }
        Ok(self)
    }

    /// The rules that stand at a point for an agent with these names.
    fn at<'g, 'a>(
        &'g self,
        point: GuardedPoint,
        names: impl Iterator<Item = &'a str>,
    ) -> Option<Standing<'g>> {
        let holds = self.agents.as_ref();
        let holds = holds.is_none_or(|agents| agents.include(point, names));
        let stands = self.rules.iter().any(|rule| rule.stands_at(point));
        (holds && stands).then_some(Standing { guard: self, point })
    }
}

/// A set at one point.
#[derive(Clone, Copy)]
struct Standing<'g> {
    guard: &'g Guard,
    point: GuardedPoint,
}

impl Standing<'_> {
    /// Applies the rules to a text, and tells what they find.
    fn judge(&self, text: &str, may_be_short: bool, tell: &dyn Fn(&GuardDecision)) -> Judged {
        let mut judged = Judged::default();
        for (place, rule) in self.guard.rules.iter().enumerate() {
            if !rule.stands_at(self.point) {
                continue;
            }
            let now = judged.text.as_deref().unwrap_or(text);
            let applied = rule.apply(now, may_be_short);
            judged.text = applied.text.or(judged.text);
            let Some(found) = applied.found else { continue };
            let (action, severity) = rule.what_happens();
            let did = match action {
                RuleAction::Block => GuardAction::Refused,
                RuleAction::Modify => GuardAction::Changed,
                RuleAction::Warn => GuardAction::Reported,
                RuleAction::Allow => continue,
            };
            let set = &self.guard.set;
            let reason = format!("{set}, {}: {found}", rule.label(place));
            let mut decision = GuardDecision::new("guard", self.point, did, &*reason);
            decision.severity = Some(severity);
            tell(&decision);
            if action == RuleAction::Block {
                judged.refused.get_or_insert(reason);
                if self.guard.chain == Chain::First {
                    break;
                }
            }
        }
        judged
    }

    /// A message after the rules, and why it may not pass.
    fn message(
        &self,
        message: &Message,
        tell: &dyn Fn(&GuardDecision),
    ) -> (Option<Message>, Vec<(usize, String)>) {
        let mut changed: Option<Message> = None;
        let mut refused = Vec::new();
        for (place, part) in message.parts.iter().enumerate() {
            let (text, may_be_short) = match part {
                Part::Text(text) => (text, false),
                Part::ToolResult(result) => (&result.text, true),
                _ => continue,
            };
            let judged = self.judge(text, may_be_short, tell);
            refused.extend(judged.refused.map(|why| (place, why)));
            if let Some(text) = judged.text {
                put(changed.get_or_insert_with(|| message.clone()), place, text);
            }
        }
        (changed, refused)
    }

    /// Every text of a value after the rules, including the names of fields.
    fn value(&self, value: &Value, tell: &dyn Fn(&GuardDecision)) -> Result<Value, String> {
        let text = |text: &str| {
            let judged = self.judge(text, true, tell);
            match judged.refused {
                Some(why) => Err(why),
                None => Ok(judged.text.unwrap_or_else(|| text.to_owned())),
            }
        };
        Ok(match value {
            Value::String(said) => text(said)?.into(),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.value(item, tell));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, value)| Ok((text(name)?, self.value(value, tell)?)));
                Value::Object(fields.collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }
}

fn put(message: &mut Message, place: usize, text: String) {
    match &mut message.parts[place] {
        Part::Text(old) => *old = text,
        Part::ToolResult(result) => result.text = text,
        _ => {}
    }
}

/// The conversation as the model may read it.
///
/// # Errors
/// Why a message that is new to the model may not pass.
fn readable(
    standing: Standing<'_>,
    request: &ModelRequest,
    tell: &dyn Fn(&GuardDecision),
) -> Result<Option<Transcript>, String> {
    let messages = request.conversation.messages();
    let before = given_before(request, &messages);
    let mut shown = Vec::with_capacity(messages.len());
    let mut is_changed = false;
    for (number, message) in messages.iter().enumerate() {
        if !matches!(message.role, Role::User | Role::Tool) {
            shown.push(message.clone());
            continue;
        }
        let is_new = number >= before;
        let told = |decision: &GuardDecision| {
            if is_new {
                tell(decision);
            }
        };
        let (mut changed, refused) = standing.message(message, &told);
        let counts = |(part, _): &&(usize, String)| is_new && !request.retold.covers(number, *part);
        if let Some((_, why)) = refused.iter().find(counts) {
            return Err(why.clone());
        }
        for (place, why) in refused {
            // What was refused before stays in the session, and no model reads it.
            let changed = changed.get_or_insert_with(|| (**message).clone());
            put(changed, place, format!("[left out: {why}]"));
        }
        is_changed |= changed.is_some();
        shown.push(changed.map_or_else(|| message.clone(), Arc::new));
    }
    Ok(is_changed.then(|| shown.into_iter().collect()))
}

impl Interceptor for Guard {
    async fn model(
        &self,
        mut request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let origin = cx.origin().cloned();
        let names = || origin.iter().flat_map(|origin| origin.agents());
        let tell = |decision: &GuardDecision| next.emit(GUARDED, decision);
        let refuse = |why| ModelError::new(ErrorKind::Denied, why);
        if let Some(standing) = self.at(GuardedPoint::Input, names())
            && let Some(read) = readable(standing, &request, &tell).map_err(refuse)?
        {
            request.conversation = read;
        }
        let Some(standing) = self.at(GuardedPoint::Output, names()) else {
            return next.respond(request, cx).await;
        };
        let held = Arc::new(Mutex::new(Held::default()));
        let holding = held.clone();
        let watched = cx
            .clone()
            .previews_through(move |preview| holding.lock().hold(preview));
        let mut answer = next.respond(request, watched).await?;
        let (changed, refused) = standing.message(&answer.message, &tell);
        if let Some((_, why)) = refused.into_iter().next() {
            return Err(refuse(why));
        }
        let (attempt, mut deltas) = std::mem::take(&mut *held.lock()).into_parts();
        if let Some(changed) = changed {
            let had_text = deltas.iter().any(|delta| matches!(delta, Delta::Text(_)));
            deltas.retain(|delta| !matches!(delta, Delta::Text(_)));
            answer.message = changed.into();
            if had_text {
                deltas.push(Delta::Text(answer.content()));
            }
        }
        let cx = cx.with_attempt(attempt);
        deltas.into_iter().for_each(|delta| cx.delta(delta));
        Ok(answer)
    }

    async fn tool(
        &self,
        mut arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let tell = |decision: &GuardDecision| next.emit(GUARDED, decision);
        if let Some(standing) = self.at(GuardedPoint::Arguments, cx.agents())
            && let Ok(value) = arguments.value()
        {
            let judged = standing.value(value, &tell).map_err(ToolError::denied)?;
            if judged != *value {
                arguments = judged.into();
            }
        }
        let Some(standing) = self.at(GuardedPoint::Results, cx.agents()) else {
            return next.call(arguments, cx).await;
        };
        let watched = cx.clone().previews_through(|preview| match preview {
            Preview::ToolOutput { .. } => None,
            other => Some(other),
        });
        let mut output = next.call(arguments, watched).await;
        let text = match &output {
            Ok(output) => Cow::Borrowed(&*output.text),
            Err(error) => Cow::Borrowed(&*error.message),
        };
        let judged = standing.judge(&text, true, &tell);
        match (&mut output, judged.refused, judged.text) {
            // The tool has already acted; only its result is held back.
            (Ok(output), Some(why), _) => {
                output.text = format!("The call was made, but its result may not pass: {why}.");
                output.attachments.clear();
            }
            (Err(error), Some(why), _) => {
                error.message = format!("The call failed, and why may not pass: {why}.");
            }
            (Ok(output), None, Some(text)) => output.text = text,
            (Err(error), None, Some(text)) => error.message = text,
            (_, None, None) => {}
        }
        output
    }
}
