//! The methods that all providers have.

use ghostlight_actors::{contract::ModelError, vocabulary::ErrorKind};

use super::is_loopback;
use crate::Secret;

/// The setters of a type that speaks to a server by HTTP. The type has a method `with` that changes the settings.
macro_rules! http_setters {
    ($type:ident, $spec:ident, $path:literal) => {
        impl $type {
            #[doc = concat!("Sets the address up to and without `", $path, "`.")]
            #[must_use]
            pub fn base_url(self, address: impl Into<String>) -> Self {
                self.with(|settings| settings.base_url = address.into())
            }

            /// Sets the key.
            #[must_use]
            pub fn api_key(self, key: crate::Secret) -> Self {
                self.with(|settings| settings.api_key = Some(key))
            }

            /// Sets the time limits of an attempt.
            #[must_use]
            pub fn timeouts(self, timeouts: crate::Timeouts) -> Self {
                self.with(|settings| settings.timeouts = timeouts)
            }

            #[doc = concat!("Adds a field to each request body. See [`", stringify!($spec), "::extra`].")]
            #[must_use]
            pub fn extra(
                self,
                field: impl Into<String>,
                value: impl Into<serde_json::Value>,
            ) -> Self {
                self.with(|settings| {
                    settings.extra.insert(field.into(), value.into());
                })
            }

            #[doc = concat!("Adds a header to each request. See [`", stringify!($spec), "::headers`].")]
            #[must_use]
            pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
                self.with(|settings| {
                    settings.headers.insert(name.into(), value.into());
                })
            }
        }
    };
}

/// The methods of every model of a provider: those of [`http_setters`], and its settings, prices and checks. The type
/// holds a [`Connection`](super::Connection).
macro_rules! http_model {
    ($model:ident, $spec:ident, $path:literal) => {
        $crate::http::http_setters!($model, $spec, $path);

        impl $model {
            /// Sets the prices of the model.
            #[must_use]
            pub fn prices(self, prices: ghostlight_actors::vocabulary::Prices) -> Self {
                self.with(|settings| settings.prices = Some(prices))
            }

            /// Sets the most bytes of an answer.
            #[must_use]
            pub fn max_response_bytes(self, bytes: u64) -> Self {
                self.with(|settings| settings.max_response_bytes = bytes)
            }

            /// The settings.
            pub fn settings(&self) -> &$spec {
                self.connection.settings()
            }

            /// Reads the address and looks up the secrets, which the first request would do.
            ///
            /// # Errors
            /// An address or header that cannot be used, a secret that is not set, no trusted certificates on the
            /// machine.
            pub fn check(&self) -> Result<(), ModelError> {
                self.connection.endpoint().map(drop)
            }
        }

        impl From<$spec> for $model {
            fn from(settings: $spec) -> Self {
                Self {
                    connection: $crate::http::Connection::new(settings),
                }
            }
        }

        impl std::fmt::Debug for $model {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({})", stringify!($model), self.description())
            }
        }
    };
}

/// The methods of [`http_model`], and `from_env` for a provider with a key and an address of its own.
macro_rules! provider {
    (
        $model:ident, $spec:ident, $path:literal,
        variables: $prefix:literal, keys: [$key:literal $(, $other:literal)*], address: $address:expr $(,)?
    ) => {
        $crate::http::http_model!($model, $spec, $path);

        impl $model {
            #[doc = concat!(
                "The model that the environment names: `", $prefix, "_MODEL` (else [`", stringify!($spec),
                "::default`]'s) at `", $prefix, "_BASE_URL` (else the provider's own server), with the key in `", $key, "`",
                $(", else `", $other, "`",)* "."
            )]
            ///
            /// # Errors
            /// A missing key, unless the address is on this machine, and what [`check`](Self::check) finds.
            pub fn from_env() -> Result<Self, ModelError> {
                let model = Self::from_variables(crate::environment::variable)?;
                model.check()?;
                Ok(model)
            }

            fn from_variables(
                variable: impl Fn(&str) -> Option<String>,
            ) -> Result<Self, ModelError> {
                let mut settings = $spec::default();
                let found = $crate::http::Found::in_variables(
                    $prefix,
                    &[$key $(, $other)*],
                    &settings.base_url,
                    $address,
                    variable,
                )?;
                if let Some(model) = found.model {
                    settings.model = model;
                }
                settings.base_url = found.base_url;
                settings.api_key = found.api_key;
                Ok(Self::from(settings))
            }
        }
    };
}

pub(crate) use {http_model, http_setters, provider};

/// The settings of a provider's model in the environment.
pub(crate) struct Found {
    pub(crate) model: Option<String>,
    pub(crate) base_url: String,
    pub(crate) api_key: Option<Secret>,
}

impl Found {
    /// Looks up the model and the address of a provider, and the first of its keys that is set.
    ///
    /// # Errors
    /// No key for an address that is not on this machine.
    pub(crate) fn in_variables(
        prefix: &str,
        keys: &[&'static str],
        own_server: &str,
        address: impl Fn(&str) -> String,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ModelError> {
        let set = |name: &str| {
            let value = variable(name)?.trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        let base_url = set(&format!("{prefix}_BASE_URL"));
        let base_url = base_url.map_or_else(|| own_server.to_owned(), |given| address(&given));
        let key = keys.iter().find(|name| set(name).is_some());
        if key.is_none() && !is_loopback(&base_url) {
            let message = format!(
                "{} is not set: set it to your key, or set {prefix}_BASE_URL to a server on this machine, such as \
                 http://127.0.0.1:11434/v1",
                keys[0]
            );
            return Err(ModelError::new(ErrorKind::Authentication, message));
        }
        Ok(Self {
            model: set(&format!("{prefix}_MODEL")),
            base_url,
            api_key: key.map(|name| Secret::variable(*name)),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Result<Found, ModelError> {
        let look_up = |name: &str| {
            let named = variables.iter().find(|(known, _)| *known == name);
            named.map(|(_, value)| String::from(*value))
        };
        let keys = ["LLM_API_KEY", "OTHER_API_KEY"];
        let address = |given: &str| format!("{given}/v1");
        Found::in_variables("LLM", &keys, "https://own.example", address, look_up)
    }

    #[test]
    fn variables_name_model_address_and_the_first_key_that_is_set() {
        let all = found(&[
            ("LLM_MODEL", " m "),
            ("LLM_BASE_URL", "https://other.example"),
            ("LLM_API_KEY", " "),
            ("OTHER_API_KEY", "sk-1"),
        ])
        .unwrap();
        assert_eq!(all.model.as_deref(), Some("m"));
        assert_eq!(all.base_url, "https://other.example/v1");
        assert_eq!(all.api_key, Some(Secret::variable("OTHER_API_KEY")));
        let least = found(&[("LLM_API_KEY", "sk-1")]).unwrap();
        assert_eq!(least.base_url, "https://own.example");
        assert_eq!(
            (least.model, least.api_key),
            (None, Some(Secret::variable("LLM_API_KEY")))
        );
    }

    #[test]
    fn only_a_server_on_this_machine_needs_no_key() {
        let local = found(&[("LLM_BASE_URL", "http://127.0.0.1:8080")]).unwrap();
        assert_eq!(local.api_key, None);
        let error = found(&[]).err().unwrap();
        assert_eq!(error.kind, ErrorKind::Authentication);
        assert!(error.message.contains("LLM_API_KEY is not set"), "{error}");
        assert!(error.message.contains("LLM_BASE_URL"), "{error}");
    }
}
