//! Prompts as turns.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ghostlight_actors::{
    session::Turn,
    vocabulary::{Data, DataSource, Message, Part, Role},
};
use serde_json::Value;

use crate::{
    protocol::{ContentBlock, PromptRequest, Resource},
    wire::RpcError,
};

/// The key of a prompt's `_meta` by which a client names its turn: the same prompt sent again under the same name is
/// the same run.
pub const IDEMPOTENCY_KEY: &str = "ghostlight/idempotencyKey";
/// The key of a prompt response's `_meta` with the name of the question with which the prompt ended. A prompt with the same
/// entry in its `_meta` is the answer to that question.
pub const ASKS: &str = "ghostlight/asks";
/// The longest name of a turn, in bytes.
const MAX_NAME: usize = 200;
/// The most pieces of a prompt.
const MAX_BLOCKS: usize = 256;

/// The turn of a prompt. Links become text, files become data.
///
/// # Errors
/// The prompt is invalid.
pub fn turn_of(request: &PromptRequest) -> Result<Turn, RpcError> {
    let blocks = &request.prompt;
    if !(1..=MAX_BLOCKS).contains(&blocks.len()) {
        let reason = format!("a prompt has 1 to {MAX_BLOCKS} pieces");
        return Err(RpcError::invalid_params(reason));
    }
    let mut said = Message::text(Role::User, "");
    said.parts = blocks.iter().map(part_of).collect::<Result<_, _>>()?;
    let turn = Turn::from(said);
    let named = request
        .meta
        .as_ref()
        .and_then(|meta| meta.get(IDEMPOTENCY_KEY));
    match named {
        None => Ok(turn),
        Some(Value::String(name)) if (1..=MAX_NAME).contains(&name.len()) => Ok(turn.id(name)),
        Some(_) => {
            let reason = format!("`{IDEMPOTENCY_KEY}` is a text of 1 to {MAX_NAME} bytes");
            Err(RpcError::invalid_params(reason))
        }
    }
}

fn part_of(block: &ContentBlock) -> Result<Part, RpcError> {
    match block {
        ContentBlock::Text { text } => Ok(Part::Text(text.clone())),
        ContentBlock::Image { data, mime_type } | ContentBlock::Audio { data, mime_type } => {
            file(data, Some(mime_type), None)
        }
        ContentBlock::ResourceLink { uri, name } => Ok(Part::Text(format!("[{name}]({uri})"))),
        ContentBlock::Resource {
            resource:
                Resource {
                    uri,
                    mime_type,
                    text,
                    blob,
                },
        } => match (text, blob) {
            (Some(text), _) => Ok(Part::Text(format!(
                "<resource uri=\"{uri}\">\n{text}\n</resource>"
            ))),
            (None, Some(blob)) => file(blob, mime_type.as_deref(), Some(uri)),
            (None, None) => Err(RpcError::invalid_params(
                "a resource has a `text` or a `blob`",
            )),
        },
    }
}

fn file(data: &str, media_type: Option<&str>, name: Option<&str>) -> Result<Part, RpcError> {
    STANDARD
        .decode(data)
        .map_err(|error| RpcError::invalid_params(format!("data is base64: {error}")))?;
    let media_type = media_type.unwrap_or("application/octet-stream");
    let is_type = |text: &str| text.contains('/') && text.len() <= 255 && text.is_ascii();
    if !is_type(media_type) {
        let reason = "`mimeType` is a media type, such as image/png";
        return Err(RpcError::invalid_params(reason));
    }
    Ok(Part::Data(Data {
        media_type: media_type.to_owned(),
        name: name.map(str::to_owned),
        source: DataSource::Base64(data.to_owned()),
    }))
}
