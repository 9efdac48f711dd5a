//! Tasks made of recorded events, and turns made of messages, as tables.
#![allow(clippy::unwrap_used, missing_docs)]

use ghostlight_a2a::{
    protocol::{Message, Part, QUESTION, Role, StreamResponse, Task, TaskState},
    translation::{ANSWER, TaskReader, Told, end_state, question_of, turn_of},
};
use ghostlight_actors::vocabulary::{
    AgentError, Delta, Event, EventRecord, OperationId, Preview, Question, RunId, RunResult, Spent,
    StopReason, Timestamp, ToolCall,
};
use proptest::prelude::*;
use serde_json::json;

fn run() -> RunId {
    RunId::from_random(7)
}

fn operation(number: u32) -> OperationId {
    format!("0.0.{number}").parse().unwrap()
}

fn of(run: RunId, event: Event) -> EventRecord {
    EventRecord::new(run, Timestamp(1_000), vec!["desk".into()], event)
}

fn started() -> Event {
    Event::RunStarted {
        agent: "desk".into(),
        input: "hello".into(),
        parent: None,
    }
}

fn ended(end: RunResult) -> Event {
    Event::RunEnded {
        end,
        spent: Spent::default(),
    }
}

fn asked(number: u32, question: Question) -> Event {
    Event::QuestionAsked {
        operation: operation(number),
        question,
    }
}

fn answered(number: u32, answer: serde_json::Value) -> Event {
    Event::QuestionAnswered {
        operation: operation(number),
        answer,
    }
}

fn piece(number: u32, attempt: u32, text: &str) -> Event {
    let delta = Delta::Text(text.into());
    Event::Preview(Preview::Delta {
        operation: operation(number),
        attempt,
        delta,
    })
}

fn begins(number: u32, attempt: u32) -> Event {
    let model = "default".into();
    Event::Preview(Preview::ModelStarted {
        operation: operation(number),
        attempt,
        model,
    })
}

fn secret() -> Question {
    Question::authentication("The key?", ToolCall::new("c", "bank", json!({})))
}

/// A task as a client has it that follows it, with the states that it saw.
fn followed(events: Vec<Event>) -> (Task, Vec<TaskState>) {
    let mut reader = TaskReader::new(run(), "c", "m");
    let mut task = reader.submitted(Timestamp(0));
    let mut states = vec![task.status.state];
    for event in events {
        for told in reader.read(&of(run(), event)) {
            match told {
                Told::Update(update) => {
                    task.apply(&update);
                    if let StreamResponse::StatusUpdate(update) = update {
                        states.push(update.status.state);
                    }
                }
                Told::Heard(message) => task.history.push(message),
                Told::Saved(_) => {}
            }
        }
    }
    assert_eq!(reader.state(), task.status.state);
    (task, states)
}

#[test]
fn the_states_of_a_task_are_those_of_its_run() {
    use TaskState::*;
    let question = || Question::new("Which?");
    for (events, states) in [
        (vec![], vec![Submitted]),
        (vec![started()], vec![Submitted, Working]),
        (
            vec![started(), ended(RunResult::Answered("done".into()))],
            vec![Submitted, Working, Completed],
        ),
        (
            vec![
                started(),
                ended(RunResult::Failed(AgentError::failed("no paper"))),
            ],
            vec![Submitted, Working, Failed],
        ),
        (
            vec![
                started(),
                ended(RunResult::Stopped(StopReason::Cancelled("x".into()))),
            ],
            vec![Submitted, Working, Canceled],
        ),
        (
            vec![
                started(),
                asked(1, question()),
                answered(1, json!("a")),
                ended(RunResult::Answered("b".into())),
            ],
            vec![Submitted, Working, InputRequired, Working, Completed],
        ),
        // Two questions: what is left is asked when one is answered.
        (
            vec![
                started(),
                asked(1, question()),
                asked(2, question()),
                answered(1, json!("a")),
                answered(2, json!("b")),
            ],
            vec![
                Submitted,
                Working,
                InputRequired,
                InputRequired,
                InputRequired,
                Working,
            ],
        ),
        // A secret is not said in a message; a question beside it may be answered.
        (
            vec![
                started(),
                asked(1, secret()),
                asked(2, question()),
                answered(2, json!("a")),
            ],
            vec![
                Submitted,
                Working,
                AuthRequired,
                InputRequired,
                AuthRequired,
            ],
        ),
        // Nobody waits for the answer any more.
        (
            vec![
                started(),
                asked(1, question()),
                Event::OperationDropped {
                    operation: operation(1),
                },
            ],
            vec![Submitted, Working, InputRequired, Working],
        ),
        (
            vec![
                started(),
                asked(1, question()),
                ended(RunResult::Stopped(StopReason::Deadline)),
            ],
            vec![Submitted, Working, InputRequired, Failed],
        ),
        // A parked run goes on where somebody retries it.
        (
            vec![
                started(),
                Event::Parked {
                    reason: AgentError::failed("odd"),
                },
                Event::Resumed { epoch: 2 },
                ended(RunResult::Answered("b".into())),
            ],
            vec![Submitted, Working, Failed, Working, Completed],
        ),
        // A restart is nobody's business.
        (
            vec![started(), Event::Resumed { epoch: 2 }],
            vec![Submitted, Working],
        ),
    ] {
        assert_eq!(followed(events).1, states);
    }
}

#[test]
fn how_a_run_ended_is_how_its_task_ended() {
    for (reason, state) in [
        (StopReason::Cancelled("x".into()), TaskState::Canceled),
        (StopReason::Escalated("x".into()), TaskState::Rejected),
        (StopReason::ContentFilter, TaskState::Rejected),
        (StopReason::Deadline, TaskState::Failed),
        (StopReason::MaxSteps(3), TaskState::Failed),
        (StopReason::Truncated, TaskState::Failed),
    ] {
        assert_eq!(end_state(&RunResult::Stopped(reason)), Some(state));
    }
    assert_eq!(end_state(&RunResult::Continued(run())), None);
}

#[test]
fn what_was_said_is_the_history_in_its_order() {
    let (task, _) = followed(vec![
        started(),
        asked(1, Question::choice("Which?", ["red", "blue"])),
        answered(1, json!("red")),
        ended(RunResult::Answered("a red one".into())),
    ]);
    let said: Vec<(Role, String)> = task.history.iter().map(|m| (m.role, m.content())).collect();
    assert_eq!(
        said,
        [
            (Role::User, "hello".to_owned()),
            (Role::Agent, "Which? (red, blue)".to_owned()),
            (Role::User, "red".to_owned()),
        ]
    );
    assert_eq!(task.history[0].message_id, "m");
    for message in &task.history[1..] {
        assert_eq!(message.named(QUESTION), Some("0.0.1"));
    }
    assert_eq!(task.artifacts[0].parts, [Part::text("a red one")]);
    let last = task.clone().with_history(Some(1));
    assert_eq!(last.history, task.history[2..]);
    assert!(task.with_history(Some(0)).history.is_empty());
}

#[test]
fn a_secret_that_was_given_is_in_no_history() {
    let (task, _) = followed(vec![
        started(),
        asked(1, secret()),
        answered(1, json!({ "given": true })),
    ]);
    assert!(
        task.history
            .iter()
            .all(|message| !message.message_id.ends_with("/answer"))
    );
}

#[test]
fn pieces_of_an_answer_are_appended_and_replaced_by_what_is_recorded() {
    let mut reader = TaskReader::new(run(), "c", "m");
    let mut told = Vec::new();
    for event in [
        started(),
        begins(1, 1),
        piece(1, 1, "lost"),
        // Another attempt voids the first.
        begins(1, 2),
        piece(1, 1, "late"),
        piece(1, 2, "Hel"),
        // A call that runs beside it is not mixed in.
        begins(2, 1),
        piece(2, 1, "beside"),
        piece(1, 2, "lo"),
        ended(RunResult::Answered("Hello".into())),
    ] {
        for one in reader.read(&of(run(), event)) {
            if let Told::Update(StreamResponse::ArtifactUpdate(update)) = one {
                assert_eq!(update.artifact.artifact_id, ANSWER);
                let text = update.artifact.parts[0].text.clone().unwrap();
                told.push((text, update.append, update.last_chunk));
            }
        }
    }
    let expected = [
        ("lost", false, false),
        ("Hel", false, false),
        ("lo", true, false),
        ("Hello", false, true),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(t, a, l)| (t.to_owned(), a, l))
        .collect();
    assert_eq!(told, expected);
}

#[test]
fn what_runs_below_say_and_how_they_end_is_theirs() {
    let child = RunId::from_random(8);
    let mut reader = TaskReader::new(run(), "c", "m");
    reader.read(&of(run(), started()));
    let below = Event::RunStarted {
        agent: "helper".into(),
        input: "x".into(),
        parent: Some(run()),
    };
    assert_eq!(reader.read(&of(child, below)), []);
    assert_eq!(reader.read(&of(child, begins(1, 1))), []);
    assert_eq!(reader.read(&of(child, piece(1, 1, "secret thought"))), []);
    // What one of them asks is asked of the client, and is over when it ends.
    assert_eq!(
        reader
            .read(&of(child, asked(1, Question::new("Which?"))))
            .len(),
        1
    );
    assert_eq!(reader.state(), TaskState::InputRequired);
    reader.read(&of(child, ended(RunResult::Answered("x".into()))));
    assert_eq!(reader.state(), TaskState::Working);
}

#[test]
fn a_run_that_goes_on_in_another_journal_is_the_same_task() {
    let mut reader = TaskReader::new(run(), "c", "m");
    let id = reader.submitted(Timestamp(0)).id;
    reader.read(&of(run(), started()));
    let next = run().next();
    assert_eq!(
        reader.read(&of(run(), ended(RunResult::Continued(next)))),
        []
    );
    assert_eq!(
        reader.read(&of(next, started())),
        [],
        "what began it was said before"
    );
    let told = reader.read(&of(next, ended(RunResult::Answered("done".into()))));
    assert_eq!((told.len(), reader.state()), (2, TaskState::Completed));
    let Told::Update(StreamResponse::StatusUpdate(update)) = &told[1] else {
        panic!("{told:?}");
    };
    assert_eq!(update.task_id, id);
}

#[test]
fn an_answer_with_a_schema_is_data() {
    for (text, is_data) in [("{\"n\":1}", true), ("[1]", true), ("no JSON", false)] {
        let mut reader = TaskReader::new(run(), "c", "m").structured(true);
        let told = reader.read(&of(run(), ended(RunResult::Answered(text.into()))));
        let Told::Update(StreamResponse::ArtifactUpdate(update)) = &told[0] else {
            panic!("{told:?}");
        };
        assert_eq!(update.artifact.parts[0].data.is_some(), is_data, "{text}");
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(started()),
        (0_u32..3).prop_map(|n| asked(n, Question::new("Which?"))),
        (0_u32..3).prop_map(|n| asked(n, secret())),
        (0_u32..3).prop_map(|n| answered(n, json!("x"))),
        (0_u32..3).prop_map(|n| Event::OperationDropped {
            operation: operation(n)
        }),
        (0_u32..3, 1_u32..3).prop_map(|(n, attempt)| begins(n, attempt)),
        (0_u32..3, 1_u32..3).prop_map(|(n, attempt)| piece(n, attempt, "x")),
        Just(ended(RunResult::Answered("done".into()))),
        Just(ended(RunResult::Stopped(StopReason::Cancelled("x".into())))),
        Just(Event::Parked {
            reason: AgentError::failed("odd")
        }),
        Just(Event::Resumed { epoch: 2 }),
    ]
}

proptest! {
    /// Whoever has the task as it was and hears the rest has the task as it is.
    #[test]
    fn a_task_and_what_is_told_afterwards_is_the_later_task(
        events in prop::collection::vec(any_event(), 0..24),
        cut in 0_usize..24,
    ) {
        let cut = cut.min(events.len());
        let (early, _) = followed(events[..cut].to_vec());
        let (late, _) = followed(events.clone());
        let mut reader = TaskReader::new(run(), "c", "m");
        for event in &events[..cut] {
            reader.read(&of(run(), event.clone()));
        }
        let mut task = early;
        for event in &events[cut..] {
            for told in reader.read(&of(run(), event.clone())) {
                match told {
                    Told::Update(update) => task.apply(&update),
                    Told::Heard(message) => task.history.push(message),
                    Told::Saved(_) => {}
                }
            }
        }
        prop_assert_eq!(task, late);
    }

    #[test]
    fn what_was_told_goes_over_the_wire_unchanged(events in prop::collection::vec(any_event(), 0..24)) {
        let (task, _) = followed(events);
        let text = serde_json::to_string(&task).unwrap();
        prop_assert_eq!(serde_json::from_str::<Task>(&text).unwrap(), task);
    }
}

#[test]
fn a_message_is_a_turn_with_its_id() {
    let said: Message = serde_json::from_value(json!({
        "messageId": "m-1", "role": "ROLE_USER", "odd": { "field": 1 },
        "parts": [
            { "text": "Look:" },
            { "raw": "QUJD", "mediaType": "text/plain", "filename": "a.txt" },
            { "url": "https://example.org/b.png", "mediaType": "image/png" },
            { "data": { "n": 1 } },
            { "data": null },
        ],
    }))
    .unwrap();
    let turn = turn_of(&said).unwrap();
    assert_eq!(turn.id.as_deref(), Some("m-1"));
    assert_eq!(turn.message.parts.len(), 5);
    assert_eq!(turn.message.content(), "Look:\n{\"n\":1}\nnull");
}

#[test]
fn what_is_no_message_is_refused() {
    let part = json!({ "text": "x" });
    for message in [
        json!({}),
        json!({ "messageId": "m", "role": "ROLE_USER" }),
        json!({ "messageId": "m", "role": "ROLE_USER", "parts": [] }),
        json!({ "messageId": "", "role": "ROLE_USER", "parts": [part] }),
        json!({ "messageId": "a\nb", "role": "ROLE_USER", "parts": [part] }),
        json!({ "messageId": "m".repeat(201), "role": "ROLE_USER", "parts": [part] }),
        json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [part] }),
        json!({ "messageId": "m", "role": "ROLE_UNSPECIFIED", "parts": [part] }),
        json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{}] }),
        json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x", "data": 1 }] }),
        json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "  " }] }),
        json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "raw": "?" }] }),
        json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "raw": "QUJD", "mediaType": "odd" }] }),
        json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "url": "file:///etc/passwd" }] }),
        json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "url": "https://ada:secret@example.org/b.png" }] }),
        json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "url": "https://" }] }),
        json!({ "messageId": "m", "role": "ROLE_USER", "parts": vec![part.clone(); 257] }),
    ] {
        let message: Message = serde_json::from_value(message).unwrap();
        assert!(turn_of(&message).is_err(), "{message:?}");
    }
    let mut message = Message::text(Role::User, "m", "x");
    assert_eq!(question_of(&message).unwrap(), None);
    let below = format!("{}/0.0.3", run());
    for (named, good) in [
        ("0.0.3", true),
        (below.as_str(), true),
        ("x", false),
        ("x/0.0.3", false),
    ] {
        message.metadata = json!({ QUESTION: named }).as_object().cloned();
        assert_eq!(question_of(&message).is_ok(), good, "{named}");
    }
}
