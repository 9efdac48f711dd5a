//! Changing one text of a team file in place, so that comments and everything else stay.

use std::fmt::Write as _;

use super::{
    TeamFile,
    document::{Content, Node},
};

impl TeamFile {
    /// The file with another text of an agent under this key: `value` gives it as YAML, whose lines stand behind this many
    /// spaces. `None` where the agent is not written in lines, such as in JSON or within `{}`; whoever uses the result reads
    /// it again to see whether it says what it should.
    pub fn with_text(
        &self,
        agent: &str,
        key: &str,
        value: impl Fn(usize) -> String,
    ) -> Option<String> {
        let agent = find(self.document.get("agent")?, agent)?;
        let lines: Vec<&str> = self.text.split_inclusive('\n').collect();
        let found = agent.entry(key).map(|(key, _)| key.place);
        let place = found.or_else(|| agent.entry("name").map(|(name, _)| name.place))?;
        let (line, indent) = (place.line as usize - 1, place.column as usize - 1);
        let first = *lines.get(line)?;
        let before: String = first.chars().take(indent).collect();
        if !before.chars().all(|c| c == ' ' || c == '-') {
            return None;
        }
        let spaces = |line: &str| line.len() - line.trim_start_matches(' ').len();
        let belongs = |line: &&&str| line.trim().is_empty() || spaces(line) > indent;
        let below = lines[line + 1..].iter().take_while(belongs);
        let below: Vec<&str> = below.copied().collect();
        // Blank lines at the end stand between this text and what follows.
        let blank = below.iter().rev().take_while(|line| line.trim().is_empty());
        let end = line + 1 + below.len() - blank.count();
        let value = value(indent + 2);
        let (head, tail, start) = match found {
            Some(_) => (&lines[..line], &lines[end..], before),
            None => (&lines[..end], &lines[end..], " ".repeat(indent)),
        };
        let mut text = head.concat();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let _ = writeln!(text, "{start}{key}: {value}");
        text.push_str(&tail.concat());
        Some(text)
    }
}

/// The agent of this name in a tree of agents.
fn find<'a>(agent: &'a Node, name: &str) -> Option<&'a Node> {
    if agent.get("name").and_then(Node::text) == Some(name) {
        return Some(agent);
    }
    match &agent.get("agents")?.content {
        Content::List(below) => below.iter().find_map(|agent| find(agent, name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::config::parse;

    const TEAM: &str = "\
# A desk.
name: desk
agent:
  name: desk # the first
  instructions: >
    Be kind,
    and brief.

  # Below it.
  agents:
    - name: guide
      instructions: Look it up.
      description: |
        Knows.
    - description: Counts.
      name: clerk
";

    fn changed(agent: &str, key: &str) -> String {
        let file = parse(TEAM, "desk.yaml").unwrap();
        let value = |indent: usize| format!("|-\n{0}One.\n{0}Two.", " ".repeat(indent));
        file.with_text(agent, key, value).unwrap()
    }

    #[test]
    fn one_text_is_changed_and_everything_else_stays() {
        let desk = changed("desk", "instructions");
        assert!(
            desk.contains("first\n  instructions: |-\n    One.\n    Two.\n\n  # Below it.\n"),
            "{desk}"
        );
        let guide = changed("guide", "instructions");
        assert!(
            guide.contains(
                "guide\n      instructions: |-\n        One.\n        Two.\n      description: |"
            ),
            "{guide}"
        );
        let clerk = changed("clerk", "description");
        assert!(
            clerk.ends_with(
                "    - description: |-\n        One.\n        Two.\n      name: clerk\n"
            ),
            "{clerk}"
        );
        let added = changed("desk", "description");
        assert!(
            added.contains("# the first\n  description: |-\n    One.\n    Two.\n  instructions"),
            "{added}"
        );
        for (agent, key) in [
            ("desk", "instructions"),
            ("guide", "instructions"),
            ("clerk", "instructions"),
        ] {
            let text = changed(agent, key);
            let read = parse(text.as_str(), "desk.yaml").unwrap();
            let json = serde_json::to_string(read.spec()).unwrap();
            assert_eq!(json.matches("One.\\nTwo.").count(), 1, "{text}");
        }
        let flow = parse("agent: { name: desk, instructions: Be kind. }", "desk.yaml").unwrap();
        assert_eq!(
            flow.with_text("desk", "instructions", |_| String::new()),
            None
        );
        assert_eq!(
            flow.with_text("nobody", "instructions", |_| String::new()),
            None
        );
    }
}
