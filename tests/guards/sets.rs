//! Named sets of rules, and the agents that name them.

use ghostlight::{
    actor::System,
    config,
    interceptors::{
        Chain, GUARDED, Guard, GuardAction, GuardDecision, GuardRule, GuardedPoint, NormalForm,
        RuleAction, Severity,
    },
    prelude::*,
    run::{Intercept, Team},
    vocabulary::{Effect, Event},
};
use serde_json::json;

use crate::{Echo, Says, asks, results, watched};

fn by(guard: Guard) -> Vec<Intercept> {
    vec![Intercept::new(guard)]
}

#[tokio::test(start_paused = true)]
async fn a_rule_refuses_changes_or_warns_where_it_stands() {
    let refusing = || Guard::new("careful").rule(GuardRule::new().min(3).max(20));
    for (text, passes) in [
        ("ab", false),
        ("abc", true),
        ("much too long for this", false),
    ] {
        let model = Says::of(&["fine"]);
        let (answer, _) = watched(asks(text), model.clone(), by(refusing())).await;
        assert_eq!(answer.is_ok(), passes, "{text}");
        assert_eq!(model.heard.lock().len(), usize::from(passes), "{text}");
    }
    // What a model reads is normal and without markup; its record stays.
    let plain = GuardRule::new()
        .without_html()
        .normal_form(NormalForm::Nfc)
        .trim();
    let model = Says::of(&["fine"]);
    let guard = by(Guard::new("plain").rule(plain));
    watched(asks("  <b>Cafe\u{301}</b> "), model.clone(), guard)
        .await
        .0
        .unwrap();
    assert_eq!(model.heard.lock()[0], "Café");
    // An answer is shown as it was changed, and not before.
    let hide = GuardRule::new()
        .at([GuardedPoint::Output])
        .words(["project x"])
        .action(RuleAction::Modify)
        .replace_with("[a project]");
    let model = Says::of(&["it is PRO", "JECT X", ", yes"]);
    let guard = by(Guard::new("quiet").rule(hide));
    let (answer, shown) = watched(asks("what is it?"), model, guard).await;
    assert_eq!(answer.unwrap(), "it is [a project], yes");
    assert!(!shown.contains("PRO"), "{shown}");
    let warn = GuardRule::new().pattern("x").action(RuleAction::Warn);
    let (answer, _) = watched(
        asks("xx"),
        Says::of(&["fine"]),
        by(Guard::new("w").rule(warn)),
    )
    .await;
    assert_eq!(answer.unwrap(), "fine");
}

#[tokio::test(start_paused = true)]
async fn calls_and_their_results_are_judged() {
    let echo = Echo::new(Effect::Read);
    let guard = || {
        let drop = GuardRule::new()
            .at([GuardedPoint::Arguments])
            .pattern("drop");
        let key = GuardRule::new()
            .at([GuardedPoint::Results])
            .pattern("key-[0-9]+")
            .action(RuleAction::Modify);
        let hidden = GuardRule::new()
            .at([GuardedPoint::Results])
            .pattern("hidden");
        by(Guard::new("tools").rule(drop).rule(key).rule(hidden))
    };
    let told = results(
        &["drop it", "the key-42", "a hidden thing", "fail key-7"],
        &echo,
        guard(),
    )
    .await;
    assert!(told[0].starts_with("Denied: tools, rule 1"), "{told:?}");
    assert_eq!(told[1], "Success: the [removed]");
    assert!(
        told[2].starts_with("Success: The call was made, but") && !told[2].contains("hidden"),
        "{told:?}"
    );
    assert_eq!(told[3], "Error: [removed]");
    assert_eq!(echo.calls(), 3);
}

/// What was decided about one turn.
async fn decided(guard: Guard, text: &'static str) -> Vec<GuardDecision> {
    let team = asks(text)
        .into_team()
        .unwrap()
        .intercept(Intercept::new(guard));
    let builder = System::builder(InMemoryStore::new()).model("default", Says::of(&["fine"]));
    let system = builder.team(team).start().await.unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    let _ = run.outcome().await;
    let events = run.events().so_far().await.unwrap();
    let decisions = events.into_iter().filter_map(|record| match record.event {
        Event::Custom { name, data } if name == GUARDED => serde_json::from_value(data).ok(),
        _ => None,
    });
    decisions.collect()
}

#[tokio::test(start_paused = true)]
async fn a_chain_ends_at_the_first_refusal_or_tells_all_findings() {
    let set = |chain| {
        let warn = GuardRule::new()
            .name("odd")
            .pattern("odd")
            .action(RuleAction::Warn);
        Guard::new("careful")
            .chain(chain)
            .rule(warn.severity(Severity::Low))
            .rule(GuardRule::new().max(5).severity(Severity::High))
            .rule(
                GuardRule::new()
                    .words(["secret"])
                    .severity(Severity::Critical),
            )
    };
    let text = "an odd secret";
    let told = |decisions: Vec<GuardDecision>| {
        let told = decisions.into_iter();
        told.map(|decision| {
            assert!(!decision.reason.contains("secret"), "{decision:?}");
            (decision.action, decision.severity.unwrap())
        })
        .collect::<Vec<_>>()
    };
    let first = [
        (GuardAction::Reported, Severity::Low),
        (GuardAction::Refused, Severity::High),
    ];
    assert_eq!(told(decided(set(Chain::First), text).await), first);
    let all = [
        first[0],
        first[1],
        (GuardAction::Refused, Severity::Critical),
    ];
    assert_eq!(told(decided(set(Chain::All), text).await), all);
}

const FILE: &str = r#"
name: desk
models: { default: { provider: offline } }
guards:
  careful:
    chain: all
    rules:
      - { min: 3, max: 40, severity: low }
      - { at: [arguments], pattern: "13" }
  quiet: { rules: [{ at: [output], words: [offline], action: modify, with: "[it]" }] }
  everywhere: { rules: [{ pattern: swordfish }] }
agent:
  name: desk
  tools: [calculator]
  guards: [careful]
  agents:
    - name: clerk
      guards: { output: [quiet], input: [careful] }
interceptors: [logging]
"#;

#[test]
fn agents_of_a_team_file_name_the_sets_that_hold_for_them() {
    let team = config::parse(FILE, "team.yaml").unwrap();
    team.resolve(ghostlight::builtin()).unwrap();
    let interceptors = &team.spec().interceptors;
    let names: Vec<&str> = interceptors.iter().map(|spec| &*spec.name).collect();
    assert_eq!(names, ["guard", "guard", "guard", "logging"]);
    let careful = &interceptors[0].settings;
    assert_eq!(careful["set"], "careful");
    let agents = json!({
        "clerk": ["input"],
        "desk": ["input", "output", "arguments", "results"],
    });
    assert_eq!(careful["agents"], agents);
    assert!(!interceptors[2].settings.contains_key("agents"));
    for (wrong, told) in [
        ("guards: [careful]", "there is no set of guards `careles`"),
        ("guards: { output: [quiet]", "unknown key `outpt`"),
        ("min: 3, max: 40", "nothing to do"),
        ("pattern: \"13\"", "unknown"),
    ] {
        let other = match wrong {
            "guards: [careful]" => "guards: [careles]",
            "guards: { output: [quiet]" => "guards: { outpt: [quiet]",
            "min: 3, max: 40" => "action: warn",
            _ => "patern: \"13\"",
        };
        let text = FILE.replacen(wrong, other, 1);
        let parsed = config::parse(text, "team.yaml");
        let fault = match parsed {
            Ok(team) => team.resolve(ghostlight::builtin()).unwrap_err(),
            Err(fault) => fault,
        };
        let fault = fault.to_string();
        assert!(
            fault.contains(told) && fault.contains("team.yaml:"),
            "{fault}"
        );
    }
}

#[tokio::test]
async fn a_set_holds_for_the_agents_that_name_it_alone() {
    let team = config::parse(FILE, "team.yaml").unwrap();
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .team(Team::from(team.into_spec()))
        .start()
        .await
        .unwrap();
    let ask = async |text: &str| {
        let run = system.session("desk", text).send(text).await.unwrap();
        run.outcome().await.map(|outcome| outcome.text().to_owned())
    };
    let refused = ask("a swordfish").await.unwrap_err().to_string();
    assert!(refused.contains("everywhere, rule 1"), "{refused}");
    let refused = ask("no").await.unwrap_err().to_string();
    assert!(
        refused.contains("careful, rule 1: fewer than 3"),
        "{refused}"
    );
    assert!(ask("What is 2 + 3?").await.unwrap().contains('5'));
    let refused = ask("What is 13 + 3?").await.unwrap();
    assert!(!refused.contains("16"), "{refused}");
    system.stop().await.unwrap();
}
