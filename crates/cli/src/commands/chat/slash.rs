//! Lines that begin with `/` in a chat.

use std::io::Write as _;

use ghostlight::files;
use ghostlight_actors::{
    actor::{Session, System},
    definition::TeamSpec,
    run::Registry,
};
use ghostlight_safety::redact_text;

use crate::{commands::effect, exit::Failure, plain_text};

/// The commands, for completion.
pub(super) const NAMES: &[&str] = &[
    "/agents", "/file", "/fork", "/help", "/quit", "/save", "/session", "/tools", "/undo",
];

pub(super) const HELP: &str = "\
/agents         the team's agents
/tools          what each of them can call
/file PATH      a file that goes with what you say next; an address of HTTP does too
/session        the key of this conversation
/undo           take the last turn back
/fork [KEY]     continue in a conversation of its own that begins as this one
/save FILE      write what was said; FILE.json is the whole session, for `ghostlight session import`
/quit           leave; `ghostlight chat --continue` continues
A line that ends with \\ continues. Ctrl-C stops the turn, twice leaves. //text says /text.";

/// The request of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked<'t> {
    /// A text for the team.
    Say(&'t str),
    Agents,
    Tools,
    Session,
    Undo,
    Fork(Option<&'t str>),
    Save(&'t str),
    /// A file for the next text.
    File(&'t str),
    Help,
    Quit,
    /// An invalid request, and why.
    Wrong(String),
}

pub(super) fn read(line: &str) -> Asked<'_> {
    let Some(command) = line.strip_prefix('/') else {
        return Asked::Say(line);
    };
    if command.starts_with('/') {
        return Asked::Say(command);
    }
    let (name, rest) = command
        .split_once(char::is_whitespace)
        .map_or((command, ""), |(name, rest)| (name, rest.trim()));
    match (name, rest) {
        ("agents", "") => Asked::Agents,
        ("tools", "") => Asked::Tools,
        ("session", "") => Asked::Session,
        ("undo", "") => Asked::Undo,
        ("fork", "") => Asked::Fork(None),
        ("fork", key) => Asked::Fork(Some(key)),
        ("save", "") => Asked::Wrong("say where to: /save FILE".to_owned()),
        ("save", file) => Asked::Save(file),
        ("file", "") => Asked::Wrong("say which: /file PATH".to_owned()),
        ("file", file) => Asked::File(file),
        ("help" | "?", _) => Asked::Help,
        ("quit" | "exit" | "q", _) => Asked::Quit,
        _ => {
            let name = plain_text::line(name, 40);
            Asked::Wrong(format!("there is no /{name}; /help tells the commands"))
        }
    }
}

/// The agents as a tree.
pub(super) fn agents(team: &TeamSpec, active: Option<&str>) -> String {
    let agents = team.agent.walk();
    let lines = agents.iter().map(|(above, agent)| {
        let indent = "  ".repeat(above.len());
        let about = match agent.description.as_str() {
            "" => String::new(),
            text => format!(": {text}"),
        };
        let active = active.unwrap_or(&team.agent.name) == agent.name;
        let mark = if active { " (answers next)" } else { "" };
        format!("{indent}{}{mark}{about}", agent.name)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The tools of each agent.
pub(super) fn tools(team: &TeamSpec, registry: &Registry) -> String {
    let mut lines = Vec::new();
    for (_, agent) in team.agent.walk() {
        lines.push(agent.name.clone());
        for name in &agent.tools {
            let tool = registry.tool_named(name);
            let told = tool.map(|tool| {
                let definition = tool.definition();
                let about = definition.description.lines().next().unwrap_or_default();
                format!(" ({}): {about}", effect(definition.effect))
            });
            lines.push(format!("  {name}{}", told.unwrap_or_default()));
        }
        if agent.tools.is_empty() {
            lines.push("  no tools".to_owned());
        }
    }
    lines.join("\n")
}

/// Takes the last turn back. Returns its text, or `None` if there is no turn.
pub(super) async fn undo(session: &Session) -> Result<Option<String>, Failure> {
    let log = session.log().await?;
    let Some(last) = log.turns.last() else {
        return Ok(None);
    };
    session.rewind(log.turns.len() as u64 - 1).await?;
    Ok(Some(last.said.clone()))
}

/// Writes the conversation into a new file.
pub(super) async fn save(
    system: &System,
    session: &Session,
    file: &str,
) -> Result<String, Failure> {
    let text = if file.ends_with(".json") {
        system.sessions().export(session.id()).await?.to_json() + "\n"
    } else {
        let mut text = format!("# {}\n", session.id());
        for turn in session.log().await?.turns {
            let answer = turn.answer.unwrap_or_else(|| "(no answer yet)".to_owned());
            text += &format!("\n## {}\n\n{answer}\n", turn.said.replace('\n', " "));
        }
        redact_text(&text).into_owned()
    };
    let wrong = |error: std::io::Error| Failure::Usage(format!("{file}: {error}"));
    let mut made = files::private()
        .write(true)
        .create_new(true)
        .open(file)
        .map_err(wrong)?;
    made.write_all(text.as_bytes()).map_err(wrong)?;
    Ok(format!("saved in {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_unless_it_begins_with_one_slash() {
        assert_eq!(read("hello /quit"), Asked::Say("hello /quit"));
        assert_eq!(read("//etc is a folder"), Asked::Say("/etc is a folder"));
        assert_eq!(read("/fork other"), Asked::Fork(Some("other")));
        assert_eq!(read("/save a b.md"), Asked::Save("a b.md"));
        assert_eq!(read("/file a b.png"), Asked::File("a b.png"));
        assert!(matches!(read("/undo 3"), Asked::Wrong(_)));
        assert!(matches!(read("/\u{1b}[2J"), Asked::Wrong(told) if !told.contains('\u{1b}')));
        for name in NAMES {
            assert!(
                HELP.contains(name) || *name == "/help",
                "{name} is not told"
            );
        }
    }
}
