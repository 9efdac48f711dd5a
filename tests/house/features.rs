//! The feature table, `docs/internal/features.md`: each row is well formed, and whatever it names exists.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{named_tests::test_exists, public_items::PublicItems};

/// The numbered features; the rows that begin with `B` come on top of them.
const NUMBERED: usize = 143;

const COLUMNS: usize = 6;
const STATES: [&str; 3] = ["not yet", "partial", "done"];
const NOTHING: &str = "-";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    line: usize,
    id: String,
    items: Vec<String>,
    examples: Vec<String>,
    tests: Vec<String>,
    state: String,
}

/// Reads the table rows of the page; a row of another width is a finding.
fn rows(page: &str) -> (Vec<Row>, Vec<String>) {
    let mut rows = Vec::new();
    let mut findings = Vec::new();
    for (index, text) in page.lines().enumerate() {
        let Some(cells) = text
            .trim()
            .strip_prefix('|')
            .and_then(|rest| rest.strip_suffix('|'))
        else {
            continue;
        };
        let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
        if cells[0] == "#" || cells[0].chars().all(|letter| "-:".contains(letter)) {
            continue;
        }
        let line = index + 1;
        match cells.as_slice() {
            [id, feature, items, examples, tests, state] if !feature.is_empty() => {
                rows.push(Row {
                    line,
                    id: (*id).to_owned(),
                    items: names(items),
                    examples: names(examples),
                    tests: names(tests),
                    state: (*state).to_owned(),
                });
            }
            _ => findings.push(format!(
                "{line}: a row has {COLUMNS} cells, none of them empty"
            )),
        }
    }
    (rows, findings)
}

/// The names in a cell: separated by commas, in back-ticks or not, `-` for none.
fn names(cell: &str) -> Vec<String> {
    cell.split(',')
        .map(|name| name.trim().trim_matches('`').to_owned())
        .filter(|name| !name.is_empty() && name != NOTHING)
        .collect()
}

/// What is wrong with the rows by themselves: ids, states, and a "done" that nothing proves.
fn form(rows: &[Row]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut seen = BTreeMap::new();
    for row in rows {
        if let Some(earlier) = seen.insert(row.id.as_str(), row.line) {
            findings.push(format!(
                "{}: {} is in line {earlier} already",
                row.line, row.id
            ));
        }
        let (state, note) = row.state.split_once(':').unwrap_or((&row.state, "none"));
        if !STATES.contains(&state.trim()) || note.trim().is_empty() {
            findings.push(format!(
                "{}: the state is one of {STATES:?}, with `: why` after it if there is a reason",
                row.line
            ));
        }
        if state.trim() == "done" && row.tests.is_empty() {
            findings.push(format!(
                "{}: {} is done but names no test",
                row.line, row.id
            ));
        }
    }
    let missing = (1..=NUMBERED).filter(|id| !seen.contains_key(id.to_string().as_str()));
    findings.extend(missing.map(|id| format!("no row has the number {id}")));
    findings
}

/// What the rows name although it is not there.
fn existence(rows: &[Row], root: &Path, items: &PublicItems<'_>) -> Vec<String> {
    let mut findings = Vec::new();
    for row in rows {
        let mut report = |what: &str, name: &str| {
            findings.push(format!(
                "{}: {}: there is no {what} {name}",
                row.line, row.id
            ));
        };
        for item in row.items.iter().filter(|item| !items.has(item)) {
            report("public item", item);
        }
        for example in row
            .examples
            .iter()
            .filter(|name| !root.join(name).is_file())
        {
            report("example", example);
        }
        for test in row.tests.iter().filter(|name| !test_exists(root, name)) {
            report("test", test);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::sources::with_workspace;

    fn page() -> (PathBuf, String) {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(root.join("docs/internal/features.md")).unwrap();
        (root, text)
    }

    #[test]
    fn the_table_lists_every_feature_once_and_says_its_state() {
        let (rows, mut findings) = rows(&page().1);
        findings.extend(form(&rows));
        crate::assert_none(&findings, "docs/internal/features.md:");
    }

    #[test]
    fn every_item_example_and_test_in_the_table_exists() {
        let (root, text) = page();
        with_workspace(move |workspace| {
            let items = PublicItems::of(workspace);
            let findings = existence(&rows(&text).0, &root, &items);
            crate::assert_none(
                &findings,
                "docs/internal/features.md names what is not there:",
            );
        });
    }

    #[test]
    fn rows_are_read_with_their_lists() {
        let text = "\
text | not a row
| # | feature | public item | example | test | state |
|---|:---|---|---|---|---|
| 1 | Loop | `a::B`, a::c | - | `tests/x.rs::t` | partial: no budget yet |
| 2 | too | short |
| 3 | | - | - | - | not yet |";
        let (rows, findings) = rows(text);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert_eq!(
            rows,
            [Row {
                line: 4,
                id: "1".to_owned(),
                items: vec!["a::B".to_owned(), "a::c".to_owned()],
                examples: Vec::new(),
                tests: vec!["tests/x.rs::t".to_owned()],
                state: "partial: no budget yet".to_owned(),
            }]
        );
    }

    fn row(id: usize, tests: &[&str], state: &str) -> Row {
        Row {
            line: id,
            id: id.to_string(),
            items: Vec::new(),
            examples: Vec::new(),
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
            state: state.to_owned(),
        }
    }

    fn table_with(change: Row) -> Vec<String> {
        let mut rows: Vec<Row> = (2..=NUMBERED).map(|id| row(id, &[], "not yet")).collect();
        rows.push(change);
        form(&rows)
    }

    #[test]
    fn a_missing_or_doubled_row_a_free_state_and_an_unproved_done_are_findings() {
        assert_eq!(table_with(row(1, &[], "not yet")), Vec::<String>::new());
        assert_eq!(
            table_with(row(1, &["tests/x.rs::t"], "done")),
            Vec::<String>::new()
        );
        assert_eq!(
            table_with(row(2, &[], "not yet")).len(),
            2,
            "2 twice and 1 missing"
        );
        assert_eq!(table_with(row(1, &[], "almost")).len(), 1);
        assert_eq!(table_with(row(1, &[], "partial:")).len(), 1);
        assert_eq!(table_with(row(1, &[], "done")).len(), 1);
    }

    #[test]
    fn absent_examples_and_items_are_reported_with_their_row() {
        with_workspace(move |workspace| {
            let mut wrong = row(7, &["tests/absent.rs"], "not yet");
            wrong.items.push("ghostlight::Absent".to_owned());
            wrong.examples.push("examples/absent.rs".to_owned());
            let found = existence(&[wrong], &workspace.root, &PublicItems::of(workspace));
            assert_eq!(found.len(), 3, "{found:?}");
            assert!(
                found
                    .iter()
                    .all(|finding| finding.starts_with("7: 7: there is no"))
            );
        });
    }
}
