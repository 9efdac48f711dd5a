//! A server that is asked: how it is reached, and one attempt.

use std::{collections::BTreeMap, fmt};

use ghostlight_actors::{
    contract::{ModelContext, ModelError},
    vocabulary::{ModelRequest, ModelResponse, Prices, ToolChoice},
};
use http::HeaderName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Answer, Provider};
use crate::{
    Secret,
    client::invalid,
    http::{
        Attempt, CallIds, Connection, Endpoint, Failed, Inputs, Key, MAX_RESPONSE_BYTES, Reach,
        Reaching, ServerKind, Tariff, Timeouts, address, display_host, is_offered, is_priced,
        key_for, legal, merge, no_credentials, offered, timed, true_host, without_credentials,
    },
};

/// How a server is reached, as plain data. A team file holds the same fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerSpec {
    /// The provider's name of the model.
    pub model: String,
    /// The address up to the paths that are asked; empty for the provider's own. It holds no name, password or query.
    #[serde(deserialize_with = "address")]
    pub base_url: String,
    /// The key, as a reference to an environment variable. If it is left out, the provider's own server gets the key in its
    /// variable, and any other server none.
    pub api_key: Option<Secret>,
    /// The time limits of an attempt.
    pub timeouts: Timeouts,
    /// The prices of the model. Without them it costs 0, and a budget in money over it is refused.
    pub prices: Option<Prices>,
    /// Further fields of each request body, merged into it; `null` removes one. The further fields of a single request win over
    /// these. A credential does not belong here.
    #[serde(deserialize_with = "no_credentials")]
    pub extra: BTreeMap<String, Value>,
    /// Further headers. `${NAME}` in a value stands for that environment variable, and `$$` for a dollar sign.
    #[serde(deserialize_with = "without_credentials")]
    pub headers: BTreeMap<String, String>,
    /// Whether a key may go to another machine over plain `http`.
    pub allow_plain_http: bool,
    /// The most bytes of an answer, as it comes over the wire.
    pub max_response_bytes: u64,
}

impl ServerSpec {
    /// The model of this name at its provider's own server.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            base_url: String::new(),
            api_key: None,
            timeouts: Timeouts::default(),
            prices: None,
            extra: BTreeMap::new(),
            headers: BTreeMap::new(),
            allow_plain_http: false,
            max_response_bytes: MAX_RESPONSE_BYTES,
        }
    }
}

impl Default for ServerSpec {
    fn default() -> Self {
        Self::new("")
    }
}

/// A server of a [`Provider`], with the settings by which it is reached. Nothing is looked up or connected before the first
/// request. Cloning it is cheap; clones share the connections.
#[derive(Clone)]
pub struct Server {
    connection: Connection<Reached>,
}

#[derive(Clone)]
struct Reached {
    provider: Provider,
    spec: ServerSpec,
}

impl Server {
    /// The server of this provider that these settings name.
    pub fn new(provider: Provider, mut spec: ServerSpec) -> Self {
        if spec.base_url.is_empty() {
            provider.base_url.clone_into(&mut spec.base_url);
        }
        Self {
            connection: Connection::new(Reached { provider, spec }),
        }
    }

    /// Changes the settings.
    #[must_use]
    pub fn with(self, change: impl FnOnce(&mut ServerSpec)) -> Self {
        Self {
            connection: self.connection.with(|reached| change(&mut reached.spec)),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &ServerSpec {
        &self.connection.settings().spec
    }

    /// Reads the address and looks up the secrets, which the first request would do.
    ///
    /// # Errors
    /// An address or header that cannot be used, a secret that is not set, no trusted certificates on the machine.
    pub fn check(&self) -> Result<(), ModelError> {
        self.connection.endpoint().map(drop)
    }

    /// Whether it is known what the model costs: by the settings, or because it runs on this machine.
    pub fn is_priced(&self) -> bool {
        is_priced(self.tariff(), &self.settings().base_url)
    }

    /// The model and its server, for people.
    pub fn description(&self) -> String {
        let Reached { provider, spec } = self.connection.settings();
        let host = display_host(&spec.base_url);
        format!("{} {} at {host}", provider.name, spec.model)
    }

    /// The request in a form that servers accept, whatever a model, a tool or an older session put into its conversation.
    ///
    /// # Errors
    /// A file that a user has just said, and that the model cannot take.
    pub fn legal(&self, request: &ModelRequest) -> Result<ModelRequest, ModelError> {
        let provider = self.connection.settings().provider;
        let inputs = Inputs::of(provider.files.iter().copied());
        let mut request = inputs.fitted(request, || self.description())?.into_owned();
        let messages = legal(&request.conversation, CallIds::PLAIN, provider.name);
        request.conversation = messages.into_iter().collect();
        if let Some(ToolChoice::Tool(name)) = &request.settings.tool_choice
            && !is_offered(&request.tools, name, usize::MAX)
        {
            let mut settings = (*request.settings).clone();
            settings.tool_choice = None;
            request.settings = settings.into();
        }
        request.tools = offered(&request.tools, usize::MAX).into_iter().collect();
        Ok(request)
    }

    /// Makes one attempt: posts a body to a path below the address, and gives each value that comes to `read`, which puts the
    /// answer together. An answer that comes whole is one value; a stream is one for each event, and what is new in it is
    /// shown. An error that stands in a value is recognised in the usual forms, before it is read.
    ///
    /// # Errors
    /// The failure of the attempt, with the server's words, and whether another attempt may help.
    pub async fn ask(
        &self,
        request: &ModelRequest,
        cx: &ModelContext,
        path: &str,
        mut body: Value,
        read: impl FnMut(&Value, &mut Answer<'_>) + Send,
    ) -> Result<ModelResponse, ModelError> {
        let settings = self.settings();
        for (name, value) in settings.extra.iter().chain(&request.settings.extra) {
            let further = Value::Object([(name.clone(), value.clone())].into_iter().collect());
            merge(&mut body, &further);
        }
        let endpoint = self.connection.endpoint()?;
        let attempt = self.attempt(endpoint, request, cx, (path, &body), read);
        let total = settings.timeouts.total;
        timed(endpoint, total, self.tariff(), request, attempt).await
    }

    async fn attempt(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest,
        cx: &ModelContext,
        (path, body): (&str, &Value),
        mut read: impl FnMut(&Value, &mut Answer<'_>) + Send,
    ) -> Result<ModelResponse, Failed> {
        let settings = self.settings();
        let http = endpoint.http.clone();
        let attempt = Attempt::new(http, &settings.timeouts, settings.max_response_bytes);
        let attempt = attempt.at(endpoint);
        let url = format!("{}{path}", endpoint.base);
        let mut answer = Answer::shown_to(cx);
        let received = async {
            let received = attempt.post(url, &endpoint.headers, body).await?;
            let take = |answer: &mut Answer<'_>, value: &Value, is_piece: bool| {
                answer.is_shown = is_piece;
                read(value, answer);
                answer.failure()
            };
            received
                .values(&mut answer, Answer::is_finished, take)
                .await
        };
        let received = received.await;
        let spent = answer.spent();
        let answer = received.and_then(|()| answer.complete(&request.conversation));
        answer.map_err(|failure| Failed::after(failure, spent))
    }

    fn tariff(&self) -> Tariff<'_> {
        let settings = self.settings();
        Tariff::new(settings.prices.as_ref(), &settings.model)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.description())
    }
}

impl Reach for Reached {
    type Endpoint = Endpoint;

    fn open(&self) -> Result<Endpoint, ModelError> {
        let Self { provider, spec } = self;
        let own_host = true_host(provider.base_url);
        let key = match provider.key_variable {
            "" => spec.api_key.clone(),
            variable => key_for(&spec.base_url, &own_host, spec.api_key.as_ref(), variable),
        };
        let header = match provider.key_header {
            "" => None,
            name => Some(HeaderName::try_from(name).map_err(|_| {
                invalid(format!("{name:?} is not the name of a header for the key"))
            })?),
        };
        let key = key.map(|key| match header {
            Some(name) => Key::Header(name, key),
            None => Key::Bearer(key),
        });
        Endpoint::open(Reaching {
            base_url: &spec.base_url,
            model: &spec.model,
            key,
            headers: &spec.headers,
            allow_plain_http: spec.allow_plain_http,
            timeouts: &spec.timeouts,
            kind: ServerKind {
                name: provider.name,
                place: "check the model's name and base_url",
            },
        })
    }
}
