//! The storage of tokens: a file that only its user may read, or memory.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::SystemTime,
};

use parking_lot::Mutex;
use rmcp::transport::auth::{AuthError, AuthorizationMetadata, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};

use crate::client::private_file;

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// The stored data of one server.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Grant {
    /// The tokens.
    pub(super) credentials: Option<StoredCredentials>,
    /// The registration with the authorization server.
    pub(super) client: Option<Client>,
}

/// A registration with an authorization server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) redirect: String,
    pub(super) issuer: Option<String>,
    /// The address to which its secret, and the refresh tokens, go.
    #[serde(default)]
    pub(super) token_endpoint: String,
}

impl Client {
    /// Whether it was registered with the authorization server of these metadata. An MCP server can serve metadata that
    /// name another's issuer, but not lead to another endpoint then.
    pub(super) fn is_of(&self, metadata: &AuthorizationMetadata) -> bool {
        self.issuer == metadata.issuer && self.token_endpoint == metadata.token_endpoint
    }
}

/// The file's content: the stored data of each server, by its address.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Document {
    servers: BTreeMap<String, Grant>,
}

/// Stores the tokens of one server. Clones share the storage.
#[derive(Clone)]
pub(super) struct Tokens(Arc<Kept>);

struct Kept {
    file: Option<PathBuf>,
    server: String,
    /// The data as last read, with the file's time of change then: another process may sign in.
    known: Mutex<(Option<SystemTime>, Grant)>,
}

impl Tokens {
    pub(super) fn new(file: Option<&Path>, server: &str) -> Self {
        Self(Arc::new(Kept {
            file: file.map(Path::to_owned),
            server: server.to_owned(),
            known: Mutex::default(),
        }))
    }

    /// The data as stored now.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn grant(&self) -> Result<Grant, AuthError> {
        let mut known = self.0.known.lock();
        if let Some(file) = &self.0.file {
            let changed = fs::metadata(file).and_then(|found| found.modified()).ok();
            if changed.is_none() || known.0 != changed {
                let grant = read(file)?.servers.remove(&self.0.server);
                *known = (changed, grant.unwrap_or_default());
            }
        }
        Ok(known.1.clone())
    }

    /// Changes the stored data.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub(super) fn change(&self, change: impl FnOnce(&mut Grant)) -> Result<(), AuthError> {
        let mut known = self.0.known.lock();
        let Some(file) = &self.0.file else {
            change(&mut known.1);
            return Ok(());
        };
        let mut document = read(file)?;
        let grant = document.servers.entry(self.0.server.clone()).or_default();
        change(grant);
        let grant = grant.clone();
        private_file::write(file, &document).map_err(|error| wrong(file, &error))?;
        let changed = fs::metadata(file).and_then(|found| found.modified()).ok();
        *known = (changed, grant);
        Ok(())
    }
}

type Done<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthError>> + Send + 'a>>;

impl CredentialStore for Tokens {
    fn load<'a, 'b>(&'a self) -> Done<'b, Option<StoredCredentials>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async { Ok(self.grant()?.credentials) })
    }

    fn save<'a, 'b>(&'a self, credentials: StoredCredentials) -> Done<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async { self.change(|grant| grant.credentials = Some(credentials)) })
    }

    fn clear<'a, 'b>(&'a self) -> Done<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async { self.change(|grant| grant.credentials = None) })
    }
}

fn wrong(file: &Path, error: &dyn std::fmt::Display) -> AuthError {
    AuthError::CredentialStoreError(format!("{}: {error}", file.display()))
}

fn read(file: &Path) -> Result<Document, AuthError> {
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Document::default()),
        Err(error) => return Err(wrong(file, &error)),
        Ok(found) if found.len() > MAX_BYTES => {
            return Err(wrong(file, &format!("it has more than {MAX_BYTES} bytes")));
        }
        Ok(_) => {}
    }
    let text = fs::read(file).map_err(|error| wrong(file, &error))?;
    serde_json::from_slice(&text).map_err(|error| wrong(file, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_process_keeps_another_finds_and_nobody_else_may_read_it() {
        let folder = std::env::temp_dir().join(format!("ghostlight-tokens-{}", std::process::id()));
        let file = folder.join("tokens.json");
        let client = Client {
            id: "me".to_owned(),
            secret: Some("hush".to_owned()),
            redirect: "http://127.0.0.1:1/callback".to_owned(),
            issuer: None,
            token_endpoint: "https://a.example/token".to_owned(),
        };
        let (one, other) = (
            Tokens::new(Some(&file), "https://a.example"),
            Tokens::new(Some(&file), "https://a.example"),
        );
        assert!(other.grant().unwrap_or_default().client.is_none());
        let kept = one.change(|grant| grant.client = Some(client.clone()));
        assert!(kept.is_ok());
        assert!(other.grant().unwrap_or_default().client == Some(client));
        let elsewhere = Tokens::new(Some(&file), "https://b.example");
        assert!(elsewhere.grant().unwrap_or_default().client.is_none());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(&file).map(|found| found.permissions().mode() & 0o777);
            assert_eq!(mode.ok(), Some(0o600));
        }
        fs::write(&file, "{").unwrap_or_default();
        assert!(
            elsewhere.change(|_| {}).is_err(),
            "what cannot be read is not written over"
        );
        let _ = fs::remove_dir_all(folder);
    }
}
