//! A graph of steps over a state: a text is drafted, checked from two sides at once, and drafted
//! again until both are content.
//!
//!     cargo run --example graph
//!
//! The graph is checked before it runs, can be drawn, and goes on after a crash in the node where it
//! was.
#![allow(clippy::print_stdout)]

use ghostlight::{
    prelude::*,
    workflows::{END, StateGraph},
};

#[derive(Clone, Default)]
struct Text {
    words: u32,
    objections: Vec<String>,
    drafts: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::new("draft")
        .node("draft", |cx: RunContext, mut text: Text| async move {
            // What is random in a run is drawn through its context, so that it is the same in replay.
            text.words = 80 + (cx.random().await? * 60.0) as u32 - 20 * text.drafts.min(3);
            text.drafts += 1;
            text.objections.clear();
            Ok(text)
        })
        .node("length", |_, mut text: Text| async move {
            if text.words > 100 {
                text.objections
                    .push(format!("{} words are too many", text.words));
            }
            Ok(text)
        })
        .node("style", |_, mut text: Text| async move {
            if text.drafts < 2 {
                text.objections
                    .push("a first draft is never good".to_owned());
            }
            Ok(text)
        })
        .node("judge", |cx: RunContext, text: Text| async move {
            cx.emit("objections", &text.objections);
            Ok(text)
        })
        .fork(
            "draft",
            ["length", "style"],
            "judge",
            |mut draft: Text, views| {
                draft.objections = views.into_iter().flat_map(|view| view.objections).collect();
                draft
            },
        )
        .edge("length", "judge")
        .edge("style", "judge")
        .route("judge", ["draft", END], |text| {
            let next = if text.objections.is_empty() {
                END
            } else {
                "draft"
            };
            next.to_owned()
        })
        .max_steps(40)
        .compile()?;
    println!("{}", graph.mermaid());

    let author = Agent::new("author").behavior(graph.into_behavior(
        |_| Text::default(),
        |text| format!("{} words after {} drafts", text.words, text.drafts),
    ));
    let system = System::builder(InMemoryStore::new())
        .team(author.into_team()?)
        .start()
        .await?;
    let run = system.session("author", "ada").send("Write.").await?;
    let mut events = run.events().recorded();
    while let Some(event) = events.next().await {
        println!("{}", event?);
    }
    system.stop().await?;
    Ok(())
}
