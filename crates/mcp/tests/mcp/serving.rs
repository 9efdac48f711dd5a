//! What teams as a server promise, to the SDK's own client and over HTTP to ours.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::System,
    contract::{RunFilter, RunStatus, ToolContext, ToolError, ToolOutput, Toolset},
    run::{Agent, RunContext},
    testing::InMemoryStore,
    vocabulary::{AgentError, Arguments, Effect, Outcome, Question},
};
use ghostlight_mcp::{HttpOptions, McpServer, McpToolset, Owner, ServerSpec};
use parking_lot::Mutex;
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
        GetTaskParams, Implementation, ProgressNotificationParam, ProtocolVersion,
        ReadResourceRequestParams, ResourceContents, TaskPayload, TaskStatus,
    },
    service::{
        ClientLifecycleMode, NotificationContext, RequestContext, RunningService,
        serve_client_with_lifecycle,
    },
    transport::async_rw::AsyncRwTransport,
};
use serde_json::{Value, json};

/// How often the agent began.
type Begun = Arc<AtomicUsize>;

/// A System with the team `desk`, whose agent repeats what it is told, asks a person when it is told to ask, and
/// waits for ever when it is told to wait.
pub(crate) async fn desk() -> (System, Begun) {
    let begun = Begun::default();
    let counts = begun.clone();
    let desk = Agent::from_fn("desk", move |cx: RunContext| {
        let counts = counts.clone();
        async move {
            counts.fetch_add(1, SeqCst);
            let text = cx.input().content();
            match text.as_str() {
                "ask" => {
                    let answer = cx.ask(Question::confirmation("May I?")).await?;
                    Ok(Outcome::answer(format!("the person says {answer}")))
                }
                "wait" => {
                    cx.sleep(Duration::from_secs(3600)).await?;
                    Ok(Outcome::answer("woken"))
                }
                "nap" => {
                    cx.sleep(Duration::from_millis(400)).await?;
                    Ok(Outcome::answer("rested"))
                }
                "fail" => Err(AgentError::failed("it cannot be done")),
                other => Ok(Outcome::answer(format!("you said {other}"))),
            }
        }
    });
    let system = System::builder(InMemoryStore::new()).team(desk.into_team().unwrap());
    (system.start().await.unwrap(), begun)
}

/// A client with a person who says yes; or with nobody.
#[derive(Clone, Default)]
struct Client {
    says: Option<bool>,
    knows_tasks: bool,
    asked: Arc<Mutex<Vec<String>>>,
    progress: Arc<Mutex<Vec<String>>>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.knows_tasks {
            capabilities = ClientCapabilities::builder().enable_tasks().build();
        }
        if self.says.is_some() {
            capabilities.elicitation = Some(Default::default());
        }
        ClientConfig::new(capabilities, Implementation::new("test", "1"))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, rmcp::ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = asked else {
            panic!("{asked:?}")
        };
        self.asked.lock().push(message);
        let answer = json!({ "answer": self.says });
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(answer))
    }

    async fn on_progress(
        &self,
        told: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().extend(told.message);
    }
}

type Connected = RunningService<RoleClient, Client>;

/// Connects a client to a server over a pipe, on the newest wire or on the one before it.
pub(crate) async fn connect<C: ClientHandler>(
    server: &McpServer,
    client: C,
    newest: bool,
) -> RunningService<RoleClient, C> {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let server = server.clone();
    tokio::spawn(async move {
        let (read, write) = tokio::io::split(theirs);
        let _ = server.serve(read, write).await;
    });
    let (read, write) = tokio::io::split(ours);
    let lifecycle = match newest {
        true => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::LATEST],
        },
        false => ClientLifecycleMode::Initialize,
    };
    let transport = AsyncRwTransport::new_client(read, write);
    serve_client_with_lifecycle(client, transport, lifecycle)
        .await
        .unwrap()
}

fn asks(arguments: Value) -> CallToolRequestParams {
    let arguments = arguments.as_object().cloned().unwrap();
    CallToolRequestParams::new("desk").with_arguments(arguments)
}

fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

fn meta(result: &CallToolResult, key: &str) -> String {
    let meta = result.meta.as_ref().unwrap();
    meta.get(key).and_then(Value::as_str).unwrap().to_owned()
}

#[tokio::test]
async fn a_team_is_a_tool_and_a_call_with_an_id_is_one_run() {
    for newest in [false, true] {
        let (system, begun) = desk().await;
        let server = McpServer::new(system).team("desk", "Repeats things.");
        let client = connect(&server, Client::default(), newest).await;
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!((tools.len(), tools[0].name.as_ref()), (1, "desk"));
        let call = json!({ "message": "hello", "turn_id": "t1", "session": "s" });
        let first = client.call_tool(asks(call.clone())).await.unwrap();
        assert_eq!(text(&first), "you said hello");
        // The answer was lost on its way: another connection asks again.
        let client = connect(&server, Client::default(), newest).await;
        let again = client.call_tool(asks(call)).await.unwrap();
        assert_eq!(
            meta(&again, "ghostlight/run"),
            meta(&first, "ghostlight/run")
        );
        assert_eq!(begun.load(SeqCst), 1);
        let other = client
            .call_tool(asks(json!({ "message": "hello" })))
            .await
            .unwrap();
        assert_ne!(meta(&other, "ghostlight/session"), "s");
        let failed = client
            .call_tool(asks(json!({ "message": "fail" })))
            .await
            .unwrap();
        assert!(failed.is_error == Some(true) && text(&failed).contains("cannot be done"));
        for wrong in [
            json!({}),
            json!({ "message": 1 }),
            json!({ "message": "x", "turn_id": "" }),
        ] {
            assert!(client.call_tool(asks(wrong)).await.is_err());
        }
        assert!(
            client
                .call_tool(CallToolRequestParams::new("nobody"))
                .await
                .is_err()
        );
    }
}

#[tokio::test]
async fn what_an_agent_asks_is_asked_through_the_client() {
    for newest in [false, true] {
        let (system, begun) = desk().await;
        let server = McpServer::new(system).team("desk", "");
        let person = Client {
            says: Some(true),
            ..Client::default()
        };
        let client = connect(&server, person.clone(), newest).await;
        let answered = client
            .call_tool(asks(json!({ "message": "ask" })))
            .await
            .unwrap();
        assert_eq!(text(&answered), "the person says true", "newest: {newest}");
        assert_eq!(*person.asked.lock(), ["May I?"]);
        assert_eq!(begun.load(SeqCst), 1);
    }
}

#[tokio::test]
async fn where_the_client_can_ask_nobody_the_call_says_what_is_asked_and_goes_on_later() {
    let (system, _) = desk().await;
    let server = McpServer::new(system.clone()).team("desk", "");
    let client = connect(&server, Client::default(), true).await;
    let call = json!({ "message": "ask", "turn_id": "t", "session": "s" });
    let asking = client.call_tool(asks(call.clone())).await.unwrap();
    assert!(text(&asking).contains("May I?"), "{asking:?}");
    assert_eq!(meta(&asking, "ghostlight/status"), "asking");
    let run = system.run(meta(&asking, "ghostlight/run").parse().unwrap());
    let (_, operation, _) = run.questions().await.unwrap().remove(0);
    run.answer(operation, json!(false)).await.unwrap();
    let answered = client.call_tool(asks(call)).await.unwrap();
    assert_eq!(text(&answered), "the person says false");
    // A call that named neither its session nor its turn says both, in the words that a model reads.
    let asking = client.call_tool(asks(json!({ "message": "ask" }))).await;
    let asking = asking.unwrap();
    let (session, turn) = (
        meta(&asking, "ghostlight/session"),
        meta(&asking, "ghostlight/turn"),
    );
    let said = format!("`session` {session:?} and `turn_id` {turn:?}");
    assert!(text(&asking).contains(&said), "{asking:?}");
    let run = system.run(meta(&asking, "ghostlight/run").parse().unwrap());
    let (_, operation, _) = run.questions().await.unwrap().remove(0);
    run.answer(operation, json!(true)).await.unwrap();
    let call = json!({ "message": "ask", "session": session, "turn_id": turn });
    let answered = client.call_tool(asks(call)).await.unwrap();
    assert_eq!(text(&answered), "the person says true");
}

#[tokio::test]
async fn cancelling_a_call_cancels_its_run_and_losing_the_connection_does_not() {
    let (system, begun) = desk().await;
    let server = McpServer::new(system.clone()).team("desk", "");
    let waiting = |turn: &str| asks(json!({ "message": "wait", "turn_id": turn, "session": turn }));
    let began = |calls: usize| {
        let begun = begun.clone();
        async move {
            while begun.load(SeqCst) < calls {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    let client = Arc::new(connect(&server, Client::default(), false).await);
    let calling = client.clone();
    let call = waiting("cancelled");
    let task = tokio::spawn(async move { calling.call_tool(call).await });
    began(1).await;
    // The SDK tells the server when a call is dropped.
    task.abort();
    let status = |row: usize| {
        let system = system.clone();
        async move { system.runs(RunFilter::default()).await.unwrap()[row].status }
    };
    while status(0).await == RunStatus::Running || status(0).await == RunStatus::Waiting {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(status(0).await, RunStatus::Cancelled);

    // A connection of bytes that ends, with a call under way.
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(theirs);
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve(read, write).await }
    });
    let (read, write) = tokio::io::split(ours);
    let transport = AsyncRwTransport::new_client(read, write);
    let initialize = ClientLifecycleMode::Initialize;
    let client = serve_client_with_lifecycle(Client::default(), transport, initialize)
        .await
        .unwrap();
    let peer = client.peer().clone();
    let call = waiting("lost");
    let task = tokio::spawn(async move { peer.call_tool(call).await.map(drop) });
    began(2).await;
    let _ = client.cancel().await;
    serving.await.unwrap().unwrap();
    assert!(task.await.unwrap().is_err());
    let rows = system.runs(RunFilter::default()).await.unwrap();
    let open = rows.iter().filter(|row| !row.status.is_ended());
    assert_eq!(open.count(), 1, "{rows:?}");
}

/// The task that this call becomes.
async fn task(client: &Connected, call: Value) -> String {
    let CallToolResponse::Task(made) = client.peer().call_tool_once(asks(call)).await.unwrap()
    else {
        panic!("no task")
    };
    assert_eq!(made.task.status, TaskStatus::Working);
    made.task.task_id
}

#[tokio::test]
async fn a_call_that_takes_long_is_a_task_that_another_connection_looks_after() {
    let (system, _) = desk().await;
    let server = McpServer::new(system)
        .team("desk", "")
        .tasks_after(Some(Duration::from_millis(20)));
    let knows = || Client {
        knows_tasks: true,
        ..Client::default()
    };
    let client = connect(&server, knows(), true).await;
    let id = task(&client, json!({ "message": "nap" })).await;

    // As after a restart of either side: nothing but the id is known.
    let client = connect(&server, knows(), true).await;
    let payload = loop {
        let looked = client
            .peer()
            .get_task(GetTaskParams::new(&id))
            .await
            .unwrap()
            .task;
        if looked.status().is_terminal() {
            break looked.payload;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let TaskPayload::Completed { result } = payload else {
        panic!("{payload:?}")
    };
    assert_eq!(result["content"][0]["text"], "rested");

    let id = task(&client, json!({ "message": "wait" })).await;
    client
        .peer()
        .cancel_task(CancelTaskParams::new(&id))
        .await
        .unwrap();
    while client
        .peer()
        .get_task(GetTaskParams::new(&id))
        .await
        .unwrap()
        .task
        .payload
        != TaskPayload::Cancelled
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(
        client
            .peer()
            .get_task(GetTaskParams::new("nothing"))
            .await
            .is_err()
    );

    // Who knows no tasks waits.
    let plain = connect(&server, Client::default(), true).await;
    let waited = plain
        .call_tool(asks(json!({ "message": "nap" })))
        .await
        .unwrap();
    assert_eq!(text(&waited), "rested");
}

#[tokio::test]
async fn sessions_are_resources() {
    let (system, _) = desk().await;
    let server = McpServer::new(system).team("desk", "");
    let client = connect(&server, Client::default(), true).await;
    client
        .call_tool(asks(json!({ "message": "hello", "session": "a b/ü" })))
        .await
        .unwrap();
    let listed = client.list_all_resources().await.unwrap();
    assert_eq!(listed[0].uri, "ghostlight://sessions/desk/a%20b%2F%C3%BC");
    let read = client
        .read_resource(ReadResourceRequestParams::new(listed[0].uri.clone()))
        .await
        .unwrap();
    let ResourceContents::TextResourceContents { text, .. } = &read.contents[0] else {
        panic!("{read:?}")
    };
    assert!(text.contains("you said hello"), "{text}");
    let secret = json!({ "message": "password: swordfish", "session": "a b/ü" });
    let told = client.call_tool(asks(secret)).await.unwrap();
    assert!(
        self::text(&told).contains("swordfish"),
        "the answer is for who asked"
    );
    let read = client
        .read_resource(ReadResourceRequestParams::new(listed[0].uri.clone()))
        .await
        .unwrap();
    let read = format!("{read:?}");
    assert!(
        read.contains("you said password") && !read.contains("swordfish"),
        "{read}"
    );
    for unknown in [
        "ghostlight://sessions/other/x",
        "ghostlight://sessions/desk/none",
        "file:///etc/passwd",
    ] {
        assert!(
            client
                .read_resource(ReadResourceRequestParams::new(unknown))
                .await
                .is_err()
        );
    }
}

fn repeating(system: &System) -> McpServer {
    McpServer::new(system.clone()).team("desk", "Repeats things.")
}

/// Serves over HTTP; whoever names somebody in the header `x-owner` acts for them.
pub(crate) async fn over_http(server: McpServer) -> (String, tokio::task::JoinHandle<()>) {
    let service = server.http(&HttpOptions::default());
    let router =
        axum::Router::new()
            .nest_service("/mcp", service)
            .layer(axum::middleware::from_fn(
                |mut request: axum::extract::Request, next: axum::middleware::Next| async move {
                    let owner = request
                        .headers()
                        .get("x-owner")
                        .and_then(|name| name.to_str().ok());
                    if let Some(owner) = owner.map(|name| Owner(name.to_owned())) {
                        request.extensions_mut().insert(owner);
                    }
                    next.run(request).await
                },
            ));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, task)
}

async fn call(toolset: &McpToolset, arguments: Value) -> Result<ToolOutput, ToolError> {
    let tool = toolset.tools().unwrap().remove(0);
    tool.call(Arguments::from(arguments), ToolContext::detached())
        .await
}

#[tokio::test]
async fn our_client_uses_our_server_over_http_for_an_owner() {
    let (system, _) = desk().await;
    let (url, serving) = over_http(repeating(&system)).await;
    let for_owner = |owner: &str| ServerSpec::url(url.clone()).header("x-owner", owner);
    let ada = McpToolset::new("desk", for_owner("ada")).unwrap();
    ada.connect().await.unwrap();
    assert_eq!(ada.protocol_version().await.as_deref(), Some("2026-07-28"));
    let told = json!({ "message": "hello", "session": "hers" });
    assert_eq!(
        call(&ada, told.clone()).await.unwrap().text,
        "you said hello"
    );
    let bob = McpToolset::new("desk", for_owner("bob")).unwrap();
    bob.connect().await.unwrap();
    // His session of that name is another, and hers is not there for him.
    assert_eq!(call(&bob, told).await.unwrap().text, "you said hello");
    assert_eq!(
        system
            .session("desk", "ada/hers")
            .log()
            .await
            .unwrap()
            .turns
            .len(),
        1
    );
    assert_eq!(
        system
            .session("desk", "bob/hers")
            .log()
            .await
            .unwrap()
            .turns
            .len(),
        1
    );
    let resources = ada.resources().await.unwrap();
    let resources: Vec<&str> = resources.iter().map(|one| one.uri.as_str()).collect();
    assert_eq!(resources, ["ghostlight://sessions/desk/hers"]);
    ada.disconnect().await;
    bob.disconnect().await;

    // A web page whose name leads to this machine is not served.
    let client = reqwest::Client::new();
    let foreign = client
        .post(&url)
        .header("host", "evil.example")
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(foreign.status(), 403);
    let page = client
        .post(&url)
        .header("origin", "https://evil.example")
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(page.status(), 403);
    serving.abort();
}

#[tokio::test]
async fn a_server_over_http_that_comes_back_is_connected_again() {
    let (system, begun) = desk().await;
    let (url, serving) = over_http(repeating(&system)).await;
    let address = url
        .trim_start_matches("http://")
        .trim_end_matches("/mcp")
        .to_owned();
    let settings = ServerSpec::url(url).effect("*", Effect::Idempotent);
    let toolset =
        McpToolset::new("desk", settings.connect_timeout(Duration::from_secs(10))).unwrap();
    toolset.connect().await.unwrap();
    let hello = |turn: &str| json!({ "message": "hello", "session": "s", "turn_id": turn });
    assert_eq!(
        call(&toolset, hello("1")).await.unwrap().text,
        "you said hello"
    );

    // It goes away, with all its connections: a call fails by its time, and says why.
    serving.abort();
    let _ = serving.await;
    let error = tokio::time::timeout(Duration::from_secs(30), call(&toolset, hello("2"))).await;
    let error = error.unwrap().unwrap_err();
    assert!(error.message.contains("cannot be reached"), "{error}");
    assert_eq!(begun.load(SeqCst), 1);

    // It comes back at its address, and the same toolset serves the next call.
    let listener = tokio::net::TcpListener::bind(&address).await.unwrap();
    let server = McpServer::new(system).team("desk", "Repeats things.");
    let router = axum::Router::new().nest_service("/mcp", server.http(&HttpOptions::default()));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    assert_eq!(
        call(&toolset, hello("3")).await.unwrap().text,
        "you said hello"
    );
    assert_eq!(begun.load(SeqCst), 2);
    toolset.disconnect().await;
    serving.abort();
}
