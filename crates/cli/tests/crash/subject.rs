//! What is killed: the real command, with tools that leave a trace outside the store.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::join;
use ghostlight::builtin;
use ghostlight_actors::{
    contract::{Reconciled, Tool, ToolContext, ToolError, ToolHandle, ToolOutput},
    run::{BehaviorHandle, Registry, RunContext, operations::Scope},
    vocabulary::{AgentError, Arguments, Effect, Outcome, Question, ToolCall, ToolDefinition},
};
use serde_json::json;

/// The environment variable that makes the test binary the command; it holds the arguments.
pub(crate) const ARGUMENTS: &str = "GHOSTLIGHT_CRASH_ARGUMENTS";
/// Where tools write what they do, outside the store.
pub(crate) const EFFECTS: &str = "GHOSTLIGHT_CRASH_EFFECTS";
/// The effect in whose middle the process kills itself, counted from 1 over the log.
pub(crate) const KILL_AT: &str = "GHOSTLIGHT_CRASH_KILL_AT";

/// Is the command, when this process was started to be it.
pub(crate) fn run_if_asked() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else {
        return;
    };
    let arguments: Vec<String> = serde_json::from_str(&arguments).unwrap();
    let code = ghostlight_cli::main_from(arguments, registry());
    // Through the operating system, since a test cannot return an exit code.
    let code = format!("{code:?}");
    let digits: String = code.chars().filter(char::is_ascii_digit).collect();
    std::process::exit(digits.parse().unwrap_or(99));
}

fn registry() -> Registry {
    let tool = |name: &'static str, effect| {
        ToolHandle::new(Traced {
            name,
            effect,
            approved: name == "wipe",
        })
    };
    builtin()
        .tool(tool("look", Effect::Read))
        .tool(tool("put", Effect::Idempotent))
        .tool(tool("charge", Effect::Once))
        .tool(tool("wipe", Effect::Once))
        .behavior("workload", |_| Ok(BehaviorHandle::from_fn(workload)))
        .behavior("helper", |_| Ok(BehaviorHandle::from_fn(helper)))
        .behavior("fatal", |_| Ok(BehaviorHandle::from_fn(fatal)))
}

fn call(name: &str, number: u32) -> ToolCall {
    ToolCall::new(format!("{name}-{number}"), name, json!({"number": number}))
}

/// About thirty operations: parallel tools of each effect class, state, two delegations side by
/// side, a question, a timer, and a call that a person must approve.
async fn workload(cx: RunContext) -> Result<Outcome, AgentError> {
    let mut said = Vec::new();
    for round in 0..4 {
        let calls = [
            call("look", round),
            call("put", round),
            call("charge", round),
        ];
        for result in cx.tools(calls).await? {
            said.push(result.text);
        }
        let total = cx
            .state(Scope::Session)
            .update("total", |total: Option<u32>| total.unwrap_or(0) + 10);
        said.push(total.await?.to_string());
    }
    let (first, second) = join!(
        cx.delegate("helper", "first"),
        cx.delegate("helper", "second")
    );
    said.push(first?.text);
    said.push(second?.text);
    cx.sleep(Duration::from_millis(5)).await?;
    cx.now().await?;
    let answer = cx
        .ask(Question::choice("Which colour?", ["red", "blue"]))
        .await?;
    said.push(answer.as_str().unwrap_or_default().to_owned());
    let batch = [call("charge", 100), call("wipe", 100), call("look", 100)];
    for result in cx.tools(batch).await? {
        said.push(result.text);
    }
    Ok(Outcome::answer(said.join(" ")))
}

async fn helper(cx: RunContext) -> Result<Outcome, AgentError> {
    let number = if cx.input().content() == "first" {
        11
    } else {
        12
    };
    let mut said = Vec::new();
    for result in cx
        .tools([call("charge", number), call("put", number)])
        .await?
    {
        said.push(result.text);
    }
    Ok(Outcome::answer(said.join("+")))
}

/// Ends the process before it asks for anything.
async fn fatal(_: RunContext) -> Result<Outcome, AgentError> {
    std::process::abort()
}

struct Traced {
    name: &'static str,
    effect: Effect,
    /// Whether a person must approve each call.
    approved: bool,
}

/// One line of the log: what was done, and under which key.
pub(crate) fn effects(log: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let pair = |line: &str| {
        line.split_once(' ')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
    };
    text.lines().filter_map(pair).collect()
}

impl Tool for Traced {
    fn definition(&self) -> ToolDefinition {
        let definition = ToolDefinition::new(self.name, "leaves a trace").effect(self.effect);
        let definition = if self.approved {
            definition.approval("Wipe {number}?")
        } else {
            definition
        };
        definition.parameters(json!({
            "type": "object",
            "properties": {"number": {"type": "integer"}},
            "required": ["number"],
        }))
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let log = PathBuf::from(std::env::var(EFFECTS)?);
        let line = format!("{} {}\n", self.name, cx.idempotency_key());
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)?
            .write_all(line.as_bytes())?;
        let kill_at = std::env::var(KILL_AT)
            .ok()
            .and_then(|at| at.parse::<usize>().ok());
        // Others may have left a trace meanwhile, so it is the place of its own that counts.
        let own = (self.name.to_owned(), cx.idempotency_key());
        let place = effects(&log).iter().rposition(|effect| *effect == own);
        if kill_at.is_some_and(|at| place == Some(at - 1)) {
            // The effect has happened, and nobody will ever hear of it.
            let pid = std::process::id().to_string();
            std::process::Command::new("kill")
                .args(["-9", &pid])
                .status()?;
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
        Ok(answer(self.name, &arguments))
    }

    async fn reconcile(&self, call: &ToolCall, cx: ToolContext) -> Reconciled {
        let Ok(log) = std::env::var(EFFECTS) else {
            return Reconciled::Unknown;
        };
        let done = (self.name.to_owned(), cx.idempotency_key());
        if effects(Path::new(&log)).contains(&done) {
            Reconciled::Happened(answer(self.name, &call.arguments))
        } else {
            Reconciled::DidNotHappen
        }
    }
}

fn answer(name: &str, arguments: &Arguments) -> ToolOutput {
    let number = arguments
        .value()
        .ok()
        .and_then(|v| v.get("number"))
        .cloned();
    ToolOutput::text(format!("{name}{}", number.unwrap_or_default()))
}
