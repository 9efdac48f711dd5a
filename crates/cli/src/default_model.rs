//! The model of agents that name none.

use clap::Args;
use ghostlight::environment;
#[cfg(feature = "full")]
use ghostlight_actors::definition::DefinitionError;
use ghostlight_actors::{
    definition::{AgentSpec, ApprovalRule, ModelSpec, TeamSpec},
    run::Registry,
    vocabulary::Effect,
};

use super::{
    exit::Failure,
    user_config::{self, UserConfig},
};

/// The name of the default model.
const DEFAULT: &str = "default";
/// The providers that are chosen by their key in the environment; the first with a key counts.
const KEYED: [&str; 3] = ["openai", "anthropic", "gemini"];
/// The provider of the built-in model.
const OFFLINE: &str = "offline";

/// Where the default model is chosen on the command line.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "The default model")]
pub(super) struct ModelArguments {
    /// The model, by its provider's name for it
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// Where it is, such as http://127.0.0.1:11434/v1
    #[arg(long, value_name = "URL")]
    pub(super) base_url: Option<String>,
    /// The provider that serves it; `ghostlight list providers` lists them
    #[arg(long, value_name = "NAME")]
    pub(super) provider: Option<String>,
}

impl ModelArguments {
    fn given(&self) -> bool {
        self.model.is_some() || self.base_url.is_some() || self.provider.is_some()
    }
}

/// Defines the team's `default` model: from the options; or, if neither the file nor the registry
/// has one, from the environment and the user's settings; or else as the built-in offline model. It
/// becomes part of the definition to which runs are pinned, so a resumed run keeps its model.
///
/// # Errors
/// When an option chooses a model that no agent of the team uses, or an unknown provider.
pub(super) fn define(
    team: &mut TeamSpec,
    registry: &Registry,
    chosen: &ModelArguments,
) -> Result<(), Failure> {
    let variable =
        |name: &str| environment::variable(name).filter(|value| !value.trim().is_empty());
    define_from(
        team,
        registry,
        chosen,
        user_config::read_before(),
        &variable,
    )
    .map_err(Failure::Usage)?;
    let offline: Vec<String> = team
        .models
        .iter()
        .filter(|(_, model)| model.provider == OFFLINE)
        .map(|(name, _)| name.clone())
        .collect();
    ask_first(&mut team.agent, DEFAULT, &offline, registry);
    Ok(())
}

/// Requires approval for calls that must not be repeated, in agents with the offline model. A rule
/// of the file for such a call stands. Agents with a program's own behavior are left alone, since
/// no model chooses their calls.
fn ask_first(agent: &mut AgentSpec, above: &str, offline: &[String], registry: &Registry) {
    let model = agent.model.clone().unwrap_or_else(|| above.to_owned());
    let built_in = ghostlight::builtin();
    let built_in = built_in.behavior_names();
    if offline.contains(&model) && built_in.contains(&agent.behavior.name.as_str()) {
        let once = |name: &&String| {
            let tool = registry.tool_named(name);
            tool.is_some_and(|tool| tool.definition().effect == Effect::Once)
        };
        let asked: Vec<String> = agent.tools.iter().filter(once).cloned().collect();
        for tool in asked {
            agent
                .approval
                .entry(tool)
                .or_insert_with(ApprovalRule::required);
        }
    }
    for below in &mut agent.agents {
        ask_first(below, &model, offline, registry);
    }
}

fn define_from(
    team: &mut TeamSpec,
    registry: &Registry,
    chosen: &ModelArguments,
    config: &UserConfig,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<(), String> {
    let providers = registry.provider_names();
    if chosen.given() {
        if !names_used(team).contains(&DEFAULT) {
            return Err(String::from(
                "the options choose the model `default`, and each agent of this team names another",
            ));
        }
        let before = team.models.remove(DEFAULT);
        let provider = chosen
            .provider
            .clone()
            .or_else(|| before.as_ref().map(|m| m.provider.clone()));
        // Another provider has settings of its own.
        let before = before.filter(|model| provider.as_deref() == Some(&model.provider));
        let mut model = match before {
            Some(model) if model.provider != OFFLINE => model,
            _ => {
                let provider = provider.filter(|name| name != OFFLINE || chosen.model.is_none());
                let provider = provider.or_else(|| config.provider.clone());
                fresh(provider.as_deref().unwrap_or("openai"), config, variable)
            }
        };
        if !providers.contains(&model.provider.as_str()) {
            let (name, known) = (model.provider, providers.join(", "));
            return Err(format!("there is no provider `{name}`; there are: {known}"));
        }
        for (setting, value) in [("model", &chosen.model), ("base_url", &chosen.base_url)] {
            if let Some(value) = value {
                model = model.setting(setting, value.trim());
            }
        }
        team.models.insert(DEFAULT.to_owned(), model);
        return Ok(());
    }
    if team.models.contains_key(DEFAULT) || registry.model_named(DEFAULT).is_some() {
        return Ok(());
    }
    let has_key =
        |provider: &&str| variable(&format!("{}_API_KEY", provider.to_uppercase())).is_some();
    let provider = match &config.provider {
        Some(provider) => Some(provider.as_str()),
        None if variable("OPENAI_BASE_URL").is_some()
            || config.base_url.is_some()
            || config.api_key.is_some() =>
        {
            Some("openai")
        }
        None => KEYED.into_iter().find(has_key),
    };
    let model = match provider {
        Some(provider) if providers.contains(&provider) => fresh(provider, config, variable),
        Some(provider) if config.provider.is_some() => {
            let known = providers.join(", ");
            return Err(format!(
                "your settings name the provider `{provider}`, which is not there; there are: {known}"
            ));
        }
        _ if providers.contains(&OFFLINE) => ModelSpec::new(OFFLINE),
        _ => return Ok(()),
    };
    team.models.insert(DEFAULT.to_owned(), model);
    Ok(())
}

/// A model of this provider, from the environment and the user's settings.
fn fresh(
    provider: &str,
    config: &UserConfig,
    variable: &dyn Fn(&str) -> Option<String>,
) -> ModelSpec {
    let mut model = ModelSpec::new(provider);
    if provider == OFFLINE {
        return model;
    }
    let prefix = provider.to_uppercase();
    let of_config = |setting: &Option<String>| {
        let same = config
            .provider
            .as_deref()
            .is_none_or(|named| named == provider);
        setting.clone().filter(|_| same)
    };
    let name = variable(&format!("{prefix}_MODEL")).or_else(|| of_config(&config.model));
    if let Some(name) = name {
        model = model.setting("model", name.trim());
    }
    let address = variable(&format!("{prefix}_BASE_URL")).or_else(|| of_config(&config.base_url));
    if let Some(address) = address {
        model = model.setting("base_url", address.trim());
    }
    // The reference, not the key: the definition is stored.
    let key = format!("{prefix}_API_KEY");
    let key = variable(&key).map(|_| format!("${{{key}}}"));
    if let Some(key) = of_config(&config.api_key).or(key) {
        model = model.setting("api_key", key);
    }
    model
}

/// The names of the models that a team's agents use. An agent without a model has its parent's, so
/// the root decides whether `default` is used.
fn names_used(team: &TeamSpec) -> Vec<&str> {
    let agents = team.agent.walk();
    let named = agents
        .iter()
        .filter_map(|(_, agent)| agent.model.as_deref());
    let mut names: Vec<&str> = named.collect();
    if team.agent.model.is_none() {
        names.push(DEFAULT);
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether no agent of the team asks a real model.
pub(super) fn is_offline(team: &TeamSpec) -> bool {
    let offline = |name: &&str| {
        team.models
            .get(*name)
            .is_some_and(|m| m.provider == OFFLINE)
    };
    names_used(team).iter().all(offline)
}

/// Refuses a bound in money over a model whose answers do not say what they cost, as a team's own budget is refused.
#[cfg(feature = "full")]
pub(super) fn check_prices(team: &TeamSpec, registry: &Registry) -> Result<(), DefinitionError> {
    for name in names_used(team) {
        let mut only = only_models(team);
        only.interceptors.clone_from(&team.interceptors);
        (only.agent.model, only.budget.cost_micros) = (Some(name.to_owned()), Some(1));
        // Other faults are told when the team starts.
        if let Err(fault @ DefinitionError::Unpriced { .. }) = registry.clone().resolve(&only) {
            return Err(fault);
        }
    }
    Ok(())
}

/// The models of a team alone: tools may be dear to make.
fn only_models(team: &TeamSpec) -> TeamSpec {
    let mut only = TeamSpec::new(AgentSpec::new(&team.agent.name));
    only.models = team.models.clone();
    only
}

/// Which models the team works with, for the first line.
pub(super) fn describe(team: &TeamSpec, registry: &Registry) -> String {
    let made = registry.clone().resolve(&only_models(team));
    let one = |name: &&str| {
        let model = made.as_ref().ok().and_then(|made| made.model_named(name));
        match (model, team.models.get(*name)) {
            (Some(model), _) => model.description(),
            (None, Some(spec)) => spec.provider.clone(),
            (None, None) => (*name).to_owned(),
        }
    };
    let names = names_used(team);
    let mut models: Vec<String> = names.iter().map(one).collect();
    models.dedup();
    let hint = match is_offline(team) && registry.provider_names().contains(&"openai") {
        true => " (set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY for a real one)",
        false => "",
    };
    format!("{}{hint}", models.join(", "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use ghostlight_actors::{contract::ToolHandle, testing::EffectLog, vocabulary::ToolDefinition};

    use super::*;

    fn registry() -> Registry {
        let none = |_: &serde_json::Map<String, serde_json::Value>| Err(String::new());
        Registry::new()
            .provider("openai", none)
            .provider("anthropic", none)
            .provider("gemini", none)
            .provider("offline", none)
    }

    fn defined(
        registry: &Registry,
        chosen: &ModelArguments,
        config: &UserConfig,
        variables: &[(&str, &str)],
    ) -> Result<Option<serde_json::Value>, String> {
        let mut team = TeamSpec::new(AgentSpec::new("desk"));
        define_from(&mut team, registry, chosen, config, &|wanted| {
            let found = variables.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| (*value).to_owned())
        })?;
        let model = team.models.get(DEFAULT);
        Ok(model.map(|model| serde_json::to_value(model).unwrap()))
    }

    fn by_variables(variables: &[(&str, &str)]) -> serde_json::Value {
        let (chosen, config) = (ModelArguments::default(), UserConfig::default());
        let model = defined(&registry(), &chosen, &config, variables);
        model.unwrap().unwrap()
    }

    #[test]
    fn the_environment_chooses_the_default_model() {
        assert_eq!(by_variables(&[])["provider"], "offline");
        let found = by_variables(&[("OPENAI_API_KEY", "sk-1"), ("OPENAI_MODEL", "m")]);
        let expected = serde_json::json!({
            "provider": "openai", "model": "m", "api_key": "${OPENAI_API_KEY}",
        });
        assert_eq!(found, expected, "the key itself is nowhere");
        let local = [("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")];
        let expected = serde_json::json!({ "provider": "openai", "base_url": local[0].1 });
        assert_eq!(by_variables(&local), expected);
        let other = by_variables(&[("GEMINI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")]);
        let expected = serde_json::json!({
            "provider": "anthropic", "api_key": "${ANTHROPIC_API_KEY}",
        });
        assert_eq!(other, expected);
        let both = by_variables(&[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")]);
        assert_eq!(both["provider"], "openai");
        let (chosen, config) = (ModelArguments::default(), UserConfig::default());
        let none = defined(&Registry::new(), &chosen, &config, &[]);
        assert_eq!(none, Ok(None));
    }

    #[test]
    fn an_option_goes_before_the_environment_and_that_before_the_users_settings() {
        let config = UserConfig {
            model: Some("of the file".into()),
            base_url: Some("http://a/v1".into()),
            ..UserConfig::default()
        };
        let none = ModelArguments::default();
        let model = |chosen: &ModelArguments, variables: &[(&str, &str)]| {
            let model = defined(&registry(), chosen, &config, variables);
            model.unwrap().unwrap()
        };
        assert_eq!(model(&none, &[])["model"], "of the file");
        let set = [("OPENAI_MODEL", "of the environment")];
        assert_eq!(model(&none, &set)["model"], "of the environment");
        let chosen = ModelArguments {
            model: Some("of the option".into()),
            ..ModelArguments::default()
        };
        let expected = serde_json::json!({
            "provider": "openai", "model": "of the option", "base_url": "http://a/v1",
        });
        assert_eq!(model(&chosen, &set), expected);
        let nobody = ModelArguments {
            provider: Some("nobody".into()),
            ..ModelArguments::default()
        };
        let error = defined(&registry(), &nobody, &config, &[]).unwrap_err();
        assert!(
            error.contains("there are: anthropic, gemini, offline, openai"),
            "{error}"
        );
    }

    #[test]
    fn a_person_is_asked_before_a_stand_in_for_a_model_calls_what_must_not_be_repeated() {
        let log = EffectLog::new();
        let tool = |name: &str, effect| {
            let definition = ToolDefinition::new(name, "is logged").effect(effect);
            ToolHandle::new(log.tool(definition, Duration::ZERO))
        };
        let registry = registry()
            .tool(tool("send", Effect::Once))
            .tool(tool("wipe", Effect::Once))
            .tool(tool("look", Effect::Read));
        let mut below = AgentSpec::new("below");
        below.tools = vec!["send".into(), "wipe".into(), "look".into()];
        let never = ApprovalRule::not_needed();
        below.approval.insert("wipe".into(), never.clone());
        let mut team = TeamSpec::new(AgentSpec::new("desk"));
        team.agent.agents.push(below);
        let asked = |team: &TeamSpec| {
            let rules = team.agent.agents[0].approval.iter();
            let asked = rules.filter(|(_, rule)| rule.required);
            asked.map(|(tool, _)| tool.clone()).collect::<Vec<_>>()
        };
        let none = ModelArguments::default();
        team.models.insert(DEFAULT.into(), ModelSpec::new(OFFLINE));
        define(&mut team, &registry, &none).unwrap();
        assert_eq!(asked(&team), ["send"], "what the file says stands");
        let mut real = team.clone();
        real.agent.agents[0].approval.remove("send");
        real.models.insert(DEFAULT.into(), ModelSpec::new("openai"));
        define(&mut real, &registry, &none).unwrap();
        assert!(asked(&real).is_empty());
    }

    #[test]
    fn a_file_that_says_which_model_is_overruled_by_an_option_alone() {
        let mut team = TeamSpec::new(AgentSpec::new("desk"));
        let config = UserConfig::default();
        let everything = |_: &str| Some(String::from("x"));
        team.models
            .insert(DEFAULT.into(), ModelSpec::new("offline"));
        let define = |team: &mut TeamSpec, chosen: &ModelArguments| {
            define_from(team, &registry(), chosen, &config, &everything)
        };
        define(&mut team, &ModelArguments::default()).unwrap();
        assert_eq!(team.models[DEFAULT], ModelSpec::new("offline"));
        assert_eq!(
            describe(&team, &registry()),
            "offline (set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY for a real one)"
        );
        assert!(is_offline(&team));
        let chosen = ModelArguments {
            model: Some("m".into()),
            ..ModelArguments::default()
        };
        define(&mut team, &chosen).unwrap();
        assert_eq!(team.models[DEFAULT].provider, "openai");
        assert!(!is_offline(&team));
        team.agent.model = Some("other".into());
        assert!(define(&mut team, &chosen).is_err(), "nobody would ask it");
    }
}
