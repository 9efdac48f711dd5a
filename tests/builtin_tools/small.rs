//! The small tools, by their names in a team file: notes, and waiting.

use ghostlight::{
    definition::ApprovalRule,
    prelude::*,
    testing::{CrashOptions, Reply, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{Event, ToolCall, ToolStatus},
};
use serde_json::{Value, json};

const TEAM: &str = "models: { default: { provider: offline } }\n\
    agent: { name: keeper, tools: [write_note, read_note, find_notes, wait] }";

/// What these calls came to, one after the other, in one turn of a session.
async fn calls(system: &System, session: &str, calls: Vec<(&'static str, Value)>) -> Vec<String> {
    let run = system
        .session("keeper", session)
        .send(serde_json::to_string(&calls).unwrap())
        .await
        .unwrap();
    let outcome = run.outcome().await.unwrap();
    serde_json::from_str(outcome.text()).unwrap_or_else(|_| panic!("{outcome:?}"))
}

/// An agent that makes the calls that it is told, one after the other.
async fn told(cx: RunContext) -> Result<Outcome, AgentError> {
    let calls: Vec<(String, Value)> = serde_json::from_str(&cx.input().content()).unwrap();
    let mut said = Vec::new();
    for (place, (name, arguments)) in calls.into_iter().enumerate() {
        let call = ToolCall::new(place.to_string(), name, arguments);
        let result = cx.tools([call]).await?.remove(0);
        said.push(match result.status {
            ToolStatus::Success => result.text,
            _ => format!("failed: {}", result.text),
        });
    }
    Ok(Outcome::answer(serde_json::to_string(&said).unwrap()))
}

fn keeper() -> Agent {
    let tools = ["write_note", "read_note", "find_notes", "wait"].into_iter();
    tools.fold(Agent::from_fn("keeper", told), Agent::tool_named)
}

async fn system() -> System {
    System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .team(keeper().into_team().unwrap())
        .start()
        .await
        .unwrap()
}

#[test]
fn a_team_file_names_the_small_tools() {
    let team = ghostlight::config::parse(TEAM, "team.yaml").unwrap();
    let registry = team.resolve(ghostlight::builtin()).unwrap();
    let pinned = registry.pin(team.spec()).agent("keeper", None).unwrap();
    let names: Vec<&str> = pinned.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["write_note", "read_note", "find_notes", "wait"]);
}

#[tokio::test(start_paused = true)]
async fn notes_are_kept_for_later_turns_replaced_found_and_deleted() {
    let system = system().await;
    let first = vec![
        ("find_notes", json!({})),
        (
            "write_note",
            json!({"title": "Port", "text": "The server listens on 8080."}),
        ),
        (
            "write_note",
            json!({"title": "Colour", "text": "The user likes dark green."}),
        ),
        (
            "write_note",
            json!({"title": " Port ", "text": "The server listens on 9090."}),
        ),
    ];
    let said = calls(&system, "ada", first).await;
    assert_eq!(said[0], "There are no notes.");
    assert!(
        said[3].starts_with("The note \"Port\" is kept."),
        "{}",
        said[3]
    );
    let second = vec![
        (
            "find_notes",
            json!({"query": "on which port does the server listen"}),
        ),
        ("find_notes", json!({"query": "aardvark"})),
        ("read_note", json!({"title": "Port"})),
        ("write_note", json!({"title": "Port", "text": " "})),
        ("read_note", json!({"title": "Port"})),
        ("find_notes", json!({})),
        // Titles are no paths, and what is no note is none.
        ("read_note", json!({"title": "../../etc/passwd"})),
        ("write_note", json!({"title": "a\u{0}b", "text": "x"})),
        (
            "write_note",
            json!({"title": "long", "text": "x".repeat(20_001)}),
        ),
        (
            "write_note",
            json!({"title": "mine", "text": "x", "scope": "user"}),
        ),
    ];
    let said = calls(&system, "ada", second).await;
    assert_eq!(
        said[0],
        "1 of 2 notes:\n- Port: The server listens on 9090."
    );
    assert_eq!(said[1], "None of 2 notes fits \"aardvark\".");
    assert_eq!(said[2], "The server listens on 9090.");
    assert!(said[3].contains("is empty now"), "{}", said[3]);
    assert!(
        said[4].starts_with("failed: there is no note \"Port\""),
        "{}",
        said[4]
    );
    assert_eq!(said[5], "- Colour: The user likes dark green.");
    for refused in &said[6..] {
        assert!(refused.starts_with("failed: "), "{refused}");
    }
    // Another session has its own.
    let other = calls(&system, "bob", vec![("find_notes", json!({}))]).await;
    assert_eq!(other, ["There are no notes."]);
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn notes_have_kinds_by_which_they_are_counted_and_found() {
    let system = system().await;
    let write = |title: &str, kind: &str| {
        let note = json!({"title": title, "text": "about the port", "kind": kind});
        ("write_note", note)
    };
    let said = calls(
        &system,
        "ada",
        vec![
            write("Key", "blocker"),
            write("Port", "conclusion"),
            write("Call Bob", "action"),
            write("Port", "blocker"),
            ("write_note", json!({"title": "Rest", "text": "of no kind"})),
            ("find_notes", json!({})),
            ("find_notes", json!({"kind": "blocker"})),
            ("find_notes", json!({"kind": "action", "query": "port"})),
            ("find_notes", json!({"kind": "reference"})),
            write("Wrong", "poem"),
        ],
    )
    .await;
    assert!(
        said[5].starts_with(
            "4 notes (2 blocker, 1 action, 1 general):\n- [action] Call Bob: about the port\n"
        ),
        "{}",
        said[5]
    );
    assert_eq!(
        said[6],
        "2 of 4 notes (2 blocker, 1 action, 1 general):\n- [blocker] Key: about the port\n- [blocker] Port: about the port"
    );
    assert!(said[7].contains("\n- [action] Call Bob"), "{}", said[7]);
    assert!(said[8].contains("is of that kind"), "{}", said[8]);
    assert!(said[9].starts_with("failed: "), "{}", said[9]);
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_goes_on_where_it_was_in_whatever_life() {
    let scenario = Scenario::new("keeper", |builder, _| {
        builder
            .registry(ghostlight::builtin())
            .team(keeper().into_team().unwrap())
    })
    .turn(
        json!([["wait", {"seconds": 40}], ["write_note", {"title": "t", "text": "x"}]]).to_string(),
    );
    let report = crash_everywhere(&scenario, CrashOptions::default().again(1)).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(
        report.outcomes[0].contains("40 seconds have passed."),
        "{:?}",
        report.outcomes
    );
}

/// A wait is a call in parts, and what the engine keeps between them is for nobody to read.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_cancelled_was_interrupted_and_says_nothing_else() {
    let model = ScriptedModel::replies([
        ToolCall::new("w", "wait", json!({ "seconds": 3_600 })).into(),
        Reply::from("well then"),
    ]);
    let keeper = Agent::new("keeper").tool_named("wait");
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model.clone())
        .team(keeper.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let session = system.session("keeper", "s");
    let run = session.send("Wait.").await.unwrap();
    run.wait().await.unwrap();
    run.cancel("enough").await.unwrap();
    run.quiet().await.unwrap();
    let mut events = run.events();
    let mut results = Vec::new();
    while let Some(record) = events.next().await {
        let record = record.unwrap();
        let shown = record.event.to_string();
        assert!(!shown.contains("goes on once"), "{shown}");
        if let Event::ToolCalled { result, .. } = record.event {
            assert!(!result.text.contains("goes on once"), "{}", result.text);
            results.push(result.status);
        }
    }
    assert_eq!(results, [ToolStatus::Interrupted]);
    let next = session.send("What now?").await.unwrap();
    assert_eq!(next.outcome().await.unwrap().text(), "well then");
    let read = format!("{:?}", model.requests().last().unwrap().conversation);
    assert!(!read.contains("goes on once"), "{read}");
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_person_approved_is_made_however_its_numbers_are_written() {
    let keeper = keeper().approval("*", ApprovalRule::required());
    let keeper = keeper.tool_named("load_artifact");
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .team(keeper.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let asked = vec![
        ("wait", json!({ "seconds": 2.0 })),
        (
            "load_artifact",
            json!({ "name": "x", "version": 1.0, "from": null, "length": 9.0 }),
        ),
    ];
    let turn = serde_json::to_string(&asked).unwrap();
    let run = system.session("keeper", "s").send(turn).await.unwrap();
    for _ in 0..asked.len() {
        let operation = loop {
            match run.questions().await.unwrap().pop() {
                Some((_, operation, _)) => break operation,
                None => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            }
        };
        run.answer(operation, json!(true)).await.unwrap();
    }
    let said: Vec<String> = serde_json::from_str(run.outcome().await.unwrap().text()).unwrap();
    assert_eq!(said[0], "2 seconds have passed.");
    assert!(
        said[1].contains("there is no artifact \"x\" with a version 1"),
        "{said:?}"
    );
}
