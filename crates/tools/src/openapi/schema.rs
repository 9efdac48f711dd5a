//! A document's schemas as JSON Schema for the arguments of a tool.
//!
//! References are replaced by their targets, so that a model reads one tree, and the time to validate an argument is
//! bounded by the tree's size. A cycle is cut where it closes. A part that exceeds the bounds becomes a schema that
//! allows everything: the server checks its input in any case.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

use serde_json::{Map, Value, json};

use super::document::{Document, text_of};

/// The most schemas of one tool.
const NODES: usize = 1_500;
/// The most schemas of all tools of one document.
const ALL_NODES: usize = 250_000;
/// The most characters of all descriptions and values of one tool, and of one of them.
const TEXT: usize = 24_000;
const ONE_TEXT: usize = 600;
/// The deepest nesting of schemas, with those behind references.
const DEPTH: usize = 48;
/// How many references are followed into each other: the first of these depths whose result fits into the bounds.
const REFERENCES: [usize; 6] = [16, 6, 4, 3, 2, 1];
/// The most values of an enumeration; of a longer one only the type is kept.
const VALUES: usize = 250;
/// The longest name of a property, in bytes.
const NAME: usize = 200;
/// The longest pattern, the most different patterns of a document, and the largest compiled pattern in bytes.
const PATTERN: usize = 500;
const PATTERNS: usize = 2_000;
const PATTERN_BYTES: usize = 64 << 10;

/// Translates the schemas of one document.
#[derive(Debug)]
pub(super) struct Schemas<'d> {
    document: &'d Document,
    /// How many schemas may still be translated.
    left: Cell<usize>,
    /// Whether a pattern can be matched in linear time.
    patterns: RefCell<HashMap<String, bool>>,
}

/// The remaining room of one tool.
#[derive(Debug)]
struct Room {
    nodes: usize,
    text: usize,
    references: usize,
}

/// The position of a schema.
#[derive(Clone, Copy, Debug)]
struct Way<'w> {
    depth: usize,
    /// The chain of references that led here, the last one first.
    through: Option<&'w Through<'w>>,
    /// Within `allOf`, where one schema does not know the properties of the others.
    combined: bool,
}

#[derive(Debug)]
struct Through<'w> {
    reference: &'w str,
    before: Option<&'w Through<'w>>,
    count: usize,
}

impl<'d> Schemas<'d> {
    pub(super) fn new(document: &'d Document) -> Self {
        Self {
            document,
            left: Cell::new(ALL_NODES),
            patterns: RefCell::default(),
        }
    }

    /// The schemas of one tool's arguments, as deep as they fit into its bounds; `None` if the document has used up the
    /// bound of all its tools.
    pub(super) fn translate(&self, schemas: &[&'d Value]) -> Option<Vec<Value>> {
        if self.left.get() == 0 {
            return None;
        }
        let mut translated = Vec::new();
        for references in REFERENCES {
            let mut room = Room {
                nodes: NODES,
                text: TEXT,
                references,
            };
            let way = Way {
                depth: 0,
                through: None,
                combined: false,
            };
            translated = schemas
                .iter()
                .map(|schema| self.schema(schema, way, &mut room))
                .collect();
            let left = self.left.get().saturating_sub(NODES - room.nodes);
            self.left.set(left);
            if left == 0 {
                return None;
            }
            if room.nodes > 0 {
                break;
            }
        }
        Some(translated)
    }

    fn schema(&self, schema: &Value, way: Way<'_>, room: &mut Room) -> Value {
        let Some(fields) = schema.as_object() else {
            return json!({});
        };
        if room.nodes == 0 || way.depth >= DEPTH {
            return json!({});
        }
        room.nodes -= 1;
        let mut made = match text_of(schema, "$ref") {
            Some(reference) => self.referred(reference, way, room),
            None => self.fields(fields, way, room),
        };
        // In 3.1 a description may be beside a reference.
        if let (Some(made), Some(said)) = (made.as_object_mut(), self.description(fields, room)) {
            made.insert("description".to_owned(), said.into());
        }
        made
    }

    fn referred(&self, reference: &str, way: Way<'_>, room: &mut Room) -> Value {
        let Some(target) = self.document.find(reference) else {
            return json!({});
        };
        let mut before = way.through;
        let mut closes = false;
        while let Some(through) = before {
            closes |= through.reference == reference;
            before = through.before;
        }
        let count = way.through.map_or(0, |through| through.count) + 1;
        if closes || count > room.references {
            return shallow(target, reference);
        }
        let through = Through {
            reference,
            before: way.through,
            count,
        };
        let way = Way {
            depth: way.depth + 1,
            through: Some(&through),
            ..way
        };
        self.schema(target, way, room)
    }

    fn fields(&self, fields: &Map<String, Value>, way: Way<'_>, room: &mut Room) -> Value {
        let mut made = Map::new();
        let below = Way {
            depth: way.depth + 1,
            combined: false,
            ..way
        };
        for (name, value) in fields {
            let translated = match name.as_str() {
                "type" => types(value),
                "enum" => values(value, room),
                "const" | "default" => small(value, room),
                "format" => short(value),
                "pattern" => self.pattern(value),
                "properties" => Some(self.properties(value, below, room)),
                "items" if value.is_object() => Some(self.schema(value, below, room)),
                "additionalProperties" => match value {
                    Value::Bool(false) if way.combined => None,
                    Value::Bool(_) => Some(value.clone()),
                    Value::Object(_) => Some(self.schema(value, below, room)),
                    _ => None,
                },
                "anyOf" => self.branches(value, below, room),
                "allOf" => {
                    let combined = Way {
                        combined: true,
                        ..below
                    };
                    self.branches(value, combined, room)
                }
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                    value.is_number().then(|| value.clone())
                }
                "multipleOf" => value.as_f64().filter(|by| *by > 0.0).map(|_| value.clone()),
                "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
                | "maxProperties" => value.as_u64().map(Value::from),
                "uniqueItems" => value.as_bool().map(Value::from),
                _ => None,
            };
            if let Some(translated) = translated {
                made.insert(name.clone(), translated);
            }
        }
        // A schema that was cut may match the same values as another; the server knows which one it takes.
        if let Some(one_of) = fields.get("oneOf")
            && !made.contains_key("anyOf")
            && let Some(branches) = self.branches(one_of, below, room)
        {
            made.insert("anyOf".to_owned(), branches);
        }
        if let Some(required) = self.required(fields) {
            made.insert("required".to_owned(), required);
        }
        if self.document.is_3_0 {
            from_3_0(fields, &mut made);
        }
        Value::Object(made)
    }

    fn description(&self, fields: &Map<String, Value>, room: &mut Room) -> Option<String> {
        let said = fields.get("description").or_else(|| fields.get("title"));
        let said = said.and_then(Value::as_str).filter(|_| room.text > 0)?;
        let said: String = ghostlight_safety::sanitize(bounded(said.trim(), 4 * ONE_TEXT))
            .chars()
            .take(ONE_TEXT.min(room.text))
            .collect();
        room.text -= said.chars().count();
        (!said.is_empty()).then_some(said)
    }

    fn properties(&self, properties: &Value, way: Way<'_>, room: &mut Room) -> Value {
        let mut made = Map::new();
        for (name, schema) in properties.as_object().into_iter().flatten() {
            if room.nodes == 0 {
                break;
            }
            if name.len() <= NAME && !self.is_read_only(schema) {
                made.insert(name.clone(), self.schema(schema, way, room));
            }
        }
        Value::Object(made)
    }

    /// A property that only the server sets is not an argument.
    fn is_read_only(&self, schema: &Value) -> bool {
        let target = self.document.at(schema);
        let says = |schema: &Value| schema.get("readOnly") == Some(&Value::Bool(true));
        says(schema) || target.is_some_and(says)
    }

    fn required(&self, fields: &Map<String, Value>) -> Option<Value> {
        let properties = fields.get("properties").and_then(Value::as_object);
        let required = fields.get("required")?.as_array()?;
        let named = required.iter().filter_map(Value::as_str);
        let mut kept: Vec<&str> = named
            .filter(|name| {
                let schema = properties.and_then(|properties| properties.get(*name));
                name.len() <= NAME && !schema.is_some_and(|schema| self.is_read_only(schema))
            })
            .take(VALUES)
            .collect();
        kept.sort_unstable();
        kept.dedup();
        (!kept.is_empty()).then(|| kept.into())
    }

    fn branches(&self, branches: &Value, way: Way<'_>, room: &mut Room) -> Option<Value> {
        let mut translated = Vec::new();
        for branch in branches.as_array()? {
            translated.push(self.schema(branch, way, room));
            if room.nodes == 0 {
                // A schema that is cut allows everything.
                translated.push(json!({}));
                break;
            }
        }
        (!translated.is_empty()).then(|| translated.into())
    }

    /// A pattern that can be matched in linear time. Patterns with look-around or backreferences are left to the
    /// server.
    fn pattern(&self, value: &Value) -> Option<Value> {
        let pattern = value.as_str().filter(|pattern| pattern.len() <= PATTERN)?;
        let mut patterns = self.patterns.borrow_mut();
        let is_linear = match patterns.get(pattern) {
            Some(known) => *known,
            None if patterns.len() >= PATTERNS => false,
            None => {
                let compiled = regex::RegexBuilder::new(pattern)
                    .size_limit(PATTERN_BYTES)
                    .build();
                patterns.insert(pattern.to_owned(), compiled.is_ok());
                compiled.is_ok()
            }
        };
        is_linear.then(|| value.clone())
    }
}

/// A placeholder for a schema behind a reference that is not followed.
fn shallow(target: &Value, reference: &str) -> Value {
    let mut made = Map::new();
    if let Some(kind) = target.get("type").and_then(types) {
        made.insert("type".to_owned(), kind);
    }
    let name = reference.rsplit('/').next().unwrap_or_default();
    let name = ghostlight_safety::sanitize_line(name, 80);
    made.insert("description".to_owned(), format!("A {name}.").into());
    Value::Object(made)
}

const TYPES: [&str; 7] = [
    "array", "boolean", "integer", "null", "number", "object", "string",
];

fn types(value: &Value) -> Option<Value> {
    let known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::String(_) => known(value).then(|| value.clone()),
        Value::Array(names) => {
            let mut names: Vec<&Value> = names.iter().filter(|name| known(name)).collect();
            names.dedup();
            let different = (1..names.len()).all(|at| !names[..at].contains(&names[at]));
            (!names.is_empty() && different && names.len() <= TYPES.len()).then(|| json!(names))
        }
        _ => None,
    }
}

fn values(value: &Value, room: &mut Room) -> Option<Value> {
    let values = value.as_array()?;
    if values.is_empty() || values.len() > VALUES {
        return None;
    }
    // Without one of the values a valid argument would be refused.
    let kept: Vec<Value> = values
        .iter()
        .map_while(|value| small(value, room))
        .collect();
    let different = (1..kept.len()).all(|at| !kept[..at].contains(&kept[at]));
    (kept.len() == values.len() && different).then(|| kept.into())
}

/// A value, if it is small.
fn small(value: &Value, room: &mut Room) -> Option<Value> {
    let size = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(_) | Value::Object(_) => value.to_string().len(),
    };
    if size > ONE_TEXT.min(room.text) {
        return None;
    }
    room.text -= size;
    Some(value.clone())
}

fn short(value: &Value) -> Option<Value> {
    let short = value.as_str().is_some_and(|text| text.len() <= 64);
    short.then(|| value.clone())
}

/// Translates the parts in which 3.0 differs from JSON Schema.
fn from_3_0(fields: &Map<String, Value>, made: &mut Map<String, Value>) {
    for (bound, exclusive) in [
        ("minimum", "exclusiveMinimum"),
        ("maximum", "exclusiveMaximum"),
    ] {
        if fields.get(exclusive) == Some(&Value::Bool(true))
            && let Some(value) = made.remove(bound)
        {
            made.insert(exclusive.to_owned(), value);
        }
    }
    if fields.get("nullable") != Some(&Value::Bool(true)) {
        return;
    }
    if let Some(Value::String(kind)) = made.get("type").cloned() {
        made.insert("type".to_owned(), json!([kind, "null"]));
    }
    if let Some(Value::Array(values)) = made.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

/// The beginning of a text, of at most this many bytes.
pub(super) fn bounded(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
