//! Schedules, and the turns that they send.

use std::{collections::HashSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::System;
use crate::{
    actor::{
        SystemError,
        acting::Acting,
        shared::{Shared, TeamEntry},
    },
    contract::{Batch, Expected, StateWrite, StoreError},
    definition::{DefinitionError, Missed, Schedule},
    session::Turn,
    vocabulary::Timestamp,
};

/// The scope of shared state in which schedules are kept; the keys are team and name.
const SCOPE: &str = "schedules";
/// The pause between two looks for schedules that another process keeps; a longer `SystemOptions::poll_interval`
/// replaces it.
const LOOK: Duration = Duration::from_secs(60);
/// The largest difference between the clocks of the processes over a store.
const SKEW: Duration = Duration::from_secs(60);
/// The pause after a turn that could not be sent.
const RETRY: Duration = Duration::from_secs(10);
/// How often the writing of a schedule is retried when its record changed meanwhile.
const TRIES: u32 = 8;

/// A schedule that a store keeps.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Scheduled {
    /// The team.
    pub team: String,
    /// The schedule.
    pub schedule: Schedule,
    /// The next time at which it is due.
    pub next: Option<Timestamp>,
}

/// A schedule as the store keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredSchedule {
    schedule: Schedule,
    /// The time at which it was first kept.
    since: Timestamp,
    /// The first time for which no turn was sent yet.
    next: Option<Timestamp>,
    /// Whether the team's definition names it; such a schedule goes when the definition drops it.
    declared: bool,
    /// The highest version of the team whose definition names it. Processes with an older one leave it alone.
    #[serde(default)]
    version: u32,
}

impl StoredSchedule {
    /// A schedule that the definition of this version names, or that was kept by hand.
    fn new(schedule: Schedule, now: Timestamp, version: Option<u32>) -> Self {
        let next = schedule.next(now, now);
        Self {
            schedule,
            since: now,
            next,
            declared: version.is_some(),
            version: version.unwrap_or_default(),
        }
    }

    /// Whether this is the same schedule, whatever its next time is.
    fn is(&self, other: &Self) -> bool {
        self.schedule == other.schedule && self.declared == other.declared
    }

    /// The schedule as it is to be kept after the clock was set back: an earlier time replaces the
    /// next time, which was too far off by then. `None` where the next time is right. A time whose
    /// turn was sent keeps the turn's id, so that turn is not begun twice.
    fn after_set_back(&self, now: Timestamp) -> Option<Self> {
        // The clocks of several machines differ by seconds.
        let upcoming = self.schedule.next(self.since.min(now), now.after(SKEW));
        (upcoming.is_some() && upcoming < self.next).then(|| Self {
            since: self.since.min(now),
            next: upcoming,
            ..self.clone()
        })
    }

    /// The time for which a turn is to be sent now.
    fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let first = self.next.filter(|next| *next <= now)?;
        let last = self
            .schedule
            .last(self.since, now)
            .unwrap_or(first)
            .max(first);
        match self.schedule.missed {
            Missed::Skip => (now.since(last) < Missed::LATE).then_some(last),
            Missed::Once => Some(last),
        }
    }
}

/// A record of the store, with its key and version.
type Record = (String, StoredSchedule, u64);

impl System {
    /// Keeps a schedule for a team of this System: from now on a turn is sent at each of its times,
    /// by any process that has the store open. It replaces a schedule of the same name; keeping the
    /// same schedule again changes nothing.
    ///
    /// A turn's id is made from the schedule's name and the time, so each time has one turn. Where
    /// the System [acts for an owner](Self::acting_for), so does the schedule.
    ///
    /// # Errors
    /// [`SystemError::UnknownTeam`], [`SystemError::Definition`] when the schedule cannot be
    /// kept, [`SystemError::Foreign`] when it speaks for somebody else or takes the place of
    /// somebody else's, what the store fails with.
    pub async fn schedule(
        &self,
        team: impl Into<String>,
        mut schedule: Schedule,
    ) -> Result<(), SystemError> {
        let (team, shared): (String, _) = (team.into(), self.shared());
        shared.known_team(&team)?;
        DefinitionError::of_schedule(&schedule)?;
        let key = format!("{team}/{}", schedule.name);
        self.acting().speak(&mut schedule.owner, &key)?;
        self.check_schedule(&key).await?;
        shared.keep(&team, schedule, None).await?;
        shared.schedules.notify_one();
        Ok(())
    }

    /// Removes a team's schedule. `false` when there is none of this name. A schedule that the
    /// team's definition names comes back with the next start.
    ///
    /// # Errors
    /// [`SystemError::Foreign`] when it is somebody else's; the errors of the store.
    pub async fn unschedule(&self, team: &str, name: &str) -> Result<bool, SystemError> {
        let key = format!("{team}/{name}");
        let there = self.check_schedule(&key).await?;
        if there {
            self.shared().put(key, None, Expected::Any).await?;
            self.shared().schedules.notify_one();
        }
        Ok(there)
    }

    /// Checks that the schedule of this key may be changed here. `false` when there is none.
    async fn check_schedule(&self, key: &str) -> Result<bool, SystemError> {
        let mut kept = self.shared().kept().await?.into_iter();
        let Some((_, kept, _)) = kept.find(|(at, ..)| at == key) else {
            return Ok(false);
        };
        self.acting().speak(&mut kept.schedule.owner.clone(), key)?;
        Ok(true)
    }

    /// The schedules that the store keeps, by team and name.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn schedules(&self) -> Result<Vec<Scheduled>, SystemError> {
        let kept = self.shared().kept().await?.into_iter();
        let scheduled = |(key, kept, _): Record| Scheduled {
            team: team_of(&key).to_owned(),
            schedule: kept.schedule,
            next: kept.next,
        };
        Ok(kept.map(scheduled).collect())
    }
}

/// The names of teams hold no `/`.
fn team_of(key: &str) -> &str {
    key.split_once('/').map_or(key, |(team, _)| team)
}

impl Shared {
    /// All records. A record that cannot be decoded is left alone: a later version wrote it.
    async fn kept(&self) -> Result<Vec<Record>, StoreError> {
        let values = self.services.store.scope(SCOPE.to_owned()).await?;
        let records = values.into_iter();
        let records = records.filter_map(|(key, found)| {
            let kept = serde_json::from_value::<StoredSchedule>(found.value).ok()?;
            Some((key, kept, found.version))
        });
        Ok(records.collect())
    }

    async fn put(
        &self,
        key: String,
        kept: Option<&StoredSchedule>,
        expected: Expected,
    ) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.writes.push(StateWrite {
            scope: SCOPE.to_owned(),
            key,
            value: kept.and_then(|kept| serde_json::value::to_raw_value(kept).ok()),
            expected,
        });
        self.services.store.commit_one(batch).await.map(drop)
    }

    /// Keeps a schedule with its new next time. If another process did so first, its record counts.
    async fn keep_anew(&self, key: String, kept: &StoredSchedule, version: u64) {
        match self.put(key, Some(kept), Expected::Version(version)).await {
            Ok(()) => self.schedules.notify_one(),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => tracing::warn!(%error, "a schedule could not be kept anew"),
        }
    }

    async fn keep(
        &self,
        team: &str,
        schedule: Schedule,
        version: Option<u32>,
    ) -> Result<(), StoreError> {
        let key = format!("{team}/{}", schedule.name);
        let mut kept = StoredSchedule::new(schedule, self.services.clock.now(), version);
        let mut tries = 0;
        loop {
            let found = self.kept().await?;
            let found = found.into_iter().find(|(at, ..)| *at == key);
            let expected = match &found {
                Some((_, found, _)) if kept.declared && found.version > kept.version => {
                    return Ok(());
                }
                Some((_, found, at)) if found.is(&kept) => {
                    if found.version == kept.version {
                        return Ok(());
                    }
                    (kept.since, kept.next) = (found.since, found.next);
                    Expected::Version(*at)
                }
                Some((.., at)) => Expected::Version(*at),
                None => Expected::Any,
            };
            match self.put(key.clone(), Some(&kept), expected).await {
                // A turn of the schedule has just been sent, or another process keeps it.
                Err(StoreError::Conflict { .. }) if tries < TRIES => tries += 1,
                result => return result,
            }
        }
    }

    /// Keeps the schedules of the definitions of this System's teams, and removes those that the
    /// definitions named before.
    pub(super) async fn declare_schedules(&self) -> Result<(), StoreError> {
        let teams: Vec<_> = self.teams.read().values().cloned().collect();
        for (key, kept, version) in self.kept().await? {
            let team = teams.iter().find(|t| t.pinned.team.name == team_of(&key));
            let named = |team: &TeamEntry| {
                let schedules = &team.pinned.team.schedules;
                schedules
                    .iter()
                    .any(|s| s.is_enabled() && s.name == kept.schedule.name)
            };
            let drops = |team: &TeamEntry| team.pinned.team.version >= kept.version && !named(team);
            if kept.declared && team.is_some_and(drops) {
                self.put(key, None, Expected::Version(version)).await?;
            }
        }
        for team in teams {
            let spec = &team.pinned.team;
            for schedule in spec
                .schedules
                .iter()
                .filter(|schedule| schedule.is_enabled())
            {
                let version = Some(spec.version);
                self.keep(&spec.name, schedule.clone(), version).await?;
            }
        }
        // The scheduler may have looked before the schedules were kept.
        self.schedules.notify_one();
        Ok(())
    }
}

/// Sends the turns of schedules when they are due.
pub(super) async fn keep_time(shared: Arc<Shared>) {
    let clock = shared.services.clock.clone();
    let mut saying: JoinSet<String> = JoinSet::new();
    let mut busy: HashSet<String> = HashSet::new();
    loop {
        let now = clock.now();
        let mut look = now.after(LOOK.max(shared.limits.poll_interval));
        let kept = shared.kept().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "schedules cannot be looked at");
            Vec::new()
        });
        for (key, kept, version) in kept {
            if busy.contains(&key) || shared.team(team_of(&key)).is_none() {
                continue;
            }
            let Some(next) = kept.next else { continue };
            if next > now {
                look = look.min(next);
                if let Some(kept) = kept.after_set_back(now) {
                    shared.keep_anew(key, &kept, version).await;
                }
                continue;
            }
            busy.insert(key.clone());
            saying.spawn(say(shared.clone(), (key, kept, version)));
        }
        tokio::select! {
            Some(said) = saying.join_next(), if !saying.is_empty() => match said {
                Ok(key) => {
                    busy.remove(&key);
                }
                // It is not known whose turn failed; a turn that was sent already is not begun
                // again.
                Err(_) => busy.clear(),
            },
            () = shared.schedules.notified() => {}
            () = clock.sleep_until(look) => {}
        }
    }
}

/// Sends the turn of the time that is due, then moves the schedule on. If the process dies in
/// between, the turn is sent again under the same id, and is the same run.
async fn say(shared: Arc<Shared>, (key, mut kept, version): Record) -> String {
    let clock = shared.services.clock.clone();
    let now = clock.now();
    let schedule = &kept.schedule;
    if let Some(at) = kept.due(now) {
        let mut turn = Turn::text(&schedule.say).id(format!("schedule/{}/{}", schedule.name, at.0));
        turn.owner.clone_from(&schedule.owner);
        let session = System(shared.clone(), Acting::default())
            .session(team_of(&key), schedule.session_key());
        let said = match session.send(turn).await {
            // It was said before its text was changed.
            Err(SystemError::OtherTurn { .. }) => Ok(()),
            said => said.map(drop),
        };
        if let Err(error) = said {
            tracing::warn!(schedule = key, %error, "a turn could not be said; it is tried again");
            clock.sleep(RETRY).await;
            return key;
        }
    }
    kept.next = kept.schedule.next(kept.since, now);
    let moved = shared.put(key.clone(), Some(&kept), Expected::Version(version));
    match moved.await {
        // Another process moved the schedule on, or it was changed.
        Ok(()) | Err(StoreError::Conflict { .. }) => {}
        Err(error) => {
            tracing::warn!(schedule = key, %error, "a schedule could not be moved on");
            clock.sleep(RETRY).await;
        }
    }
    key
}
