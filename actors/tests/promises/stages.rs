//! The stages through which a call of a tool goes, in their order: a call that does not pass one of
//! them reaches none behind it.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::{Run, System},
    contract::{Interceptor, NextTool, Tool, ToolContext, ToolError, ToolOutput},
    definition::ApprovalRule,
    run::{BeforeTool, Intercept, Policy, PolicyContext},
    vocabulary::{AgentError, Arguments, Effect, Event, ToolCall, ToolDefinition, ToolStatus},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    approvals::{caller, decide, questions, results},
    stage::{Stage, ask, pause, silent},
};

/// The stages that calls have reached, each with the call's id.
type Log = Arc<Mutex<Vec<String>>>;

fn id(arguments: &Arguments) -> &str {
    arguments.value().unwrap()["id"].as_str().unwrap()
}

struct Watching(Log);

impl Policy for Watching {
    async fn before_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        self.0.lock().push(format!("{}: policy", call.id));
        Ok(match call.id.as_str() {
            "held" => BeforeTool::blocked(call, "not now"),
            // The last word about arguments is the check of those with which it would run.
            "spoilt" => BeforeTool::GoWith(json!({ "id": "spoilt", "seconds": "many" }).into()),
            _ => BeforeTool::Go,
        })
    }
}

/// Tries again once, after a pause that is longer than the tool may take.
struct Repeating(Log);

impl Interceptor for Repeating {
    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        self.0
            .lock()
            .push(format!("{}: interceptor", id(&arguments)));
        match next.call(arguments.clone(), cx.clone()).await {
            Err(_) if next.may_repeat() => {
                next.pause(Duration::from_secs(60)).await;
                next.call(arguments, cx).await
            }
            end => end,
        }
    }
}

/// Takes as many seconds as it is told, and is given ten.
struct Takes(Log);

impl Tool for Takes {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("act", "acts")
            .effect(Effect::Read)
            .timeout(Duration::from_secs(10))
            .parameters(json!({
                "type": "object",
                "properties": { "id": { "type": "string" }, "seconds": { "type": "integer" } },
                "required": ["id", "seconds"],
            }))
    }

    async fn call(&self, arguments: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.lock().push(format!("{}: attempt", id(&arguments)));
        let seconds = arguments.value().unwrap()["seconds"].as_u64().unwrap();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.0.lock().push(format!("{}: end", id(&arguments)));
        Ok(ToolOutput::text("acted"))
    }
}

fn act(id: &str, seconds: Value) -> ToolCall {
    ToolCall::new(id, "act", json!({ "id": id, "seconds": seconds }))
}

async fn started(stage: &Stage, calls: Vec<ToolCall>, log: &Log) -> (System, Run) {
    let (watching, repeating) = (log.clone(), log.clone());
    let agent = caller(calls)
        .tool(Takes(log.clone()))
        .approval("act", ApprovalRule::required())
        .policy("watching", move || Watching(watching.clone()));
    let system = System::builder(stage.store.clone())
        .options(stage.limits)
        .clock(stage.clock.clone())
        .model("default", silent())
        .team(agent.into_team().unwrap())
        .intercept(Intercept::new(Repeating(repeating)))
        .start()
        .await
        .unwrap();
    let run = ask(&system, "a", "go").await;
    (system, run)
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_pass_one_stage_reaches_none_behind_it() {
    let yes = || Some(json!({ "approved": true }));
    let no = Some(json!({ "approved": false }));
    for (call, answer, status, stages, seconds) in [
        (
            act("held", json!(1)),
            None,
            ToolStatus::Blocked,
            &["policy"][..],
            0,
        ),
        // Nobody is asked about arguments that do not fit, as the model or a policy wrote them.
        (
            act("malformed", json!("many")),
            None,
            ToolStatus::Error,
            &["policy"],
            0,
        ),
        (
            act("spoilt", json!(1)),
            None,
            ToolStatus::Error,
            &["policy"],
            0,
        ),
        (
            act("denied", json!(1)),
            no,
            ToolStatus::Denied,
            &["policy", "asked"],
            0,
        ),
        (
            act("good", json!(1)),
            yes(),
            ToolStatus::Success,
            &["policy", "asked", "policy", "interceptor", "attempt", "end"],
            1,
        ),
        // Two attempts of ten seconds each, with the interceptor's pause between them.
        (
            act("slow", json!(11)),
            yes(),
            ToolStatus::Error,
            &[
                "policy",
                "asked",
                "policy",
                "interceptor",
                "attempt",
                "attempt",
            ],
            80,
        ),
    ] {
        let (stage, log) = (Stage::new(), Log::default());
        let id = call.id.clone();
        let (system, run) = started(&stage, vec![call], &log).await;
        if let Some(answer) = answer {
            assert_eq!(questions(&run).await.len(), 1, "{id}");
            log.lock().push(format!("{id}: asked"));
            decide(&run, &id, answer).await;
        }
        let began = tokio::time::Instant::now();
        let results = results(&run).await;
        assert_eq!(results[0].status, status, "{id}: {}", results[0].text);
        assert_eq!(began.elapsed().as_secs(), seconds, "{id}");
        let expected: Vec<String> = stages
            .iter()
            .map(|stage| format!("{id}: {stage}"))
            .collect();
        assert_eq!(*log.lock(), expected);
        let records = run.events().so_far().await.unwrap();
        let asked = records
            .iter()
            .filter(|record| matches!(record.event, Event::QuestionAsked { .. }));
        assert_eq!(
            asked.count(),
            usize::from(stages.contains(&"asked")),
            "{id}"
        );
        system.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_taken_after_the_approval_and_before_the_interceptors() {
    let mut stage = Stage::new();
    stage.limits.executor.concurrency = 1;
    let log = Log::default();
    let calls = ["1", "2", "3"].map(|id| act(id, json!(1))).to_vec();
    let (system, run) = started(&stage, calls, &log).await;
    assert_eq!(questions(&run).await.len(), 3);
    log.lock().clear();
    // The last one that asked is answered first: those that wait for a person hold no slot.
    decide(&run, "3", json!({ "approved": true })).await;
    pause(2_000).await;
    let of = |id: &str| ["interceptor", "attempt", "end"].map(|stage| format!("{id}: {stage}"));
    let called = || {
        let log = log.lock().clone().into_iter();
        log.filter(|stage| !stage.ends_with(": policy"))
            .collect::<Vec<_>>()
    };
    assert_eq!(called(), of("3"));
    // Of two that are approved the second reaches no interceptor until the first one's slot is free.
    let mut open = questions(&run).await;
    open.reverse();
    for (operation, _) in open {
        let yes = json!({ "approved": true });
        run.answer(operation, yes).await.unwrap();
    }
    results(&run).await;
    assert_eq!(called(), [of("3"), of("2"), of("1")].concat());
    system.stop().await.unwrap();
}
