//! Workflows: a graph of steps over a state, and goals that are divided under sequence and fallback (takes 1 s).
//!
//!     cargo run --example workflows
#![allow(clippy::print_stdout)]

use ghostlight::{
    builtin,
    definition::BehaviorSpec,
    prelude::*,
    testing::Reply,
    vocabulary::{Message, ToolCall, ToolStatus},
    workflows::{END, StateGraph},
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    draft().await?;
    fetch_mug().await?;
    Ok(())
}

#[derive(Clone, Default)]
struct Text {
    words: u32,
    objections: Vec<String>,
    drafts: u32,
}

/// A text is drafted, checked from two sides at once, and drafted again until both are content. The graph is checked before
/// it runs, can be drawn, and goes on after a crash in the node where it was.
async fn draft() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::new("draft")
        .node("draft", |cx: RunContext, mut text: Text| async move {
            // What is random in a run is drawn through its context, so that it is the same in replay.
            text.words = 80 + (cx.random().await? * 60.0) as u32 - 20 * text.drafts.min(3);
            text.drafts += 1;
            text.objections.clear();
            Ok(text)
        })
        .node("length", |_, mut text: Text| async move {
            if text.words > 100 {
                text.objections
                    .push(format!("{} words are too many", text.words));
            }
            Ok(text)
        })
        .node("style", |_, mut text: Text| async move {
            if text.drafts < 2 {
                text.objections
                    .push("a first draft is never good".to_owned());
            }
            Ok(text)
        })
        .node("judge", |cx: RunContext, text: Text| async move {
            cx.emit("objections", &text.objections);
            Ok(text)
        })
        .fork(
            "draft",
            ["length", "style"],
            "judge",
            |mut draft: Text, views| {
                draft.objections = views.into_iter().flat_map(|view| view.objections).collect();
                draft
            },
        )
        .edge("length", "judge")
        .edge("style", "judge")
        .route("judge", ["draft", END], |text| {
            let next = if text.objections.is_empty() {
                END
            } else {
                "draft"
            };
            next.to_owned()
        })
        .max_steps(40)
        .compile()?;
    println!("{}", graph.mermaid());

    let author = Agent::new("author").behavior(graph.into_behavior(
        |_| Text::default(),
        |text| format!("{} words after {} drafts", text.words, text.drafts),
    ));
    let system = System::builder(InMemoryStore::new())
        .team(author.into_team()?)
        .start()
        .await?;
    let run = system.session("author", "ada").send("Write.").await?;
    let mut events = run.events().recorded();
    while let Some(event) = events.next().await {
        println!("{}", event?);
    }
    system.stop().await?;
    Ok(())
}

/// Takes a thing out of a place, if it is there.
#[tool(effect = "read")]
fn take(thing: String, place: String) -> Result<String, ToolError> {
    if thing == "mug" && place == "dishwasher" {
        Ok("you hold the mug".to_owned())
    } else {
        Err(ToolError::new(format!(
            "there is no {thing} in the {place}"
        )))
    }
}

/// Puts what you hold somewhere.
#[tool(effect = "idempotent")]
fn put(place: String) -> String {
    format!("it is on the {place}")
}

fn call(name: &str, arguments: serde_json::Value) -> Reply {
    ToolCall::new(format!("{name}-call"), name, arguments).into()
}

/// What the model says next, by the first and the last thing that it reads.
fn household(request: &ModelRequest) -> Reply {
    let messages = request.conversation.messages();
    let content = |message: Option<&std::sync::Arc<Message>>| {
        message.map(|message| message.content()).unwrap_or_default()
    };
    let (first, last) = (content(messages.first()), content(messages.last()));
    let take = |place: &str| call("take", json!({ "thing": "mug", "place": place }));
    let result = messages
        .last()
        .and_then(|message| message.tool_results().next().cloned());
    let failed = result
        .as_ref()
        .is_some_and(|result| result.status != ToolStatus::Success);

    // The tree: each node has its goal as its first message.
    let tree = match (first.as_str(), &result) {
        ("find the mug", _) => Some(call(
            "expand",
            json!({"flow": "fallback", "subgoals": ["take it from the cupboard", "take it from the dishwasher"]}),
        )),
        ("take it from the cupboard", None) => Some(take("cupboard")),
        ("take it from the dishwasher", None) => Some(take("dishwasher")),
        ("put it on the table", None) => Some(call("put", json!({"place": "table"}))),
        (goal, Some(result)) if goal.starts_with("take") || goal.starts_with("put") => {
            let told = result.text.as_str();
            Some(if failed {
                call("fail", json!({ "reason": told }))
            } else {
                call("done", json!({ "result": told }))
            })
        }
        _ if request.tools.get("expand").is_some() => Some(call(
            "expand",
            json!({"flow": "sequence", "subgoals": ["find the mug", "put it on the table"]}),
        )),
        _ => None,
    };
    if let Some(reply) = tree {
        return reply;
    }
    // The plan: its steps are asked for one after the other.
    match result {
        Some(result) if failed => format!("FAILED: {}", result.text).into(),
        Some(result) => result.text.into(),
        None if last.contains("Do this step") && last.contains("cupboard") => take("cupboard"),
        None if last.contains("Do this step") => call("put", json!({"place": "table"})),
        None if last.contains("Now answer") => {
            "The mug was not in the cupboard; the task is not done.".into()
        }
        None => json!({"steps": ["take the mug from the cupboard", "put it on the table"]})
            .to_string()
            .into(),
    }
}

/// "Bring a mug to the table." The mug is not in the cupboard, where mugs are, but in the dishwasher. The plan has a step
/// that fails, and its answer says so. The tree divides the goal under a fallback: the first way fails, which is an outcome
/// like any other, and the second is tried. The model is a script, so that both are equally clever.
async fn fetch_mug() -> Result<(), ghostlight::Error> {
    for behavior in ["plan_and_solve", "reactree"] {
        let settings = match behavior {
            "plan_and_solve" => json!({"max_replans": 0}),
            _ => json!({}),
        };
        let robot = Agent::new("robot")
            .behavior(BehaviorSpec::new(behavior).settings(settings))
            .tool(take)
            .tool(put);
        let system = System::builder(InMemoryStore::new())
            .registry(builtin())
            .model(
                "default",
                ScriptedModel::from_reply_fn(|request, _| household(request)),
            )
            .team(robot.into_team()?)
            .start()
            .await?;
        let run = system
            .session("robot", "home")
            .send("Bring a mug to the table.")
            .await?;
        println!("--- {behavior}");
        let mut events = run.events().recorded();
        while let Some(event) = events.next().await {
            println!("{}", event?);
        }
        let is_done = run.outcome().await?.text().contains("it is on the table");
        assert_eq!(is_done, behavior == "reactree", "only the tree recovers");
        system.stop().await?;
    }
    Ok(())
}
