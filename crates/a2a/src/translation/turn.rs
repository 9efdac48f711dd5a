//! From messages to turns.

use ghostlight_actors::{
    session::Turn,
    vocabulary::{
        Data, DataSource, Message as Said, OperationId, Part as SaidPart, Role as SaidRole, RunId,
        check_link,
    },
};

use crate::protocol::{ErrorCode, Message, Part, ProtocolError, QUESTION, Role};

/// The longest id of a message, in bytes.
const MAX_ID: usize = 200;
/// The most parts of a message.
const MAX_PARTS: usize = 256;

/// The turn of a message. It has the message's id, so a message that is sent again gives the same run.
///
/// # Errors
/// The message is invalid.
pub fn turn_of(message: &Message) -> Result<Turn, ProtocolError> {
    let id = &message.message_id;
    if !(1..=MAX_ID).contains(&id.len()) || id.chars().any(char::is_control) {
        let text = format!("`messageId` is 1 to {MAX_ID} bytes without control characters");
        return Err(ProtocolError::invalid(text));
    }
    if message.role != Role::User {
        return Err(ProtocolError::invalid(
            "the role of what a client says is ROLE_USER",
        ));
    }
    if !(1..=MAX_PARTS).contains(&message.parts.len()) {
        let text = format!("a message has 1 to {MAX_PARTS} parts");
        return Err(ProtocolError::invalid(text));
    }
    let mut said = Said::text(SaidRole::User, "");
    said.parts = message
        .parts
        .iter()
        .map(part_of)
        .collect::<Result<_, _>>()?;
    let is_empty = |part: &SaidPart| part.as_text().is_some_and(|text| text.trim().is_empty());
    if said.parts.iter().all(is_empty) {
        return Err(ProtocolError::invalid("the message says nothing"));
    }
    Ok(Turn::from(said).id(id.clone()))
}

fn part_of(part: &Part) -> Result<SaidPart, ProtocolError> {
    if part.contents() != 1 {
        let text = "a part has exactly one of `text`, `raw`, `url` and `data`";
        return Err(ProtocolError::invalid(text));
    }
    if let Some(text) = &part.text {
        return Ok(SaidPart::Text(text.clone()));
    }
    if let Some(data) = &part.data {
        return Ok(SaidPart::Text(data.to_string()));
    }
    let media_type = part
        .media_type
        .clone()
        .unwrap_or_else(|| "application/octet-stream".to_owned());
    if media_type.len() > 255
        || !media_type.contains('/')
        || media_type.chars().any(char::is_control)
    {
        let text = "`mediaType` is a media type, such as image/png";
        return Err(ProtocolError::new(ErrorCode::ContentTypeNotSupported, text));
    }
    let source = match (&part.raw, &part.url) {
        (Some(raw), _) => DataSource::Base64(raw.clone()),
        (None, url) => DataSource::Url(url.clone().unwrap_or_default()),
    };
    let name = part.filename.clone();
    let data = Data {
        media_type,
        name,
        source,
    };
    let fault = |error: String| ProtocolError::invalid(format!("a file: {error}"));
    data.bytes().transpose().map_err(fault)?;
    if let DataSource::Url(url) = &data.source {
        check_link(url).map_err(|error| fault(error.to_string()))?;
    }
    Ok(SaidPart::Data(data))
}

/// The name of the question of a run's operation, in the metadata of a task's messages. It is the operation alone where
/// the task's own run asks; runs below it may ask under the same operation.
pub fn question_name(task: &str, run: RunId, operation: OperationId) -> String {
    let run = run.to_string();
    match run == task {
        true => operation.to_string(),
        false => format!("{run}/{operation}"),
    }
}

/// The [name](question_name) of the question that a message answers, if it has one.
///
/// # Errors
/// The message names no question.
pub fn question_of(message: &Message) -> Result<Option<&str>, ProtocolError> {
    let Some(named) = message.named(QUESTION) else {
        return Ok(None);
    };
    let (run, operation) = match named.rsplit_once('/') {
        Some((run, operation)) => (Some(run), operation),
        None => (None, named),
    };
    let is_run = run.is_none_or(|run| run.parse::<RunId>().is_ok());
    if is_run && operation.parse::<OperationId>().is_ok() {
        return Ok(Some(named));
    }
    let text = format!("the metadata `{QUESTION}` is a question, as its own metadata names it");
    Err(ProtocolError::invalid(text))
}
