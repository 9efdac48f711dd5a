//! The loop that behaviors are made of, for those who drive it themselves too.

mod answer;
mod asking;
mod batch;
mod deciding;
mod limits;
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
pub use limits::LoopLimits;
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
/// Whatever its driver does, every call gets exactly one result, in the order of the calls,
/// before the model is asked again; a call that nobody ran is told to be so. What policies defer
/// and what people say to the run while the model answers follows the results.
///
/// The agent's policies watch over it: [`think`](Self::think) and [`act`](Self::act) ask them
/// around model and tools, [`step`](Self::step) has them judge the answer too.
///
/// [`FunctionCalling`]: super::FunctionCalling
pub struct AgentLoop<'a> {
    cx: &'a RunContext,
    format: Arc<dyn TurnFormat>,
    instructions: Option<Arc<str>>,
    /// What the model may call.
    tools: ToolSet,
    completion: FinishMode,
    output: Option<Arc<AnswerSchema>>,
    /// What requests offer: the tools, and the finishing tool where there is one. Made once.
    offered: Option<ToolSet>,
    /// What the last turn offered, after policies had their say.
    offered_now: ToolSet,
    limits: LoopLimits,
    /// How many answers may be rejected before the best one is given.
    max_rejections: u32,
    /// How many calls of one answer are run.
    max_calls: u32,
    /// Whether policies judge its answer.
    is_gated: bool,
    /// Whether its answer is a part of the work only.
    is_inner: bool,
    conversation: Transcript,
    /// How long the conversation was when the loop began.
    begin: usize,
    /// Calls whose results the conversation does not have yet.
    open: Vec<ToolCall>,
    /// The one of them that was cut off: its arguments may not be whole.
    cut: Option<String>,
    /// What people said, until it can follow the results.
    steering: Vec<Arc<Message>>,
    /// All that people said in this loop.
    steered: Vec<Arc<Message>>,
    /// The last text that was said beside or instead of calls: the partial answer.
    last_text: String,
    steps: u32,
    empty_turns: u32,
    unreadable_turns: u32,
    repairs: u32,
    rejections: u32,
    /// The rejected draft with the fewest objections.
    best: Option<Draft>,
}

/// An answer that was rejected.
struct Draft {
    text: String,
    objections: usize,
    feedback: String,
}

impl AgentLoop<'_> {
    /// The conversation as it stands.
    pub fn transcript(&self) -> &Transcript {
        &self.conversation
    }

    /// How many model calls were made.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// What people said to the run in this loop; the conversation has it too.
    pub fn steered(&self) -> &[Arc<Message>] {
        &self.steered
    }

    /// Adds a message for the model in the user's role; it begins no turn. Open calls are closed
    /// first.
    pub fn say(&mut self, text: impl Into<String>) {
        self.close_open_calls();
        self.conversation.push(Message::synthetic(text));
    }

    /// Asks the model once, keeps what it says, and tells what it asks for.
    ///
    /// # Errors
    /// What the model call fails with, and [`AgentError::Early`], where a policy wants to stop or the
    /// answer is not whole: cut off at the bound on its tokens, or held back by its provider.
    pub async fn think(&mut self) -> Result<ModelTurn, AgentError> {
        self.close_open_calls();
        let response = self.response().await?;
        self.steps += 1;
        let turn = self.hear(&response);
        match Self::is_not_whole(&response, &turn) {
            Some(reason) => Err(AgentError::early(Outcome::stopped(reason))),
            None => Ok(turn),
        }
    }

    /// Runs all calls that are open, and keeps their results.
    ///
    /// # Errors
    /// What the run must stop for: a budget that is used up (the results of the other calls are
    /// kept), a call in doubt whose tool says that the run fails, a divergence.
    pub async fn act(&mut self) -> Result<BatchResult, AgentError> {
        let acted = self.call(&self.open.clone()).await?;
        self.record(acted.results.clone());
        match acted.exhausted {
            Some(error) => Err(error.into()),
            None => Ok(acted),
        }
    }

    /// Runs these calls, as far as policies let them, and keeps no results: for a driver that
    /// replaces one. Give the results to [`record`](Self::record).
    ///
    /// # Errors
    /// As [`act`](Self::act), but calls that a budget refused are results that say so.
    pub async fn call(&self, calls: &[ToolCall]) -> Result<BatchResult, AgentError> {
        let mut own = Own {
            cx: self.cx,
            offered: &self.offered_now,
            finishes: self.completion.offers_tool(),
            output: self.output.as_deref(),
            alone: calls.len() == 1,
            acted: BatchResult::default(),
            cut: self.cut.as_deref(),
        };
        let results = self.cx.tools_at(self.moment(), calls, &mut own).await?;
        Ok(own.acted(results))
    }

    /// Keeps the results of the open calls, in the order of the calls. A call without a result
    /// is told not to have run; a result without a call is left out.
    pub fn record(&mut self, mut results: Vec<ToolResult>) {
        let open = std::mem::take(&mut self.open);
        if !open.is_empty() {
            let result = |call: &ToolCall| {
                let place = results.iter().position(|result| result.call_id == call.id);
                place.map_or_else(|| not_run(call), |place| results.swap_remove(place))
            };
            let batch: Vec<ToolResult> = open.iter().map(result).collect();
            let mut results = self.format.results(batch);
            results.synthetic = results.role == Role::User;
            self.conversation.push(results);
        }
        let deferred = self.cx.take_deferred().into_iter();
        self.conversation.extend(deferred.map(Message::synthetic));
        self.conversation.extend(self.steering.drain(..));
    }

    /// One step: a model call with its tool calls. `Some` when it was the last.
    ///
    /// # Errors
    /// What the run fails with. Bounds and budgets are outcomes.
    pub async fn step(&mut self) -> Result<Option<Outcome>, AgentError> {
        if self.steps >= self.limits.steps {
            return Ok(Some(self.stop(StopReason::MaxSteps(self.limits.steps))));
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
    /// As [`step`](Self::step), [`AgentError::Early`] with any other outcome than an answer, and
    /// when the answer is none of this type although its schema lets it pass.
    pub async fn run_as<T: DeserializeOwned>(&mut self) -> Result<T, AgentError> {
        match self.run().await? {
            Outcome::Answer(answer) => {
                serde_json::from_str(&answer.text).map_err(AgentError::failed)
            }
            outcome => Err(AgentError::early(outcome)),
        }
    }

    /// This answer, with all that was said since the loop began. It is added to the conversation,
    /// unless the model said it itself.
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

    /// A stop for this reason, with the last text as the partial answer and all that was said
    /// since the loop began.
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

    /// Whether it does the agent's work. A loop without tools whose answer is only a part of it
    /// was asked for something else: a plan, a judgement.
    fn works(&self) -> bool {
        self.is_gated || !self.tools.is_empty()
    }

    fn moment(&self) -> HookContext<'_> {
        HookContext {
            transcript: &self.conversation,
            steps: self.steps,
        }
    }

    fn close_open_calls(&mut self) {
        self.record(Vec::new());
    }
}

impl fmt::Debug for AgentLoop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLoop")
            .field("steps", &self.steps)
            .field("open", &self.open)
            .field("messages", &self.conversation.len())
            .finish_non_exhaustive()
    }
}
