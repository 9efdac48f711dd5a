//! An agent, a turn, an answer, and a second turn of the same conversation.
//!
//!     cargo run --example hello
//!
//! It needs no key: the agent is a plain function, and its journal stays in memory.
#![allow(clippy::print_stdout)]

use ghostlight::prelude::*;

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let greeter = Agent::from_fn("greeter", |cx: RunContext| async move {
        let turn = cx.input().content();
        let said_before = cx.conversation().messages().len() - 1;
        Ok(Outcome::answer(format!(
            "You said {turn:?}. Before that, {said_before} messages were said here."
        )))
    });

    let system = System::builder(InMemoryStore::new())
        .team(greeter.into_team()?)
        .start()
        .await?;

    let session = system.session("greeter", "ada");
    for turn in ["Hello!", "Do you remember me?"] {
        let run = session.send(turn).await?;
        println!("{turn:<20} -> {}", run.outcome().await?.text());
    }

    // A turn with an id is one run, however often it is sent.
    let first = session.send(Turn::text("Once, please.").id("t-3")).await?;
    let again = session.send(Turn::text("Once, please.").id("t-3")).await?;
    println!("sent twice, one run  -> {}", first.id() == again.id());
    system.stop().await
}
