//! The text in which Prometheus reads metrics (version 0.0.4).

use std::fmt::{Display, Write as _};

/// The lines with which a metric begins: its help, and its kind, such as `counter`.
pub fn metric_head(name: &str, help: &str, kind: &str) -> String {
    let help = help.replace('\\', "\\\\").replace('\n', "\\n");
    format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")
}

/// One value of a metric, with its labels. The value of a label can be any text.
pub fn metric_line(name: &str, labels: &[(&str, &str)], value: impl Display) -> String {
    let mut line = name.to_owned();
    let mut mark = '{';
    for (label, text) in labels {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        let text = text.replace('\n', "\\n");
        // Writing to a text cannot fail.
        let _ = write!(line, "{mark}{label}=\"{text}\"");
        mark = ',';
    }
    let end = if mark == ',' { "}" } else { "" };
    format!("{line}{end} {value}\n")
}

/// The values of a histogram with these labels: for each upper bound how many are below it, their sum, and how many there are.
pub fn metric_histogram(
    name: &str,
    labels: &[(&str, &str)],
    below: impl IntoIterator<Item = (f64, u64)>,
    sum: impl Display,
    count: u64,
) -> String {
    let bucket = |bound: &str, count: u64| {
        let labels = [labels, &[("le", bound)]].concat();
        metric_line(&format!("{name}_bucket"), &labels, count)
    };
    let below = below.into_iter();
    let mut lines: String = below
        .map(|(bound, count)| bucket(&bound.to_string(), count))
        .collect();
    lines += &bucket("+Inf", count);
    lines += &metric_line(&format!("{name}_sum"), labels, sum);
    lines + &metric_line(&format!("{name}_count"), labels, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_leave_its_place() {
        let hostile = "x\"} 1\n\\evil{y=\"z";
        assert_eq!(
            metric_line("n", &[("a", hostile), ("b", "")], 2),
            "n{a=\"x\\\"} 1\\n\\\\evil{y=\\\"z\",b=\"\"} 2\n"
        );
        assert_eq!(metric_line("n", &[], 2.5), "n 2.5\n");
        assert_eq!(
            metric_head("n", "a\nb\\", "gauge"),
            "# HELP n a\\nb\\\\\n# TYPE n gauge\n"
        );
    }
}
