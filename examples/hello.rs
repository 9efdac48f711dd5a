//! One agent: an answer, a stream of text, a value of a type, and a conversation that goes on (takes 1 s).
//!
//!     cargo run --example hello
//!
//! It needs no key: the offline model stands where `Anthropic::from_env()?`, `Gemini::from_env()?`
//! or `OpenAi::from_env()?` would.
#![allow(clippy::print_stdout)]

use std::io::Write as _;

use ghostlight::{builtin, models::Fallback, prelude::*, vocabulary::ErrorKind};
use schemars::JsonSchema;
use serde::Deserialize;

/// Adds 19% VAT to a net price in euro.
#[tool(effect = "read")]
async fn add_vat(net: f64) -> Result<f64, ToolError> {
    Ok(net * 119.0 / 100.0)
}

/// An invoice, as read from a letter.
#[derive(Debug, Deserialize, JsonSchema)]
struct Invoice {
    /// Who is to be paid.
    payee: String,
    /// The amount in euro.
    amount: f64,
    /// How many lamps were sold.
    pieces: u32,
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let desk = Agent::new("desk").model(OfflineModel).tool(add_vat);
    println!("an answer: {}", desk.run("80 euro with VAT?").await?);

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
    typed().await?;

    // The same agent is the team of a System, where a conversation goes on.
    let system = System::builder(InMemoryStore::new())
        .registry(builtin())
        .team(desk.into_team()?)
        .start()
        .await?;
    let session = system.session("desk", "ada");
    println!("a session: {}", session.ask("100 euro with VAT?").await?);
    // A turn with an id is one run, however often it is sent.
    let turn = || Turn::text("And 110 euro?").id("question-2");
    let (first, again) = (session.send(turn()).await?, session.send(turn()).await?);
    println!("the next:  {}", first.outcome().await?.text());
    println!("sent twice, one run: {}", first.id() == again.id());
    system.stop().await
}

/// Servers that can are asked to hold the model to the type's schema. The answer is read leniently all the same, checked,
/// and sent back where it does not fit.
async fn typed() -> Result<(), ghostlight::Error> {
    let model = ScriptedModel::replies([
        // A fence, single quotes and a trailing comma are read; `pieces` is not a number, which the model is told.
        "Here you are:\n```json\n{'payee': 'Lamps Ltd', 'amount': 95.2, 'pieces': 'two',}\n```",
        "{'payee': 'Lamps Ltd', 'amount': 95.2, 'pieces': 2,}",
    ]);
    let reader = Agent::new("reader")
        .instructions("Read the invoice in the letter.")
        .model(model.clone());
    let letter = "For two lamps we ask you to pay 95.20 euro. Lamps Ltd";
    let Invoice {
        payee,
        amount,
        pieces,
    } = reader.run_as(letter).await?;
    println!("a value:   {amount} euro to {payee} for {pieces} lamps");
    let requests = model.requests();
    let last = requests.last().and_then(|asked| asked.conversation.last());
    if let Some(said) = last {
        println!("           the model was told: {}", said.content());
    }
    Ok(())
}
