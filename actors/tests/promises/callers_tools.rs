//! Tools of whoever says a turn: their calls are questions, whose answers are their results.

use ghostlight_actors::{
    actor::{Run, System},
    run::{Agent, RunContext},
    session::Turn,
    vocabulary::{Effect, Outcome, QuestionKind, ToolCall, ToolDefinition},
};
use serde_json::{Value, json};

use crate::stage::{Stage, outcome, text};

fn weather() -> ToolDefinition {
    let city = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    ToolDefinition::new("weather", "The weather of a city.").parameters(city)
}

/// Calls each of these tools with its arguments, all at once, and tells what it heard.
fn caller(calls: &'static [(&'static str, &'static str)]) -> Agent {
    Agent::from_fn("a", move |cx: RunContext| async move {
        let offered = cx.tools_offered();
        let names: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
        let mut heard = vec![names.join(",")];
        let calls = calls.iter().enumerate().map(|(number, (name, arguments))| {
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            ToolCall::new(number.to_string(), *name, arguments)
        });
        for result in cx.tools(calls).await? {
            heard.push(format!("{:?} {}", result.status, result.text));
        }
        Ok(Outcome::answer(heard.join("\n")))
    })
}

async fn begin(system: &System, turn: Turn) -> Run {
    let run = system.session("a", "s").send(turn).await.unwrap();
    run.wait().await.unwrap();
    run
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_its_caller_over_a_crash_and_the_answer_is_its_result() {
    let mut stage = Stage::new();
    let calls = &[
        ("weather", r#"{"city":"Oslo"}"#),
        ("weather", r#"{"city":"Bergen"}"#),
        ("weather", r#"{"town":"Oslo"}"#),
    ];
    let system = stage.start(caller(calls)).await;
    let run = begin(&system, Turn::text("go").tool(weather())).await;
    stage.crash(&system).await;
    let system = stage.start(caller(calls)).await;
    let run = system.run(run.id());
    run.wait().await.unwrap();
    let open = run.questions().await.unwrap();
    assert_eq!(
        open.len(),
        2,
        "arguments that do not fit reach nobody: {open:?}"
    );
    for ((asker, operation, question), answer) in open
        .iter()
        .zip([json!("sunny"), json!({ "error": "unknown" })])
    {
        assert_eq!(question.kind, QuestionKind::ToolResult);
        let call = system.run(*asker).unredacted(*operation).await.unwrap();
        assert_eq!(call.unwrap().name, "weather");
        run.answer(*operation, answer).await.unwrap();
    }
    let heard = text(&run).await;
    let heard: Vec<&str> = heard.lines().collect();
    assert_eq!(heard[..3], ["weather", "Success sunny", "Error unknown"]);
    assert!(
        heard[3].starts_with("Error The arguments do not fit"),
        "{heard:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_tool_of_a_caller_stands_for_one_of_an_agent_or_reaches_another_agent() {
    let stage = Stage::new();
    let calls = &[
        ("look", "{}"),
        ("transfer_to_b", "{}"),
        ("delegate_to_b", "{}"),
    ];
    let agent = caller(calls).tool(stage.tool("look", Effect::Read, 1));
    let system = stage.start(agent).await;
    let mut turn = Turn::text("go");
    for (name, _) in calls {
        turn = turn.tool(ToolDefinition::new(*name, "mine"));
    }
    let run = begin(&system, turn).await;
    let open = run.questions().await.unwrap();
    let asked: Vec<&str> = open
        .iter()
        .filter_map(|(.., question)| question.call.as_ref())
        .map(|call| call.name.as_str())
        .collect();
    assert_eq!(asked, ["transfer_to_b", "delegate_to_b"]);
    for (_, operation, _) in open {
        run.answer(operation, json!("mine")).await.unwrap();
    }
    let heard = text(&run).await;
    assert!(heard.ends_with("Success mine\nSuccess mine"), "{heard}");
    assert_eq!(stage.log.count("look"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_asks_no_caller_and_a_delegate_is_offered_nothing_of_it() {
    let stage = Stage::new();
    let system = stage
        .start(caller(&[("weather", r#"{"city":"Oslo"}"#)]))
        .await;
    let run = begin(&system, Turn::text("go").tool(weather()).dry_run()).await;
    assert!(text(&run).await.contains("Dry run"));
    let below = Agent::from_fn("b", |cx: RunContext| async move {
        Ok(Outcome::answer(cx.tools_offered().len().to_string()))
    });
    let above = Agent::from_fn("a", |cx: RunContext| async move {
        let below = cx.delegate("b", "go").await?;
        Ok(Outcome::answer(below.text))
    });
    let stage = Stage::new();
    let system = stage.start(above.agent(below)).await;
    let run = begin(&system, Turn::text("go").tool(weather())).await;
    assert_eq!(outcome(&run).await.text(), "0");
}
