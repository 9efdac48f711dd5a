//! Reading and claiming what a run needs before it can go on, outside the agent's actor.

use std::{collections::HashSet, sync::Arc, time::Duration};

use super::{
    SystemError,
    loaded::{Claiming, LoadedSession, RecoveredSession, from_checkpoint},
    services::Services,
    shared::check_code,
};
use crate::{
    contract::{Claim, JournalPages, RunRow, StoreError, StoreHandle, StoredLine},
    definition::Pinned,
    run::{Loaded, Recorded},
    session::SessionFold,
    vocabulary::{Digest, JournalId, RunId, SessionId},
};

/// The longest journal, in entries, that is recovered together with others: all of them are in
/// memory at once.
const TOGETHER_MAX: usize = 2048;

/// Claims a run, which closes the epoch of its earlier owner, and reads its journal. A run that
/// went on in another journal is followed there. `aside` names the session of a quarantined turn's
/// run: its conversation is read as it was when the turn began. `held` is the run's session with the
/// epoch in which this process has it.
pub(crate) async fn load_run(
    services: &Services,
    run: RunId,
    claim: Claiming,
    held: Option<(JournalId, u64)>,
    aside: Option<SessionId>,
    known: Option<(Digest, Arc<Pinned>)>,
) -> Result<Loaded, SystemError> {
    let store = &services.store;
    let row = services.current(run).await?;
    let row = row.ok_or(SystemError::UnknownRun(run))?;
    let run = row.run;
    if let Some((JournalId::Session(session), _)) = &held
        && row.session.as_ref().is_some_and(|of| of != session)
    {
        // A session that was imported may name the run of another one.
        return Err(SystemError::UnknownRun(run));
    }
    // The journal is read before it is claimed: a newer program's run is not touched.
    let mut recorded = Recorded::default();
    let mut pages = JournalPages::new(run, 0);
    fold_on(&mut recorded, &mut pages, run, store).await?;
    let claim = match claim {
        _ if row.status.is_ended() => unclaimed(&[]),
        Claiming::Free => match (store.claim(run.into(), false).await, held) {
            // Its owner seemed to be dead when this process got the session, and lives again. The
            // run belongs to the process that has its session.
            (Err(StoreError::Owned { .. }), Some((session, epoch))) => {
                store.claim_below(run.into(), session, epoch).await?
            }
            (claimed, _) => claimed?,
        },
        Claiming::TakeOver => store.claim(run.into(), true).await?,
        Claiming::Below(parent, epoch) => {
            store.claim_below(run.into(), parent.into(), epoch).await?
        }
    };
    // The entries that its owner wrote before the claim.
    if claim.entries > pages.next_entry() {
        fold_on(&mut recorded, &mut pages, run, store).await?;
    }
    let start = recorded.started(run)?;
    let pinned = match known {
        Some((digest, pinned)) if digest == start.definition => pinned,
        _ => load_pinned(services, run, start.definition).await?,
    };
    let history = match &aside {
        Some(session) => Some(first_of(store, session, start.history).await?.transcript),
        None => None,
    };
    let loaded = Loaded::new(row, claim, recorded, pinned);
    Ok(Loaded { history, ..loaded })
}

/// Folds what there is to read of a run's journal.
async fn fold_on(
    recorded: &mut Recorded,
    pages: &mut JournalPages,
    run: RunId,
    store: &StoreHandle,
) -> Result<(), StoreError> {
    loop {
        recorded.extend(&pages.next(store).await?, run)?;
        if pages.was_last() {
            return Ok(());
        }
    }
}

/// Recovers roots with their sessions: all are read at once, then all sessions are claimed in one
/// commit, and their runs in another. A root that needs more (another owner, a long journal,
/// damage, another definition, a write meanwhile) is `None`: its agent takes it up by itself.
pub(crate) async fn recover_together(
    services: &Services,
    rows: Vec<(SessionId, RunRow)>,
    known: impl Fn(&str) -> Option<(Digest, Arc<Pinned>)>,
) -> Result<Vec<Option<RecoveredSession>>, StoreError> {
    let of_session = |(session, _): &(SessionId, RunRow)| JournalId::Session(session.clone());
    let journals = rows
        .iter()
        .flat_map(|row| [of_session(row), row.1.run.into()]);
    let read = services
        .store
        .read_all(journals.collect(), TOGETHER_MAX)
        .await?;
    let mut read = read.into_iter();
    let mut fold = |(session, row): &(SessionId, RunRow)| {
        let (session_lines, run_lines) = (read.next()?, read.next()?);
        let known = known(&session.team)?;
        let of_session = fold_session(&session_lines.ok()?, session, row.run)?;
        let run = fold_run(&run_lines.ok()?, row.clone(), known)?;
        Some(RecoveredSession {
            session: of_session,
            run,
        })
    };
    let mut taken: Vec<Option<RecoveredSession>> = rows.iter().map(&mut fold).collect();
    let journals = rows.iter().zip(&taken).filter(|(_, taken)| taken.is_some());
    let journals = journals.map(|(row, _)| of_session(row)).collect();
    let claims = claims_of(services, journals).await?;
    // A run belongs to the process that has its session. Without the session the run is left alone:
    // another process may have claimed the session and not yet the run.
    hold(&mut taken, claims, |taken| &mut taken.session.claim);
    let runs = taken.iter().flatten().map(|taken| taken.run.row.run.into());
    let claims = claims_of(services, runs.collect()).await?;
    hold(&mut taken, claims, |taken| &mut taken.run.claim);
    // A mailbox that `posted` does not name is empty; the run's agent is told of later items.
    let (_, called) = services.store.posted(0).await?;
    let called: HashSet<JournalId> = called.into_iter().collect();
    for RecoveredSession { run, .. } in taken.iter_mut().flatten() {
        let session = run.row.session.clone().map(JournalId::Session);
        let mut mailboxes = run.row.mailboxes().chain(session);
        run.mailbox_is_empty = !mailboxes.any(|mailbox| called.contains(&mailbox));
    }
    Ok(taken)
}

/// Keeps the sessions or runs whose claim was granted, and whose journals did not grow since they
/// were read.
fn hold(
    taken: &mut [Option<RecoveredSession>],
    granted: Vec<Option<Claim>>,
    claim_of: impl Fn(&mut RecoveredSession) -> &mut Claim,
) {
    let there = taken.iter_mut().filter(|taken| taken.is_some());
    for (slot, granted) in there.zip(granted) {
        let known = slot.as_mut().map(&claim_of);
        match (known, granted) {
            (Some(known), Some(granted)) if known.entries == granted.entries => *known = granted,
            _ => *slot = None,
        }
    }
}

/// The claims that are granted, in one commit.
async fn claims_of(
    services: &Services,
    journals: Vec<JournalId>,
) -> Result<Vec<Option<Claim>>, StoreError> {
    let claims = services.store.claim_all(journals).await?;
    Ok(claims.into_iter().map(Result::ok).collect())
}

/// A claim that is not made yet, of a journal of which these lines were read.
fn unclaimed(lines: &[StoredLine]) -> Claim {
    Claim {
        entries: lines.len() as u64,
        ..Claim::default()
    }
}

fn fold_session(lines: &[StoredLine], session: &SessionId, open: RunId) -> Option<LoadedSession> {
    let mut fold = SessionFold::default();
    fold.extend(lines, &session.to_string()).ok()?;
    let (claim, kept) = (unclaimed(lines), 0);
    (fold.open == Some(open)).then_some(LoadedSession { fold, claim, kept })
}

fn fold_run(
    lines: &[StoredLine],
    row: RunRow,
    (digest, pinned): (Digest, Arc<Pinned>),
) -> Option<Loaded> {
    let recorded = Recorded::fold(lines, row.run).ok()?;
    let is_known = recorded.start.as_ref()?.definition == digest;
    let goes_on = is_known && recorded.end.is_none();
    goes_on.then(|| Loaded::new(row, unclaimed(lines), recorded, pinned))
}

/// A session as it was after the first entries of its journal.
pub(crate) async fn first_of(
    store: &StoreHandle,
    session: &SessionId,
    entries: u64,
) -> Result<SessionFold, StoreError> {
    let mut lines = store.journal(session.clone().into(), 0).await?;
    lines.truncate(usize::try_from(entries).unwrap_or(usize::MAX));
    let mut fold = SessionFold::default();
    fold.extend(&lines, &session.to_string())?;
    Ok(fold)
}

pub(crate) async fn load_pinned(
    services: &Services,
    run: RunId,
    definition: Digest,
) -> Result<Arc<Pinned>, SystemError> {
    let damaged = |reason: String| StoreError::Damaged {
        place: format!("the definition that run {run} is pinned to"),
        reason,
    };
    let bytes = services.store.blob(definition).await?;
    let bytes = bytes.ok_or_else(|| damaged(format!("the store has no blob {definition}")))?;
    let pinned = Pinned::decode(&bytes).map_err(|error| damaged(error.to_string()))?;
    Ok(Arc::new(pinned))
}

/// The claim with which the first turn makes its session. No process has claimed that session
/// before.
const UNMADE: Claim = Claim {
    epoch: 1,
    entries: 0,
    settles_in: Duration::ZERO,
};

/// Folds a session's journal, from its checkpoint if that can be read, and claims it; a newer
/// program's session is not touched. With `may_make` a new session is not claimed: the commit of
/// its first turn makes it, or is refused. A session whose open run was carried by later code than
/// this `version` of its team's is left to a process that has that code, like one that is owned.
pub(crate) async fn load_session(
    services: &Services,
    session: &SessionId,
    version: u32,
    take_over: bool,
    may_make: bool,
) -> Result<LoadedSession, StoreError> {
    let (mut fold, mut kept) = folded(&services.store, session, u64::MAX).await?;
    if may_make && fold.entries == 0 {
        let claim = UNMADE;
        return Ok(LoadedSession { fold, claim, kept });
    }
    if let Some(open) = fold.open
        && let Some(row) = services.store.run(open).await?
    {
        check_code(&row, version)?;
    }
    let journal = JournalId::Session(session.clone());
    let claim = services.store.claim(journal.clone(), take_over).await?;
    if fold.entries > claim.entries {
        // The checkpoint covers entries that were lost.
        (fold, kept) = folded(&services.store, session, claim.entries).await?;
    }
    if fold.entries < claim.entries {
        // The entries that the session's owner wrote before the claim.
        let lines = services.store.journal(journal, fold.entries).await?;
        fold.extend(&lines, &session.to_string())?;
    }
    Ok(LoadedSession { fold, claim, kept })
}

/// Folds a session's journal, from its checkpoint if that can be read and covers at most `entries`
/// entries. Returns the fold and the number of entries in that checkpoint.
pub(crate) async fn folded(
    store: &StoreHandle,
    session: &SessionId,
    entries: u64,
) -> Result<(SessionFold, u64), StoreError> {
    let mut fold = from_checkpoint(store, session)
        .await
        .filter(|fold| fold.entries <= entries)
        .unwrap_or_default();
    let kept = fold.entries;
    let lines = store.journal(session.clone().into(), kept).await?;
    if !lines.is_empty() {
        fold.extend(&lines, &session.to_string())?;
    }
    Ok((fold, kept))
}
