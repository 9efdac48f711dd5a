//! A `once` call whose process died in the middle of it: its tool is asked what became of it, and
//! where nobody knows, its setting decides.

use std::time::Duration;

use ghostlight_actors::{
    actor::{System, SystemError},
    contract::{Reconciled, Tool, ToolContext, ToolError, ToolOutput},
    run::{Agent, RunContext},
    testing::EffectLog,
    vocabulary::{
        AgentError, Arguments, Effect, Entry, ErrorKind, InDoubt, Outcome, QuestionKind, ToolCall,
        ToolDefinition,
    },
};
use serde_json::json;

use crate::stage::{SlowStore, Stage, ask, call, outcome, pause};

/// Pays, which takes ten seconds, and tells this of a payment in doubt.
struct Payment {
    log: EffectLog,
    in_doubt: InDoubt,
    told: Reconciled,
}

impl Tool for Payment {
    fn definition(&self) -> ToolDefinition {
        let definition = ToolDefinition::new("pay", "pays").effect(Effect::Once);
        definition.in_doubt(self.in_doubt)
    }

    async fn call(&self, _: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let takes = Duration::from_secs(10);
        let key = cx.idempotency_key();
        self.log.perform(key, "pay", Effect::Once, takes).await;
        Ok(ToolOutput::text("paid"))
    }

    async fn reconcile(&self, call: &ToolCall, cx: ToolContext) -> Reconciled {
        assert_eq!(call.name, "pay");
        let (key, takes) = (cx.idempotency_key(), Duration::from_millis(10));
        self.log
            .perform(key, "reconcile", Effect::Read, takes)
            .await;
        self.told.clone()
    }
}

/// An agent whose function may pay.
fn who_pays(agent: Agent, log: &EffectLog, (in_doubt, told): (InDoubt, &Reconciled)) -> Agent {
    let (log, told) = (log.clone(), told.clone());
    agent.tool(Payment {
        log,
        in_doubt,
        told,
    })
}

fn payer(log: &EffectLog, in_doubt: InDoubt, told: &Reconciled) -> Agent {
    let agent = Agent::from_fn("payer", |cx: RunContext| async move {
        let results = cx
            .tools([ToolCall::new("1", "pay", json!({ "password": "hunter2" }))])
            .await?;
        let (status, text) = (results[0].status, &results[0].text);
        Ok(Outcome::answer(format!("{status:?}: {text}")))
    });
    who_pays(agent, log, (in_doubt, told))
}

/// What the run comes to whose process died in the middle of its payment, and how often it paid
/// over both lives. A person who is asked says this.
async fn after_a_crash(
    in_doubt: InDoubt,
    told: &Reconciled,
    says: bool,
) -> (Result<Outcome, SystemError>, usize) {
    let mut stage = Stage::new();
    let system = stage.start(payer(&stage.log, in_doubt, told)).await;
    let run = ask(&system, "payer", "go").await.id();
    while stage.log.count("pay") == 0 {
        pause(1).await;
    }
    stage.crash(&system).await;
    let system = stage.start(payer(&stage.log, in_doubt, told)).await;
    let run = system.run(run);
    run.wait().await.unwrap();
    let asked = *told == Reconciled::Unknown && in_doubt == InDoubt::AskPerson;
    let questions = run.questions().await.unwrap();
    assert_eq!(questions.len(), usize::from(asked), "{questions:?}");
    for (_, operation, question) in questions {
        assert_eq!(question.kind, QuestionKind::InDoubt);
        let asked = question.call.unwrap();
        assert_eq!(asked.name, "pay");
        assert_eq!(
            asked.arguments.text(),
            "{\"password\":\"⟦redacted 1: 7 characters⟧\"}"
        );
        run.answer(operation, json!(says)).await.unwrap();
    }
    let end = run.outcome().await;
    assert_eq!(stage.log.count("reconcile"), 1, "it is asked once");
    assert_eq!(stage.ends(run.id()).await, 1);
    (end, stage.log.count("pay"))
}

#[tokio::test(start_paused = true)]
async fn its_tool_is_asked_first_and_where_nobody_knows_its_setting_decides() {
    use InDoubt::{AskPerson, Fail, TellModel};
    let happened = Reconciled::Happened(ToolOutput::text("it was paid"));
    for (in_doubt, told, says, expected, payments) in [
        (TellModel, &happened, false, "Success: it was paid", 1),
        (AskPerson, &happened, false, "Success: it was paid", 1),
        (Fail, &happened, false, "Success: it was paid", 1),
        (
            TellModel,
            &Reconciled::DidNotHappen,
            false,
            "Success: paid",
            2,
        ),
        (
            AskPerson,
            &Reconciled::DidNotHappen,
            false,
            "Success: paid",
            2,
        ),
        (Fail, &Reconciled::DidNotHappen, false, "Success: paid", 2),
        (
            TellModel,
            &Reconciled::Unknown,
            false,
            "Unknown: The outcome of this call is unknown",
            1,
        ),
        (
            AskPerson,
            &Reconciled::Unknown,
            true,
            "Success: The call happened",
            1,
        ),
        (
            AskPerson,
            &Reconciled::Unknown,
            false,
            "Error: The call did not happen",
            1,
        ),
        (
            Fail,
            &Reconciled::Unknown,
            false,
            "InDoubt: the outcome of pay is unknown",
            1,
        ),
    ] {
        let case = format!("{told:?}, {in_doubt:?}, says {says}");
        let (end, paid) = after_a_crash(in_doubt, told, says).await;
        let told = match end {
            Ok(outcome) => outcome.text().to_owned(),
            Err(SystemError::Failed {
                error: AgentError::Operation(error),
                ..
            }) => format!("{:?}: {error}", error.kind),
            Err(error) => panic!("{case}: {error}"),
        };
        assert!(told.starts_with(expected), "{case}: {told}");
        assert_eq!(paid, payments, "{case}: payments");
    }
}

#[tokio::test(start_paused = true)]
async fn a_payment_that_is_made_after_all_is_in_doubt_again_when_its_process_dies_too() {
    let mut stage = Stage::new();
    let mut told = Reconciled::DidNotHappen;
    let system = stage.start(payer(&stage.log, InDoubt::Fail, &told)).await;
    let run = ask(&system, "payer", "go").await.id();
    let mut system = system;
    for life in 1..=2 {
        while stage.log.count("pay") < life {
            pause(1).await;
        }
        stage.crash(&system).await;
        if life == 2 {
            told = Reconciled::Happened(ToolOutput::text("the second was paid"));
        }
        system = stage.start(payer(&stage.log, InDoubt::Fail, &told)).await;
    }
    let outcome = outcome(&system.run(run)).await;
    assert_eq!(outcome.text(), "Success: the second was paid");
    assert_eq!(stage.log.count("pay"), 2);
    assert_eq!(stage.log.count("reconcile"), 2);
}

#[tokio::test(start_paused = true)]
async fn no_tool_is_asked_while_the_former_owner_may_still_begin_the_call() {
    let mut stage = Stage::new();
    let told = Reconciled::Happened(ToolOutput::text("it was paid"));
    let shop = |stage: &Stage| {
        let agent = Agent::from_fn("shop", |cx: RunContext| async move {
            let beside = async {
                cx.sleep(Duration::from_secs(1)).await?;
                cx.tool_unasked(call("2", "look")).await
            };
            let step = async {
                let booking = std::future::pending::<Result<(), String>>();
                let booked = cx.step("book", Effect::Once, booking).await;
                assert_eq!(booked.unwrap_err().kind(), Some(&ErrorKind::InDoubt));
                cx.tool_unasked(call("3", "see")).await
            };
            let (paid, looked, seen) =
                tokio::join!(cx.tool_unasked(call("1", "pay")), beside, step);
            looked.and(seen)?;
            Ok(Outcome::answer(paid?.text))
        });
        let agent = ["look", "see"].iter().fold(agent, |agent, name| {
            agent.tool(stage.tool(name, Effect::Read, 1))
        });
        who_pays(agent, &stage.log, (InDoubt::Fail, &told))
    };
    let system = stage.start(shop(&stage)).await;
    let run = ask(&system, "shop", "go").await.id();
    while stage.log.count("pay") == 0 {
        pause(1).await;
    }
    stage.crash(&system).await;

    let store = SlowStore::settling(stage.store.clone(), Duration::from_secs(10));
    let team = shop(&stage).into_team().unwrap();
    let builder = System::builder(store).clock(stage.clock.clone()).team(team);
    let system = builder.start().await.unwrap();
    pause(9_000).await;
    assert_eq!(stage.log.count("look"), 1, "the rest goes on");
    let early = (stage.log.count("reconcile"), stage.log.count("see"));
    assert_eq!(early, (0, 0), "it is asked too early");
    assert_eq!(outcome(&system.run(run)).await.text(), "it was paid");
    for (name, times) in [("reconcile", 1), ("pay", 1), ("see", 1)] {
        assert_eq!(stage.log.count(name), times, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_call_waits_for_its_former_owner_can_be_cancelled() {
    let mut stage = Stage::new();
    let told = Reconciled::DidNotHappen;
    let system = stage.start(payer(&stage.log, InDoubt::Fail, &told)).await;
    let run = ask(&system, "payer", "go").await.id();
    while stage.log.count("pay") == 0 {
        pause(1).await;
    }
    stage.crash(&system).await;
    let store = SlowStore::settling(stage.store.clone(), Duration::from_secs(36_000));
    let team = payer(&stage.log, InDoubt::Fail, &told);
    let builder = System::builder(store).clock(stage.clock.clone());
    let system = builder.team(team.into_team().unwrap()).start().await;
    let run = system.unwrap().run(run);
    pause(1_000).await;
    assert!(run.cancel("enough").await.unwrap());
    // Within an hour.
    outcome(&run).await;
    let done = (stage.log.count("reconcile"), stage.log.count("pay"));
    assert_eq!(done, (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_about_which_a_person_is_asked_stays_in_doubt_when_it_is_cancelled() {
    for with_its_run in [true, false] {
        for lives in [1, 2] {
            let mut stage = Stage::new();
            let told = Reconciled::Unknown;
            let payer = |log: &EffectLog| payer(log, InDoubt::AskPerson, &told);
            let mut system = stage.start(payer(&stage.log)).await;
            let id = ask(&system, "payer", "go").await.id();
            while stage.log.count("pay") == 0 {
                pause(1).await;
            }
            for _ in 0..lives {
                stage.crash(&system).await;
                system = stage.start(payer(&stage.log)).await;
                system.run(id).wait().await.unwrap();
            }
            let run = system.run(id);
            let operation = run.questions().await.unwrap().remove(0).1;
            match with_its_run {
                true => drop(run.cancel("enough").await.unwrap()),
                false => assert!(run.cancel_call(operation).await.unwrap()),
            }
            let _ = run.outcome().await;
            let entries = stage.entries(id).await;
            let end = entries.iter().find_map(|entry| match entry {
                Entry::Completed { op, result, .. } if *op == operation => Some(result),
                _ => None,
            });
            let end = format!("{:?}", end.unwrap());
            assert!(end.contains("in_doubt"), "{with_its_run} {lives}: {end}");
        }
    }
}
