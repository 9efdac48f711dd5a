//! The styles of a document: which are headings, and which stand beside their line.

use std::collections::HashMap;

use quick_xml::{Reader, events::Event};

use super::{is_on, value};
use crate::scripts::Script;

/// How many styles one can be based on, one on the other.
const BASES: usize = 16;
/// The ids of headings in the languages of word processors, for documents that do not say what a style means.
const NAMES: [&str; 13] = [
    "heading",
    "berschrift",
    "überschrift",
    "titre",
    "ttulo",
    "título",
    "titolo",
    "kop",
    "rubrik",
    "overskrift",
    "otsikko",
    "nagwek",
    "nadpis",
];

/// The styles by their ids. The id of a style is in the language of the word processor; its name and its outline level are not.
#[derive(Debug, Default)]
pub(super) struct Styles(HashMap<String, Style>);

#[derive(Debug, Default)]
struct Style {
    level: Option<usize>,
    script: Option<Script>,
    hides: Option<bool>,
    based_on: Option<String>,
}

impl Styles {
    /// The styles in the part `styles.xml`, as far as it can be read.
    pub(super) fn read(xml: &str) -> Self {
        let (mut reader, mut styles) = (Reader::from_str(xml), HashMap::new());
        let (mut id, mut style) = (String::new(), Style::default());
        while let Ok(event) = reader.read_event() {
            match event {
                Event::Start(tag) | Event::Empty(tag) => match tag.local_name().as_ref() {
                    "style" => {
                        let mut all = tag.attributes().flatten();
                        let own = all.find(|one| one.key.local_name().as_ref() == "styleId");
                        id = own.map_or_else(String::new, |own| own.value.to_ascii_lowercase());
                        style = Style::default();
                    }
                    "name" => {
                        style.level = value(&tag).and_then(|name| level_of(&name)).or(style.level)
                    }
                    "vertAlign" => style.script = value(&tag).and_then(|place| script(&place)),
                    "vanish" => style.hides = Some(is_on(&tag)),
                    "outlineLvl" => style.level = value(&tag).and_then(|level| outline(&level)),
                    "basedOn" => style.based_on = value(&tag).map(|base| base.to_ascii_lowercase()),
                    _ => {}
                },
                Event::End(tag) if tag.local_name().as_ref() == "style" => {
                    styles.insert(std::mem::take(&mut id), std::mem::take(&mut style));
                }
                Event::Eof => break,
                _ => {}
            }
        }
        Self(styles)
    }

    /// The level of the heading that a paragraph of this style is, if it is one.
    pub(super) fn of(&self, id: &str) -> Option<usize> {
        let id = id.to_ascii_lowercase();
        if !self.0.contains_key(&id) {
            return level_of(&id);
        }
        let level = self.chain(id).find_map(|style| style.level);
        level.filter(|level| *level > 0)
    }

    /// Where text of this style stands beside its line, if it does.
    pub(super) fn script(&self, id: &str) -> Option<Script> {
        let mut chain = self.chain(id.to_ascii_lowercase());
        chain.find_map(|style| style.script)
    }

    /// Whether text of this style is hidden, where the style says so.
    pub(super) fn hides(&self, id: &str) -> Option<bool> {
        let mut chain = self.chain(id.to_ascii_lowercase());
        chain.find_map(|style| style.hides)
    }

    /// The style of this id with those on which it is based.
    fn chain(&self, id: String) -> impl Iterator<Item = &Style> {
        let base = |style: &&Style| self.0.get(style.based_on.as_ref()?);
        std::iter::successors(self.0.get(&id), base).take(BASES)
    }
}

/// Where text stands that is aligned in this way.
pub(super) fn script(place: &str) -> Option<Script> {
    match place {
        "superscript" => Some(Script::Raised),
        "subscript" => Some(Script::Lowered),
        _ => None,
    }
}

/// The level of the heading with this name.
fn level_of(name: &str) -> Option<usize> {
    let name = name.to_lowercase();
    if name == "title" {
        return Some(1);
    }
    let level = NAMES
        .iter()
        .find_map(|heading| name.strip_prefix(heading))?;
    let level = level.trim().parse().ok()?;
    (1..=6).contains(&level).then_some(level)
}

/// The level of a heading with this outline level: 0 says that it is none, as does what is below the sixth.
pub(super) fn outline(level: &str) -> Option<usize> {
    let level: usize = level.parse().ok()?;
    Some(if level < 6 { level + 1 } else { 0 })
}
