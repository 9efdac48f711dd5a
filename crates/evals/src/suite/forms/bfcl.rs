//! BFCL's questions, with the functions that each offers, and the answers in the folder `possible_answer` beside them.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::text;
use crate::{
    checkers::bfcl::is_answered,
    suite::{OfferedTool, Sample},
};

/// The answers of a file, by the ids of their questions.
pub(in crate::suite) type Answers = HashMap<String, Value>;

/// Where the answers of a file of questions are.
pub(in crate::suite) fn answers_beside(questions: &Path) -> PathBuf {
    let folder = questions.parent().unwrap_or(Path::new(""));
    let name = questions.file_name().unwrap_or_default();
    folder.join("possible_answer").join(name)
}

/// The sample of a question. The categories without answers are those in which calling a function, or calling none, is
/// all that counts.
pub(in crate::suite) fn sample(
    fields: &Map<String, Value>,
    answers: &Answers,
) -> Result<Sample, String> {
    let id = text(fields, "id")?;
    let category = category(id);
    let turns = fields.get("question").and_then(Value::as_array);
    let turns = turns.ok_or("it has no list \"question\"")?;
    let [turn] = turns.as_slice() else {
        let reason = format!(
            "it is a conversation of {} turns, which needs the programs of BFCL behind its functions",
            turns.len()
        );
        return Err(reason);
    };
    let said = turn.as_array().into_iter().flatten();
    let said: Vec<&str> = said
        .filter_map(|message| message["content"].as_str())
        .collect();
    let functions = fields.get("function").and_then(Value::as_array);
    let functions = match functions {
        // The team has tools of its own for these.
        None if is_answered(category) => &Vec::new(),
        functions => functions.ok_or("it has no list \"function\"")?,
    };
    let mut sample = Sample::new(id, said.join("\n\n"));
    for function in functions {
        sample
            .tools
            .push(tool(function, category.contains("java"))?);
    }
    let has_no_answers = category.ends_with("irrelevance") || category.ends_with("relevance");
    sample.expected = match answers.get(id) {
        Some(answer) => Some(answer.clone()),
        None if has_no_answers => None,
        None => {
            return Err(format!(
                "there is no answer to {id:?} in the folder possible_answer"
            ));
        }
    };
    sample.tags.push(category.to_owned());
    let metadata = &mut sample.metadata;
    metadata.insert("category".to_owned(), category.into());
    metadata.insert("functions".to_owned(), functions.clone().into());
    if let Some(scenario) = fields.get("scenario").and_then(Value::as_str) {
        sample.tags.push(scenario.to_owned());
    }
    Ok(sample)
}

/// The category of an id: its words before the first number, such as `simple_python` of `simple_python_3`.
fn category(id: &str) -> &str {
    let number = id
        .char_indices()
        .find(|(place, c)| c.is_ascii_digit() && id[..*place].ends_with('_'));
    number.map_or(id, |(place, _)| id[..place].trim_end_matches('_'))
}

/// The function as a tool. The arguments of Java and JavaScript are written as texts, as BFCL asks for them. Servers take no dot in a name, so it is an underscore there, as in BFCL's own handlers.
fn tool(function: &Value, is_written: bool) -> Result<OfferedTool, String> {
    let name = function["name"]
        .as_str()
        .ok_or("a function has no \"name\"")?;
    let mut parameters = schema(&function["parameters"]);
    if is_written && let Some(fields) = parameters["properties"].as_object_mut() {
        for field in fields.values_mut() {
            let of = field["description"].as_str().unwrap_or_default();
            *field = json!({ "type": "string", "description": of });
        }
    }
    Ok(OfferedTool {
        name: name.replace('.', "_"),
        description: function["description"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        parameters,
    })
}

/// A JSON Schema of BFCL's, which names the types of programming languages.
fn schema(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut schema = Map::new();
            for (name, value) in fields {
                let value = match (name.as_str(), value) {
                    ("type", Value::String(name)) => match json_type(name) {
                        Some(name) => name.into(),
                        None => continue,
                    },
                    // Its fields have the names of arguments, also of one that is called `type`.
                    ("properties", Value::Object(properties)) => {
                        let properties = properties.iter();
                        let properties: Map<String, Value> = properties
                            .map(|(name, value)| (name.clone(), schema_of(value)))
                            .collect();
                        Value::Object(properties)
                    }
                    ("items", value) => schema_of(value),
                    (_, value) => value.clone(),
                };
                schema.insert(name.clone(), value);
            }
            Value::Object(schema)
        }
        _ => json!({ "type": "object", "properties": {} }),
    }
}

fn schema_of(value: &Value) -> Value {
    match value {
        Value::Object(_) => schema(value),
        other => other.clone(),
    }
}

/// The type of JSON Schema; `None` where any value is allowed.
fn json_type(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "dict" | "object" | "hashmap" | "hashtable" => "object",
        "float" | "double" | "number" => "number",
        "integer" | "int" | "long" | "short" | "byte" | "bigint" => "integer",
        "boolean" => "boolean",
        "array" | "list" | "tuple" | "set" | "queue" | "stack" | "arraylist" => "array",
        "string" | "char" => "string",
        _ => return None,
    })
}
