#![doc = include_str!("README.md")]

mod answer;
mod batch;
mod blocks;
mod message;
mod request;
mod settings;

use std::sync::Arc;

use ghostlight_actors::{
    contract::{Model, ModelContext, ModelError, ModelHost},
    vocabulary::{ModelRequest, ModelResponse},
};
use serde_json::value::{RawValue, to_raw_value};

use self::batch::{AnthropicBatches, NO_BATCHES_AT_VERTEX, within_bounds};
pub use self::settings::{AnthropicSpec, HourCache, Thinking};
pub(crate) use self::{answer::Answer, request::Body};
use super::{
    batches::{self, BatchEndpoint, BatchFailure, BatchServer, BatchSpec, Batched, described},
    client::invalid,
    http::{
        Attempt, Connection, Endpoint, Failed, Failure, Inputs, Key, Reach, Reaching, Received,
        ServerKind, Tariff, display_host, is_priced, judged, key_for, provider, read_json, timed,
        true_host, with_own_keys,
    },
    vertex,
};

/// The version of the interface that is spoken.
const VERSION: &str = "2023-06-01";
/// The same in Vertex AI, and its name for who makes the models.
const VERTEX_VERSION: &str = "vertex-2023-10-16";
const PUBLISHER: &str = "anthropic";
/// How often an answer goes on after a pause. The provider pauses when its own tools were used several times.
const MAX_PAUSES: u32 = 32;

/// The path of requests in batches.
const BATCHED: &str = "/v1/messages";

/// The files that the models take beside text.
const TAKEN: [&str; 5] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "application/pdf",
];

/// A model of Anthropic's, by its Messages API. See the [module](self).
///
/// Cloning it is cheap; clones share the connections.
#[derive(Clone)]
pub struct Anthropic {
    connection: Connection<AnthropicSpec>,
}

impl Anthropic {
    /// The model of this name at Anthropic, with the key in `ANTHROPIC_API_KEY`. Nothing is looked
    /// up or connected before the first request.
    pub fn new(model: impl Into<String>) -> Self {
        Self::from(AnthropicSpec::new(model))
    }

    /// Changes the settings.
    ///
    /// ```
    /// use ghostlight_models::{Anthropic, anthropic::Thinking};
    ///
    /// let model = Anthropic::new("claude-opus-4-6").with(|settings| {
    ///     settings.thinking = Thinking::Budget(8_000);
    ///     settings.cache = false;
    /// });
    /// # let _ = model;
    /// ```
    #[must_use]
    pub fn with(self, change: impl FnOnce(&mut AnthropicSpec)) -> Self {
        Self {
            connection: self.connection.with(change),
        }
    }

    /// Sends the requests of runs in batches: for half the price, within a day. The runs sleep until then. A call
    /// outside of a run is made at once, as without batches, and so is the rest of an answer that pauses.
    ///
    /// ```
    /// use ghostlight_models::{Anthropic, BatchSpec};
    ///
    /// let model = Anthropic::new("claude-haiku-4-5").batched(BatchSpec::default().max_requests(2_000));
    /// # let _ = model;
    /// ```
    #[must_use]
    pub fn batched(self, batch: BatchSpec) -> Self {
        self.with(|settings| settings.batch = Some(batch))
    }

    /// Completes an answer of which some may be there.
    async fn attempt(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest,
        cx: &ModelContext,
        mut answer: Answer,
    ) -> Result<ModelResponse, Failed> {
        if let Err(failure) = self.read(endpoint, request, cx, &mut answer).await {
            return Err(Failed::after(failure, answer.spent()));
        }
        complete(answer, request)
    }

    /// The description of the batches of its model.
    fn batch_description(&self) -> String {
        let settings = self.connection.settings();
        described(&settings.model, &true_host(&settings.base_url), BATCHED)
    }

    /// The answer of a batch, on which the call waits in its sleep.
    async fn await_batch(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest,
        (batched, cx): (Batched, &ModelContext),
    ) -> Result<ModelResponse, ModelError> {
        let settings = self.connection.settings();
        let server = self.batches(endpoint);
        let answered = batches::answer(&server, batched, cx, request, || {
            let body = Body {
                request,
                settings,
                is_paused: false,
            };
            to_raw_value(&body.to_json())
        });
        let outcome = match answered.await {
            Ok(whole) => read_whole(&whole),
            Err(BatchFailure::Server(failure)) => Err(failure.into()),
            Err(BatchFailure::Own(error)) => return Err(error),
        };
        let outcome = match outcome {
            Ok(answer) if answer.is_paused() => {
                // A batch has no second turn. All of it is counted as if it had gone alone.
                let rest = self.attempt(endpoint, request, cx, answer);
                let total = settings.timeouts.total;
                let tariff = Tariff::new(settings.prices.as_ref(), &settings.model);
                return timed(endpoint, total, tariff, request, rest).await;
            }
            Ok(answer) => complete(answer, request),
            Err(failed) => Err(failed),
        };
        let tariff = Tariff {
            is_batched: true,
            ..settings.tariff()
        };
        judged(endpoint, tariff, request, outcome)
    }

    fn batches(&self, endpoint: &Endpoint) -> Arc<dyn BatchServer> {
        let settings = self.connection.settings();
        Arc::new(AnthropicBatches(BatchEndpoint {
            server: Arc::new(endpoint.clone()),
            model: settings.model.clone(),
            path: BATCHED,
            timeouts: settings.timeouts,
            max_response_bytes: settings.max_response_bytes,
        }))
    }

    /// Reads the answer as far as it comes, over its pauses.
    async fn read(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest,
        cx: &ModelContext,
        answer: &mut Answer,
    ) -> Result<(), Failure> {
        let settings = self.connection.settings();
        let http = endpoint.http.clone();
        let attempt = || {
            let http = http.clone();
            Attempt::new(http, &settings.timeouts, settings.max_response_bytes).at(endpoint)
        };
        let is_vertex = vertex::is_at(&settings.base_url, PUBLISHER);
        let url = match (is_vertex, request.stream) {
            (false, _) => format!("{}/messages", endpoint.base),
            (true, false) => format!("{}/models/{}:rawPredict", endpoint.base, settings.model),
            (true, true) => format!(
                "{}/models/{}:streamRawPredict",
                endpoint.base, settings.model
            ),
        };
        let mut asked = request.clone();
        // An answer of a batch may have come to a pause already.
        let mut is_paused = answer.is_paused();
        for _ in 0..=MAX_PAUSES {
            if is_paused {
                asked.conversation = request.conversation.clone();
                asked.conversation.push(answer.resume()?);
            }
            let body = Body {
                request: &asked,
                settings,
                is_paused,
            };
            let (attempt, mut body) = (attempt(), body.to_json());
            if is_vertex && let Some(fields) = body.as_object_mut() {
                // There the address names the model, and the body the version.
                fields.remove("model");
                fields.insert("anthropic_version".to_owned(), VERTEX_VERSION.into());
            }
            match attempt.post(url.clone(), &endpoint.headers, &body).await? {
                Received::Whole(whole) => answer.take_whole(whole)?,
                Received::Events(mut events) => {
                    while !answer.is_over() {
                        let event = match events.next().await {
                            Ok(event) => event,
                            // Only the end of the stream is missing, and nothing of the answer.
                            Err(failure) if failure.is_cut() && answer.is_finished() => break,
                            Err(failure) => return Err(failure),
                        };
                        let Some(event) = event else { break };
                        answer.take(&event, |delta| cx.delta(delta))?;
                    }
                }
            }
            is_paused = answer.is_paused();
            if !is_paused {
                break;
            }
        }
        Ok(())
    }
}

/// The response that an answer makes.
fn complete(answer: Answer, request: &ModelRequest) -> Result<ModelResponse, Failed> {
    let told = answer.told();
    let answer = answer.complete(&request.conversation);
    let answer = answer.map(|answer| with_own_keys(answer, &request.tools));
    answer.map_err(|failure| Failed::after(failure, Some((told, String::new()))))
}

/// An answer in one piece.
fn read_whole(whole: &RawValue) -> Result<Answer, Failed> {
    let mut answer = Answer::default();
    answer.take_whole(read_json(whole.get().as_bytes())?)?;
    Ok(answer)
}

provider! {
    Anthropic, AnthropicSpec, "/messages",
    variables: "ANTHROPIC", keys: ["ANTHROPIC_API_KEY"], address: with_version,
}

/// The SDKs' variable ends before the version.
fn with_version(address: &str) -> String {
    let address = address.trim_end_matches('/');
    match address.ends_with("/v1") {
        true => address.to_owned(),
        false => format!("{address}/v1"),
    }
}

impl Model for Anthropic {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let settings = self.connection.settings();
        let endpoint = self.connection.endpoint()?;
        let mut request = Inputs::of(TAKEN).fitted(&request, || self.description())?;
        let batch = settings.batch.map(within_bounds);
        if let Some(batched) = Batched::of(batch, || self.batch_description(), &cx) {
            request.to_mut().stream = false;
            return self.await_batch(endpoint, &request, (batched, &cx)).await;
        }
        let attempt = self.attempt(endpoint, &request, &cx, Answer::default());
        let total = settings.timeouts.total;
        let tariff = Tariff::new(settings.prices.as_ref(), &settings.model);
        timed(endpoint, total, tariff, &request, attempt).await
    }

    async fn attend(&self, host: &ModelHost) {
        let settings = self.connection.settings();
        let description = self.batch_description();
        batches::attend(
            host,
            settings.batch.map(within_bounds),
            &description,
            || Ok(self.batches(self.connection.endpoint()?)),
        )
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
        format!("anthropic {} at {host}", settings.model)
    }
}

impl Reach for AnthropicSpec {
    type Endpoint = Endpoint;

    fn open(&self) -> Result<Endpoint, ModelError> {
        let is_vertex = vertex::is_at(&self.base_url, PUBLISHER);
        if is_vertex && self.batch.is_some() {
            return Err(invalid(NO_BATCHES_AT_VERTEX));
        }
        let own = || {
            let key = key_for(
                &self.base_url,
                "api.anthropic.com",
                self.api_key.as_ref(),
                "ANTHROPIC_API_KEY",
            );
            key.map(|key| Key::header("x-api-key", key))
        };
        let key = match is_vertex {
            true => vertex::key(&self.base_url, self.api_key.as_ref()),
            false => own(),
        };
        let mut headers = self.headers.clone();
        headers
            .entry("anthropic-version".to_owned())
            .or_insert_with(|| VERSION.to_owned());
        Endpoint::open(Reaching {
            base_url: &self.base_url,
            model: &self.model,
            key,
            headers: &headers,
            allow_plain_http: self.allow_plain_http,
            timeouts: &self.timeouts,
            kind: ServerKind {
                name: "a server that speaks Anthropic's Messages API",
                place: "check the model's name, and that base_url ends where the server's \
                        /messages begins (in /v1)",
            },
        })
    }
}
