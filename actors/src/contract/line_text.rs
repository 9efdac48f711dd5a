//! Texts that are written when somebody reads them.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;

use crate::vocabulary::{Entry, RunEnd, RunStart, TurnEnd, canonical};

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
}

/// A text that is written when it is first read.
pub(crate) trait Later: Send + Sync {
    fn text(&self) -> &str;
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
}

/// A value with a text in JSON, which is the same each time that it is asked for.
pub(crate) trait AsText: Send + Sync {
    /// Appends the text.
    fn write(&self, into: &mut Vec<u8>);
}

/// An entry always has a form as JSON: the keys of all its maps are texts, and a result is in it as JSON.
impl AsText for Entry {
    fn write(&self, into: &mut Vec<u8>) {
        let _ = canonical::write_as_given(self, into);
    }
}

macro_rules! shared_entries {
    ($($content:ty: $name:literal;)*) => {$(
        impl AsText for Arc<$content> {
            fn write(&self, into: &mut Vec<u8>) {
                into.extend_from_slice(concat!("{\"", $name, "\":").as_bytes());
                let _ = canonical::write_as_given(&**self, into);
                into.push(b'}');
            }
        }
    )*};
}

// Entries that share their content with a run or its session.
shared_entries! {
    RunStart: "run_started";
    RunEnd: "run_ended";
    TurnEnd: "turn_ended";
}

impl LineText {
    /// The text of this, when somebody reads it.
    pub(crate) fn of(what: impl AsText + 'static) -> Self {
        Unread::new(what).into()
    }
}

impl<L: Later + 'static> From<Arc<L>> for LineText {
    fn from(later: Arc<L>) -> Self {
        Self(Text::Later(later))
    }
}

impl Deref for LineText {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Text::Written(text) => text,
            Text::Later(later) => later.text(),
        }
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
