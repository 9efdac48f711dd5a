//! The attempts at a cell or a verdict, each in a session of its own.

use ghostlight_actors::{actor::SystemError, contract::StoreError};

/// How often what a server failed is tried anew, over all times that the evaluation is started.
pub(crate) const ATTEMPTS: u32 = 5;
/// The most attempts, those counted that were deleted.
const MOST: u32 = 1_000;

/// The attempts at a cell or a verdict, by their numbers.
pub(crate) struct Attempts<'a> {
    key: &'a str,
    number: u32,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(key: &'a str) -> Self {
        Self { key, number: 1 }
    }

    /// The key of the attempt's session.
    pub(crate) fn key(&self) -> String {
        match self.number {
            1 => self.key.to_owned(),
            number => format!("{}/{number}", self.key),
        }
    }

    /// Goes on to the next attempt.
    pub(crate) fn next(&mut self) {
        self.number += 1;
    }

    /// The result of the attempt. Where its run was deleted, by a retention or a person, there is none, and this goes on to
    /// the next attempt: a deleted run stays deleted.
    pub(crate) fn there<T>(
        &mut self,
        result: Result<T, SystemError>,
    ) -> Result<Option<T>, SystemError> {
        let is_deleted = matches!(
            result,
            Err(SystemError::UnknownRun(_) | SystemError::Store(StoreError::Deleted { .. }))
        );
        if is_deleted && self.number < MOST {
            self.next();
            return Ok(None);
        }
        result.map(Some)
    }
}
