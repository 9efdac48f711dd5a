//! The files of a request as its model takes them.
//!
//! A text goes as text, whatever its ending. What a model cannot take is refused before the call if a user has just
//! said it, and named in its place if it stands further back or came from a tool, so that it cannot spoil a conversation.

use std::borrow::Cow;

use ghostlight_actors::{
    contract::ModelError,
    vocabulary::{
        Data, DataSource, ErrorKind, FileError, Message, ModelRequest, Part, Role, check_link,
    },
};

/// The media types that a model takes beside text, as the patterns `image/png` and `audio/*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inputs {
    /// `None` if nothing is known of the model: then its server decides.
    kinds: Option<Vec<&'static str>>,
    /// The setting that corrects them, in words.
    correction: &'static str,
}

impl Inputs {
    /// Nothing is known of the model.
    #[cfg(feature = "openai")]
    pub(crate) const UNKNOWN: Self = Self {
        kinds: None,
        correction: "",
    };

    /// A model that takes these.
    pub(crate) fn of(kinds: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            kinds: Some(kinds.into_iter().collect()),
            correction: "",
        }
    }

    /// The same, which a setting can correct.
    #[cfg(feature = "openai")]
    pub(crate) fn corrected_by(mut self, words: &'static str) -> Self {
        self.correction = words;
        self
    }

    /// The request as a model with this description takes it; it is shared if nothing changes.
    ///
    /// # Errors
    /// A file that a user has just said, and that the model cannot take.
    pub(crate) fn fitted<'r>(
        &self,
        request: &'r ModelRequest,
        model: impl FnOnce() -> String,
    ) -> Result<Cow<'r, ModelRequest>, ModelError> {
        let messages = request.conversation.messages();
        let answered = messages
            .iter()
            .rposition(|message| message.role == Role::Assistant);
        // Only the last: a turn that was refused stays in the conversation, and must not refuse the next ones.
        let said = messages.iter().rposition(|message| message.is_from_user());
        let said = said.filter(|said| answered.is_none_or(|answered| *said > answered));
        let mut is_changed = false;
        for (place, message) in messages.iter().enumerate() {
            let is_new = said == Some(place);
            for data in files(message) {
                match self.fate(data) {
                    Fate::Sent => {}
                    Fate::Refused(why) if is_new => {
                        let model = model();
                        return Err(ModelError::new(
                            ErrorKind::InvalidInput,
                            format!("{model} is not asked: {why}"),
                        ));
                    }
                    Fate::Text(_) | Fate::Refused(_) => is_changed = true,
                }
            }
        }
        if !is_changed {
            return Ok(Cow::Borrowed(request));
        }
        let mut fitted = request.clone();
        let messages = messages.iter().map(|message| {
            let is_changed = files(message).any(|data| !matches!(self.fate(data), Fate::Sent));
            match is_changed {
                true => self.rewritten(message).into(),
                false => message.clone(),
            }
        });
        fitted.conversation = messages.collect();
        Ok(Cow::Owned(fitted))
    }

    fn rewritten(&self, message: &Message) -> Message {
        let mut message = message.clone();
        for part in &mut message.parts {
            match part {
                Part::Data(data) => {
                    if let Some(text) = self.fate(data).text(data) {
                        *part = Part::Text(text);
                    }
                }
                Part::ToolResult(result) => {
                    let mut texts = Vec::new();
                    result.attachments.retain(|data| {
                        let text = self.fate(data).text(data);
                        let is_kept = text.is_none();
                        texts.extend(text);
                        is_kept
                    });
                    for text in texts {
                        if !result.text.is_empty() {
                            result.text.push_str("\n\n");
                        }
                        result.text.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        message
    }

    fn fate(&self, data: &Data) -> Fate {
        let kind = plain_kind(&data.media_type);
        let is_taken = |kind: &str| match &self.kinds {
            None => true,
            Some(kinds) => kinds.iter().any(|taken| fits(taken, kind)),
        };
        match &data.source {
            DataSource::Url(address) => match check_link(address) {
                Err(FileError::NoLink { given, reason }) => Fate::Refused(format!(
                    "{given:?} is not an address that its server can open ({reason}); attach the file itself"
                )),
                // A link that a provider does not open is named to the model.
                _ if kind.starts_with("image/") && !is_taken(&kind) => {
                    Fate::Refused(self.reason(data))
                }
                _ => Fate::Sent,
            },
            DataSource::Base64(_) if is_text(&kind) => match data.bytes() {
                Some(Ok(bytes)) => Fate::Text(String::from_utf8_lossy(&bytes).into_owned()),
                _ => Fate::Refused(format!("the bytes of {} are not base64", named(data))),
            },
            DataSource::Base64(_) if !is_taken(&kind) => Fate::Refused(self.reason(data)),
            _ => Fate::Sent,
        }
    }

    fn reason(&self, data: &Data) -> String {
        let kinds = self.kinds.iter().flatten().copied();
        let kinds = kinds.chain(["text"]).collect::<Vec<_>>().join(", ");
        let correction = match self.correction {
            "" => String::new(),
            words => format!(", or, if it does take it, {words}"),
        };
        format!(
            "it does not take {}, but {kinds}; attach it in another form, choose another model{correction}",
            named(data)
        )
    }
}

/// The treatment of a file.
enum Fate {
    /// It is sent as it is.
    Sent,
    /// It is sent as this text.
    Text(String),
    /// It cannot be sent, and why.
    Refused(String),
}

impl Fate {
    /// The text in the file's place; `None` if the file itself is sent.
    fn text(self, data: &Data) -> Option<String> {
        let name = named(data);
        match self {
            Self::Sent => None,
            Self::Text(words) => Some(format!("[{name}]\n{words}")),
            Self::Refused(_) => Some(format!("[{name} cannot be shown]")),
        }
    }
}

fn files(message: &Message) -> impl Iterator<Item = &Data> {
    message.parts.iter().flat_map(|part| match part {
        Part::Data(data) => std::slice::from_ref(data),
        Part::ToolResult(result) => &result.attachments,
        _ => &[],
    })
}

fn named(data: &Data) -> String {
    let name = data.name.as_deref().unwrap_or("attachment");
    format!("{name} ({})", data.media_type)
}

/// A media type without its parameters.
fn plain_kind(kind: &str) -> String {
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

/// Whether a pattern holds for a media type. `image/*` stands for a picture of a kind that is not told.
fn fits(pattern: &str, kind: &str) -> bool {
    let family = |kind: &str| kind.split('/').next().unwrap_or_default().to_owned();
    match (pattern.ends_with("/*"), kind.ends_with("/*")) {
        (false, false) => pattern == kind,
        _ => family(pattern) == family(kind),
    }
}

fn is_text(kind: &str) -> bool {
    const TEXTS: [&str; 8] = [
        "application/json",
        "application/x-ndjson",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/javascript",
        "application/sql",
    ];
    kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || TEXTS.contains(&kind)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::vocabulary::{ToolCall, ToolResult, ToolStatus, Transcript};

    use super::*;

    fn fitted(inputs: &Inputs, messages: Vec<Message>) -> Result<Vec<Message>, String> {
        let request = ModelRequest::new(Transcript::from_iter(messages));
        let fitted = inputs.fitted(&request, || "m at host".to_owned());
        let fitted = fitted.map_err(|error| error.to_string())?;
        let messages = fitted.conversation.messages();
        Ok(messages
            .iter()
            .map(|message| Message::clone(message))
            .collect())
    }

    fn file(name: &str, kind: &str, text: &str) -> Data {
        let mut data = Data::from_bytes(name, text).unwrap();
        data.media_type = kind.to_owned();
        data
    }

    #[test]
    fn what_a_user_has_just_said_is_refused_with_the_reason_and_what_stands_behind_it_is_named() {
        let inputs = Inputs::of(["image/png", "image/jpeg", "application/pdf"]);
        let voice = || Message::user("hear").attach(file("a.mp3", "audio/mpeg", "x"));
        let told = fitted(&inputs, vec![voice()]).unwrap_err();
        for words in [
            "m at host",
            "a.mp3 (audio/mpeg)",
            "image/png",
            "another model",
        ] {
            assert!(told.contains(words), "{told}");
        }
        let later = vec![voice(), Message::assistant("no"), Message::user("well")];
        let sent = fitted(&inputs, later).unwrap();
        assert_eq!(
            sent[0].content(),
            "hear\n[a.mp3 (audio/mpeg) cannot be shown]"
        );
        // The next turn of a session in which a file was refused.
        let sent = fitted(&inputs, vec![voice(), Message::user("well")]).unwrap();
        assert!(sent[0].content().contains("cannot be shown"));
        let call = ToolCall::new("1", "record", "{}");
        let mut result = ToolResult::new(&call, ToolStatus::Success, "done");
        result.attachments = vec![
            file("b.mp3", "audio/mpeg", "x"),
            file("c.png", "image/png", "x"),
            file("d.csv", "text/csv; charset=utf-8", "1,2"),
        ];
        let sent = fitted(&inputs, vec![Message::results([result])]).unwrap();
        let result = sent[0].tool_results().next().unwrap();
        assert_eq!(
            result.text,
            "done\n\n[b.mp3 (audio/mpeg) cannot be shown]\n\n[d.csv (text/csv; charset=utf-8)]\n1,2"
        );
        assert_eq!(result.attachments.len(), 1);
    }

    #[test]
    fn a_text_goes_as_text_and_a_picture_as_it_is() {
        let message = Message::user("read")
            .attach(file("a.json", "application/json", "[1]"))
            .attach(file("b.png", "IMAGE/PNG", "x"))
            .attach(Data::link("https://example.com/c.png").unwrap())
            .attach(Data::link_of("https://example.com/c", "image/*").unwrap())
            .attach(Data::link("https://example.com/d.mp3").unwrap());
        let sent = fitted(&Inputs::of(["image/png"]), vec![message]).unwrap();
        assert_eq!(sent[0].parts.len(), 6);
        assert_eq!(sent[0].content(), "read\n[a.json (application/json)]\n[1]");
        let plain = vec![Message::user("hi")];
        let request = ModelRequest::new(Transcript::from_iter(plain));
        let fitted = Inputs::of([]).fitted(&request, String::new).unwrap();
        assert!(matches!(fitted, Cow::Borrowed(_)));
    }

    #[test]
    fn a_path_in_the_place_of_an_address_is_refused() {
        let mut data = Data::link("https://example.com/chart.png").unwrap();
        data.source = DataSource::Url("./chart.png".to_owned());
        let message = Message::user("see").attach(data);
        let told = fitted(&Inputs::of(["image/*"]), vec![message]).unwrap_err();
        assert!(
            told.contains("./chart.png") && told.contains("path on this machine"),
            "{told}"
        );
    }
}
