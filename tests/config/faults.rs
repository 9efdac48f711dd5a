use crate::parse;
use ghostlight::config::FaultKind;

use crate::fault;

#[test]
fn faults_are_shown_where_they_are() {
    use FaultKind::{Syntax, Team, UnknownKey, WrongValue};
    let cases: &[(&str, FaultKind, u64, u64, &[&str])] = &[
        (
            "agent:\n  name: desk\n  instrutions: Hi\n",
            UnknownKey,
            3,
            3,
            &[
                "unknown key `instrutions`",
                "did you mean `instructions`?",
                "3 |   instrutions: Hi",
                "^^^^^^^^^^^",
            ],
        ),
        (
            "agent: { name: a }\nmodel: x\n",
            UnknownKey,
            2,
            1,
            &["did you mean `models`?"],
        ),
        (
            "agent:\n  name: a\n  agents:\n    - name: b\n      budget:\n        token: 5\n",
            UnknownKey,
            6,
            9,
            &["`tokens`"],
        ),
        (
            "agent:\n  name: a\n  settings: { temprature: 1 }\n",
            UnknownKey,
            3,
            15,
            &["`temperature`"],
        ),
        (
            "agent:\n  name: a\n  transfers: { up: true }\n",
            UnknownKey,
            3,
            16,
            &["parent, peers"],
        ),
        (
            "agent:\n  name: a\n  max_steps: ten\n",
            WrongValue,
            3,
            14,
            &["a whole number", "\"ten\""],
        ),
        (
            "agent:\n  name: a\n  max_steps: -1\n",
            WrongValue,
            3,
            14,
            &["a whole number", "-1"],
        ),
        (
            "agent:\n  name: a\n  tools: search\n",
            WrongValue,
            3,
            10,
            &["expected a list", "\"search\""],
        ),
        (
            "agent:\n  name: a\n  stream: 3\n",
            WrongValue,
            3,
            11,
            &["true or false", "found 3"],
        ),
        (
            "agent:\n  name: a\n  instructions: [x]\n",
            WrongValue,
            3,
            17,
            &["expected a text, found a list"],
        ),
        (
            "agent:\n  name: a\n  instructions:\n",
            WrongValue,
            3,
            15,
            &["expected a text, found nothing"],
        ),
        (
            "agent:\n  name: a\n  reach: delegat\n",
            WrongValue,
            3,
            10,
            &["did you mean `delegate`?"],
        ),
        (
            "agent:\n  name: a\n  behavior: [x]\n",
            WrongValue,
            3,
            13,
            &["a name, or a mapping"],
        ),
        (
            "agent: { name: a }\nmodels: { m: { model: x } }\n",
            WrongValue,
            2,
            14,
            &["`provider` is missing"],
        ),
        (
            "- agent\n",
            WrongValue,
            1,
            1,
            &["expected a mapping, found a list"],
        ),
        ("agent:\n  name: a\n name: b\n", Syntax, 3, 2, &[]),
        ("agent: { name: a\n", Syntax, 1, 8, &[]),
        (
            "agent: { name: a }\nagent: { name: b }\n",
            Syntax,
            2,
            1,
            &["duplicate mapping key `agent` is not allowed here\n"],
        ),
        (
            "---\nagent: { name: a }\n---\nagent: { name: b }\n",
            Syntax,
            4,
            1,
            &["only single YAML document expected but multiple found\n"],
        ),
        (
            "agent: &a\n  name: a\n  agents: [*a]\n",
            Syntax,
            3,
            12,
            &["Recursive reference not allowed here\n"],
        ),
        ("", Team, 1, 1, &["holds no team", "agent:"]),
        (
            "name: x\n",
            Team,
            1,
            1,
            &["`agent` is missing", "begin with"],
        ),
        (
            "agent: { name: a, agents: [{ model: m }] }\n",
            Team,
            1,
            28,
            &["`name` is missing", "begin with"],
        ),
        ("agent: {}\n", Team, 1, 8, &["`name` is missing"]),
        (
            "agent: { name: not good }\n",
            Team,
            1,
            16,
            &["letters, digits"],
        ),
        (
            "agent:\n  name: a\n  agents:\n  - name: b\n  - name: a\n",
            Team,
            5,
            11,
            &["rename one"],
        ),
        (
            "agent:\n  name: a\n  tools: [x, y, x]\n",
            Team,
            3,
            17,
            &["twice"],
        ),
        (
            "agent:\n  name: a\n  reach: hidden\n",
            Team,
            3,
            3,
            &["hidden"],
        ),
    ];
    let mut wrong = Vec::new();
    for (text, kind, line, column, parts) in cases {
        let (found_kind, found_line, found_column, message) = fault(text);
        let heading = format!("team.yaml:{line}:{column}: ");
        let all = parts.iter().all(|part| message.contains(part)) && message.starts_with(&heading);
        if (found_kind, found_line, found_column) != (*kind, *line, *column) || !all {
            wrong.push(format!(
                "{text}is {found_kind:?}, wanted {kind:?} {parts:?}:\n{message}\n"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_main_that_returns_a_fault_prints_what_a_person_reads() {
    let fault = parse("agent: { name: desk, instrctions: x }").unwrap_err();
    assert_eq!(format!("{fault:?}"), fault.to_string());
}

#[test]
fn a_key_in_milliseconds_is_answered_with_the_one_in_seconds() {
    for (text, line, column, key) in [
        (
            "budget: { wall_time_ms: 60_000 }\nagent: { name: a }\n",
            1,
            11,
            "wall_time_s",
        ),
        (
            "agent: { name: a }\nschedules:\n  - { name: b, say: c, every_ms: 500 }\n",
            3,
            24,
            "every_s",
        ),
        (
            "agent:\n  name: a\n  behavior: { name: fallback, member_timeout_ms: 30_000 }\n  agents: [{ name: b }]\n",
            3,
            31,
            "member_timeout_s",
        ),
        (
            "interceptors:\n  - { name: timeout, after_ms: 30_000 }\nagent: { name: a }\n",
            2,
            22,
            "after_s",
        ),
        (
            "models:\n  default: { provider: openai, model: m, timeouts: { idle_ms: 9 } }\nagent: { name: a }\n",
            2,
            54,
            "idle_s",
        ),
    ] {
        let resolved = parse(text).and_then(|file| file.resolve(ghostlight::builtin()).map(drop));
        let error = resolved.unwrap_err();
        let place = error.place().unwrap();
        assert_eq!((place.line, place.column), (line, column), "{error}");
        let help = format!("did you mean `{key}`, in seconds?");
        assert!(error.to_string().contains(&help), "{error}");
    }
}
