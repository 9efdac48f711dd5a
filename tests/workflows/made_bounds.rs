//! Agents that are made keep to the bound on requests of the agent that made them.

use std::collections::BTreeSet;

use ghostlight_actors::{
    actor::System,
    definition::{ContextSpec, ContextStrategy, CreateAgentSpec},
    run::Agent,
    testing::{InMemoryStore, Reply, ScriptedModel},
    vocabulary::Event,
};
use serde_json::json;

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
