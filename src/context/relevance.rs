//! The relevance of context items to a task.

use std::{fmt, sync::Arc};

use ghostlight_actors::{contract::BoxFuture, run::RunContext, vocabulary::AgentError};

/// Measures the relevance of texts to a task, by an embedder, an index or a model. Without one, a
/// [`ContextBuilder`](super::ContextBuilder) counts common words.
///
/// Requests to the outside go through the context, so that they are recorded and not repeated in
/// replay:
///
/// ```
/// use ghostlight::context::{ContextBuilder, Relevance, cosine};
/// use ghostlight_actors::{run::RunContext, vocabulary::{AgentError, Effect}};
///
/// /// Compares vectors that a server makes of texts.
/// struct Embedded;
///
/// async fn embed(_texts: Vec<String>) -> Result<Vec<Vec<f32>>, AgentError> {
///     // Ask the server here.
///     # Ok(vec![vec![1.0, 0.0]])
/// }
///
/// impl Relevance for Embedded {
///     async fn relevance(
///         &self,
///         cx: &RunContext,
///         task: &str,
///         texts: &[&str],
///     ) -> Result<Vec<f64>, AgentError> {
///         let all = [task].into_iter().chain(texts.iter().copied());
///         let all: Vec<String> = all.map(str::to_owned).collect();
///         let vectors = cx.step("embed", Effect::Read, async move { embed(all).await }).await?;
///         let (task, texts) = vectors.split_first().ok_or(AgentError::Ended)?;
///         Ok(texts.iter().map(|text| cosine(task, text)).collect())
///     }
/// }
///
/// let builder = ContextBuilder::new(2_000).scored_by(Embedded);
/// # let _ = builder;
/// ```
pub trait Relevance: Send + Sync + 'static {
    /// The relevance of each text to the task, in the order of the texts, from 0 to 1. A text whose
    /// relevance is unknown gets `f64::NAN`; its common words are then counted.
    ///
    /// # Errors
    /// The errors that must stop the run.
    fn relevance(
        &self,
        cx: &RunContext,
        task: &str,
        texts: &[&str],
    ) -> impl Future<Output = Result<Vec<f64>, AgentError>> + Send;
}

/// The same behind a pointer.
trait ErasedRelevance: Send + Sync {
    fn relevance<'a>(
        &'a self,
        cx: &'a RunContext,
        task: &'a str,
        texts: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<f64>, AgentError>>;
}

impl<R: Relevance> ErasedRelevance for R {
    fn relevance<'a>(
        &'a self,
        cx: &'a RunContext,
        task: &'a str,
        texts: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<f64>, AgentError>> {
        Box::pin(Relevance::relevance(self, cx, task, texts))
    }
}

/// A [`Relevance`] of any type.
#[derive(Clone)]
pub(super) struct RelevanceHandle(Arc<dyn ErasedRelevance>);

impl RelevanceHandle {
    pub(super) fn new(relevance: impl Relevance) -> Self {
        Self(Arc::new(relevance))
    }

    /// The relevance of each text.
    pub(super) async fn of(
        &self,
        cx: &RunContext,
        task: &str,
        texts: &[&str],
    ) -> Result<Vec<f64>, AgentError> {
        let found = self.0.relevance(cx, task, texts).await?;
        match found.len() == texts.len() {
            true => Ok(found),
            false => Err(AgentError::failed(format!(
                "the relevance of {} texts was asked, and {} numbers came: return one for each text",
                texts.len(),
                found.len()
            ))),
        }
    }
}

impl fmt::Debug for RelevanceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RelevanceHandle(..)")
    }
}

/// The similarity of two vectors: the cosine of the angle between them, from 0 (a right angle or
/// more) to 1 (the same direction). Vectors of different lengths and zero vectors have similarity
/// 0.
pub fn cosine(one: &[f32], other: &[f32]) -> f64 {
    let product = |a: &[f32], b: &[f32]| -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let lengths = (product(one, one) * product(other, other)).sqrt();
    if one.len() != other.len() || lengths <= 0.0 || !lengths.is_finite() {
        return 0.0;
    }
    (product(one, other) / lengths).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_alike_by_their_direction() {
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}");
        near(cosine(&[1.0, 2.0], &[2.0, 4.0]), 1.0);
        near(cosine(&[1.0, 0.0], &[1.0, 1.0]), 0.5_f64.sqrt());
        for (one, other) in [
            (&[1.0, 0.0][..], &[0.0, 3.0][..]),
            (&[1.0, 0.0], &[-1.0, 0.0]),
            (&[0.0, 0.0], &[1.0, 1.0]),
            (&[1.0], &[1.0, 1.0]),
            (&[], &[]),
            (&[f32::NAN], &[1.0]),
            (&[f32::MAX, f32::INFINITY], &[1.0, 1.0]),
        ] {
            near(cosine(one, other), 0.0);
        }
    }
}
