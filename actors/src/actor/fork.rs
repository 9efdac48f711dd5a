//! Forking: a new run goes on from a point of a recorded one.

pub(super) mod session_contents;

use std::collections::BTreeMap;

use self::session_contents::{SessionContents, branched};
#[cfg(doc)]
use super::System;
use super::{
    Run, SystemError, acting::Use, launch::first_of, loaded::start_of, recording::recording,
};
use crate::{
    contract::{Append, Batch, ItemBody, Line, MailboxItem, RunRow, RunStatus, StoreError},
    definition::TeamSpec,
    run::{ForkTarget, ForkedRun, OperationLog, Task, first_row, fork},
    vocabulary::{Digest, Entry, JournalId, Message, RunId, SessionId, SessionTurn},
};

/// Where and how a run is forked.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is forked before `Run::fork`"]
pub struct Fork {
    at: Option<u64>,
    input: Option<Message>,
    session: Option<String>,
    todays_team: bool,
    team: Option<Box<TeamSpec>>,
}

impl Fork {
    /// The id of a fork's turn in its session.
    pub const TURN: &str = "fork";

    /// A fork that keeps the first `entries` entries of the run: the first step that is done anew
    /// is the one that the entry with that number records.
    pub fn at(entries: u64) -> Self {
        Self {
            at: Some(entries),
            ..Self::default()
        }
    }

    /// A fork at the last possible point: before the operation at which a parked run diverged,
    /// before the end of an ended one.
    pub fn latest() -> Self {
        Self::default()
    }

    /// Gives the fork a message at that point. If only the run's beginning is kept (`at(1)`), the
    /// message replaces the run's own input; otherwise it steers the run, as [`Run::steer`] does.
    pub fn input(mut self, input: impl Into<Task>) -> Self {
        self.input = Some(input.into().message);
        self
    }

    /// Sets the key of the session in which the fork goes on; without it the key is a fresh one.
    /// Forking twice into one session in the same way is forking once.
    pub fn session(mut self, key: impl AsRef<str>) -> Self {
        self.session = Some(key.as_ref().to_owned());
        self
    }

    /// Goes on with this definition of the team instead of the one to which the run is pinned: with
    /// another model, other instructions or other agents. What the System makes when it starts or
    /// [reloads](System::reload) the team must be the same in both: models, tools, interceptors and
    /// durability.
    pub fn team(mut self, team: TeamSpec) -> Self {
        self.team = Some(Box::new(team));
        self
    }

    /// Goes on with the definition that the System has of the team today, instead of the one to
    /// which the run is pinned.
    pub fn todays_team(mut self) -> Self {
        self.todays_team = true;
        self
    }
}

impl Run {
    /// Begins a new run that goes on from a point of this one. This run may be open, ended or
    /// parked, and stays as it is. Entries before that point are copied and their work is not done
    /// again, neither in this run nor in those below it; all work after it is done anew, effects
    /// included.
    ///
    /// The fork has a session of its own, with the conversation before the run. It has the state
    /// of the session and the working memory of the tree as they were then; the states of users
    /// and of the team are shared. What the run had consumed counts in the fork's budget; its
    /// deadline does not. Undo steps that were registered before that point stay with this run.
    /// A run below another becomes a run of its own.
    ///
    /// # Errors
    /// [`SystemError::Fork`] if the run cannot be forked there, with the points at which it can;
    /// [`SystemError::SessionExists`]; [`SystemError::UnknownRun`], [`SystemError::Foreign`],
    /// [`SystemError::UnknownTeam`]; [`SystemError::Definition`] and [`SystemError::NotReloaded`] for a
    /// [definition](Fork::team) with which it cannot go on; what the store fails with.
    pub async fn fork(&self, options: Fork) -> Result<Run, SystemError> {
        self.check(Use::Act).await?;
        let shared = self.system.shared();
        let store = &shared.services.store;
        let recording = recording(store, self.id).await?;
        let begun = start_of(store, self.id).await?;
        let begun = begun.ok_or(SystemError::UnknownRun(self.id))?;
        let mut team = begun.team.clone();
        let entry = shared.known_team(&team)?;
        let definition = match &options.team {
            Some(other) => Some(entry.pin_other(other)?),
            None if options.todays_team => Some((entry.digest, entry.bytes.clone())),
            None => None,
        };
        if definition.is_some() {
            team.clone_from(&entry.pinned.team.name);
        }
        let fresh = || {
            let bits = shared.services.entropy.bits();
            format!("fork-{}-{:08x}", self.id.short(), bits >> 96)
        };
        let key = options.session.clone().unwrap_or_else(fresh);
        let (team, key) = (team.into(), key.into());
        let session = SessionId { team, key };
        let run = RunId::of_turn(&session, Fork::TURN);
        // A delegated run has no session, and so no conversation before it.
        let in_session = begun.session.is_some();
        let history = if in_session {
            &recording.history[..]
        } else {
            &[]
        };
        // The session from which the fork's session goes on.
        let from = recording.session.as_ref().filter(|_| in_session);
        let target = ForkTarget {
            run,
            session: session.clone(),
            history: history.len() as u64 + u64::from(from.is_some()),
            definition: definition.as_ref().map(|(digest, _)| *digest),
            version: entry.pinned.team.version,
            now: shared.services.clock.now(),
        };
        let forked = fork(&recording, self.id, options.at, &target)?;
        let own = options.team.as_ref().and(definition.as_ref());
        let own = own.map(|(digest, _)| *digest);
        if self.is_made(&session, run, (forked.at, own)).await? {
            return self.system.resume(run, false).await;
        }
        let mut runs = forked.runs;
        let mut posts = Vec::new();
        if let (Some(input), 1, Some(first)) = (&options.input, forked.at, runs.first_mut()) {
            first.say(input.clone());
        } else if let Some(input) = options.input {
            let item = MailboxItem::new("fork", target.now, ItemBody::Steer(input));
            posts.push((run.into(), item));
        }
        let journal = JournalId::Session(session.clone());
        // Claiming an existing session would take it from its holder.
        if !store.read(journal.clone(), 0, 1).await?.is_empty() {
            let session = session.to_string();
            return Err(SystemError::SessionExists { session });
        }
        let claim = store.claim(journal.clone(), false).await?;
        let mut lines = history.to_vec();
        if let Some(from) = from {
            // The run's own entries in the session are copied with its other entries.
            let began = recording
                .lines
                .first()
                .map_or(0, |line| line.stored.position);
            let state = SessionContents::of_session(store, from, began).await?;
            let branched = branched(from, &state.values, None);
            lines.push(Line::encode(target.now, &branched)?);
        }
        let said = runs.first().map(|run| run.start.input.clone());
        let said = said.unwrap_or_else(|| begun.input.clone());
        let mut turn = SessionTurn::new(Fork::TURN, run, said);
        if let Some(session) = &recording.session {
            let begun = first_of(store, session, history.len() as u64 + 1).await?;
            turn.owner = begun.owner;
        }
        lines.push(Line::encode(
            target.now,
            &Entry::TurnStarted(Box::new(turn)),
        )?);
        let mut batch = Batch::of(Append::new(journal, 0, claim.epoch, lines));
        batch.blobs.extend(definition);
        batch.posts = posts;
        batch.appends.extend(appends(&runs, &target)?);
        let place = (forked.cut, &forked.copies);
        batch.writes = session_contents::memory(&recording, place, store, run).await?;
        if let Some(from) = from {
            let kept = SessionContents::of_session(store, from, forked.cut).await?;
            let writes = kept.copied(store, from, &session, &forked.copies);
            batch.writes.extend(writes.await?);
        }
        store.commit_one(batch).await?;
        self.system.resume(run, false).await
    }

    /// Whether this very fork was made before: at this point, and with the same definition if it
    /// has one of its own.
    async fn is_made(
        &self,
        session: &SessionId,
        run: RunId,
        (at, own): (u64, Option<Digest>),
    ) -> Result<bool, SystemError> {
        let store = self.system.store();
        if store.run(run).await?.is_none() {
            return Ok(false);
        }
        let made = start_of(store, run).await?;
        let made = made.ok_or(SystemError::UnknownRun(run))?;
        let same = |forked: crate::vocabulary::Forked| forked.run == self.id && forked.at == at;
        if made.forked.is_some_and(same) && own.is_none_or(|own| made.definition == own) {
            return Ok(true);
        }
        let session = session.to_string();
        Err(SystemError::SessionExists { session })
    }
}

impl ForkedRun {
    /// Replaces the run's input by this message.
    fn say(&mut self, input: Message) {
        self.start.input = input.into();
        if let Some((_, first)) = self.entries.first_mut() {
            *first = Entry::RunStarted(Box::new(self.start.clone()));
        }
    }

    /// Its row in the index.
    fn row(&self, target: &ForkTarget) -> RunRow {
        let mut row = first_row(self.run, &self.start, target.version);
        // The first run and the journals in which it goes on.
        if self.start.parent.is_none() {
            row.session = Some(target.session.clone());
        }
        if let Some(end) = &self.end {
            row.status = RunStatus::of(end);
        }
        // The agent of the last leg carries it.
        let agent = self
            .entries
            .iter()
            .rev()
            .find_map(|(_, entry)| match entry {
                Entry::LegStarted { agent, .. } => Some(agent.clone()),
                _ => None,
            });
        row.agent = agent.unwrap_or(row.agent);
        let mut log = OperationLog::new();
        for (sequence, (_, entry)) in (0..).zip(&self.entries) {
            log.add(sequence, entry);
        }
        row.asks = log.asks().to_vec();
        row
    }
}

/// The journals of a fork's tree, in the order of the recorded one's commits.
fn appends(runs: &[ForkedRun], target: &ForkTarget) -> Result<Vec<Append>, StoreError> {
    let mut entries: Vec<(u64, &ForkedRun, &Entry)> = Vec::new();
    for run in runs {
        let of_run = run.entries.iter();
        entries.extend(of_run.map(|(position, entry)| (*position, run, entry)));
    }
    entries.sort_by_key(|(position, ..)| *position);
    let mut have: BTreeMap<RunId, u64> = BTreeMap::new();
    let mut appends: Vec<Append> = Vec::new();
    for (_, run, entry) in entries {
        let line = Line::encode(target.now, entry)?;
        let have = have.entry(run.run).or_default();
        match appends.last_mut() {
            Some(last) if last.journal == JournalId::Run(run.run) => last.lines.push(line),
            _ => {
                let append = Append::new(run.run, *have, 1, vec![line]).root(run.start.root);
                let append = if *have == 0 {
                    append.row(run.row(target))
                } else {
                    append
                };
                appends.push(append);
            }
        }
        *have += 1;
    }
    Ok(appends)
}
