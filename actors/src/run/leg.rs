//! The state that the contexts of a leg and its driver share.

use std::{
    any::Any,
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    task::{Context, Poll, Waker, ready},
};

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use serde::de::DeserializeOwned;

pub(crate) use super::call_identity::CallIdentity;
use super::{
    Code, Ports, Recorded, RunSender, Tries,
    calls::NotesLoss,
    delegated::{InBackground, MadeAgent},
    leg_start::LegStart,
    operation::{Delivery, Operation, erase},
    recorded_note::Versions,
    run_machine::{RunMachine, Stage},
    steering::Steering,
    takeover,
    temp::Temp,
};
use crate::{
    contract::{Emission, Origin, PreviewSink, ToolState},
    definition::{Pinned, PinnedAgent},
    vocabulary::{
        AgentError, AnsweredBy, AskedBy, Begun, CallReport, Cause, Entry, Message, ModelResponse,
        OperationError, OperationId, OperationMap, Part, RunId, RunStart, ToolCall, Transcript,
        Usage,
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
    /// The code behind its names. Agents that the function makes are checked against it.
    pub(crate) code: Arc<dyn Code>,
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
    /// The engine's words to the agent when it got the conversation.
    note: Option<Arc<Message>>,
    pub(crate) books: Mutex<Books>,
    /// The run's temporary state.
    pub(crate) temp: Temp,
    /// The variants of changed code that the run goes by.
    pub(crate) versions: Versions,
    /// The channel to which children report.
    pub(crate) sender: RunSender,
    /// Where the previews of its calls go, once it has made one.
    previews: OnceLock<PreviewSink>,
    /// The state that its calls of tools may read, once it has made one.
    pub(crate) tool_state: OnceLock<Arc<dyn ToolState>>,
}

/// The record beside the end of a call.
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
    /// The record of the leg, and the requests of its function.
    pub(crate) machine: RunMachine,
    /// The words of people to the run, on their way to the function.
    pub(crate) words: Steering,
    /// Messages of people that the run's loops have heard: in earlier legs, and in this one.
    pub(crate) heard: [Vec<Arc<Message>>; 2],
    /// The records to be made with the ends of calls.
    about: OperationMap<About>,
    /// Contents that operations loaded and the function has not taken yet. Journal entries hold
    /// only their hashes.
    pub(crate) contents: OperationMap<Arc<[u8]>>,
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
}

/// Where a leg begins.
pub(crate) struct Opening<'a> {
    pub(crate) run: RunId,
    pub(crate) epoch: u64,
    pub(crate) start: Arc<RunStart>,
    pub(crate) pinned: Arc<Pinned>,
    pub(crate) agent: Arc<PinnedAgent>,
    pub(crate) code: Arc<dyn Code>,
    pub(crate) history: &'a Transcript,
    pub(crate) sender: RunSender,
}

impl Leg {
    /// A leg that goes on from what is recorded of it, and from what is under way.
    pub(crate) fn open(
        opening: Opening<'_>,
        at: LegStart,
        recorded: &mut Recorded,
        before: RunMachine,
    ) -> Self {
        let Opening { start, agent, .. } = opening;
        let mut whole = opening.history.clone();
        let history = whole.len();
        let heard = at.heard.iter();
        let heard = heard.filter_map(|place| at.said.get(*place as usize));
        let below = std::mem::take(&mut recorded.heard_below);
        let heard = [heard.cloned().collect(), below];
        if at.said.is_empty() {
            whole.push(start.input.clone());
        } else {
            whole.extend(at.said);
        }
        let (asked, by) = (at.request.as_deref(), at.returned_by.as_deref());
        let note = takeover::note(&agent.spec, asked, by, at.number > 0).map(Arc::new);
        whole.extend(note.clone());
        let conversation = takeover::seen(&whole, &agent.spec);
        let books = Books {
            machine: before.next_leg(at.number, recorded),
            words: Steering {
                recorded: std::mem::take(&mut recorded.words),
                ..Steering::default()
            },
            heard,
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
            code: opening.code,
            conversation,
            whole,
            history,
            request: at.request,
            callers: at.callers,
            returned_by: at.returned_by,
            note,
            books: Mutex::new(books),
            temp: recorded.temp.clone(),
            versions: recorded.versions.clone(),
            sender: opening.sender,
            previews: OnceLock::new(),
            tool_state: OnceLock::new(),
        }
    }

    /// Where the previews of its calls go.
    pub(crate) fn previews(&self, ports: &dyn Ports) -> PreviewSink {
        let previews = self.previews.get_or_init(|| ports.previews(self.run));
        previews.clone()
    }

    /// What is known of its operations.
    pub(crate) fn machine(&self) -> MappedMutexGuard<'_, RunMachine> {
        MutexGuard::map(self.books.lock(), |books| &mut books.machine)
    }

    /// Registers an operation's first poll.
    pub(crate) fn begin<O: Operation>(
        &self,
        id: OperationId,
        operation: O,
    ) -> Result<(), AgentError> {
        let asked_by = operation.cause().within(self.run);
        let (kind, name) = (operation.kind(), operation.name());
        let identity = CallIdentity::new(kind, name, operation.input(), asked_by);
        let may_drift = operation.drifts();
        let begin = || (operation.resource(), erase(operation));
        self.machine().ask(id, identity, may_drift, begin)
    }

    /// Takes an operation's result, if it was delivered.
    pub(crate) fn poll<T: DeserializeOwned + Send + 'static>(
        &self,
        id: OperationId,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, AgentError>> {
        let delivery = ready!(self.machine().poll(id, cx.waker()));
        Poll::Ready(match delivery {
            Err(end) => Err(end),
            Ok(Delivery::Live(made)) => {
                let output = made.map_err(AgentError::Operation)?.downcast::<T>();
                let output = output.map(|output| self.with_causes(id, *output));
                output.map_err(|_| AgentError::Ended)
            }
            Ok(Delivery::Recorded(json)) => {
                match serde_json::from_str::<Result<T, OperationError>>(json.get()) {
                    Ok(result) => result
                        .map(|output| self.with_causes(id, output))
                        .map_err(AgentError::Operation),
                    // The code expects another type than the recorded result has.
                    Err(error) => Err(self.unreadable(id, &error)),
                }
            }
        })
    }

    /// The same output. Of an answer of a model, each call says that this operation asked for it.
    fn with_causes<T: Any>(&self, id: OperationId, mut output: T) -> T {
        if let Some(response) = (&mut output as &mut dyn Any).downcast_mut::<ModelResponse>() {
            self.name_causes(id, response);
        }
        output
    }

    /// Lets each call of an answer of a model say that this operation asked for it.
    pub(crate) fn name_causes(&self, id: OperationId, response: &mut ModelResponse) {
        let named = |index| Some(AskedBy { model: id, index });
        let is_named = (0..)
            .zip(response.message.tool_calls())
            .all(|(index, call)| call.cause.within(self.run) == named(index));
        if is_named {
            return;
        }
        let parts = Arc::make_mut(&mut response.message).parts.iter_mut();
        let calls = parts.filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        });
        (0..)
            .zip(calls)
            .for_each(|(index, call)| call.cause = Cause::new(self.run, id, index));
    }

    /// A divergence: the recorded result does not have the type that the code expects.
    pub(crate) fn unreadable(&self, at: OperationId, error: &serde_json::Error) -> AgentError {
        let mut machine = self.machine();
        let call = machine.recorded(at);
        let call = call.map(|call| call.identity.to_string());
        let call = call.as_deref().unwrap_or("this operation");
        let found =
            format!("code that expects one of another type, as which it does not read: {error}");
        let error = AgentError::diverged(at, format_args!("a result of {call}"), found);
        machine.end_with(error)
    }

    /// How an operation began, as far as the journal says so.
    pub(crate) fn begun(&self, op: OperationId) -> Option<Begun> {
        self.machine().recorded(op)?.begun.clone()
    }

    /// Keeps the emissions of interceptors about a call until its end is recorded.
    pub(crate) fn tell(&self, op: OperationId, told: Vec<Emission>) {
        if !told.is_empty() {
            let entry = |Emission { name, data, .. }| Entry::Emitted { op, name, data };
            let mut books = self.books.lock();
            let about = books.about.entry(op).or_default();
            about.told.extend(told.into_iter().map(entry));
        }
    }

    /// Keeps the report on a tool call until its end is recorded.
    pub(crate) fn report(&self, op: OperationId, call: CallReport) {
        self.books.lock().about.entry(op).or_default().report = Some(call);
    }

    /// Adds the number of attempts to the report. If there was no attempt, the tool did not answer
    /// the call, except when it was asked how an earlier attempt had ended.
    pub(crate) fn tried(&self, op: OperationId, tries: Tries, in_doubt: bool) {
        let mut books = self.books.lock();
        let about = books.about.get_mut(&op);
        if let Some(report) = about.and_then(|about| about.report.as_mut()) {
            (report.attempts, report.latency_ms) = (tries.attempts, tries.took_ms);
            if tries.attempts == 0 && !in_doubt {
                report.by = AnsweredBy::Engine;
            }
        }
    }

    /// The record to be made with the end of a call.
    pub(crate) fn about(&self, op: OperationId) -> About {
        self.books
            .lock()
            .about
            .get(&op)
            .cloned()
            .unwrap_or_default()
    }

    /// Takes what is to be recorded with the end of a call.
    pub(crate) fn take_about(&self, op: OperationId) -> About {
        self.books.lock().about.remove(&op).unwrap_or_default()
    }

    /// Takes the emissions about a call whose end may come much later.
    pub(crate) fn take_emissions(&self, op: OperationId) -> Vec<Entry> {
        let mut books = self.books.lock();
        let about = books.about.get_mut(&op);
        about.map_or_else(Vec::new, |about| std::mem::take(&mut about.told))
    }

    /// Applies an entry's change of the run's temporary state.
    pub(crate) fn remember(&self, entry: Entry) {
        if let Entry::Changed { changed, .. } = entry {
            self.temp.record(*changed);
        }
    }

    /// Puts a result where the function finds it, and wakes it.
    pub(crate) fn deliver(&self, id: OperationId, delivery: Delivery) {
        let waker = self.machine().deliver(id, delivery);
        waker.into_iter().for_each(Waker::wake);
    }

    /// The function dropped an operation that it had polled.
    pub(crate) fn dropped(&self, id: OperationId) {
        let mut books = self.books.lock();
        books.contents.remove(&id);
        let stage = books.machine.drop_operation(id);
        drop(books);
        if let Some(Stage::Delivered(delivery)) = stage {
            let words = delivery.words();
            self.books.lock().words.unheard.extend(words);
        }
    }

    /// The messages of the leg so far, for a transcript that is handed on.
    pub(crate) fn said(&self) -> Vec<Arc<Message>> {
        self.whole.since(self.history)
    }

    /// The words of people to the leg.
    pub(crate) fn heard_here(&self) -> Vec<Arc<Message>> {
        self.books.lock().heard[1].clone()
    }

    /// The requests of the turn, in order: the turn's own message, messages that people sent
    /// meanwhile, and the request to the agent that took over.
    pub(crate) fn requests(&self) -> Vec<Arc<Message>> {
        let mut asked = vec![self.start.input.clone()];
        let books = self.books.lock();
        let [before, here] = &books.heard;
        asked.extend(before.iter().cloned());
        asked.extend(self.note.clone());
        asked.extend(here.iter().cloned());
        asked
    }

    /// The places among these messages of those that people have sent to the run so far.
    pub(crate) fn places_of_heard(&self, said: &[Arc<Message>]) -> Vec<u32> {
        let mut places = Vec::new();
        let mut from = 0;
        for heard in self.books.lock().heard.iter().flatten() {
            let rest = said.get(from..).unwrap_or_default();
            // A message that the function heard and did not keep is absent.
            if let Some(place) = rest.iter().position(|said| *said == *heard) {
                places.extend(u32::try_from(from + place));
                from += place + 1;
            }
        }
        places
    }
}

impl NotesLoss for Leg {
    fn lost(&self, op: OperationId, usage: Usage) {
        if let Some(call) = self.machine().call_mut(op) {
            call.lost = usage;
        }
    }
}
