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

/// Types with plain numbers of seconds that no person writes: a protocol's message, and the arguments of a model's call.
const WRITTEN_BY_PROGRAMS: [&str; 2] = ["Announcement", "ReadOutput"];

/// The text of a `derive` or `serde` attribute.
fn written(attribute: &Attribute, name: &str) -> String {
    match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident(name) => list.tokens.to_string(),
        _ => String::new(),
    }
}

/// The fields of a file's types that people write, in a file or in code, whose times are plain numbers or have keys in
/// milliseconds.
fn odd_times(path: &str, file: &syn::File) -> Vec<String> {
    let mut odd = Vec::new();
    for item in &file.items {
        let syn::Item::Struct(item) = item else {
            continue;
        };
        let name = item.ident.to_string();
        let derives = item
            .attrs
            .iter()
            .map(|attribute| written(attribute, "derive"));
        let derives: String = derives.collect();
        let is_read = derives.contains("Deserialize");
        let is_named = ["Spec", "Options"].iter().any(|end| name.ends_with(end));
        let is_set = is_named || is_read && derives.contains("JsonSchema");
        if !is_set || WRITTEN_BY_PROGRAMS.contains(&name.as_str()) {
            continue;
        }
        for field in &item.fields {
            let Some(ident) = &field.ident else { continue };
            let ident = ident.to_string();
            let keys = field
                .attrs
                .iter()
                .map(|attribute| written(attribute, "serde"));
            let is_old = keys.into_iter().any(|key| key.contains("_ms\""));
            let is_time = ["_ms", "_s", "_secs", "_seconds", "_millis"];
            if is_old || is_time.iter().any(|unit| ident.ends_with(unit)) {
                odd.push(format!(
                    "{path}: {name}::{ident} is a time: a Duration, with a key in `_s`"
                ));
            }
        }
    }
    odd
}

#[test]
fn times_that_people_set_are_durations_and_seconds() {
    let findings = with_workspace(|workspace| {
        let files = workspace.files.iter().filter(|file| !file.test_only);
        files
            .flat_map(|file| odd_times(&file.path.display().to_string(), &file.syntax))
            .collect::<Vec<_>>()
    });
    crate::assert_none(&findings, "see docs/internal/conventions.md:");
}

#[test]
fn times_that_are_numbers_or_in_milliseconds_are_found() {
    let text = "pub struct ASpec { pub wait_ms: u64, pub ttl_s: u32, #[serde(rename = \"a_ms\")] a: Duration }\n\
                #[derive(Deserialize, JsonSchema)] struct B { c_ms: u64, #[serde(rename = \"d_s\")] d: Duration }\n\
                #[derive(Deserialize)] struct Stored { at_ms: u64 }";
    let file = syn::parse_file(text).unwrap();
    let found = ["ASpec::wait_ms", "ASpec::ttl_s", "ASpec::a", "B::c_ms"];
    let told = |field: &&str| format!("f: {field} is a time: a Duration, with a key in `_s`");
    let expected: Vec<String> = found.iter().map(told).collect();
    assert_eq!(odd_times("f", &file), expected);
}

/// The public fields of a file's options that no setter of their name sets.
fn without_setters(path: &str, file: &syn::File) -> Vec<String> {
    let options = file.items.iter().filter_map(|item| match item {
        Item::Struct(item) if item.ident.to_string().ends_with("Options") => Some(item),
        _ => None,
    });
    let mut odd = Vec::new();
    for item in options.filter(|item| is_public(&item.vis)) {
        let name = item.ident.to_string();
        let mut set: Vec<String> = Vec::new();
        for other in &file.items {
            match other {
                Item::Macro(call)
                    if call
                        .mac
                        .path
                        .segments
                        .last()
                        .is_some_and(|last| last.ident == "setters") =>
                {
                    let tokens = call.mac.tokens.to_string();
                    if tokens.starts_with(&format!("{name} ")) {
                        set.extend(tokens.split([' ', '{']).map(str::to_owned));
                    }
                }
                Item::Impl(own) if own.trait_.is_none() => {
                    set.extend(own.items.iter().filter_map(|item| match item {
                        syn::ImplItem::Fn(method) => Some(method.sig.ident.to_string()),
                        _ => None,
                    }))
                }
                _ => {}
            }
        }
        for field in item.fields.iter().filter(|field| is_public(&field.vis)) {
            let field = field
                .ident
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            if !set.contains(&field) {
                odd.push(format!("{path}: {name}::{field} has no setter"));
            }
        }
    }
    odd
}

#[test]
fn options_have_a_setter_for_each_public_field() {
    let findings = with_workspace(|workspace| {
        let files = workspace.files.iter().filter(|file| !file.test_only);
        files
            .flat_map(|file| without_setters(&file.path.display().to_string(), &file.syntax))
            .collect::<Vec<_>>()
    });
    crate::assert_none(&findings, "see docs/internal/conventions.md:");
}

#[test]
fn options_whose_fields_nothing_sets_are_found() {
    let text = "pub struct AOptions { pub a: u32, pub b: u32, pub c: u32, d: u32 }\n\
                crate::setters!(AOptions { a: u32 });\n\
                impl AOptions { pub fn b(mut self, b: u32) -> Self { self } }";
    let file = syn::parse_file(text).unwrap();
    assert_eq!(
        without_setters("f", &file),
        ["f: AOptions::c has no setter"]
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
