//! Against a real model with weights: SmolLM2 135M behind llama.cpp's server, on this machine.
//!
//! It is far too small to choose a tool or to know anything, so nothing here depends on what it says: the
//! promises are about the road to it. `GHOSTLIGHT_REAL_MODEL=1 ./test` installs it; without it these tests pass
//! over themselves and say so.

use ghostlight::{
    definition::BehaviorSpec,
    models::OpenAi,
    prelude::*,
    vocabulary::{Event, FinishReason, Message, ModelSettings, Transcript},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{respond, small_server::SmallModel, stream};

/// The model, as a reader of the guide reaches it.
fn model(server: &SmallModel) -> OpenAi {
    OpenAi::new("smollm2").base_url(&server.base_url)
}

/// The most likely words, and few of them.
fn brief(tokens: u32) -> ModelSettings {
    let mut settings = ModelSettings::default();
    settings.temperature = Some(0.0);
    settings.max_tokens = Some(tokens);
    settings
}

fn asked(text: &str, tokens: u32) -> ModelRequest {
    ModelRequest::new(Transcript::from_iter([Message::user(text)])).settings(brief(tokens))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Person {
    /// The person's first name.
    name: String,
    /// The age in years.
    age: u32,
}

/// One server for all, since loading the weights is most of the time.
#[tokio::test]
async fn a_real_model_answers_streams_fills_a_schema_and_takes_part_in_a_loop() {
    let Some(server) = SmallModel::start() else {
        return;
    };
    a_text_is_the_same_whole_and_in_pieces(&server).await;
    an_answer_has_the_form_that_its_schema_asks_for(&server).await;
    a_loop_over_text_comes_to_an_end_with_a_result_for_each_call(&server).await;
}

async fn a_text_is_the_same_whole_and_in_pieces(server: &SmallModel) {
    let question = "Write one short sentence about the sea.";
    let whole = respond(&model(server), asked(question, 24)).await.unwrap();
    assert!(!whole.content().trim().is_empty(), "{whole:?}");
    assert!(whole.usage.input_tokens > 8 && (1..=24).contains(&whole.usage.output_tokens));
    let (streamed, shown) = stream(&model(server), asked(question, 24)).await;
    let streamed = streamed.unwrap();
    assert_eq!(streamed.content(), whole.content(), "greedy decoding");
    assert_eq!(streamed.usage.output_tokens, whole.usage.output_tokens);
    assert!(shown.len() > 3, "it came in pieces: {shown:?}");
    let cut = respond(&model(server), asked(question, 2)).await.unwrap();
    assert_eq!(cut.finish, FinishReason::Length, "{cut:?}");
}

async fn an_answer_has_the_form_that_its_schema_asks_for(server: &SmallModel) {
    let clerk = Agent::new("clerk").model(model(server)).settings(brief(64));
    let person: Person = clerk
        .run_as("Ada is 36 years old. Who is it, and how old?")
        .await
        .unwrap();
    assert!(!person.name.is_empty() && person.age < 1000, "{person:?}");
}

/// Adds two numbers.
#[tool(effect = "read")]
async fn add(a: f64, b: f64) -> f64 {
    a + b
}

async fn a_loop_over_text_comes_to_an_end_with_a_result_for_each_call(server: &SmallModel) {
    let clerk = Agent::new("clerk")
        .model(model(server))
        .settings(brief(48))
        .behavior(BehaviorSpec::new("react"))
        .max_steps(3)
        .tool(add);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .team(clerk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let session = system.session("clerk", "ada");
    let run = session.send("What is 17 + 25?").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert!(
        matches!(outcome, Outcome::Answer(_) | Outcome::Stopped { .. }),
        "{outcome:?}"
    );
    let said = session.transcript().await.unwrap();
    ghostlight::testing::check_transcript(&said.messages()).unwrap();
    let mut events = run.events();
    let (mut begun, mut ended) = (0, 0);
    while let Some(event) = events.next().await {
        match event.unwrap().event {
            Event::ToolStarted { .. } => begun += 1,
            Event::ToolCalled { .. } => ended += 1,
            _ => {}
        }
    }
    assert!(begun <= ended, "each call has its result");
    system.stop().await.unwrap();
}
