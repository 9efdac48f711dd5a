//! Records of tasks: how they were done, and whether that was right.

use ghostlight_actors::run::Performing;
use serde::{Deserialize, Serialize};

use crate::{
    Detail, MemoryItem, MemoryKind, MemoryOperation, ScopedMemory, Sent, Threshold, WriteDecision,
    WritePolicy as _,
    draft::Draft,
    item::{clean_line, share},
    view::Kept,
};

/// How many characters of a task's summary are kept.
pub(crate) const SUMMARY: usize = 240;
const APPROACH: usize = 600;
const ANSWER: usize = 240;
const ANALYSIS: usize = 400;

/// The way in which a task was done. The task itself is the content of its item.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskRecord {
    /// The approach.
    pub approach: String,
    /// The answer.
    pub answer: String,
    /// Whether the answer was right, as far as is known: false for one that failed or was found wrong.
    pub is_correct: bool,
    /// Whether a check, a person or the caller said so. An answer that nobody checked is not a proof that its approach
    /// works.
    #[serde(default)]
    pub is_checked: bool,
    /// The analysis of the error, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_analysis: Option<String>,
    /// The message that told people of the answer, if there was one: their reactions confirm or refute it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
}

impl TaskRecord {
    /// A task that was done with this approach and answer, and is known to be right or wrong.
    pub fn new(approach: impl Into<String>, answer: impl Into<String>, is_correct: bool) -> Self {
        Self {
            approach: approach.into(),
            answer: answer.into(),
            is_correct,
            is_checked: true,
            error_analysis: None,
            sent: None,
        }
    }

    /// A task that was answered, where nobody has checked the answer.
    pub fn unchecked(approach: impl Into<String>, answer: impl Into<String>) -> Self {
        Self {
            is_checked: false,
            ..Self::new(approach, answer, true)
        }
    }

    /// The result in words for a model.
    pub fn in_words(&self) -> &'static str {
        match (self.is_correct, self.is_checked) {
            (false, _) => "Incorrect",
            (true, true) => "Correct",
            (true, false) => "answered, unchecked",
        }
    }

    /// How much the result is worth: a checked answer more than an unchecked one, and that more than a wrong one.
    fn rank(&self) -> u8 {
        match (self.is_correct, self.is_checked) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        }
    }

    /// Adds the analysis of the error.
    #[must_use]
    pub fn error_analysis(mut self, analysis: impl Into<String>) -> Self {
        self.error_analysis = Some(analysis.into());
        self
    }

    fn clean(&self) -> Self {
        let analysis = self.error_analysis.as_deref();
        let analysis = analysis.map(|text| clean_line(text, ANALYSIS));
        Self {
            approach: clean_line(&self.approach, APPROACH),
            answer: clean_line(&self.answer, ANSWER),
            error_analysis: analysis.filter(|text| !text.is_empty()),
            is_correct: self.is_correct,
            is_checked: self.is_checked,
            sent: self.sent.clone(),
        }
    }

    /// How much it is worth keeping: 0.4 for an answer that is not known to be wrong, 0.2 for a summary and for an approach of at least 20
    /// characters, 0.1 for an answer of at least 15 characters, 0.2 for the analysis of an error; at most 1.
    pub fn worth(&self, summary: &str) -> f64 {
        let long = |text: &str, characters: usize| text.chars().count() >= characters;
        let tenths = 4 * u32::from(self.is_correct)
            + 2 * u32::from(long(summary, 20))
            + 2 * u32::from(long(&self.approach, 20))
            + u32::from(long(&self.answer, 15))
            + 2 * u32::from(self.error_analysis.is_some());
        f64::from(tenths.min(10)) / 10.0
    }
}

/// The result of keeping a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KeptTask {
    /// Its worth, 0 to 1.
    pub worth: f64,
    /// Why it was kept or left out, for people. Empty in results from before reasons were told.
    #[serde(default)]
    pub reason: String,
    /// The item, if it was kept.
    pub item: Option<MemoryItem>,
    /// Whether it was merged with the record of the same task.
    pub merged: bool,
}

/// Stores a task that is worth it, or merges it with the record of the same task. Summary and record are clean.
pub(crate) fn keep(
    draft: &mut Draft,
    summary: &str,
    record: TaskRecord,
    decision: WriteDecision,
    vector: Option<&[f32]>,
) -> KeptTask {
    let WriteDecision { score, reason, .. } = decision;
    let worth = share(score, 0.0);
    if !decision.store || summary.is_empty() {
        let reason = match summary.is_empty() {
            true => "it says nothing of the task".to_owned(),
            false => reason,
        };
        return KeptTask {
            worth,
            reason,
            item: None,
            merged: false,
        };
    }
    let mut item = draft.item(MemoryKind::Task, summary.to_owned());
    item.importance = worth;
    item.detail = Some(Detail::Task(record.clone()));
    let new = Kept::new(item.clone());
    let same = draft.view().saying_the_same(&new, vector, draft.same());
    let Some(before) = same else {
        draft.put(item.clone());
        draft.make_room(&item.id);
        return KeptTask {
            worth,
            reason,
            item: Some(item),
            merged: false,
        };
    };
    let mut merged = before.clone();
    if let Some(Detail::Task(known)) = &mut merged.detail {
        // A better result is not replaced by a worse one; the analysis of the error is kept all the same.
        if record.rank() >= known.rank() {
            let analysis = record.error_analysis.or(known.error_analysis.take());
            *known = TaskRecord {
                error_analysis: analysis,
                ..record
            };
            merged.source = item.source;
        } else if record.error_analysis.is_some() {
            known.error_analysis = record.error_analysis;
        }
    }
    merged.importance = before.importance.max(worth);
    merged.updated_at = draft.now;
    draft.put(merged.clone());
    KeptTask {
        worth,
        reason,
        item: Some(merged),
        merged: true,
    }
}

impl ScopedMemory<'_> {
    /// Stores a task record if it is worth it: if its worth is at least `threshold` (0.5 is usual), or as the memory's
    /// [`WritePolicy`](crate::WritePolicy) decides where it has one. The result says why.
    pub fn add_task(
        &self,
        summary: impl Into<String>,
        record: TaskRecord,
        threshold: f64,
    ) -> Performing<MemoryOperation<KeptTask>> {
        let (summary, memory) = (clean_line(&summary.into(), SUMMARY), self.memory.clone());
        let input = (&summary.clone(), &record.clone(), threshold.to_bits());
        let text = format!("Task: {summary}");
        self.perform(
            "memory_add_task",
            &input,
            vec![text],
            move |draft, vectors| {
                let vector = vectors.first();
                let found = vector.and_then(Option::as_ref).map(Vec::as_slice);
                let record = record.clean();
                let decision = match memory.writes() {
                    Some(policy) => policy.decide(&summary, &record),
                    None => Threshold(threshold).decide(&summary, &record),
                };
                let kept = keep(draft, &summary, record, decision, found);
                if let (Some(item), false) = (&kept.item, kept.merged) {
                    memory.put_vector(draft, &item.id, vector);
                }
                Ok(kept)
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worth_of_a_task_is_the_sum_of_what_it_tells() {
        let long = "x".repeat(20);
        let worth =
            |correct, summary: &str, approach: &str, answer: &str, analysis: Option<&str>| {
                let mut record = TaskRecord::new(approach, answer, correct);
                record.error_analysis = analysis.map(str::to_owned);
                record.worth(summary)
            };
        assert_eq!(worth(true, &long, &long, &long, None), 0.9);
        assert_eq!(worth(true, &long, &long, &long, Some("why")), 1.0);
        // A wrong answer with an analysis.
        assert_eq!(worth(false, &long, &long, "no", Some("why")), 0.6);
        assert_eq!(worth(false, &long, &long, "no", None), 0.4);
        assert_eq!(worth(true, "short", "short", "short", None), 0.4);
        assert_eq!(worth(false, "", "", "", None), 0.0);
        // 20 characters, however many bytes each has.
        assert_eq!(worth(false, &"灯".repeat(20), "", "", None), 0.2);
        assert_eq!(worth(false, &"灯".repeat(19), "", "", None), 0.0);
    }
}
