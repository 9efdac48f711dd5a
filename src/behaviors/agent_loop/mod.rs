//! The loop that behaviors are made of, for those who drive it themselves too.

mod answer;
mod batch;

use std::{fmt, sync::Arc};

use ghostlight_actors::{
    run::RunContext,
    vocabulary::{
        AgentError, Answer, ErrorKind, Message, ModelRequest, ModelResponse, ModelSettings,
        Outcome, Part, Resource, StopReason, ToolCall, ToolResult, ToolSet, Transcript,
    },
};

use answer::AnswerSchema;
pub use answer::{Completion, FINISH_TOOL};
pub use batch::Acted;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use batch::{Batch, not_run};

use super::strategy::{NativeCalls, Reading, Strategy, Turn};

/// What the conversation keeps of a turn in which the model said nothing: providers refuse an
/// empty message, and some refuse two messages of a user in a row.
const EMPTY_TURN: &str = "[empty answer]";
const EMPTY_NUDGE: &str =
    "Your last answer was empty. Go on with the task: call a tool, or give the answer.";
const FINISH_NUDGE: &str = "The task is not ended yet. When it is done, call the tool `finish` \
     with the answer; otherwise go on with it.";

/// The bounds of a [`Loop`]. Reaching one is a typed stop with what there is by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most steps: model calls with their tool calls.
    pub steps: u32,
    /// The most turns in a row that lead to nothing: empty ones, and those without the
    /// finishing tool where [`Completion::Tool`] asks for it.
    pub empty_turns: u32,
    /// The most turns in a row that cannot be read.
    pub unreadable_turns: u32,
    /// How often an answer that does not fit its schema is given back to be mended.
    pub repairs: u32,
}

impl Limits {
    /// The steps of a loop for which nobody sets a bound.
    pub const DEFAULT_STEPS: u32 = 40;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: Self::DEFAULT_STEPS,
            empty_turns: 3,
            unreadable_turns: 3,
            repairs: 3,
        }
    }
}

/// A conversation with the agent's model, step by step. [`FunctionCalling`] is this loop run to
/// its end; drive it yourself to do something between its steps, or inside of one.
///
/// ```
/// use ghostlight::behaviors::{Loop, Turn};
/// use ghostlight_actors::{run::RunContext, vocabulary::{AgentError, Outcome}};
///
/// async fn careful(cx: RunContext) -> Result<Outcome, AgentError> {
///     let mut agent = Loop::new(&cx)?;
///     loop {
///         // What `step` does, by hand:
///         match agent.think().await? {
///             Turn::Answer(text) => return Ok(agent.answer(text)),
///             Turn::Calls(calls) if calls.len() > 10 => agent.say("That is too much at once."),
///             Turn::Calls(_) => drop(agent.act().await?),
///             _ => agent.say("Go on."),
///         }
///     }
/// }
/// ```
///
/// Whatever its driver does, every call gets exactly one result, in the order of the calls,
/// before the model is asked again; a call that nobody ran is told to be so. What people say to
/// the run while the model answers follows the results.
///
/// [`FunctionCalling`]: super::FunctionCalling
pub struct Loop<'a> {
    cx: &'a RunContext,
    strategy: Arc<dyn Strategy>,
    instructions: Option<Arc<str>>,
    tools: ToolSet,
    completion: Completion,
    output: Option<Arc<AnswerSchema>>,
    limits: Limits,
    /// Whether its answer is a part of the work only.
    is_inner: bool,
    conversation: Transcript,
    /// How long the conversation was when the loop began.
    begin: usize,
    /// Calls whose results the conversation does not have yet.
    open: Vec<ToolCall>,
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
}

impl<'a> Loop<'a> {
    /// A loop over the agent's conversation with its instructions, tools, settings and output
    /// schema.
    ///
    /// # Errors
    /// When the agent's output schema is none.
    pub fn new(cx: &'a RunContext) -> Result<Self, AgentError> {
        let conversation = cx.conversation();
        let mut limits = Limits::default();
        limits.steps = cx.spec().max_steps.unwrap_or(limits.steps);
        Ok(Self {
            cx,
            strategy: Arc::new(NativeCalls),
            instructions: None,
            tools: cx.tools_offered(),
            completion: Completion::Text,
            output: AnswerSchema::of(cx.agent())?.map(Arc::new),
            limits,
            is_inner: false,
            begin: conversation.len(),
            conversation,
            open: Vec::new(),
            steering: Vec::new(),
            steered: Vec::new(),
            last_text: String::new(),
            steps: 0,
            empty_turns: 0,
            unreadable_turns: 0,
            repairs: 0,
        })
    }

    /// Sets how requests are built and responses are read.
    #[must_use]
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.strategy = Arc::new(strategy);
        self
    }

    /// Sets the system prompt, instead of the agent's instructions.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<Arc<str>>) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Sets the tools that the model may call: some of those that the agent has.
    #[must_use]
    pub fn tools(mut self, tools: ToolSet) -> Self {
        self.tools = tools;
        self
    }

    /// Sets how the model says that it is done.
    #[must_use]
    pub fn completion(mut self, completion: Completion) -> Self {
        self.completion = completion;
        self
    }

    /// Sets the bounds.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the conversation that the loop goes on with.
    #[must_use]
    pub fn conversation(mut self, conversation: Transcript) -> Self {
        self.begin = conversation.len();
        self.conversation = conversation;
        self
    }

    /// Sets from which message on the conversation belongs to outcomes, where the loop goes on
    /// with one that an earlier loop began.
    #[must_use]
    pub fn begun_at(mut self, begin: usize) -> Self {
        self.begin = begin;
        self
    }

    /// Makes the answer a part of the work, after which the run goes on, so that having gone
    /// over a budget is noticed by what comes next.
    #[must_use]
    pub fn inner(mut self) -> Self {
        self.is_inner = true;
        self
    }

    /// Lets the answer be any text, whatever the agent's output schema.
    #[must_use]
    pub fn free_text(mut self) -> Self {
        self.output = None;
        self
    }

    /// Lets the answer be a value of this type, which [`run_as`](Self::run_as) returns.
    ///
    /// # Errors
    /// When what the type says of itself is no JSON Schema.
    pub fn typed<T: JsonSchema + DeserializeOwned>(mut self) -> Result<Self, AgentError> {
        let schema = AnswerSchema::of_type::<T>().map_err(AgentError::failed)?;
        self.output = Some(Arc::new(schema));
        Ok(self)
    }

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

    /// Says something to the model, as a user. Open calls are closed first.
    pub fn say(&mut self, text: impl Into<String>) {
        self.close_open_calls();
        self.conversation.push(Message::user(text));
    }

    /// Asks the model once, keeps what it says, and tells what it asks for.
    ///
    /// # Errors
    /// What the model call fails with.
    pub async fn think(&mut self) -> Result<Turn, AgentError> {
        self.close_open_calls();
        let response = self.cx.model(self.request()?).await?;
        self.steps += 1;
        Ok(self.hear(&response))
    }

    /// Runs all calls that are open, and keeps their results.
    ///
    /// # Errors
    /// What the run must stop for: a budget that is used up (the results of the other calls are
    /// kept), a call in doubt whose tool says that the run fails, a divergence.
    pub async fn act(&mut self) -> Result<Acted, AgentError> {
        let acted = self.call(&self.open.clone()).await?;
        self.record(acted.results.clone());
        match acted.exhausted {
            Some(error) => Err(error.into()),
            None => Ok(acted),
        }
    }

    /// Runs these calls and keeps nothing: for who puts another result in the place of one.
    /// Give the results to [`record`](Self::record).
    ///
    /// # Errors
    /// As [`act`](Self::act), but calls that a budget refused are results that say so.
    pub async fn call(&self, calls: &[ToolCall]) -> Result<Acted, AgentError> {
        let batch = Batch {
            cx: self.cx,
            tools: &self.tools,
            finishes: self.completion.offers_tool(),
            output: self.output.as_ref(),
        };
        batch.run(calls).await
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
            self.conversation.push(self.strategy.results(batch));
        }
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

    /// Steps until the end, and reads the answer as a value; see [`typed`](Self::typed). Any other
    /// outcome than an answer is returned as it is.
    ///
    /// # Errors
    /// As [`step`](Self::step), and when the answer is none of this type although its schema
    /// lets it pass.
    pub async fn run_as<T: DeserializeOwned>(&mut self) -> Result<Result<T, Outcome>, AgentError> {
        match self.run().await? {
            Outcome::Answer(answer) => serde_json::from_str(&answer.text)
                .map(Ok)
                .map_err(AgentError::failed),
            outcome => Ok(Err(outcome)),
        }
    }

    /// This answer, with all that was said since the loop began.
    pub fn answer(&mut self, text: impl Into<String>) -> Outcome {
        self.close_open_calls();
        Outcome::Answer(Answer::text(text).with_messages(self.said()))
    }

    /// A stop for this reason, with the last text as the partial answer and all that was said
    /// since the loop began.
    pub fn stop(&mut self, reason: StopReason) -> Outcome {
        self.close_open_calls();
        let said = self.said();
        let partial = Answer::text(self.last_text.clone()).with_messages(said);
        let nothing = partial.text.is_empty() && partial.messages.is_empty();
        Outcome::Stopped {
            reason,
            partial: (!nothing).then_some(partial),
        }
    }

    fn said(&self) -> Vec<Arc<Message>> {
        self.conversation.since(self.begin)
    }

    fn close_open_calls(&mut self) {
        self.record(Vec::new());
    }

    fn request(&self) -> Result<ModelRequest, AgentError> {
        let mut request = self.cx.model_request(self.conversation.clone());
        if let Some(instructions) = &self.instructions {
            request.instructions = instructions.clone();
        }
        request.tools = self.tools.clone();
        request.output = self.output.as_ref().map(|output| output.sent());
        if self.completion.offers_tool() {
            if self
                .tools
                .iter()
                .any(|tool| tool.name.eq_ignore_ascii_case(FINISH_TOOL))
            {
                return Err(AgentError::failed(format!(
                    "agent {} has a tool called {FINISH_TOOL:?}, which is the name of the tool \
                     that ends the task: rename it, or set `completion` to `text`",
                    self.cx.spec().name
                )));
            }
            let finish = Arc::new(answer::finish_tool(self.output.as_deref()));
            request.tools = self.tools.iter().cloned().chain([finish]).collect();
        }
        if self.completion == Completion::Tool {
            // The answer comes in the arguments of a call, not as the text.
            request.output = None;
        }
        let mut request = self.strategy.request(request);
        let settings = &request.settings;
        let about_tools = settings.tool_choice.is_some() || settings.parallel_tool_calls.is_some();
        if request.tools.is_empty() && about_tools {
            // Servers refuse such settings in a request without tools.
            let mut settings = ModelSettings::clone(settings);
            (settings.tool_choice, settings.parallel_tool_calls) = (None, None);
            request.settings = Arc::new(settings);
        }
        Ok(request)
    }

    fn hear(&mut self, response: &ModelResponse) -> Turn {
        let Reading { mut said, turn } = self.strategy.read(response, self.steps);
        let text = said.content();
        if !text.trim().is_empty() {
            self.last_text = match &turn {
                Turn::Answer(answer) => answer.clone(),
                _ => text,
            };
        }
        if turn == Turn::Empty {
            said.parts.retain(|part| part.as_text().is_none());
            said.parts.push(Part::Text(EMPTY_TURN.to_owned()));
        }
        self.conversation
            .push(said.by(self.cx.spec().name.as_str()));
        self.steering = response.steering.iter().cloned().map(Arc::new).collect();
        self.steered.extend(self.steering.iter().cloned());
        match &turn {
            Turn::Calls(calls) => self.open.clone_from(calls),
            _ => self.conversation.extend(self.steering.drain(..)),
        }
        turn
    }

    async fn try_step(&mut self) -> Result<Option<Outcome>, AgentError> {
        let steered_before = self.steered.len();
        let turn = self.think().await?;
        let steered = self.steered.len() > steered_before;
        if !matches!(turn, Turn::Unreadable(_)) {
            self.unreadable_turns = 0;
        }
        let is_idle = match &turn {
            Turn::Empty => true,
            Turn::Answer(_) => self.completion == Completion::Tool,
            _ => false,
        };
        if !is_idle {
            self.empty_turns = 0;
        }
        match turn {
            Turn::Calls(_) => self.calls_asked(steered).await,
            // What a person just said is answered before the task ends.
            _ if steered => Ok(None),
            Turn::Answer(text) if !is_idle => self.answered(text).await,
            Turn::Answer(_) => Ok(self.idle(FINISH_NUDGE, |_| StopReason::NoToolCalls)),
            Turn::Empty => Ok(self.idle(EMPTY_NUDGE, StopReason::EmptyTurns)),
            Turn::Unreadable(feedback) => Ok(self.unreadable(feedback)),
        }
    }

    async fn calls_asked(&mut self, steered: bool) -> Result<Option<Outcome>, AgentError> {
        let acted = self.act().await?;
        if let Some(transfer) = acted.transfer {
            let said = self.said();
            return Ok(Some(Outcome::Transfer(transfer.with_messages(said))));
        }
        if acted.rejected {
            self.repairs += 1;
            if self.repairs > self.limits.repairs {
                let reason = format!("the tool {FINISH_TOOL:?} was called wrongly too often");
                return Ok(Some(self.stop(StopReason::GaveUp(reason))));
            }
        }
        if steered {
            return Ok(None);
        }
        let Some(text) = acted.finished.clone().or_else(|| acted.ending_text()) else {
            return Ok(None);
        };
        if !text.trim().is_empty() {
            let said = Message::assistant(text.as_str()).by(self.cx.spec().name.as_str());
            self.conversation.push(said);
        }
        self.done(text).await.map(Some)
    }

    async fn answered(&mut self, text: String) -> Result<Option<Outcome>, AgentError> {
        let Some(output) = &self.output else {
            return self.done(text).await.map(Some);
        };
        let reason = match output.read(&text) {
            Ok(json) => return self.done(json).await.map(Some),
            Err(reason) => reason,
        };
        self.cx
            .emit("answer_rejected", &serde_json::json!({ "reason": reason }));
        if self.repairs >= self.limits.repairs {
            let reason = format!("the answer does not fit its schema: {reason}");
            return Ok(Some(self.stop(StopReason::GaveUp(reason))));
        }
        self.repairs += 1;
        self.say(format!(
            "Your answer does not fit the schema that it must fit: {reason}\nGive the whole \
             answer again, as JSON only."
        ));
        Ok(None)
    }

    async fn done(&mut self, text: String) -> Result<Outcome, AgentError> {
        match self.answer(text) {
            Outcome::Answer(answer) if !self.is_inner => within_budget(self.cx, answer).await,
            outcome => Ok(outcome),
        }
    }

    fn idle(&mut self, nudge: &str, reason: impl FnOnce(u32) -> StopReason) -> Option<Outcome> {
        self.empty_turns += 1;
        if self.empty_turns >= self.limits.empty_turns {
            return Some(self.stop(reason(self.empty_turns)));
        }
        self.say(nudge);
        None
    }

    fn unreadable(&mut self, feedback: String) -> Option<Outcome> {
        self.unreadable_turns += 1;
        if self.unreadable_turns > self.limits.unreadable_turns {
            let turns = self.unreadable_turns;
            let reason = format!("{turns} answers in a row could not be read: {feedback}");
            return Some(self.stop(StopReason::GaveUp(reason)));
        }
        self.say(feedback);
        None
    }
}

/// This answer, or the stop that says that the run's last act went over a budget.
pub(crate) async fn within_budget(cx: &RunContext, answer: Answer) -> Result<Outcome, AgentError> {
    let bounds = cx.start().budget;
    if bounds.tokens.is_none() && bounds.cost_micros.is_none() {
        return Ok(Outcome::Answer(answer));
    }
    let spent = cx.budget().await?.spent.usage;
    let over = |used: u64, bound: Option<u64>| bound.is_some_and(|bound| used > bound);
    let resource = if over(spent.total_tokens(), bounds.tokens) {
        Resource::Tokens
    } else if over(spent.cost_micros, bounds.cost_micros) {
        Resource::Cost
    } else {
        return Ok(Outcome::Answer(answer));
    };
    Ok(Outcome::Stopped {
        reason: StopReason::FinishOverBudget(resource),
        partial: Some(answer),
    })
}

/// The stop that a used-up budget means; any other failure stays one.
pub(crate) fn exhausted(error: AgentError) -> Result<StopReason, AgentError> {
    match error.kind() {
        Some(ErrorKind::Budget(resource)) => Ok(StopReason::BudgetExhausted(*resource)),
        _ => Err(error),
    }
}

impl fmt::Debug for Loop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loop")
            .field("steps", &self.steps)
            .field("open", &self.open)
            .field("messages", &self.conversation.len())
            .finish_non_exhaustive()
    }
}
