//! A report as one HTML file that needs nothing else.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use super::{ComparisonReport, Report, judging, text};
use crate::{
    cell::Cell,
    statistics::{Interval, Mean},
};

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");
/// The longest reason that is shown, in characters.
const REASON: usize = 300;
/// The width of a plot, in its own units.
const WIDTH: f64 = 200.0;

/// The data that the page's program reads.
#[derive(Serialize)]
struct Data<'a> {
    variants: Vec<Cow<'a, str>>,
    statuses: Vec<Status>,
    cells: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Status {
    label: String,
    kind: &'static str,
    count: usize,
}

#[derive(Serialize)]
struct Row<'a> {
    sample: Cow<'a, str>,
    variant: usize,
    repeat: u32,
    status: usize,
    scores: Vec<Option<f64>>,
    why: String,
    calls: u64,
    tokens: u64,
    ms: u64,
    run: Option<String>,
}

pub(super) fn write(report: &Report) -> String {
    let scorers = scorers(report);
    let mut page = String::with_capacity(1 << 16);
    page.push_str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    // Whatever stands in the page, a browser fetches nothing for it.
    page.push_str("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    let _ = write!(
        page,
        "<title>Evaluation {}</title>\n<style>\n{STYLE}</style></head><body>\n",
        escaped(&report.evaluation)
    );
    let _ = writeln!(page, "<h1>Evaluation {}</h1>", escaped(&report.evaluation));
    gate(&mut page, report);
    table(&mut page, report);
    success(&mut page, report);
    means(&mut page, report, &scorers);
    comparisons(&mut page, report);
    judges(&mut page, report);
    cells(&mut page, &scorers);
    let data = serde_json::to_string(&data(report, &scorers)).unwrap_or_default();
    // In a script element `<` could end it or begin a comment; in JSON it stands in texts alone.
    let data = data.replace('<', "\\u003c");
    let _ = write!(
        page,
        "<script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{SCRIPT}</script>\n</body></html>\n"
    );
    page
}

/// A text as it stands in an element or an attribute, without characters that act on what surrounds them.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in ghostlight_safety::printable(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

fn scorers(report: &Report) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for name in report.variants.iter().flat_map(|v| v.scorers.keys()) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

fn gate(page: &mut String, report: &Report) {
    let Some(gate) = &report.gate else { return };
    let (kind, text) = match gate.passes {
        true => ("good", "the gate passes"),
        false => ("bad", "the gate does not pass"),
    };
    let _ = writeln!(page, "<p><span class=\"badge {kind}\">{text}</span></p>");
    if !gate.faults.is_empty() {
        page.push_str("<ul>");
        for fault in &gate.faults {
            let fault = ghostlight_safety::printable_line(fault, 4 * REASON);
            let _ = write!(page, "<li>{}</li>", escaped(&fault));
        }
        page.push_str("</ul>\n");
    }
}

/// The same table as in a terminal.
fn table(page: &mut String, report: &Report) {
    page.push_str("<h2>Variants</h2>\n<div class=\"scroll\"><table>");
    for (index, row) in text::table(report).iter().enumerate() {
        page.push_str("<tr>");
        for (place, cell) in row.iter().enumerate() {
            let element = if index == 0 { "th" } else { "td" };
            let kind = if place > 1 { " class=\"number\"" } else { "" };
            let _ = write!(page, "<{element}{kind}>{}</{element}>", escaped(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

fn success(page: &mut String, report: &Report) {
    page.push_str("<h2>Success</h2>\n<p class=\"dim\">The share of cells that passed all scorers, with its 95 % interval, on an axis from 0 to 1.</p>\n<div class=\"scroll\"><table class=\"plots\">");
    for variant in &report.variants {
        let plot = variant.success.as_ref().map(of_mean);
        line(page, &[&variant.variant], plot, "no cell has a verdict");
    }
    page.push_str("</table></div>\n");
}

fn means(page: &mut String, report: &Report, scorers: &[&str]) {
    page.push_str("<h2>Scorers</h2>\n<p class=\"dim\">The mean of each scorer, with its 95 % interval, on an axis from 0 to 1.</p>\n<div class=\"scroll\"><table class=\"plots\">");
    for scorer in scorers {
        for variant in &report.variants {
            let mean = variant.scorers.get(*scorer).and_then(Option::as_ref);
            let heads = [*scorer, variant.variant.as_str()];
            line(page, &heads, mean.map(of_mean), "no cell has a score");
        }
    }
    page.push_str("</table></div>\n");
}

fn comparisons(page: &mut String, report: &Report) {
    if report.comparisons.is_empty() {
        return;
    }
    page.push_str("<h2>Comparisons</h2>\n<p class=\"dim\">The difference of success, sample by sample, in points, on an axis from -100 to +100.</p>\n<div class=\"scroll\"><table class=\"plots\">");
    for report in &report.comparisons {
        let plot = report.comparison.as_ref().map(|comparison| Plot {
            estimate: comparison.difference,
            interval: comparison.interval,
            range: (-1.0, 1.0),
            text: of_difference(report, comparison.difference, comparison.interval),
        });
        let heads = format!("{} against {}", report.other, report.base);
        line(
            page,
            &[&heads, report.verdict.as_str()],
            plot,
            "no sample has a verdict in both",
        );
    }
    page.push_str("</table></div>\n");
}

/// The figures of judges, as in a terminal.
fn judges(page: &mut String, report: &Report) {
    let told = judging::paragraph(report);
    if told.is_empty() {
        return;
    }
    page.push_str("<h2>Judges</h2>\n<ul>");
    for line in told.lines() {
        let _ = write!(page, "<li>{}</li>", escaped(line));
    }
    page.push_str("</ul>\n");
}

fn of_difference(report: &ComparisonReport, difference: f64, interval: Option<Interval>) -> String {
    let points = |value: f64| format!("{:+.1}", 100.0 * value);
    let mut text = points(difference);
    if let Some(interval) = interval {
        let _ = write!(
            text,
            " [{}, {}]",
            points(interval.lower),
            points(interval.upper)
        );
    }
    if let Some(p) = report.adjusted_p {
        let _ = write!(text, ", p = {p:.3}");
    }
    text
}

/// A number with its interval, on an axis.
struct Plot {
    estimate: f64,
    interval: Option<Interval>,
    range: (f64, f64),
    text: String,
}

fn of_mean(mean: &Mean) -> Plot {
    let mut text = format!("{:.2}", mean.estimate);
    if let Some(interval) = mean.interval {
        let (lower, upper) = (interval.lower.max(0.0), interval.upper.min(1.0));
        let _ = write!(text, " [{lower:.2}, {upper:.2}]");
    }
    Plot {
        estimate: mean.estimate,
        interval: mean.interval,
        range: (0.0, 1.0),
        text,
    }
}

fn line(page: &mut String, heads: &[&str], plot: Option<Plot>, without: &str) {
    page.push_str("<tr>");
    for head in heads {
        let _ = write!(page, "<td class=\"name\">{}</td>", escaped(head));
    }
    match plot {
        Some(plot) => {
            let _ = write!(
                page,
                "<td class=\"number\">{}</td><td class=\"plot\">{}</td>",
                escaped(&plot.text),
                plot.svg()
            );
        }
        None => {
            let _ = write!(page, "<td class=\"dim\" colspan=\"2\">{without}</td>");
        }
    }
    page.push_str("</tr>\n");
}

impl Plot {
    fn svg(&self) -> String {
        let (low, high) = self.range;
        let place = |value: f64| {
            let share = (value.clamp(low, high) - low) / (high - low);
            // The ends of strokes stay inside.
            4.0 + share * (WIDTH - 8.0)
        };
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} 20\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\"><line class=\"axis\" x1=\"4\" x2=\"{}\" y1=\"10\" y2=\"10\"/>",
            escaped(&self.text),
            WIDTH - 4.0
        );
        for tick in 0..=4 {
            let x = 4.0 + (WIDTH - 8.0) * f64::from(tick) / 4.0;
            let _ = write!(
                svg,
                "<line class=\"axis\" x1=\"{x}\" x2=\"{x}\" y1=\"6\" y2=\"14\"/>"
            );
        }
        if low < 0.0 {
            let zero = place(0.0);
            let _ = write!(
                svg,
                "<line class=\"zero\" x1=\"{zero}\" x2=\"{zero}\" y1=\"0\" y2=\"20\"/>"
            );
        }
        if let Some(interval) = self.interval {
            let (x1, x2) = (place(interval.lower), place(interval.upper));
            let _ = write!(
                svg,
                "<line class=\"span\" x1=\"{x1:.2}\" x2=\"{x2:.2}\" y1=\"10\" y2=\"10\"/>"
            );
        }
        let x = place(self.estimate);
        let _ = write!(
            svg,
            "<line class=\"dot\" x1=\"{x:.2}\" x2=\"{x:.2}\" y1=\"10\" y2=\"10\"/></svg>"
        );
        svg
    }
}

fn cells(page: &mut String, scorers: &[&str]) {
    page.push_str(
        "<h2>Cells</h2>\n<noscript><p>The list of cells needs JavaScript; `--json` has them too.</p></noscript>\n\
         <div class=\"filters\"><span id=\"statuses\" class=\"filters\" role=\"group\" aria-label=\"Status\"></span>\
         <select id=\"variant\" aria-label=\"Variant\"><option value=\"\">all variants</option></select>\
         <input id=\"search\" type=\"search\" placeholder=\"sample or reason\" aria-label=\"Search\">\
         <span id=\"count\" class=\"dim\"></span></div>\n\
         <div class=\"scroll\"><table><thead><tr><th>sample</th><th>variant</th><th class=\"number\">repeat</th><th>status</th>",
    );
    for scorer in scorers {
        let _ = write!(page, "<th class=\"number\">{}</th>", escaped(scorer));
    }
    page.push_str(
        "<th>reason</th><th class=\"number\">model calls</th><th class=\"number\">tokens</th>\
         <th class=\"number\">ms</th><th>its run</th></tr></thead><tbody id=\"cells\"></tbody></table></div>\n\
         <p><button id=\"more\" hidden>show more</button></p>\n",
    );
}

fn data<'a>(report: &'a Report, scorers: &[&str]) -> Data<'a> {
    let variants: Vec<&str> = report
        .variants
        .iter()
        .map(|variant| variant.variant.as_str())
        .collect();
    let mut statuses: BTreeMap<String, usize> = BTreeMap::new();
    for cell in &report.cells {
        *statuses.entry(status(cell)).or_default() += 1;
    }
    let names: Vec<&String> = statuses.keys().collect();
    let cells = report.cells.iter().map(|cell| Row {
        sample: ghostlight_safety::printable(&cell.sample),
        variant: variants
            .iter()
            .position(|name| *name == cell.variant)
            .unwrap_or(0),
        repeat: cell.repeat,
        status: names
            .iter()
            .position(|name| **name == status(cell))
            .unwrap_or(0),
        scores: scorers.iter().map(|name| cell.value(name)).collect(),
        why: ghostlight_safety::printable_line(&cell.why(), REASON),
        calls: cell.spent.model_calls,
        tokens: cell.spent.usage.total_tokens(),
        ms: cell.latency_ms,
        run: cell.runs.last().map(|run| run.short()),
    });
    Data {
        cells: cells.collect(),
        statuses: statuses
            .iter()
            .map(|(label, count)| Status {
                label: label.replace('_', " "),
                kind: kind(label),
                count: *count,
            })
            .collect(),
        variants: variants
            .iter()
            .map(|name| ghostlight_safety::printable(name))
            .collect(),
    }
}

/// How a cell ended, in a word.
fn status(cell: &Cell) -> String {
    let result = serde_json::to_value(&cell.result).unwrap_or_default();
    match (result["result"].as_str(), cell.success()) {
        (_, Some(true)) => String::from("passed"),
        (Some("scored"), _) => String::from("failed"),
        (word, _) => word.unwrap_or("unknown").to_owned(),
    }
}

fn kind(status: &str) -> &'static str {
    match status {
        "passed" => "good",
        "failed" | "agent_failed" => "bad",
        _ => "odd",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::vocabulary::{RunId, Spent};
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        cell::CellResult,
        report::{Counts, GateReport, VariantReport},
        scorers::Score,
    };

    const HOSTILE: &str =
        "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u{202e}]]>";

    fn report(cells: Vec<Cell>) -> Report {
        let mean = Mean {
            estimate: 0.5,
            interval: Some(Interval {
                lower: 0.25,
                upper: 1.5,
            }),
            scores: 2,
            clusters: 2,
        };
        let variant = VariantReport {
            variant: HOSTILE.to_owned(),
            counts: Counts::default(),
            success: Some(mean),
            success_bounds: None,
            scorers: [(HOSTILE.to_owned(), Some(mean))].into(),
            reward: None,
            repeats: None,
            judged: Spent::default(),
            cost_micros: 0,
            tokens: 0,
            model_calls: 0,
            median_latency_ms: 0,
        };
        Report {
            evaluation: HOSTILE.to_owned(),
            scorers: BTreeMap::new(),
            variants: vec![variant],
            comparisons: Vec::new(),
            rewards: Vec::new(),
            judges: Vec::new(),
            pairwise: Vec::new(),
            gate: Some(GateReport {
                passes: false,
                faults: vec![HOSTILE.to_owned()],
            }),
            cells,
        }
    }

    fn cell(number: u32, why: &str) -> Cell {
        let result = CellResult::Scored {
            scores: [(HOSTILE.to_owned(), Score::fail(why))].into(),
        };
        Cell {
            variant: HOSTILE.to_owned(),
            sample: format!("{HOSTILE} {number}"),
            cluster: String::new(),
            tags: Vec::new(),
            repeat: 1,
            result,
            runs: vec![RunId::from_random(number.into())],
            reward: None,
            lowest_reward: None,
            judged: Spent::default(),
            spent: Spent::default(),
            latency_ms: 12,
        }
    }

    #[test]
    fn no_text_of_a_report_is_markup() {
        let page = report(vec![cell(1, HOSTILE)]).html();
        assert_eq!(page.matches("<script").count(), 2, "{page}");
        assert_eq!(page.matches("</script>").count(), 2, "{page}");
        assert!(!page.contains("<img"), "{page}");
        assert!(!page.contains('\u{202e}'), "{page}");
        // The program reads what was written.
        let (_, after) = page
            .split_once("<script type=\"application/json\" id=\"data\">")
            .unwrap();
        let (data, _) = after.split_once("</script>").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["variants"][0], *ghostlight_safety::printable(HOSTILE));
        assert_eq!(data["statuses"][0]["label"], "failed");
        assert_eq!(data["cells"][0]["scores"], json!([0.0]));
        assert_eq!(
            data["cells"][0]["run"],
            RunId::from_random(1).short().as_str()
        );
        let why = data["cells"][0]["why"].as_str().unwrap();
        assert!(why.contains("<script>alert(1)"), "{why}");
    }

    #[test]
    fn the_page_fetches_nothing_and_plots_stay_inside() {
        let page = report(vec![cell(1, "no")]).html();
        assert!(page.contains("default-src 'none'"));
        for outside in [
            "src=", "href=", "http://", "https://", "url(", "@import", "fetch(",
        ] {
            let shown = page.replace("src=x", "");
            assert!(!shown.contains(outside), "{outside}");
        }
        // 1.5 is beyond the axis.
        assert!(page.contains("x2=\"196.00\""), "{page}");
        assert!(!SCRIPT.contains("innerHTML"));
    }

    #[test]
    fn ten_thousand_cells_are_ten_megabytes_at_most() {
        let long = "a reason that goes on and on; ".repeat(40);
        let cells = (0..10_000).map(|number| cell(number, &long)).collect();
        let length = report(cells).html().len();
        assert!(length <= 10 << 20, "{length}");
    }
}
