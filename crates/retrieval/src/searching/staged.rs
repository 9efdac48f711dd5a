//! A search whose questions to a model somebody else asks, so that they are recorded and paid for like any other.

use std::collections::BTreeSet;

use ghostlight_actors::vocabulary::Continued;
use serde::{Deserialize, Serialize};

use super::{CANDIDATES, Expansion, SearchResult, Searcher, label, rerank};
use crate::index::{Found, IndexError, Probe, Query};

/// The stages of a search that need a model. Each is one call of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stages {
    /// In how many other wordings the question is asked as well, at most 8; 0 for none.
    pub paraphrases: usize,
    /// Whether the model writes a possible answer, which is searched for as well (HyDE).
    pub hypothetical_answer: bool,
    /// Whether the model puts what was found in order.
    pub rerank: bool,
}

/// The kinds of stages, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Expand(Expansion),
    Rerank,
}

impl Stages {
    fn wanted(&self) -> Vec<Stage> {
        let paraphrases = (self.paraphrases > 0)
            .then_some(Stage::Expand(Expansion::Paraphrases(self.paraphrases)));
        let answer = self
            .hypothetical_answer
            .then_some(Stage::Expand(Expansion::HypotheticalAnswer));
        let rerank = self.rerank.then_some(Stage::Rerank);
        [paraphrases, answer, rerank]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// The next request of a [`StagedSearch`].
#[derive(Clone, Debug)]
pub enum Staged {
    /// A model is asked this, and its answer handed over by [`StagedSearch::answered`].
    Ask(String),
    /// The search has ended.
    Found(SearchResult),
}

/// A search in stages, between two questions to a model. It is plain data, so a tool's continuation can hold it.
///
/// The caller carries it out, and calls [`next`](Self::next) until there is a result. A stage whose question was not answered is
/// left out, and the result says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedSearch {
    /// How many stages are done.
    done: usize,
    /// The further probe, and whether it is a text like the answer.
    probes: Vec<(String, bool)>,
    /// The labels of the passages that the model was shown, and then those that it chose.
    shown: Vec<String>,
    left_out: Vec<String>,
}

impl StagedSearch {
    /// A search that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next request.
    ///
    /// # Errors
    /// The errors of [`Searcher::search`].
    pub async fn next(
        &mut self,
        searcher: &Searcher,
        stages: &Stages,
        query: &Query,
    ) -> Result<Staged, IndexError> {
        for stage in stages.wanted().into_iter().skip(self.done) {
            match stage {
                Stage::Expand(how) => return Ok(Staged::Ask(how.prompt(query.text()))),
                Stage::Rerank => {
                    let result = self.search(searcher, stages, query).await?;
                    if result.found.len() < 2 {
                        self.done += 1;
                        continue;
                    }
                    let asked = result.found.iter().take(rerank::READ.0);
                    self.shown = asked.map(label).collect();
                    return Ok(Staged::Ask(rerank::prompt(query.text(), &result.found)));
                }
            }
        }
        let mut result = self.search(searcher, stages, query).await?;
        // The passages are read again, so that no copy of them is kept between the parts of a call.
        let chosen: BTreeSet<&str> = self.shown.iter().map(String::as_str).collect();
        let place = |found: &Found| {
            let label = label(found);
            match chosen.contains(&*label) {
                true => self.shown.iter().position(|shown| *shown == label),
                false => None,
            }
        };
        result
            .found
            .sort_by_cached_key(|found| place(found).unwrap_or(usize::MAX));
        result.found.truncate(query.limit);
        result.left_out.splice(..0, self.left_out.iter().cloned());
        Ok(Staged::Found(result))
    }

    /// Takes a model's answer to the last question, or the reason why there is none.
    pub fn answered(&mut self, stages: &Stages, answer: Result<&str, &str>) {
        let wanted = stages.wanted();
        match (wanted.get(self.done), answer) {
            (Some(Stage::Expand(how)), Ok(answer)) => {
                let probes = how.read(answer).into_iter();
                let is_answer = *how == Expansion::HypotheticalAnswer;
                self.probes
                    .extend(probes.map(|probe| (probe.text, is_answer)));
            }
            (Some(Stage::Expand(_)), Err(why)) => {
                self.left_out
                    .push(format!("other words for the question: {why}"));
            }
            (Some(Stage::Rerank), answer) => {
                let shown = std::mem::take(&mut self.shown);
                let places = answer.map(|answer| rerank::places(answer, shown.len()));
                let why = match places {
                    Ok(places) if !places.is_empty() => {
                        let of = |place: usize| shown.get(place).cloned();
                        self.shown = places.into_iter().filter_map(of).collect();
                        None
                    }
                    Ok(_) => Some(rerank::UNREAD),
                    Err(why) => Some(why),
                };
                let left_out = why.map(|why| format!("a better order: {why}"));
                self.left_out.extend(left_out);
            }
            (None, _) => {}
        }
        self.done += 1;
    }

    /// Takes the answer that a continued call of a tool brings.
    pub fn continued(&mut self, stages: &Stages, continued: &Continued) {
        let text = continued.answer.as_ref().and_then(|answer| answer.as_str());
        let why = continued
            .failure
            .as_deref()
            .unwrap_or("there was no answer");
        self.answered(stages, text.ok_or(why));
    }

    /// The candidates of the last stage, or the results.
    async fn search(
        &self,
        searcher: &Searcher,
        stages: &Stages,
        query: &Query,
    ) -> Result<SearchResult, IndexError> {
        let mut asked = query.clone();
        asked
            .probes
            .extend(self.probes.iter().map(|(text, is_answer)| {
                let mut probe = match is_answer {
                    true => Probe::answer(text),
                    false => Probe::new(text),
                };
                probe.weight = 0.5;
                probe
            }));
        if stages.rerank {
            let many = (query.limit * CANDIDATES.0).min(CANDIDATES.1);
            asked.limit = many.max(query.limit);
        }
        searcher.search(&asked).await
    }
}
