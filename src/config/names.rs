//! Finds the place in a file of a fault in its team.

use ghostlight_actors::definition::DefinitionError;

use super::{
    document::{Node, Place},
    fault::{Fault, FaultKind, instead},
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
            let known = known.split(", ").filter(|known| *known != "none");
            Fault::new(FaultKind::UnknownName, place, message).help(instead(name, known))
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
        DefinitionError::Settings { .. } => {
            Fault::new(FaultKind::WrongValue, place, error.to_string())
        }
        _ => Fault::new(FaultKind::Team, place, error.to_string()),
    }
}

/// The place of the entry of this name in a section. If two have the name, it is the second.
fn named_in(team: &Node, section: &str, name: &str) -> Option<Place> {
    let mut entries = team.get(section)?.items().iter().rev();
    let named = |entry: &&Node| {
        let found = entry.get("name").and_then(Node::text);
        found.unwrap_or_default() == name
    };
    entries.find(named).map(|node| node.place)
}

fn place_of(error: &DefinitionError, team: &Node) -> Option<Place> {
    match error {
        DefinitionError::Name { what: "team", .. } if team.get("name").is_some() => {
            team.get("name").map(|node| node.place)
        }
        DefinitionError::Name {
            what: "schedule",
            name,
        }
        | DefinitionError::Schedule { name, .. } => named_in(team, "schedules", name),
        DefinitionError::Name {
            what: "webhook",
            name,
        }
        | DefinitionError::Webhook { name, .. } => named_in(team, "webhooks", name),
        DefinitionError::Notification { url, .. } => {
            let notifications = team.get("notifications")?;
            let named = |node: &&Node| {
                let found = node.get("url").and_then(Node::text);
                found.unwrap_or_default() == url
            };
            let found = notifications.items().iter().rfind(named);
            Some(found.unwrap_or(notifications).place)
        }
        DefinitionError::Settings {
            what: "messenger",
            name,
            ..
        } => named_in(team, "messengers", name),
        DefinitionError::Percent { .. } => team.get("budget_warnings").map(|node| node.place),
        DefinitionError::Name { name, .. } => {
            let agents = agents(team);
            let named = agents.iter().filter_map(|agent| agent.get("name"));
            named
                .into_iter()
                .find(|node| node.text() == Some(name.as_str()))
                .map(|node| node.place)
                // An agent without a name has the place of the agent itself.
                .or_else(|| {
                    agents
                        .iter()
                        .find(|agent| agent.get("name").is_none())
                        .map(|agent| agent.place)
                })
                .or_else(|| team.entry("agent").map(|(key, _)| key.place))
        }
        DefinitionError::Reserved { name } => {
            let mut named = names(team).filter(|node| node.text() == Some(name.as_str()));
            named.next().map(|node| node.place)
        }
        DefinitionError::Twice { name } => {
            let mut named = names(team).filter(|node| node.text() == Some(name.as_str()));
            named.nth(1).map(|node| node.place)
        }
        DefinitionError::ToolTwice { agent, tool } => {
            let tools = agent_named(team, agent)?.get("tools")?;
            let mut found = tools
                .items()
                .iter()
                .filter(|node| node.text() == Some(tool.as_str()));
            found.nth(1).map(|node| node.place)
        }
        DefinitionError::TooDeep { name } => {
            let mut named = names(team).filter(|node| node.text() == Some(name.as_str()));
            named.next().map(|node| node.place)
        }
        DefinitionError::HiddenRoot { name } => {
            Some(agent_named(team, name)?.entry("reach")?.0.place)
        }
        DefinitionError::Unknown {
            wanted_by,
            what,
            name,
            ..
        } => named_by(team, wanted_by, what, Some(name)),
        DefinitionError::Settings {
            wanted_by,
            what: what @ "interceptor",
            name,
            ..
        } => named_by(team, wanted_by, what, Some(name)),
        DefinitionError::Settings {
            wanted_by, what, ..
        } => named_by(team, wanted_by, what, None),
        _ => None,
    }
}

/// The place of the name that `agent "desk"`, `model "fast"` or `tool "docs"` uses, or of the whole
/// entry with its settings if no name is given.
fn named_by(team: &Node, wanted_by: &str, what: &str, name: Option<&str>) -> Option<Place> {
    for section in ["models", "tools"] {
        let kind = section.trim_end_matches('s');
        let field = if section == "models" {
            "provider"
        } else {
            "kind"
        };
        let Some(super::document::Content::Mapping(entries)) =
            team.get(section).map(|node| &node.content)
        else {
            continue;
        };
        let found = entries
            .iter()
            .find(|(key, _)| wanted_by == format!("{kind} {:?}", key.name));
        if let Some((key, value)) = found {
            let inside = name.and_then(|_| value.get(field)).map(|node| node.place);
            return Some(inside.unwrap_or(key.place));
        }
    }
    let called = |node: &Node| {
        let called = node.text().or_else(|| node.get("name")?.text());
        called.map(str::to_owned)
    };
    if what == "policy" && wanted_by.starts_with("team ") {
        let (key, policies) = team.entry("policies")?;
        let mut policies = policies.items().iter();
        let meant = policies.find(|node| name.is_some() && called(node).as_deref() == name);
        return Some(meant.map_or(key.place, |node| node.get("name").unwrap_or(node).place));
    }
    // `team "desk"` or `interceptor "retry"`: one of its interceptors.
    let interceptors = team.get("interceptors").map_or(&[][..], Node::items);
    if what == "interceptor" || wanted_by.starts_with("interceptor ") {
        let meant = interceptors.iter().find(|node| match called(node) {
            Some(called) => {
                name == Some(called.as_str()) || wanted_by == format!("interceptor {called:?}")
            }
            None => false,
        });
        let inside = |node: &Node| {
            let list = node.get(&format!("{what}s"))?.items().iter();
            let found = list.into_iter().find(|item| item.text() == name)?;
            Some(found.place)
        };
        return meant.map(|node| inside(node).unwrap_or(node.place));
    }
    let agents = agents(team);
    let agent = agents.iter().find(|agent| {
        let called = agent.get("name").and_then(Node::text).unwrap_or_default();
        wanted_by == format!("agent {called:?}")
    })?;
    let key = match what {
        "tool" => "tools",
        "policy" => "policies",
        other => other,
    };
    let (key, value) = agent.entry(key).or_else(|| agent.entry("name"))?;
    let is_name = |node: &&Node| {
        let called = node
            .text()
            .or_else(|| node.get("name").and_then(Node::text));
        name.is_some() && called == name
    };
    let exact = value.items().iter().chain([value]).find(is_name);
    Some(exact.map_or(key.place, |node| node.get("name").unwrap_or(node).place))
}

/// All agents of a team, from the root down.
fn agents(team: &Node) -> Vec<&Node> {
    let mut found = Vec::new();
    let mut open: Vec<&Node> = team.get("agent").into_iter().collect();
    while let Some(agent) = open.pop() {
        let below = agent.get("agents").map_or(&[][..], Node::items);
        open.extend(below.iter().rev());
        found.push(agent);
    }
    found
}

fn names(team: &Node) -> impl Iterator<Item = &Node> {
    agents(team)
        .into_iter()
        .filter_map(|agent| agent.get("name"))
}

fn agent_named<'a>(team: &'a Node, name: &str) -> Option<&'a Node> {
    let mut agents = agents(team).into_iter();
    agents.find(|agent| agent.get("name").and_then(Node::text) == Some(name))
}
