//! Scorers see the arguments that a model wrote, with their turns; judges and people see them without what may be a secret.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ghostlight_actors::{
    actor::System,
    contract::InMemoryStore,
    definition::{AgentSpec, TeamSpec},
    run::{BehaviorHandle, Registry, RunContext},
    testing::{EffectLog, ScriptedModel},
    vocabulary::{AgentError, Message, ModelResponse, Outcome, ToolCall, ToolDefinition},
};
use ghostlight_evals::{
    Evaluation, RecordedCall, Recording,
    scorers::{Score, Scorer},
    suite::{Sample, SuiteSpec},
};
use serde_json::{Value, json};

/// Keeps the calls that it sees.
struct Sees(Arc<Mutex<Vec<RecordedCall>>>);

impl Scorer for Sees {
    fn name(&self) -> &str {
        "sees"
    }

    fn score(&self, recording: &Recording, _: &Sample) -> Score {
        self.0.lock().unwrap().clone_from(&recording.calls);
        Score::pass("with password=correct-horse-battery")
    }
}

/// Makes the calls that the model asks for.
async fn works(cx: RunContext) -> Result<Outcome, AgentError> {
    let mut conversation = cx.conversation();
    loop {
        let response = cx.model(cx.model_request(conversation.clone())).await?;
        conversation.push(response.message.clone());
        let calls = response.calls();
        if calls.is_empty() {
            return Ok(Outcome::answer(response.content()));
        }
        conversation.push(Message::results(cx.tools(calls).await?));
    }
}

fn paid() -> Value {
    json!({ "folder": "..", "password": "correct-horse-battery" })
}

#[tokio::test(start_paused = true)]
async fn scorers_see_the_arguments_that_a_model_wrote_and_their_turn() {
    let model = ScriptedModel::from_fn(|request, _| {
        let last = request.conversation.last().unwrap();
        let is_asked = last.tool_results().next().is_none();
        Ok(match is_asked && last.content() == "pay" {
            true => ModelResponse::tool_calls([ToolCall::new("c", "pay", paid())]),
            false => ModelResponse::text("done"),
        })
    });
    let registry = Registry::new()
        .model("model", model.into())
        .tool(EffectLog::new().tool(ToolDefinition::new("pay", "Pays."), Duration::ZERO))
        .behavior("works", |_| Ok(BehaviorHandle::from_fn(works)));
    let mut agent = AgentSpec::new("desk");
    agent.model = Some(String::from("model"));
    agent.tools = vec![String::from("pay")];
    agent.behavior = serde_json::from_value(json!("works")).unwrap();
    let suite: SuiteSpec = serde_json::from_value(json!({
        "evaluation": "paid", "team": "desk.yaml", "data": [],
        "scorers": [{ "calls": { "expect": [{ "tool": "pay", "arguments": paid(), "match": "exact" }] } }],
    }))
    .unwrap();
    let sample: Sample =
        serde_json::from_value(json!({ "id": "one", "turns": ["hello", "pay"] })).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let evaluation = Evaluation::new(suite, &TeamSpec::new(agent), vec![sample]).unwrap();
    let evaluation = evaluation.scorer(Sees(seen.clone()));
    let builder = System::builder(InMemoryStore::new()).recover(false);
    let teams = evaluation.teams(&registry).into_iter();
    let builder = teams.fold(builder, |builder, team| builder.team(team));
    let system = builder.start().await.unwrap();
    let cells = evaluation.run(&system, |_| {}).await.unwrap();
    system.stop().await.unwrap();
    assert_eq!(cells[0].success(), Some(true), "{}", cells[0].text());
    let calls = seen.lock().unwrap();
    assert_eq!(*calls[0].arguments.value().unwrap(), paid());
    assert_eq!((calls.len(), calls[0].turn), (1, 2));
    let shown = calls[0].shown_arguments();
    assert!(!shown.text().contains("correct-horse"), "{}", shown.text());
    let why: Vec<&str> = cells[0].scores().map(|(_, score)| &*score.why).collect();
    assert!(!why.concat().contains("correct-horse"), "{why:?}");
}
