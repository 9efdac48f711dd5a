//! Agents that are made keep to the bounds and rules of the agent that made them.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use ghostlight::interceptors::Authorization;
use ghostlight_actors::{
    actor::System,
    contract::ToolHandle,
    definition::{AgentSpec, ApprovalRule, ContextSpec, ContextStrategy, CreateAgentSpec},
    run::{Agent, BeforeTool, Policy, PolicyContext, RunContext},
    testing::{InMemoryStore, Reply, ScriptedModel},
    vocabulary::{AgentError, Event, Outcome, ToolCall, ToolDefinition},
};
use serde_json::{Value, json};

use crate::patterns::acts;

#[tokio::test(start_paused = true)]
async fn the_requests_of_a_made_agent_have_its_makers_bound() {
    let model = ScriptedModel::from_reply_fn(|request, _| {
        let messages = request.conversation.messages();
        let task = messages
            .first()
            .map(|task| task.content())
            .unwrap_or_default();
        let has_results = messages
            .iter()
            .any(|said| said.tool_results().next().is_some());
        match task.as_str() {
            _ if has_results => Reply::from("done"),
            "go" => acts([
                (
                    "create_agent",
                    json!({ "name": "one", "goal": "make", "tools": [] }),
                ),
                (
                    "create_agent",
                    json!({
                        "name": "three", "goal": "walk", "tools": [],
                        "steps": [{ "goal": "left" }, { "goal": "right" }],
                    }),
                ),
            ]),
            "make" => acts([(
                "create_agent",
                json!({ "name": "two", "goal": "work", "tools": [] }),
            )]),
            _ => Reply::from("done"),
        }
    });
    let mut create = CreateAgentSpec::default();
    create.depth = 2;
    // Each request under a bound leaves an event of its own.
    let context = ContextSpec::new(20_000)
        .strategy(ContextStrategy::TokenWindow)
        .reported();
    let boss = Agent::new("boss").create_agent(create).context(context);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model)
        .team(boss.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("boss", "s").send("go").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    let events = run.events().recorded().so_far().await.unwrap();
    let bounded = events.iter().filter(
        |record| matches!(&record.event, Event::Custom { name, .. } if name == "context_prefix"),
    );
    let bounded: BTreeSet<&str> = bounded.map(|record| record.agent()).collect();
    let asked = events
        .iter()
        .filter(|record| matches!(record.event, Event::ModelCalled { .. }));
    let asked: BTreeSet<&str> = asked.map(|record| record.agent()).collect();
    assert_eq!(asked.len(), 5, "{asked:?}");
    assert_eq!(bounded, asked);
}

/// A model that has its agents make others, down to the one that is told to "do it", which calls the tool `risky`.
fn calls_risky_below() -> ScriptedModel {
    ScriptedModel::from_reply_fn(|request, _| {
        let (task, results) = crate::making::asked(request);
        let make =
            |name: &str, goal: &str| json!({ "name": name, "goal": goal, "tools": ["risky"] });
        let mut stepped = make("three", "walk");
        stepped["steps"] = json!([{ "goal": "left" }, { "goal": "right" }]);
        match (task.as_str(), results.is_empty()) {
            (_, false) => {
                let texts: Vec<String> = results.into_iter().map(|(_, text)| text).collect();
                texts.join(" | ").into()
            }
            ("go", _) => acts([
                ("create_agent", make("one", "make")),
                ("create_agent", stepped),
            ]),
            ("make", _) => acts([("create_agent", make("two", "do it"))]),
            _ => acts([("risky", json!({}))]),
        }
    })
}

fn risky() -> (ToolHandle, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let definition = ToolDefinition::new("risky", "is dangerous");
    let tool = ghostlight::tools::tool_fn(definition, move |_: Value| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { Ok("done") }
    });
    (tool, calls)
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_names_the_maker_holds_for_what_it_makes_at_any_depth() {
    // The name of an agent that was made is the model's choice, and no way out of a rule.
    for (agents, calls) in [
        ("boss", 0),
        ("one", 2),
        ("three", 1),
        ("clerk", 3),
        ("*", 0),
    ] {
        let (risky, made) = risky();
        let mut create = CreateAgentSpec::default();
        create.depth = 2;
        let rules = Authorization::new().agents([agents]).block(["risky"]);
        let boss = Agent::new("boss").create_agent(create).tool(risky);
        let system = System::builder(InMemoryStore::new())
            .registry(ghostlight::builtin().intercept(rules))
            .model("default", calls_risky_below())
            .team(boss.into_team().unwrap())
            .start()
            .await
            .unwrap();
        let run = system.session("boss", "s").send("go").await.unwrap();
        let said = run.outcome().await.unwrap().text().to_owned();
        assert_eq!(made.load(Ordering::SeqCst), calls, "{agents}: {said}");
        if agents == "boss" {
            let told = "the agent two, which boss and one made, is not authorised to call risky";
            assert!(said.contains(told), "{said}");
        }
    }
}

/// Lets nobody call the tool.
struct Forbids;

impl Policy for Forbids {
    async fn before_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        Ok(BeforeTool::blocked(call, "forbidden"))
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_function_makes_has_the_rules_of_its_maker_too() {
    let maker = |tool: ToolHandle| {
        Agent::from_fn("boss", |cx: RunContext| async move {
            let mut below = AgentSpec::new("below");
            below.tools = vec!["risky".to_owned()];
            let mut hand = AgentSpec::new("hand");
            (hand.tools, hand.agents) = (below.tools.clone(), vec![below]);
            Ok(Outcome::answer(cx.delegate(hand, "do it").await?.text))
        })
        .tool(tool)
    };
    let start = |agent: Agent| async move {
        let system = System::builder(InMemoryStore::new())
            .registry(ghostlight::builtin())
            .model("default", calls_risky_below())
            .team(agent.into_team().unwrap())
            .start()
            .await
            .unwrap();
        let run = system.session("boss", "s").send("go").await.unwrap();
        run.wait().await.unwrap();
        (system, run)
    };
    let (tool, calls) = risky();
    let (_system, run) = start(maker(tool).policy("forbids", || Forbids)).await;
    let said = run.outcome().await.unwrap().text().to_owned();
    assert!(said.contains("forbidden"), "{said}");
    assert_eq!(calls.load(Ordering::SeqCst), 0);

    let (tool, calls) = risky();
    let asks = maker(tool).approval("risky", ApprovalRule::required());
    let (_system, run) = start(asks).await;
    let (below, operation, _) = run.questions().await.unwrap().remove(0);
    assert_eq!(calls.load(Ordering::SeqCst), 0, "a person is asked first");
    assert_ne!(below, run.id());
    run.answer(operation, json!(false)).await.unwrap();
    let said = run.outcome().await.unwrap().text().to_owned();
    assert!(said.contains("A person refused this call"), "{said}");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}
