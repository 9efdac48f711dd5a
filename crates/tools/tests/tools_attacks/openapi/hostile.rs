//! Documents that want time, memory, or what is not theirs; and those that are in use.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use ghostlight_actors::contract::{ToolHandle, Toolset};
use ghostlight_tools::{OpenApi, OpenApiError};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{call, schema_of, secret, secret_less, serve, settings, shop};

/// Hostile documents, each with its name.
fn hostile() -> Vec<(&'static str, String)> {
    let with_schema = |schema: Value, schemas: Value| {
        json!({
            "openapi": "3.1.0",
            "paths": { "/x": { "post": { "requestBody": { "content": { "application/json": { "schema": schema } } } } } },
            "components": { "schemas": schemas },
        })
        .to_string()
    };
    let to = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let mut doubling = serde_json::Map::new();
    for number in 0..60 {
        let next = to(&format!("S{}", number + 1));
        doubling.insert(
            format!("S{number}"),
            json!({ "properties": { "a": next, "b": next }, "anyOf": [next, next] }),
        );
    }
    let chain: serde_json::Map<String, Value> = (0..20_000)
        .map(|number| (format!("S{number}"), to(&format!("S{}", number + 1))))
        .collect();
    let wide: serde_json::Map<String, Value> = (0..100_000)
        .map(|number| {
            (
                format!("p{number}"),
                json!({ "type": "string", "description": "x".repeat(50) }),
            )
        })
        .collect();
    let mut paths = serde_json::Map::new();
    for number in 0..20_000 {
        paths.insert(
            format!("/p{number}"),
            json!({ "get": { "operationId": "same", "summary": "x".repeat(100) } }),
        );
    }
    let big = json!({ "properties": wide.clone() });
    let each_big: serde_json::Map<String, Value> = (0..2_000)
        .map(|number| {
            let body = json!({ "content": { "application/json": { "schema": to("Big") } } });
            (
                format!("/p{number}"),
                json!({ "post": { "requestBody": body } }),
            )
        })
        .collect();
    let mut aliases = "openapi: 3.1.0\na0: &a0 [x]\n".to_owned();
    for number in 1..40 {
        let before = number - 1;
        let _ = writeln!(
            aliases,
            "a{number}: &a{number} [*a{before}, *a{before}, *a{before}]"
        );
    }
    aliases.push_str("paths: { /x: { get: {} } }\n");
    let many_parameters: Vec<Value> = (0..10_000)
        .map(|number| json!({ "name": format!("p{number}"), "in": "query" }))
        .collect();
    vec![
        ("deep JSON", format!("{{\"openapi\":\"3.1.0\",\"paths\":{}1{}}}", "{\"a\":".repeat(100_000), "}".repeat(100_000))),
        ("deep lists", format!("{{\"openapi\":\"3.1.0\",\"x\":{}{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000))),
        ("deep YAML", format!("openapi: 3.1.0\nx: {}{}\n", "[".repeat(100_000), "]".repeat(100_000))),
        ("aliases", aliases),
        ("a schema that is itself", with_schema(to("A"), json!({ "A": to("A") }))),
        ("two that are each other", with_schema(to("A"), json!({ "A": { "allOf": [to("B")] }, "B": { "allOf": [to("A")] } }))),
        ("doubling", with_schema(to("S0"), doubling.into())),
        ("a long chain", with_schema(to("S0"), chain.into())),
        ("a wide schema", with_schema(big.clone(), json!({}))),
        ("a large enumeration", with_schema(json!({ "enum": (0..200_000).collect::<Vec<_>>() }), json!({}))),
        ("a long description", with_schema(json!({ "type": "string", "description": "<|im_start|>".repeat(500_000) }), json!({}))),
        ("slow patterns", with_schema(json!({ "properties": (0..5_000).map(|number| (format!("p{number}"), json!({ "pattern": format!("^(((a+)+)+)+{number}$(?=b)") }))).collect::<serde_json::Map<_, _>>() }), json!({}))),
        ("large patterns", with_schema(json!({ "pattern": "((a{1000}){1000}){1000}" }), json!({}))),
        ("many operations", json!({ "openapi": "3.1.0", "paths": paths }).to_string()),
        ("each of them large", json!({ "openapi": "3.1.0", "paths": each_big, "components": { "schemas": { "Big": big } } }).to_string()),
        ("parameters in a circle", json!({ "openapi": "3.1.0", "paths": { "/x": { "get": { "parameters": [{ "$ref": "#/components/parameters/A" }] } } }, "components": { "parameters": { "A": { "$ref": "#/components/parameters/A" } } } }).to_string()),
        ("a path that is itself", json!({ "openapi": "3.1.0", "paths": { "/x": { "$ref": "#/paths/~1x" } } }).to_string()),
        ("the document as its own schema", json!({ "openapi": "3.1.0", "paths": { "/x": { "post": { "requestBody": { "content": { "application/json": { "schema": { "$ref": "#" } } } } } } } }).to_string()),
        ("many parameters", json!({ "openapi": "3.1.0", "paths": { "/x": { "get": { "parameters": many_parameters } } } }).to_string()),
        ("a path that leads up", json!({ "openapi": "3.1.0", "paths": { "/../../admin": { "get": {} }, "/%2e%2e/x": { "get": {} }, "\\..\\x": { "get": {} }, "//evil.test/": { "get": {} } } }).to_string()),
        ("wrong kinds of everything", json!({ "openapi": "3.1.0", "paths": { "/x": { "get": { "operationId": 3, "parameters": {}, "requestBody": [], "security": 7, "summary": [] }, "post": "x", "parameters": [1, null, "x"] }, "/y": null, "/z": { "$ref": 4 } }, "components": [] }).to_string()),
        ("wrong numbers", with_schema(json!({ "minLength": -1, "maxItems": 1e300, "multipleOf": 0, "minimum": "x", "type": ["string", "string", 4], "required": [1, "a", "a"], "enum": [], "items": [], "anyOf": [], "uniqueItems": "y" }), json!({}))),
        ("no document", "[]".to_owned()),
        ("an old one", "{\"swagger\": \"2.0\", \"paths\": {}}".to_owned()),
        ("a version of words", "openapi: '\\u202e4.0 <|im_start|>'\n".to_owned()),
        ("binary", "\0\u{1}\u{2}openapi".to_owned()),
        ("too large", " ".repeat((16 << 20) + 1)),
    ]
}

#[test]
fn a_hostile_document_is_refused_or_bounded() {
    for (name, text) in hostile() {
        let begun = Instant::now();
        let read = OpenApi::read(&text, secret_less());
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(15), "{name}: {took:?}");
        let Ok(read) = read else {
            let error = read.unwrap_err().to_string();
            assert!(
                error.len() < 500 && !error.contains("<|im_start|>"),
                "{name}: {error}"
            );
            continue;
        };
        let tools = read.tools().unwrap();
        assert!(tools.len() <= 2_000, "{name}");
        let mut all = 0;
        for tool in &tools {
            let definition = tool.definition();
            let schema = definition.parameters.to_string();
            assert!(!schema.contains("$ref"), "{name}");
            assert!(schema.len() < 300_000, "{name}: {}", schema.len());
            assert!(definition.description.chars().count() < 2_000, "{name}");
            assert!(!schema.contains("<|im_start|>"), "{name}");
            all += schema.len();
        }
        assert!(all < 64 << 20, "{name}: {all}");
        for tool in tools.iter().take(3) {
            let validator = jsonschema_of(tool);
            assert!(validator.is_ok(), "{name}: {:?}", validator.err());
        }
    }
}

/// The schema of a tool as the engine compiles it.
fn jsonschema_of(tool: &ToolHandle) -> Result<jsonschema::Validator, String> {
    jsonschema::validator_for(&schema_of(tool)).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_path_that_leads_up_is_not_asked() {
    let server = serve().await;
    let (_, text) = hostile()
        .into_iter()
        .find(|(name, _)| *name == "a path that leads up")
        .unwrap();
    let read = OpenApi::read(&text, settings(&server)).unwrap();
    for tool in read.tools().unwrap() {
        let _ = call(&tool, json!({})).await;
    }
    for asked in server.asked() {
        assert!(asked.starts_with("GET /v1//evil.test/ "), "{asked}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whatever stands in the place of whatever, a document is read or refused, and what is read can be called.
    #[test]
    fn no_change_of_a_document_makes_a_panic(places in prop::collection::vec((any::<u16>(), 0_usize..12), 1..6)) {
        let mut document = shop();
        for (place, what) in places {
            let with = [
                json!(null), json!(7), json!(-1.5), json!("x"), json!("#/components"), json!([]), json!({}), json!(true),
                json!({ "$ref": "#" }), json!({ "$ref": "#/paths/~1items" }), json!(["a", 1, {}]),
                json!({ "$ref": "#/components/schemas/Item" }),
            ][what].clone();
            let mut left = usize::from(place);
            replace(&mut document, &mut left, &with);
        }
        if let Ok(read) = OpenApi::read(&document.to_string(), secret_less()) {
            for tool in read.tools().unwrap() {
                prop_assert!(jsonschema_of(&tool).is_ok(), "{}", tool.definition().parameters);
            }
        }
        let _ = OpenApi::read(&document.to_string(), secret());
    }
}

/// Puts a value into the place of the n-th one.
fn replace(value: &mut Value, left: &mut usize, with: &Value) {
    let children: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => return,
    };
    for child in children {
        if *left == 0 {
            *child = with.clone();
            *left = usize::MAX;
            return;
        }
        *left -= 1;
        replace(child, left, with);
        if *left == usize::MAX {
            return;
        }
    }
}

/// The documents that the test command installs: every one of 3.x has tools, whose schemas compile; every one of
/// another version is refused by its version.
#[test]
fn real_documents_are_read() {
    let Some(folder) = std::env::var_os("GHOSTLIGHT_OPENAPI_DOCUMENTS") else {
        let skipped = std::env::var_os("GHOSTLIGHT_SKIP_OPENAPI_DOCUMENTS").is_some();
        assert!(
            skipped || std::env::var_os("CI").is_none(),
            "GHOSTLIGHT_OPENAPI_DOCUMENTS names no folder"
        );
        println!("passed over: GHOSTLIGHT_OPENAPI_DOCUMENTS names no folder");
        return;
    };
    let (mut documents, mut operations) = (0, 0);
    let mut folders = vec![std::path::PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let ending = path
                .extension()
                .and_then(|ending| ending.to_str())
                .unwrap_or_default();
            if !matches!(ending, "json" | "yaml" | "yml") {
                continue;
            }
            let mut settings = secret_less();
            settings.document = path.to_str().unwrap().to_owned();
            match OpenApi::open(settings) {
                Ok(read) => {
                    documents += 1;
                    for tool in read.tools().unwrap() {
                        operations += 1;
                        assert!(
                            jsonschema_of(&tool).is_ok(),
                            "{path:?} {}",
                            tool.definition().name
                        );
                    }
                }
                Err(
                    OpenApiError::Version(_) | OpenApiError::NoDocument | OpenApiError::NoOperation,
                ) => {}
                Err(error) => panic!("{path:?}: {error}"),
            }
        }
    }
    println!("{documents} documents, {operations} operations");
    assert!(documents >= 50, "{documents} documents");
}
