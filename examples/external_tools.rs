//! Tools from elsewhere: an MCP server, an OpenAPI document, and a program that a model writes (takes 1 s).
//!
//!     cargo run --example external_tools --features code,mcp
//!
//! The program starts itself as the server of the Model Context Protocol, and as the launcher that gives up its rights
//! before it becomes the model's program (on Linux only).
#![allow(clippy::print_stdout)]

use std::{error::Error, process::ExitCode};

use ghostlight::{
    contract::ToolsetHandle,
    definition::BehaviorSpec,
    mcp::{McpServer, McpToolset, ServerSpec},
    prelude::*,
    tools::{OpenApi, OpenApiSpec},
    vocabulary::{Event, ToolCall, ToolFilter},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    #[cfg(unix)]
    if let Some(code) = ghostlight::tools::launcher::run() {
        return Ok(code);
    }
    tokio::runtime::Runtime::new()?.block_on(async {
        if std::env::args().nth(1).as_deref() == Some("server") {
            return server().await;
        }
        ask_clerk().await?;
        track_parcel().await?;
        #[cfg(unix)]
        totals().await?;
        Ok::<_, Box<dyn Error>>(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A clerk who calculates, on the standard streams.
async fn server() -> Result<(), Box<dyn Error>> {
    let clerk = Agent::new("clerk")
        .model(OfflineModel)
        .tool_named("calculator");
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .team(clerk.into_team()?);
    let system = system.start().await?;
    let server = McpServer::new(system.clone())
        .team("clerk", "Calculates what it is asked.")
        .skills("examples/skills")?;
    server.serve_stdio().await?;
    system.stop().await?;
    Ok(())
}

/// A desk that has the clerk as a tool.
async fn ask_clerk() -> Result<(), Box<dyn Error>> {
    // Most programs name another program here, such as `mcp-server-time`.
    let this = std::env::current_exe()?;
    let server = ServerSpec::command(this.to_string_lossy())
        .arg("server")
        .skills();
    // Whoever asks the clerk twice gets the same answer twice.
    let office = McpToolset::new("office", server.effect("*", Effect::Read))?;
    let skills = office.skills().await.map_err(|error| error.message)?;
    for skill in skills {
        println!(
            "the server has the skill {}: {}",
            skill.name, skill.description
        );
    }
    let model = ScriptedModel::from_fn(|request, _| {
        let last = request.conversation.get(request.conversation.len() - 1);
        Ok(match request.conversation.len() {
            1 => {
                let question = json!({ "message": "What is 17% of 2340?" });
                ModelResponse::tool_calls([ToolCall::new("c1", "office_clerk", question)])
            }
            _ => {
                let results = last.iter().flat_map(|message| message.tool_results());
                ModelResponse::text(
                    results
                        .map(|result| result.text.as_str())
                        .collect::<String>(),
                )
            }
        })
    });
    let desk = Agent::new("desk").model(model.clone()).toolset(
        "office",
        ToolsetHandle::new(office.clone()).prefixed("office_"),
    );
    let answer = desk.run("What is 17% of 2340?").await?;
    for tool in model.seen()[0].request.tools.iter() {
        println!("the server offers {}: {}", tool.name, tool.description);
    }
    println!("the clerk answers: {answer}");
    assert!(
        model.calls() == 2
            && format!("{:?}", model.seen()[1].request.conversation).contains("397.8")
    );
    Ok(())
}

/// Uses operations of an OpenAPI document as tools. The offline model picks the operation by its words; the server sees the
/// key that the program gave, and the model does not.
async fn track_parcel() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(parcel_server(listener));

    let settings = OpenApiSpec::new("examples/documents/parcels.yaml")
        .base_url(format!("http://{address}/v1"))
        .allow_address("127.0.0.1")
        .credential("key", "a-key-of-this-program");
    let parcels = ToolsetHandle::new(OpenApi::open(settings)?)
        .only(ToolFilter::names(["track_parcel", "send_parcel"]));
    for tool in parcels.tools().map_err(|error| error.message)?.iter() {
        let definition = tool.definition();
        println!(
            "{} ({:?}): {:?}",
            definition.name, definition.effect, definition.description
        );
    }

    let desk = Agent::new("desk")
        .model(OfflineModel)
        .toolset("parcels", parcels);
    println!("{}", desk.run("Where is parcel 4711?").await?);
    Ok(())
}

/// Answers each request with the line that asked for it.
async fn parcel_server(listener: TcpListener) -> std::io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut request = vec![0; 8_192];
        let read = stream.read(&mut request).await?;
        let request = String::from_utf8_lossy(&request[..read]).into_owned();
        let line = request.lines().next().unwrap_or_default();
        let has_key = request.contains("x-api-key: a-key-of-this-program");
        println!("the server was asked: {line} (with the key: {has_key})");
        let body = r#"{"number": 4711, "place": "the depot in Köln"}"#;
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await?;
    }
}

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

/// Runs a program that a model writes: it calls a tool twelve times, adds up, and the model reads one line. The program runs
/// in a Python interpreter that reaches only the system's libraries, and neither the network nor other processes.
#[cfg(unix)]
async fn totals() -> Result<(), Box<dyn Error>> {
    if let Err(missing) = ghostlight::tools::Code::default().check() {
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
