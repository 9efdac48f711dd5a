//! A server's results as outputs of tools.

use ghostlight_actors::{
    contract::{ToolError, ToolOutput},
    vocabulary::{Data, DataSource},
};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

/// The most attachments of one result, and the most bytes of all of them in base64.
const MAX_ATTACHMENTS: usize = 32;
const MAX_ATTACHED_BYTES: usize = 8 << 20;

/// The placeholder for content of a later revision of the protocol.
const UNKNOWN: &str = "[content of a kind that is not known here]";

/// The placeholder for bytes that are attached.
const ATTACHED: &str = "[attached]";

/// A result for the model and the journal. Content beyond the bounds is left out, with a note.
pub(super) fn output(result: CallToolResult) -> Result<ToolOutput, ToolError> {
    let is_error = result.is_error == Some(true);
    let output = read(result);
    if is_error {
        let text = output.text;
        return Err(ToolError::new(match text.trim().is_empty() {
            true => "The server says that the call failed, and not why.".to_owned(),
            false => text,
        }));
    }
    Ok(output)
}

fn read(result: CallToolResult) -> ToolOutput {
    let mut collected = Collected::default();
    // What is attached stands in for itself where the structured content repeats it.
    let mut structured = result.structured_content;
    if let Some(structured) = &mut structured {
        let attached = result.content.iter().filter_map(attached);
        without(structured, &attached.collect::<Vec<_>>());
    }
    for block in result.content {
        collected.block(block);
    }
    // By the protocol, a server with structured content gives it as text, too.
    if let Some(structured) = structured
        && collected.texts.is_empty()
    {
        collected.texts.push(structured.to_string());
    }
    if collected.left_out > 0 {
        let note = format!(
            "[{} attachments were left out: too many or too large]",
            collected.left_out
        );
        collected.texts.push(note);
    }
    let mut output = ToolOutput::text(collected.texts.join("\n"));
    output.attachments = collected.attachments;
    output
}

/// The bytes of a block in base64, if it has some.
fn attached(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Image(image) => Some(&image.data),
        ContentBlock::Audio(audio) => Some(&audio.data),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::BlobResourceContents { blob, .. } => Some(blob),
            _ => None,
        },
        _ => None,
    }
}

/// Replaces attached bytes in a value, also where they are part of an address.
fn without(value: &mut Value, attached: &[&str]) {
    match value {
        Value::String(text) => {
            let mut attached = attached.iter().filter(|bytes| !bytes.is_empty());
            let is_address = text.starts_with("data:");
            if attached.any(|bytes| text == bytes || (is_address && text.ends_with(bytes))) {
                ATTACHED.clone_into(text);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|one| without(one, attached)),
        Value::Object(fields) => fields.values_mut().for_each(|one| without(one, attached)),
        _ => {}
    }
}

#[derive(Default)]
struct Collected {
    texts: Vec<String>,
    attachments: Vec<Data>,
    bytes: usize,
    left_out: usize,
}

impl Collected {
    fn block(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.texts.push(text.text),
            ContentBlock::Image(image) => self.attach(image.mime_type, None, image.data),
            ContentBlock::Audio(audio) => self.attach(audio.mime_type, None, audio.data),
            ContentBlock::Resource(resource) => match resource.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    self.texts.push(format!("[{uri}]\n{text}"));
                }
                ResourceContents::BlobResourceContents {
                    uri,
                    mime_type,
                    blob,
                    ..
                } => {
                    let media_type = mime_type.unwrap_or_else(|| "application/octet-stream".into());
                    self.attach(media_type, Some(uri), blob);
                }
                _ => self.texts.push(UNKNOWN.to_owned()),
            },
            ContentBlock::ResourceLink(link) => {
                let about = link.description.unwrap_or_default();
                let line = format!("[resource {}: {}] {about}", link.name, link.uri);
                self.texts.push(line.trim_end().to_owned());
            }
            // A later revision has further kinds of content.
            _ => self.texts.push(UNKNOWN.to_owned()),
        }
    }

    fn attach(&mut self, media_type: String, name: Option<String>, base64: String) {
        let is_type = |media_type: &str| {
            let ok = |byte: u8| byte.is_ascii_alphanumeric() || b"/.+-_;= ".contains(&byte);
            media_type.len() <= 100 && media_type.contains('/') && media_type.bytes().all(ok)
        };
        let fits = self.attachments.len() < MAX_ATTACHMENTS
            && base64.len() <= MAX_ATTACHED_BYTES - self.bytes
            && is_type(&media_type);
        if !fits {
            self.left_out += 1;
            return;
        }
        self.bytes += base64.len();
        self.attachments.push(Data {
            media_type,
            name,
            source: DataSource::Base64(base64),
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(value: serde_json::Value) -> CallToolResult {
        serde_json::from_value(value).unwrap_or_default()
    }

    #[test]
    fn every_kind_of_content_reaches_the_model_or_is_attached() {
        let given = result(json!({ "content": [
            { "type": "text", "text": "one" },
            { "type": "image", "mimeType": "image/png", "data": "AAAA" },
            { "type": "resource", "resource": { "uri": "file:///a", "text": "two" } },
            { "type": "resource", "resource": { "uri": "file:///b", "blob": "AAAA" } },
            { "type": "resource_link", "uri": "file:///c", "name": "c", "description": "three" },
        ]}));
        let output = output(given).unwrap_or_default();
        assert_eq!(
            output.text,
            "one\n[file:///a]\ntwo\n[resource c: file:///c] three"
        );
        let types: Vec<&str> = output
            .attachments
            .iter()
            .map(|data| data.media_type.as_str())
            .collect();
        assert_eq!(types, ["image/png", "application/octet-stream"]);
    }

    #[test]
    fn structured_content_stands_in_for_text_that_is_not_there() {
        let structured = json!({ "content": [], "structuredContent": { "degrees": 21 } });
        let given = output(result(structured)).unwrap_or_default();
        assert_eq!(given.text, r#"{"degrees":21}"#);
        let both = json!({
            "content": [{ "type": "text", "text": "21" }],
            "structuredContent": { "degrees": 21 },
        });
        assert_eq!(output(result(both)).unwrap_or_default().text, "21");
    }

    #[test]
    fn a_picture_that_the_structured_content_repeats_arrives_once() {
        let picture = "iVBORw0KGgo".repeat(1_000);
        let large = "A".repeat(9 << 20);
        for bytes in [&picture, &large] {
            let block = json!({ "type": "image", "mimeType": "image/png", "data": bytes });
            let structured = json!({
                "result": [block], "shown": format!("data:image/png;base64,{bytes}"), "width": 10,
            });
            let both = json!({ "content": [block], "structuredContent": structured });
            let given = output(result(both)).unwrap_or_default();
            assert!(given.text.len() < 300, "{} characters", given.text.len());
            assert!(given.text.contains(r#""width":10"#), "{}", given.text);
        }
    }

    #[test]
    fn what_is_too_much_is_left_out_and_said() {
        let image =
            json!({ "type": "image", "mimeType": "image/png", "data": "A".repeat(5 << 20) });
        let evil = json!({ "type": "image", "mimeType": "image/png\r\nx: y", "data": "A" });
        let given = output(result(json!({ "content": [image, image, evil] }))).unwrap_or_default();
        assert_eq!(given.attachments.len(), 1);
        assert!(
            given.text.contains("2 attachments were left out"),
            "{}",
            given.text
        );
    }

    #[test]
    fn a_failure_is_an_error_with_its_reason() {
        let failed =
            json!({ "isError": true, "content": [{ "type": "text", "text": "no such city" }] });
        let error = output(result(failed)).map(drop).unwrap_err();
        assert_eq!(error.message, "no such city");
        let silent = output(result(json!({ "isError": true, "content": [] }))).map(drop);
        assert!(silent.unwrap_err().message.contains("failed"));
    }
}
