//! The field's conformance scenarios 3, 6, 7 and 16, each walked from its first step to its last.

use std::sync::Arc;

use ghostlight::{
    policies::Recovery,
    tools::{tool_fn, tool_fn_with_context},
};
use ghostlight_actors::{
    actor::SystemError,
    contract::{RunFilter, ToolHandle, ToolOutput},
    definition::{ContextSpec, ContextStrategy, SlidingWindow},
    run::Agent,
    session::Turn,
    testing::{InMemoryStore, Reply, ScriptedModel},
    vocabulary::{Effect, ModelResponse, Role, ToolDefinition},
};
use parking_lot::Mutex;
use serde_json::json;

use crate::{
    context::bounded,
    stage::{AskAboutSecond, Stage, call, desk, echo, echo_call, said, told},
};

type Calls = Arc<Mutex<Vec<String>>>;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
}

/// A `once` tool that keeps what it was called with.
fn keeping(calls: &Calls) -> ToolHandle {
    let calls = calls.clone();
    tool_fn(
        ToolDefinition::new("echo", "Says it again."),
        move |text: Text| {
            calls.lock().push(text.text.clone());
            async move { Ok(text.text) }
        },
    )
}

/// Scenario 3: as scenario 2, but denied, and with recovery.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_denied_in_another_process_is_no_failure_and_is_not_demanded_again() {
    let calls = Calls::default();
    let agent = || {
        desk("function_calling", json!({}))
            .tool(keeping(&calls))
            .policy("asks", || AskAboutSecond)
            .policy("recovery", Recovery::default)
    };
    let store = InMemoryStore::new();
    let batch = [("1", "one"), ("2", "two"), ("3", "three")];
    let batch = batch.map(|(id, text)| echo_call(id, text)).to_vec();
    let first = Stage::on(&store, agent(), ScriptedModel::replies([batch])).await;
    let run = first.say(Turn::text("go").id("turn")).await;
    run.wait().await.unwrap();
    store.crash();

    let model = ScriptedModel::replies(["done"]);
    let second = Stage::on(&store.another_process(), agent(), model).await;
    let run = second.system.run(run.id());
    run.wait().await.unwrap();
    let (_, operation, question) = run.questions().await.unwrap().remove(0);
    assert_eq!(question.prompt, "May 2?");
    run.answer(operation, json!({"approved": false, "reason": "too dear"}))
        .await
        .unwrap();
    let outcome = run.outcome().await.unwrap();
    second.check();
    assert_eq!(
        (outcome.text(), &outcome.as_answer().unwrap().flagged),
        ("done", &None),
        "its first answer is taken, and nothing is held against it"
    );
    assert_eq!(second.calls(), 1);
    let refused = "a person refused this call: too dear. do not repeat it.";
    assert_eq!(
        second.last(0),
        format!("tool: echo=success:one | echo=denied:{refused} | echo=success:three")
    );
    assert_eq!(*calls.lock(), ["one", "three"]);
    let told = told(&run).await;
    assert!(
        !told.iter().any(|(name, _)| name == "failure_observed"),
        "{told:?}"
    );
}

/// Scenario 6: two failures of one tool, and one success, which leaves one of them.
#[tokio::test(start_paused = true)]
async fn of_two_failures_one_is_left_after_a_success_and_none_after_the_second() {
    let replies: Vec<Reply> = vec![
        vec![echo_call("1", "fail wet"), echo_call("2", "fail dry")].into(),
        "Both began with a word that fails.".into(),
        echo_call("3", "wet").into(),
        "done".into(),
        echo_call("4", "dry").into(),
        "done".into(),
    ];
    let agent = desk("function_calling", json!({})).tool(echo());
    let stage = Stage::of(agent.policy("recovery", Recovery::default), replies).await;
    let run = stage.say("go").await;
    let outcome = run.outcome().await.unwrap();
    stage.check();
    assert_eq!(
        (outcome.text(), &outcome.as_answer().unwrap().flagged),
        ("done", &None)
    );
    assert_eq!(stage.calls(), 6);
    let demanded = stage.last(4);
    assert!(
        demanded.contains("`echo` (dry)") && !demanded.contains("wet"),
        "one is unresolved: {demanded}"
    );
    let told = told(&run).await;
    let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "failure_observed",
        "failure_observed",
        "reflection_recorded",
        "recovered",
        "answer_rejected",
        "recovered",
        "answer_accepted",
    ];
    assert_eq!(names, expected);
}

/// Scenario 7: a window of three over a history with pairs of calls and results.
#[tokio::test(start_paused = true)]
async fn a_window_of_three_turns_sends_whole_pairs_and_the_current_question() {
    let window = SlidingWindow {
        turns: 3,
        ..SlidingWindow::default()
    };
    let window = ContextSpec::new(1_000_000)
        .between(100, 0)
        .strategy(ContextStrategy::SlidingWindow(window));
    let model = ScriptedModel::from_fn(|request, _| {
        let last = request.conversation.last().unwrap();
        Ok(match last.role {
            Role::User => ModelResponse::tool_calls([echo_call("c", &last.content())]),
            _ => ModelResponse::text("answered"),
        })
    });
    let agent = bounded(desk("function_calling", json!({})).tool(echo()), window);
    let stage = Stage::with(agent, model).await;
    for turn in 0..7 {
        stage.ask(format!("question {turn}")).await;
        let requests = stage.model.requests();
        let [.., asked, answered] = &requests[..] else {
            panic!("two requests a turn");
        };
        let mut whole = Vec::new();
        for turn in turn.max(2) - 2..turn {
            whole.extend([
                format!("user: question {turn}"),
                format!("assistant: echo({{\"text\":\"question {turn}\"}})"),
                format!("tool: echo=success:question {turn}"),
                "assistant: answered".to_owned(),
            ]);
        }
        whole.push(format!("user: question {turn}"));
        if turn > 2 {
            let left_out = "user: [earlier parts of this conversation are left out here.] | ";
            whole[0] = whole[0].replacen("user: ", left_out, 1);
        }
        assert_eq!(said(&asked.conversation.messages()), whole);
        whole.push(format!("assistant: echo({{\"text\":\"question {turn}\"}})"));
        whole.push(format!("tool: echo=success:question {turn}"));
        assert_eq!(said(&answered.conversation.messages()), whole);
    }
}

/// Scenario 16: an approval over a restart.
#[tokio::test(start_paused = true)]
async fn an_approval_is_listed_after_a_restart_runs_its_tool_once_and_leaves_nothing_open() {
    let keys = Calls::default();
    let agent = || -> Agent {
        let keys = keys.clone();
        let pay = ToolDefinition::new("pay", "Pays.")
            .effect(Effect::Once)
            .approval("Pay {text}?");
        desk("function_calling", json!({})).tool(tool_fn_with_context(
            pay,
            move |text: Text, cx| {
                keys.lock().push(cx.idempotency_key());
                async move { Ok(ToolOutput::text(format!("paid {}", text.text))) }
            },
        ))
    };
    let mut store = InMemoryStore::new();
    let asks = [call("1", "pay", json!({"text": "the bill"}))];
    let first = Stage::on(&store, agent(), ScriptedModel::replies([asks.to_vec()])).await;
    let run = first.say("go").await;
    run.wait().await.unwrap();
    store.crash();

    store = store.another_process();
    let second = Stage::on(&store, agent(), ScriptedModel::replies(["done"])).await;
    let pending = second.system.open_questions().await.unwrap();
    let [(asking, operation, question)] = &pending[..] else {
        panic!("{pending:?}");
    };
    assert_eq!(
        (*asking, question.prompt.as_str()),
        (run.id(), "Pay the bill?")
    );
    assert!(
        keys.lock().is_empty(),
        "nothing is paid before it is approved"
    );
    let run = second.system.run(run.id());
    run.answer(*operation, json!(true)).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    second.check();
    assert_eq!(second.last(0), "tool: pay=success:paid the bill");
    let again = run.answer(*operation, json!(true)).await;
    assert!(
        matches!(again, Err(SystemError::Answer { .. })),
        "{again:?}"
    );
    store.crash();

    // The next process finds nothing to ask and nothing to do.
    let third = Stage::on(
        &store.another_process(),
        agent(),
        ScriptedModel::replies(["x"]),
    )
    .await;
    assert_eq!(third.system.open_questions().await.unwrap(), []);
    let mut open = RunFilter::default();
    open.open = true;
    assert_eq!(third.system.runs(open).await.unwrap(), []);
    assert_eq!(
        third.system.run(run.id()).outcome().await.unwrap().text(),
        "done"
    );
    let keys = keys.lock();
    let [key] = &keys[..] else {
        panic!("paid {} times", keys.len());
    };
    assert!(key.starts_with(&format!("{}/", run.id())), "{key}");
    assert_eq!(third.calls(), 0);
}
