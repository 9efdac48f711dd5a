//! The table of the methods of a store, from which its erased face and its wrappers are made.

/// Hands the methods to another macro, part by part: those that a store has, and those that are asked for. A `~` stands
/// before what is derived from others of its part, a `+` before what answers at once.
macro_rules! with_store_methods {
    ($make:ident) => {
        $make! {
            required {
                Journals {
                    fn commit(batches: Vec<Batch>) -> Vec<Result<Committed, StoreError>>;
                    fn claim(journal: JournalId, take_over: bool) -> Claim;
                    fn claim_below(journal: JournalId, above: JournalId, epoch: u64) -> Claim;
                    fn confirm(journal: JournalId, epoch: u64) -> u64;
                    fn held_elsewhere(journals: Vec<JournalId>) -> Vec<bool>;
                    fn read(journal: JournalId, from: u64, limit: usize) -> Vec<StoredLine>;
                    fn read_tree(root: RunId, after: u64, limit: usize) -> Vec<TreeLine>;
                    ~ fn claim_all(journals: Vec<JournalId>) -> Vec<Result<Claim, StoreError>>;
                    ~ fn read_all(journals: Vec<JournalId>, limit: usize) -> Vec<Result<Vec<StoredLine>, StoreError>>;
                    + fn term() -> Option<u64>;
                }
                State {
                    fn state(scope: String, key: String) -> StateSlot;
                    fn scope(scope: String) -> Vec<(String, StateValue)>;
                    fn blob(digest: Digest) -> Option<Arc<[u8]>>;
                    fn checkpoint(session: SessionId) -> Option<Vec<u8>>;
                    fn put_checkpoint(session: SessionId, bytes: Option<Vec<u8>>) -> ();
                }
                Mailboxes {
                    fn post(mailbox: JournalId, item: MailboxItem) -> bool;
                    fn mailbox_after(mailbox: JournalId, after: u64) -> Vec<(u64, MailboxItem)>;
                    fn posted(after: u64) -> (u64, Vec<JournalId>);
                    ~ fn mailbox(mailbox: JournalId) -> Vec<MailboxItem>;
                    + fn news(of: Notice) -> Option<BoxFuture<'static, ()>>;
                }
                Index {
                    fn run(run: RunId) -> Option<RunRow>;
                    fn runs(filter: RunFilter) -> Vec<RunRow>;
                    fn sessions(filter: SessionFilter) -> Vec<SessionRow>;
                    fn inventory() -> Inventory;
                }
            }
            optional {
                Deletion, DynDeletion, deletion, "delete anything" {
                    fn expired(expiry: Expiry) -> Vec<RunRow>;
                    fn delete_tree(root: RunId, at: Timestamp, limit: usize) -> Deleted;
                    fn delete_session(session: SessionId, limit: usize) -> Deleted;
                    fn deleted(run: RunId) -> Option<Timestamp>;
                    fn drop_blobs() -> u64;
                }
                Membership, DynMembership, membership, "list the processes that share it" {
                    fn announce(carried: Vec<CarriedTeam>) -> ();
                    fn advertise(address: Option<String>) -> ();
                    fn address_of(journal: JournalId) -> Option<String>;
                }
            }
        }
    };
}

pub(super) use with_store_methods;
