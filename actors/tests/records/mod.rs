//! Checks of what is left in a store when a test is over.

use std::collections::BTreeSet;

use futures_util::FutureExt;
use ghostlight_actors::{
    actor::recording,
    contract::{RunFilter, RunStatus, StoreHandle},
    run::{Registry, replay},
    session::SessionFold,
    testing::{InMemoryStore, check_transcript},
    vocabulary::JournalId,
};

/// The conversations that sessions keep are ones that every provider takes. The model of a
/// test refuses others by itself.
pub(crate) fn check_conversations(store: &InMemoryStore) {
    let disk = StoreHandle::new(store.another_process());
    let rows = disk.runs(RunFilter::default()).now_or_never();
    let rows = rows.unwrap().unwrap();
    let sessions: BTreeSet<_> = rows.into_iter().filter_map(|row| row.session).collect();
    for session in sessions {
        let name = session.to_string();
        let lines = disk.read(JournalId::Session(session), 0, usize::MAX);
        let lines = lines.now_or_never().unwrap().unwrap();
        let mut fold = SessionFold::default();
        fold.extend(&lines, &name).unwrap();
        let breach = check_transcript(&fold.transcript.messages());
        assert_eq!(breach, Ok(()), "the conversation of {name}");
    }
}

/// What every run recorded is what the code of some life asks for, from its first entry to its last.
pub(crate) fn check_journals(store: &InMemoryStore, code: Vec<Registry>) {
    let disk = StoreHandle::new(store.another_process());
    let rows = disk.runs(RunFilter::default()).now_or_never();
    let rows = rows.unwrap().unwrap_or_default();
    let roots = rows.iter().filter(|row| row.run == row.root);
    for row in roots.filter(|row| row.status != RunStatus::Parked) {
        let read = recording(&disk, row.run).now_or_never().unwrap();
        let Ok(recording) = read else { continue };
        let mut told = Vec::new();
        let is_faithful = code
            .iter()
            .rev()
            .any(|code| match replay(&recording, code, None) {
                Ok(replay) if replay.is_faithful() => true,
                Ok(replay) => {
                    told.push(format!("{replay:?}"));
                    false
                }
                // It is another team's, or what it needs is deleted.
                Err(_) => false,
            });
        assert!(
            is_faithful || told.is_empty(),
            "replayed, run {} differs: {told:#?}",
            row.run
        );
    }
}
