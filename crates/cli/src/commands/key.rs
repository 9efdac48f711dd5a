//! `ghostlight key`.

use std::path::PathBuf;

use ghostlight::{
    files,
    server::{self, ApiKeyError, KeyFile, KeySpec},
};
use ghostlight_actors::{
    contract::{Clock as _, SystemClock},
    vocabulary::Timestamp,
};
use serde_json::json;

use crate::{
    arguments::StoreArguments,
    exit::{Exit, Failure},
    follow::print_json,
    keeping::location_of,
    location::Location,
    server_arguments::{Key, KeyArguments, KeyCommand},
    when,
};

/// The key file that was named, or the one beside the store; `None` for a database, which has no place beside it.
pub(super) fn file_of(
    named: Option<PathBuf>,
    store: &StoreArguments,
) -> Result<Option<KeyFile>, Failure> {
    let path = match named {
        Some(path) => Some(path),
        None => match location_of(store)? {
            Location::File(path) => Some(path.with_extension("keys.json")),
            Location::Postgres(_) => None,
        },
    };
    Ok(path.map(KeyFile::open))
}

impl From<ApiKeyError> for Failure {
    fn from(error: ApiKeyError) -> Self {
        Self::Usage(error.to_string())
    }
}

fn file(arguments: &KeyArguments) -> Result<KeyFile, Failure> {
    file_of(arguments.keys.clone(), &arguments.store)?.ok_or_else(|| {
        let message = "beside a database there is no file of keys: name one with --keys";
        Failure::Usage(message.to_owned())
    })
}

pub(super) fn key(arguments: &Key) -> Result<Exit, Failure> {
    match &arguments.command {
        KeyCommand::Add {
            subject,
            scopes,
            tenant,
            expires,
            quota,
            keys,
        } => {
            let mut spec = KeySpec::new(subject, scopes);
            spec.tenant.clone_from(tenant);
            spec.life = *expires;
            spec.quotas.clone_from(quota);
            add(&file(keys)?, &spec)?;
        }
        KeyCommand::List { keys, show } => list(&file(keys)?, show.json)?,
        KeyCommand::Revoke { id, keys } => {
            let key = file(keys)?.revoke(id)?;
            super::note(&format!(
                "key {} of {} opens nothing any more",
                key.id,
                key.owner()
            ));
        }
    }
    Ok(Exit::Done)
}

/// Makes a key, and prints its secret, which is kept nowhere.
fn add(file: &KeyFile, spec: &KeySpec) -> Result<(), Failure> {
    if let Some(folder) = file.path().parent().filter(|folder| !folder.exists()) {
        files::make_private_folder(folder)?;
    }
    let new = file.make(spec)?;
    super::print(&new.secret)?;
    super::note(&format!(
        "key {} of {} ({}); it is shown this once",
        new.key.id,
        new.key.owner(),
        scopes_of(&new.key),
    ));
    Ok(())
}

/// Prints the keys without their secrets, one a line.
fn list(file: &KeyFile, as_json: bool) -> Result<(), Failure> {
    let now = SystemClock::new().now();
    let keys = file.list()?;
    if keys.is_empty() {
        super::note(&format!("no keys in {}", file.path().display()));
    }
    for key in keys {
        if as_json {
            print_json(&json!({
                "id": key.id,
                "subject": key.subject,
                "tenant": key.tenant,
                "scopes": key.scopes,
                "created_at": key.created_at_ms,
                "expires_at": key.expires_at_ms,
                "revoked_at": key.revoked_at_ms,
                "quotas": key.quotas,
                "valid": key.is_valid_at(now.0),
            }))?;
            continue;
        }
        let state = match (key.revoked_at_ms, key.expires_at_ms) {
            (Some(at), _) => format!("revoked {}", when::date(Timestamp(at))),
            (None, Some(at)) if !key.is_valid_at(now.0) => {
                format!("over since {}", when::date(Timestamp(at)))
            }
            (None, Some(at)) => format!("until {}", when::date(Timestamp(at))),
            (None, None) => "valid".to_owned(),
        };
        let scopes = scopes_of(&key);
        super::print(&format!(
            "{}  {:20}  {scopes:20}  {state}",
            key.id,
            key.owner()
        ))?;
    }
    Ok(())
}

fn scopes_of(key: &server::Key) -> String {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    scopes.join(",")
}
