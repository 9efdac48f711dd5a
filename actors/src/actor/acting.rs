//! The party for which a handle acts: the program, an owner or the operator.

use std::sync::Arc;

use super::SystemError;

/// The party for which handles act.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Acting {
    /// The program: it looks at everything, and acts in what belongs to nobody.
    #[default]
    Program,
    /// One owner: it acts in what belongs to that owner or to nobody.
    Owner(Arc<str>),
    /// The operator of the program: it acts in everything.
    Operator,
}

/// The purpose for which a handle is used: to look, or to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// To show something.
    Look,
    /// To change something.
    Act,
}

impl Acting {
    /// The owner, if it acts for one.
    pub(crate) fn owner(&self) -> Option<&str> {
        match self {
            Self::Owner(owner) => Some(owner),
            Self::Program | Self::Operator => None,
        }
    }

    /// Whether this use is allowed whoever the owner is.
    pub(super) fn may_always(&self, what: Use) -> bool {
        match self {
            Self::Program => what == Use::Look,
            Self::Owner(_) => false,
            Self::Operator => true,
        }
    }

    /// Checks that this use is allowed for what belongs to this owner.
    pub(crate) fn check(
        &self,
        owner: Option<&str>,
        what: Use,
        session: impl FnOnce() -> String,
    ) -> Result<(), SystemError> {
        let may = match (self, owner) {
            (Self::Owner(name), _) if name.trim().is_empty() => {
                return Err(SystemError::EmptyOwner);
            }
            (Self::Owner(name), Some(owner)) => **name == *owner,
            (_, None) => true,
            (_, Some(_)) => self.may_always(what),
        };
        if may {
            return Ok(());
        }
        let session = session();
        Err(SystemError::Foreign { session })
    }
}
