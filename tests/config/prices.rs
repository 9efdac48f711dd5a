//! Prices in team files.

use ghostlight::{
    prelude::*,
    vocabulary::{Resource, StopReason},
};

use crate::parse;

#[tokio::test]
async fn prices_in_a_team_file_let_a_budget_in_money_hold_for_any_model() {
    // With and without prices: the offline model tells tokens, and no costs.
    for (prices, stops) in [
        ("", false),
        ("  - { name: prices, input: 1000, output: 5000 }\n", true),
    ] {
        let text = format!(
            "
agent:
  name: desk
  tools: [calculator]
budget: {{ cost_micros: 1 }}
models:
  default: {{ provider: offline }}
interceptors:
  - {{ name: logging, models: [default] }}
{prices}"
        );
        let file = parse(&text).unwrap();
        file.resolve(ghostlight::builtin()).unwrap();
        let system = System::builder(InMemoryStore::new())
            .registry(ghostlight::builtin())
            .team(file.spec().clone())
            .start()
            .await
            .unwrap();
        let session = system.session("desk", "s");
        let run = session.send("What is 17% of 2340?").await.unwrap();
        let outcome = run.outcome().await.unwrap();
        let spent = run.budget().await.unwrap().spent.usage.cost_micros;
        let over = matches!(
            outcome,
            Outcome::Stopped {
                reason: StopReason::BudgetExhausted(Resource::Cost)
                    | StopReason::FinishOverBudget(Resource::Cost),
                ..
            }
        );
        assert_eq!((over, spent > 0), (stops, stops), "{outcome:?} for {spent}");
        system.stop().await.unwrap();
    }
    let fault =
        parse("agent: { name: a }\ninterceptors:\n- { name: prices, inptu: 1, output: 2 }\n");
    let fault = fault.unwrap().resolve(ghostlight::builtin()).unwrap_err();
    assert!(fault.to_string().contains("inptu"), "{fault}");
}
