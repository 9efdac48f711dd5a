//! The promises that must hold of a disturbed scenario.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    options::CrashReport,
    process::{Journals, Life},
};
use crate::{
    contract::StoredLine,
    session::SessionFold,
    testing::check_transcript,
    vocabulary::{
        Begun, Effect, Entry, ErrorKind, Event, OperationError, OperationId, RunId, ToolStatus,
    },
};

type CallKey = (RunId, OperationId);

/// The journals' records of calls.
#[derive(Default)]
struct Calls {
    /// The recorded results, and whether each says that the call is in doubt.
    completed: BTreeMap<CallKey, bool>,
    started: BTreeSet<CallKey>,
    /// Calls that gave a ticket. They have no end, but they are not in doubt.
    handed_out: BTreeSet<CallKey>,
}

pub(super) fn check(report: &mut CrashReport, place: &str, life: &Life, calm: Option<&Life>) {
    let mut faults = Vec::new();
    if let Some(stuck) = &life.stuck {
        faults.push(stuck.clone());
    }
    faults.extend(
        life.unfaithful
            .iter()
            .map(|fault| format!("replayed, {fault}")),
    );
    let calls = check_journals(life, &mut faults);
    check_prefixes(life, &mut faults);
    check_effects(life, &calls, &mut faults);
    check_events(life, &mut faults);
    let in_doubt = calls.completed.values().any(|in_doubt| *in_doubt);
    report.in_doubt += u64::from(in_doubt);
    let session = check_session(life, &mut faults);
    if let Some(calm) = calm.filter(|_| life.stuck.is_none() && !in_doubt) {
        if life.outcomes != calm.outcomes {
            let (is, was) = (life.outcomes.join(", "), calm.outcomes.join(", "));
            faults.push(format!("the outcome is {is}, undisturbed it is {was}"));
        }
        let undisturbed = check_session(calm, &mut Vec::new());
        if session.transcript.messages() != undisturbed.transcript.messages() {
            faults.push("the session keeps another conversation".to_owned());
        }
        let (is, was) = (custom_events(life), custom_events(calm));
        if is != was {
            faults.push(format!("the events told are {is:?}, undisturbed {was:?}"));
        }
    }
    let faults = faults.into_iter().map(|fault| format!("{place}: {fault}"));
    report.violations.extend(faults);
}

fn check_journals(life: &Life, faults: &mut Vec<String>) -> Calls {
    let mut calls = Calls::default();
    for row in life.rows.iter().filter(|row| !row.status.is_ended()) {
        if life.stuck.is_none() {
            faults.push(format!("run {} of {} has not ended", row.run, row.agent));
        }
    }
    for (run, lines) in &life.journals {
        let mut ends = 0;
        for (place, stored) in lines.iter().enumerate() {
            if stored.sequence != place as u64 {
                faults.push(format!("entry {place} of {run} is {}", stored.sequence));
            }
            let Ok(entry) = stored.line.decode() else {
                faults.push(format!("entry {place} of {run} does not read"));
                continue;
            };
            let ended = matches!(entry, Entry::RunEnded(_));
            ends += usize::from(ended);
            if ends > usize::from(ended) {
                faults.push(format!("run {run} has entries after its end"));
            }
            if let Entry::Completed { op, .. } = &entry
                && calls.completed.contains_key(&(*run, *op))
            {
                faults.push(format!("operation {op} of {run} has two results"));
            }
            calls.note(*run, &entry);
        }
        if ends != 1 && life.stuck.is_none() {
            faults.push(format!("run {run} has {ends} ends"));
        }
    }
    calls
}

impl Calls {
    fn of(journals: &Journals) -> Self {
        let mut calls = Self::default();
        for (run, lines) in journals {
            for entry in lines.iter().filter_map(|stored| stored.line.decode().ok()) {
                calls.note(*run, &entry);
            }
        }
        calls
    }

    fn note(&mut self, run: RunId, entry: &Entry) {
        match entry {
            Entry::Started { op, begun, .. } => {
                match begun {
                    Begun::Effect => self.started.insert((run, *op)),
                    Begun::Ticket => self.handed_out.insert((run, *op)),
                    _ => false,
                };
            }
            Entry::Completed { op, result, .. } => {
                self.completed
                    .insert((run, *op), says_in_doubt(result.get()));
            }
            _ => {}
        }
    }
}

fn says_in_doubt(result: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Peek {
        status: Option<ToolStatus>,
    }
    match serde_json::from_str::<Result<serde_json::Value, OperationError>>(result) {
        Ok(Err(error)) => error.kind == ErrorKind::InDoubt,
        Ok(Ok(value)) => serde_json::from_value::<Peek>(value)
            .is_ok_and(|peek| peek.status == Some(ToolStatus::Unknown)),
        Err(_) => false,
    }
}

/// A record that was there when a process died must still be there, unchanged.
fn check_prefixes(life: &Life, faults: &mut Vec<String>) {
    for recorded in &life.crashes {
        for (run, before) in recorded {
            let after: &[StoredLine] = life.journals.get(run).map_or(&[], Vec::as_slice);
            if !after.starts_with(before) {
                faults.push(format!("what was recorded of {run} has changed"));
            }
        }
    }
}

fn check_effects(life: &Life, calls: &Calls, faults: &mut Vec<String>) {
    let keys: HashMap<String, CallKey> = calls
        .completed
        .keys()
        .chain(&calls.started)
        .map(|(run, op)| (format!("{run}/{op}"), (*run, *op)))
        .collect();
    let recorded: Vec<Calls> = life.crashes.iter().map(Calls::of).collect();
    let mut begun: HashMap<&str, u32> = HashMap::new();
    for effect in &life.effects {
        let (name, key) = (&effect.name, effect.key.as_str());
        let times = begun.entry(key).or_default();
        *times += 1;
        let once = effect.effect == Effect::Once;
        if once && *times > 1 {
            faults.push(format!("the once effect {name} {key} began {times} times"));
        }
        let Some(call) = keys.get(key) else { continue };
        if once && !calls.started.contains(call) {
            faults.push(format!("{name} {key} began and its start is not recorded"));
        }
        let deaths = recorded.iter().zip(1u32..);
        for (at_death, process) in deaths {
            let over = at_death.completed.contains_key(call);
            if over && effect.process > process {
                faults.push(format!(
                    "{name} {key} ran again though its result is recorded"
                ));
            }
            let over = over || at_death.handed_out.contains(call);
            let cut_off = once && !over && effect.process <= process;
            if cut_off && calls.completed.get(call) == Some(&false) {
                faults.push(format!(
                    "{name} {key} was cut off and is not told as in doubt"
                ));
            }
        }
    }
}

/// Events are one sequence: in the order of commits, each entry once, the root's end last.
fn check_events(life: &Life, faults: &mut Vec<String>) {
    for events in &life.events {
        let mut seen = BTreeSet::new();
        let mut before = None;
        for event in events {
            let place = event.position.map(|position| (position, event.part));
            if place <= before {
                faults.push("an event has no place".to_owned());
            }
            // The events of a root that goes on in another journal continue there.
            before = place.or(before);
            if event.id().is_none_or(|id| !seen.insert(id)) {
                faults.push(format!("the event {:?} is told twice", event.id()));
            }
        }
        match events.last().map(|last| last.event.name()) {
            Some("run_ended") => {}
            last => faults.push(format!("the last event is {last:?}")),
        }
    }
}

/// The events of agents, tools and interceptors, sorted, because calls that run side by side end in any order.
fn custom_events(life: &Life) -> Vec<(&str, String)> {
    let records = life.events.iter().flatten();
    let mut told: Vec<_> = records
        .filter_map(|record| match &record.event {
            Event::Custom { name, data } => Some((name.as_str(), data.to_string())),
            _ => None,
        })
        .collect();
    told.sort();
    told
}

/// The session's journal must fold, and its checkpoint must agree with it.
fn check_session(life: &Life, faults: &mut Vec<String>) -> SessionFold {
    let mut fold = SessionFold::default();
    if let Err(error) = fold.extend(&life.session, "crash") {
        faults.push(error.to_string());
    }
    if let Err(breach) = check_transcript(&fold.transcript.messages()) {
        faults.push(format!(
            "no provider takes the session's conversation: {breach}"
        ));
    }
    if let Some(checkpoint) = &life.checkpoint {
        let entries = usize::try_from(checkpoint.entries).unwrap_or(usize::MAX);
        let mut expected = SessionFold::default();
        let lines = &life.session[..entries.min(life.session.len())];
        if expected.extend(lines, "crash").is_ok() && expected != *checkpoint {
            faults.push("the checkpoint differs from what it was made from".to_owned());
        }
    }
    fold
}
