#![doc = include_str!("README.md")]

mod answer;
mod kept;
mod request;
mod settings;

use std::sync::Arc;

use ghostlight_actors::{
    contract::{Model, ModelContext, ModelError, ModelHost},
    vocabulary::{ModelRequest, ModelResponse},
};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

pub use self::settings::{History, OpenAiResponsesSpec};
use self::{
    answer::Answer,
    request::{Body, PREVIOUS},
};
use super::{
    batches::{self, BatchEndpoint, BatchFailure, BatchServer, BatchSpec, Batched, described},
    client::invalid,
    http::{
        Attempt, Connection, Endpoint, Failed, Failure, Inputs, Key, Reach, Reaching, Received,
        ServerKind, Tariff, display_host, is_priced, judged, key_for, provider, read_json, timed,
        true_host,
    },
    openai::{self, OpenAiBatches, Profile},
};

/// The path of requests in batches.
const BATCHED: &str = "/v1/responses";

/// The files that OpenAI's models take beside text.
const TAKEN: [&str; 8] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "application/pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
];

/// A model on a server with OpenAI's Responses. See the [module](self).
///
/// Cloning it is cheap; clones share the connections.
#[derive(Clone)]
pub struct OpenAiResponses {
    connection: Connection<OpenAiResponsesSpec>,
}

/// A server with OpenAI's Responses, ready to be asked.
pub(crate) struct ResponsesEndpoint {
    server: Endpoint,
    /// Where requests go.
    url: String,
    /// Whether the server is OpenAI's own or Azure's.
    is_openai: bool,
}

impl OpenAiResponses {
    /// The model of this name at OpenAI, with the key in `OPENAI_API_KEY`. Nothing is looked up or connected before the
    /// first request.
    pub fn new(model: impl Into<String>) -> Self {
        Self::from(OpenAiResponsesSpec::new(model))
    }

    /// Changes the settings.
    ///
    /// ```
    /// use ghostlight_models::OpenAiResponses;
    ///
    /// let model = OpenAiResponses::new("gpt-5").with(|settings| {
    ///     settings.reasoning_summary = Some("auto".to_owned());
    ///     settings.tools.push(serde_json::json!({"type": "web_search"}));
    /// });
    /// # let _ = model;
    /// ```
    #[must_use]
    pub fn with(self, change: impl FnOnce(&mut OpenAiResponsesSpec)) -> Self {
        Self {
            connection: self.connection.with(change),
        }
    }

    /// Sends the requests of runs in batches: see [`OpenAi::batched`](openai::OpenAi::batched).
    #[must_use]
    pub fn batched(self, batch: BatchSpec) -> Self {
        self.with(|settings| settings.batch = Some(batch))
    }

    /// Adds a tool that the server itself runs, such as `{"type": "web_search"}`, beside those of the agent.
    #[must_use]
    pub fn tool(self, tool: impl Into<Value>) -> Self {
        self.with(|settings| settings.tools.push(tool.into()))
    }

    async fn attempt(
        &self,
        endpoint: &ResponsesEndpoint,
        request: &ModelRequest,
        cx: &ModelContext,
    ) -> Result<ModelResponse, Failed> {
        let name = kept::name_of(&endpoint.server.host);
        let mut answer = Answer::default();
        if let Err(failure) = self.read(endpoint, &name, request, cx, &mut answer).await {
            return Err(Failed::after(failure, answer.spent()));
        }
        complete(answer, &name, request)
    }

    /// The description of the batches of its model.
    fn batch_description(&self) -> String {
        let settings = self.connection.settings();
        described(&settings.model, &true_host(&settings.base_url), BATCHED)
    }

    /// The answer of a batch, on which the call waits in its sleep.
    async fn await_batch(
        &self,
        endpoint: &ResponsesEndpoint,
        request: &ModelRequest,
        (batched, cx): (Batched, &ModelContext),
    ) -> Result<ModelResponse, ModelError> {
        let mut settings = self.connection.settings().clone();
        settings.history = History::Whole;
        let name = kept::name_of(&endpoint.server.host);
        let body = Body {
            request,
            settings: &settings,
            server: &name,
            is_openai: endpoint.is_openai,
        };
        let server = self.batches(endpoint);
        let answered = batches::answer(&server, batched, cx, request, || {
            to_raw_value(&body.to_json())
        });
        let outcome = match answered.await {
            Ok(whole) => read_whole(&whole, &name, request),
            Err(BatchFailure::Server(failure)) => Err(failure.into()),
            Err(BatchFailure::Own(error)) => return Err(error),
        };
        let tariff = Tariff {
            is_batched: true,
            ..settings.tariff()
        };
        judged(&endpoint.server, tariff, request, outcome)
    }

    fn batches(&self, endpoint: &ResponsesEndpoint) -> Arc<dyn BatchServer> {
        let settings = self.connection.settings();
        Arc::new(OpenAiBatches(BatchEndpoint {
            server: Arc::new(endpoint.server.clone()),
            model: settings.model.clone(),
            path: BATCHED,
            timeouts: settings.timeouts,
            max_response_bytes: settings.max_response_bytes,
        }))
    }

    /// Reads the answer as far as it comes.
    async fn read(
        &self,
        endpoint: &ResponsesEndpoint,
        name: &str,
        request: &ModelRequest,
        cx: &ModelContext,
        answer: &mut Answer,
    ) -> Result<(), Failure> {
        let settings = self.connection.settings();
        let server = &endpoint.server;
        let attempt = Attempt::new(
            server.http.clone(),
            &settings.timeouts,
            settings.max_response_bytes,
        )
        .at(server);
        let body = |server| {
            let body = Body {
                request,
                settings,
                server,
                is_openai: endpoint.is_openai,
            };
            body.to_json()
        };
        let (url, sent) = (endpoint.url.clone(), body(name));
        let received = match attempt.post(url.clone(), &server.headers, &sent).await {
            Err(failure) if failure.has_lost_response() && sent.get(PREVIOUS).is_some() => {
                tracing::debug!(model = %settings.model, "the server has lost a response; it is told the whole conversation");
                // As to a server that knows none of it.
                attempt.post(url, &server.headers, &body("")).await?
            }
            received => received?,
        };
        match received {
            Received::Whole(whole) => answer.take_whole(whole)?,
            Received::Events(mut events) => {
                while !answer.is_over() {
                    let Some(event) = events.next().await? else {
                        break;
                    };
                    answer.take(&event, |delta| cx.delta(delta))?;
                }
            }
        }
        Ok(())
    }
}

/// The response that an answer makes.
fn complete(answer: Answer, name: &str, request: &ModelRequest) -> Result<ModelResponse, Failed> {
    let told = answer.told();
    let answer = answer.complete(name, &request.conversation);
    let mut response =
        answer.map_err(|failure| Failed::after(failure, Some((told, String::new()))))?;
    // The interface knows no texts to stop at.
    openai::cut_at(&mut response, &request.settings.stop);
    Ok(response)
}

/// The response that an answer in one piece makes.
fn read_whole(
    whole: &RawValue,
    name: &str,
    request: &ModelRequest,
) -> Result<ModelResponse, Failed> {
    let mut answer = Answer::default();
    match answer.take_whole(read_json(whole.get().as_bytes())?) {
        Ok(()) => complete(answer, name, request),
        Err(failure) => Err(Failed::after(failure, answer.spent())),
    }
}

provider! {
    OpenAiResponses, OpenAiResponsesSpec, "/responses",
    variables: "OPENAI", keys: ["OPENAI_API_KEY"], address: str::to_owned,
}

impl Model for OpenAiResponses {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let settings = self.connection.settings();
        let endpoint = self.connection.endpoint()?;
        let inputs = match endpoint.is_openai {
            true => Inputs::of(TAKEN),
            false => Inputs::UNKNOWN,
        };
        let mut request = inputs.fitted(&request, || self.description())?;
        if let Some(batched) = Batched::of(settings.batch, || self.batch_description(), &cx) {
            request.to_mut().stream = false;
            return self.await_batch(endpoint, &request, (batched, &cx)).await;
        }
        let attempt = self.attempt(endpoint, &request, &cx);
        let total = settings.timeouts.total;
        let tariff = Tariff::new(settings.prices.as_ref(), &settings.model);
        timed(&endpoint.server, total, tariff, &request, attempt).await
    }

    async fn attend(&self, host: &ModelHost) {
        let settings = self.connection.settings();
        let description = self.batch_description();
        batches::attend(host, settings.batch, &description, || {
            Ok(self.batches(self.connection.endpoint()?))
        })
        .await;
    }

    fn ready(&self) -> Result<(), ModelError> {
        self.connection.endpoint().map(drop)
    }

    fn is_priced(&self) -> bool {
        let settings = self.connection.settings();
        is_priced(settings.tariff(), &settings.base_url)
    }

    fn description(&self) -> String {
        let settings = self.connection.settings();
        let host = display_host(&settings.base_url);
        format!("openai_responses {} at {host}", settings.model)
    }
}

impl Reach for OpenAiResponsesSpec {
    type Endpoint = ResponsesEndpoint;

    fn open(&self) -> Result<ResponsesEndpoint, ModelError> {
        let profile = Profile::of(&self.base_url, &self.model);
        if self.batch.is_some() && profile.key_in_api_key {
            return Err(invalid(openai::NO_BATCHES_AT_AZURE));
        }
        let key = match profile.key_variable.as_str() {
            "" => self.api_key.clone(),
            variable => {
                let own_host = true_host(&profile.base_url);
                key_for(&self.base_url, &own_host, self.api_key.as_ref(), variable)
            }
        };
        let key = key.map(|key| match profile.key_in_api_key {
            true => Key::header("api-key", key),
            false => Key::Bearer(key),
        });
        let server = Endpoint::open(Reaching {
            base_url: &self.base_url,
            model: &self.model,
            key,
            headers: &self.headers,
            allow_plain_http: self.allow_plain_http,
            timeouts: &self.timeouts,
            kind: ServerKind {
                name: "a server that speaks OpenAI's Responses",
                place: "check the model's name, and that base_url ends where the server's /responses begins (often in \
                        /v1)",
            },
        })?;
        let base = match profile.key_in_api_key {
            true => openai::azure_v1(&server.base),
            false => server.base.clone(),
        };
        let query = match &self.api_version {
            Some(version) => format!("?api-version={version}"),
            None => String::new(),
        };
        Ok(ResponsesEndpoint {
            url: format!("{base}/responses{query}"),
            is_openai: profile.name == "openai" || profile.key_in_api_key,
            server,
        })
    }
}
