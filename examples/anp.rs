//! Agents that find each other: services announce themselves in a registry, and an agent asks it for one that fits.
//!
//! `cargo run --example anp --features anp,server`
#![allow(clippy::print_stdout)]

use ghostlight::{anp::RegistrySearch, prelude::*, server::Server, vocabulary::ToolCall};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The registry is a part of every server.
    let team = Agent::new("host").model(OfflineModel).into_team()?;
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .team(team);
    let system = system.start().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let at = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(Server::new(system.clone()).serve(listener, stopped));

    // Two services say what they can do, and how busy they are. They say so again every minute.
    for (id, load) in [("verses", 3.0), ("rhymes", 0.0)] {
        let endpoint = format!("https://{id}.example.org/a2a");
        let service = json!({
            "id": id, "type": "poet", "capabilities": ["verse"], "load": load, "endpoints": [endpoint],
        });
        announce(at, &service.to_string()).await?;
    }

    // An agent whose tool asks that registry, and no other. The scripted model stands for one that wants a poet, and says
    // what the registry told.
    let search = RegistrySearch::new("find_services", &format!("http://{at}"))?;
    let model = ScriptedModel::from_fn(|request, _| {
        let last = request.conversation.last();
        let mut told = last.iter().flat_map(|said| said.tool_results());
        Ok(match told.next() {
            Some(result) => ModelResponse::text(&result.text),
            None => {
                let wanted = json!({ "type": "poet", "capabilities": ["verse"] });
                ModelResponse::tool_calls([ToolCall::new("1", "find_services", wanted)])
            }
        })
    });
    let desk = Agent::new("desk").model(model).tool(search);
    println!("{}", desk.run("Who writes a verse for us?").await?);

    let _ = stop.send(());
    served.await??;
    system.stop().await?;
    Ok(())
}

/// Announces a service, as any program may over HTTP.
async fn announce(at: std::net::SocketAddr, service: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(at).await?;
    let request = format!(
        "POST /anp-registry/services HTTP/1.1\r\nhost: {at}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{service}",
        service.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    println!("{service}: {}", answer.lines().next().unwrap_or_default());
    Ok(())
}
