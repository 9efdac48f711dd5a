//! Sessions as resources.

use std::{collections::BTreeMap, fmt::Write as _};

use ghostlight_actors::{
    actor::{SessionQuery, System, SystemError},
    vocabulary::SessionId,
};
use rmcp::{
    ErrorData,
    model::{
        ListResourcesResult, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents,
    },
};

/// What the addresses of sessions begin with.
const SCHEME: &str = "ghostlight://sessions/";
/// How many sessions are listed, the latest first.
const LISTED: usize = 500;

/// The sessions of the teams that are served.
pub(super) async fn list(
    system: &System,
    teams: &BTreeMap<String, String>,
    cursor: Option<String>,
) -> Result<ListResourcesResult, ErrorData> {
    if cursor.is_some() {
        return Err(ErrorData::invalid_params("there is one page only", None));
    }
    let mut query = SessionQuery::default();
    query.limit = LISTED;
    let page = system
        .sessions()
        .list(query)
        .await
        .map_err(|error| internal(&error))?;
    let served = page.sessions.into_iter();
    let served = served.filter(|session| teams.contains_key(&session.session.team));
    let resources = served.map(|session| {
        let SessionId { team, key } = session.session;
        let mut resource = Resource::new(address(&team, &key), format!("{team}/{key}"));
        resource.mime_type = Some("application/json".to_owned());
        resource.description = Some(format!("{} turns", session.turns));
        resource
    });
    Ok(ListResourcesResult::with_all_items(resources.collect()))
}

/// What was said in a session.
pub(super) async fn read(
    system: &System,
    teams: &BTreeMap<String, String>,
    uri: &str,
) -> Result<ReadResourceResponse, ErrorData> {
    let unknown = || ErrorData::resource_not_found(format!("there is no resource {uri:?}"), None);
    let path = uri.strip_prefix(SCHEME).ok_or_else(unknown)?;
    let (team, key) = path.split_once('/').ok_or_else(unknown)?;
    let key = decoded(key).ok_or_else(unknown)?;
    if !teams.contains_key(team) {
        return Err(unknown());
    }
    let log = system.session(team, key).log().await;
    let log = log.map_err(|error| match error {
        SystemError::Foreign { .. } => unknown(),
        error => internal(&error),
    })?;
    if log.turns.is_empty() {
        return Err(unknown());
    }
    let text = serde_json::to_string(&log.turns);
    let text = text.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let contents = ResourceContents::text(text, uri).with_mime_type("application/json");
    Ok(ReadResourceResult::new(vec![contents]).into())
}

fn internal(error: &SystemError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// The address of a session: percent-encoded, as RFC 3986 has it.
fn address(team: &str, key: &str) -> String {
    let mut address = format!("{SCHEME}{team}/");
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            address.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(address, "%{byte:02X}");
        }
    }
    address
}

fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_address_says_its_session(key in ".+") {
            let address = address("desk", &key);
            let path = address.strip_prefix("ghostlight://sessions/desk/").map(decoded);
            prop_assert_eq!(path, Some(Some(key)));
            prop_assert!(address.is_ascii());
        }

        #[test]
        fn no_address_ends_the_program(text in ".*") {
            let _ = decoded(&text);
        }
    }
}
