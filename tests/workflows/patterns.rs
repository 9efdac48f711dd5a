//! The list of all workflows, each with a small team whose members' answers depend on what they
//! are asked alone.

use std::time::Duration;

use ghostlight::tools::tool_fn;
use ghostlight_actors::{
    contract::{ToolError, ToolHandle},
    definition::BehaviorSpec,
    run::{Agent, RunContext, Team},
    testing::Reply,
    vocabulary::{
        AgentError, Effect, ModelResponse, Outcome, Resource, StopReason, ToolCall, ToolDefinition,
    },
};
use serde_json::{Value, json};

/// What is done to one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disturbance {
    None,
    /// It fails.
    Break(&'static str),
    /// It does not end.
    Hang(&'static str),
    /// Its model calls the tool that ends its work.
    Leave(&'static str),
    /// A budget stops it before it has anything.
    Exhaust(&'static str),
}

/// Why a member stops that is [exhausted](Disturbance::Exhaust).
pub(crate) const OUT_OF_TOKENS: StopReason = StopReason::BudgetExhausted(Resource::Tokens);

type Answer = fn(&str) -> String;

#[derive(Clone)]
pub(crate) struct Pattern {
    pub(crate) name: &'static str,
    settings: Value,
    members: Vec<(&'static str, Answer)>,
    /// What the workflow's own model says.
    pub(crate) replies: Vec<Reply>,
    pub(crate) task: &'static str,
    pub(crate) answer: &'static str,
    /// The members that get work, in their order.
    pub(crate) asked: Vec<&'static str>,
    /// What comes of it when this member fails: an answer, or an error that says this.
    pub(crate) when_broken: (&'static str, Result<&'static str, &'static str>),
}

impl Pattern {
    pub(crate) fn has_tools(&self) -> bool {
        ["tool_chain", "reactree"].contains(&self.name)
    }

    /// The same with a bound on the time that each of its members may take.
    pub(crate) fn within(mut self, time: Duration) -> Self {
        let setting = match self.name {
            "pipeline" => "stage_timeout_s",
            "for_each" => "item_timeout_s",
            "fan_out" => "part_timeout_s",
            "round_robin" | "role_play" | "debate" => "turn_timeout_s",
            "coordinator" | "orchestrator" => "task_timeout_s",
            _ => "member_timeout_s",
        };
        match self
            .settings
            .get_mut("nodes")
            .and_then(Value::as_object_mut)
        {
            Some(nodes) => {
                for node in nodes.values_mut() {
                    node["timeout_s"] = json!(time.as_secs_f64());
                }
            }
            None => self.settings[setting] = json!(time.as_secs_f64()),
        }
        self
    }

    pub(crate) fn team(&self, disturbance: Disturbance) -> Team {
        let behavior = BehaviorSpec::new(self.name).settings(self.settings.clone());
        let desk = Agent::new("desk").behavior(behavior);
        let desk = self.members.iter().fold(desk, |desk, (name, answer)| {
            if self.has_tools() {
                desk.tool(tool(name, *answer, disturbance))
            } else {
                desk.agent(member(name, *answer, disturbance))
            }
        });
        desk.into_team().unwrap()
    }
}

fn member(name: &'static str, answer: Answer, disturbance: Disturbance) -> Agent {
    if disturbance == Disturbance::Leave(name) {
        return Agent::new(name)
            .model("leaver")
            .policy("control", json!({}));
    }
    Agent::from_fn(name, move |cx: RunContext| async move {
        if disturbance == Disturbance::Break(name) {
            return Err(AgentError::failed("it broke"));
        }
        if disturbance == Disturbance::Exhaust(name) {
            // What is under way beside it ends first.
            cx.sleep(Duration::from_secs(1)).await?;
            return Ok(Outcome::stopped(OUT_OF_TOKENS));
        }
        if disturbance == Disturbance::Hang(name) {
            cx.ask("When may I end?").await?;
        }
        Ok(Outcome::answer(answer(&cx.input().content())))
    })
}

fn tool(name: &'static str, answer: Answer, disturbance: Disturbance) -> ToolHandle {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Asked {
        task: String,
    }
    // Of a `once` call the start is recorded, so that a test can wait for it.
    let hangs = disturbance == Disturbance::Hang(name);
    let effect = if hangs { Effect::Once } else { Effect::Read };
    let definition = ToolDefinition::new(name, "answers").effect(effect);
    tool_fn(definition, move |asked: Asked| async move {
        if disturbance == Disturbance::Break(name) {
            return Err(ToolError::new("it broke"));
        }
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(answer(&asked.task))
    })
}

/// A turn of a model that calls tools.
pub(crate) fn acts<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Reply {
    let calls = calls.into_iter().enumerate();
    let calls = calls
        .map(|(place, (name, arguments))| ToolCall::new(format!("call-{place}"), name, arguments));
    ModelResponse::tool_calls(calls).into()
}

/// The last line of what was asked, in brackets behind the name.
macro_rules! echoes {
    ($($name:literal),*) => {
        vec![$(($name, (|task: &str| {
            format!("{}({})", $name, task.lines().last().unwrap_or(""))
        }) as Answer)),*]
    };
}

pub(crate) fn all() -> Vec<Pattern> {
    let plain = |name, settings, members| Pattern {
        name,
        settings,
        members,
        replies: Vec::new(),
        task: "go",
        answer: "",
        asked: Vec::new(),
        when_broken: ("", Ok("")),
    };
    vec![
        Pattern {
            answer: "c(b(a(go)))",
            asked: vec!["a", "b", "c"],
            when_broken: ("b", Err("it broke")),
            ..plain("sequential", json!({}), echoes!["a", "b", "c"])
        },
        Pattern {
            answer: "c(task go: b(a(go)))",
            asked: vec!["a", "b", "c"],
            when_broken: ("b", Ok("c(task go: a(go))")),
            ..plain(
                "pipeline",
                json!({
                    "stages": ["a", "b", {"agent": "c", "prompt": "task {task}: {previous}"}],
                    "on_failure": "go_on",
                }),
                echoes!["a", "b", "c"],
            )
        },
        Pattern {
            answer: "b(a(b(a(go))))",
            asked: vec!["a", "b", "a", "b"],
            when_broken: ("b", Err("it broke")),
            ..plain(
                "loop",
                json!({"until": {"text": "b(a(b("}}),
                echoes!["a", "b"],
            )
        },
        Pattern {
            answer: "last(b(go))",
            asked: vec!["a", "b", "last"],
            when_broken: ("b", Ok("last([failed: b: it broke])")),
            ..plain(
                "parallel",
                json!({"aggregator": "last", "on_failure": "collect_all"}),
                echoes!["a", "b", "last"],
            )
        },
        Pattern {
            answer: "a(go)",
            asked: vec!["a"],
            when_broken: ("a", Ok("b([failed: a: it broke])")),
            ..plain("fallback", json!({}), echoes!["a", "b"])
        },
        Pattern {
            task: "[\"x\", \"y\", \"z\"]",
            answer: "[\"a(1 x)\",\"b(2 y)\",\"a(3 z)\"]",
            asked: vec!["a", "b", "a"],
            when_broken: ("b", Err("it broke")),
            ..plain(
                "for_each",
                json!({"prompt": "{number} {item}", "max_at_once": 2}),
                echoes!["a", "b"],
            )
        },
        Pattern {
            answer: "sum(a(two))",
            asked: vec!["plan", "b", "a", "sum"],
            when_broken: ("a", Err("it broke")),
            ..plain(
                "fan_out",
                json!({"planner": "plan", "aggregator": "sum", "max_at_once": 1}),
                echoes!["a", "b", "sum"]
                    .into_iter()
                    .chain([("plan", (|_| "b: one\ntwo".to_owned()) as Answer)])
                    .collect(),
            )
        },
        Pattern {
            answer: "d(b(a(go)) and c(a(go)))",
            asked: vec!["a", "b", "c", "d"],
            when_broken: ("c", Ok("d(b(a(go)) and no c)")),
            ..plain(
                "graph",
                json!({
                    "entry": "a",
                    "nodes": {
                        "a": {"agent": "a", "then": {"all": ["b", "c"], "join": "d"}},
                        "b": {"agent": "b", "prompt": "{a}", "then": "d"},
                        "c": {"agent": "c", "prompt": "{a}", "then": "d", "on_failure": "none"},
                        "none": {"set": {"c": "no c"}, "then": "d"},
                        "d": {"agent": "d", "prompt": "{b} and {c}", "then": "end"},
                    },
                }),
                echoes!["a", "b", "c", "d"],
            )
        },
        Pattern {
            replies: vec!["{\"agent\": \"b\"}".into()],
            answer: "b(go)",
            asked: vec!["b"],
            when_broken: ("b", Err("it broke")),
            ..plain("router", json!({}), echoes!["a", "b"])
        },
        Pattern {
            answer: "a(b(a(go)))",
            asked: vec!["a", "b", "a"],
            when_broken: ("a", Ok("b([failed: a: it broke])")),
            ..plain(
                "round_robin",
                json!({"until": {"max_turns": 3}, "on_failure": "go_on"}),
                echoes!["a", "b"],
            )
        },
        Pattern {
            answer: "b(do it)",
            asked: vec!["a", "b", "a"],
            when_broken: ("b", Err("it broke")),
            ..plain(
                "role_play",
                json!({"done": "ENOUGH"}),
                echoes!["b"]
                    .into_iter()
                    .chain([(
                        "a",
                        (|task: &str| {
                            let is_begun = task.contains("b(do it)");
                            if is_begun { "ENOUGH" } else { "do it" }.to_owned()
                        }) as Answer,
                    )])
                    .rev()
                    .collect(),
            )
        },
        Pattern {
            answer: "j(b(there are wrong))",
            asked: vec!["a", "b", "a", "b", "j"],
            when_broken: ("a", Ok("j(b(there are wrong))")),
            ..plain(
                "debate",
                json!({
                    "judge": "j",
                    "rebut": "{said}\nthere are wrong",
                    "on_failure": "go_on",
                }),
                echoes!["a", "b", "j"],
            )
        },
        Pattern {
            answer: "no",
            asked: vec!["a", "b", "c"],
            when_broken: ("c", Err("the vote decides nothing: yes 1, no 1")),
            ..plain(
                "vote",
                json!({"options": ["yes", "no"], "majority": true}),
                vec![
                    ("a", (|_| "Yes.".to_owned()) as Answer),
                    ("b", |_| "No!".to_owned()),
                    ("c", |_| "no".to_owned()),
                ],
            )
        },
        Pattern {
            replies: vec![
                "{\"tasks\": [{\"worker\": \"a\", \"task\": \"x\"}, {\"worker\": \"b\", \"task\": \"y\"}]}".into(),
                "{\"answer\": \"both\"}".into(),
            ],
            answer: "both",
            asked: vec!["a", "b"],
            when_broken: ("a", Ok("both")),
            ..plain("coordinator", json!({}), echoes!["a", "b"])
        },
        Pattern {
            replies: vec![
                "{\"tasks\": [{\"id\": \"2\", \"processor\": \"b\", \"description\": \"two\", \"dependencies\": [\"1\"]}, \
                 {\"id\": \"1\", \"processor\": \"a\", \"description\": \"one\"}]}".into(),
            ],
            answer: "{\"completed\":{\"1\":\"a(one)\",\"2\":\"b(a(one))\"},\"failed\":{},\"skipped\":{}}",
            asked: vec!["a", "b"],
            when_broken: (
                "a",
                Ok(
                    "{\"completed\":{},\"failed\":{\"1\":\"[failed: a: it broke]\"},\"skipped\":{\"2\":\"needs 1\"}}",
                ),
            ),
            ..plain("orchestrator", json!({}), echoes!["a", "b"])
        },
        Pattern {
            replies: vec![
                acts([("a", json!({"task": "x"})), ("b", json!({"task": "y"}))]),
                acts([("done", json!({"result": "found"}))]),
            ],
            answer: "found",
            asked: vec!["a", "b"],
            when_broken: ("b", Ok("found")),
            ..plain("reactree", json!({}), echoes!["a", "b"])
        },
        Pattern {
            answer: "c(b(a(go)))",
            asked: vec!["a", "b", "c"],
            when_broken: ("b", Err("step 2, the tool \"b\": it broke")),
            ..plain("tool_chain", json!({}), echoes!["a", "b", "c"])
        },
    ]
}
