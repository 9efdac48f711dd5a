//! The suite that every store passes, each check in a schema of its own.

use std::sync::atomic::{AtomicU32, Ordering};

use ghostlight_actors::{
    contract::StoreError,
    testing::store_conformance::{self, Place},
};
use ghostlight_postgres::{Options, PostgresStore};

use crate::server::{QUICK, Server, is_left_out, versions};

struct Schema<'s> {
    server: &'s Server,
    name: String,
}

impl Place for Schema<'_> {
    type Store = PostgresStore;

    async fn open(&self) -> Result<PostgresStore, StoreError> {
        let mut options = Options::default();
        options.schema = self.name.clone();
        options.readers = 2;
        PostgresStore::open_with(&self.server.url(), &options).await
    }

    /// The server hears of a process's end when its connections close, and not at the same instant.
    async fn crash(&self, store: PostgresStore) {
        let node = store.node().to_owned();
        drop(store);
        let client = self.server.client().await;
        let lives = format!("SELECT {0}.node_lives($1)", self.name);
        client
            .batch_execute(&format!("SET search_path = {}", self.name))
            .await
            .unwrap();
        while client.query_one(&lives, &[&node]).await.unwrap().get(0) {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_in_postgresql_keeps_every_promise_of_a_store() {
    if is_left_out() {
        return;
    }
    for version in versions() {
        let server = Server::of(version, &QUICK);
        let count = AtomicU32::new(0);
        let fresh = async || Schema {
            server: &server,
            name: format!("place_{}", count.fetch_add(1, Ordering::Relaxed)),
        };
        store_conformance::check(fresh).await.unwrap();
    }
}
