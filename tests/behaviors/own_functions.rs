//! Policies watch over every function: also one of a user's own, which no loop drives.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ghostlight::behaviors;
use ghostlight_actors::{
    contract::ModelError,
    definition::{ContextSpec, ContextStrategy, SlidingWindow},
    run::{
        Agent, BeforeTool, Policy, PolicyContext, Registry, RunContext, Verdict, operations::Scope,
    },
    testing::{CrashOptions, Reply, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{
        AgentError, Arguments, Effect, ErrorKind, Message, ModelRequest, ModelResponse,
        OperationError, Outcome, Question, StopReason, ToolCall, ToolDefinition, ToolResult,
        ToolSet, ToolStatus,
    },
};
use serde_json::json;

use crate::{
    context::bounded,
    stage::{Stage, call, echo, echo_call, told},
};

/// Function calling, written by hand and without a loop.
async fn by_hand(cx: RunContext) -> Result<Outcome, AgentError> {
    let mut conversation = cx.conversation();
    loop {
        let response = cx.model(cx.model_request(conversation.clone())).await?;
        conversation.push(response.message.clone());
        let calls: Vec<ToolCall> = response.message.tool_calls().cloned().collect();
        if calls.is_empty() {
            return Ok(Outcome::answer(response.content()));
        }
        conversation.push(Message::results(cx.tools(calls).await?));
    }
}

fn desk() -> Agent {
    Agent::from_fn("desk", by_hand).tool(echo())
}

type Log = Arc<Mutex<Vec<String>>>;

/// Writes down each hook with what the policy sees there.
#[derive(Clone, Default)]
struct Witness(Log);

impl Witness {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn noted(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Policy for Witness {
    async fn before_run(&mut self, _: &PolicyContext<'_>) -> Result<Option<Outcome>, AgentError> {
        self.note("before_run");
        Ok(None)
    }

    async fn after_run(
        &mut self,
        _: &PolicyContext<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Outcome>, AgentError> {
        self.note(format!("after_run {}", outcome.text()));
        Ok(None)
    }

    async fn before_model(
        &mut self,
        cx: &PolicyContext<'_>,
        _: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        self.note(format!(
            "before_model {} {}",
            cx.steps(),
            cx.transcript().len()
        ));
        Ok(None)
    }

    async fn before_sending(
        &mut self,
        _: &PolicyContext<'_>,
        _: &mut ModelRequest,
    ) -> Result<(), AgentError> {
        self.note("before_sending");
        Ok(())
    }

    async fn after_model(
        &mut self,
        _: &PolicyContext<'_>,
        response: &ModelResponse,
    ) -> Result<Option<ModelResponse>, AgentError> {
        self.note(format!("after_model {}", response.content()));
        Ok(None)
    }

    async fn on_model_error(
        &mut self,
        _: &PolicyContext<'_>,
        error: &OperationError,
    ) -> Result<Option<ModelResponse>, AgentError> {
        self.note(format!("on_model_error {}", error.message));
        Ok(Some(ModelResponse::text("instead of a failure")))
    }

    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        let asked = cx.transcript().last().unwrap();
        let is_asked = asked.tool_calls().any(|asked| asked.id == call.id);
        self.note(format!("before_tool {} {is_asked}", call.id));
        Ok(BeforeTool::Go)
    }

    async fn after_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<Option<ToolResult>, AgentError> {
        self.note(format!("after_tool {} {}", call.id, result.text));
        Ok(None)
    }

    async fn after_tools(
        &mut self,
        _: &PolicyContext<'_>,
        _: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        self.note(format!("after_tools {}", results.len()));
        Ok(())
    }

    async fn before_answer(
        &mut self,
        _: &PolicyContext<'_>,
        draft: &str,
    ) -> Result<Verdict, AgentError> {
        self.note(format!("before_answer {draft}"));
        Ok(Verdict::Pass)
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_of_ones_own_is_watched_by_every_hook() {
    let witness = Witness::default();
    let policy = witness.clone();
    let agent = desk().policy("witness", move || policy.clone());
    let calls = vec![echo_call("a", "one"), echo_call("b", "two")];
    let stage = Stage::of(agent, [calls.into(), Reply::from("done")]).await;
    assert_eq!(stage.ask("go").await.text(), "done");
    let expected = [
        "before_run",
        "before_model 0 1",
        "before_sending",
        "after_model ",
        "before_tool a true",
        "before_tool b true",
        "after_tool a one",
        "after_tool b two",
        "after_tools 2",
        "before_model 1 3",
        "before_sending",
        "after_model done",
        "before_answer done",
        "after_run done",
    ];
    assert_eq!(witness.noted(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_policy_answers_for_a_model_call_of_ones_own_that_failed() {
    let witness = Witness::default();
    let policy = witness.clone();
    let agent = desk().policy("witness", move || policy.clone());
    let failure = ModelError::new(ErrorKind::Model, "down");
    let stage = Stage::of(agent, [Reply::from(failure)]).await;
    assert_eq!(stage.ask("go").await.text(), "instead of a failure");
    let noted = witness.noted();
    assert!(
        noted.contains(&"on_model_error down".to_owned()),
        "{noted:?}"
    );
}

/// Holds back what is secret, writes other arguments, answers by itself, defers and reminds.
struct Guard;

impl Policy for Guard {
    async fn before_model(
        &mut self,
        cx: &PolicyContext<'_>,
        _: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        cx.remind("Mind the guard.");
        Ok(None)
    }

    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        Ok(match call.arguments.value().unwrap()["text"].as_str() {
            Some("secret") => {
                cx.defer("Do not say it.");
                BeforeTool::blocked(call, "held back")
            }
            Some("loud") => BeforeTool::GoWith(Arguments::from(json!({"text": "quiet"}))),
            Some("ask") => BeforeTool::ask(Question::approval("May it?", call.clone())),
            _ => BeforeTool::Go,
        })
    }

    async fn after_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<Option<ToolResult>, AgentError> {
        let is_plain = result.text == "plain";
        Ok(is_plain.then(|| ToolResult::new(call, ToolStatus::Success, "[redacted]")))
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_ones_own_are_held_back_changed_asked_about_and_their_results_replaced() {
    let agent = desk().policy("guard", || Guard);
    let texts = ["secret", "loud", "plain", "ask"];
    let calls: Vec<ToolCall> = texts.iter().map(|text| echo_call(text, text)).collect();
    let stage = Stage::of(agent, [calls.into(), Reply::from("done")]).await;
    let run = stage.say("go").await;
    let mut questions = Vec::new();
    for _ in 0..100 {
        questions = run.questions().await.unwrap();
        if !questions.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (_, question, _) = questions.pop().expect("the policy asks");
    run.answer(question, json!(true)).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    stage.check();
    let said = stage.said(1);
    assert_eq!(
        said[2],
        "tool: echo=blocked:held back | echo=success:quiet | echo=success:[redacted] | \
         echo=success:ask"
    );
    // What is deferred and reminded of stands at the request's end.
    assert_eq!(said[3], "user: do not say it. | mind the guard.");
    let told = told(&run).await;
    let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["call_held_back", "result_replaced"]);
}

/// Stops after the first batch, and objects to every answer.
struct Strict {
    stops: bool,
}

impl Policy for Strict {
    async fn after_tools(
        &mut self,
        cx: &PolicyContext<'_>,
        _: &[ToolCall],
        _: &[ToolResult],
    ) -> Result<(), AgentError> {
        if self.stops {
            cx.stop(StopReason::Other("enough".into()));
        }
        Ok(())
    }

    async fn before_answer(
        &mut self,
        _: &PolicyContext<'_>,
        _: &str,
    ) -> Result<Verdict, AgentError> {
        Ok(Verdict::Reject("it has no source".into()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_stops_a_function_of_ones_own_before_it_asks_the_model_again() {
    let agent = desk().policy("strict", || Strict { stops: true });
    let stage = Stage::of(agent, [Reply::from(echo_call("a", "x")), "done".into()]).await;
    let outcome = stage.ask("go").await;
    let reason = StopReason::Other("enough".into());
    assert_eq!(outcome.stop_reason(), Some(&reason));
    assert_eq!(stage.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_ones_own_to_which_a_policy_objects_is_flagged() {
    let agent = desk().policy("strict", || Strict { stops: false });
    let stage = Stage::of(agent, ["done"]).await;
    let outcome = stage.ask("go").await;
    let flagged = outcome.as_answer().unwrap().flagged.as_deref();
    assert_eq!(
        (outcome.text(), flagged),
        ("done", Some("it has no source"))
    );
}

/// Takes every tool out of a request.
struct Withholds;

impl Policy for Withholds {
    async fn before_model(
        &mut self,
        _: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        request.tools = ToolSet::default();
        Ok(None)
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_ones_own_of_a_tool_that_a_policy_withheld_is_refused() {
    let agent = desk().policy("withholds", || Withholds);
    let stage = Stage::of(agent, [Reply::from(echo_call("a", "x")), "done".into()]).await;
    assert_eq!(stage.ask("go").await.text(), "done");
    assert_eq!(
        stage.last(1),
        "tool: echo=error:the tool \"echo\" cannot be called now."
    );
}

/// Offers a tool to whatever is asked.
struct Offers;

impl Policy for Offers {
    async fn before_model(
        &mut self,
        _: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        let own = Arc::new(ToolDefinition::new("own", "The policy's."));
        request.tools = request.tools.iter().cloned().chain([own]).collect();
        Ok(None)
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_of_ones_own_without_tools_is_offered_none() {
    let agent = Agent::from_fn("desk", |cx: RunContext| async move {
        let bare = ModelRequest::new(cx.conversation());
        cx.model(bare).await?;
        let response = cx.model(cx.model_request(cx.conversation())).await?;
        Ok(Outcome::answer(response.content()))
    });
    let agent = agent.tool(echo()).policy("offers", || Offers);
    let stage = Stage::of(agent, ["one", "two"]).await;
    assert_eq!(stage.ask("go").await.text(), "two");
    assert!(stage.request(0).tools.is_empty());
    assert!(stage.request(1).tools.get("own").is_some());
}

#[tokio::test(start_paused = true)]
async fn requests_of_ones_own_are_shaped_by_the_agents_context() {
    let turns = ContextStrategy::SlidingWindow(SlidingWindow {
        turns: 1,
        ..SlidingWindow::default()
    });
    let context = ContextSpec::new(10_000).strategy(turns).between(100, 0);
    let stage = Stage::of(bounded(desk(), context), ["one", "two", "three"]).await;
    for turn in ["first", "second", "third"] {
        stage.ask(turn).await;
    }
    let said = stage.said(2).join("\n");
    assert!(
        said.ends_with("third") && !said.contains("second"),
        "{said}"
    );
}

/// Reminds each request of what it asks.
struct Reminds;

impl Policy for Reminds {
    async fn before_model(
        &mut self,
        cx: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        let asked = request.conversation.last().unwrap().content();
        cx.remind(format!("mind {asked}"));
        Ok(None)
    }

    async fn before_sending(
        &mut self,
        cx: &PolicyContext<'_>,
        _: &mut ModelRequest,
    ) -> Result<(), AgentError> {
        cx.now().await.map(drop)
    }
}

#[tokio::test(start_paused = true)]
async fn requests_side_by_side_are_each_reminded_of_their_own() {
    let agent = Agent::from_fn("desk", |cx: RunContext| async move {
        let ask = |text: &str| ModelRequest::new([Message::user(text)].into_iter().collect());
        let asked = ["one", "two", "three"].map(|text| cx.model(ask(text)));
        futures_util::future::try_join_all(asked).await?;
        Ok(Outcome::answer("done"))
    });
    let agent = agent.policy("reminds", || Reminds);
    let stage = Stage::of(agent, ["a", "b", "c"]).await;
    assert_eq!(stage.ask("go").await.text(), "done");
    let mut said: Vec<String> = (0..3).map(|request| stage.last(request)).collect();
    said.sort();
    let expected = ["one", "three", "two"].map(|text| format!("user: {text} | mind {text}"));
    assert_eq!(said, expected);
}

/// Counts calls in the session, asks a person about every charge, and emits.
#[derive(Default)]
struct Cashier {
    charges: u32,
}

impl Policy for Cashier {
    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        if call.name != "charge" {
            return Ok(BeforeTool::Go);
        }
        self.charges += 1;
        let counted = cx.state(Scope::Session);
        let counted = counted.update("charges", |n: Option<u32>| n.unwrap_or(0) + 1);
        cx.emit("charge", &json!(counted.await?));
        let question = Question::approval(format!("Charge {}?", call.id), call.clone());
        Ok(match self.charges {
            1 => BeforeTool::decided(call, cx.ask(question).await?.into()),
            2 => BeforeTool::ask(question),
            more => BeforeTool::blocked(call, format!("{more} are too many")),
        })
    }

    async fn before_sending(
        &mut self,
        cx: &PolicyContext<'_>,
        _: &mut ModelRequest,
    ) -> Result<(), AgentError> {
        cx.now().await.map(drop)
    }

    async fn after_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<Option<ToolResult>, AgentError> {
        cx.emit("ended", &json!([call.id, result.status]));
        Ok(None)
    }
}

/// Two batches and a model call side by side, and another model call with what came of them.
async fn side_by_side(cx: RunContext) -> Result<Outcome, AgentError> {
    let charge = |id: &str| call(id, "charge", json!({"id": id}));
    let look = |id: &str| call(id, "look", json!({"id": id}));
    let left = cx.lane("left");
    let (mine, right, said) = futures_util::try_join!(
        left.tools([charge("1"), look("2"), charge("3")]),
        cx.tools([look("4"), charge("5"), look("6")]),
        cx.model(cx.model_request(cx.conversation())),
    )?;
    let texts = mine.iter().chain(&right);
    let texts: Vec<String> = texts.map(|result| format!("{:?}", result.status)).collect();
    let mut conversation = cx.conversation();
    conversation.push(said.message);
    conversation.push(Message::user(texts.join(" ")));
    let response = cx.model(cx.model_request(conversation)).await?;
    Ok(Outcome::answer(format!(
        "{} {}",
        response.content(),
        texts.join(" ")
    )))
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_commit_policies_of_ones_own_function_are_where_they_were() {
    let scenario = Scenario::new("desk", move |builder, log| {
        let (slow, brief) = (Duration::from_millis(40), Duration::from_millis(10));
        let tool = |name, effect| ToolDefinition::new(name, "is logged").effect(effect);
        let agent = Agent::from_fn("desk", side_by_side)
            .tool(log.tool(tool("charge", Effect::Once), slow))
            .tool(log.tool(tool("look", Effect::Read), brief))
            .policy("cashier", Cashier::default);
        builder
            .registry(behaviors::register(Registry::new()))
            .model("default", ScriptedModel::turns(["one moment", "done"]))
            .team(agent.into_team().unwrap())
    });
    let scenario = scenario.turn("charge them").answers(|_| json!(true));
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.commits > 12, "{report}");
}
