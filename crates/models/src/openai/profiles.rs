//! The known profiles. Their figures are from the servers' documentation as of November 2026, and from recorded traffic.

use super::profile::{Answers, Caching, CallIdRule, Profile, ThinkingField};
use crate::http::{is_loopback, parse_address, true_host};

/// The ending of the addresses of each server.
const HOSTS: [(&str, &str); 17] = [
    ("api.cerebras.ai", "cerebras"),
    ("api.cohere.ai", "cohere"),
    ("api.cohere.com", "cohere"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral"),
    ("api.moonshot.ai", "moonshot"),
    ("api.moonshot.cn", "moonshot"),
    ("api.openai.com", "openai"),
    ("openrouter.ai", "openrouter"),
    ("api.together.ai", "together"),
    ("api.together.xyz", "together"),
    ("api.x.ai", "xai"),
    // Their own name is part of the host's.
    (".openai.azure.com", "azure"),
    (".cognitiveservices.azure.com", "azure"),
    (".services.ai.azure.com", "azure"),
    (".openai.azure.us", "azure"),
];
/// The ports that servers on this machine have by default, and that no other program is known for.
const PORTS: [(u16, &str); 2] = [(1234, "lm_studio"), (11434, "ollama")];

/// The name of the profile of the server at this address.
pub(super) fn name_at(base_url: &str) -> Option<&'static str> {
    let host = true_host(base_url);
    let is_its = |ending: &str| match ending.starts_with('.') {
        true => host.ends_with(ending),
        false => host == ending,
    };
    let mut hosts = HOSTS.iter().filter(|(ending, _)| is_its(ending));
    if let Some((_, name)) = hosts.next() {
        return Some(name);
    }
    let port = parse_address(base_url).ok().and_then(|url| url.port());
    let mut ports = PORTS.iter().filter(|(known, _)| port == Some(*known));
    let (_, name) = ports.next().filter(|_| is_loopback(base_url))?;
    Some(name)
}

/// A profile for one of its models.
pub(super) fn for_model(mut profile: Profile, model: &str) -> Profile {
    let begins = |families: &[&str]| families.iter().any(|family| model.starts_with(family));
    match profile.name.as_str() {
        "openai" | "azure" => {
            profile.audio = profile.audio || model.contains("audio");
            if begins(&["gpt-5", "o1", "o3", "o4"]) {
                profile.fields.insert("stop".to_owned(), None);
            }
        }
        // Only these are held to schemas.
        "groq" if begins(&["openai/gpt-oss", "meta-llama/llama-4", "moonshotai/kimi-k2"]) => {
            profile.answers = Answers::Schema;
        }
        "xai" if begins(&["grok-4", "grok-3-mini"]) => {
            profile.fields.insert("stop".to_owned(), None);
        }
        // It passes on to Mistral.
        "openrouter" if begins(&["mistralai/"]) => profile.strict_turns = true,
        "mistral" => profile.audio = profile.audio || model.starts_with("voxtral"),
        _ => {}
    }
    profile
}

/// A hosted server with these, which takes neither sound nor files.
fn hosted(name: &str, base_url: &str, key_variable: &str) -> Profile {
    Profile {
        name: name.to_owned(),
        base_url: base_url.to_owned(),
        key_variable: key_variable.to_owned(),
        audio: false,
        files: false,
        ..Profile::default()
    }
}

/// A server on this machine, which takes neither sound nor files.
fn local(name: &str, base_url: &str) -> Profile {
    Profile {
        caching: Caching::Automatic,
        ..hosted(name, base_url, "")
    }
}

/// Fields with their names at a server.
fn fields<const N: usize>(
    fields: [(&str, Option<&str>); N],
) -> std::collections::BTreeMap<String, Option<String>> {
    let owned = fields
        .into_iter()
        .map(|(name, here)| (name.to_owned(), here.map(str::to_owned)));
    owned.collect()
}

/// OpenAI's own name of the bound on an answer, the only one that its reasoning models take.
const COMPLETION_TOKENS: [(&str, Option<&str>); 1] =
    [("max_tokens", Some("max_completion_tokens"))];

pub(super) fn all() -> Vec<Profile> {
    let openai = Profile {
        files: true,
        thinking: ThinkingField::None,
        caching: Caching::Automatic,
        fields: fields(COMPLETION_TOKENS),
        names_called_tools: false,
        ..hosted("openai", "https://api.openai.com/v1", "OPENAI_API_KEY")
    };
    vec![
        Profile {
            name: "azure".to_owned(),
            base_url: String::new(),
            key_variable: String::new(),
            key_in_api_key: true,
            ..openai.clone()
        },
        Profile {
            images: false,
            thinking: ThinkingField::Reasoning,
            caching: Caching::Automatic,
            fields: fields(COMPLETION_TOKENS),
            ..hosted("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY")
        },
        Profile {
            // It holds answers to schemas, and not beside tools.
            answers_beside_tools: false,
            thinking: ThinkingField::None,
            fields: fields([("parallel_tool_calls", None)]),
            ..hosted(
                "cohere",
                "https://api.cohere.ai/compatibility/v1",
                "CO_API_KEY",
            )
        },
        Profile {
            images: false,
            answers: Answers::Json,
            thinking: ThinkingField::ReasoningContent,
            thinking_required: true,
            caching: Caching::Automatic,
            ..hosted(
                "deepseek",
                "https://api.deepseek.com/v1",
                "DEEPSEEK_API_KEY",
            )
        },
        Profile {
            answers: Answers::Json,
            answers_beside_tools: false,
            thinking: ThinkingField::Reasoning,
            caching: Caching::Automatic,
            fields: fields(COMPLETION_TOKENS),
            ..hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY")
        },
        Profile {
            audio: true,
            ..local("llama_cpp", "http://127.0.0.1:8080/v1")
        },
        local("lm_studio", "http://127.0.0.1:1234/v1"),
        Profile {
            thinking: ThinkingField::Content,
            call_ids: CallIdRule {
                longest: 9,
                plain: true,
                exact: true,
            },
            fields: fields([("seed", Some("random_seed")), ("stream_options", None)]),
            strict_turns: true,
            ..hosted("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY")
        },
        Profile {
            answers: Answers::Json,
            thinking: ThinkingField::ReasoningContent,
            thinking_required: true,
            caching: Caching::Automatic,
            ..hosted("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY")
        },
        local("ollama", "http://127.0.0.1:11434/v1"),
        openai,
        Profile {
            audio: true,
            files: true,
            caching: Caching::Marked,
            ..hosted(
                "openrouter",
                "https://openrouter.ai/api/v1",
                "OPENROUTER_API_KEY",
            )
        },
        hosted("together", "https://api.together.ai/v1", "TOGETHER_API_KEY"),
        Profile {
            audio: true,
            ..local("vllm", "http://127.0.0.1:8000/v1")
        },
        Profile {
            caching: Caching::Automatic,
            thinking: ThinkingField::ReasoningContent,
            fields: fields(COMPLETION_TOKENS),
            ..hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY")
        },
    ]
}
