//! How a loop asks the model, and how it keeps the answer.

use std::sync::Arc;

use ghostlight_actors::vocabulary::{
    AgentError, FinishReason, Message, ModelRequest, ModelResponse, ModelSettings, Part,
    StopReason, ToolCall, ToolSet,
};

use super::{AgentLoop, FINISH_TOOL, FinishMode, answer};
use crate::behaviors::turn_format::{ModelTurn, Reading, TurnFormat};

/// The text that the conversation keeps for an empty turn of the model: providers refuse an empty
/// message, and some refuse two messages of a user in a row.
const EMPTY_TURN: &str = "[empty answer]";

impl AgentLoop<'_> {
    /// Adds what people have said by now to the conversation. Whether they said something.
    pub(super) fn listen(&mut self) -> bool {
        let said = self.cx.hear();
        self.steered.extend(said.iter().cloned());
        let said_something = !said.is_empty();
        self.conversation.extend(said);
        said_something
    }

    /// Asks the model, or the policy that answers in its place.
    pub(super) async fn response(&mut self) -> Result<ModelResponse, AgentError> {
        self.listen();
        let request = self.request()?;
        let (works, format) = (self.works(), self.rules.format.clone());
        let mut offered = request.tools.clone();
        let ready = |mut request: ModelRequest| {
            if works {
                offered = request.tools.clone();
            } else {
                // A planner or a critic has no use for tools that a policy adds.
                request.tools = offered.clone();
            }
            as_sent(&*format, request)
        };
        let response = self
            .cx
            .loop_context()
            .model_at(self.moment(), request, ready)
            .await;
        self.turn.offered = offered;
        response
    }

    fn request(&mut self) -> Result<ModelRequest, AgentError> {
        let mut request = self.cx.model_request(self.conversation.clone());
        if let Some(instructions) = &self.rules.instructions {
            request.instructions = instructions.clone();
        }
        request.tools = self.offered()?;
        request.output = self.rules.output.as_ref().map(|output| output.sent());
        if self.rules.completion == FinishMode::Tool {
            // The answer comes in the arguments of a call, not as the text.
            request.output = None;
        }
        Ok(request)
    }

    pub(super) fn offered(&mut self) -> Result<ToolSet, AgentError> {
        if let Some(offered) = &self.offered {
            return Ok(offered.clone());
        }
        let mut offered = self.rules.tools.clone();
        if self.rules.completion.offers_tool() {
            if self
                .rules
                .tools
                .iter()
                .any(|tool| answer::is_finish(&tool.name))
            {
                return Err(AgentError::failed(format!(
                    "agent {} has a tool called {FINISH_TOOL:?}, which is the name of the tool \
                     that ends the task: rename it, or set `completion` to `text`",
                    self.cx.spec().name
                )));
            }
            let finish = Arc::new(answer::finish_tool(self.rules.output.as_deref()));
            offered = self.rules.tools.iter().cloned().chain([finish]).collect();
        }
        Ok(self.offered.insert(offered).clone())
    }

    /// Keeps an answer, and tells what it asks for. Of calls only that there are some: the loop has them as its open ones.
    pub(super) fn keep(&mut self, response: &ModelResponse) -> ModelTurn {
        let Reading {
            mut said,
            text,
            mut turn,
        } = self.rules.format.read(response, self.counts.steps);
        if !text.trim().is_empty() {
            self.last_text = text;
        }
        if turn == ModelTurn::Empty {
            said.retain_parts(|part| part.as_text().is_none());
            said.parts.push(Part::Text(EMPTY_TURN.to_owned()));
        }
        let note = match &mut turn {
            ModelTurn::Calls(calls) => self.bound(calls, &mut said),
            _ => None,
        };
        self.conversation
            .push(said.by(self.cx.spec().name.as_str()));
        self.turn.interrupted = !response.steering.is_empty();
        self.turn.steering = response.steering.iter().cloned().map(Arc::new).collect();
        self.steered.extend(self.turn.steering.iter().cloned());
        match &mut turn {
            ModelTurn::Calls(calls) => {
                self.turn.open = std::mem::take(calls);
                self.turn.steering.extend(note.map(Arc::new));
            }
            _ => self.conversation.extend(self.turn.steering.drain(..)),
        }
        let open = &self.turn.open;
        // If some calls were left out, the last call that is kept is complete.
        let is_cut = response.finish == FinishReason::Length
            && response.message.tool_calls().count() <= open.len();
        let last = open.last().filter(|_| is_cut);
        self.turn.cut = last.map(|call| call.id.clone());
        turn
    }

    /// Removes the calls above the limit, and returns the message that tells the model so after the
    /// results. A model that repeats itself can ask for a hundred thousand calls.
    fn bound(&self, calls: &mut Vec<ToolCall>, said: &mut Message) -> Option<Message> {
        let (asked, most) = (calls.len(), self.rules.max_calls as usize);
        if asked <= most {
            return None;
        }
        calls.truncate(most);
        let mut kept = 0;
        said.retain_parts(|part| {
            let is_call = matches!(part, Part::ToolCall(_));
            kept += usize::from(is_call);
            !is_call || kept <= most
        });
        let told = serde_json::json!({ "asked": asked, "run": most });
        self.cx.emit("calls_left_out", &told);
        Some(Message::synthetic(format!(
            "Your answer called {asked} tools at once, but at most {most} calls of an answer are run. \
             Only the first {most} were; the others were not, and are not repeated here. Call fewer at \
             a time."
        )))
    }

    /// Why a turn with an incomplete answer ends the loop. An answer that was cut off does not
    /// count, but of its calls all except the last are complete. An answer that a filter held back
    /// is not requested again. A message that a person has just sent is answered first.
    pub(super) fn is_not_whole(response: &ModelResponse, turn: &ModelTurn) -> Option<StopReason> {
        let calls = matches!(turn, ModelTurn::Calls(_));
        match &response.finish {
            FinishReason::ContentFilter if calls || response.steering.is_empty() => {
                Some(StopReason::ContentFilter)
            }
            FinishReason::Length if !calls && response.steering.is_empty() => {
                Some(StopReason::Truncated)
            }
            _ => None,
        }
    }
}

/// The request with the format's changes.
fn as_sent(format: &dyn TurnFormat, request: ModelRequest) -> ModelRequest {
    let mut request = format.request(request);
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
