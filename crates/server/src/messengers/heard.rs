//! Messages of a session that were answers, so that one which comes again is not taken for a turn.

use ghostlight_actors::{
    contract::{Batch, Expected, StateWrite, StoreError, StoreHandle},
    vocabulary::{OperationId, RunId, SessionId},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::to_raw_value};

/// The scope of the latest answers in the store; agents have no scope of this name.
const SCOPE: &str = "server-messengers";
/// How many answers of a session are remembered.
const REMEMBERED: usize = 16;

/// The latest answers of a session.
#[derive(Debug)]
pub(super) struct Heard {
    key: String,
    version: u64,
    answers: Vec<Answer>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Answer {
    message: String,
    run: RunId,
    /// The run at or below it that asked.
    #[serde(default)]
    asker: Option<RunId>,
    operation: OperationId,
    value: Value,
}

impl Heard {
    pub(super) async fn in_session(
        store: &StoreHandle,
        session: &SessionId,
    ) -> Result<Self, StoreError> {
        let key = session.to_string();
        let slot = store.state(SCOPE.to_owned(), key.clone()).await?;
        let answers = slot.value.map(serde_json::from_value).transpose();
        let answers = answers.map_err(|error| StoreError::Damaged {
            place: format!("the answers of session {session}"),
            reason: error.to_string(),
        })?;
        Ok(Self {
            key,
            version: slot.version,
            answers: answers.unwrap_or_default(),
        })
    }

    /// The answer that was given with this message, the run for which, and the one at or below it that asked.
    pub(super) fn answer(&self, message: &str) -> Option<((RunId, RunId), OperationId, Value)> {
        let found = self
            .answers
            .iter()
            .find(|answer| answer.message == message)?;
        let asker = found.asker.unwrap_or(found.run);
        Some(((found.run, asker), found.operation, found.value.clone()))
    }

    /// Notes an answer. If another message was noted meanwhile, this one is refused and is to be posted again.
    pub(super) async fn note(
        mut self,
        store: &StoreHandle,
        message: String,
        (run, asker): (RunId, RunId),
        operation: OperationId,
        value: &Value,
    ) -> Result<(), StoreError> {
        if self.answers.len() >= REMEMBERED {
            self.answers.remove(0);
        }
        self.answers.push(Answer {
            message,
            run,
            asker: Some(asker),
            operation,
            value: value.clone(),
        });
        let value = to_raw_value(&self.answers);
        let value = value.map_err(|error| StoreError::Unwritable {
            reason: error.to_string(),
        })?;
        let mut batch = Batch::default();
        batch.writes.push(StateWrite {
            scope: SCOPE.to_owned(),
            key: self.key,
            value: Some(value),
            expected: Expected::Version(self.version),
        });
        match store.commit(vec![batch]).await?.pop() {
            Some(Err(error)) => Err(error),
            Some(Ok(_)) | None => Ok(()),
        }
    }
}
