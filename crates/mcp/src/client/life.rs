//! One life of a connection: from its opening to its loss.

use std::{convert::Infallible, sync::Arc, time::Duration};

use ghostlight_child_process::{ChildProcess, Program};
use rmcp::{
    Peer, RoleClient,
    model::ProtocolVersion,
    service::{ClientLifecycleMode, RunningService, serve_client_with_lifecycle},
    transport::async_rw::AsyncRwTransport,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};

use super::{
    MAX_MESSAGE_BYTES,
    connection::{CLOSING, RENEWED, Shared},
    error::ServerSpecError,
    failure,
    handler::Handler,
    http,
    lenient::{self, Lenient},
    overhearing::Overhearing,
    pages,
    settings::Endpoint,
};
use crate::ambiguous::Lines;

/// How long to wait for the exit of a server whose streams are closed.
const LAST_WORDS: Duration = Duration::from_millis(500);

impl Shared {
    /// Runs one life: connects, stays until the connection is lost or stopped, and returns the reason of its end.
    pub(super) async fn carry(self: &Arc<Self>, mut stopped: oneshot::Receiver<()>) -> String {
        let connected = tokio::select! {
            connected = timeout(self.settings.connects_within(), self.connect()) => connected,
            _ = &mut stopped => return "it was closed".to_owned(),
        };
        let (service, mut process) = match connected {
            Ok(Ok(connected)) => connected,
            Ok(Err(reason)) => return self.wait_for_person(reason, stopped).await,
            Err(_) => {
                let within = self.settings.connects_within();
                return self.lost(format!("it did not answer within {within:?}"));
            }
        };
        let peer = service.peer().clone();
        if let Err(reason) = self.list_tools(&peer).await {
            return self.wait_for_person(reason, stopped).await;
        }
        self.served();
        let version = peer
            .peer_info()
            .map(|info| info.protocol_version.to_string());
        tracing::debug!(server = %self.name, ?version, "connected");
        self.connected(peer.clone());
        let cancel = service.cancellation_token();
        let mut over = Box::pin(service.waiting());
        let (reason, is_over) = tokio::select! {
            never = self.follow_tools(&peer) => match never {},
            reason = ended(&mut process) => (reason, false),
            _ = &mut over => ("it ended the connection".to_owned(), true),
            () = self.renew.notified() => (RENEWED.to_owned(), false),
            _ = &mut stopped => ("it was closed".to_owned(), false),
        };
        if !is_over {
            // The server's input ends here, which tells the server to end.
            cancel.cancel();
            let _ = timeout(CLOSING / 6, over).await;
        }
        self.calls.clear();
        if let Some(process) = process {
            process.end().await;
        }
        self.lost(reason)
    }

    /// Waits until a person has signed in: an attempt before that would fail.
    async fn wait_for_person(&self, reason: String, mut stopped: oneshot::Receiver<()>) -> String {
        let authorization = self.authorization.as_ref();
        if authorization.is_some_and(|one| one.is_wanted() && !one.is_unattended()) {
            self.is_lost(&reason);
            tokio::select! {
                () = self.renew.notified() => return RENEWED.to_owned(),
                _ = &mut stopped => return "it was closed".to_owned(),
            }
        }
        self.lost(reason)
    }

    fn lost(&self, reason: String) -> String {
        tracing::debug!(server = %self.name, %reason, "the connection is over");
        reason
    }

    async fn connect(
        self: &Arc<Self>,
    ) -> Result<(RunningService<RoleClient, Handler>, Option<ChildProcess>), String> {
        let handler = Handler::new(self);
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        let failed = |error: rmcp::service::ClientInitializeError| match error.auth_challenge() {
            Some(challenge) => self.refused(challenge),
            None => failure::not_begun(&error),
        };
        match &self.endpoint {
            Endpoint::Process {
                program,
                args,
                env,
                cwd,
            } => {
                let variables = self.settings.variables;
                let revealed = |(name, value): (&String, &String)| {
                    Ok((name.clone(), variables.reveal(value)?.into()))
                };
                let environment: Result<_, ServerSpecError> = env.iter().map(revealed).collect();
                let program = Program {
                    program,
                    arguments: args,
                    environment: environment.map_err(|error| error.to_string())?,
                    directory: cwd.as_deref(),
                };
                let started = ChildProcess::start(program, &self.stderr);
                let (mut process, stdin, stdout) = started.map_err(|error| error.to_string())?;
                let (stdout, heard) = Overhearing::new(stdout);
                let stdout = Lines::new(stdout, MAX_MESSAGE_BYTES, lenient::screened);
                let transport = AsyncRwTransport::new_client(stdout, stdin)
                    .with_max_line_length(MAX_MESSAGE_BYTES);
                let transport = Lenient::new(transport, &self.name, heard);
                let serving = serve_client_with_lifecycle(handler, transport, lifecycle);
                let service = tokio::select! {
                    service = serving => service.map_err(failed),
                    reason = process.ended() => Err(reason),
                };
                let service = match service {
                    Ok(service) => service,
                    // The server's exit says more than its closed streams.
                    Err(reason) => {
                        let ended = timeout(LAST_WORDS, process.ended()).await;
                        return Err(ended.unwrap_or(reason));
                    }
                };
                Ok((service, Some(process)))
            }
            Endpoint::Http { url, headers } => {
                let Some(authorization) = &self.authorization else {
                    return Err("it has no authorization".to_owned());
                };
                let manager = authorization.manager().await;
                let manager = manager.map_err(|error| error.to_string())?;
                let transport =
                    http::transport(&self.name, (url, headers), self.settings.variables, manager);
                let transport = transport.map_err(|error| error.to_string())?;
                let service = serve_client_with_lifecycle(handler, transport, lifecycle).await;
                Ok((service.map_err(failed)?, None))
            }
        }
    }

    /// Lists the tools again whenever the server says that they have changed.
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

    /// Lists all tools, and offers them.
    async fn list_tools(&self, peer: &Peer<RoleClient>) -> Result<(), String> {
        let info = peer.peer_info();
        let capabilities = info.as_ref().map(|info| &info.capabilities);
        let mut tools = Vec::new();
        if capabilities.is_some_and(|can| can.tools.is_some()) {
            let listed = pages::all(&self.name, peer);
            tools = listed.await.map_err(|error| match error.auth_challenge() {
                Some(challenge) => self.refused(challenge),
                None => format!("it does not list its tools: {}", failure::reason(&error)),
            })?;
        }
        self.offer.set(&self.name, tools);
        Ok(())
    }
}

async fn ended(process: &mut Option<ChildProcess>) -> String {
    match process {
        Some(process) => process.ended().await,
        None => std::future::pending().await,
    }
}

/// A task that is aborted on drop.
struct Listening(JoinHandle<()>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Listens for a server's changes of tools, in the newest revision; older servers report them unasked.
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
                // A report is waiting already, so a second one adds nothing.
                let _ = says.try_send(());
            }
        }
        Err(error) => tracing::debug!(%error, "a server does not tell when its tools change"),
    }
    // The end of the connection is noticed elsewhere.
    std::future::pending::<()>().await;
}
