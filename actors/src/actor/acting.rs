//! For whom a handle acts.

use std::sync::Arc;

use super::{System, SystemError};
use crate::{
    contract::RunRow,
    run::Recorded,
    vocabulary::{JournalId, RunId, SessionId},
};

/// For whom handles act.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Acting {
    /// For the program: it looks at everything, and acts in what belongs to nobody.
    #[default]
    Program,
    /// For this owner, in what belongs to that owner or to nobody.
    Owner(Arc<str>),
    /// For whoever operates the program, in everything.
    Operator,
}

/// The purpose for which a handle is used: to look, or to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It shows something.
    Look,
    /// It changes something.
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

    /// Whether nothing has to be known to allow this.
    fn may_always(&self, what: Use) -> bool {
        match self {
            Self::Program => what == Use::Look,
            Self::Owner(_) => false,
            Self::Operator => true,
        }
    }

    /// Checks that it may be done to what belongs to this owner.
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

/// For whom handles act. A session, its runs and what is kept of them belong to the owner whom the
/// first turn names ([`Turn::owner`](crate::session::Turn::owner)); all doors keep to one rule.
///
/// | a handle of | what belongs to an owner | what belongs to nobody |
/// |---|---|---|
/// | `system` | shows; a turn must name the owner; nothing else is changed | shows and changes |
/// | `system.acting_for("ada")` | shows and changes ada's, and refuses all others' | shows and changes |
/// | `system.as_operator()` | shows and changes; a turn must name the owner | shows and changes |
///
/// A refusal is [`SystemError::Foreign`].
impl System {
    /// The same System for this owner: sessions and runs that are asked for through it show and
    /// change what belongs to that owner or to nobody. Give such handles to code that serves one
    /// of several people.
    ///
    /// ```no_run
    /// # async fn show(system: ghostlight_actors::actor::System, run: ghostlight_actors::vocabulary::RunId)
    /// #     -> Result<(), ghostlight_actors::actor::SystemError> {
    /// let hers = system.acting_for("ada");
    /// let turn = hers.session("desk", "customer-42").send("80 euro with 19% VAT?").await?;
    /// hers.run(run).cancel("she asked for it").await?; // or `SystemError::Foreign`
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn acting_for(&self, owner: impl Into<String>) -> Self {
        self.acting_as(Acting::Owner(owner.into().into()))
    }

    /// The same System for whoever operates the program: what its handles do is refused to none.
    /// The command line acts so.
    #[must_use]
    pub fn as_operator(&self) -> Self {
        self.acting_as(Acting::Operator)
    }

    /// Checks that this may be done to a run, or a run below it. One that is not there is left to
    /// those who look for it.
    pub(super) async fn check_run(&self, run: RunId, what: Use) -> Result<(), SystemError> {
        if self.acting().may_always(what) {
            return Ok(());
        }
        let services = &self.shared().services;
        let Some(RunRow { run, .. }) = services.current(run).await? else {
            return self.acting().check(None, what, String::new);
        };
        let first = services.store.read(JournalId::Run(run), 0, 1).await?;
        let start = Recorded::fold(&first, run)?.start;
        let Some(start) = start else {
            return Err(SystemError::UnknownRun(run));
        };
        let session = || {
            let session = start.session.as_ref();
            session.map_or_else(|| run.to_string(), SessionId::to_string)
        };
        self.acting().check(start.owner.as_deref(), what, session)
    }
}
