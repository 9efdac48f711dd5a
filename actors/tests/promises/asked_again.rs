//! A call that somebody outside has allowed is made only if the policies still let it run.

use std::time::Duration;

use ghostlight_actors::{
    definition::ApprovalRule,
    run::{Agent, BeforeTool, Policy, PolicyContext, RunContext},
    vocabulary::{
        AgentError, AnsweredBy, ApprovalDecision, Event, Outcome, Question, QuestionKind,
        Timestamp, ToolCall, ToolDefinition, ToolStatus,
    },
};
use serde_json::json;

use crate::{
    approvals::{call, caller, decide, questions, results, wipe},
    stage::{Stage, ask, pause, text},
};

/// Holds back what is called more than a minute after the run began, and tells how often it was asked.
#[derive(Default)]
struct OfficeHours {
    opened: Option<Timestamp>,
}

impl Policy for OfficeHours {
    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        let now = cx.now().await?;
        let opened = *self.opened.get_or_insert(now);
        cx.emit("asked", &json!({ "again": cx.is_asked_again() }));
        Ok(match now.since(opened) > Duration::from_secs(60) {
            true => BeforeTool::blocked(call, "The office is closed."),
            false => BeforeTool::Go,
        })
    }
}

/// Asks a person about every call by itself.
struct Asks;

impl Policy for Asks {
    async fn before_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        Ok(BeforeTool::ask(Question::approval("May it?", call.clone())))
    }
}

fn agent(stage: &Stage, tool: ToolDefinition) -> Agent {
    caller(vec![call("1", json!({ "path": "a" }))])
        .tool(stage.log.tool(tool, Duration::ZERO))
        .policy("hours", OfficeHours::default)
}

fn wiping() -> ToolDefinition {
    wipe().approval("Delete {path}?")
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_approved_too_late_for_a_policy_is_not_made() {
    for (minutes, made) in [(0, 1), (180, 0)] {
        let mut stage = Stage::new();
        let system = stage.start(agent(&stage, wiping())).await;
        let run = ask(&system, "a", "go").await;
        assert_eq!(questions(&run).await.len(), 1);
        pause(minutes * 60_000).await;
        decide(&run, "1", json!({ "approved": true, "by": "ada" })).await;
        let result = results(&run).await.remove(0);
        assert_eq!(stage.log.count("wipe"), made, "{minutes}");
        if made == 0 {
            assert_eq!(
                (result.status, result.call_id.as_str()),
                (ToolStatus::Blocked, "1")
            );
            let told = run.events().so_far().await.unwrap();
            let report = told.into_iter().find_map(|record| match record.event {
                Event::ToolCalled { call, .. } => call,
                _ => None,
            });
            let report = report.unwrap();
            assert_eq!(report.by, AnsweredBy::Policy("hours".to_owned()));
            assert_eq!(
                report.approval.unwrap().decision,
                ApprovalDecision::Approved
            );
        }
        // A later process comes to the same end.
        stage.crash(&system).await;
        let system = stage.start(agent(&stage, wiping())).await;
        assert_eq!(results(&system.run(run.id())).await[0], result);
        assert_eq!(stage.log.count("wipe"), made);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_person_approves_or_gives_a_credential_for_is_asked_about_again_and_nothing_else() {
    let asked = async |tool: ToolDefinition, answers: &[serde_json::Value]| {
        let stage = Stage::new();
        let system = stage.start(agent(&stage, tool)).await;
        let run = ask(&system, "a", "go").await;
        for answer in answers {
            let (operation, _) = questions(&run).await.remove(0);
            run.answer(operation, answer.clone()).await.unwrap();
        }
        text(&run).await;
        let told = run.events().so_far().await.unwrap().into_iter();
        told.filter_map(|record| match record.event {
            Event::Custom { name, data } if name == "asked" => data["again"].as_bool(),
            _ => None,
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(asked(wipe(), &[]).await, [false]);
    assert_eq!(asked(wiping(), &[json!(true)]).await, [false, true]);
    assert_eq!(asked(wiping(), &[json!(false)]).await, [false]);
    let authenticated = wipe().authentication("Password?");
    assert_eq!(
        asked(authenticated, &[json!("secret")]).await,
        [false, true]
    );
}

#[tokio::test(start_paused = true)]
async fn a_policy_before_one_that_asks_is_asked_again_when_the_answer_comes() {
    let stage = Stage::new();
    let agent = agent(&stage, wipe()).policy("asks", || Asks);
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    assert_eq!(questions(&run).await[0].1.kind, QuestionKind::Approval);
    pause(180 * 60_000).await;
    decide(&run, "1", json!(true)).await;
    let result = results(&run).await.remove(0);
    assert_eq!(
        (result.status, stage.log.count("wipe")),
        (ToolStatus::Blocked, 0)
    );
}

/// An agent whose own code makes one call.
fn own(asks: bool) -> Agent {
    Agent::from_fn("a", move |cx: RunContext| async move {
        let call = call("1", json!({ "path": "a" }));
        let result = match asks {
            true => cx.tool(call).await?,
            false => cx.tool_unasked(call).await?,
        };
        Ok(Outcome::answer(result.text))
    })
}

#[tokio::test(start_paused = true)]
async fn a_single_call_of_ones_own_code_is_asked_about_unless_its_name_says_otherwise() {
    let start = async |stage: &mut Stage, asks: bool| {
        let agent = own(asks)
            .tool(stage.log.tool(wipe(), Duration::ZERO))
            .approval("wipe", ApprovalRule::required())
            .policy("hours", OfficeHours::default);
        let system = stage.start(agent).await;
        ask(&system, "a", "go").await
    };
    let mut stage = Stage::new();
    let run = start(&mut stage, false).await;
    text(&run).await;
    assert_eq!(stage.log.count("wipe"), 1);
    let mut stage = Stage::new();
    let run = start(&mut stage, true).await;
    assert_eq!(
        (questions(&run).await.len(), stage.log.count("wipe")),
        (1, 0)
    );
    pause(180 * 60_000).await;
    decide(&run, "1", json!(true)).await;
    assert_eq!(text(&run).await, "The office is closed.");
    assert_eq!(stage.log.count("wipe"), 0);
}
