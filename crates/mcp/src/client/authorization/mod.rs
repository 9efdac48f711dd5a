//! OAuth 2.1 for servers over HTTP: the client's registration, and the tokens from authorization servers.
//!
//! The SDK implements the protocol: discovery, proof keys, issuer checks, refreshing. This module decides what the SDK
//! leaves to a client: when to ask a person, where the browser returns to, what is stored, and how often a server may
//! ask for more.

mod callback;
mod program;
mod tokens;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use parking_lot::Mutex;
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, AuthorizationMetadata,
    ClientCredentialsConfig, OAuthClientConfig, WWWAuthenticateParams,
};
use serde::Deserialize;
use tokio::time::timeout;

use self::{
    callback::Callback,
    program::Proof,
    tokens::{Client, Tokens},
};
use super::{
    error::{AuthorizationError, ServerSpecError},
    http::choose_provider,
    references::Variables,
};

/// How long a person has to sign in.
const SIGNING_IN: Duration = Duration::from_secs(600);
/// How many authorizations in a row a server may ask for without serving a request.
const IN_A_ROW: u32 = 3;
/// The client's name for authorization servers that register clients.
const CLIENT_NAME: &str = "Ghostlight";

/// How to sign in at a server over HTTP. Without it the server's metadata is followed: a person signs in with a
/// browser, and the client registers itself. The values may contain `${NAME}` for an environment variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OAuthSpec {
    /// The id of a client that is registered with the authorization server already.
    pub client_id: Option<String>,
    /// The secret of that id.
    pub client_secret: Option<String>,
    /// The HTTPS address of a document about the client, for authorization servers that accept one instead of a
    /// registration.
    pub client_metadata_url: Option<String>,
    /// The authorization server that may be sent the client's secret, or the proof of the program's identity: its issuer,
    /// as in its metadata. The MCP server's own origin, when left out.
    pub issuer: Option<String>,
    /// The scopes to ask for; those that the server names, when left out.
    pub scopes: Vec<String>,
    /// The local port to which the browser returns; any free port, when left out.
    pub redirect_port: Option<u16>,
    /// Whether the program itself is authorized, with `client_id` and `client_secret`; then no person signs in.
    pub client_credentials: bool,
    /// The file of the private key (PKCS #8 as PEM; P-256 or Ed25519) that is registered for `client_id`: the program
    /// itself is authorized by it, without a secret.
    pub private_key_file: Option<PathBuf>,
    /// The file into which the platform writes a token about the program, such as a service account's: the program
    /// itself is authorized by it (workload identity federation). It is read again for each authorization.
    pub platform_token_file: Option<PathBuf>,
    /// The organisation's identity provider, which decides whether the program is authorized for the holder of an
    /// identity token; then no person signs in.
    pub identity_provider: Option<IdentityProvider>,
}

/// The identity provider of an organisation, which vouches for people at the servers that the organisation allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct IdentityProvider {
    /// The address at which it exchanges tokens.
    pub token_endpoint: String,
    /// The id of this program as its client.
    pub client_id: String,
    /// The secret of that id, if it has one.
    #[serde(default)]
    pub client_secret: Option<String>,
    /// The identity token of the person, issued for that client. It may be `${NAME}` for an environment variable.
    pub id_token: String,
}

impl IdentityProvider {
    /// A provider whose client has no secret.
    pub fn new(
        token_endpoint: impl Into<String>,
        client_id: impl Into<String>,
        id_token: impl Into<String>,
    ) -> Self {
        Self {
            token_endpoint: token_endpoint.into(),
            client_id: client_id.into(),
            client_secret: None,
            id_token: id_token.into(),
        }
    }
}

impl OAuthSpec {
    /// A client that is registered with the authorization server already.
    pub fn client(id: impl Into<String>, secret: Option<String>) -> Self {
        Self {
            client_id: Some(id.into()),
            client_secret: secret,
            ..Self::default()
        }
    }

    /// A document about the client, for authorization servers that accept one instead of a registration.
    #[must_use]
    pub fn client_metadata_url(mut self, url: impl Into<String>) -> Self {
        self.client_metadata_url = Some(url.into());
        self
    }

    /// The authorization server that may be sent the client's secret, or the proof of the program's identity.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Authorizes the program itself, with the client's id and secret, instead of a person.
    #[must_use]
    pub fn client_credentials(mut self) -> Self {
        self.client_credentials = true;
        self
    }

    /// Authorizes the program itself by its private key.
    #[must_use]
    pub fn private_key_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.private_key_file = Some(file.into());
        self
    }

    /// Authorizes the program itself by a token of the platform on which it runs.
    #[must_use]
    pub fn platform_token_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.platform_token_file = Some(file.into());
        self
    }

    /// Authorizes the program for the holder of an identity token.
    #[must_use]
    pub fn identity_provider(mut self, provider: IdentityProvider) -> Self {
        self.identity_provider = Some(provider);
        self
    }

    fn revealed(&self, variables: Variables) -> Result<Self, ServerSpecError> {
        let shown = |value: &Option<String>| {
            let value = value.as_ref().map(|value| variables.reveal(value));
            value.transpose()
        };
        let file = |file: &Option<PathBuf>| {
            let text = file.as_deref().map(Path::to_string_lossy);
            let text = text.map(|text| variables.reveal(&text));
            text.transpose().map(|text| text.map(PathBuf::from))
        };
        let provider = self.identity_provider.as_ref().map(|provider| {
            Ok::<_, ServerSpecError>(IdentityProvider {
                client_secret: shown(&provider.client_secret)?,
                id_token: variables.reveal(&provider.id_token)?,
                ..provider.clone()
            })
        });
        Ok(Self {
            client_id: shown(&self.client_id)?,
            client_secret: shown(&self.client_secret)?,
            issuer: shown(&self.issuer)?,
            private_key_file: file(&self.private_key_file)?,
            platform_token_file: file(&self.platform_token_file)?,
            identity_provider: provider.transpose()?,
            ..self.clone()
        })
    }
}

/// The authorization at one server.
pub(super) struct Authorization {
    url: String,
    settings: OAuthSpec,
    variables: Variables,
    tokens: Tokens,
    asked: Mutex<Asked>,
}

/// The server's demands for authorization.
#[derive(Default)]
struct Asked {
    /// The challenge of the last refusal.
    challenge: Option<String>,
    /// How many times in a row its demand was met.
    in_a_row: u32,
}

impl Authorization {
    pub(super) fn new(
        url: &str,
        (settings, variables): (&OAuthSpec, Variables),
        tokens: Option<&Path>,
    ) -> Self {
        Self {
            url: url.to_owned(),
            settings: settings.clone(),
            variables,
            tokens: Tokens::new(tokens, url),
            asked: Mutex::default(),
        }
    }

    /// Whether no person is needed.
    pub(super) fn is_unattended(&self) -> bool {
        self.settings.client_credentials || Proof::of(&self.settings).is_some()
    }

    /// Notes that the server refused a request with this challenge.
    pub(super) fn refused(&self, challenge: &str) {
        self.asked.lock().challenge = Some(challenge.to_owned());
    }

    /// Whether the server waits for a person to sign in.
    pub(super) fn is_wanted(&self) -> bool {
        self.asked.lock().challenge.is_some()
    }

    /// Notes that the server served a request.
    pub(super) fn served(&self) {
        *self.asked.lock() = Asked::default();
    }

    /// The SDK's manager, which adds the stored tokens to requests and refreshes them.
    pub(super) async fn manager(&self) -> Result<AuthorizationManager, AuthorizationError> {
        let mut manager = self.fresh().await?;
        if self.is_unattended() {
            self.authorize_program(&mut manager).await?;
            return Ok(manager);
        }
        let grant = self.tokens.grant()?;
        let (Some(credentials), Some(client)) = (grant.credentials, grant.client) else {
            return Ok(manager);
        };
        if credentials.token_response.is_none() {
            return Ok(manager);
        }
        let metadata = manager.resolve_metadata().await?.metadata;
        if !client.is_of(&metadata) {
            // Tokens belong to the authorization server that issued them.
            self.tokens.change(|grant| grant.credentials = None)?;
            return Ok(manager);
        }
        manager.set_metadata(metadata);
        manager.configure_client(config(&client))?;
        Ok(manager)
    }

    async fn fresh(&self) -> Result<AuthorizationManager, AuthorizationError> {
        choose_provider();
        let mut manager = AuthorizationManager::new(self.url.as_str()).await?;
        manager.set_credential_store(self.tokens.clone());
        Ok(manager)
    }

    /// Refuses an authorization server that the MCP server names and nobody here: it would be sent a secret.
    async fn check_issuer(
        &self,
        settings: &OAuthSpec,
        metadata: &AuthorizationMetadata,
    ) -> Result<(), AuthorizationError> {
        let origin = |address: &str| Url::parse(address).ok().map(|url| url.origin());
        let endpoint = origin(&metadata.token_endpoint);
        let is_at = |address: &str| endpoint.is_some() && endpoint == origin(address);
        let named = metadata.issuer.as_deref().unwrap_or_default();
        let is_trusted = match &settings.issuer {
            Some(issuer) => {
                named.trim_end_matches('/') == issuer.trim_end_matches('/')
                    && (is_at(issuer)
                        || origin(issuer) == origin(&self.url)
                        // The MCP server chose where this metadata was read, so the issuer itself must say the same.
                        || metadata.token_endpoint == token_endpoint(issuer).await?)
            }
            None => is_at(&self.url),
        };
        match is_trusted {
            true => Ok(()),
            false => Err(AuthorizationError::Issuer {
                named: ghostlight_safety::sanitize_line(named, 300),
                endpoint: ghostlight_safety::sanitize_line(&metadata.token_endpoint, 300),
            }),
        }
    }

    /// Authorizes the program itself.
    async fn authorize_program(
        &self,
        manager: &mut AuthorizationManager,
    ) -> Result<(), AuthorizationError> {
        let settings = self.settings.revealed(self.variables)?;
        let metadata = manager.resolve_metadata().await?.metadata;
        self.check_issuer(&settings, &metadata).await?;
        if let Some(proof) = Proof::of(&settings) {
            let granted = program::authorize(proof, &settings, &metadata, &self.url).await?;
            manager.set_metadata(metadata);
            self.tokens
                .change(|grant| grant.credentials = Some(granted))?;
            return Ok(());
        }
        let (Some(client_id), Some(client_secret)) = (settings.client_id, settings.client_secret)
        else {
            return Err(AuthorizationError::NoClient);
        };
        let config = ClientCredentialsConfig::ClientSecret {
            client_id,
            client_secret,
            scopes: settings.scopes,
            resource: Some(self.url.clone()),
        };
        manager.set_metadata(metadata);
        manager.validate_client_credentials_metadata(&config)?;
        manager.configure_client_credentials(&config)?;
        manager.exchange_client_credentials(&config).await?;
        Ok(())
    }

    /// Lets a person sign in: `open` gets the address for the browser.
    pub(super) async fn sign_in(
        &self,
        open: impl FnOnce(&str) + Send,
    ) -> Result<(), AuthorizationError> {
        let challenge = {
            let mut asked = self.asked.lock();
            if asked.in_a_row >= IN_A_ROW {
                return Err(AuthorizationError::AgainAndAgain { times: IN_A_ROW });
            }
            asked.in_a_row += 1;
            asked.challenge.clone()
        };
        let settings = self.settings.revealed(self.variables)?;
        let mut manager = self.fresh().await?;
        let resolved = manager.resolve_metadata_from_challenge(challenge.as_deref());
        let metadata = resolved.await?.metadata;
        if settings.client_secret.is_some() {
            self.check_issuer(&settings, &metadata).await?;
        }
        manager.set_metadata(metadata.clone());
        let scopes = self
            .scopes(&settings, &manager, &metadata, challenge.as_deref())
            .await?;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();

        let known = self.tokens.grant()?.client;
        let known = known.filter(|client| client.is_of(&metadata));
        let port = settings.redirect_port.unwrap_or(0);
        let callback = match &known {
            // A registration may be bound to one return address, and so to its port.
            Some(client) if port == 0 => Callback::listen(port_of(&client.redirect)).await,
            _ => Callback::listen(port).await,
        };
        let callback = match callback {
            Err(_) if known.is_some() && port == 0 => Callback::listen(0).await?,
            callback => callback?,
        };
        let redirect = callback.address();
        let takes_documents = metadata
            .additional_fields
            .get("client_id_metadata_document_supported");
        let takes_documents = takes_documents.and_then(serde_json::Value::as_bool) == Some(true);
        let named = |id: String, secret: Option<String>| Client {
            id,
            secret,
            redirect: redirect.clone(),
            issuer: metadata.issuer.clone(),
            token_endpoint: metadata.token_endpoint.clone(),
        };
        let client = match (settings.client_id, settings.client_metadata_url, known) {
            (Some(id), ..) => named(id, settings.client_secret),
            (None, Some(document), _) if takes_documents => named(document, None),
            (None, _, Some(client)) if client.redirect == redirect => client,
            _ => {
                let registered = manager.register_client(CLIENT_NAME, &redirect, &scopes);
                let registered = registered.await?;
                named(registered.client_id, registered.client_secret)
            }
        };
        manager.configure_client(config(&client))?;
        let address = manager.get_authorization_url(&scopes).await?;
        open(&address);
        let came = timeout(SIGNING_IN, callback.came()).await;
        let came = came.map_err(|_| AuthorizationError::NobodyCame { within: SIGNING_IN })??;
        if let Some(reason) = refusal(&came) {
            return Err(AuthorizationError::Denied(reason));
        }
        let came = AuthorizationCallback::from_redirect_url(&came)?;
        let issuer = came.issuer.as_deref();
        let exchanged =
            manager.exchange_code_for_token_with_issuer(&came.code, &came.csrf_token, issuer);
        exchanged.await?;
        self.tokens.change(|grant| grant.client = Some(client))?;
        self.asked.lock().challenge = None;
        Ok(())
    }

    /// The scopes to ask for: the granted ones and those that the server now wants, or else those of the settings or of
    /// the server's own documents.
    async fn scopes(
        &self,
        settings: &OAuthSpec,
        manager: &AuthorizationManager,
        metadata: &AuthorizationMetadata,
        challenge: Option<&str>,
    ) -> Result<Vec<String>, AuthorizationError> {
        let url = Url::parse(&self.url).map_err(AuthError::from)?;
        let challenge = challenge.map(|challenge| WWWAuthenticateParams::parse(challenge, &url));
        let wants_more = challenge
            .as_ref()
            .is_some_and(WWWAuthenticateParams::is_insufficient_scope);
        let granted = self.tokens.grant()?.credentials;
        let granted = granted.filter(|granted| granted.issuer == metadata.issuer);
        let mut scopes = settings.scopes.clone();
        if scopes.is_empty() && !wants_more {
            return Ok(manager.select_initial_scopes(&[]).await);
        }
        if wants_more {
            scopes.extend(granted.into_iter().flat_map(|known| known.granted_scopes));
            let wanted = challenge.and_then(|challenge| challenge.scope);
            let wanted = wanted.unwrap_or_default();
            scopes.extend(wanted.split_whitespace().map(str::to_owned));
        }
        let offline = "offline_access";
        let supported = metadata.scopes_supported.iter().flatten();
        scopes.extend(supported.filter(|scope| *scope == offline).cloned());
        let mut seen = std::collections::BTreeSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        Ok(scopes)
    }
}

/// The token endpoint that an issuer names in its own metadata.
async fn token_endpoint(issuer: &str) -> Result<String, AuthError> {
    let manager = AuthorizationManager::new(issuer).await?;
    Ok(manager.resolve_metadata().await?.metadata.token_endpoint)
}

fn config(client: &Client) -> OAuthClientConfig {
    let config = OAuthClientConfig::new(client.id.clone(), client.redirect.clone());
    match &client.secret {
        Some(secret) => config.with_client_secret(secret.clone()),
        None => config,
    }
}

fn port_of(address: &str) -> u16 {
    let url = Url::parse(address).ok();
    url.and_then(|url| url.port()).unwrap_or(0)
}

/// The reason for which the authorization server sent the browser back without a code.
fn refusal(address: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    let value = |wanted: &str| {
        let found = url.query_pairs().find(|(name, _)| name == wanted);
        found.map(|(_, value)| ghostlight_safety::sanitize_line(&value, 300))
    };
    let error = value("error")?;
    Some(match value("error_description") {
        Some(said) => format!("{error}: {said}"),
        None => error,
    })
}
