//! Budgets and deadlines are checked before the act, over children and crashes.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Run, System},
    contract::ModelError,
    run::{Agent, RunContext, Task},
    session::Turn,
    testing::{CrashOptions, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{
        AgentError, Budget, Effect, Entry, ErrorKind, Event, ModelResponse, Outcome, Resource,
        RunEnd, RunId, Spent, ToolDefinition, Usage,
    },
};
use serde::{Deserialize, Serialize};

use crate::stage::{Stage, call, outcome, pause, text};

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
        let calls = (0..9).map(|n| cx.tool_unasked(call(&n.to_string(), "look")));
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

fn calls(bound: u64) -> Budget {
    Budget {
        model_calls: Some(bound),
        ..Budget::default()
    }
}

async fn go(system: &System, team: &str, budget: Budget) -> Run {
    let turn = Turn::text("go").budget(budget);
    system.session(team, "s").send(turn).await.unwrap()
}

/// Asks its model until it may not, and answers how often it did.
fn greedy() -> Agent {
    Agent::from_fn("worker", |cx: RunContext| async move {
        let mut said = 0;
        while cx.model(cx.model_request(cx.conversation())).await.is_ok() {
            said += 1;
        }
        Ok(Outcome::answer(said.to_string()))
    })
}

async fn left(cx: &RunContext) -> Result<u64, AgentError> {
    Ok(cx.budget().await?.left(Resource::ModelCalls).unwrap())
}

/// Gives its workers tasks side by side, and tells what each did and what is left in the end.
fn dividing(shares: Vec<Option<u8>>) -> Agent {
    Agent::from_fn("boss", move |cx: RunContext| {
        let shares = shares.clone();
        async move {
            cx.model(cx.model_request(cx.conversation())).await?;
            let tasks = shares.iter().map(|share| {
                let task = Task::from("go");
                let task = share.map_or(task.clone(), |share| task.share(share));
                cx.delegate("worker", task)
            });
            let done = futures_util::future::try_join_all(tasks).await?;
            let said: Vec<&str> = done.iter().map(|done| done.text.as_str()).collect();
            let spent = cx.budget().await?.spent.model_calls;
            let left = left(&cx).await?;
            Ok(Outcome::answer(format!(
                "{} | {spent} {left}",
                said.join(" ")
            )))
        }
    })
    .agent(greedy())
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_divided_among_children_that_begin_together() {
    let cases: [(Vec<Option<u8>>, &str); 4] = [
        (vec![None; 3], "2 2 2 | 7 0"),
        (vec![None; 4], "2 2 1 1 | 7 0"),
        (vec![Some(50), Some(20), None], "3 1 2 | 7 0"),
        (vec![Some(14), Some(0)], "0 0 | 1 6"),
    ];
    for (shares, expected) in cases {
        let stage = Stage::new();
        let model = always();
        let agent = dividing(shares.clone());
        let system = stage.start_with(agent, model.clone()).await;
        let run = go(&system, "boss", calls(7)).await;
        assert_eq!(text(&run).await, expected, "{shares:?}");
        assert!(model.calls() <= 7, "{shares:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_gets_nothing_of_what_calls_under_way_beside_it_consume() {
    let stage = Stage::new();
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let said = cx.model(cx.model_request(cx.conversation()));
        let (said, done) = futures_util::join!(said, cx.delegate("worker", "go"));
        said?;
        Ok(Outcome::answer(format!(
            "{} {}",
            done?.text,
            left(&cx).await?
        )))
    });
    let model = always().delay(Duration::from_secs(1));
    let system = stage.start_with(boss.agent(greedy()), model.clone()).await;
    let run = go(&system, "boss", calls(3)).await;
    assert_eq!(text(&run).await, "2 0");
    assert_eq!(model.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_a_child_leaves_returns_and_what_is_reserved_is_not_there() {
    let stage = Stage::new();
    let modest = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.model(cx.model_request(cx.conversation())).await?;
        cx.sleep(Duration::from_secs(1)).await?;
        Ok(Outcome::answer("done"))
    });
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let mut seen = vec![left(&cx).await?];
        let child = cx.spawn("worker", Task::from("go").share(40)).await?;
        seen.push(left(&cx).await?);
        // Joined twice, it is paid once.
        cx.join(&child).await?;
        cx.join(&child).await?;
        seen.push(left(&cx).await?);
        let unwanted = cx.spawn("worker", "go").await?;
        seen.push(left(&cx).await?);
        cx.sleep(Duration::from_millis(500)).await?;
        drop(unwanted);
        Ok(Outcome::answer(format!("{seen:?}")))
    });
    let system = stage.start_with(boss.agent(modest), always()).await;
    let run = go(&system, "boss", calls(10)).await;
    // Beside the second child the function itself goes on, so it keeps half.
    assert_eq!(text(&run).await, "[10, 6, 9, 4]");
    let ends = stage.entries(run.id()).await;
    let Some(Entry::RunEnded(end)) = ends.last() else {
        panic!("the run has ended");
    };
    assert_eq!(
        end.spent().model_calls,
        2,
        "a child that nobody joins is paid too"
    );
}

#[tokio::test(start_paused = true)]
async fn a_child_has_no_more_than_its_task_and_its_agent_allow() {
    for (task, agent, expected) in [(2, 9, "2 5"), (9, 3, "3 4"), (9, 9, "7 0")] {
        let stage = Stage::new();
        let boss = Agent::from_fn("boss", move |cx: RunContext| async move {
            let task = Task::from("go").budget(calls(task));
            let done = cx.delegate("worker", task).await?;
            Ok(Outcome::answer(format!(
                "{} {}",
                done.text,
                left(&cx).await?
            )))
        });
        let system = stage
            .start_with(boss.agent(greedy().budget(calls(agent))), always())
            .await;
        let run = go(&system, "boss", calls(7)).await;
        assert_eq!(text(&run).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_failed_was_made_and_one_that_was_refused_was_not() {
    let stage = Stage::new();
    let failing = ScriptedModel::from_fn(|_, _| Err(ModelError::new(ErrorKind::Model, "no")));
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        for _ in 0..9 {
            let _ = cx.model(cx.model_request(cx.conversation())).await;
        }
        Ok(Outcome::answer(
            cx.budget().await?.spent.model_calls.to_string(),
        ))
    });
    let system = stage.start_with(agent, failing.clone()).await;
    let run = go(&system, "a", calls(3)).await;
    assert_eq!(text(&run).await, "3");
    assert_eq!(failing.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn input_output_and_cost_are_bounds_of_their_own() {
    let mut usage = Usage::default();
    (usage.input_tokens, usage.output_tokens, usage.cost_micros) = (100, 10, 7);
    let bounds = [
        (Resource::InputTokens, 201),
        (Resource::OutputTokens, 21),
        (Resource::Tokens, 221),
        (Resource::CostMicros, 15),
    ];
    for (resource, bound) in bounds {
        let stage = Stage::new();
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            let error = loop {
                if let Err(error) = cx.model(cx.model_request(cx.conversation())).await {
                    break error;
                }
            };
            let spent = cx.budget().await?.spent.model_calls;
            Ok(Outcome::answer(format!(
                "{spent} {:?}",
                error.kind().unwrap()
            )))
        });
        let system = stage.start_with(agent, always().usage(usage)).await;
        let budget = Budget::from_bounds(|r| (r == resource).then_some(bound));
        let run = go(&system, "a", budget).await;
        assert_eq!(text(&run).await, format!("3 Budget({resource:?})"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_in_a_fresh_journal_has_no_fresh_budget() {
    let stage = Stage::new();
    let model = always();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        match cx.model(cx.model_request(cx.conversation())).await {
            Ok(_) => Ok(cx.continue_as("again")),
            Err(error) => Ok(Outcome::answer(format!("{:?}", error.kind().unwrap()))),
        }
    });
    let system = stage.start_with(agent, model.clone()).await;
    let run = go(&system, "a", calls(4)).await;
    assert_eq!(text(&run).await, "Budget(ModelCalls)");
    assert_eq!(model.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn observers_are_warned_once_at_each_share_also_over_a_crash() {
    let mut stage = Stage::new();
    let agent = || {
        Agent::from_fn("a", |cx: RunContext| async move {
            for _ in 0..9 {
                cx.model(cx.model_request(cx.conversation())).await?;
                cx.sleep(Duration::from_secs(1)).await?;
            }
            Ok(Outcome::answer("done"))
        })
        .into_team()
        .unwrap()
        .budget(calls(10))
        .budget_warnings([50, 90])
    };
    let start = async |stage: &Stage| {
        System::builder(stage.store.clone())
            .model("default", always())
            .team(agent())
            .start()
            .await
            .unwrap()
    };
    let mut system = start(&stage).await;
    let run = go(&system, "a", Budget::default()).await.id();
    for _ in 0..2 {
        pause(3500).await;
        stage.crash(&system).await;
        system = start(&stage).await;
    }
    let run = system.run(run);
    assert_eq!(text(&run).await, "done");
    let events = run.events().recorded().so_far().await.unwrap();
    let warned: Vec<(Resource, u32, u64, u64)> = events
        .iter()
        .filter_map(|record| match record.event {
            Event::BudgetWarning {
                resource,
                percent,
                used,
                bound,
            } => Some((resource, percent, used, bound)),
            _ => None,
        })
        .collect();
    let calls = Resource::ModelCalls;
    // What is used stands beside the share at which it was told.
    assert_eq!(warned, [(calls, 50, 5, 10), (calls, 90, 9, 10)]);
    let lines: Vec<String> = events
        .iter()
        .map(|record| record.event.to_string())
        .collect();
    let told = "has used 5 of its 10 model calls (a warning at 50%)";
    assert!(lines.iter().any(|line| line == told), "{lines:?}");
    let refused = agent().budget_warnings([0]).spec.check();
    assert!(refused.unwrap_err().to_string().contains("1 to 100"));
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_charged_once_wherever_a_crash_strikes() {
    let build = |shares: Vec<Option<u8>>| {
        Scenario::new("boss", move |builder, _| {
            let team = dividing(shares.clone()).into_team().unwrap();
            builder
                .model("default", always())
                .team(team.budget(calls(6)))
        })
        .turn("go")
    };
    for shares in [vec![None; 2], vec![Some(50), None, None]] {
        let report = crash_everywhere(&build(shares), CrashOptions::default().again(1)).await;
        assert!(report.violations.is_empty(), "{report}");
        assert!(
            report.outcomes[0].contains("| 6 0"),
            "{:?}",
            report.outcomes
        );
    }
}

/// What a node of a random tree does, one thing after the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Does {
    Calls(u64),
    Delegates(Vec<(Option<u8>, Vec<Does>)>),
    Spawns(Vec<Does>, bool),
}

fn random_tree(random: &mut impl FnMut(u64) -> u64, depth: u64) -> Vec<Does> {
    let acts = 1 + random(4);
    (0..acts)
        .map(|_| match random(if depth == 0 { 2 } else { 5 }) {
            0..2 => Does::Calls(random(120)),
            2..4 => {
                let children = 1 + random(3);
                let child = |_| {
                    let share = (random(2) == 0).then(|| random(101) as u8);
                    (share, random_tree(random, depth - 1))
                };
                Does::Delegates((0..children).map(child).collect())
            }
            _ => Does::Spawns(random_tree(random, depth - 1), random(2) == 0),
        })
        .collect()
}

/// Does what its task says: the tokens of a model call are what its last message says.
fn node() -> Agent {
    Agent::from_fn("node", |cx: RunContext| async move {
        let acts: Vec<Does> = serde_json::from_str(&cx.input().content()).unwrap();
        for act in acts {
            match act {
                Does::Calls(tokens) => {
                    let mut asked = cx.conversation();
                    asked.push(ghostlight_actors::vocabulary::Message::user(
                        tokens.to_string(),
                    ));
                    let _ = cx.model(cx.model_request(asked)).await;
                }
                Does::Delegates(children) => {
                    let tasks = children.iter().map(|(share, acts)| {
                        let task = Task::from(serde_json::to_string(acts).unwrap());
                        let task = share.map_or(task.clone(), |share| task.share(share));
                        cx.delegate("node", task)
                    });
                    futures_util::future::join_all(tasks).await;
                }
                Does::Spawns(acts, joins) => {
                    let child = cx
                        .spawn("node", serde_json::to_string(&acts).unwrap())
                        .await?;
                    if joins {
                        let _ = cx.join(&child).await;
                    }
                }
            }
        }
        Ok(Outcome::answer("done"))
    })
}

fn telling() -> ScriptedModel {
    ScriptedModel::from_fn(|request, _| {
        let tokens = request.conversation.last().unwrap().content();
        let mut response = ModelResponse::text("yes");
        response.usage.output_tokens = tokens.parse().unwrap();
        Ok(response)
    })
    .delay(Duration::from_millis(7))
}

/// What all journals of the tree say was consumed, entry by entry, and the dearest model call of
/// each run.
async fn recorded(stage: &Stage, root: RunId) -> (Spent, u64, RunEnd) {
    let (mut all, mut dearest, mut last) = (Spent::default(), 0, None);
    for row in stage.rows().await {
        assert!(row.status.is_ended(), "{} is {}", row.run, row.status);
        let mut most = 0;
        for entry in stage.entries(row.run).await {
            match entry {
                Entry::Completed { kind, spent, .. } if kind == "model" => {
                    all += spent;
                    most = most.max(spent.usage.total_tokens());
                }
                Entry::Dropped { spent, .. } => all += spent,
                Entry::RunEnded(end) if row.run == root => last = Some(*end),
                _ => {}
            }
        }
        dearest += most;
    }
    (all, dearest, last.unwrap())
}

#[tokio::test(start_paused = true)]
async fn random_trees_never_overspend_and_every_call_is_paid_once_over_crashes() {
    let mut seed = 7_u64;
    let mut random = move |below: u64| {
        // Marsaglia's xorshift, "Xorshift RNGs", 2003.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for round in 0..60 {
        let mut stage = Stage::new();
        let task = serde_json::to_string(&random_tree(&mut random, 3)).unwrap();
        let budget = Budget {
            model_calls: Some(random(24)),
            tokens: Some(random(1500)),
            ..Budget::default()
        };
        let mut system = stage.start_with(node(), telling()).await;
        let turn = Turn::text(task.clone()).budget(budget);
        let run = system.session("node", "s").send(turn).await.unwrap();
        for _ in 0..random(3) {
            pause(random(60)).await;
            stage.crash(&system).await;
            system = stage.start_with(node(), telling()).await;
        }
        let run = system.run(run.id());
        assert_eq!(outcome(&run).await.text(), "done", "round {round}: {task}");
        let (all, dearest, end) = recorded(&stage, run.id()).await;
        let told = format!("round {round}: {all:?} of {budget:?} for {task}");
        assert_eq!(end.spent(), all, "{told}");
        assert!(all.model_calls <= budget.model_calls.unwrap(), "{told}");
        // One call that was under way for each run may have gone beyond the bound.
        let bound = budget.tokens.unwrap() + dearest;
        assert!(all.usage.total_tokens() <= bound, "{told}");
    }
}

/// What children and dropped calls spend is the run's consumption too, also where no bound is set on it.
#[tokio::test(start_paused = true)]
async fn what_is_spent_without_a_bound_is_counted_once_wherever_a_crash_strikes() {
    let scenario = Scenario::new("boss", |builder, log| {
        let worker = Agent::from_fn("worker", |cx: RunContext| async move {
            cx.model(cx.model_request(cx.conversation())).await?;
            Ok(Outcome::answer("done"))
        });
        let boss = Agent::from_fn("boss", |cx: RunContext| async move {
            cx.spawn("worker", "beside").await?;
            cx.delegate("worker", "go").await?;
            let fast = cx.tool_unasked(call("1", "fast"));
            let slow = cx.tool_unasked(call("2", "slow"));
            tokio::select! {
                biased;
                done = fast => drop(done?),
                done = slow => drop(done?),
            }
            // The spawned child, which nobody waits for, ends meanwhile.
            cx.sleep(Duration::from_secs(5)).await?;
            let spent = cx.budget().await?.spent;
            Ok(Outcome::answer(format!(
                "{} {}",
                spent.model_calls, spent.tool_calls
            )))
        });
        let tool = |name: &str, millis| {
            let definition = ToolDefinition::new(name, name).effect(Effect::Read);
            log.tool(definition, Duration::from_millis(millis))
        };
        let boss = boss.tool(tool("fast", 1)).tool(tool("slow", 500));
        let team = boss.agent(worker).into_team().unwrap();
        builder.model("default", always()).team(team)
    })
    .turn("go");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.outcomes[0].contains("2 2"), "{:?}", report.outcomes);
}
