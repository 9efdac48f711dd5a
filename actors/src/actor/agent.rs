//! An agent: its actor keeps the books and owns the tasks that carry its runs; agents below it are linked to it.

mod asking;
mod children;
mod dispatch;
mod failures;
mod resting;
mod session;
mod steering;

use std::{
    collections::{BTreeMap, VecDeque},
    future::ready,
    sync::{Arc, atomic::AtomicU64},
};

use futures_util::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorRuntime, SupervisionEvent};
use tokio::{
    sync::oneshot,
    task::{self, JoinSet},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use failures::Failures;
pub(super) use steering::item_of;

use super::{
    SystemError,
    agent_command::{AgentCommand, Place, TurnReply},
    launch::load_run,
    live_runs::Route,
    loaded::Claiming,
    services::Services,
    shared::{Shared, TeamEntry},
    wake::WakeReply,
};
use crate::{
    contract::Claim,
    run::{
        ChildReport, ChildStart, Command, Idleness, Incarnation, Loaded, ParentSender, Ports,
        RunCommands, RunSender, RunTask, SessionTail,
    },
    session::{SessionFold, Turn, TurnQueue},
    vocabulary::{AgentError, RunId, SessionId},
};

/// The agent of a session (the team's root, which holds the session), or an agent to which tasks
/// are delegated. Both host runs; an agent of the second kind may host many at once.
pub(crate) struct AgentActor;

pub(crate) struct AgentState {
    myself: ActorRef<AgentCommand>,
    shared: Arc<Shared>,
    session: Option<SessionState>,
    /// Ordered by id, like the maps below, so that a simulation repeats the order of what is
    /// done to all entries.
    runs: BTreeMap<RunId, Box<Hosted>>,
    /// The current run of each hosted child that went on in another journal, by the id under which
    /// the child began: the agents above know only that id.
    gone_on: BTreeMap<RunId, RunId>,
    /// The agents below, by name, with the child runs that they host.
    agents: BTreeMap<String, Below>,
    children: BTreeMap<RunId, ChildStart>,
    loads: JoinSet<()>,
    /// Counts messages, so that a due passivation can tell whether anything happened meanwhile.
    stirred: u64,
    idle_watched: bool,
    recovering: bool,
    /// Whether turns may stand in the session's mailbox, as far as this incarnation knows: one was seen there, or a run was
    /// carried that hears them.
    was_told: bool,
}

/// An agent below.
#[derive(Default)]
struct Below {
    actor: Option<ActorRef<AgentCommand>>,
    failures: Failures,
    /// The agent was lost, and starts again after a pause; work for it waits until then.
    pausing: bool,
}

struct SessionState {
    id: Arc<SessionId>,
    loaded: Option<(SessionFold, Claim)>,
    loading: bool,
    /// The first turn was to make the session, but the session existed already: from then on it is
    /// claimed.
    is_made: bool,
    turns: TurnQueue<TurnReply>,
    /// How many entries the readable checkpoint covers.
    kept: Arc<AtomicU64>,
    /// Turns that came before the journal was read.
    early: Vec<(Turn, TurnReply)>,
    wakes: Vec<(RunId, bool, Option<WakeReply>)>,
    /// The places of runs in `wakes`.
    places: Vec<Place>,
    not_carried: Option<RunId>,
    /// Runs of quarantined turns that are to be retried or cancelled, and wait for their turn.
    reopening: VecDeque<(RunId, bool, Option<WakeReply>)>,
    /// The run for whose questions a task looks, because turns wait for its end.
    looked_at: Option<RunId>,
    /// The message for which the session's mailbox is being read; the next turn waits for that.
    looks: Option<u64>,
    /// Whether the session's mailbox is read after a pause: something that was to be recorded was not.
    looks_later: bool,
    /// The latest turn of the mailbox that the store refused. The one behind it is tried next.
    refused: Option<String>,
}

/// A run that this agent hosts.
struct Hosted {
    /// The task that carries the run now.
    incarnation: Option<AbortOnDropHandle<()>>,
    route: Route,
    /// The receiving end of the run's commands, until an incarnation of the run takes it.
    commands: Option<RunCommands>,
    child: Option<ChildStart>,
    failures: Failures,
    give_up: Option<AgentError>,
    wake: Option<WakeReply>,
    /// The run waits until it is retried or cancelled; nothing of it is under way.
    parked: bool,
    /// Why its last incarnation was lost.
    lost: Option<String>,
}

impl Actor for AgentActor {
    type Msg = AgentCommand;
    type State = AgentState;
    /// The session, for an agent that holds one.
    type Arguments = (Arc<Shared>, Option<Arc<SessionId>>);

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        (shared, session): Self::Arguments,
    ) -> Result<AgentState, ActorProcessingErr> {
        let bound = shared.limits.max_queued_turns;
        let session = session.map(|id| SessionState {
            id,
            loaded: None,
            loading: false,
            is_made: false,
            turns: TurnQueue::new(bound),
            kept: Arc::default(),
            early: Vec::new(),
            wakes: Vec::new(),
            places: Vec::new(),
            not_carried: None,
            reopening: VecDeque::new(),
            looked_at: None,
            looks: None,
            looks_later: false,
            refused: None,
        });
        Ok(AgentState {
            myself,
            shared,
            session,
            runs: BTreeMap::new(),
            gone_on: BTreeMap::new(),
            agents: BTreeMap::new(),
            children: BTreeMap::new(),
            loads: JoinSet::new(),
            stirred: 0,
            idle_watched: false,
            recovering: false,
            was_told: false,
        })
    }

    /// The future is a small one: ractor's loop keeps room for several of the largest as long as the actor lives.
    fn handle(
        &self,
        _myself: ActorRef<Self::Msg>,
        message: AgentCommand,
        state: &mut AgentState,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        state.dispatch(message);
        ready(Ok(()))
    }

    fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        state: &mut AgentState,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        let lost = match event {
            SupervisionEvent::ActorFailed(cell, error) => Some((cell, error.to_string())),
            SupervisionEvent::ActorTerminated(cell, _, reason) => reason.map(|why| (cell, why)),
            _ => None,
        };
        if let Some((cell, why)) = lost {
            state.agent_lost(&cell, why);
        }
        ready(Ok(()))
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<Self::Msg>,
        state: &mut AgentState,
    ) -> Result<(), ActorProcessingErr> {
        // Runs are dropped where they stand: their journals have everything.
        for run in std::mem::take(&mut state.runs).into_keys() {
            state.shared.services.previewer.left(run);
        }
        Ok(())
    }
}

/// Says what became of a wake, to whom it may concern.
fn answer(reply: Option<WakeReply>, result: Result<RunId, SystemError>) {
    if let Some(reply) = reply {
        reply.give(result);
    }
}

/// Starts an agent below another. Its `pre_start` waits for nothing, so no handler of the agent has to wait for the start.
fn start_below(
    agent: &ActorRef<AgentCommand>,
    shared: Arc<Shared>,
) -> Option<ActorRef<AgentCommand>> {
    let spawned = ActorRuntime::spawn_linked(None, AgentActor, (shared, None), agent.get_cell());
    match spawned.now_or_never() {
        Some(Ok((agent, _))) => return Some(agent),
        Some(Err(error)) => tracing::error!(%error, "an agent below another cannot start"),
        None => tracing::error!("an agent below another does not start at once"),
    }
    None
}

impl AgentState {
    fn services(&self) -> &Arc<Services> {
        &self.shared.services
    }

    /// The team of the session.
    fn team(&self) -> Option<TeamEntry> {
        self.shared.team(&self.session.as_ref()?.id.team)
    }

    fn wake(&mut self, run: RunId, take_over: bool, reply: Option<WakeReply>) {
        if let Some(session) = &mut self.session
            && session.loaded.is_none()
        {
            session.wakes.push((run, take_over, reply));
            self.load_session();
            return;
        }
        if let Some(hosted) = self.runs.get_mut(&run) {
            hosted.route.sender.tell(Command::Mailbox);
            answer(reply, Ok(run));
            return;
        }
        let Some(session) = &mut self.session else {
            return;
        };
        if session.not_carried != Some(run) {
            if !session.has_aside(run) {
                // The run ended before, or goes on under another id; there is nothing to wake.
                answer(reply, Ok(run));
                return;
            }
            if session.turns.is_busy() {
                session.reopening.push_back((run, take_over, reply));
                return;
            }
            session.turns.set_busy(true);
        }
        self.host_run(run, None).wake = reply.and_then(WakeReply::taken);
        self.load(run, Claiming::by(take_over));
    }

    /// Forgets what is known of the session when it is told of an open run that it does not know: another process may
    /// have taken the session, begun the run, and died. An agent that had nothing to do did not hear of that.
    fn doubt_session(&mut self, run: RunId) {
        if let Some(session) = &mut self.session
            && self.runs.is_empty()
            && session.not_carried != Some(run)
            && !session.has_aside(run)
            // No turn of its own is about to begin.
            && (session.not_carried.is_some() || session.looks.is_some() || !session.turns.is_busy())
        {
            session.forget();
        }
    }

    /// Claims a run (a child below its parent) and reads its journal, outside the actor.
    fn load(&mut self, run: RunId, claim: Claiming) {
        if !self.runs.contains_key(&run) {
            return;
        }
        let known = self.team().map(|team| (team.digest, team.pinned));
        let child = self.runs.get(&run).and_then(|hosted| hosted.child.as_ref());
        let claim = child.map_or(claim, |c| Claiming::Below(c.parent, c.epoch));
        let known = child
            .map(|c| (c.start.definition, c.pinned.clone()))
            .or(known);
        // The conversation before a quarantined turn differs from the session's by now.
        let aside = self.session.as_ref().filter(|s| s.has_aside(run));
        let aside = aside.map(|session| SessionId::clone(&session.id));
        let held = self.session.as_ref().and_then(|session| {
            let (_, claim) = session.loaded.as_ref()?;
            Some((SessionId::clone(&session.id).into(), claim.epoch))
        });
        let services = self.shared.services.clone();
        self.beside(async move {
            let loaded = load_run(&services, run, claim, held, aside, known).await;
            [AgentCommand::RunLoaded(Box::new((run, loaded)))]
        });
    }

    /// Does work beside the actor. The messages in which it results come to this agent.
    fn beside<M>(&mut self, work: impl Future<Output = M> + Send + 'static)
    where
        M: IntoIterator<Item = AgentCommand>,
    {
        let myself = self.myself.clone();
        self.loads.spawn(async move {
            for message in work.await {
                let _ = myself.cast(message);
            }
        });
    }

    fn run_loaded(&mut self, run: RunId, loaded: Result<Loaded, SystemError>) {
        let Some(hosted) = self.runs.get_mut(&run) else {
            return;
        };
        let reply = hosted.wake.take();
        match loaded {
            Ok(loaded) if self.is_news_to_session(run, &loaded) => {
                self.forget(run);
                self.wake_in_reloaded_session(loaded.row.run, reply);
            }
            Ok(loaded) => {
                let taken = self.answer_when_recovered(reply, loaded.row.run);
                if loaded.row.run != run {
                    // The run went on in another journal.
                    if let Some(hosted) = self.runs.remove(&run) {
                        self.services().previewer.left(run);
                        if let Some(child) = &hosted.child {
                            self.gone_on.insert(child.run, loaded.row.run);
                        }
                        self.runs.insert(loaded.row.run, hosted);
                    }
                }
                self.carry(loaded, Some(taken));
            }
            Err(error) => {
                if self.claims_again(run, &error) {
                    return;
                }
                tracing::warn!(%run, %error, "the run cannot be recovered");
                match (reply, error) {
                    (None, SystemError::Store(error)) => self.store_failed(run, error),
                    (reply, error) => {
                        let hosted = self.forget(run);
                        self.tell_unreadable(run, &error);
                        if let Some(parent) = hosted.and_then(|hosted| hosted.route.parent) {
                            // Like a parked child, this one waits for somebody to mend it.
                            parent.tell(ChildReport::Idle(Idleness::default()));
                        }
                        self.not_recovered(run);
                        answer(reply, Err(error));
                    }
                }
            }
        }
    }

    /// Makes a run known, so that messages can reach it before it is carried.
    fn host_run(&mut self, run: RunId, child: Option<ChildStart>) -> &mut Hosted {
        let live = &self.shared.services.previewer.live;
        let above = child.as_ref().and_then(|child| live.get(child.parent));
        let cancelled = above.as_ref().map_or_else(CancellationToken::new, |above| {
            above.cancelled.child_token()
        });
        let parent = child
            .as_ref()
            .map(|child| ParentSender::of(child.run, child.sender.clone(), child.hears));
        let (sender, commands) =
            above.map_or_else(RunSender::channel, |above| above.sender.beside());
        let start = child.as_ref().map(|child| &child.start);
        let route = Route {
            root: start.map_or(run, |start| start.root),
            begun_as: run,
            row: None,
            host: self.myself.clone(),
            sender,
            cancelled,
            parent,
        };
        live.insert(run, route.clone());
        self.runs.entry(run).or_insert_with(|| {
            Box::new(Hosted {
                incarnation: None,
                route,
                commands: Some(commands),
                child,
                failures: Failures::default(),
                give_up: None,
                wake: None,
                parked: false,
                lost: None,
            })
        })
    }

    fn carry(&mut self, mut loaded: Loaded, recovered: Option<oneshot::Sender<()>>) {
        let run = loaded.row.run;
        let services = self.shared.services.clone();
        let Some(hosted) = self.runs.get_mut(&run) else {
            return;
        };
        let commands = hosted.commands.take().unwrap_or_else(|| {
            let (sender, commands) = hosted.route.sender.beside();
            hosted.route.sender = sender;
            commands
        });
        let sender = hosted.route.sender.clone();
        let start = loaded.recorded.start.as_deref();
        self.was_told |=
            start.is_some_and(|start| loaded.pinned.team.while_busy.delivers_to(start));
        (hosted.route.root, hosted.route.row) = (loaded.row.root, Some(loaded.row.clone()));
        hosted.route.begun_as = loaded.row.begun_as();
        services.previewer.live.insert(run, hosted.route.clone());
        let session = self.session.as_ref().and_then(|session| {
            let (fold, claim) = session.loaded.as_ref()?;
            let (session, claim) = (SessionId::clone(&session.id), *claim);
            Some((fold.transcript.clone(), SessionTail { session, claim }))
        });
        let (history, session) = session.unzip();
        let ports: Arc<dyn Ports> = services.clone();
        let history = loaded.history.take().or(history).unwrap_or_default();
        let mailbox_is_empty = loaded.mailbox_is_empty;
        let team = self.shared.team(&loaded.row.team);
        let version = team.as_ref().map_or(0, |team| team.pinned.team.version);
        let code = team.map_or_else(|| services.registry.clone(), |team| team.registry);
        let commands = (sender, commands);
        if hosted.child.is_none() && hosted.route.cancelled.is_cancelled() {
            // An earlier incarnation was being cancelled. Only a cancellation that is recorded or still in
            // the mailbox counts: no run above this one can cancel it.
            hosted.route.cancelled = CancellationToken::new();
        }
        let limits = &self.shared.limits;
        let run_task = RunTask {
            loaded,
            history,
            code,
            ports,
            commands,
            cancelled: hosted.route.cancelled.clone(),
            parent: hosted.route.parent.clone(),
            session,
            incarnation: Incarnation {
                give_up: hosted.give_up.take(),
                cancel: hosted.child.as_ref().and_then(|child| child.cancel.clone()),
                recovered: recovered.is_some(),
                lost: hosted.lost.take(),
                when_recovered: recovered.filter(|told| !told.is_closed()),
                mailbox_is_empty,
                version,
                quarantine_after: limits.quarantine_after,
                process: services.process,
                fatal_after: limits.fatal_after,
            },
            linger: limits.linger,
            max_entries: limits.max_entries,
        };
        let myself = self.myself.clone();
        let carried = run_task.carry();
        let carrying = task::spawn(async move {
            let rest = carried.await;
            // A host that is gone finds in the journal how far this run came.
            let _ = myself.cast(AgentCommand::Rested(run, task::id(), Box::new(rest)));
        });
        hosted.incarnation = Some(AbortOnDropHandle::new(carrying));
        if let Some(session) = &mut self.session {
            session.not_carried = None;
        }
    }

    /// Answers once the run's recovery is durable: from then on the store's record of the run is
    /// about this incarnation.
    fn answer_when_recovered(
        &mut self,
        reply: Option<WakeReply>,
        run: RunId,
    ) -> oneshot::Sender<()> {
        self.shared.awake(run);
        let (taken, when_taken) = oneshot::channel();
        if let Some(reply) = reply {
            self.loads.spawn(async move {
                // An incarnation that ends before it begins has been reported as the run's own rest.
                let _ = when_taken.await;
                reply.give(Ok(run));
            });
        }
        taken
    }
}
