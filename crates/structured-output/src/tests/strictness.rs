//! The schemas that servers get for strict output.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{NotStrict, OutputSchema, SchemaError, strict_form};
use super::types::{Order, Tree};

fn strict(schema: Value) -> Value {
    strict_form(&schema).unwrap()
}

/// Checks that every subschema follows the rules of strict output.
fn assert_strict(schema: &Value) {
    let allowed = [
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "anyOf",
        "$ref",
        "$defs",
        "description",
        "enum",
        "const",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
    ];
    for key in schema.as_object().unwrap().keys() {
        assert!(allowed.contains(&key.as_str()), "{key} in {schema}");
    }
    if let Some(members) = schema.get("properties").and_then(Value::as_object) {
        let names: Vec<&String> = members.keys().collect();
        assert_eq!(schema["required"], json!(names), "{schema}");
        assert_eq!(schema["additionalProperties"], json!(false), "{schema}");
    }
    let named = ["properties", "$defs"]
        .into_iter()
        .filter_map(|key| schema.get(key));
    let named = named.flat_map(|members| members.as_object().unwrap().values());
    let listed = schema
        .get("anyOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    named
        .chain(listed)
        .chain(schema.get("items"))
        .for_each(assert_strict);
}

#[test]
fn every_subschema_is_closed_and_complete() {
    let schema = OutputSchema::of::<Order>().unwrap();
    assert_eq!(schema.why_not_strict(), None);
    assert_eq!(schema.name(), "Order");
    assert_strict(schema.schema());
    let text = schema.schema().to_string();
    assert!(!text.contains("$ref") && !text.contains("$defs"), "{text}");
    assert!(
        text.contains("How it is paid"),
        "descriptions reach the model: {text}"
    );
}

#[test]
fn optional_members_become_required_and_nullable() {
    let schema = strict(json!({
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "integer", "format": "uint32", "default": 3, "minimum": 0},
            "c": {"enum": ["x", "y"]},
            "d": {"type": "object", "properties": {}, "description": "what"},
            "e": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            "f": {"type": ["string", "null"]},
            "g": {"const": "k"},
        },
    }));
    assert_strict(&schema);
    let members = &schema["properties"];
    assert_eq!(members["a"], json!({"type": "string"}));
    assert_eq!(
        members["b"],
        json!({"type": ["integer", "null"], "minimum": 0})
    );
    assert_eq!(
        members["c"],
        json!({"type": ["string", "null"], "enum": ["x", "y", null]})
    );
    let empty = json!({
        "type": "object", "properties": {}, "required": [], "additionalProperties": false,
    });
    let either = json!({"description": "what", "anyOf": [empty, {"type": "null"}]});
    assert_eq!(members["d"], either);
    assert_eq!(members["e"]["anyOf"].as_array().unwrap().len(), 3);
    assert_eq!(members["f"], json!({"type": ["string", "null"]}));
    let constant = json!({"type": "string", "const": "k"});
    assert_eq!(members["g"], json!({"anyOf": [constant, {"type": "null"}]}));
}

#[test]
fn alternatives_take_in_what_stands_beside_them() {
    let schema = strict(json!({
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
        "oneOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"$ref": "#/$defs/B"},
        ],
        "$defs": {"B": {"properties": {"b": {"type": "boolean"}}, "required": ["b"]}},
    }));
    assert_strict(&schema);
    assert_eq!(schema["anyOf"][0]["required"], json!(["a", "id"]));
    assert_eq!(schema["anyOf"][1]["required"], json!(["b", "id"]));
}

#[test]
fn schemas_that_must_all_hold_are_merged() {
    let schema = strict(json!({
        "allOf": [
            {"$ref": "#/definitions/A"},
            {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
        ],
        "definitions": {
            "A": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        },
    }));
    assert_strict(&schema);
    assert_eq!(schema["required"], json!(["a", "b"]));
    let contradiction = json!({"allOf": [{"type": "string"}, {"type": "integer"}]});
    let conflict = NotStrict::Conflict {
        at: "#".to_owned(),
        keyword: "type".to_owned(),
    };
    assert_eq!(strict_form(&contradiction), Err(conflict));
}

#[test]
fn only_recursion_keeps_references() {
    let schema = OutputSchema::of::<Tree>().unwrap();
    assert!(schema.is_strict(), "{:?}", schema.why_not_strict());
    assert_strict(schema.schema());
    assert_eq!(schema.schema()["type"], json!("object"));
    let text = schema.schema().to_string();
    assert!(text.contains("$ref"), "{text}");
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(
            schema.schema().pointer(pointer).is_some(),
            "{pointer} in {text}"
        );
    }
    jsonschema::validator_for(schema.schema()).unwrap();
}

#[test]
fn what_cannot_be_strict_is_sent_as_it_is() {
    let map = OutputSchema::of::<HashMap<String, u32>>().unwrap();
    assert!(matches!(
        map.why_not_strict(),
        Some(NotStrict::OpenObject { .. })
    ));
    assert_eq!(
        map.schema()["additionalProperties"]["type"],
        json!("integer")
    );

    #[derive(Deserialize, JsonSchema)]
    struct Anything {
        #[expect(dead_code, reason = "only its schema matters")]
        value: Value,
    }
    let anything = OutputSchema::of::<Anything>().unwrap();
    let reason = anything.why_not_strict().unwrap().to_string();
    assert!(reason.starts_with("at #/properties/value: "), "{reason}");
    let lost = strict_form(&json!({"$ref": "#/$defs/None"}));
    assert!(matches!(lost, Err(NotStrict::Reference { .. })));
}

#[test]
fn references_cannot_grow_without_bound() {
    let level = |n: usize| {
        let next = json!({"$ref": format!("#/$defs/L{}", n + 1)});
        json!({"type": "object", "properties": {"a": next, "b": next}, "required": ["a", "b"]})
    };
    let mut levels: serde_json::Map<String, Value> =
        (0..40).map(|n| (format!("L{n}"), level(n))).collect();
    levels.insert("L40".to_owned(), json!({"type": "string"}));
    let schema = json!({"$ref": "#/$defs/L0", "$defs": levels});
    assert!(matches!(
        strict_form(&schema),
        Err(NotStrict::TooLarge { .. })
    ));
    let mut deep = json!({"type": "string"});
    for _ in 0..200 {
        deep = json!({"type": "array", "items": deep});
    }
    assert!(matches!(
        strict_form(&deep),
        Err(NotStrict::TooLarge { .. })
    ));
}

#[test]
fn names_and_schemas_are_checked() {
    let object = json!({"type": "object", "properties": {}});
    assert!(OutputSchema::from_json("an_order-2", object.clone()).is_ok());
    for name in ["", "an order", "ä", &"x".repeat(65)] {
        let refused = OutputSchema::from_json(name, object.clone());
        assert!(matches!(refused, Err(SchemaError::Name { .. })), "{name}");
    }
    let invalid = OutputSchema::from_json("x", json!({"type": "object", "required": 3}));
    assert!(matches!(invalid, Err(SchemaError::Invalid { .. })));
    assert_eq!(
        OutputSchema::of::<Vec<Order>>().unwrap().name(),
        "Array_of_Order"
    );
}
