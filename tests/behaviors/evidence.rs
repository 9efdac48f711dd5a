//! What counts as evidence, and what a model cannot make up itself.

use ghostlight::{
    policies::{CitedAnswers, Verification},
    testing::ScriptedModel,
};
use ghostlight_actors::{
    run::Agent,
    testing::Reply,
    vocabulary::{Effect, ModelResponse, ToolCall, ToolDefinition},
};
use serde_json::{Value, json};

use crate::stage::{Stage, call, desk, echo, echo_call, tool};

fn agent() -> Agent {
    desk("function_calling", json!({})).tool(echo())
}

/// Whether these results are evidence from two sources.
async fn satisfies(agent: Agent, calls: Vec<ToolCall>) -> bool {
    let agent = agent
        .max_rejections(1)
        .policy("verification", || Verification::default().min_sources(2));
    let replies: Vec<Reply> = vec![calls.into(), "answer".into(), "answer".into()];
    let outcome = Stage::of(agent, replies).await.ask("go").await;
    outcome.as_answer().unwrap().flagged.is_none()
}

#[tokio::test(start_paused = true)]
async fn searches_that_found_nothing_are_no_sources_whatever_they_say_of_themselves() {
    let search = |query: &str, rest: Value| {
        let mut said = json!({ "url": format!("https://s.example/?q={query}") });
        let fields = rest.as_object().unwrap().clone();
        said.as_object_mut().unwrap().extend(fields);
        echo_call(query, &said.to_string())
    };
    for nothing in [
        json!({ "results": [] }),
        json!({ "total": 0 }),
        json!({ "hits": null, "text": "Results of the search" }),
        json!({ "text": "No results." }),
    ] {
        let calls = ["a", "b"].map(|query| search(query, nothing.clone()));
        assert!(!satisfies(agent(), calls.into()).await, "{nothing}");
    }
    let results = |at: &str| json!({ "results": [{ "url": at, "snippet": "It costs 5." }] });
    let calls = [
        search("a", results("https://a")),
        search("b", results("https://b")),
    ];
    assert!(satisfies(agent(), calls.into()).await);
}

#[tokio::test(start_paused = true)]
async fn a_place_counts_once_and_an_empty_page_does_not() {
    let reads = |name: &'static str, text: &'static str| {
        let definition = ToolDefinition::new(name, "Reads.").effect(Effect::Read);
        agent().tool(tool(definition, move |_| text.to_owned()))
    };
    for (one, other) in [
        (json!({ "path": "a.md" }), json!({ "path": "./a.md" })),
        (
            json!({ "url": "https://s.example/#a" }),
            json!({ "url": "http://s.example#b" }),
        ),
    ] {
        let calls = vec![call("1", "read_page", one), call("2", "read_page", other)];
        assert!(!satisfies(reads("read_page", "It costs 5."), calls).await);
    }
    let pages = ["https://a.example", "https://b.example"];
    let calls = || {
        pages
            .map(|at| call(at, "web_fetch", json!({ "url": at })))
            .into()
    };
    assert!(!satisfies(reads("web_fetch", "200 OK https://a.example/\n\n"), calls()).await);
    assert!(satisfies(reads("web_fetch", "It costs 5."), calls()).await);
}

#[tokio::test(start_paused = true)]
async fn what_a_model_wrote_itself_is_no_evidence() {
    let acts = |name: &'static str| {
        tool(ToolDefinition::new(name, "Acts."), |arguments: Value| {
            arguments["text"].as_str().unwrap_or_default().to_owned()
        })
    };
    let read = ToolDefinition::new("read_file", "Reads.").effect(Effect::Read);
    let read = tool(read, |_| "It costs 5.".to_owned());
    let passage = |label: &str| json!({ "text": format!("[{label}] {label}.md\n| It costs 5.") });
    for own in ["board", "run_command", "read_process", "delegate_to_x"] {
        let calls = ["x1", "x2"].map(|label| call(label, own, passage(label)));
        assert!(
            !satisfies(agent().tool(acts(own)), calls.into()).await,
            "{own}"
        );
    }
    let agent = || agent().tool(acts("write_file")).tool(read.clone());
    let write = |path: &str| {
        let arguments = json!({ "path": path, "content": "It costs 5." });
        call(&format!("write {path}"), "write_file", arguments)
    };
    let read = |path: &str| call(path, "read_file", json!({ "path": path }));
    let calls = vec![
        write("docs/a.md"),
        write("b.md"),
        read("./docs/a.md"),
        read("b.md"),
    ];
    assert!(!satisfies(agent(), calls).await);
    assert!(satisfies(agent(), vec![write("c.md"), read("a.md"), read("b.md")]).await);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_was_written_in_the_run_cannot_be_cited() {
    let write = tool(ToolDefinition::new("write_file", "Writes."), |_| {
        "done".to_owned()
    });
    let agent = agent()
        .tool(write)
        .max_rejections(2)
        .policy("cited_answers", CitedAnswers::default);
    let written = json!({ "path": "docs/a.md", "content": "Runs can never be cancelled." });
    let replies: Vec<Reply> = vec![
        call("1", "write_file", written).into(),
        echo_call(
            "2",
            "[k3f9a] docs/a.md > Runs (line 1)\n| Runs can never be cancelled.",
        )
        .into(),
        "Runs can never be cancelled [k3f9a].".into(),
        "Runs can never be cancelled [k3f9a].".into(),
        "Runs can never be cancelled [k3f9a].".into(),
    ];
    let stage = Stage::of(agent, replies).await;
    let outcome = stage.ask("go").await;
    assert!(
        outcome.as_answer().unwrap().flagged.is_some(),
        "{outcome:?}"
    );
    assert!(
        stage.last(3).contains("written in this run"),
        "{}",
        stage.last(3)
    );
}

#[tokio::test(start_paused = true)]
async fn every_cited_sentence_is_judged_however_many_there_are() {
    let draft = |sentences: u32| {
        let said = (1..=sentences).map(|_| "Parcels are brought by noon [k3f9a].");
        said.collect::<Vec<_>>().join(" ")
    };
    for (sentences, wrong) in [(41, 41), (100, 81), (100, 3)] {
        let model = ScriptedModel::from_fn(move |request, number| {
            let last = request.conversation.last().unwrap().content();
            if !last.contains("numbered sentences of an answer") {
                return Ok(match number {
                    0 => ModelResponse::tool_calls([echo_call(
                        "1",
                        "[k3f9a] faq.md > Parcels (line 3)\n| Parcels are brought by noon.",
                    )]),
                    _ if last.contains("not so") => ModelResponse::text("Noon [k3f9a]."),
                    _ => ModelResponse::text(draft(sentences)),
                });
            }
            // The judge finds one sentence wrong: the first of its request that is this one.
            let judged = request.conversation.len();
            assert_eq!(judged, 1);
            let count = last.matches(" [k3f9a]\n").count() as u32;
            let before = number.saturating_sub(2) as u32 * 40;
            let place = wrong - before.min(wrong);
            let is_here = (1..=count).contains(&place) && last.contains("1. Parcels");
            let found = if is_here {
                json!([{ "sentence": place, "why": "not so" }])
            } else {
                json!([])
            };
            Ok(ModelResponse::text(
                json!({ "unsupported": found }).to_string(),
            ))
        });
        let agent = agent().policy("cited_answers", || CitedAnswers::default().judged());
        let stage = Stage::with(agent, model).await;
        let outcome = stage.ask("When?").await;
        assert_eq!(outcome.text(), "Noon [k3f9a].", "{sentences}, {wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_names_a_sentence_that_is_not_there_has_not_judged() {
    let model = ScriptedModel::from_fn(|request, number| {
        let last = request.conversation.last().unwrap().content();
        Ok(match number {
            0 => ModelResponse::tool_calls([echo_call("1", "[k3f9a] faq.md\n| By noon.")]),
            _ if last.contains("numbered sentences of an answer") => {
                ModelResponse::text(r#"{"unsupported": [{"sentence": 7, "why": "no"}]}"#)
            }
            _ => ModelResponse::text("By noon [k3f9a]."),
        })
    });
    let agent = agent().policy("cited_answers", || CitedAnswers::default().judged());
    let outcome = Stage::with(agent, model).await.ask("When?").await;
    assert!(
        outcome.as_answer().unwrap().flagged.is_some(),
        "{outcome:?}"
    );
}
