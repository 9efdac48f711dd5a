//! What `#[tool]`, `tool_fn` and the built-in tools promise.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::{sync::Arc, time::Duration};

use ghostlight::{
    tool,
    tools::{Calculator, tool_fn, tool_fn_with_context},
};
use ghostlight_actors::{
    contract::{Reconciled, Tool, ToolContext, ToolError, ToolHandle, ToolOutput},
    vocabulary::{
        Approval, Arguments, Data, DataSource, Effect, InDoubt, ToolCall, ToolDefinition,
    },
};
use serde_json::json;

/// Adds VAT to a net price.
///
/// The result is gross.
#[tool(effect = "read")]
async fn add_vat(
    /// The price without VAT.
    net: f64,
    /// The rate in percent.
    #[default(19.0)]
    percent: f64,
    note: Option<String>,
) -> Result<f64, ToolError> {
    if net < 0.0 {
        return Err(ToolError::new("a net price is not negative"));
    }
    // A tool's name can be bound again: it is a function.
    let add_vat = net * (1.0 + percent / 100.0);
    let _ = note;
    Ok(add_vat)
}

/// Deletes a file.
#[tool(
    name = "delete-file",
    in_doubt = "ask_person",
    approval = "Delete {path}?",
    timeout = "2m",
    concurrency = 4,
    output_limit = 100,
    ends_step,
    reconcile = was_deleted
)]
async fn delete_file(#[schemars(length(min = 1))] path: String, cx: &ToolContext) -> ToolOutput {
    let _ = path;
    ToolOutput::text(cx.agent())
}

async fn was_deleted(call: &ToolCall, _: ToolContext) -> Reconciled {
    Reconciled::Happened(ToolOutput::text(format!("{} was deleted", call.name)))
}

/// Does nothing.
#[tool(effect = "idempotent", timeout = "250ms")]
fn rest(#[default("a while")] how_long: String, #[default] times: u8) {
    let _ = (how_long, times);
}

/// Fails as a parser does.
#[tool]
fn parse(text: String) -> Result<i32, std::num::ParseIntError> {
    text.parse()
}

/// Gives a list.
#[tool]
fn list() -> Vec<u8> {
    vec![1, 2]
}

async fn run(tool: impl Into<ToolHandle>, arguments: serde_json::Value) -> Result<String, String> {
    let cx = ToolContext::detached();
    let result = tool.into().call(Arguments::from(arguments), cx).await;
    result
        .map(|output| output.text)
        .map_err(|error| error.message)
}

#[tokio::test]
async fn a_function_becomes_a_tool_with_the_schema_of_its_parameters() {
    let definition = add_vat.definition();
    assert_eq!(definition.name, "add_vat");
    assert_eq!(
        definition.description,
        "Adds VAT to a net price.\n\nThe result is gross."
    );
    assert_eq!(definition.effect, Effect::Read);
    assert_eq!(
        definition.parameters,
        json!({
            "type": "object",
            "properties": {
                "net": {"type": "number", "format": "double", "description": "The price without VAT."},
                "percent": {
                    "type": "number", "format": "double",
                    "description": "The rate in percent.", "default": 19.0
                },
                "note": {"type": ["string", "null"]}
            },
            "required": ["net"],
            "additionalProperties": false
        })
    );
    assert_eq!(
        run(add_vat, json!({"net": 80, "percent": 50}))
            .await
            .unwrap(),
        "120.0"
    );
    assert_eq!(run(add_vat, json!({"net": 100})).await.unwrap(), "119.0");
    assert_eq!(
        add_vat::call_fn(100.0, 10.0, None).await.unwrap().round(),
        110.0
    );
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_an_error_of_the_call() {
    for (arguments, reason) in [
        (json!({}), "missing field `net`"),
        (json!({"net": "x"}), "invalid type"),
        (json!({"net": 1, "nett": 2}), "unknown field `nett`"),
        (json!({"net": -1}), "not negative"),
    ] {
        let message = run(add_vat, arguments).await.unwrap_err();
        assert!(message.contains(reason), "{message}");
    }
}

#[tokio::test]
async fn every_setting_reaches_the_definition() {
    let definition = delete_file.definition();
    let prompt = Some(String::from("Delete {path}?"));
    assert_eq!(definition.name, "delete-file");
    assert_eq!(definition.effect, Effect::Once);
    assert_eq!(definition.in_doubt, InDoubt::AskPerson);
    assert_eq!(definition.approval, Approval::Required { prompt });
    assert_eq!(definition.timeout_ms, Some(120_000));
    assert_eq!(definition.concurrency, Some(4));
    assert_eq!(definition.output_limit, 100);
    assert!(definition.ends_step);
    assert_eq!(definition.parameters["properties"]["path"]["minLength"], 1);
    assert!(definition.parameters["properties"].get("cx").is_none());
    assert_eq!(rest.definition().effect, Effect::Idempotent);
    assert_eq!(rest.definition().timeout_ms, Some(250));
    assert_eq!(
        rest.definition().parameters["properties"]["how_long"]["default"],
        "a while"
    );
}

#[tokio::test]
async fn every_return_type_reaches_the_model_as_text() {
    assert_eq!(
        run(delete_file, json!({"path": "x"})).await.unwrap(),
        "nobody"
    );
    assert_eq!(run(rest, json!({})).await.unwrap(), "done");
    assert_eq!(run(list, json!({})).await.unwrap(), "[1,2]");
    assert_eq!(run(parse, json!({"text": "7"})).await.unwrap(), "7");
    let message = run(parse, json!({"text": "seven"})).await.unwrap_err();
    assert_eq!(message, "invalid digit found in string");
}

#[tokio::test]
async fn a_once_tool_tells_what_became_of_a_call_in_doubt() {
    let call = ToolCall::new("1", "delete-file", "{}");
    let handle = ToolHandle::new(delete_file);
    let reconciled = handle.reconcile(&call, ToolContext::detached()).await;
    let happened = Reconciled::Happened(ToolOutput::text("delete-file was deleted"));
    assert_eq!(reconciled, happened);
    let unknown = ToolHandle::new(parse)
        .reconcile(&call, ToolContext::detached())
        .await;
    assert_eq!(unknown, Reconciled::Unknown);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greeting {
    /// Whom to greet.
    name: String,
}

#[tokio::test]
async fn a_closure_becomes_a_tool_that_keeps_what_it_captures() {
    let greeting = Arc::new(String::from("Hello"));
    let definition = ToolDefinition::new("greet", "Greets.").timeout(Duration::from_secs(1));
    let greet = tool_fn(definition, move |who: Greeting| {
        let greeting = greeting.clone();
        async move { Ok(format!("{greeting}, {}!", who.name)) }
    });
    let properties = &greet.definition().parameters["properties"];
    assert_eq!(properties["name"]["description"], "Whom to greet.");
    assert_eq!(greet.definition().timeout_ms, Some(1000));
    assert_eq!(
        run(greet.clone(), json!({"name": "Ada"})).await.unwrap(),
        "Hello, Ada!"
    );
    assert!(
        run(greet, json!({}))
            .await
            .unwrap_err()
            .contains("missing field `name`")
    );
}

#[tokio::test]
async fn a_closure_with_context_makes_its_own_output() {
    let definition = ToolDefinition::new("file", "Gives a file.");
    let file = tool_fn_with_context(definition, |who: Greeting, cx| async move {
        let source = DataSource::Base64(String::from("aGk="));
        let (media_type, name) = (String::from("text/plain"), Some(who.name));
        let data = Data {
            media_type,
            name,
            source,
        };
        Ok(ToolOutput::text(cx.agent()).attach(data))
    });
    let arguments = Arguments::from(json!({"name": "a.txt"}));
    let output = file.call(arguments, ToolContext::detached()).await.unwrap();
    assert_eq!(output.attachments[0].name.as_deref(), Some("a.txt"));
}

#[tokio::test]
async fn the_calculator_gives_a_number_or_says_why_not() {
    assert_eq!(Calculator.definition().effect, Effect::Read);
    let sum = run(Calculator, json!({"expression": "17% of 2340"})).await;
    assert_eq!(sum.unwrap(), "397.8");
    let nonsense = run(Calculator, json!({"expression": "2340 17"})).await;
    assert!(nonsense.unwrap_err().contains("at character 6"));
}

/// Repeats a word.
#[tool(effect = "read")]
fn repeat(word: String, #[default(2)] times: u32, share: f64) -> String {
    format!("{} {share}", word.repeat(times as usize))
}

#[tokio::test]
async fn a_whole_number_counts_as_an_integer_and_null_as_left_out() {
    let said = run(repeat, json!({"word": "ab", "times": 3.0, "share": 1}));
    assert_eq!(said.await.unwrap(), "ababab 1");
    let said = run(repeat, json!({"word": "ab", "times": 3e0, "share": 2.5}));
    assert_eq!(said.await.unwrap(), "ababab 2.5");
    let said = run(repeat, json!({"word": "ab", "times": null, "share": 1.0}));
    assert_eq!(said.await.unwrap(), "abab 1");
    let said = run(repeat, json!({"word": "ab", "times": 2.5, "share": 1}));
    assert!(said.await.unwrap_err().contains("2.5"));
    let said = run(repeat, json!({"word": "ab", "times": -1.0, "share": 1}));
    assert!(said.await.unwrap_err().contains("-1"));
}
