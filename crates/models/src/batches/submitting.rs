//! Submitting requests: each once, whatever process asks for it, and whatever dies meanwhile.
//!
//! The row of a batch comes first. It says which requests the batch has, and how far it has come: its file is uploaded (or it
//! has none), the batch is made of it, the batch is known. Each step is written at the version of the step before. So a process that
//! another one has taken for dead finds out, and makes no batch of requests that were given to another.

use std::{
    collections::{HashMap, HashSet},
    slice,
    time::Duration,
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use ghostlight_actors::{
    contract::StoreError,
    vocabulary::{Digest, ModelTicket, Timestamp},
};

use super::{
    desk::{Desk, Request, refuse, store_failed},
    rows::{Open, Row, Rows},
};
use crate::http::Failure;

/// How long a process may take over a step of a submission, beyond the time that its requests are on their way. After that
/// another one takes the batch up.
const STEP: Duration = Duration::from_secs(180);
/// How many mailboxes are read at once.
const READS: usize = 32;

impl Desk {
    /// Submits requests, and tells each caller what became of its own. Returns those whose fate is not known.
    pub(super) async fn submit(&self, requests: Vec<Request>) -> Vec<Request> {
        let (mut wanted, mut undecided) = (HashMap::new(), Vec::new());
        for request in requests {
            // A caller that is gone does not want it any more, and one that asks again has its last reply.
            if !request.reply.is_closed() {
                wanted.insert(request.ticket.clone(), request);
            }
        }
        loop {
            let (begun, known) = match self.known(wanted.keys().cloned()).await {
                Ok(known) => known,
                Err(error) => {
                    refuse(wanted.into_values(), &store_failed(&error));
                    return undecided;
                }
            };
            for (ticket, is_submitted) in known {
                let Some(request) = wanted.remove(&ticket) else {
                    continue;
                };
                match is_submitted {
                    true => drop(request.reply.send(Ok(()))),
                    false => undecided.push(request),
                }
            }
            if wanted.is_empty() {
                return undecided;
            }
            match self.begin(wanted.keys().cloned().collect(), begun).await {
                Ok(row) => {
                    let mut fresh: Vec<Request> = wanted.into_values().collect();
                    fresh.sort_by(|a, b| a.ticket.cmp(&b.ticket));
                    undecided.extend(self.upload(row, fresh).await);
                    return undecided;
                }
                // Another process has begun a batch, perhaps with the same requests.
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => {
                    refuse(wanted.into_values(), &store_failed(&error));
                    return undecided;
                }
            }
        }
    }

    /// Those of these requests that stand in a batch, and whether it is surely submitted; and how many batches had begun
    /// before that was read.
    async fn known(
        &self,
        tickets: impl Iterator<Item = ModelTicket>,
    ) -> Result<(u64, HashMap<ModelTicket, bool>), StoreError> {
        let mut wanted: HashSet<ModelTicket> = tickets.collect();
        let (mut known, rows) = (HashMap::new(), self.rows());
        let begun = rows.begun().await?;
        let all = rows.all().await?;
        if let Some(key) = all.unreadable {
            // It may be a batch with the same requests.
            return Err(rows.unreadable(&key));
        }
        for row in all.rows {
            let is_submitted = row.open.batch.is_some();
            for ticket in rows.requests(&row.key).await?.unwrap_or_default() {
                if wanted.remove(&ticket) {
                    known.insert(ticket, is_submitted);
                }
            }
        }
        // A batch is forgotten when its answers are in the mailboxes, so these are read last.
        let store = self.host.store();
        let mut answered = futures_util::stream::iter(wanted)
            .map(|ticket| async move {
                let items = store.mailbox(ticket.run().into()).await?;
                let is_answered = items.iter().any(|item| item.id == ticket.item());
                Ok::<_, StoreError>(is_answered.then_some(ticket))
            })
            .buffer_unordered(READS);
        while let Some(ticket) = answered.next().await {
            known.extend(ticket?.map(|ticket| (ticket, true)));
        }
        Ok((begun, known))
    }

    /// Notes a batch of these requests, as long as no other has begun since.
    async fn begin(&self, mut tickets: Vec<ModelTicket>, begun: u64) -> Result<Row, StoreError> {
        tickets.sort();
        let now = self.now();
        let open = Open {
            made_at: now,
            held_until: now.after(self.server.upload_time() + STEP),
            account: Some(self.server.account()),
            file: None,
            sent_by: None,
            batch: None,
        };
        let key = key_of(&tickets, now, begun);
        self.rows().begin(key, open, &tickets, begun).await
    }

    /// Uploads the requests of a batch that has begun, and submits it. Returns them unless it is known what became of them.
    async fn upload(&self, mut row: Row, requests: Vec<Request>) -> Vec<Request> {
        let rows = self.rows();
        let lines: Vec<Bytes> = requests.iter().map(|it| it.line.clone()).collect();
        let file = match self.server.upload(lines.clone()).await {
            Ok(file) => file,
            Err(failure) => return self.refused(&rows, &row, requests, failure).await,
        };
        let sending = match file.is_empty() {
            true => self.server.upload_time(),
            false => Duration::ZERO,
        };
        let sent_by = self.now().after(sending + STEP);
        let open = Open {
            held_until: sent_by,
            file: Some(file.clone()),
            sent_by: Some(sent_by),
            ..row.open.clone()
        };
        if rows.change(&mut row, open).await.is_err() {
            // This took so long that somebody else gave the batch up, or the store fails.
            self.server.delete(slice::from_ref(&file)).await;
            return requests;
        }
        let batch = match self.server.submit(&file, &row.key, lines).await {
            Ok(batch) => batch,
            Err(failure) if is_refusal(&failure) => {
                self.server.delete(slice::from_ref(&file)).await;
                return self.refused(&rows, &row, requests, failure).await;
            }
            Err(failure) => {
                let error = self.server.error(failure);
                tracing::warn!(key = row.key, %error, "whether a batch was submitted is not known yet");
                return requests;
            }
        };
        match self.record(&rows, row, &batch).await {
            Ok(true) => {
                for request in requests {
                    let _ = request.reply.send(Ok(()));
                }
                Vec::new()
            }
            Ok(false) => {
                if let Err(failure) = self.server.cancel(&batch).await {
                    let error = self.server.error(failure);
                    tracing::warn!(batch, %error, "a batch that nobody waits for is not cancelled");
                }
                requests
            }
            Err(_) => requests,
        }
    }

    /// The time by which the submission of a batch was over, whoever was at it.
    pub(super) fn sent_by(&self, row: &Row) -> Timestamp {
        let step = self.server.upload_time() + STEP;
        // A row of an older program does not say when its file was uploaded.
        let told = row.open.sent_by;
        told.unwrap_or_else(|| row.open.made_at.after(step).after(step))
    }

    /// Forgets a batch that the server surely has not got, and tells its callers why.
    async fn refused(
        &self,
        rows: &Rows,
        row: &Row,
        requests: Vec<Request>,
        failure: Failure,
    ) -> Vec<Request> {
        match rows.forget(row).await {
            Ok(()) => refuse(requests, &self.server.error(failure)),
            Err(_) => requests,
        }
    }

    /// Notes that the server has this batch. `false` where another process has looked for it, did not find it, and gave its
    /// requests free.
    async fn record(&self, rows: &Rows, mut row: Row, batch: &str) -> Result<bool, StoreError> {
        loop {
            let open = Open {
                held_until: self.next_look(),
                batch: Some(batch.to_owned()),
                ..row.open.clone()
            };
            match rows.change(&mut row, open).await {
                Err(StoreError::Conflict { .. }) => {}
                changed => return changed.map(|()| true),
            }
            match rows.now(&row.key).await? {
                None => return Ok(false),
                Some(now) => match &now.open.batch {
                    Some(found) => return Ok(found == batch),
                    // It is being looked for.
                    None => row = now,
                },
            }
        }
    }
}

/// The mark of a batch: no other one has it.
fn key_of(tickets: &[ModelTicket], now: Timestamp, begun: u64) -> String {
    let mut parts: Vec<String> = tickets.iter().map(ModelTicket::to_string).collect();
    parts.extend([now.0.to_string(), begun.to_string()]);
    let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
    Digest::of_parts(&parts).to_string()[..32].to_owned()
}

/// Whether a failure leaves no doubt that nothing was submitted.
fn is_refusal(failure: &Failure) -> bool {
    match failure {
        Failure::Rejected { status, .. } => (400..500).contains(status) && *status != 408,
        Failure::Connect(_) | Failure::Certificate | Failure::Credential(_) | Failure::Request => {
            true
        }
        _ => false,
    }
}
