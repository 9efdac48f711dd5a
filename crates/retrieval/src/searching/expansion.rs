//! Rephrasing a question.

use ghostlight_actors::{
    contract::{ModelContext, ModelError, ModelHandle},
    vocabulary::{Message, ModelRequest, Transcript},
};

use crate::index::Probe;

/// The most characters of a model's answer that are used.
const MAX_CHARS: usize = 2_000;
/// The most other wordings of a question.
const MAX_PARAPHRASES: usize = 8;

/// The ways in which a model can improve a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expansion {
    /// The model rephrases the question this many times (multi-query).
    Paraphrases(usize),
    /// The model writes a possible answer, and the search looks for it, too (HyDE: Gao and others, *Precise Zero-Shot
    /// Dense Retrieval without Relevance Labels*, 2022). The answer may be wrong: only its likeness to texts counts.
    HypotheticalAnswer,
}

impl Expansion {
    /// The question to a model.
    pub(super) fn prompt(&self, question: &str) -> String {
        match self {
            Self::Paraphrases(count) => {
                let count = (*count).min(MAX_PARAPHRASES);
                format!(
                    "Write {count} other ways to ask the question below, each with other words, one a line and nothing \
                     else. Do not answer it.\n\nQuestion: {question}"
                )
            }
            Self::HypotheticalAnswer => format!(
                "Write the passage of a document that would answer the question below, in two or three sentences. \
                 Where you do not know, make up what is likely.\n\nQuestion: {question}"
            ),
        }
    }

    /// The probes after this answer of a model. Each has half the weight of the question.
    pub(super) fn read(&self, answer: &str) -> Vec<Probe> {
        let answer: String = answer.trim().chars().take(MAX_CHARS).collect();
        let mut probes: Vec<Probe> = match self {
            Self::Paraphrases(count) => {
                let lines = answer.lines().map(without_mark);
                let lines = lines.filter(|line| !line.is_empty());
                lines
                    .take((*count).min(MAX_PARAPHRASES))
                    .map(Probe::new)
                    .collect()
            }
            Self::HypotheticalAnswer if answer.is_empty() => Vec::new(),
            Self::HypotheticalAnswer => vec![Probe::answer(answer)],
        };
        for probe in &mut probes {
            probe.weight = 0.5;
        }
        probes
    }
}

/// Rephrases questions with a model.
#[derive(Clone, Debug)]
pub struct QueryExpander {
    model: ModelHandle,
    how: Vec<Expansion>,
}

impl QueryExpander {
    /// Uses this model, in these ways.
    pub fn new(model: impl Into<ModelHandle>, how: impl IntoIterator<Item = Expansion>) -> Self {
        Self {
            model: model.into(),
            how: how.into_iter().collect(),
        }
    }

    /// The probes beside the question itself. Each has half its weight.
    ///
    /// # Errors
    /// The error of the model.
    pub async fn probes(&self, question: &str) -> Result<Vec<Probe>, ModelError> {
        let mut probes = Vec::new();
        for how in &self.how {
            let said = Message::user(how.prompt(question));
            let request = ModelRequest::new(Transcript::from_iter([said]));
            let answer = self.model.respond(request, ModelContext::detached());
            probes.extend(how.read(&answer.await?.content()));
        }
        Ok(probes)
    }
}

/// A line without the number or dash that models put before it.
fn without_mark(line: &str) -> &str {
    let line = line.trim();
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    match rest.strip_prefix(['.', ')']) {
        Some(rest) if rest.len() < line.len() => rest.trim(),
        _ => line.trim_start_matches(['-', '*', '•']).trim(),
    }
}
