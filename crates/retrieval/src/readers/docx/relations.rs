//! The names of a document's parts. A word processor may give them any.

use std::collections::HashMap;

use quick_xml::{Reader, events::Event};

use super::{Archive, attribute, part};

/// The parts to which one refers and which are there, by the last word of their kinds, such as `styles`.
#[derive(Debug, Default)]
pub(super) struct Relations(HashMap<String, String>);

impl Relations {
    /// The relations of a part, or of the whole document where its name is empty, as far as they can be read.
    pub(super) fn of(archive: &mut Archive, of: &str) -> Self {
        let (folder, name) = of.rsplit_once('/').unwrap_or(("", of));
        let place = format!("{folder}/_rels/{name}.rels");
        let xml = part(archive, place.trim_start_matches('/')).unwrap_or_default();
        let (mut reader, mut targets) = (Reader::from_str(&xml), HashMap::new());
        while let Ok(event) = reader.read_event() {
            match event {
                Event::Start(tag) | Event::Empty(tag) => {
                    let (kind, target) = (attribute(&tag, "Type"), attribute(&tag, "Target"));
                    if let (Some(kind), Some(target)) = (kind, target) {
                        let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
                        let target = resolved(folder, &target.replace('\\', "/"));
                        if archive.index_for_name(&target).is_some() {
                            targets.entry(kind).or_insert(target);
                        }
                    }
                }
                Event::Eof => break,
                _ => {}
            }
        }
        Self(targets)
    }

    /// The name of the part of this kind; the usual one, where none is named.
    pub(super) fn target(&self, kind: &str, usual: &str) -> String {
        let named = self.0.get(kind);
        named.map_or_else(|| usual.to_owned(), String::clone)
    }
}

/// The name of a part that is written so in a folder.
fn resolved(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    if !target.starts_with('/') {
        parts.extend(folder.split('/'));
    }
    for step in target.split('/') {
        match step {
            ".." => drop(parts.pop()),
            step => parts.push(step),
        }
    }
    parts.retain(|part| !part.is_empty() && *part != ".");
    parts.join("/")
}
