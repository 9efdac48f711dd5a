//! Environment variables in the text of a team file.
//!
//! They are substituted after the file was parsed, one text at a time. So the value of a variable
//! cannot add a key or change the shape of the file.

use ghostlight_safety::{Reference, TextPiece, is_secret_key, references, sole_reference};

use super::{
    document::{Content, Key, Node, Place},
    fault::{Fault, FaultKind},
};
use crate::models::SecretText;

/// Looks up a variable.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Replaces `${VAR}` and `${VAR:-default}` in every text of a team, and `$$` by a dollar sign.
///
/// A value whose key names a secret stays a reference, which is looked up when it is needed. So no
/// key is ever printed, hashed or stored. Only the settings of models, tools, interceptors,
/// webhooks, notifications and messengers hold secrets; elsewhere, as in the schema of an answer, `password` is a word like any
/// other.
pub(super) fn substitute(team: &mut Node, lookup: Lookup<'_>) -> Result<(), Fault> {
    let Content::Mapping(sections) = &mut team.content else {
        return below(team, false, lookup);
    };
    for (key, section) in sections {
        match (key.name.as_str(), &mut section.content) {
            // These keys are names of models and tools, even if they sound like secrets.
            ("models", Content::Mapping(named)) => {
                for (_, settings) in named {
                    below(settings, true, lookup)?;
                }
            }
            ("tools", Content::Mapping(named)) => {
                for (_, settings) in named {
                    tool(settings, lookup)?;
                }
            }
            ("webhooks" | "notifications" | "messengers", Content::List(receivers)) => {
                for receiver in receivers {
                    with_addresses(receiver, &["url", "callback"], lookup)?;
                }
            }
            (name, _) => below(section, has_settings(name), lookup)?,
        }
    }
    Ok(())
}

/// The settings of a tool. The address of a server of another team or program may hold a key, so its references stay.
fn tool(settings: &mut Node, lookup: Lookup<'_>) -> Result<(), Fault> {
    let is_remote = |(key, value): &(Key, Node)| match &value.content {
        Content::Text(kind) => key.name == "kind" && matches!(&*kind.value, "mcp" | "a2a"),
        _ => false,
    };
    match &settings.content {
        Content::Mapping(entries) if entries.iter().any(is_remote) => {
            with_addresses(settings, &["url", "card"], lookup)
        }
        _ => below(settings, true, lookup),
    }
}

/// Settings whose values of these keys are addresses that may hold a key: their references stay.
fn with_addresses(
    settings: &mut Node,
    addresses: &[&str],
    lookup: Lookup<'_>,
) -> Result<(), Fault> {
    let Content::Mapping(entries) = &mut settings.content else {
        return below(settings, true, lookup);
    };
    for (key, value) in entries {
        match addresses.contains(&key.name.as_str()) {
            true => address(value, lookup)?,
            false => entry(key, value, true, lookup)?,
        }
    }
    Ok(())
}

/// Whether a section other than those of models and tools holds settings.
fn has_settings(section: &str) -> bool {
    matches!(
        section,
        "interceptors" | "webhooks" | "notifications" | "messengers"
    )
}

/// Tells each variable of a reference that stayed, with its place.
pub(super) fn each_kept(team: &Node, take: &mut impl FnMut(&str, Place)) {
    let Content::Mapping(sections) = &team.content else {
        return;
    };
    for (key, section) in sections {
        match (key.name.as_str(), &section.content) {
            ("models" | "tools", Content::Mapping(named)) => {
                named
                    .iter()
                    .for_each(|(_, settings)| kept_below(settings, take));
            }
            (name, _) if has_settings(name) => kept_below(section, take),
            _ => {}
        }
    }
}

fn kept_below(node: &Node, take: &mut impl FnMut(&str, Place)) {
    for item in node.items() {
        kept_below(item, take);
    }
    let Content::Mapping(entries) = &node.content else {
        return;
    };
    for (key, value) in entries {
        match secrecy(&key.name) {
            Secrecy::None | Secrecy::Address => kept_below(value, take),
            Secrecy::Kept | Secrecy::Reference => places_in(value, take),
        }
    }
}

/// Tells each variable of a value all of whose texts may hold references.
fn places_in(node: &Node, take: &mut impl FnMut(&str, Place)) {
    match &node.content {
        Content::Text(text) => {
            if let Ok(text) = SecretText::read(text.value.trim()) {
                text.variables().for_each(|name| take(name, node.place));
            }
        }
        Content::List(items) => items.iter().for_each(|item| places_in(item, take)),
        Content::Mapping(entries) => {
            entries.iter().for_each(|(_, value)| places_in(value, take));
        }
        _ => {}
    }
}

/// Replaces the variables of one text.
pub(super) fn substitute_in(text: &mut Node, lookup: Lookup<'_>) -> Result<(), Fault> {
    below(text, false, lookup)
}

/// The variable, if a text is a single reference and nothing else.
pub(super) fn reference(text: &str) -> Option<&str> {
    match references(text.trim()).ok()?.as_slice() {
        [TextPiece::Variable(reference)] => Some(reference.name),
        _ => None,
    }
}

fn below(node: &mut Node, settings: bool, lookup: Lookup<'_>) -> Result<(), Fault> {
    match &mut node.content {
        Content::Text(text) => {
            if text.value.contains('$') {
                let (value, substituted) = replace(&text.value, node.place, lookup, false)?;
                text.value = value;
                text.substituted = substituted;
            }
            if settings {
                check_credential(node)?;
            }
        }
        Content::List(items) => {
            for item in items {
                below(item, settings, lookup)?;
            }
        }
        Content::Mapping(entries) => {
            for (key, value) in entries {
                entry(key, value, settings, lookup)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn entry(key: &Key, value: &mut Node, settings: bool, lookup: Lookup<'_>) -> Result<(), Fault> {
    let secrecy = if settings {
        secrecy(&key.name)
    } else {
        Secrecy::None
    };
    match secrecy {
        Secrecy::None => below(value, settings, lookup),
        Secrecy::Address => address(value, lookup),
        Secrecy::Kept => check_places(value),
        Secrecy::Reference => check_reference(key, value),
    }
}

/// An address, which may hold a key in its path: its references stay, and only defaults are replaced.
fn address(node: &mut Node, lookup: Lookup<'_>) -> Result<(), Fault> {
    if let Content::Text(text) = &mut node.content {
        let (value, substituted) = replace(&text.value, node.place, lookup, true)?;
        (text.value, text.substituted) = (value, substituted);
    }
    check_credential(node)
}

enum Secrecy {
    /// The value is plain text.
    None,
    /// The value is an address, whose references stay.
    Address,
    /// The values may hold references, which stay. Values whose keys name secrets must be
    /// references.
    Kept,
    /// The value must be a reference.
    Reference,
}

fn secrecy(key: &str) -> Secrecy {
    if matches!(key, "headers" | "env") {
        Secrecy::Kept
    } else if key == "base_url" {
        Secrecy::Address
    } else if key == "postgres" || is_secret_key(key) && !key.ends_with("_file") {
        // The address of a database holds a password.
        Secrecy::Reference
    } else {
        Secrecy::None
    }
}

fn check_reference(key: &Key, value: &Node) -> Result<(), Fault> {
    let name = match &value.content {
        // An empty setting, or a yes or no, is no secret.
        Content::Null | Content::Bool(_) => return Ok(()),
        Content::List(items) => {
            return items.iter().try_for_each(|item| check_reference(key, item));
        }
        // A program or a file that gives a key.
        Content::Mapping(entries) if key.name == "api_key" && is_changing(entries) => return Ok(()),
        Content::Mapping(entries) => {
            let mut values = entries.iter().map(|(_, value)| value);
            return values.try_for_each(|value| check_reference(key, value));
        }
        Content::Text(text) => sole_reference(text.value.trim()),
        _ => None,
    };
    if name.is_some() {
        return Ok(());
    }
    let help = "set an environment variable to the secret, and write its name here, such as \
                ${OPENAI_API_KEY}";
    Err(in_clear(key).help(help))
}

fn is_changing(entries: &[(Key, Node)]) -> bool {
    let is_known = |name: &str| matches!(name, "command" | "file" | "lasts_s");
    !entries.is_empty() && entries.iter().all(|(key, _)| is_known(&key.name))
}

/// Checks headers. Other rules about their values are checked where they are used.
fn check_places(headers: &Node) -> Result<(), Fault> {
    let Content::Mapping(entries) = &headers.content else {
        return Ok(());
    };
    for (key, value) in entries {
        let is_harmless = match &value.content {
            Content::Null => true,
            Content::Text(text) if text.value.is_empty() => true,
            Content::Text(text) => SecretText::read(&text.value).is_ok_and(|text| text.has_place()),
            _ => false,
        };
        if is_secret_key(&key.name) && !is_harmless {
            let help = "set an environment variable to the secret, and write its name in its place, \
                        such as Bearer ${TOKEN}";
            return Err(in_clear(key).help(help));
        }
    }
    Ok(())
}

/// Refuses a text with an address that holds a credential.
fn check_credential(node: &Node) -> Result<(), Fault> {
    match &node.content {
        Content::Text(text) if has_credential(&text.value) => {
            let message = "the address holds a secret itself";
            let help = "leave it out of the address, and give it as a reference to an environment \
                        variable where it is asked for, such as `api_key` or `headers`";
            Err(Fault::new(FaultKind::Secret, node.place, message).help(help))
        }
        _ => Ok(()),
    }
}

/// Whether an address in this text holds a password, a name that may be a token, or a token in its
/// query.
fn has_credential(text: &str) -> bool {
    let of_address = |(at, _): (usize, &str)| {
        let web = text[..at].ends_with("http") || text[..at].ends_with("https");
        let address = &text[at + 3..];
        let end = address.find(char::is_whitespace).unwrap_or(address.len());
        let (address, query) = address[..end]
            .split_once('?')
            .unwrap_or((&address[..end], ""));
        let host = address.split(['/', '#']).next().unwrap_or_default();
        let user = host.rsplit_once('@').map(|(user, _)| user);
        let named = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let is_given = !value.is_empty() && reference(value).is_none();
            is_given && (name == "key" || is_secret_key(name))
        };
        user.is_some_and(|user| web || user.contains(':')) || query.split('&').any(named)
    };
    text.match_indices("://").any(of_address)
}

fn in_clear(key: &Key) -> Fault {
    let message = format!("`{}` holds a secret itself", key.name);
    Fault::new(FaultKind::Secret, key.place, message)
}

/// The text with its variables' values, and whether it had any variable. Where references are kept, so are doubled
/// dollar signs, and only a variable with a default is replaced.
fn replace(
    text: &str,
    place: Place,
    lookup: Lookup<'_>,
    keeps: bool,
) -> Result<(String, bool), Fault> {
    let pieces = references(text)
        .map_err(|error| Fault::new(FaultKind::Variable, place, error.to_string()))?;
    let mut result = String::with_capacity(text.len());
    let mut substituted = false;
    for piece in pieces {
        match piece {
            TextPiece::Plain(plain) => result.push_str(plain),
            TextPiece::Dollar => result.push_str(if keeps { "$$" } else { "$" }),
            TextPiece::Variable(Reference { name, default }) => {
                let value = value_of(name, default, place, lookup)?;
                match keeps {
                    true if default.is_some() => result.push_str(&value.replace('$', "$$")),
                    true => result.push_str(&format!("${{{name}}}")),
                    false => result.push_str(&value),
                }
                substituted |= !keeps || default.is_some();
            }
        }
    }
    Ok((result, substituted))
}

fn value_of(
    name: &str,
    default: Option<&str>,
    place: Place,
    lookup: Lookup<'_>,
) -> Result<String, Fault> {
    // As in a shell, `:-` also applies to an empty variable.
    let value = lookup(name).filter(|value| default.is_none() || !value.is_empty());
    value.or_else(|| default.map(str::to_owned)).ok_or_else(|| {
        let message = format!("the environment variable {name} is not set");
        let help = format!("set it, or give it a value here: ${{{name}:-value}}");
        Fault::new(FaultKind::Variable, place, message).help(help)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PLACE: Place = Place {
        line: 3,
        column: 5,
        length: 0,
    };

    fn replaced(text: &str) -> Result<String, String> {
        let lookup = |name: &str| match name {
            "CITY" => Some(String::from("Ulm")),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some(String::from("${CITY}")),
            _ => None,
        };
        replace(text, PLACE, &lookup, false)
            .map(|(text, _)| text)
            .map_err(|fault| fault.message)
    }

    #[test]
    fn variables_defaults_and_dollars() {
        for (text, expected) in [
            ("in ${CITY}!", "in Ulm!"),
            ("${NONE:-Bonn}", "Bonn"),
            ("${EMPTY:-Bonn}", "Bonn"),
            ("${EMPTY}", ""),
            ("${NONE:-}", ""),
            ("$$5 and $${CITY} and $5", "$5 and ${CITY} and $5"),
            ("${NESTED}", "${CITY}"),
        ] {
            assert_eq!(replaced(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn an_address_keeps_its_references_and_takes_only_defaults() {
        let lookup = |name: &str| (name == "KEY").then(|| String::from("k$y"));
        let kept = |text| replace(text, PLACE, &lookup, true).map(|(text, _)| text);
        for (text, expected) in [
            ("https://host/${KEY}/v1", "https://host/${KEY}/v1"),
            ("${NONE:-https://host}/${KEY}", "https://host/${KEY}"),
            ("${KEY:-x}/$$", "k$$y/$$"),
        ] {
            assert_eq!(kept(text).unwrap(), expected, "{text}");
        }
        assert!(kept("https://host/${NONE}").is_err());
    }

    #[test]
    fn what_cannot_be_replaced_is_said() {
        for (text, part) in [
            ("${NONE}", "NONE is not set"),
            ("${CITY", "a `${` without its `}`"),
            ("${not a name}", "names no environment variable"),
            ("${}", "names no environment variable"),
        ] {
            let message = replaced(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
