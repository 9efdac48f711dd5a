//! Draws a team as source text for diagram tools.

use std::{collections::BTreeSet, fmt::Write};

use super::{AgentSpec, TeamSpec};

/// The meaning of an arrow in the picture.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Arrow {
    /// The parent's model may hand it the conversation.
    Transfer,
    /// The parent's model may give it a task.
    Delegate,
    /// The parent's model may do both.
    Both,
    /// Only code reaches it.
    Hidden,
    /// An agent may hand the conversation to one beside it.
    Peer,
    /// An agent publishes on a topic.
    Publishes,
    /// A topic's events start an agent.
    Starts,
}

impl Arrow {
    fn below(agent: &AgentSpec) -> Self {
        match (agent.reach.transfers(), agent.reach.delegates()) {
            (true, true) => Self::Both,
            (true, false) => Self::Transfer,
            (false, true) => Self::Delegate,
            (false, false) => Self::Hidden,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::Delegate => "delegate",
            Self::Both => "transfer, delegate",
            Self::Hidden => "",
            Self::Peer => "peer",
            Self::Publishes => "publishes",
            Self::Starts => "starts",
        }
    }

    fn is_dashed(self) -> bool {
        !matches!(self, Self::Transfer | Self::Both | Self::Peer)
    }
}

/// The nodes and arrows of a team's picture. An arrow names a topic by its second part.
struct Picture<'a> {
    agents: Vec<&'a AgentSpec>,
    topics: Vec<&'a str>,
    arrows: Vec<(String, String, Arrow)>,
}

fn agent_id(name: &str) -> String {
    format!("agent_{name}")
}

impl<'a> Picture<'a> {
    fn of(team: &'a TeamSpec) -> Self {
        let walk = team.agent.walk();
        let agents: Vec<&AgentSpec> = walk.iter().map(|(_, agent)| *agent).collect();
        let named = agents.iter().flat_map(|agent| {
            let started = agent.starts_on.iter();
            agent.publishes.iter().chain(started)
        });
        let topics: BTreeSet<&str> = named.map(String::as_str).collect();
        let topics: Vec<&str> = topics.into_iter().collect();
        let topic_id = |topic: &str| {
            let place = topics.iter().position(|known| *known == topic);
            format!("topic_{}", place.unwrap_or_default())
        };
        let mut arrows = Vec::new();
        for agent in &agents {
            for child in &agent.agents {
                let ends = (agent_id(&agent.name), agent_id(&child.name));
                arrows.push((ends.0, ends.1, Arrow::below(child)));
            }
            let targets = team.transfer_targets(&agent.name, None);
            let beside = targets.iter().filter(|target| {
                let is = |path: Option<Vec<String>>| path.map_or(0, |path| path.len());
                is(team.path(&target.name)) == is(team.path(&agent.name))
            });
            for peer in beside {
                let ends = (agent_id(&agent.name), agent_id(&peer.name));
                arrows.push((ends.0, ends.1, Arrow::Peer));
            }
            for topic in &agent.publishes {
                arrows.push((agent_id(&agent.name), topic_id(topic), Arrow::Publishes));
            }
            for topic in &agent.starts_on {
                arrows.push((topic_id(topic), agent_id(&agent.name), Arrow::Starts));
            }
        }
        Self {
            agents,
            topics,
            arrows,
        }
    }
}

/// A topic's name in quotes, valid in both languages.
fn quoted(name: &str) -> String {
    name.replace('\\', "/").replace('"', "'").replace('\n', " ")
}

impl TeamSpec {
    /// The team in Mermaid's language: its agents with their behaviors, how each is reached, and the topics between
    /// them.
    pub fn mermaid(&self) -> String {
        let picture = Picture::of(self);
        let mut text = String::from("flowchart TD\n");
        // Writing into a string cannot fail.
        for agent in &picture.agents {
            let (id, name) = (agent_id(&agent.name), quoted(agent.display_name()));
            let works = quoted(agent.agent_type());
            let _ = writeln!(text, "    {id}[\"{name}<br/><i>{works}</i>\"]");
        }
        for (place, topic) in picture.topics.iter().enumerate() {
            let _ = writeln!(text, "    topic_{place}([\"{}\"])", quoted(topic));
        }
        for (from, to, arrow) in &picture.arrows {
            let line = if arrow.is_dashed() { "-.->" } else { "-->" };
            let label = match arrow.label() {
                "" => String::new(),
                label => format!("|{label}|"),
            };
            let _ = writeln!(text, "    {from} {line}{label} {to}");
        }
        text
    }

    /// The team in Graphviz's language.
    pub fn dot(&self) -> String {
        let picture = Picture::of(self);
        let mut text = String::from("digraph {\n    node [shape=box];\n");
        for agent in &picture.agents {
            let (id, name) = (agent_id(&agent.name), quoted(agent.display_name()));
            let works = quoted(agent.agent_type());
            let _ = writeln!(text, "    \"{id}\" [label=\"{name}\\n{works}\"];");
        }
        for (place, topic) in picture.topics.iter().enumerate() {
            let topic = quoted(topic);
            let _ = writeln!(
                text,
                "    \"topic_{place}\" [shape=oval, label=\"{topic}\"];"
            );
        }
        for (from, to, arrow) in &picture.arrows {
            let style = if arrow.is_dashed() { "dashed" } else { "solid" };
            let label = arrow.label();
            let _ = writeln!(
                text,
                "    \"{from}\" -> \"{to}\" [label=\"{label}\", style={style}];"
            );
        }
        text.push_str("}\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use crate::definition::{AgentSpec, Reach, TeamSpec};

    fn team() -> TeamSpec {
        let mut desk = AgentSpec::new("desk");
        let mut billing = AgentSpec::new("billing");
        billing.transfers.peers = false;
        billing.starts_on = vec!["orders \"new\"".to_owned()];
        let mut clerk = AgentSpec::new("clerk");
        clerk.reach = Reach::Delegate;
        let other = AgentSpec::new("other");
        desk.publishes = vec!["orders \"new\"".to_owned()];
        desk.agents = vec![billing, clerk, other];
        TeamSpec::new(desk)
    }

    #[test]
    fn a_team_is_drawn_with_who_reaches_whom() {
        assert_eq!(
            team().mermaid(),
            "flowchart TD\n\
             \x20   agent_desk[\"desk<br/><i>function_calling</i>\"]\n\
             \x20   agent_billing[\"billing<br/><i>function_calling</i>\"]\n\
             \x20   agent_clerk[\"clerk<br/><i>function_calling</i>\"]\n\
             \x20   agent_other[\"other<br/><i>function_calling</i>\"]\n\
             \x20   topic_0([\"orders 'new'\"])\n\
             \x20   agent_desk -->|transfer| agent_billing\n\
             \x20   agent_desk -.->|delegate| agent_clerk\n\
             \x20   agent_desk -->|transfer| agent_other\n\
             \x20   agent_desk -.->|publishes| topic_0\n\
             \x20   topic_0 -.->|starts| agent_billing\n\
             \x20   agent_other -->|peer| agent_billing\n"
        );
        let dot = team().dot();
        assert!(
            dot.starts_with("digraph {\n") && dot.ends_with("}\n"),
            "{dot}"
        );
        assert!(
            dot.contains(
                "    \"agent_other\" -> \"agent_billing\" [label=\"peer\", style=solid];\n"
            )
        );
        assert!(dot.contains("    \"topic_0\" [shape=oval, label=\"orders 'new'\"];\n"));
    }
}
