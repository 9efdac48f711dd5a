//! Whether the pages for readers tell the truth: the tests that they name exist, their tables leave
//! out no example, and the manifest in the README is one that works.

use std::{fs, path::Path};

use crate::named_tests::test_exists;

/// The pages that name tests as `folder/file.rs::function`.
const PAGES: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "docs/internal/a2a-requirements.md",
    "docs/command.md",
    "docs/internal/engine-tests.md",
    "docs/promises.md",
    "docs/semantics.md",
    "docs/guide/testing.md",
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

/// Every source file that a page names by its folder, as `contract/store.rs`, and that no folder has.
fn absent_files(page: &str, text: &str, files: &[String]) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| code.ends_with(".rs") && code.contains('/'))
        .filter(|code| {
            let below = format!("/{code}");
            !files
                .iter()
                .any(|file| file == code || file.ends_with(&below))
        })
        .map(|name| format!("{page}: there is no file {name}"))
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

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

#[test]
fn every_source_file_that_a_page_names_exists() {
    let files = crate::sources::rust_files(root());
    let files: Vec<String> = files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let findings: Vec<String> = PAGES
        .iter()
        .flat_map(|name| absent_files(name, &page(name), &files))
        .collect();
    crate::assert_none(&findings, "pages name files that are not there:");
    let found = absent_files("a page", "see `a/b.rs` and `a/c.rs`", &["x/a/b.rs".into()]);
    assert_eq!(found, ["a page: there is no file a/c.rs"]);
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
    let page = page("docs/guide/team-files.md");
    let teams = unlisted(root(), "examples/teams", ".yaml", &page);
    crate::assert_none(
        &teams,
        "team-files.md has a row for each team file, but for:",
    );
}

/// Each says in its first line what it shows and how long it takes, and there are no more than one reads.
#[test]
fn at_most_25_examples_say_what_they_show_and_how_long_they_take() {
    let mut examples = Vec::new();
    for entry in fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let first = text.lines().next().unwrap_or_default().to_owned();
            examples.push((path.display().to_string(), first));
        }
    }
    assert!(
        (20..=25).contains(&examples.len()),
        "{} examples",
        examples.len()
    );
    let timed = |first: &str| {
        let seconds = first.rsplit_once(" (takes ").map(|(_, rest)| rest);
        let seconds = seconds.and_then(|rest| rest.strip_suffix(" s)."));
        seconds.is_some_and(|seconds| seconds.parse::<u32>().is_ok())
    };
    let findings: Vec<String> = examples
        .into_iter()
        .filter(|(_, first)| !first.starts_with("//! ") || !timed(first))
        .map(|(path, first)| format!("{path}: {first}"))
        .collect();
    crate::assert_none(&findings, "the first line ends in `(takes N s).`:");
}

/// A page that is in no summary is not in the book, one that `src/lib.rs` does not include is not compiled, and a link
/// out of the folder leads nowhere in the book.
#[test]
fn every_page_of_the_guide_is_in_its_summary_and_compiled_and_links_to_the_book_alone() {
    let (summary, library) = (page("docs/guide/SUMMARY.md"), page("src/lib.rs"));
    let mut pages = 0;
    for entry in fs::read_dir(root().join("docs/guide")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".md") || name == "SUMMARY.md" {
            continue;
        }
        pages += 1;
        let path = format!("docs/guide/{name}");
        assert!(summary.contains(&format!("({name})")), "{path}: SUMMARY.md");
        assert!(
            library.contains(&format!("include_str!(\"../{path}\")")),
            "{path}: src/lib.rs does not compile it"
        );
        assert!(
            !page(&path).contains("](../"),
            "{path}: a link out of the book"
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

/// What a newcomer reads first stays short.
#[test]
fn the_readme_has_700_words_at_most() {
    let words = page("README.md").split_whitespace().count();
    assert!(words <= 700, "README.md has {words} words");
}

/// One table says what things cost; how each figure was taken stands in docs/internal/performance.
#[test]
fn the_benchmarks_have_150_lines_at_most() {
    let lines = page("BENCHMARKS.md").lines().count();
    assert!(lines <= 150, "BENCHMARKS.md has {lines} lines");
}

/// The figures that stand beside those of other libraries are those of the programs below them.
#[test]
fn the_lines_of_our_first_programs_are_counted_right() {
    let text = page("docs/comparison.md");
    let lines = |code: &str| {
        let lines = code.lines().map(str::trim);
        let comment = |line: &&str| line.starts_with("//") && !line.starts_with("///");
        lines
            .filter(|line| !line.is_empty() && !comment(line))
            .count()
    };
    let programs = text.split("```rust,no_run\n").skip(1);
    let counted: Vec<String> = programs
        .map(|rest| lines(rest.split("```").next().unwrap()).to_string())
        .collect();
    let row = |line: &&str| (1..=4).any(|number| line.starts_with(&format!("| {number}. ")));
    let rows = text.lines().filter(row);
    let told: Vec<String> = rows
        .map(|line| line.split('|').nth(2).unwrap().trim().to_owned())
        .collect();
    assert_eq!(told, counted);
}

/// The other figures of that column: a tenth off at the most, since every new paragraph changes them.
#[test]
fn what_there_is_to_read_is_counted_right() {
    let mut words: Vec<usize> = fs::read_dir(root().join("docs/guide"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .map(|name| page(&format!("docs/guide/{name}")))
        .map(|text| text.split_whitespace().count())
        .collect();
    words.sort_unstable();
    let half = words.len() / 2;
    let median = (words[half] + words[(words.len() - 1) / 2]) / 2;
    let text = page("docs/comparison.md");
    let told = |row: &str| -> usize {
        let line = text.lines().find(|line| line.starts_with(row));
        let cell = line.and_then(|line| line.split('|').nth(2));
        let cell = cell.unwrap_or_else(|| panic!("no row {row}"));
        cell.trim().replace(',', "").parse().unwrap()
    };
    assert_eq!(told("| pages of the guide |"), words.len());
    for (row, counted) in [
        ("| words of such a page, median |", median),
        ("| words of all of them |", words.iter().sum()),
    ] {
        let off = told(row).abs_diff(counted);
        assert!(
            off * 10 <= counted,
            "{row} says {}, and it is {counted}",
            told(row)
        );
    }
}

/// A link from one page to another leads somewhere, also to a heading.
#[test]
fn links_between_pages_lead_somewhere() {
    let mut pages: Vec<String> = vec![
        "README.md".into(),
        "CONTRIBUTING.md".into(),
        "ARCHITECTURE.md".into(),
        "BENCHMARKS.md".into(),
    ];
    for folder in [
        "docs",
        "docs/guide",
        "docs/decisions",
        "docs/internal",
        "docs/internal/performance",
    ] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                pages.push(format!("{folder}/{name}"));
            }
        }
    }
    let findings: Vec<String> = pages
        .iter()
        .flat_map(|name| dead_links(name, &page(name)))
        .collect();
    crate::assert_none(&findings, "links that lead nowhere:");
}

#[test]
fn a_link_to_nothing_is_a_finding() {
    let text =
        "[a](README.md) [b](gone.md) [c](README.md#see-it) [d](README.md#gone) [e](https://x.y/z)";
    let findings = dead_links("page.md", text);
    assert_eq!(findings, ["page.md: gone.md", "page.md: README.md#gone"]);
}

/// The links of a page to files that are not there, or to headings that they do not have.
fn dead_links(name: &str, text: &str) -> Vec<String> {
    let folder = Path::new(name).parent().unwrap();
    let links = text.split("](").skip(1);
    let targets = links.filter_map(|rest| rest.split(')').next());
    let inside = targets.filter(|target| !target.contains("://") && !target.contains(' '));
    let leads = |target: &str| {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = match file {
            "" => root().join(name),
            file => root().join(folder).join(file),
        };
        match fs::read_to_string(&path) {
            Ok(there) => heading.is_empty() || headings(&there).any(|known| known == heading),
            // A folder or a picture has no headings.
            Err(_) => path.exists() && heading.is_empty(),
        }
    };
    let dead = inside.filter(|target| !target.is_empty() && !leads(target));
    dead.map(|target| format!("{name}: {target}")).collect()
}

/// The anchors that a page's headings have where it is shown.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    titles.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
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
