//! `remote:` in a team file: a member whose agent runs elsewhere.

use super::{
    document::{Content, Key, Node},
    fault::{Fault, FaultKind},
};

/// The parts of a member whose agent is elsewhere: a kind of tool, a behavior, and the settings that the two share.
struct Member {
    kind: &'static str,
    behavior: &'static str,
    shared: &'static [&'static str],
    /// The settings of the behavior alone.
    own: &'static [&'static str],
}

/// An agent at an address, which speaks the Agent2Agent protocol.
const AT_ADDRESS: Member = Member {
    kind: "a2a",
    behavior: "remote",
    shared: &["task_timeout_s"],
    own: &["state"],
};
/// An agent in a process, which speaks the Agent Client Protocol.
const IN_PROCESS: Member = Member {
    kind: "acp",
    behavior: "remote_process",
    shared: &[],
    own: &[],
};

/// Turns each `remote` section into a tool with the name of its member, and gives the member this
/// tool and the behavior. This happens before variables are substituted, because headers keep
/// references to theirs; so templates cannot use `remote`.
pub(super) fn to_tools(team: &mut Node) -> Result<(), Fault> {
    let Content::Mapping(sections) = &mut team.content else {
        return Ok(());
    };
    let mut found = Vec::new();
    for (key, section) in sections.iter_mut() {
        if key.name == "agent" {
            take(section, &mut found)?;
        }
    }
    let Some(first) = found.first() else {
        return Ok(());
    };
    let place = first.0.place;
    let tools = match sections.iter_mut().find(|(key, _)| key.name == "tools") {
        Some((_, tools)) => tools,
        None => {
            let content = Content::Mapping(Vec::new());
            sections.push((Key::new("tools", place), Node { place, content }));
            match sections.last_mut() {
                Some((_, tools)) => tools,
                None => return Ok(()),
            }
        }
    };
    // Any other content is refused where it is read.
    let Content::Mapping(tools) = &mut tools.content else {
        return Ok(());
    };
    for (name, settings) in found {
        if tools.iter().any(|(known, _)| known.name == name.name) {
            let message = format!("`{}` is the name of a tool, too: rename one", name.name);
            return Err(Fault::new(FaultKind::WrongValue, name.place, message));
        }
        tools.push((name, settings));
    }
    Ok(())
}

/// Takes the settings out of an agent and of the agents below it.
fn take(agent: &mut Node, found: &mut Vec<(Key, Node)>) -> Result<(), Fault> {
    let name = agent
        .get("name")
        .and_then(Node::text)
        .unwrap_or_default()
        .to_owned();
    let Content::Mapping(entries) = &mut agent.content else {
        return Ok(());
    };
    for (key, value) in entries.iter_mut() {
        if let ("agents", Content::List(below)) = (key.name.as_str(), &mut value.content) {
            for agent in below {
                take(agent, found)?;
            }
        }
    }
    let Some(at) = entries.iter().position(|(key, _)| key.name == "remote") else {
        return Ok(());
    };
    let (said, mut settings) = entries.remove(at);
    let place = said.place;
    let wrong = |message: &str| Err(Fault::new(FaultKind::WrongValue, place, message.to_owned()));
    let Content::Mapping(fields) = &mut settings.content else {
        return wrong("`remote` must be a mapping, with `url` or `command`");
    };
    for other in [
        "template",
        "behavior",
        "tools",
        "model",
        "instructions",
        "agents",
    ] {
        if entries.iter().any(|(key, _)| key.name == other) {
            return wrong(&format!(
                "an agent with `remote` works elsewhere: remove its `{other}`"
            ));
        }
    }
    let has = |name| fields.iter().any(|(key, _)| key.name == name);
    let member = match (has("url"), has("command")) {
        (true, true) => return wrong("`remote` has a `url` or a `command`: remove one of them"),
        (_, false) => AT_ADDRESS,
        (false, true) => IN_PROCESS,
    };
    let is_shared = |(key, _): &&(Key, Node)| member.shared.contains(&key.name.as_str());
    let shared: Vec<_> = fields.iter().filter(is_shared).cloned().collect();
    let is_own = |(key, _): &(Key, Node)| member.own.contains(&key.name.as_str());
    let (own, kept): (Vec<_>, Vec<_>) = fields.drain(..).partition(is_own);
    *fields = kept;
    fields.push((Key::new("kind", place), Node::text_at(member.kind, place)));
    let mut behavior = vec![(
        Key::new("name", place),
        Node::text_at(member.behavior, place),
    )];
    behavior.extend(shared);
    behavior.extend(own);
    let tools = Content::List(vec![Node::text_at(&name, place)]);
    let behavior = Content::Mapping(behavior);
    for (name, content) in [("behavior", behavior), ("tools", tools)] {
        entries.push((Key::new(name, place), Node { place, content }));
    }
    found.push((Key::new(&name, place), settings));
    Ok(())
}
