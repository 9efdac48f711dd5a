//! The words of `docs/internal/conventions.md`, as far as a test can see them.

use std::fs;

use syn::{Item, Visibility};

use crate::sources::{SourceFile, with_workspace};

/// Types with an ending of their own: the field or a protocol gave it to them, or it is what a policy does.
const GIVEN: [&str; 3] = ["ModelSettings", "PushConfig", "ToolLimits"];

/// Endings that say neither what a file holds (`Spec`) nor how code runs (`Options`).
const ENDINGS: [&str; 3] = ["Settings", "Config", "Limits"];

/// Words of the engine that have another one now.
const OLD: [&str; 8] = [
    "inbox",
    "Inbox",
    "inboxes",
    "SetAside",
    "TurnSetAside",
    "MessageSetAside",
    "Life",
    "life",
];

/// The public types of a file whose names end otherwise than by the conventions.
fn odd_endings(file: &SourceFile) -> Vec<String> {
    let public = |item: &Item| match item {
        Item::Struct(item) => Some((item.vis.clone(), item.ident.to_string())),
        Item::Enum(item) => Some((item.vis.clone(), item.ident.to_string())),
        _ => None,
    };
    let is_odd = |name: &String| {
        ENDINGS.iter().any(|ending| name.ends_with(ending)) && !GIVEN.contains(&name.as_str())
    };
    file.syntax
        .items
        .iter()
        .filter_map(public)
        .filter(|(vis, name)| matches!(vis, Visibility::Public(_)) && is_odd(name))
        .map(|(_, name)| format!("{}: {name} is no Spec and no Options", file.path.display()))
        .collect()
}

/// The old words of a text, each with its line.
fn old_words(text: &str) -> Vec<(usize, &str)> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let lines = text.lines().enumerate();
    lines
        .flat_map(|(line, text)| {
            text.split(move |character| !is_part(character))
                .filter(|word| OLD.contains(word))
                .map(move |word| (line + 1, word))
        })
        .collect()
}

#[test]
fn public_types_are_named_spec_or_options() {
    let findings = with_workspace(|workspace| {
        let files = workspace.files.iter().filter(|file| !file.test_only);
        files.flat_map(odd_endings).collect::<Vec<_>>()
    });
    crate::assert_none(&findings, "see docs/internal/conventions.md:");
}

#[test]
fn the_engine_calls_each_thing_by_one_word() {
    let findings = with_workspace(|workspace| {
        let engine = workspace.files.iter();
        // The life that a simulated world draws from a seed is a life.
        let engine = engine.filter(|file| {
            file.path.starts_with("actors/src") && !file.path.starts_with("actors/src/testing")
        });
        engine
            .flat_map(|file| {
                let text = fs::read_to_string(workspace.root.join(&file.path)).unwrap();
                let path = file.path.display().to_string();
                let found = old_words(&text).into_iter();
                found
                    .map(|(line, word)| format!("{path}:{line}: {word}"))
                    .collect::<Vec<_>>()
            })
            .collect::<Vec<_>>()
    });
    crate::assert_none(&findings, "see the words of docs/internal/conventions.md:");
}

#[test]
fn an_old_word_is_found_where_it_stands_alone() {
    let text = "/// The inbox of a lifetime\nlet life = inbox_mark;\n";
    assert_eq!(old_words(text), [(1, "inbox"), (2, "life")]);
}
