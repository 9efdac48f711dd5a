//! A graph as the source of a diagram.

use std::fmt::Write;

use ghostlight_safety::cut;

use super::{END, StateGraph, Way};

/// The most characters of a condition beside its arrow, with the mark of a cut.
const WORDS: usize = 61;

/// The arrows of a graph, each with its label.
fn arrows<S>(graph: &StateGraph<S>) -> Vec<(&str, &str, String)> {
    let mut arrows = Vec::new();
    for (from, way) in &graph.ways {
        for (place, to) in way.targets().into_iter().enumerate() {
            let label = match way {
                Way::To(_) => String::new(),
                Way::Choice { words, .. } => match words.get(place).map(String::as_str) {
                    None | Some("") => "or".to_owned(),
                    Some(words) => cut(words, WORDS).into_owned(),
                },
                Way::Fork { .. } => "and".to_owned(),
            };
            arrows.push((from.as_str(), to, label));
        }
    }
    arrows
}

/// A text within quotes that both languages can read.
fn quoted(name: &str) -> String {
    name.replace('\\', "/").replace('"', "'").replace('\n', " ")
}

/// The same for Mermaid, which would read a label as HTML.
fn markup(text: &str) -> String {
    let text = quoted(text).replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

pub(super) fn mermaid<S>(graph: &StateGraph<S>) -> String {
    let names: Vec<&str> = graph
        .nodes
        .keys()
        .map(String::as_str)
        .chain([END])
        .collect();
    let id = |name: &str| names.iter().position(|known| *known == name).unwrap_or(0);
    let mut text = String::from("flowchart TD\n");
    // Writing into a string cannot fail.
    for (place, name) in names.iter().enumerate() {
        let (open, close) = if *name == END {
            ("([", "])")
        } else {
            ("[", "]")
        };
        let _ = writeln!(text, "    n{place}{open}\"{}\"{close}", markup(name));
    }
    let _ = writeln!(text, "    start(( )) --> n{}", id(&graph.entry));
    for (from, to, label) in arrows(graph) {
        let label = if label.is_empty() {
            String::new()
        } else {
            format!("|\"{}\"|", markup(&label))
        };
        let _ = writeln!(text, "    n{} -->{label} n{}", id(from), id(to));
    }
    text
}

pub(super) fn dot<S>(graph: &StateGraph<S>) -> String {
    let mut text = String::from("digraph {\n    start [shape=point];\n");
    let _ = writeln!(text, "    \"{END}\" [shape=doublecircle];");
    let _ = writeln!(text, "    start -> \"{}\";", quoted(&graph.entry));
    for (from, to, label) in arrows(graph) {
        let label = if label.is_empty() {
            String::new()
        } else {
            format!(" [label=\"{}\"]", quoted(&label))
        };
        let _ = writeln!(
            text,
            "    \"{}\" -> \"{}\"{label};",
            quoted(from),
            quoted(to)
        );
    }
    text.push_str("}\n");
    text
}
