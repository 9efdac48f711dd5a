//! Forking, rewinding, exporting and importing sessions.

use std::{collections::BTreeMap, time::Duration};

use super::Sessions;
use crate::{
    actor::{
        SessionDocument, SessionDocumentError, SystemError,
        acting::Use,
        fork::session_contents::{SessionContents, branched, plain, restored, versions, writes},
        session_agents::HeldSession,
    },
    contract::{Append, Batch, EntryError, Expected, Line, StoreError, StoredLine},
    run::{Copies, operations},
    session::{LoggedTurn, SessionFold, SessionLog},
    vocabulary::{ArtifactInfo, Entry, JournalId, SessionId},
};

/// How often it is checked whether a session's agent has come to rest; with the pauses between the
/// checks this takes two seconds.
const LOOKS_FOR_REST: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// A session's journal, and the turns in it.
pub(super) struct SessionJournal {
    lines: Vec<StoredLine>,
    log: SessionLog,
}

impl SessionJournal {
    /// Refuses as long as a turn is under way.
    pub(super) fn check_rest(&self, session: &SessionId) -> Result<(), SystemError> {
        match self.log.open() {
            None => Ok(()),
            Some(run) => Err(SystemError::UnderWay {
                session: session.to_string(),
                run,
            }),
        }
    }

    /// The place in the order of commits from which on nothing counts when this many turns are
    /// kept, and the number of entries before it.
    fn cut(&self, session: &SessionId, turns: u64) -> Result<Cut<'_>, SystemError> {
        let have = self.log.turns.len() as u64;
        if turns > have {
            let session = session.to_string();
            return Err(SystemError::NoSuchTurn {
                session,
                turns,
                have,
            });
        }
        let next = usize::try_from(turns).ok();
        let next = next.and_then(|next| self.log.turns.get(next));
        let kept = self.log.turns.iter().take(turns as usize);
        if let Some(open) = kept.into_iter().find(|turn| turn.is_open()) {
            let (session, run) = (session.to_string(), open.carried_by);
            return Err(SystemError::UnderWay { session, run });
        }
        Ok(Cut {
            next,
            position: next.map_or(u64::MAX, |turn| turn.position),
            entries: next.map_or(self.lines.len() as u64, |turn| turn.entry),
        })
    }
}

struct Cut<'a> {
    /// The first turn that does not count.
    next: Option<&'a LoggedTurn>,
    position: u64,
    entries: u64,
}

impl Sessions {
    pub(super) async fn journal(
        &self,
        session: &SessionId,
        what: Use,
    ) -> Result<SessionJournal, SystemError> {
        let lines = self.store.journal(session.clone().into(), 0).await?;
        if lines.is_empty() {
            let session = session.to_string();
            return Err(SystemError::UnknownSession { session });
        }
        let log = SessionLog::of(&lines, session)?;
        self.acting().check(log.owner.as_deref(), what, session)?;
        Ok(SessionJournal { lines, log })
    }

    /// Begins a session of the same team under another key that goes on from a point of this one:
    /// with the first `turns` turns of its conversation, and with its state and its artifacts as
    /// they were then. This session stays as it is. Both share a user's and the team's state.
    /// Forking twice in the same way is forking once.
    ///
    /// # Errors
    /// [`SystemError::UnknownSession`], [`SystemError::NoSuchTurn`], [`SystemError::UnderWay`] when
    /// a turn that is to be kept has not ended; [`SystemError::SessionExists`]; what the store
    /// fails with.
    pub async fn fork(
        &self,
        session: &SessionId,
        turns: u64,
        key: impl AsRef<str>,
    ) -> Result<SessionId, SystemError> {
        let journal = self.journal(session, Use::Act).await?;
        let cut = journal.cut(session, turns)?;
        let copy = SessionId {
            team: session.team.clone(),
            key: key.as_ref().into(),
        };
        let kept = journal
            .lines
            .iter()
            .take_while(|line| line.sequence < cut.entries);
        let mut lines: Vec<Line> = kept.map(|stored| stored.line.clone()).collect();
        let state = SessionContents::of_session(&self.store, session, cut.position).await?;
        let branched = branched(session, &state.values, journal.log.owner.clone());
        lines.push(Line::encode(self.clock.now(), &branched)?);
        let copies = Copies::default();
        let batch = Batch {
            writes: state.copied(&self.store, session, &copy, &copies).await?,
            ..Batch::default()
        };
        self.make(&copy, lines, batch).await?;
        Ok(copy)
    }

    /// Goes back to a point of the session: the turns after the first `turns` no longer count, and
    /// the state is what it was then. Nothing is deleted: an entry records the rewinding, and the
    /// runs and the artifacts with all their versions stay. A turn's id keeps its run, so a new
    /// turn needs an id of its own.
    ///
    /// # Errors
    /// [`SystemError::UnknownSession`], [`SystemError::NoSuchTurn`]; [`SystemError::UnderWay`] while
    /// a turn is under way; what the store fails with, such as that another process holds the
    /// session.
    pub async fn rewind(&self, session: &SessionId, turns: u64) -> Result<(), SystemError> {
        let known = self.journal(session, Use::Act).await?;
        known.cut(session, turns)?;
        known.check_rest(session)?;
        let _held = self.end_agent(session).await?;
        let id = JournalId::Session(session.clone());
        let claim = self.store.claim(id.clone(), false).await?;
        // The journal is read after the claim: from here on no other process writes it.
        let journal = self.journal(session, Use::Act).await?;
        journal.check_rest(session)?;
        let cut = journal.cut(session, turns)?;
        let Some(next) = cut.next else {
            return Ok(());
        };
        let kept = SessionContents::of_session(&self.store, session, cut.position).await?;
        let writes = restored(&self.store, session, &kept).await?;
        let entry = Entry::SessionRewound {
            turns,
            messages: next.messages_before,
            active_agent: next.agent_before.clone(),
            state: plain(&kept.values),
        };
        let line = Line::encode(self.clock.now(), &entry)?;
        let append = Append::new(id, claim.entries, claim.epoch, vec![line]);
        let batch = Batch {
            writes,
            ..Batch::of(append)
        };
        self.store.commit_one(batch).await?;
        Ok(())
    }

    /// Ends the session's agent in this process. The agent may still be busy although no turn is
    /// under way, for example with the end of a run that was cancelled a moment ago: this method
    /// waits for that. No agent takes the session up until what is returned is dropped.
    pub(super) async fn end_agent(
        &self,
        session: &SessionId,
    ) -> Result<Option<HeldSession>, SystemError> {
        let Some(system) = &self.system else {
            return Ok(None);
        };
        let shared = system.shared();
        for _ in 0..LOOKS_FOR_REST {
            if let Some(held) = shared.hold(session)
                && shared.end_agent(session).await
            {
                return Ok(Some(held));
            }
            self.journal(session, Use::Act).await?.check_rest(session)?;
            self.clock.sleep(PAUSE).await;
        }
        Err(SystemError::Store(StoreError::Owned {
            journal: JournalId::Session(session.clone()),
            owner: "this process, in which it does not come to rest".to_owned(),
        }))
    }

    /// The session as one document, up to the last turn that has ended.
    ///
    /// # Errors
    /// [`SystemError::UnknownSession`]; what the store fails with.
    pub async fn export(&self, session: &SessionId) -> Result<SessionDocument, SystemError> {
        let journal = self.journal(session, Use::Look).await?;
        let open = journal.log.turns.iter().find(|turn| turn.is_open());
        let entries = open.map_or(u64::MAX, |turn| turn.entry);
        let kept = journal.lines.iter().filter(|line| line.sequence < entries);
        let scope = operations::session_scope(session);
        let values = self.store.scope(scope.clone()).await?.into_iter();
        let mut document = SessionDocument {
            session: session.clone(),
            entries: kept.map(|stored| stored.line.clone()).collect(),
            state: values
                .map(|(key, found)| (key, (found.value, found.version)))
                .collect(),
            artifacts: Vec::new(),
            contents: BTreeMap::new(),
        };
        for info in versions(&self.store, &scope).await?.into_values() {
            let content = self.content(&scope, &info).await?;
            document.contents.insert(info.content, content.to_vec());
            document.artifacts.push(info);
        }
        Ok(document)
    }

    /// Makes the session of a document, under its own name or another. The runs of its turns are
    /// not included: a turn that is sent again under its id is known, but has no events. Remembered
    /// decisions about calls are not taken over: a person is asked again.
    ///
    /// # Errors
    /// [`SystemError::SessionExists`]; [`SystemError::Document`] for entries that do not belong in
    /// a session's journal, or a turn without an end; [`SystemError::Foreign`] for a document of another owner; what the
    /// store fails with.
    pub async fn import(
        &self,
        document: &SessionDocument,
        session: SessionId,
    ) -> Result<SessionId, SystemError> {
        let mut fold = SessionFold::default();
        let damaged =
            |reason: String| SystemError::Document(SessionDocumentError::Damaged { reason });
        for (place, line) in document.entries.iter().enumerate() {
            let damaged = |reason: String| damaged(format!("entry {place}: {reason}"));
            let entry = line.decode().map_err(|error| match error {
                EntryError::Newer { reason, .. } => {
                    let reason = format!("entry {place}: {reason}");
                    SystemError::Document(SessionDocumentError::Newer { reason })
                }
                error => damaged(error.to_string()),
            });
            match entry? {
                entry @ (Entry::TurnStarted(_)
                | Entry::SessionForked { .. }
                | Entry::TurnEnded(_)
                | Entry::TurnContinued { .. }
                | Entry::TurnQuarantined { .. }
                | Entry::SessionRewound { .. }) => fold.add(entry),
                _ => return Err(damaged("it is no entry of a session".to_owned())),
            }
        }
        if let Some(run) = fold.open {
            // The session would take that run from the session that it belongs to.
            return Err(damaged(format!("the turn of run {run} has no end")));
        }
        let owner = fold.owner;
        self.acting().check(owner.as_deref(), Use::Act, &session)?;
        let scope = operations::session_scope(&session);
        let mut batch = Batch::default();
        // An approval in the document was not given here.
        let values = document.state.iter();
        let values = values.filter(|(key, _)| !operations::is_grant(key));
        let values = values.map(|(key, (value, version))| {
            let version = (*version).clamp(1, MAX_VERSION);
            (key.clone(), (Some(value.clone()), version))
        });
        let values = values.collect();
        let mut lines = document.entries.clone();
        let branched = branched(&document.session, &values, owner);
        lines.push(Line::encode(self.clock.now(), &branched)?);
        batch.writes = writes(&scope, values, &Copies::default());
        let mut artifacts: Vec<&ArtifactInfo> = document.artifacts.iter().collect();
        artifacts.sort_by_key(|info| info.version);
        for info in artifacts {
            let made = operations::artifact_writes(&scope, info, Expected::Any);
            batch.writes.extend(made);
        }
        let contents = document.contents.iter();
        batch.blobs = contents
            .map(|(digest, content)| (*digest, content.as_slice().into()))
            .collect();
        self.make(&session, lines, batch).await?;
        Ok(session)
    }

    /// Makes a session with these entries, unless it exists; an existing session that began with
    /// the very same entries counts as made.
    async fn make(
        &self,
        session: &SessionId,
        lines: Vec<Line>,
        mut batch: Batch,
    ) -> Result<(), SystemError> {
        let journal = JournalId::Session(session.clone());
        let there = self.store.journal(journal.clone(), 0).await?;
        if !there.is_empty() {
            let texts = lines.iter().map(|line| &line.text);
            let mut same = there.iter().map(|stored| &stored.line.text).zip(texts);
            let same = there.len() >= lines.len() && same.all(|(there, wanted)| there == wanted);
            let session = session.to_string();
            return match same {
                true => Ok(()),
                false => Err(SystemError::SessionExists { session }),
            };
        }
        let claim = self.store.claim(journal.clone(), false).await?;
        batch.appends = vec![Append::new(journal, 0, claim.epoch, lines)];
        self.store.commit_one(batch).await?;
        Ok(())
    }
}

/// The highest version that an imported value keeps: up to here JSON numbers are exact everywhere.
const MAX_VERSION: u64 = 1 << 53;
