//! Forks: a run's journal is copied up to some entry, and another run goes on from there.

mod copies;

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{
    Recording, RecordingError, is_error, operations::Spawned, read_result,
    recorded_change::recorded_change, recording::decode,
};
pub(crate) use copies::Copies;
use copies::calls;

use crate::vocabulary::{
    AgentError, Begun, Changed, Digest, Entry, FORMAT, Family, Forked, OperationError, OperationId,
    RunEnd, RunId, RunStart, Scope, SessionId, Timestamp,
};

/// Why a run cannot be forked at an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The run has no such place.
    #[error(
        "run {run} cannot be forked at {at}: it has {entries} entries, and the first, with which \
         it began, is always kept; give a number from 1 to {entries}"
    )]
    OutOfRange {
        /// The run.
        run: RunId,
        /// The requested place.
        at: u64,
        /// How many entries it has.
        entries: u64,
    },
    /// From this entry on the run's function is never run again.
    #[error(
        "run {run} cannot be forked behind its entry {entry}, which is {what}: fork it at {entry}, \
         just before that, or earlier"
    )]
    Over {
        /// The run.
        run: RunId,
        /// The entry.
        entry: u64,
        /// Its kind.
        what: &'static str,
    },
    /// An effect that must not happen twice has begun, and its end is not recorded there.
    #[error(
        "run {run} cannot be forked there: {operation} {name:?} of run {of} had begun and its end \
         was not recorded yet, so that a fork could neither repeat it nor know what came of it; \
         fork at {before}, before it began{after}"
    )]
    UnderWay {
        /// The run that is to be forked.
        run: RunId,
        /// The run whose operation it is: the forked run, or one below it.
        of: RunId,
        /// The operation.
        operation: OperationId,
        /// Its name.
        name: String,
        /// Where it had not begun.
        before: u64,
        /// Where its end is recorded, in words; empty when it never was.
        after: String,
    },
    /// The journal does not read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

/// The run that is to go on from there.
#[derive(Clone, Debug)]
pub(crate) struct ForkTarget {
    pub(crate) run: RunId,
    pub(crate) session: SessionId,
    /// How many entries the new session has before its turn.
    pub(crate) history: u64,
    /// The definition, if it differs from the recorded one.
    pub(crate) definition: Option<Digest>,
    /// The version of the team's code in this process.
    pub(crate) version: u32,
    pub(crate) now: Timestamp,
}

/// A journal of the fork's tree.
#[derive(Debug)]
pub(crate) struct ForkedRun {
    pub(crate) run: RunId,
    pub(crate) start: RunStart,
    /// All of its entries, each with its position in the recorded tree. The fork's tree keeps their
    /// order.
    pub(crate) entries: Vec<(u64, Entry)>,
    pub(crate) end: Option<RunEnd>,
}

/// A fork that can be written.
#[derive(Debug)]
pub(crate) struct ForkedTree {
    /// How many entries of the run count.
    pub(crate) at: u64,
    /// The root first.
    pub(crate) runs: Vec<ForkedRun>,
    /// From this position on nothing of the recorded tree counts.
    pub(crate) cut: u64,
    /// Which run is the copy of which.
    pub(crate) copies: Copies,
}

/// Copies the entries of a run before its entry `at`, and those of the runs below it before that
/// moment. A child whose end the run knew is only referred to. A child that was under way is copied
/// up to that moment.
pub(crate) fn fork(
    recording: &Recording,
    run: RunId,
    at: Option<u64>,
    target: &ForkTarget,
) -> Result<ForkedTree, ForkError> {
    let mut copier = Copier {
        recording,
        forked: run,
        target,
        runs: Vec::new(),
        copies: Copies::default(),
    };
    let entries = copier.entries(run)?;
    let count = entries.len() as u64;
    let mut place = at.unwrap_or_else(|| Copier::latest(&entries));
    loop {
        if place == 0 || place > count {
            let (at, entries) = (place, count);
            return Err(ForkError::OutOfRange { run, at, entries });
        }
        let next = usize::try_from(place).ok();
        let next = next.and_then(|next| entries.get(next));
        let cut = next.map_or(u64::MAX, |next| next.position);
        match copier.copy(run, target.run, cut, None) {
            Ok(()) => {
                let (at, mut runs, copies) = (place, copier.runs, copier.copies);
                let entries = runs.iter_mut().flat_map(|run| &mut run.entries);
                entries.for_each(|(_, entry)| copies.rename(entry));
                return Ok(ForkedTree {
                    at,
                    runs,
                    cut,
                    copies,
                });
            }
            // The caller asked for no particular place.
            Err(ForkError::UnderWay { before, .. }) if at.is_none() && before > 0 => {
                (copier.runs, copier.copies) = (Vec::new(), Copies::default());
                place = before;
            }
            Err(error) => return Err(error),
        }
    }
}

/// A decoded entry and its places.
struct Placed {
    sequence: u64,
    position: u64,
    entry: Entry,
}

struct Copier<'a> {
    recording: &'a Recording,
    forked: RunId,
    target: &'a ForkTarget,
    runs: Vec<ForkedRun>,
    copies: Copies,
}

/// The state of a run's operations before a cut, as far as copying depends on it.
#[derive(Default)]
struct Standing {
    /// Effects that have begun, with the position of their start.
    under_way: HashMap<OperationId, (u64, String)>,
    /// Delegations whose child's end the run knows.
    delegated: HashSet<OperationId>,
    /// Operations whose child is not wanted any more.
    unwanted: HashSet<OperationId>,
    /// Children whose end an operation waited for and got.
    joined: HashSet<RunId>,
}

impl Copier<'_> {
    fn entries(&self, run: RunId) -> Result<Vec<Placed>, ForkError> {
        let journal = self.recording.journal(run).into_iter();
        let placed = journal.map(|stored| {
            Ok(Placed {
                sequence: stored.sequence,
                position: stored.position,
                entry: decode(run, &stored)?,
            })
        });
        placed.collect()
    }

    /// The last useful place of a run: before its end or its cancellation, and before the operation
    /// at which it diverged.
    fn latest(entries: &[Placed]) -> u64 {
        let over = entries.iter().position(|placed| {
            matches!(
                placed.entry,
                Entry::RunEnded(_) | Entry::CancelRequested { .. }
            )
        });
        let mut at = over.unwrap_or(entries.len());
        let parked = entries.iter().rev().find_map(|placed| match &placed.entry {
            Entry::Parked {
                reason: AgentError::Diverged { at, .. },
            } => Some(*at),
            _ => None,
        });
        if let Some(diverged) = parked {
            let first = entries.iter().position(|placed| {
                matches!(&placed.entry, Entry::Started { op, .. } | Entry::Completed { op, .. }
                    | Entry::Emitted { op, .. } | Entry::UndoRegistered { op, .. }
                    if *op == diverged)
            });
            at = at.min(first.unwrap_or(at));
        }
        at.max(1) as u64
    }

    /// Copies a run's entries before a cut under another id.
    fn copy(
        &mut self,
        run: RunId,
        new: RunId,
        cut: u64,
        parent: Option<(RunId, OperationId)>,
    ) -> Result<(), ForkError> {
        let mut entries = self.entries(run)?;
        let mut cut_off = calls(entries.iter().map(|placed| &placed.entry));
        entries.retain(|placed| placed.position < cut);
        let kept = calls(entries.iter().map(|placed| &placed.entry));
        cut_off.retain(|op| !kept.contains(op));
        self.check(run, &entries, parent.is_some())?;
        let standing = Standing::of(&entries);
        let place = self.runs.len();
        let at = entries.len() as u64;
        let mut copied: Vec<(u64, Entry)> = Vec::with_capacity(entries.len());
        let mut children: HashMap<OperationId, RunId> = HashMap::new();
        let mut left_out = HashSet::new();
        let mut start = None;
        let mut end = None;
        for Placed {
            position,
            mut entry,
            ..
        } in entries
        {
            let entry = match entry {
                Entry::RunStarted(recorded) => {
                    let recorded = self.start(*recorded, parent);
                    self.runs.push(ForkedRun {
                        run: new,
                        start: recorded.clone(),
                        entries: Vec::new(),
                        end: None,
                    });
                    start = Some((position, recorded));
                    self.copies.add(run, new);
                    continue;
                }
                // These entries are about lives of the original run.
                Entry::Activated { .. } | Entry::Restarted { .. } | Entry::Parked { .. } => {
                    continue;
                }
                Entry::Started {
                    op,
                    begun: Begun::Child(ref mut child),
                    ..
                } => {
                    if !standing.delegated.contains(&op) {
                        if standing.unwanted.contains(&op) || !self.began(*child, cut) {
                            left_out.insert(op);
                            continue;
                        }
                        let copy = new.child(op);
                        // A child's end that the run knows counts, although both were committed
                        // together.
                        let heard_of = self
                            .journals_of(*child)
                            .any(|run| standing.joined.contains(&run));
                        let cut = if heard_of { u64::MAX } else { cut };
                        self.copy(*child, copy, cut, Some((new, op)))?;
                        children.insert(op, copy);
                        *child = copy;
                    }
                    entry
                }
                Entry::Completed {
                    op,
                    ref kind,
                    ref name,
                    ref mut result,
                    ..
                } => {
                    if let Some(child) = children.get(&op)
                        && Family::of(kind) == Family::Spawn
                        && let Some(copy) = spawned(*child, name, op)
                    {
                        *result = copy;
                    }
                    entry
                }
                // The emissions of interceptors about a call that is made again.
                Entry::Emitted { op, .. } if cut_off.contains(&op) => continue,
                // The amount set aside for a child that the copy does not have.
                Entry::Granted { op, .. } | Entry::Settled { op, .. } if left_out.contains(&op) => {
                    continue;
                }
                Entry::RunEnded(ended) => {
                    let ended = match *ended {
                        RunEnd::Continued { next, spent } => {
                            let copy = new.next();
                            self.copy(next, copy, cut, parent)?;
                            RunEnd::Continued { next: copy, spent }
                        }
                        ended => ended,
                    };
                    end = Some(ended.clone());
                    Entry::RunEnded(Box::new(ended))
                }
                entry => entry,
            };
            copied.push((position, entry));
        }
        let (position, mut start) = start.ok_or(RecordingError::Lacks {
            run,
            what: "the run's first entry".to_owned(),
        })?;
        start.forked = Some(Forked::new(run, at, 1 + copied.len() as u64));
        copied.insert(0, (position, Entry::RunStarted(Box::new(start.clone()))));
        if let Some(forked) = self.runs.get_mut(place) {
            (forked.start, forked.entries, forked.end) = (start, copied, end);
        }
        Ok(())
    }

    /// Whether the run's agent was made for its task. No other definition has such an agent.
    fn is_made(&self, start: &RunStart) -> bool {
        let pinned = self.recording.pinned(self.target.run, start.definition);
        pinned.is_ok_and(|pinned| pinned.made_by.is_some())
    }

    /// The start of the copy of a run.
    fn start(&self, recorded: RunStart, parent: Option<(RunId, OperationId)>) -> RunStart {
        let mut start = recorded;
        start.format = FORMAT;
        let above = parent.and_then(|(above, _)| self.runs.iter().find(|run| run.run == above));
        let above = above.map(|above| above.start.path.clone());
        start.path = above.unwrap_or_default();
        start.path.push(start.agent.clone());
        start.team = self.target.session.team.to_string();
        if let Some(definition) = self.target.definition
            && !self.is_made(&start)
        {
            start.definition = definition;
        }
        start.parent = parent;
        start.root = self.target.run;
        // The deadline may have passed. The fork is bounded by its consumption.
        start.deadline = None;
        start.at = self.target.now;
        // A run without a session has none in the fork either: it would ask for another scope's
        // state.
        if start.session.is_some() {
            start.session = Some(self.target.session.clone());
            start.history = self.target.history;
        }
        start
    }

    /// A run, and the runs in whose journals it went on.
    fn journals_of(&self, run: RunId) -> impl Iterator<Item = RunId> {
        let is_there = |run: &RunId| self.recording.lines.iter().any(|line| line.run == *run);
        std::iter::successors(Some(run), |run| Some(run.next())).take_while(is_there)
    }

    /// Whether a child's first entry stands before the cut.
    fn began(&self, child: RunId, cut: u64) -> bool {
        let mut lines = self.recording.lines.iter();
        lines.any(|line| line.run == child && line.stored.position < cut)
    }

    fn check(&self, run: RunId, entries: &[Placed], below: bool) -> Result<(), ForkError> {
        // A child that has ended holds nothing open, however it ended.
        let last = entries.last().map(|last| &last.entry);
        if below && matches!(last, Some(Entry::RunEnded(_))) {
            return Ok(());
        }
        for placed in entries {
            let what = match placed.entry {
                // The copy of a child that is being cancelled closes by itself.
                Entry::CancelRequested { .. } if !below => "the wish to cancel it",
                Entry::RunEnded(_) => "its end",
                _ => continue,
            };
            let entry = placed.sequence;
            return Err(ForkError::Over { run, entry, what });
        }
        let standing = Standing::of(entries);
        let first = standing.under_way.into_iter();
        let Some((operation, (begun, name))) = first.min_by_key(|(_, (begun, _))| *begun) else {
            return Ok(());
        };
        let journal = self.recording.journal(self.forked);
        let place = |position: u64| journal.partition_point(|line| line.position <= position);
        let ends = self.entries(run)?.into_iter().find(|placed| {
            matches!(&placed.entry, Entry::Completed { op, .. } | Entry::Dropped { op, .. }
                if *op == operation)
        });
        let after = ends.map(|end| place(end.position));
        let after = after.map_or_else(String::new, |after| {
            format!(", or at {after}, behind its end")
        });
        Err(ForkError::UnderWay {
            run: self.forked,
            of: run,
            operation,
            name,
            before: place(begun).saturating_sub(1) as u64,
            after,
        })
    }
}

impl Standing {
    fn of(entries: &[Placed]) -> Self {
        let mut standing = Self::default();
        for placed in entries {
            match &placed.entry {
                Entry::Started {
                    op,
                    name,
                    begun: Begun::Effect | Begun::Ticket,
                    ..
                } => {
                    let begun = (placed.position, name.clone());
                    standing.under_way.entry(*op).or_insert(begun);
                }
                Entry::Completed {
                    op, kind, result, ..
                } => {
                    standing.under_way.remove(op);
                    let child = ended_child(result);
                    match (Family::of(kind), child) {
                        (Family::Delegate, Some(_)) => {
                            standing.delegated.insert(*op);
                        }
                        (Family::Join, Some(child)) => {
                            standing.joined.insert(child);
                        }
                        (family, None) if family.has_child() && is_error(result) => {
                            standing.unwanted.insert(*op);
                        }
                        _ => {}
                    }
                }
                Entry::Dropped { op, .. } => {
                    standing.under_way.remove(op);
                    standing.unwanted.insert(*op);
                }
                _ => {}
            }
        }
        standing
    }
}

/// The run that a result is about.
fn ended_child(result: &RawValue) -> Option<RunId> {
    #[derive(Deserialize)]
    struct Child {
        run: RunId,
    }
    read_result(result).map(|child: Child| child.run)
}

/// The recorded result of spawning this child.
fn spawned(run: RunId, agent: &str, operation: OperationId) -> Option<Box<RawValue>> {
    let result: Result<Spawned, OperationError> = Ok(Spawned {
        run,
        agent: agent.to_owned(),
        operation,
        // The child's copy is a child of the copied parent, whatever the original child was.
        when_parent_ends: crate::vocabulary::ParentPolicy::default(),
    });
    to_raw_value(&result).ok()
}

/// A recorded value, and how often it had been written.
pub(crate) type Written = (Option<serde_json::Value>, u64);

/// The record of a value.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyHistory {
    /// The last value before the cut.
    pub(crate) before: Option<Written>,
    /// The version that the first write behind the cut made.
    pub(crate) later: Option<u64>,
}

impl KeyHistory {
    /// Adds a later record of the same value.
    pub(crate) fn go_on(&mut self, next: Self) {
        self.before = next.before.or(self.before.take());
        self.later = self.later.or(next.later);
    }
}

/// The changes that a tree made to a scope.
#[derive(Debug, Default)]
pub(crate) struct ChangedByTree {
    /// The values that it wrote, by key.
    pub(crate) values: HashMap<String, KeyHistory>,
    /// The versions of artifacts that it saved behind the cut, by name and number.
    pub(crate) later: HashSet<(String, u64)>,
}

impl ChangedByTree {
    /// The recorded changes of this tree to a scope after this place in the order of commits.
    pub(crate) fn of(
        recording: &Recording,
        after: u64,
        cut: u64,
        scope: &Scope,
    ) -> Result<Self, RecordingError> {
        let mut found = Self::default();
        let lines = recording.lines.iter();
        for line in lines.filter(|line| line.stored.position > after) {
            let entry = decode(line.run, &line.stored)?;
            let before = line.stored.position < cut;
            match recorded_change(&entry) {
                Some(Changed::State {
                    scope: of,
                    key,
                    value,
                    version,
                }) if of == *scope => {
                    let next = KeyHistory {
                        before: before.then_some((value, version)),
                        later: (!before).then_some(version),
                    };
                    found.values.entry(key).or_default().go_on(next);
                }
                Some(Changed::Artifact {
                    scope: of,
                    artifact,
                }) if of == *scope && !before => {
                    found.later.insert((artifact.name, artifact.version));
                }
                _ => {}
            }
        }
        Ok(found)
    }
}
