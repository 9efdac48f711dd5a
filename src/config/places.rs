//! Finds the place in a file of a fault in its team.

use ghostlight_actors::definition::DefinitionError;

use super::document::{Content, Node, Place};

/// The place of the value that is wrong, or of the key that it belongs to.
pub(super) fn place_of(error: &DefinitionError, team: &Node) -> Option<Place> {
    match error {
        DefinitionError::Name { what, name } => place_of_name(team, what, name),
        DefinitionError::Schedule { name, .. } => named_in(team, "schedules", name),
        DefinitionError::Percent { .. } => team.get("budget_warnings").map(|node| node.place),
        DefinitionError::Unpriced { agent, .. } => {
            let own = agent_named(team, agent).and_then(|agent| agent.get("budget"));
            own.or_else(|| team.get("budget")).map(|node| node.place)
        }
        DefinitionError::Reserved { name } | DefinitionError::TooDeep { name } => {
            names_of_agents(team, name).next().map(|node| node.place)
        }
        DefinitionError::Twice { name } => {
            names_of_agents(team, name).nth(1).map(|node| node.place)
        }
        DefinitionError::ToolTwice { agent, tool } => {
            let tools = agent_named(team, agent)?.get("tools")?.items().iter();
            let mut found = tools.filter(|node| node.text() == Some(tool.as_str()));
            found.nth(1).map(|node| node.place)
        }
        DefinitionError::HiddenRoot { name } => {
            Some(agent_named(team, name)?.entry("reach")?.0.place)
        }
        DefinitionError::Unknown {
            wanted_by,
            what,
            name,
            ..
        } => match wanted_by.strip_prefix("the approval of ") {
            Some(agent) => {
                let rules = agent_named(team, quoted(agent)?)?.get("approval")?;
                rules.entry(name).map(|(key, _)| key.place)
            }
            None => named_by(team, wanted_by, what, Some(name)),
        },
        DefinitionError::Settings {
            what: what @ ("webhook" | "messenger"),
            name,
            ..
        } => named_in(team, &format!("{what}s"), name),
        DefinitionError::Settings {
            what: "notification",
            name,
            ..
        } => {
            let notifications = team.get("notifications")?;
            let found = last_with(notifications, "url", name);
            Some(found.unwrap_or(notifications).place)
        }
        DefinitionError::Settings {
            wanted_by,
            what,
            name,
            ..
        } => {
            let in_a_list = matches!(*what, "interceptor" | "policy");
            let name = in_a_list.then_some(name.as_str());
            named_by(team, wanted_by, what, name)
        }
        _ => None,
    }
}

/// The place of a name that is not a name. An agent without a name has the place of the agent itself.
fn place_of_name(team: &Node, what: &str, name: &str) -> Option<Place> {
    match (what, team.get("name")) {
        ("team", Some(node)) => return Some(node.place),
        ("schedule", _) => return named_in(team, "schedules", name),
        ("webhook", _) => return named_in(team, "webhooks", name),
        ("messenger", _) => return named_in(team, "messengers", name),
        _ => {}
    }
    let of_agent = names_of_agents(team, name).next();
    let nameless = || {
        let agents = agents(team);
        agents.into_iter().find(|agent| agent.get("name").is_none())
    };
    of_agent
        .or_else(nameless)
        .map(|node| node.place)
        .or_else(|| team.entry("agent").map(|(key, _)| key.place))
}

/// The place of the entry of this name in a section. If two have the name, it is the second.
fn named_in(team: &Node, section: &str, name: &str) -> Option<Place> {
    last_with(team.get(section)?, "name", name).map(|node| node.place)
}

/// The last item of a list that has this text under a key; an item without the key has an empty text.
fn last_with<'a>(list: &'a Node, key: &str, text: &str) -> Option<&'a Node> {
    let has = |item: &&Node| item.get(key).and_then(Node::text).unwrap_or_default() == text;
    list.items().iter().rfind(has)
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
        let Some(Content::Mapping(entries)) = team.get(section).map(|node| &node.content) else {
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

/// The name in `agent "desk"`.
pub(super) fn quoted(wanted_by: &str) -> Option<&str> {
    wanted_by.split('"').nth(1)
}

/// All agents of a team, from the root down.
pub(super) fn agents(team: &Node) -> Vec<&Node> {
    let mut found = Vec::new();
    let mut open: Vec<&Node> = team.get("agent").into_iter().collect();
    while let Some(agent) = open.pop() {
        let below = agent.get("agents").map_or(&[][..], Node::items);
        open.extend(below.iter().rev());
        found.push(agent);
    }
    found
}

/// The names of agents that read so.
fn names_of_agents<'a>(team: &'a Node, name: &str) -> impl Iterator<Item = &'a Node> {
    agents(team)
        .into_iter()
        .filter_map(|agent| agent.get("name"))
        .filter(move |node| node.text() == Some(name))
}

pub(super) fn agent_named<'a>(team: &'a Node, name: &str) -> Option<&'a Node> {
    let mut agents = agents(team).into_iter();
    agents.find(|agent| agent.get("name").and_then(Node::text) == Some(name))
}
