//! Nothing is lost where a member stops: the workflow gives what each had, and who had it.

use ghostlight::workflows::{self, END, StateGraph};
use ghostlight_actors::{
    actor::System,
    definition::BehaviorSpec,
    run::{Agent, Registry, RunContext},
    session::Turn,
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{Answer, Budget, ModelRequest, Outcome, Resource, StopReason},
};
use serde_json::{Value, json};

/// One that says this, or stops with it for this reason.
fn member(name: &'static str, text: &'static str, stops: Option<StopReason>) -> Agent {
    Agent::from_fn(name, move |_cx: RunContext| {
        let stops = stops.clone();
        async move {
            Ok(match stops {
                None => Outcome::answer(text),
                Some(reason) => {
                    let partial = (!text.is_empty()).then(|| Answer::text(text));
                    Outcome::Stopped { reason, partial }
                }
            })
        }
    })
}

async fn partial(behavior: &str, settings: Value, members: Vec<Agent>, task: &str) -> Outcome {
    asked(Turn::text(task), "", behavior, settings, members).await
}

/// The outcome of a turn at a desk of this behavior, whose model says this.
async fn asked(
    turn: Turn,
    model: &str,
    behavior: &str,
    settings: Value,
    members: Vec<Agent>,
) -> Outcome {
    let desk = Agent::new("desk").behavior(BehaviorSpec::new(behavior).settings(settings));
    let desk = members.into_iter().fold(desk, Agent::agent);
    let system = System::builder(InMemoryStore::new())
        .registry(workflows::register(Registry::new()))
        .model("default", ScriptedModel::replies([model.to_owned()]))
        .team(desk.into_team().unwrap());
    let system = system.start().await.unwrap();
    let run = system.session("desk", "s").send(turn).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    system.stop().await.unwrap();
    outcome
}

#[tokio::test(start_paused = true)]
async fn a_stop_loses_nothing_of_what_the_members_did() {
    let escalated = StopReason::Escalated("help".to_owned());
    let used_up = StopReason::BudgetExhausted(Resource::ModelCalls);
    let one_by_one = json!({ "max_at_once": 1 });
    let fan_out = || {
        let mut settings = one_by_one.clone();
        settings["members"] = json!(["a", "b"]);
        settings
    };
    let votes = json!({ "max_at_once": 1, "options": ["yes", "no"] });
    let others = || {
        vec![
            member("planner", "a: dig\nb: fill", None),
            member("aggregator", "", None),
        ]
    };
    type Case = (
        &'static str,
        Value,
        Vec<Agent>,
        &'static str,
        [&'static str; 2],
    );
    let table: [Case; 4] = [
        ("parallel", one_by_one.clone(), vec![], "go", ["a", "b"]),
        ("fan_out", fan_out(), others(), "go", ["a: dig", "b: fill"]),
        (
            "for_each",
            one_by_one.clone(),
            vec![],
            "x\ny",
            ["a (1)", "b (2)"],
        ),
        ("vote", votes, vec![], "go", ["a", "b"]),
    ];
    for (behavior, settings, others, task, [first, second]) in table {
        for reason in [&escalated, &used_up] {
            // A vote goes on without a member whose budget is used up.
            if behavior == "vote" && *reason == used_up {
                continue;
            }
            for (half, wanted) in [
                ("half", format!("### {first}\nyes\n\n### {second}\nhalf")),
                ("", format!("### {first}\nyes")),
            ] {
                let mut members = vec![
                    member("a", "yes", None),
                    member("b", half, Some(reason.clone())),
                ];
                members.extend(others.iter().cloned());
                let outcome = partial(behavior, settings.clone(), members, task).await;
                assert_eq!(outcome.stop_reason(), Some(reason), "{behavior}");
                assert_eq!(outcome.text(), wanted, "{behavior}, {reason}");
            }
            // What one alone has is its own.
            let mut members = vec![member("a", "half", Some(reason.clone()))];
            members.push(member("b", "", None));
            members.extend(others.iter().cloned());
            let outcome = partial(behavior, settings.clone(), members, task).await;
            assert_eq!(outcome.text(), "half", "{behavior}, {reason}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_made_of_all_that_was_said_loses_nothing_either() {
    let reason = StopReason::BudgetExhausted(Resource::ModelCalls);
    let members = |last: &'static str| {
        let stops = member(last, "", Some(reason.clone()));
        vec![member("a", "yes", None), member("b", "no", None), stops]
    };
    let parallel = json!({ "aggregator": "editor" });
    let outcome = partial("parallel", parallel, members("editor"), "go").await;
    assert_eq!(outcome.text(), "### a\nyes\n\n### b\nno");
    let mut workers = members("aggregator");
    workers.push(member("planner", "a: dig\nb: fill", None));
    let outcome = partial("fan_out", json!({}), workers, "go").await;
    assert_eq!(outcome.text(), "### a: dig\nyes\n\n### b: fill\nno");
    let votes = json!({ "options": ["yes", "no"], "tie": { "agent": "judge" } });
    let outcome = partial("vote", votes, members("judge"), "go").await;
    assert_eq!(outcome.stop_reason(), Some(&reason));
    assert_eq!(outcome.text(), "### a\nyes\n\n### b\nno");
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_ends_a_node_of_a_typed_graph_stops_it_with_its_state() {
    let graph = StateGraph::new("one")
        .node("one", |cx: RunContext, mut said: Vec<String>| async move {
            said.push(cx.model(ModelRequest::default()).await?.content());
            Ok(said)
        })
        .node("two", |cx: RunContext, mut said: Vec<String>| async move {
            said.push(cx.model(ModelRequest::default()).await?.content());
            Ok(said)
        })
        .edge("one", "two")
        .edge("two", END)
        .compile()
        .unwrap();
    let graph = graph.into_behavior(|_| Vec::new(), |said: Vec<String>| said.join(", "));
    let desk = Agent::new("desk").behavior(graph).into_team().unwrap();
    let system = System::builder(InMemoryStore::new())
        .model("default", ScriptedModel::replies(["first", "second"]))
        .team(desk);
    let system = system.start().await.unwrap();
    let budget = Budget {
        model_calls: Some(1),
        ..Budget::default()
    };
    let turn = Turn::text("go").budget(budget);
    let run = system.session("desk", "s").send(turn).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    let reason = StopReason::BudgetExhausted(Resource::ModelCalls);
    assert_eq!(outcome.stop_reason(), Some(&reason));
    assert_eq!(outcome.text(), "first");
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_that_stops_halfway_does_not_take_the_place_of_what_it_was_given() {
    let reason = StopReason::BudgetExhausted(Resource::ModelCalls);
    let halfway = |name| member(name, "I begin", Some(reason.clone()));
    let both = || vec![member("a", "yes", None), member("b", "no", None)];
    let with = |mut members: Vec<Agent>, last| {
        members.push(halfway(last));
        members
    };
    let planner = member("planner", "a: dig\nb: fill", None);
    let mut workers = with(both(), "aggregator");
    workers.push(planner);
    let votes = json!({ "options": ["yes", "no"], "tie": { "agent": "judge" } });
    let twice = json!({ "max_rounds": 2 });
    let instructed = vec![
        Agent::from_fn("a", {
            let reason = reason.clone();
            move |cx: RunContext| {
                let reason = reason.clone();
                async move {
                    Ok(match cx.input().content().contains("done it") {
                        false => Outcome::answer("do it"),
                        true => Outcome::Stopped {
                            reason,
                            partial: Some(Answer::text("I begin")),
                        },
                    })
                }
            }
        }),
        member("b", "done it", None),
    ];
    type Case = (&'static str, Value, Vec<Agent>, &'static [&'static str]);
    let table: [Case; 9] = [
        (
            "parallel",
            json!({ "aggregator": "c" }),
            with(both(), "c"),
            &["yes", "no"],
        ),
        ("fan_out", json!({}), workers, &["yes", "no"]),
        ("vote", votes, with(both(), "judge"), &["yes", "no"]),
        (
            "debate",
            json!({ "rounds": 1 }),
            with(both(), "judge"),
            &["yes", "no"],
        ),
        ("sequential", json!({}), with(both(), "c"), &["no"]),
        ("pipeline", json!({}), with(both(), "c"), &["no"]),
        ("loop", twice.clone(), with(both(), "c"), &["no"]),
        ("round_robin", json!({}), with(both(), "c"), &["no"]),
        ("role_play", json!({}), instructed, &["done it"]),
    ];
    for (behavior, settings, members, made) in table {
        let outcome = partial(behavior, settings, members, "go").await;
        assert_eq!(outcome.stop_reason(), Some(&reason), "{behavior}");
        for text in made.iter().chain(&["I begin"]) {
            let told = outcome.text();
            assert!(told.contains(text), "{behavior}: no {text:?} in {told:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn where_nobody_answers_what_each_had_is_kept() {
    let reason = StopReason::BudgetExhausted(Resource::ModelCalls);
    let ending_with = |reason: &StopReason| {
        vec![
            member("a", "one half", Some(reason.clone())),
            member("b", "other half", Some(reason.clone())),
        ]
    };
    let halves = || ending_with(&reason);
    let table = [
        ("parallel", json!({ "on_failure": "collect_all" })),
        ("parallel", json!({ "on_failure": { "quorum": 1 } })),
        ("vote", json!({ "options": ["yes", "no"] })),
        ("fallback", json!({})),
        ("debate", json!({ "on_failure": "go_on" })),
    ];
    for (behavior, settings) in table {
        for reason in [&reason, &StopReason::MaxSteps(3)] {
            let mut members = ending_with(reason);
            members.extend((behavior == "debate").then(|| member("judge", "", None)));
            let outcome = partial(behavior, settings.clone(), members, "go").await;
            assert_eq!(outcome.stop_reason(), Some(reason), "{behavior}");
            let halves = "### a\none half\n\n### b\nother half";
            assert_eq!(outcome.text(), halves, "{behavior}, {reason}");
        }
    }
    // Without an answer there is nothing to go on with, and no answer to give.
    for behavior in ["sequential", "pipeline", "loop", "round_robin", "for_each"] {
        let settings = json!({ "on_failure": "go_on" });
        let outcome = partial(behavior, settings, halves(), "x\ny").await;
        assert_eq!(outcome.stop_reason(), Some(&reason), "{behavior}");
        for half in ["one half", "other half"] {
            let told = outcome.text();
            assert!(told.contains(half), "{behavior}: no {half:?} in {told:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_debate_keeps_the_last_word_of_each_debater() {
    let reason = StopReason::BudgetExhausted(Resource::ModelCalls);
    let stops = reason.clone();
    let second = Agent::from_fn("b", move |cx: RunContext| {
        let reason = stops.clone();
        async move {
            Ok(match cx.input().content().contains("last round") {
                false => Outcome::answer("no"),
                true => Outcome::stopped(reason),
            })
        }
    });
    let members = vec![
        member("a", "yes", None),
        second,
        member("judge", "so be it", None),
    ];
    let outcome = partial("debate", json!({}), members, "go").await;
    assert_eq!(outcome.stop_reason(), Some(&reason));
    assert_eq!(outcome.text(), "### a\nyes\n\n### b\nno");
}

#[tokio::test(start_paused = true)]
async fn an_orchestrator_keeps_what_the_one_had_who_ends_its_work() {
    let reason = StopReason::Escalated("help".to_owned());
    let plan = json!({ "tasks": [
        { "id": "1", "processor": "a", "description": "dig" },
        { "id": "2", "processor": "b", "description": "fill", "dependencies": ["1"] },
    ]});
    let members = vec![
        member("a", "yes", None),
        member("b", "half", Some(reason.clone())),
    ];
    let turn = Turn::text("go");
    let outcome = asked(turn, &plan.to_string(), "orchestrator", json!({}), members).await;
    assert_eq!(outcome.stop_reason(), Some(&reason));
    let told: Value = serde_json::from_str(outcome.text()).unwrap();
    assert_eq!(told["completed"], json!({ "1": "yes" }));
    assert_eq!(
        told["failed"],
        json!({ "2": "half\n[stopped: escalated: help]" })
    );
}

#[tokio::test(start_paused = true)]
async fn an_aggregator_that_stops_halfway_leaves_what_an_orchestrator_has() {
    let reason = StopReason::BudgetExhausted(Resource::ModelCalls);
    let plan = json!({ "tasks": [{ "id": "1", "processor": "a", "description": "dig" }] });
    let settings = json!({ "aggregator": "c" });
    let members = vec![
        member("a", "dug", None),
        member("c", "I begin", Some(reason.clone())),
    ];
    let turn = Turn::text("go");
    let outcome = asked(turn, &plan.to_string(), "orchestrator", settings, members).await;
    assert_eq!(outcome.stop_reason(), Some(&reason));
    for text in ["dug", "I begin"] {
        assert!(outcome.text().contains(text), "no {text:?}: {outcome:?}");
    }
}

/// `otherwise` is for a model that chooses nobody. A used-up budget is no choice, and nobody may go on with what is
/// not there.
#[tokio::test(start_paused = true)]
async fn a_router_whose_budget_is_used_up_stops_and_does_not_ask_otherwise() {
    let settings = json!({ "otherwise": "b" });
    let members = vec![member("a", "yes", None), member("b", "no", None)];
    let budget = Budget {
        model_calls: Some(0),
        ..Budget::default()
    };
    let turn = Turn::text("go").budget(budget);
    let outcome = asked(turn, "nobody", "router", settings, members).await;
    let reason = StopReason::BudgetExhausted(Resource::ModelCalls);
    assert_eq!(outcome.stop_reason(), Some(&reason), "{outcome:?}");
}
