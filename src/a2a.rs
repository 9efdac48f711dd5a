//! The Agent2Agent protocol (A2A 1.0): remote agents as members of a team and, with the feature
//! `server`, teams as agents for other systems.
//!
//! It is the package `ghostlight-a2a`. In a team file a remote agent is a member with `remote`; in
//! code it is a [`RemoteAgent`]. Teams are served by [`Server`](crate::server::Server).

use std::{collections::BTreeMap, time::Duration};

pub use ghostlight_a2a::*;
use ghostlight_actors::{contract::ToolsetHandle, run::Registry, vocabulary::seconds};
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::models::SecretText;

/// Registers the behavior `remote`, and the kind of tool `a2a` that a member with `remote` uses.
pub(crate) fn register(registry: Registry) -> Registry {
    registry
        .toolset_kind("a2a", toolset)
        .behavior_type::<RemoteBehavior>("remote")
}

/// The settings of a remote agent in a team file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoteSpec {
    url: String,
    card: Option<String>,
    binding: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    signed_by: Option<Vec<TrustedKey>>,
    #[serde(rename = "request_timeout_s", with = "seconds", default)]
    request_timeout: Option<Duration>,
    #[serde(rename = "task_timeout_s", with = "seconds", default)]
    task_timeout: Option<Duration>,
}

/// A public key in a team file.
#[derive(Deserialize)]
#[serde(untagged)]
enum TrustedKey {
    /// PEM, or a JSON Web Key as text.
    Text(String),
    /// A JSON Web Key.
    Jwk(Map<String, Value>),
}

fn toolset(name: &str, given: &Map<String, Value>) -> Result<ToolsetHandle, String> {
    let given = RemoteSpec::deserialize(given).map_err(|error| error.to_string())?;
    let mut secrets = Vec::new();
    let mut address = |text: &str| {
        let text = SecretText::read(text).map_err(|error| error.to_string())?;
        secrets.extend(text.credentials());
        let revealed = text.reveal().map_err(|error| error.to_string())?;
        Ok::<_, String>(revealed.expose_secret().to_owned())
    };
    let mut settings = ClientOptions::new(address(&given.url)?);
    if let Some(card) = &given.card {
        settings = settings.card(address(card)?);
    }
    for secret in secrets {
        settings = settings.secret(secret);
    }
    if let Some(name) = given.binding {
        let binding = protocol::Binding::of(&name);
        let known = "JSONRPC, HTTP+JSON or GRPC";
        let wrong = || format!("binding: {name:?} is none that is spoken here: {known}");
        settings = settings.binding(binding.ok_or_else(wrong)?);
    }
    for (header, text) in given.headers {
        SecretText::read(&text).map_err(|error| format!("headers: {header}: {error}"))?;
        // A secret is looked up when it is sent, so a run that is resumed on another machine uses
        // that machine's secret.
        settings = settings.header_from(header, move || {
            let text = SecretText::read(&text).and_then(|text| text.reveal());
            let text = text.map_err(|error| error.to_string())?;
            Ok(text.expose_secret().to_owned())
        });
    }
    if given.signed_by.as_ref().is_some_and(Vec::is_empty) {
        // An empty list would trust every card.
        return Err("signed_by: it names no key: name one, or remove it".to_owned());
    }
    for key in given.signed_by.into_iter().flatten() {
        let key = match key {
            TrustedKey::Text(text) => CardKey::read(&text),
            TrustedKey::Jwk(jwk) => CardKey::of_jwk(&jwk),
        };
        settings = settings.signed_by(key.map_err(|error| format!("signed_by: {error}"))?);
    }
    if let Some(time) = above_zero("request_timeout_s", given.request_timeout)? {
        settings = settings.request_timeout(time);
    }
    if let Some(time) = above_zero("task_timeout_s", given.task_timeout)? {
        settings = settings.task_timeout(time);
    }
    let toolset = RemoteToolset::new(name, settings).map_err(|error| error.to_string())?;
    Ok(ToolsetHandle::new(toolset))
}

fn above_zero(name: &str, given: Option<Duration>) -> Result<Option<Duration>, String> {
    match given {
        Some(Duration::ZERO) => Err(format!("{name}: it must be above 0")),
        given => Ok(given),
    }
}
