//! The policies that are built in, at work.

use std::sync::atomic::Ordering;

use ghostlight::{
    policies::{self, Planning, Recovery, Synthesis, Verification},
    tools::tool_fn,
};
use ghostlight_actors::{
    run::{Agent, BeforeTool, Policy, PolicyContext},
    testing::Reply,
    vocabulary::{AgentError, Effect, Outcome, StopReason, ToolCall, ToolDefinition},
};
use serde_json::{Value, json};

use crate::stage::{AskAboutSecond, Stage, call, crowded, desk, echo, echo_call, told};

fn agent() -> Agent {
    let registry = policies::register(ghostlight_actors::run::Registry::new());
    desk("function_calling", json!({}))
        .tool(echo())
        .registry(registry)
}

fn plan(id: &str, status: &str) -> ToolCall {
    call(
        id,
        "create_tasks",
        json!({"tasks": [{"content": "search", "status": status}]}),
    )
}

/// A call that finds a text in this source.
fn found(id: &str, source: &str, text: &str) -> ToolCall {
    echo_call(id, &json!({"source": source, "text": text}).to_string())
}

fn names(told: &[(String, Value)]) -> Vec<&str> {
    told.iter().map(|(name, _)| name.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_plan_in_a_batch_leaves_the_other_calls_side_by_side() {
    let (wait, most) = crowded();
    let waits = (0..4).map(|n| call(&n.to_string(), "wait", json!({})));
    let mut calls: Vec<ToolCall> = waits.collect();
    calls.insert(2, plan("p", "in_progress"));
    let replies: Vec<Reply> = vec![calls.into(), "an answer".into(), "done".into()];
    let planning = || Planning::default().min_revisions(0);
    let agent = agent().tool(wait).policy("planning", planning);
    let stage = Stage::of(agent, replies).await;
    let started = tokio::time::Instant::now();
    let run = stage.say("go").await;
    run.outcome().await.unwrap();
    assert_eq!(
        started.elapsed().as_secs(),
        1,
        "four calls of a second each"
    );
    assert_eq!(most.load(Ordering::SeqCst), 4);
    let told = told(&run).await;
    assert!(names(&told).contains(&"plan_revision"), "{told:?}");
    let results = stage.last(1);
    assert_eq!(results.matches("wait=success").count(), 4, "{results}");
}

/// Scenario 5 of the conformance list.
#[tokio::test(start_paused = true)]
async fn a_stagnating_plan_is_reflected_on_revised_and_then_answered() {
    let planning = || Planning::default().stagnation_threshold(2);
    let replies: Vec<Reply> = vec![
        plan("1", "pending").into(),
        plan("2", "in_progress").into(),
        echo_call("3", "x").into(),
        "I plan instead of searching; I search next.".into(),
        plan("4", "completed").into(),
        "done".into(),
    ];
    let stage = Stage::of(agent().policy("planning", planning), replies).await;
    let run = stage.say("go").await;
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    stage.check();
    assert_eq!(
        stage.said(3)[5..],
        [
            "assistant: echo({\"text\":\"x\"})",
            "tool: echo=blocked:blocked: a reflection comes first.",
            "user: your plan was revised several times and nothing was done. call no tool now. \
             write a short reflection first: what keeps the task from going on, and what you will \
             do differently.",
        ]
    );
    assert_eq!(
        stage.last(4),
        "user: now revise the plan with `create_tasks`, by what you wrote."
    );
    assert_eq!(
        stage.last(2),
        "tool: create_tasks=success:the plan is now:\n[>] **search**"
    );
    let told = told(&run).await;
    assert_eq!(
        names(&told),
        [
            "plan_revision",
            "plan_revision",
            "stagnation_observed",
            "call_held_back",
            "reflection_recorded",
            "revision_needed",
            "plan_revision",
            "revision_resolved",
            "answer_accepted"
        ]
    );
    assert_eq!(
        told[1].1["difference"]["changed"],
        json!([["search", "pending", "in_progress"]])
    );
}

#[tokio::test(start_paused = true)]
async fn a_malformed_plan_is_a_result_and_holds_up_no_other_call() {
    let several = vec![
        call("1", "create_tasks", json!({"tasks": []})),
        echo_call("2", "x"),
        plan("3", "pending"),
    ];
    let planning = || Planning::default().min_revisions(1);
    let stage = Stage::of(
        agent().policy("planning", planning),
        [several.into(), Reply::from("done")],
    )
    .await;
    assert_eq!(stage.ask("go").await.text(), "done");
    assert_eq!(
        stage.last(1),
        "tool: create_tasks=error:the plan was not taken: a plan has at least one task. | \
         echo=success:x | create_tasks=success:the plan is now:\n[ ] search"
    );
}

/// Scenario 3: what a person denied is no failure.
#[tokio::test(start_paused = true)]
async fn a_denied_call_is_not_demanded_again() {
    let agent = agent()
        .policy("ask", || AskAboutSecond)
        .policy("recovery", Recovery::default);
    let calls = vec![
        echo_call("1", "a"),
        echo_call("2", "b"),
        echo_call("3", "c"),
    ];
    let stage = Stage::of(agent, [calls.into(), Reply::from("done")]).await;
    let run = stage.say("go").await;
    run.wait().await.unwrap();
    let (_, operation, _) = run.questions().await.unwrap().remove(0);
    run.answer(operation, json!({"approved": false}))
        .await
        .unwrap();
    let outcome = run.outcome().await.unwrap();
    assert_eq!((outcome.text(), stage.calls()), ("done", 2));
    assert!(stage.last(1).contains("echo=denied:"), "{}", stage.last(1));
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_reflected_on_and_tried_again() {
    let replies: Vec<Reply> = vec![
        echo_call("1", "fail hard").into(),
        "The text began with a word that fails.".into(),
        "done".into(),
        echo_call("2", "mended").into(),
        "done".into(),
    ];
    let stage = Stage::of(agent().policy("recovery", Recovery::default), replies).await;
    let run = stage.say("go").await;
    let outcome = run.outcome().await.unwrap();
    stage.check();
    assert_eq!(
        (outcome.text(), &outcome.as_answer().unwrap().flagged),
        ("done", &None)
    );
    let told = told(&run).await;
    let expected = [
        "failure_observed",
        "reflection_recorded",
        "answer_rejected",
        "recovered",
        "answer_accepted",
    ];
    assert_eq!(names(&told), expected);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_broken_for_good_is_given_up_and_told() {
    let reflection = |n: u32| Reply::from(format!("Try number {n} goes another way."));
    let replies = vec![
        echo_call("1", "fail a").into(),
        reflection(1),
        echo_call("2", "fail b").into(),
        reflection(2),
        echo_call("3", "fail c").into(),
        "It is 5.".into(),
        "It may be 5, but echo failed.".into(),
    ];
    let stage = Stage::of(agent().policy("recovery", Recovery::default), replies).await;
    let outcome = stage.ask("go").await;
    let flagged = outcome.as_answer().unwrap().flagged.clone().unwrap();
    assert_eq!(outcome.text(), "It may be 5, but echo failed.");
    assert!(flagged.contains("`echo`"), "{flagged}");
}

#[tokio::test(start_paused = true)]
async fn reflections_between_calls_that_go_on_never_become_the_answer() {
    let mut replies: Vec<Reply> = Vec::new();
    for round in 0..10 {
        replies.push(echo_call(&format!("f{round}"), &format!("fail {round}")).into());
        replies.push(format!("Round {round} goes another way.").as_str().into());
        replies.push(echo_call(&format!("g{round}"), &format!("went {round}")).into());
    }
    replies.push("done".into());
    let agent = agent().policy("recovery", Recovery::default).max_steps(100);
    let stage = Stage::of(agent, replies).await;
    let outcome = stage.ask("go").await;
    let flagged = &outcome.as_answer().unwrap().flagged;
    assert_eq!((outcome.text(), flagged), ("done", &None));
}

#[tokio::test(start_paused = true)]
async fn policies_together_give_their_reasons_as_one_message() {
    let agent = agent()
        .policy("verification", || Verification::default().min_sources(2))
        .policy("planning", || Planning::default().min_revisions(1))
        .policy("synthesis", Synthesis::default);
    let replies: Vec<Reply> = vec![
        found("1", "a.md", "one").into(),
        "early".into(),
        vec![plan("2", "completed"), found("3", "b.md", "two")].into(),
        "not put together".into(),
        "from what was found [O2]".into(),
    ];
    let stage = Stage::of(agent, replies).await;
    let outcome = stage.ask("go").await;
    assert_eq!(outcome.text(), "from what was found [O2]");
    assert_eq!(outcome.as_answer().unwrap().flagged, None);
    let reasons = stage.last(2);
    let parts: Vec<&str> = reasons.split("\n\n").collect();
    assert_eq!(parts.len(), 3, "{reasons}");
    assert!(
        parts[0].contains("2 distinct sources; there are 1"),
        "{reasons}"
    );
    assert!(parts[1].contains("create_tasks"), "{reasons}");
    assert!(parts[2].contains("[o1] echo: one"), "{reasons}");
}

#[tokio::test(start_paused = true)]
async fn evidence_counts_distinct_sources_and_is_cited() {
    let found = |id, source: &str| found(id, source, "x");
    let settings = json!({"min_sources": 2, "reflection": true, "attach_sources": true});
    let replies: Vec<Reply> = vec![
        vec![found("1", "a.md"), found("2", "a.md")].into(),
        "answer".into(),
        found("3", "b.md").into(),
        "One source is not enough; I look into b.".into(),
        found("4", "b.md").into(),
        "answer".into(),
    ];
    let stage = Stage::of(agent().policy("verification", settings), replies).await;
    let outcome = stage.ask("go").await;
    assert_eq!(outcome.text(), "answer\n\nSources:\n- a.md\n- b.md");
    assert!(
        stage
            .said(3)
            .iter()
            .any(|line| line.contains("echo=blocked"))
    );
}

#[tokio::test(start_paused = true)]
async fn finding_nothing_and_keeping_books_is_no_evidence() {
    let nothing = |id, query: &str| {
        echo_call(
            id,
            &format!("No passage has a word of \"{query}\". Try other words."),
        )
    };
    let note = call("4", "write_note", json!({"text": "x"}));
    let passage = |id| echo_call(id, "[k3f9a] faq.md > Parcels (line 3)\n| By noon.");
    let registry = policies::register(ghostlight_actors::run::Registry::new());
    let definition = ToolDefinition::new("write_note", "Keeps a note.").effect(Effect::Read);
    let write = tool_fn(definition, |note: Value| async move {
        Ok(json!({"source": note["text"], "text": "kept"}).to_string())
    });
    let agent = desk("function_calling", json!({}))
        .tool(echo())
        .tool(write)
        .registry(registry)
        .max_rejections(2)
        .policy(
            "verification",
            json!({"min_sources": 2, "attach_sources": true}),
        )
        .policy("synthesis", json!({}));
    let replies: Vec<Reply> = vec![
        vec![
            nothing("1", "a"),
            nothing("2", "b"),
            echo_call("3", "[]"),
            note,
        ]
        .into(),
        "Runs can never be cancelled.".into(),
        vec![passage("5"), passage("6")].into(),
        "Runs can never be cancelled.".into(),
    ];
    let stage = Stage::of(agent, replies).await;
    let outcome = stage.ask("go").await;
    let flagged = outcome.as_answer().unwrap().flagged.clone().unwrap();
    assert!(flagged.contains("2 distinct sources"), "{flagged}");
    assert!(stage.last(2).ends_with("there are 0."), "{}", stage.last(2));
    assert!(
        outcome
            .text()
            .ends_with("Sources:\n- faq.md > Parcels (line 3)"),
        "{outcome:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn going_round_in_circles_is_told_and_then_ended() {
    let same = |_: u32| Reply::from(echo_call("1", "again"));
    let agent = agent().policy("repetition", json!({}));
    let stage = Stage::of(agent, (0..9).map(same).collect::<Vec<_>>()).await;
    let outcome = stage.ask("go").await;
    let Some(StopReason::GaveUp(reason)) = outcome.stop_reason() else {
        panic!("{outcome:?}");
    };
    assert_eq!(reason, "the agent did the same 5 times in a row");
    assert_eq!(stage.calls(), 5);
    assert!(
        !stage
            .said(2)
            .iter()
            .any(|line| line.contains("you repeat yourself"))
    );
    assert!(stage.last(3).contains("you repeat yourself"));
}

#[tokio::test(start_paused = true)]
async fn control_tools_end_the_loop_without_another_model_call() {
    for (control, expected) in [
        (call("2", "exit_loop", json!({})), StopReason::LoopExited),
        (
            call("2", "escalate", json!({"reason": "no access"})),
            StopReason::Escalated("no access".to_owned()),
        ),
    ] {
        let agent = agent().policy("control", json!({}));
        let wrong = call("1", "escalate", json!({"reason": " "}));
        let replies = [
            wrong.into(),
            Reply::from(vec![control, echo_call("3", "x")]),
        ];
        let stage = Stage::of(agent, replies).await;
        let outcome = stage.ask("go").await;
        assert_eq!(outcome.stop_reason(), Some(&expected));
        assert_eq!(
            stage.calls(),
            2,
            "the wrong call did not end it, the right one did"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn todos_live_in_the_session_and_every_request_shows_them() {
    let item =
        |id: &str, status: &str| json!({"id": id, "content": format!("do {id}"), "status": status});
    let write = |id: &str, merge: bool, items: Vec<Value>| {
        call(id, "todo_write", json!({"merge": merge, "todos": items}))
    };
    let agent = agent().policy("todos", json!({}));
    let replies: Vec<Reply> = vec![
        write("1", false, vec![item("a", "pending"), item("b", "pending")]).into(),
        "noted".into(),
        write("2", true, vec![item("a", "completed")]).into(),
        "done".into(),
    ];
    let stage = Stage::of(agent, replies).await;
    stage.ask("plan").await;
    stage.ask("work").await;
    let shown = |request: usize| {
        stage
            .request(request)
            .conversation
            .last()
            .unwrap()
            .content()
    };
    assert_eq!(shown(0), "plan");
    assert!(
        shown(2).contains("[ ] a: do a\n[ ] b: do b"),
        "{}",
        shown(2)
    );
    assert!(
        shown(3).contains("[x] a: do a\n[ ] b: do b"),
        "{}",
        shown(3)
    );
    let summary = "2 items: 1 pending, 0 in progress, 1 completed, 0 canceled";
    let written = format!("tool: todo_write=success:{summary}");
    assert!(stage.said(3).contains(&written), "{:?}", stage.said(3));
}

/// The same policy in every behavior that uses tools: it counts calls, and rejects the first answer.
#[tokio::test(start_paused = true)]
async fn policies_watch_over_every_behavior() {
    struct Watch {
        rejected: bool,
    }
    impl Policy for Watch {
        async fn before_tool(
            &mut self,
            cx: &PolicyContext<'_>,
            call: &ToolCall,
        ) -> Result<BeforeTool, AgentError> {
            cx.emit("seen", &json!(call.name));
            Ok(BeforeTool::Go)
        }

        async fn before_answer(
            &mut self,
            _: &PolicyContext<'_>,
            _: &str,
        ) -> Result<ghostlight_actors::run::Verdict, AgentError> {
            use ghostlight_actors::run::Verdict;
            Ok(match std::mem::replace(&mut self.rejected, true) {
                true => Verdict::Accept,
                false => Verdict::Reject("Once more.".to_owned()),
            })
        }
    }
    let approved = json!({"approved": true, "score": 9, "critique": ""}).to_string();
    let cases: Vec<(&str, Vec<Reply>)> = vec![
        ("simple", vec!["draft".into(), "done".into()]),
        (
            "function_calling",
            vec![echo_call("1", "x").into(), "draft".into(), "done".into()],
        ),
        (
            "react",
            vec![
                "Action: echo\nArgs: {\"text\": \"x\"}".into(),
                "Final: draft".into(),
                "Final: done".into(),
            ],
        ),
        (
            "reflection",
            vec![
                echo_call("1", "x").into(),
                "draft".into(),
                "done".into(),
                approved.into(),
            ],
        ),
        (
            "plan_and_solve",
            vec![
                "1. a".into(),
                echo_call("1", "x").into(),
                "one".into(),
                "draft".into(),
                "done".into(),
            ],
        ),
        (
            "rewoo",
            vec!["#E1 = echo[x]".into(), "draft".into(), "done".into()],
        ),
    ];
    for (behavior, replies) in cases {
        let agent = desk(behavior, json!({})).tool(echo());
        let agent = agent.policy("watch", || Watch { rejected: false });
        let expected = replies.len();
        let stage = Stage::of(agent, replies).await;
        let run = stage.say("go").await;
        let outcome: Outcome = run.outcome().await.unwrap();
        assert_eq!(
            (outcome.text(), stage.calls()),
            ("done", expected),
            "{behavior}"
        );
        let told = told(&run).await;
        let told = names(&told);
        let count = |name: &str| told.iter().filter(|told| **told == name).count();
        assert_eq!(count("answer_rejected"), 1, "{behavior}");
        assert_eq!(
            count("seen"),
            usize::from(behavior != "simple"),
            "{behavior}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_finishing_tool_in_other_letters_is_no_evidence_and_no_failure() {
    let finish = |id, answer: &str| call(id, "FINISH", json!({ "answer": answer }));
    let registry = policies::register(ghostlight_actors::run::Registry::new());
    let agent = desk("function_calling", json!({"completion": "tool"}))
        .tool(echo())
        .registry(registry)
        .policy("verification", Verification::default)
        .policy("recovery", Recovery::default);
    let replies: Vec<Reply> = vec![
        finish("1", " ").into(),
        finish("2", "from memory").into(),
        found("3", "a.md", "fact").into(),
        finish("4", "fact").into(),
    ];
    let stage = Stage::of(agent, replies).await;
    let outcome = stage.ask("go").await;
    assert_eq!((outcome.text(), stage.calls()), ("fact", 4));
    assert_eq!(outcome.as_answer().unwrap().flagged, None);
    assert!(
        stage.last(2).contains("distinct sources"),
        "{}",
        stage.last(2)
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_tool_that_does_not_exist_is_no_failure_to_make_good() {
    let replies: Vec<Reply> = vec![
        call("1", "shout", json!({"text": "x"})).into(),
        echo_call("2", "x").into(),
        "done".into(),
    ];
    let stage = Stage::of(agent().policy("recovery", Recovery::default), replies).await;
    let outcome = stage.ask("go").await;
    assert_eq!((outcome.text(), stage.calls()), ("done", 3));
    assert_eq!(outcome.as_answer().unwrap().flagged, None);
    assert!(
        stage.last(2).contains("echo=success:x"),
        "{}",
        stage.last(2)
    );
}
