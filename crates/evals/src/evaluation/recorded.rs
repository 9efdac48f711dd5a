//! Cells as they are recorded, without a model call.

use ghostlight_actors::{
    actor::{SystemError, recording},
    contract::StoreHandle,
    run::Observer,
    vocabulary::{EventRecord, RunId, SessionId},
};

use super::{ATTEMPTS, Evaluation, Place, unanswered};
use crate::{
    cell::{self, Cell, CellResult},
    recording::Recording,
    suite::Sample,
};

impl Evaluation {
    /// The recorded cells of one sample in each variant, with their scores, in the order of variants and repeats. It
    /// reads the store and calls no model; a cell that has not ended is left out.
    ///
    /// # Errors
    /// What cannot be read.
    pub async fn recorded(
        &self,
        store: &StoreHandle,
        sample: &Sample,
    ) -> Result<Vec<Cell>, SystemError> {
        let mut cells = Vec::new();
        for (name, team) in &self.variants {
            for repeat in 1..=self.suite.repeat {
                let place = Place {
                    name,
                    team,
                    sample,
                    repeat,
                };
                cells.extend(self.recorded_cell(store, &place).await?);
            }
        }
        Ok(cells)
    }

    /// The samples that it tries.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The last attempt of a cell that has ended.
    pub(super) async fn recorded_cell(
        &self,
        store: &StoreHandle,
        place: &Place<'_>,
    ) -> Result<Option<Cell>, SystemError> {
        let key = cell::key(
            &self.suite.evaluation,
            place.team,
            place.sample,
            place.repeat,
        );
        let mut found = None;
        for attempt in 1..=ATTEMPTS {
            let key = match attempt {
                1 => key.clone(),
                attempt => format!("{key}/{attempt}"),
            };
            match self.recorded_attempt(store, place, &key).await? {
                Some(cell) => found = Some(cell),
                None => break,
            }
        }
        Ok(found)
    }

    async fn recorded_attempt(
        &self,
        store: &StoreHandle,
        place: &Place<'_>,
        key: &str,
    ) -> Result<Option<Cell>, SystemError> {
        let session = SessionId {
            team: place.team.name.clone(),
            key: key.to_owned(),
        };
        let mut recorded = Recording::default();
        let mut result = None;
        for number in 1..=place.sample.texts().len() {
            let run = RunId::of_turn(&session, &format!("{key}#{number}"));
            match store.run(run).await? {
                Some(row) if row.status.is_ended() => {}
                _ => return Ok(None),
            }
            recorded.add_turn(run, &events(store, run).await?);
            result = unanswered(&recorded);
            if result.is_some() {
                break;
            }
        }
        let result = result.unwrap_or_else(|| {
            let scorers = self.scorers.iter();
            let scores = scorers.map(|scorer| {
                let score = scorer.score(&recorded, place.sample);
                (scorer.name().to_owned(), score)
            });
            let scores = scores.collect();
            CellResult::Scored { scores }
        });
        Ok(Some(Cell {
            variant: place.name.to_owned(),
            sample: place.sample.id.clone(),
            cluster: place.sample.cluster().to_owned(),
            tags: place.sample.tags.clone(),
            repeat: place.repeat,
            result,
            runs: recorded.runs,
            spent: recorded.spent,
            latency_ms: recorded.latency_ms,
        }))
    }
}

/// The recorded events of a tree.
async fn events(store: &StoreHandle, run: RunId) -> Result<Vec<EventRecord>, SystemError> {
    let recording = recording(store, run).await?;
    let mut observer = Observer::new();
    let mut events = Vec::new();
    for line in &recording.lines {
        events.extend(observer.observe(line)?);
    }
    Ok(events)
}
