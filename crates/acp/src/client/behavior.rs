//! The behavior of a member whose agent is in another process.

use std::sync::Arc;

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{
        AgentError, Answer, Data, DataSource, Message, Outcome, Part, Role, Scope, ToolCall,
        ToolStatus,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{CANCEL, OPEN, PROMPT, fault, tool_name};
use crate::protocol::{ContentBlock, Resource};

/// Says the member's task to an agent in another process, and answers with its answer.
///
/// The agent's tools (of [`ProcessToolset`](super::ProcessToolset)) have the member's name. In the conversation of a
/// session the agent's session is kept from one turn to the next; a delegated task gets a session of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessBehavior {}

impl Behavior for ProcessBehavior {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let name = cx.spec().name.clone();
        let keeps = cx.session().is_some() && cx.start().parent.is_none();
        let (state, key) = (cx.state(Scope::Session), format!("acp/{name}/session"));
        let known: Option<String> = if keeps { state.get(&key).await? } else { None };
        let session = match known {
            Some(session) => session,
            None => {
                let session = call(&cx, &name, OPEN, json!({})).await?;
                if keeps {
                    state.set(&key, &session).await?;
                }
                session
            }
        };
        cx.on_cancel(tool_call(&name, CANCEL, json!({ "session": session })));
        let prompt: Vec<ContentBlock> = match cx.request() {
            Some(request) => vec![ContentBlock::text(request)],
            None => cx.input().parts.iter().filter_map(block_of).collect(),
        };
        let said = json!({ "session": session, "prompt": prompt });
        let text = call(&cx, &name, PROMPT, said).await?;
        let mut message = Message::text(Role::Assistant, text.clone());
        message.author = Some(name);
        Ok(Outcome::Answer(
            Answer::text(text).with_messages(vec![Arc::new(message)]),
        ))
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        fault(agent).map_or(Ok(()), Err)
    }
}

fn tool_call(name: &str, what: &str, arguments: Value) -> ToolCall {
    ToolCall::new(what, tool_name(name, what), arguments)
}

/// Makes one of the calls, and gives its text.
async fn call(
    cx: &RunContext,
    name: &str,
    what: &str,
    arguments: Value,
) -> Result<String, AgentError> {
    let result = cx.tools([tool_call(name, what, arguments)]).await?.pop();
    match result {
        Some(result) if result.status == ToolStatus::Success => Ok(result.text.to_string()),
        Some(result) => Err(AgentError::failed(format!("{name}: {}", result.text))),
        None => Err(AgentError::failed(format!("{name}: a call has no result"))),
    }
}

fn block_of(part: &Part) -> Option<ContentBlock> {
    match part {
        Part::Text(text) => Some(ContentBlock::text(text)),
        Part::Data(Data {
            media_type,
            name,
            source,
        }) => {
            let name = name.clone().unwrap_or_else(|| "file".to_owned());
            let mime_type = media_type.clone();
            match source {
                DataSource::Base64(data) => {
                    let data = data.to_string();
                    Some(match media_type.split('/').next() {
                        Some("image") => ContentBlock::Image { data, mime_type },
                        Some("audio") => ContentBlock::Audio { data, mime_type },
                        _ => ContentBlock::Resource {
                            resource: Resource {
                                uri: format!("file:///{name}"),
                                mime_type: Some(mime_type),
                                text: None,
                                blob: Some(data),
                            },
                        },
                    })
                }
                DataSource::Url(uri) => Some(ContentBlock::ResourceLink {
                    uri: uri.to_string(),
                    name,
                }),
                _ => None,
            }
        }
        _ => None,
    }
}
