//! The offline model: a deterministic stand-in that needs no network, no key and no weights.
//!
//! It is not a neural network and does not understand language. It splits a task into questions, hands
//! each to the tool or agent whose name and description share the rarest words with it, fills in the
//! arguments from the numbers, quotations, paths and arithmetic in the text, and repeats the
//! results. That is enough to show a team at work; where nothing fits, it says so.
//!
//! The same request gets the same answer on every machine.

mod answering;
mod arguments;
mod plan;
mod text;
mod turn;
mod verdict;

use ghostlight_actors::{
    contract::{Model, ModelContext, ModelError},
    vocabulary::{Delta, ModelRequest, ModelResponse, Usage},
};
use serde::Serialize;

use plan::{Plan, plan};
use verdict::verdict;

/// The number of bytes in a token: the usual estimate for English.
const BYTES_PER_TOKEN: usize = 4;

/// The offline model. See [the module](self) for what it can and cannot do.
///
/// It takes no account of instructions, of a schema for the answer, or of settings, except that it calls
/// only what `tool_choice` and `parallel_tool_calls` allow, and that it gives an evaluation's judge a verdict, by words
/// alone. Its usage is an estimate of four bytes a token, and
/// costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfflineModel;

impl Model for OfflineModel {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let planned = verdict(&request).map_or_else(|| plan(&request), Plan::Answer);
        let mut response = match planned {
            Plan::Call(calls) => ModelResponse::tool_calls(calls),
            Plan::Answer(text) => {
                if request.stream {
                    let words = text.split_inclusive(' ');
                    words.for_each(|word| cx.delta(Delta::Text(word.to_owned())));
                }
                ModelResponse::text(text)
            }
        };
        response.usage = usage(&request, &response);
        response.model = String::from("offline");
        Ok(response)
    }

    fn description(&self) -> String {
        String::from("offline (built in: a stand-in without a neural network)")
    }
}

fn usage(request: &ModelRequest, response: &ModelResponse) -> Usage {
    let messages = request.conversation.messages();
    let asked = messages.iter().map(|message| bytes(&**message));
    let offered = request.tools.iter().map(|tool| bytes(&**tool));
    let input = request.instructions.len() + asked.chain(offered).sum::<usize>();
    Usage {
        input_tokens: input.div_ceil(BYTES_PER_TOKEN) as u64,
        output_tokens: bytes(&*response.message).div_ceil(BYTES_PER_TOKEN) as u64,
        ..Usage::default()
    }
}

/// The length of a value as JSON, in bytes.
fn bytes(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |json| json.len())
}
