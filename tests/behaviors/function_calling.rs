//! Function calling: several turns, every call answered, typed stops.

use std::time::Duration;

use ghostlight::tools::tool_fn;
use ghostlight_actors::{
    run::Agent,
    session::Turn,
    testing::{Reply, ScriptedModel},
    vocabulary::{
        Budget, Effect, FinishReason, ModelResponse, Outcome, Resource, StopReason, ToolDefinition,
        Usage,
    },
};
use serde_json::json;

use crate::stage::{Stage, call, crowded, desk, echo, echo_call, said, told, with_text};

fn agent(settings: serde_json::Value) -> Agent {
    desk("function_calling", settings).tool(echo())
}

#[tokio::test(start_paused = true)]
async fn the_model_reads_results_and_goes_on_until_it_answers() {
    let replies: Vec<Reply> = vec![
        with_text("I look.", [echo_call("a", "one")]).into(),
        echo_call("b", "two").into(),
        "three".into(),
    ];
    let stage = Stage::of(agent(json!({})), replies).await;
    let outcome = stage.ask("count").await;
    assert_eq!(outcome.text(), "three");
    assert_eq!(
        stage.said(2),
        [
            "user: count",
            r#"assistant: i look. | echo({"text":"one"})"#,
            "tool: echo=success:one",
            r#"assistant: echo({"text":"two"})"#,
            "tool: echo=success:two",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_next_turn_sees_all_that_was_said() {
    let replies: Vec<Reply> = vec![
        echo_call("a", "one").into(),
        "first".into(),
        "second".into(),
    ];
    let stage = Stage::of(agent(json!({})), replies).await;
    stage.ask("go").await;
    stage.ask("and on").await;
    let expected = [
        "user: go",
        r#"assistant: echo({"text":"one"})"#,
        "tool: echo=success:one",
        "assistant: first",
        "user: and on",
    ];
    assert_eq!(stage.said(2), expected);
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_turn_run_side_by_side_and_results_keep_their_order() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Wait {
        seconds: u64,
    }
    let definition = ToolDefinition::new("wait", "Waits.").effect(Effect::Read);
    let wait = tool_fn(definition, |wait: Wait| async move {
        tokio::time::sleep(Duration::from_secs(wait.seconds)).await;
        Ok(format!("waited {}", wait.seconds))
    });
    let waits = [3, 1, 2].map(|n| call(&n.to_string(), "wait", json!({ "seconds": n })));
    let replies: Vec<Reply> = vec![waits.to_vec().into(), "done".into()];
    let stage = Stage::of(desk("function_calling", json!({})).tool(wait), replies).await;
    let started = tokio::time::Instant::now();
    stage.ask("go").await;
    let took = started.elapsed();
    assert!(
        took < Duration::from_secs(4),
        "{took:?} for calls of 3, 1 and 2 seconds"
    );
    let expected = "tool: wait=success:waited 3 | wait=success:waited 1 | wait=success:waited 2";
    assert_eq!(stage.last(1), expected);
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_run_at_once_than_the_agent_may() {
    for (at_once, rounds) in [(1, 9), (4, 3), (20, 1)] {
        let (wait, most) = crowded();
        let calls: Vec<_> = (0..9)
            .map(|n| call(&n.to_string(), "wait", json!({})))
            .collect();
        let replies: Vec<Reply> = vec![calls.into(), "done".into()];
        let agent = desk("function_calling", json!({})).tool(wait);
        let stage = Stage::of(agent.parallel_tools(at_once), replies).await;
        let started = tokio::time::Instant::now();
        stage.ask("go").await;
        let took = started.elapsed().as_secs();
        assert_eq!(
            most.load(std::sync::atomic::Ordering::SeqCst),
            at_once.min(9)
        );
        assert_eq!(took, rounds, "seconds for 9 calls, {at_once} at once");
    }
}

#[tokio::test(start_paused = true)]
async fn one_failing_call_fails_no_other() {
    let calls = vec![
        echo_call("a", "fail on purpose"),
        call("b", "nothing", json!({})),
        call("c", "echo", json!({"txt": 1})),
        call("d", "echo", json!("not an object")),
        echo_call("e", "fine"),
    ];
    let replies: Vec<Reply> = vec![calls.into(), "done".into()];
    let stage = Stage::of(agent(json!({})), replies).await;
    assert_eq!(stage.ask("go").await.text(), "done");
    let results = stage.last(1);
    assert!(results.contains("echo=error:on purpose"), "{results}");
    assert!(results.contains(r#"nothing=error:there is no tool "nothing". there are: echo."#));
    assert_eq!(results.matches("echo=error").count(), 3, "{results}");
    assert!(results.ends_with("echo=success:fine"), "{results}");
}

#[tokio::test(start_paused = true)]
async fn of_too_many_calls_of_one_answer_the_first_are_run_and_the_model_is_told() {
    let calls: Vec<_> = (0..20_000)
        .map(|n| echo_call(&format!("c{n}"), &format!("{n}")))
        .collect();
    let replies: Vec<Reply> = vec![calls.into(), "done".into()];
    let stage = Stage::of(agent(json!({})).max_calls(3), replies).await;
    let run = stage.say("go").await;
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    let asked = stage.said(1);
    assert_eq!(asked.len(), 4, "{asked:?}");
    assert_eq!(
        asked[1],
        r#"assistant: echo({"text":"0"}) | echo({"text":"1"}) | echo({"text":"2"})"#
    );
    assert_eq!(
        asked[2],
        "tool: echo=success:0 | echo=success:1 | echo=success:2"
    );
    assert!(
        asked[3].contains("called 20000 tools at once") && asked[3].contains("at most 3 calls"),
        "{}",
        asked[3]
    );
    let told = told(&run).await;
    let left_out = (
        "calls_left_out".to_owned(),
        json!({ "asked": 20_000, "run": 3 }),
    );
    assert!(told.contains(&left_out), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_with_empty_or_equal_ids_each_get_their_result() {
    let calls = vec![
        echo_call("", "1"),
        echo_call("x", "2"),
        echo_call("x", "3"),
        echo_call("", "4"),
    ];
    let replies: Vec<Reply> = vec![calls.into(), "done".into()];
    let stage = Stage::of(agent(json!({})), replies).await;
    stage.ask("go").await;
    let expected = "tool: echo=success:1 | echo=success:2 | echo=success:3 | echo=success:4";
    assert_eq!(stage.last(1), expected);
}

#[tokio::test(start_paused = true)]
async fn the_finish_reason_decides_nothing() {
    let mut asks = with_text("so", [echo_call("a", "1")]);
    asks.finish = FinishReason::Stop;
    let mut answers = ModelResponse::text("the answer");
    answers.finish = FinishReason::ToolCalls;
    let stage = Stage::of(agent(json!({})), [asks, answers]).await;
    assert_eq!(stage.ask("go").await.text(), "the answer");
}

#[tokio::test(start_paused = true)]
async fn an_empty_turn_is_kept_and_answered_with_a_nudge() {
    let replies: Vec<Reply> = vec![
        "".into(),
        echo_call("a", "1").into(),
        "  ".into(),
        "ok".into(),
    ];
    let stage = Stage::of(agent(json!({"max_empty_turns": 2})), replies).await;
    assert_eq!(stage.ask("go").await.text(), "ok");
    let second = stage.said(1);
    assert_eq!(second[1], "assistant: [empty answer]");
    assert!(
        second[2].starts_with("user: your last answer was empty"),
        "{second:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn empty_turns_in_a_row_stop_the_run_with_what_it_has() {
    let replies: Vec<Reply> = vec![
        with_text("I look.", [echo_call("a", "1")]).into(),
        "".into(),
        "".into(),
        "".into(),
    ];
    let stage = Stage::of(agent(json!({})), replies).await;
    let outcome = stage.ask("go").await;
    assert_eq!(outcome.stop_reason(), Some(&StopReason::EmptyTurns(3)));
    assert_eq!(outcome.text(), "I look.");
    assert_eq!(stage.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_bound_on_steps_is_a_stop_with_the_partial_answer_and_a_valid_conversation() {
    let step = |n: u32| with_text(&format!("step {n}"), [echo_call("a", "1")]);
    let replies = vec![step(1), step(2), step(3), ModelResponse::text("go on?")];
    let stage = Stage::of(agent(json!({})).max_steps(3), replies).await;
    let outcome = stage.ask("go").await;
    assert_eq!(outcome.stop_reason(), Some(&StopReason::MaxSteps(3)));
    assert_eq!(outcome.text(), "step 3");
    // The session can go on with what was said.
    assert_eq!(stage.ask("and?").await.text(), "go on?");
    let kept = stage.said(3);
    assert_eq!(kept.len(), 1 + 3 * 2 + 2);
    assert_eq!(kept[7], "assistant: [the bound of 3 steps was reached]");
}

#[tokio::test(start_paused = true)]
async fn forty_steps_are_the_bound_where_nobody_sets_one() {
    let model = ScriptedModel::from_fn(|_, _| Ok(with_text("on", [echo_call("a", "1")])));
    let stage = Stage::with(agent(json!({})), model).await;
    let outcome = stage.ask("go").await;
    assert_eq!(outcome.stop_reason(), Some(&StopReason::MaxSteps(40)));
    assert_eq!(stage.calls(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_ends_its_step_needs_no_further_model_call() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let definition = ToolDefinition::new("hang_up", "Ends the call.").ends_step();
    let hang_up = tool_fn(definition, |_: Nothing| async { Ok("The call has ended.") });
    let calls = vec![echo_call("a", "bye"), call("b", "hang_up", json!({}))];
    let replies: Vec<Reply> = vec![calls.into(), "hello again".into()];
    let stage = Stage::of(agent(json!({})).tool(hang_up), replies).await;
    assert_eq!(stage.ask("bye").await.text(), "The call has ended.");
    assert_eq!(stage.calls(), 1);
    stage.ask("hello").await;
    let results = "tool: echo=success:bye | hang_up=success:the call has ended.";
    assert_eq!(
        stage.said(1)[2..],
        [results, "assistant: the call has ended.", "user: hello"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_transfer_lets_the_rest_of_its_batch_run_and_the_first_one_wins() {
    let team = agent(json!({}))
        .agent(Agent::new("billing").instructions("You are billing."))
        .agent(Agent::new("sales").instructions("You are sales."));
    let calls = vec![
        echo_call("a", "before"),
        call("b", "transfer_to_billing", json!({"request": "the VAT"})),
        call("c", "transfer_to_sales", json!({"request": "the rest"})),
        echo_call("d", "after"),
    ];
    let replies: Vec<Reply> = vec![calls.into(), "19 percent".into(), "still me".into()];
    let stage = Stage::of(team, replies).await;
    assert_eq!(stage.ask("VAT?").await.text(), "19 percent");
    let second = stage.request(1);
    assert_eq!(&*second.instructions, "You are billing.");
    let conversation = said(&second.conversation.messages());
    let results = &conversation[2];
    for expected in [
        "echo=success:before",
        "transfer_to_billing=success:the conversation was handed to billing.",
        "transfer_to_sales=blocked:not done: the conversation was already handed to billing",
        "echo=success:after",
    ] {
        assert!(results.contains(expected), "{results}");
    }
    assert!(conversation[3].contains("the vat"), "{conversation:?}");
    // The session stays with the agent that took over.
    stage.ask("sure?").await;
    assert_eq!(&*stage.request(2).instructions, "You are billing.");
}

#[tokio::test(start_paused = true)]
async fn a_used_up_budget_stops_with_the_partial_answer_and_every_call_answered() {
    let step = || with_text("so far", [echo_call("a", "1"), echo_call("b", "2")]);
    let stage = Stage::of(
        agent(json!({})),
        vec![step(), step(), ModelResponse::text("ok")],
    )
    .await;
    let budget = Budget {
        tool_calls: Some(2),
        ..Budget::default()
    };
    let outcome = stage.ask(Turn::text("go").budget(budget)).await;
    let reason = StopReason::BudgetExhausted(Resource::ToolCalls);
    assert_eq!(outcome.stop_reason(), Some(&reason));
    assert_eq!(outcome.text(), "so far");
    stage.ask("and?").await;
    let refused = "echo=interrupted:not run: ";
    assert_eq!(
        stage.said(2)[4].matches(refused).count(),
        2,
        "{:?}",
        stage.said(2)
    );
    let budget = Budget {
        model_calls: Some(1),
        ..Budget::default()
    };
    let stage = Stage::of(agent(json!({})), [step(), step()]).await;
    let outcome = stage.ask(Turn::text("go").budget(budget)).await;
    let reason = StopReason::BudgetExhausted(Resource::ModelCalls);
    assert_eq!(outcome.stop_reason(), Some(&reason));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_went_over_the_budget_says_so() {
    let usage = Usage {
        input_tokens: 60,
        output_tokens: 50,
        ..Usage::default()
    };
    let stage = Stage::of(agent(json!({})), [ModelResponse::text("42").usage(usage)]).await;
    let budget = Budget {
        tokens: Some(100),
        ..Budget::default()
    };
    let outcome = stage.ask(Turn::text("go").budget(budget)).await;
    let reason = StopReason::FinishOverBudget(Resource::Tokens);
    assert_eq!(
        (outcome.stop_reason(), outcome.text()),
        (Some(&reason), "42")
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_person_says_meanwhile_follows_the_results_and_is_answered() {
    let replies: Vec<Reply> = vec![
        echo_call("a", "1").into(),
        "done".into(),
        "in French: fini".into(),
    ];
    let model = ScriptedModel::replies(replies).delay(Duration::from_secs(1));
    let stage = Stage::with(agent(json!({})), model).await;
    let run = stage.say("go").await;
    run.steer("be quick").await.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    run.steer("in French").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "in French: fini");
    stage.check();
    assert_eq!(
        stage.said(1)[2..],
        ["tool: echo=success:1", "user: be quick"]
    );
    assert_eq!(stage.said(2)[4..], ["assistant: done", "user: in french"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_read_leniently_and_mended_until_it_fits_its_schema() {
    #[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
    struct Price {
        gross: f64,
    }
    let replies = [
        "about a hundred",
        r#"{"gross": "many"}"#,
        "```json\n{'gross': 95.2,}\n```",
    ];
    let stage = Stage::of(agent(json!({})).output::<Price>(), replies).await;
    let outcome = stage.ask("price?").await;
    assert_eq!(outcome.parse::<Price>().unwrap(), Price { gross: 95.2 });
    assert!(
        stage.last(2).contains("at $.gross: expected a number"),
        "{}",
        stage.last(2)
    );
    assert!(stage.request(0).output.is_some());

    let stage = Stage::of(
        agent(json!({"max_repairs": 1})).output::<Price>(),
        ["a", "b"],
    )
    .await;
    let outcome = stage.ask("price?").await;
    assert!(
        matches!(outcome.stop_reason(), Some(StopReason::GaveUp(why)) if why.contains("schema"))
    );
    assert_eq!(outcome.text(), "b");
}

#[tokio::test(start_paused = true)]
async fn the_finishing_tool_needs_an_answer_and_to_be_alone() {
    let finish = |id: &str, answer: &str| call(id, "Finish", json!({ "answer": answer }));
    let replies: Vec<Reply> = vec![
        "I think it is 42.".into(),
        vec![echo_call("a", "1"), finish("b", "42")].into(),
        finish("c", " ").into(),
        finish("d", "42").into(),
    ];
    let stage = Stage::of(agent(json!({"completion": "tool"})), replies).await;
    let outcome = stage.ask("go").await;
    assert!(matches!(outcome, Outcome::Answer(_)));
    assert_eq!(outcome.text(), "42");
    assert!(stage.request(0).tools.get("finish").is_some());
    assert!(stage.last(1).contains("the task is not ended yet"));
    assert!(
        stage
            .last(2)
            .contains("echo=success:1 | finish=error:not finished: call finish alone")
    );
    assert!(stage.last(3).contains("must be a text that is not empty"));
}

#[tokio::test(start_paused = true)]
async fn without_a_call_of_the_finishing_tool_the_run_stops() {
    let replies = ["a", "b", "c"];
    let stage = Stage::of(agent(json!({"completion": "tool"})), replies).await;
    let outcome = stage.ask("go").await;
    assert_eq!(
        (outcome.stop_reason(), outcome.text()),
        (Some(&StopReason::NoToolCalls), "c")
    );
    let stage = Stage::of(agent(json!({"completion": "either"})), ["a"]).await;
    assert_eq!(stage.ask("go").await, Outcome::answer("a"));
}

#[tokio::test(start_paused = true)]
async fn simple_asks_once_with_the_system_prompt_and_no_tools() {
    let agent = desk("simple", json!({}))
        .instructions("Be brief.")
        .tool(echo());
    let stage = Stage::of(agent, ["yes", ""]).await;
    assert_eq!(stage.ask("well?").await.text(), "yes");
    let request = stage.request(0);
    assert_eq!(
        (&*request.instructions, request.tools.len()),
        ("Be brief.", 0)
    );
    assert_eq!(stage.said(0), ["user: well?"]);
    let outcome = stage.ask("and?").await;
    assert_eq!(outcome.stop_reason(), Some(&StopReason::EmptyTurns(1)));
    assert_eq!(stage.calls(), 2);
}
