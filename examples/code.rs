//! A program that a model writes: it calls a tool twelve times, adds up, and the model reads one line.
//!
//!     cargo run --example code --features code
//!
//! The model is scripted. The program is real: it runs in a Python interpreter that can read only the system's
//! libraries, and reaches neither the network nor other processes.
#![allow(clippy::print_stdout)]

#[cfg(not(all(feature = "code", target_os = "linux")))]
fn main() {
    println!("This example needs Linux and the feature `code`.");
}

#[cfg(all(feature = "code", target_os = "linux"))]
fn main() -> Result<std::process::ExitCode, Box<dyn std::error::Error>> {
    // The program is its own launcher: it starts itself again to give up its rights.
    if let Some(code) = ghostlight::tools::launcher::run() {
        return Ok(code);
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(totals())?;
    Ok(std::process::ExitCode::SUCCESS)
}

#[cfg(all(feature = "code", target_os = "linux"))]
async fn totals() -> Result<(), Box<dyn std::error::Error>> {
    use ghostlight::{
        definition::BehaviorSpec,
        prelude::*,
        tools::Code,
        vocabulary::{Event, ToolCall},
    };
    use serde_json::json;

    /// The sales of a month, in euro.
    #[tool(effect = "read")]
    async fn sales(
        /// From 1 to 12.
        month: u32,
    ) -> Result<String, ToolError> {
        match month {
            2 => Err(ToolError::new("the books of February are lost")),
            month => Ok(format!("{}", 1000 + 70 * month)),
        }
    }

    if let Err(missing) = Code::default().check() {
        println!("This machine cannot run programs: {missing}");
        return Ok(());
    }
    let program = r#"
total, lost = 0, []
for month in range(1, 13):
    try:
        total += int(call("sales", {"month": month}))
    except ToolError as error:
        lost.append(f"{month}: {error}")
print(f"{total} euro; not counted: {lost}")

try:
    open("/etc/passwd")
except OSError as error:
    print("outside:", error.strerror)
"#;
    let python = Agent::new("python")
        .description("Runs a Python program and answers with what it prints. `call(\"sales\", {\"month\": 3})` calls a tool.")
        .behavior(BehaviorSpec::new("code").settings(json!({ "timeout_s": 20, "max_calls": 20 })))
        .tool(sales);
    let asks = ToolCall::new("1", "delegate_to_python", json!({ "task": program }));
    let model = ScriptedModel::from_fn(move |request, _| {
        let last = request.conversation.last();
        let results = last.iter().flat_map(|message| message.tool_results());
        let read: String = results.map(|result| result.text.as_str()).collect();
        Ok(match read.as_str() {
            "" => ModelResponse::tool_calls([asks.clone()]),
            read => ModelResponse::text(format!("The program said:\n{read}")),
        })
    });
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model)
        .team(Agent::new("desk").delegate_to(python).into_team()?)
        .start()
        .await?;
    let run = system
        .session("desk", "ada")
        .send("What did we sell this year?")
        .await?;
    println!("{}", run.outcome().await?.text());
    // Every call of the program is in the record.
    let records = run.events().so_far().await?;
    let calls = records.iter().filter(|record| {
        matches!(&record.event, Event::ToolCalled { result, .. } if result.name == "sales")
    });
    println!("{} calls are recorded", calls.count());
    system.stop().await?;
    Ok(())
}
