//! One model in the place of another that fails.

use std::fmt;

use ghostlight_actors::{
    contract::{Model, ModelContext, ModelError, ModelHandle},
    vocabulary::{ModelRequest, ModelResponse},
};

/// A model that asks another where one fails: the first of them that answers.
///
/// Each attempt begins with the first, so a provider that is well again is used again. Whatever a
/// model fails with, the next is asked: another provider may have a longer context, another rule or
/// another limit. Where all fail, the error is the last one's, and another attempt is worth it where
/// any of them says so. What a model that failed had shown of its answer does not count.
///
/// ```
/// use ghostlight::{
///     models::{Fallback, OfflineModel},
///     prelude::*,
///     testing::ScriptedModel,
///     vocabulary::ErrorKind,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ghostlight::Error> {
/// let down = ScriptedModel::from_fn(|_, _| {
///     Err(ModelError::new(ErrorKind::Model, "out of order"))
/// });
/// let desk = Agent::new("desk").model(Fallback::new(down).or(OfflineModel));
/// assert!(!desk.run("Good morning!").await?.text.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// In a team file it names its models with their providers, in order:
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
    /// This model, and none beside it yet.
    pub fn new(first: impl Into<ModelHandle>) -> Self {
        Self {
            models: vec![first.into()],
        }
    }

    /// Adds a model that is asked where all before it failed.
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
            let error = match model.respond(request.clone(), cx.clone()).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            tracing::warn!(model = model.description(), %error, "the next model is asked");
            failed = Some(after(failed, error));
        }
        match failed {
            Some(error) => Err(error),
            // There is a first one.
            None => Err(ModelError::new(
                ghostlight_actors::vocabulary::ErrorKind::NotFound,
                "there is no model to ask",
            )),
        }
    }

    fn description(&self) -> String {
        let names = self.models.iter().map(ModelHandle::description);
        names.collect::<Vec<_>>().join(", else ")
    }
}

/// The error of an attempt in which this one came after another.
fn after(before: Option<ModelError>, mut error: ModelError) -> ModelError {
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
