//! What the command knows without being told.

use ghostlight_actors::{
    contract::{ModelHandle, ToolHandle},
    run::Registry,
};
use serde_json::{Map, Value};

use crate::{models::OfflineModel, tools::Calculator};

/// The registry of what is built in: every behavior; the tool `calculator`; the providers
/// `offline` and, with the feature `openai`, `openai`.
///
/// Add your own to it and give it to the command or to a System.
#[must_use]
pub fn builtin() -> Registry {
    let registry = crate::behaviors::register(Registry::new())
        .tool(ToolHandle::new(Calculator))
        .provider("offline", offline);
    #[cfg(feature = "openai")]
    let registry = registry.provider("openai", openai);
    registry
}

fn offline(given: &Map<String, Value>) -> Result<ModelHandle, String> {
    match given.keys().next() {
        Some(key) => Err(format!("it has no settings; remove {key:?}")),
        None => Ok(ModelHandle::new(OfflineModel)),
    }
}

#[cfg(feature = "openai")]
fn openai(given: &Map<String, Value>) -> Result<ModelHandle, String> {
    use serde::Deserialize as _;

    let settings = crate::models::OpenAiSettings::deserialize(given);
    let settings = settings.map_err(|error| error.to_string())?;
    Ok(ModelHandle::new(crate::models::OpenAi::from(settings)))
}
