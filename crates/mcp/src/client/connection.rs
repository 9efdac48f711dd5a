//! A connection to a server: an actor below a supervisor, which starts it again when it is lost.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::actor::supervisor::{
    Backoff, Child, ChildSpec, RestartDecision, Shutdown, Strategy, Supervisor, SupervisorSpec,
};
use parking_lot::Mutex;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use rmcp::{
    Peer, RoleClient,
    model::{ProgressToken, ProtocolVersion, Tool},
    service::{ClientLifecycleMode, RunningService, serve_client_with_lifecycle},
};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    task::JoinHandle,
    time::timeout,
};

use super::{
    error::{ConnectError, SettingsError},
    handler::Handler,
    http,
    process::{ServerProcess, StderrTail},
    settings::{Endpoint, ServerSettings},
    toolset::Offer,
};

/// The pauses before a lost server is connected again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a connection has to be closed.
const CLOSING: Duration = Duration::from_secs(6);
/// How long it takes at the most to see that a server whose streams are closed has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The most tools and pages of tools that one server may have.
const MAX_TOOLS: usize = 2_000;
const MAX_PAGES: usize = 200;

/// What is shown of a call's progress.
pub(super) type ShowProgress = Box<dyn Fn(Option<f64>, String) + Send>;

/// A connection. Cloning shares it; it is opened when it is first needed, and closed with the last.
#[derive(Clone)]
pub(super) struct Connection(Arc<Owner>);

/// Ends the supervisor with the last handle.
struct Owner {
    shared: Arc<Shared>,
    supervisor: tokio::sync::Mutex<Option<Supervisor>>,
}

/// What outlives each life of the connection.
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) settings: ServerSettings,
    endpoint: Endpoint,
    state: watch::Sender<State>,
    lives: AtomicU64,
    pub(super) stderr: StderrTail,
    /// Who is shown the progress of a call.
    pub(super) progress: Mutex<HashMap<ProgressToken, ShowProgress>>,
    /// The server said that it has other tools.
    pub(super) tools_changed: Notify,
    pub(super) offer: Offer,
}

/// How a connection stands.
#[derive(Clone)]
enum State {
    /// It is not there yet.
    Connecting,
    /// It is lost, for this reason, and connected again.
    Lost(String),
    /// It is there, in a life of this number.
    Connected(u64, Peer<RoleClient>),
    /// It was closed.
    Closed,
}

impl Connection {
    pub(super) fn new(
        name: &str,
        settings: ServerSettings,
        offer: Offer,
    ) -> Result<Self, SettingsError> {
        let shared = Shared {
            name: name.to_owned(),
            endpoint: settings.endpoint(name)?,
            settings,
            state: watch::Sender::new(State::Connecting),
            lives: AtomicU64::new(0),
            stderr: StderrTail::default(),
            progress: Mutex::default(),
            tools_changed: Notify::new(),
            offer,
        };
        Ok(Self(Arc::new(Owner {
            shared: Arc::new(shared),
            supervisor: tokio::sync::Mutex::new(None),
        })))
    }

    /// What is connected to, whatever it is called here.
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
    /// Why it is not, when it is not in time or the connection was closed.
    pub(super) async fn peer_after(
        &self,
        life: u64,
    ) -> Result<(u64, Peer<RoleClient>), ConnectError> {
        self.open().await?;
        let mut state = self.0.shared.state.subscribe();
        let settled = async {
            loop {
                match &*state.borrow_and_update() {
                    // One whose end was not heard of yet is none.
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

    /// The server, if it is connected now or was never tried; the reason of the loss at once otherwise.
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

    /// Starts the supervisor, where it is not there.
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
            // A server may be away for hours: that is no fault of ours to give up over.
            .classify_exits(|_| RestartDecision::Excused);
        let spec = SupervisorSpec::new(Strategy::OneForOne)
            .backoff(Backoff::exponential(FIRST_PAUSE, LONGEST_PAUSE));
        let started = Supervisor::builder(spec).child(child).start().await;
        let (started, _) = started.map_err(|error| self.0.shared.error(error.to_string()))?;
        *supervisor = Some(started);
        Ok(())
    }

    /// Ends it; it is not opened again.
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

/// The actor of one life of a connection: it holds the task that carries it.
struct ConnectionActor;

/// The task that carries a connection, and how it is told to end.
struct Carrying {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Drop for Carrying {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The connection is lost.
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
            shared.set(State::Lost(reason.clone()));
            // Nobody is told who has ended.
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

impl Shared {
    /// One life: connects, is there until it is lost or stopped, and says why it is over.
    async fn carry(self: &Arc<Self>, mut stopped: oneshot::Receiver<()>) -> String {
        let connected = tokio::select! {
            connected = timeout(self.settings.connects_within(), self.connect()) => connected,
            _ = &mut stopped => return "it was closed".to_owned(),
        };
        let (service, mut process) = match connected {
            Ok(Ok(connected)) => connected,
            Ok(Err(reason)) => return self.lost(reason),
            Err(_) => {
                let within = self.settings.connects_within();
                return self.lost(format!("it did not answer within {within:?}"));
            }
        };
        let peer = service.peer().clone();
        if let Err(reason) = self.list_tools(&peer).await {
            return self.lost(reason);
        }
        let version = peer
            .peer_info()
            .map(|info| info.protocol_version.to_string());
        tracing::debug!(server = %self.name, ?version, "connected");
        let life = self.lives.fetch_add(1, Ordering::AcqRel) + 1;
        self.set(State::Connected(life, peer.clone()));
        let cancel = service.cancellation_token();
        let mut over = Box::pin(service.waiting());
        let (reason, is_over) = tokio::select! {
            never = self.follow_tools(&peer) => match never {},
            reason = ended(&mut process) => (reason, false),
            _ = &mut over => ("it ended the connection".to_owned(), true),
            _ = &mut stopped => ("it was closed".to_owned(), false),
        };
        if !is_over {
            // Its input ends here, which tells it to end.
            cancel.cancel();
            let _ = timeout(CLOSING / 6, over).await;
        }
        if let Some(process) = process {
            process.end().await;
        }
        self.lost(reason)
    }

    fn lost(&self, reason: String) -> String {
        tracing::debug!(server = %self.name, %reason, "the connection is over");
        reason
    }

    async fn connect(
        self: &Arc<Self>,
    ) -> Result<(RunningService<RoleClient, Handler>, Option<ServerProcess>), String> {
        let handler = Handler::new(self);
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        let failed = |error: rmcp::service::ClientInitializeError| error.to_string();
        match &self.endpoint {
            Endpoint::Process {
                program,
                args,
                env,
                cwd,
            } => {
                let (mut process, transport) =
                    ServerProcess::start(program, args, env, cwd.as_deref(), &self.stderr)?;
                let serving = serve_client_with_lifecycle(handler, transport, lifecycle);
                let service = tokio::select! {
                    service = serving => service.map_err(failed),
                    reason = process.ended() => Err(reason),
                };
                let service = match service {
                    Ok(service) => service,
                    // That its streams are closed says less than how it ended.
                    Err(reason) => {
                        let ended = timeout(LAST_WORDS, process.ended()).await;
                        return Err(ended.unwrap_or(reason));
                    }
                };
                Ok((service, Some(process)))
            }
            Endpoint::Http { url, headers } => {
                let transport = http::transport(url, headers).map_err(|error| error.to_string())?;
                let service = serve_client_with_lifecycle(handler, transport, lifecycle).await;
                Ok((service.map_err(failed)?, None))
            }
        }
    }

    /// Hears that the server has other tools, and asks for them.
    async fn follow_tools(&self, peer: &Peer<RoleClient>) -> Infallible {
        let (says, mut heard) = mpsc::channel(1);
        let _listening = Listening(tokio::spawn(listen(peer.clone(), says)));
        loop {
            tokio::select! {
                () = self.tools_changed.notified() => {}
                Some(()) = heard.recv() => {}
            }
            if let Err(reason) = self.list_tools(peer).await {
                tracing::warn!(server = %self.name, %reason, "its changed tools are not known");
            }
        }
    }

    /// Asks for all tools, and offers them.
    async fn list_tools(&self, peer: &Peer<RoleClient>) -> Result<(), String> {
        let info = peer.peer_info();
        let capabilities = info.as_ref().map(|info| &info.capabilities);
        let mut tools: Vec<Tool> = Vec::new();
        if capabilities.is_some_and(|can| can.tools.is_some()) {
            let mut cursor = None;
            for _ in 0..MAX_PAGES {
                let params = rmcp::model::PaginatedRequestParams::default().with_cursor(cursor);
                let page = peer.list_tools(Some(params)).await;
                let page = page.map_err(|error| format!("it does not list its tools: {error}"))?;
                tools.extend(page.tools);
                cursor = page.next_cursor;
                if cursor.is_none() || tools.len() >= MAX_TOOLS {
                    break;
                }
            }
            if cursor.is_some() {
                tracing::warn!(server = %self.name, "it has more than {MAX_TOOLS} tools; the others are left out");
            }
            tools.truncate(MAX_TOOLS);
        }
        self.offer.set(&self.name, tools);
        Ok(())
    }
}

async fn ended(process: &mut Option<ServerProcess>) -> String {
    match process {
        Some(process) => process.ended().await,
        None => std::future::pending().await,
    }
}

/// A task that ends with what it is for.
struct Listening(JoinHandle<()>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Hears what a server of the newest revision says of its tools; older ones say it unasked.
async fn listen(peer: Peer<RoleClient>, says: mpsc::Sender<()>) {
    let Some(info) = peer.peer_info() else { return };
    let tools = info.capabilities.tools.as_ref();
    let tells = tools.and_then(|tools| tools.list_changed) == Some(true);
    if info.protocol_version.has_initialize() || !tells {
        return;
    }
    let filter = rmcp::model::SubscriptionFilter::builder()
        .tools_list_changed()
        .build();
    match peer.listen(filter).await {
        Ok(mut subscription) => {
            while let Ok(Some(_)) = subscription.next().await {
                // One word more says nothing more.
                let _ = says.try_send(());
            }
        }
        Err(error) => tracing::debug!(%error, "a server does not tell when its tools change"),
    }
    // What ends the connection is seen elsewhere.
    std::future::pending::<()>().await;
}
