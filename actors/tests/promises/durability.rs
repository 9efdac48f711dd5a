//! What a crash may lose, by the durability of the team.

use ghostlight_actors::{
    actor::System,
    contract::DynStore,
    definition::Durability,
    run::{Agent, RunContext, operations::Scope},
    session::Turn,
    testing::{Fault, FaultyStore, Harm, InMemoryStore, Strike},
    vocabulary::{Effect, Message, Outcome},
};

use crate::stage::{Stage, ask, call, pause, silent, text};

const WINDOW: usize = Durability::WINDOW as usize;

/// Puts one thing after the other, then charges.
fn busy(stage: &Stage, calls: usize) -> Agent {
    let agent = Agent::from_fn("busy", move |cx: RunContext| async move {
        for number in 0..calls {
            cx.tool_unasked(call(&format!("put {number}"), "put"))
                .await?;
        }
        let charged = cx.tool_unasked(call("charge", "charge")).await?;
        Ok(Outcome::answer(charged.text))
    });
    let agent = agent.tool(stage.tool("put", Effect::Idempotent, 1));
    agent.tool(stage.tool("charge", Effect::Once, 1))
}

/// A System whose second commit, and with it every later one, never comes to an end.
async fn stuck(stage: &Stage, calls: usize, durability: Durability) -> System {
    let fault = Fault {
        call: 2,
        strike: Strike::Before,
        harm: Harm::Crash,
    };
    let store = FaultyStore::at_commit(stage.store.clone(), fault);
    let team = busy(stage, calls).into_team().unwrap();
    let builder = System::builder(store).model("default", silent());
    let builder = builder.team(team.durability(durability));
    builder.start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn under_async_the_world_runs_ahead_of_the_disk_by_the_window_and_no_further() {
    for (durability, puts) in [(Durability::Sync, 1), (Durability::Async, WINDOW + 1)] {
        let mut stage = Stage::new();
        let calls = 3 * WINDOW;
        let system = stuck(&stage, calls, durability).await;
        let run = ask(&system, "busy", "go").await.id();
        pause(10_000).await;
        assert_eq!(stage.log.count("put"), puts, "{durability:?}");

        // The crash loses what the window holds, and the next process does that again.
        stage.crash(&system).await;
        assert_eq!(stage.entries(run).await.len(), 1);
        let team = busy(&stage, calls).into_team().unwrap();
        let builder = System::builder(stage.store.clone()).model("default", silent());
        let system = builder.team(team.durability(durability));
        let system = system.start().await.unwrap();
        text(&system.run(run)).await;
        assert_eq!(stage.log.count("put"), puts + calls, "{durability:?}");
        assert_eq!(stage.log.count("charge"), 1);
        assert_eq!(stage.ends(run).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn under_async_a_once_call_begins_only_when_all_before_it_is_durable() {
    for durability in [Durability::Sync, Durability::Async] {
        let stage = Stage::new();
        let system = stuck(&stage, 3, durability).await;
        let _run = ask(&system, "busy", "go").await;
        pause(10_000).await;
        assert_eq!(stage.log.count("charge"), 0, "{durability:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn in_memory_nothing_is_written_and_all_else_holds_while_the_process_lives() {
    let mut stage = Stage::new();
    let panics = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let helper = Agent::from_fn("helper", |cx: RunContext| async move {
        let state = cx.state(Scope::App);
        let all: u32 = state
            .update("all", |all: Option<u32>| all.unwrap_or(0) + 1)
            .await?;
        Ok(Outcome::answer(format!("{} {all}", cx.input().content())))
    });
    let agent = Agent::from_fn("desk", move |cx: RunContext| {
        let panics = panics.clone();
        async move {
            cx.tool_unasked(call("1", "put")).await?;
            if panics.swap(false, std::sync::atomic::Ordering::AcqRel) {
                panic!("once");
            }
            let helped = cx.delegate("helper", "help").await?;
            Ok(Outcome::answer(helped.text))
        }
    });
    let agent = agent.agent(helper);
    let agent = agent.tool(stage.tool("put", Effect::Once, 1));
    let durable = Agent::from_fn("clerk", |_: RunContext| async move {
        Ok(Outcome::answer("kept"))
    });
    let disk = FaultyStore::new(stage.store.clone());
    let build = |store: FaultyStore<InMemoryStore>| {
        let team = agent.clone().into_team().unwrap();
        let builder = System::builder(store).model("default", silent());
        let builder = builder.team(team.durability(Durability::Memory));
        builder.team(durable.clone().into_team().unwrap())
    };
    let system = build(disk.clone()).start().await.unwrap();

    let run = ask(&system, "desk", "go").await;
    assert_eq!(text(&run).await, "help 1");
    // The run was started again after its panic, and did nothing twice.
    assert_eq!(stage.log.count("put"), 1);
    let again = system
        .session("desk", "s")
        .send(Turn::text("go").id("2"))
        .await
        .unwrap();
    assert_eq!(text(&again).await, "help 2");
    let same = system
        .session("desk", "s")
        .send(Turn::text("go").id("2"))
        .await
        .unwrap();
    assert_eq!(same.id(), again.id());
    let events = run.events().so_far().await.unwrap();
    assert!(events.len() > 4, "{events:?}");
    assert_eq!(system.runs(Default::default()).await.unwrap().len(), 4);
    assert_eq!(disk.calls(), 0, "commits");
    assert_eq!(stage.rows().await, []);

    // A team beside it is durable, and is listed with it.
    assert_eq!(text(&ask(&system, "clerk", "go").await).await, "kept");
    assert_eq!(system.runs(Default::default()).await.unwrap().len(), 5);
    assert_eq!(stage.rows().await.len(), 1);

    let run = run.id();
    stage.crash(&system).await;
    let system = build(FaultyStore::new(stage.store.clone()))
        .start()
        .await
        .unwrap();
    assert_eq!(system.store().run(run).await.unwrap(), None);
    assert_eq!(text(&ask(&system, "desk", "go").await).await, "help 1");
}

#[tokio::test(start_paused = true)]
async fn runs_that_a_team_left_on_disk_wait_while_it_works_in_memory() {
    let mut stage = Stage::new();
    let team = |durability| {
        let waits = Agent::from_fn("waits", |cx: RunContext| async move {
            cx.sleep(std::time::Duration::from_secs(60)).await?;
            Ok(Outcome::answer("done"))
        });
        waits.into_team().unwrap().durability(durability)
    };
    let start = async |store: InMemoryStore, durability| {
        let builder = System::builder(store).model("default", silent());
        builder.team(team(durability)).start().await.unwrap()
    };
    let system = start(stage.store.clone(), Durability::Sync).await;
    let run = ask(&system, "waits", "go").await.id();
    stage.crash(&system).await;

    let system = start(stage.store.clone(), Durability::Memory).await;
    pause(120_000).await;
    let refused = system.resume(run, false).await.unwrap_err().to_string();
    assert!(refused.contains("keeps its runs in memory"), "{refused}");
    assert!(
        !stage
            .store
            .run(run)
            .await
            .unwrap()
            .unwrap()
            .status
            .is_ended()
    );
    stage.crash(&system).await;

    let system = start(stage.store.clone(), Durability::Sync).await;
    assert_eq!(text(&system.run(run)).await, "done");
}

/// Of the journals that are closed, those that closed last are kept in memory.
#[tokio::test(start_paused = true)]
async fn a_run_in_memory_is_told_by_its_first_id_when_its_first_journals_are_gone() {
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let number: usize = cx.input().content().parse().unwrap();
        if number <= InMemoryStore::KEPT + 100 {
            return Ok(cx.continue_as((number + 1).to_string()));
        }
        let told: Message = cx.receive().await?;
        Ok(Outcome::answer(told.content()))
    });
    let team = agent.into_team().unwrap().durability(Durability::Memory);
    let builder = System::builder(InMemoryStore::new()).team(team);
    let system = builder.start().await.unwrap();
    let run = ask(&system, "a", "1").await;
    pause(600_000).await;
    run.tell(&Message::user("well")).await.unwrap();
    assert_eq!(text(&run).await, "well");
}

#[tokio::test(start_paused = true)]
async fn sessions_that_a_team_left_on_disk_do_not_cut_a_list_short() {
    const SESSIONS: usize = 130;
    let stage = Stage::new();
    let team = |name: &str| {
        let says = Agent::from_fn(name, |_: RunContext| async { Ok(Outcome::answer("yes")) });
        says.into_team().unwrap()
    };
    let start = async |store: InMemoryStore, durability| {
        let builder = System::builder(store).team(team("stays"));
        let builder = builder.team(team("leaves").durability(durability));
        builder.start().await.unwrap()
    };
    let system = start(stage.store.clone(), Durability::Sync).await;
    for number in 0..SESSIONS {
        // One of each team in turn, up to its place.
        let team = if number % 2 == 0 { "stays" } else { "leaves" };
        let session = system.session(team, number.to_string());
        text(&session.send("go").await.unwrap()).await;
    }
    system.stop().await.unwrap();
    let system = start(stage.store.another_process(), Durability::Memory).await;
    let page = system.sessions().list(Default::default()).await.unwrap();
    assert_eq!(page.sessions.len(), SESSIONS / 2);
}
