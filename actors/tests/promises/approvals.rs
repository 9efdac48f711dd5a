//! People decide about calls: each call has one result, and what was refused never runs.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Run, System, SystemError},
    definition::ApprovalRule,
    run::{Agent, RunContext},
    session::Turn,
    vocabulary::{
        Effect, Entry, Outcome, Question, QuestionKind, ToolCall, ToolDefinition, ToolResult,
        ToolStatus,
    },
};
use serde_json::{Value, json};

use crate::stage::{Stage, ask, pause, text};

/// An agent that makes these calls in one batch, and tells what became of them.
pub(crate) fn caller(calls: Vec<ToolCall>) -> Agent {
    Agent::from_fn("a", move |cx: RunContext| {
        let calls = calls.clone();
        async move {
            let results = cx.tools(calls).await?;
            Ok(Outcome::answer(
                serde_json::to_string(&results).unwrap_or_default(),
            ))
        }
    })
}

pub(crate) fn wipe() -> ToolDefinition {
    ToolDefinition::new("wipe", "wipes").parameters(json!({
        "type": "object",
        "properties": { "path": { "type": "string" }, "password": { "type": "string" } },
        "required": ["path"],
    }))
}

pub(crate) fn call(id: &str, arguments: Value) -> ToolCall {
    ToolCall::new(id, "wipe", arguments)
}

pub(crate) async fn results(run: &Run) -> Vec<ToolResult> {
    serde_json::from_str(&text(run).await).unwrap()
}

pub(crate) async fn questions(
    run: &Run,
) -> Vec<(ghostlight_actors::vocabulary::OperationId, Question)> {
    run.wait().await.unwrap();
    let open = run.questions().await.unwrap().into_iter();
    open.map(|(_, operation, question)| (operation, question))
        .collect()
}

/// The question about the call of this id, answered with this.
pub(crate) async fn decide(run: &Run, id: &str, answer: Value) {
    let open = questions(run).await;
    let about = |question: &Question| question.call.as_ref().is_some_and(|call| call.id == id);
    let (operation, _) = open.iter().find(|(_, question)| about(question)).unwrap();
    run.answer(*operation, answer).await.unwrap();
}

/// All that the store holds of a run.
async fn journal(stage: &Stage, run: &Run) -> String {
    format!("{:?}", stage.entries(run.id()).await)
}

#[tokio::test(start_paused = true)]
async fn a_mixed_batch_waits_for_each_answer_and_keeps_the_order_of_its_calls() {
    let mut stage = Stage::new();
    let path = |path: &str| json!({ "path": path });
    let agent = |stage: &Stage| {
        let calls = vec![
            call("1", path("a")),
            call("2", path("b")),
            ToolCall::new("3", "look", json!({})),
            call("4", path("d")),
            call("5", path("e")),
        ];
        caller(calls)
            .tool(
                stage
                    .log
                    .tool(wipe().approval("Delete {path}?"), Duration::ZERO),
            )
            .tool(stage.tool("look", Effect::Read, 1))
    };
    let system = stage.start(agent(&stage)).await;
    let run = ask(&system, "a", "go").await;
    let prompts: Vec<String> = questions(&run)
        .await
        .into_iter()
        .map(|(_, q)| q.prompt)
        .collect();
    assert_eq!(
        prompts,
        ["Delete a?", "Delete b?", "Delete d?", "Delete e?"]
    );
    assert_eq!((stage.log.count("look"), stage.log.count("wipe")), (1, 0));
    decide(
        &run,
        "4",
        json!({ "approved": true, "arguments": { "path": "D" } }),
    )
    .await;
    stage.crash(&system).await;
    let system = stage.start(agent(&stage)).await;
    let run = system.run(run.id());
    assert_eq!(
        questions(&run).await.len(),
        3,
        "what was answered is not asked again"
    );
    decide(
        &run,
        "2",
        json!({ "approved": false, "reason": "it is\nmine" }),
    )
    .await;
    decide(
        &run,
        "5",
        json!({ "approved": true, "value": "done by hand" }),
    )
    .await;
    decide(&run, "1", json!(true)).await;
    let results = results(&run).await;
    let ids: Vec<&str> = results
        .iter()
        .map(|result| result.call_id.as_str())
        .collect();
    assert_eq!(ids, ["1", "2", "3", "4", "5"]);
    let statuses: Vec<ToolStatus> = results.iter().map(|result| result.status).collect();
    use ToolStatus::{Denied, Success};
    assert_eq!(statuses, [Success, Denied, Success, Success, Success]);
    assert!(
        results[1].text.contains("refused this call: it is mine."),
        "{}",
        results[1].text
    );
    assert_eq!(results[3].text, r#"wipe {"path":"D"}"#);
    assert_eq!(results[4].text, "done by hand");
    assert_eq!(stage.log.count("wipe"), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_person_makes_of_the_arguments_must_fit_and_secrets_come_back() {
    let stage = Stage::new();
    let arguments = json!({ "path": "/etc/x", "password": "hunter2" });
    let agent = caller(vec![call("1", arguments)])
        .tool(stage.log.tool(wipe(), Duration::ZERO))
        .approval(
            "wipe",
            ApprovalRule::required().prompt("{tool} {path} {password}?"),
        );
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    let (operation, question) = questions(&run).await.remove(0);
    assert_eq!(question.prompt, "wipe /etc/x ⟦redacted 1: 7 characters⟧?");
    let shown = question.call.unwrap().arguments.value().cloned().unwrap();
    assert_eq!(
        shown,
        json!({ "path": "/etc/x", "password": "⟦redacted 1: 7 characters⟧" })
    );
    for (name, value) in [
        ("arguments", json!(3)),
        ("argument", json!({ "path": "y" })),
        ("remember", json!(5)),
        ("reason", json!(["no"])),
    ] {
        let answer = json!({ "approved": true, name: value });
        let refused = run.answer(operation, answer.clone()).await;
        assert!(
            matches!(refused, Err(SystemError::Answer { .. })),
            "{answer}"
        );
    }
    decide(
        &run,
        "1",
        json!({ "approved": true, "arguments": { "password": 3 } }),
    )
    .await;
    let (_, again) = questions(&run).await.remove(0);
    assert!(again.prompt.contains("do not fit"), "{}", again.prompt);
    let edited = json!({ "path": "y", "password": shown["password"] });
    decide(&run, "1", json!({ "approved": true, "arguments": edited })).await;
    let result = results(&run).await.remove(0);
    assert_eq!(result.text, r#"wipe {"password":"hunter2","path":"y"}"#);
}

#[tokio::test(start_paused = true)]
async fn arguments_that_never_fit_are_a_refusal_in_the_end() {
    let stage = Stage::new();
    let agent = caller(vec![call("1", json!({ "path": "x" }))])
        .tool(stage.log.tool(wipe().approval("?"), Duration::ZERO));
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    for _ in 0..3 {
        decide(&run, "1", json!({ "approved": true, "arguments": {} })).await;
    }
    assert_eq!(results(&run).await[0].status, ToolStatus::Denied);
    assert_eq!(stage.log.count("wipe"), 0);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_neither_asked_nor_run() {
    let stage = Stage::new();
    let torn = ToolCall::new("1", "wipe", "{\"path\": \"x");
    let agent = caller(vec![torn, call("2", json!({}))])
        .tool(stage.log.tool(wipe().approval("?"), Duration::ZERO));
    let system = stage.start(agent).await;
    let results = results(&ask(&system, "a", "go").await).await;
    assert!(
        results
            .iter()
            .all(|result| result.status == ToolStatus::Error)
    );
    assert!(
        results[0].text.contains("not valid JSON"),
        "{}",
        results[0].text
    );
    assert_eq!(stage.log.count("wipe"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_decision_is_remembered_for_what_it_was_made_for_and_for_nothing_else() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let path = cx.input().content();
        let results = cx.tools([call("1", json!({ "path": path }))]).await?;
        Ok(Outcome::answer(format!("{:?}", results[0].status)))
    })
    .tool(stage.log.tool(wipe(), Duration::ZERO))
    .approval("wipe", ApprovalRule::required().remember());
    let system = stage.start(agent).await;
    let decided = async |path: &str, answer: Value| {
        let run = ask(&system, "a", path).await;
        decide(&run, "1", answer).await;
        text(&run).await
    };
    let yes = |remember: Value| json!({ "approved": true, "remember": remember });
    assert_eq!(decided("one", yes(json!(true))).await, "Success");
    assert_eq!(
        text(&ask(&system, "a", "one").await).await,
        "Success",
        "the same arguments"
    );
    assert_eq!(
        decided("two", yes(json!({ "path": "src/*" }))).await,
        "Success"
    );
    assert_eq!(
        text(&ask(&system, "a", "src/x").await).await,
        "Success",
        "they fit the pattern"
    );
    assert_eq!(
        decided("two", json!(false)).await,
        "Denied",
        "others are asked about"
    );
    let no = json!({ "approved": false, "remember": { "path": "src/secret/*" } });
    assert_eq!(decided("etc/src/", no).await, "Denied");
    assert_eq!(
        text(&ask(&system, "a", "src/secret/x").await).await,
        "Denied",
        "the last counts"
    );
    // What a person made smaller is approved as small as that, and no further.
    let smaller = json!({ "approved": true, "arguments": { "path": "big/a" }, "remember": true });
    assert_eq!(decided("big", smaller).await, "Success");
    assert_eq!(decided("big", json!(false)).await, "Denied");
    assert_eq!(text(&ask(&system, "a", "big/a").await).await, "Success");
    // What was done by hand is not done by the tool the next time.
    let by_hand = json!({ "approved": true, "value": "done", "remember": true });
    assert_eq!(decided("hand", by_hand).await, "Success");
    assert_eq!(decided("hand", json!(false)).await, "Denied");
    // Another session has decided nothing.
    let run = system.session("a", "other").send("one").await.unwrap();
    assert_eq!(questions(&run).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_offered_for_the_session_is_decided_once() {
    let stage = Stage::new();
    let calls = vec![
        call("1", json!({ "path": "x" })),
        call("2", json!({ "path": "x" })),
    ];
    let agent = caller(calls).tool(stage.log.tool(wipe().approval("?"), Duration::ZERO));
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    decide(&run, "1", json!({ "approved": true, "remember": true })).await;
    // The same tool with the same arguments is another call.
    assert_eq!(questions(&run).await.len(), 1);
    decide(&run, "2", json!(false)).await;
    assert_eq!(results(&run).await[1].status, ToolStatus::Denied);
    let next = ask(&system, "a", "again").await;
    assert_eq!(questions(&next).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_decides_and_does_not_plainly_say_yes_says_no() {
    use ghostlight_actors::contract::{Tool, ToolContext, ToolError, ToolOutput};
    use ghostlight_actors::vocabulary::Arguments;

    struct Approver(Result<&'static str, &'static str>);
    impl Tool for Approver {
        fn definition(&self) -> ToolDefinition {
            let definition = ToolDefinition::new("approver", "decides");
            definition
                .parameters(json!({ "type": "object" }))
                .effect(Effect::Idempotent)
        }
        async fn call(&self, asked: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
            let asked = asked.value().unwrap();
            assert_eq!(asked["tool"], "wipe");
            assert_eq!(asked["arguments"]["password"], "⟦redacted 1: 1 characters⟧");
            self.0.map(ToolOutput::text).map_err(ToolError::new)
        }
    }

    for (answer, approved) in [
        (Ok(r#"{"approved": true}"#), true),
        (Ok(r#"{"approved": false, "reason": "no"}"#), false),
        (Ok(r#"{"approved": "true"}"#), false),
        (Ok(r#"{"approved": true, "arguments": "x"}"#), false),
        (
            Ok(r#"{"approved": true, "argument": {"path": "y"}}"#),
            false,
        ),
        (Ok("yes"), false),
        (Ok(""), false),
        (Err("no connection"), false),
    ] {
        let stage = Stage::new();
        let agent = caller(vec![call("1", json!({ "path": "x", "password": "p" }))])
            .tool(stage.log.tool(wipe(), Duration::ZERO))
            .approval("wipe", ApprovalRule::required().by("approver"));
        let team = agent.into_team().unwrap();
        let system = System::builder(stage.store.clone())
            .model("default", crate::stage::silent())
            .tool(Approver(answer))
            .team(team)
            .start()
            .await
            .unwrap();
        let result = results(&ask(&system, "a", "go").await).await.remove(0);
        let expected = if approved {
            ToolStatus::Success
        } else {
            ToolStatus::Denied
        };
        assert_eq!(result.status, expected, "{answer:?}");
        assert_eq!(stage.log.count("wipe"), usize::from(approved), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_credential_reaches_the_tool_alone_and_is_asked_for_again_when_it_is_lost() {
    use ghostlight_actors::contract::{Tool, ToolContext, ToolError, ToolOutput};
    use ghostlight_actors::vocabulary::Arguments;

    struct Login;
    impl Tool for Login {
        fn definition(&self) -> ToolDefinition {
            ToolDefinition::new("login", "logs in").authentication("The password?")
        }
        async fn call(&self, _: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
            let given = cx.credential().ok_or_else(|| ToolError::new("none"))?;
            Ok(ToolOutput::text(format!(
                "{} chars: {}",
                given.reveal().len(),
                given.reveal()
            )))
        }
    }

    let agent = || caller(vec![ToolCall::new("1", "login", json!({}))]).tool(Login);
    let mut stage = Stage::new();
    let system = stage.start(agent()).await;
    let run = ask(&system, "a", "go").await;
    let (operation, question) = questions(&run).await.remove(0);
    assert_eq!(question.kind, QuestionKind::Authentication);
    assert!(run.answer(operation, json!(true)).await.is_err());
    assert!(
        run.answer(operation, json!({ "given": true }))
            .await
            .is_err()
    );
    run.answer(operation, json!("open sesame")).await.unwrap();
    // The answer is durable, the secret is not.
    stage.crash(&system).await;
    let system = stage.start(agent()).await;
    let run = system.run(run.id());
    let open = questions(&run).await;
    assert_eq!(open.len(), 1, "it is asked for again");
    run.answer(open[0].0, json!("open sesame")).await.unwrap();
    let result = results(&run).await.remove(0);
    assert_eq!(result.text, "11 chars: [redacted]");
    let journal = journal(&stage, &run).await;
    assert!(
        !journal.contains("sesame") && journal.contains("given"),
        "{journal}"
    );
    // Nobody has to give one.
    let run = ask(&system, "a", "again").await;
    let (operation, _) = questions(&run).await.remove(0);
    run.answer(operation, json!(false)).await.unwrap();
    assert_eq!(results(&run).await[0].status, ToolStatus::Denied);
}

#[tokio::test(start_paused = true)]
async fn who_decides_is_recorded_and_only_the_owner_of_a_session_may() {
    let stage = Stage::new();
    let agent = caller(vec![call("1", json!({ "path": "x" }))])
        .tool(stage.log.tool(wipe().approval("?"), Duration::ZERO));
    let system = stage.start(agent).await;
    let turn = Turn::text("go").owner("ada");
    let run = system.session("a", "s").send(turn).await.unwrap();
    let (operation, _) = questions(&run).await.remove(0);
    let foreign = run.answer_as("bob", operation, json!(true)).await;
    assert!(
        matches!(foreign, Err(SystemError::Foreign { .. })),
        "{foreign:?}"
    );
    run.answer_as("ada", operation, json!(true)).await.unwrap();
    assert_eq!(results(&run).await[0].status, ToolStatus::Success);
    assert!(
        run.answer_as("ada", operation, json!(false)).await.is_err(),
        "single use"
    );
    let answers = stage
        .entries(run.id())
        .await
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Completed { kind, result, .. } if kind == "ask" => Some(result.get().to_owned()),
            _ => None,
        });
    assert_eq!(
        answers.collect::<Vec<_>>(),
        [r#"{"Ok":{"approved":true,"by":"ada"}}"#]
    );
}

#[tokio::test(start_paused = true)]
async fn the_word_approve_is_no_decision_and_the_next_turn_does_not_pass_a_question() {
    use ghostlight_actors::definition::WhileAsking;
    for while_asking in [WhileAsking::Refuse, WhileAsking::Cancel] {
        let stage = Stage::new();
        let agent = caller(vec![call("1", json!({ "path": "x" }))])
            .tool(stage.log.tool(wipe().approval("?"), Duration::ZERO));
        let team = agent
            .into_team()
            .unwrap()
            .define(|team| team.while_asking = while_asking);
        let system = System::builder(stage.store.clone())
            .model("default", crate::stage::silent())
            .team(team)
            .start()
            .await
            .unwrap();
        let run = ask(&system, "a", "go").await;
        assert_eq!(questions(&run).await.len(), 1);
        run.steer("approve").await.unwrap();
        pause(60_000).await;
        assert_eq!(questions(&run).await.len(), 1);
        let next = system.session("a", "s").send("approve").await;
        if while_asking == WhileAsking::Refuse {
            assert!(matches!(next, Err(SystemError::Asking { .. })), "{next:?}");
            assert_eq!(questions(&run).await.len(), 1);
            decide(&run, "1", json!(true)).await;
            assert_eq!(results(&run).await[0].status, ToolStatus::Success);
        } else {
            let next = next.unwrap();
            let outcome = crate::stage::outcome(&run).await;
            assert!(outcome.stop_reason().is_some(), "{outcome:?}");
            assert_eq!(questions(&next).await.len(), 1);
            assert_eq!(stage.log.count("wipe"), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_from_below_is_seen_and_answered_at_the_root() {
    for at_root in [true, false] {
        let mut stage = Stage::new();
        let agent = |stage: &Stage| {
            let child = Agent::from_fn("keeper", |cx: RunContext| async move {
                let results = cx.tools([call("1", json!({ "path": "x" }))]).await?;
                Ok(Outcome::answer(format!("{:?}", results[0].status)))
            })
            .tool(
                stage
                    .log
                    .tool(wipe().approval("Delete {path}?"), Duration::ZERO),
            );
            Agent::from_fn("a", |cx: RunContext| async move {
                Ok(Outcome::answer(
                    cx.delegate("keeper", "tidy up").await?.text,
                ))
            })
            .agent(child)
        };
        let system = stage.start(agent(&stage)).await;
        let run = ask(&system, "a", "go").await;
        run.wait().await.unwrap();
        stage.crash(&system).await;
        let system = stage.start(agent(&stage)).await;
        let run = system.run(run.id());
        run.wait().await.unwrap();
        let (asking, operation, question) = run.questions().await.unwrap().remove(0);
        assert_ne!(asking, run.id());
        assert_eq!(
            (question.prompt.as_str(), question.path.join("/")),
            ("Delete x?", "a/keeper".into())
        );
        let answered = if at_root {
            run.clone()
        } else {
            system.run(asking)
        };
        answered.answer(operation, json!(true)).await.unwrap();
        assert_eq!(text(&run).await, "Success");
        assert_eq!(stage.log.count("wipe"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_calls_no_tool_with_an_effect_asks_nobody_and_stays_one() {
    let mut stage = Stage::new();
    let agent = |stage: &Stage| {
        Agent::from_fn("a", |cx: RunContext| async move {
            let calls = [
                ToolCall::new("1", "look", json!({})),
                call("2", json!({ "path": "x", "password": "hunter2" })),
                ToolCall::new("3", "put", json!({})),
            ];
            let mut results = cx.tools(calls).await?;
            cx.sleep(Duration::from_secs(60)).await?;
            results.extend(cx.tools([ToolCall::new("4", "put", json!({}))]).await?);
            let step = cx
                .step("own", Effect::Once, async { Ok::<_, String>(1) })
                .await;
            assert!(step.is_err());
            Ok(Outcome::answer(serde_json::to_string(&results).unwrap()))
        })
        .tool(stage.tool("look", Effect::Read, 1))
        .tool(stage.tool("put", Effect::Idempotent, 1))
        .tool(stage.log.tool(wipe().approval("?"), Duration::ZERO))
    };
    let system = stage.start(agent(&stage)).await;
    let turn = Turn::text("go").dry_run();
    let run = system.session("a", "s").send(turn).await.unwrap();
    pause(1000).await;
    stage.crash(&system).await;
    let system = stage.start(agent(&stage)).await;
    let results = results(&system.run(run.id())).await;
    assert_eq!(results[0].text, "look {}");
    assert!(
        results[1..]
            .iter()
            .all(|result| result.text.starts_with("Dry run")),
        "{results:?}"
    );
    assert!(
        results[1]
            .text
            .contains(r#"{"password":"[redacted]","path":"x"}"#)
    );
    let count = |name| stage.log.count(name);
    assert_eq!((count("look"), count("put"), count("wipe")), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_rule_for_a_tool_that_the_agent_does_not_have_is_refused() {
    let stage = Stage::new();
    let agent = |name: &str| {
        let agent = caller(Vec::new()).tool(stage.tool("look", Effect::Read, 1));
        agent.approval(name, ApprovalRule::required())
    };
    for name in ["look", "*"] {
        stage.start(agent(name)).await;
    }
    let team = agent("lok").into_team().unwrap();
    let misspelt = System::builder(stage.store.clone())
        .team(team)
        .start()
        .await;
    let error = misspelt.expect_err("nobody would be asked").to_string();
    assert!(
        error.contains("\"lok\"") && error.contains("there are: look"),
        "{error}"
    );
}
