//! A team for editors (Agent Client Protocol), and an editor that goes away and comes back (takes 1 s).
//!
//! The editor goes away while it is asked for a permission. When it comes back, it is shown the conversation and how the
//! run goes on.
//!
//! `cargo run --example editor --features acp`
#![allow(clippy::print_stdout)]

use ghostlight::{
    acp::{
        AcpServer,
        wire::{Incoming, Lines, Peer, RequestError, connect},
    },
    definition::ApprovalRule,
    prelude::*,
    testing::InMemoryStore,
    vocabulary::ToolCall,
};
use serde_json::{Value, json};
use tokio::io::{BufReader, DuplexStream, ReadHalf};

/// Sends a letter.
#[tool(effect = "once")]
async fn send_letter(to: String) -> Result<String, ToolError> {
    Ok(format!("sent to {to}"))
}

/// The editor's end of a connection.
type Reading = Lines<BufReader<ReadHalf<DuplexStream>>>;

/// Connects an editor with the team, over a pipe in the place of the standard streams of `ghostlight protocol acp TEAM.yaml`.
fn editor(system: &System) -> (Reading, Peer) {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let server = AcpServer::new(system.clone(), "desk");
    tokio::spawn(async move {
        let (read, write) = tokio::io::split(theirs);
        server.serve(read, write).await
    });
    let (read, write) = tokio::io::split(ours);
    connect(BufReader::new(read), write)
}

/// What an editor waits for.
enum Heard {
    /// The result of its request.
    Result(Value),
    /// A permission request, with its id.
    Asked(Value),
}

/// Shows updates until the request has its result, or a permission is asked for.
async fn until(
    lines: &mut Reading,
    request: impl Future<Output = Result<Value, RequestError>>,
) -> Result<Heard, Box<dyn std::error::Error>> {
    tokio::pin!(request);
    loop {
        let incoming = tokio::select! {
            biased;
            incoming = lines.next() => incoming?,
            result = &mut request => return Ok(Heard::Result(result?)),
        };
        match incoming {
            Some(Incoming::Notification { params, .. }) => show(&params["update"]),
            Some(Incoming::Request { id, params, .. }) => {
                println!("  it asks: {}", params["toolCall"]["title"]);
                return Ok(Heard::Asked(id));
            }
            None => return Err("the team is gone".into()),
        }
    }
}

fn show(update: &Value) {
    let texts = [
        &update["content"]["text"],
        &update["title"],
        &update["status"],
    ];
    let text = texts.iter().find_map(|text| text.as_str());
    let kind = update["sessionUpdate"].as_str();
    println!(
        "  {}: {}",
        kind.unwrap_or_default(),
        text.unwrap_or_default()
    );
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::replies([
        ModelResponse::tool_calls([ToolCall::new("1", "send_letter", json!({ "to": "Ada" }))]),
        ModelResponse::text("The letter is on its way."),
        ModelResponse::text("You are welcome."),
    ]);
    let desk = Agent::new("desk")
        .tool(send_letter)
        .approval("send_letter", ApprovalRule::required());
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model)
        .team(desk.into_team()?)
        .start()
        .await?;
    let prompt = |session: &Value, text: &str| json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });

    println!("an editor wants a letter to be sent, and goes away when it is asked:");
    let (mut lines, peer) = editor(&system);
    let setup = json!({ "cwd": "/home/ada/shop", "mcpServers": [] });
    let Heard::Result(begun) = until(&mut lines, peer.request("session/new", &setup)).await? else {
        return Err("a session begins with a permission".into());
    };
    let session = begun["sessionId"].clone();
    let wanted = prompt(&session, "Send a letter to Ada.");
    until(&mut lines, peer.request("session/prompt", &wanted)).await?;
    drop((lines, peer));

    println!("it comes back, and says yes:");
    let (mut lines, peer) = editor(&system);
    let mut setup = setup;
    setup["sessionId"] = session.clone();
    let loaded = async {
        let _: Value = peer.request("session/load", &setup).await?;
        std::future::pending().await
    };
    if let Heard::Asked(id) = until(&mut lines, loaded).await? {
        let outcome = json!({ "outcome": "selected", "optionId": "0" });
        peer.respond(&id, Ok(json!({ "outcome": outcome }))).await?;
    }
    let thanks = prompt(&session, "Thank you.");
    let heard = until(&mut lines, peer.request("session/prompt", &thanks)).await?;
    if let Heard::Result(ended) = heard {
        println!("the prompt ends: {}", ended["stopReason"]);
    }
    system.stop().await?;
    Ok(())
}
