//! A folder is indexed, searched and cited, and an invented statement is sent back (takes 1 s).
//!
//!     cargo run --features retrieval --example documents
#![allow(clippy::print_stdout)]

use std::fs;

use ghostlight::{
    documents::{DocumentSearch, DocumentSpec, IndexedFolder},
    models::EmbedderSpec,
    policies::CitedAnswers,
    prelude::*,
    retrieval::readers::Readers,
    vocabulary::ToolCall,
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    fs::create_dir_all("handbook")?;
    fs::write(
        "handbook/parcels.md",
        "# Parcels\n\nParcels are brought by noon. A parcel costs 5 euros.\n",
    )?;
    fs::write(
        "handbook/letters.html",
        "<h1>Letters</h1><p>A letter is brought by bicycle.</p>",
    )?;
    fs::write(
        "handbook/cities.csv",
        "city,office\nBern,Bollwerk 8\nBasel,Gartenstrasse 2\n",
    )?;

    let mut settings = DocumentSpec::new("handbook");
    settings.embedder = Some(EmbedderSpec::default());
    let folder = IndexedFolder::new(settings, Readers::default())?;

    // The same folder without an agent.
    let searcher = folder.searcher().await?;
    for question in ["When do parcels come?", "office in Basel"] {
        let query = ghostlight::retrieval::index::Query::new(question).limit(1);
        for found in searcher.search(&query).await?.found {
            println!(
                "{question} → {}: {}",
                found.source(),
                found.text.replace('\n', ", ")
            );
        }
    }

    // The model is scripted: it makes up a price first, then it says what it found.
    let model = ScriptedModel::from_fn(|request, number| {
        let messages = request.conversation.messages();
        let results = messages.iter().flat_map(|message| message.tool_results());
        let label = results
            .last()
            .and_then(|result| result.text.get(1..6))
            .unwrap_or("")
            .to_owned();
        Ok(match number {
            0 => {
                let arguments = json!({ "query": "price of a parcel" });
                ModelResponse::tool_calls([ToolCall::new("1", "handbook", arguments)])
            }
            1 => ModelResponse::text(format!("A parcel costs 7 euros [{label}].")),
            _ => ModelResponse::text(format!("A parcel costs 5 euros [{label}].")),
        })
    });
    let clerk = Agent::new("clerk")
        .tool(DocumentSearch::new("handbook", folder.clone()))
        .policy("cited answers", || CitedAnswers::default().required());
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model)
        .team(clerk.into_team()?)
        .start()
        .await?;
    let run = system
        .session("clerk", "ada")
        .send("What is a parcel?")
        .await?;
    println!("\n{}\n", run.outcome().await?.text());
    for record in run.events().so_far().await? {
        println!("    {record}");
    }
    system.stop().await?;
    Ok(())
}
