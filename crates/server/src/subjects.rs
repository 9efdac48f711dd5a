//! The requests that each subject has under way.

use std::{collections::HashMap, sync::Arc};

use axum::http::StatusCode;
use parking_lot::Mutex;

use crate::problem::Problem;

/// Counts the requests of each subject, event streams among them, so that none takes all connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subjects(Arc<Mutex<HashMap<Arc<str>, usize>>>);

impl Subjects {
    /// Begins a request of a subject that may have this many at once.
    pub(crate) fn begin(&self, subject: &str, most: usize) -> Result<UnderWay, Problem> {
        let subject: Arc<str> = subject.into();
        let mut all = self.0.lock();
        let count = all.entry(subject.clone()).or_default();
        if *count >= most {
            let detail = format!(
                "{most} requests of one subject may be under way at once, event streams among them: end some first"
            );
            let status = StatusCode::TOO_MANY_REQUESTS;
            return Err(Problem::new(status, "too-many-at-once", detail));
        }
        *count += 1;
        let subjects = self.clone();
        Ok(UnderWay { subjects, subject })
    }
}

/// A request of a subject, until its response was sent or given up.
#[derive(Debug)]
pub(crate) struct UnderWay {
    subjects: Subjects,
    subject: Arc<str>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut all = self.subjects.0.lock();
        if let Some(count) = all.get_mut(&self.subject) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                all.remove(&self.subject);
            }
        }
    }
}
