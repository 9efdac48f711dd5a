//! State graphs: what is walked, what is refused, and that a walk survives anything.

use std::time::Duration;

use ghostlight::workflows::{END, Graph, GraphEnd, GraphError, StateGraph};
use ghostlight_actors::{
    actor::{System, SystemBuilder},
    run::{Agent, RunContext},
    session::Turn,
    testing::{CrashOptions, InMemoryStore, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{AgentError, Budget, Event, ModelResponse, Outcome, Resource, StopReason},
};
use proptest::prelude::*;
use serde_json::json;

type Log = Vec<String>;

/// A node that writes its name into the log, after a pause that is an operation.
fn log(
    name: &str,
) -> impl Fn(RunContext, Log) -> futures_util::future::BoxFuture<'static, Result<Log, AgentError>>
+ Send
+ Sync
+ 'static {
    let name = name.to_owned();
    move |cx, mut log| {
        let name = name.clone();
        Box::pin(async move {
            cx.sleep(Duration::from_millis(log.len() as u64 + 1))
                .await?;
            log.push(name);
            Ok(log)
        })
    }
}

/// A fork whose branches are of different length, a circle, a question, and a graph within.
fn everything() -> Graph<Log> {
    let within = StateGraph::new("x")
        .node("x", log("x"))
        .edge("x", END)
        .compile()
        .unwrap();
    StateGraph::new("a")
        .node("a", log("a"))
        .node("b", log("b"))
        .node("c", log("c"))
        .node("d", log("d"))
        .node("e", log("e"))
        .graph("within", within)
        .fork("a", ["b", "c"], "d", |at_fork: Log, branches: Vec<Log>| {
            let new = branches.iter().flat_map(|log| &log[at_fork.len()..]);
            at_fork.iter().chain(new).cloned().collect()
        })
        .edge("b", "e")
        .edge("e", "d")
        .edge("c", "d")
        .route("d", ["a", "within"], |log| {
            let rounds = log.iter().filter(|name| *name == "d").count();
            if rounds < 2 { "a" } else { "within" }.to_owned()
        })
        .edge("within", END)
        .interrupt_before("within", "Go on?")
        .compile()
        .unwrap()
}

fn walker(graph: Graph<Log>) -> Agent {
    Agent::new("desk").behavior(graph.into_behavior(|_| Log::new(), |log| log.join(" ")))
}

async fn walk(graph: Graph<Log>) -> Result<Outcome, String> {
    let system = System::builder(InMemoryStore::new())
        .team(walker(graph).into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    let outcome = run.outcome().await.map_err(|error| error.to_string());
    system.stop().await.unwrap();
    outcome
}

#[tokio::test(start_paused = true)]
async fn forks_meet_circles_end_and_a_walk_survives_a_crash_anywhere() {
    let build = |builder: SystemBuilder, _| builder.team(walker(everything()).into_team().unwrap());
    let scenario = Scenario::new("desk", build).turn("go");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.crashes > 20, "{report}");
}

#[tokio::test(start_paused = true)]
async fn branches_are_walked_at_once_and_each_node_is_told_when_it_begins() {
    let second = |cx: RunContext, log: Log| async move {
        cx.sleep(Duration::from_secs(1)).await?;
        Ok(log)
    };
    let graph = StateGraph::new("a")
        .node("a", second)
        .node("b", second)
        .node("c", second)
        .node("d", second)
        .node("e", second)
        .fork("a", ["b", "c", "d"], "e", |log: Log, _| log)
        .edge("b", "e")
        .edge("c", "e")
        .edge("d", "e")
        .edge("e", END)
        .compile()
        .unwrap();
    let system = System::builder(InMemoryStore::new())
        .team(walker(graph).into_team().unwrap())
        .start()
        .await
        .unwrap();
    let began = tokio::time::Instant::now();
    let run = system.session("desk", "s").send("go").await.unwrap();
    run.outcome().await.unwrap();
    let took = began.elapsed().as_millis();
    assert!(
        (3_000..3_900).contains(&took),
        "{took} ms for a, the branches, and e"
    );
    let events = run.events().recorded().so_far().await.unwrap();
    let nodes: Vec<_> = events
        .into_iter()
        .filter_map(|record| match record.event {
            Event::Custom { name, data } if name == "node" => Some(data),
            _ => None,
        })
        .collect();
    let node = |(place, name)| json!({ "node": name, "step": place + 1 });
    let expected: Vec<_> = ["a", "b", "c", "d", "e"]
        .into_iter()
        .enumerate()
        .map(node)
        .collect();
    assert_eq!(nodes, expected);
}

#[tokio::test(start_paused = true)]
async fn a_walk_waits_for_the_person_that_a_node_asks_for() {
    for (answer, expected) in [
        (true, Ok("a b e c d a b e c d x")),
        (
            false,
            Err("a person refused to let the graph go on at \"within\""),
        ),
    ] {
        let system = System::builder(InMemoryStore::new())
            .team(walker(everything()).into_team().unwrap())
            .start()
            .await
            .unwrap();
        let run = system.session("desk", "s").send("go").await.unwrap();
        let mut events = run.events().recorded();
        let (operation, question) = loop {
            if let Event::QuestionAsked {
                operation,
                question,
            } = events.next().await.unwrap().unwrap().event
            {
                break (operation, question);
            }
        };
        assert_eq!(question.prompt, "Go on?");
        run.answer(operation, json!(answer)).await.unwrap();
        match (run.outcome().await, expected) {
            (Ok(outcome), Ok(text)) => assert_eq!(outcome, Outcome::answer(text)),
            (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{error}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
        system.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_bound_on_steps_stops_a_walk_with_what_it_has() {
    let graph = StateGraph::new("a")
        .node("a", log("a"))
        .route("a", ["a", END], |_| "a".to_owned())
        .max_steps(3)
        .compile()
        .unwrap();
    let outcome = walk(graph).await.unwrap();
    assert_eq!(outcome.stop_reason(), Some(&StopReason::MaxSteps(3)));
    assert_eq!(outcome.text(), "a a a");
}

#[tokio::test(start_paused = true)]
async fn a_route_to_nowhere_is_an_error_that_says_where_it_may_lead() {
    let graph = StateGraph::new("a")
        .node("a", log("a"))
        .route("a", ["a", END], |_| "z".to_owned())
        .compile()
        .unwrap();
    let told = walk(graph).await.unwrap_err();
    assert!(told.contains("\"a\" leads to \"z\""), "{told}");
    assert!(told.contains("a, end"), "{told}");
}

#[test]
fn a_graph_that_cannot_work_is_refused() {
    let two = || {
        StateGraph::<Log>::new("a")
            .node("a", log("a"))
            .node("b", log("b"))
    };
    let merge = |log: Log, _: Vec<Log>| log;
    let refused = |graph: StateGraph<Log>| graph.compile().unwrap_err();
    assert_eq!(
        refused(two().edge("a", "b")),
        GraphError::DeadEnd("b".into())
    );
    assert_eq!(
        refused(two().edge("a", END).edge("b", END)),
        GraphError::Unreachable("b".into())
    );
    assert_eq!(
        refused(two().edge("a", "b").edge("b", "a")),
        GraphError::Endless("a".into())
    );
    assert_eq!(
        refused(two().edge("a", "b").edge("b", END).edge("a", END)),
        GraphError::Twice("a".into())
    );
    assert_eq!(
        refused(two().edge("a", "b").edge("b", END).max_steps(0)),
        GraphError::NoSteps
    );
    assert_eq!(
        refused(two().edge("a", "b").edge("b", END).node(END, log("x"))),
        GraphError::NamedEnd
    );
    assert!(matches!(
        refused(two().edge("a", "c").edge("b", END)),
        GraphError::Missing { name, known, .. } if name == "c" && known == "a, b"
    ));
    assert!(matches!(
        refused(StateGraph::<Log>::new("a")),
        GraphError::Missing { name, .. } if name == "a"
    ));
    let gated = two().edge("a", "b").edge("b", END);
    assert!(matches!(
        refused(gated.interrupt_before("z", "Sure?")),
        GraphError::Missing { name, .. } if name == "z"
    ));
    let past = two()
        .node("c", log("c"))
        .node("d", log("d"))
        .fork("a", ["b", "c"], "d", merge)
        .edge("b", "d")
        .edge("c", END)
        .edge("d", END);
    assert!(matches!(
        refused(past),
        GraphError::Astray { branch, join, .. } if branch == "c" && join == "d"
    ));
}

#[test]
fn a_graph_is_drawn_with_all_that_it_has() {
    let graph = everything();
    let (mermaid, dot) = (graph.mermaid(), graph.dot());
    for name in ["a", "b", "c", "d", "e", "within", END] {
        assert!(mermaid.contains(&format!("\"{name}\"")), "{mermaid}");
        assert!(dot.contains(&format!("\"{name}\"")), "{dot}");
    }
    assert!(mermaid.starts_with("flowchart TD\n"));
    assert!(dot.contains("\"a\" -> \"b\" [label=\"and\"];"), "{dot}");
    assert!(dot.contains("\"d\" -> \"within\" [label=\"or\"];"), "{dot}");
}

/// Where each node leads: to one other, or to the left one while the log's length is even.
type Plan = Vec<(usize, usize)>;

fn name(place: usize, nodes: usize) -> String {
    if place == nodes {
        END.to_owned()
    } else {
        format!("n{place}")
    }
}

/// What the plan says, walked by hand.
fn reference(plan: &Plan, bound: usize) -> (Log, bool) {
    let (mut at, mut log) = (0, Log::new());
    while at != plan.len() {
        if log.len() == bound {
            return (log, false);
        }
        log.push(name(at, plan.len()));
        let (even, odd) = plan[at];
        at = if log.len().is_multiple_of(2) {
            even
        } else {
            odd
        };
    }
    (log, true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_random_graph_is_walked_as_the_plain_interpreter_walks_it(
        plan in (1usize..6).prop_flat_map(|nodes| prop::collection::vec((0..=nodes, 0..=nodes), nodes)),
    ) {
        let nodes = plan.len();
        let mut graph = StateGraph::new("n0").max_steps(20);
        for (place, (even, odd)) in plan.iter().copied().enumerate() {
            let (even, odd) = (name(even, nodes), name(odd, nodes));
            let from = name(place, nodes);
            graph = graph.node(&from, log(&from)).route(
                from,
                [even.clone(), odd.clone()],
                move |log: &Log| if log.len().is_multiple_of(2) { even.clone() } else { odd.clone() },
            );
        }
        // Plans with nodes out of reach or without an end are refused; the others are walked.
        if let Ok(graph) = graph.compile() {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap();
            let outcome = runtime.block_on(walk(graph)).unwrap();
            let (log, ended) = reference(&plan, 20);
            prop_assert_eq!(outcome.text(), log.join(" "));
            prop_assert_eq!(outcome.stop_reason().is_none(), ended);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_graph_can_be_walked_by_hand() {
    let agent = Agent::from_fn("desk", |cx: RunContext| async move {
        let graph = StateGraph::new("a")
            .node("a", |_, number: u32| async move { Ok(number * 2) })
            .edge("a", END)
            .compile()
            .map_err(AgentError::failed)?;
        match graph.run(&cx, 21).await? {
            GraphEnd::Done(number) => Ok(Outcome::answer(number.to_string())),
            end => Err(AgentError::failed(format!("{end:?}"))),
        }
    });
    let system = System::builder(InMemoryStore::new())
        .team(agent.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    assert_eq!(run.outcome().await.unwrap(), Outcome::answer("42"));
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_used_up_budget_stops_a_typed_graph_with_what_its_branches_made() {
    let ask = |name: &'static str| {
        move |cx: RunContext, mut log: Log| async move {
            log.push(name.to_owned());
            let request = cx.model_request(cx.conversation());
            cx.model(request).await?;
            Ok(log)
        }
    };
    let graph = StateGraph::new("a")
        .node("a", ask("a"))
        .node("b", ask("b"))
        .node("c", ask("c"))
        .node("b2", ask("b2"))
        .node("d", log("d"))
        .fork("a", ["b", "c"], "d", |_, branches: Vec<Log>| {
            branches.into_iter().next().unwrap()
        })
        .edge("b", "b2")
        .edge("b2", "d")
        .edge("c", "d")
        .edge("d", END)
        .compile()
        .unwrap();
    let behavior = graph.into_behavior(|_| Log::default(), |log| log.join(" "));
    let system = System::builder(InMemoryStore::new())
        .model(
            "default",
            ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("ok"))),
        )
        .team(Agent::new("desk").behavior(behavior).into_team().unwrap())
        .start()
        .await
        .unwrap();
    for (calls, text) in [(0, ""), (1, "a"), (3, "### b\na b\n\n### c\na c")] {
        let budget = Budget {
            model_calls: Some(calls),
            ..Budget::default()
        };
        let turn = Turn::text("go").budget(budget);
        let session = system.session("desk", format!("s{calls}").as_str());
        let outcome = session.send(turn).await.unwrap().outcome().await.unwrap();
        let reason = StopReason::BudgetExhausted(Resource::ModelCalls);
        assert_eq!(
            (outcome.stop_reason(), outcome.text()),
            (Some(&reason), text)
        );
    }
}

#[test]
fn a_refused_graph_is_an_error_of_a_system() {
    let compiled = || -> Result<(), ghostlight::Error> {
        let graph = StateGraph::<Log>::new("a").node("a", log("a"));
        graph.edge("a", END).max_steps(0).compile()?;
        Ok(())
    };
    let error = compiled().unwrap_err();
    assert!(matches!(error, ghostlight::Error::Part(_)));
    assert_eq!(error.to_string(), GraphError::NoSteps.to_string());
}
