//! How far a conversation and a task can go.

use ghostlight::behaviors;
use ghostlight_actors::{
    actor::System,
    definition::TransferRules,
    run::{Agent, Registry, RunContext},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{ErrorKind, Event, Outcome, StopReason},
};
use serde_json::json;

use crate::patterns::acts;

async fn run(agent: Agent, model: ScriptedModel, transfers: Option<u32>) -> (Outcome, Vec<String>) {
    let team = agent.into_team().unwrap();
    let system = System::builder(InMemoryStore::new())
        .registry(behaviors::register(Registry::new()))
        .model("default", model)
        .team(team.define(|spec| spec.max_transfers = transfers))
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    let records = run.events().so_far().await.unwrap();
    let taken = records.into_iter().filter_map(|record| match record.event {
        Event::LegStarted { agent, .. } => Some(agent),
        _ => None,
    });
    let taken = taken.collect();
    system.stop().await.unwrap();
    (outcome, taken)
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_kept_from_its_peers_and_its_parent_where_its_rules_say_so() {
    for (parent, peers) in [(false, false), (true, false), (false, true)] {
        let mut rules = TransferRules::default();
        (rules.parent, rules.peers) = (parent, peers);
        let desk = Agent::new("desk")
            .agent(Agent::new("billing").transfers(rules))
            .agent(Agent::new("sales"));
        let to = |agent: &str| {
            acts([(
                format!("transfer_to_{agent}").as_str(),
                json!({"request": "x"}),
            )])
        };
        let replies = vec![to("billing"), to("sales"), to("desk"), "stayed".into()];
        let model = ScriptedModel::replies(replies);
        let (outcome, legs) = run(desk, model.clone(), None).await;
        let offered: Vec<String> = model.requests()[1]
            .tools
            .iter()
            .map(|tool| tool.name.clone())
            .collect();
        let expected = match (parent, peers) {
            (true, _) => vec!["transfer_to_desk"],
            (_, true) => vec!["transfer_to_sales"],
            _ => Vec::new(),
        };
        assert_eq!(offered, expected);
        if (parent, peers) == (false, false) {
            assert_eq!(outcome, Outcome::answer("stayed"));
            assert_eq!(legs, ["billing"], "what is not offered is not done");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_agents_that_hand_a_conversation_to_and_fro_are_stopped() {
    for (bound, legs) in [(None, 16), (Some(3), 3)] {
        let desk = Agent::new("desk").agent(Agent::new("billing"));
        let model = ScriptedModel::from_reply_fn(|request, _| {
            let tool = request.tools.iter().next().map(|tool| tool.name.clone());
            acts([(
                tool.unwrap_or_default().as_str(),
                json!({"request": "you do it"}),
            )])
        });
        let (outcome, taken) = run(desk, model, bound).await;
        let reason = StopReason::TransferLimit(legs);
        assert_eq!(outcome.stop_reason(), Some(&reason));
        assert_eq!(taken.len(), legs as usize, "{taken:?}");
        assert_eq!(taken[..2], ["billing", "desk"]);
    }
}

#[tokio::test(start_paused = true)]
async fn delegations_nest_down_to_a_depth_and_no_deeper() {
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        let depth = cx.start().path.len();
        match cx.delegate("desk", "deeper").await {
            Ok(done) => Ok(Outcome::answer(done.text)),
            Err(error) if error.kind() == Some(&ErrorKind::Denied) => {
                Ok(Outcome::answer(format!("{depth}: {error}")))
            }
            Err(error) => Err(error),
        }
    });
    let (outcome, _) = run(desk, ScriptedModel::hanging(), None).await;
    assert_eq!(outcome.text(), "64: delegations nest deeper than 64");
}
