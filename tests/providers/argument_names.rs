//! Arguments whose names a provider does not take: they go out under others, and come back under the tool's own.

#[cfg(feature = "bedrock")]
use ghostlight::models::Bedrock;
use ghostlight::{
    models::{Anthropic, Secret},
    prelude::*,
};
use ghostlight_actors::vocabulary::{ToolDefinition, ToolSet};
use serde_json::{Value, json};

#[cfg(feature = "bedrock")]
use crate::bedrock;
use crate::{
    ask,
    fake::{Fake, json as whole},
    respond,
};

/// A tool like those of Microsoft's interfaces.
fn find() -> ToolSet {
    let text = json!({"type": "string"});
    let mut properties = json!({"$filter": text, "_filter": text, "top": {"type": "integer"}});
    properties["x".repeat(70)] = text.clone();
    properties["x".repeat(71)] = text;
    let schema =
        json!({"type": "object", "properties": properties, "required": ["$filter", "top"]});
    ToolSet::from_iter([ToolDefinition::new("find", "Finds.").parameters(schema)])
}

/// The names under which the arguments are sent, in their order.
fn names(schema: &Value) -> Vec<&str> {
    let properties = schema["properties"].as_object().unwrap();
    properties.keys().map(String::as_str).collect()
}

fn given(response: &ModelResponse) -> Value {
    serde_json::from_str(response.calls()[0].arguments.text()).unwrap()
}

fn sent_by_model() -> Value {
    json!({"_filter_2": "name eq 'a'", "_filter": "b", "top": 3, "x".repeat(64): "c"})
}

fn check(schema: &Value, response: &ModelResponse) {
    let (first, second) = ("x".repeat(64), format!("{}_2", "x".repeat(62)));
    let mut expected = ["_filter", "_filter_2", &*first, &*second, "top"];
    let mut sent = names(schema);
    expected.sort_unstable();
    sent.sort_unstable();
    assert_eq!(sent, expected);
    assert_eq!(schema["required"], json!(["_filter_2", "top"]));
    let own = json!({"$filter": "name eq 'a'", "_filter": "b", "top": 3, "x".repeat(70): "c"});
    assert_eq!(given(response), own);
}

#[tokio::test]
async fn arguments_go_out_under_legal_names_and_come_back_under_the_tools_own() {
    let call = json!({"type": "tool_use", "id": "c1", "name": "find", "input": sent_by_model()});
    let body = json!({"type": "message", "content": [call], "stop_reason": "tool_use"});
    let fake = Fake::start([vec![whole(200, &body.to_string())]]).await;
    let address = fake.model().settings().base_url.clone();
    let claude = Anthropic::new("claude-haiku-4-5").base_url(address);
    let claude = claude.api_key(Secret::value("sk-hunter2"));
    let response = respond(&claude, ask("go").tools(find())).await.unwrap();
    check(&fake.only_body()["tools"][0]["input_schema"], &response);

    #[cfg(feature = "bedrock")]
    {
        let call =
            json!({"toolUse": {"toolUseId": "c1", "name": "find", "input": sent_by_model()}});
        let body = json!({"output": {"message": {"role": "assistant", "content": [call]}}, "stopReason": "tool_use"});
        let fake = Fake::start([vec![whole(200, &body.to_string())]]).await;
        let model: Bedrock = bedrock::model(&fake);
        let response = respond(&model, ask("go").tools(find())).await.unwrap();
        let tool = &fake.only_body()["toolConfig"]["tools"][0]["toolSpec"];
        check(&tool["inputSchema"]["json"], &response);
    }
}
