//! What team files promise: they are read whole or refused at the exact place.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]
#![cfg(feature = "yaml")]

mod context;
mod faults;
mod page;
mod prices;
mod schedules;
#[cfg(feature = "server")]
mod served;
mod sizes;
mod templates;

use std::{collections::BTreeSet, fs};

use ghostlight::config::{self, ConfigError, FaultKind, TeamFile};
use ghostlight_actors::{
    definition::{Reach, TeamSpec},
    run::{Behavior, BehaviorHandle, Registry, RunContext},
    vocabulary::{AgentError, Outcome, ToolDefinition},
};
use serde_json::json;

fn variables(name: &str) -> Option<String> {
    match name {
        "CITY" => Some("Ulm".into()),
        "STEPS" => Some("7".into()),
        "EVIL" => Some("x\nbudget: { tokens: 1 }\nname: [".into()),
        "CHAT" => Some("https://chat.example".into()),
        "CHAT_KEY" => Some("hunter2".into()),
        "OPENAI_API_KEY" => Some("sk-hunter2".into()),
        _ => None,
    }
}

fn parse(text: &str) -> Result<TeamFile, ConfigError> {
    config::parse_with(text, "team.yaml", variables)
}

fn spec(text: &str) -> TeamSpec {
    parse(text)
        .unwrap_or_else(|error| panic!("{error}"))
        .into_spec()
}

/// The kind of the fault, its line and column, and the whole message.
fn fault(text: &str) -> (FaultKind, u64, u64, String) {
    let error = parse(text).expect_err("the file is refused");
    let place = error.place().unwrap();
    (
        error.kind().unwrap(),
        place.line,
        place.column,
        error.to_string(),
    )
}

#[test]
fn a_team_file_is_the_teams_definition() {
    let team = spec(
        "
# A comment.
models:
  default: { provider: offline, seed: 4 }
tools:
  docs:
    kind: document_search
    folder: ./docs
instructions: Be brief.
budget: { tokens: 10_000 }
agent:
  name: desk
  description: yes, the front desk
  settings: { temperature: 0, stop: [END] }
  tools: [calculator, docs]
  behavior: { name: react, max_repairs: 2 }
  agents:
    - &worker
      name: clerk
      reach: delegate
      behavior: simple
    - { <<: *worker, name: writer, max_steps: 3 }
",
    );
    assert_eq!(team.name, "desk", "the team is called like its root agent");
    assert_eq!(team.models["default"].settings["seed"], 4);
    assert_eq!(team.tools["docs"].kind, "document_search");
    assert_eq!(team.agent.description, "yes, the front desk");
    assert_eq!(team.agent.settings.temperature, Some(0.0));
    assert_eq!(team.agent.behavior.settings, json!({ "max_repairs": 2 }));
    assert_eq!(team.agent.agents[0].behavior.name, "simple");
    assert_eq!(team.agent.agents[1].reach, Reach::Delegate);
    assert_eq!(team.agent.agents[1].max_steps, Some(3));
}

#[test]
fn what_the_builder_makes_goes_through_a_file_unchanged() {
    let team = spec("agent: { name: desk, agents: [{ name: a, output: { type: object } }] }");
    // JSON is YAML.
    let file = serde_json::to_string_pretty(&team).unwrap();
    assert_eq!(spec(&file), team);
}

#[test]
fn scalars_take_the_type_that_is_wanted() {
    let team = spec("models: { m: { provider: 4.10 } }\nagent: { name: 007, instructions: true }");
    assert_eq!(team.models["m"].provider, "4.10");
    assert_eq!(team.agent.name, "007");
    assert_eq!(team.agent.instructions, "true");
}

#[test]
fn variables_are_put_in_after_parsing() {
    let team = spec(
        "agent:
  name: desk
  description: ${EVIL}
  instructions: In ${CITY}, not in ${TOWN:-Bonn}; $$5.
  max_steps: ${STEPS}
",
    );
    assert_eq!(team.agent.description, variables("EVIL").unwrap());
    assert_eq!(team.agent.instructions, "In Ulm, not in Bonn; $5.");
    assert_eq!(
        team.agent.max_steps,
        Some(7),
        "a variable can hold a number"
    );
    assert_eq!(team.budget.tokens, None, "a value cannot add a key");
}

#[test]
fn an_unset_variable_is_named_with_its_place() {
    let (kind, line, column, message) =
        fault("agent:\n  name: desk\n  instructions: Go to ${TOWN}\n");
    assert_eq!((kind, line, column), (FaultKind::Variable, 3, 17));
    assert!(
        message.contains("TOWN is not set") && message.contains("team.yaml:3:17"),
        "{message}"
    );
}

#[test]
fn secrets_stay_references() {
    let file = parse(
        "models:
  default: { provider: openai, api_key: '${OPENAI_API_KEY}', headers: { x: '${OPENAI_API_KEY}' } }
agent: { name: desk }
",
    )
    .unwrap();
    assert!(!format!("{file:?}").contains("hunter2"));
    let json = serde_json::to_string(file.spec()).unwrap();
    assert_eq!(json.matches("${OPENAI_API_KEY}").count(), 2, "{json}");
    let guard = |secret: &str| {
        let guard = format!("{{ name: personal_data, action: hash, secret: '{secret}' }}");
        parse(&format!(
            "agent: {{ name: desk }}\ninterceptors:\n  - {guard}\n"
        ))
    };
    let file = guard("${OPENAI_API_KEY}").unwrap();
    assert!(!format!("{file:?}").contains("hunter2"));
    let json = serde_json::to_string(file.spec()).unwrap();
    assert!(json.contains("${OPENAI_API_KEY}"), "{json}");
    file.resolve(ghostlight::builtin()).unwrap();
    assert_eq!(
        guard("of mine").unwrap_err().kind(),
        Some(FaultKind::Secret)
    );
}

#[test]
fn a_secret_in_the_file_is_refused_without_repeating_it() {
    for secret in ["sk-live-1", "${KEY:-sk-live-1}", "x${KEY}", "[sk-live-1]"] {
        let text = format!(
            "models:\n  m: {{ provider: p,\n    api_key: '{secret}' }}\nagent: {{ name: a }}"
        );
        let (kind, line, column, message) = fault(&text);
        assert_eq!((kind, line, column), (FaultKind::Secret, 3, 5), "{message}");
        assert!(!message.contains("sk-live"), "{message}");
    }
}

#[test]
fn a_credential_in_clear_is_refused_wherever_it_stands() {
    for settings in [
        "headers: { authorization: Bearer hunter2 }",
        "headers: { X-Api-Key: hunter2 }",
        "headers: { x_api_key: '$$hunter2' }",
        "headers: { Cookie: 'a=hunter2' }",
        "base_url: 'https://me:hunter2@host/v1'",
        "base_url: 'https://hunter2@host/v1'",
        "base_url: 'https://me:${OPENAI_API_KEY}@host/v1'",
        "base_url: 'https://host/v1?api-key=hunter2'",
        "extra: { nested: { access_token: hunter2 } }",
        "private_key: hunter2",
        "clientSecret: [hunter2]",
        "auth_token: { value: hunter2 }",
        "headers: { x_api_key: 47110815 }",
    ] {
        let text =
            format!("models:\n  m: {{ provider: p,\n    {settings} }}\nagent: {{ name: a }}");
        let (kind, line, _, message) = fault(&text);
        assert_eq!(
            (kind, line),
            (FaultKind::Secret, 3),
            "{settings}: {message}"
        );
        assert!(!message.contains("hunter2"), "{message}");
    }
    let file = parse(
        "models:
  default:
    provider: openai
    base_url: 'http://127.0.0.1:9/v1'
    headers: { authorization: 'Bearer ${OPENAI_API_KEY}', x-title: desk }
  password_helper: { provider: offline }
agent: { name: desk, instructions: 'See https://me:you@host, authorization and password.' }
",
    )
    .unwrap();
    let json = serde_json::to_string(file.spec()).unwrap();
    assert!(json.contains("Bearer ${OPENAI_API_KEY}") && !json.contains("hunter2"));
    file.resolve(ghostlight::builtin()).unwrap();
}

/// A team that was made in code, or stored, does not pass the reader of files.
#[test]
fn a_credential_in_clear_is_refused_where_a_model_is_made() {
    for settings in [
        serde_json::json!({ "headers": { "authorization": "Bearer hunter2" } }),
        serde_json::json!({ "base_url": "https://me:hunter2@host/v1" }),
        serde_json::json!({ "extra": { "api_key": "hunter2" } }),
    ] {
        let mut team = spec("models: { m: { provider: openai } }\nagent: { name: desk }\n");
        let model = team.models.get_mut("m").unwrap();
        model.settings = settings.as_object().unwrap().clone();
        let error = ghostlight::builtin()
            .resolve(&team)
            .unwrap_err()
            .to_string();
        assert!(!error.contains("hunter2"), "{error}");
        assert!(error.contains('m'), "{error}");
    }
}

#[test]
fn a_deep_team_fits() {
    let mut text = String::from("agent:\n  name: a0\n");
    for level in 1..18 {
        let indent = " ".repeat(4 * level);
        text += &format!("{}agents:\n{indent}- name: a{level}\n", &indent[2..]);
    }
    assert_eq!(spec(&text).agent.walk().len(), 18);
}

#[test]
fn no_file_exhausts_the_reader() {
    let deep = format!("agent: {}", "{agents: [".repeat(20_000));
    assert!(parse(&deep).is_err());
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    assert!(parse(&bomb).is_err());
}

struct Nothing;

impl Behavior for Nothing {
    async fn run(&self, _: RunContext) -> Result<Outcome, AgentError> {
        Ok(Outcome::answer(""))
    }
}

fn registry() -> Registry {
    Registry::new()
        .behavior("function_calling", |settings| {
            let unknown = settings
                .as_object()
                .and_then(|settings| settings.keys().next());
            match unknown {
                Some(key) => Err(format!("no setting {key:?}")),
                None => Ok(BehaviorHandle::new(Nothing)),
            }
        })
        .tool(ghostlight::tools::tool_fn(
            ToolDefinition::new("calculator", "Counts."),
            |(): ()| async { Ok(0.0) },
        ))
        .provider("offline", |_| Err("no model is needed here".into()))
        .tool_kind("fixed", |name, _| {
            Ok(ghostlight::tools::tool_fn(
                ToolDefinition::new(name, "Says hello."),
                |(): ()| async { Ok("hello") },
            ))
        })
        .tool_kind("broken", |_, settings| {
            Err(format!("{} settings are too few", settings.len()))
        })
}

#[test]
fn unknown_names_are_shown_with_those_that_exist() {
    let cases: &[(&str, u64, u64, &[&str])] = &[
        (
            "agent:\n  name: desk\n  tools: [calculater]\n",
            3,
            11,
            &["agent \"desk\"", "did you mean `calculator`?"],
        ),
        (
            "agent:\n  name: desk\n  agents:\n    - name: b\n      behavior: raect\n",
            5,
            17,
            &["agent \"b\"", "function_calling"],
        ),
        (
            "agent:\n  name: a\n  behavior: { name: nope }\n",
            3,
            21,
            &["behavior `nope`"],
        ),
        (
            "agent:\n  name: a\n  behavior:\n    name: function_calling\n    depth: 3\n",
            5,
            5,
            &["no setting \"depth\""],
        ),
        (
            "agent:\n  name: a\n  model: fast\n",
            3,
            10,
            &["model `fast`", "there are none"],
        ),
        (
            "models:\n  m:\n    provider: ofline\nagent:\n  name: a\n",
            3,
            15,
            &["model \"m\"", "did you mean `offline`?"],
        ),
        (
            "models:\n  m: { provider: offline }\nagent:\n  name: a\n",
            2,
            3,
            &["no model is needed here"],
        ),
        (
            "tools:\n  t: { kind: fixd }\nagent:\n  name: a\n",
            2,
            14,
            &["tool \"t\"", "did you mean `fixed`?"],
        ),
        (
            "tools:\n  t: { kind: broken, a: 1 }\nagent:\n  name: a\n",
            2,
            3,
            &["1 settings are too few"],
        ),
    ];
    for (text, line, column, parts) in cases {
        let error = parse(text).unwrap().resolve(registry()).unwrap_err();
        let place = error.place().unwrap();
        let message = error.to_string();
        assert_eq!(
            (place.line, place.column),
            (*line, *column),
            "{text}\n{message}"
        );
        for part in *parts {
            assert!(message.contains(part), "{part:?} is missing in:\n{message}");
        }
    }
}

#[test]
fn tools_of_a_file_are_made_from_their_settings() {
    let file =
        parse("tools: { greet: { kind: fixed } }\nagent: { name: a, tools: [greet, calculator] }");
    let file = file.unwrap();
    let registry = file.resolve(registry()).unwrap();
    assert!(registry.tool_named("greet").is_some());
    let pinned = registry.pin(file.spec());
    assert_eq!(
        pinned.tools.keys().collect::<Vec<_>>(),
        ["calculator", "greet"]
    );
}

#[test]
fn paths_are_taken_from_the_files_folder() {
    let folder = std::env::temp_dir().join(format!("ghostlight-paths-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("team.yaml");
    let text = "tools: { t: { kind: k, folder: ./docs, url: docs/x } }\nagent: { name: a, instructions: ./not-a-setting }
interceptors: [{ name: audit, file: ./log }, { name: validation, blocked: [../, ./x] }]";
    std::fs::write(&path, text).unwrap();
    let team = config::load(&path).unwrap().into_spec();
    std::fs::remove_dir_all(&folder).unwrap();
    let found = team.tools["t"].settings["folder"].as_str().unwrap();
    assert_eq!(std::path::Path::new(found), folder.join("./docs"));
    assert_eq!(team.tools["t"].settings["url"], "docs/x");
    let log = team.interceptors[0].settings["file"].as_str().unwrap();
    assert_eq!(std::path::Path::new(log), folder.join("./log"));
    // Regular expressions are none.
    let blocked = &team.interceptors[1].settings["blocked"];
    assert_eq!(blocked, &json!(["../", "./x"]));
    assert_eq!(team.agent.instructions, "./not-a-setting");
}

#[test]
fn a_missing_file_is_named() {
    let error = config::load("no/such/team.yaml").unwrap_err();
    assert!(
        error.to_string().starts_with("no/such/team.yaml: "),
        "{error}"
    );
}

#[test]
fn the_schema_accepts_good_files_and_refuses_faults() {
    let schema = config::schema_for(&registry());
    jsonschema::meta::validate(&schema).expect("the schema is a JSON Schema");
    let validator = jsonschema::validator_for(&schema).unwrap();
    let good = json!({
        "models": { "m": { "provider": "offline", "seed": 4 } },
        "tools": { "t": { "kind": "fixed" } },
        "agent": { "name": "a", "model": "m", "tools": ["t", "calculator"],
            "behavior": { "name": "function_calling", "depth": 3 },
            "agents": [{ "name": "b", "reach": "delegate", "behavior": "function_calling" }] },
    });
    assert!(
        validator.is_valid(&good),
        "{:?}",
        validator.iter_errors(&good).collect::<Vec<_>>()
    );
    for bad in [
        json!({ "agent": { "name": "a", "behavior": "nope" } }),
        json!({ "agent": { "name": "a", "behavior": { "name": "nope" } } }),
        json!({ "models": { "m": { "provider": "nope" } } }),
        json!({ "tools": { "m": { "kind": "nope" } } }),
        json!({ "agent": { "name": "a", "max_steps": "ten" } }),
        json!({ "agent": { "name": "a", "instrutions": "x" } }),
        json!({ "agents": [] }),
    ] {
        assert!(!validator.is_valid(&bad), "{bad}");
    }
}

#[test]
#[cfg_attr(
    not(all(feature = "acp", feature = "postgres", feature = "tools")),
    ignore = "some name kinds of tools of these features"
)]
fn every_team_file_of_the_examples_is_sound_and_every_workflow_has_one() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/teams");
    let mut shown = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let team = config::load(&path).unwrap_or_else(|error| panic!("{error}"));
        team.resolve(ghostlight::builtin())
            .unwrap_or_else(|error| panic!("{error}"));
        let agents = team.spec().agent.walk();
        shown.extend(
            agents
                .into_iter()
                .map(|(_, agent)| agent.behavior.name.clone()),
        );
    }
    let workflows = ghostlight::workflows::register(Registry::new());
    for workflow in workflows.behavior_names() {
        assert!(shown.contains(workflow), "{workflow} has no team file");
    }
}

#[test]
fn policies_are_named_with_their_settings_and_faults_have_their_place() {
    let registry = ghostlight::builtin;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/teams");
    let research = config::load(format!("{folder}/research.yaml")).unwrap();
    research.resolve(registry()).unwrap();
    let names = research.spec().agent.policies.iter();
    let names: Vec<&str> = names.map(|policy| policy.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "planning",
            "verification",
            "recovery",
            "repetition",
            "self_reflection"
        ]
    );
    for (policies, line, column, parts) in [
        (
            "[recovrey]",
            3,
            14,
            &["the policy `recovrey`", "did you mean `recovery`?"][..],
        ),
        (
            "\n    - name: recovery\n      max_tries: 0",
            5,
            7,
            &["\"recovery\" refuses its settings: max_tries must be at least 1"],
        ),
        (
            "\n    - todos\n    - { name: planning, revisions: 2 }",
            5,
            25,
            &["unknown key `revisions`", "min_revisions"],
        ),
        (
            "\n    - { name: recovery, max_tries: many }",
            4,
            36,
            &[
                "expected a whole number from 0 to",
                "found the text \"many\"",
            ],
        ),
        (
            "\n    - { name: tool_limits }",
            4,
            15,
            &["calls must name at least one tool"],
        ),
    ] {
        let team = parse(&format!("agent:\n  name: a\n  policies: {policies}\n")).unwrap();
        let told = team.resolve(registry()).unwrap_err().to_string();
        let heading = format!("team.yaml:{line}:{column}: ");
        assert!(told.starts_with(&heading), "{told}");
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    }
    let refused = |text: &str| {
        let error = parse(text).and_then(|team| team.resolve(registry()).map(drop));
        error.unwrap_err().to_string()
    };
    for (text, parts) in [
        // A kind of toolset is a kind of tool for who writes the file.
        #[cfg(feature = "tools")]
        (
            "tools: { n: { kind: fils } }\nagent: { name: a }",
            &["1:21: ", "did you mean `files`?", "document_search"][..],
        ),
        #[cfg(feature = "documents")]
        (
            "tools: { n: { kind: docs_search } }\nagent: { name: a }",
            &["1:21: ", "it is called `document_search` now"][..],
        ),
        #[cfg(feature = "openai")]
        (
            "models: { m: { provider: openai, base_url: nowhere } }\nagent: { name: a, model: m }",
            &["1:34: ", "base_url must be an address"][..],
        ),
        (
            "interceptors: [{ name: retry, tool: [x] }]\nagent: { name: a }",
            &["1:31: ", "unknown key `tool`", "did you mean `tools`?"][..],
        ),
        (
            "agent: { name: a, behavior: { name: graph } }",
            &["1:19: ", "the key `entry` is missing"][..],
        ),
        (
            "agent: { name: a, tools: [wait], approval: { wat: true } }",
            &["1:46: ", "did you mean `wait`?"][..],
        ),
        (
            "schedules: [{ cron: \"0 9 * * *\", say: hi }]\nagent: { name: a }",
            &["1:13: ", "the schedule's key `name` is missing"][..],
        ),
    ] {
        let told = refused(text);
        assert!(told.starts_with("team.yaml:"), "{told}");
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    }
    let schema = config::schema_for(&registry());
    let known = schema.pointer("/$defs/AgentSpec/properties/policies/items/anyOf/0/enum");
    let known = known.unwrap().as_array().unwrap();
    assert!(known.contains(&json!("verification")), "{known:?}");
    let fits = |policies: serde_json::Value, interceptors: serde_json::Value| {
        let agent = json!({"name": "a", "policies": policies});
        let team = json!({"agent": agent, "interceptors": interceptors});
        jsonschema::is_valid(&schema, &team)
    };
    let policies = json!(["todos", {"name": "recovery", "max_tries": 2}]);
    let interceptors = json!(["logging", {"name": "retry", "attempts": 3, "tools": ["search"]}]);
    assert!(fits(policies.clone(), interceptors.clone()));
    assert!(!fits(json!(["nothing"]), interceptors));
    assert!(!fits(policies.clone(), json!(["nothing"])));
    assert!(!fits(policies, json!([{"name": "nothing"}])));
}
