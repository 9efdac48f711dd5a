//! What stands beyond the conversation: results that were moved out of it, what is recalled for it,
//! what is to be done, what other agents said, and a report of what stays the same.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ghostlight::{
    builtin,
    context::{
        ContextBuilder, ContextItem, ContextItemSource, ContextProvider, ContextSource, Estimate,
        READ_RESULT, Relevance, TokenCounter, cosine,
    },
    tools::tool_fn,
};
use ghostlight_actors::{
    definition::{ContextSpec, ContextStrategy, OtherAgents, Spill, TokenCounting},
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
    assert!(last_result(&stage.request(3)).contains("is not a moved result"));
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
        .policy("memory", || ContextProvider::new(Memory).max_tokens(60))
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
    let agent = talking(agent.policy("todos", json!({})));
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
            ContextItem::new(ContextItemSource::Retrieved, text)
        };
        let system = ContextItem::new(ContextItemSource::System, "You answer for a carrier.");
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

/// Knows which words mean the same: what an embedder knows.
struct Meaning(Arc<AtomicUsize>);

impl Relevance for Meaning {
    async fn relevance(
        &self,
        cx: &RunContext,
        task: &str,
        texts: &[&str],
    ) -> Result<Vec<f64>, AgentError> {
        let all = [task].into_iter().chain(texts.iter().copied());
        let all: Vec<String> = all.map(str::to_lowercase).collect();
        let asked = self.0.clone();
        let vectors = cx.step("embed", Effect::Read, async move {
            asked.fetch_add(1, Ordering::Relaxed);
            let about = |text: &String, words: &[&str]| {
                f32::from(u8::from(words.iter().any(|word| text.contains(word))))
            };
            let vector = |text: &String| {
                [
                    about(text, &["parcel", "consignment"]),
                    about(text, &["lunch", "canteen"]),
                ]
            };
            Ok::<_, String>(all.iter().map(vector).collect::<Vec<_>>())
        });
        let vectors = vectors.await?;
        let (task, texts) = vectors.split_first().ok_or(AgentError::Ended)?;
        Ok(texts.iter().map(|text| cosine(task, text)).collect())
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_to_do_with_a_task_is_what_ones_own_scorer_says_also_over_a_crash() {
    let asked = Arc::new(AtomicUsize::new(0));
    let agent = {
        let asked = asked.clone();
        move || {
            let asked = asked.clone();
            Agent::from_fn("desk", move |cx: RunContext| {
                let asked = asked.clone();
                async move {
                    let builder = ContextBuilder::new(400).scored_by(Meaning(asked));
                    let packet = |text| ContextItem::new(ContextItemSource::Retrieved, text);
                    let packets = [
                        ContextItem::new(ContextItemSource::System, "You answer for a carrier."),
                        packet("The consignment is in Ulm."),
                        packet("The canteen closes where it is."),
                        packet("By hand.").relevance(0.9),
                    ];
                    let task = "Where is the parcel?";
                    let built = builder.build_compressed(&cx, task, packets).await?;
                    cx.sleep(std::time::Duration::from_secs(1)).await?;
                    Ok(Outcome::answer(built.text))
                }
            })
        }
    };
    let stage = Stage::of(talking(agent()), ["unused"]).await;
    let text = stage.ask("go").await.text().to_owned();
    assert!(
        text.contains("in Ulm") && text.contains("By hand"),
        "{text}"
    );
    assert!(!text.contains("canteen"), "{text}");
    assert_eq!(
        asked.load(Ordering::Relaxed),
        1,
        "all texts are asked of at once"
    );
    let scenario = Scenario::new("desk", move |builder, _| {
        builder.team(agent().into_team().unwrap())
    });
    let report = crash_everywhere(&scenario.turn("go"), CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_scorer_that_says_too_little_fails_the_run_with_what_it_must_say() {
    struct Mute;
    impl Relevance for Mute {
        async fn relevance(
            &self,
            _: &RunContext,
            _: &str,
            _: &[&str],
        ) -> Result<Vec<f64>, AgentError> {
            Ok(Vec::new())
        }
    }
    let agent = Agent::from_fn("desk", |cx: RunContext| async move {
        let packet = ContextItem::new(ContextItemSource::Memory, "x");
        let builder = ContextBuilder::new(100).scored_by(Mute);
        let built = builder.scored(&cx, "y", [packet]).await?;
        Ok(Outcome::answer(built.len().to_string()))
    });
    let stage = Stage::of(talking(agent), ["unused"]).await;
    let error = stage.try_ask("go").await.unwrap_err().to_string();
    assert!(
        error.contains("of 1 texts was asked, and 0 numbers came"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn results_read_in_other_words_in_turn_and_requests_go_on_as_they_began() {
    let replies: Vec<Reply> = (0..5)
        .map(|place| echo_call(&format!("c{place}"), &format!("found {place}")).into())
        .chain(["done".into(), "and?".into()])
        .collect();
    let phrasings = [
        "{result}",
        "What {tool} says: {result}",
        "{result} (from {tool})",
    ];
    let agent = desk("function_calling", json!({}))
        .tool(echo())
        .context(context(5_000).phrasings(phrasings).reported());
    let stage = Stage::of(talking(agent), replies).await;
    let run = stage.say("go").await;
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    stage.check();
    let messages = stage.request(5).conversation.messages();
    let results = messages.iter().flat_map(|said| said.tool_results());
    let results: Vec<&str> = results.map(|result| result.text.as_str()).collect();
    assert_eq!(
        results,
        [
            "found 0",
            "What echo says: found 1",
            "found 2 (from echo)",
            "found 3",
            "What echo says: found 4",
        ]
    );
    let reports = told(&run).await.into_iter();
    let reports = reports.filter(|(name, _)| name == "context_prefix");
    let reports: Vec<Value> = reports.map(|(_, data)| data).collect();
    for pair in reports.windows(2) {
        assert_eq!(pair[1]["stable_tokens"], pair[0]["tokens"], "{pair:?}");
    }
    // The conversation keeps what the tools said.
    let kept = stage
        .system
        .session("desk", "session")
        .transcript()
        .await
        .unwrap();
    let kept = kept.messages();
    let mut kept = kept.iter().flat_map(|said| said.tool_results());
    assert!(kept.all(|result| result.text.starts_with("found") && result.text.len() == 7));
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_commit_what_was_moved_is_moved_once_and_read_back() {
    let scenario = Scenario::new("desk", |builder, log| {
        let look = ToolDefinition::new("look", "is logged").effect(Effect::Read);
        let agent = Agent::new("desk")
            .tool(log.tool(look, std::time::Duration::from_millis(10)))
            .tool(echo())
            .policy("memory", || ContextProvider::new(Memory).max_tokens(60))
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

#[tokio::test(start_paused = true)]
async fn a_long_result_that_is_the_answer_is_not_moved() {
    let definition = ToolDefinition::new("report", "Writes the report.")
        .effect(Effect::Read)
        .ends_step();
    let report = tool_fn(definition, |_: Value| async move { Ok(long_text()) });
    let agent = talking(
        desk("function_calling", json!({}))
            .tool(report)
            .context(spilling()),
    );
    let replies = [Reply::from(call("a", "report", json!({})))];
    let stage = Stage::of(agent, replies).await;
    let outcome = stage.ask("go").await;
    assert_eq!(outcome.text(), long_text());
}

#[tokio::test(start_paused = true)]
async fn what_a_loop_says_is_not_recalled_for() {
    // The first turn says nothing, and the loop asks for the answer.
    let agent =
        desk("function_calling", json!({})).policy("memory", || ContextProvider::new(Memory));
    let replies = [" ", "done"];
    let stage = Stage::of(talking(agent), replies).await;
    stage.ask("lamp?").await;
    let last = stage.last(1);
    assert!(last.contains("recall 1 for lamp?"), "{last}");
}
