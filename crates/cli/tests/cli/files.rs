use serde_json::{Value, json};

use crate::own_command::Desk;

#[test]
fn check_tells_what_a_team_file_holds() {
    let desk = Desk::new("says", json!({}));
    desk.write("good.yaml", "name: shop\nagent:\n  name: desk\n  agents: [{ name: clerk, description: counts, tools: [calculator] }]\n");
    let done = desk.shipped(&["team", "check", "good.yaml"]).exits(0);
    let offline = "offline (built in: a stand-in without a neural network) (set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY for a real one)";
    assert_eq!(
        done.out,
        format!("good.yaml: team shop, 2 agents, model {offline}\n  desk\n    clerk: counts\n")
    );
    let set = [
        ("OPENAI_API_KEY", "sk-hunter2"),
        ("OPENAI_MODEL", "gpt-5-nano"),
    ];
    let done = desk
        .shipped_with(&["team", "check", "good.yaml"], "", &set)
        .exits(0);
    assert!(
        done.out.contains("model openai gpt-5-nano") && !done.out.contains("hunter2"),
        "{}",
        done.out
    );
}

#[test]
fn check_warns_of_variables_that_are_looked_up_later_and_are_not_set() {
    let desk = Desk::new("says", json!({}));
    let team = "\
models:
  default: { provider: openai, model: m, api_key: \"${DESK_KEY}\", headers: { x-desk: \"a ${DESK_NAME} ${DESK_KEY}\" } }
mcp:
  hub: { url: \"https://example.com/mcp\", headers: { authorization: \"Bearer ${HUB_TOKEN}\" } }
webhooks:
  - { name: issues, secret: \"${HOOK_SECRET}\", say: x }
agent: { name: desk, description: \"$${TEXT}\", tools: [hub] }
";
    desk.write("team.yaml", team);
    let checked = |set: &[(&str, &str)]| {
        let done = desk
            .shipped_with(&["team", "check", "team.yaml"], "", set)
            .exits(0);
        let lines = done
            .err
            .lines()
            .filter(|line| line.starts_with("warning: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let told = [
        "team.yaml:2:51: the environment variable DESK_KEY is not set",
        "team.yaml:2:85: the environment variable DESK_KEY is not set",
        "team.yaml:2:85: the environment variable DESK_NAME is not set",
        "team.yaml:4:68: the environment variable HUB_TOKEN is not set",
        "team.yaml:6:29: the environment variable HOOK_SECRET is not set",
    ];
    assert_eq!(checked(&[]), told.map(|told| format!("warning: {told}")));
    let set = [("DESK_KEY", "k"), ("DESK_NAME", "n"), ("HUB_TOKEN", "")];
    let left = [told[3], told[4]].map(|told| format!("warning: {told}"));
    assert_eq!(checked(&set), left, "an empty one is none");
    let set = [set[0], set[1], ("HUB_TOKEN", "t"), ("HOOK_SECRET", "s")];
    assert_eq!(checked(&set), [""; 0]);
}

#[test]
fn draw_shows_who_reaches_whom_in_two_languages() {
    let desk = Desk::new("says", json!({}));
    desk.write(
        "good.yaml",
        "agent:\n  name: desk\n  agents: [{ name: clerk, reach: delegate, behavior: simple }]\n",
    );
    let drawn = desk.shipped(&["team", "draw", "good.yaml"]).exits(0).out;
    assert!(drawn.starts_with("flowchart TD\n"), "{drawn}");
    assert!(
        drawn.contains("agent_clerk[\"clerk<br/><i>simple</i>\"]"),
        "{drawn}"
    );
    assert!(
        drawn.contains("agent_desk -.->|delegate| agent_clerk"),
        "{drawn}"
    );
    let drawn = desk
        .shipped(&["team", "draw", "good.yaml", "--dot"])
        .exits(0)
        .out;
    assert!(drawn.starts_with("digraph {\n"), "{drawn}");
    assert!(
        drawn.contains("\"agent_desk\" -> \"agent_clerk\""),
        "{drawn}"
    );
    let graph = "agent:\n  name: desk\n  behavior: { name: graph, entry: x, nodes: { x: { then: end } } }\n";
    desk.write("graph.yaml", graph);
    let words = ["team", "draw", "graph.yaml", "--agent", "desk"];
    let drawn = desk.shipped(&words).exits(0).out;
    assert!(drawn.contains("start(( )) --> n0"), "{drawn}");
    let drawn = desk
        .shipped(&["team", "draw", "good.yaml", "--agent", "desk"])
        .exits(2);
    assert!(
        drawn.err.contains("works by function_calling"),
        "{}",
        drawn.err
    );
    desk.write("bad.yaml", "agent:\n  name: desk\n  behavior: nothing\n");
    desk.shipped(&["team", "draw", "bad.yaml"]).exits(2);
}

#[test]
fn faults_of_a_team_file_are_shown_where_they_are() {
    let desk = Desk::new("says", json!({}));
    for (text, place, parts) in [
        (
            "agent:\n  name: desk\n  instrutions: x\n",
            "3:3",
            &[
                "unknown key `instrutions`",
                "did you mean `instructions`?",
                "^^^",
            ][..],
        ),
        (
            "agent: { name: desk }\nbudget: { model_call: 20 }\n",
            "2:11",
            &["did you mean `model_calls`?"],
        ),
        (
            "agent: { name: desk }\nbudget_warnings: [50, 101]\n",
            "2:18",
            &["1 to 100 percent"],
        ),
        (
            "agent:\n  name: desk\n  max_steps: many\n",
            "3:14",
            &["a whole number"],
        ),
        (
            "agent:\n  name: desk\n  tools: [calculater]\n",
            "3:11",
            &["did you mean `calculator`?"],
        ),
        (
            "agent:\n  name: desk\n  behavior: functioncalling\n",
            "3:13",
            &["did you mean `function_calling`?"],
        ),
        (
            "agent:\n  name: desk\n  model: fast\n",
            "3:10",
            &["there are: default"],
        ),
        (
            "tools:\n  d: { kind: document_search, folder: ./none }\nagent:\n  name: desk\n",
            "2:31",
            &["none"],
        ),
        (
            "agent:\n  name: desk\n  description: ${GHOSTLIGHT_NO_SUCH_VARIABLE}\n",
            "3:16",
            &["GHOSTLIGHT_NO_SUCH_VARIABLE is not set"],
        ),
        ("agent: [\n", "1:8", &[]),
    ] {
        desk.write("bad.yaml", text);
        for words in [
            &["team", "check", "bad.yaml"][..],
            &["run", "bad.yaml", "hello"],
        ] {
            let done = desk.shipped(words).exits(2);
            let heading = format!("error: bad.yaml:{place}: ");
            assert!(done.err.starts_with(&heading), "{heading}\n{}", done.err);
            for part in parts {
                assert!(
                    done.err.contains(part),
                    "{part:?} is missing in\n{}",
                    done.err
                );
            }
        }
    }
}

#[test]
fn the_schema_fits_the_files_that_work() {
    let desk = Desk::new("says", json!({}));
    let schema: Value =
        serde_json::from_str(&desk.shipped(&["team", "schema"]).exits(0).out).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(
        validator.is_valid(&json!({ "agent": { "name": "a", "behavior": "function_calling" } }))
    );
    assert!(
        !validator.is_valid(&json!({ "agent": { "name": "a", "behavior": "functioncalling" } }))
    );
    // A command with behaviors of its own has a schema of its own.
    let own: Value = serde_json::from_str(&desk.run(&["team", "schema"]).exits(0).out).unwrap();
    let own = jsonschema::validator_for(&own).unwrap();
    let file: Value =
        serde_json::from_slice(&std::fs::read(desk.path("team.yaml")).unwrap()).unwrap();
    assert!(own.is_valid(&file));
    assert!(!validator.is_valid(&file));
}
