//! Texts that are written when somebody reads them.

use std::{
    borrow::Cow,
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;

use super::detached::{self, Attached, Detached};
use crate::vocabulary::{Data, Digest, Entry, RunEnd, RunStart, TurnEnd, canonical};

/// Room for an entry's text while it is written, in bytes. Most entries fit, so that growing does not copy them again
/// and again.
pub(super) const ROOM: usize = 1024;

/// The JSON text of an entry. The entry is kept as a value until somebody reads its text; then the text is written once,
/// for all clones, and takes the place of the value. A store that writes bytes reads it; the store in
/// memory never does. So reading a text for the first time takes as long as encoding the entry.
#[derive(Clone)]
pub struct LineText(Text);

#[derive(Clone)]
enum Text {
    Written(Box<str>),
    Later(Arc<dyn Later>),
    /// The form in which a store keeps an entry without its files.
    Detached(Box<str>),
    /// An entry with the files that a store keeps beside it.
    Attached(Arc<Attached>),
}

/// A text that is written when it is first read.
pub(crate) trait Later: Send + Sync {
    fn text(&self) -> &str;

    /// Whether files may be in it that a store keeps beside it.
    fn may_have_files(&self) -> bool;
}

/// A value whose text nobody has read yet.
pub(crate) struct Unread<T> {
    text: OnceLock<Box<str>>,
    /// The value that the text tells, until it is written.
    what: Mutex<Option<T>>,
}

impl<T> Unread<T> {
    pub(crate) fn new(what: T) -> Arc<Self> {
        Arc::new(Self {
            text: OnceLock::new(),
            what: Mutex::new(Some(what)),
        })
    }

    /// Changes the value, unless its text was read.
    pub(crate) fn change(&self, change: impl FnOnce(&mut T)) {
        if let Some(what) = &mut *self.what.lock() {
            change(what);
        }
    }
}

impl<T: AsText> Later for Unread<T> {
    fn text(&self) -> &str {
        self.text.get_or_init(|| {
            let mut text = Vec::with_capacity(ROOM);
            if let Some(what) = self.what.lock().take() {
                what.write(&mut text);
            }
            String::from_utf8(text).unwrap_or_default().into()
        })
    }

    fn may_have_files(&self) -> bool {
        let unwritten = self.what.lock().as_ref().map(AsText::may_have_files);
        unwritten.unwrap_or_else(|| detached::may_have_files(self.text()))
    }
}

/// A value with a text in JSON, which is the same each time that it is asked for.
pub(crate) trait AsText: Send + Sync {
    /// Appends the text.
    fn write(&self, into: &mut Vec<u8>);

    /// Whether files may be in it that a store keeps beside it. It is told without writing the text.
    fn may_have_files(&self) -> bool;
}

/// An entry always has a form as JSON: the keys of all its maps are texts, and a result is in it as JSON.
impl AsText for Entry {
    fn write(&self, into: &mut Vec<u8>) {
        let _ = canonical::write_as_given(self, into);
    }

    fn may_have_files(&self) -> bool {
        match self {
            Self::RunStarted(start) => start.input.has_files_apart(),
            Self::TurnStarted(turn) => turn.message.has_files_apart(),
            Self::TurnEnded(end) => end.messages.iter().any(|said| said.has_files_apart()),
            Self::LegStarted { messages, .. } => messages.iter().any(|said| said.has_files_apart()),
            Self::Heard { message, .. } => message.has_files_apart(),
            Self::CallAnswered { result, .. } => result.attachments.iter().any(Data::is_kept_apart),
            Self::Completed { result, .. } => detached::may_have_files(result.get()),
            _ => false,
        }
    }
}

macro_rules! shared_entries {
    ($($content:ty: $name:literal, $entry:ident => $has_files:expr;)*) => {$(
        impl AsText for Arc<$content> {
            fn write(&self, into: &mut Vec<u8>) {
                into.extend_from_slice(concat!("{\"", $name, "\":").as_bytes());
                let _ = canonical::write_as_given(&**self, into);
                into.push(b'}');
            }

            fn may_have_files(&self) -> bool {
                let $entry = self;
                $has_files
            }
        }
    )*};
}

// Entries that share their content with a run or its session.
shared_entries! {
    RunStart: "run_started", start => start.input.has_files_apart();
    RunEnd: "run_ended", _end => false;
    TurnEnd: "turn_ended", end => end.messages.iter().any(|said| said.has_files_apart());
}

impl LineText {
    /// The text of this, when somebody reads it.
    pub(crate) fn of(what: impl AsText + 'static) -> Self {
        Unread::new(what).into()
    }

    /// The text with these files, which a store keeps beside it.
    pub(super) fn attached(attached: Attached) -> Self {
        Self(Text::Attached(Arc::new(attached)))
    }

    /// Detaches the files in it, unless they are. Returns them.
    pub(super) fn detach(&mut self) -> Vec<(Digest, Arc<[u8]>)> {
        let found;
        let attached = match &self.0 {
            Text::Detached(_) => None,
            Text::Attached(attached) => Some(&**attached),
            Text::Later(later) if !later.may_have_files() => None,
            Text::Written(_) | Text::Later(_) => {
                found = Attached::find(self);
                found.as_ref()
            }
        };
        let Some(attached) = attached else {
            return Vec::new();
        };
        let (files, text) = (attached.files(), attached.detached());
        self.0 = Text::Detached(text);
        files
    }

    /// Whether it is an entry's form without its files.
    pub(super) fn is_detached(&self) -> bool {
        match &self.0 {
            Text::Detached(_) => true,
            Text::Written(text) => detached::is_detached(text),
            Text::Later(_) | Text::Attached(_) => false,
        }
    }

    /// The text with its files. It is not kept: only an entry's reader needs it.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn whole(&self) -> Result<Cow<'_, str>, String> {
        match &self.0 {
            Text::Attached(attached) => Ok(attached.write().into()),
            _ if self.is_detached() => Err(
                "its files are not with it: `StoreHandle` reads an entry with its files".to_owned(),
            ),
            _ => Ok(Cow::Borrowed(self)),
        }
    }

    /// The text without the files that a store keeps beside it.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn without_files(&self) -> Result<Cow<'_, str>, String> {
        match &self.0 {
            Text::Attached(attached) => Ok(attached.entry().into()),
            _ if self.is_detached() => Ok(Detached::read(self)?.entry.get().into()),
            _ => Ok(Cow::Borrowed(self)),
        }
    }

    /// The hashes of the files that a store keeps beside it.
    pub(super) fn files(&self) -> Result<Vec<Digest>, String> {
        match &self.0 {
            Text::Attached(attached) => Ok(attached.files().into_iter().map(|it| it.0).collect()),
            _ if self.is_detached() => Ok(Detached::read(self)?.hashes()),
            _ => Ok(Vec::new()),
        }
    }

    /// The length of the text in bytes, with its files.
    #[allow(clippy::len_without_is_empty, reason = "no entry has an empty text")]
    pub fn len(&self) -> usize {
        match &self.0 {
            Text::Attached(attached) => attached.len(),
            _ => str::len(self),
        }
    }
}

impl Deref for LineText {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Text::Written(text) | Text::Detached(text) => text,
            Text::Later(later) => later.text(),
            Text::Attached(attached) => attached.text(),
        }
    }
}

impl<L: Later + 'static> From<Arc<L>> for LineText {
    fn from(later: Arc<L>) -> Self {
        Self(Text::Later(later))
    }
}

impl From<Box<str>> for LineText {
    fn from(text: Box<str>) -> Self {
        Self(Text::Written(text))
    }
}

impl From<String> for LineText {
    fn from(text: String) -> Self {
        Self(Text::Written(text.into()))
    }
}

impl From<&str> for LineText {
    fn from(text: &str) -> Self {
        Self(Text::Written(text.into()))
    }
}

impl Eq for LineText {}

impl PartialEq for LineText {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for LineText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for LineText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{
        contract::Line,
        vocabulary::{Digest, Message, Outcome, RunId, Spent, Timestamp},
    };

    #[test]
    fn an_entry_has_the_same_text_whenever_it_is_read() {
        let (run, digest) = (RunId::from_random(1), Digest::of(b"team"));
        let start = RunStart::new(run, "team", "agent", digest, Message::user("\"hi\""));
        let entry = Entry::RunStarted(Box::new(start.clone()));
        let at = Timestamp::default();
        let encoded = Line::encode(at, &entry).unwrap();
        let later = Line::later(at, entry);
        let copy = later.clone();
        assert_eq!([&later, &copy], [&encoded, &encoded]);
        // It is written once for all copies.
        assert_eq!(later.text.as_ptr(), copy.text.as_ptr());
        assert_eq!(Line::later(at, Arc::new(start)), encoded);
        let end = TurnEnd::new(run, "desk", vec![Arc::new(Message::user("a\n"))]);
        let entry = Entry::TurnEnded(Box::new(end.clone()));
        let encoded = Line::encode(at, &entry).unwrap();
        assert_eq!(Line::later(at, Arc::new(end)), encoded);
        let end = RunEnd::of(&Ok(Outcome::answer("\"done\"")), Spent::default());
        let entry = Entry::RunEnded(Box::new(end.clone()));
        let encoded = Line::encode(at, &entry).unwrap();
        assert_eq!(Line::later(at, Arc::new(end)), encoded);
    }
}
