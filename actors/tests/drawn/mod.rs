//! Parts of every drawn team: a policy that intervenes in all that it is asked about, and the loop of an agent with tools.

use ghostlight_actors::{
    run::{BeforeTool, Policy, PolicyContext, RunContext, Verdict},
    vocabulary::{AgentError, Message, ModelResponse, Question, ToolCall, ToolResult},
};

/// Holds back each fourth call, has a person decide another one, changes each third result, and
/// objects to each second answer.
#[derive(Default)]
pub(crate) struct Counting {
    calls: u32,
    results: u32,
    answers: u32,
}

impl Policy for Counting {
    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        self.calls += 1;
        let drawn = cx.random().await?;
        Ok(match self.calls % 4 {
            0 => BeforeTool::blocked(call, format!("held back, {drawn:.3}")),
            2 if drawn < 0.5 => {
                let question = format!("May it be {}?", call.id);
                BeforeTool::ask(Question::approval(question, call.clone()))
            }
            _ => BeforeTool::Go,
        })
    }

    async fn after_tool(
        &mut self,
        _cx: &PolicyContext<'_>,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<Option<ToolResult>, AgentError> {
        self.results += 1;
        let text = format!("{}, result {}", result.text, self.results);
        let is_third = self.results.is_multiple_of(3);
        Ok(is_third.then(|| ToolResult::new(call, result.status, text)))
    }

    async fn before_answer(
        &mut self,
        _cx: &PolicyContext<'_>,
        _draft: &str,
    ) -> Result<Verdict, AgentError> {
        self.answers += 1;
        let flagged = Verdict::Flag(format!("the answer {}", self.answers));
        Ok(if self.answers.is_multiple_of(2) {
            flagged
        } else {
            Verdict::Pass
        })
    }
}

/// The loop that agents with tools are made of.
pub(crate) async fn talk(cx: &RunContext) -> Result<String, AgentError> {
    let mut conversation = cx.conversation();
    for _ in 0..4 {
        conversation.extend(cx.hear());
        let request = cx.model_request(conversation.clone()).streaming();
        let response: ModelResponse = cx.model(request).await?;
        conversation.push(response.message.clone());
        let calls: Vec<ToolCall> = response.message.tool_calls().cloned().collect();
        let over = calls.is_empty();
        if !over {
            conversation.push(Message::results(cx.tools(calls).await?));
        }
        for said in &response.steering {
            conversation.push(said.clone());
        }
        if over && response.steering.is_empty() {
            return Ok(response.message.content());
        }
    }
    Ok(String::from("talked enough"))
}
