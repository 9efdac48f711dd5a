//! Loops by a condition to go on.

use std::time::Duration;

use ghostlight::workflows;
use ghostlight_actors::{
    actor::{System, SystemError},
    definition::BehaviorSpec,
    run::{Agent, Registry, RunContext},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{Budget, Outcome, StopReason},
};
use serde_json::{Value, json};

/// Takes one `x` off the end of what it reads last, and says what is left.
fn eater(name: &str) -> Agent {
    Agent::from_fn(name, |cx: RunContext| async move {
        let asked = cx.input().content();
        let last = asked.lines().last().unwrap_or_default();
        Ok(Outcome::answer(last.strip_suffix('x').unwrap_or(last)))
    })
}

async fn looped(settings: Value, task: &str) -> Outcome {
    looped_within(Budget::default(), settings, task)
        .await
        .unwrap()
}

async fn looped_within(
    budget: Budget,
    settings: Value,
    task: &str,
) -> Result<Outcome, SystemError> {
    let desk = Agent::new("desk")
        .behavior(BehaviorSpec::new("loop").settings(settings))
        .agent(eater("first"))
        .agent(eater("second"));
    let system = System::builder(InMemoryStore::new())
        .registry(workflows::register(Registry::new()))
        .model("default", ScriptedModel::hanging())
        .team(desk.into_team().unwrap().budget(budget))
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send(task).await.unwrap();
    let outcome = run.outcome().await;
    system.stop().await.unwrap();
    outcome
}

#[tokio::test(start_paused = true)]
async fn a_loop_goes_on_as_long_as_its_condition_holds_which_is_asked_before_each_round() {
    let settings = || json!({"while": {"text": "x"}, "max_rounds": 3});
    for (task, answer) in [
        // It does not hold before the first round: nobody is asked.
        ("done", "done"),
        ("axx", "a"),
        // In the middle of a round nobody asks.
        ("axxx", "a"),
        ("axxxxxx", "a"),
    ] {
        assert_eq!(
            looped(settings(), task).await,
            Outcome::answer(answer),
            "{task}"
        );
    }
    let stopped = looped(settings(), "axxxxxxx").await;
    assert_eq!(stopped.stop_reason(), Some(&StopReason::MaxSteps(3)));
    assert_eq!(stopped.text(), "ax");
}

#[tokio::test(start_paused = true)]
async fn a_loop_ends_by_whichever_of_its_conditions_comes_first() {
    let settings = json!({"while": {"text": "x"}, "until": {"text": "axx"}, "max_rounds": 9});
    let after_a_turn = looped(settings.clone(), "axxx").await;
    assert_eq!(after_a_turn, Outcome::answer("axx"));
    assert_eq!(looped(settings, "axx").await, Outcome::answer("a"));
}

#[tokio::test(start_paused = true)]
async fn a_loop_without_a_bound_needs_a_budget_and_goes_on_until_it_is_used_up() {
    let settings = || json!({"while": {"text": "x"}, "max_rounds": 0});
    let refused = looped_within(Budget::default(), settings(), "axx").await;
    let told = refused.unwrap_err().to_string();
    assert!(
        told.contains("`max_rounds: 0`") && told.contains("budget"),
        "{told}"
    );
    let budget = Budget {
        wall_time: Some(Duration::from_secs(60)),
        ..Budget::default()
    };
    let task = format!("a{}", "x".repeat(200));
    let done = looped_within(budget, settings(), &task).await.unwrap();
    assert_eq!(done, Outcome::answer("a"), "a hundred rounds");
}
