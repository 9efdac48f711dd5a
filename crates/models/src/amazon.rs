//! Keys for Amazon's cloud, from where its programs usually take them.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use ghostlight_safety::unambiguous_json;
use jiff::Timestamp;
use reqwest::Url;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;

use super::{
    Secret,
    client::{client, is_local},
    credential::{CredentialError, CredentialSource, FreshCredential},
};
use crate::{environment, files};

/// How long a connection and an answer of the machine's own endpoints may take.
const PATIENCE: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(1);
/// The most bytes of a file or an answer.
const MAX_BYTES: usize = 256 << 10;
/// Where containers and machines in Amazon's cloud get keys.
const CONTAINER: &str = "http://169.254.170.2";
const MACHINE: &str = "http://169.254.169.254";
const OF_THE_MACHINE: &str = "latest/meta-data/iam/security-credentials/";
/// How long keys from files and variables are used before they are read anew.
const LASTS: Duration = Duration::from_secs(300);

/// The keys of Amazon's cloud, as its own programs find them: in `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` (with
/// `AWS_SESSION_TOKEN`), in the files `~/.aws/credentials` and `~/.aws/config` under `AWS_PROFILE` or `default` (a pair of keys,
/// or a `credential_process`), from the container's endpoint, or from the machine's (version 2).
///
/// The key that it gives is a text in the form of a `credential_process`: an object of JSON with `AccessKeyId`,
/// `SecretAccessKey` and `SessionToken`. A source of your own may give the same, or a bearer's token.
///
/// ```
/// use ghostlight_models::{AmazonCredentials, Bedrock, Secret};
///
/// let keys = Secret::changing(AmazonCredentials::profile("desk"));
/// let model = Bedrock::new("us.anthropic.claude-sonnet-4-6").api_key(keys);
/// # let _ = model;
/// ```
#[derive(Clone, Debug, Default)]
pub struct AmazonCredentials {
    profile: Option<String>,
}

/// A pair of keys.
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: SecretString,
    pub(super) token: Option<SecretString>,
}

/// A pair of keys, as programs, containers and machines write it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Written {
    access_key_id: String,
    secret_access_key: String,
    #[serde(alias = "Token")]
    session_token: Option<String>,
    expiration: Option<String>,
}

fn failed(why: &dyn fmt::Display) -> CredentialError {
    CredentialError::new(format!("there are no keys of Amazon's cloud: {why}"))
}

impl Keys {
    /// The keys in this text; `None` where it is something else, such as a bearer's token.
    pub(super) fn read(text: &str) -> Result<Option<Self>, CredentialError> {
        if !text.trim_start().starts_with('{') {
            return Ok(None);
        }
        let written = Written::read(text.as_bytes())?;
        Ok(Some(Self {
            id: written.access_key_id,
            secret: written.secret_access_key.into(),
            token: written.session_token.map(Into::into),
        }))
    }
}

impl Written {
    fn read(text: &[u8]) -> Result<Self, CredentialError> {
        // The error of the parser could repeat a part of a key.
        let read = unambiguous_json(text).ok();
        let is_whole =
            |keys: &Self| !keys.access_key_id.is_empty() && !keys.secret_access_key.is_empty();
        read.filter(is_whole)
            .ok_or_else(|| failed(&"an answer holds no AccessKeyId with a SecretAccessKey"))
    }

    fn fresh(self) -> FreshCredential {
        let text = json!({
            "AccessKeyId": self.access_key_id,
            "SecretAccessKey": self.secret_access_key,
            "SessionToken": self.session_token.filter(|token| !token.is_empty()),
        });
        let ends = self
            .expiration
            .and_then(|ends| ends.parse::<Timestamp>().ok());
        let lasts = ends.map(|ends| Duration::try_from(ends.duration_since(Timestamp::now())));
        let lasts = lasts.map_or(LASTS, Result::unwrap_or_default);
        FreshCredential::new(text.to_string()).lasts(lasts)
    }
}

impl AmazonCredentials {
    /// Those under this name in the files `~/.aws/credentials` and `~/.aws/config` alone.
    pub fn profile(name: impl Into<String>) -> Self {
        Self {
            profile: Some(name.into()),
        }
    }
}

impl CredentialSource for AmazonCredentials {
    async fn fetch(&self) -> Result<FreshCredential, CredentialError> {
        let chain = Chain {
            profile: self.profile.as_deref(),
            variable: &variable,
        };
        chain.keys().await.map(Written::fresh)
    }
}

/// Keys, region and profile may stand in a `.env` file, too. All else is the environment's own: the file of a foreign folder must
/// not say which program is run for keys, or which server is asked for them.
fn variable(name: &str) -> Option<String> {
    const OF_FILES: [&str; 6] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_DEFAULT_REGION",
        "AWS_PROFILE",
        "AWS_REGION",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
    ];
    match OF_FILES.contains(&name) {
        true => environment::trimmed(name),
        false => std::env::var(name)
            .ok()
            .filter(|value| !value.trim().is_empty()),
    }
}

/// The region that the environment or a profile names.
pub(super) fn region(profile: Option<&str>) -> Option<String> {
    let chain = Chain {
        profile,
        variable: &variable,
    };
    chain.region()
}

/// The places where keys are looked for, one after the other.
struct Chain<'a> {
    profile: Option<&'a str>,
    variable: &'a (dyn Fn(&str) -> Option<String> + Sync),
}

impl Chain<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (self.variable)(name)
    }

    async fn keys(&self) -> Result<Written, CredentialError> {
        if self.profile.is_none()
            && let (Some(access_key_id), Some(secret_access_key)) = (
                self.variable("AWS_ACCESS_KEY_ID"),
                self.variable("AWS_SECRET_ACCESS_KEY"),
            )
        {
            return Ok(Written {
                access_key_id,
                secret_access_key,
                session_token: self.variable("AWS_SESSION_TOKEN"),
                expiration: None,
            });
        }
        if let Some(keys) = self.of_the_files().await? {
            return Ok(keys);
        }
        let is_container = ["RELATIVE", "FULL"].iter().any(|kind| {
            self.variable(&format!("AWS_CONTAINER_CREDENTIALS_{kind}_URI"))
                .is_some()
        });
        match is_container {
            true => self.of_the_container().await,
            false => self.of_the_machine().await,
        }
    }

    /// A profile that was asked for names its own region.
    fn region(&self) -> Option<String> {
        let of_variables = || {
            let mut names = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter();
            names.find_map(|name| self.variable(name))
        };
        let of_files = || self.fields().ok()?.remove("region");
        match self.profile {
            Some(_) => of_files().or_else(of_variables),
            None => of_variables().or_else(of_files),
        }
    }

    fn profile_name(&self) -> String {
        let name = self.profile.map(str::to_owned);
        name.or_else(|| self.variable("AWS_PROFILE"))
            .unwrap_or_else(|| "default".to_owned())
    }

    /// The settings of the profile in both files; the file of keys wins.
    fn fields(&self) -> Result<BTreeMap<String, String>, CredentialError> {
        let home = self
            .variable("HOME")
            .or_else(|| self.variable("USERPROFILE"));
        let file = |variable: &str, name: &str| {
            let named = self.variable(variable).map(PathBuf::from);
            named.or_else(|| Some(Path::new(home.as_deref()?).join(".aws").join(name)))
        };
        let profile = self.profile_name();
        let mut fields = BTreeMap::new();
        for (path, section) in [
            (
                file("AWS_CONFIG_FILE", "config"),
                format!("profile {profile}"),
            ),
            (
                file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
                profile.clone(),
            ),
        ] {
            let Some(path) = path.filter(|path| path.is_file()) else {
                continue;
            };
            let text = files::read_text(&path, MAX_BYTES as u64);
            let text =
                text.map_err(|error| failed(&format_args!("{}: {error}", path.display())))?;
            fields.extend(section_of(&text, &section, &profile));
        }
        Ok(fields)
    }

    async fn of_the_files(&self) -> Result<Option<Written>, CredentialError> {
        let mut fields = self.fields()?;
        let mut take = |name: &str| fields.remove(name).filter(|value| !value.is_empty());
        let pair = (take("aws_access_key_id"), take("aws_secret_access_key"));
        if let (Some(access_key_id), Some(secret_access_key)) = pair {
            return Ok(Some(Written {
                access_key_id,
                secret_access_key,
                session_token: take("aws_session_token"),
                expiration: None,
            }));
        }
        let profile = self.profile_name();
        if let Some(command) = take("credential_process") {
            return printed(&command, &profile).await.map(Some);
        }
        let signs_in = ["sso_session", "sso_start_url", "role_arn", "login_session"];
        if signs_in.iter().any(|name| take(name).is_some()) {
            return Err(failed(&format_args!(
                "the profile {profile} signs in or takes a role, which only the `aws` program does: add a profile with \
                 `credential_process = aws configure export-credentials --profile {profile}`, and name it"
            )));
        }
        match self.profile {
            Some(name) => Err(failed(&format_args!(
                "the profile {name} has neither keys nor a credential_process in ~/.aws"
            ))),
            None => Ok(None),
        }
    }

    async fn of_the_container(&self) -> Result<Written, CredentialError> {
        let url = match self.variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
            Some(path) => format!("{CONTAINER}/{}", path.trim_start_matches('/')),
            None => self
                .variable("AWS_CONTAINER_CREDENTIALS_FULL_URI")
                .unwrap_or_default(),
        };
        let url = Url::parse(&url).map_err(|error| failed(&error))?;
        let of_amazon = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];
        let is_near = is_local(&url) || of_amazon.contains(&url.host_str().unwrap_or_default());
        if url.scheme() != "https" && !is_near {
            let why = "the address in AWS_CONTAINER_CREDENTIALS_FULL_URI is not https";
            return Err(failed(&why));
        }
        let token = match self.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            Some(path) => {
                let text = files::read_text(Path::new(&path), MAX_BYTES as u64);
                Some(text.map_err(|error| failed(&format_args!("{path}: {error}")))?)
            }
            None => self.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
        };
        let http = client(&url, CONNECT).map_err(|error| failed(&error.message))?;
        let mut request = http.get(url);
        if let Some(token) = token {
            request = request.header(http::header::AUTHORIZATION, token.trim());
        }
        Written::read(&answered(request).await?)
    }

    async fn of_the_machine(&self) -> Result<Written, CredentialError> {
        let nowhere = |why: &dyn fmt::Display| {
            failed(&format_args!(
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_BEARER_TOKEN_BEDROCK, or keys in ~/.aws/credentials ({why})"
            ))
        };
        let is_off = self.variable("AWS_EC2_METADATA_DISABLED");
        if is_off.is_some_and(|off| off.eq_ignore_ascii_case("true")) {
            return Err(nowhere(&"AWS_EC2_METADATA_DISABLED is set"));
        }
        let base = self.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        let base = format!(
            "{}/",
            base.as_deref().unwrap_or(MACHINE).trim_end_matches('/')
        );
        let base = Url::parse(&base).map_err(|error| nowhere(&error))?;
        let at = |path: &str| base.join(path).map_err(|error| failed(&error));
        let http = client(&base, CONNECT).map_err(|error| nowhere(&error.message))?;
        let token = http
            .put(at("latest/api/token")?)
            .header("x-aws-ec2-metadata-token-ttl-seconds", "21600");
        let token = answered(token).await;
        let token = token.map_err(|_| nowhere(&"this machine is not in Amazon's cloud"))?;
        let asking = |path: &str| {
            let request = http.get(at(path)?);
            Ok::<_, CredentialError>(request.header("x-aws-ec2-metadata-token", token.as_slice()))
        };
        let roles = answered(asking(OF_THE_MACHINE)?).await;
        let roles = roles.map_err(|_| nowhere(&"this machine has no role"))?;
        let role = String::from_utf8_lossy(&roles);
        let role = role.lines().next().unwrap_or_default().trim();
        Written::read(&answered(asking(&format!("{OF_THE_MACHINE}{role}"))?).await?)
    }
}

/// The fields of a section of a file of profiles. The profile `default` has a section of that name in both files.
fn section_of(text: &str, section: &str, profile: &str) -> BTreeMap<String, String> {
    let mut is_in = false;
    let mut fields = BTreeMap::new();
    for line in text.lines() {
        // A line that is set in belongs to a table within the section.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.split(']').next().unwrap_or_default();
            let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
            is_in = name == section || profile == "default" && name == profile;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_in) {
            fields.insert(name.trim().to_owned(), value.trim().to_owned());
        }
    }
    fields
}

/// The keys that a program prints.
async fn printed(command: &str, profile: &str) -> Result<Written, CredentialError> {
    let wrong = |why: &dyn fmt::Display| {
        failed(&format_args!(
            "the credential_process of the profile {profile}: {why}"
        ))
    };
    let (shell, flag) = match cfg!(windows) {
        true => ("cmd", "/C"),
        false => ("sh", "-c"),
    };
    let mut program = tokio::process::Command::new(shell);
    program
        .arg(flag)
        .arg(command)
        .stdin(std::process::Stdio::null());
    // What it says may hold a key, so nobody is told.
    program
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true);
    let ran = tokio::time::timeout(PATIENCE * 6, program.output()).await;
    let ran = ran.map_err(|_| wrong(&"it took more than 30 seconds"))?;
    let output = ran.map_err(|error| wrong(&error))?;
    match output.status.success() {
        true => Written::read(&output.stdout).map_err(|_| wrong(&"it prints no keys")),
        false => Err(wrong(&output.status)),
    }
}

async fn answered(request: reqwest::RequestBuilder) -> Result<Vec<u8>, CredentialError> {
    let sent = request.timeout(PATIENCE).send().await;
    // The address is no secret, but what the server says may be.
    let mut answer = sent.map_err(|_| failed(&"the server of keys cannot be reached"))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(failed(&format_args!("the server of keys answers {status}")));
    }
    let mut body = Vec::new();
    while let Some(bytes) = answer
        .chunk()
        .await
        .map_err(|_| failed(&"its answer was cut off"))?
    {
        body.extend_from_slice(&bytes);
        if body.len() > MAX_BYTES {
            return Err(failed(&"the answer of the server of keys is too large"));
        }
    }
    Ok(body)
}

/// The region of an address of Bedrock's own; `None` for any other host. Below Amazon's domains strangers have names of their own,
/// such as that of a bucket, so all of the name counts.
pub(super) fn region_of(host: &str) -> Option<&str> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let mut ends = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"].into_iter();
    let labels: Vec<&str> = ends
        .find_map(|end| name.strip_suffix(end))?
        .split('.')
        .collect();
    let ([service, region] | [_, service, region, "vpce"]) = labels[..] else {
        return None;
    };
    let (area, number) = region.rsplit_once('-')?;
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_region = area.split('-').all(is_word) && number.parse::<u8>().is_ok();
    let is_bedrock = ["bedrock-runtime", "bedrock-runtime-fips"].contains(&service);
    (is_region && is_bedrock).then_some(region)
}

/// The key of a model in Bedrock: the configured one; else, for Bedrock's own servers, the token in
/// `AWS_BEARER_TOKEN_BEDROCK`, or the keys that Amazon's programs find.
pub(super) fn key(host: &str, given: Option<&Secret>, profile: Option<&str>) -> Option<Secret> {
    const TOKEN: &str = "AWS_BEARER_TOKEN_BEDROCK";
    match (given, profile) {
        (Some(given), _) => Some(given.clone()),
        (None, Some(profile)) => Some(Secret::changing(AmazonCredentials::profile(profile))),
        (None, None) if region_of(host).is_none() => None,
        (None, None) if environment::trimmed(TOKEN).is_some() => Some(Secret::variable(TOKEN)),
        (None, None) => Some(Secret::changing(AmazonCredentials::default())),
    }
}

#[cfg(test)]
#[path = "amazon_tests.rs"]
mod tests;
