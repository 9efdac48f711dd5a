//! Agents have different tools and models of one name, and what is kept of one is not taken for the other's.

use ghostlight::{
    contract::{Tool, ToolContext, ToolError, ToolHandle, ToolOutput, Toolset},
    interceptors::{Cache, CircuitBreaker},
    run::{Agent, Intercept, RunContext},
    testing::ScriptedModel,
    vocabulary::{
        Arguments, Effect, Message, ModelResponse, Outcome, ToolCall, ToolDefinition, Transcript,
    },
};
use serde_json::json;

use crate::{Act, Script, ends, seconds};

/// Says whose it is, or fails.
struct Reads(&'static str, bool);

impl Tool for Reads {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("read_file", "reads").effect(Effect::Read)
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        match self.1 {
            true => Err(ToolError::new("down")),
            false => Ok(ToolOutput::text(self.0)),
        }
    }
}

struct Set(ToolHandle);

impl Toolset for Set {
    fn tools(&self) -> Result<Vec<ToolHandle>, ToolError> {
        Ok(vec![self.0.clone()])
    }
}

/// Calls the tool, then asks the model.
async fn tries(cx: &RunContext) -> Vec<String> {
    let call = ToolCall::new("1", "read_file", json!({ "path": "a.md" }));
    let read = cx.tool(call).await.unwrap();
    let conversation = Transcript::from_iter([Message::user("who are you?")]);
    let said = cx.model(cx.model_request(conversation)).await;
    vec![
        read.text,
        said.map_or_else(|error| error.to_string(), |said| said.content()),
    ]
}

/// An agent and one below it, each with things of its own.
fn agents(own: impl Fn(Agent, &'static str) -> Agent) -> Agent {
    let below = Agent::from_fn("b", |cx: RunContext| async move {
        let told = tries(&cx).await;
        Ok(Outcome::answer(serde_json::to_string(&told).unwrap()))
    });
    let above = Agent::from_fn("a", |cx: RunContext| async move {
        let mut told = tries(&cx).await;
        let below = cx.delegate("b", "go").await?;
        let below: Vec<String> = serde_json::from_str(&below.text).unwrap();
        told.extend(below);
        Ok(Outcome::answer(serde_json::to_string(&told).unwrap()))
    });
    own(above, "notes").agent(own(below, "evil"))
}

fn with_model(agent: Agent, name: &'static str) -> Agent {
    agent.model(ScriptedModel::from_fn(move |_, _| {
        Ok(ModelResponse::text(name))
    }))
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_one_agents_tool_or_model_is_not_given_for_that_of_another() {
    let of_tools = |agent: Agent, name| with_model(agent.tool(Reads(name, false)), name);
    let of_toolsets = |agent: Agent, name| {
        with_model(
            agent.toolset("files", Set(ToolHandle::new(Reads(name, false)))),
            name,
        )
    };
    for agent in [agents(of_tools), agents(of_toolsets)] {
        let cache = Intercept::new(Cache::new(seconds(60), 9));
        let told = ends(agent, Script::new(&[Act::Answers]), vec![cache]).await;
        assert_eq!(told, ["notes", "notes", "evil", "evil"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_fails_closes_no_circuit_of_another_of_its_name() {
    let agent = agents(|agent, name| agent.tool(Reads(name, name == "notes")));
    let breaker = Intercept::new(CircuitBreaker::new(1, seconds(60)));
    let told = ends(agent, Script::new(&[Act::Answers]), vec![breaker]).await;
    assert_eq!((&*told[0], &*told[2]), ("down", "evil"));
}
