//! Agents that are described once and used several times.

use ghostlight::config::{self, FaultKind};
use serde_json::json;

use super::{fault, spec};

const TEAM: &str = r#"
templates:
  reviewed:
    name: ${part}
    description: writes the ${part}
    behavior: { name: loop, until: { text: APPROVED }, max_rounds: "${rounds:-3}" }
    agents:
      - { name: "${part}_writer", instructions: "Write the ${part} of ${CITY}." }
      - { template: critic, with: { of: "${part}" } }
  critic:
    name: ${of}_critic
    instructions: Criticise the ${of}.
agent:
  name: book
  behavior: sequential
  agents:
    - { template: reviewed, with: { part: intro } }
    - template: reviewed
      with: { part: end, rounds: 7 }
      description: comes last
"#;

#[test]
fn a_template_is_an_agent_for_each_of_its_uses() {
    let team = spec(TEAM);
    let names: Vec<&str> = team
        .agent
        .walk()
        .into_iter()
        .map(|(_, a)| a.name.as_str())
        .collect();
    let expected = [
        "book",
        "intro",
        "intro_writer",
        "intro_critic",
        "end",
        "end_writer",
        "end_critic",
    ];
    assert_eq!(names, expected);
    let (intro, end) = (team.find("intro").unwrap(), team.find("end").unwrap());
    assert_eq!(intro.behavior.settings["max_rounds"], json!(3));
    assert_eq!(end.behavior.settings["max_rounds"], json!(7));
    // What the use says itself stands above what the template says.
    assert_eq!(
        (&*intro.description, &*end.description),
        ("writes the intro", "comes last")
    );
    let writer = team.find("end_writer").unwrap();
    assert_eq!(writer.instructions, "Write the end of Ulm.");
    let critic = team.find("end_critic").unwrap();
    assert_eq!(critic.instructions, "Criticise the end.");
}

#[test]
fn a_use_that_cannot_be_is_refused_at_its_place() {
    let change = |from: &str, to: &str| {
        assert!(TEAM.contains(from));
        fault(&TEAM.replace(from, to))
    };
    for (from, to, kind, line, told) in [
        (
            "template: reviewed, ",
            "template: revewed, ",
            FaultKind::UnknownName,
            17,
            "did you mean `reviewed`?",
        ),
        (
            "{ part: intro }",
            "{ part: intro, pat: x }",
            FaultKind::UnknownKey,
            17,
            "has no `${pat}`",
        ),
        (
            "{ part: intro }",
            "{}",
            FaultKind::Variable,
            4,
            "is used in line 17",
        ),
        (
            "{ part: intro }",
            "{ part: [intro] }",
            FaultKind::WrongValue,
            17,
            "`part` is not text, and stands within one",
        ),
        (
            "template: critic, with: { of",
            "template: reviewed, with: { part",
            FaultKind::Team,
            9,
            "uses itself",
        ),
        (
            "description: comes last",
            "descripton: comes last",
            FaultKind::UnknownKey,
            20,
            "`descripton`",
        ),
    ] {
        let (found, at, _, message) = change(from, to);
        assert_eq!((found, at), (kind, line), "{message}");
        assert!(message.contains(told), "{message}");
    }
    let (kind, line, _, message) = fault("templates: [x]\nagent: { name: a }\n");
    assert_eq!((kind, line), (FaultKind::WrongValue, 1), "{message}");
    // Two agents of one name have their place, too.
    let (kind, _, _, message) = change("part: end,", "part: intro,");
    assert_eq!(kind, FaultKind::Team);
    assert!(
        message.contains("two agents are called \"intro\""),
        "{message}"
    );
}

#[test]
fn templates_that_multiply_are_bounded() {
    let levels = (0..20).map(|level| {
        let below = format!("{{ template: t{}, with: {{ n: \"${{n}}x\" }} }}", level + 1);
        format!("  t{level}: {{ name: \"${{n}}\", agents: [{below}, {below}] }}\n")
    });
    let levels: String = levels.collect();
    let text = format!(
        "templates:\n{levels}  t20: {{ name: \"${{n}}\" }}\nagent: {{ template: t0, with: {{ n: a }} }}\n"
    );
    let (kind, _, _, message) = fault(&text);
    assert_eq!(kind, FaultKind::Team);
    assert!(message.contains("more than 10000 agents"), "{message}");
}

#[test]
fn templates_within_templates_are_as_deep_as_a_team_may_be() {
    let chain = |length: usize| {
        let level = |n| {
            format!(
                "  t{n}: {{ name: a{n}, agents: [{{ template: t{} }}] }}\n",
                n + 1
            )
        };
        let levels: String = (1..length).map(level).collect();
        format!(
            "templates:\n{levels}  t{length}: {{ name: a{length} }}\nagent: {{ template: t1 }}\n"
        )
    };
    assert_eq!(spec(&chain(32)).agent.walk().len(), 32);
    for length in [33, 300, 2_000] {
        let (kind, _, _, message) = fault(&chain(length));
        assert_eq!(kind, FaultKind::Team);
        assert!(message.contains("more than 32 deep"), "{message}");
    }
}

#[test]
fn what_templates_are_given_cannot_grow_without_bound() {
    // Each of these gives the next one more than it was given: twice as many items, a text twice as
    // long, lists that are deeper.
    for given in [
        "[\"${x}\", \"${x}\"]",
        "\"${x}${x}\"",
        "[[[[[[[[\"${x}\"]]]]]]]]",
    ] {
        let level = |n: usize| {
            format!(
                "  t{n}: {{ template: t{}, with: {{ x: {given} }} }}\n",
                n + 1
            )
        };
        let levels: String = (1..2_000).map(level).collect();
        let last = "  t2000: { name: a, behavior: { name: b, y: \"${x}\" } }\n";
        let text =
            format!("templates:\n{levels}{last}agent: {{ template: t1, with: {{ x: hello }} }}\n");
        let (kind, _, _, message) = fault(&text);
        let expected = match given {
            "[[[[[[[[\"${x}\"]]]]]]]]" => (FaultKind::WrongValue, "nests more than 40 deep"),
            _ => (FaultKind::Team, "more than 64 MiB"),
        };
        assert!(
            kind == expected.0 && message.contains(expected.1),
            "{message}"
        );
    }
}

#[test]
fn the_schema_knows_templates() {
    let schema = config::schema();
    let team = json!({
        "templates": {"t": {"name": "${n}"}},
        "agent": {"name": "a", "agents": [{"template": "t", "with": {"n": "b", "rounds": 3}}]},
    });
    assert!(jsonschema::is_valid(&schema, &team));
    let wrong = json!({"agent": {"name": "a", "template": ["t"]}});
    assert!(!jsonschema::is_valid(&schema, &wrong));
}
