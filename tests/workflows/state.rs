//! What members of a team leave in state for others, and what watches over all of them.

use std::sync::Arc;

use ghostlight::policies::KeepState;
use ghostlight_actors::{
    actor::System,
    definition::BehaviorSpec,
    run::{Agent, BeforeTool, Policy, PolicyContext, RunContext, Team},
    testing::{InMemoryStore, Reply, ScriptedModel},
    vocabulary::{AgentError, Outcome, Scope, ToolCall},
};
use parking_lot::Mutex;
use serde_json::json;

use crate::patterns::acts;

async fn started(team: Team, model: ScriptedModel) -> System {
    System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model)
        .team(team)
        .start()
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_answer_of_parallel_work_is_kept_under_a_key_for_those_who_follow() {
    let view = |name: &'static str| {
        let view = Agent::from_fn(name, move |_| async move {
            Ok(Outcome::answer(format!("{name} is high")))
        });
        view.policy("output_key", json!({ "key": name }))
    };
    let editor = Agent::new("editor")
        .instructions("Weigh: {cost}; {risk}.")
        .policy("instructions", json!({}));
    let parallel = BehaviorSpec::new("parallel").settings(json!({"aggregator": "editor"}));
    let keep = KeepState::new(["cost", "risk", "people"]);
    let panel = Agent::new("panel")
        .behavior(parallel)
        .policy("keep", move || keep.clone())
        .agent(view("cost"))
        .agent(view("risk"))
        .agent(editor);
    let model = ScriptedModel::replies(["do not"]);
    let system = started(panel.into_team().unwrap(), model.clone()).await;
    let session = system.session("panel", "s");
    let run = session.send("rewrite?").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "do not");
    let asked = &model.requests()[0].instructions;
    assert!(
        asked.contains(r#"Weigh: "cost is high"; "risk is high"."#),
        "{asked}"
    );
    // What is named is the session's; what nobody wrote is not made up.
    let state = session.state(Scope::Session).await.unwrap();
    let kept = [("cost", "cost is high"), ("risk", "risk is high")];
    let kept = kept.map(|(key, value)| (key.to_owned(), json!(value)));
    assert_eq!(state, kept);
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_delegated_leaves_in_the_session_only_what_is_kept_of_a_success() {
    let worker = || {
        Agent::from_fn("worker", |cx: RunContext| async move {
            let state = cx.state(Scope::Session);
            state.set("found", &cx.input().content()).await?;
            state.set("scratch", &"crumbs").await?;
            state.set("source:2", &"two").await?;
            state.set("source:1", &"one").await?;
            Ok(Outcome::answer("done"))
        })
    };
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        let task = cx.input().content();
        let done = cx.delegate("worker", task.as_str()).await?;
        Ok(match task.as_str() {
            "give up" => Outcome::escalated("no"),
            _ => Outcome::answer(done.text),
        })
    });
    let keep = json!({"keys": ["found"]});
    let desk = desk.policy("keep_state", keep).agent(worker());
    let system = started(desk.into_team().unwrap(), ScriptedModel::hanging()).await;
    let session = system.session("desk", "s");
    for (task, found) in [("give up", None), ("a", Some("a")), ("give up", Some("a"))] {
        session.send(task).await.unwrap().outcome().await.unwrap();
        let state = session.state(Scope::Session).await.unwrap();
        let expected = found.map(|found| ("found".to_owned(), json!(found)));
        assert_eq!(state, Vec::from_iter(expected), "{task}");
    }
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_delegated_is_kept_by_a_rule_that_names_no_key() {
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        let state = cx.state(Scope::Session);
        for (key, value) in [("source:b", 2), ("source:a", 1), ("scratch", 0)] {
            state.set(key, &value).await?;
        }
        Ok(Outcome::answer("done"))
    });
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        let done = cx.delegate("worker", "go").await?;
        Ok(Outcome::answer(done.text))
    });
    let desk = desk.policy("keep_state", json!({"keys": ["source:*", "source:a"]}));
    let team = desk.agent(worker).into_team().unwrap();
    let system = started(team, ScriptedModel::hanging()).await;
    let session = system.session("desk", "s");
    session.send("go").await.unwrap().outcome().await.unwrap();
    let state = session.state(Scope::Session).await.unwrap();
    let kept = [("source:a", 1), ("source:b", 2)];
    let kept = kept.map(|(key, value)| (key.to_owned(), json!(value)));
    assert_eq!(state, kept);
    system.stop().await.unwrap();
}

/// Tells which agent it watches over, and lets nobody call `danger`.
struct Guard(Arc<Mutex<Vec<String>>>);

impl Policy for Guard {
    async fn before_run(&mut self, cx: &PolicyContext<'_>) -> Result<Option<Outcome>, AgentError> {
        self.0.lock().push(format!("before {}", cx.spec().name));
        Ok(None)
    }

    async fn after_run(
        &mut self,
        cx: &PolicyContext<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Outcome>, AgentError> {
        let told = format!("after {}: {}", cx.spec().name, outcome.text());
        self.0.lock().push(told);
        Ok(None)
    }

    async fn before_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        Ok(match call.name.as_str() {
            "calculator" => BeforeTool::blocked(call, "not in this house"),
            _ => BeforeTool::Go,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_watches_over_a_team_watches_over_every_agent_before_its_own() {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let model = ScriptedModel::from_reply_fn(|request, _| -> Reply {
        let said = request.conversation.messages();
        match said
            .iter()
            .flat_map(|message| message.tool_results())
            .next()
        {
            Some(result) => result.text.clone().into(),
            None => acts([("calculator", json!({"expression": "1"}))]),
        }
    });
    let own = |name: &'static str| {
        let told = told.clone();
        let own = Agent::new(name).tool_named("calculator");
        own.policy("own", move || Guard(told.clone()))
    };
    let desk = Agent::new("desk")
        .behavior(BehaviorSpec::new("sequential"))
        .agent(own("a"))
        .agent(Agent::new("b").tool_named("calculator"));
    let watching = told.clone();
    let team = desk
        .into_team()
        .unwrap()
        .policy("guard", move || Guard(watching.clone()));
    let system = started(team, model).await;
    let run = system.session("desk", "s").send("go").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "not in this house");
    let told = told.lock().clone();
    assert_eq!(
        told,
        [
            "before desk",
            "before a",
            "before a",
            "after a: not in this house",
            "after a: not in this house",
            "before b",
            "after b: not in this house",
            "after desk: not in this house",
        ]
    );
    system.stop().await.unwrap();
}
