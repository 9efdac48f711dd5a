//! `ghostlight list`: what a team file may name.

use ghostlight::models::openai::Profile;
use ghostlight_actors::{
    definition::{
        AgentSpec, BehaviorSpec, DefinitionError, InterceptorSpec, ModelSpec, PolicySpec, TeamSpec,
        ToolSpec,
    },
    run::Registry,
};
use serde_json::{Value, json};

use super::names::{self, about};
use crate::{
    exit::{Exit, Failure},
    follow::print_json,
    more_arguments::Catalogue,
    plain_text,
};

/// A setting that does not exist: the error that refuses it lists the existing ones.
const NO_SETTING: &str = "no such setting";
/// A name in the team that this command makes for its checks.
const PROBE: &str = "probe";

/// One entry of the list.
struct Offer {
    name: String,
    about: String,
    /// Its settings or, for a tool, its arguments.
    settings: Vec<String>,
    /// The description of a provider's profile.
    profile: Option<Value>,
}

/// Lists tools, and the kinds of tools that a team file can define.
pub(super) fn tools(arguments: &Catalogue, registry: &Registry) -> Result<Exit, Failure> {
    let mut offers = Vec::new();
    for (name, tool) in registry.tools() {
        let definition = tool.definition();
        let about = definition.description.lines().next().unwrap_or_default();
        let fields = definition
            .parameters
            .get("properties")
            .and_then(|found| found.as_object());
        offers.push(Offer {
            name: name.to_owned(),
            about: format!("({}) {about}", super::effect(definition.effect)),
            settings: fields
                .map(|fields| fields.keys().cloned().collect())
                .unwrap_or_default(),
            profile: None,
        });
    }
    let kinds = [registry.tool_kind_names(), registry.toolset_kind_names()].concat();
    for name in kinds {
        let probe = |team: &mut TeamSpec| {
            let mut tool = ToolSpec::new(name);
            tool.settings.insert(NO_SETTING.to_owned(), true.into());
            team.tools.insert(PROBE.to_owned(), tool);
        };
        offers.push(Offer {
            name: name.to_owned(),
            about: format!(
                "(a kind of tool, for `tools`) {}",
                about(names::TOOL_KINDS, name)
            ),
            settings: settings(registry, probe),
            profile: None,
        });
    }
    list(arguments, "tool", offers)
}

pub(super) fn behaviors(arguments: &Catalogue, registry: &Registry) -> Result<Exit, Failure> {
    let offer = |name: &str| {
        let mut behavior = BehaviorSpec::new(name);
        behavior.settings = json!({ NO_SETTING: true });
        Offer {
            name: name.to_owned(),
            about: about(names::BEHAVIORS, name).to_owned(),
            settings: settings(registry, |team| team.agent.behavior = behavior),
            profile: None,
        }
    };
    let names = registry.behavior_names().into_iter();
    list(arguments, "behavior", names.map(offer).collect())
}

pub(super) fn providers(arguments: &Catalogue, registry: &Registry) -> Result<Exit, Failure> {
    let offer = |name: &str| {
        let model = ModelSpec::new(name).setting(NO_SETTING, true);
        Offer {
            name: name.to_owned(),
            about: about(names::PROVIDERS, name).to_owned(),
            settings: settings(registry, |team| {
                team.models.insert(PROBE.to_owned(), model);
            }),
            profile: None,
        }
    };
    let names = registry.provider_names().into_iter();
    let mut offers: Vec<Offer> = names.map(offer).collect();
    offers.extend(profiles(arguments));
    list(arguments, "provider", offers)
}

/// The servers that are known to speak OpenAI's chat completions. All fields of one are shown where it is named.
fn profiles(arguments: &Catalogue) -> Vec<Offer> {
    let offer = |profile: Profile| {
        let is_named = arguments.name.as_deref() == Some(profile.name.as_str());
        let told = serde_json::to_value(&profile).unwrap_or_default();
        let fields = told.as_object().into_iter().flatten();
        let fields = fields.filter(|(name, _)| is_named && *name != "name");
        Offer {
            name: profile.name.clone(),
            about: format!("(profile of openai) {}", profile.summary()),
            settings: fields
                .map(|(name, value)| format!("{name}: {value}"))
                .collect(),
            profile: Some(told),
        }
    };
    let known = Profile::all().into_iter();
    known
        .filter(|profile| profile.name != "openai")
        .map(offer)
        .collect()
}

pub(super) fn policies(arguments: &Catalogue, registry: &Registry) -> Result<Exit, Failure> {
    let offer = |name: &str| {
        let policy = PolicySpec::new(name).settings(json!({ NO_SETTING: true }));
        Offer {
            name: name.to_owned(),
            about: about(names::POLICIES, name).to_owned(),
            settings: settings(registry, |team| team.agent.policies.push(policy)),
            profile: None,
        }
    };
    let names = registry.policy_names().into_iter();
    list(arguments, "policy", names.map(offer).collect())
}

pub(super) fn interceptors(arguments: &Catalogue, registry: &Registry) -> Result<Exit, Failure> {
    let offer = |name: &str| {
        let interceptor = InterceptorSpec::new(name).setting(NO_SETTING, true);
        Offer {
            name: name.to_owned(),
            about: about(names::INTERCEPTORS, name).to_owned(),
            settings: settings(registry, |team| team.interceptors.push(interceptor)),
            profile: None,
        }
    };
    let names = registry.interceptor_kind_names().into_iter();
    list(arguments, "interceptor", names.map(offer).collect())
}

/// The settings of an entry, taken from the error for an unknown setting. Each type of settings
/// describes itself in this way, also one of a program's own.
fn settings(registry: &Registry, name: impl FnOnce(&mut TeamSpec)) -> Vec<String> {
    let mut team = TeamSpec::new(AgentSpec::new(PROBE));
    name(&mut team);
    let Err(DefinitionError::Settings { reason, .. }) = registry.clone().resolve(&team) else {
        return Vec::new();
    };
    let Some((_, known)) = reason.split_once("expected ") else {
        return Vec::new();
    };
    let names = known.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

fn list(arguments: &Catalogue, what: &str, mut offers: Vec<Offer>) -> Result<Exit, Failure> {
    let order = |offer: &Offer| (offer.profile.is_some(), offer.name.clone());
    offers.sort_by_key(order);
    if let Some(name) = &arguments.name {
        let known: Vec<String> = offers.iter().map(|offer| offer.name.clone()).collect();
        offers.retain(|offer| offer.name == *name);
        if offers.is_empty() {
            let (name, known) = (plain_text::line(name, 80), known.join(", "));
            return Err(Failure::Usage(format!(
                "there is no {what} `{name}`; there are: {known}"
            )));
        }
    }
    let width = offers.iter().map(|offer| offer.name.chars().count()).max();
    let width = width.unwrap_or_default();
    for Offer {
        name,
        about,
        settings,
        profile,
    } in offers
    {
        if arguments.show.json {
            let mut told = json!({ "name": name, "about": about, "settings": settings });
            if let Some(profile) = profile {
                told["settings"] = json!([]);
                told["profile"] = profile;
            }
            print_json(&told)?;
            continue;
        }
        super::print(format!("{name:width$}  {about}").trim_end())?;
        if !settings.is_empty() {
            super::print(&format!("{:width$}    {}", "", settings.join(", ")))?;
        }
    }
    Ok(Exit::Done)
}
