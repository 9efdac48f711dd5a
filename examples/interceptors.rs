//! Interceptors around calls: a cache, retries, a circuit breaker, guards of personal data, and one of your own (takes 1 s).
//!
//!     cargo run --example interceptors
#![allow(clippy::print_stdout)]

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use ghostlight::{
    contract::{Interceptor, NextTool, ToolOutput},
    interceptors::{
        Authorization, Cache, CircuitBreaker, GUARDED, Metrics, PersonalAction, PersonalDataGuard,
        Retry,
    },
    models::Secret,
    prelude::*,
    run::Intercept,
    vocabulary::{Arguments, Event, ToolCall},
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    weather_desk().await?;
    guarded_desk().await
}

static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// Asks a weather service that fails every other time.
#[tool(effect = "read")]
async fn weather(city: String) -> Result<String, ToolError> {
    match REQUESTS.fetch_add(1, Ordering::SeqCst) % 2 {
        0 => Err(ToolError::new("the line is busy")),
        _ => Ok(format!("{city}: fog")),
    }
}

/// An interceptor of our own: it says what passes, and how it ends.
struct Told(&'static str);

impl Interceptor for Told {
    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        println!(
            "  {} {} {}",
            self.0,
            next.definition().name,
            arguments.text()
        );
        let output = next.call(arguments, cx).await;
        match &output {
            Ok(output) => println!("  {} -> {}", self.0, output.text),
            Err(error) => println!("  {} -> failed: {error}", self.0),
        }
        output
    }
}

/// Asks a flaky service three times.
async fn weather_desk() -> Result<(), ghostlight::Error> {
    let metrics = Metrics::new();
    let pauses = (Duration::from_millis(10), Duration::from_millis(50));
    // The first is the outermost: the cache is asked once for each call, what stands inside of the
    // retry sees each attempt.
    let team = Agent::from_fn("desk", |cx: RunContext| async move {
        for city in ["Bergen", "Bergen", "Oslo"] {
            println!("the agent asks for {city}");
            cx.tool(ToolCall::new("1", "weather", json!({ "city": city })))
                .await?;
        }
        Ok(Outcome::answer("done"))
    })
    .tool(weather)
    .into_team()?
    .intercept(Intercept::new(Cache::default()).tools(["weather"]))
    .intercept(Told("call"))
    .intercept(Retry::attempts(3).pauses(pauses.0, pauses.1))
    .intercept(CircuitBreaker::default())
    .intercept(metrics.clone())
    .intercept(Told("  attempt"));
    let system = System::builder(InMemoryStore::new())
        .model("default", OfflineModel)
        .team(team)
        .start()
        .await?;
    let run = system
        .session("desk", "ada")
        .send("How is the weather?")
        .await?;
    run.outcome().await?;
    println!(
        "{} requests were made; metrics: {:?}",
        REQUESTS.load(Ordering::SeqCst),
        metrics.read()
    );
    system.stop().await
}

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

/// No personal data reaches the model, only tools without an effect are called, and what was decided is recorded.
async fn guarded_desk() -> Result<(), ghostlight::Error> {
    let team = Agent::from_fn("office", |cx: RunContext| async move {
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
    let run = system.session("office", "ada").send("Who is Ada?").await?;
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
