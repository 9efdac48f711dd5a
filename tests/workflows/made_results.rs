//! The results of agents that a model made: their status, their place in memory, and a second try.

use ghostlight_actors::{
    contract::RunFilter,
    run::operations::{MadeResult, MadeStatus},
    testing::ScriptedModel,
    vocabulary::{Effect, ErrorKind, ToolDefinition},
};
use serde_json::{Value, json};

use crate::{
    making::{asked, boss, run, text, with},
    patterns::acts,
};

#[tokio::test(start_paused = true)]
async fn an_agent_that_used_none_of_its_tools_gets_its_task_again_as_often_as_is_allowed() {
    let look = ghostlight::tools::tool_fn(
        ToolDefinition::new("look", "looks").effect(Effect::Read),
        |_: Value| async move { Ok("seen") },
    );
    let model = ScriptedModel::from_reply_fn(|request, _| {
        let (task, results) = asked(request);
        let make = |name: &str, tools: &[&str]| {
            let call = json!({"name": name, "goal": name, "tools": tools});
            ("create_agent", call)
        };
        match (task.as_str(), results.len()) {
            ("go", 0) => acts([
                make("willing", &["look"]),
                make("stubborn", &["look"]),
                make("bare", &[]),
            ]),
            (task, 0) if task.starts_with("willing\n") => acts([("look", json!({}))]),
            (_, 0) => "a guess".into(),
            (_, _) => {
                let texts: Vec<&str> = results.iter().map(|(_, text)| text.as_str()).collect();
                texts.join(" | ").into()
            }
        }
    });
    let create = with(|create| create.retries = 2);
    let (system, run) = run(model, boss(create).tool(look)).await;
    let said = text(&run).await;
    assert_eq!(
        said,
        "seen | a guess\n\n[It called none of its tools.] | a guess"
    );
    let kept = system
        .store()
        .scope(format!("run:{}", run.id()))
        .await
        .unwrap();
    let status = |name: &str| {
        let key = format!("agent:{name}");
        let (_, value) = kept.iter().find(|(found, _)| *found == key).unwrap();
        let made: MadeResult = serde_json::from_value(value.value.clone()).unwrap();
        made.status
    };
    assert_eq!(status("willing"), MadeStatus::VerifiedCorrected);
    assert_eq!(status("stubborn"), MadeStatus::NoToolUsed);
    let rows = system.runs(RunFilter::default()).await.unwrap();
    let made = |name: &str| rows.iter().filter(|row| row.agent == name).count();
    assert_eq!((made("willing"), made("stubborn"), made("bare")), (2, 3, 1));
}

#[tokio::test(start_paused = true)]
async fn what_made_agents_came_to_is_kept_for_their_tree() {
    let look = ghostlight::tools::tool_fn(
        ToolDefinition::new("look", "looks").effect(Effect::Read),
        |_: Value| async move { Ok("seen") },
    );
    let make = |name: &str, more: Value| {
        let mut call = json!({"name": name, "goal": name, "tools": ["look"]});
        for (key, value) in more.as_object().unwrap() {
            call[key] = value.clone();
        }
        ("create_agent", call)
    };
    let model = ScriptedModel::from_reply_fn(move |request, _| {
        let (task, results) = asked(request);
        let looks = || acts([("look", json!({}))]);
        match (task.as_str(), results.len()) {
            ("go", 0) => acts([
                make("looked", json!({})),
                make("guessed", json!({})),
                make("bound", json!({"max_model_calls": 1})),
                make("broken", json!({})),
                make("listed", json!({})),
            ]),
            ("go", _) => {
                let texts: Vec<&str> = results.iter().map(|(_, text)| text.as_str()).collect();
                texts.join(" | ").into()
            }
            ("looked", 0) | ("bound", 0) => looks(),
            ("broken", _) => {
                ghostlight_actors::contract::ModelError::new(ErrorKind::Denied, "out of order")
                    .into()
            }
            ("listed", 0) => looks(),
            ("listed", _) => r#"["lamp", "chair"]"#.into(),
            (task, _) => format!("did {task}").into(),
        }
    });
    let create = with(|create| create.agents = 9);
    let (system, run) = run(model, boss(create).tool(look)).await;
    let said = text(&run).await;
    let told: Vec<&str> = said.split(" | ").collect();
    assert_eq!(told[0], "did looked");
    assert_eq!(told[1], "did guessed\n\n[It called none of its tools.]");
    assert!(told[2].contains("Stopped before the end"), "{said}");
    let store = system.store();
    let kept = store.scope(format!("run:{}", run.id())).await.unwrap();
    let kept: Vec<(String, MadeStatus, String, Option<Value>)> = kept
        .into_iter()
        .map(|(key, value)| {
            let made: MadeResult = serde_json::from_value(value.value).unwrap();
            (key, made.status, made.result, made.output)
        })
        .collect();
    let of = |name: &str| {
        let key = format!("agent:{name}");
        kept.iter().find(|(found, ..)| *found == key).unwrap()
    };
    assert_eq!(kept.len(), 5, "{kept:?}");
    assert_eq!(of("listed").3, Some(json!(["lamp", "chair"])));
    assert_eq!(of("looked").3, None);
    for (name, status) in [
        ("looked", MadeStatus::Success),
        ("guessed", MadeStatus::NoToolUsed),
        ("bound", MadeStatus::Partial),
        ("broken", MadeStatus::Failed),
    ] {
        assert_eq!(of(name).1, status, "{kept:?}");
    }
    assert_eq!(of("guessed").2, told[1]);
}
