//! One agent, asked in one call.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use ghostlight::{
    Error,
    definition::ClarifySpec,
    prelude::*,
    vocabulary::{NoAnswer, StopReason, ToolCall},
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Adds VAT to a net price.
#[tool(effect = "read")]
async fn add_vat(net: f64, percent: f64) -> Result<f64, ToolError> {
    Ok(net * (1.0 + percent / 100.0))
}

fn call(name: &str, arguments: serde_json::Value) -> ModelResponse {
    ModelResponse::tool_calls([ToolCall::new("c1", name, arguments)])
}

#[tokio::test(start_paused = true)]
async fn six_lines_are_an_agent_with_a_tool_and_its_answer() {
    let model = ScriptedModel::turns([
        call("add_vat", serde_json::json!({"net": 80.0, "percent": 19.0})),
        ModelResponse::text("95.20 euro"),
    ]);
    let desk = Agent::new("desk").model(model.clone()).tool(add_vat);
    let answer = desk.run("80 euro with 19% VAT?").await.unwrap();
    assert_eq!(answer.to_string(), "95.20 euro");
    // The next call knows nothing of it.
    assert_eq!(desk.run("And 90?").await.unwrap().text, "95.20 euro");
    assert_eq!(model.seen()[2].request.conversation.len(), 1);
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
struct Price {
    gross: f64,
}

#[tokio::test(start_paused = true)]
async fn a_typed_answer_holds_the_model_to_its_schema() {
    let model = ScriptedModel::turns([r#"{"gross": 95.2}"#]);
    let price: Price = Agent::new("desk")
        .model(model.clone())
        .run_as("80 euro with 19% VAT?")
        .await
        .unwrap();
    assert_eq!(price, Price { gross: 95.2 });
    assert!(model.seen()[0].request.output.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_end_without_an_answer_is_an_error_that_says_why() {
    let model = ScriptedModel::from_fn(|_, _| {
        Ok(call(
            "add_vat",
            serde_json::json!({"net": 1.0, "percent": 1.0}),
        ))
    });
    let desk = Agent::new("desk").model(model).tool(add_vat).max_steps(3);
    let error = desk.run("go").await.unwrap_err();
    let Error::NoAnswer(NoAnswer::Stopped { reason, .. }) = &error else {
        panic!("{error}");
    };
    assert_eq!(*reason, StopReason::MaxSteps(3));
    assert!(error.to_string().contains("3 steps"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_a_model_is_told_before_it_begins() {
    let error = Agent::new("desk").run("hello").await.unwrap_err();
    assert!(error.to_string().contains("`Agent::model`"), "{error}");
    let system = System::builder(InMemoryStore::new()).registry(ghostlight::builtin());
    let team = Agent::new("desk").into_team().unwrap();
    let error = system.team(team).start().await.unwrap_err().to_string();
    let wanted = "agent \"desk\" names the model \"default\", which does not exist";
    assert!(error.contains(wanted), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_system_without_the_behaviors_of_the_library_says_how_it_gets_them() {
    let team = Agent::new("desk").model(ScriptedModel::turns(["hello"]));
    let system = System::builder(InMemoryStore::new()).team(team.into_team().unwrap());
    let error = system.start().await.unwrap_err().to_string();
    assert!(
        error.contains("`.registry(ghostlight::builtin())`"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_can_answer_ends_the_call() {
    let asks = || {
        let model = ScriptedModel::turns([call(
            "clarify",
            serde_json::json!({"question": "Which one?"}),
        )]);
        Agent::new("desk")
            .model(model)
            .clarify(ClarifySpec::default())
    };
    let error = asks().run("do it").await.unwrap_err();
    assert!(
        matches!(&error, Error::NobodyAnswers { question } if question == "Which one?"),
        "{error}"
    );
    let mut stream = asks().stream("do it").await.unwrap();
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(
        matches!(&error, Error::NobodyAnswers { question } if question == "Which one?"),
        "{error}"
    );
    assert!(stream.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_the_text_of_all_messages_in_pieces() {
    let mut first = call("add_vat", serde_json::json!({"net": 80.0, "percent": 19.0}));
    let mut parts = vec![ghostlight::vocabulary::Part::Text("Let me see.".to_owned())];
    parts.extend(first.message.parts.iter().cloned());
    Arc::make_mut(&mut first.message).parts = parts;
    let model = ScriptedModel::turns([first, ModelResponse::text("It is 95.20 euro.")])
        .piece_delay(Duration::from_millis(5));
    let desk = Agent::new("desk").model(model).tool(add_vat);
    let mut stream = desk.stream("80 euro with 19% VAT?").await.unwrap();
    let (mut text, mut pieces) = (String::new(), 0);
    while let Some(piece) = stream.next().await {
        let piece = piece.unwrap();
        assert_eq!(piece.agent, "desk");
        assert!(!piece.restarts);
        text.push_str(&piece.to_string());
        pieces += 1;
    }
    assert_eq!(text, "Let me see.\n\nIt is 95.20 euro.");
    assert!(pieces > 4, "{pieces} pieces");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_a_stream_for_adapters_too() {
    let agent = || Agent::new("desk").model(ScriptedModel::replies(["one two three"]));
    let pieces = agent().stream("go").await.unwrap();
    let texts: Vec<String> = pieces.map(|piece| piece.unwrap().text).collect().await;
    assert_eq!(texts.concat(), "one two three");
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .team(agent().into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    let texts: Vec<String> = run
        .text_stream()
        .map(|piece| piece.unwrap().text)
        .collect()
        .await;
    assert_eq!(texts.concat(), "one two three");
    let events: Vec<_> = run.events().recorded().collect().await;
    assert!(events.len() > 2 && events.iter().all(Result::is_ok));
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_stops_what_it_began() {
    struct Ends(Arc<AtomicBool>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let ended = Arc::new(AtomicBool::new(false));
    let flag = ended.clone();
    let endless = Agent::from_fn("endless", move |cx: RunContext| {
        let ends = Ends(flag.clone());
        async move {
            let _ends = ends;
            cx.sleep(Duration::from_secs(3600)).await?;
            Ok(Outcome::answer("late"))
        }
    });
    let call = tokio::time::timeout(Duration::from_secs(1), endless.run("go"));
    assert!(call.await.is_err());
    let until = tokio::time::timeout(Duration::from_secs(30), async {
        while !ended.load(SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    until.await.expect("the System is still there");
}
