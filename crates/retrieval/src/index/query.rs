//! Queries of an index, and the results.

use std::{ops::Range, sync::Arc};

use ghostlight_actors::contract::EmbeddingPurpose;
use serde::{Deserialize, Serialize};

use super::{IndexError, VectorId};
use crate::{chunking::Headings, readers::Metadata, vectors::Scan};

/// The most characters of a query.
const MAX_QUERY_CHARS: usize = 10_000;
/// The most probes of a query.
const MAX_PROBES: usize = 16;
/// The most chunks of a result.
const MAX_LIMIT: usize = 1_000;

/// A query of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The texts to search for: usually one, or several wordings of it. A match of several counts more.
    pub probes: Vec<Probe>,
    /// The rankings to use.
    pub ranked: Ranked,
    /// The documents to search.
    pub filter: Filter,
    /// The number of results, at most 1,000.
    pub limit: usize,
    /// The weight of diversity among the results, from 0 (none, the default) to 1: see
    /// [`maximal_marginal_relevance`](crate::fusion::maximal_marginal_relevance).
    pub diversity: f64,
    /// How many of the vectors to read: all, or in a large index a part. See [`Scan`].
    pub scan: Scan,
}

impl Query {
    /// The ten best matches of this text, by words and by vectors.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            probes: vec![Probe::new(text)],
            ranked: Ranked::Both,
            filter: Filter::default(),
            limit: 10,
            diversity: 0.0,
            scan: Scan::Exact,
        }
    }

    /// Sets the number of results.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the rankings to use.
    #[must_use]
    pub fn ranked(mut self, ranked: Ranked) -> Self {
        self.ranked = ranked;
        self
    }

    /// Sets the documents to search.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Adds a text to search for.
    #[must_use]
    pub fn or(mut self, probe: Probe) -> Self {
        self.probes.push(probe);
        self
    }

    /// Sets the weight of diversity among the results.
    #[must_use]
    pub fn diversity(mut self, diversity: f64) -> Self {
        self.diversity = diversity.clamp(0.0, 1.0);
        self
    }

    /// Sets how many of the vectors to read.
    #[must_use]
    pub fn scan(mut self, scan: Scan) -> Self {
        self.scan = scan;
        self
    }

    /// The first text to search for.
    pub fn text(&self) -> &str {
        self.probes.first().map_or("", |probe| &probe.text)
    }

    pub(super) fn check(&self) -> Result<(), IndexError> {
        let refuse = |message: String| Err(IndexError::Query(message));
        if self.probes.iter().all(|probe| probe.text.trim().is_empty()) {
            return refuse(String::from("the query is empty: say what to look for"));
        }
        if self.probes.len() > MAX_PROBES {
            return refuse(format!("a query has at most {MAX_PROBES} texts"));
        }
        if self
            .probes
            .iter()
            .any(|probe| probe.text.chars().count() > MAX_QUERY_CHARS)
        {
            return refuse(format!("a query has at most {MAX_QUERY_CHARS} characters"));
        }
        match self.limit {
            1..=MAX_LIMIT => Ok(()),
            limit => refuse(format!("the limit {limit} is not from 1 to {MAX_LIMIT}")),
        }
    }
}

/// One text to search for.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The text.
    pub text: String,
    /// The purpose of its vector: a question, or a text like the answer.
    pub purpose: EmbeddingPurpose,
    /// Its vector, if it is known already.
    pub vector: Option<Vec<f32>>,
    /// Its weight beside the other probes.
    pub weight: f64,
    /// The passages near it, where a store of vectors was asked.
    pub(super) near: Option<Vec<(VectorId, f32)>>,
}

impl Probe {
    /// A question.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            purpose: EmbeddingPurpose::Query,
            vector: None,
            weight: 1.0,
            near: None,
        }
    }

    /// A text like the answer.
    pub fn answer(text: impl Into<String>) -> Self {
        Self {
            purpose: EmbeddingPurpose::Document,
            ..Self::new(text)
        }
    }
}

/// By what chunks are ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "index", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ranked {
    /// By the words that they share with the query (BM25).
    Words,
    /// By vectors alone.
    Vectors,
    /// By both, fused by their ranks; by words where there are no vectors.
    #[default]
    Both,
}

/// The documents to search: those that meet all conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Documents of this folder, as it was indexed.
    pub folder: Option<String>,
    /// Documents whose name begins with one of these; all if there are none.
    pub under: Vec<String>,
    /// Documents whose name ends with one of these, such as `.md`; all if there are none.
    pub endings: Vec<String>,
    /// Documents that have, for each of these properties, one of its values (in any case of letters): properties of
    /// Markdown's front matter, of a database's further columns, or of [`NewDocument`](super::NewDocument).
    pub having: Metadata,
}

impl Filter {
    /// Whether a document meets the conditions.
    pub fn admits(&self, folder: &str, name: &str) -> bool {
        self.folder.as_deref().is_none_or(|wanted| wanted == folder)
            && (self.under.is_empty() || self.under.iter().any(|start| name.starts_with(&**start)))
            && (self.endings.is_empty() || self.endings.iter().any(|end| name.ends_with(&**end)))
    }

    /// Whether these properties of a document meet the conditions.
    pub fn holds(&self, metadata: &Metadata) -> bool {
        self.having.iter().all(|(name, wanted)| {
            let has = metadata.get(&name.to_lowercase());
            let is_wanted = |value: &String| {
                let value = value.to_lowercase();
                wanted.iter().any(|wanted| wanted.to_lowercase() == value)
            };
            has.is_some_and(|values| values.iter().any(is_wanted))
        })
    }
}

/// A chunk that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The document's name: its path below the folder that was indexed.
    pub document: Arc<str>,
    /// The document's own title, if it has one.
    pub title: Option<Arc<str>>,
    /// The headings above the chunk.
    pub headings: Headings,
    /// The line of the document's text on which it begins, from 1.
    pub line: usize,
    /// Its range in the document's text, in bytes.
    pub range: Range<usize>,
    /// Its text.
    pub text: String,
    /// Its score; scores of different searches cannot be compared.
    pub score: f64,
}

impl Found {
    /// The document and the headings, such as `faq.md > Parcels > Lost`, in one line: a file's name may have line breaks,
    /// and must not look like the head of another passage.
    pub fn source(&self) -> String {
        let parts = std::iter::once(&self.document).chain(self.headings.iter());
        let source = parts.map(|part| &**part).collect::<Vec<_>>().join(" > ");
        source.replace(
            |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'),
            " ",
        )
    }
}
