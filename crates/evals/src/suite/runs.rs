//! Recorded runs as samples.

use std::path::PathBuf;

use ghostlight_actors::{
    actor::{SystemError, recording},
    contract::{RunFilter, RunRow, StoreHandle},
    vocabulary::{Entry, Message, Part, RunEnd, RunId},
};
use ghostlight_safety::redact_text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DataFault, Sample};
use crate::judges::is_of_judge;

/// Recorded runs that become samples: each turn that was asked by itself, or at the end of a conversation.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RunsSpec {
    /// The store; the one that the evaluation is kept in, where it is left out.
    pub store: Option<PathBuf>,
    /// Only runs of this team.
    pub team: Option<String>,
    /// Only these runs, by their ids or the beginnings of them.
    pub ids: Vec<String>,
    /// At most this many, the latest ones.
    pub limit: Option<usize>,
    /// Whether the recorded answer is the expected one.
    pub expected: bool,
}

/// How many runs are listed at once.
const PAGE: usize = 256;

/// The samples of recorded runs, the latest first, and the runs that are none. Runs of the evaluation, and
/// verdicts, are not among them, so that it is the same when it is started again.
///
/// # Errors
/// The error of the store.
pub async fn of_runs(
    store: &StoreHandle,
    spec: &RunsSpec,
    evaluation: &str,
) -> Result<(Vec<Sample>, Vec<DataFault>), SystemError> {
    let (mut samples, mut left_out) = (Vec::new(), Vec::new());
    let mut missing: Vec<&String> = spec.ids.iter().collect();
    let limit = spec.limit.unwrap_or(usize::MAX);
    let own = format!("{evaluation}/");
    let is_own = |row: &RunRow| {
        let session = row.session.as_ref();
        is_of_judge(&row.team) || session.is_some_and(|session| session.key.starts_with(&own))
    };
    let mut after: Option<RunRow> = None;
    while samples.len() < limit {
        let mut filter = RunFilter::default();
        (filter.roots, filter.limit) = (true, PAGE);
        (filter.team, filter.after) = (spec.team.clone(), after);
        let page = store.runs(filter).await?;
        for row in page.iter().filter(|row| row.run == row.root) {
            if samples.len() == limit {
                break;
            }
            missing.retain(|id| !begins(row.run, id));
            if spec.is_chosen(row.run) && !is_own(row) {
                match of_run(store, row.run, spec.expected).await? {
                    Ok(sample) => samples.push(sample),
                    Err(fault) => left_out.push(fault),
                }
            }
        }
        after = page.into_iter().next_back();
        if after.is_none() {
            let reason = "no recorded run has an id that begins so";
            left_out.extend(
                missing
                    .iter()
                    .map(|id| DataFault::new(format!("run {id}"), reason)),
            );
            break;
        }
    }
    Ok((samples, left_out))
}

/// The sample of a recorded run, with the conversation before it; a fault for one that is not a sample. With `expected` the
/// answer that it gave is the expected one. What looks like a secret is left out.
///
/// # Errors
/// The error of the store.
pub async fn of_run(
    store: &StoreHandle,
    run: RunId,
    expected: bool,
) -> Result<Result<Sample, DataFault>, SystemError> {
    let recording = recording(store, run).await?;
    let id = format!("run-{}", recording.root.short());
    let fault = |reason: &str| {
        Ok(Err(DataFault::new(
            format!("run {}", recording.root),
            reason,
        )))
    };
    let mut turns: Vec<String> = Vec::new();
    let before = recording
        .transcript()
        .map_err(|error| SystemError::Pinned {
            run,
            reason: error.to_string(),
        })?;
    let mut messages: Vec<Message> = before
        .messages()
        .iter()
        .filter(|message| message.is_from_user())
        .map(|message| Message::clone(message))
        .collect();
    let mut answer = None;
    for line in &recording.lines {
        let is_root = line.run == recording.root;
        match line.stored.decode(&line.run.into())? {
            Entry::RunStarted(start) if is_root => messages.push(Message::clone(&start.input)),
            Entry::RunEnded(end) if is_root => {
                if let RunEnd::Answered { answer: given, .. } = *end {
                    answer = Some(given.text);
                }
            }
            _ => {}
        }
    }
    for message in &messages {
        if message
            .parts
            .iter()
            .any(|part| !matches!(part, Part::Text(_)))
        {
            return fault("a message holds a file, which a sample cannot");
        }
        turns.push(redact_text(&message.content()).into_owned());
    }
    let mut sample = Sample::new(id, "");
    sample.input = None;
    match turns.len() {
        1 => sample.input = turns.pop(),
        _ => sample.turns = turns,
    }
    if let Some(reason) = sample.fault() {
        return fault(reason);
    }
    if expected {
        match answer {
            Some(text) => sample.expected = Some(redact_text(&text).as_ref().into()),
            None => return fault("it gave no answer that could be expected"),
        }
    }
    let metadata = &mut sample.metadata;
    metadata.insert("run".to_owned(), recording.root.to_string().into());
    Ok(Ok(sample))
}

impl RunsSpec {
    fn is_chosen(&self, run: RunId) -> bool {
        self.ids.is_empty() || self.ids.iter().any(|id| begins(run, id))
    }
}

/// Whether the id of a run begins so.
pub(crate) fn begins(run: RunId, chosen: &str) -> bool {
    let id = run.to_string();
    !chosen.is_empty() && (id.starts_with(chosen) || id.replace('-', "").starts_with(chosen))
}
