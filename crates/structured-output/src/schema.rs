//! The schema of an answer: the form for the server, and the form for the check.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jsonschema::Validator;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::mismatch::{self, Mismatches};
use super::reading::{JsonError, ReadOptions, Reading};
use super::references;
use super::strict_form::{NotStrict, strict_form};

/// The member that holds an answer which is not an object, because servers require an object.
const WRAPPED: &str = "value";

/// How often `null`s are removed before the rest is checked. Each round uncovers `null`s that are
/// one alternative deeper.
const MAX_ROUNDS: usize = 16;

/// The schema of an answer.
///
/// ```
/// use ghostlight_structured_output::OutputSchema;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct City {
///     name: String,
///     people: Option<u32>,
/// }
///
/// let schema = OutputSchema::of::<City>()?;
/// assert!(schema.is_strict());
/// assert_eq!(schema.schema()["required"], serde_json::json!(["name", "people"]));
///
/// let city: City = schema.parse("```json\n{'name': 'Oslo', 'people': None}\n```")?;
/// assert_eq!((city.name.as_str(), city.people), ("Oslo", None));
///
/// let error = schema.read(r#"{"name": "Oslo", "people": "many"}"#).unwrap_err();
/// assert!(error.to_string().contains(
///     r#"at $.people: expected an integer or null, found the text "many""#
/// ));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct OutputSchema {
    name: String,
    /// The schema that the server gets.
    schema: Value,
    not_strict: Option<NotStrict>,
    is_wrapped: bool,
    /// The schema for the check. It describes an object too, with everything that the author wrote.
    full: Value,
    validator: Arc<Validator>,
}

impl OutputSchema {
    /// The schema of `T`, under the name of `T`.
    ///
    /// # Errors
    ///
    /// [`SchemaError`], if the schema of `T` is not a valid JSON Schema.
    pub fn of<T: JsonSchema + DeserializeOwned>() -> Result<Self, SchemaError> {
        let schema = schemars::schema_for!(T).to_value();
        Self::from_json(&proper_name(&T::schema_name()), schema)
    }

    /// A JSON Schema from a file or another program.
    ///
    /// # Errors
    ///
    /// [`SchemaError`], if `name` is invalid or `schema` is not a valid JSON Schema.
    pub fn from_json(name: &str, schema: Value) -> Result<Self, SchemaError> {
        if proper_name(name) != name {
            return Err(SchemaError::Name {
                name: name.to_owned(),
            });
        }
        let is_wrapped = !is_object(&schema);
        let full = if is_wrapped { wrapped(schema) } else { schema };
        let validator = jsonschema::validator_for(&full).map_err(|error| SchemaError::Invalid {
            name: name.to_owned(),
            reason: error.to_string(),
        })?;
        let (schema, not_strict) = match strict_form(&full) {
            Ok(strict) => (strict, None),
            Err(reason) => (full.clone(), Some(reason)),
        };
        let validator = Arc::new(validator);
        Ok(Self {
            name: name.to_owned(),
            schema,
            not_strict,
            is_wrapped,
            full,
            validator,
        })
    }

    /// The name of the schema, of at most 64 letters, digits, `_` and `-`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The schema to send: the strict form if there is one, and otherwise the schema as given. At
    /// its top it is always an object; any other answer is its member `value`.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Whether the server can be asked for strict output.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.not_strict.is_none()
    }

    /// Why the server cannot be asked for strict output; `None` if it can.
    #[must_use]
    pub fn why_not_strict(&self) -> Option<&NotStrict> {
        self.not_strict.as_ref()
    }

    /// Checks `value` against the schema, and returns it in the form that the author intended:
    /// without the `null`s that stand for omitted members, and without the object around an answer
    /// that is not an object.
    ///
    /// # Errors
    ///
    /// [`Mismatches`], in words by which a model can correct its answer.
    pub fn check(&self, value: Value) -> Result<Value, Mismatches> {
        let value = self.without_added_nulls(value);
        let mismatches = mismatch::find(&self.validator, &self.full, &value);
        if !mismatches.is_empty() {
            return Err(Mismatches(mismatches));
        }
        Ok(match value {
            Value::Object(mut members) if self.is_wrapped => {
                members.remove(WRAPPED).unwrap_or_default()
            }
            value => value,
        })
    }

    /// Reads the value in `text` that fits the schema; of several, the one that [`super::read`]
    /// prefers. A truncated value may still fit: see [`Reading::is_truncated`].
    ///
    /// # Errors
    ///
    /// [`OutputError`], if there is no JSON in `text`, or if none of it fits.
    pub fn read(&self, text: &str) -> Result<Reading, OutputError> {
        let mut found = super::find(text, &ReadOptions::default())?;
        found.sort_by_key(|candidate| std::cmp::Reverse(candidate.preference()));
        let mut likeliest = None;
        for candidate in found {
            let mut reading = candidate.reading;
            let is_truncated = reading.is_truncated();
            match self.check_bare(&reading.value) {
                Ok(value) => {
                    reading.value = value;
                    return Ok(super::with_text_around(text, reading));
                }
                Err(mismatches) => {
                    likeliest.get_or_insert(OutputError::Shape {
                        mismatches,
                        is_truncated,
                    });
                }
            }
        }
        Err(likeliest.unwrap_or(OutputError::Read(JsonError::NoValue)))
    }

    /// Reads `text` as a `T`, the type that the schema was made from.
    ///
    /// # Errors
    ///
    /// As [`OutputSchema::read`], and [`OutputError::Type`] if `T` requires more than its schema.
    pub fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T, OutputError> {
        let reading = self.read(text)?;
        serde_json::from_value(reading.value).map_err(OutputError::Type)
    }

    /// Like [`OutputSchema::check`], and also accepts an answer without the object around it.
    fn check_bare(&self, value: &Value) -> Result<Value, Mismatches> {
        let checked = self.check(value.clone());
        if !self.is_wrapped || checked.is_ok() {
            return checked;
        }
        self.check(json!({ WRAPPED: value })).or(checked)
    }

    /// In the strict form an optional member is required and may be `null`, although its type may
    /// not allow `null`. In that case the member is removed again.
    fn without_added_nulls(&self, mut value: Value) -> Value {
        let mut kept = BTreeSet::new();
        for _ in 0..if self.is_strict() { MAX_ROUNDS } else { 0 } {
            let mut nulls = mismatch::unwanted_nulls(&self.validator, &value);
            nulls.retain(|pointer| !kept.contains(pointer));
            if nulls.is_empty() {
                break;
            }
            for pointer in &nulls {
                if let Some((members, name)) = owner_of(&mut value, pointer) {
                    members.remove(&name);
                }
            }
            // A required member that was removed is reported as the null that it was.
            let missing = mismatch::missing_members(&self.validator, &value);
            for pointer in nulls
                .into_iter()
                .filter(|pointer| missing.contains(pointer))
            {
                if let Some((members, name)) = owner_of(&mut value, &pointer) {
                    members.insert(name, Value::Null);
                }
                kept.insert(pointer);
            }
        }
        value
    }
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputSchema")
            .field("name", &self.name)
            .field("schema", &self.schema)
            .field("not_strict", &self.not_strict)
            .finish_non_exhaustive()
    }
}

/// Why there is no [`OutputSchema`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The name is not one that servers accept.
    #[error("the schema's name {name:?} is not 1 to 64 letters, digits, `_` and `-` of ASCII")]
    Name {
        /// The name.
        name: String,
    },
    /// The schema is not valid.
    #[error("the schema {name:?} is not a valid JSON Schema: {reason}")]
    Invalid {
        /// Its name.
        name: String,
        /// The fault in it.
        reason: String,
    },
}

/// Why an answer is refused. The text is written for the model that wrote the answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// No JSON value could be read at all.
    #[error(transparent)]
    Read(#[from] JsonError),
    /// There is JSON, but none of it fits the schema. Holds the faults of the likeliest value.
    #[error("{mismatches}{}", if *is_truncated { "\nThe JSON was cut off before its end." } else { "" })]
    Shape {
        /// The places where it does not fit.
        mismatches: Mismatches,
        /// Whether the text ended inside the value.
        is_truncated: bool,
    },
    /// The answer fits the schema, but the type requires more than its schema.
    #[error("the JSON fits its schema, but it cannot be used: {0}")]
    Type(#[source] serde_json::Error),
}

/// `name` in the characters that servers accept.
fn proper_name(name: &str) -> Cow<'_, str> {
    let is_proper = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= 64 && name.chars().all(is_proper) {
        return Cow::Borrowed(name);
    }
    let mapped = name
        .chars()
        .map(|c| if is_proper(c) { c } else { '_' })
        .take(64);
    let proper: String = mapped.collect();
    Cow::Owned(if proper.is_empty() {
        "output".to_owned()
    } else {
        proper
    })
}

/// Whether `schema` accepts only objects, according to its top level.
fn is_object(schema: &Value) -> bool {
    let mut here = schema;
    for _ in 0..32 {
        match here.get("$ref").and_then(Value::as_str) {
            Some(reference) => match references::lookup(schema, reference) {
                Some(target) => here = target,
                None => return false,
            },
            None => break,
        }
    }
    let is_combined = ["anyOf", "oneOf"].iter().any(|key| here.get(key).is_some());
    here.get("type") == Some(&json!("object")) && !is_combined
}

/// The schema of an object with one member that fits `schema`.
fn wrapped(mut schema: Value) -> Value {
    let mut definitions = Map::new();
    for key in ["$defs", "definitions"] {
        let moved = schema.as_object_mut().and_then(|top| top.remove(key));
        definitions.extend(moved.map(|moved| (key.to_owned(), moved)));
    }
    let dialect = schema.as_object_mut().and_then(|top| top.remove("$schema"));
    let mut whole = Map::new();
    whole.extend(dialect.map(|dialect| ("$schema".to_owned(), dialect)));
    whole.insert("type".to_owned(), json!("object"));
    whole.insert("properties".to_owned(), json!({ WRAPPED: schema }));
    whole.insert("required".to_owned(), json!([WRAPPED]));
    whole.insert("additionalProperties".to_owned(), json!(false));
    whole.extend(definitions);
    let mut whole = Value::Object(whole);
    redirect(&mut whole);
    whole
}

/// Changes references to the top into references to the member that it has become.
fn redirect(schema: &mut Value) {
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get_mut("$ref")
                    && reference == "#"
                {
                    *reference = format!("#/properties/{WRAPPED}");
                }
                open.extend(members.values_mut());
            }
            _ => {}
        }
    }
}

/// The object with the member at `pointer`, and the member's name.
fn owner_of<'v>(
    value: &'v mut Value,
    pointer: &str,
) -> Option<(&'v mut Map<String, Value>, String)> {
    let (owner, name) = pointer.rsplit_once('/')?;
    let name = name.replace("~1", "/").replace("~0", "~");
    Some((value.pointer_mut(owner)?.as_object_mut()?, name))
}
