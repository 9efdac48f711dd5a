//! Questions of a run, and the answers that a person types.

use std::collections::VecDeque;

use ghostlight_actors::{
    run::answers,
    vocabulary::{OperationId, Question, QuestionKind, RunId},
};
use ghostlight_safety::unambiguous_json;
use serde_json::{Value, json};

use super::{
    arguments::Decision,
    asking::{Asked, Fold, PAGE},
    typing::Typing,
};

/// How many digits of a digest are shown.
const DIGITS: usize = 16;

/// A question that a run waits for.
pub(super) type Open = (RunId, OperationId, Question);

/// The answer that a text stands for.
///
/// # Errors
/// The possible answers.
pub(super) fn answer_of(question: &Question, text: &str) -> Result<Value, String> {
    let text = text.trim();
    let word = text.to_lowercase();
    let yes = ["y", "yes", "true", "ok", "approve"].contains(&word.as_str());
    let no = ["n", "no", "false", "deny"].contains(&word.as_str());
    match question.kind {
        QuestionKind::Approval if word == "always" => {
            Ok(json!({ "approved": true, "remember": true }))
        }
        QuestionKind::Approval => match (yes, no) {
            (true, _) => Ok(Value::Bool(true)),
            (_, true) => Ok(Value::Bool(false)),
            _ => approval(question, text),
        },
        QuestionKind::Confirmation => match (yes, no) {
            (true, _) => Ok(Value::Bool(true)),
            (_, true) => Ok(Value::Bool(false)),
            _ => Err(String::from("answer yes or no")),
        },
        QuestionKind::InDoubt => match word.as_str() {
            "happened" | "it happened" => Ok(Value::Bool(true)),
            "did not" | "did-not" | "it did not" => Ok(Value::Bool(false)),
            _ if yes => Ok(Value::Bool(true)),
            _ if no => Ok(Value::Bool(false)),
            _ => Err(String::from("did it happen? Answer yes or no")),
        },
        QuestionKind::Choice => choice(question, text, &word),
        // Any text is taken as it is; an empty one is a refusal.
        QuestionKind::Authentication if text.is_empty() => Ok(Value::Bool(false)),
        QuestionKind::Authentication => Ok(Value::String(text.to_owned())),
        _ => Ok(free(text)),
    }
}

/// An approval from `no, because …`, or from a decision as JSON.
fn approval(question: &Question, text: &str) -> Result<Value, String> {
    let written = unambiguous_json(text);
    if let Err(error) = &written
        && error.is_data()
    {
        return Err(error.to_string());
    }
    if let Ok(decision @ Value::Object(_)) = written {
        return if answers(question, &decision) {
            Ok(decision)
        } else {
            Err(String::from(
                "a decision is {\"approved\": true} or false, and may have `arguments`, `value`, \
                 `reason` and `remember`",
            ))
        };
    }
    let lower = text.to_lowercase();
    for word in ["no", "deny"] {
        let rest = lower
            .strip_prefix(word)
            .filter(|rest| rest.starts_with([' ', ',', ':']));
        // The prefix is ASCII, so it is as long in the text itself.
        if rest.is_some()
            && let Some(reason) = text.get(word.len()..)
        {
            let reason = reason.trim_start_matches([' ', ',', ':']);
            return Ok(denied(reason));
        }
    }
    Err(String::from("answer yes, or no with or without a reason"))
}

fn denied(reason: &str) -> Value {
    match reason.trim() {
        "" => Value::Bool(false),
        reason => json!({ "approved": false, "reason": reason }),
    }
}

fn choice(question: &Question, text: &str, word: &str) -> Result<Value, String> {
    let options = &question.options;
    let exact = options.iter().find(|option| *option == text);
    let same = || options.iter().find(|option| option.to_lowercase() == word);
    let labelled = |option: &&String| question.label(option).to_lowercase() == word;
    let labelled = || options.iter().find(labelled);
    let numbered = || options.get(word.parse::<usize>().ok()?.checked_sub(1)?);
    let chosen = exact.or_else(same).or_else(labelled).or_else(numbered);
    chosen
        .map(|option| Value::String(option.clone()))
        .ok_or_else(|| {
            let labels = options.iter().map(|option| question.label(option));
            format!("answer one of: {}", labels.collect::<Vec<_>>().join(", "))
        })
}

/// A text, unless it is a JSON object, list or string, and names nothing twice.
fn free(text: &str) -> Value {
    let looks_like_json = text.starts_with(['{', '[', '"']);
    let value = looks_like_json
        .then(|| unambiguous_json(text).ok())
        .flatten();
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// The answer that an option of the command stands for.
///
/// # Errors
/// When the question wants another kind of answer.
pub(super) fn decided(question: &Question, decision: &Decision) -> Result<Value, String> {
    use QuestionKind::{Approval, Confirmation, InDoubt};
    let wants = |kinds: &[QuestionKind]| {
        if kinds.contains(&question.kind) {
            Ok(())
        } else {
            Err(format!(
                "it asks something else: {}",
                Asked::of(question, Fold::Long).text()
            ))
        }
    };
    if let Some(reason) = &decision.deny {
        wants(&[Approval, Confirmation])?;
        let approval = question.kind == Approval;
        return Ok(if approval {
            denied(reason)
        } else {
            Value::Bool(false)
        });
    }
    wants(if decision.approve {
        &[Approval, Confirmation]
    } else {
        &[InDoubt]
    })?;
    Ok(Value::Bool(decision.approve || decision.happened))
}

/// The answer of `--yes`, which only approves.
pub(super) fn yes(question: &Question) -> Option<Value> {
    let approves = matches!(
        question.kind,
        QuestionKind::Approval | QuestionKind::Confirmation
    );
    approves.then_some(Value::Bool(true))
}

/// The question as it is put to a person; `hidden` tells whether the typed answer stays invisible.
pub(super) fn prompt(agent: &str, question: &Question, hidden: bool) -> String {
    let asked = Asked::of(question, Fold::Long);
    let how = match question.kind {
        QuestionKind::Approval => "[yes / no, because … / always]",
        QuestionKind::Confirmation | QuestionKind::InDoubt => "[yes / no]",
        QuestionKind::Authentication if hidden => "[is not shown; nothing refuses]",
        QuestionKind::Authentication => "[is shown as you type it; nothing refuses]",
        QuestionKind::Form => "[a JSON object]",
        _ => ">",
    };
    let more = match (asked.folded, asked.redacted) {
        (false, false) => "",
        (true, false) => " (? shows all of it)",
        (_, true) => " (? shows all of it, ?? also what is redacted)",
    };
    let text = asked.text();
    let gap = if asked.lines.len() > 1 { '\n' } else { ' ' };
    format!("{agent} asks: {text}{gap}{how}{more}")
}

/// A person's request to see a call before answering: `?` or `??`, and the number of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// Whether what is redacted is shown too.
    pub(super) reveal: bool,
    /// The page, from 1.
    pub(super) page: usize,
}

impl Look {
    /// The request of a typed line to see this question, if it is one.
    pub(super) fn asked(question: &Question, line: &str) -> Option<Self> {
        question.call.as_ref()?;
        let line = line.trim();
        let (reveal, page) = match line.strip_prefix("??") {
            Some(page) => (true, page),
            None => (false, line.strip_prefix('?')?),
        };
        let page = match page.trim() {
            "" => 1,
            page => page.parse().ok()?,
        };
        Some(Self { reveal, page })
    }

    /// The requested page of the question.
    pub(super) fn at(self, question: &Question) -> String {
        let lines = Asked::of(question, Fold::Nothing).lines;
        let pages = lines.len().div_ceil(PAGE).max(1);
        let page = self.page.clamp(1, pages);
        let from = (page - 1) * PAGE;
        let shown = lines.iter().skip(from).take(PAGE);
        let text: Vec<&str> = shown.map(String::as_str).collect();
        let mark = if self.reveal { "??" } else { "?" };
        let next = match page < pages {
            true => format!("; {mark} {} shows the next", page + 1),
            false => String::new(),
        };
        format!("{}\n(page {page} of {pages}{next})", text.join("\n"))
    }
}

/// An answer that counts only for the call that the question shows.
pub(super) fn bound(question: &Question, value: Value) -> Value {
    let Some(digest) = question
        .digest
        .filter(|_| question.kind == QuestionKind::Approval)
    else {
        return value;
    };
    match value {
        Value::Bool(approved) => json!({ "approved": approved, "digest": digest }),
        Value::Object(mut fields) => {
            fields.entry("digest").or_insert_with(|| json!(digest));
            Value::Object(fields)
        }
        other => other,
    }
}

/// How to answer a question from another process.
pub(super) fn how_to_answer(run: RunId, open: &Open, several: bool, store: &str) -> String {
    let (asking, operation, question) = open;
    // Two runs of one tree may ask in operations of the same name.
    let run = if several { *asking } else { run };
    let operation = if several {
        format!(" {operation}")
    } else {
        String::new()
    };
    let run = run.short();
    let digest = question.digest.map(|digest| digest.to_string());
    let digest = digest.as_ref().and_then(|digest| digest.get(..DIGITS));
    let answer = match question.kind {
        QuestionKind::Approval if digest.is_some() => {
            let digest = digest.unwrap_or_default();
            let how = format!("--approve --digest {digest}{store}   (or --deny [REASON])");
            return format!("ghostlight answer {run}{operation} {how}");
        }
        QuestionKind::Approval | QuestionKind::Confirmation => "--approve   (or --deny [REASON])",
        QuestionKind::InDoubt => "--happened   (or --did-not)",
        QuestionKind::Choice => "OPTION",
        QuestionKind::Form => "'{\"FIELD\": VALUE, …}'",
        // Not on the command line, where others can read it.
        QuestionKind::Authentication => "-   (and what is asked for on stdin)",
        _ => "TEXT",
    };
    format!("ghostlight answer {run}{operation} {answer}{store}")
}

/// Asks a person at the terminal, one question after the other.
#[derive(Debug, Default)]
pub(super) struct Person {
    /// The questions, each with the agent that asks.
    queue: VecDeque<(String, Open)>,
    typing: Option<Typing>,
    gone: bool,
}

impl Person {
    /// The question that is being put, and the agent that asks it.
    pub(super) fn current(&self) -> Option<&(String, Open)> {
        self.queue.front()
    }

    /// Whether nobody answers any more.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Queues one more question of this agent.
    pub(super) fn ask(&mut self, agent: &str, question: Open) {
        self.queue.push_back((agent.to_owned(), question));
    }

    /// Listens from here on: a line typed before is not an answer to a question put now.
    pub(super) fn listen(&mut self) {
        if self.typing.is_none() {
            self.typing = Typing::new().ok();
        }
        if let Some(typing) = &mut self.typing {
            typing.forget();
        }
    }

    /// Withdraws a question. Returns `true` when it was the current one.
    pub(super) fn take_back(&mut self, run: RunId, operation: OperationId) -> bool {
        let is_this = |asked: &(String, Open)| (asked.1.0, asked.1.1) == (run, operation);
        let current = self.queue.front().is_some_and(is_this);
        self.queue.retain(|asked| !is_this(asked));
        current
    }

    /// The next line that the person types; waits for ever if no question is open.
    pub(super) async fn line(&mut self) -> Option<String> {
        if self.queue.is_empty() {
            return std::future::pending().await;
        }
        let line = match &mut self.typing {
            Some(typing) if !self.gone => typing.line().await,
            _ => None,
        };
        self.gone = line.is_none();
        line
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::vocabulary::ToolCall;

    use super::*;

    fn of(kind: QuestionKind) -> Question {
        let mut question = Question::choice("?", ["Red", "blue", "2"]);
        question.kind = kind;
        question
    }

    #[test]
    fn an_option_is_chosen_by_its_label_and_answered_by_itself() {
        let regions = [("eu-central-1", "Frankfurt"), ("us-east-1", "Virginia")];
        let question = Question::labelled_choice("Where?", regions);
        let shown = Asked::of(&question, Fold::Long).text();
        assert!(shown.contains("(Frankfurt / Virginia)"), "{shown}");
        for typed in ["frankfurt", "Frankfurt", "eu-central-1", "1"] {
            let answer = answer_of(&question, typed).unwrap();
            assert_eq!(answer, json!("eu-central-1"), "{typed}");
            assert!(answers(&question, &answer));
        }
        let wrong = answer_of(&question, "Dublin").unwrap_err();
        assert_eq!(wrong, "answer one of: Frankfurt, Virginia");
        // The stored and reported question keeps the labels.
        let json = serde_json::to_string(&question).unwrap();
        assert_eq!(serde_json::from_str::<Question>(&json).unwrap(), question);
    }

    #[test]
    fn what_a_person_types_becomes_an_answer_that_the_run_takes() {
        use QuestionKind::{Approval, Choice, Confirmation, InDoubt, Text};
        let cases = [
            (Approval, "yes", json!(true)),
            (Approval, " Y ", json!(true)),
            (Approval, "no", json!(false)),
            (
                Approval,
                "No, too dear",
                json!({ "approved": false, "reason": "too dear" }),
            ),
            (
                Approval,
                "deny: später",
                json!({ "approved": false, "reason": "später" }),
            ),
            (
                Approval,
                r#"{"approved":true,"arguments":{"a":1}}"#,
                json!({ "approved": true, "arguments": { "a": 1 } }),
            ),
            (
                Approval,
                "always",
                json!({ "approved": true, "remember": true }),
            ),
            (Confirmation, "ok", json!(true)),
            (Confirmation, "n", json!(false)),
            (InDoubt, "happened", json!(true)),
            (InDoubt, "did not", json!(false)),
            (InDoubt, "yes", json!(true)),
            (Choice, "Red", json!("Red")),
            (Choice, "BLUE", json!("blue")),
            (Choice, "1", json!("Red")),
            (Choice, "2", json!("2")),
            (Text, " 42 ", json!("42")),
            (Text, "[1, 2]", json!([1, 2])),
            (Text, "[sic]", json!("[sic]")),
        ];
        for (kind, text, expected) in cases {
            let question = of(kind);
            let answer = answer_of(&question, text).unwrap();
            assert_eq!(answer, expected, "{kind:?} {text:?}");
            assert!(answers(&question, &answer), "{kind:?} {text:?}");
        }
        for (kind, text) in [
            (Approval, "perhaps"),
            (Approval, "none"),
            (Approval, r#"{"approve":true}"#),
            (Approval, r#"{"approved":true,"argument":{"a":1}}"#),
            (Confirmation, ""),
            (InDoubt, "x"),
            (Choice, "green"),
            (Choice, "0"),
        ] {
            assert!(answer_of(&of(kind), text).is_err(), "{kind:?} {text:?}");
        }
    }

    #[test]
    fn options_answer_only_what_they_are_for() {
        let approve = Decision {
            approve: true,
            ..Decision::default()
        };
        let deny = Decision {
            deny: Some("no".into()),
            ..Decision::default()
        };
        let did_not = Decision {
            did_not: true,
            ..Decision::default()
        };
        let happened = Decision {
            happened: true,
            ..Decision::default()
        };
        let approval = Question::approval("?", ToolCall::new("1", "wipe", "{}"));
        assert_eq!(decided(&approval, &approve), Ok(json!(true)));
        assert_eq!(
            decided(&approval, &deny),
            Ok(json!({ "approved": false, "reason": "no" }))
        );
        assert_eq!(
            decided(&of(QuestionKind::Confirmation), &deny),
            Ok(json!(false))
        );
        assert_eq!(
            decided(&of(QuestionKind::InDoubt), &happened),
            Ok(json!(true))
        );
        assert_eq!(
            decided(&of(QuestionKind::InDoubt), &did_not),
            Ok(json!(false))
        );
        assert!(decided(&of(QuestionKind::InDoubt), &approve).is_err());
        assert!(decided(&of(QuestionKind::Choice), &approve).is_err());
        assert!(decided(&approval, &happened).is_err());
    }

    #[test]
    fn yes_approves_and_decides_nothing_else() {
        let text = Question::new("Your name?");
        assert_eq!(yes(&text), None);
        assert_eq!(yes(&of(QuestionKind::InDoubt)), None);
        assert_eq!(yes(&of(QuestionKind::Choice)), None);
        assert_eq!(yes(&of(QuestionKind::Approval)), Some(json!(true)));
    }
}
