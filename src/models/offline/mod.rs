//! The offline model: a deterministic stand-in that needs no network, no key and no weights.
//!
//! It is no neural network and does not understand language. It splits a task into its parts,
//! hands each to the tool or agent whose name and description share the rarest words with it,
//! fills the arguments from the numbers, quotations, paths and arithmetic in the text, and repeats
//! the results. That is enough to show a team at work, and to test one; where nothing
//! fits, it says so.
//!
//! The same request gets the same answer on every machine: nothing depends on chance, on time or
//! on the order of a hash map.

mod answering;
mod arithmetic;
mod plan;
mod question;
mod routing;
mod schema_filling;
mod text_values;

use ghostlight_actors::{
    contract::{Model, ModelContext, ModelError},
    vocabulary::{Delta, ModelRequest, ModelResponse, Part as MessagePart, ToolCall, Usage},
};

use plan::{Plan, plan};
use schema_filling::Filler;

/// How many characters a token is taken to have: the usual estimate for English.
const CHARS_PER_TOKEN: usize = 4;

/// The offline model. See [the module](self) for what it can and cannot do.
///
/// It takes no account of instructions and sampling settings, except for `tool_choice` and
/// `parallel_tool_calls`. Its usage is an estimate of four characters a token, and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfflineModel;

impl Model for OfflineModel {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let mut response = match plan(&request) {
            Plan::Call(calls) => ModelResponse::tool_calls(calls),
            Plan::Answer { task, text } => ModelResponse::text(in_form(&request, &task, text)),
        };
        if request.stream {
            stream(&response, &cx);
        }
        response.usage = usage(&request, &response);
        response.model = String::from("offline");
        Ok(response)
    }

    fn description(&self) -> String {
        String::from("offline (built in: a stand-in without a neural network)")
    }
}

/// The answer in the form that the request's schema asks for.
fn in_form(request: &ModelRequest, task: &str, text: String) -> String {
    let Some(output) = &request.output else {
        return text;
    };
    match Filler::answer(&output.schema, task, &text).fill() {
        Some(value) => value.to_string(),
        None => text,
    }
}

fn stream(response: &ModelResponse, cx: &ModelContext) {
    let mut index = 0;
    for part in &response.message.parts {
        match part {
            MessagePart::Text(text) => {
                let words = text.split_inclusive(' ');
                words.for_each(|word| cx.delta(Delta::Text(word.to_owned())));
            }
            MessagePart::ToolCall(ToolCall {
                name, arguments, ..
            }) => {
                cx.delta(Delta::ToolCall {
                    index,
                    name: Some(name.clone()),
                    arguments: arguments.text().to_owned(),
                });
                index += 1;
            }
            _ => {}
        }
    }
}

fn usage(request: &ModelRequest, response: &ModelResponse) -> Usage {
    let mut input = request.instructions.chars().count();
    for tool in request.tools.iter() {
        input += tool.name.len() + tool.description.chars().count();
        input += tool.parameters.to_string().chars().count();
    }
    for message in request.conversation.messages() {
        input += message.parts.iter().map(part_chars).sum::<usize>();
    }
    let output = response.message.parts.iter().map(part_chars).sum::<usize>();
    Usage {
        input_tokens: input.div_ceil(CHARS_PER_TOKEN) as u64,
        output_tokens: output.div_ceil(CHARS_PER_TOKEN) as u64,
        ..Usage::default()
    }
}

fn part_chars(part: &MessagePart) -> usize {
    match part {
        MessagePart::Text(text) => text.chars().count(),
        MessagePart::ToolCall(call) => call.name.len() + call.arguments.text().chars().count(),
        MessagePart::ToolResult(result) => result.text.chars().count(),
        MessagePart::Reasoning(reasoning) => reasoning.text.chars().count(),
        _ => 0,
    }
}
