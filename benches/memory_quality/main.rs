//! How well agents remember: 200 conversations of 20 users with facts that change, are contradicted and expire, then
//! 300 questions with known answers. A question is answered right where what is recalled for it has the answer and
//! nothing outdated; where a fact is no longer so, where nothing of it is recalled.
//!
//!     cargo bench --features full --bench memory_quality
//!
//! Everything is made by a script: the conversations, and the model, which takes facts out of what is said as a model
//! that makes no mistakes would. So what is measured is the memory and not a model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs
)]

mod script;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use ghostlight::{
    contract::{StoreHandle, SystemClock},
    memory::{Memory, MemoryQuery, StoredMemory},
    prelude::*,
    run::{Registry, Team},
    vocabulary::{Message, Part, Scope, SessionId},
};
use serde_json::{Value, json};

use crate::script::{Meaning, Script, script};

/// What a person said, without what was recalled.
fn words(said: &Message) -> &str {
    said.parts
        .first()
        .and_then(Part::as_text)
        .unwrap_or_default()
}

/// About how many tokens.
fn tokens(text: &str) -> usize {
    text.chars().count().div_ceil(4)
}

/// Answers, and takes facts out of what is said. With `piles_up` it does not tell which fact changed or ended.
fn model(meanings: Arc<BTreeMap<String, Meaning>>, piles_up: bool) -> ScriptedModel {
    ScriptedModel::from_fn(move |request, _| {
        let asked = request
            .conversation
            .last()
            .map(|said| words(&said).to_owned())
            .unwrap_or_default();
        if !asked.starts_with("Look back") {
            return Ok(ModelResponse::text("All right."));
        }
        let said = asked
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("User: "))
            .unwrap_or_default();
        let known = |fact: &str| {
            let line = asked
                .lines()
                .find(|line| line.starts_with("- mem-") && line.contains(fact))?;
            line[2..].split(':').next().map(str::to_owned)
        };
        let mut look = json!({ "facts": [], "no_longer": [] });
        if let Some(meaning) = meanings.get(said) {
            let before = meaning.before.as_deref().and_then(known);
            match &meaning.fact {
                Some(content) if piles_up => look["facts"] = json!([{ "content": content }]),
                Some(content) => {
                    look["facts"] = json!([{ "about": meaning.about, "content": content, "replaces": before,
                        "expires_in_days": meaning.days }]);
                }
                None if piles_up => {}
                None => look["no_longer"] = json!(Vec::from_iter(before)),
            }
        }
        Ok(ModelResponse::text(look.to_string()))
    })
}

/// A kind of memory that is on.
struct Setting {
    name: &'static str,
    memory: Value,
    piles_up: bool,
    /// Whether turns are searched as the tool does it, in the place of what is recalled.
    searches_turns: bool,
}

fn team(memory: &Value) -> Team {
    let file =
        json!({ "agent": { "name": "desk", "behavior": "function_calling", "memory": memory } });
    let file = ghostlight::config::parse(file.to_string(), "team.yaml").unwrap();
    Team {
        spec: file.into_spec(),
        registry: Registry::new(),
    }
}

async fn started(
    (store, clock): (&InMemoryStore, &SystemClock),
    memory: &Value,
    model: &ScriptedModel,
) -> System {
    let system = System::builder(store.another_process())
        .clock(clock.clone())
        .registry(ghostlight::builtin())
        .model("default", model.clone())
        .team(team(memory));
    system.start().await.unwrap()
}

async fn say(system: &System, session: &str, user: &str, text: &str) {
    let turn = Turn::text(text).owner(user);
    let run = system.session("desk", session).send(turn).await.unwrap();
    run.outcome().await.unwrap();
}

/// What stands in a request beside what was said.
fn recalled(request: &ModelRequest) -> String {
    let said = request.conversation.last().unwrap();
    let texts = said.parts.iter().skip(1).filter_map(Part::as_text);
    texts.collect::<Vec<_>>().join("\n")
}

/// What was recalled without what is told as having been so before.
fn as_it_is(recalled: &str) -> String {
    let mut parts = recalled.split("(before: ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    text
}

async fn measure(script: &Script, setting: &Setting) {
    let begun = Instant::now();
    let (store, clock) = (InMemoryStore::new(), SystemClock::new());
    let model = model(Arc::new(script.meanings.clone()), setting.piles_up);
    let system = started((&store, &clock), &setting.memory, &model).await;
    for (session, said) in script.sessions.iter().enumerate() {
        for (user, turns) in said {
            for turn in turns {
                say(&system, &format!("{user} {session}"), user, turn).await;
            }
        }
        // Two days pass.
        tokio::time::advance(Duration::from_secs(2 * 86_400)).await;
    }
    let requests = model.requests();
    let looks = requests
        .iter()
        .map(|request| words(&request.conversation.last().unwrap()).to_owned());
    let spent: usize = looks
        .filter(|asked| asked.starts_with("Look back"))
        .map(|asked| tokens(&asked))
        .sum();
    let turns: usize = script
        .sessions
        .iter()
        .flatten()
        .map(|(_, turns)| turns.len())
        .sum();
    system.stop().await.unwrap();

    // What is asked is not looked back at.
    let mut memory = setting.memory.clone();
    memory["extract"] = json!(false);
    memory["conversations"] = json!(false);
    let asking = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("All right.")));
    let system = started((&store, &clock), &memory, &asking).await;
    let mut right: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut shown = 0;
    for (number, question) in script.questions.iter().enumerate() {
        let found = if setting.searches_turns {
            let session = SessionId {
                team: "desk".into(),
                key: "s".into(),
            };
            let store = StoreHandle::new(store.clone());
            let scope = Scope::User(question.user.into());
            let stored = StoredMemory::new(store, Memory::new("memory"), &session, &scope).unwrap();
            let query = MemoryQuery::new(question.text.as_str());
            let hits = stored.conversations(&query).await.unwrap();
            let texts: Vec<String> = hits.into_iter().map(|hit| hit.item.content).collect();
            texts.join("\n")
        } else {
            say(
                &system,
                &format!("question {number}"),
                question.user,
                &question.text,
            )
            .await;
            recalled(&asking.requests().pop().unwrap())
        };
        shown += tokens(&found);
        let found = as_it_is(&found);
        let has_answer = question
            .answer
            .as_ref()
            .is_none_or(|answer| found.contains(answer.as_str()));
        let is_right = has_answer
            && !question
                .outdated
                .iter()
                .any(|value| found.contains(value.as_str()));
        for kind in ["all", question.kind] {
            let (count, of) = right.entry(kind).or_default();
            *count += usize::from(is_right);
            *of += 1;
        }
    }
    system.stop().await.unwrap();
    let share = |kind: &str| {
        let (count, of) = right.get(kind).copied().unwrap_or_default();
        format!("{:5.1} %", 100.0 * count as f64 / of.max(1) as f64)
    };
    println!(
        "{:34} {} | {} | {} | {} | {} | {:4.0} | {:4.0} | {:.1} s",
        setting.name,
        share("all"),
        share("as first said"),
        share("changed"),
        share("contradicted"),
        share("expired"),
        shown as f64 / script.questions.len() as f64,
        spent as f64 / turns as f64,
        begun.elapsed().as_secs_f64(),
    );
}

fn main() {
    let script = script();
    let turns: usize = script
        .sessions
        .iter()
        .flatten()
        .map(|(_, turns)| turns.len())
        .sum();
    let sessions: usize = script.sessions.iter().map(Vec::len).sum();
    let kinds: BTreeSet<&str> = script
        .questions
        .iter()
        .map(|question| question.kind)
        .collect();
    println!(
        "{sessions} conversations, {turns} turns, {} questions",
        script.questions.len()
    );
    for kind in kinds {
        let count = script
            .questions
            .iter()
            .filter(|question| question.kind == kind)
            .count();
        println!("  {count} {kind}");
    }
    println!(
        "answered right: all | as first said | changed | contradicted | expired | tokens a question | tokens a turn"
    );
    let of = |name, memory: Value| Setting {
        name,
        memory,
        piles_up: false,
        searches_turns: false,
    };
    let facts =
        |embedder: Option<Value>| json!({ "extract": true, "tool": false, "embedder": embedder });
    let settings = [
        of("nothing", json!({ "recall": 0, "tool": false })),
        Setting {
            searches_turns: true,
            ..of(
                "what was said, searched",
                json!({ "conversations": true, "recall": 0, "tool": false }),
            )
        },
        of("tasks", json!({ "learn": true, "tool": false })),
        Setting {
            piles_up: true,
            ..of("facts, piled up, by words", facts(None))
        },
        of("facts, by words", facts(None)),
        of(
            "facts and tasks, by words",
            json!({ "extract": true, "learn": true, "tool": false }),
        ),
        of(
            "facts, by words, 6 recalled",
            json!({ "extract": true, "tool": false, "recall": 6 }),
        ),
        of(
            "facts, lexical vectors",
            facts(Some(json!({ "provider": "lexical" }))),
        ),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    for setting in &settings {
        runtime.block_on(measure(&script, setting));
    }
}
