//! Guards around calls: no personal data reaches the model, only tools without an effect are called, and
//! what was decided is recorded with the run.
//!
//!     cargo run --example guards
#![allow(clippy::print_stdout)]

use ghostlight::{
    interceptors::{Authorization, GUARDED, PersonalAction, PersonalDataGuard},
    models::Secret,
    prelude::*,
    vocabulary::{Event, ToolCall},
};
use serde_json::json;

/// Finds a customer.
#[tool(effect = "read")]
async fn customer(name: String) -> Result<String, ToolError> {
    Ok(format!(
        "{name}: ada@example.org, +44 20 7946 0958, card 4111 1111 1111 1111"
    ))
}

/// Deletes a customer.
#[tool]
async fn delete_customer(name: String) -> Result<String, ToolError> {
    Ok(format!("{name} is gone"))
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let team = Agent::from_fn("desk", |cx: RunContext| async move {
        let call = |name: &str| ToolCall::new(name, name, json!({ "name": "Ada" }));
        for result in cx
            .tools([call("customer"), call("delete_customer")])
            .await?
        {
            println!("{}: {}", result.name, result.text);
        }
        Ok(Outcome::answer("done"))
    })
    .tool(customer)
    .tool(delete_customer)
    .into_team()?
    // Equal data has equal marks, so that the model can still tell people apart.
    .intercept(
        PersonalDataGuard::new(PersonalAction::Hash).secret(Secret::value("of this program")),
    )
    .intercept(Authorization::new().effects([Effect::Read]));
    let system = System::builder(InMemoryStore::new())
        .model("default", OfflineModel)
        .team(team)
        .start()
        .await?;
    let run = system.session("desk", "ada").send("Who is Ada?").await?;
    run.outcome().await?;
    for record in run.events().so_far().await? {
        if let Event::Custom { name, data } = record.event
            && name == GUARDED
        {
            println!("decided: {data}");
        }
    }
    system.stop().await
}
