//! The pace of a model, which all runs of a process share.
//!
//! A server that is asked too often refuses for a while, and says for how long. If each run waited for itself, all would
//! come back at the same instant, be refused together, and use up their attempts. So the pause is one for all calls of a
//! model, and after it they go one at a time, at a distance that grows with each refusal and shrinks with each answer.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Weak},
    time::Duration,
};

use ghostlight_actors::{contract::ModelError, vocabulary::ErrorKind};
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

use super::Failure;

/// The longest wait here. Where a server asks for a longer one, the call fails with the rest of the time, so that the
/// run decides whether it waits.
const LONGEST: Duration = Duration::from_secs(60);
/// The pause after a refusal that names none.
const USUAL: Duration = Duration::from_secs(1);
/// The distance between calls after the first refusal, as a part of its pause.
const SHARE: u32 = 8;
/// Distances below this are none.
const SHORTEST: Duration = Duration::from_millis(2);

/// Paces by server and model.
type Paces = HashMap<(String, String), Weak<Pace>>;

/// The paces of the process.
static PACES: LazyLock<Mutex<Paces>> = LazyLock::new(Mutex::default);

/// The pace of one model.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    state: Mutex<State>,
    /// Held by the call that is next, so that the others stand in line behind it.
    gate: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// When the next call may begin, if that is not at once.
    next: Option<Instant>,
    /// The distance between two calls.
    gap: Duration,
    /// When the last refusal was taken into account.
    changed: Option<Instant>,
    /// How many calls have waited, for a spread that is not the same for all.
    waited: u32,
}

impl Pace {
    /// The pace of this model, which all its users in the process share.
    pub(crate) fn of(host: &str, model: &str) -> Arc<Self> {
        let mut paces = PACES.lock();
        let name = (host.to_owned(), model.to_owned());
        if let Some(pace) = paces.get(&name).and_then(Weak::upgrade) {
            return pace;
        }
        paces.retain(|_, pace| pace.strong_count() > 0);
        let pace = Arc::new(Self::default());
        paces.insert(name, Arc::downgrade(&pace));
        pace
    }

    /// Waits until the next call may begin, and returns when it does.
    ///
    /// # Errors
    /// The server asked for a pause that is longer than a call waits here, or too many calls stand in line.
    pub(super) async fn turn(&self, host: &str) -> Result<Instant, ModelError> {
        let now = Instant::now();
        if self.goes_at_once(now) {
            return Ok(now);
        }
        let refused = |pause: Option<Duration>, reason: &str| {
            let message = format!("{host} is asked too often: {reason}, so the call was not made");
            let mut error = ModelError::new(ErrorKind::RateLimited, message);
            error.retry_after = pause;
            Err(error.retryable())
        };
        let Ok(_gate) = timeout(LONGEST, self.gate.lock()).await else {
            return refused(None, "many calls stand in line");
        };
        loop {
            let now = Instant::now();
            let next = self.state.lock().next.unwrap_or(now);
            if next <= now {
                self.go(now);
                return Ok(now);
            }
            if next > now + LONGEST {
                return refused(Some(next - now), "the pause that it asked for is not over");
            }
            sleep_until(next).await;
        }
    }

    /// Whether nothing holds the next call back.
    fn goes_at_once(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        let is_free = state.gap.is_zero() && state.next.is_none_or(|next| next <= now);
        if is_free {
            state.next = None;
        }
        is_free
    }

    /// Begins a call at this time.
    fn go(&self, now: Instant) {
        let mut state = self.state.lock();
        state.waited = state.waited.wrapping_add(1);
        state.next = Some(now + state.gap.mul_f64(spread(state.waited)));
    }

    /// Takes into account how a call ended that began at this time.
    pub(super) fn ended(&self, began: Instant, failure: Option<&Failure>) {
        match failure.map(Failure::asks_to_wait) {
            None => self.answered(),
            Some(Some(pause)) => self.refused(began, pause.unwrap_or(USUAL)),
            Some(None) => {}
        }
    }

    fn answered(&self) {
        let mut state = self.state.lock();
        state.gap = state.gap.mul_f64(0.9);
        if state.gap < SHORTEST {
            state.gap = Duration::ZERO;
        }
    }

    fn refused(&self, began: Instant, pause: Duration) {
        let now = Instant::now();
        let mut state = self.state.lock();
        // Calls that were under way together are refused together: they count once.
        if state.changed.is_none_or(|changed| began >= changed) {
            let first = (pause.min(LONGEST) / SHARE).max(SHORTEST);
            state.gap = (state.gap * 2).max(first).min(LONGEST);
            state.changed = Some(now);
        }
        let until = now + pause;
        state.next = Some(state.next.map_or(until, |next| next.max(until)));
    }

    /// Reads what is left of the quota: where nothing is left, the next call waits until there is.
    pub(super) fn read(&self, headers: &HeaderMap) {
        const QUOTAS: [(&str, &str); 3] = [
            (
                "x-ratelimit-remaining-requests",
                "x-ratelimit-reset-requests",
            ),
            ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
            ("x-ratelimit-remaining", "x-ratelimit-reset"),
        ];
        let text = |name: &str| headers.get(name)?.to_str().ok();
        for (left, reset) in QUOTAS {
            let is_empty = text(left).is_some_and(|left| left.trim() == "0");
            let pause = text(reset).filter(|_| is_empty).and_then(duration);
            if let Some(pause) = pause.filter(|pause| *pause <= LONGEST) {
                let until = Instant::now() + pause;
                let mut state = self.state.lock();
                state.next = Some(state.next.map_or(until, |next| next.max(until)));
            }
        }
    }
}

/// A factor between a half and one and a half, other for each call and each process.
fn spread(number: u32) -> f64 {
    let seed = f64::from(number) + f64::from(std::process::id());
    0.5 + (seed * 0.618_033_988_749_895).fract()
}

/// A duration as servers write it: `6m0s`, `17ms`, `1.5s`, or a number of seconds.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let mut all = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (number, unit) = rest.split_at(end);
        let after = unit.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, next) = unit.split_at(after.unwrap_or(unit.len()));
        let factor = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        let seconds = number.parse::<f64>().ok()? * factor;
        all = all.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = next;
    }
    (!text.is_empty()).then_some(all)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::{super::report::Report, *};

    fn limited(pause: Option<u64>) -> Failure {
        Failure::Rejected {
            status: 429,
            retry_after: pause.map(Duration::from_secs),
            report: Box::new(Report::default()),
        }
    }

    #[test]
    fn durations_are_read_in_each_form() {
        for (text, millis) in [
            ("6m0s", 360_000),
            ("17ms", 17),
            ("1.5s", 1_500),
            ("2", 2_000),
            ("1h2m", 3_720_000),
        ] {
            assert_eq!(
                duration(text),
                Some(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for text in [
            "",
            "s",
            "soon",
            "-1s",
            "1e400s",
            "3x",
            "2026-11-28T00:00:00Z",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_before_a_refusal_and_all_wait_after_one() {
        let pace = Pace::default();
        let began = Instant::now();
        assert_eq!(pace.turn("h").await.unwrap(), began);
        pace.ended(began, None);
        pace.ended(began, Some(&limited(Some(2))));
        let first = pace.turn("h").await.unwrap();
        assert_eq!(first - began, Duration::from_secs(2));
        let second = pace.turn("h").await.unwrap();
        assert!(second > first && second - first < Duration::from_millis(400));
        // A failure of another kind changes nothing.
        let before = pace.state.lock().gap;
        pace.ended(second, Some(&Failure::Cut));
        assert_eq!(pace.state.lock().gap, before);
        for _ in 0..100 {
            pace.ended(second, None);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = Instant::now();
        assert_eq!(pace.turn("h").await.unwrap(), now);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_pause_is_told_and_not_waited_for() {
        let pace = Pace::default();
        pace.ended(Instant::now(), Some(&limited(Some(3_600))));
        let error = pace.turn("api.example.com").await.unwrap_err();
        assert_eq!(
            (error.kind.clone(), error.retryable),
            (ErrorKind::RateLimited, true)
        );
        assert_eq!(error.retry_after, Some(Duration::from_secs(3_600)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_quota_that_is_used_up_is_waited_for_before_it_is_refused() {
        let pace = Pace::default();
        let mut headers = HeaderMap::new();
        headers.insert("x-ratelimit-remaining-requests", "0".parse().unwrap());
        headers.insert("x-ratelimit-reset-requests", "1.5s".parse().unwrap());
        let began = Instant::now();
        pace.read(&headers);
        let begun = pace.turn("h").await.unwrap();
        assert_eq!(begun - began, Duration::from_millis(1_500));
        let now = Instant::now();
        assert_eq!(pace.turn("h").await.unwrap(), now);
    }

    /// A server that takes five calls in two seconds, and twenty agents that come at once: with a pause of its own each
    /// was refused up to eight times.
    #[tokio::test(start_paused = true)]
    async fn twenty_agents_at_a_server_for_five_are_refused_a_few_times_each() {
        let pace = Arc::new(Pace::default());
        let window: Arc<Mutex<(Option<Instant>, u32)>> = Arc::default();
        let worst = Arc::new(AtomicU32::new(0));
        let agents = (0..20).map(|_| {
            let (pace, window, worst) = (pace.clone(), window.clone(), worst.clone());
            tokio::spawn(async move {
                let mut refused = 0;
                loop {
                    let began = pace.turn("h").await.unwrap();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    let is_taken = {
                        let mut window = window.lock();
                        let now = Instant::now();
                        let is_old = |begun: Instant| now - begun >= Duration::from_secs(2);
                        if window.0.is_none_or(is_old) {
                            *window = (Some(now), 0);
                        }
                        window.1 += 1;
                        window.1 <= 5
                    };
                    if is_taken {
                        pace.ended(began, None);
                        break;
                    }
                    refused += 1;
                    pace.ended(began, Some(&limited(Some(2))));
                }
                worst.fetch_max(refused, Ordering::Relaxed);
            })
        });
        for agent in agents.collect::<Vec<_>>() {
            agent.await.unwrap();
        }
        let worst = worst.load(Ordering::Relaxed);
        assert!(worst <= 3, "one was refused {worst} times");
    }

    #[test]
    fn a_model_has_one_pace_in_the_process() {
        let one = Pace::of("host", "model");
        assert!(Arc::ptr_eq(&one, &Pace::of("host", "model")));
        assert!(!Arc::ptr_eq(&one, &Pace::of("host", "other")));
    }
}
