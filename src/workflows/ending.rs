//! A condition that ends an agent's own loop.

use ghostlight_actors::{
    run::{Policy, PolicyContext},
    vocabulary::{AgentError, ModelResponse, Outcome, StopReason, ToolCall, ToolResult},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Termination, Utterance, termination::Listening};

/// Ends an agent's own loop as soon as a [`Termination`] holds, whatever its model would do next: the agent answers with
/// what it said last. An answer of the model is an utterance of the agent, by its name, and a result is an utterance of
/// its tool. The calls of the step get their results first. Nothing is counted from earlier turns.
///
/// ```yaml
/// agent:
///   name: clerk
///   tools: [submit_order, price]
///   policies: [{ name: end_when, until: { any: [{ speaker: submit_order }, { text: THAT IS ALL }, { max_turns: 12 }] } }]
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EndWhen {
    /// The condition.
    pub until: Termination,
    #[serde(skip)]
    listening: Option<Listening>,
    /// The last text that was said.
    #[serde(skip)]
    last: String,
    #[serde(skip)]
    is_over: bool,
}

impl EndWhen {
    /// Ends the loop when this holds.
    pub fn new(until: Termination) -> Self {
        Self {
            until,
            listening: None,
            last: String::new(),
            is_over: false,
        }
    }

    fn heard(&mut self, cx: &PolicyContext<'_>, said: impl IntoIterator<Item = Utterance>) {
        let until = &self.until;
        let listening = self.listening.get_or_insert_with(|| Listening::new(until));
        for said in said {
            listening.hear(&said);
            if !said.text.trim().is_empty() {
                self.last = said.text;
            }
        }
        if !self.is_over && listening.is_over() {
            self.is_over = true;
            cx.stop(StopReason::LoopExited);
        }
    }
}

impl Policy for EndWhen {
    fn is_inherited(&self) -> bool {
        false
    }

    async fn after_model(
        &mut self,
        cx: &PolicyContext<'_>,
        response: &ModelResponse,
    ) -> Result<Option<ModelResponse>, AgentError> {
        let said = Utterance::new(&*cx.agent().name, response.content());
        self.heard(cx, [said]);
        Ok(None)
    }

    async fn after_tools(
        &mut self,
        cx: &PolicyContext<'_>,
        _: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        let said = results.iter();
        let said = said.map(|result| Utterance::new(&*result.name, &*result.text));
        self.heard(cx, said);
        Ok(())
    }

    async fn after_run(
        &mut self,
        _: &PolicyContext<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Outcome>, AgentError> {
        let Outcome::Stopped {
            reason: StopReason::LoopExited,
            partial,
        } = outcome
        else {
            return Ok(None);
        };
        if !self.is_over {
            return Ok(None);
        }
        let mut answer = partial.clone().unwrap_or_default();
        if answer.text.trim().is_empty() {
            answer.text.clone_from(&self.last);
        }
        Ok(Some(Outcome::Answer(answer)))
    }
}
