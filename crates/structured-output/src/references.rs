//! References within a schema, and recursive ones among them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The target of the reference `#…` in `root`.
pub(super) fn lookup<'v>(root: &'v Value, reference: &str) -> Option<&'v Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// The references that lead back to themselves.
pub(super) fn recursive_references(root: &Value) -> BTreeSet<String> {
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut open: Vec<String> = references_in(root, &[]).into_iter().collect();
    while let Some(reference) = open.pop() {
        if edges.contains_key(&reference) {
            continue;
        }
        // The root contains the definitions, but refers only to those that it uses elsewhere.
        let definitions: &[&str] = if reference == "#" {
            &["$defs", "definitions"]
        } else {
            &[]
        };
        let inside = lookup(root, &reference).map(|target| references_in(target, definitions));
        let inside = inside.unwrap_or_default();
        open.extend(inside.iter().cloned());
        edges.insert(reference, inside);
    }
    edges
        .keys()
        .filter(|start| reaches_itself(&edges, start))
        .cloned()
        .collect()
}

fn reaches_itself(edges: &BTreeMap<String, BTreeSet<String>>, start: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![start];
    while let Some(reference) = open.pop() {
        for next in edges.get(reference).into_iter().flatten() {
            if next == start {
                return true;
            }
            if seen.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    false
}

/// Every `$ref` in `schema`, except in its own members named `except`.
fn references_in(schema: &Value, except: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Value> = match schema.as_object() {
        Some(members) => {
            found.extend(
                members
                    .get("$ref")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
            let inside = members
                .iter()
                .filter(|(key, _)| !except.contains(&key.as_str()));
            inside.map(|(_, value)| value).collect()
        }
        None => Vec::new(),
    };
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                found.extend(
                    members
                        .get("$ref")
                        .and_then(Value::as_str)
                        .map(str::to_owned),
                );
                open.extend(members.values());
            }
            _ => {}
        }
    }
    found
}
