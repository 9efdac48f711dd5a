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
                reason: StopReason::BudgetExhausted(Resource::CostMicros)
                    | StopReason::FinishOverBudget(Resource::CostMicros),
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

/// A team whose agent has this model and budgets, with this beside it.
fn priced(model: &str, budgets: &str, beside: &str) -> Result<(), String> {
    let text =
        format!("agent: {{ name: desk, model: m{budgets} }}\nmodels: {{ m: {model} }}\n{beside}");
    let resolved = parse(&text).unwrap().resolve(ghostlight::builtin());
    resolved.map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_budget_in_money_over_a_model_that_has_no_price_is_refused() {
    let budget = "budget: { cost_micros: 1000 }";
    let unknown = "{ provider: openai, model: mine, base_url: 'https://api.example.com/v1', api_key: '${K}' }";
    let refused = priced(unknown, "", budget).unwrap_err();
    for part in [
        "\"desk\"",
        "`cost_micros`",
        "openai mine at api.example.com",
        "`prices`",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    priced(unknown, ", budget: { cost_micros: 5 }", "").unwrap_err();
    priced(unknown, ", budget: { tokens: 5 }", "").unwrap();
    // The table knows it, it is given, or it runs on this machine.
    let own = "{ provider: openai, model: mine, base_url: 'http://127.0.0.1:9/v1' }";
    let given = "{ provider: anthropic, model: x, prices: { input: 1, output: 2 } }";
    let known = "{ provider: anthropic, model: claude-sonnet-4-6 }";
    for model in [own, given, known, "{ provider: offline }"] {
        priced(model, "", budget).unwrap();
    }
    let around = "interceptors: [{ name: prices, input: 1, output: 2 }]";
    priced(unknown, "", &format!("{budget}\n{around}")).unwrap();
}
