//! Agents of another service: found in a registry (ANP), and asked by Agent2Agent with a signed card (takes 1 s).
//!
//!     cargo run --example remote_agents --features a2a,anp,server
//!
//! The service signs its card, and the desk trusts no card of another key. A question of the remote agent is a question of
//! the desk's own run.
#![allow(clippy::print_stdout)]

use ghostlight::{
    a2a::{A2aClient, CardKey, CardSigner, ClientOptions, RemoteAgent},
    anp::RegistrySearch,
    prelude::*,
    server::Server,
    vocabulary::ToolCall,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

/// The key of RFC 8037, which everybody knows. A key of your own is made by `openssl genpkey -algorithm ed25519`.
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Elsewhere: a clerk who wants to know more before he answers. A registry is a part of every server.
    let clerk = Agent::from_fn("clerk", |cx: RunContext| async move {
        let colour = cx.ask("Which colour?").await?;
        let order = cx.input().content();
        Ok(Outcome::answer(format!("{order}: {colour}")))
    });
    let elsewhere = System::builder(InMemoryStore::new())
        .team(clerk.description("takes orders").into_team()?)
        .start()
        .await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let at = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let signer = CardSigner::from_pem(KEY)?;
    // The public key, which the operator of the clerk gives to others.
    let public_key = signer.public_key().jwk().to_string();
    let server = Server::new(elsewhere.clone())
        .address(format!("http://{at}"))
        .card_signer(signer);
    let served = tokio::spawn(server.serve(listener, stopped));

    // Services say what they can do, and how busy they are. They say so again every minute.
    for (id, load) in [("clerk", 0.0), ("another-clerk", 3.0)] {
        let endpoint = format!("http://{at}/a2a/{id}");
        let service = json!({
            "id": id, "type": "clerk", "capabilities": ["orders"], "load": load, "endpoints": [endpoint],
        });
        announce(at, &service.to_string()).await?;
    }

    let settings =
        ClientOptions::new(format!("http://{at}/a2a/clerk")).signed_by(CardKey::read(&public_key)?);
    let card = A2aClient::new(settings.clone())?.card().await?;
    let binding = &card.supported_interfaces[0].protocol_binding;
    println!("{} {}, by {binding}", card.name, card.description);

    // Here: a desk that asks the registry, and one of its agents is the clerk.
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        let wanted = json!({ "type": "clerk", "capabilities": ["orders"] });
        let search = ToolCall::new("1", "find_services", wanted);
        let found = cx.tool(search).await?.text;
        let order = cx.delegate("clerk", "a chair").await?.text;
        Ok(Outcome::answer(format!("Found {found}\nOrdered {order}.")))
    });
    let desk = desk
        .tool(RegistrySearch::new(
            "find_services",
            &format!("http://{at}"),
        )?)
        .agent(RemoteAgent::new("clerk", settings).into_agent()?);
    let system = System::builder(InMemoryStore::new())
        .team(desk.into_team()?)
        .start()
        .await?;
    let run = system.session("desk", "one").send("Order a chair.").await?;
    let (_, operation, question) = loop {
        match run.questions().await?.pop() {
            Some(asked) => break asked,
            None => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
        }
    };
    println!("{} asks: {}", question.path.join("/"), question.prompt);
    run.answer(operation, "red".into()).await?;
    println!("{}", run.outcome().await?.text());

    system.stop().await?;
    let _ = stop.send(());
    served.await??;
    elsewhere.stop().await?;
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
