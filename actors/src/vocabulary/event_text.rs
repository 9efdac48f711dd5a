//! Events as others see them: as lines for people, and without secrets for programs.

use std::fmt;

use serde_json::{Value, json};

use super::{
    Changed, Delta, ErrorKind, Event, EventRecord, FinishReason, Preview, Resource, RunResult,
    ToolCall, UnknownEvent,
};

/// How many characters of a text a line shows.
const SHOWN: usize = 200;
/// How many of its characters are searched for secrets.
const LOOKED_AT: usize = 4096;

impl EventRecord {
    /// The record for those who may see the run and are not its program: without secrets, as [`ghostlight_safety::redact_json`] finds
    /// them. A question stays as whoever decides sees it: each secret of its call is a token.
    #[must_use]
    pub fn redacted(mut self) -> Self {
        if let Event::QuestionAsked { .. } = &self.event {
            return self;
        }
        let whole = serde_json::to_value(&self.event).unwrap_or_default();
        let shown = ghostlight_safety::redact_json(&whole);
        if shown != whole || whole.is_null() {
            // Nothing is shown of what does not read any more.
            let unreadable = |_| {
                let name = self.event.name().to_owned();
                Event::Unknown(UnknownEvent {
                    name,
                    data: Value::Null,
                })
            };
            self.event = serde_json::from_value(shown).unwrap_or_else(unreadable);
        }
        self
    }
}

impl fmt::Display for EventRecord {
    /// One line for a log: the agents from the root's to the one concerned, and what happened. Long texts are cut,
    /// secrets are removed ([`ghostlight_safety::redact`]), and nothing controls a terminal. The fields of the event have the
    /// complete texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path.join("/"))?;
        }
        self.event.fmt(f)
    }
}

impl fmt::Display for Event {
    /// One line. Long texts are cut.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunStarted { input, .. } => write!(f, "begins with {}", quoted(input)),
            Self::LegStarted { request, .. } => match request {
                Some(request) => write!(f, "takes over, asked {}", quoted(request)),
                None => f.write_str("takes over"),
            },
            Self::ModelCalled {
                model,
                text,
                tool_calls,
                finish,
                ..
            } => {
                write!(f, "model {} says {}", told(model), quoted(text))?;
                for call in tool_calls {
                    write!(f, ", calls {}", Call(call))?;
                }
                match finish {
                    FinishReason::Length => f.write_str(", and is cut off at its bound on tokens"),
                    FinishReason::ContentFilter => {
                        f.write_str(", and is held back by its provider")
                    }
                    _ => Ok(()),
                }
            }
            Self::StepStarted { step, .. } => write!(f, "begins step {step}"),
            Self::StepEnded {
                step,
                calls,
                answered,
                ..
            } => match calls {
                0 => write!(f, "ends step {step}"),
                _ => write!(
                    f,
                    "ends step {step} with {answered} of {calls} calls answered"
                ),
            },
            Self::ToolStarted { tool, .. } => write!(f, "tool {tool} starts, once"),
            Self::ToolCalled { result, .. } => {
                let (name, text) = (told(&result.name), quoted(&result.text));
                write!(f, "tool {name} ends ({:?}): {text}", result.status)
            }
            Self::Delegated { agent, .. } => write!(f, "gives a task to {agent}"),
            Self::DelegationEnded { agent, text, .. } => {
                write!(f, "has from {agent}: {}", quoted(text))
            }
            Self::QuestionAsked {
                operation,
                question,
            } => write!(f, "asks ({operation}): {}", quoted(&question.prompt)),
            Self::QuestionAnswered { operation, answer } => {
                write!(f, "is answered ({operation}): {}", value(answer))
            }
            Self::Heard { text, .. } => write!(f, "hears {}", quoted(text)),
            Self::Custom { name, data } => write!(f, "{}: {}", told(name), value(data)),
            Self::Preview(preview) => preview.fmt(f),
            other => fmt_upkeep(other, f),
        }
    }
}

/// Events about the run itself, and not about its task.
fn fmt_upkeep(event: &Event, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match event {
        Event::OperationFailed {
            kind, name, error, ..
        } if error.kind() == Some(&ErrorKind::Continues) => {
            write!(f, "{} waits", named(kind, name))
        }
        Event::OperationFailed {
            kind, name, error, ..
        } => write!(f, "{} fails: {}", named(kind, name), told(error)),
        Event::Changed { changed, .. } => match changed {
            Changed::State {
                scope,
                key,
                value: Some(set),
                ..
            } => {
                // The key is redacted with the value, because its name may mark the value as a secret.
                let shown = ghostlight_safety::redact(&json!({ (key.as_str()): set }));
                let shown = shown.as_object().and_then(|fields| fields.values().next());
                let shown = shown.map_or_else(String::new, Value::to_string);
                write!(f, "sets {scope}/{} to {}", told(key), quoted(&shown))
            }
            Changed::State { scope, key, .. } => write!(f, "deletes {scope}/{key}"),
            Changed::Artifact { scope, artifact } => write!(f, "saves {scope}/{artifact}"),
        },
        Event::OperationCompleted { kind, name, .. } => write!(f, "{} done", named(kind, name)),
        Event::OperationDropped { operation } => write!(f, "drops operation {operation}"),
        Event::Drifted { operation } => {
            write!(f, "asks its model otherwise than recorded ({operation})")
        }
        Event::Resumed { epoch } => write!(f, "is recovered (epoch {epoch})"),
        Event::Restarted { reason } => write!(f, "is run again: {}", told(reason)),
        Event::Parked { reason } => write!(f, "is parked: {}", told(reason)),
        Event::MessageQuarantined { reason, .. } => {
            write!(f, "sets a message aside: {}", told(reason))
        }
        Event::Cancelling { reason } => write!(f, "is being cancelled: {}", told(reason)),
        Event::BudgetWarning {
            resource,
            percent,
            used,
            bound,
        } => {
            f.write_str(&budget_use(*resource, *percent, *used, *bound))?;
            match resource {
                Resource::Entries => f.write_str(", and can go on in another run's journal"),
                _ => Ok(()),
            }
        }
        Event::RunEnded { end, .. } => match end {
            RunResult::Answered(text) => write!(f, "answers {}", quoted(text)),
            RunResult::Stopped(reason) => write!(f, "stops: {}", told(reason)),
            RunResult::Failed(error) => write!(f, "fails: {}", told(error)),
            RunResult::Continued(next) => write!(f, "goes on as run {next}"),
        },
        other => f.write_str(other.name()),
    }
}

impl fmt::Display for Preview {
    /// One line. Long texts are cut.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ModelStarted { model, attempt, .. } => {
                write!(f, "asks model {model} (attempt {attempt})")
            }
            // A piece may be a part of a secret, so its text is not shown. The whole is shown at the end.
            Self::Delta { delta, .. } => match delta {
                Delta::Text(text) => write!(f, "… says {} characters", text.chars().count()),
                Delta::Reasoning(text) => write!(f, "… thinks {} characters", text.chars().count()),
                _ => f.write_str("… writes a call"),
            },
            Self::ModelRetry {
                error, pause_ms, ..
            } => write!(f, "asks again in {pause_ms} ms: {}", told(error)),
            Self::ToolStarted { call, .. } => write!(f, "calls {}", Call(call)),
            Self::ToolProgress {
                fraction, message, ..
            } => match fraction {
                Some(fraction) => write!(f, "… {:.0}% {}", fraction * 100.0, told(message)),
                None => write!(f, "… {}", told(message)),
            },
            Self::ToolOutput { text, .. } => {
                write!(f, "… puts out {} characters", text.chars().count())
            }
        }
    }
}

struct Call<'a>(&'a ToolCall);

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arguments = match self.0.arguments.value() {
            Ok(arguments) => told(ghostlight_safety::redact(arguments)),
            Err(_) => told(self.0.arguments.text()),
        };
        write!(f, "{}({arguments})", told(&self.0.name))
    }
}

/// The used part of a bound, in the bound's unit.
fn budget_use(resource: Resource, percent: u32, used: u64, bound: u64) -> String {
    let of = |scale: f64, unit: &str| {
        let (used, bound) = (used as f64 / scale, bound as f64 / scale);
        format!("has used {used}{unit} of its {bound}{unit} of {resource}")
    };
    let told = match resource {
        Resource::CostMicros => of(1e6, ""),
        Resource::WallTime => of(1e3, " s"),
        _ => format!("has used {used} of its {bound} {resource}"),
    };
    format!("{told} (a warning at {percent}%)")
}

fn named(kind: &str, name: &str) -> String {
    if name.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind} {name}")
    }
}

/// A text on one line, in quotation marks, with control characters escaped.
fn quoted(text: &str) -> String {
    // Text beyond the cut is not searched, except so much that the beginning of a secret at the cut is recognised.
    let looked_at = text.char_indices().nth(LOOKED_AT);
    let text =
        ghostlight_safety::redact_text(&text[..looked_at.map_or(text.len(), |(end, _)| end)]);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}", format!("{}…", &text[..end])),
        None => format!("{text:?}"),
    }
}

/// A text on one line.
fn told(text: impl fmt::Display) -> String {
    ghostlight_safety::log_line(&text.to_string(), SHOWN)
}

/// A value on one line.
fn value(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => told(ghostlight_safety::redact(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::{RunId, Timestamp};

    #[test]
    fn a_record_is_one_line_whatever_a_model_wrote() {
        let event = Event::RunEnded {
            end: RunResult::Answered(format!("a\n\u{1b}[2J{}", "ä".repeat(500))),
            spent: Default::default(),
        };
        let path = vec!["desk".into(), "billing".into()];
        let line = EventRecord::new(RunId::from_random(1), Timestamp(0), path, event).to_string();
        assert!(
            line.starts_with(r#"desk/billing: answers "a\n\u{1b}[2Jää"#),
            "{line}"
        );
        assert!(line.ends_with("ä…\""), "{line}");
        assert!(!line.chars().any(char::is_control), "{line}");
        assert!(line.chars().count() < 300, "{line}");
    }
}
