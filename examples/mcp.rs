//! A team as a server of the Model Context Protocol with skills, and an agent of another team that uses it as a tool. The
//! program starts itself as the server, which then talks to it over its standard streams.

#![allow(clippy::print_stdout)]

#[cfg(feature = "mcp")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("server") => server().await,
        _ => client().await,
    }
}

/// A clerk who calculates, on the standard streams.
#[cfg(feature = "mcp")]
async fn server() -> Result<(), Box<dyn std::error::Error>> {
    use ghostlight::{mcp::McpServer, prelude::*};

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
#[cfg(feature = "mcp")]
async fn client() -> Result<(), Box<dyn std::error::Error>> {
    use ghostlight::{
        contract::ToolsetHandle,
        mcp::{McpToolset, ServerSpec},
        prelude::*,
        vocabulary::ToolCall,
    };
    use serde_json::json;

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

#[cfg(not(feature = "mcp"))]
fn main() {
    println!("build it with --features mcp");
}
