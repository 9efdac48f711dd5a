//! Tools: typed functions, the effect of repeating them, and a person who is asked first (takes 1 s).
//!
//!     cargo run --example tools
//!
//! The agent's model is the offline one: no neural network, but it picks the tool whose words fit
//! and fills the arguments from the question.
#![allow(clippy::print_stdout)]

use std::sync::atomic::{AtomicU32, Ordering};

use ghostlight::{builtin, prelude::*};
use serde_json::json;

/// How often money was paid back.
static REFUNDS: AtomicU32 = AtomicU32::new(0);

/// Adds VAT to a net price.
#[tool(effect = "read")]
async fn add_vat(
    /// The price without VAT.
    net: f64,
    /// The rate in percent.
    #[default(19.0)]
    percent: f64,
) -> Result<f64, ToolError> {
    Ok(net * (100.0 + percent) / 100.0)
}

/// Refunds an amount in euro to the customer.
#[tool(approval = "Refund {euro} euro?")] // an effect that nobody names is `once`
fn refund(euro: f64, cx: &ToolContext) -> String {
    let count = REFUNDS.fetch_add(1, Ordering::SeqCst) + 1;
    format!(
        "refund number {count} of {euro} euro, key {}",
        cx.operation()
    )
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let billing = Agent::new("billing")
        .instructions("Answer questions about prices and refunds with the tools.")
        .tool(add_vat)
        .tool(refund);
    let system = System::builder(InMemoryStore::new())
        .registry(builtin()) // `Agent::new` works by the built-in behavior `function_calling`
        .model("default", OfflineModel)
        .team(billing.into_team()?)
        .start()
        .await?;
    let session = system.session("billing", "ada");

    let run = session.send("What is a net price of 80 with VAT?").await?;
    println!("price:   {}\n", run.outcome().await?.text());

    // Each refund waits for a person, who is this program. A run that waits may wait for weeks:
    // it costs nothing but its rows.
    for approved in [false, true] {
        let run = session.send("Please refund 12.5 euro.").await?;
        let status = run.wait().await?.status;
        for (asking, operation, question) in run.questions().await? {
            println!(
                "{status:?}: {} -> {}",
                question.prompt,
                if approved { "yes" } else { "no" }
            );
            let answer = json!({"approved": approved, "reason": "the receipt is missing"});
            system.run(asking).answer(operation, answer).await?;
        }
        println!("refund:  {}", run.outcome().await?.text());
        println!(
            "         refunds so far: {}\n",
            REFUNDS.load(Ordering::SeqCst)
        );
    }
    system.stop().await
}
