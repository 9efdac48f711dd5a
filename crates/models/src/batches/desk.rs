//! A desk for batches: the server to which they are submitted, and the requests for which they are made.

use std::sync::Arc;

use bytes::Bytes;
use ghostlight_actors::{
    contract::{ModelError, ModelHost, StoreError},
    vocabulary::{ErrorKind, ModelTicket, Timestamp},
};
use tokio::sync::oneshot;

use super::{
    BatchServer, BatchSpec,
    rows::{Row, Rows},
};

/// How long after its beginning a batch is lost that its server does not know. Providers answer within a day, so by then
/// nothing of it is to come; until then a wrong key may be put right.
const LOST_MS: u64 = 48 * 3_600_000;
/// How long a batch of another account was left alone at least when this one looks after it.
const ABANDONED_MS: u64 = 3_600_000;

/// The work on the batches of one model at one account of a server.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) host: ModelHost,
    pub(super) server: Arc<dyn BatchServer>,
    pub(super) spec: BatchSpec,
}

/// A request that is to be submitted.
pub(super) struct Request {
    pub(super) ticket: ModelTicket,
    pub(super) line: Bytes,
    pub(super) reply: oneshot::Sender<Result<(), ModelError>>,
}

impl Desk {
    pub(super) fn rows(&self) -> Rows {
        let store = self.host.store().clone();
        Rows::of(store, &self.server.description())
    }

    pub(super) fn now(&self) -> Timestamp {
        self.host.clock().now()
    }

    pub(super) fn next_look(&self) -> Timestamp {
        self.now().after(self.spec.polled_every())
    }

    /// Whether this account made a batch.
    pub(super) fn made(&self, row: &Row) -> bool {
        let account = row.open.account.as_ref();
        account.is_none_or(|account| *account == self.server.account())
    }

    /// Whether this account looks after a batch: after its own, and after those that nobody else takes care of, since the
    /// key has changed.
    pub(super) fn attends(&self, row: &Row) -> bool {
        let alone_ms = self.now().0.saturating_sub(row.open.held_until.0);
        self.made(row) || alone_ms >= ABANDONED_MS
    }

    /// Whether a batch is so old that there is none if the server does not know it.
    pub(super) fn is_lost(&self, row: &Row) -> bool {
        self.now().0.saturating_sub(row.open.made_at.0) >= LOST_MS
    }
}

pub(super) fn store_failed(error: &StoreError) -> ModelError {
    let message = format!("the request joined no batch: {error}");
    ModelError::new(ErrorKind::Store, message).retryable()
}

/// Tells all callers that their requests were not submitted.
pub(super) fn refuse(
    requests: impl IntoIterator<Item = Request>,
    error: &ModelError,
) -> Vec<Request> {
    for request in requests {
        let _ = request.reply.send(Err(error.clone()));
    }
    Vec::new()
}
