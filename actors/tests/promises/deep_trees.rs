//! A tree of runs as deep as delegations may nest keeps every promise, and each level costs the same.

use std::collections::BTreeSet;

use ghostlight_actors::{
    actor::{Run, System, SystemError},
    contract::{DynStore, RunStatus},
    run::{Agent, RunContext},
    testing::FaultyStore,
    vocabulary::{AgentError, Effect, ErrorKind, Outcome, StopReason},
};
use serde_json::json;

use crate::stage::{Stage, ask, call, outcome, pause, silent, text};

/// The most levels of runs, the root included.
const LEVELS: usize = 64;
const PAYS_MS: u64 = 10;

/// Pays, and delegates all levels but its own. The lowest level asks a person.
fn level(stage: &Stage) -> Agent {
    Agent::from_fn("level", |cx: RunContext| async move {
        let levels: usize = cx.input().content().parse().unwrap();
        cx.tool_unasked(call("1", "pay")).await?;
        if levels == 1 {
            let said = cx.ask("Well?").await?;
            return Ok(Outcome::answer(format!("{said} {}", cx.start().path.len())));
        }
        let below = cx.delegate("level", (levels - 1).to_string()).await?;
        Ok(Outcome::answer(below.text))
    })
    .tool(stage.tool("pay", Effect::Once, PAYS_MS))
}

async fn answer(system: &System, run: &Run) {
    let (asking, operation, _) = run.questions().await.unwrap().remove(0);
    let asking = system.run(asking);
    asking.answer(operation, json!(true)).await.unwrap();
}

async fn check_ends(stage: &Stage, status: RunStatus) {
    let rows = stage.rows().await;
    assert_eq!(rows.len(), LEVELS);
    let depths: BTreeSet<usize> = rows.iter().map(|row| row.path.len()).collect();
    assert_eq!(depths, (1..=LEVELS).collect());
    for row in rows {
        assert_eq!(row.status, status, "{:?}", row.path.len());
        assert_eq!(stage.ends(row.run).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn each_level_of_a_tree_costs_the_same() {
    let mut costs = Vec::new();
    for levels in [LEVELS / 4, LEVELS / 2, LEVELS] {
        let stage = Stage::new();
        let store = FaultyStore::new(stage.store.clone());
        let system = System::builder(store.clone())
            .options(stage.limits)
            .model("default", silent())
            .team(level(&stage).into_team().unwrap())
            .start()
            .await
            .unwrap();
        let run = ask(&system, "level", &levels.to_string()).await;
        pause(levels as u64 * (PAYS_MS + 5)).await;
        answer(&system, &run).await;
        assert_eq!(text(&run).await, format!("true {levels}"));
        let lines = stage.store.read_tree(run.id(), 0, usize::MAX).await;
        costs.push((lines.unwrap().len(), store.calls()));
    }
    let [(few, _), (more, commits), (most, most_commits)] = costs[..] else {
        unreachable!()
    };
    assert_eq!(most - more, 2 * (more - few), "{costs:?}");
    assert!(most_commits <= 2 * commits, "{costs:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deep_tree_goes_on_wherever_its_process_dies() {
    // While half of the levels are there, and when all wait for the lowest.
    for levels in [LEVELS / 2, LEVELS] {
        let mut stage = Stage::new();
        let system = stage.start(level(&stage)).await;
        let run = ask(&system, "level", &LEVELS.to_string()).await;
        while stage.rows().await.len() < levels {
            pause(1).await;
        }
        pause(PAYS_MS / 2).await;
        stage.crash(&system).await;
        let system = stage.start(level(&stage)).await;
        let run = system.run(run.id());
        pause(LEVELS as u64 * (PAYS_MS + 5)).await;
        answer(&system, &run).await;
        assert_eq!(text(&run).await, format!("true {LEVELS}"));
        assert_eq!(stage.log.count("pay"), LEVELS);
        check_ends(&stage, RunStatus::Answered).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deep_tree_is_cancelled_from_its_root_to_its_lowest_level() {
    for is_resumed in [false, true] {
        let mut stage = Stage::new();
        let mut system = stage.start(level(&stage)).await;
        let run = ask(&system, "level", &LEVELS.to_string()).await;
        pause(LEVELS as u64 * (PAYS_MS + 5)).await;
        if is_resumed {
            stage.crash(&system).await;
            system = stage.start(level(&stage)).await;
        }
        let run = system.run(run.id());
        assert!(run.cancel("enough").await.unwrap());
        let why = StopReason::Cancelled("enough".to_owned());
        assert_eq!(outcome(&run).await.stop_reason(), Some(&why));
        check_ends(&stage, RunStatus::Cancelled).await;
        assert!(run.questions().await.unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn below_the_lowest_level_a_delegation_is_refused_and_the_error_comes_up_with_its_path() {
    let stage = Stage::new();
    let system = stage.start(level(&stage)).await;
    let run = ask(&system, "level", &(LEVELS + 1).to_string()).await;
    let failed = run.outcome().await.unwrap_err();
    let SystemError::Failed { error, .. } = failed else {
        panic!("{failed:?}")
    };
    let AgentError::Operation(error) = error else {
        panic!("{error:?}")
    };
    assert_eq!(error.kind, ErrorKind::Delegation);
    assert_eq!(error.path, vec!["level"; LEVELS - 1]);
    assert_eq!(error.message, "delegations nest deeper than 64");
    let cause = error.cause.as_deref().and_then(AgentError::operation);
    assert_eq!(cause.map(|cause| &cause.kind), Some(&ErrorKind::Denied));
    check_ends(&stage, RunStatus::Failed).await;
}
