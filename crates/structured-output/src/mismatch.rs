//! Describes the faults of a value in words by which a model can correct it.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError, Validator};
use serde_json::Value;

/// The most mismatches that are reported; a model corrects the first ones, and often the rest with
/// them.
const MAX_MISMATCHES: usize = 20;

/// The most characters of a value that are shown.
const MAX_SHOWN: usize = 80;

/// The most names or options that are listed.
const MAX_LISTED: usize = 20;

/// One place where a value does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The place in the value, as `$.items[0].price`.
    pub path: String,
    /// The requirement of the schema at this place.
    pub expected: String,
    /// The value at this place.
    pub found: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at {}: expected {}, found {}",
            self.path, self.expected, self.found
        )
    }
}

/// The places where a value does not fit its schema; the first 20, at least one.
///
/// The text is written for the model that wrote the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Mismatches(pub Vec<Mismatch>);

impl fmt::Display for Mismatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the JSON does not fit its schema:")?;
        self.0
            .iter()
            .try_for_each(|mismatch| write!(f, "\n- {mismatch}"))
    }
}

/// The places where `value` does not fit the schema; empty if it fits.
pub(super) fn find(validator: &Validator, schema: &Value, value: &Value) -> Vec<Mismatch> {
    let mut report = Report {
        schema,
        value,
        mismatches: Vec::new(),
    };
    for error in validator.iter_errors(value) {
        report.add(&error);
    }
    report.mismatches
}

/// The JSON Pointers of the members of `value` that are `null` and must not be.
pub(super) fn unwanted_nulls(validator: &Validator, value: &Value) -> BTreeSet<String> {
    collected(validator, value, |error| {
        let pointer = error.instance_path().as_str();
        let parent = pointer
            .rsplit_once('/')
            .and_then(|(parent, _)| value.pointer(parent));
        let is_member = parent.is_some_and(Value::is_object);
        (is_member && error.instance().is_null()).then(|| pointer.to_owned())
    })
}

/// The JSON Pointers of the required members that `value` lacks.
pub(super) fn missing_members(validator: &Validator, value: &Value) -> BTreeSet<String> {
    collected(validator, value, |error| match error.kind() {
        ValidationErrorKind::Required {
            property: Value::String(name),
        } => {
            let name = name.replace('~', "~0").replace('/', "~1");
            Some(format!("{}/{name}", error.instance_path().as_str()))
        }
        _ => None,
    })
}

/// The places that `pick` takes from the errors of `value`, including those within its
/// alternatives. Of alternatives, the one without other errors is used, or else the likeliest.
fn collected(
    validator: &Validator,
    value: &Value,
    pick: impl Fn(&ValidationError<'_>) -> Option<String>,
) -> BTreeSet<String> {
    fn collect(
        error: &ValidationError<'_>,
        pick: &dyn Fn(&ValidationError<'_>) -> Option<String>,
        places: &mut BTreeSet<String>,
    ) {
        if let Some(place) = pick(error) {
            places.insert(place);
        } else if let Some(branches) = alternatives(error.kind()) {
            let only = branches
                .iter()
                .find(|errors| errors.iter().all(|e| pick(e).is_some()));
            let chosen = only.or_else(|| likeliest(branches, error.instance_path().as_str()));
            chosen
                .into_iter()
                .flatten()
                .for_each(|error| collect(error, pick, places));
        }
    }
    let mut places = BTreeSet::new();
    validator
        .iter_errors(value)
        .for_each(|error| collect(&error, &pick, &mut places));
    places
}

/// The errors of each alternative, if none of them fits.
fn alternatives(kind: &ValidationErrorKind) -> Option<&[Vec<ValidationError<'static>>]> {
    match kind {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            Some(context)
        }
        _ => None,
    }
}

/// The alternative that was most likely intended for the value at `pointer`: one whose type and tag
/// match; among several, the one with the fewest missing members, and then the fewest errors.
fn likeliest<'e>(
    branches: &'e [Vec<ValidationError<'static>>],
    pointer: &str,
) -> Option<&'e Vec<ValidationError<'static>>> {
    let agrees = |errors: &&Vec<ValidationError<'static>>| {
        !errors
            .iter()
            .any(|error| is_of_another_kind(error, pointer))
    };
    let distance = |errors: &&Vec<ValidationError<'static>>| {
        let is_missing = |error: &&ValidationError<'_>| {
            matches!(error.kind(), ValidationErrorKind::Required { .. })
                && error.instance_path().as_str() == pointer
        };
        (errors.iter().filter(is_missing).count(), errors.len())
    };
    branches.iter().filter(agrees).min_by_key(distance)
}

/// Whether `error` shows that another alternative was intended: the type of the value or a tag in
/// it belongs to another.
fn is_of_another_kind(error: &ValidationError<'_>, pointer: &str) -> bool {
    let path = error.instance_path().as_str();
    let depth = path
        .strip_prefix(pointer)
        .map_or(0, |inside| inside.matches('/').count());
    match error.kind() {
        ValidationErrorKind::Type { .. } => depth == 0,
        // A tag that is null counts as missing, and not as another alternative's tag.
        ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. } => {
            depth == 0 || (depth == 1 && !error.instance().is_null())
        }
        _ => false,
    }
}

struct Report<'v> {
    schema: &'v Value,
    value: &'v Value,
    mismatches: Vec<Mismatch>,
}

impl Report<'_> {
    fn add(&mut self, error: &ValidationError<'_>) {
        let pointer = error.instance_path().as_str();
        let found = error.instance();
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let expected = self.known_members(error);
                for name in unexpected {
                    let member = found.get(name.as_str()).unwrap_or(&Value::Null);
                    let path = member_path(&self.path(pointer), name);
                    self.push(path, expected.clone(), describe(member));
                }
            }
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let path = member_path(&self.path(pointer), name);
                self.push(
                    path,
                    "this required member".to_owned(),
                    "nothing".to_owned(),
                );
            }
            kind => match alternatives(kind) {
                Some(branches) => self.add_alternatives(branches, pointer, found),
                None => self.push(self.path(pointer), expectation(error), describe(found)),
            },
        }
    }

    /// Reports the faults by the likeliest alternative or, if none is likely, the requirement of
    /// each.
    fn add_alternatives(
        &mut self,
        branches: &[Vec<ValidationError<'static>>],
        pointer: &str,
        found: &Value,
    ) {
        if let Some(errors) = likeliest(branches, pointer) {
            errors.iter().for_each(|error| self.add(error));
            return;
        }
        let telling: Vec<&ValidationError<'static>> = branches
            .iter()
            .filter_map(|errors| {
                errors
                    .iter()
                    .find(|error| is_of_another_kind(error, pointer))
            })
            .collect();
        // A wrong tag is reported once, at the tag; another type is reported only if no tag could
        // match.
        let deepest = telling
            .iter()
            .map(|error| error.instance_path().as_str().len())
            .max();
        let at_deepest = telling
            .into_iter()
            .filter(|error| Some(error.instance_path().as_str().len()) == deepest);
        let mut expected: Vec<String> = Vec::new();
        let (mut path, mut shown) = (self.path(pointer), describe(found));
        for error in at_deepest {
            (path, shown) = (
                self.path(error.instance_path().as_str()),
                describe(error.instance()),
            );
            let text = expectation(error);
            if !expected.contains(&text) {
                expected.push(text);
            }
        }
        self.push(path, listed(&expected, " or "), shown);
    }

    fn push(&mut self, path: String, expected: String, found: String) {
        let mismatch = Mismatch {
            path,
            expected,
            found,
        };
        if self.mismatches.len() < MAX_MISMATCHES && !self.mismatches.contains(&mismatch) {
            self.mismatches.push(mismatch);
        }
    }

    /// The possible members of the object that has an unknown member.
    fn known_members(&self, error: &ValidationError<'_>) -> String {
        let keyword = error.schema_path().as_str();
        let owner = keyword
            .rsplit_once('/')
            .and_then(|(owner, _)| self.schema.pointer(owner));
        let members = owner
            .and_then(|schema| schema.get("properties"))
            .and_then(Value::as_object);
        let names: Vec<String> = members
            .into_iter()
            .flatten()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        if names.is_empty() {
            return "no such member".to_owned();
        }
        format!("no such member (there are {})", listed(&names, ", "))
    }

    /// `pointer` in the notation of programs: `$.items[0].price`.
    fn path(&self, pointer: &str) -> String {
        let mut path = "$".to_owned();
        let mut here = Some(self.value);
        for token in pointer.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            if let Some(Value::Array(items)) = here {
                let _ = write!(path, "[{token}]");
                here = token
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| items.get(index));
            } else {
                path = member_path(&path, &token);
                here = here.and_then(|value| value.get(&token));
            }
        }
        path
    }
}

fn member_path(path: &str, name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || c == '_';
    if !name.is_empty() && name.chars().all(is_plain) {
        format!("{path}.{name}")
    } else {
        format!("{path}[{}]", Value::from(name))
    }
}

/// The requirement of the schema where `error` arose.
fn expectation(error: &ValidationError<'_>) -> String {
    use ValidationErrorKind as Kind;
    match error.kind() {
        Kind::Type {
            kind: TypeKind::Single(one),
        } => type_name(*one).to_owned(),
        Kind::Type {
            kind: TypeKind::Multiple(several),
        } => {
            let mut several: Vec<JsonType> = several.iter().collect();
            several.sort_by_key(|one| *one == JsonType::Null);
            let names: Vec<String> = several
                .into_iter()
                .map(|one| type_name(one).to_owned())
                .collect();
            listed(&names, " or ")
        }
        Kind::Enum { options } => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            let options: Vec<String> = options.iter().map(Value::to_string).collect();
            listed(&options, " or ")
        }
        Kind::Constant { expected_value } => expected_value.to_string(),
        Kind::Minimum { limit } => format!("a number of at least {limit}"),
        Kind::Maximum { limit } => format!("a number of at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("a number above {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("a number below {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("a text of at least {limit} characters"),
        Kind::MaxLength { limit } => format!("a text of at most {limit} characters"),
        Kind::MinItems { limit } => format!("at least {limit} elements"),
        Kind::MaxItems { limit } => format!("at most {limit} elements"),
        Kind::AdditionalItems { limit } => format!("at most {limit} elements"),
        Kind::MinProperties { limit } => format!("at least {limit} members"),
        Kind::MaxProperties { limit } => format!("at most {limit} members"),
        Kind::UniqueItems => "elements that differ from each other".to_owned(),
        Kind::Pattern { pattern } => format!("a text that matches the pattern {pattern}"),
        Kind::Format { format } => format!("a text in the format {format}"),
        Kind::OneOfMultipleValid { .. } => "what fits only one of the alternatives".to_owned(),
        Kind::FalseSchema => "nothing".to_owned(),
        _ => format!("what `{}` in the schema asks for", error.kind().keyword()),
    }
}

fn type_name(one: JsonType) -> &'static str {
    match one {
        JsonType::Null => "null",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "an integer",
        JsonType::Number => "a number",
        JsonType::String => "a text",
        JsonType::Array => "an array",
        JsonType::Object => "an object",
    }
}

fn listed(items: &[String], separator: &str) -> String {
    let shown: Vec<&str> = items.iter().take(MAX_LISTED).map(String::as_str).collect();
    let more = items.len().saturating_sub(MAX_LISTED);
    let rest = if more > 0 {
        format!(" (and {more} more)")
    } else {
        String::new()
    };
    format!("{}{rest}", shown.join(separator))
}

/// A value in a few words: short, but enough for the model to recognise it.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(boolean) => boolean.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text {}", Value::from(shortened(text))),
        Value::Array(items) => format!("an array of {} element(s)", items.len()),
        Value::Object(members) if members.is_empty() => "an empty object".to_owned(),
        Value::Object(members) => {
            let names: Vec<String> = members.keys().map(|name| format!("\"{name}\"")).collect();
            format!("an object with {}", shortened(&listed(&names, ", ")))
        }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
