//! A connection to a server: an actor below a supervisor, which restarts it when the connection is lost.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::actor::supervisor::{
    Backoff, Child, ChildSpec, RestartDecision, Shutdown, Strategy, Supervisor, SupervisorSpec,
};
use ghostlight_child_process::StderrTail;
use parking_lot::Mutex;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use rmcp::{Peer, RoleClient, model::ProgressToken};
use tokio::{
    sync::{Notify, broadcast, oneshot, watch},
    task::JoinHandle,
    time::timeout,
};

use super::{
    authorization::Authorization,
    error::{AuthorizationError, ConnectError, ServerSpecError},
    settings::{Endpoint, ServerSpec},
    toolset::Offer,
    under_way::Calls,
};

/// The pauses before a lost server is connected again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long closing a connection may take.
pub(super) const CLOSING: Duration = Duration::from_secs(6);
/// The reason of a connection that ends in order to be renewed.
pub(super) const RENEWED: &str = "it is connected anew";
/// How many changes of resources are buffered for a slow reader; a slower reader learns that it missed some.
const UPDATES: usize = 256;

/// The function that shows a call's progress.
pub(super) type ShowProgress = Box<dyn Fn(Option<f64>, String) + Send>;

/// A connection. Clones share it; it is opened when it is first needed, and closed with the last clone.
#[derive(Clone)]
pub(super) struct Connection(Arc<Owner>);

/// Ends the supervisor when the last handle is dropped.
struct Owner {
    shared: Arc<Shared>,
    supervisor: tokio::sync::Mutex<Option<Supervisor>>,
}

/// The state that outlives a single life of the connection.
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) settings: ServerSpec,
    pub(super) endpoint: Endpoint,
    /// The authorization at a server over HTTP.
    pub(super) authorization: Option<Authorization>,
    state: watch::Sender<State>,
    lives: AtomicU64,
    pub(super) stderr: StderrTail,
    /// The functions that show the progress of calls.
    pub(super) progress: Mutex<HashMap<ProgressToken, ShowProgress>>,
    /// Notified when the server says that its tools have changed.
    pub(super) tools_changed: Notify,
    /// The calls under way.
    pub(super) calls: Calls,
    /// The addresses of changed resources.
    pub(super) updates: broadcast::Sender<String>,
    /// Notified when the connection is to be renewed.
    pub(super) renew: Notify,
    pub(super) offer: Offer,
}

/// The state of a connection.
#[derive(Clone)]
enum State {
    /// Not connected yet.
    Connecting,
    /// Lost for this reason, and being connected again.
    Lost(String),
    /// Connected, in the life of this number.
    Connected(u64, Peer<RoleClient>),
    /// Closed.
    Closed,
}

impl Connection {
    pub(super) fn new(
        name: &str,
        settings: ServerSpec,
        offer: Offer,
    ) -> Result<Self, ServerSpecError> {
        let endpoint = settings.endpoint(name)?;
        let authorization = match &endpoint {
            Endpoint::Http { url, .. } => Some(Authorization::new(
                &settings.variables.reveal(url)?,
                (&settings.oauth, settings.variables),
                settings.tokens.as_deref(),
            )),
            Endpoint::Process { .. } => None,
        };
        let shared = Shared {
            name: name.to_owned(),
            endpoint,
            authorization,
            settings,
            state: watch::Sender::new(State::Connecting),
            lives: AtomicU64::new(0),
            stderr: StderrTail::default(),
            progress: Mutex::default(),
            tools_changed: Notify::new(),
            calls: Calls::default(),
            updates: broadcast::Sender::new(UPDATES),
            renew: Notify::new(),
            offer,
        };
        Ok(Self(Arc::new(Owner {
            shared: Arc::new(shared),
            supervisor: tokio::sync::Mutex::new(None),
        })))
    }

    /// The identity of the server, independent of its name in the team.
    pub(super) fn identity(&self) -> String {
        match &self.0.shared.endpoint {
            Endpoint::Process { program, args, .. } => {
                let words = std::iter::once(program).chain(args);
                words.map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            Endpoint::Http { url, .. } => url.clone(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// The server, once it is connected in a later life than this one, and the number of that life.
    ///
    /// # Errors
    /// The reason, if it is not connected in time or the connection was closed.
    pub(super) async fn peer_after(
        &self,
        life: u64,
    ) -> Result<(u64, Peer<RoleClient>), ConnectError> {
        self.open().await?;
        let mut state = self.0.shared.state.subscribe();
        let settled = async {
            loop {
                match &*state.borrow_and_update() {
                    // A connection whose transport is closed does not count, even if its end is not reported yet.
                    State::Connected(now, peer) if *now > life && !peer.is_transport_closed() => {
                        return Ok((*now, peer.clone()));
                    }
                    State::Closed => return Err("it was closed".to_owned()),
                    State::Connecting | State::Lost(_) | State::Connected(..) => {}
                }
                if state.changed().await.is_err() {
                    return Err("it was closed".to_owned());
                }
            }
        };
        let within = self.0.shared.settings.connects_within();
        let reason = match timeout(within, settled).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(reason)) => reason,
            Err(_) => match &*self.0.shared.state.borrow() {
                State::Lost(reason) => reason.clone(),
                _ => format!("it did not answer within {within:?}"),
            },
        };
        Err(self.0.shared.error(reason))
    }

    /// The server, if it is connected, after waiting for the first attempt; at once the reason, if it is lost.
    pub(super) async fn first_peer(&self) -> Result<Peer<RoleClient>, ConnectError> {
        self.open().await?;
        let mut state = self.0.shared.state.subscribe();
        let within = self.0.shared.settings.connects_within();
        let settled = state.wait_for(|state| !matches!(state, State::Connecting));
        let reason = match timeout(within, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Connected(_, peer) => return Ok(peer.clone()),
                State::Lost(reason) => reason.clone(),
                _ => "it was closed".to_owned(),
            },
            Ok(Err(_)) => "it was closed".to_owned(),
            Err(_) => format!("it did not answer within {within:?}"),
        };
        Err(self.0.shared.error(reason))
    }

    /// Lets a person sign in at the server, and renews the connection.
    pub(super) async fn sign_in(
        &self,
        open: impl FnOnce(&str) + Send,
    ) -> Result<(), AuthorizationError> {
        let shared = &self.0.shared;
        let Some(authorization) = &shared.authorization else {
            return Err(AuthorizationError::NotHttp);
        };
        authorization.sign_in(open).await?;
        shared.set(State::Connecting);
        shared.renew.notify_one();
        Ok(())
    }

    /// Starts the supervisor, if it is not running.
    async fn open(&self) -> Result<(), ConnectError> {
        let mut supervisor = self.0.supervisor.lock().await;
        if supervisor.is_some() {
            return Ok(());
        }
        if matches!(&*self.0.shared.state.borrow(), State::Closed) {
            return Err(self.0.shared.error("it was closed".to_owned()));
        }
        let shared = self.0.shared.clone();
        let child =
            ChildSpec::worker(format!("mcp {}", shared.name)).stopped_by(Shutdown::Within(CLOSING));
        let child = Child::of(child, move || (ConnectionActor, shared.clone()))
            // A server may be away for hours; the supervisor does not give up for that.
            .classify_exits(|_| RestartDecision::Excused);
        let spec = SupervisorSpec::new(Strategy::OneForOne)
            .backoff(Backoff::exponential(FIRST_PAUSE, LONGEST_PAUSE));
        let started = Supervisor::builder(spec).child(child).start().await;
        let (started, _) = started.map_err(|error| self.0.shared.error(error.to_string()))?;
        *supervisor = Some(started);
        Ok(())
    }

    /// Closes the connection for good.
    pub(super) async fn close(&self) {
        self.0.shared.state.send_replace(State::Closed);
        let supervisor = self.0.supervisor.lock().await.take();
        if let Some(supervisor) = supervisor {
            supervisor.stop().await;
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(supervisor) = self.supervisor.get_mut().take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { supervisor.stop().await });
        }
    }
}

impl Shared {
    fn error(&self, reason: String) -> ConnectError {
        let last = self.stderr.last_line();
        ConnectError {
            server: self.name.clone(),
            reason: match last {
                Some(last) => format!("{reason}; it said last: {last}"),
                None => reason,
            },
        }
    }

    /// Begins a new life with this server.
    pub(super) fn connected(&self, peer: Peer<RoleClient>) {
        let life = self.lives.fetch_add(1, Ordering::AcqRel) + 1;
        self.set(State::Connected(life, peer));
    }

    /// Ends a life for this reason: the connection is lost, unless it is being renewed.
    fn is_over(&self, reason: &str) {
        match reason == RENEWED {
            true => self.set(State::Connecting),
            false => self.is_lost(reason),
        }
    }

    /// Marks the connection as lost for this reason.
    pub(super) fn is_lost(&self, reason: &str) {
        self.set(State::Lost(reason.to_owned()));
    }

    /// Notes that the server demands authorization; returns the message for the user.
    pub(super) fn refused(&self, challenge: &str) -> String {
        let Some(authorization) = &self.authorization else {
            return "the server wants an authorization, which no child process can".to_owned();
        };
        authorization.refused(challenge);
        if authorization.is_unattended() {
            self.renew.notify_one();
            return "The server does not accept our authorization any more, and gets a new one. Call again."
                .to_owned();
        }
        format!(
            "The server wants somebody to sign in. A person does that by `ghostlight protocol mcp TEAM_FILE --sign-in {}`.",
            self.name
        )
    }

    /// Notes that the server served a request.
    pub(super) fn served(&self) {
        if let Some(authorization) = &self.authorization {
            authorization.served();
        }
    }

    fn set(&self, new: State) {
        self.state.send_if_modified(|state| {
            let is_open = !matches!(state, State::Closed);
            if is_open {
                *state = new;
            }
            is_open
        });
    }
}

/// The actor of one life of a connection: it owns the task that runs the connection.
struct ConnectionActor;

/// The task that runs a connection, with the signal to end it.
struct Carrying {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Drop for Carrying {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Message: the connection is lost.
struct Lost(String);

impl Actor for ConnectionActor {
    type Msg = Lost;
    type State = Carrying;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        myself: ActorRef<Lost>,
        shared: Arc<Shared>,
    ) -> Result<Carrying, ActorProcessingErr> {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let reason = shared.carry(stopped).await;
            shared.is_over(&reason);
            // The actor may have ended already.
            let _ = myself.cast(Lost(reason));
        });
        Ok(Carrying {
            stop: Some(stop),
            task,
        })
    }

    async fn handle(
        &self,
        _: ActorRef<Lost>,
        Lost(reason): Lost,
        _: &mut Carrying,
    ) -> Result<(), ActorProcessingErr> {
        // The supervisor starts the next life, after a pause.
        Err(reason.into())
    }

    async fn post_stop(
        &self,
        _: ActorRef<Lost>,
        carrying: &mut Carrying,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(stop) = carrying.stop.take() {
            let _ = stop.send(());
        }
        let _ = timeout(CLOSING, &mut carrying.task).await;
        Ok(())
    }
}
