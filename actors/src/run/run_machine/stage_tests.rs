#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    sync::Arc,
    task::{Wake, Waker},
};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    tests::{ask, completed, machine_of, op, started},
    *,
};
use crate::{
    contract::ItemBody,
    run::{WaitFor, operation::Arrival},
    vocabulary::{OperationError, Question, RunId, Timestamp},
};

/// Lets an operation begin that consumes this.
fn begin(machine: &mut RunMachine, number: u32, resource: Option<Resource>) {
    ask(machine, number, "a", 7).unwrap();
    let (op, asked) = machine.next_to_begin().unwrap();
    let books = (resource, asked.operation.reckon);
    machine.begin(op, asked.identity, books, CancellationToken::new());
}

/// Lets an operation begin and wait for this. Its result tells what came.
fn wait(machine: &mut RunMachine, number: u32, wait_for: WaitFor) {
    begin(machine, number, None);
    machine.wait(op(number), waiting(wait_for));
}

fn waiting(wait_for: WaitFor) -> Wait<Made> {
    Wait::new(wait_for, |arrival| {
        let text = match arrival {
            Arrival::Message(value) | Arrival::Answer(value) => value.to_string(),
            Arrival::Timer => "time".to_owned(),
            other => format!("{other:?}"),
        };
        Ok(Made::new(text, Spent::default()))
    })
}

/// The operation that ends by this action, and its result.
fn ended(action: Option<Action>) -> Option<(OperationId, Result<String, OperationError>)> {
    let Action::Complete(op, _, make) = action? else {
        panic!("it ends nothing");
    };
    Some((op, make().map(text)))
}

fn text(made: Made) -> String {
    *made.into_output().downcast::<String>().unwrap()
}

fn message(text: &str) -> ItemBody {
    let (name, value) = ("m".to_owned(), json!(text));
    ItemBody::Message { name, value }
}

fn unfinished(machine: &RunMachine) -> Vec<OperationId> {
    machine.unfinished().into_iter().map(|(op, _)| op).collect()
}

#[test]
fn what_ended_or_was_dropped_is_not_unfinished_and_is_dropped_once() {
    let mut machine = machine_of([
        started(op(0), "a"),
        started(op(1), "a"),
        started(op(2), "a"),
        started(op(3), "a"),
        completed(op(3), "a", ""),
        started(op(4), "a"),
        Entry::Dropped {
            op: op(4),
            spent: Spent::default(),
        },
    ]);
    assert_eq!(unfinished(&machine), [op(0), op(1), op(2)]);
    begin(&mut machine, 0, None);
    machine.drop_operation(op(0));
    begin(&mut machine, 1, None);
    assert!(machine.end(op(1)).is_some());
    assert_eq!(unfinished(&machine), [op(2)]);
    // Only the first of these two is not recorded as dropped.
    for number in [2, 4] {
        ask(&mut machine, number, "a", 7).unwrap();
        machine.drop_operation(op(number));
    }
    assert_eq!(unfinished(&machine), []);
    let (_, dropped, _) = machine.take_noted().unwrap();
    let dropped: Vec<_> = dropped.into_iter().map(|(op, _)| op).collect();
    assert_eq!(dropped, [op(0), op(2)]);
}

#[test]
fn a_time_has_come_when_its_own_clock_shows_it() {
    let mut machine = RunMachine::default();
    wait(&mut machine, 0, WaitFor::Timer(Timestamp(5)));
    assert!(machine.alarm(Timestamp(9), Timestamp(4)).is_none());
    let end = ended(machine.alarm(Timestamp(0), Timestamp(5)));
    assert_eq!(end, Some((op(0), Ok("time".to_owned()))));

    let asks = |default: Option<Value>| {
        let mut question = Question::new("why?");
        (question.expires, question.default) = (Some(Timestamp(5)), default);
        WaitFor::Answer(Box::new(question))
    };
    wait(&mut machine, 1, asks(Some(json!("so"))));
    assert!(machine.alarm(Timestamp(4), Timestamp(9)).is_none());
    let end = ended(machine.alarm(Timestamp(5), Timestamp(0)));
    assert_eq!(end, Some((op(1), Ok("\"so\"".to_owned()))));
    wait(&mut machine, 2, asks(None));
    let (asked, end) = ended(machine.alarm(Timestamp(5), Timestamp(0))).unwrap();
    let kind = end.unwrap_err().kind;
    assert_eq!(
        (asked, kind),
        (op(2), crate::vocabulary::ErrorKind::Expired)
    );
    machine.end(op(2));

    // An answer in time leaves no alarm behind, and neither does an operation that is broken off.
    wait(&mut machine, 3, asks(None));
    let (operation, value) = (op(3), json!("because"));
    machine.arrived("3".to_owned(), ItemBody::Answer { operation, value });
    assert!(ended(machine.next_action()).is_some());
    wait(&mut machine, 4, asks(None));
    machine.end(op(4));
    assert_eq!(machine.first_times(), (None, None));
    assert!(!machine.has_waits());
}

#[test]
fn a_message_that_does_not_read_is_put_aside_and_the_next_one_is_received() {
    let mut machine = RunMachine::default();
    begin(&mut machine, 0, None);
    let reads = |value: &Value| match value == &json!("good") {
        true => Ok(()),
        false => Err("bad".to_owned()),
    };
    let wait = waiting(WaitFor::Message("m".into())).reading(reads);
    for text in ["worse", "good"] {
        machine.arrived(text.to_owned(), message(text));
    }
    machine.wait(op(0), wait);
    let aside = machine.next_action();
    assert!(matches!(aside, Some(Action::Quarantine(_, item, _)) if item == "worse"));
    let end = ended(machine.next_action());
    assert_eq!(end, Some((op(0), Ok("\"good\"".to_owned()))));
}

#[test]
fn a_childs_end_ends_its_own_operation_at_once_and_others_in_their_turn() {
    let mut machine = RunMachine::default();
    let run = RunId::from_random(1);
    for number in [0, 1] {
        let begun_by = op(0);
        wait(&mut machine, number, WaitFor::Child { begun_by, run });
    }
    let own = machine.child_ended(op(0), || Arrival::Timer);
    assert_eq!(
        own.map(|make| text(make().unwrap())),
        Some("time".to_owned())
    );
    let joined = ended(machine.next_action());
    assert_eq!(joined, Some((op(1), Ok("time".to_owned()))));
    assert!(machine.next_action().is_none());
}

#[test]
fn what_came_for_an_operation_of_the_last_leg_ends_it_in_the_next() {
    let mut machine = RunMachine::default();
    wait(&mut machine, 0, WaitFor::Message("m".into()));
    begin(&mut machine, 1, None);
    machine.arrived("first".to_owned(), message("first"));
    assert!(machine.poll(op(1), Waker::noop()).is_pending());
    assert_eq!(machine.waits_with(Waker::noop()), 1);
    drop(machine.detach());
    // The function that was dropped takes no result, and breaks nothing off.
    assert_eq!(machine.waits_with(Waker::noop()), 0);
    assert!(machine.drop_operation(op(1)).is_none() && machine.call(op(1)).is_some());
    machine.end(op(1));
    assert_eq!(machine.operations.len(), 1);
    let mut machine = machine.next_leg(1, &mut Recorded::default());
    let end = ended(machine.next_action());
    assert_eq!(end, Some((op(0), Ok("\"first\"".to_owned()))));
}

struct Own;

impl Wake for Own {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn the_part_of_the_function_that_looked_last_is_woken() {
    let mut machine = RunMachine::default();
    begin(&mut machine, 0, None);
    let [before, now] = [(); 2].map(|()| Waker::from(Arc::new(Own)));
    for waker in [&before, &now] {
        assert!(machine.poll(op(0), waker).is_pending());
    }
    machine.end(op(0));
    let made = Made::new(String::new(), Spent::default());
    let woken = machine.deliver(op(0), Delivery::Live(Ok(made.into_output())));
    assert!(woken.is_some_and(|woken| woken.data() == now.data()));
}

#[test]
fn what_is_under_way_is_counted_by_resource_and_taken_in_its_order() {
    let mut machine = RunMachine::default();
    for number in 0..32 {
        let of = [Resource::ModelCalls, Resource::ToolCalls];
        let resource = of.get(number as usize % 4).copied();
        begin(&mut machine, number, resource);
    }
    assert_eq!(machine.consuming(Resource::ModelCalls), 8);
    assert_eq!(machine.consuming(Resource::Tokens), 0);
    let open: Vec<_> = machine.take_open().into_iter().map(|(op, _)| op).collect();
    assert_eq!(open, (0..32).map(op).collect::<Vec<_>>());
}

#[test]
fn an_ended_leg_is_past_and_a_drift_is_told_once() {
    let mut machine = machine_of([started(op(0), "a")]);
    ask(&mut machine, 0, "a", 7).unwrap();
    assert!(!machine.is_past());
    machine.has_ended = true;
    assert!(machine.is_past());
    let drifts: Vec<bool> = [8, 8, 9, 9]
        .map(|digest| machine.drifts(op(0), CallDigest(digest)))
        .into();
    assert_eq!(drifts, [true, false, true, false]);
    assert!(!machine.drifts(op(1), CallDigest(8)));
}
