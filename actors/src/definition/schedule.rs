//! When an agent is woken by itself, as plain data.

use std::{collections::BTreeSet, str::FromStr, time::Duration};

use croner::{Cron, errors::CronError};
use ghostlight_supervisor::seconds;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DefinitionError, form::well_formed};
use crate::vocabulary::Timestamp;

/// A wake-up schedule of a team: at each of its times a turn is said to one of the team's sessions.
///
/// A time is told either by `every_s`, counted from the moment at which the schedule was first kept,
/// or by `cron`, a cron expression of five fields (six with seconds in front), read in `zone`.
///
/// ```
/// use std::time::Duration;
/// use ghostlight_actors::definition::Schedule;
///
/// let hourly = Schedule::every("pulse", Duration::from_secs(3600), "Look for new mail.");
/// let weekdays = Schedule::cron("morning", "0 9 * * 1-5", "Plan the day.").zone("Europe/Berlin");
/// assert!(hourly.check().is_ok() && weekdays.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Schedule {
    /// The name: letters, digits, `_` and `-`, unique in the team.
    pub name: String,
    /// The turn's text.
    pub say: String,
    /// The key of the session to which it is said; the schedule's name when left out.
    pub session: Option<String>,
    /// Who says it, in a session that belongs to somebody.
    pub owner: Option<String>,
    /// The time from one turn to the next.
    #[serde(rename = "every_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub every: Option<Duration>,
    /// A cron expression, such as `0 9 * * 1-5`.
    pub cron: Option<String>,
    /// The IANA time zone in which the cron expression is read, such as `Europe/Berlin`; UTC when
    /// left out.
    pub zone: Option<String>,
    /// What becomes of times at which nobody was there.
    pub missed: Missed,
    /// Whether it is kept; it is when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// What becomes of the times of a schedule that passed while no process was there, or while the
/// schedule's last turn still waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// One turn for all of them, for the last one.
    #[default]
    Once,
    /// Nothing: a time counts only while it is less than a minute old.
    Skip,
}

impl Missed {
    /// How old a scheduled time may be before it counts as missed.
    pub(crate) const LATE: Duration = Duration::from_secs(60);
}

impl Schedule {
    /// A turn at regular intervals.
    pub fn every(name: impl Into<String>, pause: Duration, say: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            say: say.into(),
            every: Some(pause),
            ..Self::default()
        }
    }

    /// A turn at the times of a cron expression.
    pub fn cron(
        name: impl Into<String>,
        expression: impl Into<String>,
        say: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            say: say.into(),
            cron: Some(expression.into()),
            ..Self::default()
        }
    }

    /// Sets the key of the session that gets the turn.
    #[must_use]
    pub fn session(mut self, key: impl Into<String>) -> Self {
        self.session = Some(key.into());
        self
    }

    /// Sets the owner who sends it.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets the time zone of the cron expression.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// Sets what becomes of times that are missed.
    #[must_use]
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Sets whether it is kept.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = Some(enabled);
        self
    }

    /// Whether it is kept.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.unwrap_or(true)
    }

    /// The key of the session that gets the turn.
    pub fn session_key(&self) -> &str {
        self.session.as_deref().unwrap_or(&self.name)
    }

    /// Checks that the schedule has a text and valid times.
    ///
    /// # Errors
    /// What is wrong with the schedule.
    pub fn check(&self) -> Result<(), String> {
        if self.say.trim().is_empty() {
            return Err("it says nothing: give it a text in `say`".to_owned());
        }
        match (self.every, &self.cron) {
            (Some(_), None) if self.every_ms().is_none() => {
                Err("`every_s` is 0: give it a time of at least a millisecond".to_owned())
            }
            (Some(_), None) if self.zone.is_none() => Ok(()),
            (Some(_), None) => Err("only a cron expression has a zone: remove `zone`".to_owned()),
            (None, Some(_)) => {
                let (cron, zone) = self.calendar()?;
                let start = jiff::Timestamp::UNIX_EPOCH.to_zoned(zone);
                let next = cron.find_next_occurrence(&start, false);
                next.map(drop)
                    .map_err(|error| format!("it is never due: {error}"))
            }
            (Some(_), Some(_)) => Err("it has both `every_s` and `cron`: remove one".to_owned()),
            (None, None) => Err("it has no times: give it `every_s` or `cron`".to_owned()),
        }
    }

    /// The milliseconds from one turn to the next, where they are any.
    fn every_ms(&self) -> Option<u64> {
        let every = u64::try_from(self.every?.as_millis()).unwrap_or(u64::MAX);
        (every > 0).then_some(every)
    }

    /// The first time after this moment, for a schedule that was first kept at `since`.
    pub fn next(&self, since: Timestamp, after: Timestamp) -> Option<Timestamp> {
        if let Some(every) = self.every_ms() {
            let passed = after.0.saturating_sub(since.0) / every;
            let times = passed.saturating_add(1);
            return Some(Timestamp(
                since.0.saturating_add(times.saturating_mul(every)),
            ));
        }
        let (cron, zone) = self.calendar().ok()?;
        let next = cron
            .find_next_occurrence(&zoned(after, zone)?, false)
            .ok()?;
        timestamp(&next)
    }

    /// The last time up to this moment, for a schedule that was first kept at `since`.
    pub fn last(&self, since: Timestamp, until: Timestamp) -> Option<Timestamp> {
        if let Some(every) = self.every_ms() {
            let passed = until.0.saturating_sub(since.0) / every;
            return (passed > 0).then(|| Timestamp(since.0 + passed * every));
        }
        let (cron, zone) = self.calendar().ok()?;
        let last = cron
            .find_previous_occurrence(&zoned(until, zone)?, true)
            .ok()?;
        timestamp(&last).filter(|at| *at > since)
    }

    fn calendar(&self) -> Result<(Cron, TimeZone), String> {
        let expression = self.cron.as_deref().unwrap_or_default();
        let cron = Cron::from_str(expression).map_err(|error| not_a_cron(expression, &error))?;
        let zone = match self.zone.as_deref() {
            None => TimeZone::UTC,
            Some(zone) => TimeZone::get(zone)
                .map_err(|error| format!("this machine knows no time zone {zone:?}: {error}"))?,
        };
        Ok((cron, zone))
    }
}

/// Says what is wrong with a cron expression, and with which of its fields.
fn not_a_cron(expression: &str, error: &CronError) -> String {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    let names = [
        "second",
        "minute",
        "hour",
        "day of the month",
        "month",
        "day of the week",
    ];
    let is_wrong = |at: usize| {
        let mut alone = vec!["*"; fields.len()];
        alone[at] = fields[at];
        Cron::from_str(&alone.join(" ")).is_err()
    };
    let count = fields.len();
    let wrong = match count {
        5 | 6 => (0..count).find(|at| is_wrong(*at)),
        _ => None,
    };
    match wrong {
        Some(at) => format!(
            "the {} {:?} of the cron expression {expression:?} is wrong: {error}",
            names[at + names.len() - count],
            fields[at]
        ),
        None => format!(
            "{expression:?} is not a cron expression: {error}; give it five fields, such as `0 7 * * 1-5` (minute, hour, \
             day of the month, month, day of the week)"
        ),
    }
}

fn zoned(at: Timestamp, zone: TimeZone) -> Option<jiff::Zoned> {
    let millis = i64::try_from(at.0).ok()?;
    let at = jiff::Timestamp::from_millisecond(millis).ok()?;
    Some(at.to_zoned(zone))
}

fn timestamp(at: &jiff::Zoned) -> Option<Timestamp> {
    u64::try_from(at.timestamp().as_millisecond())
        .ok()
        .map(Timestamp)
}

impl DefinitionError {
    /// The fault of a schedule, if it has one.
    pub(crate) fn of_schedule(schedule: &Schedule) -> Result<(), Self> {
        let name = schedule.name.clone();
        if !well_formed(&name) {
            let what = "schedule";
            return Err(Self::Name { what, name });
        }
        schedule
            .check()
            .map_err(|reason| Self::Schedule { name, reason })
    }
}

/// Checks the schedules of a team.
///
/// # Errors
/// The first fault, with the schedule's name.
pub(super) fn check_all(schedules: &[Schedule]) -> Result<(), DefinitionError> {
    let mut names = BTreeSet::new();
    for schedule in schedules {
        DefinitionError::of_schedule(schedule)?;
        if !names.insert(schedule.name.as_str()) {
            let (name, reason) = (schedule.name.clone(), "there are two of this name".into());
            return Err(DefinitionError::Schedule { name, reason });
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    /// 2025-03-29 at 12:00 UTC, the day before clocks go forward in Berlin.
    const NOON: u64 = 1_743_249_600_000;

    #[test]
    fn a_pause_is_counted_from_when_the_schedule_was_kept() {
        let hourly = Schedule::every("a", Duration::from_secs(3600), "x");
        let since = Timestamp(NOON + 5);
        assert_eq!(hourly.next(since, since), Some(Timestamp(NOON + 5 + HOUR)));
        assert_eq!(hourly.last(since, since), None);
        let later = Timestamp(NOON + 5 + 3 * HOUR);
        assert_eq!(hourly.last(since, later), Some(later));
        assert_eq!(hourly.next(since, later), Some(Timestamp(later.0 + HOUR)));
    }

    #[test]
    fn a_cron_expression_is_read_in_its_zone_also_over_a_change_of_clocks() {
        let daily = Schedule::cron("a", "0 9 * * *", "x").zone("Europe/Berlin");
        daily.check().unwrap();
        let first = daily.next(Timestamp(0), Timestamp(NOON)).unwrap();
        // Nine o'clock in summer time is seven o'clock UTC.
        assert_eq!(first.0, NOON + 19 * HOUR);
        assert_eq!(
            daily.last(Timestamp(0), Timestamp(first.0 + 1)),
            Some(first)
        );
        let before = daily.last(Timestamp(0), Timestamp(first.0 - 1)).unwrap();
        assert_eq!(first.0 - before.0, 23 * HOUR);
    }

    #[test]
    fn a_schedule_that_cannot_be_kept_is_told_why() {
        let minute = Duration::from_secs(60);
        let wrong = [
            (Schedule::every("a", minute, " "), "says nothing"),
            (Schedule::every("a", Duration::ZERO, "x"), "is 0"),
            (Schedule::every("a", minute, "x").zone("UTC"), "only a cron"),
            (
                Schedule::cron("a", "tomorrow", "x"),
                "not a cron expression",
            ),
            (Schedule::cron("a", "0 0 30 2 *", "x"), "never due"),
            (Schedule::cron("a", "0 25 * * *", "x"), "the hour \"25\""),
            (Schedule::cron("a", "0 0 7 * 13 *", "x"), "the month \"13\""),
            (
                Schedule::cron("a", "* * * * *", "x").zone("Mars"),
                "no time zone",
            ),
            (Schedule::default(), "says nothing"),
        ];
        for (schedule, told) in wrong {
            let error = schedule.check().unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
