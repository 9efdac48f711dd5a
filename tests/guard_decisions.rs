//! What guards decide is told to whoever watches a run, and recorded.
#![allow(clippy::unwrap_used, missing_docs)]

use ghostlight::{
    actor::{Run, System, SystemBuilder},
    contract::{Store, Tool, ToolContext, ToolError, ToolOutput},
    interceptors::{
        Authorization, GUARDED, GuardAction, GuardDecision, GuardedPoint, PersonalAction,
        PersonalDataGuard, Sanitize, Validation,
    },
    run::{Agent, RunContext},
    session::Turn,
    testing::{CrashOptions, InMemoryStore, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{Arguments, Effect, Event, Message, Outcome, Scope, ToolCall, ToolDefinition},
};
use serde_json::json;

/// Says again what it is asked, and keeps it where it is told to.
struct Echo(&'static str);

impl Tool for Echo {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new(self.0, "says it again").effect(Effect::Idempotent)
    }

    async fn call(&self, asked: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let text = asked.value().unwrap()["text"].as_str().unwrap();
        let output = ToolOutput::text(text);
        Ok(match self.0 {
            "keep" => output.set(Scope::Session, "kept", &text)?,
            _ => output,
        })
    }
}

fn call(tool: &str, text: &str) -> ToolCall {
    ToolCall::new(text, tool, json!({ "text": text }))
}

/// Asks its model once, and calls its tools one after the other.
fn desk() -> Agent {
    let works = |cx: RunContext| async move {
        let answer = cx.model(cx.model_request(cx.conversation())).await?;
        for (tool, text) in [
            ("echo", "call +1 202-555-0143"),
            ("keep", "ada@example.org"),
            ("admin", "x"),
            ("echo", "the password"),
        ] {
            cx.tool(call(tool, text)).await?;
        }
        Ok(Outcome::answer(answer.content()))
    };
    let agent = Agent::from_fn("desk", works);
    agent
        .tool(Echo("echo"))
        .tool(Echo("keep"))
        .tool(Echo("admin"))
}

fn guarded(builder: SystemBuilder) -> SystemBuilder {
    let team = desk().into_team().unwrap();
    let team = team
        .intercept(PersonalDataGuard::new(PersonalAction::Mask))
        .intercept(Authorization::new().block(["admin"]))
        .intercept(Validation::new().block("password"))
        .intercept(Sanitize::new());
    let model = ScriptedModel::replies(["mail bob@home.org"; 9]);
    builder.model("default", model).team(team)
}

async fn start(store: impl Store) -> System {
    guarded(System::builder(store)).start().await.unwrap()
}

/// What guards decided, each as `guard at action: reason`.
async fn decided(run: &Run) -> Vec<String> {
    let events = run.events().so_far().await.unwrap().into_iter();
    let decisions = events.filter_map(|record| match record.event {
        Event::Custom { name, data } if name == GUARDED => Some(data),
        _ => None,
    });
    decisions
        .map(|data| {
            let told: GuardDecision = serde_json::from_value(data.clone()).unwrap();
            assert_eq!(
                told.action == GuardAction::Refused,
                data["action"] == "refused"
            );
            let (at, action) = (
                data["at"].as_str().unwrap(),
                data["action"].as_str().unwrap(),
            );
            format!("{} {at} {action}: {}", told.guard, told.reason)
        })
        .collect()
}

const DECIDED: [&str; 7] = [
    "personal_data input changed: 1 email",
    "sanitize input changed: messages with hidden or acting characters: 1",
    "personal_data output changed: 1 email",
    "personal_data results changed: 1 phone",
    "personal_data results changed: 1 email",
    "authorization arguments refused: the agent desk is not authorised to call admin",
    "validation arguments refused: the input matches a blocked pattern (number 1)",
];

const SAID: &str = "I am \u{1b}[2J ada@example.org";

#[tokio::test(start_paused = true)]
async fn what_guards_decide_is_told_live_and_the_same_later() {
    let store = InMemoryStore::new();
    let system = start(store.clone()).await;
    let run = system
        .session("desk", "s")
        .send(Turn::text(SAID))
        .await
        .unwrap();
    let mut events = run.events().recorded();
    let mut live = Vec::new();
    while let Some(record) = events.next().await {
        live.push(record.unwrap());
    }
    assert_eq!(decided(&run).await, DECIDED);
    let told = live
        .iter()
        .find(|record| record.event.name() == "custom")
        .unwrap();
    assert!(told.sequence.is_some() && told.position.is_some());
    system.stop().await.unwrap();
    let later = start(store.another_process()).await;
    let read = later
        .run(run.id())
        .events()
        .recorded()
        .so_far()
        .await
        .unwrap();
    assert_eq!(read, live);
}

#[tokio::test(start_paused = true)]
async fn what_guards_decide_is_told_once_wherever_the_process_dies() {
    let scenario = Scenario::new("desk", |builder, _log| guarded(builder)).turn(SAID);
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.crashes > 8, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_stays_in_the_conversation_is_changed_each_time_and_told_of_once() {
    let works = |cx: RunContext| async move {
        let mut said = cx.conversation();
        said.push(cx.model(cx.model_request(said.clone())).await?.message);
        said.push(Message::user("and \u{1b}[2J +1 202-555-0143"));
        let answer = cx.model(cx.model_request(said)).await?;
        Ok(Outcome::answer(answer.content()))
    };
    let team = Agent::from_fn("desk", works).into_team().unwrap();
    let guard = PersonalDataGuard::new(PersonalAction::Mask).at([GuardedPoint::Input]);
    let team = team.intercept(guard).intercept(Sanitize::new());
    let model = ScriptedModel::replies(["noted", "done", "noted", "done"]);
    let builder = System::builder(InMemoryStore::new());
    let system = builder.model("default", model.clone()).team(team);
    let session = system.start().await.unwrap().session("desk", "s");
    for said in [SAID, "again"] {
        let run = session.send(Turn::text(said)).await.unwrap();
        run.outcome().await.unwrap();
        let first = ["personal_data input changed: 1 email", DECIDED[1]];
        let second = ["personal_data input changed: 1 phone", DECIDED[1]];
        let expected = match said {
            SAID => [first, second].concat(),
            _ => second.to_vec(),
        };
        assert_eq!(decided(&run).await, expected, "{said}");
    }
    let requests = model.requests();
    assert_eq!(requests.len(), 4);
    for request in requests {
        let messages = request.conversation.messages();
        let text = messages[0].content();
        assert!(
            text.contains("[email]") && !text.contains('\u{1b}'),
            "{text:?}"
        );
    }
}
