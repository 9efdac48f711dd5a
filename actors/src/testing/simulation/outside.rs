//! The world outside of the program: it begins turns, answers questions, cancels, and watches.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::future::join_all;
use serde_json::json;

use super::{
    set_up::Simulation,
    store::SimulatedStore,
    world::{CallKey, World},
};
use crate::{
    actor::{Run, System, SystemError},
    contract::{MailboxItem, RunFilter, RunRow, RunStatus, Ticket},
    session::Turn,
    testing::Strike,
    vocabulary::{Begun, Entry, OperationId, RunId, Timestamp},
};

/// The people and programs that use one process.
pub(super) struct Outside<'a> {
    simulation: &'a Simulation,
    world: Arc<World>,
    /// The store of the process, where it meets faults.
    faulty: Option<SimulatedStore>,
}

/// A step failed for a reason that faults explain, and is repeated.
struct Again;

impl<'a> Outside<'a> {
    pub(super) fn new(
        simulation: &'a Simulation,
        world: Arc<World>,
        faulty: Option<SimulatedStore>,
    ) -> Self {
        Self {
            simulation,
            world,
            faulty,
        }
    }

    /// Does the work of every session, until all turns have ended.
    pub(super) async fn work(&self, system: &System) -> Result<(), SystemError> {
        let keys = (0..self.simulation.sessions).map(|number| format!("session-{number}"));
        let sessions = keys.map(|key| async move { self.session(system, &key).await });
        for done in join_all(sessions).await {
            done?;
        }
        self.work_left(system).await?;
        // Checkpoints are written in the background.
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(())
    }

    async fn session(&self, system: &System, key: &str) -> Result<(), SystemError> {
        for number in 0..self.simulation.scenario.turns.len() {
            self.nap(200).await;
            let run = self.say(system, key, number).await?;
            let (attended, ()) = tokio::join!(self.attend(&run, Some(number)), self.watch(&run));
            attended?;
        }
        Ok(())
    }

    /// Attends to the runs that outlive the runs that began them.
    async fn work_left(&self, system: &System) -> Result<(), SystemError> {
        let open = RunFilter {
            open: true,
            roots: true,
            ..RunFilter::default()
        };
        loop {
            match self.bear(system.runs(open.clone()).await)? {
                Ok(mut rows) => {
                    // A parked run is found at the end.
                    rows.retain(|row| row.status != RunStatus::Parked);
                    if rows.is_empty() {
                        return Ok(());
                    }
                    let left = rows.iter().map(|row| system.run(row.run));
                    let attended = left.map(|run| async move { self.attend(&run, None).await });
                    for done in join_all(attended).await {
                        done?;
                    }
                }
                Err(Again) => self.nap(250).await,
            }
        }
    }

    async fn nap(&self, most_ms: u64) {
        tokio::time::sleep(self.world.chance.millis(most_ms)).await;
    }

    fn sends_twice(&self) -> bool {
        self.faulty.is_some() && self.world.chance.happens(self.world.faults.messages)
    }

    /// Separates errors that faults explain from errors that must not be.
    fn bear<T>(&self, result: Result<T, SystemError>) -> Result<Result<T, Again>, SystemError> {
        match result {
            Ok(value) => Ok(Ok(value)),
            Err(error) if self.faulty.is_some() => {
                self.world.tell(format_args!("borne: {error}"));
                Ok(Err(Again))
            }
            Err(error) => Err(error),
        }
    }

    /// Sends a turn until it is accepted.
    async fn say(&self, system: &System, key: &str, number: usize) -> Result<Run, SystemError> {
        let scenario = &self.simulation.scenario;
        let session = system.session(&*scenario.team, key);
        loop {
            let turn = || Turn::text(&scenario.turns[number]).id(format!("turn-{number}"));
            let sent = if self.sends_twice() {
                self.world.strike("turn sent twice");
                let (first, second) = tokio::join!(session.send(turn()), session.send(turn()));
                if let (Ok(first), Ok(second)) = (&first, &second)
                    && first.id() != second.id()
                {
                    let (first, second) = (first.id(), second.id());
                    let told = format!("one turn is two runs: {first} and {second}");
                    self.world.violate(told);
                }
                first.or(second)
            } else {
                session.send(turn()).await
            };
            if let Ok(run) = self.bear(sent)? {
                let turn = (key.to_owned(), number);
                let before = self.world.ledger.lock().turns.insert(turn, run.id());
                if before.is_some_and(|before| before != run.id()) {
                    self.world
                        .violate(format!("turn {number} of {key} moved to {}", run.id()));
                }
                return Ok(run);
            }
            self.nap(300).await;
        }
    }

    /// Answers a run's questions until it has ended, and sends it the scenario's messages to the run of this turn.
    async fn attend(&self, run: &Run, turn: Option<usize>) -> Result<(), SystemError> {
        // The decision depends on the run and not on the time, so that every process decides alike.
        let cancels = self.faulty.is_some() && {
            let share = f64::from(u8::try_from(run.id().to_string().len()).unwrap_or(0)) / 255.0;
            self.world
                .chance
                .happens(self.world.faults.cancels * (0.25 + share))
        };
        let mut mine = run.clone();
        loop {
            self.nap(250).await;
            let Ok(row) = self.bear(mine.status().await)? else {
                continue;
            };
            match row.status {
                RunStatus::Continued => {
                    mine = mine.system.run(mine.id().next());
                    continue;
                }
                RunStatus::Parked => {
                    let why = mine.outcome().await.err().map(|error| error.to_string());
                    self.world
                        .violate(format!("run {} is parked: {why:?}", mine.id()));
                    return Ok(());
                }
                status if status.is_ended() => {
                    if let Ok(told) = self.bear(outcome(run).await)? {
                        self.hear(run, told);
                        return Ok(());
                    }
                    continue;
                }
                _ => {}
            }
            if cancels && self.world.chance.happens(0.2) {
                self.cancel(&mine).await?;
            }
            if let Some(turn) = turn {
                self.post(run, turn).await?;
            }
            self.answer(&mine).await?;
            self.complete(&mine).await?;
            if self.sends_twice() && self.world.chance.happens(0.1) {
                self.meddle(&mine).await?;
            }
        }
    }

    /// Checks that nobody is told two different outcomes of a run.
    fn hear(&self, run: &Run, told: String) {
        self.world.tell(format_args!("{} came to {told}", run.id()));
        let before = {
            let mut ledger = self.world.ledger.lock();
            ledger.outcomes.insert(run.id(), told.clone())
        };
        if let Some(before) = before.filter(|before| *before != told) {
            let id = run.id();
            self.world
                .violate(format!("{id} came to {before}, and later to {told}"));
        }
    }

    async fn cancel(&self, run: &Run) -> Result<(), SystemError> {
        let cancelled = self.bear(run.cancel("the simulation wants it").await)?;
        if let Ok(true) = cancelled {
            self.world.tell(format_args!("{} is cancelled", run.id()));
            self.world.strike("run cancelled");
            let now = crate::contract::Clock::now(&self.world.clock);
            let mut ledger = self.world.ledger.lock();
            ledger.cancelled.entry(run.id()).or_insert(now);
            drop(ledger);
            self.dies_while_cancelling();
        }
        Ok(())
    }

    /// Sometimes lets the process die during a cancellation: a cancelled run ends within few commits, so chance alone
    /// seldom hits them.
    fn dies_while_cancelling(&self) {
        let chance = &self.world.chance;
        if let Some(store) = &self.faulty
            && chance.happens(0.3)
        {
            store.crash_soon(1 + chance.below(12), Strike::After);
        }
    }

    /// Sends the run the scenario's messages to each turn's root run.
    async fn post(&self, run: &Run, turn: usize) -> Result<(), SystemError> {
        for (place, body) in self.simulation.scenario.messages.iter().enumerate() {
            let id = format!("message-{turn}-{place}");
            let key = (run.id(), id.clone());
            let again = self.sends_twice();
            if self.world.ledger.lock().messages.contains(&key) && !again {
                continue;
            }
            if self.world.chance.happens(0.5) {
                // This message is late. Later ones wait: one sender's messages keep their order.
                return Ok(());
            }
            let item = MailboxItem::new(id, Timestamp::default(), body.clone());
            let posted = run.system.shared().services.post_to(run.id(), item).await;
            match self.bear(posted.map_err(SystemError::Store))? {
                // The run has ended.
                Ok(None) => return Ok(()),
                Ok(Some((_, fresh))) => {
                    let known = !self.world.ledger.lock().messages.insert(key);
                    if known && fresh {
                        self.world
                            .violate(format!("{} took a message twice", run.id()));
                    }
                }
                Err(Again) => return Ok(()),
            }
        }
        Ok(())
    }

    async fn answer(&self, run: &Run) -> Result<(), SystemError> {
        let Ok(questions) = self.bear(run.questions().await)? else {
            return Ok(());
        };
        for (asking, operation, question) in questions {
            let key = (asking, operation);
            let answered = self.world.ledger.lock().answered.contains(&key);
            if (answered && !self.sends_twice()) || self.world.chance.happens(0.6) {
                continue;
            }
            let asking = run.system.run(asking);
            if self.sends_twice() {
                // Only a question for a text accepts this answer.
                let nonsense = json!(["what?"]);
                self.will_answer(key, &nonsense);
                if asking.answer(operation, nonsense).await.is_ok() {
                    self.has_answered(key);
                    continue;
                }
            }
            let value = (self.simulation.scenario.policy)(&question);
            self.will_answer(key, &value);
            match asking.answer(operation, value).await {
                Ok(()) => self.has_answered(key),
                // The question may have been answered, or its run ended.
                Err(SystemError::Answer { .. } | SystemError::UnknownRun(_)) => {}
                Err(error) => drop(self.bear::<()>(Err(error))?),
            }
        }
        Ok(())
    }

    /// Notes an answer before it is sent, because it may arrive although its sender never hears so.
    fn will_answer(&self, key: CallKey, value: &serde_json::Value) {
        let mut ledger = self.world.ledger.lock();
        let given = ledger.answers.entry(key).or_default();
        given.push(value.to_string());
    }

    fn has_answered(&self, key: CallKey) {
        self.world
            .tell(format_args!("{}/{} is answered", key.0, key.1));
        self.world.ledger.lock().answered.insert(key);
    }

    /// Gives the results of calls that handed out tickets.
    async fn complete(&self, run: &Run) -> Result<(), SystemError> {
        let Ok(open) = self.bear(open_tickets(run).await)? else {
            return Ok(());
        };
        for ticket in open {
            let key = (ticket.run, ticket.operation);
            let done = self.world.ledger.lock().answered.contains(&key);
            if (done && !self.sends_twice()) || self.world.chance.happens(0.6) {
                continue;
            }
            let text = "it came later".to_owned();
            {
                let mut ledger = self.world.ledger.lock();
                ledger.given.entry(key).or_default().push(text.clone());
            }
            match run.system.complete(ticket, Ok(text)).await {
                Ok(()) => self.has_answered(key),
                Err(SystemError::UnknownRun(_)) => {}
                Err(error) => drop(self.bear::<()>(Err(error))?),
            }
        }
        Ok(())
    }

    /// Does what affects no promise: speaks to the model, cancels some call.
    async fn meddle(&self, run: &Run) -> Result<(), SystemError> {
        let done = if self.world.chance.happens(0.5) {
            self.world.strike("steered");
            run.steer("be quick").await
        } else {
            self.world.strike("call cancelled");
            let number = u32::try_from(self.world.chance.below(12)).unwrap_or(0);
            let (leg, lane) = (0, 0);
            let operation = OperationId { leg, lane, number };
            run.cancel_call(operation).await.map(drop)
        };
        match done {
            Err(SystemError::UnknownRun(_)) => Ok(()),
            done => self.bear(done).map(drop),
        }
    }

    /// Reads the events live. All readers must see what one reader saw.
    async fn watch(&self, run: &Run) {
        let mut events = run.events();
        let mut place = 0;
        while let Some(Ok(event)) = events.next().await {
            if event.sequence.is_none() {
                continue;
            }
            let differs = {
                let mut ledger = self.world.ledger.lock();
                let seen = ledger.events.entry(run.id()).or_default();
                match seen.get(place) {
                    Some(before) => *before != event,
                    None => {
                        seen.push(event.clone());
                        false
                    }
                }
            };
            if differs {
                let told = format!("event {place} of {} is told as {event:?}", run.id());
                self.world.violate(told);
            }
            place += 1;
        }
    }
}

async fn outcome(run: &Run) -> Result<String, SystemError> {
    match run.outcome().await {
        Ok(outcome) => Ok(format!("{outcome:?}")),
        Err(error @ SystemError::Failed { .. }) => Ok(error.to_string()),
        Err(error) => Err(error),
    }
}

async fn open_tickets(run: &Run) -> Result<Vec<Ticket>, SystemError> {
    let mut open: BTreeSet<(RunId, OperationId)> = BTreeSet::new();
    let lines = run
        .system
        .store()
        .read_tree(run.id(), 0, usize::MAX)
        .await?;
    for line in lines {
        match line.stored.line.decode() {
            Ok(Entry::Started {
                op,
                begun: Begun::Ticket,
                ..
            }) => {
                open.insert((line.run, op));
            }
            Ok(Entry::Completed { op, .. } | Entry::Dropped { op, .. }) => {
                open.remove(&(line.run, op));
            }
            Ok(Entry::RunEnded(_)) => open.retain(|(run, _)| *run != line.run),
            _ => {}
        }
    }
    let tickets = open.into_iter();
    Ok(tickets
        .map(|(run, operation)| Ticket { run, operation })
        .collect())
}

/// Takes the open runs from a process that stands still, as a person does with `--take-over`.
pub(super) async fn take_over(system: &System, world: &World, stands_still: bool) {
    if !stands_still {
        return;
    }
    tokio::time::sleep(world.chance.millis(500)).await;
    let filter = RunFilter {
        open: true,
        roots: true,
        ..RunFilter::default()
    };
    let open: Vec<RunRow> = system.runs(filter).await.unwrap_or_default();
    for row in open {
        if world.chance.happens(0.8) {
            let taken = system.resume(row.run, true).await;
            let told = taken.err().map(|error| error.to_string());
            world.tell(format_args!("{} is taken over: {told:?}", row.run));
        }
    }
}
