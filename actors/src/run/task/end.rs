//! The end of a run.

use std::sync::Arc;

use super::{Carrier, Rested, RunExit, first_row, note};
use crate::{
    contract::{Append, AsText, Batch, Claim, Line, RunStatus, StoreError, StoredLine},
    run::{
        ChildReport, ChildResult, Command, ParentSender, Returned,
        leg::Leg,
        recovered_conversation::{close_with, made, spoken},
    },
    vocabulary::{
        AgentError, Answer, Entry, JournalId, Message, OperationId, Outcome, RunEnd, RunStart,
        Spent, StopReason, TurnEnd,
    },
};

impl Carrier {
    /// Ends a run whose function returned.
    pub(super) async fn finish(&mut self, leg: &Leg, returned: Returned) -> Rested {
        self.driver.settle_background(leg).await?;
        let broken_off = match &returned {
            Ok(outcome) if outcome.messages().is_empty() && outcome.text().is_empty() => {
                let reason = outcome.stop_reason().map(ToString::to_string);
                Some(reason.unwrap_or_else(|| "ended without an answer".to_owned()))
            }
            Ok(_) => None,
            Err(error) => Some(format!("failed: {error}")),
        };
        let messages = match (&returned, broken_off) {
            (Ok(outcome), None) => {
                let mut messages = leg.said();
                if outcome.messages().is_empty() {
                    messages.extend(leg.heard_here());
                    let answer = Message::assistant(outcome.text()).by(&*leg.agent.name);
                    messages.push(Arc::new(answer));
                }
                messages.extend(outcome.messages().iter().cloned());
                messages
            }
            // Most runs come to an answer, and keep no room for it.
            (_, reason) => {
                let reason = reason.unwrap_or_default();
                Box::pin(self.broken_off(leg, &reason)).await?
            }
        };
        self.end(leg, returned, messages).await
    }

    /// The conversation of a turn that came to no answer, as its session keeps it: the messages in
    /// the run's journal, and the reason of the end. A child run has no session and keeps no
    /// conversation.
    pub(super) async fn broken_off(
        &mut self,
        leg: &Leg,
        reason: &str,
    ) -> Result<Vec<Arc<Message>>, StoreError> {
        let mut messages = leg.said();
        if self.session.is_some() {
            let lines = self.own_lines().await?;
            messages = spoken(&lines, leg, messages)?;
        }
        close_with(&mut messages, note(reason));
        Ok(messages)
    }

    /// The end of a run that is closed for this reason. Its work so far is the partial answer: what its model was saying,
    /// or else what it had made.
    pub(super) async fn closed(
        &mut self,
        leg: &Leg,
        reason: StopReason,
    ) -> Result<Outcome, StoreError> {
        let made = made(&self.own_lines().await?, leg)?;
        let partial = self.driver.ports.saying(self.run).or(made);
        let partial = partial.map(Answer::text);
        Ok(Outcome::Stopped { reason, partial })
    }

    async fn own_lines(&mut self) -> Result<Vec<StoredLine>, StoreError> {
        self.driver.journal.settle().await?;
        let store = self.driver.ports.store();
        store.journal(self.run.into(), 0).await
    }

    /// Writes the run's last entry, and the session's.
    pub(super) async fn end(
        &mut self,
        leg: &Leg,
        outcome: Returned,
        messages: Vec<Arc<Message>>,
    ) -> Rested {
        let spent = self.driver.ledger.spent();
        if let Ok(Outcome::ContinueAs(input)) = outcome {
            return Box::pin(self.continue_as(*input, spent, leg)).await;
        }
        self.forget_calls().await;
        let how = Arc::new(RunEnd::of(&outcome, spent));
        let status = RunStatus::of(&how);
        self.driver.journal.append(how.clone());
        self.driver.journal.change_row(|row| {
            (row.status, row.wake_at, row.asks) = (status, None, Vec::new());
        });
        let mut batch = self.driver.journal.take().unwrap_or_default();
        let mut turn = TurnEnd::new(self.run, &*leg.agent.name, messages);
        (turn.spent, turn.heard) = (spent, std::mem::take(&mut self.driver.heard));
        let parent = self.driver.parent.take();
        if let Some(parent) = &parent {
            let append = batch.appends.pop().map(Box::new);
            // The mailbox items that the batch strikes off stay there. The run is over, so nobody
            // reads them.
            let result = Box::new(ChildResult::new(self.run, outcome, spent));
            let heard = std::mem::take(&mut turn.heard);
            let report = ChildReport::Ended {
                append,
                result,
                heard,
            };
            self.tell_end(parent, report).await?;
        }
        let end = Arc::new(turn);
        if parent.is_none() {
            self.append_to_session(&mut batch, end.clone());
            self.commit_last(batch).await?;
        }
        Ok(RunExit::Ended {
            how,
            end,
            found_ended: false,
        })
    }

    async fn forget_calls(&mut self) {
        if let Some(forgotten) = self.driver.ports.forget_calls(self.run) {
            forgotten.await;
        }
    }

    /// Adds an entry of the session's journal to the run's last batch.
    fn append_to_session(&mut self, batch: &mut Batch, entry: impl AsText + 'static) {
        if let Some(tail) = self.session.take() {
            let line = Line::later(self.driver.journal.now(), entry);
            let journal = JournalId::Session(tail.session);
            let Claim { entries, epoch, .. } = tail.claim;
            let append = Append::new(journal, entries, epoch, vec![line]);
            batch.appends.push(append);
        }
    }

    /// Gives a child's end to its parent, which commits it. A parent between two lives gets the end
    /// in its next incarnation.
    ///
    /// # Errors
    /// The parent has no further incarnation in this process.
    async fn tell_end(
        &mut self,
        parent: &ParentSender,
        mut report: ChildReport,
    ) -> Result<(), RunExit> {
        loop {
            match parent.hand(report) {
                Ok(()) => return Ok(()),
                Err(untold) => report = untold,
            }
            loop {
                match self.driver.commands.next().await {
                    Some(Command::Reattached) => break,
                    None | Some(Command::LetGo) => return Err(RunExit::LetGo),
                    Some(_) => {}
                }
            }
        }
    }

    pub(super) async fn continue_as(&mut self, input: Message, spent: Spent, leg: &Leg) -> Rested {
        let next = self.run.next();
        let now = self.driver.journal.now();
        let mut start = RunStart::clone(&self.start);
        start.input = Arc::new(input);
        // The bounds apply to all journals of the run together.
        start.spent = spent;
        let passed = now.since(self.start.at);
        let wall_time = self.start.budget.wall_time;
        start.budget.wall_time = wall_time.map(|wall_time| wall_time.saturating_sub(passed));
        start.at = now;
        start.agent = leg.agent.name.to_string();
        if let Some(forked) = &mut start.forked {
            // The next journal has no entries copied from another run.
            forked.copied = 0;
        }
        if start.root == self.run {
            // The next run is the root of a tree of its own: observers, callers and recovery find
            // it there, and an agent that goes on for ever is not one tree that grows for ever.
            start.root = next;
        }
        let here = &self.driver.journal.row;
        let mut row = first_row(next, &start, here.version);
        // The fork of a child has a session that its recorded start does not name.
        row.session.clone_from(&here.session);
        row.first = Some(here.begun_as());
        let mut lines = vec![Line::later(now, Arc::new(start))];
        let end = RunEnd::Continued { next, spent };
        self.driver.journal.append(Entry::RunEnded(Box::new(end)));
        self.driver.journal.change_row(|row| {
            (row.status, row.wake_at) = (RunStatus::Continued, None);
            row.asks = Vec::new();
        });
        let mut batch = self.driver.journal.take().unwrap_or_default();
        let heard = std::mem::take(&mut self.driver.heard);
        if self.driver.parent.is_some() {
            // The parent is told only of the end of the last journal.
            let op = OperationId::default();
            let turns = heard.iter().cloned();
            let entries = turns.map(|turn| Entry::TurnHeard { op, turn });
            lines.extend(entries.map(|entry| Line::later(now, entry)));
        }
        batch.appends.push(Append::new(next, 0, 1, lines).row(row));
        let said = heard.clone();
        let continued = Entry::TurnContinued {
            run: self.run,
            next,
            heard: said,
        };
        self.append_to_session(&mut batch, continued);
        self.forget_calls().await;
        self.commit_last(batch).await?;
        Ok(RunExit::Continued {
            next,
            heard,
            found_ended: false,
        })
    }

    async fn commit_last(&mut self, batch: Batch) -> Result<(), StoreError> {
        self.driver.journal.commit(batch);
        self.driver.journal.settle().await
    }

    pub(super) async fn park(&mut self, reason: AgentError) -> Rested {
        self.driver.journal.append(Entry::Parked {
            reason: reason.clone(),
        });
        self.driver
            .journal
            .change_row(|row| row.status = RunStatus::Parked);
        let mut batch = self.driver.journal.take().unwrap_or_default();
        if matches!(reason, AgentError::Crashed { .. }) {
            // An input that crashes its agent must not hold up the session.
            let quarantined = Entry::TurnQuarantined {
                run: self.run,
                heard: self.driver.heard.clone(),
            };
            self.append_to_session(&mut batch, quarantined);
        }
        self.commit_last(batch).await?;
        let heard = std::mem::take(&mut self.driver.heard);
        Ok(RunExit::Parked { reason, heard })
    }

    pub(super) fn ended_before(&mut self, end: RunEnd) -> RunExit {
        if let RunEnd::Continued { next, .. } = end {
            return RunExit::Continued {
                next,
                heard: Vec::new(),
                found_ended: true,
            };
        }
        let spent = end.spent();
        if let Some(parent) = self.driver.parent.take() {
            let outcome = end
                .outcome()
                .unwrap_or_else(|| Err(AgentError::Failed("the run has no outcome".into())));
            let result = ChildResult::new(self.run, outcome, spent);
            parent.tell(ChildReport::Ended {
                append: None,
                result: Box::new(result),
                heard: std::mem::take(&mut self.driver.heard),
            });
        }
        let mut turn = TurnEnd::new(self.run, self.recorded.leg.agent.clone(), Vec::new());
        turn.spent = spent;
        RunExit::Ended {
            how: Arc::new(end),
            end: Arc::new(turn),
            found_ended: true,
        }
    }
}
