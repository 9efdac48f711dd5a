//! Verification: an answer needs evidence.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use ghostlight_actors::{
    run::{BeforeTool, Policy, PolicyContext, Verdict},
    vocabulary::{AgentError, Answer, Outcome, ToolCall, ToolResult, ToolStatus},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Checked, EvidenceItem,
    evidence::{self, Written, finds_out, same_source},
    held_back, says_something,
};
use crate::retrieval::terms::content_terms;

const REFLECT: &str = "\
The answer lacks evidence. Call no tool now. Write a short reflection first: what is not yet \
supported, and where you will look for it.";
const REFLECT_BETTER: &str = "\
That is no reflection. Write in a sentence or two what is not yet supported, and where you will \
look for it.";
const GATHER: &str = "Now gather the missing evidence with the tools, and answer then.";

/// Asks for evidence before an answer: results of tools from this many distinct sources, each of a
/// least score.
///
/// A source is a thing that was found: a passage that a search labels (`[label] source`), a hit with
/// its address, the page or file that was read, or a JSON object, alone or in a list, that says its
/// source (`source`, `url`, `path` or `title`), content (`content`, `text` or `snippet`) and score
/// (`score`). A call is not a source: one that found nothing, and a text that names no source, is no
/// evidence, and neither is what a model reads back from its own notes, memory, board, plan or todos, from a file that it
/// wrote in this run with a tool that does more than read, from another agent, or from the output of a command that it
/// chose. (What such a command writes to a file is not seen; `tools` names the tools that count instead.)
/// [`evidence_by`](Self::evidence_by) reads results in another way. The same source counts once, however its address is
/// written, with its best score.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Verification {
    /// How many distinct sources an answer needs.
    pub min_sources: u32,
    /// The least score of what counts. Evidence that says no score has 1.
    pub min_score: f64,
    /// The share of the answer's terms that the evidence must contain, from 0 (not checked) to 1.
    /// Terms are what search uses: stems without English stop words, and pairs of characters in
    /// scripts without spaces ([`content_terms`]).
    pub min_coverage: f64,
    /// The tools whose results are evidence; all but those that keep books when left out.
    pub tools: Option<Vec<String>>,
    /// Whether a rejection asks for a reflection before further tools.
    pub reflection: bool,
    /// Whether the sources are listed below the answer.
    pub attach_sources: bool,
    #[serde(skip)]
    mapper: Option<Mapper>,
    #[serde(skip)]
    state: VerificationState,
    #[serde(skip)]
    written: Written,
}

impl Default for Verification {
    fn default() -> Self {
        Self {
            min_sources: 1,
            min_score: 0.0,
            min_coverage: 0.0,
            tools: None,
            reflection: false,
            attach_sources: false,
            mapper: None,
            state: VerificationState::default(),
            written: Written::default(),
        }
    }
}

type ReadEvidence = dyn Fn(&ToolCall, &ToolResult) -> Vec<EvidenceItem> + Send + Sync;

/// How results are read as evidence.
#[derive(Clone)]
struct Mapper(Arc<ReadEvidence>);

impl fmt::Debug for Mapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mapper(..)")
    }
}

impl Verification {
    /// Sets how many distinct sources an answer needs.
    #[must_use]
    pub fn min_sources(mut self, sources: u32) -> Self {
        self.min_sources = sources;
        self
    }

    /// Sets the least score of what counts.
    #[must_use]
    pub fn min_score(mut self, score: f64) -> Self {
        self.min_score = score;
        self
    }

    /// Makes a rejection ask for a reflection before further tools.
    #[must_use]
    pub fn with_reflection(mut self) -> Self {
        self.reflection = true;
        self
    }

    /// Sets how a successful result is read as evidence. The function must give the same for the
    /// same result.
    #[must_use]
    pub fn evidence_by<F>(mut self, read: F) -> Self
    where
        F: Fn(&ToolCall, &ToolResult) -> Vec<EvidenceItem> + Send + Sync + 'static,
    {
        self.mapper = Some(Mapper(Arc::new(read)));
        self
    }

    fn evidence(&self, call: &ToolCall, result: &ToolResult) -> Vec<EvidenceItem> {
        let counts = match &self.tools {
            Some(tools) => tools.contains(&call.name),
            None => finds_out(&call.name),
        };
        match &self.mapper {
            _ if !counts => Vec::new(),
            Some(Mapper(read)) => read(call, result),
            None => {
                let mut found = evidence::found(call, result);
                found.retain(|item| !self.written.includes(&item.source));
                found
            }
        }
    }
}

impl Checked for Verification {
    fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.min_coverage) {
            return Err("min_coverage must be from 0 to 1".to_owned());
        }
        Ok(())
    }
}

/// The state machine of [`Verification`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct VerificationState {
    /// The best evidence of each source.
    pub evidence: BTreeMap<String, EvidenceItem>,
    /// Whether a reflection must follow before any tool.
    pub reflection_needed: bool,
    /// The reflections that were written, the latest last.
    pub reflections: Vec<String>,
    asked: bool,
    blank: u32,
}

impl VerificationState {
    /// A piece of evidence was found.
    pub fn found(&mut self, item: EvidenceItem) {
        let source = same_source(&item.source);
        match self.evidence.get(&source) {
            Some(known) if known.score >= item.score => {}
            _ => drop(self.evidence.insert(source, item)),
        }
    }

    /// The sources of evidence of at least this score.
    pub fn sources(&self, min_score: f64) -> Vec<&str> {
        let enough = self
            .evidence
            .values()
            .filter(|item| item.score >= min_score);
        enough.map(|item| item.source.as_str()).collect()
    }

    /// The share of a text's [terms](content_terms) that the evidence contains; 1 for a text
    /// without any.
    pub fn coverage(&self, text: &str, min_score: f64) -> f64 {
        let enough = self
            .evidence
            .values()
            .filter(|item| item.score >= min_score);
        let known: BTreeSet<String> = enough
            .flat_map(|item| content_terms(&item.content))
            .collect();
        let said: BTreeSet<String> = content_terms(text).into_iter().collect();
        if said.is_empty() {
            return 1.0;
        }
        said.intersection(&known).count() as f64 / said.len() as f64
    }

    /// An answer came while no reflection was needed.
    pub fn answered(&mut self, text: &str, wanted: &Verification) -> Verdict {
        let (sources, least) = (
            self.sources(wanted.min_score).len(),
            wanted.min_sources as usize,
        );
        let reason = if sources < least {
            let score = match wanted.min_score > 0.0 {
                true => format!(" of a score of at least {}", wanted.min_score),
                false => String::new(),
            };
            format!(
                "The answer needs evidence from at least {least} distinct sources{score}; there \
                 are {sources}."
            )
        } else {
            let coverage = self.coverage(text, wanted.min_score);
            if coverage >= wanted.min_coverage {
                return Verdict::Accept;
            }
            format!(
                "Only {:.0}% of what the answer says is in the evidence; at least {:.0}% must be. \
                 Say what the evidence says, or gather more.",
                coverage * 100.0,
                wanted.min_coverage * 100.0
            )
        };
        if wanted.reflection && !self.asked {
            (self.asked, self.reflection_needed) = (true, true);
            return Verdict::Reject(format!("{reason} {REFLECT}"));
        }
        Verdict::Reject(reason)
    }

    /// A text came while a reflection was needed. `false` when it says nothing and is asked for
    /// once more.
    pub fn reflected(&mut self, text: &str) -> bool {
        if !says_something(text, self.reflections.last()) && self.blank < 3 {
            self.blank += 1;
            return false;
        }
        self.reflection_needed = false;
        self.reflections.push(text.to_owned());
        true
    }
}

impl Policy for Verification {
    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        let blocked = held_back(cx, call, self.state.reflection_needed, REFLECT);
        Ok(blocked.unwrap_or(BeforeTool::Go))
    }

    async fn after_tools(
        &mut self,
        cx: &PolicyContext<'_>,
        calls: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        calls.iter().for_each(|call| self.written.called(cx, call));
        let succeeded = calls.iter().zip(results);
        for (call, result) in succeeded.filter(|(_, r)| r.status == ToolStatus::Success) {
            for item in self.evidence(call, result) {
                self.state.found(item);
            }
        }
        Ok(())
    }

    fn wants_reflection(&self) -> bool {
        self.state.reflection_needed
    }

    async fn reflected(
        &mut self,
        cx: &PolicyContext<'_>,
        text: &str,
    ) -> Result<String, AgentError> {
        if !self.state.reflected(text) {
            return Ok(REFLECT_BETTER.to_owned());
        }
        cx.emit("reflection_recorded", &json!({ "text": text }));
        Ok(GATHER.to_owned())
    }

    async fn before_answer(
        &mut self,
        cx: &PolicyContext<'_>,
        draft: &str,
    ) -> Result<Verdict, AgentError> {
        let wanted = self.clone();
        let verdict = self.state.answered(draft, &wanted);
        if verdict == Verdict::Accept {
            let sources = self.state.sources(self.min_score);
            cx.emit("evidence_cited", &json!({ "sources": sources }));
        }
        Ok(verdict)
    }

    async fn after_run(
        &mut self,
        _: &PolicyContext<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Outcome>, AgentError> {
        let sources = self.state.sources(self.min_score);
        let Outcome::Answer(answer) = outcome else {
            return Ok(None);
        };
        if !self.attach_sources || sources.is_empty() {
            return Ok(None);
        }
        let mut cited = Answer::clone(answer);
        let lines: Vec<String> = sources.iter().map(|source| format!("- {source}")).collect();
        cited.text = format!("{}\n\nSources:\n{}", answer.text, lines.join("\n"));
        Ok(Some(Outcome::Answer(cited)))
    }
}

/// One test for each row of the specification's table, and for what it lacks.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn wanted() -> Verification {
        Verification::default().min_sources(2)
    }

    fn rejected(verdict: Verdict) -> String {
        match verdict {
            Verdict::Reject(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn enough_evidence_is_accepted_and_too_little_names_what_is_needed() {
        let mut state = VerificationState::default();
        state.found(EvidenceItem::new("a.md", "x"));
        let reason = rejected(state.answered("x", &wanted()));
        assert!(
            reason.contains("at least 2 distinct sources; there are 1"),
            "{reason}"
        );
        state.found(EvidenceItem::new("b.md", "y"));
        assert_eq!(state.answered("x", &wanted()), Verdict::Accept);
    }

    #[test]
    fn the_same_source_counts_once_with_its_best_score() {
        let mut state = VerificationState::default();
        for score in [0.2, 0.9, 0.4] {
            state.found(EvidenceItem::new("A.md ", "x").score(score));
            state.found(EvidenceItem::new("a.md", "x").score(score));
        }
        assert_eq!(state.sources(0.8).len(), 1);
        rejected(state.answered("x", &wanted()));
    }

    #[test]
    fn evidence_of_a_low_score_does_not_count() {
        let mut state = VerificationState::default();
        state.found(EvidenceItem::new("a", "x").score(0.3));
        state.found(EvidenceItem::new("b", "y").score(0.7));
        let reason = rejected(state.answered("x", &wanted().min_score(0.5)));
        assert!(
            reason.contains("a score of at least 0.5; there are 1"),
            "{reason}"
        );
    }

    #[test]
    fn the_evidence_must_cover_the_answer() {
        let mut state = VerificationState::default();
        state.found(EvidenceItem::new("a", "Oslo has 700000 inhabitants"));
        let wanted = Verification {
            min_coverage: 0.6,
            ..Verification::default()
        };
        let reason = rejected(state.answered("Bergen is a beautiful city", &wanted));
        assert!(reason.contains("0%"), "{reason}");
        assert_eq!(
            state.answered("Oslo: 700000 inhabitants.", &wanted),
            Verdict::Accept
        );
    }

    #[test]
    fn coverage_sees_the_parts_of_a_sentence_without_spaces() {
        let mut state = VerificationState::default();
        state.found(EvidenceItem::new("a", "奥斯陆有七十万居民"));
        assert_eq!(state.coverage("奥斯陆有七十万居民。", 0.0), 1.0);
        let part = state.coverage("奥斯陆是一座美丽的城市", 0.0);
        assert!(part > 0.0 && part < 0.5, "{part}");
    }

    #[test]
    fn a_rejection_asks_for_a_reflection_once_and_then_for_evidence() {
        let mut state = VerificationState::default();
        let wanted = wanted().with_reflection();
        let reason = rejected(state.answered("x", &wanted));
        assert!(reason.contains("Write a short reflection"), "{reason}");
        assert!(state.reflection_needed);
        assert!(!state.reflected("hm"), "it says nothing");
        assert!(state.reflected("The number of inhabitants has no source."));
        assert!(!state.reflection_needed);
        let reason = rejected(state.answered("x", &wanted));
        assert!(!reason.contains("reflection"), "{reason}");
        assert!(!state.reflection_needed);
    }
}
