//! Looking after what was submitted, by this process or another one, until all answers are given.

use std::collections::HashMap;

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use ghostlight_actors::{
    contract::StoreError,
    vocabulary::{ErrorKind, ModelTicket, OperationError, Timestamp},
};

use super::{
    Given, ItemEnd, Line, Lost, Search, Standing,
    desk::Desk,
    rows::{Open, Row, Rows},
};
use crate::http::Failure;

/// How many answers are given at once.
const AT_ONCE: usize = 64;

/// The answers of a batch that has ended, on their way to the runs that wait.
struct Giving<'a> {
    rows: &'a Rows,
    row: &'a mut Row,
    /// The requests without an answer, by their ids in the batch.
    left: HashMap<String, ModelTicket>,
    requests: usize,
}

impl Desk {
    /// Deals with all that is due, and returns when the next is.
    pub(super) async fn look(&self) -> Result<Option<Timestamp>, StoreError> {
        let rows = self.rows();
        let mut next: Option<Timestamp> = None;
        for mut row in rows.all().await?.rows {
            if !self.attends(&row) {
                continue;
            }
            if row.open.held_until <= self.now() {
                let open = Open {
                    held_until: self.next_look(),
                    ..row.open.clone()
                };
                let looked = match rows.change(&mut row, open).await {
                    Ok(()) => self.look_at(&rows, &mut row).await,
                    Err(error) => Err(error.into()),
                };
                let error: &dyn std::fmt::Display = match &looked {
                    // Another process was faster.
                    Ok(()) | Err(Trouble::Store(StoreError::Conflict { .. })) => continue,
                    Err(Trouble::Store(error)) => error,
                    Err(Trouble::Run(error)) => error,
                    Err(Trouble::Server(failure)) => &self.server.error(failure.clone()),
                };
                tracing::warn!(key = row.key, %error, "a batch is looked at again later");
            }
            let due = row.open.held_until;
            next = Some(next.map_or(due, |next| next.min(due)));
        }
        Ok(next)
    }

    async fn look_at(&self, rows: &Rows, row: &mut Row) -> Result<(), Trouble> {
        match (row.open.file.clone(), row.open.batch.clone()) {
            (_, Some(batch)) => self.ask_for(rows, row, &batch).await,
            (Some(file), None) => self.search(rows, row, file).await,
            // Its requests are free for another batch. Whoever uploads them finds out before it makes one.
            (None, None) => Ok(rows.give_up(row).await?),
        }
    }

    /// Looks for a batch whose submission was cut short.
    async fn search(&self, rows: &Rows, row: &mut Row, file: String) -> Result<(), Trouble> {
        let Some(tickets) = rows.requests(&row.key).await? else {
            // Another process has given it up.
            return Ok(());
        };
        let others = rows.all().await?.rows.into_iter();
        let lost = Lost {
            key: &row.key,
            made_at: row.open.made_at,
            sent_by: self.sent_by(row),
            requests: &tickets.iter().map(ModelTicket::to_string).collect(),
            others: &others.filter_map(|other| other.open.batch).collect(),
        };
        match self.server.find(lost).await? {
            Search::Found(batch) => {
                let open = Open {
                    batch: Some(batch),
                    ..row.open.clone()
                };
                return Ok(rows.change(row, open).await?);
            }
            Search::Undecided => return Ok(()),
            Search::Absent => {}
        }
        if self.made(row) || self.is_lost(row) {
            // Its requests are free for another batch. Without its file nobody submits it any more.
            self.server.delete(&[file]).await;
            rows.give_up(row).await?;
        }
        Ok(())
    }

    /// Asks how a batch stands, and gives its answers once it has ended.
    async fn ask_for(&self, rows: &Rows, row: &mut Row, batch: &str) -> Result<(), Trouble> {
        let standing = match self.server.look(batch).await {
            Err(failure) if is_unknown(&failure) && self.is_lost(row) => lost(),
            standing => standing?,
        };
        let Some(tickets) = rows.requests(&row.key).await? else {
            // Another process has given the answers.
            return Ok(());
        };
        if !self.made(row) {
            // The key has changed, and its account has not.
            let open = Open {
                account: Some(self.server.account()),
                ..row.open.clone()
            };
            rows.change(row, open).await?;
        }
        let (status, mut files, unanswered) = match standing {
            Standing::Ended {
                status,
                files,
                unanswered,
            } => (status, files, unanswered),
            Standing::UnderWay { cancellable } => {
                if cancellable && self.is_unwanted(&tickets).await? {
                    self.server.cancel(batch).await?;
                }
                return Ok(());
            }
        };
        let requests = tickets.len();
        let named = tickets.into_iter().map(|it| (it.to_string(), it));
        let left = named.collect();
        let mut giving = Giving {
            rows,
            row,
            left,
            requests,
        };
        for file in &files {
            self.give_answers(file, &mut giving).await?;
        }
        let left = giving.left.into_values();
        tracing::info!(
            batch,
            status,
            requests,
            unanswered = left.len(),
            "a batch has ended"
        );
        for ticket in left {
            self.give(ticket, unanswered.clone()).await?;
        }
        rows.forget(row).await?;
        files.extend(row.open.file.clone());
        self.server.delete(&files).await;
        Ok(())
    }

    /// Whether all runs with these requests have ended.
    async fn is_unwanted(&self, tickets: &[ModelTicket]) -> Result<bool, StoreError> {
        for ticket in tickets {
            let row = self.host.store().run(ticket.run()).await?;
            if row.is_some_and(|row| !row.status.is_ended()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives the answers in a file, and takes their requests off.
    async fn give_answers(&self, file: &str, of: &mut Giving<'_>) -> Result<(), Trouble> {
        let mut lines = match self.server.answers(file, of.requests).await {
            // It was deleted, and nobody will ever read it.
            Err(failure) if is_unknown(&failure) => return Ok(()),
            lines => lines?,
        };
        let (mut giving, mut faults) = (FuturesUnordered::new(), 0_usize);
        loop {
            self.hold(of.rows, of.row).await;
            let line = match lines.next().await {
                // There is more than there can be answers.
                Err(Failure::TooLarge(_)) => None,
                line => line?,
            };
            let Some(line) = line else { break };
            let end = match line {
                Line::Whole(line) => self.server.read(&line),
                Line::TooLong => None,
            };
            // A request is answered once, whatever a file repeats.
            match end.and_then(|(id, end)| Some((of.left.remove(&id)?, end))) {
                Some((ticket, end)) => giving.push(self.give(ticket, end)),
                None => faults += 1,
            }
            if giving.len() >= AT_ONCE
                && let Some(given) = giving.next().await
            {
                given?;
            }
        }
        while let Some(given) = giving.next().await {
            given?;
        }
        if faults > 0 {
            tracing::warn!(
                file,
                faults,
                "lines of a batch's answers cannot be read, or answer nothing that was asked"
            );
        }
        Ok(())
    }

    /// Keeps other processes away from a batch whose answers are given for longer than a poll interval. Where one was
    /// faster, both give them: a second answer changes nothing, and the first that is done forgets the batch.
    async fn hold(&self, rows: &Rows, row: &mut Row) {
        let held_until = self.next_look();
        let half = self.spec.polled_every() / 2;
        if row.open.held_until.after(half) > held_until {
            return;
        }
        let open = Open {
            held_until,
            ..row.open.clone()
        };
        if rows.change(row, open).await.is_err() {
            // Not with each line again.
            row.open.held_until = held_until;
        }
    }

    /// Gives a run its answer. A run that has ended needs none.
    async fn give(&self, ticket: ModelTicket, end: ItemEnd) -> Result<(), OperationError> {
        let of = self.server.description();
        let text = serde_json::to_string(&Given { of, end })
            .map_err(|error| OperationError::new(ErrorKind::Malformed, error.to_string()))?;
        match self.host.answer(&ticket, text).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            given => given,
        }
    }
}

/// Whether the server says that it does not know what it was asked for.
fn is_unknown(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Rejected {
            status: 404 | 410,
            ..
        }
    )
}

/// The end of a batch that its server does not know any more.
fn lost() -> Standing {
    Standing::Ended {
        status: "lost".to_owned(),
        files: Vec::new(),
        unanswered: ItemEnd::Unanswered {
            kind: ErrorKind::Model,
            message: "its batch is not known to the provider any more".to_owned(),
            said: String::new(),
            retryable: true,
        },
    }
}

/// Why a batch could not be dealt with now. It is looked at again.
#[derive(Debug)]
enum Trouble {
    Store(StoreError),
    Server(Failure),
    Run(OperationError),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Server(failure)
    }
}

impl From<OperationError> for Trouble {
    fn from(error: OperationError) -> Self {
        Self::Run(error)
    }
}
