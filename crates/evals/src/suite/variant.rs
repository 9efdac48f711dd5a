//! Variants: changes of a team.

use std::collections::BTreeMap;

use ghostlight_actors::definition::TeamSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A change of the team. Objects are merged into the team's (RFC 7396: `null` removes a setting, any other value
/// replaces it).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct VariantSpec {
    /// Settings of the whole team, such as `models`, `policies` or `instructions`.
    pub team: Map<String, Value>,
    /// Settings of the root agent.
    pub agent: Map<String, Value>,
    /// Settings of other agents, by name.
    pub agents: BTreeMap<String, Map<String, Value>>,
}

/// A variant that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VariantFault {
    /// It changes an agent that the team does not have.
    #[error("the variant {variant:?} changes the agent {agent:?}, which the team does not have")]
    UnknownAgent {
        /// The variant.
        variant: String,
        /// The agent.
        agent: String,
    },
    /// The changed team cannot be read, or has a fault.
    #[error("the variant {variant:?} makes a team that has a fault: {reason}")]
    Team {
        /// The variant.
        variant: String,
        /// The fault.
        reason: String,
    },
}

/// The team of a variant, under a name of its own, so that variants share no session and no memory.
///
/// # Errors
/// When the change names an agent that the team does not have, or makes a team that cannot be read.
pub fn team_of(
    team: &TeamSpec,
    name: &str,
    variant: &VariantSpec,
) -> Result<TeamSpec, VariantFault> {
    let unreadable = |error: serde_json::Error| VariantFault::Team {
        variant: name.to_owned(),
        reason: error.to_string(),
    };
    let mut value = serde_json::to_value(team).map_err(unreadable)?;
    merge(&mut value, &variant.team);
    if let Some(root) = value.get_mut("agent") {
        merge(root, &variant.agent);
    }
    for (agent, change) in &variant.agents {
        match value.get_mut("agent").and_then(|root| find(root, agent)) {
            Some(found) => merge(found, change),
            None => {
                let (variant, agent) = (name.to_owned(), agent.clone());
                return Err(VariantFault::UnknownAgent { variant, agent });
            }
        }
    }
    let mut spec: TeamSpec = serde_json::from_value(value).map_err(unreadable)?;
    spec.name = format!("{}-{name}", team.name);
    spec.check().map_err(|error| VariantFault::Team {
        variant: name.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(spec)
}

/// The team of a variant under the name of another one, for a run of that one which continues with it.
pub(crate) fn variant_in(base: &TeamSpec, variant: &TeamSpec) -> TeamSpec {
    let mut team = variant.clone();
    team.name.clone_from(&base.name);
    team
}

/// The agent of this name in a tree of agents.
fn find<'a>(agent: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    if agent.get("name").and_then(Value::as_str) == Some(name) {
        return Some(agent);
    }
    let below = agent.get_mut("agents")?.as_array_mut()?;
    below.iter_mut().find_map(|agent| find(agent, name))
}

/// Merges a change into a value (RFC 7396).
fn merge(value: &mut Value, change: &Map<String, Value>) {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Some(object) = value.as_object_mut() else {
        return;
    };
    for (key, new) in change {
        match new {
            Value::Null => drop(object.remove(key)),
            Value::Object(new) => merge(object.entry(key).or_insert(Value::Null), new),
            new => drop(object.insert(key.clone(), new.clone())),
        }
    }
}
