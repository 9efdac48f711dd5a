//! The JSON Schema of a team file, for editors and for programs that write team files.

use ghostlight_actors::{definition::TeamSpec, run::Registry};
use serde_json::{Value, json};

/// The JSON Schema of a team file (draft 2020-12).
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(TeamSpec).to_value();
    schema["title"] = json!("Ghostlight team");
    #[cfg(feature = "server")]
    with_served(&mut schema);
    with_templates(&mut schema);
    schema
}

/// Adds the forms of the sections that a server reads.
#[cfg(feature = "server")]
fn with_served(schema: &mut Value) {
    let mut served = schemars::schema_for!(crate::server::ServedSpec).to_value();
    for of in ["properties", "$defs"] {
        if let (Value::Object(all), Value::Object(served)) = (&mut schema[of], served[of].take()) {
            all.extend(served);
        }
    }
}

/// Adds the fields of agents that only team files have.
fn with_templates(schema: &mut Value) {
    schema["properties"]["templates"] = json!({
        "description": "Agents that are described once and used several times, by name. In their \
                        texts `${NAME}` stands for what each use gives.",
        "type": "object",
        "additionalProperties": { "$ref": "#/$defs/AgentSpec" },
    });
    schema["properties"]["mcp"] = json!({
        "description": "Servers of the Model Context Protocol, by name: tools of the kind `mcp`.",
        "type": "object",
        "additionalProperties": { "type": "object" },
    });
    schema["properties"]["openapi"] = json!({
        "description": "OpenAPI documents, by name: tools of the kind `openapi`.",
        "type": "object",
        "additionalProperties": { "type": "object" },
    });
    schema["properties"]["guards"] = json!({
        "description": "Named sets of rules over what goes to models and tools and comes from them; agents name those \
                        that hold for them, and a set that none names holds for all.",
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "required": ["rules"],
            "additionalProperties": false,
            "properties": {
                "chain": { "enum": ["first", "all"] },
                "rules": { "type": "array", "items": guard_rule(), "minItems": 1 },
            },
        },
    });
    for (section, keys) in super::process::SECTIONS {
        let any = json!({ "type": ["string", "number", "boolean", "array", "object"] });
        let keys = keys.iter().map(|key| ((*key).to_owned(), any.clone()));
        schema["properties"][section] = json!({
            "description": "How the process works that serves the team: options of `ghostlight serve`, with `_` for `-`; \
                            in `observability`, what is exported to where.",
            "type": "object",
            "additionalProperties": false,
            "properties": keys.collect::<serde_json::Map<_, _>>(),
        });
    }
    let agent = &mut schema["$defs"]["AgentSpec"]["properties"];
    let sets = json!({ "type": "array", "items": { "type": "string" } });
    agent["guards"] = json!({
        "description": "The sets of `guards` that hold for it: all of each set, or what it has for a part.",
        "anyOf": [sets, {
            "type": "object",
            "additionalProperties": false,
            "properties": { "input": sets, "output": sets, "tools": sets },
        }],
    });
    agent["template"] = json!({
        "description": "The template that it is made of; what is said here stands above it.",
        "type": "string",
    });
    let seconds = json!({ "type": "number", "exclusiveMinimum": 0 });
    let texts = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    agent["remote"] = json!({
        "description": "Where the agent is: at an address and speaks A2A, or in a process and speaks ACP. This member is \
                        that agent.",
        "type": "object",
        "oneOf": [{ "required": ["url"] }, { "required": ["command"] }],
        "additionalProperties": false,
        "properties": {
            "url": { "type": "string" },
            "card": { "type": "string" },
            "binding": { "enum": ["JSONRPC", "HTTP+JSON", "GRPC"] },
            "headers": texts,
            "signed_by": { "type": "array", "items": { "type": ["string", "object"] }, "minItems": 1 },
            "request_timeout_s": seconds,
            "command": { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            "env": texts,
            "cwd": { "type": "string" },
            "task_timeout_s": seconds,
            "state": { "type": "array", "items": { "type": "string" } },
        },
    });
    agent["with"] = json!({
        "description": "What the names in the template's texts stand for.",
        "type": "object",
    });
}

/// A rule of a set of guards.
fn guard_rule() -> Value {
    let points = json!({ "enum": ["input", "output", "arguments", "results"] });
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "name": { "type": "string" },
            "at": { "type": "array", "items": points, "minItems": 1 },
            "trim": { "type": "boolean" },
            "normal_form": { "enum": ["nfc", "nfkc"] },
            "html": { "enum": ["keep", "remove"] },
            "min": { "type": "integer", "minimum": 0 },
            "max": { "type": "integer", "minimum": 0 },
            "pattern": { "type": "string" },
            "words": { "type": "array", "items": { "type": "string" } },
            "ignore_case": { "type": "boolean" },
            "action": { "enum": ["block", "modify", "warn", "allow"] },
            "with": { "type": "string" },
            "severity": { "enum": ["low", "medium", "high", "critical"] },
        },
    })
}

/// The JSON Schema of a team file, with the names that this registry knows.
///
/// Behaviors, policies, interceptors, providers and kinds of tools must be registered. Models and tools may also be
/// defined in the file, so their names are offered but others are allowed.
pub fn schema_for(registry: &Registry) -> Value {
    let mut schema = schema();
    let behaviors = registry.behavior_names();
    let models: Vec<&str> = registry.models().map(|(name, _)| name).collect();
    let tools = registry.tools().map(|(name, _)| name);
    let toolsets = registry.toolsets().map(|(name, _)| name);
    let tools: Vec<&str> = tools.chain(toolsets).collect();
    let settings = [
        (
            "/$defs/ModelSpec/properties/provider",
            closed(&registry.provider_names()),
        ),
        (
            "/$defs/ToolSpec/properties/kind",
            closed(&[registry.tool_kind_names(), registry.toolset_kind_names()].concat()),
        ),
        (
            "/$defs/AgentSpec/properties/model",
            offered(&models, &["string", "null"]),
        ),
        (
            "/$defs/AgentSpec/properties/tools/items",
            offered(&tools, &["string"]),
        ),
        (
            "/$defs/AgentSpec/properties/behavior",
            with_settings(&behaviors),
        ),
        (
            "/$defs/AgentSpec/properties/policies/items",
            with_settings(&registry.policy_names()),
        ),
        (
            "/properties/policies/items",
            with_settings(&registry.policy_names()),
        ),
        (
            "/properties/interceptors/items",
            with_settings(&registry.interceptor_kind_names()),
        ),
    ];
    for (place, names) in settings {
        if let (Some(Value::Object(field)), Value::Object(names)) =
            (schema.pointer_mut(place), names)
        {
            field.remove("$ref");
            field.remove("type");
            field.extend(names);
        }
    }
    schema
}

fn closed(names: &[&str]) -> Value {
    json!({ "type": "string", "enum": names })
}

/// Any text, with these names as suggestions of an editor.
fn offered(names: &[&str], types: &[&str]) -> Value {
    json!({ "anyOf": [{ "type": "string", "enum": names }, { "type": types }] })
}

/// A name, or a mapping with the name and settings.
fn with_settings(names: &[&str]) -> Value {
    json!({ "anyOf": [
        closed(names),
        { "type": "object", "required": ["name"], "properties": { "name": closed(names) } },
    ] })
}
