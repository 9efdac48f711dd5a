//! The public names of the packages stand in `docs/internal/public-names.txt`, so that a change of them is seen in a diff.
//!
//!     GHOSTLIGHT_WRITE_PUBLIC_NAMES=1 cargo test --test house public_names

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use crate::{pages::root, public_items::PublicItems, sources::with_workspace};

const LIST: &str = "docs/internal/public-names.txt";

#[test]
fn the_public_names_are_those_of_the_list() {
    let names: BTreeSet<String> = with_workspace(|workspace| {
        let items = PublicItems::of(workspace);
        let packages = workspace.packages.iter();
        packages.flat_map(|package| items.names(package)).collect()
    });
    let twice = errors_twice(&names);
    crate::assert_none(
        &twice,
        "errors of two packages have one name; name each after its subject:",
    );
    let path = root().join(LIST);
    if std::env::var_os("GHOSTLIGHT_WRITE_PUBLIC_NAMES").is_some() {
        let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
        fs::write(&path, lines).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    let listed: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    let added = names.difference(&listed).map(|name| format!("+ {name}"));
    let removed = listed.difference(&names).map(|name| format!("- {name}"));
    let findings: Vec<String> = added.chain(removed).collect();
    let rule = "the public names differ from docs/internal/public-names.txt; set GHOSTLIGHT_WRITE_PUBLIC_NAMES=1 to write it:";
    crate::assert_none(&findings, rule);
}

/// The names of errors that two packages have. `ghostlight` exports those of others.
fn errors_twice(names: &BTreeSet<String>) -> Vec<String> {
    let mut packages = BTreeMap::<&str, BTreeSet<&str>>::new();
    for name in names {
        let (package, path) = name.split_once("::").unwrap_or_default();
        let item = path.rsplit("::").next().unwrap_or_default();
        if item.ends_with("Error") && package != "ghostlight" {
            packages.entry(item).or_default().insert(package);
        }
    }
    packages.retain(|_, packages| packages.len() > 1);
    packages
        .iter()
        .map(|(error, packages)| format!("{error}: {packages:?}"))
        .collect()
}
