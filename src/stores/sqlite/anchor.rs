//! The anchor: the last durable commit, written down outside the store.
//!
//! SQLite silently drops the rest of a damaged log, and an older copy of a file looks as good as
//! the newest. Therefore the number and digest of the last commit are also kept in a small text
//! file, which shows at the next opening that commits are missing.
//!
//! The file has two slots of 512 bytes, one sector each, that are written in turn: a slot that
//! was half written when the machine stopped is recognised by its check, and the other one
//! still stands.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use super::{
    chain::{Check, Hash, hex},
    owner::{Guard, with_suffix},
};
use crate::files;

const SLOT: usize = 512;

/// A durable commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) number: u64,
    pub(super) digest: Hash,
}

/// The path of a store's anchor.
pub(super) fn path_of(store: &Path) -> PathBuf {
    with_suffix(store, ".anchor")
}

/// The commit that the anchor names; `None` when there is no anchor.
///
/// # Errors
/// When it cannot be read; `InvalidData` when no slot is whole.
pub(super) fn read(path: &Path) -> io::Result<Option<Mark>> {
    let mut file = match files::open_regular(OpenOptions::new().read(true), path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let (_, mark) = latest(&slots(&mut file)?)?;
    Ok(Some(mark))
}

/// Makes the anchor if it is missing, and brings it up to this commit at least.
pub(super) fn ensure(path: &Path, mark: Mark, guard: &Guard) -> io::Result<Anchor> {
    if !path.try_exists()? {
        let fresh = guard.fresh("anchor.new")?;
        let mut options = files::private();
        let mut file = options.write(true).create_new(true).open(&fresh)?;
        file.write_all(&slot(mark))?;
        file.write_all(&[b' '; SLOT])?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        sync_folder(path);
    }
    let file = files::open_regular(OpenOptions::new().read(true).write(true), path)?;
    let mut anchor = Anchor { file };
    anchor.advance(mark)?;
    Ok(anchor)
}

/// An anchor that is open for writing.
#[derive(Debug)]
pub(super) struct Anchor {
    file: File,
}

impl Anchor {
    /// Writes this commit durably, unless another process has already written a later one.
    pub(super) fn advance(&mut self, mark: Mark) -> io::Result<()> {
        self.file.lock()?;
        let advanced = self.advance_locked(mark);
        self.file.unlock()?;
        advanced
    }

    fn advance_locked(&mut self, mark: Mark) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        let (place, found) = latest(&slots(&mut self.file)?)?;
        if found.number >= mark.number {
            return Ok(());
        }
        let other = SLOT as u64 * (1 - place);
        self.file.seek(SeekFrom::Start(other))?;
        self.file.write_all(&slot(mark))?;
        self.file.sync_data()
    }
}

fn slots(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(2 * SLOT);
    file.take(2 * SLOT as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes a new name in a folder durable, where the operating system allows it.
pub(super) fn sync_folder(path: &Path) {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Windows cannot sync a folder; there the name is as durable as the file system makes it.
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

fn slot(mark: Mark) -> [u8; SLOT] {
    let text = body(mark);
    let text = format!("{text}check {}\n", check(&text));
    let mut slot = [b' '; SLOT];
    slot[..text.len()].copy_from_slice(text.as_bytes());
    slot[SLOT - 1] = b'\n';
    slot
}

fn body(mark: Mark) -> String {
    let digest = hex(&mark.digest);
    format!(
        "ghostlight anchor 1\ncommit {}\ndigest {digest}\n",
        mark.number
    )
}

fn check(text: &str) -> String {
    hex(&Check::of("anchor").text(text).done())
}

/// The valid slot with the later commit, and its place.
fn latest(bytes: &[u8]) -> io::Result<(u64, Mark)> {
    let slots = (0..2).filter_map(|place| {
        let start = place as usize * SLOT;
        parse(bytes.get(start..start + SLOT)?).map(|mark| (place, mark))
    });
    let latest = slots.max_by_key(|(_, mark)| mark.number);
    latest.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no slot of it is whole"))
}

fn parse(slot: &[u8]) -> Option<Mark> {
    let text = std::str::from_utf8(slot).ok()?;
    let mut lines = text.lines();
    let known = lines.next()? == "ghostlight anchor 1";
    let number = lines.next()?.strip_prefix("commit ")?.parse().ok()?;
    let digest = lines.next()?.strip_prefix("digest ")?;
    let digest = u128::from_str_radix(digest, 16).ok()?.to_be_bytes();
    let mark = Mark { number, digest };
    let sound = lines.next()?.strip_prefix("check ")? == check(&body(mark));
    (known && sound).then_some(mark)
}
