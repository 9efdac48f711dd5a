#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{json, value::to_raw_value};

use super::*;
use crate::{
    contract::ItemBody,
    run::WaitFor,
    vocabulary::{OperationError, Timestamp},
};

pub(super) fn op(number: u32) -> OperationId {
    OperationId {
        leg: 0,
        lane: 0,
        number,
    }
}

pub(super) fn identity(name: &str, digest: u64) -> CallIdentity {
    CallIdentity::new("tool", name, CallDigest(digest), None)
}

fn unused() -> (Option<Resource>, ErasedOperation) {
    let begin = Box::new(|_| panic!("nobody begins it"));
    let reckon = |_: &mut Made| {};
    (None, ErasedOperation { begin, reckon })
}

pub(super) fn ask(
    machine: &mut RunMachine,
    number: u32,
    name: &str,
    digest: u64,
) -> Result<(), AgentError> {
    machine.ask(op(number), identity(name, digest), false, unused)
}

pub(super) fn completed(op: OperationId, name: &str, text: &str) -> Entry {
    Entry::Completed {
        op,
        kind: "tool".into(),
        name: name.to_owned(),
        digest: CallDigest(7),
        result: to_raw_value(&json!({ "Ok": text })).unwrap(),
        spent: Spent::default(),
        call: None,
        asked_by: None,
    }
}

pub(super) fn started(op: OperationId, name: &str) -> Entry {
    identity(name, 7).started(op, Begun::Effect)
}

fn emitted(op: OperationId, name: &str) -> Entry {
    Entry::Emitted {
        op,
        name: name.to_owned(),
        data: to_raw_value(&()).unwrap(),
    }
}

pub(super) fn machine_of(journal: impl IntoIterator<Item = Entry>) -> RunMachine {
    let mut recorded = Recorded::default();
    (0..)
        .zip(journal)
        .for_each(|(sequence, entry)| recorded.add(sequence, entry));
    RunMachine::default().next_leg(0, &mut recorded)
}

/// A leg with the recorded calls `a` and `b`, which ended in the other order, a note between them, and a call `c`
/// without an end.
fn recorded() -> RunMachine {
    machine_of([
        started(op(0), "a"),
        emitted(op(1), "said"),
        completed(op(2), "b", ""),
        completed(op(0), "a", ""),
        started(op(3), "c"),
    ])
}

fn take(machine: &mut RunMachine, number: u32) -> Option<Delivery> {
    match machine.poll(op(number), Waker::noop()) {
        Poll::Ready(delivery) => Some(delivery.unwrap()),
        Poll::Pending => None,
    }
}

#[test]
fn recorded_results_come_in_the_journals_order_and_then_everything_is_new() {
    let mut machine = recorded();
    let said = RecordedNote::Emitted("said".to_owned());
    ask(&mut machine, 0, "a", 7).unwrap();
    assert!(matches!(machine.next(), Next::NotAsked));
    assert_eq!(machine.note(op(1), &said), Ok(false));
    ask(&mut machine, 2, "b", 7).unwrap();
    assert!(machine.is_past() && machine.next_to_begin().is_none());
    for number in [2, 0] {
        assert!(take(&mut machine, number).is_none());
        let Next::Deliver(next) = machine.next() else {
            panic!("{number} is next");
        };
        assert_eq!(next.op, op(number));
        let waker = machine.deliver(next.op, Delivery::Recorded(next.result));
        assert!(waker.is_some() && take(&mut machine, number).is_some());
    }
    // An operation that began and has no end begins again.
    ask(&mut machine, 3, "c", 7).unwrap();
    assert!(
        machine
            .next_to_begin()
            .is_some_and(|(next, _)| next == op(3))
    );
    assert!(!machine.is_past());
    assert!(matches!(machine.next(), Next::Live));
    ask(&mut machine, 4, "d", 1).unwrap();
    assert!(
        machine
            .next_to_begin()
            .is_some_and(|(next, _)| next == op(4))
    );
    assert_eq!(machine.note(op(5), &said), Ok(true));
    assert!(machine.missed("the end").is_none());
}

#[test]
fn something_else_in_a_place_ends_the_leg_for_every_further_operation() {
    let other = RecordedNote::Emitted("other".to_owned());
    let asked = |number, name, digest, may_drift| {
        let identity = identity(name, digest);
        recorded().ask(op(number), identity, may_drift, unused)
    };
    let errors = [
        asked(0, "x", 7, true).unwrap_err(),
        asked(0, "a", 8, false).unwrap_err(),
        asked(1, "a", 7, false).unwrap_err(),
        recorded().note(op(0), &other).unwrap_err(),
        recorded().note(op(1), &other).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, AgentError::Diverged { .. }), "{error}");
    }
    let mut machine = recorded();
    machine.ask(op(0), identity("a", 8), true, unused).unwrap();
    let drifted = &machine.notes[..];
    assert!(
        matches!(
            drifted,
            [Entry::Drifted {
                recorded: CallDigest(7),
                found: CallDigest(8),
                ..
            }]
        ),
        "{drifted:?}"
    );
    let error = ask(&mut machine, 2, "x", 7).unwrap_err();
    assert_eq!(ask(&mut machine, 9, "d", 1), Err(error));
}

#[test]
fn what_is_under_way_goes_on_in_the_next_leg_and_its_end_is_for_nobody() {
    let mut machine = RunMachine::default();
    for number in [0, 1] {
        ask(&mut machine, number, "a", 7).unwrap();
    }
    let (begun, asked) = machine.next_to_begin().unwrap();
    let books = (None, asked.operation.reckon);
    machine.begin(begun, asked.identity, books, CancellationToken::new());
    drop(machine.detach());
    let mut next = machine.next_leg(1, &mut Recorded::default());
    assert!(next.next_to_begin().is_none() && next.call(op(1)).is_none());
    assert!(next.end(op(0)).is_some());
    assert!(next.operations.is_empty() && next.end(op(0)).is_none());
}

pub(super) fn result(operation: OperationId) -> ItemBody {
    let result = Ok("late".to_owned());
    ItemBody::Result { operation, result }
}

#[test]
fn an_item_for_an_operation_that_has_ended_or_was_dropped_goes() {
    let spent = Spent::default();
    let mut machine = machine_of([
        started(op(0), "a"),
        Entry::Dropped { op: op(0), spent },
        completed(op(1), "b", ""),
        started(op(2), "c"),
    ]);
    for number in 0..3 {
        machine.arrived(number.to_string(), result(op(number)));
    }
    let mut gone = Vec::new();
    while let Some(action) = machine.next_action() {
        let Action::Acknowledge(item) = action else {
            panic!("nothing ends");
        };
        gone.push(item);
    }
    assert_eq!(gone, ["0", "1"]);
}

/// How an operation comes to its end: by an act, at once, or by what it waits for.
const KINDS: [&str; 6] = ["act", "ready", "timer", "message", "result", "ticket"];

/// How many operations and notes a function makes.
const ASKED: u32 = 16;

/// The stages of an operation, by which the machine is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    Asked,
    Begun,
    Waiting,
    Ready,
    Delivered,
    Taken,
    Dropped,
}

/// A run with a function whose acts depend on nothing but the results that it got, and on its script.
struct World {
    machine: RunMachine,
    script: Vec<u8>,
    asked: u32,
    open: Vec<OperationId>,
    is: BTreeMap<OperationId, Is>,
    /// What the function got, in order.
    seen: Vec<(OperationId, String)>,
    journal: Vec<Entry>,
    acts: Vec<OperationId>,
    now: u64,
    /// Items that came, each with the number of entries after which it was acknowledged.
    items: Vec<(String, ItemBody, Option<usize>)>,
    /// How many items ever came.
    came: usize,
}

impl World {
    /// A run that goes on from this journal, and from the items that were not acknowledged with it.
    fn new(
        script: &[u8],
        journal: Vec<Entry>,
        items: &[(String, ItemBody, Option<usize>)],
    ) -> Self {
        let entries = journal.len();
        let kept = items
            .iter()
            .filter(|(.., at)| at.is_none_or(|at| at >= entries));
        let kept = kept.map(|(id, body, _)| (id.clone(), body.clone(), None));
        let mut world = Self {
            machine: machine_of(journal.iter().cloned()),
            script: script.to_vec(),
            asked: 0,
            open: Vec::new(),
            is: BTreeMap::new(),
            seen: Vec::new(),
            journal,
            acts: Vec::new(),
            now: 0,
            items: kept.collect(),
            came: items.len(),
        };
        for (id, body, _) in &world.items {
            world.machine.arrived(id.clone(), body.clone());
        }
        world.function();
        world.replay();
        world
    }

    fn replay(&mut self) {
        loop {
            match self.machine.next() {
                Next::Live => return,
                Next::NotAsked => panic!("{:?} is not asked for", self.machine.due.front()),
                Next::Deliver(next) => {
                    self.moves(next.op, &[Is::Asked], Is::Delivered);
                    self.deliver(next.op, Delivery::Recorded(next.result));
                }
            }
        }
    }

    fn moves(&mut self, op: OperationId, from: &[Is], to: Is) {
        let was = self.is.insert(op, to);
        assert!(
            was.is_some_and(|was| from.contains(&was)),
            "{op} from {was:?} to {to:?}"
        );
    }

    /// The function goes on after a result, until it can do no more.
    fn function(&mut self) {
        let from = self.seen.len() * 5;
        for act in 0..3 {
            let act = self.script[(from + act) % self.script.len()];
            if act >= 0xe0
                && let Some(op) = (!self.open.is_empty()).then(|| self.open.remove(0))
            {
                let was = self.is[&op];
                let stage = self.machine.drop_operation(op);
                assert!(stage.is_some() && self.machine.drop_operation(op).is_none());
                assert!(was != Is::Taken && was != Is::Dropped);
                self.is.insert(op, Is::Dropped);
                continue;
            }
            if self.asked == ASKED {
                continue;
            }
            let op = op(self.asked);
            self.asked += 1;
            if act >= 0xc0 {
                let note = RecordedNote::Emitted("said".to_owned());
                if self.machine.note(op, &note).unwrap() {
                    self.machine.notes.push(emitted(op, "said"));
                }
                continue;
            }
            let kind = KINDS[usize::from(act) % KINDS.len()];
            self.machine
                .ask(op, identity(kind, 7), false, unused)
                .unwrap();
            self.open.push(op);
            self.is.insert(op, Is::Asked);
        }
        let Some((notes, dropped, end)) = self.machine.take_noted() else {
            return;
        };
        assert_eq!(end, None);
        for (op, call) in dropped {
            self.acknowledge(call.unwrap().items);
            self.all_acknowledged(op);
            let spent = Spent::default();
            self.journal.push(Entry::Dropped { op, spent });
        }
        self.journal.extend(notes);
    }

    /// The function gets a result, and no other, and goes on.
    fn deliver(&mut self, op: OperationId, delivery: Delivery) {
        for open in &self.open {
            assert!(
                self.machine.poll(*open, Waker::noop()).is_pending(),
                "{open}"
            );
        }
        assert!(self.machine.deliver(op, delivery).is_some());
        let polled: Vec<_> = self
            .open
            .iter()
            .map(|op| self.machine.poll(*op, Waker::noop()))
            .collect();
        for (open, polled) in self.open.clone().into_iter().zip(polled) {
            let Poll::Ready(delivery) = polled else {
                assert_ne!(open, op);
                continue;
            };
            assert_eq!(open, op);
            let text = match delivery.unwrap() {
                Delivery::Live(output) => *output.unwrap().downcast::<String>().unwrap(),
                Delivery::Recorded(json) => {
                    let text: Result<String, OperationError> =
                        serde_json::from_str(json.get()).unwrap();
                    text.unwrap()
                }
            };
            self.moves(op, &[Is::Delivered], Is::Taken);
            self.seen.push((op, text));
        }
        self.open.retain(|open| *open != op);
        self.function();
    }

    /// Records the end of an operation. One that was dropped has none.
    fn complete(&mut self, op: OperationId, text: String) {
        let Some(call) = self.machine.end(op) else {
            assert_eq!(self.is[&op], Is::Dropped);
            return;
        };
        assert!(self.machine.end(op).is_none());
        self.moves(op, &[Is::Begun, Is::Waiting, Is::Ready], Is::Delivered);
        self.acknowledge(call.items);
        self.all_acknowledged(op);
        self.journal
            .push(completed(op, call.identity.name(), &text));
        let made = Made::new(text, Spent::default());
        self.deliver(op, Delivery::Live(Ok(made.into_output())));
    }

    fn acknowledge(&mut self, ids: impl IntoIterator<Item = String>) {
        for id in ids {
            let item = self.items.iter_mut().find(|(it, ..)| *it == id).unwrap();
            assert_eq!(
                item.2.replace(self.journal.len()),
                None,
                "{id} is acknowledged twice"
            );
        }
    }

    /// No item for an operation whose end or dropping is being recorded stays in the mailbox.
    fn all_acknowledged(&self, op: OperationId) {
        for (id, body, at) in &self.items {
            if matches!(body, ItemBody::Result { operation, .. } if *operation == op) {
                assert!(at.is_some(), "{id} for {op} stays");
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Complete(op, item, make) => {
                self.acknowledge(item);
                let output = make().unwrap().into_output();
                self.complete(op, *output.downcast::<String>().unwrap());
            }
            Action::Acknowledge(item) => self.acknowledge([item]),
            Action::Quarantine(_, item, _) | Action::Cancel(_, item) => panic!("{item} is read"),
            Action::GoOn(op, ..) => panic!("{op} ends with what comes for it"),
        }
    }

    fn begin(&mut self) {
        let Some((op, asked)) = self.machine.next_to_begin() else {
            return;
        };
        let kind = asked.identity.name().to_owned();
        let end = CancellationToken::new();
        self.machine.begin(op, asked.identity, (None, |_| {}), end);
        self.moves(op, &[Is::Asked], Is::Begun);
        let wait = |wait_for| {
            Wait::new(wait_for, |arrival| {
                let text = match arrival {
                    Arrival::Message(text) => text.to_string(),
                    Arrival::Result(text) => text.unwrap(),
                    _ => "time".to_owned(),
                };
                Ok(Made::new(text, Spent::default()))
            })
        };
        let at = Timestamp(self.now + u64::from(op.number % 5));
        match kind.as_str() {
            "act" | "ticket" => return self.acts.push(op),
            "ready" => {
                let make = || Ok(Made::new("made".to_owned(), Spent::default()));
                self.moves(op, &[Is::Begun], Is::Ready);
                return self.machine.ready(op, Box::new(make));
            }
            "timer" => self.machine.wait(op, wait(WaitFor::Timer(at))),
            "message" => self.machine.wait(op, wait(WaitFor::Message("m".into()))),
            _ => self.machine.wait(op, wait(WaitFor::Result)),
        }
        self.moves(op, &[Is::Begun], Is::Waiting);
    }

    /// The act of an operation ends, and the operation with it, unless it waits for a result then.
    fn act_ends(&mut self, choice: usize) {
        if self.acts.is_empty() {
            return;
        }
        let op = self.acts.remove(choice % self.acts.len());
        match self
            .machine
            .call(op)
            .map(|call| call.identity.name().to_owned())
        {
            None => assert_eq!(self.is[&op], Is::Dropped),
            Some(kind) if kind == "ticket" => {
                let wait = Wait::new(WaitFor::Result, |arrival| match arrival {
                    Arrival::Result(text) => Ok(Made::new(text.unwrap(), Spent::default())),
                    other => panic!("{other:?} is no result"),
                });
                self.machine.wait(op, wait);
                self.moves(op, &[Is::Begun], Is::Waiting);
            }
            Some(_) => self.complete(op, "acted".to_owned()),
        }
    }

    fn arrives(&mut self, id: String, body: ItemBody) {
        self.came += 1;
        self.machine.arrived(id.clone(), body.clone());
        self.items.push((id, body, None));
    }

    fn step(&mut self, choice: u8) {
        let which = usize::from(choice / 8);
        match choice % 8 {
            0 | 1 => self.begin(),
            2 => self.act_ends(which),
            3 => {
                self.now += 1 + which as u64;
                let now = Timestamp(self.now);
                if let Some(action) = self.machine.alarm(now, now) {
                    self.carry_out(action);
                }
            }
            4 => {
                let id = format!("m{}", self.came);
                let (name, value) = ("m".to_owned(), json!(id));
                self.arrives(id, ItemBody::Message { name, value });
            }
            5 => {
                let id = format!("r{}", self.came);
                let (operation, result) = (op(which as u32 % ASKED), Ok(id.clone()));
                self.arrives(id, ItemBody::Result { operation, result });
            }
            _ => {
                if let Some(action) = self.machine.next_action() {
                    self.carry_out(action);
                }
            }
        }
        self.agrees();
    }

    /// The machine stands where the stages say.
    fn agrees(&self) {
        for (op, is) in &self.is {
            let is_under_way = matches!(is, Is::Begun | Is::Waiting | Is::Ready);
            assert_eq!(
                self.machine.call(*op).is_some(),
                is_under_way,
                "{op} is {is:?}"
            );
            assert_eq!(
                self.machine.wait_of(*op).is_some(),
                *is == Is::Waiting,
                "{op} is {is:?}"
            );
        }
        let waits = self.is.values().any(|is| *is == Is::Waiting);
        assert_eq!(self.machine.has_waits(), waits);
        let stages = self
            .is
            .values()
            .filter(|is| !matches!(is, Is::Taken | Is::Dropped));
        assert_eq!(self.machine.operations.len(), stages.count());
    }

    /// Lets everything come to its end.
    fn settle(&mut self) {
        for round in 0..200 {
            if self.open.is_empty() {
                break;
            }
            (0..8).for_each(|choice| self.step(choice));
            for op in self.open.clone() {
                if self
                    .machine
                    .wait_of(op)
                    .is_some_and(|wait| wait.wait_for == WaitFor::Result)
                {
                    let id = format!("s{round}.{op}");
                    let (operation, result) = (op, Ok(id.clone()));
                    self.arrives(id, ItemBody::Result { operation, result });
                }
            }
        }
        assert!(self.open.is_empty(), "{:?} never end", self.is);
        assert!(self.machine.operations.is_empty() && self.machine.unasked.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn each_result_is_delivered_once_live_and_again_after_a_crash(
        script in prop::collection::vec(any::<u8>(), 8..80),
        choices in prop::collection::vec(any::<u8>(), 0..160),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut first = World::new(&script, Vec::new(), &[]);
        choices.iter().for_each(|choice| first.step(*choice));
        let entries = cut.index(first.journal.len() + 1);
        let kept = first.journal[..entries].to_vec();
        let mut second = World::new(&script, kept, &first.items);
        prop_assert!(first.seen.starts_with(&second.seen), "{:?}, {:?}", first.seen, second.seen);
        choices.iter().rev().for_each(|choice| second.step(*choice));
        second.settle();
        let again = World::new(&script, second.journal.clone(), &[]);
        prop_assert_eq!(&again.seen, &second.seen);
        prop_assert!(again.open.is_empty() && again.journal.len() == second.journal.len());
        // Each message and each result from outside is received once.
        let mut received: Vec<_> = second.seen.iter().map(|(_, text)| text).collect();
        received.retain(|text| !["acted", "made", "time"].contains(&text.as_str()));
        let all = received.len();
        received.sort();
        received.dedup();
        prop_assert_eq!(all, received.len());
    }
}
