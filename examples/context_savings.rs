//! What each strategy saves: a recorded conversation of a parcel desk, 40 turns with their tools'
//! results, is repeated with each strategy, and the tokens of all requests are counted.
//!
//!     cargo run --example context_savings
#![allow(clippy::print_stdout)]

use std::{collections::BTreeMap, error::Error};

use ghostlight::{
    builtin,
    context::{Estimate, PrefixReport, StablePrefix, TokenCounter},
    contract::ToolHandle,
    definition::{
        Compact, ContextSpec, ContextStrategy, SlidingWindow, Spill, Summarize, TokenCounting,
    },
    prelude::*,
    vocabulary::{Message, Role, ToolDefinition},
};
use serde_json::Value;

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

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
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
