//! The registry of everything that is built in.

use ghostlight_actors::{
    contract::{ModelHandle, ToolHandle},
    definition::ModelSpec,
    run::Registry,
};
use serde::Deserialize;
use serde_json::{Map, Value};

#[cfg(feature = "tools")]
use ghostlight_actors::contract::ToolsetHandle;

#[cfg(all(feature = "memory", feature = "retrieval"))]
use crate::models::EmbedderSpec;
#[cfg(all(feature = "memory", feature = "retrieval"))]
use ghostlight_actors::contract::EmbedderHandle;

use crate::{
    behaviors, context, interceptors,
    models::{Fallback, OfflineModel},
    policies,
    tools::{
        Calculator, find_notes, list_artifacts, load_artifact, read_note, save_artifact, wait,
        write_note,
    },
    workflows,
};

/// The registry of everything built in: every behavior, workflow and policy, with the one that
/// bounds [contexts](crate::context); the tools `calculator`, `save_artifact`, `load_artifact`,
/// `list_artifacts`, `write_note`, `read_note`, `find_notes` and `wait`; the
/// [interceptors](crate::interceptors); and the providers `offline` and `fallback`. The features
/// `anthropic`, `bedrock`, `gemini` and `openai` add the providers of these names (`openai` also
/// `openai_responses`), and each of them the kind of tool `approval_webhook`, with the settings `url`, `secret` and `timeout_s`. The feature `a2a`
/// adds the behavior `remote` and the kind of tool `a2a`; `anp` the kinds of tools `anp_presence` and `anp_registry`; `acp` the behavior `remote_process` and the kind
/// of tool `acp`; `code` the behavior `code` (on Unix);
/// `mcp` the kind of tool `mcp`; `memory` the policy `memory`; `documents` the kinds of tools
/// `document_search` and `document_editor` and the policy `recall_documents`; and `tools` the kinds of tools `files`,
/// `openapi`, `skills`, `web` and (on Unix) `terminal`.
///
/// Add your own parts to it, and give it to the command or to a System.
#[must_use]
pub fn builtin() -> Registry {
    let registry = behaviors::register(Registry::new());
    let registry = policies::register(workflows::register(context::register(registry)));
    let registry = interceptors::register(registry)
        .tool(ToolHandle::new(Calculator))
        .tool(save_artifact())
        .tool(load_artifact())
        .tool(list_artifacts())
        .tool(write_note())
        .tool(read_note())
        .tool(find_notes())
        .tool(wait());
    #[cfg(feature = "a2a")]
    let registry = crate::a2a::register(registry);
    #[cfg(feature = "acp")]
    let registry = crate::acp::register(registry);
    #[cfg(feature = "anp")]
    let registry = crate::anp::register(registry);
    #[cfg(feature = "mcp")]
    let registry = crate::mcp::register(registry);
    #[cfg(feature = "http")]
    let registry = registry.tool_kind("approval_webhook", approval_webhook);
    #[cfg(feature = "tools")]
    let registry = registry
        .toolset_kind("files", files)
        .toolset_kind("openapi", openapi)
        .toolset_kind("skills", skills)
        .toolset_kind("web", web);
    #[cfg(all(feature = "tools", unix))]
    let registry = registry.toolset_kind("terminal", terminal);
    #[cfg(all(feature = "code", unix))]
    let registry = registry.behavior_type::<crate::tools::Code>("code");
    #[cfg(all(feature = "memory", feature = "retrieval"))]
    let registry = crate::memory::register_with(registry, embedder);
    #[cfg(all(feature = "memory", not(feature = "retrieval")))]
    let registry = crate::memory::register(registry);
    #[cfg(feature = "documents")]
    let registry = crate::documents::register(registry, Default::default());
    PROVIDERS
        .iter()
        .fold(registry, |registry, (name, make)| {
            registry.provider(*name, make)
        })
        .provider("fallback", fallback)
}

/// Makes the embedder that a memory names.
#[cfg(all(feature = "memory", feature = "retrieval"))]
fn embedder(settings: &Value) -> Result<EmbedderHandle, String> {
    let settings = EmbedderSpec::deserialize(settings).map_err(|error| error.to_string())?;
    settings.embedder()
}

type MakeProvider = fn(&Map<String, Value>) -> Result<ModelHandle, String>;

/// The built-in providers that make their own models.
const PROVIDERS: &[(&str, MakeProvider)] = &[
    ("offline", offline),
    #[cfg(feature = "anthropic")]
    ("anthropic", anthropic),
    #[cfg(feature = "bedrock")]
    ("bedrock", bedrock),
    #[cfg(feature = "gemini")]
    ("gemini", gemini),
    #[cfg(feature = "openai")]
    ("openai", openai),
    #[cfg(feature = "openai")]
    ("openai_responses", openai_responses),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FallbackSpec {
    models: Vec<ModelSpec>,
}

/// A list of models that are asked one after another, each with one of the providers above.
fn fallback(given: &Map<String, Value>) -> Result<ModelHandle, String> {
    let FallbackSpec { models } = settings(given)?;
    let mut fallback: Option<Fallback> = None;
    for spec in models {
        let known = PROVIDERS.iter().find(|(name, _)| *name == spec.provider);
        let Some((_, make)) = known else {
            let names: Vec<&str> = PROVIDERS.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "models: there is no provider {:?} here; there are: {}",
                spec.provider,
                names.join(", ")
            ));
        };
        let model = make(&spec.settings)?;
        fallback = Some(match fallback {
            None => Fallback::new(model),
            Some(fallback) => fallback.or(model),
        });
    }
    let fallback = fallback.ok_or("models must name at least one model, with its provider")?;
    Ok(ModelHandle::new(fallback))
}

#[cfg(feature = "anthropic")]
fn anthropic(given: &Map<String, Value>) -> Result<ModelHandle, String> {
    let settings: crate::models::AnthropicSpec = settings(given)?;
    check_address(&settings.base_url)?;
    Ok(ModelHandle::new(crate::models::Anthropic::from(settings)))
}

#[cfg(feature = "bedrock")]
fn bedrock(given: &Map<String, Value>) -> Result<ModelHandle, String> {
    let settings: crate::models::BedrockSpec = settings(given)?;
    if !settings.base_url.is_empty() {
        check_address(&settings.base_url)?;
    }
    Ok(ModelHandle::new(crate::models::Bedrock::from(settings)))
}

#[cfg(feature = "gemini")]
fn gemini(given: &Map<String, Value>) -> Result<ModelHandle, String> {
    let settings: crate::models::GeminiSpec = settings(given)?;
    check_address(&settings.base_url)?;
    Ok(ModelHandle::new(crate::models::Gemini::from(settings)))
}

/// The settings in a team file as a typed value.
fn settings<T: for<'de> Deserialize<'de>>(given: &Map<String, Value>) -> Result<T, String> {
    T::deserialize(given).map_err(|error| error.to_string())
}

/// Refuses an address before a run is begun with it. A variable is needed only when a request is made.
#[cfg(any(feature = "anthropic", feature = "gemini", feature = "openai"))]
fn check_address(base_url: &str) -> Result<(), String> {
    match crate::models::parse_address(base_url) {
        Err(error) if error.kind != ghostlight_actors::vocabulary::ErrorKind::Authentication => {
            Err(error.message)
        }
        _ => Ok(()),
    }
}

fn offline(given: &Map<String, Value>) -> Result<ModelHandle, String> {
    match given.keys().next() {
        Some(key) => Err(format!("it has no settings; remove {key:?}")),
        None => Ok(ModelHandle::new(OfflineModel)),
    }
}

#[cfg(feature = "openai")]
fn openai(given: &Map<String, Value>) -> Result<ModelHandle, String> {
    let settings: crate::models::OpenAiSpec = settings(given)?;
    check_address(&settings.address())?;
    Ok(ModelHandle::new(crate::models::OpenAi::from(settings)))
}

#[cfg(feature = "openai")]
fn openai_responses(given: &Map<String, Value>) -> Result<ModelHandle, String> {
    let settings: crate::models::OpenAiResponsesSpec = settings(given)?;
    check_address(&settings.base_url)?;
    Ok(ModelHandle::new(crate::models::OpenAiResponses::from(
        settings,
    )))
}

#[cfg(feature = "http")]
fn approval_webhook(name: &str, given: &Map<String, Value>) -> Result<ToolHandle, String> {
    let webhook = crate::protocols::ApprovalWebhook::from_settings(name, settings(given)?);
    webhook
        .map(ToolHandle::new)
        .map_err(|error| error.to_string())
}

#[cfg(feature = "tools")]
fn files(_: &str, given: &Map<String, Value>) -> Result<ToolsetHandle, String> {
    let files = crate::tools::Files::open(settings(given)?);
    files
        .map(ToolsetHandle::new)
        .map_err(|error| error.to_string())
}

#[cfg(feature = "tools")]
fn openapi(_: &str, given: &Map<String, Value>) -> Result<ToolsetHandle, String> {
    let settings: crate::tools::OpenApiSpec = settings(given)?;
    // Secrets are given by the names of environment variables.
    let settings = settings.revealing(|text| {
        let text = crate::models::SecretText::read(text);
        let revealed = text.and_then(|text| text.reveal());
        revealed.map_err(|error| error.to_string())
    });
    let openapi = crate::tools::OpenApi::open(settings);
    openapi
        .map(ToolsetHandle::new)
        .map_err(|error| error.to_string())
}

#[cfg(feature = "tools")]
fn skills(_: &str, given: &Map<String, Value>) -> Result<ToolsetHandle, String> {
    let skills = crate::tools::Skills::open(&settings(given)?);
    skills
        .map(ToolsetHandle::new)
        .map_err(|error| error.to_string())
}

#[cfg(feature = "tools")]
fn web(_: &str, given: &Map<String, Value>) -> Result<ToolsetHandle, String> {
    let mut given = given.clone();
    // A key is given as a reference.
    if let Some(key) = given
        .get_mut("search")
        .and_then(|search| search.get_mut("api_key"))
    {
        let secret: crate::models::Secret =
            serde_json::from_value(key.take()).map_err(|error| error.to_string())?;
        let revealed = secret.reveal().map_err(|error| error.to_string())?;
        *key = secrecy::ExposeSecret::expose_secret(&revealed).into();
    }
    let web = crate::tools::Web::open(settings(&given)?);
    web.map(ToolsetHandle::new)
        .map_err(|error| error.to_string())
}

#[cfg(all(feature = "tools", unix))]
fn terminal(_: &str, given: &Map<String, Value>) -> Result<ToolsetHandle, String> {
    let terminal = crate::tools::Terminal::open(settings(given)?);
    terminal
        .map(ToolsetHandle::new)
        .map_err(|error| error.to_string())
}
