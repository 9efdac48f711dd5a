//! Questions, tickets and messages: answered once, kept while nobody listens.

use std::time::Duration;

use ghostlight_actors::{
    actor::{AnswerError, System, SystemError},
    contract::{DynStore, ItemBody, MailboxItem, RunStatus, Ticket},
    definition::ApprovalRule,
    run::{Agent, RunContext, operations::AgentMessage},
    vocabulary::{Effect, ErrorKind, Message, Outcome, Question, Timestamp},
};
use serde_json::json;

use crate::stage::{SlowStore, Stage, ask, call, pause, silent, text};

fn asker(default: Option<bool>) -> Agent {
    Agent::from_fn("asker", move |cx: RunContext| async move {
        let mut question = Question::choice("Which?", ["red", "blue"]);
        question.expires = Some(cx.now().await?.after(Duration::from_secs(600)));
        question.default = default.map(|_| json!("blue"));
        Ok(match cx.ask(question).await {
            Ok(answer) => Outcome::answer(answer.to_string()),
            Err(error) => Outcome::answer(format!("{:?}", error.kind())),
        })
    })
}

/// A run that nobody carries takes its answer when somebody does; until then its question is no longer one for people.
#[tokio::test(start_paused = true)]
async fn a_question_is_listed_until_it_is_answered_and_not_until_the_run_takes_the_answer() {
    let mut stage = Stage::new();
    let agent = || {
        let boss = Agent::from_fn("boss", |cx: RunContext| async move {
            Ok(Outcome::answer(cx.delegate("asker", "go").await?.text))
        });
        boss.agent(asker(None))
    };
    let system = stage.start(agent()).await;
    let run = ask(&system, "boss", "go").await;
    run.wait().await.unwrap();
    stage.crash(&system).await;
    let elsewhere = System::builder(stage.store.another_process());
    let elsewhere = elsewhere.clock(stage.clock.clone()).start().await.unwrap();
    let seen = elsewhere.run(run.id());
    let (below, operation, _) = seen.questions().await.unwrap().remove(0);
    assert_ne!(below, run.id());
    seen.answer(operation, json!("red")).await.unwrap();
    assert_eq!(seen.questions().await.unwrap(), []);
    assert_eq!(elsewhere.open_questions().await.unwrap(), []);
    // The same answer may come again, and another one changes nothing.
    seen.answer(operation, json!("red")).await.unwrap();
    let second = seen.answer(operation, json!("blue")).await.unwrap_err();
    let SystemError::Answer { error, .. } = second else {
        panic!("{second}");
    };
    assert_eq!(error, AnswerError::Answered { operation });
    elsewhere.stop().await.unwrap();
    let system = stage.start(agent()).await;
    assert_eq!(text(&system.run(run.id())).await, "\"red\"");
}

/// Neither the journal of the run nor those of its tree are read for it.
#[tokio::test(start_paused = true)]
async fn an_answer_costs_the_same_however_much_is_recorded() {
    let mut stage = Stage::new();
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        for _ in 0..4_500 {
            cx.now().await?;
        }
        Ok(Outcome::answer(cx.delegate("asker", "go").await?.text))
    });
    let system = stage.start(boss.agent(asker(None))).await;
    let run = ask(&system, "boss", "go").await;
    run.wait().await.unwrap();
    stage.crash(&system).await;
    let slow = SlowStore::to_read(stage.store.another_process());
    let elsewhere = System::builder(slow).clock(stage.clock.clone());
    let elsewhere = elsewhere.start().await.unwrap();
    let seen = elsewhere.run(run.id());
    let (asking, operation, _) = seen.questions().await.unwrap().remove(0);
    let begun = tokio::time::Instant::now();
    elsewhere
        .run(asking)
        .answer(operation, json!("red"))
        .await
        .unwrap();
    // Each read of the store, whatever its size, takes a second: of the question, and of the start of the run that asks.
    assert!(
        begun.elapsed() < Duration::from_millis(3_500),
        "{:?}",
        begun.elapsed()
    );
    elsewhere.stop().await.unwrap();
}

/// A form is answered by what fits its schema, given as an object or written as a text, and by nothing else; the
/// question keeps its schema over a crash.
#[tokio::test(start_paused = true)]
async fn a_form_is_answered_by_an_object_that_fits_its_schema() {
    let schema = json!({
        "title": "visitor",
        "type": "object",
        "properties": { "name": { "type": "string" }, "age": { "type": "integer", "minimum": 0 } },
        "required": ["name"],
        "additionalProperties": false,
    });
    let form = schema.clone();
    let agent = || {
        let form = form.clone();
        Agent::from_fn("asker", move |cx: RunContext| {
            let question = Question::form("Who are you?", form.clone());
            async move { Ok(Outcome::answer(cx.ask(question).await?.to_string())) }
        })
    };
    for answer in [
        json!({ "name": "Ann", "age": 7 }),
        json!(r#"{"name":"Ann","age":7}"#),
    ] {
        let mut stage = Stage::new();
        let system = stage.start(agent()).await;
        let run = ask(&system, "asker", "go").await;
        run.wait().await.unwrap();
        stage.crash(&system).await;
        let system = stage.start(agent()).await;
        let run = system.run(run.id());
        run.wait().await.unwrap();
        let (_, operation, question) = run.questions().await.unwrap().remove(0);
        assert_eq!(question.schema.as_ref(), Some(&schema));
        for wrong in [
            json!({}),
            json!({ "name": 1 }),
            json!({ "name": "Ann", "age": -1 }),
            json!("Ann"),
            json!(true),
        ] {
            let refused = run.answer(operation, wrong.clone()).await.unwrap_err();
            assert!(
                refused.to_string().contains("fits the form"),
                "{wrong}: {refused}"
            );
        }
        let twice = json!(r#"{"name":"Ann","name":"Bob"}"#);
        let refused = run.answer(operation, twice).await.unwrap_err();
        assert!(
            refused.to_string().contains("name stands twice"),
            "{refused}"
        );
        run.answer(operation, answer).await.unwrap();
        assert_eq!(
            run.outcome().await.unwrap().text(),
            r#"{"age":7,"name":"Ann"}"#
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_expires_with_its_default_or_as_expired() {
    let expired = format!("{:?}", Some(ErrorKind::Expired));
    for (default, answer) in [(Some(true), "\"blue\"".to_owned()), (None, expired)] {
        for crashes in [false, true] {
            let mut stage = Stage::new();
            let mut system = stage.start(asker(default)).await;
            let run = ask(&system, "asker", "go").await;
            pause(1000).await;
            if crashes {
                stage.crash(&system).await;
                system = stage.start(asker(default)).await;
            }
            let began = tokio::time::Instant::now();
            assert_eq!(text(&system.run(run.id())).await, answer);
            // The time of the first asking counts, also after a crash.
            let took = began.elapsed().as_secs();
            assert!((598..=600).contains(&took), "{took}");
        }
    }
}

/// A function that hands on what it hears: the run is marked as failed, wherever the process dies meanwhile.
#[tokio::test(start_paused = true)]
async fn a_run_whose_question_expires_unanswered_is_marked_as_failed() {
    for crashes in 0..3 {
        let mut stage = Stage::new();
        let asks = || {
            Agent::from_fn("asker", |cx: RunContext| async move {
                let mut question = Question::new("Which?");
                question.expires = Some(cx.now().await?.after(Duration::from_secs(600)));
                let answer = cx.ask(question).await?;
                Ok(Outcome::answer(answer.to_string()))
            })
        };
        let mut system = stage.start(asks()).await;
        let run = ask(&system, "asker", "go").await.id();
        for _ in 0..crashes {
            pause(1_000).await;
            stage.crash(&system).await;
            // It expires while nobody carries it, where it is the last time.
            pause(if crashes == 2 { 400_000 } else { 1 }).await;
            system = stage.start(asks()).await;
        }
        let error = system.run(run).outcome().await.unwrap_err();
        assert!(
            error.to_string().contains("nobody answered in time"),
            "{error}"
        );
        let row = stage.store.run(run).await.unwrap().unwrap();
        assert_eq!(row.status, RunStatus::Failed);
        assert!(system.open_questions().await.unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_team_says_when_questions_expire_that_set_no_time_of_their_own() {
    let mut stage = Stage::new();
    let agent = |stage: &Stage| {
        Agent::from_fn("a", |cx: RunContext| async move {
            let confirmed = cx.ask(Question::confirmation("Shall it be?")).await?;
            let open = cx.ask("What then?").await.unwrap_err();
            let results = cx.tools([call("1", "pay")]).await?;
            let mut own = Question::new("And later?");
            own.expires = Some(cx.now().await?.after(Duration::from_secs(600)));
            let own = cx.ask(own).await.unwrap_err();
            Ok(Outcome::answer(format!(
                "{confirmed} {:?} {:?} {:?}",
                open.kind(),
                results[0].status,
                own.kind()
            )))
        })
        .tool(stage.tool("pay", Effect::Once, 1))
        .approval("pay", ApprovalRule::required())
    };
    let team = |stage: &Stage| {
        let team = agent(stage).into_team().unwrap();
        team.questions_expire(Duration::from_secs(60))
    };
    let start = async |stage: &Stage| {
        let builder = System::builder(stage.store.clone()).clock(stage.clock.clone());
        let builder = builder.model("default", silent()).team(team(stage));
        builder.start().await.unwrap()
    };
    let system = start(&stage).await;
    let run = ask(&system, "a", "go").await;
    let began = tokio::time::Instant::now();
    pause(30_000).await;
    stage.crash(&system).await;
    let system = start(&stage).await;
    let expired = format!("{:?}", Some(ErrorKind::Expired));
    let told = text(&system.run(run.id())).await;
    assert!(told.starts_with(&format!("false {expired}")), "{told}");
    assert!(told.ends_with(&expired), "{told}");
    assert!(!told.contains("Success"), "{told}");
    assert_eq!(stage.log.count("pay"), 0);
    let took = began.elapsed().as_secs();
    assert!((778..=782).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn what_a_person_answered_is_not_asked_again() {
    let mut stage = Stage::new();
    let agent = || {
        Agent::from_fn("asker", |cx: RunContext| async move {
            let answer = cx.ask(Question::new("well?")).await?;
            cx.sleep(Duration::from_secs(60)).await?;
            Ok(Outcome::answer(answer.to_string()))
        })
    };
    let system = stage.start(agent()).await;
    let run = ask(&system, "asker", "go").await;
    run.wait().await.unwrap();
    let (_, operation, _) = run.questions().await.unwrap().remove(0);
    run.answer(operation, json!("first")).await.unwrap();
    // The answer is durable before anybody has read it.
    stage.crash(&system).await;
    let system = stage.start(agent()).await;
    let run = system.run(run.id());
    pause(1000).await;
    assert!(run.questions().await.unwrap().is_empty());
    assert!(run.answer(operation, json!("second")).await.is_err());
    assert_eq!(text(&run).await, "\"first\"");
}

#[tokio::test(start_paused = true)]
async fn a_ticket_brings_the_result_of_its_call_once_also_after_a_crash() {
    let mut stage = Stage::new();
    let agent = |stage: &Stage| {
        Agent::from_fn("a", |cx: RunContext| async move {
            let result = cx.tool_unasked(call("1", "order")).await?;
            Ok(Outcome::answer(format!(
                "{:?} {}",
                result.status, result.text
            )))
        })
        .tool(stage.tool("order", Effect::Once, 5).later())
    };
    let system = stage.start(agent(&stage)).await;
    let run = ask(&system, "a", "go").await;
    pause(1000).await;
    stage.crash(&system).await;
    let system = stage.start(agent(&stage)).await;
    let operation = "0.0.0".parse().unwrap();
    let ticket = Ticket {
        run: run.id(),
        operation,
    };
    system.complete(ticket, Ok("it came".into())).await.unwrap();
    let _ = system.complete(ticket, Ok("it came twice".into())).await;
    assert_eq!(text(&system.run(run.id())).await, "Success it came");
    assert_eq!(stage.log.count("order"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_posted_twice_under_one_id_comes_once() {
    let mut stage = Stage::new();
    let agent = || {
        Agent::from_fn("a", |cx: RunContext| async move {
            let first: Message = cx.receive().await?;
            cx.sleep(Duration::from_secs(60)).await?;
            let second: Message = cx.receive().await?;
            Ok(Outcome::answer(first.content() + &second.content()))
        })
    };
    let system = stage.start(agent()).await;
    let run = ask(&system, "a", "go").await;
    let post = async |stage: &Stage, id: &str| {
        let value = serde_json::to_value(Message::user(id)).unwrap();
        let name = Message::NAME.to_owned();
        let body = ItemBody::Message { name, value };
        let item = MailboxItem::new(id, Timestamp::default(), body);
        stage.store.post(run.id().into(), item).await.unwrap()
    };
    assert!(post(&stage, "a").await);
    assert!(!post(&stage, "a").await);
    pause(1000).await;
    stage.crash(&system).await;
    let system = stage.start(agent()).await;
    assert!(!post(&stage, "a").await, "also when it was taken long ago");
    assert!(post(&stage, "b").await);
    assert_eq!(text(&system.run(run.id())).await, "ab");
}
