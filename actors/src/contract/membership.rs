//! The notices that the processes of a store send each other.

use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::vocabulary::JournalId;

/// The list of processes that share a store, for stores of several machines. A store that keeps none says so with
/// [`Store::membership`](super::Store::membership).
pub trait Membership: Send + Sync + 'static {
    /// Tells the other processes which teams this one carries, in place of what it told before.
    fn announce(
        &self,
        carried: Vec<CarriedTeam>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Tells the other processes where the server of this one is reached, such as `http://10.0.0.1:8080`; `None` where it
    /// is not.
    fn advertise(
        &self,
        address: Option<String>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Where the server of the living other process is reached that owns a journal, if there is such a process and it told
    /// so.
    fn address_of(
        &self,
        journal: JournalId,
    ) -> impl Future<Output = Result<Option<String>, StoreError>> + Send;
}

/// A team that a process carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedTeam {
    /// Its name.
    pub team: String,
    /// The version of its code: see [`TeamSpec::version`](crate::definition::TeamSpec::version).
    pub version: u32,
}
