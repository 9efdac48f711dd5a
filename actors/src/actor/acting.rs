//! The party for which a handle acts: the program, an owner or the operator.

use std::{fmt, sync::Arc};

use super::SystemError;
use crate::vocabulary::tenant_of;

/// The party for which handles act.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Acting {
    /// The program: it looks at everything, and acts in what belongs to nobody.
    #[default]
    Program,
    /// One owner: it acts in what belongs to that owner or to nobody.
    Owner(Arc<str>),
    /// A reader of one tenant: it looks at what belongs to owners of that tenant, and changes nothing.
    Tenant(Arc<str>),
    /// The operator of the program: it acts in everything.
    Operator,
}

/// The purpose for which a handle is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// To show something.
    Look,
    /// To let a run go on that nobody carries.
    Carry,
    /// To change something.
    Act,
}

impl Acting {
    /// The owner, if it acts for one.
    pub(crate) fn owner(&self) -> Option<&str> {
        match self {
            Self::Owner(owner) => Some(owner),
            Self::Program | Self::Tenant(_) | Self::Operator => None,
        }
    }

    /// Whether this use is allowed whoever the owner is.
    pub(crate) fn may_always(&self, what: Use) -> bool {
        match self {
            Self::Program => what != Use::Act,
            Self::Owner(_) | Self::Tenant(_) => false,
            Self::Operator => true,
        }
    }

    /// Checks that it may speak for the owner that a turn names, and names its own where the turn names none. The program
    /// and the operator may name any owner.
    pub(crate) fn speak(
        &self,
        owner: &mut Option<String>,
        session: impl fmt::Display,
    ) -> Result<(), SystemError> {
        if self.may_always(Use::Look) {
            return Ok(());
        }
        if owner.is_none() {
            *owner = self.owner().map(str::to_owned);
        }
        self.check(owner.as_deref(), Use::Act, session)
    }

    /// Checks that this use is allowed for what belongs to this owner.
    pub(crate) fn check(
        &self,
        owner: Option<&str>,
        what: Use,
        session: impl fmt::Display,
    ) -> Result<(), SystemError> {
        let may = match (self, owner) {
            (Self::Owner(name), _) if name.trim().is_empty() => {
                return Err(SystemError::EmptyOwner);
            }
            (Self::Owner(name), Some(owner)) => **name == *owner,
            (Self::Tenant(tenant), owner) => {
                what == Use::Look && owner.and_then(tenant_of) == Some(&**tenant)
            }
            (_, None) => true,
            (_, Some(_)) => self.may_always(what),
        };
        if may {
            return Ok(());
        }
        let session = session.to_string();
        Err(SystemError::Foreign { session })
    }
}
