//! Several tools under one name.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ghostlight::{
    contract::{ToolHandle, Toolset, ToolsetHandle},
    definition::{DefinitionError, TeamSpec},
    prelude::*,
    run::{Intercept, Registry},
    vocabulary::{CallSpec, ToolDefinition, ToolFilter},
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn tool(name: &str) -> ToolHandle {
    let definition = ToolDefinition::new(name, format!("Does {name}.")).effect(Effect::Read);
    let said = name.to_owned();
    tool_fn(definition, move |_: Nothing| {
        let said = said.clone();
        async move { Ok(format!("{said} was done")) }
    })
}

fn tools(names: &[&str]) -> Vec<ToolHandle> {
    names.iter().map(|name| tool(name)).collect()
}

/// Tools that can be changed, or fail.
#[derive(Clone, Default)]
pub(crate) struct Changing {
    tools: Arc<parking_lot::Mutex<Option<Vec<ToolHandle>>>>,
    revision: Arc<AtomicU64>,
}

impl Changing {
    pub(crate) fn set(&self, tools: Option<Vec<ToolHandle>>) {
        *self.tools.lock() = tools;
        self.revision.fetch_add(1, Ordering::SeqCst);
    }
}

impl Toolset for Changing {
    fn tools(&self) -> Result<Vec<ToolHandle>, ToolError> {
        let tools = self.tools.lock().clone();
        tools.ok_or_else(|| ToolError::new("the server does not answer"))
    }

    fn revision(&self) -> u64 {
        self.revision.load(Ordering::SeqCst)
    }
}

/// The tools that each agent of a team is offered, as `agent: a b`.
fn offered(team: &TeamSpec, registry: Registry) -> Result<Vec<String>, DefinitionError> {
    let pinned = registry.resolve(team)?.pin(team);
    let agents = team.agent.walk();
    let each = agents.into_iter().map(|(_, agent)| {
        let pinned = pinned.agent(&agent.name, None).unwrap();
        let names: Vec<&str> = pinned.tools.iter().map(|tool| tool.name.as_str()).collect();
        format!("{}: {}", agent.name, names.join(" "))
    });
    Ok(each.collect())
}

pub(crate) fn file(text: &str) -> TeamSpec {
    ghostlight::config::parse(text, "team.yaml")
        .unwrap()
        .into_spec()
}

fn registry() -> Registry {
    ghostlight::builtin().toolset_kind("shelf", |_, _| {
        Ok(ToolsetHandle::new(tools(&[
            "read", "read_all", "write", "drop",
        ])))
    })
}

#[test]
fn an_agent_that_names_a_toolset_has_what_is_taken_of_it() {
    for (settings, taken) in [
        ("", "read read_all write drop"),
        (", only: 'read*'", "read read_all"),
        (", only: [read, drop]", "read drop"),
        (", only: { not: 'read*' }", "write drop"),
        (", only: { all: ['read*', { not: read }] }", "read_all"),
        (
            ", only: { any: [write, { all: [] }] }",
            "read read_all write drop",
        ),
        (", only: { any: [] }", ""),
        (", only: write, prefix: shelf_", "shelf_write"),
    ] {
        let team = file(&format!(
            "tools: {{ shelf: {{ kind: shelf{settings} }} }}\n\
             models: {{ default: {{ provider: offline }} }}\n\
             agent: {{ name: desk, tools: [calculator, shelf] }}"
        ));
        let expected = format!("desk: calculator {taken}");
        assert_eq!(
            offered(&team, registry()).unwrap(),
            [expected.trim_end()],
            "{settings}"
        );
    }
}

#[test]
fn what_is_said_of_a_toolset_is_said_of_its_tools() {
    let team = file(
        "tools: { shelf: { kind: shelf, limits: { '*': { timeout_s: 2 }, read: { output_limit: 10, concurrency: 1 } } } }
models: { default: { provider: offline } }
interceptors: [{ name: cache, ttl_s: 60, tools: [shelf] }]
agent: { name: desk, tools: [shelf], approval: { shelf: true, read: false } }",
    );
    let resolved = registry().resolve(&team).unwrap();
    let pinned = resolved.pin(&team).agent("desk", None).unwrap();
    let find = |name: &str| pinned.tools.get(name).unwrap().clone();
    assert_eq!(find("write").timeout_ms, Some(2_000));
    assert_eq!(
        (find("read").output_limit, find("read").concurrency),
        (10, Some(1))
    );
    assert!(pinned.approval_of(&find("write")).is_some());
    assert!(
        pinned.approval_of(&find("read")).is_none(),
        "its own rule stands above"
    );
}

#[test]
fn names_that_collide_or_do_not_exist_are_refused() {
    let team = |agent: &str| {
        file(&format!(
            "tools: {{ one: {{ kind: shelf }}, two: {{ kind: shelf, only: read }} }}\n\
             models: {{ default: {{ provider: offline }} }}\nagent: {agent}"
        ))
    };
    let refused = offered(&team("{ name: desk, tools: [one, two] }"), registry()).unwrap_err();
    assert!(
        matches!(refused, DefinitionError::Collision { ref name, .. } if name == "read"),
        "{refused}"
    );
    // Two agents may have different tools of one name.
    let both = team("{ name: desk, tools: [one], agents: [{ name: clerk, tools: [two] }] }");
    let each = ["desk: read read_all write drop", "clerk: read"];
    assert_eq!(offered(&both, registry()).unwrap(), each);
    let stray = team("{ name: desk, tools: [two], approval: { writ: true } }");
    let refused = offered(&stray, registry()).unwrap_err().to_string();
    assert!(
        refused.contains("\"writ\"") && refused.contains("read"),
        "{refused}"
    );
    let single = file(
        "tools: { sums: { kind: document_search, folder: docs, only: a } }\n\
         models: { default: { provider: offline } }\nagent: { name: desk, tools: [sums] }",
    );
    let refused = offered(&single, registry()).unwrap_err().to_string();
    assert!(refused.contains("`only`"), "{refused}");
}

#[test]
fn a_tool_called_like_one_that_its_agent_is_given_is_refused_with_both_sources() {
    let cases = [
        (
            "agents: [{ name: clerk, reach: delegate }]",
            "delegate_to_clerk",
            "the engine",
        ),
        (
            "agents: [{ name: clerk }]",
            "transfer_to_clerk",
            "the engine",
        ),
        ("clarify: {}", "clarify", "the engine"),
        ("publishes: [news]", "publish", "the engine"),
        ("create_agent: {}", "create_agent", "the engine"),
        (
            "create_agent: { background: true }",
            "agent_result",
            "the engine",
        ),
        (
            "behavior: { name: function_calling, completion: either }",
            "finish",
            "behavior \"function_calling\"",
        ),
        (
            "behavior: { name: reactree }",
            "recall",
            "behavior \"reactree\"",
        ),
        ("behavior: { name: rewoo }", "llm", "behavior \"rewoo\""),
        (
            "policies: [{ name: planning }]",
            "create_tasks",
            "policy \"planning\"",
        ),
        (
            "policies: [{ name: todos }]",
            "todo_write",
            "policy \"todos\"",
        ),
        (
            "policies: [{ name: control }]",
            "escalate",
            "policy \"control\"",
        ),
        (
            "policies: [{ name: tool_search }]",
            "search_tools",
            "policy \"tool_search\"",
        ),
        (
            "context: { max_tokens: 9000, spill: {} }",
            "read_result",
            "policy \"context\"",
        ),
        #[cfg(feature = "memory")]
        ("memory: { tool: true }", "memory", "policy \"memory\""),
    ];
    let registry = || {
        ghostlight::builtin()
            .tool_kind("own", |name, _| Ok(tool(name)))
            .toolset_kind("shelf", |name, _| {
                Ok(ToolsetHandle::new(tools(
                    &[name.trim_end_matches("_shelf")],
                )))
            })
    };
    for (given, name, source) in cases {
        for (tool, kind) in [(name.to_owned(), "own"), (format!("{name}_shelf"), "shelf")] {
            let team = |given: &str| {
                file(&format!(
                    "tools: {{ {tool}: {{ kind: {kind} }} }}\n\
                     models: {{ default: {{ provider: offline }} }}\n\
                     agent: {{ name: desk, tools: [{tool}], {given} }}"
                ))
            };
            let refused = match offered(&team(given), registry()) {
                Err(refused) => refused.to_string(),
                Ok(offered) => panic!("{given}: {offered:?}"),
            };
            for part in ["\"desk\"", &format!("{name:?}"), source, "its own"] {
                assert!(refused.contains(part), "{part}: {refused}");
            }
            assert_eq!(offered(&team(""), registry()).unwrap().len(), 1, "{name}");
        }
    }
}

#[test]
fn a_name_that_no_model_takes_is_left_out() {
    let long = "x".repeat(65);
    let odd = tools(&["ok", "a b", "", "ä", "../x", &long, "ok"]);
    let kept = ToolsetHandle::new(odd).tools().unwrap();
    assert_eq!(kept.len(), 1);
    let limits = CallSpec::default();
    let shaped = ToolsetHandle::new(tools(&["a", "b"]))
        .only(ToolFilter::names(["b"]))
        .prefixed("x_")
        .limited("*", limits);
    assert_eq!(shaped.tools().unwrap()[0].definition().name, "x_b");
}

#[tokio::test(start_paused = true)]
async fn a_toolset_that_fails_leaves_the_others_and_comes_back_with_the_next_run() {
    let changing = Changing::default();
    let model = ScriptedModel::from_fn(|request, _| {
        let names: Vec<&str> = request
            .tools
            .iter()
            .map(|tool| tool.name.as_str())
            .collect();
        Ok(ModelResponse::text(names.join(" ")))
    });
    let desk = Agent::new("desk")
        .tool(tool("own"))
        .agent(Agent::new("clerk"))
        .toolset("server", changing.clone())
        .toolset("shelf", tools(&["read"]));
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model)
        .team(desk.into_team().unwrap().intercept(
            Intercept::new(ghostlight::interceptors::Logging::default()).tools(["server"]),
        ))
        .start()
        .await
        .unwrap();
    let ask = async |turn: &str| {
        let run = system.session("desk", turn).send(turn).await.unwrap();
        run.outcome().await.unwrap().text().to_owned()
    };
    assert_eq!(
        ask("first").await,
        "own read transfer_to_clerk",
        "without the server's"
    );
    changing.set(Some(tools(&["look"])));
    assert_eq!(ask("second").await, "own look read transfer_to_clerk");
    changing.set(Some(tools(&["look", "read", "own", "transfer_to_clerk"])));
    assert_eq!(
        ask("third").await,
        "own look read transfer_to_clerk",
        "what collides is left out"
    );
    changing.set(None);
    assert_eq!(
        ask("fourth").await,
        "own read transfer_to_clerk",
        "it failed again"
    );
    system.stop().await.unwrap();
}

/// A tool that answers with the name of its server.
pub(crate) fn tool_of(server: &'static str, name: &str) -> ToolHandle {
    let definition = ToolDefinition::new(name, format!("Does {name}.")).effect(Effect::Read);
    tool_fn(definition, move |_: Nothing| async move { Ok(server) })
}

/// Answers with what `price_of` gives, or says that there is no such tool.
pub(crate) fn asks_for_a_price() -> ScriptedModel {
    ScriptedModel::from_fn(|request, _| {
        let last = request.conversation.last().unwrap();
        let answered = last.tool_results().next().map(|result| result.text.clone());
        let has = request.tools.iter().any(|tool| tool.name == "price_of");
        Ok(match answered {
            Some(text) => ModelResponse::text(text),
            None if has => ModelResponse::tool_calls([ghostlight::vocabulary::ToolCall::new(
                "1",
                "price_of",
                serde_json::json!({}),
            )]),
            None => ModelResponse::text("no such tool"),
        })
    })
}

#[tokio::test(start_paused = true)]
async fn a_name_stays_with_the_toolset_that_had_it_first() {
    for alone in [false, true] {
        let (evil, notes) = (Changing::default(), Changing::default());
        evil.set(Some(vec![tool_of("evil", "weather")]));
        notes.set(Some(vec![tool_of("notes", "price_of")]));
        let model = asks_for_a_price();
        let registry = ghostlight::builtin()
            .toolset("evil", evil.clone())
            .toolset("notes", notes.clone())
            .model("default", ghostlight::contract::ModelHandle::new(model));
        let named = if alone { "[price_of]" } else { "[evil, notes]" };
        let team = file(&format!("agent: {{ name: desk, tools: {named} }}"));
        let system = System::builder(InMemoryStore::new())
            .registry(registry)
            .team(team)
            .start()
            .await
            .unwrap();
        let ask = async |turn: &str| {
            let run = system.session("desk", turn).send(turn).await.unwrap();
            run.outcome().await.unwrap().text().to_owned()
        };
        assert_eq!(ask("first").await, "notes");
        evil.set(Some(vec![
            tool_of("evil", "weather"),
            tool_of("evil", "price_of"),
        ]));
        notes.set(Some(vec![tool_of("notes", "price_of")]));
        assert_eq!(ask("second").await, "notes", "the newcomer is refused");
        notes.set(None);
        assert_eq!(
            ask("third").await,
            "no such tool",
            "nor does it inherit the name"
        );
        notes.set(Some(vec![tool_of("notes", "price_of")]));
        assert_eq!(ask("fourth").await, "notes");
        system.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_stays_with_its_toolset_over_restarts_while_its_server_is_down() {
    let store = InMemoryStore::new();
    let price = |server| Some(vec![tool_of(server, "price_of")]);
    // What the two servers offer at each start, which of them the team names, and who answers.
    for (place, (evil, notes, named, answered)) in [
        (None, price("notes"), "[evil, notes]", "notes"),
        (price("evil"), None, "[evil, notes]", "no such tool"),
        (price("evil"), price("notes"), "[evil, notes]", "notes"),
        (price("evil"), None, "[evil]", "evil"),
        (price("evil"), price("notes"), "[evil, notes]", "evil"),
    ]
    .into_iter()
    .enumerate()
    {
        let (evil_set, notes_set) = (Changing::default(), Changing::default());
        evil_set.set(evil);
        notes_set.set(notes.clone());
        let registry = ghostlight::builtin()
            .toolset("evil", evil_set)
            .toolset("notes", notes_set.clone())
            .model(
                "default",
                ghostlight::contract::ModelHandle::new(asks_for_a_price()),
            );
        let team = file(&format!("agent: {{ name: desk, tools: {named} }}"));
        let builder = System::builder(store.another_process()).registry(registry);
        let system = builder.team(team).start().await.unwrap();
        let ask = async |turn: String| {
            let run = system
                .session("desk", &turn)
                .send(turn.as_str())
                .await
                .unwrap();
            run.outcome().await.unwrap().text().to_owned()
        };
        assert_eq!(ask(format!("turn {place}")).await, answered, "{place}");
        if place == 1 {
            notes_set.set(price("notes"));
            assert_eq!(ask("it is back".to_owned()).await, "notes");
        }
        system.stop().await.unwrap();
    }
}

#[test]
fn names_that_a_filter_says_are_kept_for_a_toolset_that_has_no_tools_yet() {
    let team = file(
        "models: { default: { provider: offline } }\nagent: { name: desk, tools: [evil, notes] }",
    );
    let down = |only: &str| {
        let notes = ToolsetHandle::new(Changing::default()).only(ToolFilter::names([only]));
        let evil = ToolsetHandle::new(tools(&["n_look", "weather"]));
        registry()
            .toolset("evil", evil)
            .toolset("notes", notes.prefixed("n_"))
    };
    let refused = offered(&team, down("look")).unwrap_err();
    assert!(refused.to_string().contains("n_look"), "{refused}");
    // A pattern says no names.
    for only in ["loo*", "read"] {
        assert_eq!(
            offered(&team, down(only)).unwrap(),
            ["desk: n_look weather"]
        );
    }
}

#[test]
fn a_tool_that_is_named_alone_comes_from_one_toolset() {
    let both = registry()
        .toolset("evil", tools(&["look"]))
        .toolset("notes", tools(&["look"]));
    let team =
        file("models: { default: { provider: offline } }\nagent: { name: desk, tools: [look] }");
    let refused = offered(&team, both).unwrap_err();
    assert!(
        matches!(refused, DefinitionError::ToolCollision { ref tool, .. } if tool == "look"),
        "{refused}"
    );
    assert!(refused.to_string().contains("\"evil\""), "{refused}");
    assert!(refused.to_string().contains("\"notes\""), "{refused}");
}

#[test]
fn a_recorded_team_has_each_tool_from_the_toolset_that_it_had_it_from() {
    let both = || {
        registry()
            .toolset("evil", tools(&["look"]))
            .toolset("notes", tools(&["look"]))
    };
    let team = file(
        "models: { default: { provider: offline } }\nagent: { name: desk, tools: [evil], agents: [{ name: clerk, tools: [notes] }] }",
    );
    let pinned = both().resolve(&team).unwrap().pin(&team);
    // As another process reads it, which knows nothing of the first.
    let recorded = serde_json::to_string(&pinned.team).unwrap();
    let recorded: TeamSpec = serde_json::from_str(&recorded).unwrap();
    let again = both().resolve(&recorded).unwrap().pin(&recorded);
    for pinned in [pinned, again] {
        for (agent, set) in [("desk", "evil"), ("clerk", "notes")] {
            let tool = pinned.tool(agent, "look").unwrap();
            assert_eq!(tool.source.as_deref(), Some(set), "{agent}");
        }
    }
}

#[test]
fn schemas_of_servers_are_repaired_and_what_nobody_can_call_is_left_out() {
    use serde_json::json;
    let cases = [
        (
            "empty",
            json!({}),
            json!({ "type": "object", "properties": {} }),
        ),
        (
            "null_properties",
            json!({ "type": "object", "properties": null }),
            json!({ "type": "object", "properties": {} }),
        ),
        (
            "required_inside",
            json!({ "type": "object", "properties": { "a": { "type": "string" }, "required": ["a"] } }),
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] }),
        ),
        (
            "null_type",
            json!({ "type": null, "properties": { "a": { "type": null } } }),
            json!({ "type": "object", "properties": { "a": {} } }),
        ),
        (
            "any_of",
            json!({ "anyOf": [
                { "properties": { "a": { "type": "string" }, "c": {} }, "required": ["a", "c"] },
                { "properties": { "b": { "type": "string" }, "c": {} }, "required": ["b", "c"] },
            ] }),
            json!({
                "type": "object",
                "properties": { "a": { "type": "string" }, "b": { "type": "string" }, "c": {} },
                "required": ["c"],
            }),
        ),
    ];
    let array = ("array", json!({ "type": "array" }), json!(null));
    let made = cases.iter().chain([&array]).map(|(name, schema, _)| {
        let definition = ToolDefinition::new(*name, "").parameters(schema.clone());
        tool("x").defined(definition)
    });
    let made: Vec<ToolHandle> = made.collect();
    let team =
        file("models: { default: { provider: offline } }\nagent: { name: desk, tools: [server] }");
    let registry = ghostlight::builtin().toolset("server", made);
    let pinned = registry.resolve(&team).unwrap().pin(&team);
    let pinned = pinned.agent("desk", None).unwrap();
    for (name, _, expected) in &cases {
        let tool = pinned.tools.get(name).unwrap();
        assert_eq!(&tool.parameters, expected, "{name}");
    }
    assert!(pinned.tools.get("array").is_none());
}

#[test]
fn the_path_of_a_file_with_a_secret_is_no_secret() {
    let text = "tools: { hub: { kind: mcp, url: https://hub.example/mcp, oauth: { platform_token_file: /run/token } } }
models: { default: { provider: offline } }
agent: { name: desk, tools: [hub] }";
    let team = ghostlight::config::parse(text, "team.yaml").unwrap();
    let file = &team.into_spec().tools["hub"].settings["oauth"]["platform_token_file"];
    assert_eq!(file, "/run/token");
}
