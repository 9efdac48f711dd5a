//! A YAML document with the place of each of its values.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// The deepest nesting of lists and mappings: enough for eighteen levels of agents. Reading is
/// recursive, so this also bounds the stack.
pub(super) const MAX_DEPTH: usize = 40;

/// A place in a file: line and column, in characters, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
    /// The length in characters; 0 if it is not known.
    pub length: u64,
}

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        Self {
            line: location.line().max(1),
            column: location.column().max(1),
            length: location.span().len(),
        }
    }
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) content: Content,
}

/// A value of a document.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Null,
    Bool(Scalar<bool>),
    Whole(Scalar<i128>),
    Float(Scalar<f64>),
    Text(Text),
    List(Vec<Node>),
    Mapping(Vec<(Key, Node)>),
}

/// A typed scalar with its text in the file, which is used where a string is expected (`model:
/// 4.1`).
#[derive(Clone, Debug)]
pub(super) struct Scalar<T> {
    pub(super) value: T,
    pub(super) written: String,
}

/// A string, and whether it comes from a variable. A string from a variable may stand for a number,
/// because there is no other way to write one.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) value: String,
    pub(super) substituted: bool,
}

/// A key and its place.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) place: Place,
}

impl Key {
    pub(super) fn new(name: &str, place: Place) -> Self {
        Self {
            name: name.to_owned(),
            place,
        }
    }
}

impl Node {
    /// A text that stands in no file as such.
    pub(super) fn text_at(text: &str, place: Place) -> Self {
        let content = Content::Text(Text {
            value: text.to_owned(),
            substituted: false,
        });
        Self { place, content }
    }

    /// The value under this key.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|(_, value)| value)
    }

    /// The key of this name and its value.
    pub(super) fn entry(&self, key: &str) -> Option<(&Key, &Node)> {
        let Content::Mapping(entries) = &self.content else {
            return None;
        };
        let found = entries.iter().find(|(candidate, _)| candidate.name == key);
        found.map(|(key, value)| (key, value))
    }

    /// The keys of a mapping; those of anything else are none.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        let entries = match &self.content {
            Content::Mapping(entries) => entries.as_slice(),
            _ => &[],
        };
        entries.iter().map(|(key, _)| key.name.as_str())
    }

    /// The items of a list; none for anything else.
    pub(super) fn items(&self) -> &[Node] {
        match &self.content {
            Content::List(items) => items,
            _ => &[],
        }
    }

    /// Calls `take` with each text inside.
    pub(super) fn each_text(&self, take: &mut impl FnMut(&str)) {
        match &self.content {
            Content::List(items) => items.iter().for_each(|item| item.each_text(take)),
            Content::Mapping(entries) => {
                entries.iter().for_each(|(_, value)| value.each_text(take))
            }
            _ => self.text().into_iter().for_each(take),
        }
    }

    /// The nesting depth of the lists and mappings; 1 for a scalar.
    pub(super) fn depth(&self) -> usize {
        let below = match &self.content {
            Content::List(items) => items.iter().map(Node::depth).max(),
            Content::Mapping(entries) => entries.iter().map(|(_, value)| value.depth()).max(),
            _ => None,
        };
        1 + below.unwrap_or(0)
    }

    /// The approximate memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        let content = match &self.content {
            Content::List(items) => items.iter().map(Node::bytes).sum(),
            Content::Mapping(entries) => {
                let entry =
                    |(key, value): &(Key, Node)| size_of::<Key>() + key.name.len() + value.bytes();
                entries.iter().map(entry).sum()
            }
            _ => self.text().map_or(0, str::len),
        };
        size_of::<Self>() + content
    }

    /// The text of a scalar as a string field reads it.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Bool(scalar) => Some(&scalar.written),
            Content::Whole(scalar) => Some(&scalar.written),
            Content::Float(scalar) => Some(&scalar.written),
            Content::Text(text) => Some(&text.value),
            Content::Null | Content::List(_) | Content::Mapping(_) => None,
        }
    }
}

/// Reads a document. Anchors and merges are resolved, a duplicate key is an error, and size, depth
/// and the growth of aliases are bounded.
pub(super) fn read(text: &str) -> Result<Node, (Option<Place>, String)> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
    };
    let raw: Spanned<Raw> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let place = error.location().map(Place::from);
            (place, say(error.without_snippet(), place))
        })?;
    Ok(place_all(raw, text))
}

/// The message without the place, which is shown separately.
fn say(error: &serde_saphyr::Error, place: Option<Place>) -> String {
    // The default messages are for programs that call the library.
    let message = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
    let first = message.lines().next().unwrap_or_default();
    let Some(place) = place else {
        return first.to_owned();
    };
    let suffix = format!(" at line {}, column {}", place.line, place.column);
    first.strip_suffix(&suffix).unwrap_or(first).to_owned()
}

/// A value whose scalars are typed, before their original text is added.
enum Raw {
    Null,
    Bool(bool),
    Whole(i128),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Mapping(Vec<(Spanned<String>, Spanned<Raw>)>),
}

fn place_all(raw: Spanned<Raw>, source: &str) -> Node {
    let place = Place::from(raw.referenced);
    let written = || written(source, raw.defined);
    let content = match raw.value {
        Raw::Null => Content::Null,
        Raw::Bool(value) => Content::Bool(Scalar {
            value,
            written: written().unwrap_or_else(|| value.to_string()),
        }),
        Raw::Whole(value) => Content::Whole(Scalar {
            value,
            written: written().unwrap_or_else(|| value.to_string()),
        }),
        Raw::Float(value) => Content::Float(Scalar {
            value,
            written: written().unwrap_or_else(|| value.to_string()),
        }),
        Raw::Text(value) => Content::Text(Text {
            value,
            substituted: false,
        }),
        Raw::List(items) => {
            let items = items.into_iter().map(|item| place_all(item, source));
            Content::List(items.collect())
        }
        Raw::Mapping(entries) => {
            let entries = entries.into_iter().map(|(key, value)| {
                let place = Place::from(key.referenced);
                let name = key.value;
                (Key { name, place }, place_all(value, source))
            });
            Content::Mapping(entries.collect())
        }
    };
    Node { place, content }
}

fn written(source: &str, location: Location) -> Option<String> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let end = start.checked_add(usize::try_from(span.byte_len()?).ok()?)?;
    let text = source.get(start..end)?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Whole(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Whole(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Whole(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Raw, E> {
        Ok(Raw::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Mapping(entries))
    }
}
