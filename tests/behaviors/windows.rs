//! Windows where results, and what other agents said, stand where a user speaks.

use ghostlight::behaviors;
use ghostlight_actors::{
    actor::System,
    definition::{Compact, ContextSpec, ContextStrategy, OtherAgents, SlidingWindow},
    run::{Agent, Registry},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::ModelResponse,
};
use serde_json::json;

use crate::{
    context::{bounded, window},
    stage::{Stage, call, desk, echo, echo_call, said},
};

#[tokio::test(start_paused = true)]
async fn a_sliding_window_counts_peoples_turns_where_results_are_text() {
    // Two observations and an answer in each turn.
    let model = ScriptedModel::from_fn(|_, number| {
        let args = json!({ "text": format!("found{number}") });
        Ok(ModelResponse::text(match number % 3 {
            2 => "Final: done".to_owned(),
            _ => format!("Action: echo\nArgs: {args}"),
        }))
    });
    let turns = ContextStrategy::SlidingWindow(SlidingWindow {
        turns: 2,
        ..SlidingWindow::default()
    });
    let context = ContextSpec::new(10_000).strategy(turns).between(100, 0);
    let agent = desk("react", json!({})).tool(echo());
    let stage = Stage::with(bounded(agent, context), model).await;
    for turn in 0..5 {
        stage.ask(format!("question{turn}")).await;
    }
    let last = stage.said(14).join("\n");
    for kept in [
        "question3",
        "found9",
        "found10",
        "question4",
        "found12",
        "found13",
    ] {
        assert!(last.contains(kept), "{kept}: {last}");
    }
    assert!(
        !last.contains("question2") && !last.contains("found7"),
        "{last}"
    );
}

/// Six turns, of which the request of the last has eleven messages before it is cut.
#[tokio::test(start_paused = true)]
async fn a_window_in_messages_and_the_last_messages_of_a_window_in_tokens_are_what_the_model_reads()
{
    let sliding = |messages| {
        let window = ContextStrategy::SlidingWindow(SlidingWindow {
            messages,
            ..SlidingWindow::default()
        });
        ContextSpec::new(10_000).strategy(window).between(100, 0)
    };
    // Any two messages are more than the window of tokens is to come to.
    let tokens = |last| window(10_000).between(1, 2).preserve_recent(last);
    for (context, kept) in [
        (sliding(None), 11),
        (sliding(Some(5)), 5),
        (tokens(0), 1),
        (tokens(7), 7),
    ] {
        let model = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("answer ".repeat(80))));
        let agent = bounded(desk("function_calling", json!({})), context.clone());
        let stage = Stage::with(agent, model).await;
        for turn in 0..6 {
            stage
                .ask(format!("question{turn} {}", "word ".repeat(80)))
                .await;
        }
        let read = stage.said(5);
        assert_eq!(read.len(), kept, "{context:?}: {read:#?}");
        assert!(read.last().is_some_and(|last| last.contains("question5")));
    }
}

#[tokio::test(start_paused = true)]
async fn no_observation_is_parted_from_its_action() {
    let model = ScriptedModel::from_fn(|_, number| {
        let args = json!({ "text": format!("found{number} {}", "words ".repeat(40)) });
        Ok(ModelResponse::text(match number {
            20 => "Final: done".to_owned(),
            _ => format!("Action: echo\nArgs: {args}"),
        }))
    });
    let agent = desk("react", json!({})).tool(echo());
    let stage = Stage::with(bounded(agent, window(900)), model).await;
    stage.ask("go").await;
    let mut cut = 0;
    for request in stage.model.requests() {
        let messages = said(&request.conversation.messages());
        cut += usize::from(messages[0].contains("left out"));
        // What stands before the first action was said by the user.
        assert!(!messages[0].contains("observation"), "{messages:#?}");
        for pair in messages.windows(2) {
            if let Some((_, found)) = pair[1].split_once("observation: ") {
                let (found, _) = found.split_once(' ').unwrap();
                assert!(pair[0].contains(&format!("\"{found} ")), "{pair:?}");
            }
        }
    }
    assert!(cut > 3, "{cut}");
}

/// The first agent of a turn says more than the one that takes over may read.
#[tokio::test(start_paused = true)]
async fn what_another_agent_did_in_this_turn_may_be_left_out_however_it_is_told() {
    for told in [OtherAgents::AsOwn, OtherAgents::AsTold] {
        let closer = Agent::new("closer").context(window(600).other_agents(told));
        let front = desk("function_calling", json!({ "max_steps": 50 }))
            .tool(echo())
            .agent(closer);
        let model = ScriptedModel::from_fn(|_, number| {
            let text = format!("found{number} {}", "words ".repeat(60));
            Ok(match number {
                20 => {
                    let request = json!({ "request": "close it" });
                    ModelResponse::tool_calls([call("t", "transfer_to_closer", request)])
                }
                21 => ModelResponse::text("closed"),
                _ => ModelResponse::tool_calls([echo_call(&format!("c{number}"), &text)]),
            })
        });
        let registry = bounded(front, ContextSpec::new(100_000));
        let stage = Stage::with(registry, model).await;
        assert_eq!(
            stage.ask("what is asked").await.text(),
            "closed",
            "{told:?}"
        );
        let said = stage.said(21).join("\n");
        for kept in ["what is asked", "close it", "transfer_to_closer"] {
            assert!(said.contains(kept), "{told:?}: {kept}: {said}");
        }
        assert!(!said.contains("found3 "), "{told:?}: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn compacting_alone_is_refused_where_there_are_no_calls_to_compact() {
    let compact = || ContextSpec::new(1_000).strategy(ContextStrategy::Compact(Compact::default()));
    let start = async |context| {
        let agent = bounded(desk("react", json!({})), context);
        let builder = System::builder(InMemoryStore::new());
        let builder = builder.registry(behaviors::register(Registry::new()));
        let model = ScriptedModel::replies(["Final: done"]);
        let builder = builder.model("default", model);
        builder.team(agent.into_team().unwrap()).start().await
    };
    let refused = start(compact()).await.unwrap_err().to_string();
    assert!(
        refused.contains("compact") && refused.contains("token_window"),
        "{refused}"
    );
    let beside = compact().strategy(ContextStrategy::TokenWindow);
    assert!(start(beside).await.is_ok());
}
