//! A sentence encoder that runs in this process.

mod bert;
mod wordpiece;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread::available_parallelism,
};

use ghostlight_actors::{
    contract::{Embedder, Embedding, EmbeddingKind, EmbeddingPurpose, EmbeddingSpace, ModelError},
    vocabulary::ErrorKind,
};
use serde::Deserialize;
use tokio::sync::Semaphore;

use self::{
    bert::{Bert, Pooling, Sizes},
    wordpiece::WordPiece,
};

/// The most bytes of a file of a model.
const MAX_FILE_BYTES: u64 = 4 << 30;
/// The most windows of a text. The rest of a longer text is not read.
const MAX_WINDOWS: usize = 8;
/// How many pieces are computed together, at least: the weights are read once for all of them.
const TOGETHER: usize = 512;

/// Vectors of meaning from a model in a folder, without a network: any sentence encoder of the kind BERT in the layout
/// in which such models are published, for example `all-MiniLM-L6-v2`, `bge-small-en-v1.5` or `e5-small-v2`.
///
/// The folder has `config.json`, `tokenizer.json` (WordPiece) and `model.safetensors`; of `1_Pooling/config.json` and
/// `sentence_bert_config.json` the kind of pooling (mean or first) and the greatest length are taken, if they are there.
/// A text that is longer is divided into windows, and its vector is the mean of those of its windows, of at most
/// eight. A text has the same vector whatever it is computed together with.
///
/// It computes on the processor, at about one millisecond for each piece of a word with `all-MiniLM-L6-v2` on a busy core.
///
/// ```no_run
/// use ghostlight_actors::contract::EmbedderHandle;
/// use ghostlight_retrieval::SentenceEncoder;
///
/// # fn open() -> Result<(), Box<dyn std::error::Error>> {
/// let encoder = SentenceEncoder::open("models/all-MiniLM-L6-v2")?;
/// let embedder = EmbedderHandle::new(encoder);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SentenceEncoder {
    model: Arc<Model>,
    space: String,
    query_prefix: String,
    document_prefix: String,
}

#[derive(Debug)]
struct Model {
    bert: Bert,
    tokenizer: WordPiece,
    pooling: Pooling,
    window: usize,
    dimension: usize,
    /// One for each processor, so that many searches at once do not each take a thread.
    turns: Semaphore,
}

/// A model that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncoderError {
    /// A file cannot be read.
    #[error(
        "{path} cannot be read: {source}; the folder of a model has config.json, tokenizer.json and model.safetensors"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file is damaged, or of a model of another kind.
    #[error(
        "{path} is of no model that can be used: {problem}; a BERT with a WordPiece vocabulary can, such as all-MiniLM-L6-v2"
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        problem: String,
    },
}

ghostlight_actors::parts_of_system_error!(EncoderError);

#[derive(Deserialize)]
struct PoolingFile {
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
}

#[derive(Deserialize)]
struct LengthFile {
    max_seq_length: Option<usize>,
}

impl SentenceEncoder {
    /// Reads the model in this folder, which takes a third of a second for 90 MB.
    ///
    /// # Errors
    /// A file is missing, damaged, larger than 4 GiB, or of another kind of model.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, EncoderError> {
        let folder = folder.as_ref();
        let (config, sizes) = read(&folder.join("config.json"), Sizes::read)?;
        let (words, tokenizer) = read(&folder.join("tokenizer.json"), WordPiece::read)?;
        let weights = folder.join("model.safetensors");
        let pieces = tokenizer.greatest() as usize + 1;
        let (weights, bert) = read(&weights, |bytes| Bert::read(bytes, &sizes, pieces))?;
        let pooling = optional(&folder.join("1_Pooling/config.json"), |bytes| {
            let file: PoolingFile = from_json(bytes)?;
            match (file.pooling_mode_mean_tokens, file.pooling_mode_cls_token) {
                (true, false) => Ok(Pooling::Mean),
                (false, true) => Ok(Pooling::First),
                _ => Err(String::from(
                    "its pooling is neither the mean nor the first state",
                )),
            }
        })?;
        let pooling = pooling.unwrap_or(Pooling::Mean);
        let length = optional(&folder.join("sentence_bert_config.json"), |bytes| {
            Ok(from_json::<LengthFile>(bytes)?.max_seq_length)
        })?;
        let positions = sizes.max_position_embeddings;
        let window = length.flatten().unwrap_or(positions).clamp(3, positions);
        // Another model gives other vectors, whatever its folder is called.
        let mut digest = blake3::Hasher::new();
        for part in [config, words, weights] {
            digest.update(part.as_bytes());
        }
        let digest = &digest.finalize().to_hex()[..16];
        let model = Model {
            bert,
            tokenizer,
            pooling,
            window,
            dimension: sizes.hidden_size,
            turns: Semaphore::new(available_parallelism().map_or(1, usize::from)),
        };
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            model: Arc::new(model),
            // The version must change whenever a text gets another vector.
            space: format!("encoder-1/{name}/{digest}/{pooling:?}/{window}"),
            query_prefix: String::new(),
            document_prefix: String::new(),
        })
    }

    /// Sets the prefixes of queries and of texts to be found. Some models are trained with them, such as `query: ` and
    /// `passage: ` of `e5-small-v2`.
    #[must_use]
    pub fn prefixes(mut self, query: impl Into<String>, document: impl Into<String>) -> Self {
        self.query_prefix = query.into();
        self.document_prefix = document.into();
        self
    }
}

impl Embedder for SentenceEncoder {
    fn space(&self) -> EmbeddingSpace {
        let Self {
            space,
            query_prefix: query,
            document_prefix: document,
            ..
        } = self;
        let name = match query.is_empty() && document.is_empty() {
            true => space.clone(),
            false => format!("{space}/{query:?}/{document:?}"),
        };
        EmbeddingSpace::new(name, self.model.dimension, EmbeddingKind::Semantic)
    }

    async fn embed(
        &self,
        texts: &[&str],
        purpose: EmbeddingPurpose,
    ) -> Result<Vec<Embedding>, ModelError> {
        let prefix = match purpose {
            EmbeddingPurpose::Query => &self.query_prefix,
            EmbeddingPurpose::Document => &self.document_prefix,
        };
        let mut parts: Vec<Vec<Vec<Vec<u32>>>> = Vec::new();
        let mut room = 0;
        for text in texts {
            let windows = self.model.windows(&format!("{prefix}{text}"));
            let pieces: usize = windows.iter().map(Vec::len).sum();
            match parts.last_mut() {
                Some(part) if room >= pieces => part.push(windows),
                _ => {
                    parts.push(vec![windows]);
                    room = TOGETHER;
                }
            }
            room = room.saturating_sub(pieces);
        }
        let computed = parts.into_iter().map(|part| {
            let model = self.model.clone();
            async move {
                let turn = model.turns.acquire().await.map_err(|_| stopped())?;
                let computing = model.clone();
                let vectors = tokio::task::spawn_blocking(move || computing.vectors(&part)).await;
                drop(turn);
                vectors.map_err(|_| stopped())
            }
        });
        let vectors = futures_util::future::try_join_all(computed).await?;
        Ok(vectors.into_iter().flatten().collect())
    }
}

fn stopped() -> ModelError {
    ModelError::new(
        ErrorKind::Cancelled,
        "the encoder stopped while it computed a vector",
    )
}

impl Model {
    fn windows(&self, text: &str) -> Vec<Vec<u32>> {
        self.tokenizer.windows(text, self.window, MAX_WINDOWS)
    }

    /// The vectors of texts, each given by its windows.
    fn vectors(&self, texts: &[Vec<Vec<u32>>]) -> Vec<Embedding> {
        let windows: Vec<&[u32]> = texts.iter().flatten().map(Vec::as_slice).collect();
        let mut found = self.bert.vectors(&windows, self.pooling).into_iter();
        let of_text = |text: &Vec<Vec<u32>>| {
            let mut sum = vec![0.0; self.dimension];
            for vector in found.by_ref().take(text.len()) {
                sum.iter_mut()
                    .zip(vector)
                    .for_each(|(sum, number)| *sum += number);
            }
            sum
        };
        texts.iter().map(of_text).collect()
    }
}

/// Reads a file, and returns its digest with what was made of it.
fn read<T>(
    path: &Path,
    make: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<(blake3::Hash, T), EncoderError> {
    let unreadable = |source| EncoderError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let size = fs::metadata(path).map_err(unreadable)?.len();
    let unusable = |problem| EncoderError::Unusable {
        path: path.to_owned(),
        problem,
    };
    if size > MAX_FILE_BYTES {
        return Err(unusable(format!(
            "it has {size} bytes, more than {MAX_FILE_BYTES}"
        )));
    }
    let bytes = fs::read(path).map_err(unreadable)?;
    Ok((blake3::hash(&bytes), make(&bytes).map_err(unusable)?))
}

fn optional<T>(
    path: &Path,
    make: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<Option<T>, EncoderError> {
    match path.exists() {
        true => Ok(Some(read(path, make)?.1)),
        false => Ok(None),
    }
}

fn from_json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}
