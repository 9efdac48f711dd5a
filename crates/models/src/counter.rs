//! Counting tokens.

use ghostlight_actors::vocabulary::{Data, DataSource, Message, ModelRequest, Part, ToolSet};

/// The tokens of a message besides its content: its role and the marks around it.
const MESSAGE_OVERHEAD: u64 = 4;
/// The tokens of a call, a result or a tool's definition besides its content.
const PART_OVERHEAD: u64 = 8;
/// The tokens that begin the answer.
const REQUEST_OVERHEAD: u64 = 3;
/// The tokens of a picture: providers count by its size, up to about this number.
const PICTURE: u64 = 1_100;
/// How many bytes of data count as one token, by the beginning of their media type. Providers count sound and film by
/// the second and documents by the page: these are the rates of small files, so that no count is too low.
const BYTES_PER_TOKEN: [(&str, u64); 3] =
    [("audio/", 128), ("video/", 256), ("application/pdf", 40)];
/// The characters of base64 that count as one token, for all other data that is not a picture.
const BASE64_PER_TOKEN: u64 = 4;

/// Counts tokens. Only [`count`](Self::count) has to be implemented: the counts of messages and
/// whole requests follow from it, including calls, results and the definitions of tools.
///
/// ```
/// use ghostlight_actors::vocabulary::Message;
/// use ghostlight_models::{Estimate, TokenCounter};
///
/// let words = Estimate.count("Where is my parcel?");
/// let characters = Estimate.count("我的包裹在哪里？");
/// assert!(words <= 6 && characters >= 8, "{words}, {characters}");
/// assert!(Estimate.message(&Message::user("hello")) > Estimate.count("hello"));
/// ```
///
/// A run counts again in replay, so the same text must always have the same count.
pub trait TokenCounter: Send + Sync + 'static {
    /// The basis of the count, for people: the name of a vocabulary, or `estimate`.
    fn name(&self) -> &str;

    /// The tokens of a text.
    fn count(&self, text: &str) -> u64;

    /// The tokens of a message, including its form.
    fn message(&self, message: &Message) -> u64 {
        let author = message.author.as_deref();
        let author = author.map_or(0, |author| 1 + self.count(author));
        let parts = message.parts.iter().map(|part| match part {
            Part::Text(text) => self.count(text),
            Part::ToolCall(call) => {
                PART_OVERHEAD + self.count(&call.name) + self.count(call.arguments.text())
            }
            Part::ToolResult(result) => {
                let attached = result.attachments.iter().map(|data| self.data(data));
                PART_OVERHEAD
                    + self.count(&result.name)
                    + self.count(&result.text)
                    + attached.sum::<u64>()
            }
            Part::Reasoning(reasoning) => {
                let signature = reasoning.signature.as_deref().unwrap_or_default();
                self.count(&reasoning.text) + self.count(signature)
            }
            Part::Data(data) => self.data(data),
            // A part of a later version is counted as its JSON.
            other => self.count(&serde_json::to_string(other).unwrap_or_default()),
        });
        MESSAGE_OVERHEAD + author + parts.sum::<u64>()
    }

    /// The tokens of the definitions of tools.
    fn tools(&self, tools: &ToolSet) -> u64 {
        let definitions = tools.iter().map(|tool| {
            PART_OVERHEAD
                + self.count(&tool.name)
                + self.count(&tool.description)
                + self.count(&tool.parameters.to_string())
        });
        definitions.sum()
    }

    /// The tokens of a request besides its conversation: instructions, tools and the schema of the
    /// answer.
    fn fixed(&self, request: &ModelRequest) -> u64 {
        let instructions = match request.instructions.is_empty() {
            true => 0,
            false => MESSAGE_OVERHEAD + self.count(&request.instructions),
        };
        let schema = request.output.as_ref();
        let schema = schema.map_or(0, |output| self.count(&output.schema.to_string()));
        REQUEST_OVERHEAD + instructions + self.tools(&request.tools) + schema
    }

    /// The tokens of a request.
    fn request(&self, request: &ModelRequest) -> u64 {
        let messages = request.conversation.messages();
        let conversation = messages.iter().map(|message| self.message(message));
        self.fixed(request) + conversation.sum::<u64>()
    }

    /// The tokens of a file or other data.
    fn data(&self, data: &Data) -> u64 {
        let is_picture = data.media_type.starts_with("image/");
        match &data.source {
            _ if is_picture => PICTURE,
            DataSource::Base64(text) => {
                let kinds = BYTES_PER_TOKEN.iter();
                let mut rates = kinds.filter(|(kind, _)| data.media_type.starts_with(kind));
                let length = text.len() as u64;
                PART_OVERHEAD
                    + match rates.next() {
                        Some((_, bytes)) => length / 4 * 3 / bytes,
                        None => length / BASE64_PER_TOKEN,
                    }
            }
            DataSource::Url(address) => PART_OVERHEAD + self.count(address),
            _ => PART_OVERHEAD,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::vocabulary::{
        Arguments, Reasoning, ToolCall, ToolDefinition, ToolResult, ToolStatus, Transcript,
    };

    use super::*;

    /// One token for each character, so that sums are easy to check.
    struct Characters;

    impl TokenCounter for Characters {
        fn name(&self) -> &str {
            "characters"
        }

        fn count(&self, text: &str) -> u64 {
            text.chars().count() as u64
        }
    }

    #[test]
    fn calls_results_reasoning_and_pictures_count() {
        let call = ToolCall::new("1", "read", Arguments::from_text("{\"a\":1}"));
        let mut asks = Message::assistant("so");
        asks.parts.push(Part::ToolCall(call.clone()));
        asks.parts.push(Part::Reasoning(Reasoning {
            text: "hm".to_owned(),
            signature: Some("xyz".to_owned()),
        }));
        let expected = MESSAGE_OVERHEAD + 2 + PART_OVERHEAD + 4 + 7 + 2 + 3;
        assert_eq!(Characters.message(&asks), expected);
        let mut result = ToolResult::new(&call, ToolStatus::Success, "12345");
        let bare = MESSAGE_OVERHEAD + PART_OVERHEAD + 4 + 5;
        assert_eq!(
            Characters.message(&Message::results([result.clone()])),
            bare
        );
        result.attachments.push(Data {
            media_type: "image/png".to_owned(),
            name: None,
            source: DataSource::Base64("AAAA".to_owned()),
        });
        assert_eq!(
            Characters.message(&Message::results([result])),
            bare + PICTURE
        );
    }

    #[test]
    fn sound_film_and_documents_are_not_counted_as_text() {
        let data = |media_type: &str| Data {
            media_type: media_type.to_owned(),
            name: None,
            source: DataSource::Base64("A".repeat(1_200_000)),
        };
        for (media_type, most) in [
            ("audio/mpeg", 8_000),
            ("video/mp4", 4_000),
            ("application/pdf", 23_000),
        ] {
            let counted = Characters.data(&data(media_type));
            assert!((1_000..most).contains(&counted), "{media_type}: {counted}");
        }
        assert_eq!(Characters.data(&data("text/csv")), PART_OVERHEAD + 300_000);
    }

    #[test]
    fn a_request_counts_instructions_tools_and_conversation() {
        let conversation = Transcript::from_iter([Message::user("hello").by("ada")]);
        let bare = ModelRequest::new(conversation);
        let said = MESSAGE_OVERHEAD + 1 + 3 + 5;
        assert_eq!(Characters.request(&bare), REQUEST_OVERHEAD + said);
        let tool = ToolDefinition::new("read", "Reads.").parameters(serde_json::json!({}));
        let full = bare
            .instructions("Be brief.")
            .tools(ToolSet::from_iter([tool]));
        let tools = PART_OVERHEAD + 4 + 6 + 2;
        assert_eq!(
            Characters.request(&full),
            REQUEST_OVERHEAD + said + MESSAGE_OVERHEAD + 9 + tools
        );
    }
}
