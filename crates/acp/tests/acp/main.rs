//! What a team promises to an editor.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod client;
mod hostile;
mod members;
mod permissions;
mod sessions;
mod wire;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_acp::AcpServer;
use ghostlight_actors::{
    actor::System,
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    definition::ApprovalRule,
    run::{Agent, RunContext},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{
        AgentError, Arguments, Effect, ModelResponse, Outcome, Question, Scope, ToolCall,
        ToolDefinition,
    },
};
use serde_json::json;

use client::{Editor, texts};

/// A tool that counts its calls, and needs approval if its name says so.
#[derive(Clone)]
struct Send {
    name: &'static str,
    calls: Arc<AtomicUsize>,
}

impl Tool for Send {
    fn definition(&self) -> ToolDefinition {
        let definition = ToolDefinition::new(self.name, "Sends a letter.")
            .parameters(json!({ "type": "object", "properties": { "to": { "type": "string" } } }))
            .effect(Effect::Once);
        match self.name {
            "send_approved" => definition.approval("May I send to {to}?"),
            _ => definition,
        }
    }

    async fn call(&self, arguments: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.calls.fetch_add(1, SeqCst);
        Ok(ToolOutput::text(format!("sent {}", arguments.text())))
    }
}

/// A desk with a System, whose agent calls the tool that the prompt names, and then answers.
struct Desk {
    system: System,
    sent: Arc<AtomicUsize>,
}

/// Asks the model, makes the calls that it asks for, and tells what came of them.
async fn works(cx: RunContext) -> Result<Outcome, AgentError> {
    let response = cx.think().await?;
    let results = cx.tools(response.calls()).await?;
    if results.is_empty() {
        return Ok(Outcome::answer(response.message.content()));
    }
    let told: Vec<&str> = results.iter().map(|result| result.text.as_str()).collect();
    Ok(Outcome::answer(format!("Done: {}", told.join(", "))))
}

/// A model that calls the tool with which the user's message begins, and says so, or repeats what was said.
fn model() -> ScriptedModel {
    ScriptedModel::from_fn(|request, number| {
        let conversation = &request.conversation;
        let last = conversation.get(conversation.len() - 1).unwrap();
        let said = last.content();
        if said.starts_with("send") {
            let name = said.split(' ').next().unwrap_or_default();
            let call = ToolCall::new(format!("c{number}"), name, json!({ "to": "Ada" }));
            let mut response = ModelResponse::tool_calls([call]);
            let text = ghostlight_actors::vocabulary::Part::Text("I send it.".to_owned());
            std::sync::Arc::make_mut(&mut response.message)
                .parts
                .insert(0, text);
            return Ok(response);
        }
        Ok(ModelResponse::text(format!("You said {said}.")))
    })
}

impl Desk {
    async fn new() -> Self {
        let sent = Arc::new(AtomicUsize::new(0));
        let tool = |name| Send {
            name,
            calls: sent.clone(),
        };
        let rule = ApprovalRule::required().remember();
        let agent = Agent::from_fn("clerk", works)
            .approval("send_approved", rule)
            .tool(tool("send"))
            .tool(tool("send_approved"));
        let system = System::builder(InMemoryStore::new())
            .model("default", model().piece_delay(Duration::from_millis(1)))
            .team(agent.into_team().unwrap());
        let system = system.start().await.unwrap();
        Self { system, sent }
    }

    /// An agent that is a function, without a model.
    async fn by_hand() -> Self {
        let agent = Agent::from_fn("clerk", |cx: RunContext| async move {
            let text = cx.input().content();
            match text.as_str() {
                "ask" => {
                    let answer = cx.ask(Question::new("Which colour?")).await?;
                    Ok(Outcome::answer(format!("It is {answer}.")))
                }
                "confirm" => {
                    let answer = cx.ask(Question::confirmation("Really?")).await?;
                    Ok(Outcome::answer(format!("It is {answer}.")))
                }
                "choose" => {
                    let question =
                        Question::labelled_choice("Which?", [("r", "red"), ("b", "blue")]);
                    let answer = cx.ask(question).await?;
                    Ok(Outcome::answer(format!("It is {answer}.")))
                }
                "plan" => {
                    let list = json!([
                        { "id": "1", "content": "look", "status": "completed" },
                        { "id": "2", "content": "leap", "status": "in_progress" },
                        { "id": "3", "content": "rest", "status": "canceled" },
                    ]);
                    cx.state(Scope::Session).set("todos", &list).await?;
                    Ok(Outcome::answer("planned"))
                }
                "wait" => {
                    cx.sleep(Duration::from_secs(3_600)).await?;
                    Ok(Outcome::answer("woken"))
                }
                "fail" => Err(AgentError::failed("no paper")),
                other if other.starts_with("fail") => Err(AgentError::failed(other)),
                other => Ok(Outcome::answer(format!("You said {other}."))),
            }
        });
        let system = System::builder(InMemoryStore::new()).team(agent.into_team().unwrap());
        let system = system.start().await.unwrap();
        let sent = Arc::new(AtomicUsize::new(0));
        Self { system, sent }
    }

    /// A connected editor that has said `initialize`.
    async fn editor(&self) -> Editor {
        let editor = Editor::connect(AcpServer::new(self.system.clone(), "clerk"));
        let told = editor
            .request("initialize", json!({ "protocolVersion": 1 }))
            .await
            .unwrap();
        assert_eq!(
            (&told["protocolVersion"], &told["authMethods"]),
            (&json!(1), &json!([]))
        );
        assert_eq!(told["agentCapabilities"]["loadSession"], json!(true));
        editor
    }

    async fn runs(&self) -> usize {
        let filter = ghostlight_actors::contract::RunFilter::default();
        self.system.runs(filter).await.unwrap().len()
    }
}

#[tokio::test]
async fn a_prompt_shows_what_agents_say_and_call_and_ends_with_the_answer() {
    let desk = Desk::new().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    let ended = editor.prompt(&session, "send it").await.unwrap();
    assert_eq!(ended["stopReason"], "end_turn");
    assert!(ended["usage"]["totalTokens"].is_u64(), "{ended}");
    let updates = editor.updates(&session);
    let kinds = updates
        .iter()
        .map(|update| update["sessionUpdate"].as_str().unwrap());
    let mut kinds: Vec<&str> = kinds.collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "agent_message_chunk"
        ],
        "{updates:?}"
    );
    let pieces = updates
        .iter()
        .filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    assert!(
        pieces.count() > 2,
        "the answer comes piece by piece: {updates:?}"
    );
    assert!(
        texts(&updates).starts_with("I send it.Done: "),
        "{}",
        texts(&updates)
    );
    let call = updates
        .iter()
        .find(|update| update["sessionUpdate"] == "tool_call")
        .unwrap();
    assert_eq!(
        (&call["status"], &call["rawInput"], &call["kind"]),
        (&json!("pending"), &json!({ "to": "Ada" }), &json!("other"))
    );
    assert_eq!(call["title"], r#"send {"to":"Ada"}"#);
    let of_call: Vec<_> = updates
        .iter()
        .filter(|update| update["toolCallId"] == call["toolCallId"])
        .map(|update| update["status"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(of_call.last().map(String::as_str), Some("completed"));
    assert_eq!(desk.sent.load(SeqCst), 1);
}

#[tokio::test]
async fn what_no_model_says_is_shown_too_with_its_plan_and_its_failure() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    editor.prompt(&session, "plan").await.unwrap();
    let updates = editor.updates(&session);
    let plan = updates
        .iter()
        .find(|update| update["sessionUpdate"] == "plan")
        .unwrap();
    let entries = json!([
        { "content": "look", "priority": "medium", "status": "completed" },
        { "content": "leap", "priority": "medium", "status": "in_progress" },
    ]);
    assert_eq!(plan["entries"], entries);
    assert_eq!(texts(&updates), "planned");
    let error = editor.prompt(&session, "fail").await.unwrap_err();
    assert!(error.message.contains("no paper"), "{error}");
}

#[tokio::test]
async fn the_same_prompt_sent_again_under_one_name_is_one_run() {
    let desk = Desk::new().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    let params = json!({
        "sessionId": session,
        "prompt": [{ "type": "text", "text": "send it" }],
        "_meta": { "ghostlight/idempotencyKey": "first" },
    });
    let first = editor
        .request("session/prompt", params.clone())
        .await
        .unwrap();
    let said = texts(&editor.updates(&session));
    let again = editor.request("session/prompt", params).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(
        texts(&editor.updates(&session)),
        format!("{said}{said}"),
        "it is shown again"
    );
    assert_eq!((desk.runs().await, desk.sent.load(SeqCst)), (1, 1));
}

#[tokio::test]
async fn a_dry_run_calls_no_tool_that_has_an_effect() {
    let desk = Desk::new().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    let mode = json!({ "sessionId": session, "modeId": "dry_run" });
    editor.request("session/set_mode", mode).await.unwrap();
    editor.prompt(&session, "send it").await.unwrap();
    assert_eq!(desk.sent.load(SeqCst), 0);
    let wrong = json!({ "sessionId": session, "modeId": "fast" });
    let error = editor.request("session/set_mode", wrong).await.unwrap_err();
    assert!(error.message.contains("dry_run"), "{error}");
    let mode = json!({ "sessionId": session, "modeId": "run" });
    editor.request("session/set_mode", mode).await.unwrap();
    editor.prompt(&session, "send it").await.unwrap();
    assert_eq!(desk.sent.load(SeqCst), 1);
}
