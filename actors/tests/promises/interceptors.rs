//! Interceptors stand around real attempts, in order, never in replay, and repeat no `once` call.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::System,
    contract::{
        Interceptor, ModelContext, ModelError, NextModel, NextTool, ToolContext, ToolError,
        ToolErrorKind, ToolOutput,
    },
    run::{Agent, Intercept, RunContext},
    testing::ScriptedModel,
    vocabulary::{
        Arguments, Effect, ModelRequest, ModelResponse, Outcome, ToolDefinition, ToolStatus,
    },
};
use parking_lot::Mutex;
use serde_json::json;

use crate::stage::{Stage, ask, call, pause, silent, text};

type Log = Arc<Mutex<Vec<String>>>;

/// Writes down what passes, under a name.
struct Noted(&'static str, Log);

impl Interceptor for Noted {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        self.1.lock().push(format!("{} asks", self.0));
        let answer = next.respond(request, cx).await;
        self.1.lock().push(format!("{} hears", self.0));
        answer
    }

    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let name = &next.definition().name;
        self.1.lock().push(format!("{} calls {name}", self.0));
        next.call(arguments, cx).await
    }
}

/// What an ill-behaved interceptor does with a tool call.
#[derive(Clone, Copy, Debug)]
enum Does {
    Twice,
    LetsGo,
    PanicsBefore,
    PanicsAfter,
    Answers,
    HidesDoubt,
    BadArguments,
}

struct Meddler(Does);

impl Interceptor for Meddler {
    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        match self.0 {
            Does::Twice => {
                let _ = next.call(arguments.clone(), cx.clone()).await;
                next.call(arguments, cx).await
            }
            Does::LetsGo => {
                let soon = next.pause(Duration::from_millis(10));
                tokio::select! {
                    output = next.call(arguments, cx) => output,
                    () = soon => Ok(ToolOutput::text("it surely worked")),
                }
            }
            Does::PanicsBefore => panic!("before"),
            Does::PanicsAfter => {
                let _ = next.call(arguments, cx).await;
                panic!("after")
            }
            Does::Answers => Ok(ToolOutput::text("from elsewhere")),
            Does::HidesDoubt => match next.call(arguments, cx).await {
                Err(error) if error.kind == ToolErrorKind::InDoubt => {
                    Ok(ToolOutput::text("it surely worked"))
                }
                output => output,
            },
            Does::BadArguments => next.call(json!({ "no": "such" }).into(), cx).await,
        }
    }
}

fn caller(stage: &Stage, effect: Effect, millis: u64) -> Agent {
    Agent::from_fn("a", |cx: RunContext| async move {
        let result = cx.tool_unasked(call("1", "act")).await?;
        cx.sleep(Duration::from_secs(60)).await?;
        Ok(Outcome::answer(format!("{:?}", result.status)))
    })
    .tool(
        stage.log.tool(
            ToolDefinition::new("act", "acts")
                .effect(effect)
                .parameters(json!({ "type": "object", "additionalProperties": false })),
            Duration::from_millis(millis),
        ),
    )
}

async fn start(stage: &Stage, agent: Agent, interceptors: Vec<Intercept>) -> System {
    let team = agent.into_team().unwrap();
    let mut builder = System::builder(stage.store.clone()).model("default", silent());
    for intercept in interceptors {
        builder = builder.intercept(intercept);
    }
    builder.team(team).start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_first_is_the_outermost_and_each_stands_only_around_what_it_names() {
    let (stage, log) = (Stage::new(), Log::default());
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let answer = cx.model(cx.model_request(cx.conversation())).await?;
        cx.tool_unasked(call("1", "act")).await?;
        cx.tool_unasked(call("2", "look")).await?;
        Ok(Outcome::answer(answer.content()))
    })
    .tool(stage.tool("act", Effect::Once, 1))
    .tool(stage.tool("look", Effect::Read, 1));
    let model = ScriptedModel::replies(["hello"]);
    let noted = |name| Intercept::new(Noted(name, log.clone()));
    let system = System::builder(stage.store.clone())
        .model("default", model)
        .intercept(noted("outer"))
        .intercept(noted("inner"))
        .intercept(noted("looks").tools(["look"]))
        .team(
            agent
                .into_team()
                .unwrap()
                .intercept(noted("team").models(["default"])),
        )
        .start()
        .await
        .unwrap();
    assert_eq!(text(&ask(&system, "a", "go").await).await, "hello");
    let expected = [
        "outer asks",
        "inner asks",
        "team asks",
        "team hears",
        "inner hears",
        "outer hears",
        "outer calls act",
        "inner calls act",
        "outer calls look",
        "inner calls look",
        "looks calls look",
    ];
    assert_eq!(*log.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn what_is_recorded_passes_no_interceptor_again() {
    let (mut stage, log) = (Stage::new(), Log::default());
    let noted = |log: &Log| vec![Intercept::new(Noted("x", log.clone()))];
    let system = start(&stage, caller(&stage, Effect::Read, 1), noted(&log)).await;
    let run = ask(&system, "a", "go").await;
    pause(1000).await;
    stage.crash(&system).await;
    let system = start(&stage, caller(&stage, Effect::Read, 1), noted(&log)).await;
    assert_eq!(text(&system.run(run.id())).await, "Success");
    assert_eq!(*log.lock(), ["x calls act"]);
}

#[tokio::test(start_paused = true)]
async fn no_interceptor_repeats_a_once_call_or_hides_that_it_is_in_doubt() {
    use ToolStatus::{Error, Success, Unknown};
    for (does, effect, millis, status, calls) in [
        (Does::Twice, Effect::Once, 1, Unknown, 1),
        (Does::Twice, Effect::Idempotent, 1, Success, 2),
        (Does::LetsGo, Effect::Once, 50, Unknown, 1),
        (Does::LetsGo, Effect::Read, 50, Success, 1),
        (Does::PanicsBefore, Effect::Once, 1, Error, 0),
        (Does::PanicsAfter, Effect::Once, 1, Unknown, 1),
        (Does::PanicsAfter, Effect::Read, 1, Error, 1),
        (Does::Answers, Effect::Once, 1, Success, 0),
        (Does::HidesDoubt, Effect::Once, 1_000_000, Unknown, 1),
        (Does::BadArguments, Effect::Once, 1, Error, 0),
    ] {
        let stage = Stage::new();
        let meddler = vec![Intercept::new(Meddler(does))];
        let system = start(&stage, caller(&stage, effect, millis), meddler).await;
        let run = ask(&system, "a", "go").await;
        assert_eq!(
            text(&run).await,
            format!("{status:?}"),
            "{does:?} {effect:?}"
        );
        assert_eq!(stage.log.count("act"), calls, "{does:?} {effect:?}");
    }
}
