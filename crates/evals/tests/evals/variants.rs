//! A variant changes exactly what it names.

use ghostlight_actors::definition::{AgentSpec, TeamSpec};
use ghostlight_evals::suite::{VariantSpec, team_of};
use serde_json::json;

fn team() -> TeamSpec {
    let mut desk = AgentSpec::new("desk");
    desk.instructions = String::from("Be brief.");
    desk.agents.push(AgentSpec::new("clerk"));
    TeamSpec::new(desk)
}

fn variant(value: serde_json::Value) -> VariantSpec {
    serde_json::from_value(value).unwrap()
}

#[test]
fn settings_are_merged_and_agents_are_found_by_name() {
    let change = json!({
        "team": { "instructions": "Answer in Latin." },
        "agent": { "instructions": null, "behavior": "react" },
        "agents": { "clerk": { "max_steps": 3 } },
    });
    let changed = team_of(&team(), "latin", &variant(change)).unwrap();
    let mut expected = team();
    expected.name = String::from("desk-latin");
    expected.instructions = String::from("Answer in Latin.");
    expected.agent.instructions.clear();
    expected.agent.behavior = serde_json::from_value(json!("react")).unwrap();
    expected.agent.agents[0].max_steps = serde_json::from_value(json!(3)).unwrap();
    assert_eq!(changed, expected);
    assert_eq!(
        team_of(&team(), "base", &VariantSpec::default())
            .unwrap()
            .agent,
        team().agent
    );
}

#[test]
fn an_unknown_agent_and_an_unknown_setting_are_refused() {
    let told = |value| {
        team_of(&team(), "v", &variant(value))
            .unwrap_err()
            .to_string()
    };
    assert!(told(json!({ "agents": { "nobody": {} } })).contains("\"nobody\""));
    assert!(told(json!({ "agent": { "behaviour": "react" } })).contains("behaviour"));
}
