//! Runs that end badly or are killed, and what is exported by whom.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::*;

/// A tool whose first call never ends.
fn stuck_at_first() -> (ghostlight::contract::ToolHandle, Arc<AtomicUsize>) {
    let calls = Arc::<AtomicUsize>::default();
    let counted = calls.clone();
    let look = ToolDefinition::new("look", "looks").effect(Effect::Read);
    let tool = tool_fn(look, move |_: Nothing| {
        let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if first {
                std::future::pending::<()>().await;
            }
            Ok("seen")
        }
    });
    (tool, calls)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[tokio::test]
async fn a_run_that_was_killed_is_one_trace_with_each_operation_once() {
    let mut collector = Collector::start(Answer::Takes).await;
    let (look, looked) = stuck_at_first();
    let team = || {
        let clerk = Agent::new("clerk").tool(look.clone()).model(model([
            calls("c1", "look", json!({})),
            ModelResponse::text("it is there"),
        ]));
        let desk = Agent::new("desk").delegate_to(clerk).model(model([
            calls("d1", "delegate_to_clerk", json!({ "task": "look" })),
            ModelResponse::text("done"),
        ]));
        desk.into_team().unwrap()
    };
    let store = InMemoryStore::new();
    let first = system(&store, team()).await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let following = telemetry.follow(&first).await.unwrap();
    let run = first
        .session("desk", "ada")
        .send("look")
        .await
        .unwrap()
        .id();
    // Both models have answered when the tool is called.
    collector.until(|spans| spans.len() == 2).await;
    while looked.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    // What is exported is noted.
    following.flush().await.unwrap();
    drop(following);
    store.crash();
    drop(first);

    let second = system(&store.another_process(), team()).await;
    let following = telemetry.follow(&second).await.unwrap();
    assert_eq!(second.run(run).outcome().await.unwrap().text(), "done");
    following.flush().await.unwrap();
    let spans = collector.spans();
    check_whole(&spans);
    // Two runs, four model calls, the tool and the delegation.
    assert_eq!(spans.len(), 8);
    let traces: std::collections::BTreeSet<_> = spans.iter().map(|span| &span.trace_id).collect();
    assert_eq!(traces.len(), 1);
    let root = named(&spans, "invoke_agent desk");
    assert!(
        spans
            .iter()
            .all(|span| span.start_time_unix_nano >= root.start_time_unix_nano)
    );
    assert!(
        spans
            .iter()
            .all(|span| span.end_time_unix_nano <= root.end_time_unix_nano)
    );
    assert!(
        root.events
            .iter()
            .any(|event| event.name == "ghostlight.resumed")
    );
    assert!(!is_error(root));
}

#[tokio::test]
async fn what_fails_is_cancelled_or_made_up_is_told_without_what_was_said() {
    let collector = Collector::start(Answer::Takes).await;
    let fails = Agent::from_fn("fails", |_: RunContext| async move {
        Err::<Outcome, _>(AgentError::failed("no password=hunter22hunter22"))
    });
    let add = ToolDefinition::new("add", "adds").effect(Effect::Read);
    let add = tool_fn(add, |_: Numbers| async move {
        Err::<f64, _>(ToolError::new("password=hunter22hunter22 is wrong"))
    });
    let wrong = Agent::new("wrong").tool(add).model(model([
        calls(
            "w1",
            "add",
            json!({ "a": 1.0, "b": 2.0, "api_key": "hunter22hunter22" }),
        ),
        calls("w2", "made_up_by_the_model", json!({})),
        ModelResponse::text("it failed"),
    ]));
    let waits = Agent::new("waits").model(ScriptedModel::hanging());
    let builder = System::builder(InMemoryStore::new()).registry(ghostlight::builtin());
    let builder = [fails, wrong, waits]
        .into_iter()
        .fold(builder, |builder, agent| {
            builder.team(agent.into_team().unwrap())
        });
    let system = builder.start().await.unwrap();
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let following = telemetry.follow(&system).await.unwrap();
    let failed = system.session("fails", "s").send("go").await.unwrap();
    failed.outcome().await.unwrap_err();
    let wrong = system.session("wrong", "s").send("go").await.unwrap();
    wrong.outcome().await.unwrap();
    let waits = system.session("waits", "s").send("go").await.unwrap();
    waits.cancel("enough of hunter22hunter22").await.unwrap();
    waits.outcome().await.unwrap();
    following.flush().await.unwrap();

    let spans = collector.spans();
    check_whole(&spans);
    let error = |name: &str| {
        let span = named(&spans, name);
        assert!(is_error(span), "{name}");
        assert_eq!(span.status.as_ref().unwrap().message, "");
        text(&span.attributes, "error.type")
    };
    assert_eq!(error("invoke_agent fails"), "failed");
    assert_eq!(error("invoke_agent waits"), "cancelled");
    assert_eq!(error("execute_tool add"), "error");
    assert_eq!(error("execute_tool _OTHER"), "error");
    let cancelled = named(&spans, "invoke_agent waits");
    assert!(
        cancelled
            .events
            .iter()
            .any(|event| event.name == "ghostlight.cancelling")
    );
    for said in ["hunter22", "made_up_by_the_model", "it failed", "enough"] {
        assert!(!collector.heard(said), "{said} was exported");
    }
}

#[tokio::test]
async fn contents_that_are_opted_in_are_exported_without_secrets() {
    let collector = Collector::start(Answer::Takes).await;
    let add = ToolDefinition::new("add", "adds").effect(Effect::Read);
    let add = tool_fn(add, |_: Numbers| async move {
        Ok("the sum, password=hunter22hunter22")
    });
    let desk = Agent::new("desk").tool(add).model(model([
        calls(
            "d1",
            "add",
            json!({ "a": 1.5, "b": 2.5, "api_key": "hunter22hunter22" }),
        ),
        ModelResponse::text("the answer is 4"),
    ]));
    let system = system(&InMemoryStore::new(), desk.into_team().unwrap()).await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint)
        .unwrap()
        .contents(true);
    let following = telemetry.follow(&system).await.unwrap();
    let asked = "add them, token=hunter22hunter22";
    let run = system.session("desk", "s").send(asked).await.unwrap();
    run.outcome().await.unwrap();
    following.flush().await.unwrap();
    let spans = collector.spans();
    let of = |span, name| text(&named(&spans, span).attributes, name);
    let root = "invoke_agent desk";
    assert!(of(root, "gen_ai.input.messages").contains("add them"));
    assert!(of(root, "gen_ai.output.messages").contains("the answer is 4"));
    assert!(of("execute_tool add", "gen_ai.tool.call.arguments").contains("1.5"));
    assert!(of("execute_tool add", "gen_ai.tool.call.result").contains("the sum"));
    assert!(!collector.heard("hunter22"));
}

#[tokio::test]
async fn of_two_processes_over_one_store_one_exports_and_the_other_takes_over() {
    let collector = Collector::start(Answer::Takes).await;
    let store = InMemoryStore::new();
    let other = store.another_process();
    let systems = [system(&store, desk()).await, system(&other, desk()).await];
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let mut followings = Vec::new();
    for system in &systems {
        followings.push(telemetry.follow(system).await.unwrap());
    }
    let ask = async |place: usize, turn: &str| {
        let session = systems[place].session("desk", format!("{place}-{turn}"));
        let run = session.send("1 + 2?").await.unwrap();
        run.outcome().await.unwrap();
    };
    ask(0, "t1").await;
    ask(1, "t1").await;
    let mut standing_by = 0;
    for following in &followings {
        standing_by += usize::from(following.flush().await.is_err());
    }
    assert_eq!(standing_by, 1, "one of the two exports");
    check_whole(&collector.spans());
    assert_eq!(collector.spans().len(), 24);
    // The first process ends, whichever it is that exported.
    ask(1, "t2").await;
    drop(followings.remove(0));
    systems[0].stop().await.unwrap();
    followings[0].flush().await.unwrap();
    check_whole(&collector.spans());
    assert_eq!(collector.spans().len(), 36);
}

#[tokio::test]
async fn metrics_count_each_thing_once_by_names_that_a_team_defines() {
    let collector = Collector::start(Answer::Takes).await;
    let system = system(&InMemoryStore::new(), desk()).await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let following = telemetry.follow(&system).await.unwrap();
    for turn in ["t1", "t2"] {
        let session = system.session("desk", "ada");
        let run = session.send(Turn::text("1 + 2?").id(turn)).await.unwrap();
        // The second turn has other answers of the model before it, and so another end.
        let _ = run.outcome().await;
    }
    following.flush().await.unwrap();
    let spans = collector.spans();
    let count = |prefix: &str| {
        spans
            .iter()
            .filter(|span| span.name.starts_with(prefix))
            .count()
    };
    let total = |name: &str| -> u64 {
        collector
            .points(name)
            .iter()
            .map(|(_, count, _)| count)
            .sum()
    };
    assert_eq!(
        total("gen_ai.client.operation.duration"),
        count("chat ") as u64
    );
    assert_eq!(
        total("gen_ai.execute_tool.duration"),
        count("execute_tool ") as u64
    );
    assert_eq!(
        total("gen_ai.invoke_agent.duration"),
        count("invoke_agent ") as u64
    );
    let tokens = collector.points("gen_ai.client.token.usage");
    let of_type = |kind: &str| -> f64 {
        let points = tokens.iter();
        let points = points.filter(|(of, ..)| of["gen_ai.token.type"] == kind);
        points.map(|(_, _, sum)| sum).sum()
    };
    let answered = tokens.iter().map(|(_, count, _)| count).sum::<u64>() / 2;
    assert_eq!(of_type("input"), 30.0 * answered as f64);
    assert_eq!(of_type("output"), 7.0 * answered as f64);
    let ended: f64 = collector
        .points("ghostlight.runs.ended")
        .iter()
        .map(|(.., n)| n)
        .sum();
    assert_eq!(ended, count("invoke_agent ") as f64);
    let open = collector.points("ghostlight.runs.open");
    assert!(open.iter().all(|(.., runs)| *runs == 0.0), "{open:?}");
    // Nothing that differs from run to run is in an attribute.
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("gen_ai.agent.name", &["desk", "accountant", "checker"][..]),
        (
            "gen_ai.tool.name",
            &["add", "delegate_to_accountant", "delegate_to_checker"][..],
        ),
    ]);
    for name in collector.metric_names() {
        for (attributes, ..) in collector.points(&name) {
            for (key, value) in attributes {
                assert!(!key.ends_with(".id"), "{name} has {key}");
                if let Some(allowed) = allowed.get(&*key) {
                    assert!(allowed.contains(&&*value), "{name} has {key}={value}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_sampler_decides_about_whole_trees_and_metrics_count_all() {
    use ghostlight::opentelemetry::opentelemetry_sdk::trace::Sampler;

    let collector = Collector::start(Answer::Takes).await;
    let system = system(&InMemoryStore::new(), desk()).await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let telemetry = telemetry.sampler(Sampler::TraceIdRatioBased(0.5));
    let following = telemetry.follow(&system).await.unwrap();
    for number in 0..40 {
        let session = system.session("desk", format!("s{number}"));
        session
            .send("1 + 2?")
            .await
            .unwrap()
            .outcome()
            .await
            .unwrap();
    }
    following.flush().await.unwrap();
    let spans = collector.spans();
    check_whole(&spans);
    let roots = spans
        .iter()
        .filter(|span| span.parent_span_id.is_empty())
        .count();
    assert!((5..35).contains(&roots), "{roots} of 40");
    assert_eq!(spans.len(), 12 * roots);
    let runs = collector.points("gen_ai.invoke_agent.duration");
    assert_eq!(runs.iter().map(|(_, count, _)| count).sum::<u64>(), 120);
}
