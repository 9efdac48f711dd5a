//! The loop that behaviors are made of, which programs can also drive themselves.

mod answer;
mod asking;
mod batch;
mod deciding;
mod files;
mod options;
mod setup;
mod thread;

use std::{fmt, sync::Arc};

use ghostlight_actors::{
    run::{HookContext, RunContext},
    vocabulary::{
        AgentError, Answer, Message, Outcome, Role, StopReason, ToolCall, ToolResult, ToolSet,
        Transcript,
    },
};
use serde::de::DeserializeOwned;

use answer::AnswerSchema;
pub use answer::{FINISH_TOOL, FinishMode};
pub use batch::BatchResult;
use batch::{Own, not_run};
pub(crate) use deciding::{exhausted, stopped, within_budget};
pub use options::LoopOptions;
pub(crate) use thread::Thread;

use super::turn_format::{ModelTurn, TurnFormat};

/// A conversation with the agent's model, step by step. [`FunctionCalling`] is this loop run to
/// its end; drive it yourself to do something between its steps, or inside of one.
///
/// ```
/// use ghostlight::behaviors::{AgentLoop, ModelTurn};
/// use ghostlight_actors::{run::RunContext, vocabulary::{AgentError, Outcome}};
///
/// async fn careful(cx: RunContext) -> Result<Outcome, AgentError> {
///     let mut agent = AgentLoop::new(&cx)?;
///     loop {
///         // What `step` does, by hand:
///         match agent.think().await? {
///             ModelTurn::Answer(text) => return Ok(agent.answer(text)),
///             ModelTurn::Calls(calls) if calls.len() > 10 => agent.say("That is too much at once."),
///             ModelTurn::Calls(_) => drop(agent.act().await?),
///             _ => agent.say("Go on."),
///         }
///     }
/// }
/// ```
///
/// Every call gets exactly one result, whatever its driver does, in the order of the calls, before
/// the model is asked again. A call that was not run gets a result that says so. Deferred messages
/// of policies, and messages that people send until the next request is built, follow the results.
///
/// The agent's policies watch over it: [`think`](Self::think) and [`act`](Self::act) ask them
/// around model and tools, and [`step`](Self::step) also lets them judge the answer.
///
/// [`FunctionCalling`]: super::FunctionCalling
pub struct AgentLoop<'a> {
    cx: &'a RunContext,
    rules: Rules,
    /// The tools in requests, including the finishing tool if there is one. Built once.
    offered: Option<ToolSet>,
    conversation: Transcript,
    /// The length of the conversation when the loop began.
    begin: usize,
    turn: Turn,
    /// All messages of people during this loop.
    steered: Vec<Arc<Message>>,
    /// The last text beside or instead of calls: the partial answer.
    last_text: String,
    counts: Counts,
    /// The rejected draft with the fewest objections.
    best: Option<Draft>,
}

/// The rules of a loop, which its driver sets before it begins.
struct Rules {
    format: Arc<dyn TurnFormat>,
    instructions: Option<Arc<str>>,
    /// The tools that the model may call.
    tools: ToolSet,
    completion: FinishMode,
    output: Option<Arc<AnswerSchema>>,
    limits: LoopOptions,
    /// How many answers may be rejected before the best one is used.
    max_rejections: u32,
    /// The most calls of one answer that are run.
    max_calls: u32,
    /// Whether policies judge its answer.
    is_gated: bool,
    /// Whether the answer is only a part of the work.
    is_inner: bool,
}

/// The work that the last turn of the model left to do.
#[derive(Default)]
struct Turn {
    /// The tools that it offered, after the policies' changes.
    offered: ToolSet,
    /// Calls whose results are not in the conversation yet.
    open: Vec<ToolCall>,
    /// The open call that was cut off: its arguments may be incomplete.
    cut: Option<String>,
    /// Messages of people that wait to follow the results.
    steering: Vec<Arc<Message>>,
    /// Whether people said something while the model answered.
    interrupted: bool,
}

/// How often something has happened, each with a limit.
#[derive(Default)]
struct Counts {
    steps: u32,
    empty_turns: u32,
    unreadable_turns: u32,
    repairs: u32,
    rejections: u32,
    /// Since the last call.
    reflections: u32,
}

/// An answer that was rejected.
struct Draft {
    text: String,
    objections: usize,
    feedback: String,
}

impl AgentLoop<'_> {
    /// The conversation so far.
    pub fn transcript(&self) -> &Transcript {
        &self.conversation
    }

    /// The number of model calls so far.
    pub fn steps(&self) -> u32 {
        self.counts.steps
    }

    /// The messages of people during this loop, which are also in the conversation.
    pub fn steered(&self) -> &[Arc<Message>] {
        &self.steered
    }

    /// Adds a message to the model in the user's role, which begins no turn. Open calls are closed
    /// first.
    pub fn say(&mut self, text: impl Into<String>) {
        self.close_open_calls();
        self.conversation.push(Message::synthetic(text));
    }

    /// Asks the model once, keeps its message, and returns what it asks for.
    ///
    /// # Errors
    /// The errors of the model call, and [`AgentError::Early`] if a policy wants to stop or the
    /// answer is incomplete: cut off at its token limit, or held back by its provider.
    pub async fn think(&mut self) -> Result<ModelTurn, AgentError> {
        let mut turn = self.ask_model().await?;
        if let ModelTurn::Calls(calls) = &mut turn {
            calls.clone_from(&self.turn.open);
        }
        Ok(turn)
    }

    /// As [`think`](Self::think), but without the calls, which are open.
    async fn ask_model(&mut self) -> Result<ModelTurn, AgentError> {
        self.close_open_calls();
        let mut response = self.response().await?;
        self.counts.steps += 1;
        self.keep_files(&mut response).await?;
        let turn = self.keep(&response);
        match Self::is_not_whole(&response, &turn) {
            Some(reason) => Err(AgentError::early(Outcome::stopped(reason))),
            None => Ok(turn),
        }
    }

    /// Runs all open calls, and keeps their results.
    ///
    /// # Errors
    /// The errors that must stop the run: a budget that is used up (the results of the other calls
    /// are kept), a call in doubt whose tool says that the run fails, a divergence.
    pub async fn act(&mut self) -> Result<BatchResult, AgentError> {
        let acted = self.call(&self.turn.open).await?;
        self.record(acted.results.clone());
        match acted.exhausted {
            Some(error) => Err(error.into()),
            None => Ok(acted),
        }
    }

    /// Runs these calls, as far as policies allow, and does not keep the results: for a driver that
    /// replaces one. Give the results to [`record`](Self::record).
    ///
    /// # Errors
    /// As [`act`](Self::act), but a call that a budget refuses gets a result that says so.
    pub async fn call(&self, calls: &[ToolCall]) -> Result<BatchResult, AgentError> {
        let mut own = Own {
            cx: self.cx,
            offered: &self.turn.offered,
            finishes: self.rules.completion.offers_tool(),
            output: self.rules.output.as_deref(),
            alone: calls.len() == 1,
            acted: BatchResult::default(),
            cut: self.turn.cut.as_deref(),
        };
        let results = self
            .cx
            .loop_context()
            .tools_at(self.moment(), calls, &mut own)
            .await?;
        Ok(own.acted(results))
    }

    /// Keeps the results of the open calls, in the order of the calls. A call without a result gets
    /// one that says that it was not run; a result without a call is left out.
    pub fn record(&mut self, mut results: Vec<ToolResult>) {
        let open = std::mem::take(&mut self.turn.open);
        if !open.is_empty() {
            for (place, call) in open.iter().enumerate() {
                let rest = &results[place..];
                match rest.iter().position(|result| result.call_id == call.id) {
                    Some(after) => results.swap(place, place + after),
                    None => results.insert(place, not_run(call)),
                }
            }
            results.truncate(open.len());
            let mut results = self.rules.format.results(results);
            results.synthetic = results.role == Role::User;
            self.conversation.push(results);
        }
        let deferred = self.cx.loop_context().take_deferred().into_iter();
        self.conversation.extend(deferred.map(Message::synthetic));
        self.conversation.extend(self.turn.steering.drain(..));
    }

    /// Takes one step: a model call with its tool calls. Returns `Some` if it was the last step.
    ///
    /// # Errors
    /// The errors that the run fails with. Limits and budgets are outcomes.
    pub async fn step(&mut self) -> Result<Option<Outcome>, AgentError> {
        if self.counts.steps >= self.rules.limits.max_steps {
            return Ok(Some(
                self.stop(StopReason::MaxSteps(self.rules.limits.max_steps)),
            ));
        }
        match self.try_step().await {
            Err(error) => Ok(Some(self.stop(exhausted(error)?))),
            outcome => outcome,
        }
    }

    /// Steps until the end.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub async fn run(&mut self) -> Result<Outcome, AgentError> {
        loop {
            if let Some(outcome) = self.step().await? {
                return Ok(outcome);
            }
        }
    }

    /// Steps until the end, and reads the answer as a value; see [`typed`](Self::typed).
    ///
    /// # Errors
    /// As [`step`](Self::step), [`AgentError::Early`] with any outcome other than an answer, and an
    /// error if the answer fits its schema and not this type.
    pub async fn run_as<T: DeserializeOwned>(&mut self) -> Result<T, AgentError> {
        match self.run().await? {
            Outcome::Answer(answer) => {
                serde_json::from_str(&answer.text).map_err(AgentError::failed)
            }
            outcome => Err(AgentError::early(outcome)),
        }
    }

    /// This answer, with all messages since the loop began. It is added to the conversation, unless
    /// it is blank or the last message is already the model's.
    pub fn answer(&mut self, text: impl Into<String>) -> Outcome {
        self.close_open_calls();
        let text = text.into();
        let last = self.conversation.last().map(|message| message.role);
        if last != Some(Role::Assistant) && !text.trim().is_empty() {
            let said = Message::assistant(text.as_str()).by(self.cx.spec().name.as_str());
            self.conversation.push(said);
        }
        Outcome::Answer(Answer::text(text).with_messages(self.said()))
    }

    /// A stop for this reason, with the last text as the partial answer and all messages since the
    /// loop began.
    pub fn stop(&mut self, reason: StopReason) -> Outcome {
        self.close_open_calls();
        let text = match &self.best {
            Some(draft) => draft.text.clone(),
            None => self.last_text.clone(),
        };
        stopped(self.cx, &mut self.conversation, self.begin, reason, text)
    }

    fn said(&self) -> Vec<Arc<Message>> {
        self.conversation.since(self.begin)
    }

    /// Whether the loop does the agent's work. A loop without tools, whose answer is only a part of
    /// the work, makes something else: a plan, a judgement.
    fn works(&self) -> bool {
        self.rules.is_gated || !self.rules.tools.is_empty()
    }

    fn moment(&self) -> HookContext<'_> {
        HookContext {
            transcript: &self.conversation,
            steps: self.counts.steps,
        }
    }

    fn close_open_calls(&mut self) {
        self.record(Vec::new());
    }
}

impl fmt::Debug for AgentLoop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLoop")
            .field("steps", &self.counts.steps)
            .field("open", &self.turn.open)
            .field("messages", &self.conversation.len())
            .finish_non_exhaustive()
    }
}
