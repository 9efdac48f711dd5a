//! A report as text.

use std::fmt::Write as _;

use super::{ComparisonReport, Report, VariantReport, judging};
use crate::statistics::Mean;

/// How many cells that did not succeed are listed.
const LISTED: usize = 10;
/// The longest reason that is listed, in characters.
const REASON: usize = 160;

pub(super) fn plain(report: &Report) -> String {
    let rows = table(report);
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    let paragraphs = paragraphs(report, "  ", &|text| text.to_owned());
    for paragraph in paragraphs.iter().filter(|paragraph| !paragraph.is_empty()) {
        text.push('\n');
        text.push_str(paragraph);
    }
    text
}

pub(super) fn markdown(report: &Report) -> String {
    let mut text = format!("## Evaluation {}\n\n", cell_text(&report.evaluation));
    for (index, row) in table(report).iter().enumerate() {
        let cells: Vec<String> = row.iter().map(|cell| cell_text(cell)).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
        if index == 0 {
            let _ = writeln!(text, "|{}", "---|".repeat(row.len()));
        }
    }
    let paragraphs = paragraphs(report, "- ", &code);
    for paragraph in paragraphs.iter().filter(|paragraph| !paragraph.is_empty()) {
        text.push('\n');
        text.push_str(paragraph);
    }
    text
}

/// A text of one line as a span of code, in which a model's words are no link, mention, picture or element. The span ends
/// with more ticks than stand together in it.
fn code(text: &str) -> String {
    let runs = text.split(|c| c != '`').map(str::len);
    let ticks = "`".repeat(runs.max().unwrap_or(0) + 1);
    format!("{ticks} {text} {ticks}")
}

/// The paragraphs below the table; `quoted` marks the words of models and samples.
fn paragraphs(report: &Report, bullet: &str, quoted: Quoted<'_>) -> [String; 4] {
    [
        differences(report),
        judging::paragraph(report),
        worst(report, bullet, quoted),
        gate(report, quoted),
    ]
}

type Quoted<'a> = &'a dyn Fn(&str) -> String;

/// A text as it may stand in a cell of a table: a model's words make neither columns nor lines.
fn cell_text(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

pub(super) fn table(report: &Report) -> Vec<Vec<String>> {
    let mut head = vec![String::from("variant"), String::from("success")];
    let scorers: Vec<&String> = report
        .variants
        .iter()
        .flat_map(|v| v.scorers.keys())
        .collect();
    let mut names: Vec<&String> = Vec::new();
    for scorer in scorers {
        if !names.contains(&scorer) {
            names.push(scorer);
        }
    }
    head.extend(names.iter().map(|name| (*name).clone()));
    let rewards = report.variants.iter().any(|v| v.reward.is_some());
    if rewards {
        head.push(String::from("reward"));
    }
    let repeats = report
        .variants
        .iter()
        .any(|variant| variant.repeats.is_some());
    if repeats {
        head.extend([String::from("pass@k"), String::from("pass^k")]);
    }
    head.extend(["cells", "model calls", "tokens", "cost_micros", "median ms"].map(String::from));
    let mut rows = vec![head];
    rows.extend(
        report
            .variants
            .iter()
            .map(|variant| row(variant, &names, rewards, repeats)),
    );
    rows
}

fn row(variant: &VariantReport, scorers: &[&String], rewards: bool, repeats: bool) -> Vec<String> {
    let mut row = vec![variant.variant.clone(), share(variant.success.as_ref())];
    let means = scorers
        .iter()
        .map(|name| variant.scorers.get(*name).and_then(Option::as_ref));
    row.extend(means.map(|mean| {
        mean.map_or_else(|| String::from("-"), |mean| format!("{:.2}", mean.estimate))
    }));
    if rewards {
        row.push(reward(variant.reward.as_ref()));
    }
    if repeats {
        let rate =
            |rate: Option<f64>| rate.map_or_else(|| String::from("-"), |rate| format!("{rate:.2}"));
        row.push(rate(variant.repeats.map(|repeats| repeats.pass_at_k)));
        row.push(rate(variant.repeats.map(|repeats| repeats.pass_hat_k)));
    }
    row.push(counts(variant));
    row.extend(
        [
            variant.model_calls,
            variant.tokens,
            variant.cost_micros,
            variant.median_latency_ms,
        ]
        .map(|n| n.to_string()),
    );
    row
}

/// A reward with its interval.
fn reward(mean: Option<&Mean>) -> String {
    match mean {
        None => String::from("-"),
        Some(mean) => match mean.interval {
            Some(interval) => format!(
                "{:.3} [{:.3}, {:.3}]",
                mean.estimate, interval.lower, interval.upper
            ),
            None => format!("{:.3}", mean.estimate),
        },
    }
}

/// A share with its interval, in percent.
fn share(mean: Option<&Mean>) -> String {
    let Some(mean) = mean else {
        return String::from("-");
    };
    match mean.interval {
        Some(interval) => {
            let (lower, upper) = (
                percent(interval.lower.max(0.0)),
                percent(interval.upper.min(1.0)),
            );
            format!("{} % [{lower}, {upper}]", percent(mean.estimate))
        }
        None => format!("{} %", percent(mean.estimate)),
    }
}

/// A share in percent, with as many digits as tell it from 0 and from 1 where it is neither.
fn percent(share: f64) -> String {
    let digits = |digits: usize| format!("{:.digits$}", 100.0 * share);
    let is_end = |text: &String| [Ok(0.0), Ok(100.0)].contains(&text.parse::<f64>());
    // The last bits of a bound tell nothing.
    let is_certain = !(1e-9..=1.0 - 1e-9).contains(&share);
    let is_told = |text: &String| is_certain || !is_end(text);
    (0..4)
        .map(digits)
        .find(is_told)
        .unwrap_or_else(|| digits(4))
}

fn counts(variant: &VariantReport) -> String {
    let counts = &variant.counts;
    let mut text = (counts.scored + counts.agent_failed + counts.unreadable).to_string();
    let others = [
        (counts.agent_failed, "without an answer"),
        (counts.unreadable, "unreadable"),
        (counts.infrastructure, "left out"),
        (counts.not_run, "not run"),
    ];
    let others = others.iter().filter(|(count, _)| *count > 0);
    let others: Vec<String> = others
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !others.is_empty() {
        let _ = write!(text, " ({})", others.join(", "));
    }
    text
}

fn differences(report: &Report) -> String {
    let success = report
        .comparisons
        .iter()
        .map(|found| difference(found, None));
    let rewards = report.rewards.iter();
    let rewards = rewards.map(|found| difference(found, Some("reward")));
    success.chain(rewards).collect()
}

/// A comparison in words: of success in points, of another measure in its unit.
fn difference(report: &ComparisonReport, measure: Option<&str>) -> String {
    let (other, base, verdict) = (&report.other, &report.base, report.verdict.as_str());
    let by = measure.map_or_else(String::new, |measure| format!(" by {measure}"));
    let Some(comparison) = &report.comparison else {
        return format!("{other} against {base}{by}: no sample has a verdict in both\n");
    };
    let number = |value: f64| match measure {
        None => format!("{:+.1}", 100.0 * value),
        Some(_) => format!("{value:+.3}"),
    };
    let unit = measure.map_or(" points", |_| "");
    let mut text = format!(
        "{other} against {base}{by}: {verdict}; {}{unit}",
        number(comparison.difference)
    );
    if let Some(interval) = comparison.interval {
        let (lower, upper) = (number(interval.lower), number(interval.upper));
        let _ = write!(text, " [{lower}, {upper}]");
    }
    let _ = write!(text, " over {} samples", comparison.samples);
    if let Some(p) = report.adjusted_p {
        let _ = write!(text, ", p = {p:.3}");
    }
    match comparison.detectable {
        // All samples differ by the same, so they tell nothing of how far others would.
        Some(detectable) if detectable < 1e-9 => {
            text.push_str("; all samples differ by the same, so what would be missed is unknown");
        }
        Some(detectable) => {
            let detectable = number(detectable);
            let detectable = detectable.trim_start_matches('+');
            let _ = write!(
                text,
                "; differences below {detectable}{unit} would be missed one time in five or more"
            );
        }
        None => {}
    }
    text.push('\n');
    text
}

/// The first cells that did not succeed, each with its run.
fn worst(report: &Report, bullet: &str, quoted: Quoted<'_>) -> String {
    let failed: Vec<_> = report
        .cells
        .iter()
        .filter(|cell| cell.success() != Some(true))
        .collect();
    let mut text = String::new();
    for cell in failed.iter().take(LISTED) {
        let why = quoted(&ghostlight_safety::printable_line(&cell.why(), REASON));
        let sample = quoted(&ghostlight_safety::printable_line(&cell.sample, REASON));
        let _ = write!(
            text,
            "{bullet}{sample} in {}, repeat {}: {why}",
            cell.variant, cell.repeat
        );
        if let Some(run) = cell.runs.last() {
            let _ = write!(text, " (`ghostlight show {}`)", run.short());
        }
        text.push('\n');
    }
    if failed.len() > LISTED {
        let _ = writeln!(text, "{bullet}and {} more", failed.len() - LISTED);
    }
    text
}

fn gate(report: &Report, quoted: Quoted<'_>) -> String {
    match &report.gate {
        None => String::new(),
        Some(gate) if gate.passes => String::from("gate: passes\n"),
        Some(gate) => {
            let faults: Vec<String> = gate
                .faults
                .iter()
                .map(|fault| quoted(&ghostlight_safety::printable_line(fault, 4 * REASON)))
                .collect();
            format!("gate: does not pass: {}\n", faults.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn no_share_is_rounded_to_certainty() {
        for (share, told) in [
            (1.0, "100"),
            (0.0, "0"),
            (0.834, "83"),
            (0.9962, "99.6"),
            (0.999_6, "99.96"),
            (0.0038, "0.4"),
        ] {
            assert_eq!(percent(share), told);
        }
    }
}
