//! Settings that cannot work are refused when the team is set up, with what there is instead.

use ghostlight::workflows;
use ghostlight_actors::{
    definition::BehaviorSpec,
    run::{Agent, Registry},
};
use serde_json::{Value, json};

fn refused(behavior: &str, settings: Value) -> String {
    let behavior = BehaviorSpec::new(behavior).settings(settings);
    let team = Agent::new("desk")
        .behavior(behavior)
        .agent(Agent::new("a"))
        .agent(Agent::new("b"))
        .into_team()
        .unwrap();
    let registry = workflows::register(Registry::new())
        .behavior("function_calling", |_| Err("not asked".to_owned()));
    registry.resolve(&team.spec).unwrap_err().to_string()
}

#[test]
fn wrong_settings_are_refused_with_what_there_is() {
    for (behavior, settings, reason) in [
        (
            "sequential",
            json!({"members": ["a", "x"]}),
            "members[1] names \"x\", which is not an agent below desk; there are: a, b",
        ),
        (
            "sequential",
            json!({"membres": []}),
            "unknown field `membres`",
        ),
        (
            "coordinator",
            json!({"max_rounds": 0}),
            "max_rounds must be at least 1",
        ),
        (
            "parallel",
            json!({"on_failure": {"quorum": 3}}),
            "from 1 to the 2 members",
        ),
        (
            "parallel",
            json!({"aggregator": "c"}),
            "aggregator names \"c\"",
        ),
        (
            "pipeline",
            json!({"stages": ["a", "z"]}),
            "stages[1] names \"z\"",
        ),
        ("router", json!({"ask_model": false}), "needs `otherwise`"),
        (
            "role_play",
            json!({"members": ["a"]}),
            "at least 2 members and has 1",
        ),
        ("debate", json!({}), "judge names \"judge\""),
        ("vote", json!({"options": ["yes"]}), "at least two"),
        (
            "fan_out",
            json!({"planner": "a"}),
            "aggregator names \"aggregator\"",
        ),
        (
            "tool_chain",
            json!({"steps": ["look"]}),
            "the tool \"look\"",
        ),
    ] {
        let told = refused(behavior, settings);
        assert!(told.contains("agent \"desk\""), "{told}");
        assert!(told.contains(reason), "{behavior}: {told}");
    }
}

#[test]
fn names_are_well_formed_and_there_once_over_the_whole_tree_which_has_a_depth() {
    let twice = Agent::new("desk").agent(Agent::new("a").agent(Agent::new("desk")));
    let told = twice.into_team().unwrap_err().to_string();
    assert!(told.contains("two agents are called \"desk\""), "{told}");
    for name in ["", "two words", "ä", "x/y"] {
        let told = Agent::new("desk").agent(Agent::new(name)).into_team();
        let told = told.unwrap_err().to_string();
        assert!(told.contains("agent name"), "{told}");
    }
    let deep = |levels: usize| {
        let below = (1..levels).rev().fold(Agent::new("leaf"), |below, level| {
            Agent::new(format!("level-{level}")).agent(below)
        });
        below.into_team()
    };
    deep(32).unwrap();
    let told = deep(33).unwrap_err().to_string();
    assert!(told.contains("below the deepest level"), "{told}");
}
