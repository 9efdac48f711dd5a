//! Interceptors that guard and gather: personal data, authorisation, spans, calls made together.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "guards/held_back.rs"]
mod held_back;
#[path = "guards/scenario.rs"]
mod scenario;
#[path = "guards/sets.rs"]
mod sets;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight::{
    actor::System,
    contract::{Model, ModelContext, ModelError, Tool, ToolContext, ToolError, ToolOutput},
    interceptors::{
        Authorization, Batching, GuardedPoint, PersonalAction, PersonalDataGuard, Retry, Timeout,
        Tracing,
    },
    models::Secret,
    run::{Agent, Intercept, RunContext},
    testing::InMemoryStore,
    vocabulary::{
        Arguments, Delta, Effect, ErrorKind, Event, Message, ModelRequest, ModelResponse, Outcome,
        Preview, ToolCall, ToolDefinition, Transcript,
    },
};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Streams its answer in these pieces, after so many failures, and keeps what it heard.
#[derive(Clone, Default)]
struct Says {
    pieces: Vec<&'static str>,
    failures: Arc<AtomicU32>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Says {
    fn of(pieces: &[&'static str]) -> Self {
        Self {
            pieces: pieces.to_vec(),
            ..Self::default()
        }
    }
}

impl Model for Says {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        self.heard
            .lock()
            .push(request.conversation.last().unwrap().content());
        for piece in &self.pieces {
            tokio::time::sleep(Duration::from_millis(10)).await;
            cx.delta(Delta::Text((*piece).to_owned()));
        }
        if self.failures.load(Ordering::SeqCst) > 0 {
            self.failures.fetch_sub(1, Ordering::SeqCst);
            return Err(ModelError::new(ErrorKind::Model, "busy").retryable());
        }
        Ok(ModelResponse::text(self.pieces.concat()))
    }
}

/// Says again what it is asked, and counts its calls.
#[derive(Clone)]
struct Echo(Effect, Arc<AtomicU32>);

impl Echo {
    fn new(effect: Effect) -> Self {
        Self(effect, Arc::default())
    }

    fn calls(&self) -> u32 {
        self.1.load(Ordering::SeqCst)
    }
}

impl Tool for Echo {
    fn definition(&self) -> ToolDefinition {
        let definition = ToolDefinition::new("echo", "says it again");
        definition
            .parameters(json!({ "type": "object" }))
            .effect(self.0)
    }

    async fn call(&self, asked: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        let text = asked.value().unwrap()["text"].as_str().unwrap().to_owned();
        let half = text.len() / 2;
        cx.output(&text[..half]);
        cx.output(&text[half..]);
        match text.strip_prefix("fail ") {
            Some(reason) => Err(ToolError::new(reason)),
            None => Ok(ToolOutput::text(text)),
        }
    }
}

/// Asks the model this once.
fn asks(text: &'static str) -> Agent {
    Agent::from_fn("desk", move |cx: RunContext| async move {
        let conversation = Transcript::from_iter([Message::user(text)]);
        let answer = cx.model(cx.model_request(conversation)).await?;
        Ok(Outcome::answer(answer.content()))
    })
    .streaming()
}

/// Calls the tool with these texts at once.
fn calls(texts: &[&'static str]) -> Agent {
    let texts = texts.to_vec();
    Agent::from_fn("desk", move |cx: RunContext| {
        let call = |text: &&str| ToolCall::new(*text, "echo", json!({ "text": text }));
        let calls: Vec<ToolCall> = texts.iter().map(call).collect();
        async move {
            let results = cx.tools(calls).await?;
            let told = results
                .iter()
                .map(|result| format!("{:?}: {}", result.status, result.text));
            let told: Vec<String> = told.collect();
            Ok(Outcome::answer(serde_json::to_string(&told).unwrap()))
        }
    })
    .parallel_tools(64)
}

/// What a run came to, and the pieces of text that observers were shown. The last of them may be
/// overtaken by the result.
async fn watched(
    agent: Agent,
    model: Says,
    by: impl Into<Vec<Intercept>>,
) -> (Result<String, String>, String) {
    let mut team = agent.into_team().unwrap();
    for intercept in by.into() {
        team = team.intercept(intercept);
    }
    let builder = System::builder(InMemoryStore::new()).model("default", model);
    let system = builder.team(team).start().await.unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    let mut events = run.events();
    let mut shown = String::new();
    while let Some(record) = events.next().await {
        match record.unwrap().event {
            Event::Preview(Preview::Delta {
                delta: Delta::Text(text),
                ..
            }) => shown.push_str(&text),
            Event::Preview(Preview::ToolOutput { text, .. }) => shown.push_str(&text),
            Event::Preview(Preview::ModelRetry { .. }) => shown.push('|'),
            _ => {}
        }
    }
    let outcome = run.outcome().await;
    let outcome = outcome.map(|outcome| outcome.text().to_owned());
    (outcome.map_err(|error| error.to_string()), shown)
}

async fn results(
    texts: &[&'static str],
    echo: &Echo,
    by: impl Into<Vec<Intercept>>,
) -> Vec<String> {
    let agent = calls(texts).tool(echo.clone());
    let (outcome, _) = watched(agent, Says::of(&["x"]), by).await;
    serde_json::from_str(&outcome.unwrap()).unwrap()
}

fn guard(action: PersonalAction) -> Vec<Intercept> {
    vec![Intercept::new(PersonalDataGuard::new(action))]
}

#[tokio::test(start_paused = true)]
async fn personal_data_reaches_neither_model_nor_answer_nor_whoever_watches() {
    use PersonalAction::{Hash, Mask, Refuse, Remove, Report};
    // The address and the card are cut between pieces.
    let pieces = [
        "Mail ada@exam",
        "ple.org, card 4111 11",
        "11 1111 1111",
        " now.",
    ];
    let whole = pieces.concat();
    for (action, expected) in [
        (Mask, "Mail [email], card [card] now.".to_owned()),
        (Remove, "Mail , card  now.".to_owned()),
        (Report, whole.clone()),
    ] {
        let model = Says::of(&pieces);
        let (answer, shown) =
            watched(asks("I am bob@home.org"), model.clone(), guard(action)).await;
        assert_eq!(answer.unwrap(), expected, "{action:?}");
        assert!(
            shown.len() > 6 && expected.starts_with(&shown),
            "{action:?}: {shown}"
        );
        let heard = model.heard.lock().remove(0);
        assert_eq!(heard.contains("bob@home.org"), action == Report, "{heard}");
    }
    let keyed = |key| vec![Intercept::new(PersonalDataGuard::new(Hash).secret(key))];
    let model = Says::of(&["+1 202-555-0143 or +1 (202) 555-0143"]);
    let (answer, _) = watched(asks("x"), model.clone(), keyed(Secret::value("a"))).await;
    let answer = answer.unwrap();
    let (one, other) = answer.split_once(" or ").unwrap();
    assert_eq!(one, other, "the same number in other groups is the same");
    assert!(
        one.starts_with("[phone ") && one.len() == "[phone 12345678]".len(),
        "{one}"
    );
    let (with_another_key, _) = watched(asks("x"), model, keyed(Secret::value("b"))).await;
    assert_ne!(with_another_key.unwrap(), answer);
    // Nothing passes under a hash that anybody could make.
    for unkeyed in [guard(Hash), keyed(Secret::value(" "))] {
        let model = Says::of(&["+1 202-555-0143"]);
        let (refused, shown) = watched(asks("x"), model, unkeyed).await;
        let reason = refused.unwrap_err();
        assert!(reason.contains("a hash that anybody can make"), "{reason}");
        assert_eq!(shown, "");
    }
    let missing = Secret::variable("GHOSTLIGHT_NO_SUCH_VARIABLE");
    let (refused, _) = watched(asks("x"), Says::of(&["x"]), keyed(missing)).await;
    let reason = refused.unwrap_err();
    assert!(
        reason.contains("GHOSTLIGHT_NO_SUCH_VARIABLE is not set"),
        "{reason}"
    );

    let (refused, shown) = watched(asks("x"), Says::of(&pieces), guard(Refuse)).await;
    let reason = refused.unwrap_err();
    assert!(
        reason.contains("the answer holds personal data that may not pass: 1 card, 1 email"),
        "{reason}"
    );
    assert!(shown.starts_with("Mail [email], card "), "{shown}");
    let model = Says::of(&["x"]);
    let (refused, _) = watched(asks("I am bob@home.org"), model.clone(), guard(Refuse)).await;
    assert!(refused.unwrap_err().contains("the input holds"));
    assert!(model.heard.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_leaves_nothing_in_the_next_ones_pieces() {
    let model = Says::of(&["Mail ada@exam", "ple.org"]);
    model.failures.store(1, Ordering::SeqCst);
    let by = vec![
        Intercept::new(PersonalDataGuard::default()),
        Intercept::new(Retry::attempts(2)),
    ];
    let (answer, shown) = watched(asks("x"), model, by).await;
    assert_eq!(answer.unwrap(), "Mail [email]");
    assert!(
        "Mail |Mail [email]".starts_with(&shown) && shown.contains('|'),
        "{shown}"
    );
}

#[tokio::test(start_paused = true)]
async fn personal_data_of_tools_is_guarded_where_it_is_told_to_be() {
    let echo = Echo::new(Effect::Once);
    let texts = ["ada@example.org", "fail SSN 219-09-9999", "plain"];
    let told = results(&texts, &echo, guard(PersonalAction::Mask)).await;
    assert_eq!(
        told,
        [
            "Success: [email]",
            "Error: SSN [social security number]",
            "Success: plain"
        ]
    );
    let agent = calls(&["ada@example.org"]).tool(echo.clone());
    let (_, shown) = watched(agent, Says::of(&["x"]), guard(PersonalAction::Mask)).await;
    assert!("[email]".starts_with(&shown), "{shown}");
    // The call was made: it is not denied, and what it says is held back.
    let told = results(&texts[..1], &echo, guard(PersonalAction::Refuse)).await;
    assert_eq!(
        told,
        [
            "Success: The call was made, but the result holds personal data that may not pass: 1 email."
        ]
    );
    let before = echo.calls();
    let arguments = PersonalDataGuard::new(PersonalAction::Refuse).at([GuardedPoint::Arguments]);
    let told = results(&texts[..1], &echo, [Intercept::new(arguments)]).await;
    assert!(told[0].starts_with("Denied"), "{told:?}");
    assert_eq!(echo.calls(), before);
}

/// Says what it is called with.
struct Repeats;

impl Tool for Repeats {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("repeats", "repeats").parameters(json!({ "type": "object" }))
    }

    async fn call(&self, asked: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(asked.text()))
    }
}

#[tokio::test(start_paused = true)]
async fn personal_data_is_found_where_a_number_is_written_as_one() {
    let told = async |action| {
        let agent = Agent::from_fn("desk", |cx: RunContext| async move {
            let arguments = r#"{"cards": [4111111111111111, 4111111111111111.0, 7, 0.5]}"#;
            let call = ToolCall::new("1", "repeats", arguments);
            Ok(Outcome::answer(cx.tool(call).await?.text))
        });
        let guard = PersonalDataGuard::new(action).at([GuardedPoint::Arguments]);
        let by = [Intercept::new(guard)];
        let (told, _) = watched(agent.tool(Repeats), Says::of(&["x"]), by).await;
        told.unwrap()
    };
    let masked = told(PersonalAction::Mask).await;
    assert_eq!(masked, r#"{"cards":["[card]","[card].0",7,0.5]}"#);
    let reported = told(PersonalAction::Report).await;
    assert!(reported.contains("[4111111111111111,"), "{reported}");
    let refused = told(PersonalAction::Refuse).await;
    assert!(refused.contains("2 card"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_authorised_is_denied_and_not_made() {
    let echo = Echo::new(Effect::Once);
    let rules = |rules: Authorization| [Intercept::new(rules)];
    let blocked = Authorization::new().allow(["e*"]).block(["*o"]);
    let told = results(&["x"], &echo, rules(blocked)).await;
    assert_eq!(
        told,
        ["Denied: the agent desk is not authorised to call echo"]
    );
    let reads = Authorization::new().effects([Effect::Read]);
    let told = results(&["x"], &echo, rules(reads)).await;
    assert!(told[0].starts_with("Denied"), "{told:?}");
    assert_eq!(echo.calls(), 0);
    let others = Authorization::new().agents(["clerk"]).block(["*"]);
    assert_eq!(results(&["x"], &echo, rules(others)).await, ["Success: x"]);
}

/// Keeps the spans that were opened, each with its parent and its fields.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<(Vec<String>, Vec<u64>)>>);

impl tracing::field::Visit for Spans {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        let mut spans = self.0.lock();
        let place = spans.1.last().copied().unwrap_or_default() as usize;
        spans.0[place].push_str(&format!(" {field}={value:?}"));
    }
}

impl tracing::Subscriber for Spans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "ghostlight::spans" || metadata.target() == "test"
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let place = {
            let mut spans = self.0.lock();
            spans.0.push(span.metadata().name().to_owned());
            let place = spans.0.len() as u64 - 1;
            spans.1.push(place);
            place
        };
        span.record(&mut self.clone());
        self.0.lock().1.pop();
        tracing::span::Id::from_u64(place + 1)
    }
    fn record(&self, span: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        self.0.lock().1.push(span.into_u64() - 1);
        values.record(&mut self.clone());
        self.0.lock().1.pop();
    }
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        // What is told inside of a span belongs to it.
        event.record(&mut self.clone());
    }
    fn enter(&self, span: &tracing::span::Id) {
        self.0.lock().1.push(span.into_u64() - 1);
    }
    fn exit(&self, _: &tracing::span::Id) {
        self.0.lock().1.pop();
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_a_span_that_holds_no_secret() {
    let spans = Spans::default();
    let _guard = tracing::subscriber::set_default(spans.clone());
    let model = Says::of(&["hidden answer"]);
    model.failures.store(1, Ordering::SeqCst);
    let by = || {
        vec![
            Intercept::new(Retry::attempts(2)),
            Intercept::new(Tracing::new()),
        ]
    };
    watched(asks("hidden question"), model, by())
        .await
        .0
        .unwrap();
    let echo = Echo::new(Effect::Read);
    results(
        &["fail password=hunter2"],
        &echo,
        vec![Intercept::new(Tracing::new())],
    )
    .await;
    let spans = spans.0.lock().0.clone();
    let [failed, answered, called] = &spans[..] else {
        panic!("{spans:#?}");
    };
    assert!(
        failed.starts_with("chat ") && failed.contains("error.type=Model"),
        "{failed}"
    );
    assert!(
        answered.contains("gen_ai.request.model=default"),
        "{answered}"
    );
    assert!(
        answered.contains("gen_ai.usage.output_tokens=0") && !answered.contains("error"),
        "{answered}"
    );
    assert!(
        called.contains("gen_ai.tool.name=echo") && called.contains("gen_ai.agent.name=\"desk\""),
        "{called}"
    );
    assert!(
        called.contains("error.type=\"error\"") && called.contains("[redacted]"),
        "{called}"
    );
    assert!(
        !spans.concat().contains("hidden") && !called.contains("hunter2"),
        "{spans:#?}"
    );
}

/// Answers all that was asked together, and keeps how many it was each time.
fn together(batches: &Arc<Mutex<Vec<usize>>>) -> Batching {
    let batches = batches.clone();
    Batching::new(move |asked: Vec<Arguments>| {
        batches.lock().push(asked.len());
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let text = |asked: &Arguments| asked.value().unwrap()["text"].clone();
            let answer = |asked: &Arguments| match text(asked).as_str().unwrap() {
                "bad" => Err(ToolError::new("not this one")),
                "short" => Ok(ToolOutput::text("")),
                text => Ok(ToolOutput::text(format!("together {text}"))),
            };
            let mut answers: Vec<_> = asked.iter().map(answer).collect();
            answers.retain(|answer| !answer.as_ref().is_ok_and(|output| output.text.is_empty()));
            assert!(
                !asked.iter().any(|asked| text(asked) == "panic"),
                "as asked"
            );
            Ok(answers)
        }
    })
    .max(3)
}

#[tokio::test(start_paused = true)]
async fn calls_that_come_together_are_made_together() {
    let (echo, batches) = (Echo::new(Effect::Read), Arc::default());
    let by = || [Intercept::new(together(&batches))];
    let told = results(&["a", "b", "bad", "d", "e"], &echo, by()).await;
    assert_eq!(
        told,
        [
            "Success: together a",
            "Success: together b",
            "Error: not this one",
            "Success: together d",
            "Success: together e"
        ]
    );
    assert_eq!(*batches.lock(), [3, 2]);
    let told = results(&["a", "short"], &echo, by()).await;
    assert_eq!(
        told,
        ["Error: 2 calls were done together, and there are 1 results"; 2]
    );
    let told = results(&["a", "panic"], &echo, by()).await;
    assert_eq!(told, ["Error: what does calls together panicked"; 2]);
    assert_eq!(echo.calls(), 0);
    // What has an effect is called alone, with all that is promised of it.
    let once = Echo::new(Effect::Once);
    assert_eq!(
        results(&["a", "b"], &once, by()).await,
        ["Success: a", "Success: b"]
    );
    assert_eq!(once.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_goes_on_for_the_others_when_one_of_its_calls_is_given_up() {
    let (echo, batches) = (Echo::new(Effect::Read), Arc::<Mutex<Vec<usize>>>::default());
    // The first to come would carry the batch, and is given up in the middle of it.
    let impatient = Intercept::new(Timeout::after(Duration::from_millis(50))).tools(["hasty"]);
    let hasty = Renamed(echo.clone());
    let agent = Agent::from_fn("desk", |cx: RunContext| async move {
        let call = |name: &str| ToolCall::new(name, name, json!({ "text": name }));
        let results = cx.tools([call("hasty"), call("echo")]).await?;
        let told: Vec<&str> = results.iter().map(|result| result.text.as_str()).collect();
        Ok(Outcome::answer(json!(told).to_string()))
    });
    let agent = agent.tool(echo).tool(hasty);
    let by = vec![impatient, Intercept::new(together(&batches))];
    let (outcome, _) = watched(agent, Says::of(&["x"]), by).await;
    let told: Vec<Value> = serde_json::from_str(&outcome.unwrap()).unwrap();
    assert_eq!(told[1], "together echo");
    assert!(
        told[0].as_str().unwrap().contains("no end within"),
        "{told:?}"
    );
    assert_eq!(*batches.lock(), [2]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_calls_are_all_given_up_is_let_go() {
    let (echo, work) = (Echo::new(Effect::Read), Arc::new(()));
    let taken = Arc::downgrade(&work);
    let given = Mutex::new(Some(work));
    let by = [
        Intercept::new(Timeout::after(Duration::from_millis(50))),
        Intercept::new(Batching::new(move |asked: Vec<Arguments>| {
            let held = given.lock().take();
            async move {
                tokio::time::sleep(Duration::from_secs(900)).await;
                drop(held);
                Ok(asked.iter().map(|_| Ok(ToolOutput::text("late"))).collect())
            }
        })),
    ];
    let told = results(&["a", "b"], &echo, by).await;
    assert!(
        told.iter().all(|told| told.contains("no end within")),
        "{told:?}"
    );
    assert_eq!(taken.strong_count(), 0, "what nobody waits for goes on");
}

/// The same tool under another name.
struct Renamed(Echo);

impl Tool for Renamed {
    fn definition(&self) -> ToolDefinition {
        let mut definition = self.0.definition();
        definition.name = "hasty".to_owned();
        definition
    }

    async fn call(&self, asked: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.call(asked, cx).await
    }
}

#[cfg(feature = "yaml")]
#[test]
fn a_team_file_sets_up_guards_by_name() {
    let file = |interceptors: &str| {
        let text = format!("agent:\n  name: a\ninterceptors:\n{interceptors}\n");
        ghostlight::config::parse(&text, "team.yaml").unwrap()
    };
    let right = "  - tracing\n  - { name: authorization, agents: [a], allowed: ['read_*'], effects: [read] }\n  - { name: personal_data, kinds: [email, card], action: hash, at: [output], secret: '${PII_SECRET}' }";
    file(right).resolve(ghostlight::builtin()).unwrap();
    for (wrong, told) in [
        (
            "  - { name: personal_data, kinds: [shoe_size] }",
            "shoe_size",
        ),
        ("  - { name: personal_data, action: burn }", "burn"),
        ("  - { name: authorization, alowed: [x] }", "alowed"),
    ] {
        let fault = file(wrong)
            .resolve(ghostlight::builtin())
            .unwrap_err()
            .to_string();
        assert!(
            fault.contains(told) && fault.contains("team.yaml:4:"),
            "{fault}"
        );
    }
}
