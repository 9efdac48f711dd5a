//! Interceptors around a provider that is down.

use ghostlight::{
    actor::SystemOptions,
    interceptors::{CircuitBreaker, Retry},
    run::{Agent, Intercept, RunContext},
    testing::InMemoryStore,
    vocabulary::{Message, Outcome, Transcript},
};

use crate::{Act, Script, System, asking, ends, seconds};

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_down_opens_the_circuit_around_retries_and_is_waited_for() {
    use Act::{Answers, Fails};
    let by = || {
        vec![
            Intercept::new(CircuitBreaker::new(2, seconds(60))),
            Intercept::new(Retry::attempts(2)),
        ]
    };
    let model = Script::new(&[Fails]);
    let told = ends(asking(&["x", "y", "z"]), model.clone(), by()).await;
    assert!(told[1].contains("busy (after 2 attempts)"), "{told:?}");
    assert!(told[2].contains("keeps failing"), "{told:?}");
    assert_eq!(model.made(), 4, "two calls of two attempts opened it");

    // The run is told that another attempt can help, also by a circuit that is open.
    for by in [by(), vec![by().remove(0)], vec![by().remove(1)]] {
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            let mut ends = Vec::new();
            for _ in 0..4 {
                let asked = Transcript::from_iter([Message::user("x")]);
                let failed = cx.model(cx.model_request(asked)).await.unwrap_err();
                let failed = failed.operation().map(|error| error.retryable);
                ends.push(format!("{failed:?}"));
            }
            Ok(Outcome::answer(serde_json::to_string(&ends).unwrap()))
        });
        let told = ends(agent, Script::new(&[Fails]), by).await;
        assert_eq!(told, ["Some(true)"; 4]);
    }

    // By setting the run waits, through all of them.
    let model = Script::new(&[Fails, Fails, Fails, Fails, Fails, Fails, Answers]);
    let mut team = asking(&["x"]).into_team().unwrap();
    for intercept in by() {
        team = team.intercept(intercept);
    }
    let mut limits = SystemOptions::default();
    limits.gateway.patience = seconds(1800);
    let builder = System::builder(InMemoryStore::new()).options(limits);
    let builder = builder.model("default", model.clone()).team(team);
    let system = builder.start().await.unwrap();
    let run = system.session("a", "s").send("go").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert!(outcome.text().contains("to x (7 attempts"), "{outcome:?}");
}
