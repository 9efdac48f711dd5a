//! What of the world outside the engine may name: time and chance come through their contracts, so
//! that a simulation can repeat a run; and plain data stays plain.

use crate::mentions::mentions;
use crate::sources::SourceFile;

const ENGINE: &str = "ghostlight_actors";

/// Things outside, the only places in the engine that may name them, and why.
struct Reach {
    things: &'static [&'static str],
    only_in: Places,
    why: &'static str,
}

enum Places {
    /// These modules and what is below them.
    In(&'static [&'static str]),
    /// Everywhere else.
    NotIn(&'static [&'static str]),
}

const REACHES: [Reach; 3] = [
    Reach {
        things: &["std::time::Instant", "std::time::SystemTime"],
        only_in: Places::In(&["contract::clock"]),
        why: "the time comes from the Clock contract",
    },
    Reach {
        things: &[
            "rand::random",
            "rand::rng",
            "rand::rngs::OsRng",
            "rand::rngs::SysRng",
            "rand::rngs::ThreadRng",
        ],
        only_in: Places::In(&["contract::entropy"]),
        why: "chance comes from the Entropy contract; a generator with a given seed is fine",
    },
    Reach {
        things: &[
            "futures_util",
            "ractor",
            "std::fs",
            "std::net",
            "std::process",
            "std::thread",
            "tokio",
        ],
        only_in: Places::NotIn(&["definition", "vocabulary"]),
        why: "the vocabulary and the definitions are plain data: no I/O, nothing asynchronous",
    },
];

/// What the engine's files name although they may not, as `file:line: name: why`.
fn findings(files: &[&SourceFile]) -> Vec<String> {
    let outside = ["futures_util", "ractor", "rand", "std", "tokio"].map(str::to_owned);
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.package == ENGINE) {
        for mention in mentions(file, &outside) {
            if !outside.contains(&mention.package) {
                continue;
            }
            let named = format!("{}::{}", mention.package, mention.path.join("::"));
            let within = mention.within.join("::");
            for reach in &REACHES {
                let touched = reach.things.iter().any(|thing| is_below(&named, thing));
                if touched && !permitted(&reach.only_in, &within) {
                    let place = format!("{}:{}", file.path.display(), mention.line);
                    findings.push(format!("{place}: {named}: {}", reach.why));
                }
            }
        }
    }
    findings
}

fn permitted(places: &Places, module: &str) -> bool {
    match places {
        Places::In(modules) => modules.iter().any(|place| is_below(module, place)),
        Places::NotIn(modules) => !modules.iter().any(|place| is_below(module, place)),
    }
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::with_workspace;

    fn engine(module: &str, text: &str) -> Vec<String> {
        findings(&[&SourceFile::snippet(ENGINE, module, text)])
    }

    #[test]
    fn the_engine_reaches_the_world_only_through_its_contracts() {
        with_workspace(move |workspace| {
            let files: Vec<&SourceFile> = workspace.library(ENGINE).collect();
            crate::assert_none(
                &findings(&files),
                "the engine reaches around its contracts:",
            );
        });
    }

    #[test]
    fn time_and_chance_are_read_in_one_place_each() {
        let clock = "use std::time::{Duration, Instant}; fn f() { std::time::SystemTime::now(); }";
        assert_eq!(engine("contract::clock", clock), Vec::<String>::new());
        assert_eq!(
            engine("run::scope", clock).len(),
            2,
            "two readings; a duration is none"
        );

        let chance = "fn f() { rand::rng().random() }";
        assert_eq!(engine("contract::entropy", chance), Vec::<String>::new());
        assert_eq!(engine("actor", chance).len(), 1);
        assert!(
            engine("actor", "use rand::rngs::StdRng;").is_empty(),
            "a seeded generator"
        );
    }

    #[test]
    fn plain_data_does_no_input_or_output() {
        for text in [
            "use tokio::sync::mpsc;",
            "use std::{fmt, fs};",
            "use ractor::Actor;",
        ] {
            assert_eq!(engine("vocabulary::message", text).len(), 1, "{text}");
            assert!(engine("actor::system", text).is_empty(), "{text}");
        }
        let test = "#[cfg(test)] mod tests { use std::fs; }";
        assert!(engine("definition", test).is_empty());
    }

    #[test]
    fn a_name_that_only_begins_alike_is_another_thing() {
        assert!(!is_below("tokio_util::sync", "tokio"));
        assert!(is_below("tokio::time", "tokio"));
        assert!(!is_below("contract::clockwork", "contract::clock"));
    }
}
