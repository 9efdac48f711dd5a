//! An agent in a child process as a member of a team: `remote: { command: … }`, with `ghostlight protocol acp` as the child.

use std::{process::Command, time::Duration};

use ghostlight::{
    actor::{Run, SystemError},
    config,
    contract::RunStatus,
    prelude::*,
    run::Team,
};
use serde_json::{Value, json};

use crate::own_command::{ARGUMENTS, Desk};

/// The settings of a member whose agent is the desk's team, in a process of its own.
fn remote(desk: &Desk) -> Value {
    let team = desk.path("team.yaml");
    let words = ["ghostlight", "protocol", "acp", team.to_str().unwrap()];
    // The harness of the tests says something on standard output that is no message, which is passed over.
    json!({
        "command": [
            std::env::current_exe().unwrap(), "own_command::as_the_command", "--exact", "--quiet", "--nocapture",
        ],
        "env": {
            ARGUMENTS: json!(words).to_string(),
            "GHOSTLIGHT_STORE": desk.path("runs.db"),
            "XDG_CONFIG_HOME": desk.path("config"),
        },
        "cwd": desk.path(""),
    })
}

pub(crate) fn team(remote: Value) -> String {
    let agent = json!({ "name": "far", "description": "works elsewhere", "remote": remote });
    json!({ "agent": agent }).to_string()
}

pub(crate) async fn system(remote: Value) -> System {
    let file = config::parse(team(remote), "team.yaml").unwrap_or_else(|error| panic!("{error}"));
    let system = System::builder(InMemoryStore::new()).registry(ghostlight::builtin());
    let system = system.team(Team::new(file.into_spec()));
    system.start().await.unwrap()
}

pub(crate) async fn say(system: &System, session: &str) -> Run {
    system.session("far", session).send("go").await.unwrap()
}

#[track_caller]
pub(crate) fn failure(outcome: Result<Outcome, SystemError>) -> String {
    match outcome {
        Err(SystemError::Failed { error, .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Waits for what must come.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    for _ in 0..1_200 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} did not come");
}

/// Answers the next question, and tells what was asked.
pub(crate) async fn answered(run: &Run, answer: &str) -> String {
    until("a question", async || {
        !run.questions().await.unwrap().is_empty()
    })
    .await;
    let (_, operation, question) = run.questions().await.unwrap().pop().unwrap();
    run.answer(operation, json!(answer)).await.unwrap();
    question.prompt
}

#[test]
fn the_example_has_its_sums_calculated_by_the_team_of_another_file() {
    let desk = Desk::new("says", json!({}));
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/teams/office.yaml"
    );
    let home = desk.path("");
    let set = [
        ("GHOSTLIGHT", env!("CARGO_BIN_EXE_ghostlight")),
        // The store of the process is that of its user.
        ("HOME", home.to_str().unwrap()),
    ];
    let done = desk.shipped_with(&["run", file, "What is 17% of 2340?"], "", &set);
    let done = done.exits(0);
    assert!(done.out.contains("397.8"), "{done:?}");
    assert!(done.err.contains("helpdesk is asked by desk"), "{done:?}");
    let store = desk.path(".local/share/ghostlight/ghostlight.db");
    let words = [
        "runs",
        "--all",
        "--json",
        "--store",
        store.to_str().unwrap(),
    ];
    let there = desk.shipped(&words).exits(0).json();
    let is_done = |row: &Value| row["status"] == "answered" && row["team"] == "helpdesk";
    assert!(!there.is_empty() && there.iter().all(is_done), "{there:?}");
}

fn statuses(desk: &Desk) -> Vec<String> {
    let rows = desk.rows().into_iter();
    rows.map(|row| row["status"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn several_tasks_at_once_have_a_process_each_and_their_answers_are_the_members() {
    let desk = Desk::new("sleeps", json!({}));
    let system = system(remote(&desk)).await;
    let mut runs = Vec::new();
    for number in 0..6 {
        runs.push(say(&system, &format!("s{number}")).await);
    }
    for run in &runs {
        assert_eq!(run.outcome().await.unwrap().text(), "rested");
    }
    // The next turn of a session is of the same session there.
    let run = say(&system, "s0").await;
    assert_eq!(run.outcome().await.unwrap().text(), "rested");
    assert_eq!(statuses(&desk), ["answered"; 7]);
    let sessions = desk.shipped(&["session", "list", "--json"]).exits(0).json();
    assert_eq!(sessions.len(), 6, "{sessions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_asks_is_asked_here_and_the_answer_reaches_it() {
    for (kind, asked, answer, told) in [
        ("words", "What is your name?", "Ada", "answered \"Ada\""),
        ("choice", "Which colour?", "blue", "answered \"blue\""),
        ("approval", "Shall I send it?", "Allow", "answered true"),
        ("approval", "Shall I send it?", "Deny", "answered false"),
    ] {
        let desk = Desk::new("asks", json!({ "kind": kind }));
        let system = system(remote(&desk)).await;
        let run = say(&system, "s").await;
        let question = answered(&run, answer).await;
        assert!(question.contains(asked), "{question}");
        let outcome = run.outcome().await.unwrap();
        assert!(outcome.text().contains(told), "{outcome:?}");
        assert_eq!(statuses(&desk), ["answered"], "no prompt was said twice");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn its_failures_are_failures_and_say_how_the_process_ended() {
    let desk = Desk::new("fails", json!({}));
    let elsewhere = system(remote(&desk)).await;
    let told = failure(say(&elsewhere, "s").await.outcome().await);
    assert!(told.contains("far") && told.contains("no luck"), "{told}");
    // A member with a `url` and one with a `command` are different things.
    for (remote, why) in [
        (json!({ "command": ["/nowhere/at/all"] }), "does not start"),
        (
            json!({ "command": ["sh", "-c", "echo no paper >&2; exit 3"] }),
            "ended (exit status: 3), and said last: no paper",
        ),
        (
            // It answers, and ends at once.
            json!({ "command": ["sh", "-c", "read l; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":999}}'"] }),
            "speaks version 999",
        ),
        (
            // What it says is bounded, whatever it is.
            json!({ "command": ["sh", "-c", "head -c 40000000 /dev/zero; echo >&2 full"] }),
            "ended (exit status: 0)",
        ),
    ] {
        let system = system(remote).await;
        let told = failure(say(&system, "s").await.outcome().await);
        assert!(told.contains(why), "{told}");
    }
    for (remote, why) in [
        (json!({ "command": [] }), "name the program"),
        (json!({ "command": ["x"], "url": "http://x" }), "remove one"),
        (json!({ "command": ["x"], "task_timeout_s": 0 }), "above 0"),
        (
            json!({ "command": ["x"], "env": { "API_KEY": "abc" } }),
            "secret",
        ),
    ] {
        let told = match config::parse(team(remote), "team.yaml") {
            Err(error) => error.to_string(),
            Ok(file) => {
                let system = System::builder(InMemoryStore::new()).registry(ghostlight::builtin());
                let started = system.team(Team::new(file.into_spec())).start().await;
                started.unwrap_err().to_string()
            }
        };
        assert!(told.contains(why), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_and_the_time_limit_reach_it() {
    let desk = Desk::new("gated", json!({}));
    let elsewhere = system(remote(&desk)).await;
    let run = say(&elsewhere, "s").await;
    until("the gate", async || desk.firsts() == 1).await;
    run.cancel("enough").await.unwrap();
    run.quiet().await.unwrap();
    assert_eq!(run.status().await.unwrap().status, RunStatus::Cancelled);
    desk.until("its end", |desk| statuses(desk) == ["cancelled"]);

    // Also while a person is asked, when no process of it is there.
    let asking = Desk::new("asks", json!({}));
    let elsewhere = system(remote(&asking)).await;
    let run = say(&elsewhere, "s").await;
    until("a question", async || {
        !run.questions().await.unwrap().is_empty()
    })
    .await;
    run.cancel("enough").await.unwrap();
    run.quiet().await.unwrap();
    asking.until("its end", |desk| statuses(desk) == ["cancelled"]);

    let mut hasty = remote(&desk);
    hasty["task_timeout_s"] = json!(1.5);
    let hasty = system(hasty).await;
    let told = failure(say(&hasty, "s").await.outcome().await);
    assert!(told.contains("took longer than 1.5s"), "{told}");
    desk.until("its end", |desk| statuses(desk) == ["cancelled"; 2]);
}

/// The ids of a process's children.
#[cfg(target_os = "linux")]
fn children_of(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| {
        let told = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // The name of the program, in brackets, may hold anything.
        let fields = told.rsplit_once(") ").map(|(_, fields)| fields.to_owned());
        fields.is_some_and(|fields| fields.split(' ').nth(1) == Some(&parent.to_string()))
    })
    .collect()
}

fn kill(process: u32) {
    let killed = Command::new("kill")
        .args(["-KILL", &process.to_string()])
        .status();
    assert!(killed.unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn killed_with_its_child_it_goes_on_with_the_same_prompt_and_so_it_does_when_the_child_alone_is_killed()
 {
    let desk = Desk::new("gated", json!({}));
    desk.write("parent.yaml", &team(remote(&desk)));
    let parent = desk.path("parent.db");
    let parent = parent.to_str().unwrap();
    let words = ["run", "parent.yaml", "go", "--store", parent];
    let started = desk.start_shipped(&words);
    desk.until_at_the_gate();
    // The child alone: it is started again, and goes on with its run.
    let child = children_of(started.0.id());
    assert_eq!(child.len(), 1, "{child:?}");
    kill(child[0]);
    desk.until("another child", |_| {
        let now = children_of(started.0.id());
        now.len() == 1 && now != child
    });
    // The parent, whose child then ends by itself.
    started.signal("KILL");
    started.ends();
    desk.open_gate();
    let resumed = desk.shipped(&["resume", "--store", parent]).exits(0);
    assert!(resumed.out.contains("through the gate"), "{resumed:?}");
    assert_eq!(statuses(&desk), ["answered"], "no prompt was said twice");
    assert_eq!(desk.firsts(), 1, "the first step was done once");
}
