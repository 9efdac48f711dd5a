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
        AnswerError::NotOpen { .. } | AnswerError::Ambiguous { .. }
    ));
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
