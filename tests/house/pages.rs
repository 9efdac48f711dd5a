//! Whether the tests that the pages for readers name exist: a promise without its test is a claim.

use std::{fs, path::Path};

/// The pages that name tests as `folder/file.rs::function`.
const PAGES: [&str; 3] = ["README.md", "ARCHITECTURE.md", "docs/semantics.md"];

/// Every test that a page names and that is not there.
fn absent_tests(page: &str, text: &str, declares: impl Fn(&str, &str) -> bool) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once(".rs::"))
        .filter(|(file, test)| !declares(&format!("{file}.rs"), test))
        .map(|(file, test)| format!("{page}: there is no test {file}.rs::{test}"))
        .collect()
}

fn declared(root: &Path, file: &str, test: &str) -> bool {
    let Ok(text) = fs::read_to_string(root.join(file)) else {
        return false;
    };
    text.contains(&format!("fn {test}("))
}

#[test]
fn every_test_that_a_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let findings: Vec<String> = PAGES
        .iter()
        .flat_map(|page| {
            let text = fs::read_to_string(root.join(page)).unwrap();
            absent_tests(page, &text, |file, test| declared(root, file, test))
        })
        .collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn a_test_that_is_not_there_is_a_finding() {
    let text = "See `tests/a.rs::here`, `tests/a.rs::gone` and `plain.rs`.";
    let findings = absent_tests("page", text, |_, test| test == "here");
    assert_eq!(findings, ["page: there is no test tests/a.rs::gone"]);
}
