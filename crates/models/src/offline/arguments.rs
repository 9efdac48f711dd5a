//! Arguments for a tool, from the words and numbers of a text.

use ghostlight_actors::vocabulary::ToolDefinition;
use serde_json::{Map, Number, Value};

use super::text::{self, FoundNumber};
use ghostlight_retrieval::terms::terms;

const PERCENT: &[&str] = &["percent", "percentage", "rate"];
const FREE_TEXT: &[&str] = &["query", "question", "request", "task", "prompt", "input"];
const EXPRESSION: &[&str] = &["expression", "formula", "calculation"];
const PATH: &[&str] = &["path", "file", "folder"];
const ADDRESS: &[&str] = &["url", "uri", "link"];

/// The arguments that a tool requires, and percentages. `None` if the text lacks a required one. If
/// the text has no numbers, those of the whole task are used.
pub(super) fn arguments(tool: &ToolDefinition, text: &str, task: &str) -> Option<Value> {
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    let Some(properties) = properties else {
        return Some(Value::Object(Map::new()));
    };
    let required = tool.parameters.get("required").and_then(Value::as_array);
    let required: Vec<&str> = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let is_text = |name: &&&str| {
        properties
            .get(**name)
            .is_some_and(|of| kind(of) == "string")
    };
    let mut found = Found {
        text,
        alone: required.iter().filter(is_text).count() == 1,
        numbers: match text::numbers(text) {
            numbers if numbers.is_empty() => text::numbers(task),
            numbers => numbers,
        },
        quotations: text::quotations(text),
    };
    // Percentages are filled in first, so that no other argument takes their number.
    let percent = properties.keys().map(String::as_str);
    let percent = percent.filter(|name| is_named(name, PERCENT));
    let others = required.iter().copied();
    let others = others.filter(|name| !is_named(name, PERCENT));
    let mut arguments = Map::new();
    for name in percent.chain(others) {
        match properties.get(name).and_then(|of| found.value(name, of)) {
            Some(value) => drop(arguments.insert(name.to_owned(), value)),
            None if required.contains(&name) => return None,
            None => {}
        }
    }
    Some(Value::Object(arguments))
}

/// The possible arguments in a text. Each number or quotation is used once.
struct Found<'a> {
    text: &'a str,
    /// Whether the tool requires exactly one text.
    alone: bool,
    numbers: Vec<FoundNumber>,
    quotations: Vec<String>,
}

impl Found<'_> {
    fn value(&mut self, name: &str, schema: &Value) -> Option<Value> {
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return self.choice(values);
        }
        match kind(schema) {
            "number" => self.number(name, false).map(Value::Number),
            "integer" => self.number(name, true).map(Value::Number),
            "string" => self.string(name).map(Value::String),
            _ => None,
        }
    }

    /// The value that the text names, or the only value.
    fn choice(&self, values: &[Value]) -> Option<Value> {
        let said = terms(self.text);
        let named = |value: &&Value| {
            let mut words = value.as_str().into_iter().flat_map(terms).peekable();
            words.peek().is_some() && words.all(|word| said.contains(&word))
        };
        let only = (values.len() == 1).then(|| values.first()).flatten();
        values.iter().find(named).or(only).cloned()
    }

    fn number(&mut self, name: &str, whole: bool) -> Option<Number> {
        let percent = is_named(name, PERCENT);
        let fits = |number: &FoundNumber| number.percent == percent;
        let place = self.numbers.iter().position(fits)?;
        let digits = self.numbers.remove(place).digits;
        match digits.parse::<i64>() {
            Ok(integer) => Some(Number::from(integer)),
            Err(_) if whole => None,
            Err(_) => Number::from_f64(digits.parse().ok()?),
        }
    }

    fn string(&mut self, name: &str) -> Option<String> {
        if is_named(name, FREE_TEXT) {
            return Some(self.text.to_owned());
        }
        if is_named(name, EXPRESSION) {
            return text::arithmetic(self.text);
        }
        if is_named(name, PATH) {
            return text::path(self.text).map(str::to_owned);
        }
        if is_named(name, ADDRESS) {
            return text::address(self.text).map(str::to_owned);
        }
        if !self.quotations.is_empty() {
            return Some(self.quotations.remove(0));
        }
        self.alone.then(|| self.text.to_owned())
    }
}

/// The first type of a schema that is not null.
fn kind(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(name)) => name,
        Some(Value::Array(names)) => {
            let mut names = names.iter().filter_map(Value::as_str);
            names.find(|name| *name != "null").unwrap_or_default()
        }
        _ => "",
    }
}

fn is_named(name: &str, words: &[&str]) -> bool {
    let said = terms(name);
    words
        .iter()
        .any(|word| terms(word).iter().all(|term| said.contains(term)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(properties: Value, required: &[&str], text: &str) -> Option<Value> {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        let tool = ToolDefinition::new("tool", "A tool.").parameters(schema);
        arguments(&tool, text, "It costs 80.")
    }

    #[test]
    fn arguments_come_from_the_text_by_name_and_type() {
        let string = json!({"type": "string"});
        let number = json!({"type": "number"});
        let price = json!({"net": number, "percent": {"type": ["number", "null"]}});
        let cases = [
            (
                price.clone(),
                vec!["net"],
                "80 euro with 19% VAT?",
                json!({"net": 80, "percent": 19}),
            ),
            (
                price.clone(),
                vec!["percent", "net"],
                "19 percent on 80.5",
                json!({"percent": 19, "net": 80.5}),
            ),
            (
                price,
                vec!["net"],
                "What is it with VAT?",
                json!({"net": 80}),
            ),
            (
                json!({"query": string, "limit": {"type": "integer"}}),
                vec!["query"],
                "Find 3 \"things\"",
                json!({"query": "Find 3 \"things\""}),
            ),
            (
                json!({"path": string, "content": string}),
                vec!["path", "content"],
                "Write \"hello there\" to notes/a.txt.",
                json!({"path": "notes/a.txt", "content": "hello there"}),
            ),
            (
                json!({"unit": {"enum": ["celsius", "fahrenheit"]}, "topic": {"enum": ["one"]}}),
                vec!["unit", "topic"],
                "in Fahrenheit",
                json!({"unit": "fahrenheit", "topic": "one"}),
            ),
            (
                json!({"url": string}),
                vec!["url"],
                "What does https://docs.rs/ractor say about it?",
                json!({"url": "https://docs.rs/ractor"}),
            ),
            (
                json!({"name": string}),
                vec!["name"],
                "Ada",
                json!({"name": "Ada"}),
            ),
        ];
        for (properties, required, text, expected) in cases {
            assert_eq!(
                filled(properties, &required, text),
                Some(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_required_and_nowhere_in_the_text_makes_no_call() {
        let string = json!({"type": "string"});
        for (properties, required) in [
            (json!({"path": string}), vec!["path"]),
            (json!({"url": string}), vec!["url"]),
            (json!({"expression": string}), vec!["expression"]),
            (json!({"percent": {"type": "number"}}), vec!["percent"]),
            (json!({"unit": {"enum": ["a1", "b1"]}}), vec!["unit"]),
            (json!({"items": {"type": "array"}}), vec!["items"]),
            (json!({"a": string, "b": string}), vec!["a", "b"]),
        ] {
            assert_eq!(filled(properties, &required, "do it"), None, "{required:?}");
        }
    }
}
