//! The identity of the model or tool that a call reaches.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, Weak},
};

/// The model or the tool that a call reaches. Two are equal if they are one thing, whatever they are called: agents may have
/// different tools and models of one name. An interceptor that keeps something of each keeps it by this.
///
/// It does not keep the model or the tool. As long as it exists, no other is equal to it.
#[derive(Clone)]
pub struct Callee(Arc<dyn Reached>);

/// A thing that others keep.
trait Reached: Send + Sync {
    fn is_gone(&self) -> bool;
    /// Where it is, or was: no other thing is there while this one is known.
    fn address(&self) -> usize;
}

impl<T: ?Sized + Send + Sync> Reached for Weak<T> {
    fn is_gone(&self) -> bool {
        self.strong_count() == 0
    }

    fn address(&self) -> usize {
        self.as_ptr().cast::<()>().addr()
    }
}

impl Callee {
    pub(super) fn of<T: ?Sized + Send + Sync + 'static>(reached: &Arc<T>) -> Self {
        Self(Arc::new(Arc::downgrade(reached)))
    }

    /// Whether it no longer exists, so that no call reaches it again.
    pub fn is_gone(&self) -> bool {
        self.0.is_gone()
    }
}

impl PartialEq for Callee {
    fn eq(&self, other: &Self) -> bool {
        self.0.address() == other.0.address()
    }
}

impl Eq for Callee {}

impl Hash for Callee {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.address().hash(state);
    }
}

impl fmt::Debug for Callee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Callee({:#x})", self.0.address())
    }
}
