//! The settings of a provider, with the endpoint that the first request opens.

use std::sync::{Arc, OnceLock};

use ghostlight_actors::contract::ModelError;

use super::true_host;
use crate::Secret;

/// Settings that say how a server is reached.
pub(crate) trait Reach: Clone {
    /// The state that all attempts share.
    type Endpoint;

    /// Reads the address, looks up the secrets and makes a client.
    ///
    /// # Errors
    /// An address or header that cannot be used, a secret that is not set, no trusted certificates on the machine.
    fn open(&self) -> Result<Self::Endpoint, ModelError>;
}

/// Settings with their endpoint, which the first request opens. Clones share the endpoint.
pub(crate) struct Connection<S: Reach> {
    settings: Arc<S>,
    endpoint: Arc<OnceLock<S::Endpoint>>,
}

impl<S: Reach> Connection<S> {
    pub(crate) fn new(settings: S) -> Self {
        Self {
            settings: Arc::new(settings),
            endpoint: Arc::default(),
        }
    }

    pub(crate) fn settings(&self) -> &S {
        &self.settings
    }

    /// The same connection with changed settings. Its next request opens a new endpoint.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut S)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self.endpoint = Arc::default();
        self
    }

    /// The endpoint, opened if it was not.
    ///
    /// # Errors
    /// The errors of [`Reach::open`].
    pub(crate) fn endpoint(&self) -> Result<&S::Endpoint, ModelError> {
        if let Some(endpoint) = self.endpoint.get() {
            return Ok(endpoint);
        }
        // Two concurrent first requests may both open an endpoint; one of the two is kept.
        let endpoint = self.settings.open()?;
        Ok(self.endpoint.get_or_init(|| endpoint))
    }
}

impl<S: Reach> Clone for Connection<S> {
    fn clone(&self) -> Self {
        Self {
            settings: self.settings.clone(),
            endpoint: self.endpoint.clone(),
        }
    }
}

/// The key for a server: the configured key, or, for the provider's own host, the one in the
/// provider's environment variable. Any other server gets only a key that was configured for it.
pub(crate) fn key_for(
    base_url: &str,
    own_host: &str,
    given: Option<&Secret>,
    variable: &str,
) -> Option<Secret> {
    match given {
        None if true_host(base_url) == own_host => Some(Secret::variable(variable)),
        given => given.cloned(),
    }
}
