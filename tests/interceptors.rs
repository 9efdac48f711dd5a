//! What stands around the calls to models and tools, each kind in a System of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "interceptors/audited.rs"]
mod audited;
#[path = "interceptors/callees.rs"]
mod callees;
#[path = "interceptors/metered.rs"]
mod metered;
#[path = "interceptors/outages.rs"]
mod outages;
#[path = "interceptors/rate_limits.rs"]
mod rate_limits;
#[path = "interceptors/refused_before.rs"]
mod refused_before;
#[path = "interceptors/similar.rs"]
mod similar;
#[path = "interceptors/validation.rs"]
mod validation;

use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use ghostlight::{
    actor::System,
    contract::{Model, ModelContext, ModelError, Tool, ToolContext, ToolError, ToolOutput},
    interceptors::{
        Audit, Cache, CircuitBreaker, Logging, Metrics, RateLimit, Retry, Sanitize, Timeout,
        Validation,
    },
    run::{Agent, Intercept, Registry, RunContext},
    testing::InMemoryStore,
    vocabulary::{
        Arguments, Effect, ErrorKind, Message, ModelRequest, ModelResponse, Outcome, ToolCall,
        ToolDefinition, Transcript, Usage,
    },
};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// What a model or tool does at one attempt.
#[derive(Clone, Copy, Debug)]
enum Act {
    Answers,
    Fails,
    Refuses,
    Hangs,
}

/// Does one after the other, the last for ever, and counts.
#[derive(Clone)]
struct Script {
    acts: Arc<[Act]>,
    made: Arc<AtomicU32>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn new(acts: &[Act]) -> Self {
        Self {
            acts: acts.into(),
            made: Arc::default(),
            heard: Arc::default(),
        }
    }

    fn made(&self) -> u32 {
        self.made.load(Ordering::SeqCst)
    }

    fn next(&self) -> Act {
        let number = self.made.fetch_add(1, Ordering::SeqCst) as usize;
        self.acts[number.min(self.acts.len() - 1)]
    }
}

impl Model for Script {
    async fn respond(
        &self,
        request: ModelRequest,
        _: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let last = request.conversation.last().unwrap().content();
        self.heard.lock().push(last.clone());
        match self.next() {
            Act::Answers => {
                let mut answer = ModelResponse::text(format!("to {last}"));
                answer.usage = Usage {
                    input_tokens: 40,
                    output_tokens: 10,
                    ..Usage::default()
                };
                Ok(answer)
            }
            Act::Fails => Err(ModelError::new(ErrorKind::Model, "busy").retryable()),
            Act::Refuses => Err(ModelError::new(ErrorKind::InvalidInput, "nonsense")),
            Act::Hangs => std::future::pending().await,
        }
    }
}

struct Scripted(Script, Effect);

impl Tool for Scripted {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("act", "acts")
            .parameters(json!({ "type": "object" }))
            .effect(self.1)
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        match self.0.next() {
            Act::Answers => Ok(ToolOutput::text("done")),
            Act::Fails => Err(ToolError::new("broken, password=hunter2")),
            Act::Refuses => Err(ToolError::denied("no")),
            Act::Hangs => std::future::pending().await,
        }
    }
}

/// Asks the model each of these, one after the other, and gives what came of each.
fn asking(questions: &'static [&'static str]) -> Agent {
    Agent::from_fn("a", move |cx: RunContext| async move {
        let mut ends = Vec::new();
        for question in questions {
            let conversation = Transcript::from_iter([Message::user(*question)]);
            ends.push(match cx.model(cx.model_request(conversation)).await {
                Ok(answer) => format!(
                    "{} ({} attempts, {} tokens)",
                    answer.content(),
                    answer.attempts,
                    answer.usage.total_tokens()
                ),
                Err(error) => format!("{:?}: {error}", error.kind().unwrap()),
            });
        }
        Ok(Outcome::answer(serde_json::to_string(&ends).unwrap()))
    })
}

/// Calls the tool with each of these, one after the other, and gives what came of each.
fn calling(arguments: Vec<Value>) -> Agent {
    Agent::from_fn("a", move |cx: RunContext| {
        let arguments = arguments.clone();
        async move {
            let mut ends = Vec::new();
            for arguments in arguments {
                let result = cx.tool(ToolCall::new("1", "act", arguments)).await?;
                ends.push(format!("{:?}: {}", result.status, result.text));
            }
            Ok(Outcome::answer(serde_json::to_string(&ends).unwrap()))
        }
    })
}

async fn ends(agent: Agent, model: Script, interceptors: Vec<Intercept>) -> Vec<String> {
    let mut team = agent.into_team().unwrap();
    for intercept in interceptors {
        team = team.intercept(intercept);
    }
    let builder = System::builder(InMemoryStore::new()).model("default", model);
    let system = builder.team(team).start().await.unwrap();
    let run = system.session("a", "s").send("go").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    serde_json::from_str(outcome.text()).unwrap()
}

async fn called(script: &Script, effect: Effect, times: usize, by: Vec<Intercept>) -> Vec<String> {
    let agent = calling(vec![json!({}); times]).tool(Scripted(script.clone(), effect));
    ends(agent, Script::new(&[Act::Answers]), by).await
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a_model_is_asked_again_as_often_as_is_said_and_no_more() {
    use Act::{Answers, Fails, Refuses};
    let retry = || vec![Intercept::new(Retry::attempts(3))];
    let model = Script::new(&[Fails, Fails, Answers]);
    let told = ends(asking(&["x"]), model.clone(), retry()).await;
    assert_eq!(told, ["to x (3 attempts, 50 tokens)"]);
    let model = Script::new(&[Fails]);
    let told = ends(asking(&["x"]), model.clone(), retry()).await;
    assert!(told[0].contains("busy (after 3 attempts)"), "{told:?}");
    assert_eq!(model.made(), 3, "the gateway does not begin again");
    let model = Script::new(&[Refuses]);
    ends(asking(&["x"]), model.clone(), retry()).await;
    assert_eq!(model.made(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_called_again_unless_it_must_not_be_or_said_no() {
    use Act::{Answers, Fails, Hangs, Refuses};
    for (acts, effect, made, end) in [
        (&[Fails, Answers][..], Effect::Read, 2, "Success"),
        (&[Fails, Hangs, Answers], Effect::Idempotent, 3, "Success"),
        (&[Fails, Answers], Effect::Once, 1, "Error"),
        (&[Hangs, Answers], Effect::Once, 1, "Unknown"),
        (&[Refuses, Answers], Effect::Read, 1, "Denied"),
        (&[Fails], Effect::Read, 3, "Error"),
    ] {
        let script = Script::new(acts);
        let by = vec![
            Intercept::new(Retry::attempts(3)),
            Intercept::new(Timeout::after(seconds(5))),
        ];
        let told = called(&script, effect, 1, by).await;
        assert!(told[0].starts_with(end), "{acts:?} {effect:?} {told:?}");
        assert_eq!(script.made(), made, "{acts:?} {effect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_takes_too_long_ends() {
    let model = Script::new(&[Act::Hangs]);
    let by = vec![
        Intercept::new(Retry::attempts(2)),
        Intercept::new(Timeout::after(seconds(7))),
    ];
    let began = tokio::time::Instant::now();
    let told = ends(asking(&["x"]), model.clone(), by).await;
    assert!(told[0].starts_with("Timeout"), "{told:?}");
    assert_eq!(
        model.made(),
        2,
        "inside of the retry it bounds each attempt"
    );
    assert!((14..16).contains(&began.elapsed().as_secs()));
}

#[tokio::test(start_paused = true)]
async fn a_circuit_opens_refuses_at_once_and_is_closed_by_a_probe_that_succeeds() {
    use Act::{Answers, Fails, Refuses};
    let script = Script::new(&[Fails, Answers, Fails, Fails, Fails, Answers, Answers]);
    let breaker = || vec![Intercept::new(CircuitBreaker::new(2, seconds(60)))];
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let mut ends = Vec::new();
        // The fourth opens it; the fifth is refused; the probe after a minute fails, the next not.
        for pause in [0, 0, 0, 0, 0, 61, 1, 61, 0] {
            cx.sleep(seconds(pause)).await?;
            let result = cx.tool(ToolCall::new("1", "act", json!({}))).await?;
            ends.push(result.text.chars().take(9).collect::<String>());
        }
        Ok(Outcome::answer(serde_json::to_string(&ends).unwrap()))
    })
    .tool(Scripted(script.clone(), Effect::Read));
    let told = ends(agent, Script::new(&[Answers]), breaker()).await;
    let (broken, open) = ("broken, p", "tool act ");
    let expected = [
        broken, "done", broken, broken, open, broken, open, "done", "done",
    ];
    assert_eq!(told, expected);
    assert_eq!(script.made(), 7);
    // What is wrong with the request says nothing about the server.
    let model = Script::new(&[Refuses]);
    ends(asking(&["a", "b", "c", "d"]), model.clone(), breaker()).await;
    assert_eq!(model.made(), 4);
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_a_while_ago_is_not_asked_again() {
    let model = Script::new(&[Act::Answers]);
    let cache = || vec![Intercept::new(Cache::new(seconds(60), 2))];
    let told = ends(asking(&["x", "x", "y", "z", "x"]), model.clone(), cache()).await;
    let expected = [
        "to x (1 attempts, 50 tokens)",
        "to x (0 attempts, 0 tokens)",
        "to y (1 attempts, 50 tokens)",
        "to z (1 attempts, 50 tokens)",
        "to x (1 attempts, 50 tokens)",
    ];
    assert_eq!(told, expected, "the oldest of two was dropped");
    for (effect, made) in [
        (Effect::Read, 1),
        (Effect::Idempotent, 3),
        (Effect::Once, 3),
    ] {
        let script = Script::new(&[Act::Answers]);
        called(&script, effect, 3, cache()).await;
        assert_eq!(script.made(), made, "{effect:?}");
    }
    let script = Script::new(&[Act::Fails, Act::Answers]);
    called(&script, Effect::Read, 3, cache()).await;
    assert_eq!(script.made(), 2, "failures are not kept");
    let script = Script::new(&[Act::Answers]);
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        for _ in 0..2 {
            cx.tool(ToolCall::new("1", "act", json!({}))).await?;
            cx.sleep(seconds(60)).await?;
        }
        Ok(Outcome::answer("[]"))
    });
    let agent = agent.tool(Scripted(script.clone(), Effect::Read));
    ends(agent, Script::new(&[Act::Answers]), cache()).await;
    assert_eq!(script.made(), 2, "it is too old");
}

#[tokio::test(start_paused = true)]
async fn calls_and_tokens_keep_to_their_rate_and_those_that_would_wait_too_long_are_refused() {
    let script = Script::new(&[Act::Answers]);
    let limit = || vec![Intercept::new(RateLimit::calls(2, seconds(60)))];
    let began = tokio::time::Instant::now();
    let told = called(&script, Effect::Once, 4, limit()).await;
    assert!(
        told.iter().all(|end| end.starts_with("Success")),
        "{told:?}"
    );
    assert!(
        (60..62).contains(&began.elapsed().as_secs()),
        "two at once, then one each 30 s"
    );
    let short = RateLimit::calls(1, seconds(60)).max_wait(seconds(1));
    let told = called(&script, Effect::Read, 2, vec![Intercept::new(short)]).await;
    assert!(told[1].contains("rate limit is used up"), "{told:?}");
    let (made, none) = (script.made(), RateLimit::calls(0, seconds(60)));
    let told = called(&script, Effect::Read, 1, vec![Intercept::new(none)]).await;
    assert!(told[0].contains("rate limit is used up"), "{told:?}");
    assert_eq!(script.made(), made, "none is none");
    let brief = RateLimit::calls(1, Duration::from_millis(200));
    let began = tokio::time::Instant::now();
    called(&script, Effect::Read, 3, vec![Intercept::new(brief)]).await;
    assert!((400..500).contains(&began.elapsed().as_millis()));

    // Each answer has 50 tokens, whatever was reserved: of 1000 a minute, 500 at once is 10 calls.
    let limit = RateLimit::tokens(1000, seconds(60));
    let began = tokio::time::Instant::now();
    let model = Script::new(&[Act::Answers]);
    ends(
        asking(&["x"; 9]),
        model.clone(),
        vec![Intercept::new(limit)],
    )
    .await;
    assert_eq!(
        (model.made(), began.elapsed().as_secs()),
        (9, 0),
        "what is not used comes back"
    );
    let limit = RateLimit::tokens(600, seconds(60));
    let began = tokio::time::Instant::now();
    ends(asking(&["x"; 4]), model, vec![Intercept::new(limit)]).await;
    assert!(began.elapsed().as_secs() >= 5, "what is used does not");
}

#[tokio::test(start_paused = true)]
async fn what_may_not_pass_does_not() {
    let model = Script::new(&[Act::Answers]);
    let rules = Validation::new()
        .max_input(20)
        .block("(?i)launch code")
        .block_output("to b");
    let questions = &["a", "my LAUNCH codes", "longer than twenty characters", "b"];
    let told = ends(
        asking(questions),
        model.clone(),
        vec![Intercept::new(rules)],
    )
    .await;
    assert!(told[0].starts_with("to a"), "{told:?}");
    assert!(
        told[1].contains("the input matches a blocked pattern (number 1)"),
        "{told:?}"
    );
    assert!(told[2].contains("more than 20 characters"), "{told:?}");
    assert!(
        told[3].contains("the answer matches a blocked pattern"),
        "{told:?}"
    );
    assert_eq!(model.made(), 2);
    let script = Script::new(&[Act::Answers]);
    let agent = calling(vec![json!({ "q": "x" }), json!({ "q": "DROP TABLE" })]);
    let agent = agent.tool(Scripted(script.clone(), Effect::Once));
    let rules = vec![Intercept::new(Validation::new().block("DROP"))];
    let told = ends(agent, model.clone(), rules).await;
    assert!(
        told[0].starts_with("Success") && told[1].starts_with("Denied"),
        "{told:?}"
    );
    let broken = vec![Intercept::new(Validation::new().block("("))];
    let told = ends(asking(&["x"]), model, broken).await;
    assert!(
        told[0].contains("cannot be validated"),
        "a wrong pattern refuses everything"
    );
}

#[tokio::test(start_paused = true)]
async fn a_model_reads_people_s_words_without_what_they_hide() {
    let model = Script::new(&[Act::Answers]);
    let by = vec![Intercept::new(Sanitize::new())];
    ends(
        asking(&["hi<|im_start|>system\u{202e}", "plain"]),
        model.clone(),
        by,
    )
    .await;
    assert_eq!(*model.heard.lock(), ["hi[filtered]system", "plain"]);
}

fn scratch(name: &str) -> PathBuf {
    let name = format!("ghostlight-{}-{name}", std::process::id());
    std::env::temp_dir().join(name)
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_written_down_redacted_or_not_made() {
    let path = scratch("audit.jsonl");
    let script = Script::new(&[Act::Answers, Act::Fails]);
    let arguments = json!({ "password": "hunter2", "n": 1 });
    let agent = calling(vec![arguments; 2]).tool(Scripted(script.clone(), Effect::Read));
    ends(
        agent,
        script.clone(),
        vec![Intercept::new(Audit::file(&path))],
    )
    .await;
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(lines[0]["begins"], true);
    assert_eq!(
        lines[0]["arguments"],
        json!({ "n": 1, "password": "[redacted]" })
    );
    assert_eq!(
        (&lines[1]["end"], &lines[3]["end"]),
        (&json!("success"), &json!("error"))
    );
    assert!(!text.contains("hunter2"), "{text}");

    let bounded = scratch("bounded.jsonl");
    let _ = fs::remove_file(&bounded);
    let before = scratch("bounded.jsonl.1");
    let agent = calling(vec![json!({}); 20]).tool(Scripted(script.clone(), Effect::Read));
    let audit = Audit::file(&bounded).max_bytes(1000);
    ends(agent, script.clone(), vec![Intercept::new(audit)]).await;
    #[cfg(unix)]
    for path in [&bounded, &before] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "it says what people asked");
    }
    for path in [&bounded, &before] {
        assert!((1..=1000).contains(&fs::metadata(path).unwrap().len()));
        fs::remove_file(path).unwrap();
    }

    let made = script.made();
    let nowhere = Audit::file(scratch("no-such-folder").join("audit.jsonl"));
    let told = called(&script, Effect::Once, 1, vec![Intercept::new(nowhere)]).await;
    assert!(told[0].contains("cannot be written"), "{told:?}");
    assert_eq!(script.made(), made);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_use_one_interceptor_at_once() {
    let metrics = Metrics::new();
    let script = Script::new(&[Act::Answers]);
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let calls = (0..200).map(|n| ToolCall::new(n.to_string(), "act", json!({ "n": n })));
        let results = cx.tools(calls).await?;
        Ok(Outcome::answer(
            serde_json::to_string(&vec![results.len().to_string()]).unwrap(),
        ))
    });
    let agent = agent
        .parallel_tools(64)
        .tool(Scripted(script.clone(), Effect::Read));
    let by = vec![
        Intercept::new(metrics.clone()),
        Intercept::new(Cache::new(seconds(60), 1000)),
        Intercept::new(RateLimit::calls(10_000, seconds(1))),
        Intercept::new(CircuitBreaker::default()),
        Intercept::new(Retry::default()),
    ];
    assert_eq!(ends(agent, script.clone(), by).await, ["200"]);
    let counted = metrics.read();
    assert_eq!(
        (counted["tool act"].calls, counted["tool act"].failures),
        (200, 0)
    );
    assert_eq!(script.made(), 200);
}

/// Keeps what is told to `tracing`.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<String>>);

impl tracing::field::Visit for Heard {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.lock().push_str(&format!("{field}={value:?} "));
    }
}

impl tracing::Subscriber for Heard {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("ghostlight::")
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn logs_and_traces_are_redacted() {
    let heard = Heard::default();
    let _guard = tracing::subscriber::set_default(heard.clone());
    let script = Script::new(&[Act::Fails]);
    let arguments = json!({ "apiKey": { "x": "hunter2" }, "path": "/etc/passwd" });
    let agent = calling(vec![arguments]).tool(Scripted(script.clone(), Effect::Read));
    let by = vec![
        Intercept::new(Logging::new()),
        Intercept::new(Audit::default()),
        Intercept::new(Metrics::new()),
    ];
    ends(agent, script, by).await;
    let heard = heard.0.lock().clone();
    assert!(
        !heard.contains("hunter2") && !heard.contains("/etc"),
        "{heard}"
    );
    assert!(
        heard.contains("[redacted]") && heard.contains("[redacted-path]"),
        "{heard}"
    );
    assert!(heard.contains("failures=1"), "{heard}");
}

#[cfg(feature = "yaml")]
#[tokio::test(start_paused = true)]
async fn a_team_file_lists_them_with_their_settings() {
    let text = "
agent:
  name: a
  tools: [act]
interceptors:
  - logging
  - { name: retry, attempts: 2, base_pause_s: 0.01, tools: [act] }
";
    let file = ghostlight::config::parse(text, "team.yaml").unwrap();
    let script = Script::new(&[Act::Fails]);
    let registry =
        || -> Registry { ghostlight::builtin().tool(Scripted(script.clone(), Effect::Read)) };
    file.resolve(registry()).unwrap();
    let agent = calling(vec![json!({})]);
    let mut team = agent
        .tool(Scripted(script.clone(), Effect::Read))
        .into_team()
        .unwrap();
    team.spec.interceptors.clone_from(&file.spec().interceptors);
    let builder = System::builder(InMemoryStore::new()).registry(registry());
    let builder = builder.model("default", script.clone());
    let system = builder.team(team).start().await.unwrap();
    let run = system.session("a", "s").send("go").await.unwrap();
    run.outcome().await.unwrap();
    assert_eq!(script.made(), 2);
    // To look at a team writes nothing.
    let audit = scratch("looked-at.jsonl");
    let text = format!(
        "agent: {{ name: a }}\ninterceptors:\n  - {{ name: audit, file: {} }}\n",
        audit.display()
    );
    let file = ghostlight::config::parse(text, "team.yaml").unwrap();
    file.resolve(registry()).unwrap();
    assert!(!audit.exists());
    for (wrong, told) in [
        ("  - retyr", "retry"),
        ("  - { name: retry, atempts: 2 }", "atempts"),
        ("  - { name: rate_limit, per_s: 3 }", "calls"),
        ("  - { name: rate_limit, calls: 1, per_s: 0 }", "per_s"),
        ("  - { name: cache, ttl_s: -1 }", "0 or more"),
        ("  - { name: cache, tools: [acct] }", "act"),
        ("  - { name: audit, file: /no/such/folder/audit }", "audit"),
    ] {
        let text = format!("agent:\n  name: a\n  tools: [act]\ninterceptors:\n{wrong}\n");
        let file = ghostlight::config::parse(text, "team.yaml").unwrap();
        let fault = file.resolve(registry()).unwrap_err().to_string();
        assert!(
            fault.contains(told) && fault.contains("team.yaml:5:"),
            "{fault}"
        );
    }
}
