//! Names of secrets as they stand in objects and definitions.

use serde_json::json;

use super::{redact, redact_definition, without_secrets};

#[test]
fn a_name_in_the_plural_or_split_over_its_object_is_a_secrets() {
    for value in [
        json!({ "tokens": "hunter2" }),
        json!({ "tokens": ["hunter2"] }),
        json!({ "tokens": { "forge": "hunter2" } }),
        json!({ "maxTokens": "hunter2" }),
        json!({ "name": "tokens", "value": "hunter2" }),
        json!({ "jwts": ["hunter2"], "accesstokens": ["hunter2"], "pwds": "hunter2" }),
        json!({ "api": { "key": "hunter2" } }),
        json!({ "db": { "host": "h", "pass": "hunter2" } }),
        json!({ "private": [{ "key": "hunter2" }] }),
        json!({ "headers": [["x-api-key", "hunter2"], ["accept", "text/plain"]] }),
        json!({ "text": r#"sent "tokens": ["hunter2"] there"# }),
        json!({ "text": r#"sent {"tokens": "hunter2", …"# }),
    ] {
        let shown = redact(&value).to_string();
        assert!(!shown.contains("hunter2"), "{shown}");
        let shown = redact_definition(&value).to_string();
        let is_nested = value["tokens"].is_object();
        assert!(is_nested || !shown.contains("hunter2"), "{shown}");
    }
    let counted = json!({
        "tokens": 12, "spent": { "tokens": "1,200" }, "used": [{ "tokens": { "in": 3, "out": [1] } }],
        "keys": ["a"], "pairs": [["a", "b"], ["c", 1]], "test": { "passed": "yes" },
    });
    assert_eq!(redact(&counted), counted);
}

#[test]
fn a_definition_keeps_its_references_and_schemas() {
    let whole = json!({
        "models": { "default": { "api_key": "${KEY}", "headers": { "authorization": "Bearer ${TOKEN}" } } },
        "schema": { "properties": { "password": { "type": "string" } }, "required": ["password"] },
        "budget": { "tokens": 100 }, "mcp": { "tokens": "tokens.json" },
    });
    assert_eq!(redact_definition(&whole), whole);
    let shown = redact_definition(&json!({
        "api_key": "hunter2", "secret": 12345, "instructions": "use sk-proj-abcdefghijklmnop1234",
        "base_url": "https://host/sk-proj-abcdefghijklmnop1234/v1",
    }));
    for secret in ["hunter2", "12345", "abcdefghijklmnop1234"] {
        assert!(!shown.to_string().contains(secret), "{shown}");
    }
}

#[test]
fn secrets_that_are_known_are_taken_out_literally() {
    let told = without_secrets("no: hunter22 of ada".to_owned(), ["hunter22", "ada", ""]);
    assert_eq!(told, "no: [redacted] of ada");
}
