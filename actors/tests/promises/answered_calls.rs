//! Each call that a model asks for leaves one recorded event of its result, whoever gave it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{Run, System},
    contract::{
        Interceptor, NextTool, Tool, ToolContext, ToolError, ToolErrorKind, ToolOutput, Unattempted,
    },
    definition::{ApprovalRule, Reach},
    run::{Agent, BeforeTool, Intercept, Policy, PolicyContext, RunContext},
    vocabulary::{
        AgentError, AnsweredBy, ApprovalDecision, Arguments, CallReport, Effect, Event, Outcome,
        Question, QuestionKind, ToolCall, ToolDefinition, ToolResult, ToolStatus,
    },
};
use parking_lot::Mutex;
use serde_json::json;

use crate::{
    approvals::{call, caller, decide, results, wipe},
    stage::{Stage, ask, pause, silent, text},
};

/// Answers one call, rewrites another, and lets the others run.
struct Guard;

impl Policy for Guard {
    async fn before_tool(
        &mut self,
        _cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        Ok(match call.id.as_str() {
            "kept" => {
                // It may be kept from an earlier call.
                let mut result = ToolResult::new(call, ToolStatus::Success, "known already");
                result.call_id = "earlier".to_owned();
                BeforeTool::Result(result)
            }
            "held" => {
                BeforeTool::Result(ToolResult::new(call, ToolStatus::Denied, "not on Sundays"))
            }
            "rewritten" => BeforeTool::GoWith(json!({ "path": "safe", "password": "p" }).into()),
            _ => BeforeTool::Go,
        })
    }
}

/// Fails each first time.
#[derive(Default)]
struct Flaky(AtomicU32);

impl Tool for Flaky {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("flaky", "fails").effect(Effect::Read)
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        match self.0.fetch_add(1, SeqCst) % 2 {
            0 => Err(ToolError::new("not yet")),
            _ => Ok(ToolOutput::text("now")),
        }
    }
}

/// Tries again once, and hears of what is not tried.
#[derive(Clone, Default)]
struct Twice(Arc<Mutex<Vec<String>>>);

impl Interceptor for Twice {
    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        match next.call(arguments.clone(), cx.clone()).await {
            Err(error) if error.kind != ToolErrorKind::InDoubt => {
                next.pause(Duration::from_millis(300)).await;
                next.call(arguments, cx).await
            }
            end => end,
        }
    }

    fn unattempted(&self, call: &Unattempted<'_>) {
        let told = format!("{} for {:?}", call.result.call_id, call.origin.user);
        self.0.lock().push(told);
    }
}

fn calls() -> Vec<ToolCall> {
    let path = |id: &str, tool: &str| ToolCall::new(id, tool, json!({ "path": "a" }));
    vec![
        path("read", "look"),
        path("rewritten", "look"),
        path("kept", "look"),
        path("held", "wipe"),
        path("refused", "wipe"),
        path("edited", "wipe"),
        path("given", "wipe"),
        path("unknown", "no_such"),
        ToolCall::new("malformed", "look", json!({ "way": 1 })),
        ToolCall::new("no-json", "wipe", Arguments::from("{\"path\"")),
        path("again", "flaky"),
        ToolCall::new("asked", "delegate_to_helper", json!({ "task": "help" })),
    ]
}

async fn start(stage: &Stage, heard: &Twice) -> System {
    let helper = Agent::from_fn("helper", |_: RunContext| async {
        Ok(Outcome::answer("hm"))
    })
    .reach(Reach::Delegate);
    let schema = json!({
        "type": "object",
        "properties": { "path": { "type": "string" }, "password": { "type": "string" } },
        "required": ["path"],
        "additionalProperties": false,
    });
    let tool = |name: &str, effect| {
        let definition = ToolDefinition::new(name, "acts").effect(effect);
        let definition = definition.parameters(schema.clone());
        stage.log.tool(definition, Duration::from_millis(20))
    };
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let results = cx.tools(calls()).await?;
        cx.sleep(Duration::from_secs(60)).await?;
        let ids: Vec<String> = results.into_iter().map(|result| result.call_id).collect();
        Ok(Outcome::answer(ids.join(" ")))
    })
    .tool(tool("look", Effect::Read))
    .tool(tool("wipe", Effect::Once))
    .tool(Flaky::default())
    .approval("wipe", ApprovalRule::required())
    .policy("guard", || Guard)
    .agent(helper);
    System::builder(stage.store.clone())
        .options(stage.limits)
        .clock(stage.clock.clone())
        .model("default", silent())
        .team(agent.into_team().unwrap())
        .intercept(Intercept::new(heard.clone()))
        .start()
        .await
        .unwrap()
}

/// The events of the results, by the call's id.
async fn told(run: &Run) -> BTreeMap<String, (ToolStatus, CallReport)> {
    let mut told = BTreeMap::new();
    for record in run.events().so_far().await.unwrap() {
        if let Event::ToolCalled { result, call, .. } = record.event {
            let call = call.unwrap_or_else(|| panic!("{} says nothing", result.call_id));
            let twice = told.insert(result.call_id.clone(), (result.status, call));
            assert!(twice.is_none(), "{} is told twice", result.call_id);
        }
    }
    told
}

#[tokio::test(start_paused = true)]
async fn every_call_has_one_event_that_says_who_answered_it_with_what_and_how() {
    let mut stage = Stage::new();
    let heard = Twice::default();
    let system = start(&stage, &heard).await;
    let run = ask(&system, "a", "go").await;
    for (id, answer) in [
        ("refused", json!({ "approved": false, "reason": "no" })),
        (
            "edited",
            json!({ "approved": true, "arguments": { "path": "b" } }),
        ),
        (
            "given",
            json!({ "approved": true, "value": "done by hand" }),
        ),
    ] {
        run.wait().await.unwrap();
        let open = run.questions().await.unwrap();
        let about = open.iter().find(|(_, _, question)| {
            let call = question.call.as_ref();
            call.is_some_and(|call| call.id == id)
        });
        let (_, operation, _) = about.unwrap();
        run.answer_as("ada", *operation, answer).await.unwrap();
    }
    pause(3000).await;
    let before = told(&run).await;
    let ids: Vec<String> = calls().into_iter().map(|call| call.id).collect();
    let mut sorted = ids.clone();
    sorted.sort();
    assert_eq!(before.keys().cloned().collect::<Vec<_>>(), sorted);
    let is = |id: &str, status: ToolStatus, by: AnsweredBy, attempts: u32| {
        let (found, call) = &before[id];
        assert_eq!(
            (*found, &call.by, call.attempts),
            (status, &by, attempts),
            "{id}"
        );
    };
    let ada = || AnsweredBy::Person(Some("ada".into()));
    let guard = || AnsweredBy::Policy("guard".into());
    is("read", ToolStatus::Success, AnsweredBy::Tool, 1);
    is("rewritten", ToolStatus::Success, AnsweredBy::Tool, 1);
    is("kept", ToolStatus::Success, guard(), 0);
    is("held", ToolStatus::Denied, guard(), 0);
    is("refused", ToolStatus::Denied, ada(), 0);
    is("edited", ToolStatus::Success, AnsweredBy::Tool, 1);
    is("given", ToolStatus::Success, ada(), 0);
    is("unknown", ToolStatus::Error, AnsweredBy::Engine, 0);
    is("malformed", ToolStatus::Error, AnsweredBy::Engine, 0);
    is("no-json", ToolStatus::Error, AnsweredBy::Engine, 0);
    is("again", ToolStatus::Success, AnsweredBy::Tool, 2);
    is(
        "asked",
        ToolStatus::Success,
        AnsweredBy::Agent("helper".into()),
        0,
    );
    let rewritten = before["rewritten"].1.arguments.text();
    assert!(
        rewritten.contains("safe") && !rewritten.contains("\"p\""),
        "{rewritten}"
    );
    let edited = &before["edited"].1;
    assert_eq!(edited.arguments.value().unwrap(), &json!({ "path": "b" }));
    let decision = |id: &str| before[id].1.approval.as_ref().unwrap().decision;
    assert_eq!(decision("edited"), ApprovalDecision::Edited);
    assert_eq!(decision("refused"), ApprovalDecision::Denied);
    assert_eq!(decision("given"), ApprovalDecision::Supplied);
    assert!((20..300).contains(&before["read"].1.latency_ms));
    assert!(before["again"].1.latency_ms >= 300, "with the pause");
    let mut of_interceptors = heard.0.lock().clone();
    of_interceptors.sort();
    let unattempted = ["given", "held", "kept", "no-json", "refused", "unknown"];
    assert_eq!(
        of_interceptors,
        unattempted.map(|id| format!("{id} for None"))
    );
    // What is told once is not told again by a later life.
    stage.crash(&system).await;
    let system = start(&stage, &heard).await;
    let run = system.run(run.id());
    assert_eq!(text(&run).await, ids.join(" "));
    assert_eq!(told(&run).await, before);
    assert_eq!(heard.0.lock().len(), unattempted.len());
}

#[tokio::test(start_paused = true)]
async fn a_rule_says_what_the_model_reads_of_a_call_that_was_denied() {
    let stage = Stage::new();
    let agent = caller(vec![call("1", json!({ "path": "a" }))])
        .tool(stage.log.tool(wipe(), Duration::ZERO))
        .approval(
            "wipe",
            ApprovalRule::required().denial("Ask the owner first"),
        );
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    let no = json!({ "approved": false, "reason": "it is mine" });
    decide(&run, "1", no).await;
    let told = results(&run).await.remove(0);
    assert_eq!(told.status, ToolStatus::Denied);
    assert_eq!(
        told.text,
        "Ask the owner first: it is mine. Do not repeat it."
    );
    assert_eq!(stage.log.count("wipe"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_that_nobody_gives_is_a_no() {
    let stage = Stage::alone();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let mut given = Vec::new();
        for _ in 0..2 {
            let mut question = Question::confirmation("Go on?");
            question.expires = Some(cx.now().await?.after(Duration::from_secs(60)));
            given.push(cx.ask(question).await?.to_string());
        }
        Ok(Outcome::answer(given.join(" ")))
    });
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    run.wait().await.unwrap();
    let (_, operation, question) = run.questions().await.unwrap().remove(0);
    assert_eq!(question.kind, QuestionKind::Confirmation);
    let unclear = run.answer(operation, json!("perhaps")).await;
    assert!(unclear.is_err(), "{unclear:?}");
    run.answer(operation, json!(true)).await.unwrap();
    assert_eq!(text(&run).await, "true false");
}

/// Gives each result another text, and the id of another call.
struct Rewrites(Arc<Mutex<Vec<String>>>);

impl Policy for Rewrites {
    async fn after_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
        _: &ToolResult,
    ) -> Result<Option<ToolResult>, AgentError> {
        let mut other = ToolResult::new(call, ToolStatus::Success, format!("{} again", call.id));
        other.call_id = "another".to_owned();
        Ok(Some(other))
    }

    async fn after_tools(
        &mut self,
        _: &PolicyContext<'_>,
        _: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        let ids = results.iter().map(|result| result.call_id.clone());
        self.0.lock().extend(ids);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_replaces_a_result_leaves_it_with_its_call() {
    let (stage, told) = (Stage::new(), Arc::<Mutex<Vec<String>>>::default());
    let noted = told.clone();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let calls = ["1", "2"].map(|id| ToolCall::new(id, "look", json!({})));
        let results = cx.tools(calls).await?;
        let texts = results
            .into_iter()
            .map(|r| format!("{}: {}", r.call_id, r.text));
        Ok(Outcome::answer(texts.collect::<Vec<_>>().join(", ")))
    })
    .tool(stage.tool("look", Effect::Read, 5))
    .policy("rewrites", move || Rewrites(noted.clone()));
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    assert_eq!(text(&run).await, "1: 1 again, 2: 2 again");
    assert_eq!(*told.lock(), ["1", "2"], "so the other policies see them");
}
