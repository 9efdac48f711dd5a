//! Policies: what each hook sees and may do, in which order, and what becomes of it.

use std::sync::{Arc, Mutex};

use ghostlight_actors::{
    run::{Agent, BeforeTool, Policy, PolicyContext, Verdict, operations::Scope},
    testing::{Reply, ScriptedModel},
    vocabulary::{
        AgentError, Message, ModelRequest, ModelResponse, OperationError, Outcome, StopReason,
        ToolCall, ToolDefinition, ToolResult, ToolStatus,
    },
};
use serde_json::json;

use crate::stage::{Stage, call, desk, echo, echo_call, told};

fn agent() -> Agent {
    desk("function_calling", json!({})).tool(echo())
}

type Log = Arc<Mutex<Vec<String>>>;

/// Writes down which hook was called with what, and overrides what its name says.
struct Scribe {
    name: &'static str,
    log: Log,
}

impl Scribe {
    fn note(&self, text: impl AsRef<str>) {
        let line = format!("{} {}", self.name, text.as_ref());
        self.log.lock().unwrap().push(line);
    }

    fn overrides(&self, call: &ToolCall, hook: &str) -> bool {
        call.arguments
            .text()
            .contains(&format!("{} {hook}", self.name))
    }
}

impl Policy for Scribe {
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
        self.note(format!("before_model {}", cx.steps()));
        Ok(None)
    }

    async fn after_model(
        &mut self,
        _: &PolicyContext<'_>,
        response: &ModelResponse,
    ) -> Result<Option<ModelResponse>, AgentError> {
        self.note(format!("after_model {}", response.content()));
        Ok(None)
    }

    async fn before_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        self.note(format!("before_tool {}", call.id));
        Ok(match self.overrides(call, "before") {
            true => BeforeTool::blocked(call, "held back"),
            false => BeforeTool::Go,
        })
    }

    async fn after_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<Option<ToolResult>, AgentError> {
        self.note(format!("after_tool {}={}", call.id, result.text));
        let other = ToolResult::new(call, ToolStatus::Success, "[redacted]");
        Ok(self.overrides(call, "after").then_some(other))
    }

    async fn after_tools(
        &mut self,
        _: &PolicyContext<'_>,
        _: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        let results: Vec<&str> = results.iter().map(|result| result.text.as_str()).collect();
        self.note(format!("after_tools {}", results.join(",")));
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

/// Scenario 1 of the conformance list, with policies.
#[tokio::test(start_paused = true)]
async fn an_override_before_a_call_skips_the_rest_and_one_after_it_is_handed_on() {
    let log = Log::default();
    let scribe = |name| {
        let log = log.clone();
        move || Scribe {
            name,
            log: log.clone(),
        }
    };
    let agent = agent().policy("A", scribe("A")).policy("B", scribe("B"));
    let calls = vec![echo_call("1", "A before"), echo_call("2", "A after")];
    let stage = Stage::of(agent, [calls.into(), Reply::from("done")]).await;
    let run = stage.say("go").await;
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    stage.check();
    assert_eq!(
        stage.last(1),
        "tool: echo=blocked:held back | echo=success:[redacted]"
    );
    let told = told(&run).await;
    let told: Vec<_> = told
        .iter()
        .map(|(name, data)| (name.as_str(), &data["call"]))
        .collect();
    let (first, second) = (json!("1"), json!("2"));
    assert_eq!(
        told,
        [("call_held_back", &first), ("result_replaced", &second)]
    );
    let expected = [
        "A before_run",
        "B before_run",
        "A before_model 0",
        "B before_model 0",
        "A after_model ",
        "B after_model ",
        "A before_tool 1",
        "A before_tool 2",
        "B before_tool 2",
        "A after_tool 1=held back",
        "B after_tool 1=held back",
        "A after_tool 2=A after",
        "B after_tool 2=[redacted]",
        "A after_tools held back,[redacted]",
        "B after_tools held back,[redacted]",
        "A before_model 1",
        "B before_model 1",
        "A after_model done",
        "B after_model done",
        "A before_answer done",
        "B before_answer done",
        "A after_run done",
        "B after_run done",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
}

/// Signs the answer.
struct Sign(&'static str);

impl Policy for Sign {
    async fn after_run(
        &mut self,
        _: &PolicyContext<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Outcome>, AgentError> {
        Ok(Some(Outcome::answer(format!(
            "{} {}",
            outcome.text(),
            self.0
        ))))
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_policy_makes_of_the_answer_is_handed_to_the_next() {
    let agent = agent().policy("A", || Sign("A")).policy("B", || Sign("B"));
    let stage = Stage::of(agent, ["done"]).await;
    assert_eq!(stage.ask("go").await.text(), "done A B");
}

/// Offers `echo` in the first step only, adds a tool of its own, and a remark to each request.
struct Phases {
    finished: bool,
}

impl Policy for Phases {
    async fn before_model(
        &mut self,
        _: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        let finished = self.finished;
        let tools = request
            .tools
            .iter()
            .filter(|tool| !finished || tool.name != "echo");
        let own = Arc::new(ToolDefinition::new("next_phase", "Goes on."));
        request.tools = tools.cloned().chain([own]).collect();
        request.conversation.push(Message::user("Mind the phase."));
        Ok(None)
    }

    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        if call.name != "next_phase" {
            return Ok(BeforeTool::Go);
        }
        self.finished = true;
        cx.state(Scope::Session).set("phase", &2).await?;
        Ok(BeforeTool::done(call, "This is phase 2."))
    }
}

#[tokio::test(start_paused = true)]
async fn tools_change_from_turn_to_turn_and_changing_a_request_leaves_the_conversation() {
    let agent = agent().policy("phases", || Phases { finished: false });
    let both = vec![echo_call("1", "x"), call("2", "next_phase", json!({}))];
    let again = vec![echo_call("3", "y"), call("4", "nothing", json!({}))];
    let replies = [both.into(), again.into(), Reply::from("done")];
    let stage = Stage::of(agent, replies).await;
    assert_eq!(stage.ask("go").await.text(), "done");
    let offered = |request: usize| -> Vec<String> {
        let request = stage.request(request);
        request.tools.iter().map(|tool| tool.name.clone()).collect()
    };
    assert_eq!(offered(0), ["echo", "next_phase"]);
    assert_eq!(offered(1), ["next_phase"]);
    let said = stage.said(2);
    let remarks = said.iter().filter(|line| line.contains("mind the phase"));
    assert_eq!(
        remarks.count(),
        1,
        "the request's own, at its end: {said:#?}"
    );
    assert!(
        said[2].contains("next_phase=success:this is phase 2."),
        "{said:#?}"
    );
    assert_eq!(
        said[4],
        "tool: echo=error:the tool \"echo\" cannot be called now. there are: next_phase. | \
         nothing=error:there is no tool \"nothing\". there are: next_phase."
    );
}

/// Blocks every call and says so to the model.
struct Corrects;

impl Policy for Corrects {
    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        cx.defer("Think first.");
        cx.defer(" ");
        cx.defer(format!("Not {}.", call.id));
        Ok(BeforeTool::blocked(call, "blocked"))
    }
}

#[tokio::test(start_paused = true)]
async fn deferred_messages_follow_all_results_and_equal_ones_are_sent_once() {
    let agent = agent().policy("A", || Corrects).policy("B", || Corrects);
    let calls = vec![echo_call("1", "x"), echo_call("2", "y")];
    let stage = Stage::of(agent, [calls.into(), Reply::from("done")]).await;
    assert_eq!(stage.ask("go").await.text(), "done");
    assert_eq!(
        stage.said(1)[2..],
        [
            "tool: echo=blocked:blocked | echo=blocked:blocked",
            "user: think first.",
            "user: not 1.",
            "user: not 2."
        ]
    );
}

/// Answers in the model's place where it can.
struct StandsIn;

impl Policy for StandsIn {
    async fn before_model(
        &mut self,
        cx: &PolicyContext<'_>,
        _: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        let asked = cx.transcript().last().map(|last| last.content());
        Ok((asked.as_deref() == Some("known")).then(|| ModelResponse::text("from memory")))
    }

    async fn on_model_error(
        &mut self,
        _: &PolicyContext<'_>,
        error: &OperationError,
    ) -> Result<Option<ModelResponse>, AgentError> {
        Ok(Some(ModelResponse::text(format!(
            "sorry: {}",
            error.message
        ))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_answers_in_the_place_of_a_model_and_of_its_failure() {
    let failing = ScriptedModel::from_fn(|_, _| {
        Err(ghostlight_actors::contract::ModelError::new(
            ghostlight_actors::vocabulary::ErrorKind::Model,
            "down",
        ))
    });
    let stage = Stage::with(agent().policy("stands in", || StandsIn), failing).await;
    assert_eq!(stage.ask("known").await.text(), "from memory");
    assert_eq!(stage.calls(), 0);
    assert!(stage.ask("unknown").await.text().starts_with("sorry: "));
}

/// Puts another response in the place of the model's.
struct Editor;

impl Policy for Editor {
    async fn after_model(
        &mut self,
        _: &PolicyContext<'_>,
        response: &ModelResponse,
    ) -> Result<Option<ModelResponse>, AgentError> {
        Ok(match response.content().as_str() {
            "rude" => Some(ModelResponse::text("polite")),
            "lazy" => Some(ModelResponse::tool_calls([echo_call("e", "looked")])),
            _ => None,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_puts_another_response_in_the_place_of_the_models() {
    let replies = ["rude", "lazy", "done"];
    let stage = Stage::of(agent().policy("editor", || Editor), replies).await;
    assert_eq!(stage.ask("one").await.text(), "polite");
    // What the model itself said is not in the conversation; the policy's calls are run.
    assert_eq!(stage.ask("two").await.text(), "done");
    let said = stage.said(2).join("\n");
    assert!(
        said.contains("assistant: polite") && said.contains("echo=success:looked"),
        "{said}"
    );
    assert!(!said.contains("rude") && !said.contains("lazy"), "{said}");
}

/// Only writes state at the run's start; or ends the run there, when it is asked to.
struct Doorkeeper;

impl Policy for Doorkeeper {
    async fn before_run(&mut self, cx: &PolicyContext<'_>) -> Result<Option<Outcome>, AgentError> {
        let visits = cx.state(Scope::Session);
        let visits = visits
            .update("visits", |visits: Option<u32>| visits.unwrap_or(0) + 1)
            .await?;
        let closed = cx.input().content() == "late";
        Ok(closed.then(|| Outcome::answer(format!("closed at visit {visits}"))))
    }

    async fn after_run(
        &mut self,
        _: &PolicyContext<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Outcome>, AgentError> {
        Ok(Some(Outcome::answer(format!("{}!", outcome.text()))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_only_changes_state_lets_the_agent_run_and_an_outcome_takes_its_place() {
    // Every behavior has these two hooks, also one without a loop.
    let agent = Agent::from_fn("desk", |_| async { Ok(Outcome::answer("open")) });
    let stage = Stage::of(agent.policy("door", || Doorkeeper), Vec::<Reply>::new()).await;
    assert_eq!(stage.ask("early").await.text(), "open!");
    assert_eq!(stage.ask("late").await.text(), "closed at visit 2!");
}

/// Stops the loop once a tool was called.
struct Stops;

impl Policy for Stops {
    async fn after_tools(
        &mut self,
        cx: &PolicyContext<'_>,
        _: &[ToolCall],
        _: &[ToolResult],
    ) -> Result<(), AgentError> {
        cx.stop(StopReason::Other("enough".to_owned()));
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_stops_the_loop_after_the_results_and_before_the_next_model_call() {
    let calls = crate::stage::with_text("I look.", [echo_call("1", "x")]);
    let stage = Stage::of(agent().policy("stops", || Stops), [calls]).await;
    let outcome = stage.ask("go").await;
    assert_eq!(
        outcome.stop_reason(),
        Some(&StopReason::Other("enough".to_owned()))
    );
    assert_eq!(outcome.text(), "I look.");
    assert_eq!(stage.calls(), 1);
}

/// Fails at the second call of a batch.
struct Fails;

impl Policy for Fails {
    async fn before_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        match call.id.as_str() {
            "2" => Err(AgentError::failed("the policy is broken")),
            _ => Ok(BeforeTool::Go),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_policy_fails_the_run_and_leaves_no_call_without_its_result() {
    let calls = vec![echo_call("1", "x"), echo_call("2", "y")];
    let stage = Stage::of(
        agent().policy("fails", || Fails),
        [calls.into(), Reply::from("fine")],
    )
    .await;
    let failed = stage.try_ask("go").await.unwrap_err().to_string();
    assert!(failed.contains("the policy is broken"), "{failed}");
    // The next turn's conversation is one that providers take.
    assert_eq!(stage.ask("again").await.text(), "fine");
}

#[tokio::test(start_paused = true)]
async fn policies_are_made_afresh_for_each_run() {
    struct Once {
        used: bool,
    }
    impl Policy for Once {
        async fn before_tool(
            &mut self,
            _: &PolicyContext<'_>,
            call: &ToolCall,
        ) -> Result<BeforeTool, AgentError> {
            Ok(match std::mem::replace(&mut self.used, true) {
                false => BeforeTool::Go,
                true => BeforeTool::blocked(call, "once a run"),
            })
        }
    }
    let calls = || Reply::from(vec![echo_call("1", "x"), echo_call("2", "y")]);
    let replies = [calls(), "a".into(), calls(), "b".into()];
    let stage = Stage::of(agent().policy("once", || Once { used: false }), replies).await;
    for (turn, request) in [("go", 1), ("again", 3)] {
        stage.ask(turn).await;
        assert_eq!(
            stage.last(request),
            "tool: echo=success:x | echo=blocked:once a run"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_ends_an_agents_own_loop_and_it_answers_with_what_was_said_last() {
    let replies = || -> Vec<Reply> {
        vec![
            echo_call("a", "one").into(),
            echo_call("b", "two").into(),
            echo_call("c", "three").into(),
            "the end".into(),
        ]
    };
    for (until, answer, asked) in [
        (json!({ "text": "TWO" }), "two", 2),
        (
            json!({ "all": [{ "speaker": "echo" }, { "max_turns": 4 }] }),
            "two",
            2,
        ),
        (json!({ "speaker": "nobody" }), "the end", 4),
        (json!({ "max_turns": 1 }), "one", 1),
    ] {
        let agent = agent().policy("end_when", json!({ "until": until }));
        let stage = Stage::of(agent, replies()).await;
        let outcome = stage.ask("go").await;
        assert!(outcome.stop_reason().is_none(), "{until}: {outcome:?}");
        assert_eq!(outcome.text(), answer, "{until}");
        assert_eq!(stage.model.requests().len(), asked, "{until}");
    }
}
