//! A team of one agent with a memory, and a model that does what it is told.

use ghostlight::{
    prelude::*,
    run::Team,
    vocabulary::{Message, Part, ToolCall},
};
use serde_json::{Value, json};

/// A team file of one agent with this memory.
pub(crate) fn team(memory: &Value) -> Team {
    team_of(&json!({ "name": "desk", "behavior": "function_calling", "memory": memory }))
}

/// A team file of this agent.
pub(crate) fn team_of(agent: &Value) -> Team {
    let file = json!({ "agent": agent }).to_string();
    let file = ghostlight::config::parse(file, "team.yaml").unwrap();
    Team {
        spec: file.into_spec(),
        registry: ghostlight::run::Registry::new(),
    }
}

pub(crate) async fn system(
    memory: &Value,
    model: &ScriptedModel,
    extra: impl Into<Option<Agent>>,
) -> System {
    let builder = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model.clone())
        .tool(breaks)
        .team(team(memory));
    match extra.into() {
        Some(agent) => builder.team(agent.into_team().unwrap()),
        None => builder,
    }
    .start()
    .await
    .unwrap()
}

pub(crate) async fn say(system: &System, session: &str, owner: &str, text: &str) -> String {
    let turn = Turn::text(text).owner(owner);
    let run = system.session("desk", session).send(turn).await.unwrap();
    run.outcome().await.unwrap().text().to_owned()
}

/// Calls the tool with the JSON that a person says, and answers with what came back; anything else it answers.
pub(crate) fn obedient() -> ScriptedModel {
    ScriptedModel::from_fn(|request, number| {
        let last = request.conversation.messages();
        let said = last
            .iter()
            .rev()
            .find(|said| said.is_from_user() || said.tool_results().count() > 0);
        let said = said.unwrap();
        // What is recalled is a part of its own behind the words.
        if let Some(result) = said.tool_results().next() {
            return Ok(ModelResponse::text(result.text.as_str()));
        }
        Ok(match serde_json::from_str::<Value>(words(said)) {
            Ok(arguments) => {
                let call = ToolCall::new(format!("c{number}"), "memory", arguments);
                ModelResponse::tool_calls([call])
            }
            Err(_) => ModelResponse::text("answered"),
        })
    })
}

/// What a person said, without what was recalled for it.
pub(crate) fn words(said: &Message) -> &str {
    said.parts
        .first()
        .and_then(Part::as_text)
        .unwrap_or_default()
}

/// What was recalled for the last request.
pub(crate) fn recalled(model: &ScriptedModel) -> String {
    let request = model.requests().pop().unwrap();
    recalled_in(&request)
}

pub(crate) fn recalled_in(request: &ModelRequest) -> String {
    let last = request.conversation.last().unwrap();
    let mut texts = last.parts.iter().filter_map(Part::as_text);
    let found = texts.find(|text| text.contains("PAST_EXPERIENCES"));
    found.unwrap_or_default().to_owned()
}

/// Always fails.
#[tool(effect = "read")]
pub(crate) async fn breaks() -> Result<String, ToolError> {
    Err(ToolError::new("the boiler is cold"))
}
