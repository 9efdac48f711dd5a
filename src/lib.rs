//! Teams of LLM agents as supervised actors that survive anything.
//!
//! Kill the process at any instant and start it again: every run continues from what was last
//! recorded. No tool call whose result is recorded runs again, no `once` call runs twice at all, no
//! cancelled run wakes up, and no question that a person answered is asked again, except for
//! credentials, which are in memory only.
//!
#![cfg_attr(all(feature = "openai", feature = "sqlite"), doc = "```no_run")]
#![cfg_attr(not(all(feature = "openai", feature = "sqlite")), doc = "```ignore")]
//! use ghostlight::prelude::*;
//!
//! /// Adds VAT to a net price.
//! #[tool(effect = "read")]
//! async fn add_vat(net: f64, percent: f64) -> Result<f64, ToolError> {
//!     Ok(net * (100.0 + percent) / 100.0)
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), ghostlight::Error> {
//!     let billing = Agent::new("billing").description("prices, VAT, invoices").tool(add_vat);
//!     let desk = Agent::new("desk").instructions("Leave prices to billing.").delegate_to(billing);
//!     let system = System::open("desk.db")?
//!         .model("default", OpenAi::from_env()?)
//!         .team(desk.into_team()?)              // names, references and the tree are checked here
//!         .start().await?;                      // open runs continue from their records
//!
//!     let turn = Turn::text("80 euro with 19% VAT?").id("question-1");   // sent twice is one run
//!     let run = system.session("desk", "customer-42").send(turn).await?; // or Overloaded, at once
//!     let mut events = run.events();                                     // from the first, then live
//!     while let Some(event) = events.next().await {
//!         println!("{}", event?);
//!     }
//!     println!("{}", run.outcome().await?.text());
//!     system.stop().await
//! }
//! ```
//!
//! Kill it and start it again: same program, same answer, nothing done twice. Without a key, put
//! [`OfflineModel`](models::OfflineModel) where `OpenAi` stands: it is not a neural network, but it
//! routes questions, calls tools and repeats their results, always in the same way.
//!
//! # The one idea
//!
//! An agent is an ordinary async function that touches the world only through its
//! [`RunContext`](run::RunContext), and everything that passes through is recorded in a journal.
//!
//! ```
//! use ghostlight::prelude::*;
//!
//! async fn review(cx: RunContext) -> Result<Outcome, AgentError> {
//!     let plan = cx.think().await?;                                    // recorded
//!     let facts = cx.tools(plan.message.tool_calls().cloned()).await?; // recorded, each on its own
//!     let facts: Vec<&str> = facts.iter().map(|fact| fact.text.as_str()).collect();
//!     let verdict = cx.delegate("critic", facts.join("\n")).await?;    // a run with its own journal
//!     Ok(Outcome::answer(verdict.text))
//! }
//!
//! let critic = Agent::new("critic");
//! let team = Agent::from_fn("reviewer", review).agent(critic).into_team()?;
//! # Ok::<(), ghostlight::Error>(())
//! ```
//!
//! After a crash, a panic or a sleep the function is run again from its top. Operations that are
//! recorded return their recorded result at once, in the recorded order; the first one that is not
//! is carried out. So behaviors, workflows and your own agents are straight-line code, and none of
//! them has to know how to save itself. What such a function must not do (read the clock, draw
//! random numbers, spawn by hand) is a short list in
//! [`RunContext`](run::RunContext)'s documentation and in `docs/semantics.md`, each with the right
//! way beside it.
//!
//! # Where to begin
//!
//! | you want to | look at |
//! |---|---|
//! | ask one agent, in one call | [`AgentExt`]: `Agent::new("desk").model(OfflineModel).run("…").await?` |
//! | see it work, without a key | `cargo run --example hello`, then the other files in `examples/` |
//! | give an agent a tool | [`#[tool]`](macro@tool), [`tools::tool_fn`], [`Tool`](contract::Tool), [`Effect`](vocabulary::Effect) |
//! | build a team | [`Agent::delegate_to`](run::Agent::delegate_to), [`Agent::hand_off_to`](run::Agent::hand_off_to), [`Team`](run::Team) |
//! | write an agent as a function | [`Agent::from_fn`](run::Agent::from_fn), [`Behavior`](run::Behavior), [`RunContext`](run::RunContext) |
//! | choose how an agent works | [`behaviors`] |
//! | watch over an agent | [`policies`], [`Policy`](run::Policy) |
//! | keep requests in bounds | [`context`], [`Agent::context`](run::Agent::context) |
//! | let several agents work as one | [`workflows`] |
//! | let agents send each other events | [`RunContext::topic`](run::RunContext::topic), [`Agent::starts_on`](run::Agent::starts_on) |
//! | make agents while a run is under way | [`Agent::create_agent`](run::Agent::create_agent), [`RunContext::delegate`](run::RunContext::delegate) |
//! | draw a team | [`TeamSpec::mermaid`](definition::TeamSpec::mermaid) |
//! | run it | [`System`](actor::System), [`Session`](actor::Session), [`Run`](actor::Run) |
//! | ask a person | `#[tool(approval = "…")]`, [`Agent::approval`](run::Agent::approval), [`Agent::clarify`](run::Agent::clarify), [`RunContext::ask`](run::RunContext::ask), [`Run::answer`](actor::Run::answer) |
//! | wrap calls | [`interceptors`], [`Interceptor`](contract::Interceptor) |
//! | show what would be done | [`Turn::dry_run`](session::Turn::dry_run) |
//! | show an answer while it is written | [`Run::text_stream`](actor::Run::text_stream), [`Turn::streaming`](session::Turn::streaming) |
//! | watch | [`Run::events`](actor::Run::events), [`Event`](vocabulary::Event), [`System::tree`](actor::System::tree) |
//! | bring a model | [`models`], [`Model`](contract::Model) |
//! | show it a picture or a document | [`File`], [`Turn::attach`](session::Turn::attach) |
//! | make an actor of your own a member | [`Agent::from_actor`](run::Agent::from_actor), [`actor::supervisor`] |
//! | keep journals elsewhere | [`Store`](contract::Store) and [`testing::store_conformance`] |
//! | test your agents | [`testing`]: a scripted model, a store in memory; tokio's paused clock |
//!
//! # Words
//!
//! A **System** is everything in this process. A **team** is a tree of agents made from one
//! definition. A **session** is one lasting conversation with a team. A **run** is one turn of it,
//! from input to outcome, with a **journal** of its own; a delegated task is a run below another. A
//! **leg** is the part of a run that one agent carries: a transfer ends a leg and begins the next. An
//! **operation** is one thing done through the context. **Events** are what observers see.
//!
//! # What is promised
//!
//! - The result of an operation is on disk before anything outside depends on it.
//! - A tool says what repeating it would do: [`Effect::Read`](vocabulary::Effect::Read), `Idempotent`
//!   (it is handed a key) or `Once`, the default. A `once` call is never repeated; where its outcome
//!   is unknown, its result says so.
//! - Every tool call has exactly one result, also after a cancellation or a crash, so a conversation
//!   stays valid.
//! - A turn that is sent twice under one id is one run. A question is answered once.
//! - Live and replayed events are the same sequence, except for previews.
//! - Restarting is not cancelling; cancelling reaches everything below and survives a crash.
//!
//! `docs/semantics.md` states each of these exactly, with what is *not* promised.
//!
//! # A good guest
//!
//! The library starts no runtime, installs no signal handler, panic hook or subscriber, and
//! registers no name in ractor's registry: two Systems live in one process. It needs a tokio runtime
//! with time enabled, on one thread or many. ractor is a public dependency ([`ractor`]); the types
//! of the OpenAI client and of SQLite's are in no public signature.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `yaml` | `ghostlight::config`: team files |
//! | `documents` | `ghostlight::documents`: folders of texts that agents search, with `retrieval::index` |
//! | `anthropic` | [`models::Anthropic`]: Anthropic's Messages API |
//! | `gemini` | [`models::Gemini`]: Google's Gemini |
//! | `openai` | [`models::OpenAi`], `models::OpenAiResponses`: OpenAI and servers that speak its chat completions or Responses |
//! | `http` | what these three share, and `protocols::ApprovalWebhook`; each of them brings it |
//! | `sqlite` | [`stores::SqliteStore`] and [`System::open`](SystemExt::open) |
//!
//! These are on by default. The others are off; `full` is all of them but `tiktoken`:
//!
//! | feature | what it adds |
//! |---|---|
//! | `tools` | toolsets for files, programs, the web and OpenAPI documents, each confined, and skills |
//! | `code` | `tools::Code`: programs that a model writes, run confined, which call tools; it brings `tools` |
//! | `evals` | `ghostlight::evals`: evaluations of teams, as durable runs |
//! | `memory` | `ghostlight::memory`: what agents remember from one run to the next |
//! | `opentelemetry` | `ghostlight::opentelemetry`: traces and metrics of runs, over OTLP |
//! | `retrieval` | readers of HTML, CSV, DOCX and PDF, and a sentence encoder in this process; it brings `documents` |
//! | `mcp` | `ghostlight::mcp`: tools of servers of the Model Context Protocol, and teams as servers |
//! | `server` | `ghostlight::server`: teams over HTTP, and a page that shows them |
//! | `a2a`, `acp`, `anp` | the protocols Agent2Agent, Agent Client Protocol and Agent Network Protocol |
//! | `postgres` | `stores::PostgresStore`: one store for the processes of several machines |
//! | `bedrock` | `models::Bedrock`: models in Amazon Bedrock; it brings `anthropic` |
//! | `vertex` | `models::GoogleCloud`: tokens of Google Cloud, for models in Vertex AI |
//! | `tiktoken` | `context::Vocabulary`: tokens counted by OpenAI's vocabularies, which add 9 MB to a program |
//!
//! A library takes only what it needs. Without any feature the engine, the behaviors and the offline model are there,
//! and no TLS, SQLite or HTTP is built.
//!
//! With `http`, `reqwest` 0.13 has TLS in the whole program, but no provider of cryptography: our own clients are given
//! ring. A `reqwest` of your own with its default features brings a provider. Without them, `reqwest::Client::new()`
//! panics until there is one: name its feature `rustls`, or begin `main` with
//! `rustls::crypto::ring::default_provider().install_default()`. No model chooses for the process; a toolset of an MCP
//! server over HTTP does, where the program has not.
#![cfg_attr(docsrs, feature(doc_cfg))] // docs.rs shows which feature each item needs.

// What `#[tool]` generates names `::ghostlight`, also in this crate's own tools and tests.
#[allow(unused_extern_crates)]
extern crate self as ghostlight;

#[cfg(feature = "a2a")]
pub mod a2a;
#[cfg(feature = "acp")]
pub mod acp;
#[cfg(feature = "anp")]
pub mod anp;
mod attachment;
pub mod behaviors;
mod builtin;
#[cfg(feature = "yaml")]
pub mod config;
pub mod context;
#[cfg(feature = "documents")]
pub mod documents;
#[cfg(feature = "evals")]
pub mod evals;
pub mod instructions;
pub mod interceptors;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "memory")]
pub mod memory;
pub mod models;
mod one_agent;
#[cfg(feature = "sqlite")]
mod open;
#[cfg(feature = "opentelemetry")]
pub mod opentelemetry;
pub mod policies;
pub mod prelude;
pub mod protocols;
pub mod retrieval;
pub mod safety;
#[cfg(feature = "server")]
pub mod server;
pub mod stores;
pub mod structured_output;
pub mod tools;
pub mod workflows;

pub use attachment::File;
pub use builtin::builtin;
pub use ghostlight_actors::{
    actor, contract, definition, ractor, run, session, testing, vocabulary,
};
pub use ghostlight_macros::tool;
#[doc(hidden)]
pub use ghostlight_models::{environment, files};
pub use one_agent::{AgentExt, AnswerStream};
#[cfg(feature = "sqlite")]
pub use open::SystemExt;
#[doc(hidden)]
pub use tools::generated_code as __private;

/// The error of a System, its store, its definitions and its models, so that `?` works throughout a
/// program's `main`.
pub use ghostlight_actors::actor::SystemError as Error;

/// The README's programs compile.
#[cfg(all(doctest, feature = "openai", feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// So do those of the page about testing.
#[cfg(doctest)]
#[doc = include_str!("../docs/guide/testing.md")]
struct Testing;

/// And of the page about changing code.
#[cfg(doctest)]
#[doc = include_str!("../docs/guide/changing-code.md")]
struct ChangingCode;

/// And the programs that are counted beside those of other libraries.
#[cfg(all(doctest, feature = "openai"))]
#[doc = include_str!("../docs/comparison.md")]
struct Comparison;

/// And the example of the attribute `tool`.
#[cfg(doctest)]
#[doc = include_str!("../macros/src/tool.md")]
struct Attribute;

/// And those of the guide, page by page.
#[cfg(all(doctest, feature = "openai", feature = "sqlite"))]
mod guide {
    #[doc = include_str!("../docs/guide/first-agent.md")]
    struct FirstAgent;
    #[doc = include_str!("../docs/guide/models.md")]
    struct Models;
    #[doc = include_str!("../docs/guide/tools-and-effects.md")]
    struct ToolsAndEffects;
    #[doc = include_str!("../docs/guide/teams.md")]
    struct Teams;
    #[doc = include_str!("../docs/guide/team-files.md")]
    struct TeamFiles;
    #[cfg(feature = "mcp")]
    #[doc = include_str!("../docs/guide/mcp.md")]
    struct Mcp;
    #[doc = include_str!("../docs/guide/behaviors-and-workflows.md")]
    struct BehaviorsAndWorkflows;
    #[doc = include_str!("../docs/guide/policies-and-interceptors.md")]
    struct PoliciesAndInterceptors;
    #[doc = include_str!("../docs/guide/context.md")]
    struct Context;
    #[doc = include_str!("../docs/guide/sessions-state-artifacts.md")]
    struct SessionsStateArtifacts;
    #[cfg(feature = "evals")]
    #[doc = include_str!("../docs/guide/evaluation.md")]
    struct Evaluation;
    #[cfg(feature = "memory")]
    #[doc = include_str!("../docs/guide/memory.md")]
    struct Memory;
    #[cfg(feature = "retrieval")]
    #[doc = include_str!("../docs/guide/documents.md")]
    struct Documents;
    #[doc = include_str!("../docs/guide/people-in-the-loop.md")]
    struct PeopleInTheLoop;
    #[doc = include_str!("../docs/guide/what-survives-a-crash.md")]
    struct WhatSurvivesACrash;
    #[doc = include_str!("../docs/guide/supervision.md")]
    struct Supervision;
    #[doc = include_str!("../docs/guide/serving.md")]
    struct Serving;
    #[cfg(feature = "a2a")]
    #[doc = include_str!("../docs/guide/agent-to-agent.md")]
    struct AgentToAgent;
    #[cfg(feature = "acp")]
    #[doc = include_str!("../docs/guide/editors.md")]
    struct Editors;
    #[cfg(feature = "anp")]
    #[doc = include_str!("../docs/guide/agent-networks.md")]
    struct AgentNetworks;
    #[doc = include_str!("../docs/guide/page.md")]
    struct Page;
    #[doc = include_str!("../docs/guide/security.md")]
    struct Security;
    #[doc = include_str!("../docs/guide/production.md")]
    struct Production;
    #[cfg(feature = "postgres")]
    #[doc = include_str!("../docs/guide/several-machines.md")]
    struct SeveralMachines;
    #[doc = include_str!("../docs/guide/coming-from.md")]
    struct ComingFrom;
    #[doc = include_str!("../docs/guide/extending.md")]
    struct Extending;
}
