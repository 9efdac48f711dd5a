#![allow(clippy::unwrap_used)]

use ghostlight_actors::vocabulary::{
    AgentError, ErrorKind, FinishReason, OperationError, OperationId, Question, StopReason,
    Timestamp, Usage,
};
use serde_json::json;

use super::*;

fn told(detail: Detail, events: Vec<(&[&str], Event)>) -> String {
    let mut timeline = Timeline::new(detail);
    let root = RunId::from_random(1);
    let mut text = String::new();
    for (path, event) in events {
        let run = if path.len() > 1 {
            RunId::from_random(2)
        } else {
            root
        };
        let path = path.iter().map(|name| (*name).to_owned()).collect();
        for line in timeline.lines(&EventRecord::new(run, Timestamp(0), path, event)) {
            let (name, words) = line.padded(9);
            text += &format!("{name} {words}\n");
        }
    }
    text
}

fn operation(number: u32) -> OperationId {
    OperationId {
        number,
        ..OperationId::default()
    }
}

fn model_called(text: &str, calls: Vec<ToolCall>) -> Event {
    Event::ModelCalled {
        operation: operation(0),
        model: "default".into(),
        text: text.into(),
        reasoning: String::new(),
        tool_calls: calls,
        sources: Vec::new(),
        finish: FinishReason::Stop,
        usage: Usage {
            input_tokens: 20,
            output_tokens: 5,
            ..Usage::default()
        },
        attempts: 2,
        latency_ms: 130,
    }
}

fn desk() -> Vec<(&'static [&'static str], Event)> {
    let add = ToolCall::new("c1", "add", json!({ "a": 1, "b": "two" }));
    let delegate = ToolCall::new("c2", "delegate_to_guide", json!({ "task": "look" }));
    let guide: &[&str] = &["desk", "guide"];
    let spent = Spent {
        model_calls: 2,
        tool_calls: 1,
        usage: Usage {
            input_tokens: 40,
            output_tokens: 10,
            cost_micros: 1500,
            ..Usage::default()
        },
        ..Spent::default()
    };
    vec![
        (
            &["desk"],
            Event::RunStarted {
                agent: "desk".into(),
                input: "Do\nit".into(),
                parent: None,
            },
        ),
        (
            &["desk"],
            Event::LegStarted {
                agent: "desk".into(),
                request: None,
            },
        ),
        (
            &["desk"],
            model_called("Let me see.", vec![add.clone(), delegate]),
        ),
        (
            &["desk"],
            Event::ToolCalled {
                operation: operation(1),
                result: ToolResult::new(&add, ToolStatus::Success, "3"),
                call: None,
            },
        ),
        (
            &["desk"],
            Event::Delegated {
                operation: operation(2),
                agent: "guide".into(),
                run: RunId::from_random(2),
            },
        ),
        (
            guide,
            Event::RunStarted {
                agent: "guide".into(),
                input: "look".into(),
                parent: Some(RunId::from_random(1)),
            },
        ),
        (
            guide,
            Event::RunEnded {
                end: RunResult::Answered("seen".into()),
                spent: Spent::default(),
            },
        ),
        (
            &["desk"],
            Event::DelegationEnded {
                operation: operation(2),
                agent: "guide".into(),
                text: "seen".into(),
            },
        ),
        (
            &["clerk"],
            Event::LegStarted {
                agent: "clerk".into(),
                request: Some("count".into()),
            },
        ),
        (
            &["clerk"],
            Event::RunEnded {
                end: RunResult::Answered("4".into()),
                spent,
            },
        ),
    ]
}

#[test]
fn progress_says_who_does_what() {
    let expected = "\
desk      is asked: Do it
desk      says: Let me see.
desk      calls add(a: 1, b: \"two\")
desk      add gave: 3
  guide   is asked by desk: look
  guide   answered (0 model calls, 0 tokens)
clerk     takes over: count
clerk     answered (2 model calls, 1 tool call, 50 tokens, cost 0.0015)
";
    assert_eq!(told(Detail::Progress, desk()), expected);
}

#[test]
fn a_timeline_leaves_nothing_out() {
    let expected = "\
desk      is asked: Do it
desk      begins
desk      model default answered in 130 ms, 2 attempts, 20 + 5 tokens (0.0.0)
desk      says: Let me see.
desk      calls add(a: 1, b: \"two\")
desk      calls delegate_to_guide(task: \"look\")
desk      add gave: 3
desk      gives a task to guide (0.0.2, run 00000000)
  guide   is asked by desk: look
  guide   answered (0 model calls, 0 tokens)
desk      got from guide: seen
clerk     takes over: count
clerk     answered (2 model calls, 1 tool call, 50 tokens, cost 0.0015)
";
    assert_eq!(told(Detail::Everything, desk()), expected);
}

#[test]
fn what_goes_wrong_and_what_is_asked_is_always_told() {
    let call = ToolCall::new("c1", "wipe", json!({ "disk": "/dev/sda" }));
    let result = |status| Event::ToolCalled {
        operation: operation(1),
        result: ToolResult::new(&call, status, "why"),
        call: None,
    };
    let error = AgentError::Operation(OperationError::new(ErrorKind::Model, "no server"));
    let events = vec![
        Event::QuestionAsked {
            operation: operation(1),
            question: Question::approval("May I?", call.clone()),
        },
        Event::QuestionAsked {
            operation: operation(2),
            question: Question::choice("Which?", ["red", "blue"]),
        },
        Event::QuestionAnswered {
            operation: operation(1),
            answer: json!(true),
        },
        Event::QuestionAnswered {
            operation: operation(2),
            answer: json!("red"),
        },
        result(ToolStatus::Error),
        result(ToolStatus::Denied),
        result(ToolStatus::Blocked),
        result(ToolStatus::Interrupted),
        result(ToolStatus::Unknown),
        Event::OperationFailed {
            operation: operation(3),
            kind: "model".into(),
            name: "default".into(),
            error: error.clone(),
        },
        Event::OperationFailed {
            operation: operation(4),
            kind: "tool".into(),
            name: "wait".into(),
            error: AgentError::Operation(OperationError::new(ErrorKind::Continues, "it continues")),
        },
        Event::Custom {
            name: "plan".into(),
            data: json!({ "steps": 2 }),
        },
        Event::Resumed { epoch: 2 },
        Event::Restarted {
            reason: "it panicked".into(),
        },
        Event::Parked {
            reason: error.clone(),
        },
        Event::Cancelling {
            reason: "enough".into(),
        },
        Event::RunEnded {
            end: RunResult::Failed(error),
            spent: Spent::default(),
        },
        Event::RunEnded {
            end: RunResult::Stopped(StopReason::MaxSteps(3)),
            spent: Spent::default(),
        },
    ];
    let path: &[&str] = &["desk"];
    let events: Vec<_> = events.into_iter().map(|event| (path, event)).collect();
    let expected = "\
desk      asks (0.0.1): May I?
desk        wipe: 1 argument
desk          disk: \"/dev/sda\"
desk      asks (0.0.2): Which? (red / blue)
desk      was answered: yes
desk      was answered: red
desk      wipe failed: why
desk      wipe was refused: why
desk      wipe was held back: why
desk      wipe was interrupted: why
desk      wipe may or may not have happened: why
desk      model default failed (0.0.3): no server
desk      tells plan: {\"steps\":2}
desk      continues where it was (epoch 2)
desk      is restarted: it panicked
desk      is parked: no server
desk      is being cancelled: enough
desk      failed: no server (0 model calls, 0 tokens)
desk      stopped: the bound of 3 steps was reached (0 model calls, 0 tokens)
";
    assert_eq!(told(Detail::Progress, events), expected);
}

#[test]
fn no_event_can_act_on_the_terminal() {
    let evil = "\x1b]0;x\x07\u{202e}\r";
    let call = ToolCall::new(evil, evil, evil);
    let mut question = Question::approval(evil, call.clone());
    question.options = vec![evil.into()];
    let id = operation(0);
    let events = vec![
        Event::RunStarted {
            agent: evil.into(),
            input: evil.into(),
            parent: None,
        },
        model_called(evil, vec![call.clone()]),
        Event::ToolCalled {
            operation: id,
            result: ToolResult::new(&call, ToolStatus::Error, evil),
            call: None,
        },
        Event::OperationFailed {
            operation: id,
            kind: evil.into(),
            name: evil.into(),
            error: AgentError::failed(evil),
        },
        Event::QuestionAsked {
            operation: id,
            question,
        },
        Event::QuestionAnswered {
            operation: id,
            answer: json!(evil),
        },
        Event::Custom {
            name: evil.into(),
            data: json!({ evil: evil }),
        },
        Event::DelegationEnded {
            operation: id,
            agent: evil.into(),
            text: evil.into(),
        },
        Event::RunEnded {
            end: RunResult::Stopped(StopReason::Other(evil.into())),
            spent: Spent::default(),
        },
    ];
    let path: &[&str] = &[evil];
    let events: Vec<_> = events.into_iter().map(|event| (path, event)).collect();
    let text = told(Detail::Everything, events);
    let acts = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(!text.chars().any(acts), "{text:?}");
}
