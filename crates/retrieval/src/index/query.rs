//! Queries of an index, and the results.

use std::{ops::Range, sync::Arc};

use ghostlight_actors::contract::EmbeddingPurpose;
use serde::{Deserialize, Serialize};

use super::IndexError;
use crate::{chunking::Headings, vectors::Scan};

/// The most characters of a query.
const MAX_QUERY_CHARS: usize = 10_000;
/// The most probes of a query.
const MAX_PROBES: usize = 16;
/// The most chunks that are found.
const MAX_LIMIT: usize = 1_000;

/// A query of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The texts that are looked for: one as a rule, more for the same in other words. What fits several is better.
    pub probes: Vec<Probe>,
    /// By what chunks are ranked.
    pub ranked: Ranked,
    /// The documents that are searched.
    pub filter: Filter,
    /// How many chunks are wanted, at most 1,000.
    pub limit: usize,
    /// How much it counts that results are unlike each other, from 0 (not at all, the default) to 1: see
    /// [`maximal_marginal_relevance`](crate::fusion::maximal_marginal_relevance).
    pub diversity: f64,
    /// How much of the vectors is read: all of them, or a part in an index of many. See [`Scan`].
    pub scan: Scan,
}

impl Query {
    /// The ten chunks that fit this text best, by words and by vectors.
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

    /// Sets how many chunks are wanted.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets how chunks are ranked.
    #[must_use]
    pub fn ranked(mut self, ranked: Ranked) -> Self {
        self.ranked = ranked;
        self
    }

    /// Sets the documents that are searched.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Adds a text that is looked for.
    #[must_use]
    pub fn or(mut self, probe: Probe) -> Self {
        self.probes.push(probe);
        self
    }

    /// Sets how much it counts that results are unlike each other.
    #[must_use]
    pub fn diversity(mut self, diversity: f64) -> Self {
        self.diversity = diversity.clamp(0.0, 1.0);
        self
    }

    /// Sets how much of the vectors is read.
    #[must_use]
    pub fn scan(mut self, scan: Scan) -> Self {
        self.scan = scan;
        self
    }

    /// The first text that is looked for.
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

/// One text that is looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The text.
    pub text: String,
    /// The purpose of its vector: a question, or a text such as the answer could be.
    pub purpose: EmbeddingPurpose,
    /// Its vector, where it is known already.
    pub vector: Option<Vec<f32>>,
    /// How much it counts beside the others.
    pub weight: f64,
}

impl Probe {
    /// A question.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            purpose: EmbeddingPurpose::Query,
            vector: None,
            weight: 1.0,
        }
    }

    /// A text such as the answer could be.
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

/// The documents that are searched: those that meet all conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// In this folder, as it was indexed.
    pub folder: Option<String>,
    /// With a name that begins with one of these; any when there is none.
    pub under: Vec<String>,
    /// With a name that ends with one of these, such as `.md`; any when there is none.
    pub endings: Vec<String>,
}

impl Filter {
    /// Whether a document meets it.
    pub fn admits(&self, folder: &str, name: &str) -> bool {
        self.folder.as_deref().is_none_or(|wanted| wanted == folder)
            && (self.under.is_empty() || self.under.iter().any(|start| name.starts_with(&**start)))
            && (self.endings.is_empty() || self.endings.iter().any(|end| name.ends_with(&**end)))
    }
}

/// A chunk that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The document's name: its path below the folder that was indexed.
    pub document: Arc<str>,
    /// What the document calls itself, where it does.
    pub title: Option<Arc<str>>,
    /// The headings above the chunk.
    pub headings: Headings,
    /// The line of the document's text on which it begins, from 1.
    pub line: usize,
    /// Where it stands in the document's text, in bytes.
    pub range: Range<usize>,
    /// What it says.
    pub text: String,
    /// How well it fits, which compares only within one answer.
    pub score: f64,
}

impl Found {
    /// The document and the headings, such as `faq.md > Parcels > Lost`.
    pub fn source(&self) -> String {
        let parts = std::iter::once(&self.document).chain(self.headings.iter());
        parts.map(|part| &**part).collect::<Vec<_>>().join(" > ")
    }
}
