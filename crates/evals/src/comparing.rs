//! Two sets of cells beside each other: two variants, or the same variant in two reports.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use ghostlight_actors::vocabulary::Digest;
use serde::{Deserialize, Serialize};

use crate::{
    cell::Cell,
    report::{adjust, pairs, strict_value},
    statistics::{Comparison, Interval, Pair, RESAMPLES, Verdict, resampled_difference},
};

/// A report that was written as JSON, as far as it is compared with another one.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct SavedReport {
    /// The evaluation.
    pub evaluation: String,
    /// The digests of its scorers, by their names.
    #[serde(default)]
    pub scorers: BTreeMap<String, String>,
    /// Its cells.
    pub cells: Vec<Cell>,
}

impl SavedReport {
    /// The differences to another report by which the two say less about the variants: another evaluation, and scorers of one
    /// name with other settings.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let (one, two) = (&self.evaluation, &other.evaluation);
        if one != two {
            found.push(format!(
                "the reports are of two evaluations, {one} and {two}: their samples are paired by their ids"
            ));
        }
        for (name, digest) in &self.scorers {
            if other.scorers.get(name).is_some_and(|known| known != digest) {
                found.push(format!(
                    "the scorer {name} had other settings: score both anew with `ghostlight eval score`"
                ));
            }
        }
        found
    }

    /// The names of the variants, in their order.
    pub fn variants(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for cell in &self.cells {
            if !names.contains(&cell.variant.as_str()) {
                names.push(cell.variant.as_str());
            }
        }
        names
    }
}

/// Two sets of cells beside each other.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Compared {
    /// The reference of the comparison.
    pub base: String,
    /// The other one.
    pub other: String,
    /// The success, the scorers that both have, the reward, and what was consumed, without what neither consumed.
    pub measures: Vec<MeasureReport>,
    /// The verdict about success. What has no verdict in the other counts in it as the lowest.
    pub verdict: Verdict,
    /// How many cells of the other have no verdict that can be read in whole, or none since a server failed.
    pub unreadable: usize,
    /// The cells that succeeded in the base and do not in the other.
    pub lost: Vec<Flip>,
    /// The cells that succeed in the other and did not in the base.
    pub gained: Vec<Flip>,
    /// The samples that only one of the two has.
    pub unmatched: Vec<String>,
}

/// One measure of two sets of cells.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct MeasureReport {
    /// Its name.
    pub measure: String,
    /// Its mean in the base, over the samples that both have.
    pub base: f64,
    /// Its mean in the other.
    pub other: f64,
    /// The difference, sample by sample.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The interval of the difference by resampling clusters (BCa); `None` where all differ by the same.
    pub resampled: Option<Interval>,
    /// The p-value of success and of the reward, adjusted for the number of the two (Holm).
    pub adjusted_p: Option<f64>,
}

/// A cell whose success differs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Flip {
    /// The sample.
    pub sample: String,
    /// The repeat.
    pub repeat: u32,
    /// The reason of the one that does not succeed.
    pub why: String,
    /// The command that shows the base's run.
    pub base: Option<String>,
    /// The command that shows the other's run.
    pub other: Option<String>,
}

type Spends = fn(&Cell) -> u64;
type Measure<'a> = Box<dyn Fn(&Cell) -> Option<f64> + 'a>;

impl Compared {
    /// Compares cells; `margin` is the loss of success that is allowed.
    pub fn new(base: (&str, &[&Cell]), other: (&str, &[&Cell]), margin: f64) -> Self {
        let (base_cells, other_cells) = (base.1, other.1);
        let measures = measures(base_cells, other_cells);
        let mut reports: Vec<MeasureReport> = measures
            .iter()
            .filter_map(|(name, value)| measure(name, value, base_cells, other_cells))
            .collect();
        let tests = reports.iter_mut();
        let tests = tests.filter(|report| [SUCCESS, REWARD].contains(&report.measure.as_str()));
        adjust(tests.map(|report| (Some(&report.comparison), &mut report.adjusted_p)));
        let strict = Comparison::of(&pairs(base_cells, other_cells, &strict_value));
        let unread = |cell: &&&Cell| strict_value(cell, false) != strict_value(cell, true);
        Self {
            base: base.0.to_owned(),
            other: other.0.to_owned(),
            verdict: Verdict::of(strict.and_then(|found| found.interval), margin),
            unreadable: other_cells.iter().filter(unread).count(),
            lost: flips(base_cells, other_cells, true),
            gained: flips(base_cells, other_cells, false),
            unmatched: unmatched(base_cells, other_cells),
            measures: reports,
        }
    }

    /// The comparison for a person.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} against {}: {} by success",
            self.other,
            self.base,
            self.verdict.as_str()
        );
        if self.unreadable > 0 {
            let _ = write!(
                text,
                ", where {} cells without a whole verdict count as the lowest",
                self.unreadable
            );
        }
        text.push_str("\n\n");
        for report in &self.measures {
            text.push_str(&line(report));
        }
        for (flips, what) in [(&self.lost, "lost"), (&self.gained, "gained")] {
            if flips.is_empty() {
                continue;
            }
            let _ = writeln!(text, "\n{what}: {} cells", flips.len());
            for flip in flips.iter().take(LISTED) {
                let why = ghostlight_safety::printable_line(&flip.why, 160);
                let sample = ghostlight_safety::printable_line(&flip.sample, 160);
                let _ = write!(text, "  {sample}, repeat {}: {why}", flip.repeat);
                let commands = [&flip.base, &flip.other].into_iter().flatten();
                let commands: Vec<String> = commands.map(|c| format!("`{c}`")).collect();
                let _ = writeln!(text, " ({})", commands.join(" and "));
            }
        }
        if !self.unmatched.is_empty() {
            let _ = writeln!(
                text,
                "\nleft out, since only one of them has it: {} samples",
                self.unmatched.len()
            );
        }
        text
    }
}

/// The measure that the verdict is about.
const SUCCESS: &str = "success";
/// The measure of the suite's own making.
const REWARD: &str = "reward";
/// How many cells are listed.
const LISTED: usize = 20;

fn measures<'a>(base: &[&'a Cell], other: &[&'a Cell]) -> Vec<(String, Measure<'a>)> {
    let success: Measure<'_> = Box::new(|cell| {
        let success = cell.success()?;
        Some(f64::from(u8::from(success)))
    });
    let mut all: Vec<(String, Measure<'a>)> = vec![(SUCCESS.to_owned(), success)];
    let names = |cells: &[&'a Cell]| -> Vec<&'a str> {
        let mut names = Vec::new();
        for (name, _) in cells.iter().flat_map(|cell| cell.scores()) {
            if !names.contains(&name.as_str()) {
                names.push(name.as_str());
            }
        }
        names
    };
    let of_other = names(other);
    for name in names(base)
        .into_iter()
        .filter(|name| of_other.contains(name))
    {
        all.push((name.to_owned(), Box::new(move |cell| cell.value(name))));
    }
    let has_reward = |cells: &[&Cell]| cells.iter().any(|cell| cell.reward.is_some());
    if has_reward(base) && has_reward(other) {
        all.push((REWARD.to_owned(), Box::new(|cell| cell.reward)));
    }
    let spent: [(&str, Spends); 4] = [
        ("model_calls", |cell| cell.spent.model_calls),
        ("tokens", |cell| cell.spent.usage.total_tokens()),
        ("cost_micros", |cell| cell.spent.usage.cost_micros),
        ("latency_ms", |cell| cell.latency_ms),
    ];
    let is_spent = |of: Spends| base.iter().chain(other).any(|cell| of(cell) > 0);
    for (name, of) in spent.into_iter().filter(|(_, of)| is_spent(*of)) {
        let value: Measure<'_> = Box::new(move |cell| {
            let was_tried = cell.success().is_some() || cell.scores().next().is_some();
            was_tried.then(|| of(cell) as f64)
        });
        all.push((name.to_owned(), value));
    }
    all
}

fn measure(
    name: &str,
    value: &Measure<'_>,
    base: &[&Cell],
    other: &[&Cell],
) -> Option<MeasureReport> {
    let pairs: Vec<Pair> = pairs(base, other, &|cell, _| value(cell))
        .into_iter()
        .filter(|pair| !pair.base.is_empty() && !pair.other.is_empty())
        .collect();
    let comparison = Comparison::of(&pairs)?;
    let mean = |of: fn(&Pair) -> &Vec<f64>| {
        let means = pairs.iter().map(|pair| {
            let scores = of(pair);
            scores.iter().sum::<f64>() / scores.len() as f64
        });
        means.sum::<f64>() / pairs.len() as f64
    };
    let seed = Digest::of(name.as_bytes()).short();
    Some(MeasureReport {
        measure: name.to_owned(),
        base: mean(|pair| &pair.base),
        other: mean(|pair| &pair.other),
        resampled: resampled_difference(&pairs, seed, RESAMPLES)
            .map(|found| found.bca)
            .filter(|interval| interval.upper - interval.lower > 1e-12),
        comparison,
        adjusted_p: None,
    })
}

fn flips(base: &[&Cell], other: &[&Cell], lost: bool) -> Vec<Flip> {
    let others: BTreeMap<(&str, u32), &Cell> = other
        .iter()
        .map(|cell| ((cell.sample.as_str(), cell.repeat), *cell))
        .collect();
    let command = |cell: &Cell| {
        let run = cell.runs.last()?;
        Some(format!("ghostlight show {}", run.short()))
    };
    let found = base.iter().filter_map(|one| {
        let two = others.get(&(one.sample.as_str(), one.repeat))?;
        let wanted = (Some(lost), Some(!lost));
        if (one.success(), two.success()) != wanted {
            return None;
        }
        let failed = if lost { two } else { one };
        Some(Flip {
            sample: one.sample.clone(),
            repeat: one.repeat,
            why: failed.why(),
            base: command(one),
            other: command(two),
        })
    });
    found.collect()
}

fn unmatched(base: &[&Cell], other: &[&Cell]) -> Vec<String> {
    let names = |cells: &[&Cell]| -> BTreeSet<String> {
        cells.iter().map(|cell| cell.sample.clone()).collect()
    };
    let both = (names(base), names(other));
    both.0.symmetric_difference(&both.1).cloned().collect()
}

fn line(report: &MeasureReport) -> String {
    let number = |value: f64| match value.abs() >= 100.0 {
        true => format!("{value:.0}"),
        false => format!("{value:.3}"),
    };
    let comparison = &report.comparison;
    let mut text = format!(
        "  {}: {} to {}, {}{}",
        report.measure,
        number(report.base),
        number(report.other),
        if comparison.difference >= 0.0 {
            "+"
        } else {
            ""
        },
        number(comparison.difference)
    );
    for (interval, what) in [(comparison.interval, ""), (report.resampled, "resampled ")] {
        if let Some(interval) = interval {
            let (lower, upper) = (number(interval.lower), number(interval.upper));
            let _ = write!(text, " {what}[{lower}, {upper}]");
        }
    }
    let _ = write!(text, " over {} samples", comparison.samples);
    if let Some(p) = report.adjusted_p {
        let _ = write!(text, ", p = {p:.3}");
    }
    let detectable = comparison.detectable.filter(|found| *found >= 1e-9);
    if let Some(detectable) = detectable.filter(|_| report.measure == SUCCESS) {
        let _ = write!(
            text,
            "; differences below {} would be missed one time in five or more",
            number(detectable)
        );
    }
    text.push('\n');
    text
}
