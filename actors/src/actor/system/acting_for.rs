//! Systems whose handles act for an owner or for the operator.

use super::System;
use crate::{
    actor::{
        SystemError,
        acting::{Acting, Use},
        loaded::start_of,
    },
    contract::RunRow,
    vocabulary::RunId,
};

/// The party for which handles act. A session, its runs and its contents belong to the owner that
/// the first turn names ([`Turn::owner`](crate::session::Turn::owner)), and for good to nobody where
/// it names none; all methods and servers keep to one rule.
///
/// | a handle of | what belongs to an owner | what belongs to nobody |
/// |---|---|---|
/// | `system` | shows; a turn must name the owner; nothing else is changed | shows and changes |
/// | `system.acting_for("ada")` | shows and changes ada's, and refuses all others' | shows and changes |
/// | `system.reading_tenant("acme")` | shows what belongs to owners of that tenant, such as `acme:ada`; changes nothing | refuses |
/// | `system.as_operator()` | shows and changes; a turn must name the owner | shows and changes |
///
/// A refused call returns [`SystemError::Foreign`]. Calls about the whole System ask for no owner and are for the program alone:
/// its store, its supervisor, [`reload`](Self::reload), [`recover`](Self::recover), [`prune`](Self::prune) and
/// [`stop`](Self::stop).
impl System {
    /// The same System for this owner: its handles show and change what belongs to that owner or to
    /// nobody. Give such handles to code that serves one of several people.
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

    /// The same System for a reader of one tenant, such as `acme`: its handles show what belongs to owners of that tenant,
    /// such as `acme:ada` ([`tenant_of`](crate::vocabulary::tenant_of)), and change nothing.
    #[must_use]
    pub fn reading_tenant(&self, tenant: impl Into<String>) -> Self {
        self.acting_as(Acting::Tenant(tenant.into().into()))
    }

    /// The same System for the operator of the program: nothing is refused to its handles. The
    /// command line uses it.
    #[must_use]
    pub fn as_operator(&self) -> Self {
        self.acting_as(Acting::Operator)
    }

    /// Checks that this use of a run, or of a run below another, is allowed. A run that does not
    /// exist is left to the caller, which looks for it.
    pub(in crate::actor) async fn check_run(
        &self,
        run: RunId,
        what: Use,
    ) -> Result<(), SystemError> {
        if self.acting().may_always(what) {
            return Ok(());
        }
        let services = &self.shared().services;
        let Some(RunRow { run, .. }) = services.current(run).await? else {
            return self.acting().check(None, what, run);
        };
        let start = start_of(&services.store, run).await?;
        let start = start.ok_or(SystemError::UnknownRun(run))?;
        let owner = start.owner.as_deref();
        match &start.session {
            Some(session) => self.acting().check(owner, what, session),
            None => self.acting().check(owner, what, run),
        }
    }
}
