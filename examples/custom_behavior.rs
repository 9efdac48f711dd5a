//! An agent that is a function of your own: a race, a time limit, a side effect that is recorded,
//! state that outlives the run, and a value that is drawn once.
//!
//!     cargo run --example custom_behavior
#![allow(clippy::print_stdout)]

use std::time::Duration;

use ghostlight::{prelude::*, run::operations::Scope};

/// A behavior with settings. What a run learns stays in local variables: replay makes them afresh.
struct Courier {
    patience: Duration,
}

impl Behavior for Courier {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let parcel = cx.input().content();

        // The first of two wins; the other is dropped, and the journal says so. Branches keep the
        // operations of the two apart.
        let (road, rail) = (cx.lane("road"), cx.lane("rail"));
        let routes = vec![
            road.sleep(Duration::from_millis(40)),
            rail.sleep(Duration::from_secs(3600)),
        ];
        let (fastest, arrived) = cx.race(routes).await;
        arrived?;
        let route = ["road", "rail"][fastest];

        // A limit on anything. What it cuts off is cancelled.
        let customs = cx.sleep(Duration::from_secs(3600));
        let customs = match cx.timeout(self.patience, customs).await {
            Ok(cleared) => cleared.map(|()| "cleared")?,
            Err(elapsed) => {
                cx.emit("customs_skipped", &elapsed.to_string());
                "not waited for"
            }
        };

        // A side effect of one's own, with its class. After a crash it is not done again.
        let receipt = cx.uuid().await?;
        let label = format!("{parcel} via {route}, receipt {receipt}");
        let written = cx.step("print the label", Effect::Once, async move {
            std::fs::write("label.txt", &label)?;
            Ok::<_, std::io::Error>(label.len() as u64)
        });
        let bytes = written.await?;

        // Shared by all sessions of the team: read, decided and written as one operation.
        let delivered = cx
            .state(Scope::App)
            .update("delivered", |count: Option<u64>| count.unwrap_or(0) + 1)
            .await?;
        Ok(Outcome::answer(format!(
            "{parcel}: by {route}, customs {customs}, a label of {bytes} bytes, \
             delivery number {delivered}"
        )))
    }
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let courier = Agent::new("courier").behavior(Courier {
        patience: Duration::from_millis(50),
    });
    let system = System::builder(InMemoryStore::new())
        .team(courier.into_team()?)
        .start()
        .await?;

    for (customer, parcel) in [("ada", "a lamp"), ("bob", "a chair")] {
        let run = system.session("courier", customer).send(parcel).await?;
        println!("{}", run.outcome().await?.text());
        for record in run.events().so_far().await? {
            println!("    {record}");
        }
    }
    let label = std::fs::read_to_string("label.txt").unwrap_or_default();
    println!("label.txt: {label}");
    let _ = std::fs::remove_file("label.txt");
    system.stop().await
}
