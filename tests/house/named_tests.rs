//! Whether a test that a page names is there: a promise without its test is a claim.

use std::{fs, path::Path};

/// Whether `tests/promises/replay.rs::name` is a test in this file: a function that a test harness
/// runs, with its modules in front of it or not. A file alone proves nothing in particular, and a
/// function that is no test proves nothing at all.
pub(crate) fn test_exists(root: &Path, name: &str) -> bool {
    let Some((stem, function)) = name.split_once(".rs::") else {
        return false;
    };
    fs::read_to_string(root.join(format!("{stem}.rs")))
        .ok()
        .and_then(|text| syn::parse_file(&text).ok())
        .is_some_and(|parsed| declares_test(&parsed.items, function))
}

/// Whether a function with a `#[test]`-like attribute, or one made by a macro such as
/// `proptest!`, has this name (its modules in front of it or not).
fn declares_test(items: &[syn::Item], name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    items.iter().any(|item| match item {
        syn::Item::Fn(function) => function.sig.ident == last && is_test(&function.attrs),
        syn::Item::Mod(module) => module
            .content
            .as_ref()
            .is_some_and(|(_, items)| declares_test(items, last)),
        syn::Item::Macro(call) => declared_in_macro(&call.mac.tokens.to_string(), last),
        _ => false,
    })
}

/// `#[test]` and its like, such as `#[tokio::test]`; not `#[cfg(test)]`, under which helpers stand.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let last = attribute.path().segments.last();
        last.is_some_and(|last| last.ident == "test")
    })
}

/// In a macro's tokens a test follows its attribute, with nothing but other attributes between.
fn declared_in_macro(tokens: &str, name: &str) -> bool {
    let Some((before, _)) = tokens.split_once(&format!("fn {name} ")) else {
        return false;
    };
    let own = before.rsplit(['}', ';']).next().unwrap_or(before);
    own.contains("test]") || own.contains("test (")
}

#[test]
fn a_test_is_a_test_function_in_a_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let this = "tests/house/named_tests.rs";
    for there in [
        format!("{this}::a_test_is_a_test_function_in_a_file"),
        format!("{this}::any_module::a_test_is_a_test_function_in_a_file"),
    ] {
        assert!(test_exists(root, &there), "{there}");
    }
    for absent in [
        this.to_owned(),
        format!("{this}::absent"),
        format!("{this}::test_exists"),
        "tests/house/absent.rs::absent".to_owned(),
    ] {
        assert!(!test_exists(root, &absent), "{absent}");
    }
}

#[test]
fn in_macros_and_beside_them_only_what_is_run_counts() {
    let file = "
        #[cfg(test)] fn helper() {}
        // fn commented() {}
        mod inner { #[tokio::test] async fn deep() {} }
        proptest! { #![a(b)] #[test] fn drawn(x in 0..2) { f(); } fn beside(x: u8) {} }
    ";
    let items = syn::parse_file(file).unwrap().items;
    for (name, runs) in [
        ("helper", false),
        ("commented", false),
        ("inner::deep", true),
        ("drawn", true),
        ("beside", false),
    ] {
        assert_eq!(declares_test(&items, name), runs, "{name}");
    }
}
