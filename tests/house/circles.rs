//! Which files of the engine name each other in a circle. A reader of such a file has to know all of
//! them; where there is none, a reader can start anywhere and go down.

use std::collections::{BTreeMap, BTreeSet};

use crate::mentions::{Mention, mentions};
use crate::sources::SourceFile;

const ENGINE: &str = "ghostlight_actors";

/// How many re-exports are followed to the file that has a name.
const RE_EXPORTS: usize = 8;

/// The files of a package, by their module paths, with the files that each names.
type Arrows = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Which file names which, inside of one package. What a file re-exports of the modules below it, it
/// does not name: a name is followed to the file that has it.
fn arrows(files: &[&SourceFile], packages: &[String]) -> Arrows {
    let modules: BTreeSet<&[String]> = files.iter().map(|file| file.module.as_slice()).collect();
    let by_file: Vec<(&SourceFile, Vec<Mention>)> = files
        .iter()
        .filter(|file| !file.test_only)
        .map(|file| (*file, mentions(file, packages)))
        .collect();
    let mut re_exported = BTreeMap::new();
    for (file, found) in &by_file {
        for mention in found.iter().filter(|mention| mention.re_exports) {
            if let Some(name) = mention.path.last() {
                let place = (file.module.clone(), name.clone());
                re_exported.insert(place, mention.path.clone());
            }
        }
    }
    let mut arrows = Arrows::new();
    for (file, found) in &by_file {
        let named = arrows.entry(file.module.clone()).or_default();
        for mention in found {
            let goes_below = mention.path.starts_with(&file.module);
            if mention.package != file.package || (mention.re_exports && goes_below) {
                continue;
            }
            let target = file_of(&mention.path, &modules, &re_exported);
            if target != file.module {
                named.insert(target);
            }
        }
    }
    arrows
}

/// The file that has this name.
fn file_of(
    path: &[String],
    modules: &BTreeSet<&[String]>,
    re_exported: &BTreeMap<(Vec<String>, String), Vec<String>>,
) -> Vec<String> {
    let mut path = path.to_vec();
    for _ in 0..RE_EXPORTS {
        let longest = (0..=path.len())
            .rev()
            .find(|end| modules.contains(&path[..*end]))
            .unwrap_or(0);
        let Some(name) = path.get(longest) else {
            return path;
        };
        match re_exported.get(&(path[..longest].to_vec(), name.clone())) {
            Some(other) if *other != path => {
                path = other.iter().chain(&path[longest + 1..]).cloned().collect();
            }
            _ => {
                path.truncate(longest);
                return path;
            }
        }
    }
    path
}

/// The circles, each with its files in order.
fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    let reached: BTreeMap<_, _> = arrows
        .keys()
        .map(|from| (from, reachable(arrows, from)))
        .collect();
    let mut circles = BTreeSet::new();
    for (from, below) in &reached {
        let mut circle: Vec<String> = below
            .iter()
            .filter(|to| reached.get(*to).is_some_and(|back| back.contains(*from)))
            .map(|file| file.join("::"))
            .collect();
        circle.sort();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn reachable(arrows: &Arrows, from: &[String]) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&Vec<String>> = arrows.get(from).into_iter().flatten().collect();
    while let Some(file) = next.pop() {
        if found.insert(file.clone()) {
            next.extend(arrows.get(file).into_iter().flatten());
        }
    }
    found
}

/// The circles of the files of these rooms.
fn circles_in(files: &[&SourceFile], packages: &[String], rooms: &[&str]) -> Vec<String> {
    let inside = |file: &&&SourceFile| {
        let room = file.module.first();
        room.is_some_and(|room| rooms.contains(&room.as_str()))
    };
    let files: Vec<&SourceFile> = files.iter().filter(inside).copied().collect();
    let found = circles(&arrows(&files, packages));
    found.iter().map(|circle| circle.join(", ")).collect()
}

/// What the files of a room name that stands on a floor above their own. A floor is a list of the room's
/// modules, the upper ones first; what is in none stands below all.
fn climbs(
    files: &[&SourceFile],
    packages: &[String],
    room: &str,
    floors: &[&[&str]],
) -> Vec<String> {
    let floor = |file: &[String]| match file {
        [of, module, ..] if of == room => {
            let floor = floors
                .iter()
                .position(|floor| floor.contains(&module.as_str()));
            Some(floor.unwrap_or(floors.len()))
        }
        _ => None,
    };
    let mut found = Vec::new();
    for (from, named) in arrows(files, packages) {
        for to in named {
            if floor(&from)
                .zip(floor(&to))
                .is_some_and(|(from, to)| from > to)
            {
                found.push(format!("{} → {}", from.join("::"), to.join("::")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assert_none;
    use crate::sources::with_workspace;

    const ROOMS: [&str; 8] = [
        "actor",
        "session",
        "assembly",
        "run",
        "definition",
        "contract",
        "vocabulary",
        "testing",
    ];

    /// The circles that are left: an operation begins with its leg, whose machine keeps operations that have not begun;
    /// and a context has policies, which have contexts of their own.
    const LEFT: [&str; 2] = [
        "run::context, run::policy, run::policy::erased, run::policy::installed, run::policy::watch",
        "run::leg, run::operation, run::run_machine",
    ];

    #[test]
    fn no_files_of_a_room_name_each_other_in_a_circle() {
        with_workspace(move |workspace| {
            let files: Vec<&SourceFile> = workspace.library(ENGINE).collect();
            let found = circles_in(&files, &workspace.packages, &ROOMS);
            assert_eq!(
                found, LEFT,
                "files that name each other in a circle; put what both need below them"
            );
        });
    }

    /// The floors of `actor`, as ARCHITECTURE.md draws them: the System, the agent, the ways out. What all
    /// need is on none of them.
    const FLOORS: [&[&str]; 3] = [
        &[
            "cancelling",
            "fork",
            "handles",
            "member",
            "questions",
            "said",
            "session_agents",
            "sessions",
            "submitted",
            "system",
            "waiting",
            "wake_service",
            "topics",
            "turns",
        ],
        &["agent", "continuations", "launch", "shared"],
        &[
            "options",
            "model_gateway",
            "services",
            "tool_call",
            "tool_executor",
            "volatile",
        ],
    ];

    #[test]
    fn no_actors_file_names_a_floor_above_its_own() {
        with_workspace(move |workspace| {
            let files: Vec<&SourceFile> = workspace.library(ENGINE).collect();
            let found = climbs(&files, &workspace.packages, "actor", &FLOORS);
            assert_none(
                &found,
                "files that name what stands on a floor above theirs:",
            );
            let upside_down = [FLOORS[2], FLOORS[1], FLOORS[0]];
            assert!(!climbs(&files, &workspace.packages, "actor", &upside_down).is_empty());
        });
    }

    fn snippets(texts: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<SourceFile> = texts
            .iter()
            .map(|(module, text)| SourceFile::snippet(ENGINE, module, text))
            .collect();
        let files: Vec<&SourceFile> = files.iter().collect();
        circles_in(&files, &[ENGINE.to_owned()], &["a"])
    }

    #[test]
    fn a_circle_is_found_through_re_exports_and_local_names() {
        let found = snippets(&[
            (
                "a",
                "mod b; mod c; mod d; pub use b::B; pub use d::D; use c::f;",
            ),
            ("a::b", "use super::d::D; pub struct B;"),
            ("a::c", "fn f(_: super::D) {}"),
            ("a::d", "use crate::a::B; pub struct D;"),
        ]);
        assert_eq!(found, ["a::b, a::d"]);
    }

    #[test]
    fn a_parent_that_shows_what_is_below_it_and_is_named_there_is_no_circle() {
        let found = snippets(&[
            ("a", "mod b; pub use b::B; pub struct A;"),
            ("a::b", "use super::A; pub struct B(A);"),
        ]);
        assert_eq!(found, Vec::<String>::new());
        let found = snippets(&[
            ("a", "mod b; use b::B; pub struct A(B);"),
            ("a::b", "use super::A; pub struct B(A);"),
        ]);
        assert_eq!(found, ["a, a::b"]);
    }
}
