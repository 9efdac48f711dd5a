//! The sessions of a store, for a System or a command.

mod deleting;
mod moving;
mod of_session;

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::{
    actor::{
        System, SystemError,
        acting::{Acting, Use},
        fork::session_contents::described,
        launch::folded,
    },
    contract::{
        Clock, SessionFilter, SessionRow, StoreError, StoreHandle, SystemClock, artifact_scopes,
    },
    run::operations,
    session::{SessionFold, SessionLog},
    vocabulary::{
        Artifact, ArtifactInfo, Data, Entry, JournalId, Part, RunId, Scope, SessionId, Timestamp,
    },
};

/// How many sessions are read at once.
const PAGE: usize = 64;

/// The sessions of a store. It needs no team and no System, and reading changes nothing.
///
/// A session's turns are numbered from 1; turns that a rewind took back do not count. A point of a
/// session is named by the number of first turns that are kept, `turns`.
#[derive(Clone, Debug)]
pub struct Sessions {
    store: StoreHandle,
    clock: Arc<dyn Clock>,
    /// The System in this process that holds sessions of the store.
    system: Option<System>,
}

/// A filter for lists of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionQuery {
    /// Only sessions with this team.
    pub team: Option<String>,
    /// Only sessions of this owner.
    pub owner: Option<String>,
    /// Only sessions that changed at this time or later.
    pub since: Option<Timestamp>,
    /// Only sessions in which a turn is under way.
    pub active: bool,
    /// The most sessions; 0 means no bound.
    pub limit: usize,
    /// Only sessions after this one, which is the last of the page before.
    pub after: Option<SessionRow>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SessionSummary {
    /// The session.
    pub session: SessionId,
    /// Its owner.
    pub owner: Option<String>,
    /// How many turns count.
    pub turns: u64,
    /// The first characters of the latest turn.
    pub title: String,
    /// The run of the turn that is under way.
    pub open: Option<RunId>,
    /// When the session changed last.
    pub updated_at: Timestamp,
}

/// A page of sessions, the one that changed last at the front.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<SessionSummary>,
    /// Where the next page begins ([`SessionQuery::after`]), if there may be one.
    pub next: Option<SessionRow>,
}

impl Sessions {
    /// The sessions of this store. In a process that has a System over the store, ask the System
    /// for them ([`System::sessions`]).
    pub fn of(store: impl Into<StoreHandle>) -> Self {
        Self {
            store: store.into(),
            clock: Arc::new(SystemClock::new()),
            system: None,
        }
    }

    /// The sessions of a System's store.
    pub(super) fn of_system(system: System) -> Self {
        let services = &system.shared().services;
        Self {
            store: services.store.clone(),
            clock: services.clock.clone(),
            system: Some(system),
        }
    }

    /// Lists sessions, the one that changed last at the front. A session that changes between two
    /// pages may be missing in the later one. If a session has a checkpoint, only later entries are
    /// read.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn list(&self, mut query: SessionQuery) -> Result<SessionPage, SystemError> {
        if let Acting::Owner(owner) = self.acting() {
            query.owner = Some(owner.to_string());
        }
        let mut page = SessionPage::default();
        let wanted = match query.limit {
            0 => usize::MAX,
            limit => limit,
        };
        let mut filter = SessionFilter::default();
        (filter.team, filter.since) = (query.team.clone(), query.since);
        (filter.after, filter.limit) = (query.after.clone(), PAGE);
        loop {
            let rows = self.store.sessions(filter.clone()).await?;
            let all = rows.len() < PAGE;
            for row in rows {
                filter.after = Some(row.clone());
                let (fold, _) = folded(&self.store, &row.session, row.entries).await?;
                let is_foreign = query.owner.is_some() && fold.owner != query.owner;
                let owner = fold.owner.as_deref();
                let may = self.acting().check(owner, Use::Look, &row.session);
                if is_foreign || may.is_err() || (query.active && fold.open.is_none()) {
                    continue;
                }
                page.sessions.push(summary(&row, fold));
                if page.sessions.len() == wanted {
                    page.next = Some(row);
                    return Ok(page);
                }
            }
            if all {
                return Ok(page);
            }
        }
    }

    /// The turns of a session.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn log(&self, session: &SessionId) -> Result<SessionLog, SystemError> {
        let lines = self.store.journal(session.clone().into(), 0).await?;
        let log = SessionLog::of(&lines, session)?;
        self.acting()
            .check(log.owner.as_deref(), Use::Look, session)?;
        Ok(log)
    }

    /// A file of a turn that counts, by the turn's number and the file's place among
    /// [`LoggedTurn::files`](crate::session::LoggedTurn::files), from 0. `None` where there is none.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn file(
        &self,
        session: &SessionId,
        turn: u64,
        place: usize,
    ) -> Result<Option<Data>, SystemError> {
        let log = self.log(session).await?;
        let Some(turn) = log.turns.iter().find(|logged| logged.number == turn) else {
            return Ok(None);
        };
        let journal = JournalId::from(session.clone());
        let lines = self.store.read(journal.clone(), turn.entry, 1).await?;
        let Some(line) = lines.first() else {
            return Ok(None);
        };
        let Entry::TurnStarted(turn) = line.decode(&journal)? else {
            return Ok(None);
        };
        let mut files = turn.message.parts.iter().filter_map(|part| match part {
            Part::Data(data) => Some(data),
            _ => None,
        });
        Ok(files.nth(place).cloned())
    }

    /// The party that asks for these sessions.
    fn acting(&self) -> &Acting {
        match &self.system {
            Some(system) => system.acting(),
            None => &Acting::Operator,
        }
    }

    /// Checks that the party that asks may look at a session.
    pub(super) async fn check(&self, session: &SessionId) -> Result<(), SystemError> {
        match self.acting().may_always(Use::Look) {
            true => Ok(()),
            false => self.log(session).await.map(drop),
        }
    }

    /// The store's name of a scope of the session's state, at which the party that asks may look. `None` for a run's own
    /// scopes.
    async fn shown_scope(
        &self,
        session: &SessionId,
        scope: &Scope,
    ) -> Result<Option<String>, SystemError> {
        match scope {
            Scope::User(owner) => self.acting().check(Some(owner), Use::Look, session)?,
            _ => self.check(session).await?,
        }
        Ok(operations::stored_scope(session, scope))
    }

    /// The values of a scope of state, by key.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn state(
        &self,
        session: &SessionId,
        scope: &Scope,
    ) -> Result<Vec<(String, Value)>, SystemError> {
        let Some(scope) = self.shown_scope(session, scope).await? else {
            return Ok(Vec::new());
        };
        let values = self.store.scope(scope).await?.into_iter();
        Ok(values.map(|(key, found)| (key, found.value)).collect())
    }

    /// The latest version of each artifact of a scope, by name, without its content. The scope of
    /// one run, [`Scope::Run`], is not one of a session.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn artifacts(
        &self,
        session: &SessionId,
        scope: &Scope,
    ) -> Result<Vec<ArtifactInfo>, SystemError> {
        let Some(scope) = self.shown_scope(session, scope).await? else {
            return Ok(Vec::new());
        };
        let rows = self.store.scope(artifact_scopes::latest(&scope)).await?;
        let infos = rows.iter().map(|(name, row)| described(&scope, name, row));
        Ok(infos.collect::<Result<_, _>>()?)
    }

    /// An artifact of a scope with its content: the latest version, or the given one.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn artifact(
        &self,
        session: &SessionId,
        scope: &Scope,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<Artifact>, SystemError> {
        let Some(scope) = self.shown_scope(session, scope).await? else {
            return Ok(None);
        };
        let (rows, key) = artifact_scopes::row(&scope, name, version);
        let Some(row) = self.store.state(rows, key).await?.present() else {
            return Ok(None);
        };
        let info = described(&scope, name, &row)?;
        let content = self.content(&scope, &info).await?;
        Ok(Some(Artifact { info, content }))
    }

    async fn content(&self, scope: &str, info: &ArtifactInfo) -> Result<Arc<[u8]>, SystemError> {
        let content = self.store.blob(info.content).await?;
        let missing = || StoreError::Damaged {
            place: format!("artifact {info} of {scope}"),
            reason: format!("its content {} is not there", info.content),
        };
        Ok(content.ok_or_else(missing)?)
    }
}

fn summary(row: &SessionRow, mut fold: SessionFold) -> SessionSummary {
    SessionSummary {
        session: row.session.clone(),
        owner: fold.owner,
        turns: fold.titles.len() as u64,
        title: fold.titles.pop().unwrap_or_default(),
        open: fold.open,
        updated_at: row.updated_at,
    }
}
