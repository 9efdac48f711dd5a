//! The agents that hold sessions: found, started, and ended.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ractor::{ActorRef, ActorRuntime};
use tokio::sync::oneshot;

use super::{
    SystemError,
    agent::AgentActor,
    agent_command::AgentCommand,
    poll_interval::PollInterval,
    shared::Shared,
    supervised_ref::SupervisedRef,
    supervisor::{Child, ChildError, ChildSpec, Shutdown},
};
use crate::vocabulary::SessionId;

/// How many times, one millisecond apart, it is checked whether an agent that retires has ended.
const LOOKS_FOR_END: u32 = 20;

/// The shortest and the longest pause between two looks whether an agent has started.
const START_LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));
/// How often the agent of a session is asked, where it is lost over the question.
const TRIES: u32 = 4;
/// The pause before it is asked again; it grows with each time.
const PAUSE: Duration = Duration::from_millis(50);

fn lost(session: &SessionId, reason: String) -> SystemError {
    let session = session.to_string();
    SystemError::AgentLost { session, reason }
}

/// A session that no agent of this process takes up until this is dropped.
pub(crate) struct HeldSession {
    shared: Arc<Shared>,
    session: SessionId,
}

impl Drop for HeldSession {
    fn drop(&mut self) {
        self.shared.held.lock().remove(&self.session);
    }
}

impl Shared {
    /// Keeps agents from taking up a session that is about to be deleted or rewound. `None` while an
    /// agent takes it up, and where it is held already.
    pub(crate) fn hold(self: &Arc<Self>, session: &SessionId) -> Option<HeldSession> {
        let agents = self.agents.lock();
        let starts = agents
            .get(session)
            .is_some_and(|agent| agent.get().is_none());
        let holds = !starts && self.held.lock().insert(session.clone());
        holds.then(|| HeldSession {
            shared: self.clone(),
            session: session.clone(),
        })
    }

    fn is_held(&self, session: &SessionId) -> bool {
        self.held.lock().contains(session)
    }

    /// The place for the agent of a session; `None` while the session is held.
    fn slot_of(&self, session: &SessionId) -> Option<SupervisedRef<AgentCommand>> {
        let mut agents = self.agents.lock();
        let free = !self.is_held(session);
        free.then(|| agents.entry(session.clone()).or_default().clone())
    }

    /// The agent that holds a session, started if need be.
    pub(crate) async fn agent_of(
        self: &Arc<Self>,
        session: &SessionId,
    ) -> Result<ActorRef<AgentCommand>, SystemError> {
        let mut interval = PollInterval::between(START_LOOK.0, START_LOOK.1);
        loop {
            while self.is_held(session) {
                self.services.clock.sleep(Duration::from_millis(5)).await;
            }
            if self.is_stopped() {
                return Err(SystemError::Stopped);
            }
            if let Some(agent) = self.agents.lock().get(session).and_then(SupervisedRef::get) {
                return Ok(agent);
            }
            let supervisor = self.teams_supervisor.read().clone();
            let Some(supervisor) = supervisor else {
                self.services.clock.sleep(Duration::from_millis(5)).await;
                continue;
            };
            let Some(slot) = self.slot_of(session) else {
                continue;
            };
            let child = self.session_child(session, &slot);
            match supervisor.start_child(child).await {
                Ok(_) => {}
                // An earlier agent of the session is ending, or starts again after a pause.
                Err(
                    ChildError::AlreadyStarted | ChildError::AlreadyPresent | ChildError::Ended,
                ) => self.services.clock.sleep(interval.pause()).await,
                Err(error) => {
                    tracing::error!(%session, %error, "the session's agent does not start");
                    return Err(lost(session, error.to_string()));
                }
            }
        }
    }

    /// Asks the agent of a session, and its next incarnations where one is lost over the question.
    pub(crate) async fn ask_agent<T>(
        self: &Arc<Self>,
        session: &SessionId,
        question: impl Fn(oneshot::Sender<T>) -> AgentCommand,
    ) -> Result<T, SystemError> {
        for attempt in 1..=TRIES {
            let agent = self.agent_of(session).await?;
            let (sender, receiver) = oneshot::channel();
            if agent.cast(question(sender)).is_ok()
                && let Ok(answer) = receiver.await
            {
                return Ok(answer);
            }
            if self.is_stopped() {
                return Err(SystemError::Stopped);
            }
            tracing::warn!(%session, attempt, "the session's agent is lost and asked again");
            self.services.clock.sleep(PAUSE * attempt).await;
        }
        Err(lost(
            session,
            format!("it ended {TRIES} times over one request"),
        ))
    }

    fn session_child(
        self: &Arc<Self>,
        session: &SessionId,
        slot: &SupervisedRef<AgentCommand>,
    ) -> Child {
        let spec = ChildSpec::worker(session.to_string())
            .transient()
            .stopped_by(Shutdown::Within(Duration::from_secs(5)));
        let (shared, slot) = (self.clone(), slot.clone());
        let session = Arc::new(session.clone());
        let lives = AtomicBool::new(false);
        Child::new(spec, move |supervisor| {
            let arguments = (shared.clone(), Some(session.clone()));
            let is_next = lives.swap(true, Ordering::AcqRel);
            let (slot, shared, session) = (slot.clone(), shared.clone(), session.clone());
            async move {
                let spawned = ActorRuntime::spawn_linked(None, AgentActor, arguments, supervisor);
                let (agent, task) = spawned.await?;
                slot.set(agent.clone());
                if is_next {
                    // It may have been lost while it was leaving.
                    shared.found_again(&session, slot);
                    let _ = agent.cast(AgentCommand::Recover);
                }
                Ok((agent.get_cell(), task))
            }
        })
        .at_once()
    }

    /// Ends an agent; its next message starts it again. `false` when the agent has something to do,
    /// and stays.
    pub(crate) async fn end_agent(&self, session: &SessionId) -> bool {
        // From here on the agent cannot be found. It deals with earlier messages, or stays for
        // them.
        let Some(slot) = self.agents.lock().remove(session) else {
            return true;
        };
        let agent = slot.get().map(|agent| agent.get_id());
        let (sender, retired) = oneshot::channel();
        let told = slot
            .send(AgentCommand::Leave(slot.clone(), Some(sender)))
            .is_ok();
        let retired = if told { retired.await.ok() } else { Some(true) };
        if retired != Some(true) {
            // The agent has something to do, or was lost before it could answer and is started
            // again.
            self.found_again(session, slot);
            return false;
        }
        let supervisor = self.teams_supervisor.read().clone();
        if let Some(supervisor) = supervisor {
            let id = session.to_string();
            // The agent is forgotten only after its last work, such as keeping a checkpoint, has ended.
            for _ in 0..LOOKS_FOR_END {
                let found = supervisor.find_child(&id).await.ok().flatten();
                if found.is_none_or(|found| Some(found.get_id()) != agent) {
                    return true;
                }
                self.services.clock.sleep(Duration::from_millis(1)).await;
            }
        }
        true
    }

    /// Lets an agent that has nothing to do end, once it has dealt with earlier messages. From here on it cannot be
    /// found.
    pub(crate) fn passivate(&self, session: &SessionId, agent: &ActorRef<AgentCommand>) {
        let mut agents = self.agents.lock();
        let found = agents.get(session).and_then(SupervisedRef::get);
        if found.is_some_and(|found| found.get_id() == agent.get_id())
            && let Some(slot) = agents.remove(session)
        {
            drop(agents);
            let _ = agent.cast(AgentCommand::Leave(slot, None));
        }
    }

    /// Makes an agent that stays after all the one that is found for its session again.
    pub(crate) fn found_again(&self, session: &SessionId, slot: SupervisedRef<AgentCommand>) {
        let mut agents = self.agents.lock();
        let found = agents.entry(session.clone()).or_default();
        if found.get().is_none() {
            *found = slot;
        }
    }
}
