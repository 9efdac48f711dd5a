//! A team that others reach by A2A, and a second team with an agent that stands for the first: the second asks, the
//! first answers.
//!
//! `cargo run --example a2a --features a2a,server`
#![allow(clippy::print_stdout)]

#[cfg(all(feature = "a2a", feature = "server"))]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    use ghostlight::{
        a2a::{A2aClient, ClientSettings, RemoteAgent},
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
    let at = format!("http://{}/a2a/clerk", listener.local_addr()?);
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(Server::new(elsewhere.clone()).serve(listener, stopped));

    let card = A2aClient::new(ClientSettings::new(&at))?.card().await?;
    println!(
        "{} {}, by {}",
        card.name, card.description, card.supported_interfaces[0].protocol_binding
    );

    // Here: a desk, one of whose agents is the clerk.
    let clerk = RemoteAgent::new("clerk", ClientSettings::new(&at)).into_agent()?;
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
