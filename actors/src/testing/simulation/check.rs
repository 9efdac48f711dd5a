//! The promises that must hold at the end of a simulation.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt;

use super::{
    set_up::Simulation,
    world::{CallKey, World},
};
use crate::{
    contract::{DynStore, ItemBody, RunFilter, RunRow, RunStatus, StoredLine},
    run::{Observer, operations::Updated},
    session::SessionFold,
    testing::check_transcript,
    vocabulary::{
        Begun, Effect, Entry, EventRecord, JournalId, ModelResponse, OperationError, RunEnd, RunId,
        SessionId, Spent, ToolResult, ToolStatus,
    },
};

/// How long after its cancellation was acknowledged a run may still come to another end, in milliseconds: its owner
/// polls 40 times a second.
const CANCEL_MS: u64 = 3_000;

/// A run as the disk holds it.
struct Record {
    row: RunRow,
    lines: Vec<StoredLine>,
    entries: Vec<Entry>,
}

type Records = BTreeMap<RunId, Record>;

pub(super) fn check(simulation: &Simulation, world: &World) {
    let records = records(world);
    for (run, record) in &records {
        let faults = check_run(*run, record);
        if !faults.is_empty() {
            for stored in &record.lines {
                world.tell(format_args!("  {run} has {}", stored.line.text));
            }
        }
        faults.into_iter().for_each(|fault| world.violate(fault));
    }
    let mut faults = Vec::new();
    check_acknowledged(world, &records, &mut faults);
    check_calls(world, &records, &mut faults);
    check_messages(simulation, &records, &mut faults);
    check_children(&records, &mut faults);
    check_spent(&records, &mut faults);
    check_state(world, &records, &mut faults);
    check_sessions(simulation, world, &records, &mut faults);
    check_events(world, &mut faults);
    faults.into_iter().for_each(|fault| world.violate(fault));
}

fn records(world: &World) -> Records {
    let runs = world.disk.runs(RunFilter::default());
    let rows = runs.now_or_never().and_then(Result::ok).unwrap_or_default();
    let journals = world.journals();
    let record = |row: RunRow| {
        let lines = journals.read(JournalId::Run(row.run), 0, usize::MAX);
        let lines = lines
            .now_or_never()
            .and_then(Result::ok)
            .unwrap_or_default();
        let entries = lines.iter().filter_map(|stored| stored.line.decode().ok());
        let entries = entries.collect();
        (
            row.run,
            Record {
                row,
                lines,
                entries,
            },
        )
    };
    rows.into_iter().map(record).collect()
}

/// The status of each open run and its last entry, for a person who investigates a hang.
pub(super) fn standing(world: &World) -> String {
    let records = records(world);
    let open = records
        .values()
        .filter(|record| !record.row.status.is_ended());
    let words = open.map(|Record { row, lines, .. }| {
        let last = lines.last().map_or("", |stored| &stored.line.text);
        format!("{} ({}) is {}: {last}", row.run, row.agent, row.status)
    });
    words.collect::<Vec<_>>().join("; ")
}

/// A run must have one end, one result for each call, and a row that agrees with them.
fn check_run(run: RunId, record: &Record) -> Vec<String> {
    let mut faults = Vec::new();
    if record.entries.len() != record.lines.len() {
        faults.push(format!("run {run} has entries that do not read"));
    }
    if !record.row.status.is_ended() {
        faults.push(format!("run {run} is {}", record.row.status));
        return faults;
    }
    let ends = record.entries.iter().filter_map(|entry| match entry {
        Entry::RunEnded(end) => Some(end),
        _ => None,
    });
    let ends: Vec<_> = ends.collect();
    if ends.len() != 1 || !matches!(record.entries.last(), Some(Entry::RunEnded(_))) {
        faults.push(format!("run {run} has {} ends", ends.len()));
    }
    let cancelled = record
        .entries
        .iter()
        .any(|entry| matches!(entry, Entry::CancelRequested { .. }));
    for end in ends {
        let status = record.row.status;
        if !says(end, status) {
            faults.push(format!("run {run} is {status} and ended as {end:?}"));
        }
        let answered = matches!(**end, RunEnd::Answered { .. } | RunEnd::Continued { .. });
        if cancelled && answered {
            faults.push(format!("run {run} was cancelled and ended as {end:?}"));
        }
    }
    let mut completed = BTreeSet::new();
    for entry in &record.entries {
        if let Entry::Completed { op, .. } = entry
            && !completed.insert(*op)
        {
            faults.push(format!("{run}/{op} has two results"));
        }
    }
    faults
}

fn says(end: &RunEnd, status: RunStatus) -> bool {
    match end {
        RunEnd::Answered { .. } => status == RunStatus::Answered,
        RunEnd::Stopped { .. } => matches!(status, RunStatus::Stopped | RunStatus::Cancelled),
        RunEnd::Failed { .. } => status == RunStatus::Failed,
        RunEnd::Continued { .. } => status == RunStatus::Continued,
    }
}

/// Everything that was acknowledged as recorded must be there.
fn check_acknowledged(world: &World, records: &Records, faults: &mut Vec<String>) {
    let ledger = world.ledger.lock();
    for ((key, turn), run) in &ledger.turns {
        if !records.contains_key(run) {
            faults.push(format!(
                "turn {turn} of {key} was taken and its run {run} is lost"
            ));
        }
    }
    for (run, at) in &ledger.cancelled {
        let Some(record) = records.get(run).filter(|_| !ledger.jumped) else {
            continue;
        };
        let asked = |entry: &Entry| matches!(entry, Entry::CancelRequested { .. });
        let ended = record.lines.last().map(|last| last.line.at.since(*at));
        let late = ended.is_some_and(|after| after.as_millis() > u128::from(CANCEL_MS));
        if late && !record.entries.iter().any(asked) {
            let status = record.row.status;
            faults.push(format!(
                "run {run} was told to be cancelled, and went on to be {status}"
            ));
        }
    }
    for (run, told) in &ledger.outcomes {
        let last = continued(*run, records);
        let end = records.get(&last).and_then(|record| record.entries.last());
        let Some(Entry::RunEnded(end)) = end else {
            faults.push(format!("{run} came to {told}, and its end is lost"));
            continue;
        };
        let is = match end.outcome() {
            Some(Ok(outcome)) => format!("{outcome:?}"),
            Some(Err(error)) => format!("run {last} failed: {error}"),
            None => String::new(),
        };
        if is != *told {
            faults.push(format!("{run} came to {told}, and is recorded as {is}"));
        }
    }
}

/// The run that continued this one.
fn continued(run: RunId, records: &Records) -> RunId {
    let mut last = run;
    while let Some(record) = records.get(&last)
        && let Some(Entry::RunEnded(end)) = record.entries.last()
        && let RunEnd::Continued { next, .. } = **end
    {
        last = next;
    }
    last
}

/// No result is invented: each recorded result was given by a model, tool or person. A `once` call without a known
/// end is recorded as in doubt.
fn check_calls(world: &World, records: &Records, faults: &mut Vec<String>) {
    let ledger = world.ledger.lock();
    let mut begun: BTreeMap<(CallKey, &str), (u32, Effect)> = BTreeMap::new();
    for begin in &ledger.begun {
        let call = (begin.call, begin.name.as_str());
        begun.entry(call).or_insert((0, begin.effect)).0 += 1;
    }
    for (run, record) in records {
        for entry in &record.entries {
            let Entry::Completed {
                op, kind, result, ..
            } = entry
            else {
                continue;
            };
            let call = (*run, *op);
            let given = ledger.given.get(&call);
            match &**kind {
                "tool" => {
                    let Ok(Ok(result)) = read::<ToolResult>(result.get()) else {
                        continue;
                    };
                    let answers = ledger.answers.contains_key(&call);
                    if result.status == ToolStatus::Success && !answers && result.truncated == 0 {
                        let text = &result.text;
                        if given.is_none_or(|given| !given.iter().any(|given| given == text)) {
                            faults.push(format!("{run}/{op}: no tool said {text:?}"));
                        }
                    }
                }
                "model" => {
                    let Ok(Ok(response)) = read::<ModelResponse>(result.get()) else {
                        continue;
                    };
                    let said = serde_json::to_string(&response.message).unwrap_or_default();
                    let known = ledger.said.get(&call);
                    if known.is_none_or(|known| !known.contains(&said)) {
                        faults.push(format!("{run}/{op}: no model said {said}"));
                    }
                }
                "ask" => {
                    let Ok(Ok(answer)) = read::<serde_json::Value>(result.get()) else {
                        continue;
                    };
                    let known = ledger.answers.get(&call);
                    if known.is_none_or(|known| !known.contains(&answer.to_string())) {
                        faults.push(format!("{run}/{op}: nobody answered {answer}"));
                    }
                }
                _ => {}
            }
        }
    }
    for (((run, op), _), (times, effect)) in begun {
        if effect == Effect::Once && times > 1 {
            faults.push(format!("the once call {run}/{op} ran {times} times"));
        }
        if !records.contains_key(&run) {
            faults.push(format!("{run}/{op} ran in a run that is not recorded"));
        }
    }
}

/// No message is received more often than it was posted: each run gets it once, in whatever journal it goes on,
/// however often it was sent. Messages between runs are not known here.
fn check_messages(simulation: &Simulation, records: &Records, faults: &mut Vec<String>) {
    let posted = simulation.scenario.messages.iter();
    let posted: Vec<(&str, String)> = posted
        .filter_map(|body| match body {
            ItemBody::Message { name, value } => Some((name.as_str(), value.to_string())),
            _ => None,
        })
        .collect();
    let nexts: BTreeSet<RunId> = records.keys().map(|run| run.next()).collect();
    for first in records.keys().filter(|run| !nexts.contains(run)) {
        let mut left = posted.clone();
        let journals = std::iter::successors(Some(*first), |run| Some(run.next()));
        let journals = journals.map_while(|run| Some((run, records.get(&run)?)));
        let entries =
            journals.flat_map(|(run, record)| record.entries.iter().map(move |e| (run, e)));
        for (run, entry) in entries {
            if let Entry::Completed {
                kind, name, result, ..
            } = entry
                && kind == "receive"
                && posted.iter().any(|(posted, _)| posted == name)
                && let Ok(Ok(value)) = read::<serde_json::Value>(result.get())
            {
                let received = value.to_string();
                match left.iter().position(|(_, message)| *message == received) {
                    Some(place) => drop(left.swap_remove(place)),
                    None => faults.push(format!("{run} received {received} once too often")),
                }
            }
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(
    result: &str,
) -> Result<Result<T, OperationError>, serde_json::Error> {
    serde_json::from_str(result)
}

/// A child must have a parent that began it, and the parent's result must be the child's end.
fn check_children(records: &Records, faults: &mut Vec<String>) {
    for (run, record) in records {
        let Some(parent) = record.row.parent else {
            continue;
        };
        let began = |entry: &Entry| matches!(entry, Entry::Started { begun: Begun::Child(child), .. } if child == run);
        let origin = record.entries.first().and_then(|entry| match entry {
            Entry::RunStarted(start) => start.parent,
            _ => None,
        });
        // A child that goes on in another journal was begun under its first id.
        let first = origin.is_some_and(|(of, op)| of.child(op) == *run);
        let parent_began = records
            .get(&parent)
            .is_some_and(|parent| parent.entries.iter().any(began));
        if first && !parent_began {
            faults.push(format!("no entry of {parent} begins its child {run}"));
        }
    }
    for (run, record) in records {
        for entry in &record.entries {
            if let Entry::Started {
                op,
                begun: Begun::Child(child),
                ..
            } = entry
                && !records.contains_key(child)
            {
                faults.push(format!("{run}/{op} began {child}, which is lost"));
            }
        }
    }
}

/// No run may claim to have consumed more than is recorded below it: nothing is charged twice.
fn check_spent(records: &Records, faults: &mut Vec<String>) {
    for (run, record) in records {
        let Some(Entry::RunEnded(end)) = record.entries.last() else {
            continue;
        };
        let (told, found) = (end.spent(), recorded_below(*run, records));
        let more = told.model_calls > found.model_calls
            || told.tool_calls > found.tool_calls
            || told.usage.total_tokens() > found.usage.total_tokens();
        if more {
            faults.push(format!(
                "run {run} says that it spent {told:?}; recorded is {found:?}"
            ));
        }
    }
}

fn recorded_below(run: RunId, records: &Records) -> Spent {
    let mut spent = Spent::default();
    let Some(record) = records.get(&run) else {
        return spent;
    };
    for entry in &record.entries {
        let (kind, result) = match entry {
            Entry::Completed { kind, result, .. } => (kind, result),
            // A dropped operation had begun, and counts as well.
            Entry::Dropped { spent: dropped, .. } => {
                spent += *dropped;
                continue;
            }
            _ => continue,
        };
        match &**kind {
            "tool" => spent.tool_calls += 1,
            "model" => {
                spent.model_calls += 1;
                if let Ok(Ok(response)) = read::<ModelResponse>(result.get()) {
                    spent.usage += response.usage;
                }
            }
            _ => {}
        }
    }
    let below = records
        .values()
        .filter(|other| other.row.parent == Some(run));
    for child in below {
        spent += recorded_below(child.row.run, records);
    }
    // The record of an earlier journal of the run counts too.
    for (before, other) in records {
        if before.next() == run && other.row.status == RunStatus::Continued {
            spent += recorded_below(*before, records);
        }
    }
    spent
}

/// A value that all sessions of a team share must have been written as often as the journals record.
fn check_state(world: &World, records: &Records, faults: &mut Vec<String>) {
    let mut written: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for record in records.values() {
        for entry in &record.entries {
            if let Entry::Completed {
                kind, name, result, ..
            } = entry
                && kind == "state_update"
                && let Some(key) = name.strip_prefix("app/")
                && let Ok(Ok(Updated { version, .. })) = read(result.get())
            {
                let times = written.entry((&record.row.team, key)).or_default();
                *times += u64::from(version > 0);
            }
        }
    }
    for ((team, key), times) in written {
        let value = world.disk.state(format!("app:{team}"), key.to_owned());
        let value = value.now_or_never().and_then(Result::ok);
        let version = value.map_or(0, |value| value.version);
        if version != times {
            faults.push(format!(
                "{key} was written {version} times, and {times} writes are recorded"
            ));
        }
    }
}

/// A session must have each turn once, in order and ended, and a conversation that providers accept.
fn check_sessions(
    simulation: &Simulation,
    world: &World,
    records: &Records,
    faults: &mut Vec<String>,
) {
    for number in 0..simulation.sessions {
        let session = SessionId {
            team: simulation.scenario.team.as_str().into(),
            key: format!("session-{number}").into(),
        };
        let journals = world.journals();
        let lines = journals.read(JournalId::Session(session.clone()), 0, usize::MAX);
        let lines = lines
            .now_or_never()
            .and_then(Result::ok)
            .unwrap_or_default();
        let mut fold = SessionFold::default();
        if let Err(error) = fold.extend(&lines, &session.to_string()) {
            faults.push(format!("{session} does not fold: {error}"));
        }
        if let Err(breach) = check_transcript(&fold.transcript.messages()) {
            faults.push(format!(
                "no provider takes the conversation of {session}: {breach}"
            ));
        }
        let (mut open, mut turns): (Option<RunId>, _) = (None, Vec::new());
        for entry in lines.iter().filter_map(|stored| stored.line.decode().ok()) {
            match entry {
                Entry::TurnStarted(turn) => {
                    if let Some(before) = open.replace(turn.run) {
                        faults.push(format!(
                            "{session} began {} before {before} ended",
                            turn.run
                        ));
                    }
                    if !records.contains_key(&turn.run) {
                        faults.push(format!("{session} has lost run {}", turn.run));
                    }
                    turns.push(turn.turn);
                }
                Entry::TurnEnded(end) => {
                    let began = open.take();
                    if began.is_none_or(|began| continued(began, records) != end.run) {
                        faults.push(format!("{session} ended {} and began {began:?}", end.run));
                    }
                }
                _ => {}
            }
        }
        let expected: Vec<String> = (0..simulation.scenario.turns.len())
            .map(|turn| format!("turn-{turn}"))
            .collect();
        if turns != expected || open.is_some() {
            faults.push(format!(
                "{session} has the turns {turns:?}, and {open:?} is open"
            ));
        }
    }
}

/// The events that readers saw live must agree with the journals.
fn check_events(world: &World, faults: &mut Vec<String>) {
    let ledger = world.ledger.lock();
    for (root, live) in &ledger.events {
        let replayed = replay(*root, world);
        let differ = live
            .iter()
            .zip(&replayed)
            .position(|(live, read)| live != read);
        let ended = ledger.outcomes.contains_key(root);
        match differ {
            Some(place) => faults.push(format!(
                "event {place} of {root} was {:?} live and is {:?}",
                live[place], replayed[place]
            )),
            None if live.len() != replayed.len() && ended => faults.push(format!(
                "{root} had {} events live and has {}",
                live.len(),
                replayed.len()
            )),
            None => {}
        }
    }
}

fn replay(root: RunId, world: &World) -> Vec<EventRecord> {
    let (mut root, mut records) = (root, Vec::new());
    loop {
        let mut observer = Observer::new();
        let mut next = None;
        let journals = world.journals();
        let lines = journals.read_tree(root, 0, usize::MAX).now_or_never();
        for line in lines.and_then(Result::ok).unwrap_or_default() {
            if !observer.knows(line.run)
                && let Some(Ok(Some(row))) = world.disk.run(line.run).now_or_never()
            {
                observer.learn(&row);
            }
            records.extend(observer.observe(&line).unwrap_or_default());
            if line.run == root
                && let Ok(Entry::RunEnded(end)) = line.stored.line.decode()
            {
                if let RunEnd::Continued { next: on, .. } = *end {
                    next = Some(on);
                }
                break;
            }
        }
        match next {
            Some(on) => root = on,
            None => return records,
        }
    }
}

/// The whole content of the disk, for the trace.
pub(super) fn image(world: &World) -> Vec<u8> {
    let mut image = Vec::new();
    for (run, record) in records(world) {
        image.extend_from_slice(format!("{run} {:?}\n", record.row).as_bytes());
        for stored in record.lines {
            let text = format!(
                "{} {:?} {}\n",
                stored.position, stored.line.at, stored.line.text
            );
            image.extend_from_slice(text.as_bytes());
        }
    }
    image
}
