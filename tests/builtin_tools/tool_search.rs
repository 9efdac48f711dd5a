//! Many tools, of which a request holds those that fit.

use ghostlight::{
    contract::ToolHandle,
    policies::ToolSearch,
    prelude::*,
    vocabulary::{ToolCall, ToolDefinition, ToolFilter},
};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn tool(name: String, about: String) -> ToolHandle {
    let definition = ToolDefinition::new(name.clone(), about).effect(Effect::Read);
    tool_fn(definition, move |_: Nothing| {
        let said = format!("{name} was done");
        async move { Ok(said) }
    })
}

/// A thousand tools over things of which each has its own name.
fn thousand() -> Vec<ToolHandle> {
    let mut tools: Vec<ToolHandle> = (0..997)
        .map(|number| {
            tool(
                format!("shelf_{number}"),
                format!("Counts the boxes of shelf number{number}."),
            )
        })
        .collect();
    tools.push(tool(
        "invoice_send".into(),
        "Sends an invoice to a customer.".into(),
    ));
    tools.push(tool(
        "weather_now".into(),
        "Tells the weather of a city.".into(),
    ));
    tools.push(tool("help".into(), "Explains all of this.".into()));
    tools
}

fn names(request: &ModelRequest) -> Vec<String> {
    request.tools.iter().map(|tool| tool.name.clone()).collect()
}

async fn ask(search: ToolSearch, tools: Vec<ToolHandle>) -> (String, Vec<Vec<String>>) {
    let model = ScriptedModel::from_fn(|request, number| {
        Ok(match number {
            0 => ModelResponse::tool_calls([ToolCall::new(
                "1",
                "search_tools",
                json!({ "query": "what is the weather like" }),
            )]),
            1 => ModelResponse::tool_calls([ToolCall::new("2", "weather_now", json!({}))]),
            _ => ModelResponse::text(
                request
                    .conversation
                    .last()
                    .unwrap()
                    .tool_results()
                    .next()
                    .unwrap()
                    .text
                    .clone(),
            ),
        })
    });
    let desk = Agent::new("desk")
        .model(model.clone())
        .toolset("shelves", tools)
        .policy("tool_search", move || search.clone());
    let answer = desk.run("Send the invoice to customer 7.").await.unwrap();
    (answer.text, model.requests().iter().map(names).collect())
}

#[tokio::test]
async fn of_a_thousand_tools_a_request_holds_those_that_fit_and_those_that_were_found() {
    let mut search = ToolSearch::default();
    search.always = Some(ToolFilter::names(["help"]));
    let (answer, requests) = ask(search, thousand()).await;
    assert_eq!(answer, "weather_now was done");
    let has = |number: usize, name: &str| requests[number].iter().any(|found| found == name);
    assert!(
        requests.iter().all(|names| names.len() <= 20),
        "{requests:?}"
    );
    for (number, request) in requests.iter().enumerate() {
        assert!(
            has(number, "search_tools") && has(number, "help"),
            "{request:?}"
        );
    }
    assert!(
        has(0, "invoice_send") && !has(0, "weather_now"),
        "{:?}",
        requests[0]
    );
    assert!(
        has(1, "invoice_send") && has(1, "weather_now"),
        "{:?}",
        requests[1]
    );
}

#[tokio::test]
async fn a_few_tools_are_all_offered() {
    let few: Vec<ToolHandle> = thousand().split_off(990);
    let (_, requests) = ask(ToolSearch::default(), few).await;
    assert!(
        requests.iter().all(|names| names.len() == 10),
        "{requests:?}"
    );
}

#[test]
fn a_team_file_sets_it_up_and_wrong_settings_are_refused() {
    let resolve = |settings: &str| {
        let text = format!(
            "models: {{ default: {{ provider: offline }} }}\n\
             agent: {{ name: desk, policies: [{{ name: tool_search, {settings} }}] }}"
        );
        let team = ghostlight::config::parse(text, "team.yaml").unwrap();
        team.resolve(ghostlight::builtin()).map(drop)
    };
    resolve("above: 10, found: 3, always: { any: [help, 'read_*'] }").unwrap();
    for wrong in ["found: 0", "found: 9, most: 3", "fond: 1"] {
        assert!(resolve(wrong).is_err(), "{wrong}");
    }
}
