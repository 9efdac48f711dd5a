#![doc = include_str!("README.md")]

mod answer;
mod azure;
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

use std::{fmt, sync::Arc};

use async_openai::{Client, error::OpenAIError};
use futures_util::StreamExt as _;
use ghostlight_actors::{
    contract::{Model, ModelContext, ModelError},
    vocabulary::{ErrorKind, FinishReason, ModelRequest, ModelResponse, Part},
};
use serde::de::IgnoredAny;
use serde_json::Value;

use self::{
    answer::Answer,
    endpoint::{Address, OpenAiEndpoint},
    exchange::Exchange,
    request::Body,
};
use super::{
    Secret,
    http::{Connection, Failed, Failure, display_host, is_loopback, is_priced, timed},
};

pub(super) use self::azure::v1 as azure_v1;

pub use ghostlight_actors::vocabulary::Prices;

pub use self::{
    embedding_forms::EmbeddingForm,
    embeddings::{OpenAiEmbedder, OpenAiEmbedderSpec},
    profile::{Answers, Caching, CallIdRule, Profile, ThinkingField},
    profile_choice::ProfileChoice,
    settings::{OpenAiSpec, ReturnReasoning},
};
pub use super::http::Timeouts;

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

    /// The model that the environment names: `OPENAI_MODEL` (else [`OpenAiSpec::default`]'s)
    /// at `OPENAI_BASE_URL` (else OpenAI) with the key in `OPENAI_API_KEY`.
    ///
    /// # Errors
    /// A missing key, unless the address is on this machine, and the errors of [`OpenAi::check`].
    pub fn from_env() -> Result<Self, ModelError> {
        let model = Self::from_variables(crate::environment::variable)?;
        model.check()?;
        Ok(model)
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ModelError> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let mut settings = OpenAiSpec::default();
        if let Some(model) = variable("OPENAI_MODEL") {
            settings.model = model.trim().to_owned();
        }
        if let Some(base_url) = variable("OPENAI_BASE_URL") {
            settings.base_url = base_url.trim().to_owned();
        }
        if variable("OPENAI_API_KEY").is_some() {
            settings.api_key = Some(Secret::variable("OPENAI_API_KEY"));
        } else if !is_loopback(&settings.base_url) {
            return Err(ModelError::new(
                ErrorKind::Authentication,
                "OPENAI_API_KEY is not set: set it to your key, or set OPENAI_BASE_URL to a \
                 server on this machine, such as http://127.0.0.1:11434/v1",
            ));
        }
        Ok(Self::from(settings))
    }

    /// Sets the address up to and without `/chat/completions`.
    #[must_use]
    pub fn base_url(self, address: impl Into<String>) -> Self {
        self.with(|settings| settings.base_url = address.into())
    }

    /// Sets the key.
    #[must_use]
    pub fn api_key(self, key: Secret) -> Self {
        self.with(|settings| settings.api_key = Some(key))
    }

    /// Sets the time limits of an attempt.
    #[must_use]
    pub fn timeouts(self, timeouts: Timeouts) -> Self {
        self.with(|settings| settings.timeouts = timeouts)
    }

    /// Sets the prices of the model.
    #[must_use]
    pub fn prices(self, prices: Prices) -> Self {
        self.with(|settings| settings.prices = Some(prices))
    }

    /// Adds a field to each request body; `null` removes one. See [`OpenAiSpec::extra`].
    #[must_use]
    pub fn extra(self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(|settings| {
            settings.extra.insert(field.into(), value.into());
        })
    }

    /// Adds a header to each request. See [`OpenAiSpec::headers`].
    #[must_use]
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|settings| {
            settings.headers.insert(name.into(), value.into());
        })
    }

    /// Sets the most bytes of an answer.
    #[must_use]
    pub fn max_response_bytes(self, bytes: u64) -> Self {
        self.with(|settings| settings.max_response_bytes = bytes)
    }

    /// Sets when the model's reasoning is sent back to it.
    #[must_use]
    pub fn return_reasoning(self, when: ReturnReasoning) -> Self {
        self.with(|settings| settings.return_reasoning = when)
    }

    /// The settings.
    pub fn settings(&self) -> &OpenAiSpec {
        self.connection.settings()
    }

    /// Reads the address and looks up the secrets, which the first request would do.
    ///
    /// # Errors
    /// An address or header that cannot be used, a secret that is not set, no trusted
    /// certificates on the machine.
    pub fn check(&self) -> Result<(), ModelError> {
        self.connection.endpoint().map(drop)
    }

    /// Changes the settings.
    #[must_use]
    pub fn with(self, change: impl FnOnce(&mut OpenAiSpec)) -> Self {
        Self {
            connection: self.connection.with(change),
        }
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
        let told = answer.told();
        let response = answer.complete(&request.conversation, &endpoint.wants.name);
        let mut response =
            response.map_err(|failure| Failed::after(failure, Some((told, String::new()))))?;
        if body.refuses_stop() {
            cut_at(&mut response, &request.settings.stop);
        }
        Ok(response)
    }
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
        let attempt = self.attempt(endpoint, &request, &cx);
        let total = settings.timeouts.total();
        let prices = (settings.prices.as_ref(), settings.model.as_str());
        timed(&endpoint.server, total, prices, &request, attempt).await
    }

    fn is_priced(&self) -> bool {
        let settings = self.connection.settings();
        is_priced(
            settings.prices.as_ref(),
            &settings.address(),
            &settings.model,
        )
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

impl From<OpenAiSpec> for OpenAi {
    fn from(settings: OpenAiSpec) -> Self {
        Self {
            connection: Connection::new(settings),
        }
    }
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenAi({})", self.description())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::vocabulary::Transcript;

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
