//! A provider of one's own, as its program knows it.

/// A provider: its name, its own server, and the key for that.
///
/// ```
/// use ghostlight_models::kit::Provider;
///
/// const ACME: Provider = Provider::new("acme", "https://api.acme.example/v1")
///     .key_variable("ACME_API_KEY")
///     .key_header("x-acme-key")
///     .files(&["image/png", "image/jpeg"]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Provider {
    pub(super) name: &'static str,
    pub(super) base_url: &'static str,
    pub(super) key_variable: &'static str,
    pub(super) key_header: &'static str,
    pub(super) files: &'static [&'static str],
}

impl Provider {
    /// The provider of this name, whose own server is at this address, up to the paths that are asked there.
    pub const fn new(name: &'static str, base_url: &'static str) -> Self {
        Self {
            name,
            base_url,
            key_variable: "",
            key_header: "",
            files: &[],
        }
    }

    /// Names the environment variable with the key for its own server. No other server gets this key.
    #[must_use]
    pub const fn key_variable(mut self, name: &'static str) -> Self {
        self.key_variable = name;
        self
    }

    /// Names the header that carries the key alone. Without it the key goes as `authorization: Bearer`.
    #[must_use]
    pub const fn key_header(mut self, name: &'static str) -> Self {
        self.key_header = name;
        self
    }

    /// Sets which files the models take beside text, such as `image/png` or `audio/*`. Without it they take none.
    #[must_use]
    pub const fn files(mut self, kinds: &'static [&'static str]) -> Self {
        self.files = kinds;
        self
    }
}
