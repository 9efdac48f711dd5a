//! A model that tries several models in order.

use std::fmt;

use ghostlight_actors::{
    contract::{Model, ModelContext, ModelError, ModelHandle, ModelHost},
    vocabulary::{ModelRequest, ModelResponse},
};

/// A model that tries several models in order and gives the first answer.
///
/// Each attempt begins with the first model, so a provider that has recovered is used again. The
/// next model is tried after any kind of error, because another provider may accept a longer
/// context or have other limits. If all fail, the error is that of the last model, and it is
/// retryable if the error of any of them is. Each model after the first is another attempt of the call, so what a
/// failed model had already shown is void for all who watch.
///
/// ```
/// use ghostlight_actors::{
///     contract::{Model as _, ModelContext, ModelError},
///     testing::ScriptedModel,
///     vocabulary::{ErrorKind, Message, ModelRequest, Transcript},
/// };
/// use ghostlight_models::{Fallback, OfflineModel};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ModelError> {
/// let down = ScriptedModel::from_fn(|_, _| {
///     Err(ModelError::new(ErrorKind::Model, "out of order"))
/// });
/// let model = Fallback::new(down).or(OfflineModel);
/// let request = ModelRequest::new(Transcript::from_iter([Message::user("Good morning!")]));
/// let answer = model.respond(request, ModelContext::detached()).await?;
/// assert!(!answer.message.content().is_empty());
/// # Ok(())
/// # }
/// ```
///
/// In a team file it lists its models in order, each with its provider:
///
/// ```yaml
/// models:
///   default:
///     provider: fallback
///     models:
///       - { provider: anthropic, model: claude-sonnet-4-6 }
///       - { provider: openai, model: gpt-5-mini }
/// ```
#[derive(Clone)]
pub struct Fallback {
    models: Vec<ModelHandle>,
}

impl Fallback {
    /// A fallback with this model only.
    pub fn new(first: impl Into<ModelHandle>) -> Self {
        Self {
            models: vec![first.into()],
        }
    }

    /// Adds a model that is tried after all models before it failed.
    #[must_use]
    pub fn or(mut self, next: impl Into<ModelHandle>) -> Self {
        self.models.push(next.into());
        self
    }
}

impl Model for Fallback {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let mut failed: Option<ModelError> = None;
        for model in &self.models {
            let cx = match failed {
                None => cx.clone(),
                Some(_) => cx.next_attempt(&*request.model),
            };
            let error = match model.respond(request.clone(), cx).await {
                Ok(mut response) => {
                    response.usage += failed.map(|failed| failed.usage).unwrap_or_default();
                    return Ok(response);
                }
                Err(error) => error,
            };
            tracing::warn!(model = model.description(), %error, "the next model is asked");
            failed = Some(after(failed, error));
        }
        match failed {
            Some(error) => Err(error),
            // There is always a first model.
            None => Err(ModelError::new(
                ghostlight_actors::vocabulary::ErrorKind::NotFound,
                "there is no model to ask",
            )),
        }
    }

    /// One of them is enough.
    fn ready(&self) -> Result<(), ModelError> {
        let ready = self.models.iter().map(ModelHandle::ready);
        ready.reduce(Result::or).unwrap_or(Ok(()))
    }

    fn is_priced(&self) -> bool {
        self.models.iter().all(ModelHandle::is_priced)
    }

    async fn attend(&self, host: &ModelHost) {
        for model in &self.models {
            model.attend(host).await;
        }
    }

    fn description(&self) -> String {
        let names = self.models.iter().map(ModelHandle::description);
        names.collect::<Vec<_>>().join(", else ")
    }
}

/// This error, made retryable if the error before it was, with what both consumed.
fn after(before: Option<ModelError>, mut error: ModelError) -> ModelError {
    if let Some(before) = &before {
        error.usage += before.usage;
    }
    if let Some(before) = before.filter(|before| before.retryable) {
        let pause = match error.retryable {
            true => error.retry_after.min(before.retry_after),
            false => before.retry_after,
        };
        error = error.retryable();
        error.retry_after = pause;
    }
    error
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fallback({})", self.description())
    }
}
