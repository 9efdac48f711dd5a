//! Turns that come while the session's run is under way, or waits for a person's answer.

use super::{AgentState, SessionState};
use crate::{
    actor::{
        SystemError,
        agent_command::{AgentCommand, Asking},
        open_questions::is_asking,
        poll_interval::{AGAIN, PollInterval},
        services::Services,
    },
    contract::{ItemBody, MailboxItem, Notice, RunFilter, RunStatus, StoreError},
    definition::WhileAsking,
    vocabulary::RunId,
};

/// The reason for cancelling a run that waits for an answer when the next turn comes.
const NEXT_TURN: &str = "the next turn came instead of an answer";

/// Waits until a run, or the run that continues with it, waits for a person's answer, and tells whether the question was
/// there at the first look. A run may record its question before it waits, and does so again when it is recovered.
/// `None` when the run ends first.
async fn until_it_asks(
    services: &Services,
    mut run: RunId,
    mut asked_before: Option<bool>,
) -> Option<Asking> {
    let mut interval = PollInterval::new();
    loop {
        // A root begins to wait after its tree's questions are recorded.
        let told = services.store.news(Notice::Rested(run));
        // If the store cannot be read now, the next look reads it.
        if let Ok(row) = services.store.run(run).await {
            let row = row?;
            match row.status {
                RunStatus::Continued => {
                    run = run.next();
                    continue;
                }
                status if status.is_ended() => return None,
                status if status == RunStatus::Waiting || asked_before.is_none() => {
                    if let Ok(asks) = is_asking(&services.store, row.root).await {
                        let asked_before = *asked_before.get_or_insert(asks);
                        if asks && status == RunStatus::Waiting {
                            return Some(Asking {
                                run,
                                owner: row.owner,
                                asked_before,
                            });
                        }
                    }
                }
                _ => {}
            }
        }
        interval.next(&*services.clock, told).await;
    }
}

impl AgentState {
    pub(super) fn while_asking(&self) -> WhileAsking {
        self.team()
            .map_or_else(WhileAsking::default, |team| team.pinned.team.while_asking)
    }

    pub(super) fn open_run(&self) -> Option<RunId> {
        self.session.as_ref()?.loaded.as_ref()?.0.open
    }

    /// A turn was queued. Tasks beside the actor look whether the run before it goes on, and whether it asks a person.
    pub(super) fn look_at_open_run(&mut self) {
        let Some(run) = self.open_run() else { return };
        if !self.runs.contains_key(&run) {
            self.wake_interrupted(run);
        }
        self.look_for_questions(None);
    }

    /// Turns wait for the open run. A task beside the actor tells when it asks a person. If it is not known whether it
    /// asked before they came, the first look tells.
    pub(super) fn look_for_questions(&mut self, asked_before: Option<bool>) {
        let Some(run) = self.open_run() else { return };
        if self.while_asking() == WhileAsking::Wait {
            return;
        }
        let Some(session) = &mut self.session else {
            return;
        };
        if session.looked_at.replace(run) == Some(run) {
            return;
        }
        let services = self.services().clone();
        self.beside(async move {
            let asking = until_it_asks(&services, run, asked_before).await?;
            Some(AgentCommand::Asking(asking))
        });
    }

    /// Takes up a run that was interrupted, or fell asleep in a process that is gone, and that no process took up.
    fn wake_interrupted(&mut self, run: RunId) {
        let shared = self.shared.clone();
        self.beside(async move {
            let looked = async {
                let store = &shared.services.store;
                let Some(row) = store.run(run).await? else {
                    return Ok(None);
                };
                let waits = row.status == RunStatus::Waiting;
                let filter = RunFilter {
                    awake_by: Some(shared.services.clock.now()),
                    root: Some(row.root),
                    ..RunFilter::open()
                };
                let awake = store.runs(filter).await?;
                if awake.iter().any(|row| row.status != RunStatus::Waiting) {
                    return Ok(Some(AgentCommand::Wake(run, false, None, None)));
                }
                if let Some(at) = row.wake_at.filter(|_| waits) {
                    shared.wake_later(at, run);
                }
                Ok(None)
            };
            looked.await.unwrap_or_else(|error: StoreError| {
                shared.wake_again(run).failed(&error);
                None
            })
        });
    }

    /// A turn that found the run asking is told so: its sender may take it for an answer. One that waited already when
    /// the run began to ask is refused as any turn that may not wait, since it was said before there was a question.
    /// A run is cancelled for no turn but its owner's: that of anybody else waits on.
    pub(super) fn asking(&mut self, asking: Asking) {
        let Asking {
            run, asked_before, ..
        } = asking;
        if let Some(session) = &mut self.session {
            session.looked_at = None;
        }
        if self.open_run() != Some(run) {
            return;
        }
        match self.while_asking() {
            WhileAsking::Wait => {}
            WhileAsking::Refuse => {
                let Some(session) = &mut self.session else {
                    return;
                };
                let name = session.id.to_string();
                for reply in session.turns.clear() {
                    let session = name.clone();
                    // The caller may have gone.
                    let _ = reply.send(Err(match asked_before {
                        true => SystemError::Asking { run },
                        false => SystemError::UnderWay { session, run },
                    }));
                }
                self.watch_idleness();
            }
            WhileAsking::Cancel => {
                let owner = asking.owner.as_deref();
                let waits = |session: &SessionState| session.turns.has_waiting_of(owner);
                if !self.session.as_ref().is_some_and(waits) {
                    return;
                }
                let shared = self.shared.clone();
                let (reason, stop) = (NEXT_TURN.to_owned(), None);
                let now = shared.services.clock.now();
                let item = MailboxItem::new("cancel", now, ItemBody::Cancel { reason, stop });
                self.beside(async move {
                    let error = shared.post(run, item).await.err()?;
                    tracing::warn!(%run, %error, "the run that asks is not cancelled");
                    shared.services.clock.sleep(AGAIN).await;
                    (!error.is_lasting()).then_some(AgentCommand::Asking(asking))
                });
            }
        }
    }
}
