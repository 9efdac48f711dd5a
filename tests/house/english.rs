//! The English of the pages that users read: turns of phrase that a native speaker would not write stay out of them.

use std::fs;

use crate::pages::root;

/// Phrases, and better ones.
const PHRASES: [(&str, &str); 12] = [
    ("of which", "begin a new sentence"),
    ("so many ", "a number of"),
    ("for nobody", "without an owner"),
    ("in order of", "by"),
    ("without a word", "silently"),
    ("says a turn", "sends a turn"),
    ("say a turn", "send a turn"),
    ("of before", "earlier"),
    ("never heard of", "the outcome is unknown"),
    ("in the place of", "instead of"),
    ("goes on with", "continues with"),
    ("go on with", "continue with"),
];

/// Words that must not be the subject of a sentence.
const SUBJECTS: [&str; 4] = ["Who", "What", "Whatever", "Whoever"];

/// Files in which doc comments describe arguments and answers to models. Another description is another request, so that
/// recorded runs would not fit any more.
const READ_BY_MODELS: [&str; 15] = [
    "src/behaviors/reflection.rs",
    "src/behaviors/rewoo/plan.rs",
    "src/policies/cited_answers.rs",
    "src/policies/control.rs",
    "src/policies/plan.rs",
    "src/policies/todos.rs",
    "src/policies/tool_search.rs",
    "src/tools/notes.rs",
    "crates/memory/src/looking_back.rs",
    "crates/memory/src/tool.rs",
    "crates/retrieval/src/searching/tool.rs",
    "crates/tools/src/files/change.rs",
    "crates/tools/src/files/reading.rs",
    "crates/tools/src/files/searching.rs",
    "crates/tools/src/web/search.rs",
];

/// The doc comments of a file that begin a sentence with one of [`SUBJECTS`], each with its line.
fn headless_comments(name: &str, text: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    let comments = lines.filter_map(|(number, line)| {
        let line = line.trim_start();
        let comment = line
            .strip_prefix("/// ")
            .or_else(|| line.strip_prefix("//! "))?;
        let first = comment.split(' ').next().unwrap_or_default();
        let is_odd = SUBJECTS.contains(&first) && !comment.contains('?');
        is_odd.then(|| format!("{name}:{}: {comment}", number + 1))
    });
    comments.collect()
}

#[test]
fn doc_comments_begin_with_a_noun() {
    let root = root();
    let files = crate::sources::rust_files(root);
    let names = files.iter().map(|path| {
        let path = path.strip_prefix(root).unwrap();
        path.display().to_string()
    });
    let ours = names.filter(|name| {
        let is_library = ["src/", "macros/src/"]
            .iter()
            .any(|folder| name.starts_with(folder))
            || (name.starts_with("crates/") && name.contains("/src/"));
        is_library && !READ_BY_MODELS.contains(&name.as_str())
    });
    let findings: Vec<String> = ours
        .flat_map(|name| headless_comments(&name, &fs::read_to_string(root.join(&name)).unwrap()))
        .collect();
    crate::assert_none(
        &findings,
        "say what it is by a noun, as `The usage of a run.`:",
    );
}

/// Those of [`PHRASES`] that are odd in doc comments too, which may say `of which`.
const IN_COMMENTS: [&str; 7] = [
    "t most so many",
    "in the place of",
    "ays a turn",
    "ay a turn",
    "goes on with",
    "go on with",
    "without a word",
];

/// The doc comments of a file that hold one of [`IN_COMMENTS`], each with its line.
fn odd_comments(name: &str, text: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    let comments = lines.filter(|(_, line)| {
        let line = line.trim_start();
        line.starts_with("/// ") || line.starts_with("//! ")
    });
    let odd = comments.flat_map(|(number, line)| {
        let found = IN_COMMENTS
            .iter()
            .filter(move |phrase| line.contains(**phrase));
        found.map(move |phrase| format!("{name}:{}: {phrase:?}", number + 1))
    });
    odd.collect()
}

#[test]
fn doc_comments_have_no_odd_phrases() {
    let root = root();
    let names = crate::sources::rust_files(root).into_iter().map(|path| {
        let path = path.strip_prefix(root).unwrap();
        path.display().to_string()
    });
    let ours = names.filter(|name| {
        let is_library = name.starts_with("src/") || name.contains("/src/");
        is_library && !READ_BY_MODELS.contains(&name.as_str())
    });
    let findings: Vec<String> = ours
        .flat_map(|name| odd_comments(&name, &fs::read_to_string(root.join(&name)).unwrap()))
        .collect();
    crate::assert_none(&findings, "write what a native speaker would:");
    let text = "/// Says a turn.\n// Says a turn.\nlet a = \"in the place of\";\n//! It goes on with it.\n";
    assert_eq!(
        odd_comments("f", text),
        ["f:1: \"ays a turn\"", "f:4: \"goes on with\""]
    );
}

#[test]
fn a_comment_without_a_noun_is_found_and_a_question_is_not() {
    let text = "/// What it costs.\n/// The cost.\n// What it costs.\n//! What now?\n";
    assert_eq!(headless_comments("f", text), ["f:1: What it costs."]);
}

/// The odd phrases of a page, with its lines. Code and headings are left alone, and so are questions.
fn odd_phrases(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut code = false;
    let mut next = "";
    for (number, line) in text.lines().enumerate() {
        let before = std::mem::replace(&mut next, line);
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
        // A line continues the sentence of the line before, unless it begins a paragraph or an item of a list.
        let begins = before.is_empty() || line.starts_with("- ");
        let sentences = line.trim_start_matches("- ").split(". ");
        for sentence in sentences.skip(usize::from(!begins)) {
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
    let text = "# What it is\nIt runs. What is recorded stays.\nThere is no key, it is no key.\n- What is said.\n```\nsays a turn\n```\n";
    assert_eq!(
        odd_phrases("p", text),
        [
            "p:2: \"What\": begin with a subject and its verb",
            "p:3: \" is no \": is not a",
            "p:4: \"What\": begin with a subject and its verb",
        ]
    );
}
