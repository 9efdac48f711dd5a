//! How a loop asks the model, and what it keeps of the answer.

use std::sync::Arc;

use ghostlight_actors::{
    run::Policies,
    vocabulary::{
        AgentError, ErrorKind, ModelRequest, ModelResponse, ModelSettings, Part, StopReason,
        ToolSet,
    },
};

use super::{Completion, FINISH_TOOL, Loop, answer};
use crate::behaviors::strategy::{ModelTurn, Reading};

/// What the conversation keeps of a turn in which the model said nothing: providers refuse an
/// empty message, and some refuse two messages of a user in a row.
const EMPTY_TURN: &str = "[empty answer]";

impl Loop<'_> {
    /// Asks the model, or what answers in its place. `Err` in the result is a policy's wish to
    /// stop instead.
    pub(super) async fn response(
        &mut self,
    ) -> Result<Result<ModelResponse, StopReason>, AgentError> {
        let mut request = self.request()?;
        let Some(policies) = self.cx.policies() else {
            self.offered_now = request.tools.clone();
            return self.cx.model(self.as_sent(request)).await.map(Ok);
        };
        let offered = request.tools.clone();
        let answered = policies.before_model(self.moment(), &mut request).await?;
        if !self.works() {
            // A planner or a critic has no use for tools that a policy brings.
            request.tools = offered;
        }
        if let Some(reason) = policies.take_stop() {
            return Ok(Err(reason));
        }
        self.offered_now = request.tools.clone();
        let response = match answered {
            Some(response) => response,
            None => match self.send(policies, request).await {
                Ok(response) => response,
                Err(AgentError::Operation(error))
                    if !matches!(error.kind, ErrorKind::Budget(_)) =>
                {
                    let instead = policies.on_model_error(self.moment(), &error).await?;
                    instead.ok_or(error)?
                }
                Err(error) => return Err(error),
            },
        };
        let other = policies.after_model(self.moment(), &response).await?;
        Ok(Ok(match other {
            Some(mut other) => {
                // What people said is not the policy's to drop.
                if other.steering.is_empty() {
                    other.steering = response.steering;
                }
                other
            }
            None => response,
        }))
    }

    async fn send(
        &self,
        policies: &Policies,
        request: ModelRequest,
    ) -> Result<ModelResponse, AgentError> {
        let mut request = self.as_sent(request);
        policies.before_sending(self.moment(), &mut request).await?;
        self.cx.model(request).await
    }

    fn request(&mut self) -> Result<ModelRequest, AgentError> {
        let mut request = self.cx.model_request(self.conversation.clone());
        if let Some(instructions) = &self.instructions {
            request.instructions = instructions.clone();
        }
        request.tools = self.offered()?;
        request.output = self.output.as_ref().map(|output| output.sent());
        if self.completion == Completion::Tool {
            // The answer comes in the arguments of a call, not as the text.
            request.output = None;
        }
        Ok(request)
    }

    /// The request as the strategy sends it.
    fn as_sent(&self, request: ModelRequest) -> ModelRequest {
        let mut request = self.strategy.request(request);
        let settings = &request.settings;
        let about_tools = settings.tool_choice.is_some() || settings.parallel_tool_calls.is_some();
        if request.tools.is_empty() && about_tools {
            // Servers refuse such settings in a request without tools.
            let mut settings = ModelSettings::clone(settings);
            (settings.tool_choice, settings.parallel_tool_calls) = (None, None);
            request.settings = Arc::new(settings);
        }
        request
    }

    pub(super) fn offered(&mut self) -> Result<ToolSet, AgentError> {
        if let Some(offered) = &self.offered {
            return Ok(offered.clone());
        }
        let mut offered = self.tools.clone();
        if self.completion.offers_tool() {
            if self.tools.iter().any(|tool| answer::is_finish(&tool.name)) {
                return Err(AgentError::failed(format!(
                    "agent {} has a tool called {FINISH_TOOL:?}, which is the name of the tool \
                     that ends the task: rename it, or set `completion` to `text`",
                    self.cx.spec().name
                )));
            }
            let finish = Arc::new(answer::finish_tool(self.output.as_deref()));
            offered = self.tools.iter().cloned().chain([finish]).collect();
        }
        Ok(self.offered.insert(offered).clone())
    }

    pub(super) fn hear(&mut self, response: &ModelResponse) -> ModelTurn {
        let Reading {
            mut said,
            text,
            turn,
        } = self.strategy.read(response, self.steps);
        if !text.trim().is_empty() {
            self.last_text = text;
        }
        if turn == ModelTurn::Empty {
            said.parts.retain(|part| part.as_text().is_none());
            said.parts.push(Part::Text(EMPTY_TURN.to_owned()));
        }
        self.conversation
            .push(said.by(self.cx.spec().name.as_str()));
        self.steering = response.steering.iter().cloned().map(Arc::new).collect();
        self.steered.extend(self.steering.iter().cloned());
        match &turn {
            ModelTurn::Calls(calls) => self.open.clone_from(calls),
            _ => self.conversation.extend(self.steering.drain(..)),
        }
        turn
    }
}
