//! A model looks back at finished runs: facts are brought up to date or ended, failures are learnt from, days are
//! summed up.

use std::{sync::Arc, time::Duration};

use ghostlight::{
    contract::StoreHandle,
    memory::{Detail, Memory, MemoryItem, MemoryKind, StoredMemory},
    prelude::*,
    vocabulary::{Scope, SessionId, ToolCall},
};
use serde_json::{Value, json};

use crate::stage::{breaks, recalled, say, team_of, words};

/// A model that answers what it is asked, and what it is asked about a finished run by this.
fn looking_back(answer: impl Fn(&str) -> Value + Send + Sync + 'static) -> ScriptedModel {
    ScriptedModel::from_fn(move |request, number| {
        let said = request.conversation.messages();
        let asked = said.iter().rev().find(|said| said.is_from_user());
        let asked = words(asked.unwrap()).to_owned();
        if asked.starts_with("Look back") || asked.starts_with("Below is") {
            assert!(request.tools.is_empty());
            return Ok(ModelResponse::text(answer(&asked).to_string()));
        }
        Ok(match asked.as_str() {
            "heat the office" => {
                let call = ToolCall::new(format!("c{number}"), "breaks", json!({}));
                ModelResponse::tool_calls([call])
            }
            asked => ModelResponse::text(format!("about {asked}")),
        })
    })
}

struct Office {
    system: System,
    store: InMemoryStore,
}

impl Office {
    async fn open(memory: Value, model: &ScriptedModel) -> Self {
        let store = InMemoryStore::new();
        let agent = json!({ "name": "desk", "behavior": "function_calling", "max_steps": 3, "tools": ["breaks"], "memory": memory });
        let system = System::builder(store.clone())
            .registry(ghostlight::builtin())
            .model("default", model.clone())
            .tool(breaks)
            .team(team_of(&agent))
            .start()
            .await
            .unwrap();
        Self { system, store }
    }

    async fn say(&self, text: &str) -> String {
        say(&self.system, text, "ada", text).await
    }

    async fn items(&self, kind: MemoryKind) -> Vec<MemoryItem> {
        let session = SessionId {
            team: "desk".into(),
            key: "s".into(),
        };
        let store = StoreHandle::new(self.store.clone());
        let hers = Scope::User("ada".into());
        let stored = StoredMemory::new(store, Memory::new("memory"), &session, &hers).unwrap();
        let mut items = stored.list().await.unwrap();
        items.retain(|item| item.kind == kind);
        items
    }
}

/// The id of the known fact whose line has this text, in a request for a look back.
fn id_of(asked: &str, text: &str) -> String {
    let line = asked
        .lines()
        .find(|line| line.starts_with("- mem-") && line.contains(text));
    let line = line.unwrap_or_else(|| panic!("{text:?} is not known in: {asked}"));
    line[2..].split(':').next().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn what_is_said_becomes_facts_that_are_brought_up_to_date_and_ended_and_never_piled_up() {
    let model = looking_back(|asked| {
        let said = asked.split("What was said").nth(1).unwrap();
        let fact = |about: &str, content: &str| json!({ "about": about, "content": content });
        if said.contains("moved to Rome") {
            // It is found by its id although it shares no word with what was said.
            let mut moved = fact("home", "Ada lives in Rome");
            moved["replaces"] = json!(id_of(asked, "Köln"));
            json!({ "facts": [moved], "no_longer": [] })
        } else if said.contains("live in Köln") {
            json!({ "facts": [fact("where Ada lives", "Ada lives in Köln"), fact("Ada's dog", "Ada has a dog, Rex")] })
        } else if said.contains("Rex ran away") {
            json!({ "facts": [], "no_longer": [id_of(asked, "Rex"), "mem-none"] })
        } else if said.contains("on leave") {
            let mut leave = fact("Ada's leave", "Ada is on leave");
            leave["expires_in_days"] = json!(7);
            json!({ "facts": [leave, fact("", " \u{200b} ")] })
        } else {
            json!({ "facts": [] })
        }
    });
    let office = Office::open(json!({ "extract": true, "recall": 5 }), &model).await;
    office.say("I live in Köln with my dog Rex").await;
    assert_eq!(office.items(MemoryKind::Semantic).await.len(), 2);
    office.say("I moved to Rome").await;
    office.say("Rex ran away").await;
    office.say("I am on leave for a week").await;
    let facts = office.items(MemoryKind::Semantic).await;
    assert_eq!(facts.len(), 3, "{facts:?}");
    let home = facts
        .iter()
        .find(|item| item.content.contains("Rome"))
        .unwrap();
    let Some(Detail::Fact { about, earlier }) = &home.detail else {
        panic!("{home:?}")
    };
    assert_eq!(
        (about.as_str(), earlier.as_slice()),
        ("where Ada lives", &["Ada lives in Köln".to_owned()][..])
    );
    // It says from which run it comes.
    let runs: std::collections::BTreeSet<_> = facts
        .iter()
        .map(|item| item.source.as_ref().unwrap().run)
        .collect();
    assert_eq!(runs.len(), 3);
    // What is recalled is what is so now.
    let shown_for = async |text: &str| {
        say(&office.system, &format!("ask {text}"), "ada", text).await;
        let requests = model.requests();
        let asked = requests
            .iter()
            .rev()
            .find(|request| words(request.conversation.messages().last().unwrap()) == text);
        crate::stage::recalled_in(asked.unwrap())
    };
    let shown = shown_for("Where does Ada live?").await;
    assert!(
        shown.contains("Ada lives in Rome (before: Ada lives in Köln)"),
        "{shown}"
    );
    assert!(
        shown_for("Is Ada on leave?")
            .await
            .contains("Ada is on leave")
    );
    assert!(!shown_for("Does Ada have a dog?").await.contains("Rex"));
    tokio::time::advance(Duration::from_secs(8 * 86_400)).await;
    assert!(
        !shown_for("Is Ada on leave?").await.contains("on leave\n"),
        "{}",
        recalled(&model)
    );
    office.system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn where_runs_are_reflected_on_a_failure_leaves_an_episode_and_a_success_none() {
    let model = looking_back(|asked| match asked.contains("FAILED") {
        true => json!({ "importance": 0.9, "lesson": "Light the boiler first" }),
        false => json!({ "importance": 0.1 }),
    });
    let office = Office::open(json!({ "reflect": true }), &model).await;
    office.say("good morning").await;
    office.say("heat the office").await;
    let episodes = office.items(MemoryKind::Episodic).await;
    assert_eq!(episodes.len(), 1, "{episodes:?}");
    let Some(Detail::Episode(failed)) = &episodes[0].detail else {
        panic!("{episodes:?}")
    };
    assert_eq!(failed.reflection.as_deref(), Some("Light the boiler first"));
    office.system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_rated_and_reflected_on_and_what_it_teaches_is_shown_in_the_next_try() {
    let model = looking_back(|asked| {
        if !asked.contains("FAILED") {
            return json!({ "importance": 0.05, "facts": [{ "about": "x", "content": "not asked for" }] });
        }
        json!({
            "importance": 0.9,
            "lesson": "The boiler was cold: light it before heating",
            "learnings": [{ "category": "mistakes", "content": "Heating before the boiler is lit" }],
        })
    });
    let office = Office::open(
        json!({ "reflect": true, "episodes": true, "learn": true }),
        &model,
    )
    .await;
    office.say("good morning").await;
    office.say("heat the office").await;
    let mut episodes = office.items(MemoryKind::Episodic).await;
    episodes.sort_by(|a, b| a.content.cmp(&b.content));
    assert_eq!(
        episodes
            .iter()
            .map(|item| item.importance)
            .collect::<Vec<_>>(),
        [0.05, 0.9]
    );
    let Some(Detail::Episode(failed)) = &episodes[1].detail else {
        panic!("{episodes:?}")
    };
    assert_eq!(
        failed.reflection.as_deref(),
        Some("The boiler was cold: light it before heating")
    );
    let learnt = office.items(MemoryKind::Learning).await;
    assert_eq!(learnt.len(), 1);
    // What was not asked for is not kept.
    assert!(office.items(MemoryKind::Semantic).await.is_empty());
    say(
        &office.system,
        "later",
        "ada",
        "heat the office: is the boiler lit?",
    )
    .await;
    let requests = model.requests();
    let asked = requests.iter().find(|request| {
        words(request.conversation.messages().last().unwrap())
            == "heat the office: is the boiler lit?"
    });
    let shown = crate::stage::recalled_in(asked.unwrap());
    assert!(
        shown.contains("What it taught: The boiler was cold"),
        "{shown}"
    );
    assert!(
        shown.contains("[M001] Heating before the boiler is lit"),
        "{shown}"
    );
    office.system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_day_is_summed_up_once_and_its_wisdom_is_recalled() {
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = asked.clone();
    let model = looking_back(move |asked| {
        assert!(asked.contains("Goal: task 3"), "{asked}");
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        json!({ "notes": ["Reports of the warehouse come late on Mondays", " "] })
    });
    let memory = json!({ "wisdom": true, "episodes": true, "recall": 5 });
    let office = Office::open(memory, &model).await;
    for number in 0..8 {
        office
            .say(&format!(
                "task {number} of the warehouse {}",
                "x".repeat(number)
            ))
            .await;
    }
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
    let notes = office.items(MemoryKind::Wisdom).await;
    assert_eq!(notes.len(), 1, "{notes:?}");
    say(&office.system, "later", "ada", "When do reports come?").await;
    assert!(
        recalled(&model).contains("Reports of the warehouse come late on Mondays"),
        "{}",
        recalled(&model)
    );
    office.system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_day_without_a_lesson_is_summed_up_once_too() {
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = asked.clone();
    let model = looking_back(move |_| {
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        json!({ "notes": [] })
    });
    let office = Office::open(json!({ "wisdom": true, "episodes": true }), &model).await;
    for number in 0..9 {
        office
            .say(&format!("task {number} {}", "x".repeat(number)))
            .await;
    }
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
    office.system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_said_in_any_conversation_of_a_user_is_found_by_the_tool_and_not_recalled_by_itself()
 {
    let model = crate::stage::obedient();
    let office = Office::open(json!({ "conversations": true }), &model).await;
    office.say("the code of the gate is 4711").await;
    office.say("the gate squeaks").await;
    say(&office.system, "bob", "bob", "my code is 1234").await;
    let search = json!({ "action": "search", "query": "code of the gate", "kind": "conversation" });
    let found = office.say(&search.to_string()).await;
    assert!(
        found.contains("They said: the code of the gate is 4711"),
        "{found}"
    );
    assert!(!found.contains("1234"), "{found}");
    say(
        &office.system,
        "other",
        "ada",
        "What is the code of the gate?",
    )
    .await;
    assert_eq!(recalled(&model), "");
    office.system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_model_that_answers_nonsense_or_fails_leaves_the_run_as_it_is() {
    for answer in [
        "no JSON",
        "{\"importance\": \"high\"}",
        "{\"facts\": [{\"content\": \"\"}], \"no_longer\": [\"\"]}",
    ] {
        let model = ScriptedModel::from_fn(move |request, _| {
            let asked = request.conversation.messages();
            let is_look = words(asked.last().unwrap()).starts_with("Look back");
            Ok(ModelResponse::text(if is_look {
                answer
            } else {
                "answered"
            }))
        });
        let office = Office::open(json!({ "extract": true, "reflect": true }), &model).await;
        assert_eq!(office.say("hello").await, "answered");
        assert!(office.items(MemoryKind::Semantic).await.is_empty());
        office.system.stop().await.unwrap();
    }
    let model = ScriptedModel::replies([ModelResponse::text("answered")]);
    let office = Office::open(json!({ "extract": true }), &model).await;
    assert_eq!(office.say("hello").await, "answered");
    office.system.stop().await.unwrap();
}
