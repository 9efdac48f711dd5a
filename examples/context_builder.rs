//! A prompt built from gathered pieces: those that concern the task are selected, by meaning and not by
//! words, and put under headings.
//!
//!     cargo run --example context_builder
#![allow(clippy::print_stdout)]

use ghostlight::{
    context::{ContextBuilder, ContextItem, ContextItemSource, Relevance, cosine},
    prelude::*,
};

/// Compares texts by vectors. Those of this example count words about parcels and about lunch; ask an
/// embedding server for better ones.
struct Embedded;

fn embed(text: &str) -> Vec<f32> {
    let topics = [
        ["parcel", "consignment", "delivery"],
        ["lunch", "canteen", "soup"],
    ];
    let text = text.to_lowercase();
    let count = |words: &[&str]| words.iter().filter(|word| text.contains(**word)).count();
    topics.iter().map(|words| count(words) as f32).collect()
}

impl Relevance for Embedded {
    async fn relevance(
        &self,
        cx: &RunContext,
        task: &str,
        texts: &[&str],
    ) -> Result<Vec<f64>, AgentError> {
        let all: Vec<String> = [task]
            .iter()
            .chain(texts)
            .map(|text| (*text).to_owned())
            .collect();
        // What asks the world is a step: recorded, and not asked again after a crash.
        let vectors = cx.step("embed", Effect::Read, async move {
            Ok::<_, String>(all.iter().map(|text| embed(text)).collect::<Vec<_>>())
        });
        let vectors = vectors.await?;
        let (task, texts) = vectors.split_first().ok_or(AgentError::Ended)?;
        Ok(texts.iter().map(|text| cosine(task, text)).collect())
    }
}

async fn answer(cx: RunContext) -> Result<Outcome, AgentError> {
    let found = |text| ContextItem::new(ContextItemSource::Retrieved, text);
    let packets = [
        ContextItem::new(ContextItemSource::System, "You answer for a carrier."),
        found("The canteen has soup today."),
        found("Consignment 7 is in Ulm, delivery tomorrow."),
    ];
    let builder = ContextBuilder::new(500).scored_by(Embedded);
    let task = cx.input().content();
    let built = builder.build_compressed(&cx, &task, packets).await?;
    println!(
        "{}\n({} tokens, {} left out)",
        built.text, built.tokens, built.left_out
    );
    Ok(Outcome::answer(built.text))
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let system = System::builder(InMemoryStore::new())
        .model("default", OfflineModel)
        .team(Agent::from_fn("desk", answer).into_team()?)
        .start()
        .await?;
    let run = system
        .session("desk", "ada")
        .send("Where is my parcel?")
        .await?;
    run.outcome().await?;
    system.stop().await
}
