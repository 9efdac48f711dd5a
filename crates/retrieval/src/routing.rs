//! Routing of a request to the route whose examples are nearest.

use ghostlight_actors::contract::{EmbedderHandle, EmbeddingPurpose, ModelError};
use tokio::sync::OnceCell;

/// Finds the route whose examples are nearest to a request, by their vectors.
///
/// The score of a route is the mean of its nearest examples, at most three, so that one odd example does not decide
/// alone.
#[derive(Debug)]
pub struct ExampleRouter {
    embedder: EmbedderHandle,
    /// The examples, each with the name of its route.
    examples: Vec<(String, String)>,
    vectors: OnceCell<Vec<Vec<f32>>>,
}

/// The score of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearness {
    /// The route.
    pub route: String,
    /// The mean cosine of its nearest examples, from -1 to 1.
    pub score: f64,
}

impl ExampleRouter {
    /// How many examples of a route count.
    pub const EXAMPLES: usize = 3;

    /// Routes by these examples, each with the name of its route.
    pub fn new<R: Into<String>, E: Into<String>>(
        embedder: impl Into<EmbedderHandle>,
        examples: impl IntoIterator<Item = (R, E)>,
    ) -> Self {
        let examples = examples
            .into_iter()
            .map(|(route, example)| (route.into(), example.into()));
        Self {
            embedder: embedder.into(),
            examples: examples.collect(),
            vectors: OnceCell::new(),
        }
    }

    /// All routes, the nearest first. The vectors of the examples are made once.
    ///
    /// # Errors
    /// No vectors can be made.
    pub async fn nearest(&self, request: &str) -> Result<Vec<Nearness>, ModelError> {
        let made = self.vectors.get_or_try_init(|| async {
            let texts: Vec<&str> = self
                .examples
                .iter()
                .map(|(_, example)| &**example)
                .collect();
            // An example is embedded as a question, as the request is.
            self.embedder.embed(&texts, EmbeddingPurpose::Query).await
        });
        let vectors = made.await?;
        let request = self
            .embedder
            .embed_one(request, EmbeddingPurpose::Query)
            .await?;
        let mut scores: std::collections::BTreeMap<&str, Vec<f64>> =
            std::collections::BTreeMap::new();
        for ((route, _), vector) in self.examples.iter().zip(vectors) {
            let product = vector
                .iter()
                .zip(&request)
                .map(|(a, b)| f64::from(*a) * f64::from(*b));
            scores.entry(route).or_default().push(product.sum());
        }
        let mut nearest: Vec<Nearness> = scores
            .into_iter()
            .map(|(route, mut scores)| {
                scores.sort_by(|a, b| b.total_cmp(a));
                scores.truncate(Self::EXAMPLES);
                Nearness {
                    route: route.to_owned(),
                    score: scores.iter().sum::<f64>() / scores.len().max(1) as f64,
                }
            })
            .collect();
        // The sort is stable, and the routes are in order.
        nearest.sort_by(|a, b| b.score.total_cmp(&a.score));
        Ok(nearest)
    }
}
