//! Notices of what other nodes post, and that they leave, by `LISTEN` and `NOTIFY`.
//!
//! A commit that puts items into inboxes notifies the channel that is named as the schema, with its node's id as the
//! text; a commit that is rolled back notifies nobody. A node that leaves does so too, with a word before its id. Each node
//! listens on the connection of its lease, so a node that hears nothing also loses its lease, and needs no connection
//! more. A notice says only that there is something: inboxes and owners are read from the tables, so nothing depends on it
//! but how soon that happens.

use std::{future, sync::Arc};

use ghostlight_actors::contract::{BoxFuture, Notice};
use tokio::sync::watch;
use tokio_postgres::{AsyncMessage, Connection, tls::TlsStream};

/// The word that a node puts before its id when it leaves.
pub(crate) const LEFT: &str = "left ";

/// The number of notices of each kind. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct News {
    posted: Arc<watch::Sender<u64>>,
    left: Arc<watch::Sender<u64>>,
}

impl News {
    fn of(&self, kind: Notice) -> &watch::Sender<u64> {
        match kind {
            Notice::Left => &self.left,
            _ => &self.posted,
        }
    }

    /// Wakes all who wait for this.
    pub(crate) fn tell(&self, kind: Notice) {
        self.of(kind).send_modify(|count| *count += 1);
    }

    /// Waits for more than so many notices of a kind, and returns how many there were.
    pub(crate) fn after(&self, kind: Notice, seen: u64) -> BoxFuture<'static, u64> {
        let mut told = self.of(kind).subscribe();
        Box::pin(async move {
            let more = told
                .wait_for(|count| *count > seen)
                .await
                .map(|count| *count);
            match more {
                Ok(count) => count,
                // The store is gone, and with it all who could tell.
                Err(_) => future::pending().await,
            }
        })
    }

    /// Drives a connection to its end, and tells the notices of other nodes. This node tells itself what it posts.
    pub(crate) async fn hear<S, T>(&self, mut connection: Connection<S, T>, node: &str)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
        T: TlsStream + Unpin,
    {
        while let Some(Ok(message)) = future::poll_fn(|cx| connection.poll_message(cx)).await {
            let AsyncMessage::Notification(notice) = message else {
                continue;
            };
            let (kind, by) = match notice.payload().strip_prefix(LEFT) {
                Some(by) => (Notice::Left, by),
                None => (Notice::Posted, notice.payload()),
            };
            if by != node {
                self.tell(kind);
            }
        }
    }
}
