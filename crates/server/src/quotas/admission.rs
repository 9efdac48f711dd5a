//! The admission of turns, and the settlement of their use when their runs have ended.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use ghostlight_actors::{
    actor::{Run, System, SystemError},
    contract::StoreError,
    definition::{TeamSpec, WhileBusy},
    session::Turn,
    vocabulary::{Budget, RunId, SessionId},
};

use super::{
    bucket::{CALL, Use},
    ledger::{Act, Buckets, Ledger, Slot, now_ms},
    quota::{Quota, QuotaFor},
};
use crate::{access::fresh_id, caller::Caller, problem::Problem};

/// The shortest time between two searches of a quota for ended turns that still have reservations.
const SWEEP: Duration = Duration::from_secs(1);
/// How many quotas are remembered with the time of their last search.
const MAX_SWEPT: usize = 10_000;

/// The quotas of a server.
#[derive(Clone, Debug)]
pub(crate) struct Quotas {
    system: System,
    rules: Arc<[(QuotaFor, Quota)]>,
    ledger: Ledger,
    swept: Arc<parking_lot::Mutex<BTreeMap<String, Instant>>>,
}

/// A turn that was admitted.
#[derive(Debug)]
pub(crate) struct Admission {
    id: String,
    buckets: Buckets,
}

impl Quotas {
    pub(crate) fn new(system: &System, rules: &[(QuotaFor, Quota)]) -> Self {
        Self {
            system: system.as_operator(),
            rules: rules.into(),
            ledger: Ledger::new(system.store().clone()),
            swept: Arc::default(),
        }
    }

    /// Takes a turn out of all of its quotas, or out of none; `None` where it has no quotas, or is recorded already. A
    /// turn without an id is given one, so that its run is known.
    pub(crate) async fn admit(
        &self,
        caller: &Caller,
        session: &SessionId,
        turn: &mut Turn,
        slot: &Slot,
    ) -> Result<Option<Admission>, Problem> {
        let buckets = self.buckets(caller, (&session.team, Some(&session.key)));
        if buckets.is_empty() {
            return Ok(None);
        }
        let id = turn.id.take().map_or_else(fresh_id, Ok)?;
        let id = turn.id.insert(id);
        let run = RunId::of_turn(session, id);
        let is_recorded = async || Ok::<_, Problem>(self.system.store().run(run).await?.is_some());
        if is_recorded().await? {
            return Ok(None);
        }
        let team = self.system.team(&session.team);
        // A turn that a run has heard has no run of its own, and costs nothing a second time either.
        let steers = |team: &TeamSpec| team.while_busy == WhileBusy::Steer;
        if team.as_ref().is_some_and(steers) {
            let kept = self.system.session(session.team.clone(), &session.key);
            if kept.has_turn(id).await? {
                return Ok(None);
            }
        }
        let mut budget = turn.budget;
        if buckets.values().any(|quota| quota.measure.is_settled()) {
            budget = team
                .as_ref()
                .map_or(budget, |team| budget.narrowed(&team.budget));
        }
        let taken = self.take(run.to_string(), buckets, &budget, slot).await;
        // Meanwhile another request may have said the same turn, and paid for it.
        if !is_recorded().await? {
            return taken.map(Some);
        }
        if let Ok(admission) = taken {
            self.give_back(admission).await;
        }
        Ok(None)
    }

    /// The same for a run that begins without a turn, such as a fork.
    pub(crate) async fn admit_fork(
        &self,
        caller: &Caller,
        team: &str,
        slot: &Slot,
    ) -> Result<Option<Admission>, Problem> {
        // It goes on in a session of its own.
        let buckets = self.buckets(caller, (team, None));
        if buckets.is_empty() {
            return Ok(None);
        }
        let id = format!("fork-{}", fresh_id()?);
        let budget = Budget::default();
        self.take(id, buckets, &budget, slot).await.map(Some)
    }

    /// The buckets that pay for a caller's turn at a team, in the session of this key.
    fn buckets(&self, caller: &Caller, (team, session): (&str, Option<&str>)) -> Buckets {
        let mut buckets = Buckets::new();
        for (whose, quota) in self.rules.iter() {
            let whom = match whose {
                QuotaFor::Tenant => caller.tenant(),
                QuotaFor::Session => session,
                _ => caller.subject(),
            };
            let name = match (whose, whom) {
                (QuotaFor::Team, _) => format!("team/{team}"),
                (QuotaFor::Subject, Some(subject)) => format!("subject/{subject}"),
                (QuotaFor::SubjectAndTeam, Some(subject)) => format!("subject/{subject}/{team}"),
                (QuotaFor::Tenant, Some(tenant)) => format!("tenant/{tenant}"),
                (QuotaFor::Session, Some(session)) => format!("session/{team}/{session}"),
                (_, None) => continue,
            };
            buckets.insert(format!("{quota}/{name}"), *quota);
        }
        if let Some((key, quotas)) = caller.key() {
            let name = |quota: &Quota| (format!("{quota}/key/{key}"), *quota);
            buckets.extend(quotas.iter().map(name));
        }
        buckets
    }

    async fn take(
        &self,
        id: String,
        buckets: Buckets,
        budget: &Budget,
        slot: &Slot,
    ) -> Result<Admission, Problem> {
        let act = Act::Take(Use {
            tokens: budget.tokens.unwrap_or(CALL.tokens),
            cost_micros: budget.cost_micros.unwrap_or(CALL.cost_micros),
        });
        // Reservations that an earlier process left are settled first.
        self.sweep(&buckets, Duration::MAX).await?;
        let mut standing = self.ledger.change(&id, buckets.clone(), act).await?;
        let refused = standing.as_ref().and_then(|standing| standing.refusal());
        if refused.is_some() && self.sweep(&buckets, SWEEP).await? {
            standing = self.ledger.change(&id, buckets.clone(), act).await?;
        }
        let refused = standing.as_ref().and_then(|standing| standing.refusal());
        if let Some(standing) = standing {
            let _ = slot.set(standing);
        }
        refused.map_or(Ok(Admission { id, buckets }), Err)
    }

    /// Settles a turn now that it is recorded, and its tokens and money when its run has ended, in a task of its own. Should
    /// the process die before that, the next request that uses the quota settles the reservation.
    pub(crate) fn follow(&self, admission: Admission, run: &Run, before: Use) {
        let Admission { id, buckets } = admission;
        let is_settled = |(_, quota): &(String, Quota)| quota.measure.is_settled();
        let (buckets, turns): (Buckets, Buckets) = buckets.into_iter().partition(is_settled);
        let (quotas, run) = (self.clone(), run.clone());
        tokio::spawn(async move {
            // Until the session knows a turn that was said to a run under way, its reservation tells that it is paid.
            if run.has_joined() && run.outcome().await.is_err_and(|error| is_left(&error)) {
                return;
            }
            let settled = quotas.ledger.change(&id, turns, Act::Settle(Use::of(1)));
            if let Err(error) = settled.await {
                tracing::warn!(run = id, %error, "a quota of turns is not settled yet");
            }
            if buckets.is_empty() {
                return;
            }
            if run.outcome().await.is_err_and(|error| is_left(&error)) {
                return;
            }
            // A turn that was said to a run under way pays only where it became a run of its own: that of another turn
            // pays for itself.
            let used = match run.taker().await {
                Ok(run) if run.id().to_string() == id || id.starts_with("fork-") => {
                    let used = used(&quotas.system.run(run.id())).await;
                    used.map(|used| used.less(before))
                }
                Ok(_) => Ok(Use::default()),
                Err(error) => Err(error),
            };
            let settled = match used {
                Ok(used) => quotas.ledger.change(&id, buckets, Act::Settle(used)).await,
                Err(error) => return tracing::warn!(run = id, %error, "a quota is not settled yet"),
            };
            if let Err(error) = settled {
                tracing::warn!(run = id, %error, "a quota is not settled yet");
            }
        });
    }

    /// The caller's quotas: what each belongs to, how much is left, and in how many seconds the whole amount is
    /// available again. Quotas of teams are left out.
    pub(crate) async fn standings(
        &self,
        caller: &Caller,
    ) -> Result<Vec<(&'static str, Quota, u64, u64)>, StoreError> {
        let mut standings = Vec::new();
        for (name, quota) in self.buckets(caller, ("", None)) {
            let whose = match name.split('/').nth(2) {
                Some("key") => "key",
                Some("tenant") => "tenant",
                Some("subject") if !name.ends_with('/') => "subject",
                _ => continue,
            };
            let bucket = self.ledger.bucket(&name, quota).await?;
            let full_in_s = bucket.full_in_ms(quota).div_ceil(1_000);
            standings.push((whose, quota, bucket.left(quota), full_in_s));
        }
        Ok(standings)
    }

    /// Fills the quotas of one subject, tenant, team, session (`TEAM/KEY`) or key; how many there were. Turns that are
    /// under way take nothing of them when they are settled.
    pub(crate) async fn reset(&self, whose: &str, name: &str) -> Result<usize, StoreError> {
        let own = format!("{whose}/{name}");
        // The subject's quotas at each team go with its own.
        let at_teams = format!("subject/{name}/");
        self.ledger
            .clear(|bucket| {
                let Some(bucket) = bucket.splitn(3, '/').nth(2) else {
                    return false;
                };
                bucket == own || (whose == "subject" && bucket.starts_with(&at_teams))
            })
            .await
    }

    /// Takes a message of a person who may send one in this time, in whole seconds; the refusal, where it comes too early.
    #[cfg(feature = "deliveries")]
    pub(crate) async fn cool_down(
        &self,
        who: &str,
        id: &str,
        time: Duration,
    ) -> Result<Option<axum::response::Response>, Problem> {
        use axum::response::IntoResponse as _;
        let quota = Quota {
            measure: super::Measure::Turns,
            amount: 1,
            window_s: u32::try_from(time.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX),
        };
        let buckets = Buckets::from([(format!("{quota}/messenger/{who}"), quota)]);
        let standing = self
            .ledger
            .change(id, buckets, Act::Take(Use::default()))
            .await?;
        let refused = standing.and_then(|standing| {
            let mut refused = standing.refusal()?.into_response();
            standing.tell(refused.headers_mut());
            Some(refused)
        });
        Ok(refused)
    }

    /// Gives back the amount that a turn took, if it was not said.
    pub(crate) async fn give_back(&self, admission: Admission) {
        let Admission { id, buckets } = admission;
        if let Err(error) = self.ledger.change(&id, buckets, Act::GiveBack).await {
            tracing::warn!(run = id, %error, "what a refused turn took of its quotas is not given back");
        }
    }

    /// Settles ended turns, in quotas that were not searched for this long; whether there were any.
    async fn sweep(&self, buckets: &Buckets, since: Duration) -> Result<bool, StoreError> {
        let mut any = false;
        for (name, quota) in buckets {
            if !quota.measure.is_settled() || !self.is_due(name, since) {
                continue;
            }
            let bucket = self.ledger.bucket(name, *quota).await?;
            for (id, reserved, at_ms) in bucket.reservations() {
                let run = id.parse::<RunId>().ok();
                let row = match run {
                    Some(run) => self.system.store().run(run).await?,
                    None => None,
                };
                let used = match (run, row) {
                    (Some(run), Some(row)) if row.status.is_ended() => {
                        used(&self.system.run(run)).await.ok()
                    }
                    (_, Some(_)) => None,
                    // A turn that waits for its session, or whose process died, costs what it reserved once the window
                    // is over.
                    (_, None) if now_ms().saturating_sub(at_ms) > quota.window_ms() => {
                        Some(Use::of(reserved))
                    }
                    (_, None) => None,
                };
                if let Some(used) = used {
                    let one = Buckets::from([(name.clone(), *quota)]);
                    self.ledger.change(id, one, Act::Settle(used)).await?;
                    any = true;
                }
            }
        }
        Ok(any)
    }

    fn is_due(&self, name: &str, since: Duration) -> bool {
        let mut swept = self.swept.lock();
        if swept.get(name).is_some_and(|at| at.elapsed() < since) {
            return false;
        }
        if swept.len() >= MAX_SWEPT {
            swept.clear();
        }
        swept.insert(name.to_owned(), Instant::now());
        true
    }
}

/// Whether this is no end of a run: the next caller settles what is reserved.
fn is_left(error: &SystemError) -> bool {
    !matches!(error, SystemError::Failed { .. })
}

/// The tokens and the money that a run has used.
pub(crate) async fn used(run: &Run) -> Result<Use, SystemError> {
    let usage = run.budget().await?.spent.usage;
    Ok(Use {
        tokens: usage.total_tokens(),
        cost_micros: usage.cost_micros,
    })
}
