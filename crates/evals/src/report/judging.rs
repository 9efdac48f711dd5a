//! The part of a report's text that tells of judges.

use std::fmt::Write as _;

use super::{JudgeReport, PairwiseReport, Report, WinReport};

/// The work of judges, and how far they can be trusted.
pub(super) fn paragraph(report: &Report) -> String {
    let mut text = String::new();
    let calls: u64 = report.variants.iter().map(|v| v.judged.model_calls).sum();
    let cost: u64 = report
        .variants
        .iter()
        .map(|v| v.judged.usage.cost_micros)
        .sum();
    for judge in &report.judges {
        text.push_str(&told(judge));
    }
    if calls > 0 {
        let _ = writeln!(
            text,
            "judges of cells: {calls} model calls, cost_micros {cost}"
        );
    }
    for judge in &report.pairwise {
        text.push_str(&told_of_pairs(judge));
    }
    text
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| String::from("unknown"), |value| format!("{value:.2}"))
}

fn told(judge: &JudgeReport) -> String {
    let verdicts: usize = judge.models.iter().map(|model| model.verdicts).sum();
    let unreadable: usize = judge.models.iter().map(|model| model.unreadable).sum();
    let mut text = format!("judge {}: {verdicts} verdicts", judge.judge);
    if unreadable > 0 {
        let _ = write!(text, ", {unreadable} unreadable");
    }
    if judge.models.len() > 1 {
        let _ = write!(
            text,
            "; agreement of its models: alpha {}",
            number(judge.alpha)
        );
    }
    if let Some(people) = &judge.people {
        let _ = write!(
            text,
            "; agreement with people: kappa {} over {} of {} labels",
            number(people.kappa),
            people.both,
            people.labels
        );
    }
    if let Some(needed) = judge.needed {
        let _ = match judge.counts {
            true => write!(text, "; it counts, since at least {needed} is needed"),
            false => write!(
                text,
                "; it counts for nothing, since at least {needed} is needed"
            ),
        };
    }
    text.push('\n');
    text
}

fn told_of_pairs(judge: &PairwiseReport) -> String {
    let mut text = String::new();
    for pair in &judge.pairs {
        text.push_str(&win(&judge.judge, pair));
    }
    let position = &judge.position;
    if position.first + position.second > 0 {
        let _ = writeln!(
            text,
            "{}: position bias {:+.2} ({} for the first answer, {} for the second){}",
            judge.judge,
            position.bias,
            position.first,
            position.second,
            match position.is_biased {
                true => ": the place decides, so do not trust this judge",
                false => "",
            }
        );
    }
    let ranking = judge.ranking.iter().map(|rank| {
        let bounds = rank.strength.interval.map(|interval| {
            let elo = |log: f64| 1_000.0 + 400.0 * log / std::f64::consts::LN_10;
            format!(" [{:.0}, {:.0}]", elo(interval.lower), elo(interval.upper))
        });
        format!(
            "{} {:.0}{}",
            rank.variant,
            rank.elo,
            bounds.unwrap_or_default()
        )
    });
    let ranking: Vec<String> = ranking.collect();
    if !ranking.is_empty() {
        let _ = writeln!(
            text,
            "{}: strengths (Elo): {}",
            judge.judge,
            ranking.join(", ")
        );
    }
    text
}

fn win(judge: &str, pair: &WinReport) -> String {
    let (other, base) = (&pair.other, &pair.base);
    let Some(rate) = pair.win_rate else {
        return format!(
            "{judge}: {other} against {base}: no verdict ({} unreadable, {} not asked)\n",
            pair.unreadable, pair.not_asked
        );
    };
    let mut text = format!(
        "{judge}: {other} against {base}: wins {:.0} %",
        100.0 * rate
    );
    if let Some(interval) = pair.interval {
        let _ = write!(
            text,
            " [{:.0}, {:.0}]",
            100.0 * interval.lower,
            100.0 * interval.upper
        );
    }
    let _ = write!(
        text,
        " ({} won, {} lost, {} tied, {} of these inconsistent), p = {:.3}",
        pair.wins, pair.losses, pair.ties, pair.inconsistent, pair.p
    );
    let others = [
        (pair.unreadable, "unreadable"),
        (pair.not_asked, "not asked"),
    ];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, "; {count} {what}");
    }
    text.push('\n');
    text
}
