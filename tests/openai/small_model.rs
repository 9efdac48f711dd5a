//! Against a real model with weights: SmolLM2 135M behind llama.cpp's server, on this machine.
//!
//! It is far too small to choose a tool or to know anything, so nothing here depends on what it says: the
//! promises are about the road to it. `GHOSTLIGHT_REAL_MODEL=1 ./test` installs it; without it these tests pass
//! over themselves and say so.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use ghostlight::{
    definition::BehaviorSpec,
    models::OpenAi,
    prelude::*,
    vocabulary::{Event, FinishReason, Message, ModelSettings, Transcript},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{respond, stream};

/// A running server. It is killed when dropped.
struct Server {
    child: Child,
    base_url: String,
}

impl Server {
    /// Starts it on a port of its own; nothing where it is not installed.
    fn start() -> Option<Self> {
        let Some(python) = std::env::var_os("GHOSTLIGHT_SMALL_MODEL") else {
            eprintln!(
                "left out: GHOSTLIGHT_REAL_MODEL=1 ./test installs the model and sets GHOSTLIGHT_SMALL_MODEL"
            );
            return None;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/small_model.py");
        let mut child = Command::new(python)
            .arg(script)
            .arg("0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        // It says its address once the model is loaded, or ends.
        let line = lines.next().and_then(Result::ok).unwrap_or_default();
        let Some(base_url) = line.strip_prefix("OPENAI_BASE_URL=") else {
            let _ = child.kill();
            panic!("the server ended without an address: {:?}", child.wait());
        };
        Some(Self {
            child,
            base_url: base_url.to_owned(),
        })
    }

    /// The model, as a reader of the guide reaches it.
    fn model(&self) -> OpenAi {
        OpenAi::new("smollm2").base_url(&self.base_url)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
    let Some(server) = Server::start() else {
        return;
    };
    a_text_is_the_same_whole_and_in_pieces(&server).await;
    an_answer_has_the_form_that_its_schema_asks_for(&server).await;
    a_loop_over_text_comes_to_an_end_with_a_result_for_each_call(&server).await;
}

async fn a_text_is_the_same_whole_and_in_pieces(server: &Server) {
    let question = "Write one short sentence about the sea.";
    let whole = respond(&server.model(), asked(question, 24)).await.unwrap();
    assert!(!whole.content().trim().is_empty(), "{whole:?}");
    assert!(whole.usage.input_tokens > 8 && (1..=24).contains(&whole.usage.output_tokens));
    let (streamed, shown) = stream(&server.model(), asked(question, 24)).await;
    let streamed = streamed.unwrap();
    assert_eq!(streamed.content(), whole.content(), "greedy decoding");
    assert_eq!(streamed.usage.output_tokens, whole.usage.output_tokens);
    assert!(shown.len() > 3, "it came in pieces: {shown:?}");
    let cut = respond(&server.model(), asked(question, 2)).await.unwrap();
    assert_eq!(cut.finish, FinishReason::Length, "{cut:?}");
}

async fn an_answer_has_the_form_that_its_schema_asks_for(server: &Server) {
    let clerk = Agent::new("clerk")
        .model(server.model())
        .settings(brief(64));
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

async fn a_loop_over_text_comes_to_an_end_with_a_result_for_each_call(server: &Server) {
    let clerk = Agent::new("clerk")
        .model(server.model())
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
