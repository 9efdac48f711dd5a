//! Systems of one agent, whose function is a closure over its context.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::{Run, System, SystemOptions},
    contract::{StoreHandle, SystemClock},
    run::{Agent, RunContext},
    session::Turn,
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{AgentError, ModelResponse, Outcome},
};
use ghostlight_memory::{Memory, MemoryScope, NewMemory, ScopedMemory};

pub(crate) struct Stage {
    pub(crate) store: InMemoryStore,
    pub(crate) clock: SystemClock,
}

pub(crate) fn memory() -> Memory {
    Memory::new("memory")
}

pub(crate) fn silent() -> ScriptedModel {
    ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("done")))
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            store: InMemoryStore::new(),
            clock: SystemClock::new(),
        }
    }

    pub(crate) async fn start(&self, agent: Agent) -> System {
        // Nothing comes from other processes here, so that hours are over in no time.
        let mut limits = SystemOptions::default();
        limits.poll_interval = Duration::from_secs(600);
        System::builder(StoreHandle::new(self.store.clone()))
            .options(limits)
            .clock(self.clock.clone())
            .model("default", silent())
            .team(agent.into_team().unwrap())
            .start()
            .await
            .unwrap()
    }
}

/// An agent whose function is this.
pub(crate) fn agent<F, Fut>(act: F) -> Agent
where
    F: Fn(RunContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, AgentError>> + Send + 'static,
{
    let act = Arc::new(act);
    Agent::from_fn("desk", move |cx: RunContext| {
        let act = act.clone();
        async move { Ok(Outcome::answer(act(cx).await?)) }
    })
}

/// Does this in one run of a System of its own, and gives the answer.
pub(crate) async fn once<F, Fut>(act: F) -> String
where
    F: Fn(RunContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, AgentError>> + Send + 'static,
{
    let system = Stage::new().start(agent(act)).await;
    let text = say(&system, "ada", "go").await;
    system.stop().await.unwrap();
    text
}

/// Does this in turns of one session, each after a time, and is told which turn it is.
pub(crate) async fn after<F, Fut>(pauses: &[u64], act: F)
where
    F: Fn(RunContext, usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), AgentError>> + Send + 'static,
{
    let act = Arc::new(act);
    let team = agent(move |cx| {
        let act = act.clone();
        async move {
            let turn = cx.input().content().parse().unwrap();
            act(cx, turn).await.map(|()| "done".to_owned())
        }
    });
    let system = Stage::new().start(team).await;
    for (turn, hours) in pauses.iter().enumerate() {
        tokio::time::advance(Duration::from_secs(hours * 3600)).await;
        say(&system, "ada", &turn.to_string()).await;
    }
    system.stop().await.unwrap();
}

pub(crate) async fn send(system: &System, session: &str, owner: &str, text: &str) -> Run {
    let turn = Turn::text(text).owner(owner);
    system.session("desk", session).send(turn).await.unwrap()
}

pub(crate) async fn say(system: &System, owner: &str, text: &str) -> String {
    let run = send(system, &format!("of-{owner}"), owner, text).await;
    run.outcome().await.unwrap().text().to_owned()
}

/// The contents of all items, by name of the id.
pub(crate) async fn contents(memory: &ScopedMemory<'_>) -> Result<Vec<String>, AgentError> {
    let mut items = memory.list([]).await?;
    items.sort_by(|a, b| a.content.cmp(&b.content));
    Ok(items.into_iter().map(|item| item.content).collect())
}

pub(crate) fn user(cx: &RunContext) -> ScopedMemory<'_> {
    memory().on(cx, MemoryScope::User)
}

pub(crate) fn session(cx: &RunContext) -> ScopedMemory<'_> {
    memory().on(cx, MemoryScope::Session)
}

pub(crate) fn fact(text: &str) -> NewMemory {
    NewMemory::fact(text)
}
