//! The form of JSON Schema that servers accept for strict output.
//!
//! Strict output means that the server generates only text that fits the schema. Servers with
//! OpenAI's protocol support this for a part of JSON Schema: every object is closed and every
//! member required, alternatives are `anyOf`, and keywords beyond a short list are refused. Other
//! requirements of a schema are left out here, so that the strict form accepts more than the schema
//! does; the answer is then checked against the schema itself (see [`super::OutputSchema`]).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::merging::{ANNOTATIONS, merge, without};
use super::references::{lookup, recursive_references};

/// The deepest nesting of a schema that is converted.
const MAX_SCHEMA_DEPTH: usize = 64;

/// The most subschemas after inlining, so that references which are each used twice cannot grow
/// without bound.
const MAX_SUBSCHEMAS: usize = 10_000;

/// Keywords that mean the same in the strict form.
const KEPT: [&str; 11] = [
    "description",
    "enum",
    "const",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
];

/// The values of `format` that servers support.
const FORMATS: [&str; 9] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
];

/// Why a schema has no strict form. It can still be sent unchanged, without `strict`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotStrict {
    /// An object may have members of any name, like a map.
    #[error("at {at}: members of any name, but a strict object lists its members")]
    OpenObject {
        /// Where in the schema.
        at: String,
    },
    /// The schema does not specify a type.
    #[error("at {at}: a value of any type, but a strict schema says which")]
    AnyType {
        /// Where in the schema.
        at: String,
    },
    /// Schemas that must all hold and cannot be merged.
    #[error("at {at}: schemas that must hold together differ in `{keyword}`")]
    Conflict {
        /// Where in the schema.
        at: String,
        /// The keyword in which they differ.
        keyword: String,
    },
    /// A reference that leads nowhere within the schema.
    #[error("at {at}: the reference `{reference}` leads to no schema in this document")]
    Reference {
        /// Where in the schema.
        at: String,
        /// The reference.
        reference: String,
    },
    /// The schema is too deep or, once its references are resolved, too large.
    #[error("at {at}: more than {MAX_SCHEMA_DEPTH} levels or {MAX_SUBSCHEMAS} schemas")]
    TooLarge {
        /// Where in the schema.
        at: String,
    },
}

/// Turns a JSON Schema (2020-12, as schemars 1 makes it, or draft 7) into its strict form.
///
/// - References are replaced by their targets; only recursive references stay, with their
///   definitions under `$defs`.
/// - Objects get `additionalProperties: false`, and all members become required; optional members
///   may be `null` instead.
/// - `oneOf` becomes `anyOf`, members beside it move into each alternative, `allOf` is merged, and a
///   tuple becomes an array of its types.
/// - Keywords that servers refuse are dropped.
///
/// # Errors
///
/// [`NotStrict`], if there is no such form: for maps, for values of any type, and for contradictory
/// `allOf`s.
pub fn strict_form(schema: &Value) -> Result<Value, NotStrict> {
    let mut converter = Converter {
        root: schema,
        recursive: recursive_references(schema),
        names: BTreeMap::new(),
        definitions: Map::new(),
        subschemas: 0,
    };
    let mut strict = converter.convert(
        schema,
        &Place {
            path: "#".to_owned(),
            depth: 0,
        },
    )?;
    // The top of a strict schema must be an object, not a reference to one.
    let top = strict
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|name| name.rsplit('/').next());
    if let Some(definition) = top.and_then(|name| converter.definitions.get(name)) {
        strict = definition.clone();
    }
    if let (Some(strict), false) = (strict.as_object_mut(), converter.definitions.is_empty()) {
        strict.insert("$defs".to_owned(), Value::Object(converter.definitions));
    }
    Ok(strict)
}

/// The place of the conversion in the schema.
struct Place {
    path: String,
    depth: usize,
}

impl Place {
    fn inside(&self, step: &str) -> Self {
        Self {
            path: format!("{}/{step}", self.path),
            depth: self.depth + 1,
        }
    }
}

struct Converter<'s> {
    root: &'s Value,
    recursive: BTreeSet<String>,
    /// The names under `$defs` of the references that stay.
    names: BTreeMap<String, String>,
    definitions: Map<String, Value>,
    subschemas: usize,
}

impl<'s> Converter<'s> {
    fn convert(&mut self, schema: &Value, place: &Place) -> Result<Value, NotStrict> {
        let at = || place.path.clone();
        self.subschemas += 1;
        if place.depth > MAX_SCHEMA_DEPTH || self.subschemas > MAX_SUBSCHEMAS {
            return Err(NotStrict::TooLarge { at: at() });
        }
        let Some(schema) = schema.as_object() else {
            return Err(NotStrict::AnyType { at: at() });
        };
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.reference(schema, reference, place);
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            let mut whole = without(schema, &["allOf"]);
            for part in parts {
                merge(&mut whole, &self.resolved(part, place)?, &place.path)?;
            }
            return self.convert(&Value::Object(whole), &place.inside("allOf"));
        }
        for keyword in ["oneOf", "anyOf"] {
            if let Some(branches) = schema.get(keyword).and_then(Value::as_array) {
                let common = without(schema, &[keyword]);
                return self.alternatives(common, branches, &place.inside(keyword));
            }
        }
        self.plain(schema, place)
    }

    fn reference(
        &mut self,
        schema: &Map<String, Value>,
        reference: &str,
        place: &Place,
    ) -> Result<Value, NotStrict> {
        let target = self.target(reference, place)?;
        if !self.recursive.contains(reference) {
            let mut whole = without(schema, &["$ref"]);
            merge(&mut whole, target, &place.path)?;
            return self.convert(&Value::Object(whole), &place.inside("$ref"));
        }
        let name = match self.names.get(reference) {
            Some(name) => name.clone(),
            None => {
                let last = reference.rsplit(['/', '#']).next().unwrap_or_default();
                let stem = if last.is_empty() { "root" } else { last };
                let is_taken = self.names.values().any(|name| name == stem);
                let number = self.names.len();
                let name = if is_taken {
                    format!("{stem}_{number}")
                } else {
                    stem.to_owned()
                };
                self.names.insert(reference.to_owned(), name.clone());
                let place = Place {
                    path: reference.to_owned(),
                    depth: place.depth + 1,
                };
                let definition = self.convert(target, &place)?;
                self.definitions.insert(name.clone(), definition);
                name
            }
        };
        Ok(json!({ "$ref": format!("#/$defs/{name}") }))
    }

    fn target(&self, reference: &str, place: &Place) -> Result<&'s Value, NotStrict> {
        lookup(self.root, reference).ok_or_else(|| NotStrict::Reference {
            at: place.path.clone(),
            reference: reference.to_owned(),
        })
    }

    /// `schema` with a reference at its top, if there is one, resolved.
    fn resolved(&self, schema: &Value, place: &Place) -> Result<Value, NotStrict> {
        let mut whole = schema.clone();
        for _ in 0..MAX_SCHEMA_DEPTH {
            let Some(reference) = whole.get("$ref").and_then(Value::as_str) else {
                return Ok(whole);
            };
            let target = self.target(reference, place)?;
            let mut merged = without(whole.as_object().unwrap_or(&Map::new()), &["$ref"]);
            merge(&mut merged, target, &place.path)?;
            whole = Value::Object(merged);
        }
        Err(NotStrict::TooLarge {
            at: place.path.clone(),
        })
    }

    /// Converts alternatives, and merges the keywords beside them into each.
    fn alternatives(
        &mut self,
        common: Map<String, Value>,
        branches: &[Value],
        place: &Place,
    ) -> Result<Value, NotStrict> {
        let constraints = without(&common, &ANNOTATIONS);
        let mut converted = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            let place = place.inside(&index.to_string());
            let branch = if constraints.is_empty() {
                self.convert(branch, &place)?
            } else {
                let mut whole = constraints.clone();
                merge(&mut whole, &self.resolved(branch, &place)?, &place.path)?;
                self.convert(&Value::Object(whole), &place)?
            };
            converted.push(branch);
        }
        let mut strict = Map::new();
        if let Some(description) = common.get("description") {
            strict.insert("description".to_owned(), description.clone());
        }
        strict.insert("anyOf".to_owned(), Value::Array(converted));
        Ok(Value::Object(strict))
    }

    /// Converts a schema that is not a combination of others.
    fn plain(&mut self, schema: &Map<String, Value>, place: &Place) -> Result<Value, NotStrict> {
        let Some(types) = types_of(schema) else {
            return Err(NotStrict::AnyType {
                at: place.path.clone(),
            });
        };
        let mut strict: Map<String, Value> = KEPT
            .iter()
            .filter_map(|key| {
                schema
                    .get(*key)
                    .map(|value| ((*key).to_owned(), value.clone()))
            })
            .collect();
        let format = schema.get("format").and_then(Value::as_str);
        if let Some(format) = format.filter(|format| FORMATS.contains(format)) {
            strict.insert("format".to_owned(), format.into());
        }
        if types.contains(&"object") {
            self.object(schema, &mut strict, place)?;
        }
        if types.contains(&"array") {
            strict.insert("items".to_owned(), self.items(schema, place)?);
        }
        let types = match types.as_slice() {
            [only] => Value::from(*only),
            several => Value::from(several),
        };
        strict.insert("type".to_owned(), types);
        Ok(Value::Object(strict))
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        strict: &mut Map<String, Value>,
        place: &Place,
    ) -> Result<(), NotStrict> {
        let is_open = |key: &str| {
            schema
                .get(key)
                .is_some_and(|others| *others != json!(false))
        };
        if is_open("additionalProperties") || is_open("patternProperties") {
            return Err(NotStrict::OpenObject {
                at: place.path.clone(),
            });
        }
        let required: BTreeSet<&str> = strings(schema.get("required")).collect();
        let mut members = Map::new();
        let listed = schema.get("properties").and_then(Value::as_object);
        for (name, member) in listed.into_iter().flatten() {
            let converted = self.convert(member, &place.inside(&format!("properties/{name}")))?;
            let is_required = required.contains(name.as_str());
            let converted = if is_required {
                converted
            } else {
                nullable(converted)
            };
            members.insert(name.clone(), converted);
        }
        strict.insert("required".to_owned(), members.keys().cloned().collect());
        strict.insert("properties".to_owned(), Value::Object(members));
        strict.insert("additionalProperties".to_owned(), json!(false));
        Ok(())
    }

    /// The schema of the elements of an array. Elements of a tuple may have any of its types;
    /// `minItems` and `maxItems` give their number.
    fn items(&mut self, schema: &Map<String, Value>, place: &Place) -> Result<Value, NotStrict> {
        let place = place.inside("items");
        let tuple = schema.get("prefixItems").or_else(|| schema.get("items"));
        let Some(tuple) = tuple.and_then(Value::as_array) else {
            return self.convert(schema.get("items").unwrap_or(&Value::Null), &place);
        };
        let mut converted: Vec<Value> = Vec::new();
        for item in tuple {
            let item = self.convert(item, &place)?;
            if !converted.contains(&item) {
                converted.push(item);
            }
        }
        match (converted.pop(), converted.is_empty()) {
            (None, _) => Err(NotStrict::AnyType { at: place.path }),
            (Some(only), true) => Ok(only),
            (Some(last), false) => {
                converted.push(last);
                Ok(json!({ "anyOf": converted }))
            }
        }
    }
}

/// The types that a schema names, or that its other keywords imply.
fn types_of(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    let named: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        other => strings(other).collect(),
    };
    if !named.is_empty() {
        return Some(named);
    }
    let values = schema.get("enum").and_then(Value::as_array);
    let values: Vec<&Value> = values
        .into_iter()
        .flatten()
        .chain(schema.get("const"))
        .collect();
    let mut implied: Vec<&str> = Vec::new();
    for name in values.into_iter().map(type_of) {
        if !implied.contains(&name) {
            implied.push(name);
        }
    }
    if schema.contains_key("properties") {
        implied.push("object");
    } else if schema.contains_key("items") || schema.contains_key("prefixItems") {
        implied.push("array");
    }
    (!implied.is_empty()).then_some(implied)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A schema that accepts `null` in addition to what `strict` accepts.
fn nullable(mut strict: Value) -> Value {
    if accepts_null(&strict) {
        return strict;
    }
    if let Some(branches) = strict.get_mut("anyOf").and_then(Value::as_array_mut) {
        branches.push(json!({ "type": "null" }));
        return strict;
    }
    let name = strict
        .get("type")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let is_simple = name
        .as_ref()
        .is_some_and(|name| name != "object" && name != "array");
    if let (Some(name), true, None) = (name, is_simple, strict.get("const")) {
        if let Some(options) = strict.get_mut("enum").and_then(Value::as_array_mut) {
            options.push(Value::Null);
        }
        if let Some(schema) = strict.as_object_mut() {
            schema.insert("type".to_owned(), json!([name, "null"]));
        }
        return strict;
    }
    let description = strict
        .as_object_mut()
        .and_then(|schema| schema.remove("description"));
    let mut either = Map::new();
    either.extend(description.map(|text| ("description".to_owned(), text)));
    either.insert("anyOf".to_owned(), json!([strict, { "type": "null" }]));
    Value::Object(either)
}

fn accepts_null(strict: &Value) -> bool {
    let branches = strict.get("anyOf").and_then(Value::as_array);
    let is_listed = |key: &str, wanted: &Value| {
        strict
            .get(key)
            .and_then(Value::as_array)
            .is_some_and(|list| list.contains(wanted))
    };
    strict.get("type") == Some(&json!("null"))
        || (is_listed("type", &json!("null")) && strict.get("enum").is_none())
        || is_listed("enum", &Value::Null)
        || branches.into_iter().flatten().any(accepts_null)
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}
