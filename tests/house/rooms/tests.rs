//! Arrows that are allowed, and arrows that are found.

use super::*;
use crate::sources::with_workspace;

fn check(files: &[SourceFile]) -> Vec<String> {
    let packages = PACKAGES.map(|(package, _)| package.to_owned());
    wrong_arrows(&files.iter().collect::<Vec<_>>(), &packages)
}

fn engine(module: &str, text: &str) -> Vec<String> {
    check(&[SourceFile::snippet(ENGINE, module, text)])
}

fn face(module: &str, text: &str) -> Vec<String> {
    check(&[SourceFile::snippet(FACE, module, text)])
}

#[test]
fn every_arrow_in_this_workspace_is_allowed() {
    with_workspace(move |workspace| {
        let files: Vec<&SourceFile> = workspace
            .files
            .iter()
            .filter(|file| file.in_library)
            .collect();
        let findings = wrong_arrows(&files, &workspace.packages);
        crate::assert_none(&findings, "arrows point down only (ARCHITECTURE.md):");
    });
}

#[test]
fn in_the_engine_each_room_names_those_below_it_and_none_above() {
    for (upper, from) in ENGINE_ROOMS.iter().enumerate() {
        for (lower, to) in ENGINE_ROOMS.iter().enumerate() {
            let findings = engine(from, &format!("use crate::{to}::Thing;"));
            assert_eq!(
                findings.is_empty(),
                upper <= lower,
                "{from} → {to}: {findings:?}"
            );
        }
    }
}

#[test]
fn a_finding_names_file_line_arrow_and_what_is_allowed() {
    assert_eq!(
        engine("definition::tree", "\nfn f() { crate::run::Scope::new() }"),
        [
            "definition/tree.rs:2: definition → run (run::Scope::new): definition may name \
          contract, vocabulary"
        ]
    );
}

#[test]
fn an_arrow_is_found_behind_super_and_in_macros() {
    assert_eq!(
        engine("run::scope", "use super::super::actor::System;").len(),
        1
    );
    assert_eq!(
        engine("run", "fn f() { vec![ghostlight_actors::session::f()] }").len(),
        1
    );
}

#[test]
fn names_that_a_lower_room_shows_belong_to_the_upper_one() {
    let shown = |module: &str, text: &str| {
        check(&[
            SourceFile::snippet(ENGINE, "run", "pub use crate::assembly::Agent;"),
            SourceFile::snippet(ENGINE, module, text),
        ])
    };
    assert!(shown("session", "use crate::run::Agent;").is_empty());
    assert_eq!(shown("run::leg", "use super::Agent;").len(), 1);
    assert_eq!(shown("run::leg", "use crate::run::{Agent, Leg};").len(), 1);
    assert_eq!(shown("run::leg", "pub use crate::assembly::Team;").len(), 1);
    assert_eq!(engine("run", "use crate::assembly::Team;").len(), 1);
}

#[test]
fn the_test_kit_names_all_and_is_named_by_none() {
    for room in ENGINE_ROOMS {
        assert!(
            engine("testing", &format!("use crate::{room}::X;")).is_empty(),
            "{room}"
        );
        assert_eq!(engine(room, "use crate::testing::X;").len(), 1, "{room}");
        let test = "#[cfg(test)] mod tests { use crate::testing::X; }";
        assert!(engine(room, test).is_empty(), "{room}");
    }
}

#[test]
fn the_engine_never_names_ghostlight() {
    assert_eq!(engine("actor", "fn f() { ghostlight::builtin() }").len(), 1);
    assert_eq!(engine("", "pub use ghostlight::prelude;").len(), 1);
}

#[test]
fn a_package_names_only_those_that_its_row_lists() {
    for (from, listed) in PACKAGES {
        for (to, _) in PACKAGES {
            let text = format!("use {to}::thing::Thing;");
            let findings = check(&[SourceFile::snippet(from, "", &text)]);
            let allowed = from == to || listed.contains(&to);
            assert_eq!(findings.is_empty(), allowed, "{from} → {to}: {findings:?}");
        }
    }
}

#[test]
fn a_re_export_at_the_root_is_followed_to_its_room() {
    let root = SourceFile::snippet(
        ENGINE,
        "",
        "pub mod actor; pub use actor::{System, Handle as ActorHandle}; pub const LIMIT: u8 = 1;",
    );
    let user = |text| SourceFile::snippet(ENGINE, "session", text);
    let above = check(&[root, user("use crate::ActorHandle;")]);
    assert_eq!(above.len(), 1);
    assert!(above[0].contains("session → actor"), "{above:?}");

    let root = SourceFile::snippet(ENGINE, "", "pub const LIMIT: u8 = 1;");
    assert!(check(&[root, user("use crate::LIMIT;")]).is_empty());
}

#[test]
fn what_cannot_be_followed_is_reported() {
    for (text, what) in [
        ("use crate::*;", "a glob of the root"),
        ("use crate as root;", "the root renamed"),
        ("use crate::Unknown;", "a name of unknown origin"),
    ] {
        assert_eq!(engine("session", text).len(), 1, "{what}");
    }
    assert_eq!(engine("drawer", "").len(), 1, "a room that no table names");
}

#[test]
fn topics_name_each_other_only_where_the_table_says_so() {
    for (from, to) in [
        ("workflows", "behaviors"),
        ("behaviors", "context"),
        ("behaviors", "policies"),
        ("context", "instructions"),
        ("config", "workflows"),
    ] {
        assert!(
            face(from, &format!("use crate::{to}::X;")).is_empty(),
            "{from} → {to}"
        );
    }
    for (from, to) in [
        ("behaviors", "workflows"),
        ("workflows", "context"),
        ("retrieval", "models"),
        ("tools", "models"),
        ("stores", "config"),
    ] {
        assert_eq!(
            face(from, &format!("use crate::{to}::X;")).len(),
            1,
            "{from} → {to}"
        );
    }
}

#[test]
fn topics_use_the_public_face_of_the_engine() {
    assert!(face("stores", "use ghostlight_actors::contract::Store;").is_empty());
    assert_eq!(face("stores", "use ghostlight_actors as engine;").len(), 1);
}

#[test]
fn every_arrow_between_topics_leads_to_a_known_topic_and_none_leads_back() {
    let known = rooms_of(FACE);
    for (from, may) in TOPICS {
        let May::Name(others) = may else { continue };
        for to in others {
            assert!(known.contains(to), "{from} → {to}");
            assert!(!reaches(to, from), "{from} → {to} closes a circle");
        }
    }
}

#[test]
fn the_table_has_each_topic_once_and_none_that_is_not_there() {
    with_workspace(move |workspace| {
        let mut there: Vec<&str> = workspace
            .library(FACE)
            .filter_map(|file| match file.module.as_slice() {
                [topic] if !FACADES.contains(&topic.as_str()) => Some(topic.as_str()),
                _ => None,
            })
            .collect();
        there.sort_unstable();
        assert_eq!(TOPICS.map(|(topic, _)| topic).as_slice(), there);
    });
}

fn reaches(from: &str, goal: &str) -> bool {
    let Some((_, May::Name(others))) = TOPICS.iter().find(|(topic, _)| *topic == from) else {
        return false;
    };
    others.iter().any(|to| *to == goal || reaches(to, goal))
}
