//! The policy that keeps an agent's requests in bounds.

use std::sync::Arc;

use ghostlight_actors::{
    definition::{ContextSpec, ContextStrategy, OtherAgents, TokenCounting},
    run::{BeforeTool, OwnTool, Policy, PolicyContext, operations::Scope},
    vocabulary::{
        AgentError, Digest, ErrorKind, Message, ModelRequest, ModelResponse, OperationError,
        OutputSchema, Retold, ToolCall, ToolResult, Transcript,
    },
};
use serde_json::json;

use super::{
    READ_RESULT, StablePrefix, TokenCounterHandle,
    draft::Draft,
    history,
    layout::{Layout, View},
    message_cache::MessageCache,
    spill,
    summary::summarize,
};

/// The tokens of a message that holds only reminders, besides their texts.
const REMINDER: u64 = 4;
/// The most layouts that are kept: one for each conversation that an agent has at the same time.
const REMEMBERED: usize = 8;

/// Keeps the requests of an agent in bounds. It is the policy behind [`ContextSpec`], which an
/// agent gets with [`Agent::context`](ghostlight_actors::run::Agent::context) or as `context:` in
/// a team file; install it yourself to bring a counter of your own.
///
/// ```
/// use ghostlight::context::{ContextOptimizer, Estimate};
/// use ghostlight_actors::{definition::{ContextSpec, ContextStrategy}, run::Agent};
///
/// let spec = ContextSpec::new(8_000).strategy(ContextStrategy::TokenWindow);
/// let agent = Agent::new("desk")
///     .policy("context", move || ContextOptimizer::new(spec.clone()).counted_by(Estimate));
/// ```
///
/// It runs last on each request, and changes only the request: the conversation stays whole. Parts
/// that were left out stay left out until that is no longer enough, so successive requests keep a
/// common beginning that providers' caches serve. Then the strategies reduce the request to the
/// target in one go. The layout is kept in the session's state, so that the next turn continues
/// with it and nothing is summarised twice.
///
/// The following holds for any settings:
///
/// - a call is never parted from its result, and the messages are ones that providers accept;
/// - the messages that ask for the current turn stay, and so does the last step;
/// - a request that is sent has at most `max_tokens`; where nothing more can be left out, the model
///   call fails with [`ErrorKind::ContextOverflow`] and is not made.
#[derive(Debug)]
pub struct ContextOptimizer {
    spec: Arc<ContextSpec>,
    counter: Option<TokenCounterHandle>,
    /// Whether the settings chose the counter.
    is_chosen: bool,
    is_resumed: bool,
    layouts: Vec<Layout>,
    sent: Option<Sent>,
    fixed: Option<Fixed>,
    others: history::OtherAgents,
    phrasings: history::Phrasings,
    prefix: StablePrefix,
    reads_results: OwnTool,
    cache: Arc<MessageCache>,
    /// The conversation that was laid out last.
    view: View,
}

/// The conversation of the last request, which the next request extends.
#[derive(Debug)]
struct Sent {
    /// The whole conversation.
    of: Transcript,
    /// The part of it that was sent.
    conversation: Transcript,
    /// Whether all of it was sent.
    is_whole: bool,
    /// The number of tokens of that part.
    tokens: u64,
    /// How many parts of its first message stand for what was not sent.
    retold: usize,
}

/// The tokens of the parts that hardly change between requests.
#[derive(Debug)]
struct Fixed {
    instructions: Arc<str>,
    tools: Digest,
    output: Option<Arc<OutputSchema>>,
    tokens: u64,
}

impl ContextOptimizer {
    /// An optimizer with these settings.
    pub fn new(spec: impl Into<Arc<ContextSpec>>) -> Self {
        Self {
            spec: spec.into(),
            counter: None,
            is_chosen: true,
            is_resumed: false,
            layouts: Vec::new(),
            sent: None,
            fixed: None,
            others: history::OtherAgents::default(),
            phrasings: history::Phrasings::default(),
            prefix: StablePrefix::default(),
            reads_results: spill::own_tool(),
            cache: Arc::default(),
            view: View::default(),
        }
    }

    /// Sets the token counter, instead of the one that the settings select.
    #[must_use]
    pub fn counted_by(mut self, counter: impl super::TokenCounter) -> Self {
        (self.counter, self.is_chosen) = (Some(TokenCounterHandle::new(counter)), false);
        self
    }

    fn counter_for(&mut self, request: &ModelRequest) -> TokenCounterHandle {
        let chosen = || TokenCounterHandle::of(self.spec.counting, &request.model);
        self.counter.get_or_insert_with(chosen).clone()
    }

    /// The counter when there is no request.
    fn counter(&self) -> TokenCounterHandle {
        let known = self.counter.clone();
        known.unwrap_or_else(|| TokenCounterHandle::of(self.spec.counting, ""))
    }

    /// Continues with the layout of an earlier turn.
    async fn resume(&mut self, cx: &PolicyContext<'_>) -> Result<(), AgentError> {
        if std::mem::replace(&mut self.is_resumed, true) || cx.session().is_none() {
            return Ok(());
        }
        if cx.conversation().len() > 1 {
            let kept = cx.state(Scope::Session).get_versioned(key(cx)).await?;
            // A layout of another version is ignored and decided anew.
            let layout = kept.and_then(|(layout, _)| serde_json::from_value(layout).ok());
            self.layouts.extend(layout);
        }
        Ok(())
    }

    fn fixed(&mut self, request: &ModelRequest, counter: &TokenCounterHandle) -> u64 {
        let known = self.fixed.as_ref().filter(|known| {
            known.tools == request.tools.digest()
                && known.instructions == request.instructions
                && known.output == request.output
        });
        if let Some(known) = known {
            return known.tokens;
        }
        let tokens = counter.fixed(request);
        self.fixed = Some(Fixed {
            instructions: request.instructions.clone(),
            tools: request.tools.digest(),
            output: request.output.clone(),
            tokens,
        });
        tokens
    }

    /// Extends the last request by the new messages; `None` if that is not possible.
    fn extended(&mut self, conversation: &Transcript, counter: &TokenCounterHandle) -> Option<u64> {
        let sent = self.sent.as_mut()?;
        let known = sent.of.len();
        if conversation.len() < known || conversation.truncated(known) != sent.of {
            return None;
        }
        let said = conversation.since(known);
        let cache = &self.cache;
        let tokens = said
            .iter()
            .map(|message| cache.tokens(message, || counter.message(message)));
        sent.tokens += tokens.sum::<u64>();
        match sent.is_whole {
            true => sent.conversation = conversation.clone(),
            false => sent.conversation.extend(said),
        }
        sent.of = conversation.clone();
        Some(sent.tokens)
    }

    async fn reduce(
        &self,
        cx: &PolicyContext<'_>,
        draft: &mut Draft<'_>,
        bounds: Bounds,
        counter: &TokenCounterHandle,
    ) -> Result<(), AgentError> {
        let before = (draft.tokens, draft.layout.clone());
        let mut worked = Vec::new();
        for strategy in &self.spec.strategies {
            let layout = draft.layout.clone();
            match strategy {
                ContextStrategy::SlidingWindow(window) => {
                    draft.keep_turns(window.turns);
                    if let Some(messages) = window.messages {
                        draft.keep_messages(messages);
                    }
                }
                ContextStrategy::TokenWindow => draft.cut_to(bounds.target),
                ContextStrategy::Compact(table) => draft.compact(table),
                ContextStrategy::Summarize(settings) => {
                    summarize(cx, draft, settings, bounds.target, &**counter).await?;
                }
                _ => {}
            }
            if draft.layout != layout {
                worked.push(strategy.name());
            }
            if bounds.trigger > 0 && draft.tokens <= bounds.target {
                break;
            }
        }
        if draft.layout != before.1 {
            let told = json!({
                "tokens_before": before.0,
                "tokens": draft.tokens,
                "max_tokens": bounds.max,
                "strategies": worked,
                "left_out": draft.layout.cut,
                "summarized": draft.layout.summarized,
            });
            cx.emit("context_reduced", &told);
        }
        Ok(())
    }

    /// Keeps a layout beyond this run.
    async fn remember(&mut self, cx: &PolicyContext<'_>, layout: Layout) -> Result<(), AgentError> {
        if cx.session().is_some() {
            cx.state(Scope::Session).set(key(cx), &layout).await?;
        }
        if self.layouts.len() == REMEMBERED {
            self.layouts.remove(0);
        }
        self.layouts.push(layout);
        Ok(())
    }

    /// Lays the conversation out anew, and reduces it where necessary.
    async fn lay_out(
        &mut self,
        cx: &PolicyContext<'_>,
        conversation: &Transcript,
        said: &Transcript,
        fixed: u64,
        counter: &TokenCounterHandle,
    ) -> Result<(), AgentError> {
        let view = std::mem::take(&mut self.view);
        let view = view.told(conversation.clone(), said, &cx.asked());
        let known = self.layouts.iter().rev().find(|layout| layout.fits(&view));
        let (known, spec) = (known.cloned().unwrap_or_default(), self.spec.clone());
        let bounds = Bounds::of(&spec);
        let cache = self.cache.clone();
        let mut draft = Draft::new(view, known.clone(), fixed, &spec, &**counter, &cache);
        if draft.tokens > bounds.trigger {
            self.reduce(cx, &mut draft, bounds, counter).await?;
        }
        let layout = draft.layout.clone();
        // What was asked comes before what is told of earlier parts.
        if draft.tokens > bounds.max && draft.bare() {
            let told = json!({ "tokens": draft.tokens, "max_tokens": bounds.max });
            cx.emit("context_summary_left_out", &told);
        }
        if draft.tokens > bounds.max {
            return Err(overflow(cx, &draft, bounds, counter).into());
        }
        let tokens = draft.tokens - fixed;
        let is_whole = layout.is_whole();
        self.sent = Some(Sent {
            of: conversation.clone(),
            conversation: match is_whole {
                true => conversation.clone(),
                false => {
                    let before = self.sent.take().map(|sent| sent.conversation);
                    continued(before.unwrap_or_default(), draft.messages())
                }
            },
            is_whole,
            tokens,
            retold: draft.retold(),
        });
        self.view = draft.into_view();
        if layout != known {
            self.remember(cx, layout.about(conversation)).await?;
        }
        Ok(())
    }
}

impl Policy for ContextOptimizer {
    fn tools(&self) -> Vec<String> {
        let spills = self.spec.spill.is_some();
        spills
            .then(|| self.reads_results.name())
            .into_iter()
            .collect()
    }

    async fn before_sending(
        &mut self,
        cx: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<(), AgentError> {
        self.resume(cx).await?;
        let counter = self.counter_for(request);
        let conversation = match self.spec.other_agents {
            OtherAgents::AsTold => self.others.told_to(&cx.agent().name, &request.conversation),
            _ => request.conversation.clone(),
        };
        let conversation = self.phrasings.told_in(&self.spec.phrasings, &conversation);
        // The reminders of policies follow the conversation.
        let reminders = cx.reminders();
        let reminders = reminders
            .iter()
            .map(|text| counter.count(text))
            .sum::<u64>();
        let fixed = self.fixed(request, &counter) + reminders + u64::from(reminders > 0) * REMINDER;
        self.cache.bound(conversation.len());
        let trigger = Bounds::of(&self.spec).trigger;
        let extended = self.extended(&conversation, &counter);
        if extended.is_none_or(|tokens| fixed + tokens > trigger) {
            let said = &request.conversation;
            self.lay_out(cx, &conversation, said, fixed, &counter)
                .await?;
        }
        if let Some(sent) = &self.sent {
            request.conversation = sent.conversation.clone();
            request.retold = Retold::Head(sent.retold);
        }
        if self.spec.report {
            let report = self.prefix.observe(request, &*counter);
            cx.emit("context_prefix", &report);
        }
        Ok(())
    }

    async fn before_model(
        &mut self,
        _: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        if self.spec.spill.is_some() {
            self.reads_results.offer(request);
        }
        Ok(None)
    }

    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        match &self.spec.spill {
            Some(settings) if call.name == READ_RESULT => {
                spill::read(cx, settings, call, &*self.counter()).await
            }
            _ => Ok(BeforeTool::Go),
        }
    }

    async fn after_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        _: &ToolCall,
        result: &ToolResult,
    ) -> Result<Option<ToolResult>, AgentError> {
        match &self.spec.spill {
            Some(settings) => spill::moved(cx, settings, result, &*self.counter()).await,
            None => Ok(None),
        }
    }

    async fn after_model(
        &mut self,
        _: &PolicyContext<'_>,
        response: &ModelResponse,
    ) -> Result<Option<ModelResponse>, AgentError> {
        // Only the server's name for the model tells which model a registered name stands for.
        if self.is_chosen
            && self.spec.counting == TokenCounting::Model
            && !response.model.is_empty()
        {
            let counter = TokenCounterHandle::of(TokenCounting::Model, &response.model);
            let known = self.counter.as_ref().map(|known| known.name());
            if known != Some(counter.name()) {
                (self.counter, self.fixed, self.sent) = (Some(counter), None, None);
                (self.cache, self.view) = (Arc::default(), View::default());
            }
        }
        Ok(None)
    }
}

/// The bounds of a request, in tokens.
#[derive(Clone, Copy)]
struct Bounds {
    max: u64,
    trigger: u64,
    target: u64,
}

impl Bounds {
    fn of(spec: &ContextSpec) -> Self {
        let max = u64::from(spec.max_tokens);
        let share = |percent: u8| max * u64::from(percent) / 100;
        Self {
            max,
            trigger: share(spec.trigger_percent),
            target: share(spec.target_percent),
        }
    }
}

/// A conversation of these messages, which shares what it can with an earlier one: a message is hashed
/// once where it stands behind the same messages.
fn continued(before: Transcript, messages: Vec<Arc<Message>>) -> Transcript {
    let known = before.messages();
    // The message in the place of what is left out is made anew each time.
    let is_same = |(known, message): &(&Arc<Message>, &Arc<Message>)| {
        Arc::ptr_eq(known, message) || known == message
    };
    let same = known.iter().zip(&messages).take_while(is_same).count();
    let mut conversation = before.truncated(same);
    drop((before, known));
    conversation.extend(messages.into_iter().skip(same));
    conversation
}

/// The key under which the session keeps this agent's layout.
fn key(cx: &PolicyContext<'_>) -> String {
    format!("context:{}", cx.agent().name)
}

fn overflow(
    cx: &PolicyContext<'_>,
    draft: &Draft<'_>,
    bounds: Bounds,
    counter: &TokenCounterHandle,
) -> OperationError {
    let (tokens, max) = (draft.tokens, bounds.max);
    OperationError::new(
        ErrorKind::ContextOverflow,
        format!(
            "the request of agent {:?} has {tokens} tokens (by {}) where `max_tokens` allows {max}, \
             and nothing more of it may be left out: {}; raise `max_tokens`, shorten the \
             instructions, offer fewer tools, or add a strategy to `context`",
            cx.agent().name,
            counter.name(),
            draft.described(),
        ),
    )
}
