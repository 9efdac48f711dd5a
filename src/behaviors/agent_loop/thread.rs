//! A conversation that several loops continue.

use std::sync::Arc;

use ghostlight_actors::{
    run::RunContext,
    vocabulary::{AgentError, Message, Outcome, StopReason, Transcript},
};

use super::{AgentLoop, stopped};

/// The agent's conversation, continued by one loop after another.
pub(crate) struct Thread<'a> {
    pub(crate) cx: &'a RunContext,
    /// The length of the conversation when the agent began.
    begin: usize,
    pub(crate) conversation: Transcript,
}

impl<'a> Thread<'a> {
    pub(crate) fn new(cx: &'a RunContext) -> Self {
        let conversation = cx.conversation();
        Self {
            cx,
            begin: conversation.len(),
            conversation,
        }
    }

    /// A loop that continues this conversation.
    pub(crate) fn next(&self) -> Result<AgentLoop<'a>, AgentError> {
        let agent = AgentLoop::new(self.cx)?.conversation(self.conversation.clone());
        Ok(agent.begun_at(self.begin))
    }

    /// The messages since the agent began, until the conversation had this length.
    pub(crate) fn said_until(&self, length: usize) -> Vec<Arc<Message>> {
        self.conversation.truncated(length).since(self.begin)
    }

    /// A stop for this reason, with this partial answer and all messages.
    pub(crate) fn stop(&mut self, reason: StopReason, partial: String) -> Outcome {
        stopped(self.cx, &mut self.conversation, self.begin, reason, partial)
    }
}
