//! AG-UI: streams that the public validator passes, interrupts, calls of the client, and requests that are sent again.

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::System,
    contract::{Model, ModelContext, ModelError},
    definition::ApprovalRule,
    run::{Agent, RunContext},
    testing::{EffectLog, InMemoryStore, ScriptedModel},
    vocabulary::{
        AgentError, Delta, Message, ModelRequest, ModelResponse, Outcome, Part, Question,
        Reasoning, Scope as State, ToolCall, ToolDefinition, Usage,
    },
};
use ghostlight_server::{Scope, Server};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};

use crate::{
    client::{Client, Sent},
    desk::{Desk, text_at},
};

const ALL: [Scope; 2] = [Scope::Read, Scope::Run];

fn input(thread: &str, run: &str, text: &str) -> Value {
    let message = json!({ "id": format!("of-{run}"), "role": "user", "content": text });
    json!({ "threadId": thread, "runId": run, "messages": [message], "tools": [], "context": [], "state": {} })
}

/// All events of a request.
async fn run(client: &Client, team: &str, input: &Value) -> Vec<Sent> {
    resumed(client, team, None, input).await
}

async fn resumed(client: &Client, team: &str, last: Option<&str>, input: &Value) -> Vec<Sent> {
    let path = format!("/agui/{team}");
    let mut events = client.events(&path, last, Some(input.clone())).await;
    assert_eq!(events.status, 200, "{input}");
    let mut all = Vec::new();
    while let Some(sent) = events.next().await {
        all.push(sent);
    }
    all
}

fn kinds(events: &[Sent]) -> Vec<String> {
    let kinds = events.iter().map(|sent| text_at(&sent.data, "/type"));
    kinds.collect()
}

fn last(events: &[Sent]) -> &Value {
    &events.last().expect("an event").data
}

fn of<'e>(events: &'e [Sent], kind: &str) -> Vec<&'e Value> {
    let data = events.iter().map(|sent| &sent.data);
    data.filter(|data| data["type"] == kind).collect()
}

/// What a text message of the stream says in all.
fn said(events: &[Sent]) -> Vec<String> {
    let starts = of(events, "TEXT_MESSAGE_START");
    let message = |start: &&Value| {
        let pieces = of(events, "TEXT_MESSAGE_CONTENT");
        let pieces = pieces
            .iter()
            .filter(|piece| piece["messageId"] == start["messageId"]);
        pieces.map(|piece| text_at(piece, "/delta")).collect()
    };
    starts.iter().map(message).collect()
}

/// Writes streams where the validator reads them, and demands that it finds nothing but hints.
#[allow(clippy::print_stdout)]
async fn validated(name: &str, streams: &[Vec<Sent>]) {
    if std::env::var_os("GHOSTLIGHT_SKIP_SDKS").is_some_and(|skip| skip == "1") {
        println!("GHOSTLIGHT_SKIP_SDKS=1: the validator was not tried");
        return;
    }
    let python = std::env::var_os("GHOSTLIGHT_SDK_PYTHON").expect(
        "GHOSTLIGHT_SDK_PYTHON names no Python with the package ag-ui-validate: run ./test once, and set it to \
         target/sdks/bin/python, or set GHOSTLIGHT_SKIP_SDKS=1",
    );
    let file = std::env::temp_dir().join(format!("agui-{}-{name}.jsonl", std::process::id()));
    let lines = streams
        .iter()
        .flatten()
        .map(|sent| format!("{}\n", sent.data));
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    let mut command = Command::new(Path::new(&python).with_file_name("ag-ui-validate"));
    command.arg(&file).args(["--json", "--fail-on", "warning"]);
    if streams.len() > 1 {
        // The result of a call that was approved comes in a later run than the call, as the protocol demands.
        command.args(["--off", "AGUI207"]);
    }
    let told = tokio::task::spawn_blocking(move || command.output().unwrap());
    let told = told.await.unwrap();
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.status.success(), "{name}: {text}\n{told:?}");
    std::fs::remove_file(file).unwrap();
}

/// Keeps a secret, tells it to a helper, and to whoever asked.
async fn leak(cx: RunContext) -> Result<Outcome, AgentError> {
    let secret = "password: swordfish";
    cx.state(State::Session)
        .set("kept", &json!({ "password": "swordfish", "note": secret }))
        .await?;
    cx.emit("told", &secret);
    let helped = cx.delegate("helper", secret).await?;
    match cx.input().content().as_str() {
        "fail" => Err(AgentError::failed(secret)),
        _ => Ok(Outcome::answer(helped.text)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_what_a_front_end_is_told() {
    let helper = Agent::from_fn("helper", async |cx: RunContext| {
        Ok::<_, AgentError>(Outcome::answer(format!("heard {}", cx.input().content())))
    });
    let desk = Agent::from_fn("desk", leak).agent(helper);
    let system = System::builder(InMemoryStore::new())
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let server = Server::new(system);
    let served =
        tokio::spawn(async move { server.serve(listener, std::future::pending::<()>()).await });
    let client = Client { to, key: None };
    let look = json!({ "threadId": "t", "runId": "r3", "messages": [], "tools": [], "context": [], "state": {} });
    for (asked, end) in [
        (input("t", "r1", "tell"), "RUN_FINISHED"),
        (input("t", "r2", "fail"), "RUN_ERROR"),
        (look, "RUN_FINISHED"),
    ] {
        let events = run(&client, "desk", &asked).await;
        assert_eq!(last(&events)["type"], end, "{events:?}");
        let shown = format!("{events:?}");
        assert!(
            shown.contains("[redacted]") && !shown.contains("swordfish"),
            "{shown}"
        );
    }
    served.abort();
}

/// Reasons, speaks, calls two tools of which one needs approval, keeps something, and lets a helper ask.
async fn work(cx: RunContext) -> Result<Outcome, AgentError> {
    let answer = cx.model(cx.model_request(cx.conversation())).await?;
    cx.tools(answer.calls()).await?;
    let state = cx.state(State::Session);
    state.set("a/b", &1).await?;
    state.set("gone", &true).await?;
    state.delete("gone").await?;
    cx.artifacts(State::Session)
        .save("note.txt", "text/plain", *b"noted")
        .await?;
    cx.emit("desk.done", &json!({ "steps": 1 }));
    let helped = cx.delegate("helper", "size?").await?;
    Ok(Outcome::answer(format!("It is {}.", helped.text)))
}

async fn help(cx: RunContext) -> Result<Outcome, AgentError> {
    let form = json!({ "type": "object", "properties": { "cm": { "type": "integer" } }, "required": ["cm"] });
    let size = cx.ask(Question::form("Which size?", form)).await?;
    Ok(Outcome::answer(format!("{} cm", size["cm"])))
}

fn model() -> ScriptedModel {
    ScriptedModel::from_fn(|_, _| {
        let mut message = Message::assistant("I will wipe it.");
        let reasoning = Reasoning {
            text: "hm, wiping".to_owned(),
            signature: None,
        };
        message.parts.insert(0, Part::Reasoning(reasoning));
        for name in ["look", "wipe"] {
            let call = ToolCall::new(name, name, json!({ "path": "notes" }));
            message.parts.push(Part::ToolCall(call));
        }
        let usage = Usage {
            input_tokens: 5,
            output_tokens: 7,
            ..Usage::default()
        };
        Ok(ModelResponse::new(message).usage(usage))
    })
}

/// A server whose agent uses a model, tools, state and a helper.
async fn workshop() -> (Client, JoinHandle<std::io::Result<()>>) {
    let log = EffectLog::new();
    let object = || json!({ "type": "object" });
    let [look, wipe] = ["look", "wipe"].map(|name| {
        let definition = ToolDefinition::new(name, "does it").parameters(object());
        log.tool(definition, Duration::ZERO)
    });
    let agent = Agent::from_fn("desk", work)
        .model(model())
        .tool(look)
        .tool(wipe)
        .approval("wipe", ApprovalRule::required().prompt("Wipe {path}?"))
        .agent(Agent::from_fn("helper", help).description("helps"));
    let system = System::builder(InMemoryStore::new()).team(agent.into_team().unwrap());
    let server = Server::new(system.start().await.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let served = tokio::spawn(server.serve(listener, std::future::pending::<()>()));
    (Client { to, key: None }, served)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_everything_is_told_in_three_parts_that_the_public_validator_passes() {
    let (client, served) = workshop().await;
    let first = input("t", "r1", "go");
    let one = run(&client, "desk", &first).await;
    let kinds_of_one = kinds(&one);
    for kind in [
        "RUN_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "STEP_STARTED",
        "STEP_FINISHED",
        "MESSAGES_SNAPSHOT",
    ] {
        assert!(
            kinds_of_one.iter().any(|told| told == kind),
            "{kind}: {kinds_of_one:?}"
        );
    }
    assert_eq!(said(&one), ["I will wipe it."]);
    let end = last(&one);
    assert_eq!(text_at(end, "/outcome/type"), "interrupt");
    assert_eq!(text_at(end, "/usage/0/totalTokens"), "12");
    let asked = &end["outcome"]["interrupts"][0];
    assert_eq!(
        (text_at(asked, "/reason"), text_at(asked, "/message")),
        ("tool_call".into(), "Wipe notes?".into())
    );
    let wipe = of(&one, "TOOL_CALL_START").into_iter();
    let wipe = wipe
        .clone()
        .find(|call| call["toolCallName"] == "wipe")
        .unwrap();
    assert_eq!(asked["toolCallId"], wipe["toolCallId"]);

    // The approval: the result comes under the id of the call, and the helper asks.
    let resume = json!([{ "interruptId": asked["id"], "status": "resolved", "payload": { "approved": true } }]);
    let mut second = input("t", "r2", "");
    second["messages"] = of(&one, "MESSAGES_SNAPSHOT")[0]["messages"].clone();
    second["resume"] = resume;
    let two = run(&client, "desk", &second).await;
    let result = of(&two, "TOOL_CALL_RESULT")[0];
    assert_eq!(result["toolCallId"], wipe["toolCallId"]);
    let delta = of(&two, "STATE_DELTA");
    assert_eq!(
        delta[0]["delta"][0],
        json!({ "op": "add", "path": "/a~1b", "value": 1 })
    );
    assert_eq!(text_at(of(&two, "CUSTOM")[1], "/name"), "desk.done");
    let helper = text_at(of(&two, "SUBAGENT_STARTED")[0], "/subagentRunId");
    let closed = of(&two, "SUBAGENT_FINISHED")[0];
    assert_eq!(text_at(closed, "/outcome/type"), "suspended");
    let asked = &last(&two)["outcome"]["interrupts"][0];
    assert_eq!(closed["outcome"]["interruptIds"], json!([asked["id"]]));
    assert_eq!(text_at(asked, "/subagentRunId"), helper);
    assert_eq!(text_at(asked, "/responseSchema/required/0"), "cm");
    assert_eq!(
        last(&two).get("usage"),
        None,
        "the model was called by the part before"
    );

    // The form, sent twice: the same end, and the same events.
    let mut third = second.clone();
    third["runId"] = "r3".into();
    third["messages"] = of(&two, "MESSAGES_SNAPSHOT")[0]["messages"].clone();
    third["resume"] =
        json!([{ "interruptId": asked["id"], "status": "resolved", "payload": { "cm": 42 } }]);
    let three = run(&client, "desk", &third).await;
    assert_eq!(said(&three), ["It is 42 cm."]);
    assert_eq!(text_at(last(&three), "/outcome/type"), "success");
    assert_eq!(text_at(last(&three), "/result"), "It is 42 cm.");
    assert_eq!(of(&three, "SUBAGENT_STARTED")[0]["subagentRunId"], helper);
    assert_eq!(of(&three, "SUBAGENT_FINISHED")[0]["result"], "42 cm");
    assert_eq!(run(&client, "desk", &third).await, three);

    // The thread as a front end that begins anew sees it.
    let mut look = input("t", "r4", "");
    look["messages"] = json!([]);
    let looked = run(&client, "desk", &look).await;
    assert_eq!(
        kinds(&looked),
        [
            "RUN_STARTED",
            "STATE_SNAPSHOT",
            "MESSAGES_SNAPSHOT",
            "RUN_FINISHED"
        ]
    );
    assert_eq!(text_at(&looked[1].data, "/snapshot"), r#"{"a/b":1}"#);
    let messages = looked[2].data["messages"].as_array().unwrap();
    let ends = [messages.first(), messages.last()];
    let ends = ends.map(|message| text_at(message.unwrap(), "/content"));
    assert_eq!(ends, ["go", "It is 42 cm."]);
    for (name, stream) in [("one", &one), ("three", &three), ("look", &looked)] {
        validated(name, std::slice::from_ref(stream)).await;
    }
    validated("all", &[one, two, three, looked]).await;
    served.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_cut_off_after_any_event_goes_on_with_the_next() {
    let desk = Desk::open().await;
    let turn = input("t", "r", "delegate count 4");
    let whole = run(&desk.client, "desk", &turn).await;
    assert_eq!(
        run(&desk.client, "desk", &turn).await,
        whole,
        "a retry is the same run"
    );
    let runs = desk.client.get("/api/v1/runs").await.is(200).json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1);
    let numbered = whole
        .iter()
        .enumerate()
        .filter(|(_, sent)| sent.id.is_some());
    let mut cuts = 0;
    for (cut, sent) in numbered {
        let rest = resumed(&desk.client, "desk", sent.id.as_deref(), &turn).await;
        assert_eq!(rest, whole[cut + 1..], "after event {cut}");
        cuts += 1;
    }
    assert!(cuts > 6, "{whole:?}");
    assert_eq!(of(&whole, "CUSTOM").len(), 4);
    validated("cut", &[whole]).await;
}

/// Says half of its message, and waits before it says the rest.
struct Halting(Arc<Notify>);

impl Model for Halting {
    async fn respond(
        &self,
        _: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        cx.delta(Delta::Text("one ".to_owned()));
        self.0.notified().await;
        cx.delta(Delta::Text("two".to_owned()));
        Ok(ModelResponse::text("one two"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_half_told_begins_once_for_a_client_that_resumes() {
    let [speak, tick] = [(); 2].map(|()| Arc::new(Notify::new()));
    let says = async |cx: RunContext| {
        let said = cx.model(cx.model_request(cx.conversation())).await?;
        Ok(Outcome::answer(said.message.content()))
    };
    let helper = Agent::from_fn("helper", says)
        .model(Halting(speak.clone()))
        .description("helps");
    let told = tick.clone();
    let leads = move |cx: RunContext| {
        let told = told.clone();
        async move {
            let ticks = async {
                told.notified().await;
                cx.emit("tick", &1);
                Ok(())
            };
            tokio::try_join!(cx.delegate("helper", "go"), ticks)?;
            Ok(Outcome::answer("done"))
        }
    };
    let team = Agent::from_fn("desk", leads).agent(helper).into_team();
    let system = System::builder(InMemoryStore::new()).team(team.unwrap());
    let server = Server::new(system.start().await.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let served = tokio::spawn(server.serve(listener, std::future::pending::<()>()));
    let client = Client { to, key: None };
    let turn = input("t", "r", "go");
    let mut events = client.events("/agui/desk", None, Some(turn.clone())).await;
    let mut whole = Vec::new();
    while let Some(sent) = events.next().await {
        match text_at(&sent.data, "/type").as_str() {
            "TEXT_MESSAGE_CONTENT" => tick.notify_one(),
            "CUSTOM" => speak.notify_one(),
            _ => {}
        }
        whole.push(sent);
    }
    assert_eq!(said(&whole), ["one two", "done"]);
    let mut cuts = 0;
    for cut in (0..whole.len()).filter(|cut| whole[*cut].id.is_some()) {
        let rest = resumed(&client, "desk", whole[cut].id.as_deref(), &turn).await;
        let all = [&whole[..=cut], &rest].concat();
        assert_eq!(
            said(&all),
            ["one two", "done"],
            "after event {cut}: {all:?}"
        );
        cuts += 1;
    }
    assert!(cuts >= 2, "{whole:?}");
    served.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_the_clients_tools_are_passed_to_it_and_their_results_go_on_with_the_run() {
    let desk = Desk::locked().await;
    let ada = desk.client_of("ada", &ALL);
    let mut turn = input("t", "r1", "call look listen");
    let tool = |name: &str| json!({ "name": name, "description": "senses", "parameters": { "type": "object" } });
    turn["tools"] = json!([tool("look"), tool("listen")]);
    let one = run(&ada, "desk", &turn).await;
    let calls = of(&one, "TOOL_CALL_START");
    assert_eq!(calls.len(), 2, "{one:?}");
    let pending = &last(&one)["outcome"]["pendingToolCallIds"];
    assert_eq!(
        pending,
        &json!([calls[0]["toolCallId"], calls[1]["toolCallId"]])
    );
    assert_eq!(
        text_at(of(&one, "TOOL_CALL_ARGS")[1], "/delta"),
        r#"{"place":1}"#
    );
    let mut messages = of(&one, "MESSAGES_SNAPSHOT")[0]["messages"]
        .as_array()
        .unwrap()
        .clone();
    for (call, text) in calls.iter().zip(["a door", "steps"]) {
        messages.push(json!({ "id": text, "role": "tool", "toolCallId": call["toolCallId"], "content": text }));
    }
    let mut go_on = turn.clone();
    (go_on["runId"], go_on["messages"]) = ("r2".into(), messages.into());
    // Nobody else gives a result, or learns that there is such a call.
    let eve = desk.client_of("eve", &ALL);
    let foreign = run(&eve, "desk", &go_on).await;
    assert_eq!(kinds(&foreign), ["RUN_STARTED", "RUN_ERROR"]);
    assert_eq!(text_at(last(&foreign), "/code"), "not-found");
    // Words in the place of results are refused, and so is a result in another thread.
    let words = run(&ada, "desk", &input("t", "r3", "never mind")).await;
    assert_eq!(text_at(last(&words), "/code"), "conflict");
    let mut elsewhere = go_on.clone();
    elsewhere["threadId"] = "u".into();
    let elsewhere = run(&ada, "desk", &elsewhere).await;
    assert_eq!(text_at(last(&elsewhere), "/code"), "not-found");
    let two = run(&ada, "desk", &go_on).await;
    assert_eq!(said(&two), ["Success a door; Success steps"]);
    // The client has the results that it gave.
    assert_eq!(of(&two, "TOOL_CALL_RESULT").len(), 0);
    assert_eq!(run(&ada, "desk", &go_on).await, two);
    validated("tools", &[one, two]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupts_are_answered_all_at_once_or_given_up_and_errors_end_the_run() {
    let desk = Desk::open().await;
    let one = run(&desk.client, "desk", &input("t", "r1", "choose red blue")).await;
    let asked = &last(&one)["outcome"]["interrupts"][0];
    assert_eq!(asked["responseSchema"]["enum"], json!(["red", "blue"]));
    let mut answer = input("t", "r2", "");
    let entry = |id: &Value, payload: Value| json!([{ "interruptId": id, "status": "resolved", "payload": payload }]);
    answer["messages"] = json!([]);
    answer["resume"] = entry(&asked["id"], json!("green"));
    let wrong = run(&desk.client, "desk", &answer).await;
    assert_eq!(kinds(&wrong), ["RUN_STARTED", "RUN_ERROR"], "{wrong:?}");
    answer["resume"] = entry(&asked["id"], json!("blue"));
    let two = run(&desk.client, "desk", &answer).await;
    assert_eq!(said(&two), [r#"chose "blue""#]);

    let asked = run(&desk.client, "desk", &input("u", "r1", "ask well?")).await;
    let id = &last(&asked)["outcome"]["interrupts"][0]["id"];
    let mut given_up = input("u", "r2", "");
    given_up["messages"] = json!([]);
    given_up["resume"] = json!([{ "interruptId": id, "status": "cancelled" }]);
    let end = run(&desk.client, "desk", &given_up).await;
    assert_eq!(kinds(&end), ["RUN_STARTED", "RUN_FINISHED"]);
    assert_eq!(text_at(last(&end), "/outcome/type"), "cancelled");

    let failed = run(&desk.client, "desk", &input("v", "r1", "fail badly")).await;
    assert_eq!(
        (
            text_at(last(&failed), "/type"),
            text_at(last(&failed), "/code")
        ),
        ("RUN_ERROR".into(), "failed".into())
    );
    let refused = run(&desk.client, "desk", &input("w", "r1", "refuse this")).await;
    assert_eq!(text_at(last(&refused), "/code"), "stopped");
    let child = run(
        &desk.client,
        "desk",
        &input("x", "r1", "delegate fail badly"),
    )
    .await;
    assert_eq!(of(&child, "SUBAGENT_ERROR").len(), 1, "{child:?}");
    for (name, stream) in [
        ("choice", two),
        ("up", end),
        ("failed", failed),
        ("child", child),
        ("wrong", wrong),
    ] {
        validated(name, &[stream]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_are_refused_and_private_teams_are_not_there() {
    let desk = Desk::open().await;
    let good = input("t", "r", "well");
    let wrong = |change: fn(&mut Value)| {
        let mut input = good.clone();
        change(&mut input);
        input
    };
    for wrong in [
        json!({}),
        wrong(|input| input["threadId"] = "".into()),
        wrong(|input| input["threadId"] = "x".repeat(201).into()),
        wrong(|input| input["runId"] = "".into()),
        wrong(|input| input["runId"] = "a\nb".into()),
        wrong(|input| input["messages"] = "well".into()),
        wrong(|input| input["messages"][0]["content"] = Value::Null),
        wrong(|input| input["messages"][0]["content"] = json!([{ "type": "binary" }])),
        wrong(|input| {
            input["messages"][0]["content"] =
                json!([{ "type": "image", "source": { "type": "file", "value": "f" } }])
        }),
        wrong(|input| input["tools"] = json!([{ "name": "a b" }])),
        wrong(|input| input["tools"] = json!(vec![json!({ "name": "a" }); 129])),
        wrong(|input| input["resume"] = json!([{ "interruptId": 1, "status": "resolved" }])),
        wrong(|input| input["resume"] = json!([{ "interruptId": "x", "status": "perhaps" }])),
    ] {
        desk.client.post("/agui/desk", wrong).await.is(422);
    }
    let unknown =
        wrong(|input| input["resume"] = json!([{ "interruptId": "x", "status": "resolved" }]));
    desk.client.post("/agui/desk", unknown).await.is(404);
    desk.client.post("/agui/secret", good.clone()).await.is(404);
    desk.client.post("/agui/nobody", good.clone()).await.is(404);
    // A thread that nobody has spoken in is empty, and every part of a good message arrives.
    let empty = wrong(|input| input["messages"] = json!([]));
    let empty = run(&desk.client, "desk", &empty).await;
    assert_eq!(
        kinds(&empty),
        ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    );
    let mut rich = input("rich", "r", "");
    let image = json!({ "type": "image", "source": { "type": "data", "value": "aGk=", "mimeType": "image/png" } });
    rich["messages"][0]["content"] = json!([{ "type": "text", "text": "well" }, image]);
    rich["context"] = json!([{ "description": "page", "value": "home" }]);
    let rich = run(&desk.client, "desk", &rich).await;
    assert!(said(&rich)[0].contains("- page: home"), "{rich:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_client_accepts_every_stream_and_resumes_interrupts() {
    if std::env::var_os("GHOSTLIGHT_SKIP_SDKS").is_some_and(|skip| skip == "1") {
        println!("GHOSTLIGHT_SKIP_SDKS=1: the official client was not tried");
        return;
    }
    let node = std::env::var_os("GHOSTLIGHT_SDK_NODE").expect(
        "GHOSTLIGHT_SDK_NODE names no Node.js with the package @ag-ui/client: run ./test once, and set it to \
         target/sdks/node, or set GHOSTLIGHT_SKIP_SDKS=1",
    );
    let desk = Desk::locked().await;
    let ada = desk.client_of("ada", &ALL);
    let (workshop, served) = workshop().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/agui_client.mjs");
    let mut command = Command::new(node);
    command.arg(script).args([
        format!("http://{}/agui/desk", desk.client.to),
        ada.key.unwrap(),
        format!("http://{}/agui/desk", workshop.to),
    ]);
    let told = tokio::task::spawn_blocking(move || command.output().unwrap());
    let told = told.await.unwrap();
    let text = [&told.stdout, &told.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(told.status.success(), "{}\n{}", text[0], text[1]);
    served.abort();
}
