//! The server as a whole.

mod state;

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::{from_fn, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get},
};
#[cfg(feature = "a2a")]
use ghostlight_a2a::CardSigner;
use ghostlight_actors::actor::System;
#[cfg(feature = "evals")]
use ghostlight_evals::Evaluation;
use ring::hmac;
use rustls::ServerConfig;
use serde_json::Value;
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowOrigin, CorsLayer},
};

#[cfg(feature = "anp")]
use crate::anp::Identities;
#[cfg(feature = "deliveries")]
use crate::deliveries::Deliveries;
use crate::{
    access, agui, api,
    caller::Scope,
    compatible,
    connections::Connections,
    endpoint::{Access, Endpoint, Endpoints},
    issuer::Issuer,
    keys::KeyFile,
    metrics::Added,
    options::ServerOptions,
    page::PageFile,
    peers::Peers,
    problem::Problem,
    quotas::{Quota, QuotaFor, Quotas},
    served::ServedSpec,
    settings::{Callers, ServerOptionsError},
    subjects::Subjects,
    variables::Variables,
    webhooks,
};
pub use state::Visibility;
pub(crate) use state::{Shared, State};
use state::{Token, hashing};

/// A server for the teams of a [`System`].
///
/// Without [keys](Self::keys), a [token](Self::token) or an [issuer](Self::issuer) every caller may do everything: such
/// a server answers only requests that name this machine itself, and belongs on a loopback address.
#[derive(Clone, Debug)]
pub struct Server {
    system: System,
    keys: Option<KeyFile>,
    issuers: Vec<Issuer>,
    #[cfg(feature = "anp")]
    identities: Option<Identities>,
    #[cfg(feature = "a2a")]
    card_signer: Option<CardSigner>,
    token: Option<Token>,
    page: &'static [PageFile],
    limits: ServerOptions,
    quotas: Vec<(QuotaFor, Quota)>,
    hosts: Vec<String>,
    origins: Vec<String>,
    schema: Option<Value>,
    address: Option<String>,
    visibility: BTreeMap<String, Visibility>,
    tls: Option<Arc<ServerConfig>>,
    peers: Option<Peers>,
    services: Vec<Nested>,
    added: Option<Added>,
    variables: Variables,
    #[cfg(feature = "evals")]
    evaluations: Vec<Arc<Evaluation>>,
    #[cfg(feature = "deliveries")]
    deliveries: Option<Deliveries>,
}

/// The host names of the machine itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl Server {
    /// A server for this System, which goes on when the server stops.
    pub fn new(system: System) -> Self {
        Self {
            system,
            keys: None,
            issuers: Vec::new(),
            #[cfg(feature = "anp")]
            identities: None,
            #[cfg(feature = "a2a")]
            card_signer: None,
            token: None,
            page: &[],
            limits: ServerOptions::default(),
            quotas: Vec::new(),
            hosts: Vec::new(),
            origins: Vec::new(),
            schema: None,
            address: None,
            visibility: BTreeMap::new(),
            tls: None,
            peers: None,
            services: Vec::new(),
            added: None,
            variables: Variables::default(),
            #[cfg(feature = "evals")]
            evaluations: Vec::new(),
            #[cfg(feature = "deliveries")]
            deliveries: None,
        }
    }

    /// Lets in only holders of these keys. Sessions that a key's holder begins belong to its subject, and only the
    /// operator can see them, too.
    #[must_use]
    pub fn keys(mut self, keys: KeyFile) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Lets in holders of this identity provider's tokens, beside the holders of [keys](Self::keys). Sessions that a
    /// token's holder begins belong to its subject, and only the operator can see them, too.
    #[must_use]
    pub fn issuer(mut self, issuer: Issuer) -> Self {
        self.issuers.push(issuer);
        self
    }

    /// Lets in callers that sign their requests with these identities, beside the holders of [keys](Self::keys). The
    /// server must know its own [address](Self::address), since that is signed.
    #[cfg(feature = "anp")]
    #[must_use]
    pub fn identities(mut self, identities: Identities) -> Self {
        self.identities = Some(identities);
        self
    }

    /// Signs the cards of its agents (Agent2Agent). The server must know its own [address](Self::address), since a client
    /// could otherwise have any address signed.
    #[cfg(feature = "a2a")]
    #[must_use]
    pub fn card_signer(mut self, signer: CardSigner) -> Self {
        self.card_signer = Some(signer);
        self
    }

    /// Lets in only callers with this token, given like a key, and, if there are [keys](Self::keys), callers with a
    /// key. The token's holder is the operator. It is for a server that one person starts for a while: make the token
    /// of 128 random bits or more, and of letters, digits, `-` and `_`, so that it fits into a cookie.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(Token(hmac::sign(&hashing(), token.as_bytes())));
        self
    }

    /// Shows a page to browsers, such as that of the package `ghostlight-page`. Its files are the same for everybody; a
    /// browser gives its key in the first address (`/?token=KEY`) or at `/sign-in`, and keeps it in a cookie.
    #[must_use]
    pub fn page(mut self, files: &'static [PageFile]) -> Self {
        self.page = files;
        self
    }

    /// Asks the other processes over the store for the previews of runs that they carry, and lets them ask this one.
    #[must_use]
    pub fn peers(mut self, peers: Peers) -> Self {
        self.peers = Some(peers);
        self
    }

    /// Sets the bounds on what clients may take.
    #[must_use]
    pub fn options(mut self, limits: ServerOptions) -> Self {
        self.limits = limits;
        self
    }

    /// Limits the use by each subject, tenant or team, or by each subject at each team. Several quotas apply at once,
    /// and those of a [key](crate::KeySpec::quotas) beside them. The use is kept in the System's store, so a restart
    /// loses nothing, and all servers over one store share it. A turn beyond a quota is answered with 429 and takes
    /// nothing; a recorded turn costs nothing when it is sent again. The operator has only the quotas of teams, so a server
    /// without keys has no others.
    #[must_use]
    pub fn quota(mut self, whose: QuotaFor, quota: Quota) -> Self {
        self.quotas.push((whose, quota));
        self
    }

    /// Adds a name under which the server answers, without a port. Where none is added, a server without keys answers
    /// under the names of this machine itself (`localhost`, `127.0.0.1`, `[::1]`), and one with keys under every name.
    #[must_use]
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Lets pages of this site use the server from a browser, such as `https://example.org` (CORS). Without it only the
    /// server's own pages may.
    #[must_use]
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Sets what `/schema` shows: the JSON Schema of team files.
    #[must_use]
    pub fn team_schema(mut self, schema: Value) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Sets the address of the server, such as `https://agents.example.org`, for documents that contain it (the cards
    /// of agents). Without it the address is the host that a request names.
    #[must_use]
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Sets the callers that may learn of a team.
    #[must_use]
    pub fn visibility(mut self, team: impl Into<String>, visibility: Visibility) -> Self {
        self.visibility.insert(team.into(), visibility);
        self
    }

    /// Speaks TLS with these settings of rustls, where the server [serves](Self::serve) itself.
    #[must_use]
    pub fn tls(mut self, config: Arc<ServerConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Adds a service of another protocol at this path, with the same checks of host names, origins and keys: holders
    /// of a key with this scope may use it. The extensions of a request hold an [`Admitted`](crate::Admitted). Event
    /// streams end when the server stops. Quotas apply to the turns that the service [sends](crate::Admitted::send).
    #[must_use]
    pub fn service(mut self, path: &'static str, scope: Scope, service: MethodRouter) -> Self {
        self.services.push(Nested {
            path,
            scope,
            service,
        });
        self
    }

    /// Adds to `/metrics` what this reads, in Prometheus's text format: the figures of `ghostlight_opentelemetry`'s `Prometheus`.
    #[must_use]
    pub fn metrics<F>(mut self, read: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = String> + Send + 'static,
    {
        self.added = Some(Added::new(read));
        self
    }

    /// Looks up the secrets of webhooks, notifications and messengers, and the variables in their addresses, with this, such
    /// as to read an `.env` file. Without it they are looked up in the environment. It is called whenever one is used.
    #[must_use]
    pub fn variables(mut self, look_up: fn(&str) -> Option<String>) -> Self {
        self.variables = Variables::of(look_up);
        self
    }

    /// Shows the operator this evaluation, scored anew from the System's store whenever somebody looks: no model is asked, and
    /// programs that score are run.
    #[cfg(feature = "evals")]
    #[must_use]
    pub fn evaluation(mut self, evaluation: impl Into<Arc<Evaluation>>) -> Self {
        self.evaluations.push(evaluation.into());
        self
    }

    /// Posts what becomes of runs to other programs: the notifications of teams, and the answers of webhooks that want them
    /// posted. Without it neither is posted. It begins when the server [serves](Self::serve) or [delivers](Self::deliver).
    #[cfg(feature = "deliveries")]
    #[must_use]
    pub fn deliveries(mut self, deliveries: Deliveries) -> Self {
        self.deliveries = Some(deliveries);
        self
    }

    /// Posts messages until `stop` is done, for a server whose [router](Self::router) is nested into another service.
    #[cfg(feature = "deliveries")]
    pub async fn deliver(&self, stop: impl Future) {
        tokio::select! {
            biased;
            _ = stop => {}
            () = self.delivering() => {}
        }
    }

    #[cfg(feature = "deliveries")]
    async fn delivering(&self) {
        match &self.deliveries {
            Some(deliveries) => {
                let deliveries = deliveries.clone();
                deliveries.run(&self.system, self.variables).await;
            }
            None => std::future::pending().await,
        }
    }

    /// All endpoints, as a router to nest into another service. The bounds of connections and headers are then those of
    /// that service.
    pub fn router(&self) -> Router {
        let state = self.state();
        self.assemble(&state).0
    }

    /// Everything that the router answers, each with its access: the endpoints, the files of the page, and the nested
    /// services, whose methods are not known (each is listed with GET, POST and DELETE).
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let state = self.state();
        self.assemble(&state).1
    }

    /// Checks that each setting can have an effect. [`serve`](Self::serve) checks it, too.
    ///
    /// # Errors
    /// The first setting that could have none.
    pub fn check(&self) -> Result<(), ServerOptionsError> {
        #[cfg(feature = "anp")]
        let has_identities = self.identities.is_some();
        #[cfg(not(feature = "anp"))]
        let has_identities = false;
        let has_keys = self.keys.is_some() || !self.issuers.is_empty();
        let teams = self.system.teams();
        for spec in &teams {
            let team = spec.name.clone();
            ServedSpec::of(spec).map_err(|error| ServerOptionsError::Team { team, error })?;
        }
        let callers = Callers::new(has_keys, has_identities, &teams);
        let mut quotas = self.quotas.iter();
        quotas.try_for_each(|(whose, _)| callers.check_quota(*whose))?;
        let mut hosts = self.hosts.iter();
        hosts.try_for_each(|name| ServerOptionsError::check_host(name))?;
        let mut origins = self.origins.iter();
        origins.try_for_each(|origin| ServerOptionsError::check_origin(origin))?;
        let address = self.address.as_deref();
        address.map_or(Ok(()), ServerOptionsError::check_address)
    }

    /// Serves until `stop` is done. Then it accepts no more connections, ends event streams and requests that wait for
    /// a run, and returns when all connections have ended or [their time](ServerOptions::shutdown) is up. Runs go on; if
    /// the System is stopped next, they go on when it is started again.
    ///
    /// # Errors
    /// A setting that [could have no effect](Self::check), and what the listener fails with.
    pub async fn serve(self, listener: TcpListener, stop: impl Future) -> io::Result<()> {
        let checked = self.check();
        checked.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let state = self.state();
        let (router, _) = self.assemble(&state);
        #[cfg(feature = "deliveries")]
        let _delivering = {
            let (server, stopping) = (self.clone(), state.stopping.clone());
            AbortOnDropHandle::new(tokio::spawn(async move {
                server.deliver(stopping.cancelled()).await;
            }))
        };
        let system = self.system.clone();
        let asking = self.peers.map(|peers| tokio::spawn(peers.serve(system)));
        let _asking = asking.map(AbortOnDropHandle::new);
        let connections = Connections::new(
            router,
            self.limits,
            state.metrics.clone(),
            self.tls.map(acceptor),
            state.stopping.clone(),
        );
        connections.serve(listener, stop).await
    }

    fn state(&self) -> Shared {
        let mut hosts = self.hosts.clone();
        if self.keys.is_none() && self.issuers.is_empty() && hosts.is_empty() {
            hosts.extend(LOOPBACK.map(str::to_owned));
        }
        Arc::new(State {
            system: self.system.clone(),
            keys: self.keys.clone(),
            issuers: self.issuers.clone(),
            #[cfg(feature = "anp")]
            identities: self.identities.clone(),
            #[cfg(feature = "a2a")]
            card_signer: self.card_signer.clone(),
            #[cfg(feature = "anp")]
            services: ghostlight_anp::Registry::default(),
            token: self.token.clone(),
            has_tls: self.tls.is_some(),
            limits: self.limits,
            subjects: Subjects::default(),
            unverified: Arc::new(Semaphore::new(
                self.limits.max_unverified_bytes.min(Semaphore::MAX_PERMITS),
            )),
            quotas: Quotas::new(&self.system, &self.quotas),
            metrics: Arc::default(),
            added: self.added.clone(),
            variables: self.variables,
            #[cfg(feature = "evals")]
            evaluations: self.evaluations.iter().cloned().map(Into::into).collect(),
            readings: api::Readings::default(),
            stopping: CancellationToken::new(),
            hosts,
            origins: self.origins.clone(),
            schema: self.schema.clone(),
            address: self.address.clone(),
            openapi: OnceLock::new(),
            #[cfg(feature = "deliveries")]
            deliveries: self.deliveries.clone(),
            visibility: self.visibility.clone(),
        })
    }

    fn assemble(&self, state: &Shared) -> (Router, Vec<Endpoint>) {
        let endpoints = api::endpoints(Endpoints::new(state.clone()));
        let endpoints = compatible::endpoints(endpoints);
        let endpoints = agui::endpoints(endpoints);
        let endpoints = webhooks::endpoints(endpoints);
        #[cfg(feature = "deliveries")]
        let endpoints = crate::messengers::endpoints(endpoints);
        #[cfg(feature = "a2a")]
        let endpoints = crate::a2a::endpoints(endpoints);
        #[cfg(feature = "anp")]
        let endpoints = crate::anp::endpoints(endpoints);
        let (router, mut list, document) = endpoints.finish();
        let _ = state.openapi.set(document);
        // The page's files are added beside the endpoints: they are not part of the interface, and hold no data.
        let router = self.page.iter().fold(router, |router, &file| {
            let about = "A file of the page.";
            list.push(Endpoint::new(Method::GET, file.path, Access::Public, about));
            let answer = move |state, query, headers| file.answer(state, query, headers);
            router.route(file.path, get(answer))
        });
        let router = self.services.iter().fold(router, |router, nested| {
            let needs = Access::Needs(nested.scope);
            for method in [Method::GET, Method::POST, Method::DELETE] {
                let about = "A service of another protocol.";
                list.push(Endpoint::new(method, nested.path, needs, about));
            }
            let gate = from_fn_with_state((state.clone(), needs), access::check);
            let admit = from_fn_with_state(state.clone(), access::admit);
            let service = nested.service.clone().with_state(());
            router.route(nested.path, service.layer(admit).layer(gate))
        });
        let router = router
            .fallback(|| async { Problem::not_found("such endpoint; see /openapi.json") })
            .method_not_allowed_fallback(|| async {
                let detail = "the endpoint has other methods; see /openapi.json";
                Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail)
            })
            .layer(CatchPanicLayer::custom(panicked))
            .layer(from_fn(compatible::in_their_form))
            .layer(from_fn_with_state(state.clone(), access::same_site));
        #[cfg(feature = "a2a")]
        let router = router.layer(from_fn(crate::a2a::in_its_form));
        let router = match self.cors() {
            Some(cors) => router.layer(cors),
            None => router,
        };
        let router = router.layer(from_fn_with_state(state.clone(), access::observe));
        (router.with_state(state.clone()), list)
    }

    fn cors(&self) -> Option<CorsLayer> {
        let origins = self
            .origins
            .iter()
            .filter_map(|origin| HeaderValue::from_str(origin).ok());
        let origins: Vec<HeaderValue> = origins.collect();
        let own = [
            "a2a-version",
            "idempotency-key",
            "last-event-id",
            "mcp-method",
            "mcp-name",
            "mcp-protocol-version",
            "mcp-session-id",
            "x-api-key",
            "x-request-id",
            "x-session-id",
        ];
        let headers = own.map(HeaderName::from_static).into_iter();
        let headers = headers.chain([header::AUTHORIZATION, header::CONTENT_TYPE, header::ACCEPT]);
        (!origins.is_empty()).then(|| {
            CorsLayer::new()
                .allow_origin(AllowOrigin::list(origins))
                .allow_methods([Method::GET, Method::POST, Method::DELETE])
                .allow_headers(headers.collect::<Vec<_>>())
                .expose_headers([HeaderName::from_static("mcp-session-id")])
        })
    }
}

/// Offers HTTP/2 and HTTP/1.1, unless the settings say what to offer.
fn acceptor(mut config: Arc<ServerConfig>) -> TlsAcceptor {
    if config.alpn_protocols.is_empty() {
        Arc::make_mut(&mut config).alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    }
    TlsAcceptor::from(config)
}

/// A service of another protocol.
#[derive(Clone, Debug)]
struct Nested {
    path: &'static str,
    scope: Scope,
    service: MethodRouter,
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    Problem::internal(&"a handler panicked").into_response()
}
