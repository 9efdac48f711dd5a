//! A team that others reach by A2A, and a second team with an agent that stands for the first: the second asks, the
//! first answers. The first signs its card, and the second trusts no card of another key.
//!
//! `cargo run --example a2a --features a2a,server`
#![allow(clippy::print_stdout)]

/// The key of RFC 8037, which everybody knows. A key of your own is made by `openssl genpkey -algorithm ed25519`.
#[cfg(all(feature = "a2a", feature = "server"))]
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----";

#[cfg(all(feature = "a2a", feature = "server"))]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    use ghostlight::{
        a2a::{A2aClient, CardKey, CardSigner, ClientOptions, RemoteAgent},
        prelude::*,
        server::Server,
    };
    use tokio::{net::TcpListener, sync::oneshot};

    // Elsewhere: a clerk who wants to know more before he answers.
    let clerk = Agent::from_fn("clerk", |cx: RunContext| async move {
        let colour = cx.ask("Which colour?").await?;
        Ok(Outcome::answer(format!(
            "{}: {colour}",
            cx.input().content()
        )))
    });
    let clerk = clerk.description("takes orders").into_team()?;
    let elsewhere = System::builder(InMemoryStore::new())
        .team(clerk)
        .start()
        .await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let at = format!("{address}/a2a/clerk");
    let (stop, stopped) = oneshot::channel::<()>();
    let signer = CardSigner::from_pem(KEY)?;
    // The public key, which the operator of the clerk gives to others.
    let public_key = signer.public_key().jwk().to_string();
    let server = Server::new(elsewhere.clone())
        .address(address)
        .card_signer(signer);
    let served = tokio::spawn(server.serve(listener, stopped));

    let settings = ClientOptions::new(&at).signed_by(CardKey::read(&public_key)?);
    let card = A2aClient::new(settings.clone())?.card().await?;
    println!(
        "{} {}, by {}",
        card.name, card.description, card.supported_interfaces[0].protocol_binding
    );

    // Here: a desk, one of whose agents is the clerk.
    let clerk = RemoteAgent::new("clerk", settings).into_agent()?;
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        let order = cx.delegate("clerk", "a chair").await?;
        Ok(Outcome::answer(format!("Ordered {}.", order.text)))
    });
    let team = desk.agent(clerk).into_team()?;
    let system = System::builder(InMemoryStore::new())
        .team(team)
        .start()
        .await?;
    let run = system.session("desk", "one").send("Order a chair.").await?;
    // What is asked there is asked here.
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

#[cfg(not(all(feature = "a2a", feature = "server")))]
fn main() {
    println!("run it with --features a2a,server");
}
