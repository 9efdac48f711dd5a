//! `mcp:` in a team file: tools of the kind `mcp`, by a shorter name.

use super::{
    document::{Content, Key, Node, Text},
    fault::{Fault, FaultKind},
};

/// The kind of tool whose settings stand below `mcp`.
const KIND: &str = "mcp";

/// Moves the servers below `mcp` to the other tools.
pub(super) fn to_tools(team: &mut Node) -> Result<(), Fault> {
    let Content::Mapping(sections) = &mut team.content else {
        return Ok(());
    };
    let Some(at) = sections.iter().position(|(key, _)| key.name == "mcp") else {
        return Ok(());
    };
    let (key, section) = sections.remove(at);
    let wrong = |place, message: String| Err(Fault::new(FaultKind::WrongValue, place, message));
    let Content::Mapping(mut servers) = section.content else {
        let message = "`mcp` must be a mapping of names to servers";
        return wrong(section.place, message.to_owned());
    };
    for (name, settings) in &mut servers {
        let Content::Mapping(settings) = &mut settings.content else {
            let message = format!(
                "the server `{}` must be a mapping, with `command` or `url`",
                name.name
            );
            return wrong(settings.place, message);
        };
        let kind = Node {
            place: name.place,
            content: Content::Text(Text {
                value: KIND.to_owned(),
                substituted: false,
            }),
        };
        let key = Key {
            name: "kind".to_owned(),
            place: name.place,
        };
        settings.push((key, kind));
    }
    let tools = sections.iter_mut().find(|(key, _)| key.name == "tools");
    let Some((_, tools)) = tools else {
        let content = Content::Mapping(servers);
        let place = section.place;
        let name = "tools".to_owned();
        sections.push((Key { name, ..key }, Node { place, content }));
        return Ok(());
    };
    // Anything else is refused where it is read.
    if let Content::Mapping(tools) = &mut tools.content {
        for (name, settings) in servers {
            if tools.iter().any(|(key, _)| key.name == name.name) {
                let message = format!("`{}` is the name of a tool, too: rename one", name.name);
                return wrong(name.place, message);
            }
            tools.push((name, settings));
        }
    }
    Ok(())
}
