#![doc = include_str!("README.md")]

mod answer;
mod caching;
mod message;
mod request;
mod settings;

use ghostlight_actors::{
    contract::{Model, ModelContext, ModelError},
    vocabulary::{ModelRequest, ModelResponse},
};
use serde_json::Value;

pub use self::settings::GeminiSpec;
use self::{answer::Answer, caching::may_be_gone, request::Body};
use super::{
    http::{
        Attempt, Connection, Endpoint, Failed, Failure, Inputs, Key, Reach, Reaching, ServerKind,
        Tariff, display_host, is_priced, key_for, provider, timed,
    },
    vertex,
};

/// The files that the models take beside text.
const TAKEN: [&str; 8] = [
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/heic",
    "image/heif",
    "audio/*",
    "video/*",
    "application/pdf",
];

/// Google's Gemini, by its `generateContent`. See the [module](self).
///
/// Cloning it is cheap; clones share the connections.
#[derive(Clone)]
pub struct Gemini {
    connection: Connection<GeminiSpec>,
}

impl Gemini {
    /// The model of this name at Google, with the key in `GEMINI_API_KEY`. Nothing is looked up or
    /// connected before the first request.
    pub fn new(model: impl Into<String>) -> Self {
        Self::from(GeminiSpec::new(model))
    }

    /// Changes the settings.
    ///
    /// ```
    /// use ghostlight_models::Gemini;
    ///
    /// let model = Gemini::new("gemini-2.5-pro").with(|settings| settings.thinking_budget = Some(4_000));
    /// # let _ = model;
    /// ```
    #[must_use]
    pub fn with(self, change: impl FnOnce(&mut GeminiSpec)) -> Self {
        Self {
            connection: self.connection.with(change),
        }
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
        let told = answer.told();
        let answer = answer.complete(&request.conversation);
        answer.map_err(|failure| Failed::after(failure, Some((told, String::new()))))
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
        let how = match request.stream {
            true => "streamGenerateContent?alt=sse",
            false => "generateContent",
        };
        let url = format!("{}/models/{}:{how}", endpoint.base, settings.model);
        let mut body = Body { request, settings }.to_json();
        let named = match settings.cache {
            true => caching::shorten(endpoint, settings, request, &mut body).await,
            false => None,
        };
        let post = async |body: &Value| {
            let http = endpoint.http.clone();
            let attempt = Attempt::new(http, &settings.timeouts, settings.max_response_bytes);
            let attempt = attempt.at(endpoint);
            attempt.post(url.clone(), &endpoint.headers, body).await
        };
        let mut received = post(&body).await;
        if let Some(named) = named {
            answer.wrote(named.written);
            match &received {
                Ok(_) => named.served(),
                Err(failure) if may_be_gone(failure) => {
                    named.undo(&mut body).await;
                    received = post(&body).await;
                }
                Err(_) => {}
            }
        }
        let take = |answer: &mut Answer, value: &Value, is_piece: bool| {
            answer.take(value, |delta| {
                if is_piece {
                    cx.delta(delta);
                }
            });
            Ok(())
        };
        received?.values(answer, Answer::is_finished, take).await
    }
}

provider! {
    Gemini, GeminiSpec, "/models",
    variables: "GEMINI", keys: ["GEMINI_API_KEY", "GOOGLE_API_KEY"], address: str::to_owned,
}

impl Model for Gemini {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let settings = self.connection.settings();
        let endpoint = self.connection.endpoint()?;
        let request = Inputs::of(TAKEN).fitted(&request, || self.description())?;
        let attempt = self.attempt(endpoint, &request, &cx);
        let total = settings.timeouts.total;
        let tariff = Tariff {
            writes_apart: true,
            ..Tariff::new(settings.prices.as_ref(), &settings.model)
        };
        timed(endpoint, total, tariff, &request, attempt).await
    }

    fn ready(&self) -> Result<(), ModelError> {
        self.connection.endpoint().map(drop)
    }

    fn is_priced(&self) -> bool {
        let settings = self.connection.settings();
        is_priced(
            Tariff::new(settings.prices.as_ref(), &settings.model),
            &settings.base_url,
        )
    }

    fn description(&self) -> String {
        let settings = self.connection.settings();
        let host = display_host(&settings.base_url);
        format!("gemini {} at {host}", settings.model)
    }
}

impl Reach for GeminiSpec {
    type Endpoint = Endpoint;

    fn open(&self) -> Result<Endpoint, ModelError> {
        let own = || {
            let key = key_for(
                &self.base_url,
                "generativelanguage.googleapis.com",
                self.api_key.as_ref(),
                "GEMINI_API_KEY",
            );
            key.map(|key| Key::header("x-goog-api-key", key))
        };
        let key = match vertex::is_at(&self.base_url, "google") {
            true => vertex::key(&self.base_url, self.api_key.as_ref()),
            false => own(),
        };
        Endpoint::open(Reaching {
            base_url: &self.base_url,
            model: &self.model,
            key,
            headers: &self.headers,
            allow_plain_http: self.allow_plain_http,
            timeouts: &self.timeouts,
            kind: ServerKind {
                name: "a server that speaks Gemini's generateContent",
                place: "check the model's name, and that base_url ends where the server's /models \
                        begins (often in /v1beta)",
            },
        })
    }
}
