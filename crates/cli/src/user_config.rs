//! The user's own settings of the command, in a file of the user's configuration directory.

use std::{
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use ghostlight::{config, files};
use ghostlight_safety::sole_reference;
use serde::Deserialize;

use super::{exit::Failure, keeping::variable};

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The settings of the file. Options and variables of the environment take precedence.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct UserConfig {
    /// The provider of the default model.
    pub(super) provider: Option<String>,
    /// The default model, by its provider's name for it.
    pub(super) model: Option<String>,
    /// The address of the default model.
    pub(super) base_url: Option<String>,
    /// The variable that holds the key, as `${NAME}`.
    pub(super) api_key: Option<String>,
    /// The store of the runs.
    pub(super) store: Option<PathBuf>,
}

static READ: OnceLock<UserConfig> = OnceLock::new();

/// Reads the file, if there is one.
pub(super) fn load() -> Result<(), Failure> {
    let Some(path) = path() else { return Ok(()) };
    let text = match files::read_text(&path, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(wrong(&path, &error)),
    };
    let read = read(&text, &path.display().to_string());
    let _ = READ.set(read.map_err(Failure::Usage)?);
    Ok(())
}

/// The settings of the file; empty if there is none.
pub(super) fn read_before() -> &'static UserConfig {
    READ.get_or_init(UserConfig::default)
}

/// The settings in this text; the error names the file and the place.
fn read(text: &str, origin: &str) -> Result<UserConfig, String> {
    let read: Option<UserConfig> =
        config::read_settings(text, origin).map_err(|error| error.to_string())?;
    let read = read.unwrap_or_default();
    let key = read.api_key.as_deref();
    if key.is_some_and(|key| sole_reference(key).is_none()) {
        return Err(format!(
            "{origin}: `api_key` is the name of a variable that holds the key, such as ${{OPENAI_API_KEY}}, and not the key",
        ));
    }
    Ok(read)
}

fn wrong(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Usage(format!("{}: {error}", path.display()))
}

/// The path of the file, whether it exists or not.
pub(super) fn path() -> Option<PathBuf> {
    if let Some(named) = variable("GHOSTLIGHT_CONFIG") {
        return Some(named);
    }
    let home = |below: &str| variable("HOME").map(|home| home.join(below));
    let base = if cfg!(windows) {
        variable("APPDATA")
    } else if cfg!(target_os = "macos") {
        home("Library/Application Support")
    } else {
        let xdg = variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
        xdg.or_else(|| home(".config"))
    };
    base.map(|base| base.join("ghostlight").join("config.yaml"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::read;

    #[test]
    fn the_file_holds_no_key_and_nothing_that_is_unknown() {
        let read = |text| read(text, "config.yaml");
        assert_eq!(read("model: m\nstore: /a").unwrap().model.unwrap(), "m");
        assert!(read("").unwrap().model.is_none());
        let error = read("store: /a\nmodle: m").unwrap_err();
        assert!(
            error.starts_with("config.yaml:2:1: unknown key `modle`"),
            "{error}"
        );
        assert!(error.contains("did you mean `model`?"), "{error}");
        let error = read("api_key: sk-123456").unwrap_err();
        assert!(!error.contains("sk-123456"), "{error}");
        read("api_key: ${MY_KEY}").unwrap();
    }
}
