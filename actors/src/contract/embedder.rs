//! Embedders: models that turn texts into vectors.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{BoxFuture, ModelError};
use crate::vocabulary::ErrorKind;

/// Makes vectors of texts, such that similar texts have vectors of similar direction.
///
/// An implementation makes one attempt for each call: retries are the caller's. It is used through an
/// [`EmbedderHandle`], which cuts requests into batches, checks the answer and brings each vector to
/// length 1.
///
/// ```
/// use ghostlight_actors::contract::{
///     Embedder, EmbedderHandle, Embedding, EmbeddingKind, EmbeddingPurpose, EmbeddingSpace, ModelError,
/// };
///
/// /// Counts vowels and other letters.
/// struct Letters;
///
/// impl Embedder for Letters {
///     fn space(&self) -> EmbeddingSpace {
///         EmbeddingSpace::new("letters-1", 2, EmbeddingKind::Lexical)
///     }
///
///     async fn embed(
///         &self,
///         texts: &[&str],
///         _: EmbeddingPurpose,
///     ) -> Result<Vec<Embedding>, ModelError> {
///         let vowels = |text: &str| text.chars().filter(|c| "aeiou".contains(*c)).count();
///         let count = |text: &&str| vec![vowels(text) as f32, text.len() as f32];
///         Ok(texts.iter().map(count).collect())
///     }
/// }
///
/// let embedder = EmbedderHandle::new(Letters);
/// assert_eq!(embedder.space().dimension, 2);
/// ```
pub trait Embedder: Send + Sync + 'static {
    /// Describes the embedder's vectors. Called once, when the handle is made.
    fn space(&self) -> EmbeddingSpace;

    /// One vector for each of these texts, in their order, each of [`EmbeddingSpace::dimension`] numbers.
    ///
    /// # Errors
    /// The cause of the failure; [`ModelError::retryable`](struct@ModelError) says whether another attempt can help.
    fn embed(
        &self,
        texts: &[&str],
        purpose: EmbeddingPurpose,
    ) -> impl Future<Output = Result<Vec<Embedding>, ModelError>> + Send;

    /// The most texts of one call.
    fn max_batch(&self) -> usize {
        64
    }
}

/// A vector of a text. From an [`EmbedderHandle`] it has length 1, so that the product of two is the cosine of the
/// angle between them. A text without anything to measure has a vector of zeros.
pub type Embedding = Vec<f32>;

/// Describes the vectors of an embedder. Vectors of different spaces cannot be compared: store the space beside the
/// vectors, and make them anew when it changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EmbeddingSpace {
    /// The name of the space: the model, its version, and each setting that changes the vectors.
    pub name: String,
    /// How many numbers a vector has.
    pub dimension: usize,
    /// The measure by which two texts are alike.
    pub kind: EmbeddingKind,
}

impl EmbeddingSpace {
    /// A space with this name.
    pub fn new(name: impl Into<String>, dimension: usize, kind: EmbeddingKind) -> Self {
        let name = name.into();
        Self {
            name,
            dimension,
            kind,
        }
    }
}

impl fmt::Display for EmbeddingSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            EmbeddingKind::Lexical => "lexical",
            EmbeddingKind::Semantic => "semantic",
        };
        write!(f, "{} ({} numbers, {kind})", self.name, self.dimension)
    }
}

/// The measure by which two texts are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingKind {
    /// Shared letters and words: *car* and *automobile* have nothing in common.
    Lexical,
    /// Their meaning, as a trained model represents it.
    Semantic,
}

/// The purpose of a vector. Some models take it into account, since a question and its answer are not alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingPurpose {
    /// The text is a query.
    Query,
    /// The text is a document that is to be found.
    Document,
}

/// An embedder of any kind with its space. Cloning shares it.
#[derive(Clone)]
pub struct EmbedderHandle {
    space: Arc<EmbeddingSpace>,
    embedder: Arc<dyn ErasedEmbedder>,
}

impl EmbedderHandle {
    /// Keeps an embedder.
    pub fn new(embedder: impl Embedder) -> Self {
        Self {
            space: Arc::new(embedder.space()),
            embedder: Arc::new(embedder),
        }
    }

    /// Describes its vectors.
    pub fn space(&self) -> &Arc<EmbeddingSpace> {
        &self.space
    }

    /// Whether both are the same embedder, with one state.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.embedder, &other.embedder)
    }

    /// The vector of one text. See [`EmbedderHandle::embed`].
    ///
    /// # Errors
    /// As [`EmbedderHandle::embed`].
    pub async fn embed_one(
        &self,
        text: &str,
        purpose: EmbeddingPurpose,
    ) -> Result<Embedding, ModelError> {
        let vectors = self.embed(&[text], purpose).await?;
        Ok(vectors.into_iter().next().unwrap_or_default())
    }

    /// One vector of length 1 for each of these texts, in their order; one batch is asked after another.
    ///
    /// # Errors
    /// The embedder's own error, or an answer without exactly one vector of the right dimension for each text, or
    /// with a component that is not a finite number.
    pub async fn embed(
        &self,
        texts: &[&str],
        purpose: EmbeddingPurpose,
    ) -> Result<Vec<Embedding>, ModelError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(self.embedder.max_batch().max(1)) {
            let found = self.embedder.embed(batch, purpose).await?;
            if found.len() != batch.len() {
                return Err(self.malformed(format_args!(
                    "{} texts were sent and {} vectors came",
                    batch.len(),
                    found.len()
                )));
            }
            for vector in found {
                vectors.push(self.unit(vector)?);
            }
        }
        Ok(vectors)
    }

    /// A vector of the right dimension, brought to length 1.
    fn unit(&self, mut vector: Embedding) -> Result<Embedding, ModelError> {
        let dimension = self.space.dimension;
        if vector.len() != dimension {
            return Err(self.malformed(format_args!(
                "a vector has {} numbers and not {dimension}; set the dimension to what the model gives",
                vector.len()
            )));
        }
        let square = |number: &f32| f64::from(*number) * f64::from(*number);
        let length = vector.iter().map(square).sum::<f64>().sqrt();
        if !length.is_finite() {
            return Err(self.malformed(format_args!("a vector has a number that is not finite")));
        }
        if length > 0.0 {
            for number in &mut vector {
                *number = (f64::from(*number) / length) as f32;
            }
        }
        Ok(vector)
    }

    fn malformed(&self, what: fmt::Arguments<'_>) -> ModelError {
        let space = &self.space.name;
        ModelError::new(
            ErrorKind::Malformed,
            format!("the embedder {space} answered wrongly: {what}"),
        )
    }
}

impl<E: Embedder> From<E> for EmbedderHandle {
    fn from(embedder: E) -> Self {
        Self::new(embedder)
    }
}

impl fmt::Debug for EmbedderHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EmbedderHandle({})", self.space)
    }
}

trait ErasedEmbedder: Send + Sync {
    fn embed<'a>(
        &'a self,
        texts: &'a [&'a str],
        purpose: EmbeddingPurpose,
    ) -> BoxFuture<'a, Result<Vec<Embedding>, ModelError>>;
    fn max_batch(&self) -> usize;
}

impl<E: Embedder> ErasedEmbedder for E {
    fn embed<'a>(
        &'a self,
        texts: &'a [&'a str],
        purpose: EmbeddingPurpose,
    ) -> BoxFuture<'a, Result<Vec<Embedding>, ModelError>> {
        Box::pin(Embedder::embed(self, texts, purpose))
    }

    fn max_batch(&self) -> usize {
        Embedder::max_batch(self)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Answers with what it is told to, in batches of two.
    struct Fixed(fn(&[&str]) -> Vec<Embedding>);

    impl Embedder for Fixed {
        fn space(&self) -> EmbeddingSpace {
            EmbeddingSpace::new("fixed", 2, EmbeddingKind::Lexical)
        }

        async fn embed(
            &self,
            texts: &[&str],
            _: EmbeddingPurpose,
        ) -> Result<Vec<Embedding>, ModelError> {
            assert!(texts.len() <= 2);
            Ok((self.0)(texts))
        }

        fn max_batch(&self) -> usize {
            2
        }
    }

    async fn embed(with: fn(&[&str]) -> Vec<Embedding>) -> Result<Vec<Embedding>, String> {
        let texts = ["a", "bb", "ccc"];
        let handle = EmbedderHandle::new(Fixed(with));
        let found = handle.embed(&texts, EmbeddingPurpose::Query).await;
        found.map_err(|error| error.message)
    }

    #[tokio::test]
    async fn batches_come_back_in_order_and_with_length_1() {
        let found = embed(|texts| {
            let raw = texts.iter().map(|text| match text.len() {
                1 => vec![3.0, 4.0],
                2 => vec![0.0, 9.0],
                _ => vec![-5.0, 12.0],
            });
            raw.collect()
        });
        let expected = [[0.6, 0.8], [0.0, 1.0], [-5.0 / 13.0, 12.0 / 13.0]];
        assert_eq!(found.await.unwrap(), expected);
        let zeros = embed(|texts| texts.iter().map(|_| vec![0.0, 0.0]).collect());
        assert_eq!(zeros.await.unwrap(), vec![vec![0.0, 0.0]; 3]);
        // Its square is more than a number of 32 bits can hold.
        let huge = embed(|texts| texts.iter().map(|_| vec![f32::MAX, 0.0]).collect());
        assert_eq!(huge.await.unwrap()[0], [1.0, 0.0]);
    }

    #[tokio::test]
    async fn a_wrong_answer_is_an_error() {
        let missing = embed(|_| vec![vec![1.0, 0.0]]).await.unwrap_err();
        assert!(missing.contains("2 texts were sent and 1 vectors came"));
        let short = embed(|texts| texts.iter().map(|_| vec![1.0]).collect());
        assert!(short.await.unwrap_err().contains("1 numbers and not 2"));
        let none = embed(|texts| texts.iter().map(|_| vec![f32::NAN, 1.0]).collect());
        assert!(none.await.unwrap_err().contains("not finite"));
    }
}
