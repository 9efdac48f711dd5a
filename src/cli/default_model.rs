//! The model of agents that name none.

use std::env;

use ghostlight_actors::{
    definition::{ModelSpec, TeamSpec},
    run::Registry,
};

/// The name under which it is known.
const DEFAULT: &str = "default";

/// Defines the team's `default` model where the file and the registry have none: OpenAI's or a
/// compatible one where the environment says so, and else the built-in offline model. It becomes
/// part of the definition to which runs are pinned, so a resumed run goes on with the same.
pub(super) fn define(team: &mut TeamSpec, registry: &Registry) {
    define_from(team, registry, &|name| {
        env::var(name).ok().filter(|value| !value.trim().is_empty())
    });
}

fn define_from(
    team: &mut TeamSpec,
    registry: &Registry,
    variable: &dyn Fn(&str) -> Option<String>,
) {
    if team.models.contains_key(DEFAULT) || registry.model_named(DEFAULT).is_some() {
        return;
    }
    let providers = registry.provider_names();
    let (key, address) = (variable("OPENAI_API_KEY"), variable("OPENAI_BASE_URL"));
    let model = if providers.contains(&"openai") && (key.is_some() || address.is_some()) {
        let mut model = ModelSpec::new("openai");
        if let Some(name) = variable("OPENAI_MODEL") {
            model = model.setting("model", name.trim());
        }
        if let Some(address) = address {
            model = model.setting("base_url", address.trim());
        }
        if key.is_some() {
            // The reference, not the key: the definition is stored.
            model = model.setting("api_key", "${OPENAI_API_KEY}");
        }
        model
    } else if providers.contains(&"offline") {
        ModelSpec::new("offline")
    } else {
        return;
    };
    team.models.insert(DEFAULT.to_owned(), model);
}

/// Which model the team works with, for the first line.
pub(super) fn describe(team: &TeamSpec, registry: &Registry) -> String {
    let agents = team.agent.walk();
    // An agent without a model has its parent's, so the root decides whether `default` is used.
    let mut names: Vec<&str> = agents
        .iter()
        .filter_map(|(_, agent)| agent.model.as_deref())
        .collect();
    if team.agent.model.is_none() {
        names.push(DEFAULT);
    }
    names.sort_unstable();
    names.dedup();
    let one = |name: &&str| match (team.models.get(*name), registry.model_named(name)) {
        (Some(spec), _) => {
            let model = spec.settings.get("model").and_then(|model| model.as_str());
            model.map_or_else(
                || spec.provider.clone(),
                |model| format!("{} {model}", spec.provider),
            )
        }
        (None, Some(model)) => model.description(),
        (None, None) => (*name).to_owned(),
    };
    let mut models: Vec<String> = names.iter().map(one).collect();
    models.dedup();
    let offline = team
        .models
        .get(DEFAULT)
        .is_some_and(|model| model.provider == "offline");
    let hint =
        if offline && names.contains(&DEFAULT) && registry.provider_names().contains(&"openai") {
            " (set OPENAI_API_KEY for a real one)"
        } else {
            ""
        };
    format!("{}{hint}", models.join(", "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::definition::AgentSpec;

    use super::*;

    fn registry() -> Registry {
        let none = |_: &serde_json::Map<String, serde_json::Value>| Err(String::new());
        Registry::new()
            .provider("openai", none)
            .provider("offline", none)
    }

    fn defined(registry: &Registry, variables: &[(&str, &str)]) -> Option<serde_json::Value> {
        let mut team = TeamSpec::new(AgentSpec::new("desk"));
        define_from(&mut team, registry, &|wanted| {
            let found = variables.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| (*value).to_owned())
        });
        team.models
            .get(DEFAULT)
            .map(|model| serde_json::to_value(model).unwrap())
    }

    #[test]
    fn the_environment_chooses_the_default_model() {
        let registry = registry();
        assert_eq!(defined(&registry, &[]).unwrap()["provider"], "offline");
        let found = defined(
            &registry,
            &[("OPENAI_API_KEY", "sk-1"), ("OPENAI_MODEL", "m")],
        )
        .unwrap();
        let expected = serde_json::json!({
            "provider": "openai", "model": "m", "api_key": "${OPENAI_API_KEY}",
        });
        assert_eq!(found, expected, "the key itself is nowhere");
        let local = [("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")];
        let expected = serde_json::json!({ "provider": "openai", "base_url": local[0].1 });
        assert_eq!(defined(&registry, &local).unwrap(), expected);
        assert_eq!(defined(&Registry::new(), &[]), None);
    }

    #[test]
    fn a_file_that_says_which_model_is_not_overruled() {
        let mut team = TeamSpec::new(AgentSpec::new("desk"));
        team.models
            .insert(DEFAULT.into(), ModelSpec::new("offline"));
        define_from(&mut team, &registry(), &|_| Some(String::from("x")));
        assert_eq!(team.models[DEFAULT], ModelSpec::new("offline"));
        assert_eq!(
            describe(&team, &registry()),
            "offline (set OPENAI_API_KEY for a real one)"
        );
        team.models.insert(
            DEFAULT.into(),
            ModelSpec::new("openai").setting("model", "m"),
        );
        assert_eq!(describe(&team, &registry()), "openai m");
    }
}
