//! The specifications of supervisors and children: plain data, checked before anything starts.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::seconds;

/// Which children are restarted when one of them has to be.
///
/// The group strategies restart *every* child in their range, as OTP does. This includes children
/// that were terminated by command, and transient children that had ended normally before the
/// failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Only the child that failed.
    #[default]
    OneForOne,
    /// All children: the others are stopped in reverse order, then all start in order.
    OneForAll,
    /// The child that failed and the children that were started after it.
    RestForOne,
    /// As [`Strategy::OneForOne`], for many short-lived children. A child that has ended for good
    /// is removed at once, and all are stopped together when the supervisor stops. So
    /// `restart_child` and `delete_child` are refused.
    SimpleOneForOne,
}

impl Strategy {
    /// Whether one child's failure restarts others as well.
    #[must_use]
    pub fn is_group(self) -> bool {
        matches!(self, Self::OneForAll | Self::RestForOne)
    }
}

/// The limit on a supervisor's restarts: more than `restarts` within `period` end it.
///
/// Restarts are counted as in OTP: every attempt is one, including an attempt whose start fails;
/// the restart of a whole group is one; and a restart exactly `period` ago still counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intensity {
    /// Allowed restarts; with 0 the first one ends the supervisor.
    pub restarts: u32,
    /// The time window of the count; must not be zero.
    #[serde(rename = "period_s", with = "seconds")]
    pub period: Duration,
}

impl Intensity {
    /// At most `restarts` restarts within `period`.
    #[must_use]
    pub fn new(restarts: u32, period: Duration) -> Self {
        Self { restarts, period }
    }
}

impl Default for Intensity {
    /// OTP's: 1 restart in 5 seconds.
    fn default() -> Self {
        Self::new(1, Duration::from_secs(5))
    }
}

/// The delay of a child's restart: `base × factorⁿ⁻¹` for its n-th failure in a row, at most `max`.
/// It is then shortened at random by up to the share `jitter`, so that children that failed
/// together do not restart together.
///
/// For a child that ran for `reset_after` before it failed, the delay begins again at `base`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Backoff {
    /// The first delay. Zero (the default, and OTP's rule) means no delay, except after an excused
    /// exit.
    #[serde(rename = "base_s", with = "seconds")]
    pub base: Duration,
    /// The factor from one delay to the next; finite, at least 1.
    pub factor: f64,
    /// The longest delay.
    #[serde(rename = "max_s", with = "seconds")]
    pub max: Duration,
    /// The largest random share by which a delay is shortened, from 0 (none) to 1 (all).
    pub jitter: f64,
    /// How long a child must have run for its earlier failures to be ignored.
    #[serde(rename = "reset_after_s", with = "seconds")]
    pub reset_after: Duration,
}

impl Backoff {
    /// Restarts without delay.
    pub const IMMEDIATE: Self = Self {
        base: Duration::ZERO,
        factor: 2.0,
        max: Duration::from_secs(30),
        jitter: 0.0,
        reset_after: Duration::from_secs(60),
    };

    /// Doubles from `base` to `max`, with a jitter of a fifth.
    #[must_use]
    pub fn exponential(base: Duration, max: Duration) -> Self {
        Self {
            base,
            max,
            jitter: 0.2,
            ..Self::IMMEDIATE
        }
    }

    /// The delay of the restart after the `failures`-th failure in a row (from 1), for a random
    /// number `chance` in `[0, 1)`. Never longer than `max`.
    #[must_use]
    pub fn delay(&self, failures: u32, chance: f64) -> Duration {
        if self.base.is_zero() {
            return Duration::ZERO;
        }
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let full = self.base.as_secs_f64() * self.factor.powi(exponent);
        let longest = self.max.as_secs_f64();
        // `min` also limits an overflow to infinity.
        let wait = full.min(longest) * (1.0 - self.jitter * chance);
        Duration::try_from_secs_f64(wait)
            .unwrap_or(self.max)
            .min(self.max)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::IMMEDIATE
    }
}

/// Whether the end of significant children ends the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutoShutdown {
    /// No; then no child may be significant.
    #[default]
    Never,
    /// The end of any significant child ends it.
    AnySignificant,
    /// The end of the last active significant child ends it.
    AllSignificant,
}

/// Whether a child that ended is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// Always.
    #[default]
    Permanent,
    /// After an abnormal end (error, panic, kill, abort); not after a stop.
    Transient,
    /// Never, not even with its group; its spec is removed when it ends.
    Temporary,
}

/// How a child is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shutdown {
    /// Killed at once: its handler is dropped at an await point, and its `post_stop` does not run.
    BrutalKill,
    /// Asked to stop, and killed if it has not ended after this time.
    #[serde(rename = "within_s", with = "seconds")]
    Within(Duration),
    /// Asked to stop, without a time limit.
    Infinity,
}

/// The kind of a child. It only decides the default [`Shutdown`], and how trees are displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildKind {
    /// An actor that works.
    #[default]
    Worker,
    /// An actor that stops children of its own before it ends.
    Supervisor,
}

/// The specification of a child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChildSpec {
    /// The child's name below its supervisor: unique there, known nowhere else.
    pub id: String,
    /// When it is started again.
    #[serde(default)]
    pub restart: Restart,
    /// How it is stopped; see [`ChildSpec::shutdown`] for what `None` means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<Shutdown>,
    /// Whether its end matters for the supervisor's [`AutoShutdown`].
    #[serde(default)]
    pub significant: bool,
    /// Worker or supervisor.
    #[serde(default)]
    pub kind: ChildKind,
}

impl ChildSpec {
    /// A permanent worker with 5 seconds to stop.
    pub fn worker(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            restart: Restart::Permanent,
            shutdown: None,
            significant: false,
            kind: ChildKind::Worker,
        }
    }

    /// A permanent supervisor with unlimited time to stop its children.
    pub fn supervisor(id: impl Into<String>) -> Self {
        Self {
            kind: ChildKind::Supervisor,
            ..Self::worker(id)
        }
    }

    /// The same, started again only after an abnormal end.
    #[must_use]
    pub fn transient(self) -> Self {
        Self {
            restart: Restart::Transient,
            ..self
        }
    }

    /// The same, never started again.
    #[must_use]
    pub fn temporary(self) -> Self {
        Self {
            restart: Restart::Temporary,
            ..self
        }
    }

    /// The same, counting for the supervisor's [`AutoShutdown`].
    #[must_use]
    pub fn significant(self) -> Self {
        Self {
            significant: true,
            ..self
        }
    }

    /// The same, stopped in this way.
    #[must_use]
    pub fn stopped_by(self, shutdown: Shutdown) -> Self {
        Self {
            shutdown: Some(shutdown),
            ..self
        }
    }

    /// How it is stopped: as specified, or else within 5 seconds (worker) or without limit
    /// (supervisor, because a killed supervisor cannot stop its children gently).
    #[must_use]
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.unwrap_or(match self.kind {
            ChildKind::Worker => Shutdown::Within(Duration::from_secs(5)),
            ChildKind::Supervisor => Shutdown::Infinity,
        })
    }

    /// Checks this spec against the supervisor's flag.
    ///
    /// # Errors
    /// [`SpecError::SignificantPermanent`] and [`SpecError::SignificantNever`], as OTP.
    pub fn validate(&self, auto_shutdown: AutoShutdown) -> Result<(), SpecError> {
        if !self.significant {
            return Ok(());
        }
        if auto_shutdown == AutoShutdown::Never {
            return Err(SpecError::SignificantNever {
                id: self.id.clone(),
            });
        }
        if self.restart == Restart::Permanent {
            return Err(SpecError::SignificantPermanent {
                id: self.id.clone(),
            });
        }
        Ok(())
    }
}

/// The specification of a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SupervisorSpec {
    /// Which children are restarted together.
    pub strategy: Strategy,
    /// The limit on restarts.
    pub intensity: Intensity,
    /// The delays of restarts.
    pub backoff: Backoff,
    /// Whether significant children end the supervisor.
    pub auto_shutdown: AutoShutdown,
    /// The seed of the back-off's random numbers. `None` draws a seed when the supervisor starts; a
    /// fixed seed makes every delay repeatable.
    pub seed: Option<u64>,
}

impl SupervisorSpec {
    /// OTP's defaults with this strategy: 1 restart in 5 seconds, no back-off.
    #[must_use]
    pub fn new(strategy: Strategy) -> Self {
        Self {
            strategy,
            ..Self::default()
        }
    }

    /// The same, with at most `restarts` restarts within `period`.
    #[must_use]
    pub fn intensity(self, restarts: u32, period: Duration) -> Self {
        Self {
            intensity: Intensity::new(restarts, period),
            ..self
        }
    }

    /// The same, with these delays of restarts.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// The same, with this rule for significant children.
    #[must_use]
    pub fn auto_shutdown(self, auto_shutdown: AutoShutdown) -> Self {
        Self {
            auto_shutdown,
            ..self
        }
    }

    /// The same, with a fixed seed.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self {
            seed: Some(seed),
            ..self
        }
    }

    /// Checks this spec and the children that are to start with it.
    ///
    /// # Errors
    /// The first fault; see [`SpecError`].
    pub fn validate<'a>(
        &self,
        children: impl IntoIterator<Item = &'a ChildSpec>,
    ) -> Result<(), SpecError> {
        if self.intensity.period.is_zero() {
            return Err(SpecError::PeriodZero);
        }
        if !(self.backoff.factor.is_finite() && self.backoff.factor >= 1.0) {
            return Err(SpecError::BackoffFactor {
                factor: self.backoff.factor,
            });
        }
        if !(0.0..=1.0).contains(&self.backoff.jitter) {
            return Err(SpecError::BackoffJitter {
                jitter: self.backoff.jitter,
            });
        }
        let mut ids = BTreeSet::new();
        for child in children {
            child.validate(self.auto_shutdown)?;
            if !ids.insert(child.id.as_str()) {
                return Err(SpecError::DuplicateId {
                    id: child.id.clone(),
                });
            }
        }
        Ok(())
    }
}

/// A spec that a supervisor refuses, with the correction.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Two children have one id.
    #[error("two children are called `{id}`; give each child of a supervisor an id of its own")]
    DuplicateId {
        /// The id.
        id: String,
    },
    /// The window of the intensity is zero.
    #[error("the restart intensity's period is zero; give a period in which restarts are counted")]
    PeriodZero,
    /// The back-off's factor is below 1 or not a number.
    #[error("the back-off's factor is {factor}; give a finite number of at least 1")]
    BackoffFactor {
        /// The given value.
        factor: f64,
    },
    /// The back-off's jitter is not a share.
    #[error("the back-off's jitter is {jitter}; give a share from 0 to 1")]
    BackoffJitter {
        /// The given value.
        jitter: f64,
    },
    /// A permanent child never ends for good, so its end cannot be significant.
    #[error("child `{id}` is permanent and significant; make it transient or temporary")]
    SignificantPermanent {
        /// The child.
        id: String,
    },
    /// The supervisor does not look at significant children.
    #[error(
        "child `{id}` is significant, but the supervisor's auto_shutdown is `never`; change one"
    )]
    SignificantNever {
        /// The child.
        id: String,
    },
}
