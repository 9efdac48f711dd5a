//! Policies that ask somebody in the middle of a batch.

use std::sync::{Arc, Mutex};

use ghostlight_actors::{
    contract::{RunStatus, ToolHandle},
    run::{Agent, BeforeTool, Policy, PolicyContext, Verdict},
    session::Turn,
    testing::{InMemoryStore, Reply, ScriptedModel},
    vocabulary::{AgentError, Question, ToolCall, ToolDefinition, ToolResult, ToolStatus},
};
use serde_json::json;

use crate::stage::{Stage, desk, echo, echo_call};

fn agent() -> Agent {
    desk("function_calling", json!({})).tool(echo())
}

/// Asks a person about calls whose text says so: by the verdict, or inside of the hook.
struct Asks {
    inside: bool,
}

impl Policy for Asks {
    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        if !call.arguments.text().contains("ask") {
            return Ok(BeforeTool::Go);
        }
        let question = Question::approval(format!("May {}?", call.id), call.clone());
        if !self.inside {
            return Ok(BeforeTool::ask(question));
        }
        let answer = cx.ask(question).await?;
        Ok(BeforeTool::decided(call, answer.into()))
    }
}

/// A tool that keeps what it was called with.
fn counted(ran: &Arc<Mutex<Vec<String>>>) -> ToolHandle {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Echo {
        text: String,
    }
    let ran = ran.clone();
    let definition = ToolDefinition::new("echo", "Says it again.");
    ghostlight::tools::tool_fn(definition, move |echo: Echo| {
        ran.lock().unwrap().push(echo.text.clone());
        async move { Ok(echo.text) }
    })
}

/// Scenarios 2 and 16: asked in the middle of a batch, killed, and answered in another process.
async fn asked_across_a_kill(inside: bool, before_the_answer: usize) {
    let ran: Arc<Mutex<Vec<String>>> = Arc::default();
    let agent = || {
        let agent = desk("function_calling", json!({})).tool(counted(&ran));
        agent.policy("asks", move || Asks { inside })
    };
    let store = InMemoryStore::new();
    let calls = vec![
        echo_call("1", "one"),
        echo_call("2", "ask two"),
        echo_call("3", "three"),
    ];
    let first = Stage::on(&store, agent(), ScriptedModel::replies([calls])).await;
    let run = first.say(Turn::text("go").id("turn")).await;
    run.wait().await.unwrap();
    assert_eq!(run.questions().await.unwrap().len(), 1);
    assert_eq!(ran.lock().unwrap().len(), before_the_answer);
    store.crash();
    let model = ScriptedModel::replies(["done"]);
    let second = Stage::on(&store.another_process(), agent(), model).await;
    let run = second.system.run(run.id());
    run.wait().await.unwrap();
    let (_, operation, question) = run.questions().await.unwrap().remove(0);
    assert_eq!(question.prompt, "May 2?");
    let edited = json!({"approved": true, "arguments": {"text": "two"}});
    run.answer(operation, edited).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    second.check();
    assert_eq!(
        second.last(0),
        "tool: echo=success:one | echo=success:two | echo=success:three"
    );
    ran.lock().unwrap().sort();
    assert_eq!(*ran.lock().unwrap(), ["one", "three", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_asks_holds_up_its_own_call_only_and_survives_a_kill() {
    asked_across_a_kill(false, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_waits_holds_up_the_batch_which_then_runs_once() {
    asked_across_a_kill(true, 0).await;
}

#[tokio::test(start_paused = true)]
async fn several_questions_of_a_batch_have_mixed_answers_in_any_order() {
    let agent = agent().policy("asks", || Asks { inside: false });
    let calls = vec![
        echo_call("1", "ask one"),
        echo_call("2", "ask two"),
        echo_call("3", "x"),
    ];
    let stage = Stage::of(agent, [calls.into(), Reply::from("done")]).await;
    let run = stage.say("go").await;
    run.wait().await.unwrap();
    let questions = run.questions().await.unwrap();
    for (_, operation, question) in questions.into_iter().rev() {
        let answer = json!({"approved": question.prompt == "May 1?", "reason": "no"});
        run.answer(operation, answer).await.unwrap();
    }
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    let refused = "a person refused this call: no. do not repeat it.";
    assert_eq!(
        stage.last(1),
        format!("tool: echo=success:ask one | echo=denied:{refused} | echo=success:x")
    );
}

/// Shows results to a person before the model reads them.
struct Reviews;

impl Policy for Reviews {
    async fn after_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<Option<ToolResult>, AgentError> {
        if !result.text.contains("review") {
            return Ok(None);
        }
        let prompt = format!("Pass on {:?}?", result.text);
        let answer = cx.ask(Question::confirmation(prompt)).await?;
        let withheld = || ToolResult::new(call, ToolStatus::Denied, "withheld");
        Ok((answer != true).then(withheld))
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_asks_after_a_tool_suspends_the_run_and_no_tool_is_called_again() {
    let ran: Arc<Mutex<Vec<String>>> = Arc::default();
    let agent = || {
        let tool = counted(&ran);
        let agent = desk("function_calling", json!({})).tool(tool);
        agent.policy("reviews", || Reviews)
    };
    let calls = vec![
        echo_call("1", "one"),
        echo_call("2", "review two"),
        echo_call("3", "review three"),
    ];
    let mut store = InMemoryStore::new();
    let mut stage = Stage::on(&store, agent(), ScriptedModel::replies([calls])).await;
    let mut run = stage.say(Turn::text("go").id("turn")).await;
    // One result after the other, each for a process that is no more when the answer comes.
    for (prompt, answer) in [("review two", false), ("review three", true)] {
        let row = run.wait().await.unwrap();
        assert_eq!(row.status, RunStatus::Waiting);
        store.crash();
        store = store.another_process();
        stage = Stage::on(&store, agent(), ScriptedModel::replies(["done"])).await;
        run = stage.system.run(run.id());
        run.wait().await.unwrap();
        let mut questions = run.questions().await.unwrap();
        let (_, operation, question) = questions.remove(0);
        assert!(
            questions.is_empty() && question.prompt.contains(prompt),
            "{question:?}"
        );
        run.answer(operation, json!(answer)).await.unwrap();
    }
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    stage.check();
    assert_eq!(
        stage.last(0),
        "tool: echo=success:one | echo=denied:withheld | echo=success:review three"
    );
    ran.lock().unwrap().sort();
    assert_eq!(*ran.lock().unwrap(), ["one", "review three", "review two"]);
}

/// Lets no answer out that a person has not released.
#[derive(Default)]
struct Releases {
    drafts: u32,
}

impl Policy for Releases {
    async fn before_answer(
        &mut self,
        cx: &PolicyContext<'_>,
        draft: &str,
    ) -> Result<Verdict, AgentError> {
        self.drafts += 1;
        let prompt = format!("Draft {}: {draft}?", self.drafts);
        let answer = cx
            .ask(Question::choice(prompt, ["send", "rewrite"]))
            .await?;
        Ok(match answer == "send" {
            true => Verdict::Accept,
            false => Verdict::Reject("Write it again.".to_owned()),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_on_the_final_answer_suspends_the_run_and_survives_a_kill() {
    let agent = || agent().policy("releases", Releases::default);
    let mut store = InMemoryStore::new();
    let mut replies = vec!["one", "two", "three"];
    let mut stage = Stage::on(&store, agent(), ScriptedModel::replies(replies.clone())).await;
    let mut run = stage.say(Turn::text("go").id("turn")).await;
    for (number, decision) in [(1, "rewrite"), (2, "rewrite"), (3, "send")] {
        let row = run.wait().await.unwrap();
        assert_eq!(row.status, RunStatus::Waiting, "draft {number}");
        // It waits as long as it takes, also for a process that is no more.
        replies.remove(0);
        stage.check();
        store.crash();
        store = store.another_process();
        stage = Stage::on(&store, agent(), ScriptedModel::replies(replies.clone())).await;
        run = stage.system.run(run.id());
        run.wait().await.unwrap();
        let (_, operation, question) = run.questions().await.unwrap().remove(0);
        assert!(
            question.prompt.starts_with(&format!("Draft {number}: ")),
            "{}",
            question.prompt
        );
        // What is no option is no answer, and the question stays.
        let refused = run.answer(operation, json!("whatever")).await;
        assert!(refused.unwrap_err().to_string().contains("send, rewrite"));
        run.answer(operation, json!(decision)).await.unwrap();
    }
    let outcome = run.outcome().await.unwrap();
    assert_eq!(
        (outcome.text(), &outcome.as_answer().unwrap().flagged),
        ("three", &None)
    );
    assert_eq!(stage.calls(), 0, "what was said is not asked again");
}

/// Asks in free words, and once more when it does not understand, where it is patient.
struct Puzzled {
    patient: bool,
}

impl Policy for Puzzled {
    async fn before_tool(
        &mut self,
        _: &PolicyContext<'_>,
        _: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        Ok(BeforeTool::ask("May it?"))
    }

    async fn answered(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
        answer: serde_json::Value,
    ) -> Result<BeforeTool, AgentError> {
        match answer.as_str() {
            Some("oui") => Ok(BeforeTool::Go),
            _ if self.patient => Ok(BeforeTool::ask("May it, in other words?")),
            _ => Ok(BeforeTool::decided(call, answer.into())),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_a_policy_does_not_understand_is_a_refusal_or_another_question() {
    for (patient, answers, last) in [
        (
            false,
            &["perhaps"][..],
            "tool: echo=denied:a person refused this call. do not repeat it.",
        ),
        (false, &["oui"], "tool: echo=success:x"),
        (true, &["perhaps", "hm", "oui"], "tool: echo=success:x"),
    ] {
        let agent = agent().policy("puzzled", move || Puzzled { patient });
        let stage = Stage::of(
            agent,
            [vec![echo_call("1", "x")].into(), Reply::from("done")],
        )
        .await;
        let run = stage.say("go").await;
        for answer in answers {
            run.wait().await.unwrap();
            let (_, operation, _) = run.questions().await.unwrap().remove(0);
            run.answer(operation, json!(answer)).await.unwrap();
        }
        assert_eq!(run.outcome().await.unwrap().text(), "done");
        stage.check();
        assert_eq!(stage.last(1), last, "{answers:?}");
    }
}
