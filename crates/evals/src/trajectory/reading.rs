//! Reading a trajectory from a store.

use std::{collections::HashMap, sync::Arc};

use ghostlight_actors::{
    actor::{SystemError, recording},
    contract::{StoreError, StoreHandle},
    definition::Pinned,
    run::{Recording, RecordingError},
    vocabulary::{
        Digest, Entry, Family, JournalId, Message, ModelResponse, OperationError, RunEnd, RunId,
        RunStart, Timestamp, ToolResult, ToolStatus,
    },
};
use serde_json::value::RawValue;

use super::{Called, Episode, Said, Trajectory};

/// How many entries of a session are read at once.
const PAGE: usize = 64;
/// The result of a call that has none in the journal.
const NO_RESULT: &str = "Interrupted: this call has no recorded result.";

/// A trajectory that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrajectoryFault {
    /// The run is not there, or the store failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// An entry does not read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An entry that the run needs is not recorded.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

impl Trajectory {
    /// The trajectory of the turn whose tree holds this run. It is read only.
    ///
    /// # Errors
    /// [`TrajectoryFault::System`] for a run that the store does not have, and what cannot be read.
    pub async fn read(store: &StoreHandle, run: RunId) -> Result<Self, TrajectoryFault> {
        let recording = recording(store, run).await?;
        let mut walked = walk(&recording)?;
        let earlier: Vec<Said> = recording
            .transcript()?
            .messages()
            .into_iter()
            .map(Said::new)
            .collect();
        let kept = kept(store, &recording, &walked).await?;
        // The root continues in the journals that continue it.
        let mut of_root: Vec<Walked> = Vec::new();
        let mut below: Vec<Walked> = Vec::new();
        for run in walked.drain(..) {
            let continues = of_root.last().is_some_and(|last| last.next == Some(run.id));
            match run.id == recording.root || continues {
                true => of_root.push(run),
                false => below.push(run),
            }
        }
        let mut definitions = Definitions::new(&recording);
        let team = of_root
            .first()
            .map(|run| run.start.team.clone())
            .unwrap_or_default();
        let legs: Vec<(&Walked, &Leg)> = legs(&of_root).collect();
        let mut episodes = Vec::with_capacity(legs.len());
        for (place, (run, leg)) in legs.iter().enumerate() {
            let mut episode = definitions.episode(run, leg, &earlier)?;
            let whole = match legs.get(place + 1) {
                Some((_, next)) => Some(next.before.as_slice()),
                None => kept.as_deref(),
            };
            if let Some(whole) = whole {
                episode.take(whole, &leg.before);
            }
            episodes.push(episode);
        }
        let mut delegated = Vec::new();
        for (run, leg) in legs_of(&below) {
            delegated.push(definitions.episode(run, leg, &[])?);
        }
        Ok(Self {
            run: recording.root,
            session: recording.session.clone(),
            team,
            episodes,
            delegated,
        })
    }
}

impl Episode {
    /// Takes the messages that the function left: they hold its own prompts, which no entry of a model call tells.
    fn take(&mut self, whole: &[Arc<Message>], before: &[Arc<Message>]) {
        let Some(rest) = whole.get(before.len()..) else {
            return;
        };
        let is_continued = whole.iter().zip(before).all(|(a, b)| a == b);
        // A function that returns its answer alone does not tell how it came to it.
        let is_answer_alone = rest.len() <= 1 && self.said.len() > rest.len();
        if !is_continued || is_answer_alone {
            return;
        }
        let mut known = std::mem::take(&mut self.said).into_iter().peekable();
        for message in rest {
            let mut said = Said::new(message.clone());
            // A call whose answer the function did not keep is passed over.
            let mut ahead = known.clone();
            if let Some(found) = ahead.find(|known| says_the_same(&known.message, message)) {
                (said.at, said.call, said.began) = (found.at, found.call, found.began);
                known = ahead;
            }
            self.said.push(said);
        }
    }
}

fn says_the_same(a: &Message, b: &Message) -> bool {
    let calls = |message: &Message| -> Vec<(String, String)> {
        let calls = message.tool_calls();
        calls
            .map(|call| (call.name.clone(), call.arguments.text().to_owned()))
            .collect()
    };
    let results = |message: &Message| -> Vec<String> {
        let results = message.tool_results();
        results.map(|result| result.text.clone()).collect()
    };
    a.role == b.role
        && a.content() == b.content()
        && calls(a) == calls(b)
        && results(a) == results(b)
}

/// A run as its journal tells it.
struct Walked {
    id: RunId,
    start: RunStart,
    legs: Vec<Leg>,
    /// The run in which it continues.
    next: Option<RunId>,
}

#[derive(Default)]
struct Leg {
    agent: String,
    /// The run's messages before it.
    before: Vec<Arc<Message>>,
    /// The registered name of the model.
    model: Option<String>,
    steps: Vec<Step>,
    /// Ended tasks whose results are not told yet.
    ended: Vec<(String, RunId)>,
}

/// An answer of a model, and what followed it.
struct Step {
    said: Said,
    results: Vec<ToolResult>,
    results_at: Option<Timestamp>,
    steering: Vec<Message>,
}

/// The runs of the tree, in the order in which they began.
fn walk(recording: &Recording) -> Result<Vec<Walked>, StoreError> {
    let mut runs: Vec<Walked> = Vec::new();
    let mut places: HashMap<RunId, usize> = HashMap::new();
    for line in &recording.lines {
        let entry = line.stored.decode(&line.run.into())?;
        if let Entry::RunStarted(start) = entry {
            places.insert(line.run, runs.len());
            let leg = Leg {
                agent: start.agent.clone(),
                before: vec![start.input.clone()],
                ..Leg::default()
            };
            runs.push(Walked {
                id: line.run,
                start: *start,
                legs: vec![leg],
                next: None,
            });
            continue;
        }
        let run = places.get(&line.run).and_then(|place| runs.get_mut(*place));
        if let Some(run) = run {
            run.take(entry, line.stored.line.at);
        }
    }
    Ok(runs)
}

impl Walked {
    fn take(&mut self, entry: Entry, at: Timestamp) {
        let input = self.start.input.clone();
        match entry {
            Entry::LegStarted {
                agent, messages, ..
            } => {
                let before = match messages.is_empty() {
                    true => vec![input],
                    false => messages,
                };
                let started = Leg {
                    agent,
                    before,
                    ..Leg::default()
                };
                // A first agent that said nothing has no episode.
                self.legs.retain(|leg| !leg.steps.is_empty());
                self.legs.push(started);
            }
            Entry::Completed {
                kind, name, result, ..
            } => self.completed(Family::of(&kind), name, &result, at),
            Entry::CallAnswered { result, .. } => self.answered(*result, at),
            Entry::RunEnded(end) => {
                if let RunEnd::Continued { next, .. } = *end {
                    self.next = Some(next);
                }
            }
            _ => {}
        }
    }

    fn completed(&mut self, family: Family, name: String, result: &RawValue, at: Timestamp) {
        match family {
            Family::Model => {
                if let Some(response) = value_of::<ModelResponse>(result) {
                    self.model_answered(name, response, at);
                }
            }
            Family::Tool => {
                if let Some(result) = value_of::<ToolResult>(result) {
                    self.answered(result, at);
                }
            }
            Family::Delegate => {
                #[derive(serde::Deserialize)]
                struct Child {
                    run: RunId,
                }
                if let (Some(child), Some(leg)) = (value_of::<Child>(result), self.legs.last_mut())
                {
                    leg.ended.push((name, child.run));
                }
            }
            _ => {}
        }
    }

    fn model_answered(&mut self, name: String, response: ModelResponse, at: Timestamp) {
        let Some(leg) = self.legs.last_mut() else {
            return;
        };
        let mut message = Message::clone(&response.message).by(&*leg.agent);
        let number = u32::try_from(leg.steps.len() + 1).unwrap_or(u32::MAX);
        message.name_calls(number);
        let mut said = Said::new(message);
        said.at = Some(at);
        said.call = Some(Called {
            model: response.model,
            usage: response.usage,
            latency_ms: response.latency_ms,
        });
        leg.model.get_or_insert(name);
        leg.steps.push(Step {
            said,
            results: Vec::new(),
            results_at: None,
            steering: response.steering,
        });
    }

    /// Gives a result to the call that asked for it: of those that fit, the latest that has none yet.
    fn answered(&mut self, result: ToolResult, at: Timestamp) {
        let Some(leg) = self.legs.last_mut() else {
            return;
        };
        let step = leg
            .steps
            .iter_mut()
            .rev()
            .find(|step| step.waits_for(&result));
        let Some(step) = step else { return };
        let ended = &mut leg.ended;
        let began = ended
            .iter()
            .position(|(agent, _)| result.name == format!("delegate_to_{agent}"));
        if let Some(place) = began {
            let (_, run) = ended.remove(place);
            step.said.began.push((result.call_id.clone(), run));
        }
        step.results.push(result);
        step.results_at = Some(at);
    }
}

impl Step {
    fn waits_for(&self, result: &ToolResult) -> bool {
        let has = |known: &ToolResult| known.call_id == result.call_id;
        let mut calls = self.said.message.tool_calls();
        calls.any(|call| call.id == result.call_id && call.name == result.name)
            && !self.results.iter().any(has)
    }
}

impl Leg {
    /// Its messages: the answers of models, the results of their calls, and the messages of people meanwhile.
    fn said(&self) -> Vec<Said> {
        let mut all = Vec::new();
        for step in &self.steps {
            all.push(step.said.clone());
            let results = step.said.message.tool_calls().map(|call| {
                let found = step.results.iter().find(|result| result.call_id == call.id);
                found
                    .cloned()
                    .unwrap_or_else(|| ToolResult::new(call, ToolStatus::Error, NO_RESULT))
            });
            let results: Vec<ToolResult> = results.collect();
            if !results.is_empty() {
                let mut said = Said::new(Message::results(results));
                said.at = step.results_at;
                all.push(said);
            }
            all.extend(step.steering.iter().cloned().map(Said::new));
        }
        all
    }
}

fn legs(runs: &[Walked]) -> impl Iterator<Item = (&Walked, &Leg)> {
    runs.iter()
        .flat_map(|run| run.legs.iter().map(move |leg| (run, leg)))
}

fn legs_of(runs: &[Walked]) -> Vec<(&Walked, &Leg)> {
    legs(runs)
        .filter(|(_, leg)| !leg.steps.is_empty())
        .collect()
}

/// The value of an operation that did not fail.
fn value_of<T: serde::de::DeserializeOwned>(result: &RawValue) -> Option<T> {
    let ended: Result<T, OperationError> = serde_json::from_str(result.get()).ok()?;
    ended.ok()
}

/// The messages that the turn left to its session; `None` while it has not ended.
async fn kept(
    store: &StoreHandle,
    recording: &Recording,
    runs: &[Walked],
) -> Result<Option<Vec<Arc<Message>>>, StoreError> {
    let Some(session) = &recording.session else {
        return Ok(None);
    };
    let journal = JournalId::Session(session.clone());
    let mut from = recording.history.len() as u64;
    loop {
        let page = store.read(journal.clone(), from, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(None);
        };
        from = last.sequence + 1;
        for line in &page {
            if let Entry::TurnEnded(end) = line.decode(&journal)?
                && runs.iter().any(|run| run.id == end.run)
            {
                return Ok(Some(end.messages));
            }
        }
    }
}

/// The definitions to which the runs are pinned, each decoded once.
struct Definitions<'a> {
    recording: &'a Recording,
    known: HashMap<Digest, Pinned>,
}

impl<'a> Definitions<'a> {
    fn new(recording: &'a Recording) -> Self {
        Self {
            recording,
            known: HashMap::new(),
        }
    }

    fn episode(
        &mut self,
        run: &Walked,
        leg: &Leg,
        earlier: &[Said],
    ) -> Result<Episode, RecordingError> {
        let digest = run.start.definition;
        if !self.known.contains_key(&digest) {
            let pinned = self.recording.pinned(run.id, digest)?;
            self.known.insert(digest, pinned);
        }
        let pinned = self.known.get(&digest);
        let agent = pinned.and_then(|pinned| pinned.agent(&leg.agent, run.start.top()));
        let agent = agent.ok_or_else(|| RecordingError::Lacks {
            run: run.id,
            what: format!("the agent {:?} in its definition", leg.agent),
        })?;
        let said = leg.said();
        let answered = said
            .iter()
            .rev()
            .find_map(|said| said.call.as_ref())
            .map(|call| call.model.clone())
            .filter(|model| !model.is_empty());
        let before = leg.before.iter().cloned().map(Said::new);
        let given = run.start.tools.iter();
        let given = given.filter(|tool| agent.offered.get(&tool.name).is_none());
        Ok(Episode {
            run: run.id,
            agent: leg.agent.clone(),
            model: answered
                .or_else(|| leg.model.clone())
                .unwrap_or_else(|| agent.model.to_string()),
            instructions: agent.instructions.to_string(),
            tools: agent.offered.iter().chain(given).cloned().collect(),
            before: earlier.iter().cloned().chain(before).collect(),
            earlier: earlier.len(),
            said,
        })
    }
}
