//! The sets of features that `./test` checks (.ci/feature_sets): a feature that needs another one must say so, and
//! the compiler sees that only where the one is on and the other is off.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// The part of a manifest that says which features there are.
#[derive(Debug, Deserialize)]
struct Manifest {
    package: Package,
    #[serde(default)]
    features: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
}

/// The features of all packages by `package/feature`, each with those that it turns on itself. All packages are checked
/// together, so what a package turns on in another one if that is there is on.
fn features(manifests: &[Manifest]) -> BTreeMap<String, BTreeSet<String>> {
    let of = |manifest: &Manifest, feature: &str| format!("{}/{feature}", manifest.package.name);
    let mut features = BTreeMap::new();
    for manifest in manifests {
        for (feature, turned_on) in &manifest.features {
            let turned_on = turned_on.iter().map(|other| match other.contains('/') {
                true => other.replace('?', ""),
                false => of(manifest, other),
            });
            features.insert(of(manifest, feature), turned_on.collect());
        }
    }
    // `default` and `full` are checked by clippy, and ractor's `cluster` alone: see `./test`.
    let apart = ["/default", "/full", "/cluster"];
    features.retain(|feature: &String, _| !apart.iter().any(|end| feature.ends_with(end)));
    features
}

/// What is on where these are on.
fn turned_on(
    chosen: impl IntoIterator<Item = String>,
    features: &BTreeMap<String, BTreeSet<String>>,
) -> BTreeSet<String> {
    let mut waiting: Vec<String> = chosen.into_iter().collect();
    let mut on = BTreeSet::new();
    while let Some(feature) = waiting.pop() {
        let Some(others) = features.get(&feature) else {
            continue;
        };
        waiting.extend(others.iter().filter(|other| !on.contains(*other)).cloned());
        on.insert(feature);
    }
    on
}

/// Names in the sets that no feature has, and pairs of features of one package of which no set has the first without
/// the second.
fn findings(sets: &str, features: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let sets = sets.lines().filter(|line| !line.starts_with('#'));
    let sets: Vec<Vec<String>> = sets
        .map(|set| set.split(',').map(str::to_owned).collect())
        .collect();
    let named = sets.iter().flatten();
    let mut findings: Vec<String> = named
        .filter(|name| !features.contains_key(*name))
        .map(|name| format!("{name}: there is no such feature"))
        .collect();
    let sets: Vec<BTreeSet<String>> = sets
        .into_iter()
        .map(|set| turned_on(set, features))
        .collect();
    let package = |feature: &str| feature.split('/').next().map(str::to_owned);
    for feature in features.keys() {
        let own = turned_on([feature.clone()], features);
        for other in features.keys().filter(|other| !own.contains(*other)) {
            let apart = |set: &BTreeSet<String>| set.contains(feature) && !set.contains(other);
            if package(feature) == package(other) && !sets.iter().any(apart) {
                findings.push(format!("{feature} without {other}"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{read_toml, with_workspace};

    #[test]
    fn each_feature_is_checked_without_each_other_one() {
        with_workspace(|workspace| {
            let crates = std::fs::read_dir(workspace.root.join("crates")).unwrap();
            let folders = crates.map(|folder| folder.unwrap().path());
            let manifests: Vec<Manifest> = [workspace.root.clone()]
                .into_iter()
                .chain(folders)
                .map(|folder| read_toml(&folder.join("Cargo.toml")))
                .collect();
            let sets = std::fs::read_to_string(workspace.root.join(".ci/feature_sets")).unwrap();
            crate::assert_none(
                &findings(&sets, &features(&manifests)),
                "no set in .ci/feature_sets has:",
            );
        });
    }

    #[test]
    fn a_pair_that_no_set_keeps_apart_is_found() {
        let manifest = r#"
            [package]
            name = "p"
            [features]
            default = ["a"]
            a = ["b", "dep:c"]
            b = []
            d = []
        "#;
        let features = features(&[toml::from_str(manifest).unwrap()]);
        let found = |sets: &str| findings(sets, &features);
        assert!(found("# a comment\np/a\np/b\np/d").is_empty());
        assert_eq!(found("p/a\np/d"), ["p/b without p/a"]);
        assert_eq!(found("p/a,p/d\np/b\np/d"), ["p/a without p/d"]);
        assert_eq!(
            found("p/a\np/b\np/d\np/e"),
            ["p/e: there is no such feature"]
        );
    }
}
