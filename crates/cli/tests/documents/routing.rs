//! A task goes to the agent whose examples are nearest.

use ghostlight::{builtin, prelude::*, testing::ScriptedModel};

use crate::started;

const TEAM: &str = "
agent:
  name: switchboard
  behavior:
    name: router
    rules: [{ words: [fire], agent: emergency }]
    examples:
      billing: [What do I owe you?, My card was charged twice for one invoice., Please send the invoice again.]
      travel: [I need a hotel in Rome., When does the train to Berlin leave?, Book a flight for me.]
    otherwise: emergency
    ask_model: false
  agents: [{ name: billing }, { name: travel }, { name: emergency }]
";

fn team(text: &str) -> Result<ghostlight::config::TeamFile, ghostlight::config::ConfigError> {
    ghostlight::config::parse(text, "team.yaml")
}

#[tokio::test]
async fn rules_come_first_then_examples_then_whoever_is_left() {
    let team = team(TEAM).unwrap();
    let model = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("done")));
    let system = started(team, &model).await;
    for (task, agent) in [
        ("I was charged twice on my card", "billing"),
        ("Can you book me a hotel in Berlin?", "travel"),
        ("The invoice of the hotel is on fire", "emergency"),
        ("xyzzy", "emergency"),
    ] {
        let run = system
            .session("switchboard", task)
            .send(task)
            .await
            .unwrap();
        run.outcome().await.unwrap();
        let events = run.events().so_far().await.unwrap();
        let routed = events
            .iter()
            .map(ToString::to_string)
            .find(|event| event.contains("routed"))
            .unwrap();
        assert!(routed.contains(agent), "{task}: {routed}");
    }
    system.stop().await.unwrap();
}

#[test]
fn examples_of_nobody_are_refused_with_their_name() {
    let wrong = TEAM.replace("billing: [What", "bilings: [What");
    let error = team(&wrong).unwrap().resolve(builtin()).map(drop);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("bilings"), "{error}");
}
