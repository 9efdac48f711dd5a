//! The kinds of run that are recorded, and the code that recorded them.

use std::time::Duration;

use ghostlight::{
    actor::{System, SystemOptions},
    contract::{Model, ModelContext, ModelError, StoreHandle, SystemClock},
    prelude::*,
    run::{Task, Team, operations::Scope},
    vocabulary::{
        ErrorKind, ModelRequest, Question, RunId, Timestamp, ToolCall, ToolDefinition, Transfer,
    },
};
use serde_json::json;

/// A kind of run: what it is called, and what is said to the team.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
}

pub(crate) fn kinds() -> Vec<Kind> {
    let names = [
        "parallel_tools",
        "delegation",
        "spawned",
        "transfer",
        "approval",
        "cancelled",
        "failed",
        "continue_as",
        "state_and_time",
        "asked_calls",
        "suspended",
        "heard_below",
        "paused",
    ];
    names.into_iter().map(|name| Kind { name }).collect()
}

type Ended = Result<Outcome, AgentError>;

fn call(id: &str, name: &str) -> ToolCall {
    ToolCall::new(id, name, json!({ "what": id }))
}

async fn act(cx: RunContext) -> Ended {
    let input = cx.input().content();
    match input.as_str() {
        "parallel_tools" => {
            let request = cx.model_request(cx.conversation());
            let thought = cx.model(request).await?.content();
            let results = cx
                .tools([call("1", "look"), call("2", "pay"), call("3", "look")])
                .await?;
            let texts: Vec<_> = results.iter().map(|result| result.text.as_str()).collect();
            Ok(Outcome::answer(format!("{thought}: {}", texts.join(", "))))
        }
        "delegation" => {
            let (one, other) =
                tokio::join!(cx.delegate("helper", "one"), cx.delegate("helper", "other"));
            Ok(Outcome::answer(format!("{} {}", one?.text, other?.text)))
        }
        "spawned" => {
            let child = cx.spawn("helper", "beside").await?;
            let looked = cx.tool_unasked(call("1", "look")).await?.text;
            Ok(Outcome::answer(looked + &cx.join(&child).await?.text))
        }
        "transfer" => {
            cx.tool_unasked(call("1", "look")).await?;
            Ok(Outcome::Transfer(Transfer::to("closing").request("close")))
        }
        "approval" => {
            let result = cx.tool_unasked(call("1", "delete")).await?;
            Ok(Outcome::answer(result.text))
        }
        "cancelled" => {
            cx.tool_unasked(call("1", "look")).await?;
            cx.on_cancel(call("2", "pay"));
            cx.sleep(Duration::from_secs(3600)).await?;
            Ok(Outcome::answer("slept"))
        }
        "failed" => {
            cx.uuid().await?;
            Err(AgentError::failed("no luck"))
        }
        "asked_calls" => {
            let asked = cx.delegate("asking", "go").await?;
            Ok(Outcome::answer(asked.text))
        }
        "suspended" => {
            let answered = cx.delegate("patient", "go").await?;
            Ok(Outcome::answer(answered.text))
        }
        "paused" => {
            let answered = cx.delegate("pausing", "go").await?;
            Ok(Outcome::answer(answered.text))
        }
        "heard_below" => {
            let heard = cx.delegate("hearer", Task::from("go").hears_parent());
            Ok(Outcome::answer(heard.await?.text))
        }
        "continue_as" => {
            cx.random().await?;
            Ok(cx.continue_as("parallel_tools"))
        }
        _ => {
            let now = cx.now().await?;
            let state = cx.state(Scope::Session);
            state.set("begun", &now).await?;
            let memory = cx.memory();
            let seen = memory.update("seen", |seen: Option<u32>| seen.unwrap_or(0) + 1);
            let seen = seen.await?;
            let brief = Duration::from_millis(20);
            let late = cx.timeout(brief, cx.sleep(Duration::from_secs(9))).await;
            cx.emit("seen", &seen);
            let step = cx.step("write", Effect::Idempotent, async {
                Ok::<_, std::io::Error>(7)
            });
            let written = step.await?;
            let version = cx.version("layout", 2).await?;
            let late = late.is_err();
            Ok(Outcome::answer(format!(
                "{seen} {late} {written} {version}"
            )))
        }
    }
}

async fn help(cx: RunContext) -> Ended {
    let looked = cx.tool_unasked(call("h", "look")).await?;
    Ok(Outcome::answer(format!(
        "{} {}",
        cx.input().content(),
        looked.text
    )))
}

async fn close(cx: RunContext) -> Ended {
    let request = cx.model_request(cx.conversation());
    let said = cx.model(request).await?.content();
    Ok(Outcome::answer(format!("{said} {:?}", cx.request())))
}

/// Makes the calls that its model asks for, and one of its own with the id of one of them.
async fn make(cx: RunContext) -> Ended {
    let said = cx.model(cx.model_request(cx.conversation())).await?;
    cx.tool(call("1", "look")).await?;
    let results = cx.tools(said.calls()).await?;
    let texts: Vec<_> = results.iter().map(|result| result.text.as_str()).collect();
    Ok(Outcome::answer(texts.join(", ")))
}

/// Asks its model.
async fn think(cx: RunContext) -> Ended {
    Ok(Outcome::answer(cx.think().await?.content()))
}

/// Asks a person and then a model, which is told what was said meanwhile.
async fn hear(cx: RunContext) -> Ended {
    cx.ask(Question::new("Well?")).await?;
    Ok(Outcome::answer(cx.think().await?.content()))
}

/// A model that answers while its caller sleeps.
struct Patient;

impl Model for Patient {
    async fn respond(
        &self,
        _: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let suspension = cx.suspension().unwrap();
        if let Some(answer) = suspension.take_answer() {
            return Ok(ModelResponse::text(answer));
        }
        let (host, ticket) = (suspension.host().clone(), suspension.ticket());
        tokio::spawn(async move {
            host.clock().sleep(Duration::from_millis(20)).await;
            host.answer(&ticket, "a late thought".to_owned()).await
        });
        match suspension.suspend().await {}
    }
}

/// A model whose provider is down at first.
struct Recovering;

impl Model for Recovering {
    async fn respond(
        &self,
        _: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        match cx.attempt() {
            1 => Err(ModelError::new(ErrorKind::Model, "no server").retryable()),
            _ => Ok(ModelResponse::text("a second thought")),
        }
    }
}

/// What the tools take.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct What {
    what: String,
}

/// The team that recorded them. What it does never changes; code that must do something else is
/// another agent.
pub(crate) fn team() -> Team {
    let tool = |definition: ToolDefinition| {
        let name = definition.name.clone();
        tool_fn(definition, move |What { what }: What| {
            let name = name.clone();
            async move { Ok::<_, ToolError>(format!("{name} {what}")) }
        })
    };
    let named = |name: &str, effect| ToolDefinition::new(name, "says again").effect(effect);
    let helper = Agent::from_fn("helper", help).tool_named("look");
    let closing = Agent::from_fn("closing", close);
    let asks = ScriptedModel::from_reply_fn(|_, _| {
        let task = ToolCall::new("3", "delegate_to_aide", json!({ "task": "help" }));
        ModelResponse::tool_calls([call("1", "look"), call("2", "nothing"), task]).into()
    });
    let asking = Agent::from_fn("asking", make)
        .model(asks)
        .tool_named("look")
        .delegate_to(Agent::from_fn("aide", help).tool_named("look"));
    Agent::from_fn("golden", act)
        .tool(tool(named("look", Effect::Read)))
        .tool(tool(named("pay", Effect::Once)))
        .tool(tool(
            named("delete", Effect::Idempotent).approval("Delete {what}?"),
        ))
        .agent(helper)
        .agent(closing)
        .agent(asking)
        .agent(Agent::from_fn("patient", think).model(Patient))
        .agent(Agent::from_fn("pausing", think).model(Recovering))
        .agent(Agent::from_fn("hearer", hear))
        .into_team()
        .unwrap()
}

pub(crate) async fn start(store: StoreHandle) -> System {
    let mut options = SystemOptions::default();
    // A call that failed pauses longer than that, so its run sleeps.
    options.linger = Duration::from_millis(20);
    options.gateway.base_pause = Duration::from_millis(100);
    System::builder(store)
        .options(options)
        .clock(SystemClock::starting_at(Timestamp(1_760_000_000_000)))
        .model(
            "default",
            ScriptedModel::from_reply_fn(|_, _| "thought".into()),
        )
        .team(team())
        .start()
        .await
        .unwrap()
}

/// Records a run of a kind, and gives its id.
pub(crate) async fn record(system: &System, kind: &Kind) -> RunId {
    // Two turns in one session, so that there is a history.
    let session = system.session("golden", kind.name);
    let first = session.send("state_and_time").await.unwrap();
    first.outcome().await.unwrap();
    let run = session.send(kind.name).await.unwrap();
    if matches!(kind.name, "approval" | "cancelled" | "heard_below") {
        run.wait().await.unwrap();
    }
    if kind.name == "heard_below" {
        run.steer("by the way").await.unwrap();
    }
    for (run, operation, _) in run.questions().await.unwrap() {
        system
            .run(run)
            .answer(operation, json!(true))
            .await
            .unwrap();
    }
    if kind.name == "cancelled" {
        run.cancel("enough").await.unwrap();
    }
    let _ = run.outcome().await;
    run.id()
}
