//! `guards:` in a team file: named sets of rules, which agents name.

use std::collections::BTreeMap;

use super::{
    document::{Content, Key, Node, Place},
    fault::{Fault, FaultKind},
};

/// The uses of a set by an agent, and the points that each stands for.
const USES: [(&str, &[&str]); 3] = [
    ("input", &["input"]),
    ("output", &["output"]),
    ("tools", &["arguments", "results"]),
];

/// The rules by which agents use each set: agents, and the points at which it holds for them.
type Named = BTreeMap<String, BTreeMap<String, Vec<&'static str>>>;

/// Makes an interceptor of each set, before all others, with the agents that name it. Templates were expanded.
pub(super) fn to_interceptors(team: &mut Node) -> Result<(), Fault> {
    let Content::Mapping(sections) = &mut team.content else {
        return Ok(());
    };
    let mut named: Vec<(String, Place)> = Vec::new();
    let mut uses = Named::new();
    for (key, section) in sections.iter_mut() {
        if key.name == "agent" {
            take(section, &mut uses, &mut named)?;
        }
    }
    let at = sections.iter().position(|(key, _)| key.name == "guards");
    let section = at.map(|at| sections.remove(at));
    let sets = match section {
        None => Vec::new(),
        Some((
            _,
            Node {
                content: Content::Mapping(sets),
                ..
            },
        )) => sets,
        Some((_, section)) => {
            return wrong(
                section.place,
                "`guards` must be a mapping of names to sets of rules",
            );
        }
    };
    let is_known = |name: &str| sets.iter().any(|(key, _)| key.name == name);
    if let Some((name, place)) = named.iter().find(|(name, _)| !is_known(name)) {
        let known: Vec<&str> = sets.iter().map(|(key, _)| key.name.as_str()).collect();
        let message = format!(
            "there is no set of guards `{name}`; {}",
            match known.is_empty() {
                true => "define it below `guards` of the team".to_owned(),
                false => format!("there are: {}", known.join(", ")),
            }
        );
        return wrong(*place, message);
    }
    let Some(place) = sets.first().map(|(key, _)| key.place) else {
        return Ok(());
    };
    let mut guards = Vec::with_capacity(sets.len());
    for (name, settings) in sets {
        guards.push(interceptor(name, settings, &uses)?);
    }
    match sections
        .iter_mut()
        .find(|(key, _)| key.name == "interceptors")
    {
        Some((_, interceptors)) => {
            // Any other content is refused where it is read.
            if let Content::List(all) = &mut interceptors.content {
                all.splice(0..0, guards);
            }
        }
        None => {
            let content = Content::List(guards);
            sections.push((Key::new("interceptors", place), Node { place, content }));
        }
    }
    Ok(())
}

/// The interceptor of a set.
fn interceptor(name: Key, mut settings: Node, uses: &Named) -> Result<Node, Fault> {
    let place = name.place;
    let Content::Mapping(fields) = &mut settings.content else {
        let message = format!("`{}` must be a mapping, with `rules`", name.name);
        return wrong(settings.place, message);
    };
    let own = ["name", "set", "agents", "models", "tools"];
    if let Some((key, _)) = fields.iter().find(|(key, _)| own.contains(&&*key.name)) {
        let message = format!(
            "a set of guards has no `{}`: agents name the sets that hold for them",
            key.name
        );
        return wrong(key.place, message);
    }
    fields.insert(0, (Key::new("name", place), Node::text_at("guard", place)));
    fields.push((Key::new("set", place), Node::text_at(&name.name, place)));
    if let Some(agents) = uses.get(&name.name) {
        let agents = agents.iter().map(|(agent, points)| {
            let points = points
                .iter()
                .map(|point| Node::text_at(point, place))
                .collect();
            let content = Content::List(points);
            (Key::new(agent, place), Node { place, content })
        });
        let content = Content::Mapping(agents.collect());
        fields.push((Key::new("agents", place), Node { place, content }));
    }
    Ok(settings)
}

/// Takes `guards` out of an agent and of the agents below it.
fn take(agent: &mut Node, uses: &mut Named, named: &mut Vec<(String, Place)>) -> Result<(), Fault> {
    let name = agent.get("name").and_then(Node::text);
    let name = name.unwrap_or_default().to_owned();
    let Content::Mapping(entries) = &mut agent.content else {
        return Ok(());
    };
    for (key, value) in entries.iter_mut() {
        if let ("agents", Content::List(below)) = (key.name.as_str(), &mut value.content) {
            for agent in below {
                take(agent, uses, named)?;
            }
        }
    }
    let Some(at) = entries.iter().position(|(key, _)| key.name == "guards") else {
        return Ok(());
    };
    let (_, said) = entries.remove(at);
    let mut uses_of = |sets: &Node, points: &[&'static str]| {
        let Content::List(items) = &sets.content else {
            return wrong(sets.place, "expected a list of names of `guards`");
        };
        for item in items {
            let Some(set) = item.text() else {
                return wrong(item.place, "expected the name of one of `guards`");
            };
            named.push((set.to_owned(), item.place));
            let agents = uses.entry(set.to_owned()).or_default();
            agents.entry(name.clone()).or_default().extend(points);
        }
        Ok(())
    };
    match &said.content {
        Content::List(_) => {
            let all: Vec<&str> = USES
                .iter()
                .flat_map(|(_, points)| points.iter())
                .copied()
                .collect();
            uses_of(&said, &all)
        }
        Content::Mapping(parts) => {
            for (key, sets) in parts {
                let Some((_, points)) = USES.iter().find(|(name, _)| *name == key.name) else {
                    let message = format!(
                        "unknown key `{}`: guards stand at `input`, `output` or `tools`",
                        key.name
                    );
                    return wrong(key.place, message);
                };
                uses_of(sets, points)?;
            }
            Ok(())
        }
        _ => wrong(
            said.place,
            "expected a list of names of `guards`, or a mapping with `input`, `output` or `tools`",
        ),
    }
}

fn wrong<T>(place: Place, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::new(FaultKind::WrongValue, place, message))
}
