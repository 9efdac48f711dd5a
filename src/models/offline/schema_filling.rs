//! Values for a JSON Schema from what stands in a text.

use std::cell::RefCell;

use serde_json::{Map, Number, Value};

use super::{
    arithmetic::{self, FoundNumber},
    text_values::{is_date, is_path, keyed, proper_names, quotes, word},
};
use crate::retrieval::terms::terms;

/// How deep a schema is followed, so that one that refers to itself comes to an end.
const MAX_DEPTH: usize = 8;

/// How many items it makes of a list at most. A schema that wants more is not filled.
const MOST_ITEMS: u64 = 10_000;

const EXPRESSION: &[&str] = &[
    "expression",
    "formula",
    "calculation",
    "equation",
    "arithmetic",
];
const PATH: &[&str] = &["path", "file", "filename", "folder", "directory"];
const URL: &[&str] = &["url", "link", "uri"];
const EMAIL: &[&str] = &["email", "mail", "recipient"];
const DATE: &[&str] = &["date", "day"];
const PERCENT: &[&str] = &["percent", "percentage", "rate"];
const FREE_TEXT: &[&str] = &[
    "query",
    "question",
    "request",
    "task",
    "prompt",
    "topic",
    "keyword",
    "search",
    "problem",
    "instruction",
    "input",
];

/// What stands in a text and may become a value. What was used once is not used again.
pub(super) struct Filler<'a> {
    schema: &'a Value,
    text: &'a str,
    /// What the model has to say, where an answer is filled and not the arguments of a call.
    answer: Option<&'a str>,
    arithmetic: Option<String>,
    found: RefCell<Found>,
}

/// What was found in the text and not used yet, each in its order.
struct Found {
    numbers: Vec<FoundNumber>,
    quotes: Vec<String>,
    names: Vec<String>,
}

/// Where in a schema we are.
#[derive(Clone, Copy)]
struct Place<'a> {
    name: &'a str,
    required: bool,
    /// Whether no other string has to be taken from the same text.
    alone: bool,
    depth: usize,
}

impl<'a> Filler<'a> {
    /// A filler that takes arguments for a call from a part of the task and, where that has no
    /// number, from the whole of it.
    pub(super) fn arguments(schema: &'a Value, text: &'a str, task: &str) -> Self {
        let numbers = match arithmetic::numbers(text) {
            numbers if numbers.is_empty() => arithmetic::numbers(task),
            numbers => numbers,
        };
        Self::new(schema, text, numbers, None)
    }

    /// A filler that puts an answer into the form that is asked for.
    pub(super) fn answer(schema: &'a Value, task: &'a str, answer: &'a str) -> Self {
        // What was computed stands behind the sign of equality, or at the end.
        let result = answer.rsplit(['=', '≈']).next().unwrap_or(answer);
        let mut numbers = arithmetic::numbers(result);
        numbers.extend(arithmetic::numbers(answer));
        numbers.extend(arithmetic::numbers(task));
        Self::new(schema, task, numbers, Some(answer))
    }

    fn new(
        schema: &'a Value,
        text: &'a str,
        numbers: Vec<FoundNumber>,
        answer: Option<&'a str>,
    ) -> Self {
        Self {
            schema,
            text,
            answer,
            arithmetic: arithmetic::expression(text),
            found: RefCell::new(Found {
                numbers,
                quotes: quotes(text),
                names: proper_names(text),
            }),
        }
    }

    /// The value, unless something that is required is nowhere in the text.
    pub(super) fn fill(&self) -> Option<Value> {
        let place = Place {
            name: "",
            required: true,
            alone: true,
            depth: 0,
        };
        self.value(self.schema, place)
    }

    fn value(&self, schema: &Value, place: Place<'_>) -> Option<Value> {
        if place.depth > MAX_DEPTH {
            return None;
        }
        let schema = self.resolved(schema);
        if let Some(value) = schema.get("const") {
            return Some(value.clone());
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return self.choice(values, place);
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            if let Some(variants) = schema.get(key).and_then(Value::as_array) {
                let some = variants.iter().filter(|variant| !is_null(variant));
                let inner = Place {
                    depth: place.depth + 1,
                    ..place
                };
                // An answer has no content for a structure that may be left out.
                let structure =
                    |v: &&Value| matches!(type_of(self.resolved(v)), "object" | "array");
                if self.answer.is_some()
                    && variants.iter().any(is_null)
                    && some.clone().all(|v| structure(&v))
                {
                    return Some(Value::Null);
                }
                let mut some = some.filter_map(|variant| self.value(variant, inner));
                return some.next();
            }
        }
        match type_of(schema) {
            "object" => self.object(schema, place).map(Value::Object),
            "array" => self.array(schema, place).map(Value::Array),
            "number" => self.number(schema, place, false).map(Value::Number),
            "integer" => self.number(schema, place, true).map(Value::Number),
            "boolean" => self.boolean(place).map(Value::Bool),
            "null" => Some(Value::Null),
            _ => self.string(schema, place).map(Value::String),
        }
    }

    /// The schema behind a reference into the same document.
    fn resolved<'s>(&'s self, mut schema: &'s Value) -> &'s Value {
        for _ in 0..MAX_DEPTH {
            let reference = schema.get("$ref").and_then(Value::as_str);
            let pointer = reference.and_then(|reference| reference.strip_prefix('#'));
            match pointer.and_then(|pointer| self.schema.pointer(pointer)) {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }

    fn object(&self, schema: &Value, place: Place<'_>) -> Option<Map<String, Value>> {
        let none = Map::new();
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&none);
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| {
            required.is_some_and(|names| names.iter().any(|required| required == name))
        };
        let texts = |(name, property): &(&String, &Value)| {
            is_required(name) && type_of(self.resolved(property)) == "string"
        };
        let alone = properties.iter().filter(texts).count() <= 1;
        let mut object = Map::new();
        for (name, property) in in_order(properties, required) {
            let required = is_required(name);
            if !required && self.answer.is_some() && !is_text(self.resolved(property)) {
                continue;
            }
            let inner = Place {
                name,
                required,
                alone,
                depth: place.depth + 1,
            };
            match self.value(property, inner) {
                Some(value) => {
                    object.insert(name.clone(), value);
                }
                None if required => return None,
                None => {}
            }
        }
        Some(object)
    }

    fn array(&self, schema: &Value, place: Place<'_>) -> Option<Vec<Value>> {
        let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
        let least = bound("minItems").unwrap_or_default();
        let most = bound("maxItems").unwrap_or(u64::MAX);
        let any = Value::Object(Map::new());
        let items = schema.get("items").unwrap_or(&any);
        let inner = Place {
            required: true,
            alone: true,
            depth: place.depth + 1,
            ..place
        };
        let mut values = Vec::new();
        let counted = matches!(type_of(self.resolved(items)), "number" | "integer");
        let available = match counted {
            true => self.found.borrow().numbers.len(),
            false => self.found.borrow().quotes.len(),
        };
        let optional = !place.required && self.answer.is_none();
        if optional && (counted || available == 0) {
            return None;
        }
        let wanted = match self.answer {
            Some(_) => least.max(u64::from(!counted && is_text(self.resolved(items)))),
            None => (available as u64).max(least).max(1),
        };
        if wanted.min(most) > MOST_ITEMS {
            return None;
        }
        while (values.len() as u64) < wanted.min(most) {
            values.push(self.value(items, inner)?);
        }
        Some(values)
    }

    fn number(&self, schema: &Value, place: Place<'_>, whole: bool) -> Option<Number> {
        let percent = is_named(place.name, PERCENT);
        let taken = match keyed(self.text, place.name) {
            Some(word) => arithmetic::numbers(word).into_iter().next(),
            None if place.required || percent || self.answer.is_some() => {
                self.take_number(percent, place.required)
            }
            None => None,
        };
        let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
        let (least, most) = (bound("minimum"), bound("maximum"));
        let Some(taken) = taken else {
            self.answer?;
            let neutral = 0.0_f64
                .max(least.unwrap_or(0.0))
                .min(most.unwrap_or(f64::MAX));
            return json_number(&neutral.to_string(), whole);
        };
        let value: f64 = taken.digits.parse().ok()?;
        let within = least.is_none_or(|least| value >= least) && most.is_none_or(|m| value <= m);
        if within && let Some(number) = json_number(&taken.digits, whole) {
            return Some(number);
        }
        self.answer?;
        let mut value = value.max(least.unwrap_or(value)).min(most.unwrap_or(value));
        if whole {
            value = value.round();
        }
        json_number(&value.to_string(), whole)
    }

    /// The next number: a percentage for what is one, and another first for what is not.
    fn take_number(&self, percent: bool, required: bool) -> Option<FoundNumber> {
        let numbers = &mut self.found.borrow_mut().numbers;
        let fitting = numbers.iter().position(|number| number.percent == percent);
        let place = match fitting {
            Some(place) => place,
            None if required && !numbers.is_empty() => 0,
            None => return None,
        };
        match self.answer {
            // Every field of an answer is about the same result.
            Some(_) => numbers.get(place).cloned(),
            None => Some(numbers.remove(place)),
        }
    }

    fn boolean(&self, place: Place<'_>) -> Option<bool> {
        let said = terms(self.text);
        let name = terms(place.name);
        let at = said
            .windows(name.len().max(1))
            .position(|window| window == name);
        match at {
            Some(at) => {
                let before = at.checked_sub(1).map_or("", |before| said[before].as_str());
                Some(!["not", "no", "without", "dont"].contains(&before))
            }
            None => (place.required || self.answer.is_some()).then_some(false),
        }
    }

    fn choice(&self, values: &[Value], place: Place<'_>) -> Option<Value> {
        let text = format!("{} {}", self.answer.unwrap_or_default(), self.text);
        let said = terms(&text);
        let named = values.iter().find(|value| {
            let words = value.as_str().map(terms).unwrap_or_default();
            !words.is_empty() && words.iter().all(|word| said.contains(word))
        });
        match named {
            Some(value) => Some(value.clone()),
            // A tool's only choice is none.
            None if values.len() == 1 && place.required => values.first().cloned(),
            None => self.answer.and_then(|_| values.first().cloned()),
        }
    }

    fn string(&self, schema: &Value, place: Place<'_>) -> Option<String> {
        let text = match self.answer {
            Some(answer) => Some(answer.to_owned()),
            None => self.string_argument(schema, place),
        }?;
        let most = schema
            .get("maxLength")
            .and_then(Value::as_u64)
            .unwrap_or(u64::MAX);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Some(text.chars().take(most).collect())
    }

    fn string_argument(&self, schema: &Value, place: Place<'_>) -> Option<String> {
        let format = schema
            .get("format")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let description = schema
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        // The name says what it is; only where it does not, the description is asked.
        let known = [EXPRESSION, PATH, URL, EMAIL, DATE, FREE_TEXT];
        let says = |list: &[&str]| match known.iter().any(|known| is_named(place.name, known)) {
            true => is_named(place.name, list),
            false => is_named(description, list),
        };
        if says(FREE_TEXT) && place.required {
            return Some(self.text.trim().to_owned());
        }
        if let Some(value) = keyed(self.text, place.name) {
            return Some(value.to_owned());
        }
        if says(EXPRESSION) {
            return self.arithmetic.clone();
        }
        if says(URL) || format == "uri" {
            return word(self.text, |word| word.contains("://"));
        }
        if says(PATH) {
            return word(self.text, is_path).or_else(|| self.take_quote());
        }
        if format == "email" || says(EMAIL) && self.text.contains('@') {
            return word(self.text, |word| word.trim_matches('@').contains('@'));
        }
        if says(DATE) || format == "date" {
            return word(self.text, is_date);
        }
        if !place.required {
            return None;
        }
        let found = self.take_quote().or_else(|| self.take_name());
        found.or_else(|| place.alone.then(|| self.text.trim().to_owned()))
    }

    fn take_quote(&self) -> Option<String> {
        let quotes = &mut self.found.borrow_mut().quotes;
        (!quotes.is_empty()).then(|| quotes.remove(0))
    }

    fn take_name(&self) -> Option<String> {
        let names = &mut self.found.borrow_mut().names;
        (!names.is_empty()).then(|| names.remove(0))
    }
}

/// The first type of a schema that is not null; an object where it only has properties.
fn type_of(schema: &Value) -> &str {
    let named = match schema.get("type") {
        Some(Value::String(name)) => Some(name.as_str()),
        Some(Value::Array(names)) => {
            let mut names = names.iter().filter_map(Value::as_str);
            names.find(|name| *name != "null")
        }
        _ => None,
    };
    match named {
        Some(name) => name,
        None if schema.get("properties").is_some() => "object",
        None => "string",
    }
}

/// The properties of an object: percentages first, so that nothing else takes their number, then
/// what is required, in the order in which the schema names it.
fn in_order<'s>(
    properties: &'s Map<String, Value>,
    required: Option<&Vec<Value>>,
) -> Vec<(&'s String, &'s Value)> {
    let mut ordered: Vec<(&String, &Value)> = properties.iter().collect();
    let place = |name: &str| {
        let mut names = required.into_iter().flatten();
        names
            .position(|required| required == name)
            .unwrap_or(usize::MAX)
    };
    ordered.sort_by_key(|(name, _)| (!is_named(name, PERCENT), place(name)));
    ordered
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|name| name == "null")
}

fn is_text(schema: &Value) -> bool {
    type_of(schema) == "string" && schema.get("enum").is_none()
}

fn is_named(text: &str, words: &[&str]) -> bool {
    let said = terms(text);
    words
        .iter()
        .any(|word| terms(word).iter().all(|term| said.contains(term)))
}

fn json_number(digits: &str, whole: bool) -> Option<Number> {
    if let Ok(integer) = digits.parse::<i64>() {
        return Some(Number::from(integer));
    }
    let value: f64 = digits.parse().ok()?;
    if whole {
        return None;
    }
    Number::from_f64(value)
}

#[cfg(test)]
mod tests;
