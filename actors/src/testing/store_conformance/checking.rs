//! The place of the store that is checked, and what every check is written with.

use crate::{
    contract::{
        Append, Batch, Claim, Committed, DynDeletion, ItemBody, Line, MailboxItem, RunRow, Store,
        StoreError, StoredLine,
    },
    vocabulary::{JournalId, RunId, SessionId, Timestamp},
};

/// Where one store lives, such as a file. Each check gets a fresh one.
pub trait Place {
    /// The store that is checked.
    type Store: Store;

    /// Opens the store at this place, as a process of its own: what one opened store owns is not owned by another,
    /// though both may be open at once.
    fn open(&self) -> impl Future<Output = Result<Self::Store, StoreError>>;

    /// Ends the process that this store stands for, without [`Store::close`]. The default drops
    /// the store.
    fn crash(&self, store: Self::Store) -> impl Future<Output = ()> {
        async move { drop(store) }
    }
}

/// The result of a check. The list below turns a `String` into a [`Breach`].
pub(super) type Checked = Result<(), Found>;

#[derive(Debug)]
pub(super) enum Found {
    Breach(String),
    /// The store has no such part, so it promises nothing of it.
    NoSuchPart,
}

impl From<StoreError> for Found {
    fn from(error: StoreError) -> Self {
        Self::Breach(format!("an unexpected error ({error})"))
    }
}

impl From<String> for Found {
    fn from(text: String) -> Self {
        Self::Breach(text)
    }
}

/// Goes on when this holds; otherwise the check ends with this finding.
macro_rules! ensure {
    ($holds:expr, $($found:tt)+) => {
        if !$holds {
            return Err($crate::testing::store_conformance::checking::Found::Breach(format!($($found)+)));
        }
    };
}

/// Goes on when both are equal; otherwise the check ends with both.
macro_rules! same {
    ($found:expr, $wanted:expr, $what:expr) => {{
        let (found, wanted) = (&$found, &$wanted);
        ensure!(
            found == wanted,
            "{}: {found:?} instead of {wanted:?}",
            $what
        );
    }};
}

/// Goes on when this is refused with an error of this shape.
macro_rules! refused {
    ($result:expr, $shape:pat $(if $condition:expr)?, $what:expr) => {{
        let result = $result;
        ensure!(
            matches!(&result, Err($shape) $(if $condition)?),
            "{}: {result:?}",
            $what
        );
    }};
}

pub(super) use {ensure, refused, same};

/// A run id for a check; runs of different numbers differ in their first digits.
pub(super) fn run(number: u8) -> RunId {
    RunId::from_random(u128::from(number) << 120 | 0x0123_4567_89ab_cdef)
}

pub(super) fn session(key: &str) -> SessionId {
    SessionId {
        team: "team".into(),
        key: key.into(),
    }
}

/// Entries; a store takes their texts as they are.
pub(super) fn lines(texts: &[&str]) -> Vec<Line> {
    let line = |(number, text): (usize, &&str)| Line {
        at: Timestamp(1_000 + number as u64),
        text: serde_json::Value::from(*text).to_string().into(),
    };
    texts.iter().enumerate().map(line).collect()
}

pub(super) fn row(number: u8) -> RunRow {
    let mut row = RunRow::new(run(number), "team", "agent");
    row.started_at = Timestamp(1_000 + u64::from(number));
    row.updated_at = row.started_at;
    row
}

/// The batch that makes a run with these entries.
pub(super) fn making(row: RunRow, texts: &[&str]) -> Batch {
    Batch::of(Append::new(row.run, 0, 1, lines(texts)).row(row))
}

/// Entries for a run that this process made and nobody has claimed since.
pub(super) fn appending(number: u8, expected: u64, texts: &[&str]) -> Batch {
    Batch::of(Append::new(run(number), expected, 1, lines(texts)))
}

/// An item for a mailbox.
pub(super) fn item(id: &str, at: u64) -> MailboxItem {
    let body = ItemBody::Message {
        name: "note".to_owned(),
        value: serde_json::json!({ "id": id }),
    };
    MailboxItem::new(id, Timestamp(at), body)
}

/// Commits one batch.
pub(super) async fn commit(store: &impl Store, batch: Batch) -> Result<Committed, StoreError> {
    let told = store.commit(vec![batch]).await?;
    told.into_iter().next().unwrap_or(Err(StoreError::Io {
        place: store.description(),
        reason: "commit told nothing of its batch".to_owned(),
    }))
}

/// The part of a store that deletes.
pub(super) fn deletion(store: &impl Store) -> Result<&dyn DynDeletion, Found> {
    store.deletion().ok_or(Found::NoSuchPart)
}

pub(super) async fn claim(
    store: &impl Store,
    journal: impl Into<JournalId>,
) -> Result<Claim, StoreError> {
    store.claim(journal.into(), false).await
}

/// All entries of a journal; their sequence numbers are checked on the way.
pub(super) async fn read(
    store: &impl Store,
    journal: impl Into<JournalId>,
) -> Result<Vec<StoredLine>, Found> {
    let found = store.read(journal.into(), 0, usize::MAX).await?;
    let numbers: Vec<u64> = found.iter().map(|line| line.sequence).collect();
    let wanted: Vec<u64> = (0..found.len() as u64).collect();
    same!(numbers, wanted, "sequence numbers");
    let rising = found.is_sorted_by(|a, b| a.position < b.position);
    ensure!(rising, "positions do not rise: {found:?}");
    Ok(found)
}

/// The texts of a journal's entries.
pub(super) async fn texts(
    store: &impl Store,
    journal: impl Into<JournalId>,
) -> Result<Vec<String>, Found> {
    let found = read(store, journal).await?;
    found.iter().map(|stored| decoded(&stored.line)).collect()
}

pub(super) fn decoded(line: &Line) -> Result<String, Found> {
    serde_json::from_str(&line.text)
        .map_err(|error| Found::Breach(format!("{:?}: {error}", line.text)))
}
