//! Pictures, sound and other files that a model makes.

use std::sync::Arc;

use ghostlight_actors::{
    run::operations::Scope,
    vocabulary::{AgentError, Data, ErrorKind, ModelResponse, Part},
};

use super::AgentLoop;

impl AgentLoop<'_> {
    /// Keeps the files of an answer as artifacts of the session, or in a delegated run of the tree's working memory. The
    /// answer then has their names. A file that is too large is a part of the conversation alone.
    pub(super) async fn keep_files(&self, response: &mut ModelResponse) -> Result<(), AgentError> {
        let is_file = |part: &Part| matches!(part, Part::Data(_));
        if !response.message.parts.iter().any(is_file) {
            return Ok(());
        }
        let message = Arc::make_mut(&mut response.message);
        let files = message.parts.iter_mut().filter_map(|part| match part {
            Part::Data(data) => Some(data),
            _ => None,
        });
        for (place, data) in files.enumerate() {
            // A link stays one, and what does not read is left to the reader of the conversation.
            let Some(Ok(bytes)) = data.bytes() else {
                continue;
            };
            let name = data.name.clone().unwrap_or_else(|| name(data, place));
            let artifacts = self.cx.artifacts(Scope::Session);
            match artifacts
                .save(name.as_str(), data.media_type.as_str(), bytes)
                .await
            {
                Ok(_) => data.name = Some(name),
                Err(error)
                    if matches!(
                        error.kind(),
                        Some(ErrorKind::TooLarge | ErrorKind::InvalidInput)
                    ) =>
                {
                    tracing::warn!(%error, "a file of a model's answer is not an artifact");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A name such as `picture.png`. The next file under the name is its next version.
fn name(data: &Data, place: usize) -> String {
    let (kind, format) = data.media_type.split_once('/').unwrap_or_default();
    let what = match kind {
        "image" => "picture",
        "audio" => "sound",
        "video" => "film",
        _ => "file",
    };
    let format = format.split(['+', ';']).next().unwrap_or_default();
    let is_plain = !format.is_empty() && format.chars().all(|c| c.is_ascii_alphanumeric());
    let format = if is_plain { format } else { "bin" };
    match place {
        0 => format!("{what}.{format}"),
        later => format!("{what}-{}.{format}", later + 1),
    }
}
