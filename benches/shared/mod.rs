//! How every figure is measured: alternately with its floor, in one process, by medians.
//!
//! A shared machine slows both alike when they take turns in short rounds, so what is told is
//! the difference and the ratio of two medians, and the spread beside them.
#![allow(dead_code, clippy::print_stdout)]

pub(crate) mod stepping;

use std::{fs, time::Instant};

/// What one round took, in microseconds per unit of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// By the clock on the wall.
    pub(crate) wall: f64,
    /// On the processor, over all threads; `None` where the system does not tell.
    pub(crate) processor: Option<f64>,
}

/// Runs this and tells what it took for each of so many units.
pub(crate) fn round(units: u32, work: impl FnOnce()) -> Round {
    let (began, used) = (Instant::now(), processor_ns());
    work();
    let wall = began.elapsed().as_secs_f64() * 1e6 / f64::from(units);
    let processor = processor_ns()
        .zip(used)
        .map(|(now, before)| now.saturating_sub(before) as f64 / 1e3 / f64::from(units));
    Round { wall, processor }
}

/// The nanoseconds that this process has spent on processors, as Linux counts them.
fn processor_ns() -> Option<u64> {
    let mut total = 0;
    for task in fs::read_dir("/proc/self/task").ok()? {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        total += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(total)
}

/// Rounds of the floor and of what is compared with it.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) floor: Vec<Round>,
    pub(crate) ours: Vec<Round>,
}

/// Takes turns, so often, after one round of each that does not count.
pub(crate) fn alternately(
    rounds: usize,
    mut floor: impl FnMut() -> Round,
    mut ours: impl FnMut() -> Round,
) -> Compared {
    let mut compared = Compared::default();
    for number in 0..=rounds {
        let (floor, ours) = (floor(), ours());
        if number > 0 {
            compared.floor.push(floor);
            compared.ours.push(ours);
        }
    }
    compared
}

/// The lower quartile, the median and the upper quartile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quartiles(pub(crate) f64, pub(crate) f64, pub(crate) f64);

impl Quartiles {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * values.len().saturating_sub(1) as f64;
            values
                .get(place.round() as usize)
                .copied()
                .unwrap_or(f64::NAN)
        };
        Self(at(0.25), at(0.5), at(0.75))
    }
}

impl std::fmt::Display for Quartiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} ({:.1}–{:.1})", self.1, self.0, self.2)
    }
}

impl Compared {
    /// Prints one line for the wall and one for the processor, in microseconds per unit.
    pub(crate) fn print(&self, what: &str) {
        let by = |rounds: &[Round], of: fn(&Round) -> Option<f64>| {
            Quartiles::of(rounds.iter().filter_map(of))
        };
        let wall: fn(&Round) -> Option<f64> = |round| Some(round.wall);
        for (name, of) in [("wall", wall), ("processor", |round| round.processor)] {
            let (floor, ours) = (by(&self.floor, of), by(&self.ours, of));
            println!(
                "{what}, {name}: floor {floor} µs, ours {ours} µs, over it {:.1} µs, ratio {:.2}",
                ours.1 - floor.1,
                ours.1 / floor.1
            );
        }
    }
}
