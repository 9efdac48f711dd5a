//! The words of `docs/internal/conventions.md`, as far as a test can see them.

use std::fs;

use syn::{Attribute, Fields, Item, Visibility};

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

/// Begins the doc comment of a bound.
const MOST: [&str; 4] = ["The most ", "The largest ", "The deepest ", "The longest "];

fn is_public(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

/// The first line of a doc comment.
fn first_line(attributes: &[Attribute]) -> String {
    let docs = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
                syn::Expr::Lit(syn::ExprLit {
                    lit: syn::Lit::Str(text),
                    ..
                }) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        });
    docs.into_iter().next().unwrap_or_default()
}

/// The public options and errors of a file that cannot grow, and the bounds of options that are not named as such.
fn odd_options(path: &str, file: &syn::File) -> Vec<String> {
    let mut odd = Vec::new();
    for item in &file.items {
        let (vis, name, attributes, fields) = match item {
            Item::Struct(item) => (&item.vis, &item.ident, &item.attrs, Some(&item.fields)),
            Item::Enum(item) => (&item.vis, &item.ident, &item.attrs, None),
            _ => continue,
        };
        let (name, is_open) = (name.to_string(), |attribute: &Attribute| {
            attribute.path().is_ident("non_exhaustive")
        });
        let public: Vec<_> = match fields {
            Some(Fields::Named(fields)) => {
                let fields = fields.named.iter();
                fields.filter(|field| is_public(&field.vis)).collect()
            }
            _ => Vec::new(),
        };
        let can_be_made = fields.is_none() || !public.is_empty();
        let (is_options, is_error) = (name.ends_with("Options"), name.ends_with("Error"));
        if !is_public(vis) || !(is_options || is_error) {
            continue;
        }
        if can_be_made && !attributes.iter().any(is_open) {
            odd.push(format!("{path}: {name} is not #[non_exhaustive]"));
        }
        for field in public.into_iter().filter(|_| is_options) {
            let field_name = field.ident.as_ref().map(ToString::to_string);
            let field_name = field_name.unwrap_or_default();
            let about = first_line(&field.attrs);
            let is_bound = MOST.iter().any(|most| about.starts_with(most));
            if is_bound && !field_name.starts_with("max_") {
                odd.push(format!("{path}: {name}::{field_name} is a bound: max_…"));
            }
        }
    }
    odd
}

#[test]
fn options_and_errors_can_grow_and_bounds_are_named_max() {
    let findings = with_workspace(|workspace| {
        let files = workspace.files.iter().filter(|file| !file.test_only);
        files
            .flat_map(|file| odd_options(&file.path.display().to_string(), &file.syntax))
            .collect::<Vec<_>>()
    });
    crate::assert_none(&findings, "see docs/internal/conventions.md:");
}

#[test]
fn options_that_cannot_grow_and_bounds_of_another_name_are_found() {
    let text = "pub struct AOptions { /// The most files.\n pub files: u32, /// The most.\n pub max_bytes: u32 }\n\
                #[non_exhaustive] pub enum BError { A }\n pub enum CError { A }\n pub struct DError { text: String }";
    let file = syn::parse_file(text).unwrap();
    assert_eq!(
        odd_options("f", &file),
        [
            "f: AOptions is not #[non_exhaustive]",
            "f: AOptions::files is a bound: max_…",
            "f: CError is not #[non_exhaustive]",
        ]
    );
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
