//! Runs in which every prompt that is built in reaches a model. The words of a policy or behavior are a
//! part of what it does: a run that was begun with others has drifted.
//!
//! Where a prompt is to become better, the run asks `RunContext::version` which text it uses, and the older
//! one stays.

use ghostlight::{
    actor::{System, recording},
    contract::{StoreHandle, SystemClock},
    definition::{BehaviorSpec, PolicySpec},
    prelude::*,
    run::{PolicyContext, PolicyHandle, Recording, Registry, Verdict},
    testing::{InMemoryStore, Reply, ScriptedModel},
    vocabulary::{Timestamp, ToolCall, ToolDefinition},
};
use serde_json::{Value, json};

/// A run whose model says these things in turn.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    behavior: BehaviorSpec,
    policy: Option<PolicySpec>,
    replies: Vec<Reply>,
    /// How the outcome begins.
    ends: &'static str,
}

fn call(name: &str, arguments: Value) -> Reply {
    ToolCall::new("c", name, arguments).into()
}

fn echo(text: &str) -> Reply {
    call("echo", json!({ "text": text }))
}

fn found(source: &str, text: &str) -> Reply {
    echo(&json!({ "source": source, "text": text }).to_string())
}

fn policy(name: &'static str, settings: Value, replies: Vec<Reply>, ends: &'static str) -> Script {
    Script {
        name,
        behavior: BehaviorSpec::new("function_calling"),
        policy: Some(PolicySpec::new(name).settings(settings)),
        replies,
        ends,
    }
}

fn behavior(
    name: &'static str,
    settings: Value,
    replies: Vec<Reply>,
    ends: &'static str,
) -> Script {
    Script {
        name,
        behavior: BehaviorSpec::new(name).settings(settings),
        policy: None,
        replies,
        ends,
    }
}

pub(crate) fn scripts() -> Vec<Script> {
    let plan = |status: &str| {
        let tasks = json!([{ "content": "search", "status": status }]);
        call("create_tasks", json!({ "tasks": tasks }))
    };
    let todo = json!([{ "id": "1", "content": "search", "status": "pending" }]);
    let verdict =
        |approved: bool| json!({ "approved": approved, "score": 5, "critique": "x" }).to_string();
    let mut scripts = policies(plan, &todo);
    scripts.extend([
        behavior(
            "function_calling",
            json!({ "completion": "tool" }),
            vec![
                "".into(),
                "I am done.".into(),
                call("finish", json!({})),
                call("finish", json!({ "answer": "done" })),
            ],
            "done",
        ),
        behavior(
            "react",
            json!({}),
            vec![
                "hm".into(),
                "Action: echo\nArgs: {\"text\": \"1\"}".into(),
                "Final: done".into(),
            ],
            "done",
        ),
        behavior(
            "reflection",
            json!({}),
            vec![
                "draft".into(),
                verdict(false).into(),
                "better".into(),
                verdict(true).into(),
            ],
            "better",
        ),
        behavior(
            "plan_and_solve",
            json!({}),
            vec![
                "1. a\n2. b".into(),
                echo("1"),
                "one".into(),
                "FAILED: no".into(),
                "1. c".into(),
                "three".into(),
                "done".into(),
            ],
            "done",
        ),
        behavior(
            "rewoo",
            json!({}),
            vec![
                "#E1 = echo[1]\n#E2 = nothing[x]".into(),
                "#E1 = echo[1]\n#E2 = llm[#E1]".into(),
                "two".into(),
                "done".into(),
            ],
            "done",
        ),
    ]);
    scripts
}

fn policies(plan: impl Fn(&str) -> Reply, todo: &Value) -> Vec<Script> {
    let reflection =
        |what: &str| Reply::from(format!("What keeps me from it is {what}; I do otherwise."));
    vec![
        policy(
            "planning",
            json!({ "stagnation_threshold": 2 }),
            vec![
                "done".into(),
                plan("pending"),
                plan("pending"),
                plan("in_progress"),
                echo("x"),
                "hm".into(),
                reflection("planning"),
                plan("completed"),
                "done".into(),
            ],
            "done",
        ),
        policy(
            "recovery",
            json!({ "max_tries": 2 }),
            vec![
                echo("fail a"),
                echo("b"),
                "hm".into(),
                reflection("the text"),
                "done".into(),
                "done".into(),
                "done, but echo failed".into(),
            ],
            "done",
        ),
        policy(
            "synthesis",
            json!({}),
            vec![echo("a"), "done".into(), "done".into(), "done [O1]".into()],
            "done",
        ),
        policy(
            "verification",
            json!({ "min_sources": 2, "min_score": 0.5, "min_coverage": 0.9, "reflection": true }),
            vec![
                "done".into(),
                echo("a"),
                "hm".into(),
                reflection("a guess"),
                found("a.md", "done"),
                "done".into(),
                found("b.md", "else"),
                "other words".into(),
                "done".into(),
            ],
            "done",
        ),
        policy(
            "repetition",
            json!({}),
            vec![echo("a"), echo("a"), echo("a"), "done".into()],
            "done",
        ),
        policy(
            "self_reflection",
            json!({ "same_calls": 1, "similar_errors": 1 }),
            vec![echo("a"), echo("a"), echo("fail a"), "done".into()],
            "done",
        ),
        policy(
            "todos",
            json!({}),
            vec![
                call("todo_write", json!({ "todos": [] })),
                call("todo_write", json!({ "todos": todo })),
                "done".into(),
            ],
            "done",
        ),
        summed_up(),
        cited(),
        policy(
            "control",
            json!({}),
            vec![echo("a"), call("exit_loop", json!({}))],
            "",
        ),
    ]
}

/// A conversation that is summed up.
fn summed_up() -> Script {
    let settings = json!({
        "max_tokens": 700,
        "strategies": [{
            "name": "summarize",
            "keep_recent": 1,
            "max_summary_tokens": 50,
            "max_input_tokens": 1000,
        }],
        "spill": { "above_tokens": 150, "keep_tokens": 20 },
    });
    let replies = vec![
        echo(&"a ".repeat(100)),
        echo(&"fail ".repeat(100)),
        "It was echoed.".into(),
        "done".into(),
    ];
    policy("context", settings, replies, "done")
}

/// More cited sentences than are judged at once.
fn cited() -> Script {
    let verdict = || Reply::from(json!({ "unsupported": [] }).to_string());
    let replies = vec![
        echo("[d1] lamps.md\n| The lamp is red."),
        "The lamp is red [d1]. ".repeat(41).as_str().into(),
        verdict(),
        verdict(),
    ];
    policy(
        "cited_answers",
        json!({ "judge": true }),
        replies,
        "The lamp",
    )
}

/// What the tool takes.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

/// Today's code.
pub(crate) fn registry() -> Registry {
    let definition = ToolDefinition::new("echo", "Says it again.").effect(Effect::Read);
    ghostlight::builtin().tool(tool_fn(definition, |Echo { text }: Echo| async move {
        match text.strip_prefix("fail ") {
            Some(reason) => Err(ToolError::new(reason)),
            None => Ok(text),
        }
    }))
}

/// Code whose `synthesis` has other words.
pub(crate) fn other_words() -> Registry {
    struct Other(bool);
    impl Policy for Other {
        async fn before_answer(
            &mut self,
            _: &PolicyContext<'_>,
            _: &str,
        ) -> Result<Verdict, AgentError> {
            Ok(match std::mem::replace(&mut self.0, true) {
                true => Verdict::Accept,
                false => Verdict::Reject("In other words.".to_owned()),
            })
        }
    }
    registry().policy("synthesis", |_| Ok(PolicyHandle::new(|| Other(false))))
}

/// Records a run of this script.
pub(crate) async fn record(script: &Script) -> Recording {
    let agent = Agent::new("desk")
        .description("answers")
        .instructions("Answer.");
    let agent = agent.behavior(script.behavior.clone()).tool_named("echo");
    let agent = script.policy.iter().cloned().fold(agent, |agent, policy| {
        agent.policy(policy.name, policy.settings)
    });
    let store = StoreHandle::new(InMemoryStore::new());
    let system = System::builder(store.clone())
        .clock(SystemClock::starting_at(Timestamp(1_760_000_000_000)))
        .registry(registry())
        .model("default", ScriptedModel::replies(script.replies.clone()))
        .team(agent.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system
        .session("desk", script.name)
        .send("What is to be done?")
        .await
        .unwrap();
    let outcome = run.outcome().await.unwrap();
    assert!(
        outcome.as_answer().is_some() && outcome.text().starts_with(script.ends),
        "{}: {outcome:?}",
        script.name
    );
    let recorded = recording(&store, run.id()).await.unwrap();
    system.stop().await.unwrap();
    recorded
}
