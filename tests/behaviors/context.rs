//! Requests stay in bounds, whatever a behavior does and however long a conversation grows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ghostlight::{
    behaviors::AgentLoop,
    context::{self, Estimate, TokenCounter},
};
use ghostlight_actors::{
    actor::{Run, SystemError},
    definition::{
        BehaviorSpec, Compact, ContextSpec, ContextStrategy, SlidingWindow, Spill, Summarize,
        TokenCounting,
    },
    run::{Agent, Registry, RunContext},
    testing::{CrashOptions, InMemoryStore, Reply, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{
        Effect, ErrorKind, ModelRequest, ModelResponse, Outcome, ToolCall, ToolDefinition,
    },
};
use serde_json::{Value, json};

use crate::stage::{Stage, desk, echo, echo_call, said, told};

/// The agent, kept in bounds.
pub(crate) fn bounded(agent: Agent, context: ContextSpec) -> Agent {
    let context = context.counting(TokenCounting::Estimate);
    agent
        .context(context)
        .registry(context::register(Registry::new()))
}

/// What a summary is asked for with.
pub(crate) fn is_summary(request: &ModelRequest) -> bool {
    request.instructions.starts_with("You keep the memory")
}

pub(crate) fn window(max_tokens: u32) -> ContextSpec {
    ContextSpec::new(max_tokens).strategy(ContextStrategy::TokenWindow)
}

pub(crate) fn summaries(max_tokens: u32) -> ContextSpec {
    let summarize = Summarize {
        keep_recent: 2,
        max_summary_tokens: 200,
        max_input_tokens: 1_000,
        ..Summarize::default()
    };
    ContextSpec::new(max_tokens)
        .strategy(ContextStrategy::Summarize(summarize))
        .strategy(ContextStrategy::TokenWindow)
}

/// A model that answers at length, and sums up by naming what it reads: the questions.
fn talker() -> ScriptedModel {
    ScriptedModel::from_fn(|request, _| {
        let last = request.conversation.last().unwrap().content();
        if is_summary(request) {
            let words = last.split(|c: char| !c.is_alphanumeric());
            let mut asked: Vec<&str> = words.filter(|word| word.starts_with("question")).collect();
            asked.dedup();
            return Ok(ModelResponse::text(asked.join(" ")));
        }
        let answer = format!("About this there is {}to say.", "quite a lot ".repeat(10));
        Ok(ModelResponse::text(answer))
    })
}

async fn events(run: &Run, name: &str) -> Vec<Value> {
    let told = told(run).await.into_iter();
    told.filter(|(told, _)| told == name)
        .map(|(_, data)| data)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_long_conversation_fits_its_budget_at_every_turn() {
    let strategies = [
        window(600),
        ContextSpec::new(600).strategy(ContextStrategy::SlidingWindow(SlidingWindow {
            turns: 4,
            ..SlidingWindow::default()
        })),
        summaries(700),
    ];
    for context in strategies {
        let stage = Stage::with(
            bounded(desk("function_calling", json!({})), context),
            talker(),
        )
        .await;
        for turn in 0..60 {
            stage.ask(format!("question{turn} 请问这个怎么办？")).await;
        }
        for request in stage.model.requests() {
            let messages = request.conversation.messages();
            if is_summary(&request) {
                assert!(Estimate.request(&request) <= 1_000);
                continue;
            }
            assert!(Estimate.request(&request) <= 700, "{messages:#?}");
        }
        let asked = stage.model.requests();
        let asked: Vec<_> = asked
            .iter()
            .filter(|request| !is_summary(request))
            .collect();
        assert_eq!(asked.len(), 60);
        for (turn, request) in asked.iter().enumerate() {
            let last = request.conversation.last().unwrap();
            assert!(
                last.content().contains(&format!("question{turn} ")),
                "{last:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_steps_of_one_long_turn_fit_and_its_question_stays() {
    for behavior in ["function_calling", "react"] {
        let model = ScriptedModel::from_fn(move |request, number| {
            let messages = request.conversation.messages();
            assert!(
                said(&messages)
                    .iter()
                    .any(|said| said.contains("what is to be found"))
            );
            let text = format!("{number} {}", "found words ".repeat(20));
            Ok(match (number, behavior) {
                (30, "react") => ModelResponse::text("Final: done"),
                (30, _) => ModelResponse::text("done"),
                (_, "react") => {
                    ModelResponse::text(format!("Action: echo\nArgs: {}", json!({ "text": text })))
                }
                _ => ModelResponse::tool_calls([echo_call(&format!("c{number}"), &text)]),
            })
        });
        let agent = desk(behavior, json!({ "max_steps": 50 })).tool(echo());
        let store = InMemoryStore::new();
        let stage = Stage::on(&store, bounded(agent, window(900)), model).await;
        let outcome = stage.ask("what is to be found").await;
        assert_eq!(outcome.text(), "done", "{behavior}");
        let most = stage
            .model
            .requests()
            .iter()
            .map(|request| Estimate.request(request))
            .max();
        assert!(most <= Some(900), "{behavior}: {most:?}");

        // The conversation is whole: only requests were shaped.
        store.crash();
        let unbounded = desk(behavior, json!({})).tool(echo());
        let model = ScriptedModel::replies(["Final: it was"]);
        let again = Stage::on(&store.another_process(), unbounded, model).await;
        again.ask("and before?").await;
        let whole = again.request(0).conversation.len();
        assert!(whole > 60, "{behavior}: {whole}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_people_say_meanwhile_stays_however_long_the_turn_gets() {
    // Said twice in the same words, and to the agent before the one that has it now.
    for (at, of) in [(vec![2, 4], 1), (vec![4, 4], 1), (vec![2, 8], 2)] {
        let model = ScriptedModel::from_fn(move |_, number| {
            let text = format!("{number} {}", "found words ".repeat(20));
            Ok(match number {
                6 if of == 2 => ModelResponse::tool_calls([ToolCall::new(
                    "t",
                    "transfer_to_clerk",
                    json!({ "request": "go on with it" }),
                )]),
                20 => ModelResponse::text("done"),
                _ => ModelResponse::tool_calls([echo_call(&format!("c{number}"), &text)]),
            })
        });
        let model = model.delay(Duration::from_secs(1));
        let settings = json!({ "max_steps": 50 });
        let clerk = Agent::new("clerk").behavior(BehaviorSpec::new("function_calling"));
        let clerk = clerk.max_steps(50).tool(echo());
        let clerk = bounded(clerk, window(1_200));
        let agent = desk("function_calling", settings).tool(echo());
        let agent = bounded(agent, window(1_200)).agent(clerk);
        let stage = Stage::with(agent, model).await;
        let run = stage.say("what is to be found").await;
        let began = tokio::time::Instant::now();
        for second in at {
            let moment = Duration::from_millis(1000 * second + 500);
            tokio::time::sleep_until(began + moment).await;
            run.steer("mind the gap").await.unwrap();
        }
        assert_eq!(run.outcome().await.unwrap().text(), "done");
        stage.check();
        let requests = stage.model.requests();
        let heard = |request: &ModelRequest| {
            let lines = said(&request.conversation.messages()).join("\n");
            assert!(lines.contains("what is to be found"), "{lines}");
            lines.matches("mind the gap").count()
        };
        let heard: Vec<usize> = requests.iter().map(heard).collect();
        assert!(heard.is_sorted() && heard.last() == Some(&2), "{heard:?}");
        let last = requests.last().map(|request| request.conversation.len());
        assert!(last < Some(20), "nothing was left out");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_fit_is_a_context_overflow_and_is_not_sent() {
    let stage = Stage::of(bounded(desk("simple", json!({})), window(50)), ["unused"]).await;
    let error = stage.try_ask("word ".repeat(100)).await.unwrap_err();
    let SystemError::Failed { error, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(error.kind(), Some(&ErrorKind::ContextOverflow));
    let told = error.to_string();
    for expected in ["\"desk\"", "allows 50", "by estimate", "raise `max_tokens`"] {
        assert!(told.contains(expected), "{told}");
    }
    assert_eq!(stage.calls(), 0);
    // The session goes on.
    assert_eq!(stage.ask("short").await.text(), "unused");
}

/// What was pasted has nearly all the room that there is.
#[tokio::test(start_paused = true)]
async fn a_long_paste_comes_before_the_summary_of_what_was_said() {
    let mut gave_way = 0;
    for words in (600..760).step_by(20) {
        let agent = bounded(desk("function_calling", json!({})), summaries(800));
        let stage = Stage::with(agent, talker()).await;
        for turn in 0..14 {
            stage.ask(format!("question{turn}")).await;
        }
        let paste = format!("pasted {}", "word ".repeat(words));
        let run = stage.say(paste).await;
        let outcome = run.outcome().await;
        assert!(outcome.is_ok(), "{words}: {outcome:?}");
        stage.check();
        if events(&run, "context_summary_left_out").await.is_empty() {
            continue;
        }
        gave_way += 1;
        let read = stage.said(stage.calls() - 1);
        assert!(read[0].contains("left out here") && read[0].contains("pasted word"));
        assert!(!read[0].contains("question0"), "{}", read[0]);
        // The summary is kept, and there is room for it again.
        stage.ask("and what was it?").await;
        let last = stage.said(stage.calls() - 1);
        assert!(last[0].contains("question0"), "{last:#?}");
    }
    assert!(gave_way > 0);
}

/// Scenario 8 of the field's conformance scenarios.
#[tokio::test(start_paused = true)]
async fn a_later_summary_takes_the_earlier_one_in_and_nothing_is_summed_up_twice() {
    let mut store = InMemoryStore::new();
    let agent = || bounded(desk("function_calling", json!({})), summaries(800));
    let mut requests = Vec::new();
    for life in 0..3 {
        let stage = Stage::on(&store, agent(), talker()).await;
        for turn in 0..14 {
            stage.ask(format!("question{life}x{turn}")).await;
        }
        requests.extend(stage.model.requests());
        store.crash();
        store = store.another_process();
    }
    let summaries: Vec<String> = requests
        .iter()
        .filter(|request| is_summary(request))
        .map(|request| request.conversation.last().unwrap().content())
        .collect();
    assert!(summaries.len() >= 3, "{}", summaries.len());
    for pair in summaries.windows(2) {
        let (_, said_before) = pair[0].split_once("<said_since>").unwrap();
        let (earlier, said_now) = pair[1].split_once("<said_since>").unwrap();
        let questions: Vec<&str> = said_before
            .split_whitespace()
            .filter(|word| word.starts_with("question"))
            .collect();
        for question in questions {
            assert!(earlier.contains(question), "{question} is lost: {earlier}");
            assert!(
                !said_now.contains(&format!("{question}\n")),
                "{question} is told again"
            );
        }
    }
    // The summary stands before what is kept, and says what it is.
    let last = requests.last().unwrap().conversation.messages();
    let head = last[0].content();
    assert!(head.starts_with("[Summary of earlier parts"), "{head}");
    assert!(head.contains("question0x0"), "{head}");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_cannot_sum_up_is_told_and_the_window_does_without() {
    let model = ScriptedModel::from_fn(|request, _| match is_summary(request) {
        true => Err(ghostlight_actors::contract::ModelError::new(
            ErrorKind::InvalidInput,
            "it is out of order",
        )),
        false => Ok(ModelResponse::text("quite a lot ".repeat(20))),
    });
    let agent = bounded(desk("function_calling", json!({})), summaries(500));
    let stage = Stage::with(agent, model).await;
    let mut failed = Vec::new();
    for turn in 0..10 {
        let run = stage.say(format!("question{turn}")).await;
        run.outcome().await.unwrap();
        failed.extend(events(&run, "context_not_summarized").await);
    }
    assert!(!failed.is_empty());
    assert!(
        failed[0]["reason"]
            .as_str()
            .unwrap()
            .contains("out of order"),
        "{}",
        failed[0]
    );
    let last = stage.model.requests().pop().unwrap();
    assert!(Estimate.request(&last) <= 500);
}

#[tokio::test(start_paused = true)]
async fn requests_begin_as_the_last_one_did_until_the_window_moves() {
    let stage = Stage::with(
        bounded(desk("function_calling", json!({})), window(1_000)),
        talker(),
    )
    .await;
    let mut moved = 0;
    for turn in 0..60 {
        let run = stage.say(format!("question{turn}")).await;
        run.outcome().await.unwrap();
        moved += events(&run, "context_reduced").await.len();
    }
    let requests = stage.model.requests();
    let begins_alike = |pair: &&[ModelRequest]| {
        let (earlier, later) = (&pair[0].conversation, &pair[1].conversation);
        later.truncated(earlier.len()) == *earlier
    };
    let alike = requests.windows(2).filter(begins_alike).count();
    assert_eq!(alike + moved, 59);
    assert!(
        (3..=12).contains(&moved),
        "the window moved {moved} times in 60 turns"
    );
}

#[tokio::test(start_paused = true)]
async fn failures_stay_visible_within_their_bound() {
    let model = ScriptedModel::from_fn(|_, number| {
        let text = match number {
            2 | 5 | 8 | 11 => format!("fail reason{number}"),
            _ => "words ".repeat(60),
        };
        Ok(match number {
            20 => ModelResponse::text("done"),
            _ => ModelResponse::tool_calls([echo_call(&format!("c{number}"), &text)]),
        })
    });
    let agent = desk("function_calling", json!({})).tool(echo());
    let stage = Stage::with(bounded(agent, window(700).failures(2)), model).await;
    stage.ask("go").await;
    let head = stage.request(20).conversation.messages()[0].content();
    assert!(
        head.contains("reason8") && head.contains("reason11"),
        "{head}"
    );
    assert!(!head.contains("reason5"), "{head}");
    assert!(head.ends_with("go"), "{head}");
}

#[tokio::test(start_paused = true)]
async fn bulky_results_become_placeholders_and_the_last_ones_stay() {
    let model = ScriptedModel::from_fn(|_, number| {
        Ok(match number {
            8 => ModelResponse::text("done"),
            _ => ModelResponse::tool_calls([echo_call(
                "c",
                &format!("{number} {}", "w ".repeat(200)),
            )]),
        })
    });
    let compact = Compact {
        keep_recent: 1,
        ..Compact::default()
    };
    let context = ContextSpec::new(3_000)
        .strategy(ContextStrategy::Compact(compact))
        .between(30, 50);
    let stage = Stage::with(
        bounded(desk("function_calling", json!({})).tool(echo()), context),
        model,
    )
    .await;
    stage.ask("go").await;
    let last = stage.request(8).conversation.messages();
    assert_eq!(last.len(), 17);
    let results: Vec<String> = last
        .iter()
        .flat_map(|message| {
            message
                .tool_results()
                .map(|result| result.text.clone())
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(
        results[0],
        "[the result of echo is left out; call it again if needed]"
    );
    assert!(results[7].starts_with("7 w w"), "{}", results[7]);
}

#[tokio::test(start_paused = true)]
async fn every_behavior_that_has_a_conversation_is_bounded() {
    for behavior in [
        "simple",
        "function_calling",
        "react",
        "reflection",
        "plan_and_solve",
        "rewoo",
        "adaptive",
    ] {
        let model = ScriptedModel::from_fn(move |request, _| {
            let plans = request.instructions.contains("Do not do the task yet");
            let verdict = json!({"approved": true, "score": 9, "critique": ""});
            Ok(ModelResponse::text(match behavior {
                "reflection" if request.output.is_some() => verdict.to_string(),
                "plan_and_solve" if plans => json!({"steps": ["say it"]}).to_string(),
                "rewoo" if plans => json!({"steps": [
                    {"id": "E1", "purpose": "", "tool": "echo", "input": {"text": "it"}},
                ]})
                .to_string(),
                "react" => format!("Final: {}", "much ".repeat(60)),
                _ => "much ".repeat(60),
            }))
        });
        let agent = bounded(desk(behavior, json!({})).tool(echo()), window(1_200));
        let stage = Stage::with(agent, model).await;
        for turn in 0..25 {
            let outcome = stage.ask(format!("question{turn}")).await;
            assert!(
                matches!(outcome, Outcome::Answer(_)),
                "{behavior}: {outcome:?}"
            );
        }
        let most = stage
            .model
            .requests()
            .iter()
            .map(|request| Estimate.request(request))
            .max();
        assert!(
            (Some(700)..=Some(1_200)).contains(&most),
            "{behavior}: {most:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_commit_the_context_is_where_it_was() {
    let scenario = Scenario::new("desk", |builder, log| {
        let look = ToolDefinition::new("look", "is logged").effect(Effect::Read);
        let agent = Agent::new("desk").tool(log.tool(look, std::time::Duration::from_millis(10)));
        let model = ScriptedModel::from_reply_fn(|request, _| {
            let messages = request.conversation.messages();
            if is_summary(request) {
                return Reply::from(format!("summed up {}", Estimate.request(request)));
            }
            let last = messages.last().unwrap();
            let steps = last.tool_results().last().map_or(0, |result| {
                1 + result
                    .call_id
                    .trim_start_matches('c')
                    .parse::<u32>()
                    .unwrap()
            });
            match steps == 4 || last.content().contains("again") {
                true => Reply::from("done ".repeat(20)),
                false => {
                    let at = json!({ "at": "it ".repeat(30) });
                    Reply::from(crate::stage::call(&format!("c{steps}"), "look", at))
                }
            }
        });
        builder
            .registry(ghostlight::builtin())
            .model("default", model)
            .team(bounded(agent, summaries(300)).into_team().unwrap())
    })
    .turn("look around")
    .turn("again")
    .turn("and again");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.commits > 10, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_branched_or_rewound_knows_nothing_of_what_came_later() {
    let agent = bounded(desk("function_calling", json!({})), summaries(800));
    let stage = Stage::with(agent, talker()).await;
    for turn in 0..24 {
        stage.ask(format!("question{turn}")).await;
    }
    let session = stage.system.session("desk", "session");
    let branch = session.fork(8, "other").await.unwrap();
    session.rewind(8).await.unwrap();
    for session in [branch, session] {
        for turn in 0..12 {
            let before = stage.calls();
            let run = session.send(format!("later{turn}").as_str()).await.unwrap();
            run.outcome().await.unwrap();
            stage.check();
            for request in &stage.model.requests()[before..] {
                let said = said(&request.conversation.messages()).join("\n");
                assert!(
                    !said.contains("question8") && !said.contains("question23"),
                    "{said}"
                );
                assert!(said.contains("question7") || turn > 0, "{said}");
                assert!(Estimate.request(request) <= 1_000);
            }
        }
    }
}

/// Two loops beside each other, each on a branch, which share what watches over the agent.
#[tokio::test(start_paused = true)]
async fn killed_at_any_commit_loops_on_branches_sum_up_and_spill_as_they_did() {
    let summed_up = Arc::new(AtomicUsize::new(0));
    let moved = Arc::new(AtomicUsize::new(0));
    let counters = (summed_up.clone(), moved.clone());
    let scenario = Scenario::new("desk", move |builder, _log| {
        let (summed_up, moved) = counters.clone();
        let agent = Agent::from_fn("desk", |cx: RunContext| async move {
            let (left, right) = (cx.lane("left"), cx.lane("right"));
            let (mut a, mut b) = (
                AgentLoop::new(&left)?.inner(),
                AgentLoop::new(&right)?.inner(),
            );
            let (a, b) = futures_util::future::join(a.run(), b.run()).await;
            Ok(Outcome::answer(format!("{} {}", a?.text(), b?.text())))
        });
        let model = ScriptedModel::from_reply_fn(move |request, _| {
            if is_summary(request) {
                summed_up.fetch_add(1, Ordering::Relaxed);
                return Reply::from("it was echoed");
            }
            let last = request.conversation.last().unwrap();
            let steps = last.tool_results().last().map_or(0, |result| {
                let is_moved = result.text.contains("read_result");
                moved.fetch_add(usize::from(is_moved), Ordering::Relaxed);
                1 + result
                    .call_id
                    .trim_start_matches('c')
                    .parse::<u32>()
                    .unwrap()
            });
            match steps {
                3 => Reply::from("done"),
                _ => Reply::from(echo_call(&format!("c{steps}"), &"it ".repeat(90))),
            }
        });
        let context = summaries(700).spill(Spill {
            above_tokens: 80,
            keep_tokens: 20,
        });
        builder
            .registry(ghostlight::builtin())
            .model("default", model)
            .team(bounded(agent.tool(echo()), context).into_team().unwrap())
    })
    .turn("look around");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.commits > 5, "{report}");
    let counted = [summed_up, moved].map(|counter| counter.load(Ordering::Relaxed) > 0);
    assert_eq!(counted, [true, true], "it summed up, and moved results");
}
