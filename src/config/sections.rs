//! `mcp:` and `openapi:` in a team file: shorter forms of tools of these kinds.

use super::{
    document::{Content, Key, Node, Text},
    fault::{Fault, FaultKind},
};

/// The sections. Each has the name of its kind of tool, and the settings that an entry requires.
const SECTIONS: [(&str, &str); 2] = [("mcp", "`command` or `url`"), ("openapi", "`document`")];

/// Moves the entries of these sections to `tools`.
pub(super) fn to_tools(team: &mut Node) -> Result<(), Fault> {
    SECTIONS
        .iter()
        .try_for_each(|(kind, wanted)| move_section(team, kind, wanted))
}

fn move_section(team: &mut Node, kind: &str, wanted: &str) -> Result<(), Fault> {
    let Content::Mapping(sections) = &mut team.content else {
        return Ok(());
    };
    let Some(at) = sections.iter().position(|(key, _)| key.name == kind) else {
        return Ok(());
    };
    let (key, section) = sections.remove(at);
    let wrong = |place, message: String| Err(Fault::new(FaultKind::WrongValue, place, message));
    let Content::Mapping(mut entries) = section.content else {
        let message = format!("`{kind}` must be a mapping of names to settings");
        return wrong(section.place, message);
    };
    for (name, settings) in &mut entries {
        let Content::Mapping(settings) = &mut settings.content else {
            let message = format!("`{}` must be a mapping, with {wanted}", name.name);
            return wrong(settings.place, message);
        };
        let of_kind = Node {
            place: name.place,
            content: Content::Text(Text {
                value: kind.to_owned(),
                substituted: false,
            }),
        };
        let key = Key {
            name: "kind".to_owned(),
            place: name.place,
        };
        settings.push((key, of_kind));
    }
    let tools = sections.iter_mut().find(|(key, _)| key.name == "tools");
    let Some((_, tools)) = tools else {
        let content = Content::Mapping(entries);
        let place = section.place;
        let name = "tools".to_owned();
        sections.push((Key { name, ..key }, Node { place, content }));
        return Ok(());
    };
    // Any other content is refused where it is read.
    if let Content::Mapping(tools) = &mut tools.content {
        for (name, settings) in entries {
            if tools.iter().any(|(key, _)| key.name == name.name) {
                let message = format!("`{}` is the name of a tool, too: rename one", name.name);
                return wrong(name.place, message);
            }
            tools.push((name, settings));
        }
    }
    Ok(())
}
