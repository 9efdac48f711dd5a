//! All faults of a team file at once.

use std::{collections::HashSet, path::Path};

use ghostlight_actors::{definition::TeamSpec, run::Registry};

use super::{
    ConfigError, FaultKind, TeamFile,
    document::{self, Content, Node, Place},
    fault::Fault,
    load, names, paths, read_document,
};
use crate::{environment, files};

/// The most faults that are reported at once.
const MOST: usize = 50;

/// Reads a team file as [`load`] does, checks its names against a registry, and reports all faults
/// in the order of the file. `complete` adds to the team what the file may leave out.
///
/// To find the next fault, the value with the fault is removed and the file is read again. A fault
/// that only such a removal causes is not reported, and its value is removed too.
///
/// # Errors
/// The faults, each with its place; at most fifty.
pub fn load_checked(
    path: impl AsRef<Path>,
    registry: &Registry,
    complete: impl Fn(&mut TeamSpec),
) -> Result<TeamFile, Vec<ConfigError>> {
    let path = path.as_ref();
    let sound = load(path).and_then(|mut file| {
        complete(file.spec_mut());
        file.resolve(registry.clone()).map(|_| file)
    });
    let first = match sound {
        Ok(file) => return Ok(file),
        Err(first) => first,
    };
    let text = files::read_text(path, super::MAX_BYTES);
    let Ok(text) = text else {
        return Err(vec![first]);
    };
    let Ok(mut document) = document::read(&text) else {
        return Err(vec![first]);
    };
    let whole = document.clone();
    let folder = std::path::absolute(path).ok();
    let folder = folder.as_deref().and_then(Path::parent);
    let origin = path.display().to_string();
    let (mut faults, mut gaps) = (Vec::new(), HashSet::new());
    let mut renamed: Vec<(String, String)> = Vec::new();
    while faults.len() < MOST {
        let Err(mut fault) = look(document.clone(), &whole, registry, folder, &complete) else {
            break;
        };
        let place = fault.place;
        let only_a_gap = gaps.iter().any(|gap: &String| is_gap(&fault, gap));
        let of_agents_name = fault.message.starts_with("agent name ");
        if !only_a_gap {
            for (new, old) in &renamed {
                fault.message = fault.message.replace(new, old);
            }
            faults.push(fault);
        }
        if let (true, Some(place)) = (of_agents_name, place)
            && let Some((new, old)) = rename(&mut document, place)
        {
            // Without a name the agent would not be read, and its other faults not be found.
            gaps.insert(old.clone());
            renamed.push((new, old));
            continue;
        }
        let Some((name, left_out)) = place.and_then(|place| leave_out(&mut document, place)) else {
            break;
        };
        if let (true, Some(text)) = (only_a_gap, left_out.text()) {
            // Thousands of agents may name what was removed.
            leave_out_alike(&mut document, (name.as_deref(), text));
        }
        gaps.extend(name);
        if only_a_gap {
            // Faults about the names in the removed value are not reported either.
            left_out.each_text(&mut |text| {
                if !text.is_empty() {
                    gaps.insert(text.to_owned());
                }
            });
        }
    }
    if faults.is_empty() {
        return Err(vec![first]);
    }
    faults.sort_by_key(|fault| fault.place);
    Err(faults
        .into_iter()
        .map(|fault| fault.of(&origin, &text))
        .collect())
}

/// The first fault of `document`, which is the `whole` file without the values that were removed.
fn look(
    document: Node,
    whole: &Node,
    registry: &Registry,
    folder: Option<&Path>,
    complete: &impl Fn(&mut TeamSpec),
) -> Result<(), Fault> {
    let read = read_document(document, &environment::variable)?;
    let (mut spec, document) = (read.spec, read.document);
    if let Some(folder) = folder {
        paths::resolve(&mut spec, folder);
    }
    complete(&mut spec);
    let resolved = registry.clone().resolve(&spec);
    resolved.map(drop).map_err(|error| {
        let fault = names::locate(&error, &document);
        names::with_names_of(whole, &error, fault)
    })
}

/// Whether the fault is only that a removed value is missing.
fn is_gap(fault: &Fault, gap: &str) -> bool {
    let kinds = [
        FaultKind::WrongValue,
        FaultKind::Team,
        FaultKind::UnknownName,
    ];
    let quoted = [format!("`{gap}`"), format!("{gap:?}")];
    kinds.contains(&fault.kind) && quoted.iter().any(|gap| fault.message.contains(gap))
}

/// Replaces the name at this place by one that no agent has. Returns the new name and the old one.
fn rename(node: &mut Node, place: Place) -> Option<(String, String)> {
    match &mut node.content {
        Content::Text(name) if node.place == place => {
            let new = format!("at_{}_{}", place.line, place.column);
            let old = std::mem::replace(&mut name.value, new.clone());
            Some((new, old))
        }
        Content::Mapping(entries) => entries
            .iter_mut()
            .find_map(|(_, value)| rename(value, place)),
        Content::List(items) => items.iter_mut().find_map(|item| rename(item, place)),
        _ => None,
    }
}

/// Removes the value at this place: an entry of a mapping or an item of a list. Returns its key and
/// the value.
fn leave_out(node: &mut Node, place: Place) -> Option<(Option<String>, Node)> {
    match &mut node.content {
        Content::Mapping(entries) => {
            // The innermost value: a mapping has the same place as its first key.
            let below = entries
                .iter_mut()
                .find_map(|(_, value)| leave_out(value, place));
            below.or_else(|| {
                let is_it = |(key, value): &(document::Key, Node)| {
                    key.place == place || value.place == place
                };
                let found = entries.iter().position(is_it)?;
                let (key, value) = entries.remove(found);
                Some((Some(key.name), value))
            })
        }
        Content::List(items) => {
            let below = items.iter_mut().find_map(|item| leave_out(item, place));
            below.or_else(|| {
                let found = items.iter().position(|item| item.place == place)?;
                let item = items.remove(found);
                Some((None, item))
            })
        }
        _ => None,
    }
}

/// Removes each text that reads so: the items of lists, or where a key is given, the entries under it.
fn leave_out_alike(node: &mut Node, (key, text): (Option<&str>, &str)) {
    let is_alike = |node: &Node| node.text() == Some(text);
    match &mut node.content {
        Content::Mapping(entries) => {
            entries.retain(|(own, value)| key != Some(own.name.as_str()) || !is_alike(value));
            let below = entries.iter_mut();
            below.for_each(|(_, value)| leave_out_alike(value, (key, text)));
        }
        Content::List(items) => {
            items.retain(|item| key.is_some() || !is_alike(item));
            let below = items.iter_mut();
            below.for_each(|item| leave_out_alike(item, (key, text)));
        }
        _ => {}
    }
}
