//! What policies that do nothing cost a step: five of them against none.
//!
//! A step of a run costs far more than its hooks, so two figures are told: the difference of whole
//! steps, and the hooks of a step alone, called again and again inside of one run.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod shared;

use std::time::Instant;

use ghostlight::builtin;
use ghostlight_actors::{
    actor::System,
    run::{Agent, HookContext, Policy, PolicyContext, RunContext, operations::Answering},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{
        AgentError, ModelRequest, ModelResponse, Outcome, ToolCall, ToolResult, ToolStatus,
    },
};
use mimalloc::MiMalloc;
use shared::{Quartiles, Round, alternately, round, stepping};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How many policies watch.
const POLICIES: usize = 5;

/// Leaves everything as it is.
struct Nothing;

impl Policy for Nothing {}

fn watched(agent: Agent, policies: usize) -> Agent {
    (0..policies).fold(agent, |agent, number| {
        agent.policy(format!("nothing-{number}"), || Nothing)
    })
}

async fn system(agent: Agent) -> System {
    let builder = System::builder(InMemoryStore::new()).registry(builtin());
    let builder = builder.model("default", stepping::Caller::default());
    builder
        .team(agent.into_team().unwrap())
        .start()
        .await
        .unwrap()
}

/// So many steps of function calling, watched by so many policies.
fn steps(runtime: &Runtime, steps: u32, policies: usize) -> Round {
    let agent = Agent::new("stepper")
        .tool(stepping::add_vat)
        .max_steps(steps);
    let system = runtime.block_on(system(watched(agent, policies)));
    let took = round(steps, || {
        runtime.block_on(async {
            let session = system.session("stepper", "s");
            let run = session.send(Turn::text("go")).await.unwrap();
            assert!(run.outcome().await.unwrap().stop_reason().is_some());
        });
    });
    runtime.block_on(system.stop()).unwrap();
    took
}

/// Answers in the place of the model.
struct Answers;

impl Policy for Answers {
    async fn before_model(
        &mut self,
        _: &PolicyContext<'_>,
        _: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        Ok(Some(ModelResponse::tool_calls([stepping::call(1)])))
    }
}

/// Answers in the place of the tools.
struct Answered;

impl Answering for Answered {
    fn answer(&mut self, call: &ToolCall) -> Option<ToolResult> {
        Some(ToolResult::new(call, ToolStatus::Success, "95.2"))
    }
}

/// The hooks of a step with one call, so often, in nanoseconds each: nothing is really called.
async fn hooks(cx: RunContext, times: u32) -> Result<Outcome, AgentError> {
    let transcript = cx.conversation();
    let moment = HookContext {
        transcript: &transcript,
        steps: 1,
    };
    let calls = [stepping::call(1)];
    let request = cx.model_request(transcript.clone());
    let began = Instant::now();
    for _ in 0..times {
        let request = request.clone();
        cx.loop_context()
            .model_at(moment, request, |request| request)
            .await?;
        cx.loop_context()
            .tools_at(moment, &calls, &mut Answered)
            .await?;
        drop((
            cx.loop_context().take_deferred(),
            cx.loop_context().stopping(),
        ));
    }
    let each = began.elapsed().as_secs_f64() * 1e9 / f64::from(times);
    Ok(Outcome::answer(format!("{each}")))
}

fn hooks_alone(runtime: &Runtime) -> f64 {
    runtime.block_on(async {
        let agent = Agent::from_fn("hooks", |cx| hooks(cx, 20_000));
        let agent = watched(agent, POLICIES - 1).policy("answers", || Answers);
        let system = system(agent).await;
        let run = system.session("hooks", "s").send(Turn::text("go")).await;
        let outcome = run.unwrap().outcome().await.unwrap();
        system.stop().await.unwrap();
        outcome.text().parse().unwrap()
    })
}

fn main() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    hooks_alone(&runtime);
    let alone = Quartiles::of((0..21).map(|_| hooks_alone(&runtime)));
    println!(
        "the hooks of {POLICIES} policies, one of which answers for the model: {alone} ns a step"
    );
    let compared = alternately(
        41,
        || steps(&runtime, 400, 0),
        || steps(&runtime, 400, POLICIES),
    );
    compared.print("a step of function calling, watched by none (floor) and by five");
}
