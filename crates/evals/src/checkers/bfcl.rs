//! The checker of the Berkeley Function Calling Leaderboard for single turns: the functions that were called, with their
//! arguments, against the possible answers; and where an agent remembers or searches the web, what it said.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    languages::{Language, java, javascript},
    python::{Type, equal, type_of},
    questions,
};
use crate::{
    recording::Recording,
    scorers::{Score, Scorer},
    suite::Sample,
};

/// BFCL's check of a sample that its form of data made: of its calls, or in the categories of memory and of the web's search
/// of its answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct BfclSpec {
    /// Its name; `bfcl` where it is left out.
    pub name: Option<String>,
}

pub(crate) struct BfclScorer {
    name: String,
}

impl BfclScorer {
    pub(crate) fn new(spec: &BfclSpec) -> Self {
        Self {
            name: spec.name.clone().unwrap_or_else(|| String::from("bfcl")),
        }
    }
}

/// Whether what counts in a category is the answer, and not the calls on the way to it.
pub(crate) fn is_answered(category: &str) -> bool {
    ["memory", "web_search"]
        .iter()
        .any(|name| category.starts_with(name))
}

fn answered(recording: &Recording, sample: &Sample) -> Score {
    let Some(answer) = recording.answer() else {
        return Score::fail("there is no answer");
    };
    let possible = sample.expected.as_ref().and_then(Value::as_array);
    let mut possible = possible.into_iter().flatten().filter_map(Value::as_str);
    match possible.find(|possible| questions::bfcl(answer, possible)) {
        Some(found) => Score::pass(format!("the answer contains {found:?}")),
        None => Score::fail("the answer contains none of those that are expected"),
    }
}

impl Scorer for BfclScorer {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, recording: &Recording, sample: &Sample) -> Score {
        let category = sample.metadata.get("category").and_then(Value::as_str);
        if category.is_some_and(is_answered) {
            return answered(recording, sample);
        }
        let functions = sample.metadata.get("functions").and_then(Value::as_array);
        let (Some(category), Some(functions)) = (category, functions) else {
            return Score::fail("the sample is none of BFCL's: it names no category and functions");
        };
        let mut made = Vec::new();
        for call in &recording.calls {
            let arguments = match call.arguments.value() {
                Ok(Value::Object(arguments)) => arguments.clone(),
                // A call that cannot be read is a wrong call, and not the absence of one.
                _ => {
                    return Score::fail(format!(
                        "the arguments of {} are not an object",
                        call.tool
                    ));
                }
            };
            made.push((call.tool.clone(), arguments));
        }
        let verdict = match &sample.expected {
            Some(Value::Array(answers)) => check(category, functions, &made, answers),
            Some(_) => Err(String::from(
                "the sample's `expected` is not a list of calls",
            )),
            None if category.ends_with("irrelevance") => match made.first() {
                None => Ok(()),
                Some((name, _)) => Err(format!("{name} was called, and no function fits")),
            },
            None if made.is_empty() => Err(String::from("no function was called")),
            None => Ok(()),
        };
        match verdict {
            Ok(()) => Score::pass("the calls are a possible answer"),
            Err(why) => Score::fail(why),
        }
    }
}

/// A call: the function's name, and its arguments.
type Call = (String, Map<String, Value>);

/// Whether these calls are a possible answer; else what is wrong with them.
pub(crate) fn check(
    category: &str,
    functions: &[Value],
    made: &[Call],
    answers: &[Value],
) -> Result<(), String> {
    let language = Language::of(category);
    let is_parallel = category.contains("parallel");
    let is_simple = !is_parallel && !category.contains("multiple");
    let wanted = if is_simple { 1 } else { answers.len() };
    if made.len() != wanted {
        return Err(format!("{} calls were made, and not {wanted}", made.len()));
    }
    let Some(first) = answers.first() else {
        return Ok(());
    };
    if is_simple {
        return call(language, functions.first(), &made[0], first);
    }
    if !is_parallel {
        return call(language, described(functions, first), &made[0], first);
    }
    // The first call that fits a possible answer is its own, though another assignment might fit all.
    let mut taken = vec![false; made.len()];
    for answer in answers {
        let function = described(functions, answer);
        let mut why = String::new();
        let found = (0..made.len())
            .filter(|place| !taken[*place])
            .find(|place| {
                let verdict = call(language, function, &made[*place], answer);
                match verdict {
                    Ok(()) => true,
                    Err(reason) => {
                        why = reason;
                        false
                    }
                }
            });
        match found {
            Some(place) => taken[place] = true,
            None => return Err(format!("no call fits {}: {why}", name_of(answer))),
        }
    }
    Ok(())
}

fn name_of(answer: &Value) -> &str {
    let names = answer.as_object().and_then(|answer| answer.keys().next());
    names.map_or("", String::as_str)
}

fn described<'a>(functions: &'a [Value], answer: &Value) -> Option<&'a Value> {
    let name = name_of(answer);
    functions.iter().find(|function| function["name"] == name)
}

/// Checks one call of a function against the possible values of its arguments.
fn call(
    language: Language,
    function: Option<&Value>,
    made: &Call,
    answer: &Value,
) -> Result<(), String> {
    let function = function.ok_or_else(|| format!("there is no function {:?}", name_of(answer)))?;
    let possible = answer.as_object().and_then(|answer| answer.values().next());
    let possible = possible
        .and_then(Value::as_object)
        .ok_or("the possible answer names no arguments")?;
    let name = function["name"].as_str().unwrap_or_default();
    let (called, arguments) = made;
    if name.replace('.', "_") != called.replace('.', "_") {
        return Err(format!("{called} was called, and not {name}"));
    }
    let required = function["parameters"]["required"].as_array();
    for parameter in required.into_iter().flatten().filter_map(Value::as_str) {
        if !arguments.contains_key(parameter) {
            return Err(format!("{name} lacks {parameter:?}"));
        }
    }
    for (parameter, value) in arguments {
        let details = &function["parameters"]["properties"][parameter];
        let values = possible.get(parameter).and_then(Value::as_array);
        let (true, Some(values)) = (details.is_object(), values) else {
            return Err(format!("{name} has no argument {parameter:?}"));
        };
        argument(language, details, value, values)
            .map_err(|why| format!("{name}, {parameter:?}: {why}"))?;
    }
    let missing = possible
        .iter()
        .find(|(parameter, values)| !arguments.contains_key(*parameter) && !may_be_absent(values));
    match missing {
        Some((parameter, _)) => Err(format!("{name} lacks {parameter:?}, which is not optional")),
        None => Ok(()),
    }
}

/// Whether the empty text, which stands for the absence of an argument, is among its possible values.
fn may_be_absent(values: &Value) -> bool {
    match values {
        Value::Array(values) => values.iter().any(|value| value == ""),
        // `"" in text` holds for every text.
        Value::String(_) => true,
        _ => false,
    }
}

/// The type of Python that stands for a type of this language; `None` for one that the checker does not know. A set is
/// of no type that a value here can have.
fn type_in(language: Language, name: &str) -> Option<Type> {
    Some(match (language, name) {
        (Language::Python, "string") => Type::Str,
        (Language::Python, "array" | "tuple") => Type::List,
        (Language::Python | Language::JavaScript, "dict") => Type::Dict,
        (Language::Python | Language::Java, "boolean") => Type::Bool,
        (Language::Java | Language::JavaScript, "String") => Type::Str,
        (Language::Java, "byte" | "short" | "long") => Type::Int,
        (Language::Java, "double") => Type::Float,
        (Language::Java, "char") => Type::Str,
        (Language::Java, "Array" | "ArrayList" | "Queue" | "Stack") => Type::List,
        (Language::Java, "HashMap" | "Hashtable") => Type::Dict,
        (Language::JavaScript, "Bigint") => Type::Int,
        (Language::JavaScript, "Boolean") => Type::Bool,
        (Language::JavaScript, "array") => Type::List,
        (_, "any") => Type::Str,
        (_, "integer") => Type::Int,
        (_, "float") => Type::Float,
        _ => return None,
    })
}

/// A value read as its language writes it, its type, and that of the items of a list; `None` where the checker does not
/// know the type, or the value is not text, as which Java and JavaScript are written.
fn read(language: Language, details: &Value, value: &Value) -> Option<(Value, Type, Option<Type>)> {
    let name = details["type"].as_str()?;
    let wanted = type_in(language, name)?;
    let has_items = matches!(name, "array" | "tuple" | "Array" | "ArrayList");
    let items = match has_items {
        true => Some(details["items"]["type"].as_str()?),
        false => None,
    };
    let of_items = match items {
        Some(items) => Some(type_in(language, items)?),
        None => None,
    };
    let read = match language {
        Language::Java => java(value.as_str()?, name, items)?,
        Language::JavaScript => javascript(value.as_str()?, name, items)?,
        // Python takes a whole number for a `float`.
        Language::Python => match (wanted, type_of(value), value.as_f64()) {
            (Type::Float, Type::Int, Some(number)) => number.into(),
            _ => value.clone(),
        },
    };
    Some((read, wanted, of_items))
}

fn argument(
    language: Language,
    details: &Value,
    value: &Value,
    possible: &[Value],
) -> Result<(), String> {
    let Some((read, wanted, items)) = read(language, details, value) else {
        return Err(format!("{value} is no {}", details["type"]));
    };
    let value = &read;
    let is_variable = typed(value, possible, wanted, items)
        .ok_or_else(|| format!("{value} has another type than {}", details["type"]))?;
    let wrong = || format!("{value} is none of {}", Value::from(possible.to_vec()));
    let fits = match (is_variable, wanted, items) {
        (false, Type::Dict, _) => fields(value, possible),
        (false, Type::List, Some(Type::Dict)) => lists_of_fields(value, possible),
        (false, Type::Str, _) => {
            let texts = possible.iter().filter_map(Value::as_str).map(standard);
            let text = standard(value.as_str().unwrap_or_default());
            texts.into_iter().any(|possible| possible == text)
        }
        (false, Type::List, _) => list(value, possible),
        _ => possible.iter().any(|possible| equal(value, possible)),
    };
    if fits { Ok(()) } else { Err(wrong()) }
}

/// Checks the type of a value: `None` where it is wrong, and otherwise whether the value is a variable, which the
/// possible values write as a text.
fn typed(value: &Value, possible: &[Value], wanted: Type, items: Option<Type>) -> Option<bool> {
    let of_possible = possible
        .iter()
        .find(|possible| **possible != "")
        .map(type_of);
    let is_variable = of_possible.is_some_and(|found| found != wanted);
    if type_of(value) == wanted {
        let Some(items) = items else {
            return Some(is_variable);
        };
        let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let fits = |possible: &Value| match possible {
            Value::Array(possible) => values
                .iter()
                .all(|value| typed(value, possible, items, None).is_some()),
            _ => true,
        };
        return possible.iter().any(fits).then_some(is_variable);
    }
    (of_possible == Some(type_of(value))).then_some(true)
}

/// A text for comparison: "April 1, 2024" and "april 1 2024" are the same.
fn standard(text: &str) -> String {
    let kept: String = text
        .chars()
        .filter(|c| !matches!(c, ' ' | ',' | '.' | '/' | '-' | '_' | '*' | '^'))
        .collect();
    kept.to_lowercase().replace('\'', "\"")
}

fn standard_value(value: &Value) -> Value {
    match value {
        Value::String(text) => standard(text).into(),
        other => other.clone(),
    }
}

fn list(value: &Value, possible: &[Value]) -> bool {
    let of = |values: &[Value]| -> Value { values.iter().map(standard_value).collect() };
    let found = of(value.as_array().map(Vec::as_slice).unwrap_or_default());
    possible.iter().any(|possible| match possible {
        Value::Array(possible) => equal(&found, &of(possible)),
        // A text is a list of its characters, so the empty text is the empty list.
        Value::String(text) => {
            let characters = text.chars().map(|c| standard(&c.to_string()));
            equal(&found, &characters.map(Value::from).collect())
        }
        _ => false,
    })
}

fn fields(value: &Value, possible: &[Value]) -> bool {
    let Some(found) = value.as_object() else {
        return false;
    };
    let named = possible.iter().filter_map(Value::as_object);
    named.into_iter().any(|possible| {
        let fits = |(name, value): (&String, &Value)| {
            let value = standard_value(value);
            match possible.get(name) {
                Some(Value::Array(values)) => values
                    .iter()
                    .any(|possible| equal(&value, &standard_value(possible))),
                Some(Value::String(text)) => text
                    .chars()
                    .any(|c| value.as_str() == Some(&standard(&c.to_string()))),
                _ => false,
            }
        };
        let mut absent = possible
            .iter()
            .filter(|(name, _)| !found.contains_key(*name));
        found.iter().all(fits) && absent.all(|(_, values)| may_be_absent(values))
    })
}

fn lists_of_fields(value: &Value, possible: &[Value]) -> bool {
    let found = value.as_array().map(Vec::as_slice).unwrap_or_default();
    possible.iter().any(|possible| {
        let possible = possible.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut pairs = found.iter().zip(possible);
        found.len() == possible.len()
            && pairs.all(|(found, possible)| fields(found, std::slice::from_ref(possible)))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(category: &str, functions: Value, made: Value, answers: Value) -> bool {
        let made: Vec<Call> = made
            .as_array()
            .unwrap()
            .iter()
            .map(|made| {
                let (name, arguments) = made.as_object().unwrap().iter().next().unwrap();
                (name.clone(), arguments.as_object().unwrap().clone())
            })
            .collect();
        let answers = answers.as_array().unwrap();
        check(category, functions.as_array().unwrap(), &made, answers).is_ok()
    }

    /// A check of one argument of this type.
    fn one(details: Value, value: Value, possible: Value) -> bool {
        let functions = json!([{ "name": "f.g", "parameters": {
            "properties": { "a": details }, "required": [],
        }}]);
        let made = json!([{ "f_g": { "a": value } }]);
        verdict(
            "simple_python",
            functions,
            made,
            json!([{ "f.g": { "a": possible } }]),
        )
    }

    #[test]
    fn arguments_are_compared_as_the_official_checker_does() {
        let list = |of: &str| json!({ "type": "array", "items": { "type": of } });
        for (details, value, possible, passes) in [
            (json!({ "type": "integer" }), json!(5), json!([5]), true),
            (json!({ "type": "integer" }), json!(5.0), json!([5]), false),
            (json!({ "type": "integer" }), json!(true), json!([1]), false),
            (json!({ "type": "integer" }), json!("5"), json!([5]), false),
            (json!({ "type": "float" }), json!(5), json!([5.0]), true),
            (json!({ "type": "float" }), json!(5), json!([5]), true),
            (
                json!({ "type": "string" }),
                json!("April 1, 2024"),
                json!(["april 1 2024"]),
                true,
            ),
            (
                json!({ "type": "string" }),
                json!("it's"),
                json!(["it\"s"]),
                true,
            ),
            (
                json!({ "type": "string" }),
                json!("a:b"),
                json!(["ab"]),
                false,
            ),
            // A variable has the type of the possible values.
            (json!({ "type": "integer" }), json!("n"), json!(["n"]), true),
            (
                json!({ "type": "integer" }),
                json!("N"),
                json!(["n"]),
                false,
            ),
            (json!({ "type": "any" }), json!("X"), json!(["x"]), true),
            (list("integer"), json!([1, 2]), json!([[1, 2]]), true),
            (list("integer"), json!([2, 1]), json!([[1, 2]]), false),
            (list("integer"), json!([1.0, 2]), json!([[1, 2]]), false),
            (list("float"), json!([1, 2]), json!([[1.0, 2.0]]), false),
            (
                list("string"),
                json!(["New York"]),
                json!([["new york"]]),
                true,
            ),
            (list("string"), json!([]), json!([""]), true),
            (
                json!({ "type": "dict" }),
                json!({ "k": "A b" }),
                json!([{ "k": ["ab"] }]),
                true,
            ),
            (
                json!({ "type": "dict" }),
                json!({}),
                json!([{ "k": ["x", ""] }]),
                true,
            ),
            (
                json!({ "type": "dict" }),
                json!({}),
                json!([{ "k": ["x"] }]),
                false,
            ),
            (
                json!({ "type": "dict" }),
                json!({ "z": 1 }),
                json!([{ "k": [1, ""] }]),
                false,
            ),
            (
                list("dict"),
                json!([{ "k": 1 }]),
                json!([[{ "k": [1] }]]),
                true,
            ),
            (
                list("dict"),
                json!([{ "k": 1 }, { "k": 1 }]),
                json!([[{ "k": [1] }]]),
                false,
            ),
            (
                json!({ "type": "tuple", "items": { "type": "float" } }),
                json!([1.5]),
                json!([[1.5]]),
                true,
            ),
        ] {
            let told = format!("{value} of {details} for {possible}");
            assert_eq!(one(details, value, possible), passes, "{told}");
        }
    }

    #[test]
    fn calls_are_counted_and_found_in_any_order() {
        let functions = json!([
            { "name": "f", "parameters": { "properties": { "a": { "type": "integer" } }, "required": ["a"] } },
            { "name": "g", "parameters": { "properties": {}, "required": [] } },
        ]);
        let answers = json!([{ "f": { "a": [1, 2] } }, { "f": { "a": [1] } }]);
        let of = |made: Value| verdict("parallel", functions.clone(), made, answers.clone());
        assert!(of(json!([{ "f": { "a": 2 } }, { "f": { "a": 1 } }])));
        // The first call is taken for the first answer, though the second one would fit it too.
        assert!(!of(json!([{ "f": { "a": 1 } }, { "f": { "a": 2 } }])));
        assert!(!of(json!([{ "f": { "a": 1 } }])));
        let multiple = |made: Value| {
            verdict(
                "multiple",
                functions.clone(),
                made,
                json!([{ "f": { "a": [1], "b": ["", 3] } }]),
            )
        };
        assert!(multiple(json!([{ "f": { "a": 1 } }])));
        assert!(!multiple(json!([{ "g": {} }])));
        assert!(!multiple(json!([{ "f": {} }])));
        assert!(!multiple(json!([{ "f": { "a": 1, "b": 3 } }])));
        assert!(!multiple(json!([{ "f": { "a": 1 } }, { "g": {} }])));
    }
}
