//! Tokens for Google Cloud, from where its programs usually take them.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ghostlight_safety::unambiguous_json;
use reqwest::Url;
use ring::{rand::SystemRandom, signature};
use serde::Deserialize;
use serde_json::json;

use super::{
    client::client,
    credential::{CredentialError, CredentialSource, FreshCredential},
};
use crate::{environment, files};

/// The scope of the tokens that are asked for.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// Where machines in Google Cloud get tokens.
const METADATA: &str = "http://metadata.google.internal";
const OF_THE_MACHINE: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
/// How long a connection and an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of a file of credentials.
const MAX_BYTES: u64 = 64 << 10;
/// How long an assertion holds, in seconds: as long as Google allows.
const HOLDS_S: u64 = 3_600;

/// The tokens of Google Cloud, as its own programs find them: by the file that `GOOGLE_APPLICATION_CREDENTIALS` names (a service
/// account, or a person's), by the file that `gcloud auth application-default login` leaves, or from the machine, in
/// Google Cloud.
///
/// ```
/// use ghostlight_models::{Gemini, GoogleCloud, Secret};
///
/// let model = Gemini::new("gemini-2.5-flash")
///     .base_url("https://europe-west1-aiplatform.googleapis.com/v1/projects/desk/locations/europe-west1/publishers/google")
///     .api_key(Secret::changing(GoogleCloud::default()));
/// # let _ = model;
/// ```
#[derive(Clone, Debug, Default)]
pub struct GoogleCloud {
    file: Option<PathBuf>,
}

/// A file of credentials.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Credentials {
    ServiceAccount {
        client_email: String,
        private_key: String,
        token_uri: String,
    },
    AuthorizedUser {
        client_id: String,
        client_secret: String,
        refresh_token: String,
    },
}

#[derive(Deserialize)]
struct Token {
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

fn failed(why: &dyn std::fmt::Display) -> CredentialError {
    CredentialError::new(format!("there is no token of Google Cloud: {why}"))
}

impl GoogleCloud {
    /// With the credentials in this file alone.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            file: Some(path.into()),
        }
    }

    /// The file of credentials, where there is one.
    fn found(&self) -> Option<PathBuf> {
        let named = environment::variable("GOOGLE_APPLICATION_CREDENTIALS");
        let named = named.filter(|path| !path.trim().is_empty());
        if let Some(named) = self.file.clone().or(named.map(PathBuf::from)) {
            return Some(named);
        }
        let folder = match cfg!(windows) {
            true => PathBuf::from(environment::variable("APPDATA")?).join("gcloud"),
            false => PathBuf::from(environment::variable("HOME")?).join(".config/gcloud"),
        };
        let left = folder.join("application_default_credentials.json");
        left.is_file().then_some(left)
    }

    async fn of_file(path: &Path) -> Result<Token, CredentialError> {
        let wrong =
            |why: &dyn std::fmt::Display| failed(&format_args!("{}: {why}", path.display()));
        let text = files::read_text(path, MAX_BYTES).map_err(|error| wrong(&error))?;
        // The error of the parser could repeat a part of the key.
        let credentials: Credentials = serde_json::from_str(&text)
            .map_err(|_| wrong(&"it holds neither a service account nor a person's credentials"))?;
        match credentials {
            Credentials::ServiceAccount {
                client_email,
                private_key,
                token_uri,
            } => {
                let assertion = asserted(&client_email, &private_key, &token_uri);
                let assertion = assertion.map_err(|why| wrong(&why))?;
                let fields = [
                    ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                    ("assertion", &assertion),
                ];
                ask(&token_uri, &fields).await
            }
            Credentials::AuthorizedUser {
                client_id,
                client_secret,
                refresh_token,
            } => {
                let fields = [
                    ("grant_type", "refresh_token"),
                    ("client_id", &client_id),
                    ("client_secret", &client_secret),
                    ("refresh_token", &refresh_token),
                ];
                ask("https://oauth2.googleapis.com/token", &fields).await
            }
        }
    }
}

impl CredentialSource for GoogleCloud {
    async fn fetch(&self) -> Result<FreshCredential, CredentialError> {
        let token = match self.found() {
            Some(path) => Self::of_file(&path).await?,
            None => of_the_machine().await?,
        };
        let lasts = Duration::from_secs(token.expires_in.unwrap_or(300));
        Ok(FreshCredential::new(token.access_token).lasts(lasts))
    }
}

/// A claim that a service account signs, for which it is given a token.
fn asserted(account: &str, key: &str, audience: &str) -> Result<String, &'static str> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs();
    let claims = json!({
        "iss": account, "scope": SCOPE, "aud": audience, "iat": now, "exp": now + HOLDS_S,
    });
    let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!(
        "{}.{}",
        part(&json!({"alg": "RS256", "typ": "JWT"})),
        part(&claims)
    );
    let lines = key.lines().filter(|line| !line.starts_with("-----"));
    let der = STANDARD.decode(lines.collect::<String>().trim());
    let der = der.map_err(|_| "its private key is not in PEM")?;
    let pair = signature::RsaKeyPair::from_pkcs8(&der);
    let pair = pair.map_err(|_| "its private key is not an RSA key in PKCS #8")?;
    let mut tag = vec![0; pair.public().modulus_len()];
    let signing = pair.sign(
        &signature::RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        signed.as_bytes(),
        &mut tag,
    );
    signing.map_err(|_| "its private key does not sign")?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag)))
}

async fn ask(address: &str, fields: &[(&str, &str)]) -> Result<Token, CredentialError> {
    let url = Url::parse(address).map_err(|error| failed(&error))?;
    if url.scheme() != "https" && !super::client::is_local(&url) {
        return Err(failed(&"the address of its tokens is not https"));
    }
    let body = form(fields);
    let http = client(&url, PATIENCE).map_err(|error| failed(&error.message))?;
    let request = http
        .post(url)
        .header(
            http::header::CONTENT_TYPE,
            "application/x-www-form-urlencoded",
        )
        .body(body);
    read(request).await
}

/// Fields as a form.
fn form(fields: &[(&str, &str)]) -> String {
    let mut url = Url::parse("http://form").ok();
    if let Some(url) = &mut url {
        url.query_pairs_mut().extend_pairs(fields);
    }
    let query = url.and_then(|url| url.query().map(str::to_owned));
    query.unwrap_or_default()
}

async fn of_the_machine() -> Result<Token, CredentialError> {
    let nowhere = |_| {
        let why = "set GOOGLE_APPLICATION_CREDENTIALS to a file of credentials, or sign in with \
                   `gcloud auth application-default login`";
        failed(&why)
    };
    let url = Url::parse(METADATA).and_then(|url| url.join(OF_THE_MACHINE));
    let url = url.map_err(|error| failed(&error))?;
    let http = client(&url, PATIENCE / 5).map_err(|error| failed(&error.message))?;
    read(http.get(url).header("metadata-flavor", "Google"))
        .await
        .map_err(nowhere)
}

async fn read(request: reqwest::RequestBuilder) -> Result<Token, CredentialError> {
    let sent = request.timeout(PATIENCE).send().await;
    // The address is no secret, but what the server says may be.
    let answer = sent.map_err(|_| failed(&"the server of tokens is not reached"))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(failed(&format_args!(
            "the server of tokens answers {status}"
        )));
    }
    let body = answer.bytes().await.unwrap_or_default();
    unambiguous_json(body).map_err(|_| failed(&"the answer of the server of tokens cannot be read"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_a_form() {
        assert_eq!(form(&[("a", "b c"), ("d", "e&f=")]), "a=b+c&d=e%26f%3D");
    }

    #[tokio::test]
    async fn a_file_that_is_none_is_told_without_what_it_holds() {
        let path = std::env::temp_dir().join(format!("ghostlight-google-{}", std::process::id()));
        for text in [
            r#"{"type": "service_account", "private_key": "hunter2"}"#,
            r#"{"type": "authorized_user", "client_id": 7, "refresh_token": "hunter2"}"#,
            r#"{"type": "service_account", "client_email": "a@b", "private_key": "hunter2!", "token_uri": "https://localhost:1"}"#,
            "hunter2",
        ] {
            std::fs::write(&path, text).unwrap();
            let error = GoogleCloud::file(&path).fetch().await.unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
