//! Graphs that are data.

use ghostlight::workflows::GraphSpec;
use ghostlight_actors::{
    actor::{Run, System},
    definition::BehaviorSpec,
    run::{Agent, RunContext},
    testing::{CrashOptions, InMemoryStore, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{Outcome, StopReason},
};
use serde_json::{Value, json};

fn speaker(name: &'static str) -> Agent {
    Agent::from_fn(name, move |cx: RunContext| async move {
        let asked = cx.input().content();
        match asked.as_str() {
            "fail" => Err(ghostlight_actors::vocabulary::AgentError::failed(
                "it broke",
            )),
            "escalate" => Ok(Outcome::escalated("no access")),
            asked => Ok(Outcome::answer(format!("{name}({asked})"))),
        }
    })
}

fn desk(settings: Value) -> Agent {
    Agent::new("desk")
        .behavior(BehaviorSpec::new("graph").settings(settings))
        .tool_named("calculator")
        .agent(speaker("a"))
        .agent(speaker("b"))
}

async fn begun(settings: Value) -> (System, Run) {
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", ScriptedModel::hanging())
        .team(desk(settings).into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    (system, run)
}

async fn outcome(settings: Value) -> Outcome {
    let (system, run) = begun(settings).await;
    let outcome = run.outcome().await.unwrap();
    system.stop().await.unwrap();
    outcome
}

#[test]
fn a_graph_that_cannot_work_is_refused_with_what_is_wrong() {
    let of = |nodes: Value| json!({"entry": "x", "nodes": nodes});
    let end = || json!({"then": "end"});
    for (settings, reason) in [
        (of(json!({})), "the entry names \"x\", which is not a node"),
        (
            of(json!({"x": {"agent": "a"}})),
            "the node \"x\" leads nowhere",
        ),
        (
            of(json!({"x": end(), "y": end()})),
            "no way leads from the entry to the node \"y\"",
        ),
        (
            of(json!({"x": {"then": "z"}})),
            "names \"z\", which is not a node; there are: x",
        ),
        (
            of(json!({"x": {"then": "x"}})),
            "no way leads from the node \"x\" to the end",
        ),
        (
            of(json!({"x": {"then": {"all": ["y"], "join": "z"}},
                "y": {"then": [{"when": {"has": "q"}, "to": "z"}, {"to": "end"}]}, "z": end()})),
            "from which there is a way past \"z\"",
        ),
        (
            of(json!({"x": {"agent": "c", "then": "end"}})),
            "nodes.x.agent names \"c\", which is not an agent below desk; there are: a, b",
        ),
        (
            of(json!({"x": {"tool": "saw", "then": "end"}})),
            "nodes.x names the tool \"saw\", which desk does not have; it has: calculator",
        ),
        (
            of(json!({"x": {"agent": "a", "tool": "calculator", "then": "end"}})),
            "nodes.x: it has more than one of agent, tool and graph",
        ),
        (
            of(json!({"x": {"then": [{"when": {"has": "y"}, "to": "end"}]}})),
            "nodes.x.then: the last way must have no `when`",
        ),
        (
            of(json!({"x": {"graph": {"entry": "q", "nodes": {}}, "then": "end"}})),
            "the entry names \"q\"",
        ),
        (of(json!({"x": {"agnet": "a"}})), "unknown field `agnet`"),
    ] {
        let team = desk(settings.clone()).into_team().unwrap();
        let refused = ghostlight::builtin()
            .model(
                "default",
                ghostlight_actors::contract::ModelHandle::new(ghostlight::models::OfflineModel),
            )
            .with(team.registry)
            .resolve(&team.spec)
            .unwrap_err()
            .to_string();
        assert!(refused.contains(reason), "{settings}: {refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn rules_tools_and_a_graph_within_lead_to_the_answer() {
    let settings = json!({
        "entry": "again",
        "values": {"limit": 2},
        "nodes": {
            "again": {"agent": "a", "prompt": "{inner}", "then": "inner"},
            "inner": {
                "graph": {
                    "entry": "count",
                    "nodes": {
                        "count": {
                            "tool": "calculator",
                            "arguments": {"expression": "{again.times} * 10"},
                            "into": "inner",
                            "then": "end",
                        },
                    },
                },
                "then": [{"when": {"below": {"inner": 30}}, "to": "again"}, {"to": "end"}],
            },
        },
        "answer": "{again} {inner} {limit}",
    });
    assert_eq!(outcome(settings).await, Outcome::answer("a(20) 30 2"));
}

#[tokio::test(start_paused = true)]
async fn a_circle_ends_at_the_bound_and_a_failure_goes_where_it_is_told() {
    let circle = json!({
        "entry": "x",
        "nodes": {"x": {"agent": "a", "then": [{"when": {"has": "never"}, "to": "end"}, {"to": "x"}]}},
        "max_steps": 4,
    });
    let stopped = outcome(circle).await;
    assert_eq!(stopped.stop_reason(), Some(&StopReason::MaxSteps(4)));
    assert_eq!(stopped.text(), "a(go)");
    let failing = |asked: &str| {
        json!({
            "entry": "x",
            "nodes": {
                "x": {"agent": "a", "prompt": asked, "on_failure": "y", "then": "end"},
                "y": {"agent": "b", "prompt": "{x.failed}", "then": "end"},
            },
        })
    };
    let told = outcome(failing("fail")).await;
    assert_eq!(told.text(), "b([failed: a: it broke])");
    // A problem that is handed on is no failure that a graph could deal with.
    let escalated = outcome(failing("escalate")).await;
    let reason = StopReason::Escalated("no access".to_owned());
    assert_eq!(escalated.stop_reason(), Some(&reason));
}

fn confirmed() -> Value {
    json!({
        "entry": "draft",
        "nodes": {
            "draft": {"agent": "a", "then": "publish"},
            "publish": {"agent": "b", "prompt": "{draft}", "confirm": "Publish?", "then": "end"},
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_person_is_asked_before_a_node_also_over_a_crash() {
    let (system, run) = begun(confirmed()).await;
    let question = loop {
        match run.questions().await.unwrap().pop() {
            Some(question) => break question,
            None => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    };
    run.answer(question.1, json!(false)).await.unwrap();
    let refused = run.outcome().await.unwrap_err().to_string();
    assert!(
        refused.contains("refused to let the graph go on at \"publish\""),
        "{refused}"
    );
    system.stop().await.unwrap();
    let scenario = Scenario::new("desk", |builder, _| {
        builder
            .registry(ghostlight::builtin())
            .team(desk(confirmed()).into_team().unwrap())
    });
    let scenario = scenario.named("confirmed").turn("go");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
}

#[test]
fn a_graph_of_a_file_is_drawn() {
    let graph: GraphSpec = serde_json::from_value(confirmed()).unwrap();
    let drawn = graph.mermaid().unwrap();
    assert!(
        drawn.contains("[\"publish\"]") && drawn.contains("start(( ))"),
        "{drawn}"
    );
    assert!(graph.dot().unwrap().contains("\"draft\" -> \"publish\";"));
}

#[test]
fn a_picture_tells_when_each_way_is_taken_and_reads_no_name_as_markup() {
    let graph: GraphSpec = serde_json::from_value(json!({
        "entry": "draft",
        "nodes": {
            "draft": { "then": "judge" },
            "judge": { "on_failure": "<b>sorry</b>", "then": [
                { "when": { "any": [
                    { "contains": { "judge": "APPROVED" } },
                    { "all": [{ "at_least": { "draft.times": 3 } }, { "not": { "has": "veto" } }] },
                ] }, "to": "end" },
                { "to": "draft" },
            ] },
            "<b>sorry</b>": { "then": [
                { "when": { "equals": { "why": "\"<i>\"".repeat(100) } }, "to": "end" }, { "to": "end" },
            ] },
        },
    }))
    .unwrap();
    let (mermaid, dot) = (graph.mermaid().unwrap(), graph.dot().unwrap());
    let condition = "judge contains APPROVED or (draft.times ≥ 3 and not (there i…";
    for told in [condition, "otherwise", "on failure"] {
        assert!(mermaid.contains(&format!("|\"{told}\"|")), "{mermaid}");
        assert!(dot.contains(&format!("[label=\"{told}\"]")), "{dot}");
    }
    assert!(
        mermaid.contains("[\"&lt;b&gt;sorry&lt;/b&gt;\"]"),
        "{mermaid}"
    );
    assert!(!mermaid.contains('<'), "{mermaid}");
    let longest = dot.lines().map(|line| line.chars().count()).max();
    assert!(longest < Some(120), "{dot}");
}
