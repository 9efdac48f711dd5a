//! Paths in a team file.

use std::path::Path;

use ghostlight_actors::definition::{AgentSpec, TeamSpec};
use serde_json::Value;

/// Makes the paths in settings absolute. A text that begins with `./` or `../` is a path from the
/// file's folder; of interceptors only `file` is a path. So a run finds its files wherever it is
/// resumed.
pub(super) fn resolve(team: &mut TeamSpec, folder: &Path) {
    for model in team.models.values_mut() {
        model
            .settings
            .values_mut()
            .for_each(|value| from(value, folder));
    }
    for tool in team.tools.values_mut() {
        tool.settings
            .values_mut()
            .for_each(|value| from(value, folder));
    }
    for interceptor in &mut team.interceptors {
        // Other texts of interceptors may be patterns, such as `../`.
        if let Some(file) = interceptor.settings.get_mut("file") {
            from(file, folder);
        }
    }
    of_agent(&mut team.agent, folder);
}

fn of_agent(agent: &mut AgentSpec, folder: &Path) {
    from(&mut agent.behavior.settings, folder);
    let memory = agent.memory.as_mut();
    if let Some(embedder) = memory.and_then(|memory| memory.embedder.as_mut()) {
        from(embedder, folder);
    }
    for policy in &mut agent.policies {
        from(&mut policy.settings, folder);
    }
    for child in &mut agent.agents {
        of_agent(child, folder);
    }
}

fn from(value: &mut Value, folder: &Path) {
    match value {
        Value::String(text) if text.starts_with("./") || text.starts_with("../") => {
            // A path that is not Unicode stays as it is written.
            if let Some(path) = folder.join(text.trim_start_matches("./")).to_str() {
                *text = path.to_owned();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| from(item, folder)),
        Value::Object(fields) => fields.values_mut().for_each(|field| from(field, folder)),
        _ => {}
    }
}
