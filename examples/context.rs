//! A conversation of 200 turns whose requests stay below 2,000 tokens: messages that are left out are
//! summed up, each summary includes the earlier one, and each request begins as the one before, so
//! that a provider's cache can serve its beginning.
//!
//!     cargo run --example context
//!
//! The model is scripted, so it costs nothing. The conversation itself stays whole in the session.
#![allow(clippy::print_stdout)]

use ghostlight::{
    builtin,
    context::{Estimate, TokenCounter},
    definition::{ContextSpec, ContextStrategy, Summarize},
    prelude::*,
};

const TURNS: usize = 200;
const MAX_TOKENS: u32 = 2_000;

fn is_summary(request: &ModelRequest) -> bool {
    request.instructions.starts_with("You keep the memory")
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let model = ScriptedModel::from_fn(|request, number| {
        Ok(ModelResponse::text(match is_summary(request) {
            true => format!("Ada asked about lamps; so far {number} answers were given."),
            false => format!(
                "Lamp {number} {}.",
                "is bright, and warm, and cheap".repeat(3)
            ),
        }))
    });
    let summarize = Summarize {
        max_summary_tokens: 200,
        ..Summarize::default()
    };
    let context = ContextSpec::new(MAX_TOKENS)
        .strategy(ContextStrategy::Summarize(summarize))
        .strategy(ContextStrategy::TokenWindow);
    let desk = Agent::new("desk")
        .instructions("You sell lamps.")
        .context(context);
    let system = System::builder(InMemoryStore::new())
        .registry(builtin())
        .model("default", model.clone())
        .team(desk.into_team()?)
        .start()
        .await?;

    let session = system.session("desk", "ada");
    println!("turn  said so far  request");
    let mut said = 0;
    for turn in 1..=TURNS {
        let asked = format!("What about lamp {turn}? And does it fit into a small room?");
        let run = session.send(asked.as_str()).await?;
        let answer = run.outcome().await?;
        said += Estimate.count(&asked) + Estimate.count(answer.text());
        let requests = model.requests();
        let request = requests.iter().rfind(|request| !is_summary(request));
        let tokens = request.map_or(0, |request| Estimate.request(request));
        assert!(
            tokens <= u64::from(MAX_TOKENS),
            "{tokens} tokens in turn {turn}"
        );
        if turn % 10 == 0 {
            let bar = "#".repeat(usize::try_from(tokens / 50).unwrap_or(0));
            println!("{turn:>4}  {said:>11}  {tokens:>7} {bar}");
        }
    }
    let summaries = model
        .requests()
        .iter()
        .filter(|request| is_summary(request))
        .count();
    println!("\n{TURNS} turns, {summaries} summaries");
    system.stop().await
}
