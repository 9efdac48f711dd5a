//! Running a recorded run again, against today's code, with no effects.
mod text;

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::Arc,
    thread,
    time::Duration,
};

use futures_util::FutureExt;
use serde::Serialize;
use tokio::runtime::Builder;

use super::{
    AgentFunction, Leg, Recorded, Recording, RecordingError, Returned, RunSender,
    driver::{
        not_asked,
        waker::{Function, FunctionWaker, Step},
    },
    function::{AgentCode, function_of},
    leg::{CallIdentity, Opening},
    load::RecordedDelivery,
    operation::Delivery,
    recording::decode,
    run_machine::{Next, RunMachine},
};
use crate::{
    definition::Pinned,
    vocabulary::{
        AgentError, CallDigest, Entry, ErrorKind, Message, OperationId, Outcome, RunEnd, RunId,
        RunStart, StopReason, Transcript,
    },
};

/// How long replay waits for a function that waits for something else than its operations.
const PATIENCE: Duration = Duration::from_secs(1);

/// The interval of the checks during that time.
const LOOK: Duration = Duration::from_millis(1);

/// The result of replaying a recorded tree of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Replay {
    /// Each run of the tree, in the order in which they began.
    pub runs: Vec<RunReplay>,
}

/// The result of replaying one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RunReplay {
    /// The run.
    pub run: RunId,
    /// The agent that began it.
    pub agent: String,
    /// How many entries it has.
    pub entries: u64,
    /// The place at which today's code asks for another operation, if it does.
    pub divergence: Option<Divergence>,
    /// Model requests that differ from the recorded ones, whose answers were used all the same.
    pub drifts: Vec<Drift>,
}

/// A place at which today's code asks for another operation than the recorded one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Divergence {
    /// The entry from which on the journal does not fit, where one can be named.
    pub entry: Option<u64>,
    /// The operation, where one can be named.
    pub operation: Option<OperationId>,
    /// The recorded operation.
    pub recorded: String,
    /// The code's action.
    pub found: String,
}

/// A model request that differs from the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Drift {
    /// The entry that holds the answer.
    pub entry: Option<u64>,
    /// The operation.
    pub operation: OperationId,
    /// The digest of the recorded request.
    pub recorded: CallDigest,
    /// The digest of today's.
    pub found: CallDigest,
}

impl Replay {
    /// Whether today's code did in every run what is recorded. A model request may have drifted.
    pub fn is_faithful(&self) -> bool {
        self.runs.iter().all(|run| run.divergence.is_none())
    }

    /// Whether a model request differs from the recorded one.
    pub fn has_drifted(&self) -> bool {
        self.runs.iter().any(|run| !run.drifts.is_empty())
    }
}

/// Runs the functions of a recorded tree again with this code, and says where they ask for something else than what is
/// recorded. `today` is the definition of runs that are not to go by their own.
pub(crate) fn rehearse(
    recording: &Recording,
    code: Arc<dyn AgentCode>,
    today: Option<Arc<Pinned>>,
) -> Result<Replay, RecordingError> {
    // Replay needs a thread of its own, with a runtime: parts of a function that yield go on in the order in which
    // the runtime of their thread wakes them, and the one of this thread cannot run before this function returns.
    let rehearsed = thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| RecordingError::Runtime {
                reason: error.to_string(),
            })?;
            runtime.block_on(rehearse_here(recording, &code, today.as_ref()))
        });
        thread.join()
    });
    rehearsed.unwrap_or_else(|panic| resume_unwind(panic))
}

async fn rehearse_here(
    recording: &Recording,
    code: &Arc<dyn AgentCode>,
    today: Option<&Arc<Pinned>>,
) -> Result<Replay, RecordingError> {
    let history = recording.transcript()?;
    let mut replay = Replay::default();
    for run in recording.runs() {
        let rehearsal = Rehearsal {
            run,
            recording,
            code,
            today,
            history: &history,
            places: HashMap::new(),
            drifts: Vec::new(),
        };
        replay.runs.push(rehearsal.play().await?);
    }
    Ok(replay)
}

/// One run that is replayed.
struct Rehearsal<'a> {
    run: RunId,
    recording: &'a Recording,
    code: &'a Arc<dyn AgentCode>,
    today: Option<&'a Arc<Pinned>>,
    history: &'a Transcript,
    /// The last entry of each operation.
    places: HashMap<OperationId, u64>,
    drifts: Vec<Drift>,
}

/// How a leg's function came to rest when nothing recorded was left for it.
enum Came {
    Returned(Returned),
    /// It waits for these operations, whose ends are not recorded.
    Waits(Vec<CallIdentity>),
    Panicked(String),
    Diverged(Divergence),
}

impl Rehearsal<'_> {
    async fn play(mut self) -> Result<RunReplay, RecordingError> {
        let journal = self.recording.journal(self.run);
        let mut recorded = Recorded::default();
        let mut divergence = None;
        let mut end = None;
        let entries = journal.iter().map(|stored| decode(self.run, stored));
        let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
        for (stored, entry) in journal.iter().zip(entries) {
            match &entry {
                Entry::LegStarted {
                    agent,
                    request,
                    messages,
                    ..
                } => {
                    let (leg, came) = self.leg(&mut recorded, true).await?;
                    let handed = (agent, request, messages);
                    divergence = compare_transfer(&leg, came, handed, stored.sequence);
                }
                Entry::Started { op, .. }
                | Entry::Completed { op, .. }
                | Entry::Emitted { op, .. }
                | Entry::CallAnswered { op, .. }
                | Entry::UndoRegistered { op, .. } => {
                    self.places.insert(*op, stored.sequence);
                }
                // The engine alone wrote the entries from here on.
                Entry::CancelRequested { .. } => break,
                Entry::RunEnded(ended) => {
                    end = Some((stored.sequence, RunEnd::clone(ended)));
                    break;
                }
                _ => {}
            }
            if divergence.is_some() {
                break;
            }
            recorded.add(stored.sequence, entry);
        }
        let begun = recorded.start.clone();
        if divergence.is_none() {
            let (_, came) = self.leg(&mut recorded, end.is_some()).await?;
            divergence = compare_end(came, end);
        }
        Ok(RunReplay {
            run: self.run,
            agent: begun.map_or_else(String::new, |start| start.agent.clone()),
            entries: journal.len() as u64,
            divergence,
            drifts: self.drifts,
        })
    }

    /// Plays a leg with what is recorded of it.
    async fn leg(
        &mut self,
        recorded: &mut Recorded,
        has_ended: bool,
    ) -> Result<(Arc<Leg>, Came), RecordingError> {
        let run = self.run;
        let lacks = |what: String| RecordingError::Lacks { run, what };
        let start = recorded.start.clone();
        let start = start.ok_or_else(|| lacks("the run's first entry".to_owned()))?;
        let pinned = self.pinned(&start)?;
        let at = std::mem::take(&mut recorded.leg);
        let agent = pinned.agent(&at.agent, start.top()).ok_or_else(|| {
            let (name, team) = (&at.agent, &pinned.team.name);
            lacks(format!("an agent {name:?} in team {team}"))
        })?;
        // A delegated run has no session, and nothing was said in one before it.
        let nothing = Transcript::new();
        let history = if start.session.is_some() {
            self.history
        } else {
            &nothing
        };
        let opening = Opening {
            run,
            // Nothing is claimed.
            epoch: 0,
            start,
            pinned,
            agent,
            code: self.code.clone(),
            history,
            sender: RunSender::channel().0,
        };
        let leg = Arc::new(Leg::open(opening, at, recorded, RunMachine::default()));
        leg.machine().has_ended = has_ended;
        let function = function_of(&leg, &**self.code).map_err(lacks)?;
        let came = self.drive(&leg, function).await?;
        let came = match came {
            Came::Returned(Ok(outcome)) => Came::Returned(Ok(leg.onward(outcome))),
            came => came,
        };
        Ok((leg, came))
    }

    fn pinned(&self, start: &RunStart) -> Result<Arc<Pinned>, RecordingError> {
        let pinned = self.recording.pinned(self.run, start.definition)?;
        Ok(match self.today {
            Some(today) if pinned.made_by.is_none() => today.clone(),
            _ => Arc::new(pinned),
        })
    }

    /// Does the driver's work of replay, and nothing of its later work.
    async fn drive(&mut self, leg: &Leg, function: AgentFunction) -> Result<Came, RecordingError> {
        let mut function = Function::new(function);
        let waker = function.waker();
        let mut patience = PATIENCE;
        loop {
            let step = AssertUnwindSafe(function.step(leg, || self.after_poll(leg)));
            match step.catch_unwind().await {
                Err(panic) => return Ok(Came::Panicked(panic_message(&*panic))),
                Ok(Err(divergence)) => return Ok(Came::Diverged(divergence)),
                Ok(Ok(Step::Returned(returned))) => return Ok(Came::Returned(returned)),
                Ok(Ok(Step::Diverged(error))) => return Ok(Came::Diverged(self.divergence(error))),
                Ok(Ok(Step::Again)) => continue,
                Ok(Ok(Step::Rests(Next::Deliver(next)))) => {
                    self.bring_content(leg, &next)?;
                    leg.deliver(next.op, Delivery::Recorded(next.result));
                    patience = PATIENCE;
                    continue;
                }
                Ok(Ok(Step::Rests(Next::NotAsked | Next::Live))) => {}
            }
            let may_go_on = function.may_go_on(leg);
            if goes_on(&waker, may_go_on, &mut patience).await {
                continue;
            }
            let waits = waited_for(leg);
            let found = match waits.first() {
                Some(call) => format!("{call} instead"),
                None => not_asked(may_go_on).to_owned(),
            };
            let missed = leg.machine().missed(&found);
            return Ok(match missed {
                Some(missed) => Came::Diverged(self.divergence(missed)),
                None => Came::Waits(waits),
            });
        }
    }

    /// Puts the content to which a recorded result refers where the function finds it.
    fn bring_content(&self, leg: &Leg, next: &RecordedDelivery) -> Result<(), RecordingError> {
        let Some(digest) = leg.content_of(next) else {
            return Ok(());
        };
        let content = self.recording.contents.get(&digest);
        let content = content.ok_or_else(|| RecordingError::Lacks {
            run: self.run,
            what: format!("the content {digest}"),
        })?;
        leg.books.lock().contents.insert(next.op, content.clone());
        Ok(())
    }

    /// Takes what the function noted and dropped. An error when it asked for something else.
    fn after_poll(&mut self, leg: &Leg) -> Result<(), Divergence> {
        let noted = leg.machine().take_noted();
        let Some((notes, _, end)) = noted else {
            return Ok(());
        };
        for note in notes {
            if let Entry::Drifted {
                op,
                recorded,
                found,
            } = note
            {
                self.drifts.push(Drift {
                    entry: self.places.get(&op).copied(),
                    operation: op,
                    recorded,
                    found,
                });
            }
        }
        match end {
            Some(error) => Err(self.divergence(error)),
            None => Ok(()),
        }
    }

    fn divergence(&self, error: AgentError) -> Divergence {
        match error {
            AgentError::Diverged {
                at,
                recorded,
                found,
            } => Divergence {
                entry: self.places.get(&at).copied(),
                operation: Some(at),
                recorded,
                found,
            },
            error => Divergence {
                found: error.to_string(),
                ..Divergence::default()
            },
        }
    }
}

/// Whether a function goes on by itself that nothing recorded is left for, or that does not ask
/// for it: it woke itself, or something that is no operation wakes it in time.
async fn goes_on(waker: &FunctionWaker, may_go_on: bool, patience: &mut Duration) -> bool {
    while waker.is_woken() || may_go_on {
        let Some(left) = patience.checked_sub(LOOK) else {
            return false;
        };
        *patience = left;
        if waker.is_woken() {
            return true;
        }
        tokio::time::sleep(LOOK).await;
    }
    false
}

/// The operations that the function waits for and nothing recorded ends, in the order in which it asked.
fn waited_for(leg: &Leg) -> Vec<CallIdentity> {
    leg.machine().asked().cloned().collect()
}

/// Compares how a leg came to rest with how the run was handed to the next agent.
fn compare_transfer(
    leg: &Leg,
    came: Came,
    (agent, request, messages): (&String, &Option<String>, &Vec<Arc<Message>>),
    entry: u64,
) -> Option<Divergence> {
    let found = match came {
        Came::Diverged(divergence) => return Some(divergence),
        Came::Returned(Ok(Outcome::Transfer(transfer))) => {
            let next = leg.next(transfer);
            if next.agent != *agent {
                format!("a transfer to {}", next.agent)
            } else if next.request != *request || next.said != *messages {
                "a transfer to it with other words".to_owned()
            } else {
                return None;
            }
        }
        other => other.in_words(),
    };
    Some(Divergence {
        entry: Some(entry),
        operation: None,
        recorded: format!("a transfer to {agent}"),
        found,
    })
}

impl Came {
    fn in_words(&self) -> String {
        match self {
            Self::Returned(Ok(Outcome::Transfer(to))) => format!("a transfer to {}", to.to),
            Self::Returned(Ok(outcome)) => outcome_in_words(outcome),
            Self::Returned(Err(error)) => format!("the failure {error}"),
            Self::Waits(calls) => match calls.first() {
                Some(call) => call.to_string(),
                None => "a function that waits for nothing that it asked for".to_owned(),
            },
            Self::Panicked(message) => format!("a panic: {message}"),
            Self::Diverged(divergence) => divergence.found.clone(),
        }
    }
}

/// Compares how the last leg came to rest with how the run ended.
fn compare_end(came: Came, end: Option<(u64, RunEnd)>) -> Option<Divergence> {
    if let Came::Diverged(divergence) = came {
        return Some(divergence);
    }
    // A run that has not ended, or that was ended from outside: the function may stand anywhere.
    let (entry, end) = end?;
    let same = match (&came, &end) {
        (Came::Returned(Ok(Outcome::ContinueAs(_))), RunEnd::Continued { .. }) => true,
        // The engine refused a transfer.
        (Came::Returned(Ok(Outcome::Transfer(_))), RunEnd::Failed { .. }) => true,
        (
            Came::Returned(Ok(Outcome::Transfer(_))),
            RunEnd::Stopped {
                reason: StopReason::TransferLimit(_),
                ..
            },
        ) => true,
        // It was given up after it had failed too often, or since it could not be recorded.
        (Came::Panicked(_) | Came::Waits(_), RunEnd::Failed { error, .. }) => {
            matches!(error, AgentError::Crashed { .. })
                || matches!(error.kind(), Some(ErrorKind::Panicked | ErrorKind::Store))
        }
        (Came::Returned(outcome), end) => as_recorded(RunEnd::of(outcome, end.spent())) == *end,
        _ => false,
    };
    let recorded = match &end {
        RunEnd::Continued { .. } => "the going on in another journal".to_owned(),
        end => match end.outcome() {
            Some(Ok(outcome)) => outcome_in_words(&outcome),
            Some(Err(error)) => format!("the failure {error}"),
            None => "its end".to_owned(),
        },
    };
    (!same).then(|| Divergence {
        entry: Some(entry),
        operation: None,
        recorded,
        found: came.in_words(),
    })
}

/// An end as a run's journal keeps it: what was said is in the session's.
fn as_recorded(mut end: RunEnd) -> RunEnd {
    match &mut end {
        RunEnd::Answered { answer, .. }
        | RunEnd::Stopped {
            partial: Some(answer),
            ..
        } => answer.messages.clear(),
        _ => {}
    }
    end
}

fn outcome_in_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answer(_) => format!("the answer {:?}", outcome.text()),
        Outcome::Stopped { reason, .. } => format!("the stop {reason}"),
        Outcome::ContinueAs(_) => "the going on in another journal".to_owned(),
        Outcome::Transfer(to) => format!("a transfer to {}", to.to),
    }
}

/// The message of a panic.
pub(super) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a message").to_owned()
}
