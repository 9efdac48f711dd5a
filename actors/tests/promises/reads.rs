//! What may begin before what precedes it is durable.

use ghostlight_actors::{
    actor::System,
    run::{Agent, RunContext},
    testing::{Fault, FaultyStore, Harm, Strike},
    vocabulary::{Effect, Outcome},
};

use crate::stage::{Stage, ask, call, pause, silent};

#[tokio::test(start_paused = true)]
async fn a_read_begins_while_what_precedes_it_is_committed_and_an_effect_does_not() {
    for (effect, begun) in [
        (Effect::Read, 1),
        (Effect::Idempotent, 0),
        (Effect::Once, 0),
    ] {
        let stage = Stage::new();
        let agent = Agent::from_fn("busy", |cx: RunContext| async move {
            cx.now().await?;
            let said = cx.tool_unasked(call("1", "act")).await?;
            Ok(Outcome::answer(said.text))
        });
        let agent = agent.tool(stage.tool("act", effect, 60));
        // The second commit, which holds the time, never comes to an end.
        let fault = Fault {
            call: 2,
            strike: Strike::Before,
            harm: Harm::Crash,
        };
        let store = FaultyStore::at_commit(stage.store.clone(), fault);
        let builder = System::builder(store).model("default", silent());
        let builder = builder.team(agent.into_team().unwrap());
        let system = builder.start().await.unwrap();
        let _run = ask(&system, "busy", "go").await;
        pause(10_000).await;
        assert_eq!(stage.log.count("act"), begun, "{effect:?}");
    }
}
