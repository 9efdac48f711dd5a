//! The work of an index with vectors that are in a store of their own.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Filter, Index, IndexError, Query, Ranked, VectorId, VectorStoreError, actor::Request,
    loaded::POOL,
};

/// How many vectors a store gets at once.
const STEP: usize = 500;

fn failed(error: VectorStoreError) -> IndexError {
    IndexError::Vectors { message: error.0 }
}

impl Index {
    /// Asks the store which passages are near the probes of a query.
    pub(super) async fn near(&self, query: &mut Query) -> Result<(), IndexError> {
        let Some(vectors) = &self.vectors else {
            return Ok(());
        };
        if query.ranked == Ranked::Words {
            return Ok(());
        }
        let within = match query.filter == Filter::default() {
            true => None,
            false => {
                let filter = Arc::new(query.filter.clone());
                let within = self.ask(|port| Request::Within(filter.clone(), port));
                Some(Arc::new(within.await?))
            }
        };
        let pool = (query.limit * POOL.0).max(POOL.1);
        for probe in &mut query.probes {
            if let Some(vector) = &probe.vector {
                let near = vectors.nearest(vector.clone(), pool, query.scan, within.clone());
                probe.near = Some(near.await.map_err(failed)?);
            }
        }
        Ok(())
    }

    /// Gives the store what it lacks, and takes out of it what is gone.
    pub(super) async fn put_right(&self) -> Result<(), IndexError> {
        let Some(vectors) = &self.vectors else {
            return Ok(());
        };
        let there = vectors.ids().await.map_err(failed)?;
        let all = Arc::new(Filter::default());
        let wanted: BTreeSet<VectorId> =
            self.ask(|port| Request::Within(all.clone(), port)).await?;
        let gone: Vec<VectorId> = there.difference(&wanted).copied().collect();
        for step in gone.chunks(STEP) {
            vectors.remove(step.to_vec()).await.map_err(failed)?;
        }
        let missing: Vec<VectorId> = wanted.difference(&there).copied().collect();
        for step in missing.chunks(STEP) {
            let step: Arc<[VectorId]> = step.into();
            let found = self.ask(|port| Request::Kept(step.clone(), port)).await?;
            vectors.put(found).await.map_err(failed)?;
        }
        Ok(())
    }
}
