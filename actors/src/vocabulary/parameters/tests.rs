use proptest::prelude::*;
use serde_json::{Value, json};

use super::legal_parameters;
use crate::testing::check_sent;
use crate::vocabulary::{Message, ToolDefinition, ToolSet};

fn repaired(schema: &Value) -> Value {
    legal_parameters(schema).unwrap().into_owned()
}

/// The fault that the strictest provider finds in a tool with this schema.
fn breach(schema: &Value) -> Option<String> {
    let tool = ToolDefinition::new("f", "").parameters(schema.clone());
    let said = [Message::user("go").into()];
    check_sent(&said, &ToolSet::from_iter([tool]), 64).err()
}

#[test]
fn a_legal_schema_stays_as_it_is() {
    let schema = json!({
        "type": "object",
        "description": "What to do.",
        "properties": {
            "$filter": {"type": ["string", "null"], "default": null, "x-note": [1]},
            "type": {"enum": ["b", "a"]},
            "required": {"type": "boolean"},
            "list": {"type": "array", "items": {"$ref": "#/$defs/Row"}, "minItems": 1},
            "row": {"anyOf": [{"$ref": "#/$defs/Row"}, {"type": "null"}]},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": false},
            "any": {},
        },
        "required": ["type", "list"],
        "additionalProperties": false,
        "$defs": {"Row": {"type": "object", "properties": {"n": {"type": "number", "exclusiveMinimum": 0}}}},
    });
    assert_eq!(breach(&schema), None);
    assert!(matches!(
        legal_parameters(&schema),
        Ok(std::borrow::Cow::Borrowed(_))
    ));
}

#[test]
fn what_providers_refuse_is_repaired_wherever_it_stands() {
    for (odd, expected) in [
        (json!({"type": "any"}), json!({})),
        (json!({"type": null}), json!({})),
        (json!({"type": 3}), json!({})),
        (json!({"type": "STRING"}), json!({"type": "string"})),
        (
            json!({"type": ["str", null]}),
            json!({"type": ["string", "null"]}),
        ),
        (json!({"type": ["string", "any"]}), json!({})),
        (
            json!({"type": "array"}),
            json!({"type": "array", "items": {}}),
        ),
        (
            json!({"type": ["array", "string"], "items": null}),
            json!({"type": ["array", "string"], "items": {}}),
        ),
        (
            json!({"type": "array", "items": [{"type": "any"}, true]}),
            json!({"type": "array", "items": {}, "prefixItems": [{}, {}]}),
        ),
        (
            json!({"type": "array", "items": [{}], "additionalItems": false}),
            json!({"type": "array", "items": false, "prefixItems": [{}]}),
        ),
        (
            json!({"type": "number", "minimum": 1, "exclusiveMinimum": true, "exclusiveMaximum": false}),
            json!({"type": "number", "exclusiveMinimum": 1}),
        ),
        (
            json!({"type": "string", "minLength": "3", "maxLength": -1, "pattern": null}),
            json!({"type": "string"}),
        ),
        (
            json!({"multipleOf": 0, "readOnly": "yes", "deprecated": "soon", "minContains": "1"}),
            json!({}),
        ),
        (
            json!({"$id": "#a", "dependentRequired": {"a": ["b", 1], "c": "d"}}),
            json!({"dependentRequired": {"a": ["b"]}}),
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": null}, 7]}),
            json!({"anyOf": [{"type": "string"}, {"type": "null"}, {}]}),
        ),
        (json!({"anyOf": [], "enum": []}), json!({})),
        (json!({"anyOf": {"type": "string"}}), json!({})),
        (
            json!({"type": "object", "properties": null, "required": 7}),
            json!({"type": "object", "properties": {}}),
        ),
        (
            json!({"properties": {"a": {"type": "string", "required": true}, "b": 1, "required": ["b", "c"]}}),
            json!({"properties": {"a": {"type": "string"}, "b": {}}, "required": ["b", "a"]}),
        ),
        (
            json!({"properties": {"a": {}}, "required": ["a", "a", "z", 1]}),
            json!({"properties": {"a": {}}, "required": ["a"]}),
        ),
        (
            json!({"additionalProperties": {"type": null}, "not": 3}),
            json!({"additionalProperties": {}}),
        ),
        (json!({"additionalProperties": "no"}), json!({})),
        (json!({"$ref": "#/$defs/none"}), json!({})),
        (json!({"$ref": "https://example.com/schema"}), json!({})),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#"}),
            json!({}),
        ),
        (json!(true), json!({})),
        (json!("string"), json!({})),
    ] {
        let below = |schema: &Value| {
            json!({
                "type": "object",
                "properties": {"a": schema, "b": {"type": "object", "properties": {"c": schema}}, "d": {"items": schema}},
                "$defs": {"e": {"anyOf": [{}, {"additionalProperties": schema}]}},
            })
        };
        let (given, expected) = (below(&odd), below(&expected));
        let schema = repaired(&given);
        if odd.is_object() {
            assert_eq!(schema, expected, "{odd}");
        }
        assert_eq!(breach(&schema), None, "{odd}");
    }
}

#[test]
fn alternatives_at_the_root_are_one_object() {
    let branch = |name: &str, kind: &str| {
        json!({"type": "object", "required": ["kind", name], "properties": {
            "kind": {"const": kind}, name: {"type": "string"}}})
    };
    let given = json!({
        "$defs": {"Second": branch("to", "send")},
        "oneOf": [branch("from", "read"), {"$ref": "#/$defs/Second"}],
    });
    let schema = repaired(&given);
    assert_eq!(breach(&schema), None);
    assert_eq!(schema["required"], json!(["kind"]));
    let kinds = json!({"anyOf": [{"const": "read"}, {"const": "send"}]});
    assert_eq!(schema["properties"]["kind"], kinds);
    assert!(schema["properties"]["from"].is_object() && schema["properties"]["to"].is_object());
    let whole = json!({"$ref": "#/definitions/A", "definitions": {"A": branch("x", "y")}});
    assert_eq!(repaired(&whole)["required"], json!(["kind", "x"]));
    assert_eq!(breach(&repaired(&json!({"$ref": "#"}))), None);
    for none in [
        json!({"type": "array"}),
        json!({"type": ["string", "null"]}),
        json!([]),
        json!(false),
    ] {
        assert!(legal_parameters(&none).is_err(), "{none}");
    }
}

/// Schemas with each fault in each place.
pub(crate) fn any_schema() -> impl Strategy<Value = Value> {
    let words = [
        "type",
        "properties",
        "required",
        "items",
        "anyOf",
        "allOf",
        "oneOf",
        "not",
        "enum",
        "const",
        "additionalProperties",
        "prefixItems",
        "$defs",
        "$ref",
        "minimum",
        "exclusiveMinimum",
        "minLength",
        "if",
        "then",
        "pattern",
        "a",
        "b",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        prop::sample::select(vec![
            "object",
            "array",
            "string",
            "any",
            "null",
            "a",
            "b",
            "#",
            "#/$defs/a",
            "#/properties/b",
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 5, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::vec((prop::sample::select(words.to_vec()), inner), 0..6).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn any_schema_is_repaired_to_one_that_providers_accept(schema in any_schema(), value in any_schema()) {
        let Ok(legal) = legal_parameters(&schema) else {
            return Ok(());
        };
        prop_assert_eq!(breach(&legal), None);
        let again = legal_parameters(&legal).map(std::borrow::Cow::into_owned);
        prop_assert_eq!(again.as_ref(), Ok(&*legal));
        // Arguments that fit a valid schema fit the repaired one.
        if let Ok(given) = jsonschema::draft202012::new(&schema)
            && value.is_object()
            && given.is_valid(&value)
        {
            let legal = jsonschema::draft202012::new(&legal);
            prop_assert!(legal.is_ok_and(|legal| legal.is_valid(&value)));
        }
    }
}
