//! Which room may name which. In the engine every arrow points down; in `ghostlight` a topic uses
//! the engine's public face and only the other topics that stand beside it in the table.

use std::collections::{BTreeMap, BTreeSet};

use crate::mentions::{Mention, mentions};
use crate::sources::SourceFile;
const ENGINE: &str = "ghostlight_actors";
const FACE: &str = "ghostlight";
/// What is shown and what comes in is read in one way by all packages.
const SAFETY: &str = "ghostlight_safety";

/// The packages, each with the others that it may name.
const PACKAGES: [(&str, &[&str]); 21] = [
    (
        FACE,
        &[
            ENGINE,
            "ghostlight_a2a",
            "ghostlight_acp",
            "ghostlight_anp",
            "ghostlight_evals",
            "ghostlight_macros",
            "ghostlight_mcp",
            "ghostlight_memory",
            "ghostlight_models",
            "ghostlight_opentelemetry",
            "ghostlight_page",
            "ghostlight_postgres",
            "ghostlight_retrieval",
            SAFETY,
            "ghostlight_server",
            "ghostlight_structured_output",
            "ghostlight_tools",
        ],
    ),
    // The command, which shows and starts all there is.
    ("ghostlight_cli", &[FACE, ENGINE, SAFETY]),
    (ENGINE, &[SAFETY, "ghostlight_supervisor"]),
    // In the code that it writes, which stands where the face is named.
    ("ghostlight_macros", &[FACE]),
    ("ghostlight_a2a", &[ENGINE, SAFETY]),
    // Both speak to programs on their standard streams.
    (
        "ghostlight_acp",
        &[ENGINE, SAFETY, "ghostlight_child_process"],
    ),
    (
        "ghostlight_mcp",
        &[ENGINE, SAFETY, "ghostlight_child_process"],
    ),
    ("ghostlight_anp", &[]),
    // The texts of foreign programs are shown without what acts on a terminal.
    ("ghostlight_child_process", &[ENGINE, SAFETY]),
    // Memories are found by the same terms as documents.
    (
        "ghostlight_memory",
        &[ENGINE, SAFETY, "ghostlight_retrieval"],
    ),
    // Verdicts are JSON as models write it, citations are checked as elsewhere, and scorers may be programs.
    (
        "ghostlight_evals",
        &[
            ENGINE,
            SAFETY,
            "ghostlight_child_process",
            "ghostlight_retrieval",
            "ghostlight_structured_output",
        ],
    ),
    // The offline model finds the tool and the passage that fit, and embedders are of words too.
    (
        "ghostlight_models",
        &[ENGINE, SAFETY, "ghostlight_retrieval"],
    ),
    ("ghostlight_opentelemetry", &[ENGINE, SAFETY]),
    // Its files are what a server shows to browsers.
    ("ghostlight_page", &["ghostlight_server"]),
    ("ghostlight_postgres", &[ENGINE, SAFETY]),
    ("ghostlight_retrieval", &[ENGINE, SAFETY]),
    // Protocols that have a translation of their own; memories and evaluations, which are looked at over the network too; and
    // the rules by which requests go out.
    (
        "ghostlight_server",
        &[
            ENGINE,
            SAFETY,
            "ghostlight_a2a",
            "ghostlight_anp",
            "ghostlight_evals",
            "ghostlight_memory",
            "ghostlight_tools",
        ],
    ),
    (SAFETY, &[]),
    ("ghostlight_structured_output", &[]),
    ("ghostlight_supervisor", &[]),
    // Pages of the web become Markdown as documents do.
    (
        "ghostlight_tools",
        &[ENGINE, SAFETY, "ghostlight_retrieval"],
    ),
];

/// The rooms of the engine from top to bottom: each may name those that follow it.
const ENGINE_ROOMS: [&str; 7] = [
    "actor",
    "session",
    "assembly",
    "run",
    "definition",
    "contract",
    "vocabulary",
];

/// A room of the engine, and the room below it whose module shows its public names to other packages. Inside of the engine such
/// a name belongs to the upper room, whichever way it is named.
const SHOWN_BELOW: (&str, &str) = ("assembly", "run");

/// The engine's test kit may name every room; what ships below it may not name the kit.
const ENGINE_TEST_KIT: &str = "testing";

/// Modules at a crate root that only gather names for the outside: they may name every room, none names them.
const FACADES: [&str; 1] = ["prelude"];

#[derive(Debug, Clone, Copy)]
enum May {
    Name(&'static [&'static str]),
    NameAny,
}

/// The topics of `ghostlight`, each with the other topics that it may name.
const TOPICS: [(&str, May); 27] = [
    // Secrets in its headers are those of models.
    ("a2a", May::Name(&["models"])),
    ("acp", May::Name(&["models"])),
    ("anp", May::Name(&["models"])),
    ("attachment", May::Name(&[])),
    (
        "behaviors",
        May::Name(&["context", "policies", "structured_output"]),
    ),
    ("builtin", May::NameAny),
    ("config", May::NameAny),
    ("context", May::Name(&["instructions", "retrieval"])),
    // What is searched comes to an agent as context; its vectors are made by a model, and a tool of an MCP server may
    // read the files.
    (
        "documents",
        May::Name(&["context", "mcp", "models", "retrieval", "tools"]),
    ),
    ("evals", May::Name(&[])),
    ("instructions", May::Name(&[])),
    ("interceptors", May::Name(&["context", "models"])),
    // Teams over this protocol stand beside the other endpoints of a server.
    ("mcp", May::Name(&["server"])),
    ("memory", May::Name(&[])),
    ("models", May::Name(&[])),
    ("one_agent", May::NameAny),
    ("open", May::NameAny),
    ("opentelemetry", May::Name(&[])),
    ("policies", May::Name(&["instructions", "retrieval"])),
    ("protocols", May::NameAny),
    ("retrieval", May::Name(&[])),
    ("safety", May::Name(&[])),
    ("server", May::Name(&[])),
    ("stores", May::Name(&[])),
    ("structured_output", May::Name(&[])),
    ("tools", May::Name(&["retrieval"])),
    // A router compares a task with examples, by an embedder that a team file names; notes of a tree are a `board`.
    (
        "workflows",
        May::Name(&["behaviors", "models", "policies", "retrieval"]),
    ),
];

/// Where a name at a crate root comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    /// Re-exported from, or a macro of, this room.
    Room(String),
    /// Written in the crate root itself, or brought there from another crate.
    Root,
}

/// Everything that the given library files name although their room may not, as
/// `file:line: from → to: why`.
pub(crate) fn wrong_arrows(files: &[&SourceFile], packages: &[String]) -> Vec<String> {
    let mut findings = BTreeSet::new();
    for file in files {
        for mention in mentions(file, packages) {
            if !package_allows(&file.package, &mention.package) {
                findings.insert(format!(
                    "{}:{}: {} → {} ({}): no arrow between these packages in tests/house/rooms.rs",
                    file.path.display(),
                    mention.line,
                    file.package,
                    mention.package,
                    mention.path.join("::")
                ));
            }
        }
    }
    for package in [ENGINE, FACE] {
        let own: Vec<&SourceFile> = files
            .iter()
            .copied()
            .filter(|file| file.package == package)
            .collect();
        let rooms = rooms_of(package);
        let mut origins = root_names(&own, &rooms);
        origins.extend(names_shown_below(&own, packages));
        for file in own {
            if let Some(finding) = unknown_room(file, &rooms) {
                findings.insert(finding);
            }
            for mention in mentions(file, packages) {
                if let Some(why) = judge(package, &mention, &rooms, &origins) {
                    let place = format!("{}:{}", file.path.display(), mention.line);
                    findings.insert(format!("{place}: {why}"));
                }
            }
        }
    }
    findings.into_iter().collect()
}

fn rooms_of(package: &str) -> Vec<&'static str> {
    if package == ENGINE {
        ENGINE_ROOMS
            .into_iter()
            .chain([ENGINE_TEST_KIT])
            .chain(FACADES)
            .collect()
    } else {
        TOPICS
            .into_iter()
            .map(|(topic, _)| topic)
            .chain(FACADES)
            .collect()
    }
}

fn unknown_room(file: &SourceFile, rooms: &[&str]) -> Option<String> {
    let room = file.module.first()?;
    let unknown = !file.test_only && !rooms.contains(&room.as_str());
    unknown.then(|| {
        format!(
            "{}:1: `{room}` is no room of {}: put it into one, or say in tests/house/rooms.rs what \
             it may name",
            file.path.display(),
            file.package
        )
    })
}

fn judge(
    package: &str,
    mention: &Mention,
    rooms: &[&str],
    origins: &BTreeMap<String, Origin>,
) -> Option<String> {
    let target = mention.path.join("::");
    if mention.renames_root && mention.package != "ghostlight_macros" {
        return Some(format!(
            "gives the root of {} another name, under which arrows cannot be followed",
            mention.package
        ));
    }
    // The crate root and its facades gather names; other packages show only their public face.
    let from = mention
        .within
        .first()
        .filter(|room| !FACADES.contains(&room.as_str()))?;
    if mention.package != package || is_shown_below(mention) {
        return None;
    }
    let named = mention.path.first()?;
    let shown = mention.path.get(..2).map(|path| path.join("::"));
    let to = if let Some(Origin::Room(room)) = shown.and_then(|name| origins.get(&name)) {
        room.clone()
    } else if rooms.contains(&named.as_str()) {
        named.clone()
    } else {
        match origins.get(named) {
            Some(Origin::Room(room)) => room.clone(),
            Some(Origin::Root) => return None,
            None => {
                return Some(format!(
                    "{from} → ? (crate::{target}): name it by the room that it belongs to"
                ));
            }
        }
    };
    let allowed = if package == ENGINE {
        engine_allows(from, &to)
    } else {
        face_allows(from, &to)
    };
    (!allowed).then(|| format!("{from} → {to} ({target}): {}", allowance(package, from)))
}

fn package_allows(from: &str, to: &str) -> bool {
    let listed = PACKAGES.iter().find(|(package, _)| *package == from);
    from == to || listed.is_some_and(|(_, others)| others.contains(&to))
}

fn engine_allows(from: &str, to: &str) -> bool {
    let level = |room: &str| ENGINE_ROOMS.iter().position(|known| *known == room);
    from == to
        || from == ENGINE_TEST_KIT && !FACADES.contains(&to)
        || matches!((level(from), level(to)), (Some(upper), Some(lower)) if upper < lower)
}

fn face_allows(from: &str, to: &str) -> bool {
    let listed = match TOPICS.iter().find(|(topic, _)| *topic == from) {
        Some((_, May::NameAny)) => !FACADES.contains(&to),
        Some((_, May::Name(others))) => others.contains(&to),
        None => false,
    };
    from == to || listed
}

/// What `from` may name, as a developer wants to read it beside the finding.
fn allowance(package: &str, from: &str) -> String {
    let others: Vec<&str> = rooms_of(package)
        .into_iter()
        .filter(|to| {
            *to != from
                && if package == ENGINE {
                    engine_allows(from, to)
                } else {
                    face_allows(from, to)
                }
        })
        .collect();
    if others.is_empty() {
        format!("{from} may name no other room")
    } else {
        format!("{from} may name {}", others.join(", "))
    }
}

/// Where the names at the root of a package come from, so that `crate::Message` is seen as
/// what it is: a way to the room that the root re-exports it from.
fn root_names(files: &[&SourceFile], rooms: &[&str]) -> BTreeMap<String, Origin> {
    let mut origins = BTreeMap::new();
    for file in files {
        let exported = file.syntax.items.iter().filter_map(exported_macro);
        if let Some(room) = file.module.first() {
            origins.extend(exported.map(|name| (name, Origin::Room(room.clone()))));
            continue;
        }
        for item in &file.syntax.items {
            if let syn::Item::Use(used) = item {
                re_exports(&[], &used.tree, rooms, &mut origins);
            } else if let Some(name) = declared_name(item) {
                origins.insert(name, Origin::Root);
            }
        }
    }
    origins
}

/// The names of the upper room that the lower one shows, as `run::Agent`.
fn names_shown_below(
    files: &[&SourceFile],
    packages: &[String],
) -> impl Iterator<Item = (String, Origin)> {
    let (above, below) = SHOWN_BELOW;
    let found = files.iter().flat_map(|file| mentions(file, packages));
    found.filter(is_shown_below).filter_map(move |mention| {
        let name = format!("{below}::{}", mention.path.last()?);
        Some((name, Origin::Room(above.to_owned())))
    })
}

fn is_shown_below(mention: &Mention) -> bool {
    let (above, below) = SHOWN_BELOW;
    mention.re_exports
        && mention.within == [below]
        && mention.path.first().is_some_and(|room| room == above)
}

fn re_exports(
    prefix: &[String],
    tree: &syn::UseTree,
    rooms: &[&str],
    origins: &mut BTreeMap<String, Origin>,
) {
    let mut name = |visible: String, last: String| {
        let path = [prefix, &[last]].concat();
        let inside = path
            .iter()
            .find(|part| !["crate", "self"].contains(&part.as_str()));
        let origin = match inside {
            Some(room) if rooms.contains(&room.as_str()) => Origin::Room(room.clone()),
            _ => Origin::Root,
        };
        origins.insert(visible, origin);
    };
    match tree {
        syn::UseTree::Path(path) => {
            let deeper = [prefix, &[path.ident.to_string()]].concat();
            re_exports(&deeper, &path.tree, rooms, origins);
        }
        syn::UseTree::Name(last) => name(last.ident.to_string(), last.ident.to_string()),
        syn::UseTree::Rename(last) => name(last.rename.to_string(), last.ident.to_string()),
        syn::UseTree::Group(group) => {
            for part in &group.items {
                re_exports(prefix, part, rooms, origins);
            }
        }
        // What a glob brings cannot be told from here; such a name has to be written by its room.
        syn::UseTree::Glob(_) => {}
    }
}

fn exported_macro(item: &syn::Item) -> Option<String> {
    let syn::Item::Macro(rules) = item else {
        return None;
    };
    let exported = rules
        .attrs
        .iter()
        .any(|attribute| attribute.path().is_ident("macro_export"));
    rules
        .ident
        .as_ref()
        .filter(|_| exported)
        .map(ToString::to_string)
}

fn declared_name(item: &syn::Item) -> Option<String> {
    let ident = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

#[cfg(test)]
mod tests;
