//! The suite that every store must pass.

use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    contract::StoreError,
    testing::store_conformance::{self, Place},
};

use crate::folder::Folder;

struct File(Folder);

impl Place for File {
    type Store = SqliteStore;

    async fn open(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(self.0.store())
    }
}

#[tokio::test]
async fn the_sqlite_store_keeps_every_promise() {
    store_conformance::check(async || File(Folder::new()))
        .await
        .unwrap();
}
