//! What calling tools costs: the dispatch of a call, a call at a server of the Model Context Protocol over standard
//! streams, and a step of an agent that has a thousand tools.
//!
//! - *Dispatch*: a recorded tool call against a recorded step that calls the same tool by hand. Both write the same
//!   entries, so the difference is the registry, the validation of the arguments and the executor.
//! - *MCP*: our client against the SDK's own, each with a process of the same server, which is this program.
//! - *A thousand tools*: a step under the policy `tool_search` against one with ten tools, which are all in the request.
//!
//! `-- dispatch`, `-- mcp` or `-- thousand` measures one of them alone.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod shared;

use std::{process::Stdio, sync::Arc};

use futures_util::future::join_all;
use ghostlight::{
    builtin,
    mcp::{McpToolset, ServerSpec},
    policies::ToolSearch,
    tools::tool_fn,
};
use ghostlight_actors::{
    actor::System,
    contract::{ToolContext, ToolHandle, Toolset},
    run::{Agent, RunContext, Team},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{AgentError, Arguments, Effect, Outcome, StopReason, ToolDefinition},
};
use mimalloc::MiMalloc;
use rmcp::{
    ErrorData, RoleClient, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientConfig, ContentBlock,
        ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig,
        Tool,
    },
    service::{ClientLifecycleMode, RequestContext, RunningService, serve_client_with_lifecycle},
    transport::async_rw::AsyncRwTransport,
};
use serde_json::{Map, Value, json};
use shared::{Compared, Quartiles, Round, alternately, round, stepping};
use tokio::{
    process::{Child, Command},
    runtime::{Builder, Runtime},
};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

async fn started(team: Team) -> System {
    let builder = System::builder(InMemoryStore::new()).registry(builtin());
    let builder = builder.model("default", stepping::Caller::default());
    builder.team(team).start().await.unwrap()
}

/// One turn of a team of its own, in microseconds for each of so many units.
///
/// An agent that is written as a function answers "done"; a default one calls its tool until its steps are used up.
fn turn(runtime: &Runtime, agent: Agent, units: u32) -> Round {
    let name = agent.spec().name.clone();
    let system = runtime.block_on(started(agent.into_team().unwrap()));
    let took = round(units, || {
        runtime.block_on(async {
            let session = system.session(&name, "s");
            let run = session.send(Turn::text(stepping::QUESTION)).await.unwrap();
            let outcome = run.outcome().await.unwrap();
            let is_used_up = matches!(outcome.stop_reason(), Some(StopReason::MaxSteps(_)));
            let is_done = outcome.text() == "done" || is_used_up;
            assert!(is_done, "{outcome:?}");
        });
    });
    runtime.block_on(system.stop()).unwrap();
    took
}

// --- Dispatch --------------------------------------------------------------------------------

/// How many calls one run makes.
const CALLS: u32 = 500;

fn add_vat() -> ToolHandle {
    ToolHandle::new(stepping::add_vat)
}

fn arguments() -> Arguments {
    Arguments::from(json!({"net": 80.0, "percent": 19.0}))
}

async fn by_hand(tool: &ToolHandle) -> Result<String, String> {
    let output = tool.call(arguments(), ToolContext::detached()).await;
    output
        .map(|output| output.text)
        .map_err(|error| error.to_string())
}

async fn steps(cx: RunContext) -> Result<Outcome, AgentError> {
    let tool = add_vat();
    for _ in 0..CALLS {
        let tool = tool.clone();
        cx.step("add_vat", Effect::Read, async move { by_hand(&tool).await })
            .await?;
    }
    Ok(Outcome::answer("done"))
}

async fn calls(cx: RunContext) -> Result<Outcome, AgentError> {
    for number in 0..CALLS {
        cx.tool_unasked(stepping::call(number.into())).await?;
    }
    Ok(Outcome::answer("done"))
}

fn dispatch(runtime: &Runtime) {
    let tool = add_vat();
    let bare = Quartiles::of((0..51).map(|_| {
        let calling = async {
            for _ in 0..CALLS {
                by_hand(&tool).await.unwrap();
            }
        };
        round(CALLS, || runtime.block_on(calling)).wall
    }));
    println!("the bare call of a tool, wall: {bare} µs");
    let compared = alternately(
        51,
        || turn(runtime, Agent::from_fn("steps", steps), CALLS),
        || {
            let agent = Agent::from_fn("calls", calls).tool(stepping::add_vat);
            turn(runtime, agent, CALLS)
        },
    );
    compared.print(
        "dispatch: a recorded step that calls the tool by hand (floor), a recorded tool call",
    );
}

// --- Model Context Protocol ------------------------------------------------------------------

/// What makes this program the server.
const SERVE: &str = "serve-mcp";
/// How many calls a round makes.
const EXCHANGES: u32 = 400;

/// A server with one tool.
struct Gross;

impl ServerHandler for Gross {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let number = json!({ "type": "number" });
        let schema = json!({
            "type": "object",
            "properties": { "net": number, "percent": number },
            "required": ["net", "percent"],
        });
        let schema = schema.as_object().cloned().unwrap_or_default();
        let tool = Tool::new("add_vat", "Adds VAT to a net price.", Arc::new(schema));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = params.arguments.unwrap_or_default();
        let number = |name: &str| arguments.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        let gross = stepping::gross(number("net"), number("percent"));
        let text = ContentBlock::text(gross.to_string());
        Ok(CallToolResult::success(vec![text]).into())
    }
}

async fn serve() {
    let transport = AsyncRwTransport::new_server(tokio::io::stdin(), tokio::io::stdout());
    let serving = rmcp::serve_server(Gross, transport).await.unwrap();
    serving.waiting().await.unwrap();
}

/// The SDK's own client of the server.
async fn bare_client(program: &str) -> (RunningService<RoleClient, ClientConfig>, Child) {
    let mut child = Command::new(program)
        .arg(SERVE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let transport = AsyncRwTransport::new_client(stdout, stdin);
    // The revision that ours speaks too.
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::LATEST],
        legacy_version: None,
    };
    let client = serve_client_with_lifecycle(ClientConfig::default(), transport, lifecycle);
    let client = client.await.unwrap();
    (client, child)
}

fn fields() -> Map<String, Value> {
    let fields = json!({"net": 80.0, "percent": 19.0});
    fields.as_object().cloned().unwrap_or_default()
}

/// So many calls after each other, from each of so many tasks at once.
fn exchanges<F>(runtime: &Runtime, at_once: u32, one: impl Fn() -> F) -> Round
where
    F: Future<Output = String> + Send + 'static,
{
    round(EXCHANGES, || {
        runtime.block_on(async {
            for _ in 0..EXCHANGES / at_once {
                let calls = (0..at_once).map(|_| one());
                for text in join_all(calls).await {
                    assert_eq!(text, "95.19999999999999");
                }
            }
        });
    })
}

/// An agent that calls the server's tool over and over.
async fn at_server(cx: RunContext) -> Result<Outcome, AgentError> {
    for number in 0..EXCHANGES {
        let result = cx.tool_unasked(stepping::call(number.into())).await?;
        assert_eq!(result.text, "95.19999999999999");
    }
    Ok(Outcome::answer("done"))
}

fn mcp(runtime: &Runtime) {
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    let (client, _child) = runtime.block_on(bare_client(program));
    let settings = ServerSpec::command(program)
        .arg(SERVE)
        .effect("*", Effect::Read);
    let ours = McpToolset::new("gross", settings).unwrap();
    runtime.block_on(ours.connect()).unwrap();
    let tool: ToolHandle = ours.tools().unwrap().remove(0);
    let bare = || {
        let peer = client.peer().clone();
        async move {
            let params = CallToolRequestParams::new("add_vat").with_arguments(fields());
            let result = peer.call_tool(params).await.unwrap();
            let text = result.content[0].as_text().unwrap();
            text.text.clone()
        }
    };
    let handle = || {
        let tool = tool.clone();
        async move {
            let output = tool.call(arguments(), ToolContext::detached()).await;
            output.unwrap().text
        }
    };
    for at_once in [1, 16] {
        let compared = alternately(
            31,
            || exchanges(runtime, at_once, bare),
            || exchanges(runtime, at_once, handle),
        );
        compared.print(&format!(
            "an MCP call over stdio, {at_once} at once: the SDK's client (floor), a tool of ours"
        ));
    }
    let compared = alternately(
        31,
        || exchanges(runtime, 1, bare),
        || {
            let agent = Agent::from_fn("caller", at_server).tool(tool.clone());
            turn(runtime, agent, EXCHANGES)
        },
    );
    compared.print("an MCP call over stdio: the SDK's client (floor), a recorded call of a run");
    runtime.block_on(ours.disconnect());
}

// --- A thousand tools ------------------------------------------------------------------------

/// A tool that is never called, with a schema of a usual size.
fn other(number: usize) -> ToolHandle {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code)]
    struct Count {
        /// The shelf, by its number on the plan.
        shelf: u32,
        /// Whether empty boxes are counted as well.
        empty_ones: Option<bool>,
        /// The day of the count, as an ISO date; today when left out.
        day: Option<String>,
    }
    let about = format!("Counts the boxes on the shelves of hall number{number} of the warehouse.");
    let definition = ToolDefinition::new(format!("count_{number}"), about).effect(Effect::Read);
    tool_fn(definition, |_: Count| async { Ok(0) })
}

/// An agent with so many tools, which takes so many steps.
fn many(tools: usize, steps: u32) -> Agent {
    let search = ToolSearch::default();
    let mut agent = Agent::new("desk")
        .tool(stepping::add_vat)
        .max_steps(steps)
        .policy("tool_search", move || search.clone());
    for number in 1..tools {
        agent = agent.tool(other(number));
    }
    agent
}

fn thousand(runtime: &Runtime) {
    for steps in [200, 20] {
        let compared: Compared = alternately(
            31,
            || turn(runtime, many(10, steps), steps),
            || turn(runtime, many(1_000, steps), steps),
        );
        compared.print(&format!(
            "a step with 10 tools (floor) and with 1,000, the first turn of {steps} steps"
        ));
    }
    // Later turns find what the first one has read.
    let [few, lots] = [10, 1_000].map(|tools| {
        let team = many(tools, 20).into_team().unwrap();
        runtime.block_on(started(team))
    });
    let session = std::cell::Cell::new(0);
    let later = |system: &System| {
        session.set(session.get() + 1);
        round(20, || {
            runtime.block_on(async {
                let session = system.session("desk", format!("s{}", session.get()));
                let run = session.send(Turn::text(stepping::QUESTION)).await.unwrap();
                assert!(run.outcome().await.unwrap().stop_reason().is_some());
            });
        })
    };
    let compared = alternately(101, || later(&few), || later(&lots));
    compared.print("a step with 10 tools (floor) and with 1,000, later turns of 20 steps");
    for system in [few, lots] {
        runtime.block_on(system.stop()).unwrap();
    }
}

fn main() {
    let two_threads = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let one_thread = Builder::new_current_thread().enable_all().build().unwrap();
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if asked.iter().any(|word| word == SERVE) {
        one_thread.block_on(serve());
        return;
    }
    let named: Vec<&String> = asked.iter().filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| named.is_empty() || named.iter().any(|asked| *asked == name);
    if wanted("dispatch") {
        dispatch(&one_thread);
    }
    if wanted("mcp") {
        mcp(&two_threads);
    }
    if wanted("thousand") {
        thousand(&one_thread);
    }
}
