//! Notices of what other nodes post, by `LISTEN` and `NOTIFY`.
//!
//! A commit that puts items into inboxes notifies the channel that is named as the schema, with its node's id as the
//! text; a commit that is rolled back notifies nobody. Each node listens on the connection of its lease, so a node that
//! hears nothing also loses its lease, and needs no connection more. A notice says only that there is something: the
//! inboxes are read from the tables, so nothing depends on it but how soon that happens.

use std::{future, sync::Arc};

use ghostlight_actors::contract::BoxFuture;
use tokio::sync::watch;
use tokio_postgres::{AsyncMessage, Connection, tls::TlsStream};

/// How many notices there were. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct News(Arc<watch::Sender<u64>>);

impl News {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::channel(0).0))
    }

    /// Wakes all who wait.
    pub(crate) fn tell(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    /// Waits for more than so many notices, and returns how many there were.
    pub(crate) fn after(&self, seen: u64) -> BoxFuture<'static, u64> {
        let mut told = self.0.subscribe();
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
            if let AsyncMessage::Notification(notice) = message
                && notice.payload() != node
            {
                self.tell();
            }
        }
    }
}
