//! No document makes the reader of OpenAPI panic, or its tools large; no arguments make a request panic or leave the
//! API's address, which is one that nothing may reach.
#![no_main]

use std::sync::LazyLock;

use ghostlight_actors::{
    contract::{ToolContext, Toolset},
    vocabulary::Arguments,
};
use ghostlight_tools::{OpenApi, OpenApiSpec};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.unwrap_or_else(|error| panic!("{error}"))
});

/// How much larger than the document one tool's definition may be: references are written out, within bounds.
const DEFINITION_BYTES: usize = 1 << 20;

fuzz_target!(|input: (u8, &str)| {
    let (seed, document) = input;
    let settings = OpenApiSpec::new("").base_url("http://10.0.0.1/v1");
    let Ok(api) = OpenApi::read(document, settings) else { return };
    let tools = api.tools().unwrap_or_else(|error| panic!("{}", error.message));
    for tool in tools.iter().take(8) {
        let definition = tool.definition();
        let schema = definition.parameters.to_string();
        assert!(schema.len() + definition.description.len() <= DEFINITION_BYTES);
        let arguments = arguments(&definition.parameters, seed);
        let called = RUNTIME.block_on(tool.call(Arguments::from(arguments), ToolContext::detached()));
        assert!(called.is_err());
    }
});

/// A value for each property, of changing types.
fn arguments(schema: &Value, seed: u8) -> Value {
    let mut arguments = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (at, name) in properties.into_iter().flatten().map(|(name, _)| name).enumerate() {
        let value = match (usize::from(seed) + at) % 7 {
            0 => json!("../../..\r\nx: y//%2e?#@é"),
            1 => json!(-1.5e300),
            2 => json!(true),
            3 => json!([1, "a,b", null, { "c": [] }]),
            4 => json!({ "a": "b&c=d", "e": { "f": 1 } }),
            5 => Value::Null,
            _ => json!(7),
        };
        arguments.insert(name.clone(), value);
    }
    Value::Object(arguments)
}
