//! A request's caller, and what that caller may see.

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, request::Parts},
};
use ghostlight_actors::{
    actor::{Run, System},
    contract::RunRow,
    run::Recorded,
    vocabulary::{JournalId, RunId, SessionId},
};

use crate::{caller::Caller, problem::Problem, quotas::Slot, server::Shared};

/// A request, with its caller.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) state: Shared,
    pub(crate) caller: Caller,
    /// The System, with the rights of the caller.
    pub(crate) system: System,
    /// The place where the turn leaves the standing of its quotas.
    pub(crate) slot: Slot,
}

impl FromRequestParts<Shared> for Asked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Caller>().cloned().ok_or_else(|| {
            let detail = "this needs a key: `Authorization: Bearer KEY`";
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
        })?;
        let mut asked = Self::by(state, caller);
        asked.slot = parts.extensions.get::<Slot>().cloned().unwrap_or_default();
        Ok(asked)
    }
}

/// The longest key of a session that a client may choose, in bytes.
const MAX_KEY: usize = 200;

impl Asked {
    /// A request of this caller.
    pub(crate) fn by(state: &Shared, caller: Caller) -> Self {
        Self {
            state: state.clone(),
            system: caller.system(&state.system),
            caller,
            slot: Slot::default(),
        }
    }

    /// The session that the caller means by this key.
    pub(crate) fn session(&self, team: &str, key: &str) -> Result<SessionId, Problem> {
        self.state.check_team(team)?;
        if key.trim().is_empty() || key.len() > MAX_KEY || key.chars().any(char::is_control) {
            let detail = format!(
                "a session's key is 1 to {MAX_KEY} bytes, not all of them blank, without control characters"
            );
            return Err(Problem::invalid(detail));
        }
        Ok(self.caller.session(team, key))
    }

    /// A run that the caller may see. The run of another owner is reported as unknown.
    pub(crate) async fn run(&self, id: &str) -> Result<(Run, RunRow), Problem> {
        let id: RunId = id
            .parse()
            .map_err(|_| Problem::not_found(format!("run {id}")))?;
        let unknown = || Problem::not_found(format!("run {id}"));
        let run = self.system.run(id);
        let store = self.system.store();
        let row = match store.run(id).await? {
            Some(row) => row,
            // The status of a deleted run is for the operator alone: its owner is no longer known.
            None if self.caller == Caller::Operator => run.status().await?,
            None => return Err(unknown()),
        };
        let seen = self.state.check_team(&row.team).is_ok() && self.owns(&row).await?;
        seen.then_some((run, row)).ok_or_else(unknown)
    }

    /// Whether a run belongs to an owner that the caller reaches.
    pub(crate) async fn owns(&self, row: &RunRow) -> Result<bool, Problem> {
        if self.caller == Caller::Operator {
            return Ok(true);
        }
        // The rows of runs below others and of older stores name no owner.
        if row.owner.is_some() {
            return Ok(self.caller.reaches(row.owner.as_deref()));
        }
        let first = self
            .system
            .store()
            .read(JournalId::Run(row.root), 0, 1)
            .await?;
        let start = Recorded::fold(&first, row.root)?.start;
        Ok(start.is_some_and(|start| self.caller.reaches(start.owner.as_deref())))
    }

    /// Whether a run is in the caller's lists. Runs below others have no session: only the operator lists them; other
    /// callers find them in their trees.
    pub(crate) async fn lists(&self, row: &RunRow) -> Result<bool, Problem> {
        if self.state.check_team(&row.team).is_err() {
            return Ok(false);
        }
        let session = row.session.as_ref();
        let is_named = session.is_some_and(|session| self.caller.key_of(session).is_some());
        match &self.caller {
            Caller::Operator => Ok(true),
            Caller::Subject(_) => Ok(is_named),
            Caller::Reader { .. } => Ok(is_named && self.owns(row).await?),
        }
    }
}
