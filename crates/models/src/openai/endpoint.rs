//! An endpoint of a server that offers OpenAI's chat completions.

use std::sync::Arc;

use async_openai::config::Config;
use ghostlight_actors::{contract::ModelError, vocabulary::ErrorKind};
use http::HeaderMap;
use secrecy::SecretString;

use super::{
    azure, batch::NO_BATCHES_AT_AZURE, encoded_tools::EncodedTools, profile::Profile, reasoning,
    settings::OpenAiSpec,
};
use crate::{
    client::invalid,
    http::{Endpoint, Key, Reach, Reaching, ServerKind, key_for, true_host},
};

/// The name of the profile of Azure's servers.
const AZURE: &str = "azure";

/// The endpoint that attempts share. Cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct OpenAiEndpoint {
    pub(super) server: Arc<Endpoint>,
    /// The fields that the server takes.
    pub(super) profile: Arc<Profile>,
    /// The settings of reasoning that it takes.
    pub(super) wants: Arc<reasoning::Server>,
    /// The version of its interface that is asked for.
    api_version: Option<Arc<str>>,
    pub(super) tools: Arc<EncodedTools>,
}

impl OpenAiEndpoint {
    /// Reads the settings, looks up their secrets and makes a client.
    ///
    /// # Errors
    /// The errors of [`Endpoint::open`].
    pub(super) fn open(settings: &OpenAiSpec) -> Result<Self, ModelError> {
        let profile = settings.profile();
        let address = settings.address();
        if profile.name == AZURE && settings.base_url == OpenAiSpec::OPENAI {
            return Err(ModelError::new(
                ErrorKind::InvalidInput,
                "a model at Azure has an address of its own: set base_url, such as https://NAME.openai.azure.com",
            ));
        }
        if profile.key_in_api_key && settings.batch.is_some() {
            return Err(invalid(NO_BATCHES_AT_AZURE));
        }
        let own_host = true_host(&profile.base_url);
        let key = match profile.key_variable.as_str() {
            "" => settings.api_key.clone(),
            variable => key_for(&address, &own_host, settings.api_key.as_ref(), variable),
        };
        let key = key.map(|key| match profile.key_in_api_key {
            true => Key::header("api-key", key),
            false => Key::Bearer(key),
        });
        let mut server = Endpoint::open(Reaching {
            base_url: &address,
            model: &settings.model,
            key,
            headers: &settings.headers,
            allow_plain_http: settings.allow_plain_http,
            timeouts: &settings.timeouts,
            kind: ServerKind {
                name: "an OpenAI-compatible server",
                place: "check the model's name, and that base_url ends where the server's \
                        /chat/completions begins (often in /v1)",
            },
        })?;
        let mut api_version = settings.api_version.clone();
        if profile.name == AZURE {
            server.base = azure::deployment(&server.base, &settings.model);
            if azure::needs_version(&server.base) {
                api_version.get_or_insert_with(|| azure::VERSION.to_owned());
            }
        }
        Ok(Self {
            server: Arc::new(server),
            wants: Arc::new(reasoning::Server::of(&true_host(&address), &profile)),
            profile: Arc::new(profile),
            api_version: api_version.map(Into::into),
            tools: Arc::default(),
        })
    }
}

impl Reach for OpenAiSpec {
    type Endpoint = OpenAiEndpoint;

    fn open(&self) -> Result<OpenAiEndpoint, ModelError> {
        OpenAiEndpoint::open(self)
    }
}

/// Address and headers, in the form that async-openai requires. Its own configuration reads the
/// environment without being asked, and panics on a key with a line break.
#[derive(Clone)]
pub(super) struct Address {
    server: Arc<Endpoint>,
    api_version: Option<Arc<str>>,
    no_key: SecretString,
}

impl Address {
    pub(super) fn of(endpoint: &OpenAiEndpoint) -> Self {
        Self {
            server: endpoint.server.clone(),
            api_version: endpoint.api_version.clone(),
            no_key: SecretString::default(),
        }
    }
}

impl Config for Address {
    fn headers(&self) -> HeaderMap {
        self.server.headers.clone()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.base)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        let version = self.api_version.as_deref();
        version
            .into_iter()
            .map(|version| ("api-version", version))
            .collect()
    }

    fn api_base(&self) -> &str {
        &self.server.base
    }

    /// Empty: the key is in the headers, marked as sensitive.
    fn api_key(&self) -> &SecretString {
        &self.no_key
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Secret, http::is_loopback};

    fn open(base_url: &str) -> Result<OpenAiEndpoint, ModelError> {
        let mut settings = OpenAiSpec::new("m");
        settings.base_url = base_url.into();
        OpenAiEndpoint::open(&settings)
    }

    #[test]
    fn an_address_that_cannot_be_used_is_refused_without_repeating_its_secrets() {
        for address in [
            "",
            "api.openai.com/v1",
            "ftp://host/v1",
            "http://me:hunter2@host/v1",
            "http://host/v1?key=hunter2",
            "http://",
        ] {
            let error = open(address).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidInput, "{address}");
            assert!(error.message.contains("base_url"), "{error}");
            assert!(!error.message.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        for address in [
            "http://localhost:1/v1",
            "http://127.0.0.9/v1",
            "http://[::1]:8/v1",
        ] {
            assert!(is_loopback(address), "{address}");
        }
        for address in [
            "http://localhost.example.com",
            "http://10.0.0.1",
            "https://api.openai.com",
        ] {
            assert!(!is_loopback(address), "{address}");
        }
    }

    #[test]
    fn a_key_goes_to_another_machine_over_plain_http_only_where_that_is_allowed() {
        let with = |base_url: &str, change: &dyn Fn(&mut OpenAiSpec)| {
            let mut settings = OpenAiSpec::new("m");
            settings.base_url = base_url.into();
            change(&mut settings);
            OpenAiEndpoint::open(&settings)
        };
        let key: &dyn Fn(&mut OpenAiSpec) =
            &|settings| settings.api_key = Some(Secret::value("sk-hunter2"));
        let header: &dyn Fn(&mut OpenAiSpec) = &|settings| {
            settings.headers.insert("x-token".into(), "${PATH}".into());
        };
        let plain: &dyn Fn(&mut OpenAiSpec) = &|settings| {
            settings
                .headers
                .insert("X-Api-Key".into(), "hunter2".into());
        };
        for secret in [key, header, plain] {
            let error = with("http://10.0.0.1/v1", secret).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidInput);
            assert!(error.message.contains("plain http"), "{error}");
            assert!(!error.message.contains("hunter2"), "{error}");
        }
        for address in [
            "http://127.0.0.1:9/v1",
            "http://localhost:9/v1",
            "https://10.0.0.1/v1",
        ] {
            assert!(with(address, key).is_ok(), "{address}");
        }
        assert!(open("http://10.0.0.1/v1").is_ok());
        let allowed = with("http://10.0.0.1/v1", &|settings| {
            settings.allow_plain_http = true;
            key(settings);
        });
        assert!(allowed.is_ok());
    }

    #[test]
    fn a_slash_at_the_end_changes_nothing() {
        let with = Address::of(&open("http://127.0.0.1:9/v1/").unwrap());
        let without = Address::of(&open("http://127.0.0.1:9/v1").unwrap());
        assert_eq!(
            with.url("/chat/completions"),
            "http://127.0.0.1:9/v1/chat/completions"
        );
        assert_eq!(with.url("/x"), without.url("/x"));
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_an_error_and_not_a_panic() {
        let mut settings = OpenAiSpec::new("m");
        settings.base_url = "http://127.0.0.1:9/v1".into();
        settings.api_key = Some(Secret::value("two\nlines"));
        let error = OpenAiEndpoint::open(&settings).unwrap_err();
        assert!(
            error.message.contains("api_key") && !error.message.contains("lines"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_variable_is_named() {
        let mut settings = OpenAiSpec::new("m");
        settings.base_url = "http://127.0.0.1:9/v1".into();
        settings
            .headers
            .insert("x-key".into(), "${GHOSTLIGHT_NO_SUCH_VARIABLE}".into());
        let error = OpenAiEndpoint::open(&settings).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Authentication);
        assert!(
            error.message.contains("GHOSTLIGHT_NO_SUCH_VARIABLE"),
            "{error}"
        );
    }

    #[test]
    fn headers_are_never_printed() {
        let mut settings = OpenAiSpec::new("m");
        settings.base_url = "http://127.0.0.1:9/v1".into();
        settings.api_key = Some(Secret::value("sk-hunter2"));
        settings.headers.insert("x-key".into(), "hunter2".into());
        let endpoint = OpenAiEndpoint::open(&settings).unwrap();
        let shown = format!("{endpoint:?} {:?}", endpoint.server.headers);
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
