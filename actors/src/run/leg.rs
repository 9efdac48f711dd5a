//! What the contexts of a leg and its driver share.

use std::{
    any::Any,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{
    Recorded, Registry, RunSender, Tries, handover,
    load::RecordedDelivery,
    notes::Versions,
    operation::{ErasedOperation, Operation, erase},
    operations::{self, InBackground, MadeAgent, Temp},
    run_machine::RunMachine,
    words::Words,
};
pub(crate) use super::{call_identity::CallIdentity, run_machine::RecordedCall};
use crate::{
    contract::{Emission, Origin},
    definition::{Pinned, PinnedAgent},
    vocabulary::{
        AgentError, AnsweredBy, Begun, CallDigest, CallReport, Cause, Digest, Entry, Message,
        ModelResponse, OperationError, OperationId, OperationMap, Part, Resource, RunId, RunStart,
        TELLS_OF_CALLS, ToolCall, Transcript,
    },
};

/// One leg of a run: its constant data, and the books of its operations.
pub(crate) struct Leg {
    pub(crate) run: RunId,
    /// The epoch in which the run's journal is written.
    pub(crate) epoch: u64,
    pub(crate) number: u32,
    /// For whom its calls are made.
    pub(crate) origin: Arc<Origin>,
    pub(crate) start: Arc<RunStart>,
    pub(crate) pinned: Arc<Pinned>,
    pub(crate) agent: Arc<PinnedAgent>,
    /// The registered code. Agents that the function makes are checked against it.
    pub(crate) registry: Arc<Registry>,
    /// History, the turn, and what was said in earlier legs, as the agent sees it.
    pub(crate) conversation: Transcript,
    /// The whole conversation.
    whole: Transcript,
    /// How many messages of `whole` are the session's history.
    history: usize,
    /// The request of the agent that handed over to this leg, or the reason why the conversation
    /// came back.
    pub(crate) request: Option<String>,
    /// The agents to which the conversation goes back when this one is done. The last element is
    /// next.
    pub(crate) callers: Vec<String>,
    /// The agent that gave the conversation back.
    pub(crate) returned_by: Option<String>,
    /// What the engine told the agent when it got the conversation.
    note: Option<Arc<Message>>,
    pub(crate) books: Mutex<Books>,
    /// What people say to the run, on its way to the function.
    pub(crate) words: Words,
    /// What is to be recorded with the ends of calls.
    about: Mutex<OperationMap<About>>,
    /// Messages of people that the run's loops have heard: in earlier legs, and in this one.
    pub(crate) heard: [Mutex<Vec<Arc<Message>>>; 2],
    /// The run's temporary state.
    pub(crate) temp: Temp,
    /// The variants of changed code that the run goes by.
    pub(crate) versions: Versions,
    /// Contents that operations loaded and the function has not taken yet. Journal entries hold
    /// only their hashes.
    pub(crate) contents: Mutex<OperationMap<Arc<[u8]>>>,
    /// The channel to which children report.
    pub(crate) sender: RunSender,
}

/// What is recorded with the end of a call.
#[derive(Clone, Default)]
pub(crate) struct About {
    /// The emissions of interceptors, as entries.
    pub(crate) told: Vec<Entry>,
    /// How a call of a tool was answered.
    pub(crate) report: Option<CallReport>,
}

/// The books of a leg's operations.
#[derive(Default)]
pub(crate) struct Books {
    /// What is recorded of the leg, and what its function asks for.
    pub(crate) machine: RunMachine<ResultSlot>,
    /// Operations that were polled and not yet begun.
    pub(crate) to_begin: VecDeque<(OperationId, CallIdentity, Option<Resource>, ErasedOperation)>,
    /// Operations that were begun or polled and then dropped by the function.
    pub(crate) dropped: Vec<OperationId>,
    /// Entries for which nobody waits, and which the driver has not written yet.
    pub(crate) notes: Vec<Entry>,
    /// The number of lanes. The first one is the leg's own context.
    pub(crate) lanes: u32,
    /// How many calls were answered without the operation of a tool.
    pub(crate) answered: u32,
    /// How often the model called each counted tool of the engine in this leg.
    pub(crate) used: BTreeMap<&'static str, u32>,
    /// Agents that the model has made and that are at work, by the arguments of the request.
    pub(crate) made: BTreeMap<String, MadeAgent>,
    /// Agents that the model has made in the background, by their names.
    pub(crate) in_background: BTreeMap<String, InBackground>,
    /// The undo calls that were registered in this incarnation. They are made if the run is cancelled.
    pub(crate) undo: Vec<(String, ToolCall)>,
    /// Children that this leg spawned, by agent.
    pub(crate) spawned: Vec<(String, RunId)>,
    /// Whether the engine is dropping the function. Dropped operations are not recorded then.
    pub(crate) detached: bool,
}

/// Where an operation's result is put.
pub(crate) enum ResultSlot {
    Waiting(Option<Waker>),
    Delivered(Delivery),
}

/// A result on its way to the function.
pub(crate) enum Delivery {
    /// The output of an operation that this incarnation did, as its type.
    Live(Result<Box<dyn Any + Send>, OperationError>),
    /// The JSON of such a result, as an earlier incarnation recorded it.
    Recorded(Box<RawValue>),
}

/// How a leg begins, as its journal records it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LegStart {
    pub(crate) number: u32,
    pub(crate) agent: String,
    pub(crate) request: Option<String>,
    /// The messages of the run before this leg.
    pub(crate) said: Vec<Arc<Message>>,
    /// The places in `said` of messages that people sent while the run was under way.
    pub(crate) heard: Vec<u32>,
    pub(crate) callers: Vec<String>,
    pub(crate) returned_by: Option<String>,
}

impl LegStart {
    /// The entry of the leg's beginning.
    pub(crate) fn entry(&self, display_name: Option<String>) -> Entry {
        let at = self.clone();
        Entry::LegStarted {
            leg: at.number,
            agent: at.agent,
            display_name,
            request: at.request,
            messages: at.said,
            callers: at.callers,
            returned_by: at.returned_by,
            heard: at.heard,
        }
    }
}

/// Where a leg begins.
pub(crate) struct Opening<'a> {
    pub(crate) run: RunId,
    pub(crate) epoch: u64,
    pub(crate) start: Arc<RunStart>,
    pub(crate) pinned: Arc<Pinned>,
    pub(crate) agent: Arc<PinnedAgent>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) history: &'a Transcript,
    pub(crate) sender: RunSender,
}

impl Leg {
    /// A leg that goes on from what is recorded of it.
    pub(crate) fn open(opening: Opening<'_>, at: LegStart, recorded: &mut Recorded) -> Self {
        let Opening { start, agent, .. } = opening;
        let mut whole = opening.history.clone();
        let history = whole.len();
        let heard = at.heard.iter();
        let heard = heard.filter_map(|place| at.said.get(*place as usize));
        let heard = [Mutex::new(heard.cloned().collect()), Mutex::default()];
        if at.said.is_empty() {
            whole.push(start.input.clone());
        } else {
            whole.extend(at.said);
        }
        let (asked, by) = (at.request.as_deref(), at.returned_by.as_deref());
        let note = handover::note(&agent.spec, asked, by, at.number > 0).map(Arc::new);
        whole.extend(note.clone());
        let conversation = handover::seen(&whole, &agent.spec);
        let books = Books {
            machine: RunMachine::new(at.number, recorded),
            lanes: 1,
            ..Books::default()
        };
        let origin = Origin {
            session: start.session.clone(),
            root: Some(start.root),
            user: start.owner.clone(),
            agent: agent.name.to_string(),
            makers: agent.makers.clone(),
            approval: None,
        };
        Self {
            origin: Arc::new(origin),
            run: opening.run,
            epoch: opening.epoch,
            number: at.number,
            start,
            pinned: opening.pinned,
            agent,
            registry: opening.registry,
            conversation,
            whole,
            history,
            request: at.request,
            callers: at.callers,
            returned_by: at.returned_by,
            note,
            books: Mutex::new(books),
            words: Words::recorded(std::mem::take(&mut recorded.words)),
            about: Mutex::default(),
            heard,
            temp: recorded.temp.clone(),
            versions: recorded.versions.clone(),
            contents: Mutex::default(),
            sender: opening.sender,
        }
    }

    /// Registers an operation's first poll.
    pub(crate) fn begin<O: Operation>(
        &self,
        id: OperationId,
        operation: O,
    ) -> Result<(), AgentError> {
        let identity = CallIdentity {
            kind: operation.kind().into(),
            name: operation.name().to_owned(),
            digest: operation.input(),
            asked_by: operation.cause().within(self.run),
        };
        let (may_drift, slot) = (operation.drifts(), ResultSlot::Waiting(None));
        let mut books = self.books.lock();
        let asked = books.machine.ask(id, &identity, may_drift, slot)?;
        books
            .notes
            .extend(asked.drifted_from.map(|recorded| Entry::Drifted {
                op: id,
                recorded,
                found: identity.digest.get(),
            }));
        if asked.begins {
            let resource = operation.resource();
            books
                .to_begin
                .push_back((id, identity, resource, erase(operation)));
        }
        Ok(())
    }

    /// Takes an operation's result, if it was delivered.
    pub(crate) fn poll<T: DeserializeOwned + Send + 'static>(
        &self,
        id: OperationId,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, AgentError>> {
        let mut books = self.books.lock();
        let end = books.machine.end.clone();
        if let (Some(ResultSlot::Waiting(waker)), None) = (books.machine.slot(id), &end) {
            let is_same = |waker: &Waker| waker.will_wake(cx.waker());
            if !waker.as_ref().is_some_and(is_same) {
                *waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        match books.machine.take_slot(id) {
            Some(ResultSlot::Delivered(Delivery::Live(made))) => {
                drop(books);
                let output = made.map_err(AgentError::Operation)?.downcast::<T>();
                let output = output.map(|output| self.with_causes(id, *output));
                Poll::Ready(output.map_err(|_| AgentError::Ended))
            }
            Some(ResultSlot::Delivered(Delivery::Recorded(json))) => {
                drop(books);
                let result = serde_json::from_str::<Result<T, OperationError>>(json.get());
                Poll::Ready(match result {
                    Ok(result) => result
                        .map(|output| self.with_causes(id, output))
                        .map_err(AgentError::Operation),
                    // The code expects another type than the recorded result has.
                    Err(error) => Err(self.unreadable(id, &error)),
                })
            }
            _ => Poll::Ready(Err(end.unwrap_or(AgentError::Ended))),
        }
    }

    /// The same output. Of an answer of a model, each call says that this operation asked for it.
    fn with_causes<T: Any>(&self, id: OperationId, mut output: T) -> T {
        if let Some(response) = (&mut output as &mut dyn Any).downcast_mut::<ModelResponse>()
            && response.message.tool_calls().next().is_some()
        {
            let parts = Arc::make_mut(&mut response.message).parts.iter_mut();
            let calls = parts.filter_map(|part| match part {
                Part::ToolCall(call) => Some(call),
                _ => None,
            });
            (0..)
                .zip(calls)
                .for_each(|(index, call)| call.cause = Cause::new(self.run, id, index));
        }
        output
    }

    /// A divergence: the recorded result does not have the type that the code expects.
    pub(crate) fn unreadable(&self, at: OperationId, error: &serde_json::Error) -> AgentError {
        let mut books = self.books.lock();
        let call = books.machine.call(at);
        let call = call.map(|call| call.identity.to_string());
        let call = call.as_deref().unwrap_or("this operation");
        let found =
            format!("code that expects one of another type, as which it does not read: {error}");
        let error = AgentError::diverged(at, format_args!("a result of {call}"), found);
        books.machine.end_with(error)
    }

    /// What the journal says about a call.
    pub(crate) fn recorded(&self, op: OperationId) -> Option<RecordedCall> {
        self.books.lock().machine.call(op).cloned()
    }

    /// Takes note of an input that differs from the recorded one. `false` if the journal says so already.
    pub(crate) fn drifts(&self, op: OperationId, found: CallDigest) -> bool {
        let mut books = self.books.lock();
        let call = books.machine.call_mut(op);
        call.is_some_and(|call| call.drifted.replace(found) != Some(found))
    }

    /// How an operation began, as far as the journal says so.
    pub(crate) fn begun(&self, op: OperationId) -> Option<Begun> {
        self.books.lock().machine.call(op)?.begun.clone()
    }

    /// The content to which a recorded result refers, if any.
    pub(crate) fn content_of(&self, next: &RecordedDelivery) -> Option<Digest> {
        let books = self.books.lock();
        operations::content_of(&books.machine.call(next.op)?.identity.kind, &next.result)
    }

    /// Keeps the emissions of interceptors about a call until its end is recorded.
    pub(crate) fn tell(&self, op: OperationId, told: Vec<Emission>) {
        if !told.is_empty() {
            let entry = |Emission { name, data, .. }| Entry::Emitted { op, name, data };
            let mut about = self.about.lock();
            let about = about.entry(op).or_default();
            about.told.extend(told.into_iter().map(entry));
        }
    }

    /// Keeps the report on a tool call until its end is recorded.
    pub(crate) fn report(&self, op: OperationId, call: CallReport) {
        self.about.lock().entry(op).or_default().report = Some(call);
    }

    /// Adds the number of attempts to the report. If there was no attempt, the tool did not answer
    /// the call, except when it was asked how an earlier attempt had ended.
    pub(crate) fn tried(&self, op: OperationId, tries: Tries, in_doubt: bool) {
        let mut about = self.about.lock();
        if let Some(report) = about.get_mut(&op).and_then(|about| about.report.as_mut()) {
            (report.attempts, report.latency_ms) = (tries.attempts, tries.took_ms);
            if tries.attempts == 0 && !in_doubt {
                report.by = AnsweredBy::Engine;
            }
        }
    }

    /// What is to be recorded with the end of a call.
    pub(crate) fn about(&self, op: OperationId) -> About {
        self.about.lock().get(&op).cloned().unwrap_or_default()
    }

    /// Takes what is to be recorded with the end of a call.
    pub(crate) fn take_about(&self, op: OperationId) -> About {
        self.about.lock().remove(&op).unwrap_or_default()
    }

    /// Takes the emissions about a call whose end may come much later.
    pub(crate) fn take_emissions(&self, op: OperationId) -> Vec<Entry> {
        let mut about = self.about.lock();
        let about = about.get_mut(&op);
        about.map_or_else(Vec::new, |about| std::mem::take(&mut about.told))
    }

    /// Applies an entry's change of the run's temporary state.
    pub(crate) fn remember(&self, entry: Entry) {
        if let Entry::Changed { changed, .. } = entry {
            self.temp.record(*changed);
        }
    }

    /// How many operations the function waits for in its own name, with this waker.
    pub(crate) fn waits_with(&self, task: &Waker) -> usize {
        let mut books = self.books.lock();
        let waits = books.machine.slots();
        waits
            .filter(
                |slot| matches!(slot, ResultSlot::Waiting(Some(waker)) if waker.will_wake(task)),
            )
            .count()
    }

    /// Puts a result where the function finds it, and wakes it. `false` when nobody waits.
    pub(crate) fn deliver(&self, id: OperationId, delivery: Delivery) -> bool {
        let mut books = self.books.lock();
        let Some(slot) = books.machine.slot(id) else {
            return false;
        };
        let delivered = std::mem::replace(slot, ResultSlot::Delivered(delivery));
        if let ResultSlot::Waiting(Some(waker)) = delivered {
            drop(books);
            waker.wake();
        }
        true
    }

    /// The function dropped an operation that it had polled.
    pub(crate) fn dropped(&self, id: OperationId) {
        self.contents.lock().remove(&id);
        let mut books = self.books.lock();
        if let Some(slot) = books.machine.take_slot(id).filter(|_| !books.detached) {
            books.dropped.push(id);
            drop(books);
            // Old journals replay as they were recorded.
            if self.start.format >= TELLS_OF_CALLS {
                self.words.unheard(operations::words_in(slot));
            }
        }
    }

    /// Ends every further operation with this error.
    pub(crate) fn end(&self, error: AgentError) {
        let mut books = self.books.lock();
        books.machine.end_with(error);
        let waiting = books.machine.slots();
        let wakers = waiting.filter_map(|slot| match slot {
            ResultSlot::Waiting(waker) => waker.take(),
            _ => None,
        });
        let wakers: Vec<Waker> = wakers.collect();
        drop(books);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The messages of the leg so far, for a transcript that is handed on.
    pub(crate) fn said(&self) -> Vec<Arc<Message>> {
        self.whole.since(self.history)
    }

    /// The requests of the turn, in order: the turn's own message, messages that people sent
    /// meanwhile, and the request to the agent that took over.
    pub(crate) fn asked(&self) -> Vec<Arc<Message>> {
        let mut asked = vec![self.start.input.clone()];
        let [before, here] = &self.heard;
        asked.extend(before.lock().iter().cloned());
        asked.extend(self.note.clone());
        asked.extend(here.lock().iter().cloned());
        asked
    }

    /// The places among these messages of those that people have sent to the run so far.
    pub(crate) fn places_of_heard(&self, said: &[Arc<Message>]) -> Vec<u32> {
        let mut places = Vec::new();
        let mut from = 0;
        for heard in self.heard.iter().flat_map(|heard| heard.lock().clone()) {
            let rest = said.get(from..).unwrap_or_default();
            // A message that the function heard and did not keep is absent.
            if let Some(place) = rest.iter().position(|said| **said == *heard) {
                places.extend(u32::try_from(from + place));
                from += place + 1;
            }
        }
        places
    }
}
