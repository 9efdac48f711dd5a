//! Files that a turn brings, kept.

use ghostlight_actors::{
    run::{Policy, PolicyContext},
    vocabulary::{
        AgentError, ArtifactInfo, ErrorKind, ModelRequest, ModelResponse, Outcome, Part, Scope,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Checked;

/// Saves the files that a turn brings as artifacts, where tools, templates and later turns find
/// them; the model is told their names. A file without a name, or with one that no artifact may
/// have, is called `input-1` and so on. A file at an address is not fetched. One that is too large
/// for the team, or cannot be read, is told to observers and left out (`input_file_not_saved`).
///
/// An agent that takes over in the same turn saves nothing again.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct InputFiles {
    /// Whether the files belong to the session's owner, in all of the owner's sessions, and not to
    /// this session alone. In a session that nobody owns they belong to the session.
    pub of_user: bool,
    #[serde(skip)]
    saved: Vec<ArtifactInfo>,
}

impl Checked for InputFiles {}

impl InputFiles {
    fn scope(&self, cx: &PolicyContext<'_>) -> Scope {
        let owner = cx.start().owner.clone().filter(|_| self.of_user);
        owner.map_or(Scope::Session, Scope::User)
    }
}

impl Policy for InputFiles {
    async fn before_run(&mut self, cx: &PolicyContext<'_>) -> Result<Option<Outcome>, AgentError> {
        let begins = cx.conversation().last().as_deref() == Some(cx.input());
        let files = cx.input().parts.iter().filter_map(|part| match part {
            Part::Data(data) if begins => Some((data, data.bytes()?)),
            _ => None,
        });
        for (place, (data, bytes)) in files.enumerate() {
            let given = data
                .name
                .clone()
                .filter(|name| ArtifactInfo::fault_of_name(name).is_none());
            let name = given.unwrap_or_else(|| format!("input-{}", place + 1));
            let refused = |reason: &str| {
                let told = json!({ "name": name, "reason": reason });
                cx.emit("input_file_not_saved", &told);
            };
            let bytes = match bytes {
                Ok(bytes) => bytes,
                Err(reason) => {
                    refused(&reason);
                    continue;
                }
            };
            let artifacts = cx.artifacts(self.scope(cx));
            match artifacts
                .save(name.as_str(), data.media_type.as_str(), bytes)
                .await
            {
                Ok(info) => self.saved.push(info),
                Err(AgentError::Operation(error)) if error.kind == ErrorKind::TooLarge => {
                    refused(&error.message);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    async fn before_model(
        &mut self,
        cx: &PolicyContext<'_>,
        _: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        if !self.saved.is_empty() {
            let saved: Vec<String> = self.saved.iter().map(ToString::to_string).collect();
            cx.remind(format!(
                "[Files of this turn, saved as artifacts: {}]",
                saved.join("; ")
            ));
        }
        Ok(None)
    }
}
