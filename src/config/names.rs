//! Says a fault of a team in the words of its file, with its place.

use ghostlight_actors::definition::DefinitionError;

use super::{
    document::{Node, Place},
    fault::{Fault, FaultKind, instead},
    features,
    places::{agent_named, agents, place_of, quoted},
    settings,
};

/// The beginning of a team file.
pub(super) const BEGIN: &str = "begin with `agent:` and the agent's `name` and `instructions`";

/// The fault of a team, with its place in the file.
pub(super) fn locate(error: &DefinitionError, team: &Node) -> Fault {
    let place = place_of(error, team);
    match error {
        DefinitionError::Unknown {
            wanted_by,
            what,
            name,
            known,
        } => {
            let message = format!("{wanted_by} names the {what} `{name}`, which does not exist");
            let fault = Fault::new(FaultKind::UnknownName, place, message);
            let renamed = features::renamed(what, name);
            let missing = features::missing(what, renamed.unwrap_or(name), features::is_built);
            let built_without = missing.map(|feature| {
                format!(
                    "this program was built without the cargo feature `{feature}`, which brings it"
                )
            });
            fault.help(match (renamed, built_without) {
                (Some(new), None) => format!("it is called `{new}` now"),
                (Some(new), Some(without)) => format!("it is called `{new}` now; {without}"),
                (None, Some(without)) => without,
                (None, None) => instead(name, names_in(known)),
            })
        }
        DefinitionError::Name { name, .. } if name.is_empty() && team.get("agent").is_none() => {
            Fault::new(FaultKind::Team, place, "the key `agent` is missing").help(BEGIN)
        }
        DefinitionError::Name {
            what: "agent" | "team",
            name,
        } if name.is_empty() && agents(team).iter().any(|agent| agent.get("name").is_none()) => {
            Fault::new(FaultKind::Team, place, "the agent's key `name` is missing").help(BEGIN)
        }
        // A team without its own name has the name of its first agent.
        DefinitionError::Name { what: "team", name } if team.get("name").is_none() => {
            let name = name.clone();
            let error = DefinitionError::Name {
                what: "agent",
                name,
            };
            Fault::new(FaultKind::Team, place, error.to_string())
        }
        DefinitionError::Name {
            what: what @ ("schedule" | "webhook" | "messenger"),
            name,
        } if name.is_empty() => {
            let message = format!("the {what}'s key `name` is missing");
            Fault::new(FaultKind::Team, place, message)
        }
        DefinitionError::Settings {
            what: "notification",
            name,
            ..
        } if name.is_empty() => {
            let message = "the notification's key `url` is missing";
            Fault::new(FaultKind::Team, place, message)
        }
        DefinitionError::Settings { .. } => refused(error, team, place),
        _ => Fault::new(FaultKind::Team, place, error.to_string()),
    }
}

/// The names in the list of an error.
fn names_in(known: &str) -> impl Iterator<Item = &str> {
    // Where there are none, the engine says how a program gives one.
    let names = match known.starts_with("none (") {
        true => "none",
        false => known,
    };
    names.split(", ").filter(|known| *known != "none")
}

/// Adds to the help of an unknown name the names that the whole file defines, where entries with faults were left out of
/// the file that was checked.
pub(super) fn with_names_of(whole: &Node, error: &DefinitionError, fault: Fault) -> Fault {
    let DefinitionError::Unknown {
        what, name, known, ..
    } = error
    else {
        return fault;
    };
    let section = match *what {
        "model" => "models",
        "tool" => "tools",
        _ => return fault,
    };
    let mut all: Vec<&str> = names_in(known).collect();
    all.extend(whole.get(section).into_iter().flat_map(Node::keys));
    all.sort_unstable();
    all.dedup();
    fault.help(instead(name, all))
}

/// The fault of settings that the code that reads them refused.
fn refused(error: &DefinitionError, team: &Node, place: Option<Place>) -> Fault {
    let DefinitionError::Settings {
        wanted_by,
        what,
        name,
        reason,
    } = error
    else {
        return Fault::new(FaultKind::Team, place, error.to_string());
    };
    let Some(entry) = entry_of(team, wanted_by, what, name) else {
        let fault = Fault::new(FaultKind::WrongValue, place, error.to_string());
        return match *what {
            "provider" => fault.help(
                "the file does not define this model: look at the options, at the environment \
                 (such as OPENAI_BASE_URL), and at your settings",
            ),
            _ => fault,
        };
    };
    let refusal = settings::explain(entry, own_keys(what), reason);
    let told = DefinitionError::Settings {
        wanted_by: wanted_by.clone(),
        what,
        name: name.clone(),
        reason: refusal.message,
    };
    let fault = Fault::new(
        FaultKind::WrongValue,
        refusal.place.or(place),
        told.to_string(),
    );
    match refusal.help {
        Some(help) => fault.help(help),
        None => fault,
    }
}

/// The entry with the settings that were refused.
fn entry_of<'a>(team: &'a Node, wanted_by: &str, what: &str, name: &str) -> Option<&'a Node> {
    let listed_in = |of: &'a Node, section: &str| {
        let mut items = of.get(section)?.items().iter();
        items.find(|item| item.get("name").and_then(Node::text) == Some(name))
    };
    match what {
        "provider" => team.get("models")?.get(quoted(wanted_by)?),
        "kind of tool" => team.get("tools")?.get(quoted(wanted_by)?),
        "interceptor" => listed_in(team, "interceptors"),
        "policy" if wanted_by.starts_with("team ") => listed_in(team, "policies"),
        "policy" => listed_in(agent_named(team, quoted(wanted_by)?)?, "policies"),
        "behavior" => agent_named(team, quoted(wanted_by)?)?.get("behavior"),
        _ => None,
    }
}

/// The keys that entries of a kind have beside their settings.
fn own_keys(what: &str) -> &'static [&'static str] {
    match what {
        "kind of tool" => &["only", "prefix", "limits"],
        "interceptor" => &["models", "tools"],
        _ => &[],
    }
}
