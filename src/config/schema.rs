//! The JSON Schema of a team file, for editors and for programs that write team files.

use ghostlight_actors::{definition::TeamSpec, run::Registry};
use serde_json::{Value, json};

/// The JSON Schema of a team file (draft 2020-12).
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(TeamSpec).to_value();
    schema["title"] = json!("Ghostlight team");
    with_templates(&mut schema);
    schema
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
    let agent = &mut schema["$defs"]["AgentSpec"]["properties"];
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
        },
    });
    agent["with"] = json!({
        "description": "What the names in the template's texts stand for.",
        "type": "object",
    });
}

/// The JSON Schema of a team file, with the names that this registry knows.
///
/// Behaviors, policies, providers and kinds of tools must be registered. Models and tools may also be
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
