//! A shop of the tau2 benchmark: a stateful server that somebody else wrote, with orders that must not be changed twice.
//!
//! The model is scripted and the shop is real: an agent plays one of the benchmark's tasks, five changes among a
//! thousand orders, and the benchmark's own check judges the state that the shop is left in.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use ghostlight::{config, prelude::*, run::Team, vocabulary::ToolCall, vocabulary::ToolStatus};
use serde_json::{Value, json};

use crate::{interrupted, peer::Peer};

/// A customer returns parts of three orders and changes a fourth; the answer must name the tracking number of a fifth.
const TASK: &str = "104";
const QUESTION: &str = "I am lucas.brown9344@example.com. Return my bookshelves, jigsaw puzzles and the backpack, make \
                        the pending order red, send it to my home, and tell me how my cancelled order was tracked.";
/// The change in the middle of which the process is killed.
const STRUCK: &str = "modify_pending_order_items";
/// The folder of a process that is to be killed.
const SUBJECT: &str = "GHOSTLIGHT_TEST_MCP_SHOP";

/// The Python that has the benchmark; `None` where it is to be left out.
fn python() -> Option<PathBuf> {
    if std::env::var_os("GHOSTLIGHT_SKIP_MCP_PEERS").is_some_and(|skip| skip == "1") {
        println!("left out: GHOSTLIGHT_SKIP_MCP_PEERS=1");
        return None;
    }
    let peers = std::env::var_os("GHOSTLIGHT_MCP_PEERS");
    let peers = peers
        .expect("GHOSTLIGHT_MCP_PEERS names the folder into which ./test installs the benchmark");
    Some(Path::new(&peers).join("venv/bin/python"))
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_teams/shop.py")
}

/// What the benchmark prints when it is asked this.
fn benchmark(python: &Path, arguments: &[&str]) -> Value {
    let asked = Command::new(python)
        .arg(script())
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&asked.stderr);
    assert!(asked.status.success(), "{said}");
    serde_json::from_slice(&asked.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// The changes that the task asks for, in order.
fn gold(python: &Path) -> Vec<ToolCall> {
    let task = benchmark(python, &["task", TASK]);
    let actions = task["evaluation_criteria"]["actions"].as_array().unwrap();
    let call = |action: &Value| {
        let name = action["name"].as_str().unwrap();
        ToolCall::new("", name, action["arguments"].clone())
    };
    actions.iter().map(call).collect()
}

/// A call with its result.
struct Done {
    call: ToolCall,
    status: ToolStatus,
    /// What the shop says; nothing where the call has no known end.
    said: Value,
}

fn done(request: &ModelRequest) -> Vec<Done> {
    let messages = request.conversation.messages();
    let calls: Vec<&ToolCall> = messages
        .iter()
        .flat_map(|message| message.tool_calls())
        .collect();
    let results = messages.iter().flat_map(|message| message.tool_results());
    let done = results.map(|result| {
        let call = calls.iter().find(|call| call.id == result.call_id).unwrap();
        let text: Value = serde_json::from_str(&result.text).unwrap_or_default();
        Done {
            call: (*call).clone(),
            status: result.status,
            said: text["parsed_content"].clone(),
        }
    });
    done.collect()
}

/// Plays the task: finds the customer and the orders, makes each change once, and looks at the order of a change whose
/// end is unknown.
fn plays(gold: Vec<ToolCall>) -> ScriptedModel {
    ScriptedModel::from_fn(move |request, _| Ok(next(request, &gold)))
}

fn next(request: &ModelRequest, gold: &[ToolCall]) -> ModelResponse {
    let done = done(request);
    let ask = |place: usize, name: &str, arguments: Value| {
        ToolCall::new(format!("{}-{place}", done.len()), name, arguments)
    };
    let one = |name: &str, arguments: Value| ModelResponse::tool_calls([ask(0, name, arguments)]);
    let said = |name: &str| {
        let mut done = done.iter();
        done.find(|one| one.call.name == name).map(|one| &one.said)
    };
    let Some(user) = said("find_user_id_by_email") else {
        let email = json!({ "email": "lucas.brown9344@example.com" });
        return one("find_user_id_by_email", email);
    };
    let Some(details) = said("get_user_details") else {
        return one("get_user_details", json!({ "user_id": user }));
    };
    if said("get_order_details").is_none() {
        let orders = details["orders"].as_array().unwrap().iter().enumerate();
        return ModelResponse::tool_calls(
            orders.map(|(place, order)| {
                ask(place, "get_order_details", json!({ "order_id": order }))
            }),
        );
    }
    for call in gold {
        let arguments = call.arguments.value().unwrap();
        let is_it = |one: &&Done| {
            one.call.name == call.name && one.call.arguments.value().unwrap() == arguments
        };
        let Some(last) = done.iter().rfind(is_it) else {
            return one(&call.name, arguments.clone());
        };
        if last.status != ToolStatus::Unknown {
            continue;
        }
        // Whether it has happened is seen at the order.
        let after = done
            .iter()
            .rev()
            .take_while(|one| one.call.id != last.call.id);
        let order = json!({ "order_id": arguments["order_id"] });
        let Some(seen) = after.last() else {
            return one("get_order_details", order);
        };
        let has = |item: &Value| {
            let mut items = seen.said["items"].as_array().unwrap().iter();
            items.any(|one| one["item_id"] == *item)
        };
        if !arguments["new_item_ids"]
            .as_array()
            .unwrap()
            .iter()
            .all(has)
        {
            return one(&call.name, arguments.clone());
        }
    }
    let orders = done
        .iter()
        .filter(|one| one.call.name == "get_order_details");
    let cancelled = orders
        .map(|one| &one.said)
        .find(|order| order["status"] == "cancelled");
    let tracked = &cancelled.unwrap()["fulfillments"][0]["tracking_id"][0];
    ModelResponse::text(format!(
        "All is done. Your cancelled order was tracked as {tracked}."
    ))
}

fn team(python: &Path, folder: &Path) -> Team {
    let text = format!(
        "
mcp:
  shop:
    command: [{python}, {script}, serve, {folder}]
    effects: {{ 'get_*': read, 'find_*': read, '*': once }}
    only: {{ not: {{ any: [reset_state, get_call_log] }} }}
    pins: {folder}/pins.json
agent: {{ name: clerk, tools: [shop] }}
",
        python = python.display(),
        script = script().display(),
        folder = folder.display(),
    );
    let file = config::parse(text, "team.yaml").unwrap_or_else(|error| panic!("{error}"));
    Team::new(file.into_spec())
}

async fn system(python: &Path, folder: &Path, team: Team) -> System {
    let system = System::open(folder.join("store.db")).unwrap();
    let system = system.model("default", plays(gold(python))).team(team);
    system.start().await.unwrap()
}

/// What the benchmark says of the shop, and that each change was asked for once.
fn is_played(python: &Path, folder: &Path) {
    let judged = benchmark(python, &["judge", TASK, folder.to_str().unwrap()]);
    for (what, is) in [
        ("db_match", true),
        ("is_gold", true),
        ("is_untouched", false),
    ] {
        assert_eq!(judged[what], is, "{what} of {judged}");
    }
    assert_eq!(judged["failed"], 0, "{judged}");
    let calls = judged["calls"].as_array().unwrap().iter();
    let changes: Vec<&str> = calls
        .filter_map(Value::as_str)
        .filter(|call| !call.starts_with("get_") && !call.starts_with("find_"))
        .collect();
    let wanted = gold(python);
    let wanted: Vec<&str> = wanted.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(changes, wanted);
}

#[tokio::test]
async fn an_agent_plays_a_task_of_tau2_to_its_gold_end_state() {
    let Some(python) = python() else { return };
    let folder = Peer::new("shop", &[]).folder;
    let system = system(&python, &folder, team(&python, &folder)).await;
    let run = system.session("clerk", "one").send(QUESTION).await.unwrap();
    let answer = run.outcome().await.unwrap().text().to_owned();
    assert!(answer.contains("286422338955"), "{answer}");
    system.stop().await.unwrap();
    is_played(&python, &folder);
}

#[tokio::test]
async fn shop_of_the_kill() {
    let Some(folder) = std::env::var_os(SUBJECT).map(PathBuf::from) else {
        return;
    };
    let python = python().unwrap();
    let system = system(&python, &folder, team(&python, &folder)).await;
    let run = system.session("clerk", "one").send(QUESTION).await.unwrap();
    run.outcome().await.unwrap();
}

/// Whether the shop has carried out the change whose call it leaves unanswered.
fn has_struck(folder: &Path) -> bool {
    let Ok(files) = std::fs::read_dir(folder.join("state")) else {
        return false;
    };
    let mut states = files.filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
    states.any(|state| state.contains(&format!("\"name\": \"{STRUCK}\"")))
}

#[tokio::test]
async fn a_task_of_tau2_comes_to_its_gold_end_state_over_a_kill_and_no_change_is_made_twice() {
    let Some(python) = python() else { return };
    let peer = Peer::new("shop-killed", &[("stands_still", STRUCK)]);
    let folder = peer.folder;
    let subject = folder.clone();
    let killed = tokio::task::spawn_blocking(move || {
        let mut life = Command::new(std::env::current_exe().unwrap())
            .args(["shop::shop_of_the_kill", "--exact", "--nocapture"])
            .env(SUBJECT, &subject)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..3_000 {
            if has_struck(&subject) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(has_struck(&subject), "the change was never made");
        life.kill().unwrap();
        life.wait().unwrap();
    });
    killed.await.unwrap();
    std::fs::remove_file(folder.join("stands_still")).unwrap();

    let (run, team) = interrupted(&folder).await;
    let system = system(&python, &folder, team).await;
    let answer = system.run(run).outcome().await.unwrap().text().to_owned();
    assert!(answer.contains("286422338955"), "{answer}");
    system.stop().await.unwrap();
    is_played(&python, &folder);
}
