//! Whether the pages for readers tell the truth: the tests that they name exist, their tables leave
//! out no example, and the manifest in the README is one that works.

use std::{fs, path::Path};

use crate::named_tests::test_exists;

/// The pages that name tests as `folder/file.rs::function`.
const PAGES: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "docs/command.md",
    "docs/promises.md",
    "docs/semantics.md",
    "docs/testing.md",
];

/// Every test that a page names and that is not there.
fn absent_tests(page: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| code.contains(".rs::") && !exists(code))
        .map(|name| format!("{page}: there is no test {name}"))
        .collect()
}

/// Every file of a folder with this ending that no row of a page's tables begins with, as `name`.
fn unlisted(root: &Path, folder: &str, ending: &str, text: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root.join(folder))
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(ending).map(str::to_owned)
        })
        .collect();
    names.sort();
    names.retain(|name| {
        let row = format!("| `{name}` |");
        !text.lines().any(|line| line.starts_with(&row))
    });
    names
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

#[test]
fn every_test_that_a_page_names_exists() {
    let findings: Vec<String> = PAGES
        .iter()
        .flat_map(|name| absent_tests(name, &page(name), |test| test_exists(root(), test)))
        .collect();
    crate::assert_none(&findings, "pages name tests that are not there:");
}

#[test]
fn a_test_that_is_not_there_is_a_finding() {
    let text = "See `tests/a.rs::here`, `tests/a.rs::gone` and `plain.rs`.";
    let findings = absent_tests("page", text, |test| test == "tests/a.rs::here");
    assert_eq!(findings, ["page: there is no test tests/a.rs::gone"]);
}

#[test]
fn every_example_and_every_team_file_is_in_its_table() {
    let examples = unlisted(root(), "examples", ".rs", &page("docs/examples.md"));
    crate::assert_none(
        &examples,
        "docs/examples.md has a row for each example, but for:",
    );
    let teams = unlisted(root(), "examples/teams", ".yaml", &page("docs/command.md"));
    crate::assert_none(
        &teams,
        "docs/command.md has a row for each team file, but for:",
    );
}

/// A page that is in no summary is not in the book, and one that `src/lib.rs` does not include is
/// not compiled; those that only include another page are compiled there.
#[test]
fn every_page_of_the_guide_is_in_its_summary_and_compiled() {
    let (summary, library) = (page("docs/guide/SUMMARY.md"), page("src/lib.rs"));
    let mut pages = 0;
    for entry in fs::read_dir(root().join("docs/guide")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".md") || name == "SUMMARY.md" {
            continue;
        }
        pages += 1;
        let path = format!("docs/guide/{name}");
        let text = page(&path);
        let included = text.split("{{#include ../").nth(1);
        let compiled = match included.and_then(|rest| rest.split("}}").next()) {
            Some(other) => format!("docs/{other}"),
            None => path.clone(),
        };
        assert!(summary.contains(&format!("({name})")), "{path}: SUMMARY.md");
        assert!(
            library.contains(&format!("include_str!(\"../{compiled}\")")),
            "{path}: src/lib.rs does not compile {compiled}"
        );
    }
    let listed = summary.matches("](").count();
    assert_eq!(pages, listed, "SUMMARY.md lists pages that are not there");
}

#[test]
fn an_example_without_a_row_is_a_finding() {
    let text = "| `resume` | two deaths |\nThe example `hello` is in no table.";
    let findings = unlisted(root(), "examples", ".rs", text);
    assert!(!findings.contains(&"resume".to_owned()));
    assert!(findings.contains(&"hello".to_owned()));
}

/// It is what newcomers copy, and nothing else reads it.
#[test]
fn the_manifest_in_the_readme_fits_the_workspace() {
    let text = page("README.md");
    let (_, after) = text.split_once("```toml\n").unwrap();
    let (manifest, _) = after.split_once("```").unwrap();
    let shown: toml::Table = toml::from_str(manifest).unwrap();
    let ours: toml::Table = toml::from_str(&page("Cargo.toml")).unwrap();
    let workspace = &ours["workspace"]["package"];
    for key in ["edition", "rust-version"] {
        assert_eq!(shown["package"][key], workspace[key], "{key}");
    }
    let features = shown["dependencies"]["ghostlight"]["features"].as_array();
    for feature in features.unwrap() {
        let known = ours["features"].as_table().unwrap();
        assert!(known.contains_key(feature.as_str().unwrap()), "{feature:?}");
    }
    assert!(
        shown["dependencies"]["ghostlight"].get("version").is_none(),
        "nothing has been released"
    );
}
