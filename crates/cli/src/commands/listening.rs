//! `ghostlight serve --listen`: the HTTP server beside the team.

use std::{io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, future::BoxFuture};
use ghostlight::{
    a2a::CardSigner,
    config,
    evals::Evaluation,
    files,
    mcp::{self, McpServer},
    models::http_client,
    opentelemetry::Prometheus,
    server::{
        Callers, Deliveries, DeliveryOptions, Identities, Issuer, KeyFile, Measure, Peers, Quota,
        Scope, ServedSpec, Server, Visibility, page,
    },
};
use ghostlight_actors::{actor::System, definition::TeamSpec, run::Registry};
use ghostlight_safety::is_loopback_host;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::Value;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use super::{eval, key};
use crate::{
    arguments::StoreArguments,
    default_model::ModelArguments,
    exit::Failure,
    keeping::location_of,
    location::Location,
    server_arguments::{HttpArguments, Shown},
};

/// The longest time for fetching the keys of an identity provider or a DID document, and the most bytes of them.
const FETCH_TIME: Duration = Duration::from_secs(10);
const FETCH_BYTES: usize = 1 << 20;
/// The most bytes of a file with a private key.
const KEY_BYTES: u64 = 16 << 10;

/// The settings of the server, checked before anything starts.
pub(super) struct Served {
    arguments: HttpArguments,
    keys: Option<KeyFile>,
    issuer: Option<Issuer>,
    tls: Option<Arc<ServerConfig>>,
    card_signer: Option<CardSigner>,
    evaluations: Vec<Arc<Evaluation>>,
    schema: Value,
}

impl Served {
    pub(super) fn new(
        arguments: HttpArguments,
        store: &StoreArguments,
        registry: &Registry,
        teams: &[TeamSpec],
    ) -> Result<Self, Failure> {
        let mut keys = None;
        if let Some(address) = arguments.listen {
            let file = key::file_of(arguments.keys.clone(), store)?;
            keys = file.filter(|file| arguments.keys.is_some() || file.path().exists());
            let has_keys = keys.is_some() || arguments.issuer.is_some();
            let has_identities = has_identities(&arguments);
            let callers = Callers::new(has_keys, has_identities, teams);
            check_effects(&arguments, store, callers)?;
            if !has_keys && !has_identities && !address.ip().is_loopback() {
                return Err(Failure::Usage(format!(
                    "{address} can be reached from other machines: make a key first \
                     (`ghostlight key add NAME`), or listen at 127.0.0.1"
                )));
            }
        }
        let tls = match (&arguments.tls_certificate, &arguments.tls_key) {
            (Some(certificate), Some(key)) => Some(Arc::new(tls(certificate, key)?)),
            _ => None,
        };
        let issuer = issuer(&arguments)?;
        let card_signer = arguments.card_key.as_deref().map(card_signer).transpose()?;
        let schema = config::schema_for(registry);
        Ok(Self {
            arguments,
            keys,
            issuer,
            tls,
            card_signer,
            evaluations: Vec::new(),
            schema,
        })
    }

    /// Reads the evaluations that the page shows.
    pub(super) async fn with_evaluations(
        mut self,
        model: &ModelArguments,
        store: &StoreArguments,
        registry: &Registry,
    ) -> Result<Self, Failure> {
        for path in &self.arguments.eval {
            let found = eval::shown(path, model, store, registry).await?;
            let name = &found.suite().evaluation;
            if self
                .evaluations
                .iter()
                .any(|known| known.suite().evaluation == *name)
            {
                let message =
                    format!("--eval: two files hold the evaluation {name:?}: name each once");
                return Err(Failure::Usage(message));
            }
            self.evaluations.push(Arc::new(found));
        }
        Ok(self)
    }
}

fn has_identities(arguments: &HttpArguments) -> bool {
    !arguments.did.is_empty()
}

/// Refuses settings that could have no effect.
fn check_effects(
    arguments: &HttpArguments,
    store: &StoreArguments,
    callers: Callers,
) -> Result<(), Failure> {
    let mut quotas = arguments.quota.iter();
    let checked = quotas.try_for_each(|(whose, _)| callers.check_quota(*whose));
    checked.map_err(|error| Failure::Usage(format!("--quota: {error}")))?;
    let is_private = matches!(arguments.visibility, Shown::Private);
    let mut unused = vec![("--quota", !arguments.quota.is_empty())];
    unused.push(("--card-key", arguments.card_key.is_some()));
    unused.push(("--deliver-to", !arguments.deliver_to.is_empty()));
    if let Some((option, _)) = unused.iter().find(|(_, given)| is_private && *given) {
        return Err(Failure::Usage(format!(
            "{option} has no effect with --visibility private, since nobody reaches the team: leave one of the two out"
        )));
    }
    if arguments.node_address.is_some() && matches!(location_of(store)?, Location::File(_)) {
        let message = "--node-address has no effect with a store in a file, by which no process finds another: \
                       leave it out, or name a database with --store";
        return Err(Failure::Usage(message.to_owned()));
    }
    let _ = store;
    Ok(())
}

/// The identity provider, if one was named.
fn issuer(arguments: &HttpArguments) -> Result<Option<Issuer>, Failure> {
    let named = (&arguments.issuer, &arguments.audience, &arguments.jwks);
    let (Some(name), Some(audience), Some(keys)) = named else {
        return Ok(None);
    };
    let is_address = keys.starts_with("https://") || keys.starts_with("http://");
    let url = reqwest::Url::parse(keys);
    let is_local = url.is_ok_and(|url| url.host_str().is_some_and(is_loopback_host));
    if keys.starts_with("http://") && !is_local {
        let message = "whoever changes the keys on their way gets in: give an address that begins with https://";
        return Err(Failure::Usage(message.to_owned()));
    }
    let mut issuer = match is_address {
        false => Issuer::with_file(name, audience, keys),
        true => {
            let client = http_client(keys).map_err(|error| Failure::Usage(error.to_string()))?;
            let address = keys.clone();
            Issuer::new(name, audience, move || {
                let asked = client.get(&address).timeout(FETCH_TIME).send();
                async move { read(asked.await).await.map_err(io::Error::other) }
            })
        }
    };
    for (role, scopes) in &arguments.role {
        issuer = issuer.role(role, scopes);
    }
    Ok(Some(issuer))
}

/// The identities whose signed requests are let in, if any hosts were named.
fn identities(arguments: &HttpArguments) -> Option<Identities> {
    let identities = Identities::new(|address| async move {
        let client = http_client(&address).map_err(io::Error::other)?;
        let asked = client.get(&address).timeout(FETCH_TIME).send();
        read(asked.await).await.map_err(io::Error::other)
    });
    let let_in = arguments
        .did
        .iter()
        .fold(identities, |all, (host, scopes)| all.host(host, scopes));
    (!arguments.did.is_empty()).then_some(let_in)
}

/// The text of a response.
async fn read(answer: Result<reqwest::Response, reqwest::Error>) -> Result<String, reqwest::Error> {
    let mut answer = answer?.error_for_status()?;
    let mut text = Vec::new();
    // A longer text is cut, and is then no valid JSON.
    while text.len() < FETCH_BYTES
        && let Some(piece) = answer.chunk().await?
    {
        text.extend_from_slice(&piece);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The TLS settings from these files.
fn tls(certificate: &Path, key: &Path) -> Result<ServerConfig, Failure> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "{} cannot be used for TLS: {error}",
            path.display()
        ))
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(certificate, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, &error))?;
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|error| failed(certificate, &error))
}

/// The signer of cards with the private key in this file.
fn card_signer(file: &Path) -> Result<CardSigner, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Usage(format!("{} cannot sign cards: {error}", file.display()))
    };
    let pem = files::read_text(file, KEY_BYTES).map_err(|error| failed(&error))?;
    CardSigner::from_pem(&pem).map_err(|error| failed(&error))
}

/// Whether any model of a team costs something.
fn has_prices(team: &TeamSpec) -> bool {
    let mut models = team.models.values();
    models.any(|model| {
        model
            .settings
            .get("prices")
            .is_some_and(|prices| !prices.is_null())
    }) || team.interceptors.iter().any(|one| one.name == "prices")
}

/// Takes the address before any run continues, so that a port in use changes nothing.
pub(super) async fn take_address(served: &Served) -> Result<Option<TcpListener>, Failure> {
    let Some(address) = served.arguments.listen else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address).await;
    let taken = |error| Failure::Usage(format!("{address} cannot be listened at: {error}"));
    listener.map(Some).map_err(taken)
}

/// A running server.
pub(super) struct Listening {
    stop: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

impl Listening {
    /// Starts the server at the address that was taken; `None` if there is none.
    pub(super) fn begin(
        system: &System,
        served: &Served,
        listener: Option<TcpListener>,
    ) -> Result<Option<Self>, Failure> {
        let Some(listener) = listener else {
            return Ok(None);
        };
        let server = server_of(system, served)?;
        let at = listener.local_addr()?;
        announce(system, served, at);
        if served.arguments.opens {
            open_browser(at);
        }
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.serve(listener, stopped));
        Ok(Some(Self { stop, task }))
    }

    /// Completes at once if the server has ended by itself, which it does only on failure, and
    /// otherwise never: the caller polls it anew each time.
    pub(super) async fn ended(&mut self) {
        if !self.task.is_finished() {
            std::future::pending().await
        }
    }

    /// Accepts no more requests, and waits until those in progress have ended.
    pub(super) async fn end(self) -> Result<(), Failure> {
        let _ = self.stop.send(());
        match self.task.await {
            Ok(served) => Ok(served?),
            Err(error) => Err(io::Error::other(error).into()),
        }
    }
}

/// The server that the arguments describe.
fn server_of(system: &System, served: &Served) -> Result<Server, Failure> {
    let arguments = &served.arguments;
    let mut server = Server::new(system.clone())
        .variables(ghostlight::environment::variable)
        .team_schema(served.schema.clone())
        .page(page::FILES);
    for team in system.teams() {
        server = server.visibility(team.name, arguments.visibility.into());
    }
    for host in &arguments.host {
        server = server.host(host);
    }
    for (whose, quota) in &arguments.quota {
        server = server.quota(*whose, *quota);
    }
    if let Some(address) = &arguments.address {
        server = server.address(address);
    }
    if let Some(address) = &arguments.node_address {
        server = server.peers(peers(address));
    }
    for origin in &arguments.origin {
        server = server.origin(origin);
    }
    if Visibility::from(arguments.visibility) != Visibility::Private {
        let mcp = system
            .teams()
            .iter()
            .fold(McpServer::new(system.clone()), |mcp, team| {
                mcp.team(&team.name, super::mcp::described(team))
            });
        server = server.service("/mcp", Scope::Run, mcp::endpoint(&mcp));
    }
    if let Some(identities) = identities(arguments) {
        server = server.identities(identities);
    }
    if let Some(signer) = &served.card_signer {
        server = server.card_signer(signer.clone());
    }
    {
        let evaluations = served.evaluations.iter().cloned();
        server = evaluations.fold(server, Server::evaluation);
    }
    if let Some(issuer) = &served.issuer {
        server = server.issuer(issuer.clone());
    }
    if let Some(keys) = &served.keys {
        server = server.keys(keys.clone());
    }
    if let Some(tls) = &served.tls {
        server = server.tls(tls.clone());
    }
    {
        server = server.metrics(metrics(system));
    }
    {
        let mut settings = DeliveryOptions::default();
        settings.hosts.clone_from(&arguments.deliver_to);
        settings.networks.clone_from(&arguments.deliver_network);
        let deliveries = Deliveries::new(settings);
        let deliveries = deliveries.map_err(|error| Failure::Usage(error.to_string()))?;
        server = server.deliveries(deliveries);
    }
    Ok(server)
}

/// Reads the figures of the agents. While the store is away there are those of the server alone.
fn metrics(system: &System) -> impl Fn() -> BoxFuture<'static, String> + Send + Sync + 'static {
    let agents = Arc::new(Prometheus::new(system.clone()));
    move || {
        let agents = agents.clone();
        Box::pin(async move {
            agents.text().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "/metrics has no figures of the agents");
                String::new()
            })
        })
    }
}

/// The other processes over the store, which know this one by this address.
fn peers(address: &str) -> Peers {
    let key = ghostlight::environment::variable("GHOSTLIGHT_NODE_KEY");
    Peers::new(address, move |url| {
        let key = key.clone();
        async move {
            let client = http_client(&url).map_err(io::Error::other)?;
            let mut request = client.get(&url).header("accept", "text/event-stream");
            if let Some(key) = key {
                request = request.bearer_auth(key);
            }
            let answer = request
                .send()
                .await
                .and_then(reqwest::Response::error_for_status);
            let pieces = answer.map_err(io::Error::other)?.bytes_stream();
            Ok(pieces.map(|piece| piece.map_err(io::Error::other)))
        }
    })
}

/// Opens the page. A machine without a browser is not a fault: the address was told.
fn open_browser(at: SocketAddr) {
    let opened = webbrowser::open(&format!("http://{at}/"));
    if let Err(error) = opened {
        super::note(&format!("no browser was opened: {error}"));
    }
}

/// Tells the person where the server listens, who may ask it, and what it cannot do.
fn announce(system: &System, served: &Served, at: SocketAddr) {
    let arguments = &served.arguments;
    let teams = system.teams();
    let counts_money = |(_, quota): &(_, Quota)| quota.measure == Measure::Cost;
    if arguments.quota.iter().any(counts_money) && !teams.iter().any(has_prices) {
        super::note(
            "no model of the team has prices, so no quota in money is ever used up: set `prices` of its models",
        );
    }
    let guarded = match (&served.keys, &arguments.issuer) {
        (Some(keys), _) => format!("keys in {}", keys.path().display()),
        (None, Some(issuer)) => format!("tokens of {issuer}"),
        (None, None) if !arguments.did.is_empty() => "signed requests".to_owned(),
        (None, None) => "without keys: everybody on this machine may do everything".to_owned(),
    };
    let scheme = if served.tls.is_some() {
        "https"
    } else {
        "http"
    };
    super::note(&format!(
        "listens at {scheme}://{at} (a page for browsers is there), {guarded}"
    ));
    if let Some(signer) = &served.card_signer {
        let key = signer.public_key().jwk();
        super::note(&format!("signs its agent cards; their public key is {key}"));
    }
    let is_private = matches!(arguments.visibility, Shown::Private);
    for team in teams {
        if is_private && !(team.webhooks.is_empty() && team.messengers.is_empty()) {
            super::note("nobody reaches the team's webhooks and messengers: the team is private");
            continue;
        }
        // A server is not started where a section cannot be read.
        for webhook in ServedSpec::of(&team).unwrap_or_default().webhooks {
            let variable = webhook.secret_variable().unwrap_or_default();
            let secret = ghostlight::environment::variable(variable);
            if secret.is_none_or(|secret| secret.trim().is_empty()) {
                super::note(&format!(
                    "webhook {} refuses everything: {variable}, its secret, is set neither in the server's environment nor in `.env`",
                    webhook.name
                ));
            }
            let (team, name) = (&team.name, webhook.name);
            super::note(&format!(
                "webhook {name} at {scheme}://{at}/hooks/{team}/{name}"
            ));
        }
    }
}
