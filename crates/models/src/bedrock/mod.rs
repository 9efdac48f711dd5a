#![doc = include_str!("README.md")]

mod answer;
mod message;
mod request;
mod settings;

use ghostlight_actors::{
    contract::{Model, ModelContext, ModelError},
    vocabulary::{ModelRequest, ModelResponse},
};
use ghostlight_safety::percent_encoded;

pub use self::settings::BedrockSpec;
use self::{answer::Answer, request::Body};
use super::{
    amazon,
    client::invalid,
    http::{
        Attempt, Connection, Endpoint, Failed, Failure, Inputs, Key, Reach, Reaching, Received,
        ServerKind, Tariff, display_host, http_model, is_priced, timed, true_host, with_own_keys,
    },
};
use crate::environment;

http_model! { Bedrock, BedrockSpec, "/model" }

/// A model in Amazon Bedrock, by its Converse. See the [module](self).
///
/// Cloning it is cheap; clones share the connections.
#[derive(Clone)]
pub struct Bedrock {
    connection: Connection<BedrockSpec>,
}

impl Bedrock {
    /// The model of this id, in the region and with the keys that Amazon's own programs find. Nothing is looked up or
    /// connected before the first request.
    pub fn new(model: impl Into<String>) -> Self {
        Self::from(BedrockSpec::new(model))
    }

    /// The model that the environment names: `BEDROCK_MODEL` (else [`BedrockSpec::default`]'s).
    ///
    /// # Errors
    /// The faults that [`check`](Self::check) finds.
    pub fn from_env() -> Result<Self, ModelError> {
        let mut settings = BedrockSpec::default();
        if let Some(model) = environment::trimmed("BEDROCK_MODEL") {
            settings.model = model;
        }
        let model = Self::from(settings);
        model.check()?;
        Ok(model)
    }

    /// Changes the settings.
    ///
    /// ```
    /// use ghostlight_models::{Bedrock, anthropic::Thinking};
    ///
    /// let model = Bedrock::new("eu.anthropic.claude-sonnet-4-6").with(|settings| {
    ///     settings.region = Some("eu-central-1".into());
    ///     settings.thinking = Thinking::Adaptive;
    /// });
    /// # let _ = model;
    /// ```
    #[must_use]
    pub fn with(self, change: impl FnOnce(&mut BedrockSpec)) -> Self {
        Self {
            connection: self.connection.with(change),
        }
    }

    /// Sets the region.
    #[must_use]
    pub fn region(self, region: impl Into<String>) -> Self {
        self.with(|settings| settings.region = Some(region.into()))
    }

    async fn attempt(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest,
        cx: &ModelContext,
    ) -> Result<ModelResponse, Failed> {
        let mut answer = Answer::default();
        if let Err(failure) = self.read(endpoint, request, cx, &mut answer).await {
            return Err(Failed::after(failure, answer.spent()));
        }
        let spent = answer.spent();
        let model = &self.connection.settings().model;
        let answer = answer.complete(&request.conversation, model);
        let answer = answer.map(|answer| match self.connection.settings().is_anthropics() {
            true => with_own_keys(answer, &request.tools),
            false => answer,
        });
        answer.map_err(|failure| Failed::after(failure, spent))
    }

    /// Reads the answer as far as it comes.
    async fn read(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest,
        cx: &ModelContext,
        answer: &mut Answer,
    ) -> Result<(), Failure> {
        let settings = self.connection.settings();
        let attempt = Attempt::new(
            endpoint.http.clone(),
            &settings.timeouts,
            settings.max_response_bytes,
        )
        .at(endpoint);
        let how = match request.stream {
            true => "converse-stream",
            false => "converse",
        };
        let model = percent_encoded(&settings.model);
        let url = format!("{}/model/{model}/{how}", endpoint.base);
        let body = Body { request, settings }.to_json();
        match attempt.post(url, &endpoint.headers, &body).await? {
            Received::Whole(whole) => answer.take_whole(&whole)?,
            Received::Events(mut events) => loop {
                let event = match events.next().await {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    // Only the counts of tokens are missing, and nothing of the answer.
                    Err(failure) if failure.is_cut() && answer.is_finished() => break,
                    Err(failure) => return Err(failure),
                };
                answer.take(&event, |delta| cx.delta(delta))?;
            },
        }
        Ok(())
    }
}

impl Model for Bedrock {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let settings = self.connection.settings();
        let endpoint = self.connection.endpoint()?;
        let inputs = Inputs::of(message::taken());
        let request = inputs.fitted(&request, || self.description())?;
        let attempt = self.attempt(endpoint, &request, &cx);
        let total = settings.timeouts.total;
        let tariff = Tariff::new(settings.prices.as_ref(), &settings.model);
        timed(endpoint, total, tariff, &request, attempt).await
    }

    fn ready(&self) -> Result<(), ModelError> {
        self.connection.endpoint().map(drop)
    }

    fn is_priced(&self) -> bool {
        let settings = self.connection.settings();
        let address = settings.address();
        is_priced(
            Tariff::new(settings.prices.as_ref(), &settings.model),
            &address,
        )
    }

    fn description(&self) -> String {
        let settings = self.connection.settings();
        let host = display_host(&settings.address());
        match host.is_empty() {
            true => format!("bedrock {}", settings.model),
            false => format!("bedrock {} at {host}", settings.model),
        }
    }
}

impl Reach for BedrockSpec {
    type Endpoint = Endpoint;

    fn open(&self) -> Result<Endpoint, ModelError> {
        let base_url = self.address();
        if base_url.is_empty() {
            return Err(invalid(
                "no region of Amazon's cloud is named: set AWS_REGION, or `region` of the model",
            ));
        }
        let host = true_host(&base_url);
        let key = amazon::key(&host, self.api_key.as_ref(), self.profile.as_deref());
        let key = match (key, self.region()) {
            (Some(key), Some(region)) => Some(Key::Amazon(key, region)),
            // Only keys that are fetched may be ones that sign.
            (Some(key), None) if key.as_changing().is_none() => Some(Key::Bearer(key)),
            (Some(_), None) => {
                return Err(invalid(format!(
                    "requests to {host} are signed for a region, and none is named: set `region` of the model, or AWS_REGION"
                )));
            }
            (None, _) => None,
        };
        Endpoint::open(Reaching {
            base_url: &base_url,
            model: &self.model,
            key,
            headers: &self.headers,
            allow_plain_http: self.allow_plain_http,
            timeouts: &self.timeouts,
            kind: ServerKind {
                name: "a server that speaks Bedrock's Converse",
                place: "check the model's id, that it is offered in the region, and that base_url \
                        ends where the server's /model begins",
            },
        })
    }
}
