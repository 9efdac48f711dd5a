use serde_json::json;

use super::*;

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

fn filled(schema: &Value, text: &str) -> Option<Value> {
    Filler::arguments(schema, text, text).fill()
}

#[test]
fn arguments_come_from_the_text_by_name_and_type() {
    let string = json!({"type": "string"});
    let number = json!({"type": "number"});
    let cases = [
        (
            object(json!({"expression": string}), &["expression"]),
            "what is 17% of 2,340?",
            json!({"expression": "17% of 2340"}),
        ),
        (
            object(json!({"net": number, "percent": number}), &["net"]),
            "What is 80 euro with 19% VAT?",
            json!({"net": 80, "percent": 19}),
        ),
        (
            object(
                json!({"percent": number, "net": number}),
                &["percent", "net"],
            ),
            "19 percent on 80.5",
            json!({"percent": 19, "net": 80.5}),
        ),
        (
            object(
                json!({"query": string, "limit": {"type": "integer"}}),
                &["query"],
            ),
            "Find 3 things about runs",
            json!({"query": "Find 3 things about runs"}),
        ),
        (
            object(
                json!({"query": string, "limit": {"type": "integer"}}),
                &["query"],
            ),
            "Find runs, limit: 5.",
            json!({"query": "Find runs, limit: 5.", "limit": 5}),
        ),
        (
            object(
                json!({"path": string, "content": string}),
                &["path", "content"],
            ),
            "Write \"hello there\" to notes/a.txt.",
            json!({"path": "notes/a.txt", "content": "hello there"}),
        ),
        (
            object(json!({"city": string}), &["city"]),
            "How is the weather in New York, please?",
            json!({"city": "New York"}),
        ),
        (
            object(
                json!({"url": string, "to": {"type": "string", "format": "email"}}),
                &["url", "to"],
            ),
            "Send https://a.example/x?y=1 to bob@b.example.",
            json!({"url": "https://a.example/x?y=1", "to": "bob@b.example"}),
        ),
        (
            object(
                json!({"unit": {"enum": ["celsius", "fahrenheit"]}, "dry_run": {"type": "boolean"}}),
                &["unit"],
            ),
            "the dry run in Fahrenheit",
            json!({"unit": "fahrenheit", "dry_run": true}),
        ),
        (
            object(
                json!({"values": {"type": "array", "items": number}}),
                &["values"],
            ),
            "the median of 3, 1 and 2",
            json!({"values": [3, 1, 2]}),
        ),
        (
            object(
                json!({"when": {"type": "string", "format": "date"}, "x": {"$ref": "#/$defs/X"}}),
                &["when"],
            ),
            "on 2024-05-01",
            json!({"when": "2024-05-01"}),
        ),
    ];
    for (schema, text, expected) in cases {
        assert_eq!(filled(&schema, text), Some(expected), "{text}");
    }
}

#[test]
fn what_is_required_and_nowhere_in_the_text_makes_no_call() {
    let cases = [
        object(json!({"path": {"type": "string"}}), &["path"]),
        object(json!({"expression": {"type": "string"}}), &["expression"]),
        object(json!({"count": {"type": "integer"}}), &["count"]),
        object(json!({"unit": {"enum": ["a1", "b1"]}}), &["unit"]),
        object(
            json!({"a": {"type": "string"}, "b": {"type": "string"}}),
            &["a", "b"],
        ),
    ];
    for schema in cases {
        assert_eq!(filled(&schema, "do it now"), None, "{schema}");
    }
    let bounded = object(json!({"n": {"type": "integer", "maximum": 5}}), &["n"]);
    assert_eq!(filled(&bounded, "take 7"), None);
    assert_eq!(filled(&bounded, "take 2.5"), None);
}

#[test]
fn an_answer_takes_the_form_of_any_schema() {
    let schema = json!({
        "type": "object",
        "properties": {
            "answer": {"type": "string", "maxLength": 12},
            "value": {"type": "number"},
            "score": {"type": "integer", "minimum": 1, "maximum": 5},
            "verdict": {"enum": ["good", "bad"]},
            "sources": {"type": "array", "items": {"type": "string"}},
            "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
            "other": {"$ref": "#"},
        },
        "required": ["answer", "value", "score", "verdict", "sources", "next"]
    });
    let filler = Filler::answer(&schema, "what is 1 + 1?", "1 + 1 = 2, which is bad.");
    let value = filler.fill().unwrap_or_default();
    assert_eq!(value["answer"], "1 + 1 = 2, w");
    assert_eq!(value["value"], 2);
    assert_eq!(value["score"], 2);
    assert_eq!(value["verdict"], "bad");
    assert_eq!(value["sources"].as_array().map(Vec::len), Some(1));
    assert_eq!((&value["next"], value.get("other")), (&Value::Null, None));
    let text = json!({"type": "string"});
    assert_eq!(Filler::answer(&text, "x", "y").fill(), Some(json!("y")));
}
