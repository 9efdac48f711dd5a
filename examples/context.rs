//! Contexts: the tokens that each strategy saves on a recorded conversation, and a prompt of chosen pieces (takes 10 s).
//!
//!     cargo run --example context
//!
//! A parcel desk's conversation of 40 turns with their tools' results is repeated with each strategy. The model is
//! scripted, so it costs nothing, and the conversation itself stays whole in the session.
#![allow(clippy::print_stdout)]

use std::{collections::BTreeMap, error::Error};

use ghostlight::{
    builtin,
    context::{
        ContextBuilder, ContextItem, ContextItemSource, Estimate, PrefixReport, Relevance,
        StablePrefix, TokenCounter, cosine,
    },
    contract::ToolHandle,
    definition::{
        Compact, ContextSpec, ContextStrategy, SlidingWindow, Spill, Summarize, TokenCounting,
    },
    prelude::*,
    vocabulary::{Message, Role, ToolDefinition},
};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    savings().await?;
    built().await?;
    Ok(())
}

const MAX_TOKENS: u32 = 8_000;

/// The conversation that is said again.
struct Recorded {
    questions: Vec<Message>,
    said: Vec<Message>,
    results: BTreeMap<String, String>,
}

impl Recorded {
    fn read() -> Result<Self, serde_json::Error> {
        let lines = include_str!("conversations/parcels.jsonl").lines();
        let messages: Vec<Message> = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
        let calls = messages.iter().flat_map(Message::tool_calls);
        let results = messages.iter().flat_map(Message::tool_results);
        let results = calls.zip(results).map(|(call, result)| {
            let asked = call.arguments.value().unwrap_or(&Value::Null);
            (format!("{} {asked}", call.name), result.text.clone())
        });
        let results = results.collect();
        let of = |role: Role| {
            messages
                .iter()
                .filter(move |said| said.role == role)
                .cloned()
        };
        Ok(Self {
            questions: of(Role::User).collect(),
            said: of(Role::Assistant).collect(),
            results,
        })
    }

    /// The tool of this name, as it answered then.
    fn tool(&self, name: &'static str) -> ToolHandle {
        let results = self.results.clone();
        let definition = ToolDefinition::new(name, "Answers as it did.").effect(Effect::Read);
        let definition = definition.parameters(serde_json::json!({ "type": "object" }));
        tool_fn(definition, move |asked: Value| {
            let found = results.get(&format!("{name} {asked}")).cloned();
            async move { found.ok_or_else(|| ToolError::new("this was not asked then")) }
        })
    }
}

fn is_summary(request: &ModelRequest) -> bool {
    request.instructions.starts_with("You keep the memory")
}

/// All requests of the conversation with this context.
async fn requests(context: ContextSpec) -> Result<Vec<ModelRequest>, Box<dyn Error>> {
    let recorded = Recorded::read()?;
    let said = recorded.said.clone();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let model = ScriptedModel::from_fn(move |request, _| {
        if is_summary(request) {
            let summary = "Parcels were looked for; what was found was told. ".repeat(10);
            return Ok(ModelResponse::text(summary));
        }
        let place = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(ModelResponse::new(said[place % said.len()].clone()))
    });
    let mut desk = Agent::new("desk")
        .instructions("You answer for a carrier.")
        .context(context.counting(TokenCounting::Estimate));
    for tool in ["track", "read_policy", "note"] {
        desk = desk.tool(recorded.tool(tool));
    }
    let system = System::builder(InMemoryStore::new())
        .registry(builtin())
        .model("default", model.clone())
        .team(desk.into_team()?)
        .start()
        .await?;
    let session = system.session("desk", "ada");
    for question in recorded.questions {
        session
            .send(question.content().as_str())
            .await?
            .outcome()
            .await?;
    }
    system.stop().await?;
    Ok(model.requests())
}

/// Repeats the conversation with each strategy, and counts the tokens of all requests.
async fn savings() -> Result<(), Box<dyn Error>> {
    let with = |strategies: Vec<ContextStrategy>| {
        strategies
            .into_iter()
            .fold(ContextSpec::new(MAX_TOKENS), ContextSpec::strategy)
    };
    let compact = || ContextStrategy::Compact(Compact::default());
    let summarize = || {
        ContextStrategy::Summarize(Summarize {
            max_summary_tokens: 500,
            ..Summarize::default()
        })
    };
    let window = || ContextStrategy::TokenWindow;
    let turns = ContextStrategy::SlidingWindow(SlidingWindow {
        turns: 5,
        ..SlidingWindow::default()
    });
    let spill = Spill {
        above_tokens: 300,
        keep_tokens: 100,
    };
    let all = vec![compact(), summarize(), window()];
    let contexts = [
        ("none", ContextSpec::new(u32::MAX)),
        ("sliding_window, 5 turns", with(vec![turns])),
        ("token_window", with(vec![window()])),
        ("compact, token_window", with(vec![compact(), window()])),
        ("summarize, token_window", with(vec![summarize(), window()])),
        ("compact, summarize, token_window", with(all.clone())),
        ("spill", ContextSpec::new(u32::MAX).spill(spill)),
        ("spill and all", with(all).spill(spill)),
    ];
    println!("| context | tokens sent | saved | largest request | summaries | stable |");
    println!("|---|---:|---:|---:|---:|---:|");
    let mut most = 0;
    for (name, context) in contexts {
        let requests = requests(context).await?;
        let tokens: u64 = requests
            .iter()
            .map(|request| Estimate.request(request))
            .sum();
        most = most.max(tokens);
        let answers: Vec<&ModelRequest> = requests
            .iter()
            .filter(|request| !is_summary(request))
            .collect();
        let largest = answers
            .iter()
            .map(|request| Estimate.request(request))
            .max();
        let mut prefix = StablePrefix::default();
        let reports: Vec<PrefixReport> = answers
            .iter()
            .map(|request| prefix.observe(request, &Estimate))
            .collect();
        let stable: u64 = reports.iter().map(|report| report.stable_tokens).sum();
        let asked: u64 = reports.iter().map(|report| report.tokens).sum();
        println!(
            "| {name} | {tokens} | {}% | {} | {} | {}% |",
            100 - tokens * 100 / most.max(1),
            largest.unwrap_or(0),
            requests.len() - answers.len(),
            stable * 100 / asked.max(1),
        );
    }
    Ok(())
}

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

/// The pieces that concern the task are selected, by meaning and not by words, and put under headings.
async fn built() -> Result<(), ghostlight::Error> {
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
