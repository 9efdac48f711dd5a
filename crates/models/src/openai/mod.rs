#![doc = include_str!("README.md")]

mod answer;
mod azure;
mod batch;
mod embedding_forms;
mod embeddings;
mod encoded_tools;
mod endpoint;
mod exchange;
mod files;
mod message;
mod profile;
mod profile_choice;
mod profiles;
mod reasoning;
mod request;
mod settings;
mod sse;
mod tool_calls;
mod usage;

use std::sync::Arc;

use async_openai::{Client, error::OpenAIError};
use futures_util::StreamExt as _;
use ghostlight_actors::{
    contract::{Model, ModelContext, ModelError, ModelHost},
    vocabulary::{FinishReason, ModelRequest, ModelResponse, Part},
};
use serde::de::IgnoredAny;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use self::{
    answer::Answer,
    endpoint::{Address, OpenAiEndpoint},
    exchange::Exchange,
    request::Body,
};
use super::{
    batches::{self, BatchEndpoint, BatchFailure, BatchServer, BatchSpec, Batched, described},
    http::{
        Connection, Failed, Failure, Tariff, display_host, is_priced, judged, provider, read_json,
        timed, true_host,
    },
};

pub(super) use self::{
    azure::v1 as azure_v1,
    batch::{NO_BATCHES_AT_AZURE, OpenAiBatches},
};

pub use ghostlight_actors::vocabulary::Prices;

pub(crate) use self::profile::MAX_TOOLS;
pub use self::{
    embedding_forms::EmbeddingForm,
    embeddings::{OpenAiEmbedder, OpenAiEmbedderSpec},
    profile::{Answers, Caching, CallIdRule, Profile, ThinkingField},
    profile_choice::ProfileChoice,
    settings::{OpenAiSpec, ReturnReasoning},
};
pub use super::http::Timeouts;

/// The path of requests in batches.
const BATCHED: &str = "/v1/chat/completions";

/// A model on a server with OpenAI's chat completions. See the [module](self).
///
/// Cloning it is cheap; clones share the connections.
#[derive(Clone)]
pub struct OpenAi {
    connection: Connection<OpenAiSpec>,
}

impl OpenAi {
    /// The model of this name at OpenAI, with the key in `OPENAI_API_KEY`. The setters below change
    /// this. Nothing is looked up or connected before the first request.
    pub fn new(model: impl Into<String>) -> Self {
        Self::from(OpenAiSpec::new(model))
    }

    /// Sets when the model's reasoning is sent back to it.
    #[must_use]
    pub fn return_reasoning(self, when: ReturnReasoning) -> Self {
        self.with(|settings| settings.return_reasoning = when)
    }

    /// Changes the settings.
    #[must_use]
    pub fn with(self, change: impl FnOnce(&mut OpenAiSpec)) -> Self {
        Self {
            connection: self.connection.with(change),
        }
    }

    /// Sends the requests of runs in batches: for half the price, within a day. The runs sleep until then. A call
    /// outside of a run is made at once, as without batches.
    ///
    /// ```
    /// use ghostlight_models::{BatchSpec, OpenAi};
    ///
    /// let model = OpenAi::new("gpt-5-mini").batched(BatchSpec::default().max_requests(2_000));
    /// # let _ = model;
    /// ```
    #[must_use]
    pub fn batched(self, batch: BatchSpec) -> Self {
        self.with(|settings| settings.batch = Some(batch))
    }

    async fn attempt(
        &self,
        endpoint: &OpenAiEndpoint,
        request: &ModelRequest,
        cx: &ModelContext,
    ) -> Result<ModelResponse, Failed> {
        let settings = self.connection.settings();
        let http = &endpoint.server.http;
        let exchange = Exchange::new(http.clone(), settings, request.stream).at(&endpoint.server);
        let address = Address::of(endpoint);
        let client = Client::build(http.clone(), address).with_http_service(exchange.clone());
        let body = Body {
            request,
            settings,
            profile: &endpoint.profile,
            server: &endpoint.wants,
            encoded: &endpoint.tools,
        };
        let mut answer = Answer::default();
        let failed = if request.stream {
            match client.chat().create_stream_byot::<_, Value>(&body).await {
                Ok(pieces) => take_stream(pieces, &mut answer, cx, &exchange).await,
                Err(error) => Some(error),
            }
        } else {
            let sent = client.chat().create_byot::<_, IgnoredAny>(&body).await;
            for piece in exchange.take_whole() {
                answer.take(piece, |_| {});
            }
            sent.err()
        };
        match (exchange.failure(), failed) {
            // Only the end of the stream is missing, and nothing of the answer.
            (Some(failure), _) if failure.is_cut() && answer.is_finished() => {}
            (Some(failure), _) => return Err(Failed::after(failure, answer.spent())),
            (None, Some(error)) => return Err(Failed::after(unforeseen(&error), answer.spent())),
            (None, None) => {}
        }
        complete(answer, endpoint, &body)
    }

    /// The description of the batches of its model.
    fn batch_description(&self) -> String {
        let settings = self.connection.settings();
        described(&settings.model, &true_host(&settings.address()), BATCHED)
    }

    /// The answer of a batch, on which the call waits in its sleep.
    async fn await_batch(
        &self,
        endpoint: &OpenAiEndpoint,
        request: &ModelRequest,
        (batched, cx): (Batched, &ModelContext),
    ) -> Result<ModelResponse, ModelError> {
        let settings = self.connection.settings();
        let body = Body {
            request,
            settings,
            profile: &endpoint.profile,
            server: &endpoint.wants,
            encoded: &endpoint.tools,
        };
        let server = self.batches(endpoint);
        let answered = batches::answer(&server, batched, cx, request, || to_raw_value(&body));
        let outcome = match answered.await {
            Ok(whole) => read_whole(&whole, endpoint, &body),
            Err(BatchFailure::Server(failure)) => Err(failure.into()),
            Err(BatchFailure::Own(error)) => return Err(error),
        };
        let tariff = Tariff {
            is_batched: true,
            ..settings.tariff()
        };
        judged(&endpoint.server, tariff, request, outcome)
    }

    fn batches(&self, endpoint: &OpenAiEndpoint) -> Arc<dyn BatchServer> {
        let settings = self.connection.settings();
        Arc::new(OpenAiBatches(BatchEndpoint {
            server: endpoint.server.clone(),
            model: settings.model.clone(),
            path: BATCHED,
            timeouts: settings.timeouts,
            max_response_bytes: settings.max_response_bytes,
        }))
    }
}

/// The response that an answer makes.
fn complete(
    answer: Answer,
    endpoint: &OpenAiEndpoint,
    body: &Body<'_>,
) -> Result<ModelResponse, Failed> {
    let told = answer.told();
    let response = answer.complete(&body.request.conversation, &endpoint.wants.name);
    let mut response =
        response.map_err(|failure| Failed::after(failure, Some((told, String::new()))))?;
    if body.refuses_stop() {
        cut_at(&mut response, &body.request.settings.stop);
    }
    Ok(response)
}

/// The response that an answer in one piece makes.
fn read_whole(
    whole: &RawValue,
    endpoint: &OpenAiEndpoint,
    body: &Body<'_>,
) -> Result<ModelResponse, Failed> {
    let value = read_json(whole.get().as_bytes())?;
    if let Some(failure) = Failure::in_answer(&value) {
        return Err(failure.into());
    }
    let mut answer = Answer::default();
    answer.take(value, |_| {});
    complete(answer, endpoint, body)
}

provider! {
    OpenAi, OpenAiSpec, "/chat/completions",
    variables: "OPENAI", keys: ["OPENAI_API_KEY"], address: str::to_owned,
}

impl Model for OpenAi {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let settings = self.connection.settings();
        let endpoint = self.connection.endpoint()?;
        let profile = &endpoint.profile;
        let mut request = profile.inputs().fitted(&request, || self.description())?;
        profile.fit(&mut request, || self.description())?;
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
        is_priced(settings.tariff(), &settings.address())
    }

    fn description(&self) -> String {
        let settings = self.connection.settings();
        let host = display_host(&settings.address());
        format!("openai {} at {host}", settings.model)
    }
}

/// Cuts the answer where one of these texts begins, as a server would.
pub(super) fn cut_at(response: &mut ModelResponse, stops: &[String]) {
    let begins = |text: &str| {
        let stops = stops.iter().filter(|stop| !stop.is_empty());
        stops.filter_map(|stop| text.find(stop.as_str())).min()
    };
    let mut parts = response.message.parts.iter().enumerate();
    let cut = parts.find_map(|(place, part)| Some((place, begins(part.as_text()?)?)));
    let Some((place, at)) = cut else { return };
    let message = Arc::make_mut(&mut response.message);
    message.parts.truncate(place + 1);
    if let Some(Part::Text(text)) = message.parts.last_mut() {
        text.truncate(at);
    }
    response.finish = FinishReason::Stop;
}

/// Takes the pieces of a stream as they come, and returns the error that ended the stream.
async fn take_stream(
    mut pieces: async_openai::types::stream::StreamResponse<Value>,
    answer: &mut Answer,
    cx: &ModelContext,
    exchange: &Exchange,
) -> Option<OpenAIError> {
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) => {
                exchange.taken();
                answer.take(piece, |delta| cx.delta(delta));
            }
            Err(error) => return Some(error),
        }
    }
    None
}

/// An error of async-openai that the HTTP service beneath it should have prevented. Its text may
/// contain the answer and is not shown.
fn unforeseen(error: &OpenAIError) -> Failure {
    match error {
        OpenAIError::InvalidArgument(_) => Failure::Request,
        OpenAIError::Reqwest(error) => Failure::transport(error),
        _ => Failure::Malformed(String::from("it is not a chat completion")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::vocabulary::{ErrorKind, Transcript};

    use crate::Secret;

    use super::{encoded_tools::EncodedTools, *};

    fn from(variables: &[(&str, &str)]) -> Result<OpenAi, ModelError> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        OpenAi::from_variables(|name| find(name).map(|(_, value)| String::from(*value)))
    }

    #[test]
    fn the_environment_names_model_address_and_key() {
        let model = from(&[
            ("OPENAI_API_KEY", "sk-hunter2"),
            ("OPENAI_BASE_URL", " https://llm.example.com/v1 "),
            ("OPENAI_MODEL", "qwen"),
        ])
        .unwrap();
        assert_eq!(model.description(), "openai qwen at llm.example.com");
        assert_eq!(
            model.settings().api_key,
            Some(Secret::variable("OPENAI_API_KEY"))
        );
        assert!(!format!("{:?} {model:?}", model.settings()).contains("hunter2"));
    }

    #[test]
    fn a_missing_key_is_an_error_that_says_what_to_do() {
        for variables in [
            &[][..],
            &[("OPENAI_API_KEY", " ")],
            &[("OPENAI_BASE_URL", "http://10.0.0.1/v1")],
        ] {
            let error = from(variables).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Authentication);
            assert!(error.message.contains("OPENAI_API_KEY"), "{error}");
            assert!(!error.retryable);
        }
    }

    #[test]
    fn an_answer_ends_where_the_first_text_to_stop_at_begins() {
        let stops = ["Observation:".to_owned(), String::new(), "END".to_owned()];
        let mut response = ModelResponse::text("Thought: b\nObservation: c END");
        cut_at(&mut response, &stops);
        assert_eq!(response.content(), "Thought: b\n");
        let mut whole = ModelResponse::text("Thought: b");
        cut_at(&mut whole, &stops);
        assert_eq!(whole.content(), "Thought: b");
    }

    #[test]
    fn models_that_refuse_to_stop_at_a_text_are_not_asked_to() {
        let mut request = ModelRequest::new(Transcript::new());
        let mut asked = ghostlight_actors::vocabulary::ModelSettings::default();
        asked.stop = vec!["Observation:".to_owned()];
        request = request.settings(asked);
        let sent = |model: &str, is_openai| {
            let settings = OpenAiSpec::new(model);
            let profile = match is_openai {
                true => settings.profile(),
                false => Profile::default(),
            };
            let body = Body {
                request: &request,
                settings: &settings,
                profile: &profile,
                server: &reasoning::Server::default(),
                encoded: &EncodedTools::default(),
            };
            serde_json::to_value(&body).unwrap()["stop"].is_array()
        };
        assert!(!sent(&OpenAiSpec::default().model, true), "the default");
        assert!(!sent("o3", true));
        assert!(sent("gpt-4.1-mini", true));
        assert!(sent("gpt-5-mini", false), "another server");
    }

    #[test]
    fn a_server_on_this_machine_needs_no_key() {
        let model = from(&[("OPENAI_BASE_URL", "http://localhost:11434/v1")]).unwrap();
        assert_eq!(model.settings().api_key, None);
        model.check().unwrap();
    }
}
