//! Tokens for a program that nobody signs in for: by a key of its own, by a token of the platform on which it runs, or
//! by an identity token of an organisation.
//!
//! One request is made for each token, without a redirect or a second attempt. What the authorization server grants is
//! used for the one MCP server (RFC 8707).

use std::{
    fs::File,
    io::Read as _,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ghostlight_safety::{is_loopback_host, sanitize_line, unambiguous_json};
use reqwest::{
    Client, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
    redirect,
};
use ring::{
    rand::{SecureRandom, SystemRandom},
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair},
};
use rmcp::transport::auth::{AuthorizationMetadata, OAuthTokenResponse, StoredCredentials};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::{Map, Value, json};

use super::{AuthorizationError, IdentityProvider, OAuthSpec, choose_provider};

/// The largest file of a key or a token, and the largest answer, in bytes.
const MAX_BYTES: usize = 64 << 10;
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a signed assertion is valid.
const ASSERTION_LIFE_S: u64 = 60;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// The proof of a program's identity.
pub(super) enum Proof<'s> {
    /// A private key, registered for the client (RFC 7523, section 2.2).
    Key(&'s Path),
    /// A token that the platform writes into a file (workload identity federation; RFC 7523, section 2.1).
    Platform(&'s Path),
    /// An identity token of an organisation, exchanged at its provider for one that the authorization server takes.
    Organisation(&'s IdentityProvider),
}

impl<'s> Proof<'s> {
    pub(super) fn of(settings: &'s OAuthSpec) -> Option<Self> {
        let key = settings.private_key_file.as_deref().map(Self::Key);
        let platform = settings.platform_token_file.as_deref().map(Self::Platform);
        let organisation = settings.identity_provider.as_ref().map(Self::Organisation);
        key.or(platform).or(organisation)
    }
}

type Parameters = Vec<(&'static str, String)>;

/// Gets a token for the MCP server `resource`.
pub(super) async fn authorize(
    proof: Proof<'_>,
    settings: &OAuthSpec,
    metadata: &AuthorizationMetadata,
    resource: &str,
) -> Result<StoredCredentials, AuthorizationError> {
    choose_provider();
    let id = settings.client_id.as_deref();
    let identified = || id.ok_or(AuthorizationError::NoClient);
    let issuer = || {
        let issuer = metadata.issuer.clone();
        issuer.ok_or_else(|| protocol("its metadata names no issuer"))
    };
    let mut parameters: Parameters = vec![("resource", resource.to_owned())];
    if !settings.scopes.is_empty() {
        parameters.push(("scope", settings.scopes.join(" ")));
    }
    let mut secret = settings.client_secret.as_deref();
    match proof {
        Proof::Key(file) => {
            let key = Key::read(&content(file)?).ok_or_else(|| AuthorizationError::Key {
                file: file.to_owned(),
            })?;
            let accepted = metadata
                .additional_fields
                .get("token_endpoint_auth_signing_alg_values_supported");
            if let Some(accepted) = accepted.and_then(Value::as_array)
                && !accepted.iter().any(|one| one == key.algorithm())
            {
                return Err(protocol(&format!(
                    "it takes no signature of the kind {}",
                    key.algorithm()
                )));
            }
            parameters.extend([
                ("grant_type", "client_credentials".to_owned()),
                (
                    "client_assertion_type",
                    "urn:ietf:params:oauth:client-assertion-type:jwt-bearer".to_owned(),
                ),
                (
                    "client_assertion",
                    key.assertion(identified()?, &issuer()?)?,
                ),
            ]);
            let granted = request(&metadata.token_endpoint, &parameters, None).await?;
            return credentials(id, granted, metadata);
        }
        Proof::Platform(file) => parameters.push(("assertion", content(file)?)),
        Proof::Organisation(provider) => {
            identified()?;
            parameters.push((
                "assertion",
                exchange(provider, &parameters, issuer()?).await?,
            ));
        }
    }
    parameters.push(("grant_type", JWT_BEARER.to_owned()));
    if let (None, Some(id)) = (secret, id) {
        parameters.push(("client_id", id.to_owned()));
    }
    let client = id.zip(secret.take());
    let granted = request(&metadata.token_endpoint, &parameters, client).await?;
    credentials(id, granted, metadata)
}

/// Exchanges an identity token for an assertion of the identity provider about its holder and the client.
async fn exchange(
    provider: &IdentityProvider,
    wanted: &Parameters,
    audience: String,
) -> Result<String, AuthorizationError> {
    let mut parameters = wanted.clone();
    parameters.extend([
        (
            "grant_type",
            "urn:ietf:params:oauth:grant-type:token-exchange".to_owned(),
        ),
        ("requested_token_type", ID_JAG.to_owned()),
        ("subject_token", provider.id_token.clone()),
        (
            "subject_token_type",
            "urn:ietf:params:oauth:token-type:id_token".to_owned(),
        ),
        ("audience", audience),
    ]);
    let secret = provider.client_secret.as_deref();
    if secret.is_none() {
        parameters.push(("client_id", provider.client_id.clone()));
    }
    let client = secret.map(|secret| (&*provider.client_id, secret));
    let granted = request(&provider.token_endpoint, &parameters, client).await?;
    let assertion = granted.get("access_token").and_then(Value::as_str);
    match (granted.get("issued_token_type"), assertion) {
        (Some(kind), Some(assertion)) if kind == ID_JAG => Ok(assertion.to_owned()),
        _ => Err(protocol(
            "the identity provider issues no assertion (id-jag)",
        )),
    }
}

fn credentials(
    id: Option<&str>,
    granted: Map<String, Value>,
    metadata: &AuthorizationMetadata,
) -> Result<StoredCredentials, AuthorizationError> {
    let scopes = granted
        .get("scope")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let scopes = scopes.split_whitespace().map(str::to_owned).collect();
    let granted: OAuthTokenResponse = serde_json::from_value(Value::Object(granted))
        .map_err(|_| protocol("its answer holds no token"))?;
    let id = id.unwrap_or_default().to_owned();
    let stored = StoredCredentials::new(id, Some(granted), scopes, Some(now_s()));
    Ok(stored.with_issuer(metadata.issuer.clone()))
}

/// Asks a token endpoint, as this client where it has a secret.
async fn request(
    endpoint: &str,
    parameters: &Parameters,
    client: Option<(&str, &str)>,
) -> Result<Map<String, Value>, AuthorizationError> {
    let failed = |error: reqwest::Error| protocol(&error.without_url().to_string());
    let url = Url::parse(endpoint).map_err(|_| protocol("its token endpoint is not an address"))?;
    if !is_confidential(&url) {
        return Err(protocol("its token endpoint does not begin with https://"));
    }
    let http = Client::builder()
        .redirect(redirect::Policy::none())
        .timeout(TIMEOUT);
    let http = http.build().map_err(failed)?;
    let mut request = http
        .post(url)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(ACCEPT, "application/json")
        .body(form(
            parameters.iter().map(|(name, value)| (*name, &**value)),
        ));
    if let Some((id, secret)) = client {
        // The parts are encoded as in a form before they are joined (RFC 6749, section 2.3.1).
        let part = |text: &str| form([("", text)].into_iter()).split_off(1);
        let basic = STANDARD.encode(format!("{}:{}", part(id), part(secret)));
        request = request.header(AUTHORIZATION, format!("Basic {basic}"));
    }
    let mut response = request.send().await.map_err(failed)?;
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        body.extend_from_slice(&piece);
        if body.len() > MAX_BYTES {
            return Err(protocol("its answer is too long"));
        }
    }
    let answer = unambiguous_json::<Map<String, Value>>(&body);
    if response.status().is_success() {
        // The words of the parser could repeat a part of a token.
        let unread = "its answer is no JSON object in which each name stands once";
        return answer.map_err(|_| protocol(unread));
    }
    let answer = answer.unwrap_or_default();
    let said = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
    Err(match said("error") {
        "" => protocol(&format!("it answers with {}", response.status())),
        error => protocol(&format!(
            "it refuses: {error} {}",
            said("error_description")
        )),
    })
}

/// Whether what is sent to this address stays between the two: by TLS, or on this machine.
fn is_confidential(url: &Url) -> bool {
    let is_local = url.host_str().is_some_and(is_loopback_host);
    url.scheme() == "https" || (url.scheme() == "http" && is_local)
}

/// Pairs as the body of a form.
fn form<'p>(pairs: impl Iterator<Item = (&'p str, &'p str)>) -> String {
    let Ok(mut url) = Url::parse("form:") else {
        return String::new();
    };
    url.query_pairs_mut().extend_pairs(pairs);
    url.query().unwrap_or_default().to_owned()
}

fn content(file: &Path) -> Result<String, AuthorizationError> {
    let failed = |reason: String| AuthorizationError::Proof {
        file: file.to_owned(),
        reason,
    };
    let mut text = String::new();
    let opened = File::open(file).map_err(|error| failed(error.to_string()))?;
    let mut bounded = opened.take(MAX_BYTES as u64 + 1);
    bounded
        .read_to_string(&mut text)
        .map_err(|error| failed(error.to_string()))?;
    match text.len() > MAX_BYTES {
        true => Err(failed(format!("it has more than {MAX_BYTES} bytes"))),
        false => Ok(text.trim().to_owned()),
    }
}

/// A private key of the client.
enum Key {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Key {
    /// Reads a key in the format PKCS #8.
    fn read(pem: &str) -> Option<Self> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).ok()?;
        let key = key.secret_pkcs8_der();
        let p256 =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key, &SystemRandom::new());
        let ed25519 = || Ed25519KeyPair::from_pkcs8_maybe_unchecked(key);
        p256.map(Self::P256)
            .or_else(|_| ed25519().map(Self::Ed25519))
            .ok()
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    /// A short-lived statement of the client that it is the client, for this authorization server.
    fn assertion(&self, client: &str, issuer: &str) -> Result<String, AuthorizationError> {
        let random = SystemRandom::new();
        let no_random = |_| protocol("the system gives no random bits");
        let mut id = [0; 16];
        random.fill(&mut id).map_err(no_random)?;
        let now = now_s();
        let header = json!({ "alg": self.algorithm(), "typ": "JWT" });
        let claims = json!({
            "iss": client,
            "sub": client,
            "aud": issuer,
            "iat": now,
            "exp": now + ASSERTION_LIFE_S,
            "jti": URL_SAFE_NO_PAD.encode(id),
        });
        let [header, claims] =
            [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{header}.{claims}");
        let signature = match self {
            Self::P256(key) => {
                let signature = key.sign(&random, signed.as_bytes()).map_err(no_random)?;
                URL_SAFE_NO_PAD.encode(signature)
            }
            Self::Ed25519(key) => URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes())),
        };
        Ok(format!("{signed}.{signature}"))
    }
}

fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

fn protocol(reason: &str) -> AuthorizationError {
    AuthorizationError::Protocol(sanitize_line(reason, 500))
}
