//! One agent in a few lines: an answer, a value of a type, a stream of text.
//!
//!     cargo run --example one_agent
//!
//! It needs no key: the offline model stands where `Anthropic::from_env()?`, `Gemini::from_env()?`
//! or `OpenAi::from_env()?` would.
#![allow(clippy::print_stdout)]

use std::io::Write as _;

use ghostlight::{
    builtin, models::Fallback, prelude::*, testing::ScriptedModel, vocabulary::ErrorKind,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Adds 19% VAT to a net price in euro.
#[tool(effect = "read")]
async fn add_vat(net: f64) -> Result<f64, ToolError> {
    Ok(net * 119.0 / 100.0)
}

#[derive(Deserialize, JsonSchema)]
struct Receipt {
    /// The price with VAT, in euro.
    gross: f64,
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let desk = Agent::new("desk").model(OfflineModel).tool(add_vat);
    let answer = desk.run("80 euro with VAT?").await?;
    println!("an answer: {answer}");

    // The model is held to the type's schema; a scripted one says what it is told to.
    let typed = Agent::new("desk").model(ScriptedModel::replies([r#"{"gross": 95.2}"#]));
    let receipt: Receipt = typed.run_as("80 euro with VAT?").await?;
    println!("a value:   {} euro", receipt.gross);

    // Where one model fails, the next is asked.
    let down = ScriptedModel::from_fn(|_, _| Err(ModelError::new(ErrorKind::Model, "is down")));
    let sturdy = desk.clone().model(Fallback::new(down).or(OfflineModel));
    let mut stream = sturdy.stream("90 euro with VAT?").await?;
    print!("a stream:  ");
    while let Some(piece) = stream.next().await {
        print!("{}", piece?);
        let _ = std::io::stdout().flush();
    }
    println!();

    // The long form, for a conversation that goes on: the same agent is the team of a System.
    let system = System::builder(InMemoryStore::new())
        .registry(builtin())
        .team(desk.call_limit("add_vat", 5).into_team()?)
        .start()
        .await?;
    let session = system.session("desk", "ada");
    println!("a session: {}", session.ask("100 euro with VAT?").await?);
    system.stop().await
}
