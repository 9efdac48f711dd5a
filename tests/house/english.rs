//! The English of the pages that users read: turns of phrase that a native speaker would not write stay out of them.

use std::fs;

use crate::pages::root;

/// Phrases, and better ones.
const PHRASES: [(&str, &str); 9] = [
    ("of which", "begin a new sentence"),
    ("so many ", "a number of"),
    ("for nobody", "without an owner"),
    ("in order of", "by"),
    ("without a word", "silently"),
    ("says a turn", "sends a turn"),
    ("say a turn", "send a turn"),
    ("of before", "earlier"),
    ("never heard of", "the outcome is unknown"),
];

/// Words that must not be the subject of a sentence.
const SUBJECTS: [&str; 4] = ["Who", "What", "Whatever", "Whoever"];

/// What is odd in a page, with its lines. Code and headings are left alone, and so are questions.
fn odd_phrases(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            code = !code;
            continue;
        }
        if code || line.starts_with('#') || line.starts_with("| ---") {
            continue;
        }
        let mut tell = |phrase: &str, better: &str| {
            found.push(format!("{name}:{}: {phrase:?}: {better}", number + 1));
        };
        for (phrase, better) in PHRASES {
            if line.contains(phrase) {
                tell(phrase, better);
            }
        }
        for negated in [" is no ", " are no "] {
            for (place, _) in line.match_indices(negated) {
                let before = line[..place].trim_end().to_lowercase();
                let after = &line[place + negated.len()..];
                let exists = before.ends_with("there");
                if !exists && !after.starts_with("longer") && !after.starts_with("more") {
                    tell(negated, "is not a");
                }
            }
        }
        for sentence in line.split(". ").skip(1) {
            let first = sentence.split(' ').next().unwrap_or_default();
            if SUBJECTS.contains(&first) && !sentence.contains('?') {
                tell(first, "begin with a subject and its verb");
            }
        }
    }
    found
}

#[test]
fn the_pages_that_users_read_have_no_odd_phrases() {
    let root = root();
    let mut pages = vec![
        "README.md".to_owned(),
        "docs/command.md".to_owned(),
        "docs/semantics.md".to_owned(),
    ];
    for page in fs::read_dir(root.join("docs/guide")).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            pages.push(format!("docs/guide/{name}"));
        }
    }
    pages.sort();
    let read = |name: &String| odd_phrases(name, &fs::read_to_string(root.join(name)).unwrap());
    let findings: Vec<String> = pages.iter().flat_map(read).collect();
    crate::assert_none(&findings, "write what a native speaker would:");
}

#[test]
fn an_odd_phrase_is_found_outside_of_code() {
    let text = "# What it is\nIt runs. What is recorded stays.\nThere is no key, it is no key.\n```\nsays a turn\n```\n";
    assert_eq!(
        odd_phrases("p", text),
        [
            "p:2: \"What\": begin with a subject and its verb",
            "p:3: \" is no \": is not a",
        ]
    );
}
