//! A tree of goals leaves its trajectories in a memory, and later nodes are shown them for what they are.

use ghostlight::{
    contract::StoreHandle,
    memory::{Detail, Memory, MemoryKind, REACTION_TIME, Reaction, StoredMemory},
    prelude::*,
    testing::{CrashOptions, Scenario, crash_everywhere},
    vocabulary::{Role, Scope, SessionId, ToolCall},
};
use serde_json::{Value, json};

use crate::stage::{breaks, team_of};

fn act(name: &str, arguments: Value) -> ModelResponse {
    ModelResponse::tool_calls([ToolCall::new(format!("{name}-call"), name, arguments)])
}

/// The mug is not in the cupboard, but in the dishwasher.
fn household() -> ScriptedModel {
    ScriptedModel::from_fn(|request, _| {
        let messages = request.conversation.messages();
        let spoken = messages.iter().filter(|said| said.role == Role::Assistant);
        let goal = crate::stage::words(&messages[0]);
        Ok(match (goal, spoken.count()) {
            ("bring a mug", _) => act(
                "expand",
                json!({ "flow": "fallback", "subgoals": ["take the mug from the cupboard", "take the mug from the dishwasher"] }),
            ),
            ("take the mug from the cupboard", 0) => act("breaks", json!({})),
            ("take the mug from the cupboard", _) => {
                act("fail", json!({ "reason": "no mug is there" }))
            }
            _ => act("done", json!({ "result": "you hold the mug" })),
        })
    })
}

fn tree() -> Value {
    json!({ "name": "desk", "behavior": "reactree", "tools": ["breaks"], "memory": { "episodes": true, "tool": false } })
}

/// What the node that works on the dishwasher was told, when it was asked last.
fn told(model: &ScriptedModel) -> String {
    let requests = model.requests();
    let mut nodes = requests.iter().rev();
    let node = nodes.find(|request| {
        let said = request.conversation.messages();
        crate::stage::words(&said[0]).ends_with("dishwasher")
    });
    node.unwrap().instructions.to_string()
}

#[tokio::test(start_paused = true)]
async fn nodes_leave_whole_trajectories_and_are_shown_those_of_goals_like_theirs_with_what_people_said()
 {
    let (store, model) = (InMemoryStore::new(), household());
    let system = System::builder(store.clone())
        .registry(ghostlight::builtin())
        .model("default", model.clone())
        .tool(breaks)
        .team(team_of(&tree()))
        .start()
        .await
        .unwrap();
    let ask = async |session: &str, owner: &str| {
        let turn = Turn::text("bring a mug").owner(owner);
        let run = system.session("desk", session).send(turn).await.unwrap();
        assert_eq!(run.outcome().await.unwrap().text(), "you hold the mug");
        run
    };
    let first = ask("one", "ada").await;
    // Of what was just done in the same run a later node is told too.
    assert!(told(&model).contains("FAILED"), "{}", told(&model));
    ask("two", "ada").await;
    let shown = told(&model);
    assert!(
        shown.contains("Goal: take the mug from the cupboard"),
        "{shown}"
    );
    assert!(
        shown.contains("breaks({}) → failed: the boiler is cold; fail("),
        "{shown}"
    );
    assert!(shown.contains("It came to: no mug is there"), "{shown}");
    assert!(
        shown.contains("Goal: take the mug from the dishwasher\n  It is NOT CONFIRMED"),
        "{shown}"
    );
    assert!(!shown.contains("succeeded"), "{shown}");

    // A person says that the first was good: all that it reached is proven.
    let session = SessionId {
        team: "desk".into(),
        key: "one".into(),
    };
    let hers = Scope::User("ada".into());
    let hers = StoredMemory::new(
        StoreHandle::new(store),
        Memory::new("memory"),
        &session,
        &hers,
    )
    .unwrap();
    let waiting = hers
        .sent(first.id(), "m1", "chat:ada", REACTION_TIME)
        .await
        .unwrap();
    assert_eq!(waiting, 1);
    hers.react(&Reaction::new("m1", "chat:ada", "👍"))
        .await
        .unwrap();
    ask("three", "ada").await;
    let shown = told(&model);
    assert!(
        shown.contains("Goal: take the mug from the dishwasher\n  It succeeded."),
        "{shown}"
    );

    // Each goal of each run is one episode; what was divided says so.
    let kept = hers.list().await.unwrap();
    let episodes: Vec<&str> = kept
        .iter()
        .filter(|item| item.kind == MemoryKind::Episodic && item.content == "bring a mug")
        .filter_map(|item| match &item.detail {
            Some(Detail::Episode(episode)) => Some(episode.status.in_words()),
            _ => None,
        })
        .collect();
    assert_eq!(episodes, ["was divided into sub-goals"; 3]);
    assert_eq!(kept.len(), 9);
    // It is hers: nobody else's node is shown any of it.
    ask("four", "bob").await;
    assert!(!told(&model).contains("succeeded"), "{}", told(&model));
    system.stop().await.unwrap();
}

/// Scenario 13 of the field's conformance list: `expand(sequence[a, expand(fallback[b, c])])`, and what is stored of it.
#[tokio::test(start_paused = true)]
async fn a_sequence_whose_fallback_recovers_leaves_an_episode_of_each_goal() {
    let model = ScriptedModel::from_fn(|request, _| {
        let messages = request.conversation.messages();
        let expand = |flow: &str, goals: [&str; 2]| {
            act("expand", json!({ "flow": flow, "subgoals": goals }))
        };
        let done = |result: &str| act("done", json!({ "result": result }));
        Ok(match crate::stage::words(&messages[0]) {
            "goal" => expand("sequence", ["a", "rest"]),
            "a" => done("a is done"),
            "rest" => expand("fallback", ["b", "c"]),
            "b" => act("fail", json!({ "reason": "b cannot be" })),
            _ => done("c is done"),
        })
    });
    let store = InMemoryStore::new();
    let system = System::builder(store.clone())
        .registry(ghostlight::builtin())
        .model("default", model)
        .tool(breaks)
        .team(team_of(&tree()))
        .start()
        .await
        .unwrap();
    let turn = Turn::text("goal").owner("ada");
    let run = system.session("desk", "one").send(turn).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.text(), "a: a is done\nrest: c is done");
    system.stop().await.unwrap();

    // As they are stored, read without the System that wrote them.
    let session = SessionId {
        team: "desk".into(),
        key: "one".into(),
    };
    let (handle, hers) = (
        StoreHandle::new(store.another_process()),
        Scope::User("ada".into()),
    );
    let stored = StoredMemory::new(handle, Memory::new("memory"), &session, &hers).unwrap();
    let kept = stored.list().await.unwrap();
    let mut episodes: Vec<(&str, &str)> = kept
        .iter()
        .filter_map(|item| match &item.detail {
            Some(Detail::Episode(episode)) => {
                Some((item.content.as_str(), episode.status.in_words()))
            }
            _ => None,
        })
        .collect();
    episodes.sort_unstable();
    let goals: Vec<&str> = episodes.iter().map(|(goal, _)| *goal).collect();
    assert_eq!(goals, ["a", "b", "c", "goal", "rest"], "{episodes:?}");
    let status = |goal: &str| episodes.iter().find(|(named, _)| *named == goal).unwrap().1;
    assert_eq!(status("goal"), "was divided into sub-goals");
    assert_eq!(status("rest"), "was divided into sub-goals");
    assert_eq!(status("a"), status("c"));
    assert_ne!(status("a"), status("b"), "{episodes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_step_of_a_plan_is_told_what_came_of_steps_like_it() {
    let model = ScriptedModel::from_fn(|request, _| {
        let asked = request.conversation.last().unwrap().content();
        Ok(ModelResponse::text(
            if asked.contains("Do this step of the plan now, and nothing else: weigh") {
                "FAILED: the scales are gone"
            } else if asked.contains("The plan cannot go on") {
                r#"{"steps": ["write the label"]}"#
            } else if request.instructions.contains("Make a plan") {
                r#"{"steps": ["weigh the parcel", "write the label"]}"#
            } else {
                "written"
            },
        ))
    });
    let agent = json!({ "name": "desk", "behavior": "plan_and_solve", "memory": { "episodes": true, "tool": false } });
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model.clone())
        .team(team_of(&agent))
        .start()
        .await
        .unwrap();
    for session in ["one", "two"] {
        crate::stage::say(&system, session, "ada", "send the parcel").await;
    }
    let requests = model.requests();
    let steps: Vec<String> = requests
        .iter()
        .map(|request| request.conversation.last().unwrap().content())
        .filter(|asked| asked.contains("nothing else: weigh"))
        .collect();
    assert_eq!(steps.len(), 2);
    assert!(
        !steps[0].contains("What came of steps like it"),
        "{}",
        steps[0]
    );
    assert!(
        steps[1].contains("Goal: weigh the parcel\n  It FAILED")
            && steps[1].contains("the scales are gone"),
        "{}",
        steps[1]
    );
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_tree_with_a_memory_comes_to_the_same_end_when_it_is_crashed_anywhere() {
    let scenario = Scenario::new("desk", |system, _| {
        system
            .registry(ghostlight::builtin())
            .model("default", household())
            .tool(breaks)
            .team(team_of(&tree()))
    });
    let report = crash_everywhere(&scenario.turn("bring a mug"), CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.crashes > 20, "{report}");
}
