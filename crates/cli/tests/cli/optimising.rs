//! `ghostlight eval optimise` finds better texts, and `eval apply` puts them into the team where a person says so.

use std::fs;

use ghostlight_actors::{
    run::{BehaviorHandle, Registry, RunContext},
    testing::ScriptedModel,
    vocabulary::{ModelResponse, Outcome},
};
use serde_json::{Value, json};

use crate::own_command::Desk;

/// Adds an agent that says "yes" where it is told to be kind, and a model that proposes to tell it so.
pub(crate) fn register(registry: Registry) -> Registry {
    registry
        .behavior("instructed", |_| {
            Ok(BehaviorHandle::from_fn(|cx: RunContext| async move {
                let is_kind = cx.spec().instructions.contains("Be kind.");
                Ok(Outcome::answer(if is_kind { "yes" } else { "no" }))
            }))
        })
        .provider("writer", |_| {
            let writes = ScriptedModel::from_fn(|request, _| {
                let shown = request.conversation.messages()[0].content();
                let material: Value = serde_json::from_str(&shown).unwrap_or_default();
                let text = format!(
                    "{}\nBe kind.",
                    material["text"].as_str().unwrap_or_default()
                );
                let proposed = json!({ "reason": "it is unkind", "text": text });
                Ok(ModelResponse::text(proposed.to_string()))
            });
            Ok(writes.into())
        })
}

const TEAM: &str = "\
# A desk.
name: desk
models: { writer: { provider: writer } }
agent:
  name: desk
  model: writer
  behavior: instructed
  instructions: Help. # whoever comes
";

fn desk() -> Desk {
    let desk = Desk::new("says", json!({}));
    let samples: Vec<String> = (0..20)
        .map(|n| {
            json!({ "id": format!("s{n}"), "input": format!("is it {n}?"), "expected": "yes" })
                .to_string()
        })
        .collect();
    desk.write("desk.yaml", TEAM);
    desk.write("cases.jsonl", &samples.join("\n"));
    desk.write(
        "suite.yaml",
        "evaluation: kind\nteam: desk.yaml\ndata: [{ file: cases.jsonl }]\nscorers: [{ answer: {} }]\noptimise: { tries: 60 }\n",
    );
    desk
}

#[test]
fn better_texts_are_found_read_and_applied() {
    let desk = desk();
    let dry = desk
        .run(&["eval", "optimise", "suite.yaml", "--dry-run"])
        .exits(0);
    assert!(
        dry.err
            .contains("gepa: 6 samples to learn from, 6 to choose by, 8 sealed"),
        "{}",
        dry.err
    );
    assert!(
        dry.err.contains("at most 60 tries, and 16 for the gain"),
        "{}",
        dry.err
    );
    let search = ["eval", "optimise", "suite.yaml", "--to", "better.yaml"];
    let found = desk.run(&search).exits(0);
    let wanted = "gain: better in success: 0.000 to 1.000, +1.000 [+0.351, +1.000] over 8 samples that the search did not see";
    for wanted in [
        wanted,
        "desk.instructions:\n  - Help.\n  + Help.\n  + Be kind.",
    ] {
        assert!(found.out.contains(wanted), "{}", found.out);
    }
    let runs = desk.run(&["runs"]).exits(0).out;
    assert_eq!(desk.run(&search).exits(0).out, found.out);
    assert_eq!(
        desk.run(&["runs"]).exits(0).out,
        runs,
        "nothing is done twice"
    );
    let json = desk
        .run(&["eval", "optimise", "suite.yaml", "--json"])
        .exits(0);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["gain"]["verdict"], "better");

    // Nothing is changed in silence.
    assert_eq!(fs::read_to_string(desk.path("desk.yaml")).unwrap(), TEAM);
    let shown = desk.shipped(&["eval", "apply", "better.yaml"]).exits(0);
    assert!(
        shown.out.contains("found by kind: better in success"),
        "{}",
        shown.out
    );
    assert!(shown.err.contains("--write"), "{}", shown.err);
    assert_eq!(fs::read_to_string(desk.path("desk.yaml")).unwrap(), TEAM);
    desk.shipped(&["eval", "apply", "better.yaml", "--write"])
        .exits(0);
    let changed = TEAM.replace(
        "instructions: Help. # whoever comes",
        "instructions: |-\n    Help.\n    Be kind.",
    );
    assert_eq!(fs::read_to_string(desk.path("desk.yaml")).unwrap(), changed);
    let again = desk
        .shipped(&["eval", "apply", "better.yaml", "--write"])
        .exits(2);
    assert!(
        again.err.contains("desk.instructions is so already"),
        "{}",
        again.err
    );
    desk.write(
        "flow.yaml",
        "{ name: desk, agent: { name: desk, instructions: Help. } }",
    );
    let flow = [
        "eval",
        "apply",
        "better.yaml",
        "--team",
        "flow.yaml",
        "--write",
    ];
    assert!(desk.shipped(&flow).exits(2).err.contains("by hand"));
    desk.write(
        "other.yaml",
        "name: desk\nagent: { name: desk, instructions: Do not help. }\n",
    );
    let other = [
        "eval",
        "apply",
        "better.yaml",
        "--team",
        "other.yaml",
        "--write",
    ];
    assert!(
        desk.shipped(&other)
            .exits(2)
            .err
            .contains("was changed since")
    );
}

#[test]
fn a_search_that_finds_nothing_says_so() {
    let desk = desk();
    // The built-in offline model proposes nothing that can be read.
    desk.write(
        "desk.yaml",
        "name: desk\nagent: { name: desk, instructions: Help. }\n",
    );
    let found = desk
        .shipped(&["eval", "optimise", "suite.yaml", "--to", "better.yaml"])
        .exits(0);
    assert!(found.out.contains("gain: none"), "{}", found.out);
    assert!(!desk.path("better.yaml").exists());
    let wrong = desk
        .shipped(&["eval", "optimise", "suite.yaml", "--tries", "2"])
        .exits(2);
    assert!(
        wrong.err.contains("choosing takes 6 tries alone"),
        "{}",
        wrong.err
    );
}
