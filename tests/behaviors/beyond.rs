//! What stands beyond the conversation: results that were moved out of it, what is recalled for it,
//! what is to be done, what other agents said, and a report of what stays the same.

use ghostlight::{
    builtin,
    context::{
        ContextBuilder, ContextSource, Estimate, Packet, PacketSource, READ_RESULT, Recall,
        TokenCounter,
    },
};
use ghostlight_actors::{
    definition::{ContextSpec, ContextStrategy, OtherAgents, PolicySpec, Spill, TokenCounting},
    run::{Agent, PolicyContext, RunContext, operations::Scope},
    testing::{CrashOptions, Reply, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{
        AgentError, Effect, ModelRequest, ModelResponse, Outcome, Role, ToolDefinition, Transcript,
    },
};
use serde_json::{Value, json};

use crate::stage::{Stage, call, desk, echo, echo_call, told};

fn context(max_tokens: u32) -> ContextSpec {
    ContextSpec::new(max_tokens)
        .strategy(ContextStrategy::TokenWindow)
        .counting(TokenCounting::Estimate)
}

fn spilling() -> ContextSpec {
    context(2_000).spill(Spill {
        above_tokens: 200,
        keep_tokens: 40,
    })
}

fn talking(agent: Agent) -> Agent {
    agent.registry(builtin())
}

/// Words of which each is there once.
fn long_text() -> String {
    (0..400).map(|place| format!("word{place} ")).collect()
}

fn last_result(request: &ModelRequest) -> String {
    let last = request.conversation.last().unwrap();
    last.tool_results()
        .last()
        .map(|result| result.text.clone())
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn what_was_moved_out_of_the_context_is_read_back_by_a_tool() {
    let read = |from: u64, find: &str| {
        let place = json!({ "name": "results/echo", "version": 1, "from": from, "find": find });
        call("r", READ_RESULT, place)
    };
    let agent = talking(
        desk("function_calling", json!({}))
            .tool(echo())
            .context(spilling()),
    );
    let replies: Vec<Reply> = vec![
        echo_call("a", &long_text()).into(),
        read(0, "word222").into(),
        call("s", READ_RESULT, json!({ "name": "secret", "version": 1 })).into(),
        call(
            "t",
            READ_RESULT,
            json!({ "name": "results/echo", "version": 9 }),
        )
        .into(),
        "done".into(),
        "later".into(),
    ];
    let stage = Stage::of(agent, replies).await;
    let run = stage.say("go").await;
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    stage.check();
    let moved = last_result(&stage.request(1));
    assert!(
        moved.contains("word0 ") && moved.contains("word399"),
        "{moved}"
    );
    assert!(!moved.contains("word222"), "{moved}");
    assert!(
        moved.contains("`read_result`, name \"results/echo\", version 1"),
        "{moved}"
    );
    assert!(stage.request(0).tools.get(READ_RESULT).is_some());
    let found = last_result(&stage.request(2));
    assert!(found.starts_with("word222 word223"), "{found}");
    assert!(found.contains("go on with `from`"), "{found}");
    assert!(last_result(&stage.request(3)).contains("is no moved result"));
    assert!(last_result(&stage.request(4)).contains("There is no \"results/echo\" of version 9"));
    let events = told(&run).await;
    let moved: Vec<&Value> = events
        .iter()
        .filter(|(name, _)| name == "result_moved")
        .map(|(_, data)| data)
        .collect();
    assert_eq!(
        (moved.len(), &moved[0]["artifact"]),
        (1, &json!("results/echo"))
    );

    // The conversation that the session keeps does not carry it either.
    stage.ask("and?").await;
    let all = stage.said(5);
    let mut results = all.iter().filter(|said| said.starts_with("tool:"));
    assert!(!results.any(|said| said.contains("word350")), "{all:?}");
}

/// Finds what the user said of lamps, once for each question.
struct Memory;

impl ContextSource for Memory {
    async fn recall(
        &mut self,
        cx: &PolicyContext<'_>,
        said: &Transcript,
    ) -> Result<Option<String>, AgentError> {
        let asked = said.last().unwrap().content();
        let times = cx
            .state(Scope::Session)
            .update("recalls", |n: Option<u32>| n.unwrap_or(0) + 1);
        let times = times.await?;
        let found = format!("recall {times} for {asked}: {}", "lamp ".repeat(500));
        Ok(asked.contains("lamp").then_some(found))
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_recalled_stands_after_the_stable_prefix_and_the_request_still_fits() {
    let model = ScriptedModel::from_fn(|_, number| {
        Ok(match number % 2 {
            0 => ModelResponse::tool_calls([echo_call("c", &"words ".repeat(20))]),
            _ => ModelResponse::text("much to say ".repeat(8)),
        })
    });
    let agent = desk("function_calling", json!({}))
        .tool(echo())
        .policy("memory", || Recall::new(Memory).max_tokens(60))
        .context(context(1_000).reported());
    let stage = Stage::with(talking(agent), model).await;
    let mut reports = Vec::new();
    for turn in 0..12 {
        let run = stage.say(format!("lamp{turn}?")).await;
        run.outcome().await.unwrap();
        let events = told(&run).await.into_iter();
        reports.extend(
            events
                .filter(|(name, _)| name == "context_prefix")
                .map(|(_, data)| data),
        );
    }
    stage.check();
    let requests = stage.model.requests();
    for (number, request) in requests.iter().enumerate() {
        let messages = request.conversation.messages();
        let last = messages.last().unwrap();
        let turn = number / 2;
        // It reaches the request, at its end, as a user's words, and marked as what it is.
        assert_eq!(last.role, Role::User);
        let text = last.content();
        assert!(text.contains("[Recalled for this;"), "{text}");
        // Asked once for each question, not once for each step.
        assert!(
            text.contains(&format!("recall {} for lamp{turn}?", turn + 1)),
            "{text}"
        );
        let recalled = messages
            .iter()
            .filter(|said| said.content().contains("[Recalled"))
            .count();
        assert_eq!(recalled, 1);
        assert!(
            Estimate.request(request) <= 1_000,
            "{}",
            Estimate.request(request)
        );
        // Users' and the model's messages alternate.
        let doubled = messages
            .windows(2)
            .any(|pair| (pair[0].role, pair[1].role) == (Role::User, Role::User));
        assert!(!doubled, "{messages:#?}");
    }
    // All of a turn's first request is the beginning of its second: what is recalled stands after it.
    assert_eq!(reports.len(), 24);
    let mut moved = 0;
    for pair in reports.chunks(2) {
        match pair[1]["tokens"].as_u64() > pair[0]["tokens"].as_u64() {
            true => assert_eq!(pair[1]["stable_tokens"], pair[0]["tokens"], "{pair:?}"),
            // The window moved in between.
            false => moved += 1,
        }
    }
    assert!(moved <= 3, "{moved}");
}

#[tokio::test(start_paused = true)]
async fn the_list_of_what_is_to_be_done_is_at_the_end_and_the_beginning_stays() {
    let todo = json!({ "todos": [{ "id": "1", "content": "look", "status": "pending" }] });
    let agent = desk("function_calling", json!({}))
        .tool(echo())
        .instructions("Be brief.");
    let agent = talking(agent.watched_by(PolicySpec::new("todos")));
    let replies: Vec<Reply> = vec![
        call("t", "todo_write", todo).into(),
        echo_call("a", "x").into(),
        "done".into(),
        "later".into(),
    ];
    let stage = Stage::of(agent, replies).await;
    stage.ask("go").await;
    stage.ask("and?").await;
    for number in 1..4 {
        let request = stage.request(number);
        assert_eq!(&*request.instructions, "Be brief.");
        let last = request.conversation.last().unwrap();
        assert!(last.content().ends_with("[ ] 1: look\n"), "{last:?}");
        let earlier = request.conversation.messages();
        let earlier = &earlier[..earlier.len() - 1];
        assert!(
            !earlier
                .iter()
                .any(|said| said.content().contains("1: look"))
        );
    }
    // What the user said and the list are one message.
    assert!(
        stage.last(3).starts_with("user: and? | ["),
        "{}",
        stage.last(3)
    );
}

#[tokio::test(start_paused = true)]
async fn after_a_transfer_what_another_agent_said_reads_as_such() {
    let clerk = Agent::new("clerk").context(context(4_000).other_agents(OtherAgents::AsTold));
    let front = desk("function_calling", json!({}))
        .tool(echo())
        .agent(clerk);
    let transfer = json!({ "request": "answer" });
    let replies: Vec<Reply> = vec![
        echo_call("a", "found it").into(),
        call("t", "transfer_to_clerk", transfer).into(),
        "from the clerk".into(),
    ];
    let stage = Stage::of(talking(front), replies).await;
    assert_eq!(stage.ask("go").await.text(), "from the clerk");
    let request = stage.request(2);
    let messages = request.conversation.messages();
    assert!(
        messages.iter().all(|said| said.role == Role::User),
        "{messages:#?}"
    );
    let said = stage.said(2).join("\n");
    assert!(
        said.contains("[message from agent \"desk\"]\nit calls echo("),
        "{said}"
    );
    assert!(said.contains("echo: found it"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn siblings_see_nothing_of_each_other() {
    let team = || {
        let part = |name: &str| Agent::new(name).instructions(format!("I am {name}."));
        Agent::from_fn("desk", |cx: RunContext| async move {
            let (a, b) = futures_util::future::join(
                cx.delegate("one", "the task"),
                cx.delegate("two", "the task"),
            )
            .await;
            let third = cx.delegate("three", "the task").await?;
            Ok(Outcome::answer(format!(
                "{} {} {}",
                a?.text, b?.text, third.text
            )))
        })
        .agent(part("one"))
        .agent(part("two"))
        .agent(part("three"))
    };
    let model = ScriptedModel::from_fn(|request, _| {
        Ok(ModelResponse::text(format!(
            "said by {}",
            request.instructions
        )))
    });
    let stage = Stage::with(talking(team()), model).await;
    stage.ask("go").await;
    for request in stage.model.requests() {
        let messages = request.conversation.messages();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert_eq!(messages[0].content(), "the task");
    }
}

#[tokio::test(start_paused = true)]
async fn a_built_context_is_compressed_by_a_model_where_it_does_not_fit() {
    let agent = Agent::from_fn("desk", |cx: RunContext| async move {
        let found = |place: u32| {
            let text = format!(
                "Parcel {place} of yours is in a city. {}",
                "Parcel yours. ".repeat(30)
            );
            Packet::new(PacketSource::Retrieved, text)
        };
        let system = Packet::new(PacketSource::System, "You answer for a carrier.");
        let packets = [system].into_iter().chain((0..10).map(found));
        let builder = ContextBuilder::new(300);
        let built = builder
            .build_compressed(&cx, "Where is a parcel of yours?", packets)
            .await?;
        assert!(built.tokens <= 240);
        Ok(Outcome::answer(format!(
            "{} {}",
            built.is_compressed, built.text
        )))
    });
    let stage = Stage::of(talking(agent), ["Ten parcels are in a city."]).await;
    let outcome = stage.ask("go").await;
    assert!(
        outcome
            .text()
            .starts_with("true [Role & Policies]\nYou answer"),
        "{}",
        outcome.text()
    );
    assert!(
        outcome.text().ends_with("Ten parcels are in a city."),
        "{}",
        outcome.text()
    );
    let asked = stage.said(0).join("\n");
    assert!(
        asked.contains("parcel 9 of yours") && asked.contains("<task>"),
        "{asked}"
    );
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_commit_what_was_moved_is_moved_once_and_read_back() {
    let scenario = Scenario::new("desk", |builder, log| {
        let look = ToolDefinition::new("look", "is logged").effect(Effect::Read);
        let agent = Agent::new("desk")
            .tool(log.tool(look, std::time::Duration::from_millis(10)))
            .tool(echo())
            .policy("memory", || Recall::new(Memory).max_tokens(60))
            .context(spilling());
        let read = json!({ "name": "results/echo", "version": 1, "find": "word222" });
        let replies: Vec<Reply> = vec![
            echo_call("a", &long_text()).into(),
            call("r", READ_RESULT, read).into(),
            call("l", "look", json!({})).into(),
            "done".into(),
            "done again".into(),
        ];
        builder
            .registry(builtin())
            .model("default", ScriptedModel::turns(replies))
            .team(agent.into_team().unwrap())
    })
    .turn("a lamp?")
    .turn("another lamp?");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.commits > 10, "{report}");
}
