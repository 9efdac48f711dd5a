//! Budgets and deadlines are checked before the act, over children and crashes.

use std::time::Duration;

use ghostlight_actors::{
    run::{Agent, RunContext},
    session::Turn,
    testing::ScriptedModel,
    vocabulary::{Budget, Effect, ErrorKind, ModelResponse, Outcome, StopReason, Usage},
};

use crate::stage::{Stage, ask, call, outcome, pause, text};

fn always() -> ScriptedModel {
    ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("yes")))
}

fn eager(stage: &Stage) -> Agent {
    Agent::from_fn("eager", |cx: RunContext| async move {
        let mut said = 0;
        let error = loop {
            match cx.model(cx.model_request(cx.conversation())).await {
                Ok(_) => said += 1,
                Err(error) => break error,
            }
        };
        let calls = (0..9).map(|n| cx.tool(call(&n.to_string(), "look")));
        let calls = futures_util::future::join_all(calls).await;
        let looked = calls.iter().filter(|result| result.is_ok()).count();
        assert!(
            matches!(error.kind(), Some(ErrorKind::Budget(_))),
            "{error}"
        );
        cx.sleep(Duration::from_secs(1)).await?;
        Ok(Outcome::answer(format!("{said} {looked}")))
    })
    .tool(stage.tool("look", Effect::Read, 50))
}

#[tokio::test(start_paused = true)]
async fn model_calls_tool_calls_and_tokens_are_bounded_also_in_parallel_and_over_a_crash() {
    let mut budget = Budget::default();
    (budget.model_calls, budget.tool_calls) = (Some(3), Some(4));
    let mut tokens = Budget::default();
    (tokens.tokens, tokens.tool_calls) = (Some(250), Some(0));
    for (budget, expected) in [(budget, "3 4"), (tokens, "3 0")] {
        for crashes in [false, true] {
            let mut stage = Stage::new();
            let mut usage = Usage::default();
            (usage.input_tokens, usage.output_tokens) = (90, 10);
            let model = always().usage(usage);
            let mut system = stage.start_with(eager(&stage), model.clone()).await;
            let turn = Turn::text("go").budget(budget);
            let run = system.session("eager", "s").send(turn).await.unwrap();
            pause(500).await;
            if crashes {
                stage.crash(&system).await;
                system = stage.start_with(eager(&stage), model.clone()).await;
            }
            assert_eq!(text(&system.run(run.id())).await, expected);
            assert_eq!(model.calls(), 3, "replay charges nothing and asks nothing");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_has_what_its_parent_has_left_and_the_parent_pays_for_it() {
    let stage = Stage::new();
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        let mut said = 0;
        while cx.model(cx.model_request(cx.conversation())).await.is_ok() {
            said += 1;
        }
        Ok(Outcome::answer(said.to_string()))
    });
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        cx.model(cx.model_request(cx.conversation())).await?;
        let done = cx.delegate("worker", "go").await?;
        let left = cx.model(cx.model_request(cx.conversation())).await;
        Ok(Outcome::answer(format!("{} {}", done.text, left.is_ok())))
    });
    let system = stage.start_with(boss.agent(worker), always()).await;
    let budget = Budget {
        model_calls: Some(5),
        ..Budget::default()
    };
    let turn = Turn::text("go").budget(budget);
    let run = system.session("boss", "s").send(turn).await.unwrap();
    assert_eq!(text(&run).await, "4 false");
}

#[tokio::test(start_paused = true)]
async fn past_its_deadline_a_run_stops_and_its_children_with_it() {
    for crashes in [false, true] {
        let mut stage = Stage::new();
        let team = || {
            let worker = Agent::from_fn("worker", |cx: RunContext| async move {
                cx.sleep(Duration::from_secs(9000)).await?;
                Ok(Outcome::answer("late"))
            });
            Agent::from_fn("boss", |cx: RunContext| async move {
                cx.delegate("worker", "go").await?;
                Ok(Outcome::answer("never"))
            })
            .agent(worker)
            .into_team()
            .unwrap()
        };
        let start = async |stage: &Stage| {
            let budget = Budget {
                wall_time_ms: Some(60_000),
                ..Budget::default()
            };
            ghostlight_actors::actor::System::builder(stage.store.clone())
                .team(team().budget(budget))
                .start()
                .await
                .unwrap()
        };
        let mut system = start(&stage).await;
        let run = ask(&system, "boss", "go").await;
        pause(1000).await;
        if crashes {
            stage.crash(&system).await;
            system = start(&stage).await;
        }
        let stopped = outcome(&system.run(run.id())).await;
        assert_eq!(stopped.stop_reason(), Some(&StopReason::Deadline));
        for row in stage.rows().await {
            assert!(row.status.is_ended(), "{} is {}", row.agent, row.status);
        }
    }
}
