//! Time as the engine sees it.

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::{sync::Notify, time::Instant};

use super::BoxFuture;
use crate::vocabulary::Timestamp;

/// Tells the time and waits for it. The engine does neither in any other way.
///
/// There are two times. *Wall-clock* time is what people read: it jumps when the machine was asleep or somebody
/// corrects the clock. Schedules, expiries and deadlines follow it. *Monotonic* time measures intervals and pauses,
/// and no jump changes it.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The wall-clock time. It may be earlier than the time that the last call returned.
    fn now(&self) -> Timestamp;

    /// The monotonic time. It starts anywhere and never jumps; only differences between two such times have a
    /// meaning.
    fn monotonic(&self) -> Timestamp;

    /// The sum of all steps by which the wall clock was set back since this process started, in
    /// milliseconds.
    fn set_back_ms(&self) -> u64 {
        0
    }

    /// The wall-clock time without the steps by which it was set back since this process started.
    /// Durations that last over restarts and the machine's sleep are measured by it.
    fn forward(&self) -> Timestamp {
        let now = self.now();
        Timestamp(now.0.saturating_add(self.set_back_ms()))
    }

    /// Waits this long in monotonic time.
    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()>;

    /// Waits until this wall-clock time, also when the clock jumps meanwhile. It returns at once when the time has
    /// passed.
    fn sleep_until(&self, time: Timestamp) -> BoxFuture<'static, ()>;
}

/// A difference of at least this many milliseconds counts as a jump of the wall clock. Smaller ones
/// come from reading two clocks one after the other, or from a time server that slews the clock.
const JUMP_MS: u64 = 500;
/// The longest time for which a wait for a wall-clock time does not check the clock. Each question
/// for the time checks it too, and a System asks as often as it looks for new messages.
const LOOK: Duration = Duration::from_secs(60);

/// The machine's clock. Between two jumps of the wall clock both times follow tokio's clock, so
/// they stand still when a test pauses it.
#[derive(Clone, Debug)]
pub struct SystemClock {
    started: Instant,
    started_at: Timestamp,
    machine: Option<Machine>,
    wall: Arc<Wall>,
}

/// The machine's two clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct Machine {
    wall: SystemTime,
    monotonic: std::time::Instant,
}

/// How far the wall clock differs from the monotonic one.
#[derive(Debug, Default)]
struct Wall {
    /// The sum of all jumps, in milliseconds; positive when the wall clock is ahead.
    ahead_ms: AtomicI64,
    /// The sum of the jumps that set the wall clock back, in milliseconds.
    set_back_ms: AtomicU64,
    /// The millisecond after which the machine's clocks were compared last, counted from 1; 0 where they were not.
    looked_ms: AtomicU64,
    /// Held while a jump is recorded, so that each jump is recorded once.
    noting: Mutex<()>,
    // A `watch` channel would wake its waiters in an order that tokio draws at random.
    jumped: Notify,
}

impl SystemClock {
    /// The machine's clock. It must be made inside a tokio runtime.
    pub fn new() -> Self {
        let machine = Machine {
            wall: SystemTime::now(),
            monotonic: std::time::Instant::now(),
        };
        let since_epoch = machine.wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            machine: Some(machine),
            ..Self::starting_at(Timestamp::default().after(since_epoch))
        }
    }

    /// A clock for simulations: it starts at this time and ignores the machine's clocks.
    pub fn starting_at(started_at: Timestamp) -> Self {
        Self {
            started: Instant::now(),
            started_at,
            machine: None,
            wall: Arc::default(),
        }
    }

    /// Moves the wall clock, forward or back.
    pub(crate) fn jump(&self, by_ms: i64) {
        let _noting = self.wall.noting.lock();
        self.wall.note(by_ms);
    }

    /// Compares the machine's two clocks, and records a jump. Within one millisecond this is done once: reading them
    /// costs more than all else that a question for the time does.
    fn look(&self, monotonic: Timestamp) {
        let Some(machine) = self.machine else { return };
        let now_ms = monotonic.0.saturating_add(1);
        if self.wall.looked_ms.load(Ordering::Relaxed) == now_ms {
            return;
        }
        self.wall.looked_ms.store(now_ms, Ordering::Relaxed);
        let by_ms = |measured: i64| measured - self.wall.ahead_ms.load(Ordering::Acquire);
        if by_ms(machine.ahead_ms()).unsigned_abs() < JUMP_MS {
            return;
        }
        let _noting = self.wall.noting.lock();
        let by_ms = by_ms(machine.ahead_ms());
        if by_ms.unsigned_abs() >= JUMP_MS {
            self.wall.note(by_ms);
        }
    }
}

impl Machine {
    /// How far the wall clock has gained on the monotonic one, in milliseconds.
    fn ahead_ms(self) -> i64 {
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let wall = match SystemTime::now().duration_since(self.wall) {
            Ok(ahead) => ms(ahead),
            Err(behind) => -ms(behind.duration()),
        };
        wall.saturating_sub(ms(self.monotonic.elapsed()))
    }
}

impl Wall {
    fn note(&self, by_ms: i64) {
        let ahead_ms = self.ahead_ms.load(Ordering::Acquire);
        if by_ms < 0 {
            self.set_back_ms
                .fetch_add(by_ms.unsigned_abs(), Ordering::AcqRel);
        }
        let ahead_ms = ahead_ms.saturating_add(by_ms);
        self.ahead_ms.store(ahead_ms, Ordering::Release);
        self.jumped.notify_waiters();
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let time = self.monotonic();
        self.look(time);
        let ahead_ms = self.wall.ahead_ms.load(Ordering::Acquire);
        Timestamp(time.0.saturating_add_signed(ahead_ms))
    }

    fn monotonic(&self) -> Timestamp {
        self.started_at.after(self.started.elapsed())
    }

    fn set_back_ms(&self) -> u64 {
        self.wall.set_back_ms.load(Ordering::Acquire)
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(pause))
    }

    fn sleep_until(&self, time: Timestamp) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        Box::pin(async move {
            loop {
                let mut jumped = pin!(clock.wall.jumped.notified());
                jumped.as_mut().enable();
                let left = time.since(clock.now());
                if left.is_zero() {
                    return;
                }
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(left.min(LOOK)) => {}
                    () = jumped => {}
                }
            }
        })
    }
}

/// Waits until a time of [`Clock::forward`], at which a pause ends.
pub(crate) fn pause_until(clock: &dyn Clock, time: Timestamp) -> BoxFuture<'static, ()> {
    let left = time.since(clock.forward());
    // Whichever is first: the wall clock reaches the time, or the pause has passed in monotonic time.
    let (wall, passed) = (
        clock.sleep_until(clock.now().after(left)),
        clock.sleep(left),
    );
    Box::pin(async move {
        tokio::select! {
            biased;
            () = passed => {}
            () = wall => {}
        }
    })
}

/// A jump of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ClockJump {
    /// The wall-clock time after the jump.
    pub at: Timestamp,
    /// The size of the jump in milliseconds: positive where the machine was asleep or its clock was behind, negative
    /// where its clock was ahead.
    pub by_ms: i64,
}

/// Notices jumps of the wall clock.
#[derive(Debug)]
pub(crate) struct WallWatch {
    /// How far the wall clock is ahead of the monotonic one, in milliseconds.
    ahead_ms: i64,
}

impl WallWatch {
    pub(crate) fn new(clock: &dyn Clock) -> Self {
        Self {
            ahead_ms: ahead_ms(clock),
        }
    }

    /// The jump since the last call, if there was one.
    pub(crate) fn jumped(&mut self, clock: &dyn Clock) -> Option<ClockJump> {
        let by_ms = ahead_ms(clock).saturating_sub(self.ahead_ms);
        if by_ms.unsigned_abs() < JUMP_MS {
            return None;
        }
        self.ahead_ms = self.ahead_ms.saturating_add(by_ms);
        let at = clock.now();
        Some(ClockJump { at, by_ms })
    }
}

fn ahead_ms(clock: &dyn Clock) -> i64 {
    let (wall, monotonic) = (clock.now().0, clock.monotonic().0);
    wall.cast_signed().saturating_sub(monotonic.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock of a machine that slept this long, or that was set back this far.
    fn after(jump: Duration, back: bool) -> SystemClock {
        let mut clock = SystemClock::new();
        if let Some(machine) = &mut clock.machine {
            machine.wall = match back {
                true => machine.wall + jump,
                false => machine.wall - jump,
            };
        }
        clock
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_slept_is_noticed_by_whoever_asks_for_the_time() {
        let hours = Duration::from_secs(8 * 3_600);
        let clock = after(hours, false);
        let began = clock.started_at;
        let left = clock.now().since(began.after(hours));
        assert!(left < Duration::from_secs(5), "{left:?}");
        assert_eq!(clock.monotonic(), began, "intervals know nothing of it");
        assert_eq!(clock.forward(), clock.now());
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_set_back_goes_on_from_there_and_pauses_do_not() {
        let hours = Duration::from_secs(8 * 3_600);
        let clock = after(hours, true);
        let began = clock.started_at;
        let behind = began.since(clock.now());
        assert!(
            hours.abs_diff(behind) < Duration::from_secs(5),
            "{behind:?}"
        );
        assert_eq!(clock.forward(), began);
        assert_eq!(clock.monotonic(), began);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_the_wall_looks_at_it_also_when_nobody_else_does() {
        let clock = SystemClock::new();
        let (hour, asked) = (Duration::from_secs(3_600), Instant::now());
        let waits = clock.sleep_until(clock.now().after(hour));
        // Nothing notifies the waiting task here.
        clock.wall.ahead_ms.store(3_600_000, Ordering::Release);
        let mut quiet = clock.clone();
        quiet.machine = None;
        waits.await;
        assert!(asked.elapsed() <= hour);
    }
}
