//! A person decides at the terminal whether money goes back: yes, no with a reason, or always here (takes 1 s).
//!
//!     cargo run --example approval
//!
//! Where stdin is no terminal the program answers itself. With a file for its store it goes on asking
//! where it was killed:
//!
//!     cargo run --example approval refunds.db
#![allow(clippy::print_stdout)]

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use ghostlight::{
    actor::Run,
    builtin,
    definition::{ApprovalRule, ClarifySpec, OnExpiry},
    prelude::*,
    vocabulary::{OperationId, Question},
};
use serde_json::{Value, json};

/// Refunds an amount in euro to the customer's card.
#[tool] // an effect that nobody names is `once`: it is never repeated
fn refund(euro: f64, card_token: String) -> String {
    let end = card_token
        .chars()
        .skip(card_token.chars().count().saturating_sub(2));
    format!(
        "refunded {euro} euro to the card that ends in {}",
        end.collect::<String>()
    )
}

/// What the person says, or would say. A person who approves sees the whole call, in which each character that
/// acts can be seen, and the answer is for that very call.
fn decide(question: &Question, instead: &str) -> io::Result<Value> {
    if let Some(call) = &question.call {
        println!("{} {}", call.name, call.arguments.text());
    }
    print!(
        "{} {} [yes, always, or why not] ",
        question.path.join("/"),
        question.prompt
    );
    io::stdout().flush()?;
    let mut said = String::new();
    if io::stdin().is_terminal() {
        io::stdin().read_line(&mut said)?;
    } else {
        println!("{instead}");
        said.push_str(instead);
    }
    Ok(match said.trim() {
        "yes" if question.digest.is_some() => {
            json!({ "approved": true, "digest": question.digest })
        }
        "yes" => json!(true),
        // For these very arguments; `{"euro": 5}` or `{"note": "trip to *"}` would be a pattern.
        "always" => json!({ "approved": true, "remember": true }),
        reason => json!({ "approved": false, "reason": reason }),
    })
}

/// Puts a question to the person, and gives the answer to the run that asks.
async fn answer(
    run: &Run,
    operation: OperationId,
    question: &Question,
    instead: &str,
) -> Result<(), ghostlight::Error> {
    let answer = decide(question, instead).map_err(AgentError::failed);
    let answer = answer.map_err(|error| ghostlight::Error::Failed {
        run: run.id(),
        error,
    })?;
    run.answer_as("the manager", operation, answer).await
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let rule = ApprovalRule::required()
        .prompt("Refund {euro} euro (card {card_token})?") // secrets are left out
        .expires(Duration::from_secs(3600), OnExpiry::Deny)
        .remember();
    let desk = Agent::new("desk")
        .instructions("Refund what customers ask for.")
        .tool(refund)
        .approval("refund", rule)
        .clarify(ClarifySpec::questions(1)); // its model may ask a person one thing in a run
    let builder = match std::env::args().nth(1) {
        #[cfg(feature = "sqlite")]
        Some(file) => System::open(file)?,
        _ => System::builder(InMemoryStore::new()).registry(builtin()),
    };
    let system = builder
        .model("default", OfflineModel)
        .team(desk.into_team()?)
        .start()
        .await?;
    // What an earlier life of this program asked, and nobody answered.
    for (run, operation, question) in system.open_questions().await? {
        answer(&system.run(run), operation, &question, "yes").await?;
        println!("desk: {}", system.run(run).outcome().await?.text());
    }
    let session = system.session("desk", "ada");
    for (said, instead) in [
        ("Please refund 12.5 euro to \"tok_4711\".", "no receipt"),
        ("Please refund 12.5 euro to \"tok_4711\".", "always"),
        (
            "Please refund 12.5 euro to \"tok_4711\".",
            "is not asked again",
        ),
        ("Please refund 80 euro to \"tok_4711\".", "yes"),
    ] {
        println!("\nada: {said}");
        let run = session.send(said).await?;
        run.wait().await?;
        for (_, operation, question) in run.questions().await? {
            answer(&run, operation, &question, instead).await?;
        }
        println!("desk: {}", run.outcome().await?.text());
    }
    // What would be done, without doing it or asking for it.
    let run = session
        .send(Turn::text("Please refund 99 euro to \"tok_4711\".").dry_run())
        .await?;
    println!("\ndry run: {}", run.outcome().await?.text());
    system.stop().await
}
