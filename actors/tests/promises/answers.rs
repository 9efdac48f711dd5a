//! An answer that reaches no question says why, by a type that code can match.

use std::time::Duration;

use ghostlight_actors::{
    actor::{AnswerError, Run, SystemError},
    run::{Agent, RunContext},
    vocabulary::{OperationId, Outcome, Question, QuestionKind},
};
use serde_json::{Value, json};

use crate::stage::{Stage, ask, pause};

fn confirm(prompt: &str) -> Question {
    let mut question = Question::new(prompt);
    question.kind = QuestionKind::Confirmation;
    question
}

async fn refused(run: &Run, operation: OperationId, value: Value) -> AnswerError {
    match run.answer(operation, value).await {
        Err(SystemError::Answer { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn each_reason_for_which_an_answer_is_refused_is_a_type_of_its_own() {
    let stage = Stage::new();
    let below = |name: &str| {
        Agent::from_fn(name, |cx: RunContext| async move {
            cx.ask(confirm("Below?")).await?;
            Ok(Outcome::answer("below"))
        })
    };
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let mut late = confirm("In time?");
        late.expires = Some(cx.start().at.after(Duration::from_secs(5)));
        let (expired, one, other) = futures_util::future::join3(
            cx.ask(late),
            cx.delegate("b", "go"),
            cx.delegate("c", "go"),
        )
        .await;
        one?;
        other?;
        Ok(Outcome::answer(format!("{}", expired.is_ok())))
    });
    let agent = agent.agent(below("b")).agent(below("c"));
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    while run.questions().await.unwrap().len() < 3 {
        pause(10).await;
    }
    let open = run.questions().await.unwrap();
    let (_, own, _) = open.iter().find(|(of, ..)| *of == run.id()).unwrap();
    let (_, below, _) = open.iter().find(|(of, ..)| *of != run.id()).unwrap();
    let (own, below) = (*own, *below);

    assert!(matches!(
        refused(&run, own, json!("perhaps")).await,
        AnswerError::Unfit { operation, .. } if operation == own
    ));
    let nowhere: OperationId = "7.0.7".parse().unwrap();
    let AnswerError::NotOpen { open, .. } = refused(&run, nowhere, json!(true)).await else {
        panic!("it is open");
    };
    assert!(open.contains(&own) && open.contains(&below), "{open:?}");
    // Both children ask under the same operation of theirs, which is none of the root's own.
    if own != below {
        let several = refused(&run, below, json!(true)).await;
        assert!(
            matches!(&several, AnswerError::Ambiguous { runs, .. } if runs.len() == 2),
            "{several:?}"
        );
    }
    run.answer(own, json!(true)).await.unwrap();
    pause(100).await;
    assert!(matches!(
        refused(&run, own, json!(true)).await,
        AnswerError::Repeated { .. } | AnswerError::Ambiguous { .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_second_is_told_whether_it_is_the_one_that_counts() {
    let stage = Stage::new();
    let below = Agent::from_fn("b", |cx: RunContext| async move {
        cx.ask(confirm("Delete it?")).await?;
        Ok(Outcome::answer("deleted"))
    });
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let told = cx.ask(confirm("Go on?")).await?;
        let mut late = confirm("In time?");
        late.expires = Some(cx.start().at.after(Duration::from_secs(5)));
        let in_time = cx.ask(late).await.is_ok();
        cx.delegate("b", "go").await?;
        Ok(Outcome::answer(format!("{told} {in_time}")))
    });
    let system = stage.start(agent.agent(below)).await;
    let run = ask(&system, "a", "go").await;
    let first = asked(&run).await;
    run.answer(first, json!(true)).await.unwrap();
    // Before the run takes the answer, and after it.
    for _ in 0..2 {
        match run.answer(first, json!(true)).await {
            Ok(()) => {}
            Err(SystemError::Answer { error, .. }) => {
                assert_eq!(error, AnswerError::Repeated { operation: first });
            }
            other => panic!("{other:?}"),
        }
        let other = refused(&run, first, json!(false)).await;
        assert_eq!(other, AnswerError::Answered { operation: first });
        pause(100).await;
    }
    let expiring = asked(&run).await;
    pause(6_000).await;
    // It is told so, too, while a run below it asks something else.
    let below = asked(&run).await;
    assert_eq!(first, below, "both asked first of all");
    for operation in [first, expiring] {
        let error = refused(&run, operation, json!(true)).await;
        let is_repeated = error == AnswerError::Repeated { operation };
        let is_closed = matches!(error, AnswerError::NotOpen { .. });
        let is_told = match operation == first {
            true => is_repeated,
            false => is_closed,
        };
        assert!(is_told, "{error:?}");
    }
    assert_eq!(run.questions().await.unwrap().len(), 1);
}

/// Two children ask one after the other, under one operation of theirs.
#[tokio::test(start_paused = true)]
async fn an_answer_for_one_child_that_is_sent_again_never_reaches_another() {
    let stage = Stage::new();
    let below = |name: &str| {
        Agent::from_fn(name, |cx: RunContext| async move {
            let told = cx.ask(confirm("Delete it?")).await?;
            Ok(Outcome::answer(told.to_string()))
        })
    };
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let one = cx.delegate("b", "go").await?.text;
        let other = cx.delegate("c", "go").await?.text;
        Ok(Outcome::answer(format!("{one} {other}")))
    });
    let agent = agent.agent(below("b")).agent(below("c"));
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    let operation = asked(&run).await;
    run.answer(operation, json!(true)).await.unwrap();
    let (child, again) = loop {
        pause(10).await;
        match run.questions().await.unwrap().pop() {
            Some((child, again, question)) if question.path.ends_with(&["c".into()]) => {
                break (child, again);
            }
            _ => {}
        }
    };
    assert_eq!(again, operation, "both asked first of all");
    let error = refused(&run, operation, json!(true)).await;
    assert!(
        matches!(&error, AnswerError::Ambiguous { runs, .. } if runs.len() == 2 && runs.contains(&child)),
        "{error:?}"
    );
    assert_eq!(run.questions().await.unwrap().len(), 1);
    let child = system.run(child);
    child.answer(operation, json!(false)).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "true false");
}

/// The operation that asks, once one does.
async fn asked(run: &Run) -> OperationId {
    loop {
        if let Some((_, operation, _)) = run.questions().await.unwrap().pop() {
            return operation;
        }
        pause(10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_its_time_is_told_to_be_late() {
    let mut stage = Stage::new();
    let agent = || {
        Agent::from_fn("a", |cx: RunContext| async move {
            let mut question = confirm("In time?");
            question.expires = Some(cx.start().at.after(Duration::from_secs(5)));
            cx.ask(question).await?;
            Ok(Outcome::answer("answered"))
        })
    };
    let system = stage.start(agent()).await;
    let run = ask(&system, "a", "go").await;
    while run.questions().await.unwrap().is_empty() {
        pause(10).await;
    }
    let (_, operation, _) = run.questions().await.unwrap().remove(0);
    // Nobody carries the run when its time comes.
    stage.crash(&system).await;
    pause(6_000).await;
    let other = ghostlight_actors::actor::System::builder(stage.store.clone())
        .clock(stage.clock.clone())
        .start()
        .await
        .unwrap();
    let late = refused(&other.run(run.id()), operation, json!(true)).await;
    assert_eq!(late, AnswerError::Expired { operation });
}
