//! Calls that became tasks: their owners, their answers, and runs that never end.

use std::time::Duration;

use ghostlight_actors::{
    actor::System,
    contract::RunStatus,
    run::{Agent, RunContext},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{Outcome, Question, Scope},
};
use ghostlight_mcp::McpServer;
use reqwest::header::{HeaderMap, HeaderValue};
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities,
        ClientConfig, GetTaskParams, Implementation, InputRequests, InputResponses,
        ProtocolVersion, TaskPayload, UpdateTaskParams,
    },
    service::{ClientLifecycleMode, RunningService, serve_client_with_lifecycle},
    transport::{
        StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Value, json};

use crate::serving::{connect, over_http};

/// A client that knows tasks and forms.
struct Client;

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::builder().enable_tasks().build();
        capabilities.elicitation = Some(Default::default());
        ClientConfig::new(capabilities, Implementation::new("test", "1"))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

type Connected = RunningService<RoleClient, Client>;

/// The team `desk`: it waits, asks two forms of one title, or crashes after it has saved a note.
async fn desk() -> System {
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        match cx.input().content().as_str() {
            "wait" => cx.sleep(Duration::from_secs(3600)).await?,
            "who" => {
                // Until then the call has become a task.
                cx.sleep(Duration::from_millis(300)).await?;
                let name = json!({ "name": { "type": "string" } });
                let schema = json!({ "title": "visitor", "type": "object", "properties": name, "required": ["name"] });
                let first = cx.ask(Question::form("Who comes?", schema.clone())).await?;
                let second = cx.ask(Question::form("Who else?", schema)).await?;
                let told = format!("{} and {}", first["name"], second["name"]);
                return Ok(Outcome::answer(told));
            }
            "crash" => {
                let kept = cx.artifacts(Scope::Session);
                kept.save("note.txt", "text/plain", b"kept".to_vec())
                    .await?;
                panic!("this run crashes");
            }
            _ => {}
        }
        Ok(Outcome::answer("done"))
    });
    let system = System::builder(InMemoryStore::new()).team(desk.into_team().unwrap());
    system.start().await.unwrap()
}

fn server(system: &System) -> McpServer {
    let server = McpServer::new(system.clone()).team("desk", "");
    server.tasks_after(Some(Duration::from_millis(20)))
}

async fn of_owner(url: &str, owner: &'static str) -> Connected {
    // The first of several sets it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let headers =
        HeaderMap::from_iter([("x-owner".parse().unwrap(), HeaderValue::from_static(owner))]);
    let client = reqwest::Client::builder().default_headers(headers);
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    let transport = StreamableHttpClientTransport::with_client(client.build().unwrap(), config);
    let lifecycle = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::LATEST],
    };
    serve_client_with_lifecycle(Client, transport, lifecycle)
        .await
        .unwrap()
}

/// The task that a call of this message becomes.
async fn task(client: &Connected, message: &str) -> String {
    let arguments = json!({ "message": message, "session": "s" });
    let call =
        CallToolRequestParams::new("desk").with_arguments(arguments.as_object().cloned().unwrap());
    match client.peer().call_tool_once(call).await.unwrap() {
        CallToolResponse::Task(made) => made.task.task_id,
        other => panic!("{other:?}"),
    }
}

async fn look(client: &Connected, task: &str) -> TaskPayload {
    let looked = client.peer().get_task(GetTaskParams::new(task)).await;
    looked.unwrap().task.payload
}

#[tokio::test]
async fn a_run_without_an_owner_is_no_task_of_a_subject() {
    let system = desk().await;
    let (url, serving) = over_http(server(&system)).await;
    let ada = of_owner(&url, "ada").await;
    let hers = task(&ada, "wait").await;
    assert_eq!(look(&ada, &hers).await, TaskPayload::Working);
    // A schedule's session belongs to nobody, and its runs have ids that can be computed.
    let schedule = system.session("desk", "schedule-nightly");
    let run = schedule.send(Turn::text("wait").id("1")).await.unwrap();
    let id = run.id().to_string();
    let looked = ada.peer().get_task(GetTaskParams::new(&id)).await;
    assert!(looked.is_err(), "{looked:?}");
    let update = UpdateTaskParams::new(&id, InputResponses::new());
    assert!(ada.peer().update_task(update).await.is_err());
    let cancel = CancelTaskParams::new(&id);
    assert!(ada.peer().cancel_task(cancel).await.is_err());
    assert!(!run.status().await.unwrap().status.is_ended());
    // A client without an owner is the operator's.
    let operator = connect(&server(&system), Client, true).await;
    assert_eq!(look(&operator, &id).await, TaskPayload::Working);
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_parked_run_with_an_artifact_has_a_result() {
    let system = desk().await;
    let client = connect(&server(&system), Client, true).await;
    let id = task(&client, "crash").await;
    let run = system.run(id.parse().unwrap());
    while run.status().await.unwrap().status != RunStatus::Parked {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let looked = tokio::time::timeout(Duration::from_secs(60), look(&client, &id)).await;
    let TaskPayload::Completed { result } = looked.expect("a result in time") else {
        panic!("no result")
    };
    assert_eq!(result["isError"], true);
    let shown = Value::Object(result).to_string();
    assert!(shown.contains("note.txt"), "{shown}");
}

/// The questions of a task once they ask this.
async fn asked(client: &Connected, task: &str, prompt: &str) -> InputRequests {
    loop {
        if let TaskPayload::InputRequired { input_requests } = look(client, task).await
            && json!(input_requests).to_string().contains(prompt)
        {
            return input_requests;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_answer_that_is_sent_again_is_none_to_the_next_form_of_its_title() {
    let system = desk().await;
    let client = connect(&server(&system), Client, true).await;
    let id = task(&client, "who").await;
    let answer = |requests: &InputRequests, name: &str| {
        let key = requests.keys().next().unwrap().clone();
        let answer = json!({ "action": "accept", "content": { "name": name } });
        UpdateTaskParams::new(&id, InputResponses::from([(key, answer)]))
    };
    let first = asked(&client, &id, "Who comes?").await;
    let peer = client.peer();
    peer.update_task(answer(&first, "Ann")).await.unwrap();
    let second = asked(&client, &id, "Who else?").await;
    peer.update_task(answer(&first, "Ann")).await.unwrap();
    peer.update_task(answer(&second, "Bob")).await.unwrap();
    let result = loop {
        if let TaskPayload::Completed { result } = look(&client, &id).await {
            break result;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(result["content"][0]["text"], r#""Ann" and "Bob""#);
}

#[tokio::test]
async fn a_name_of_a_session_or_turn_is_short_and_acts_on_no_terminal() {
    let system = desk().await;
    let client = connect(&server(&system), Client, true).await;
    let long = "ü".repeat(101);
    for name in ["", "  ", "a\u{1b}[2J", "a\nb", long.as_str()] {
        for what in ["session", "turn_id"] {
            let arguments = json!({ "message": "well", what: name });
            let call = CallToolRequestParams::new("desk");
            let call = call.with_arguments(arguments.as_object().cloned().unwrap());
            let refused = client.peer().call_tool_once(call).await;
            assert!(refused.is_err(), "{what} {name:?}: {refused:?}");
        }
    }
}
