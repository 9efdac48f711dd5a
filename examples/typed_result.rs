//! A typed result: the agent's answer is a value of a Rust type.
//!
//!     cargo run --example typed_result
//!
//! Servers that can are asked to hold the model to the type's schema. The answer is read leniently
//! all the same (fences, trailing commas, single quotes), checked, and sent back where it does not fit.
#![allow(clippy::print_stdout)]

use ghostlight::{builtin, prelude::*};
use schemars::JsonSchema;
use serde::Deserialize;

/// An invoice, as read from a letter.
#[derive(Debug, Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Invoice {
    /// Who is to be paid.
    payee: String,
    /// The amount in euro.
    amount: f64,
    /// The positions.
    positions: Vec<Position>,
}

/// One line of an invoice.
#[derive(Debug, Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Position {
    what: String,
    pieces: u32,
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let model = ScriptedModel::replies([
        // As models are: a fence, single quotes, a trailing comma. That is read.
        // But `pieces` is no number. That is told to the model.
        "Here you are:\n```json\n{'payee': 'Lamps Ltd', 'amount': 95.2, \
         'positions': [{'what': 'lamp', 'pieces': 'two'},]}\n```",
        "{'payee': 'Lamps Ltd', 'amount': 95.2, 'positions': [{'what': 'lamp', 'pieces': 2},]}",
    ]);
    let reader = Agent::new("reader")
        .instructions("Read the invoice in the letter.")
        .output::<Invoice>();
    let system = System::builder(InMemoryStore::new())
        .registry(builtin())
        .model("default", model.clone())
        .team(reader.into_team()?)
        .start()
        .await?;

    let letter = "Dear customer, for two lamps we ask you to pay 95.20 euro. Lamps Ltd";
    let run = system.session("reader", "ada").send(letter).await?;
    match run.outcome().await?.parse::<Invoice>() {
        Ok(invoice) => println!("{invoice:#?}"),
        Err(error) => println!("no invoice: {error}"),
    }

    let requests = model.requests();
    if let Some(said) = requests
        .last()
        .and_then(|request| request.conversation.last())
    {
        println!("\nWhat the model was told to mend:\n{}", said.content());
    }
    system.stop().await
}
