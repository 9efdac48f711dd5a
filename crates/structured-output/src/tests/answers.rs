//! Checking an answer against its schema, and telling a model what to correct.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{OutputError, OutputSchema};
use super::types::{Contact, Item, Order, Payment, State, Tree};

fn order() -> Value {
    json!({
        "id": 7,
        "items": [{"name": "lamp"}],
        "payment": {"kind": "card", "number": "1"},
        "state": "Open",
        "contact": {"phone": "1"},
    })
}

/// The message about an order in which `pointer` was replaced.
fn told(pointer: &str, value: Value) -> String {
    let mut order = order();
    let (owner, name) = pointer.rsplit_once('/').unwrap();
    let owner = order.pointer_mut(owner).unwrap();
    match owner.as_array_mut() {
        Some(items) => items[name.parse::<usize>().unwrap()] = value,
        None => owner[name] = value,
    }
    let schema = OutputSchema::of::<Order>().unwrap();
    let mismatches = schema.check(order).unwrap_err();
    mismatches
        .0
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

#[test]
fn each_mismatch_says_where_what_was_expected_and_what_was_found() {
    assert_eq!(
        told("/id", json!("7")),
        "at $.id: expected an integer, found the text \"7\""
    );
    assert_eq!(
        told("/items/0", json!({"nome": "lamp"})),
        "at $.items[0].name: expected this required member, found nothing"
    );
    assert_eq!(
        told("/items/0/name", json!("")),
        "at $.items[0].name: expected a text of at least 1 characters, found the text \"\""
    );
    assert_eq!(
        told("/items", json!(null)),
        "at $.items: expected an array, found null"
    );
    assert_eq!(
        told("/changes", json!(300)),
        "at $.changes: expected a number of at most 255, found the number 300"
    );
    assert_eq!(
        told("/state", json!("open")),
        "at $.state: expected \"Open\" or \"Delivered\" or an object, found the text \"open\""
    );
}

#[test]
fn of_alternatives_the_one_that_was_meant_is_told() {
    assert_eq!(
        told("/payment", json!({"kind": "card", "number": 1})),
        "at $.payment.number: expected a text, found the number 1"
    );
    assert_eq!(
        told("/payment", json!({"kind": "gold"})),
        "at $.payment.kind: expected \"cash\" or \"card\", found the text \"gold\""
    );
    assert_eq!(
        told("/contact", json!({"mail": 5})),
        "at $.contact.mail: expected a text, found the number 5"
    );
}

#[test]
fn members_too_many_are_told_with_those_there_are() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b/c": {"type": "string"}},
        "additionalProperties": false,
    });
    let schema = OutputSchema::from_json("x", schema).unwrap();
    let error = schema
        .read(r#"{"a": "x", "d e": [1, 2]}"#)
        .unwrap_err()
        .to_string();
    let line = "\n- at $[\"d e\"]: expected no such member (there are \"a\", \"b/c\"), found an array of 2 element(s)";
    assert_eq!(error, format!("the JSON does not fit its schema:{line}"));
}

#[test]
fn what_is_told_is_bounded() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}});
    let schema = OutputSchema::from_json("x", schema).unwrap();
    let many = schema.check(json!({"a": vec![1; 500]})).unwrap_err();
    assert_eq!(many.0.len(), 20);
    let long = schema
        .check(json!({"a": "ä".repeat(10_000)}))
        .unwrap_err()
        .to_string();
    assert!(long.len() < 400 && long.contains('…'), "{long}");
}

#[test]
fn an_answer_that_is_no_object_is_wrapped_and_unwrapped() {
    let schema = OutputSchema::of::<Vec<Item>>().unwrap();
    assert!(schema.is_strict());
    assert_eq!(schema.schema()["required"], json!(["value"]));
    let items = vec![Item {
        name: "lamp".into(),
        tags: vec![],
    }];
    for answer in [
        r#"{"value": [{"name": "lamp", "tags": null}]}"#,
        r#"[{"name": "lamp"}]"#,
    ] {
        assert_eq!(schema.parse::<Vec<Item>>(answer).unwrap(), items);
    }
    let payment = OutputSchema::of::<Payment>().unwrap();
    assert_eq!(payment.schema()["type"], json!("object"));
    assert_eq!(
        payment
            .parse::<Payment>(r#"{"value": {"kind": "cash"}}"#)
            .unwrap(),
        Payment::Cash
    );
    assert_eq!(
        payment.parse::<Payment>(r#"{"kind": "cash"}"#).unwrap(),
        Payment::Cash
    );
    let error = schema.read(r#"{"value": [{}]}"#).unwrap_err().to_string();
    assert!(error.contains("$.value[0].name"), "{error}");
}

#[test]
fn of_several_values_the_one_that_fits_is_read() {
    let schema = OutputSchema::of::<Item>().unwrap();
    let text = "For {\"question\": \"what is the very best thing?\"} I say {'name': 'lamp',}.";
    let reading = schema.read(text).unwrap();
    assert_eq!(reading.value, json!({"name": "lamp"}));
    assert_eq!(&text[reading.span], "{'name': 'lamp',}");
    assert!(matches!(schema.read("No."), Err(OutputError::Read(_))));
    let cut = schema.read("{\"tags\": [\"a\"").unwrap_err();
    assert!(matches!(
        cut,
        OutputError::Shape {
            is_truncated: true,
            ..
        }
    ));
    assert!(cut.to_string().ends_with("cut off before its end."));
}

#[test]
fn a_null_that_the_author_forbids_stays_a_mismatch() {
    let schema = OutputSchema::of::<Item>().unwrap();
    let error = schema
        .read(r#"{"name": null, "tags": null}"#)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("at $.name: expected a text, found null"),
        "{error}"
    );
    assert!(!error.contains("tags"), "{error}");
    let open = json!({"type": "object", "properties": {"a": {}, "b": {"type": "string"}}});
    let open = OutputSchema::from_json("x", open).unwrap();
    assert!(!open.is_strict() && open.check(json!({"b": null})).is_err());
}

#[test]
fn a_type_may_ask_for_more_than_its_schema_says() {
    let schema = OutputSchema::from_json("x", json!({"type": "object"})).unwrap();
    assert!(matches!(
        schema.parse::<Item>("{}"),
        Err(OutputError::Type(_))
    ));
}

fn orders() -> impl Strategy<Value = Order> {
    let text = "[a-z]{1,3}";
    let item =
        (text, prop::collection::vec(text, 0..2)).prop_map(|(name, tags)| Item { name, tags });
    let payment = prop_oneof![
        Just(Payment::Cash),
        (text, prop::collection::vec(text, 0..2))
            .prop_map(|(number, owners)| Payment::Card { number, owners }),
    ];
    let state = prop_oneof![
        Just(State::Open),
        Just(State::Delivered),
        text.prop_map(State::Refused)
    ];
    let contact = prop_oneof![
        (text, 0..2_u8, 0..2_u8).prop_map(|(phone, extension, country)| Contact::Phone {
            phone,
            extension,
            country
        }),
        text.prop_map(|mail| Contact::Mail { mail }),
    ];
    let place = prop::option::of((-9..9_i8, -9..9_i8));
    (
        any::<u64>(),
        prop::option::of(text),
        0..2_u8,
        prop::collection::vec(item, 0..3),
        payment,
        state,
        place,
        contact,
    )
        .prop_map(
            |(id, note, changes, items, payment, state, place, contact)| {
                let place = place.map(|(x, y)| (f64::from(x), f64::from(y)));
                Order {
                    id,
                    note,
                    changes,
                    items,
                    payment,
                    state,
                    place,
                    contact,
                }
            },
        )
}

/// The output of a server with strict output for `value`: with every member of the first
/// alternative that fits, and `null` for omitted members.
fn as_strict(value: &Value, schema: &Value) -> Option<Value> {
    if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
        return branches.iter().find_map(|branch| as_strict(value, branch));
    }
    let full = match (value, schema.get("properties").and_then(Value::as_object)) {
        (Value::Object(members), Some(known)) => {
            if members.keys().any(|name| !known.contains_key(name)) {
                return None;
            }
            let full = known.iter().map(|(name, schema)| {
                let member = members.get(name).unwrap_or(&Value::Null);
                Some((name.clone(), as_strict(member, schema)?))
            });
            Value::Object(full.collect::<Option<_>>()?)
        }
        (Value::Array(items), _) => {
            let full = items.iter().map(|item| as_strict(item, &schema["items"]));
            Value::Array(full.collect::<Option<_>>()?)
        }
        (value, _) => value.clone(),
    };
    jsonschema::is_valid(schema, &full).then_some(full)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_a_strict_server_returns_is_read_as_it_was_meant(orders in prop::collection::vec(orders(), 1..6)) {
        let schema = OutputSchema::of::<Order>().unwrap();
        for order in orders {
            let short = serde_json::to_value(&order).unwrap();
            let full = as_strict(&short, schema.schema()).unwrap();
            prop_assert!(jsonschema::is_valid(schema.schema(), &full));
            prop_assert_eq!(schema.parse::<Order>(&full.to_string()).unwrap(), order.clone());
            prop_assert_eq!(schema.parse::<Order>(&short.to_string()).unwrap(), order);
        }
    }

    #[test]
    fn any_value_is_held_to_any_shape_without_panic(text in "[\\[\\]{}\",:a-c0-9 ]{0,60}") {
        let schema = OutputSchema::of::<Tree>().unwrap();
        let _ = schema.parse::<Tree>(&text);
    }
}

#[test]
fn added_nulls_do_not_hide_the_alternative_that_was_meant() {
    let wide = json!({
        "type": "object",
        "properties": {
            "a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "integer"},
        },
        "required": ["a"],
    });
    let narrow = json!({
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
    });
    let schema = json!({"anyOf": [narrow, wide]});
    let schema = OutputSchema::from_json("x", schema).unwrap();
    let answer = json!({"value": {"a": "x", "b": null, "c": null}});
    assert_eq!(schema.check(answer).unwrap(), json!({"a": "x"}));
}
