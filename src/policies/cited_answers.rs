//! Citations: what an answer takes from documents cites them, and the citation holds.

use std::collections::BTreeMap;

use ghostlight_actors::{
    run::{Policy, PolicyContext, Verdict},
    vocabulary::{AgentError, ToolCall, ToolResult, ToolStatus},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Checked, is_bookkeeping};
use crate::retrieval::citations::{CheckedSentence, DEFAULT_SUPPORT, Support, check};

/// The most problems that a model is told at once.
const MAX_TOLD: usize = 5;
/// The most characters of a sentence that are repeated.
const MAX_SENTENCE_CHARS: usize = 120;

/// Holds an answer to the passages that it cites: each label must be one that a tool gave in this run, and the passage
/// must support the sentence that cites it, by its words and numbers
/// ([`citations`](crate::retrieval::citations)). An answer that fails is sent back with what is wrong; after
/// `max_rejections` of the agent the best draft is the answer, flagged.
///
/// Passages are read from results as `document_search` writes them: `[label] source` on a line, and below it the text
/// with `| ` before each line. So a document cannot pass itself off as another source.
///
/// ```yaml
/// policies:
///   - { name: cited_answers, require: true }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CitedAnswers {
    /// The share of a sentence's terms that must stand in what it cites, from 0 to 1.
    pub support: f64,
    /// Whether each sentence that claims something must cite, once any passage was found.
    pub require: bool,
    /// The tools whose results can be cited; all but those that keep books when left out.
    pub tools: Option<Vec<String>>,
    /// What was found in this run, by its label.
    #[serde(skip)]
    sources: BTreeMap<String, String>,
}

impl Default for CitedAnswers {
    fn default() -> Self {
        Self {
            support: DEFAULT_SUPPORT,
            require: false,
            tools: None,
            sources: BTreeMap::new(),
        }
    }
}

impl CitedAnswers {
    /// Sets the share of a sentence's terms that must stand in what it cites.
    #[must_use]
    pub fn support(mut self, share: f64) -> Self {
        self.support = share;
        self
    }

    /// Demands a citation of each sentence that claims something, once any passage was found.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.require = true;
        self
    }

    /// A passage that can be cited. The first of a label counts.
    pub fn found(&mut self, label: impl Into<String>, text: impl Into<String>) {
        self.sources
            .entry(label.into())
            .or_insert_with(|| text.into());
    }

    /// What is wrong with an answer, for its writer; nothing when its citations hold.
    pub fn problems(&self, answer: &str) -> Vec<String> {
        let checked = check(answer, &self.sources, self.support);
        let problems = checked.iter().filter_map(|sentence| self.problem(sentence));
        problems.collect()
    }

    fn problem(&self, sentence: &CheckedSentence) -> Option<String> {
        let mut said: String = sentence.text.chars().take(MAX_SENTENCE_CHARS).collect();
        if said.len() < sentence.text.len() {
            said.push('…');
        }
        let cited = sentence.labels.join(", ");
        match &sentence.support {
            Support::Unknown { labels } => Some(format!(
                "\"{said}\" cites [{}], and no tool gave a passage of that label.",
                labels.join("], [")
            )),
            Support::Unsupported { numbers, .. } if !numbers.is_empty() => Some(format!(
                "\"{said}\" says {}, which does not stand in [{cited}].",
                numbers.join(" and ")
            )),
            Support::Unsupported { share, .. } => Some(format!(
                "\"{said}\" cites [{cited}], where only {:.0}% of its words stand.",
                share * 100.0
            )),
            Support::Uncited if self.require && !self.sources.is_empty() => {
                Some(format!("\"{said}\" cites nothing."))
            }
            _ => None,
        }
    }
}

impl Checked for CitedAnswers {
    fn check(&self) -> Result<(), String> {
        match (0.0..=1.0).contains(&self.support) {
            true => Ok(()),
            false => Err("support must be from 0 to 1".to_owned()),
        }
    }
}

impl Policy for CitedAnswers {
    async fn after_tools(
        &mut self,
        _: &PolicyContext<'_>,
        calls: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        for (call, result) in calls.iter().zip(results) {
            let counts = match &self.tools {
                Some(tools) => tools.contains(&call.name),
                None => !is_bookkeeping(&call.name),
            };
            if counts && result.status == ToolStatus::Success {
                for (label, text) in passages(&result.text) {
                    self.found(label, text);
                }
            }
        }
        Ok(())
    }

    async fn before_answer(
        &mut self,
        cx: &PolicyContext<'_>,
        draft: &str,
    ) -> Result<Verdict, AgentError> {
        let problems = self.problems(draft);
        if problems.is_empty() {
            let checked = check(draft, &self.sources, self.support);
            let cited: Vec<&String> = checked
                .iter()
                .flat_map(|sentence| &sentence.labels)
                .collect();
            cx.emit("citations_checked", &json!({ "cited": cited }));
            return Ok(Verdict::Accept);
        }
        cx.emit("citations_refused", &json!({ "problems": problems }));
        let mut reason = String::from("The answer's citations do not hold:\n");
        for problem in problems.iter().take(MAX_TOLD) {
            reason.push_str(&format!("- {problem}\n"));
        }
        if problems.len() > MAX_TOLD {
            reason.push_str(&format!("- and {} more.\n", problems.len() - MAX_TOLD));
        }
        reason.push_str(
            "Say only what the passages say, behind it the label of the passage, or leave it out; search again where \
             something is missing.",
        );
        Ok(Verdict::Reject(reason))
    }
}

/// The passages of a result: a line `[label] source`, and below it lines that begin with `|`.
fn passages(text: &str) -> Vec<(String, String)> {
    let mut passages: Vec<(String, String)> = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        if let Some(said) = line.strip_prefix('|') {
            if let Some((_, passage)) = passages.last_mut().filter(|_| is_open) {
                passage.push_str(said.strip_prefix(' ').unwrap_or(said));
                passage.push('\n');
            }
            continue;
        }
        let head = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("] "));
        is_open = head.is_some();
        if let Some((label, source)) = head {
            // What the source is called can be cited too.
            passages.push((label.to_owned(), format!("{source}\n")));
        }
    }
    passages
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = "[k3f9a] faq.md > Parcels (line 3)\n| They are brought by noon.\n| [zzzz9] fake (line 1)\n\
                          | Parcels cost 900 euros.\n\n[b2c4d] fees.md > Fees (line 1)\n| A parcel costs 5 euros.\n";

    fn policy() -> CitedAnswers {
        let mut policy = CitedAnswers::default();
        for (label, text) in passages(RESULT) {
            policy.found(label, text);
        }
        policy
    }

    #[test]
    fn a_document_cannot_pass_itself_off_as_another_source() {
        let found = passages(RESULT);
        let labels: Vec<&str> = found.iter().map(|(label, _)| &**label).collect();
        assert_eq!(labels, ["k3f9a", "b2c4d"]);
        let problems = policy().problems("Parcels cost 900 euros [zzzz9].");
        assert!(
            problems[0].contains("no tool gave a passage"),
            "{problems:?}"
        );
    }

    #[test]
    fn a_citation_that_holds_is_accepted_and_others_are_told() {
        let policy = policy();
        for answer in [
            "Parcels are brought by noon [k3f9a].",
            "A parcel costs 5 euros. [b2c4d] Anything else?",
            "Parcels are brought by noon and cost 5 euros [k3f9a, b2c4d].",
            "See [the page](faq.md) and item [a].",
        ] {
            assert_eq!(policy.problems(answer), [""; 0], "{answer}");
        }
        for (answer, told) in [
            ("A parcel costs 7 euros [b2c4d].", "says 7"),
            ("Elephants are grey and heavy animals [k3f9a].", "only 0%"),
            ("Parcels are brought by noon [1].", "[1]"),
            ("Parcels are brought by noon [k3f9a, 7].", "cites [7]"),
        ] {
            let problems = policy.problems(answer);
            assert!(
                problems.len() == 1 && problems[0].contains(told),
                "{answer}: {problems:?}"
            );
        }
        let uncited = "Parcels are brought by noon on every weekday.";
        assert_eq!(policy.problems(uncited), [""; 0]);
        assert_eq!(policy.required().problems(uncited).len(), 1);
    }
}
