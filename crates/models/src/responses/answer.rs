//! Puts an answer together, whole or from the events of a stream.

use ghostlight_actors::vocabulary::{
    Data, DataSource, Delta, FinishReason, Message, ModelResponse, Part, Reasoning, ToolCall,
    Transcript, Usage,
};
use ghostlight_safety::ServerEvent;
use serde_json::{Map, Value, json};

use super::kept;
use crate::http::{Failure, JsonReader, settle_calls};

/// Between two messages of one answer.
const GAP: &str = "\n\n";
const NO_RESPONSE: &str = "it is not a response of the Responses API";

/// An answer in the making.
#[derive(Default)]
pub(super) struct Answer {
    json: JsonReader,
    /// The items that are whole, with their places. Some servers give several the same place.
    items: Vec<(u64, Value)>,
    /// The places and ids of the calls that have begun, in their order.
    calls: Vec<(u64, Value)>,
    /// The place of the message whose text was shown last.
    shown: Option<u64>,
    /// The place, the list and the number of the piece of reasoning that was shown last.
    thought: Option<(u64, String, u64)>,
    /// Whether the server has begun to answer.
    has_begun: bool,
    /// The parts so far, of every kind.
    said: String,
    /// The usage that the server told.
    told: Usage,
    /// The response as the server told it at its end.
    whole: Option<Value>,
}

impl Answer {
    /// Takes an answer that came in one piece.
    pub(super) fn take_whole(&mut self, whole: Value) -> Result<(), Failure> {
        self.end(whole)
    }

    /// Takes an event of a stream, and shows what is new in it. Events of kinds that are not known are left out.
    pub(super) fn take(
        &mut self,
        event: &ServerEvent,
        mut show: impl FnMut(Delta),
    ) -> Result<(), Failure> {
        let data = event.data.trim_ascii();
        if event.is_error || event.kind == b"error" {
            return Err(Failure::in_band(data));
        }
        if data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        let (mut value, _) = self.json.read(data)?;
        let kind = value["type"].as_str().unwrap_or_default().to_owned();
        if kind == "error" || kind.is_empty() {
            if let Some(failure) = Failure::in_answer(&value) {
                return Err(failure);
            }
            // The event itself is the error.
            return match kind.as_str() {
                "error" => Err(Failure::in_band(data)),
                _ => Ok(()),
            };
        }
        let place = value["output_index"].as_u64().unwrap_or_default();
        let more = value["delta"].as_str().unwrap_or_default();
        self.has_begun = true;
        self.said.push_str(more);
        match kind.as_str() {
            "response.output_item.added" => self.begin(place, &value["item"], &mut show),
            "response.output_item.done" => {
                self.begin(place, &value["item"], &mut show);
                self.end_item(place, value["item"].take());
            }
            "response.output_text.delta" | "response.refusal.delta" if !more.is_empty() => {
                let is_next = self.shown.is_some_and(|shown| shown != place);
                self.shown = Some(place);
                let gap = if is_next { GAP } else { "" };
                show(Delta::Text(format!("{gap}{more}")));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta"
                if !more.is_empty() =>
            {
                let number = value["summary_index"].as_u64();
                let number = number.or(value["content_index"].as_u64());
                let here = (place, kind.clone(), number.unwrap_or_default());
                let is_next = self.thought.as_ref().is_some_and(|shown| *shown != here);
                self.thought = Some(here);
                let gap = if is_next { GAP } else { "" };
                show(Delta::Reasoning(format!("{gap}{more}")));
            }
            "response.function_call_arguments.delta" if !more.is_empty() => {
                if let Some(index) = self.call(place, &value["item_id"]) {
                    show(Delta::ToolCall {
                        index,
                        name: None,
                        arguments: more.to_owned(),
                    });
                }
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => self.end(value["response"].take())?,
            _ => {}
        }
        Ok(())
    }

    /// Whether the server said that the answer is over.
    pub(super) fn is_over(&self) -> bool {
        self.whole.is_some()
    }

    /// The usage of the answer, as the server told it.
    pub(super) fn told(&self) -> Usage {
        self.told
    }

    /// The usage and the text of an answer that failed; `None` if it had not begun.
    pub(super) fn spent(self) -> Option<(Usage, String)> {
        let has_spent = self.has_begun || self.told != Usage::default();
        has_spent.then_some((self.told, self.said))
    }

    fn begin(&mut self, place: u64, item: &Value, show: &mut impl FnMut(Delta)) {
        if item["type"] != "function_call" || self.call(place, &item["id"]).is_some() {
            return;
        }
        let index = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
        self.calls.push((place, item["id"].clone()));
        show(Delta::ToolCall {
            index,
            name: item["name"].as_str().map(str::to_owned),
            arguments: String::new(),
        });
    }

    /// Keeps an item that is whole, instead of the same one.
    fn end_item(&mut self, place: u64, item: Value) {
        let is_same = |(at, known): &&mut (u64, Value)| {
            let has_id = item["id"].is_string() && known["id"] == item["id"];
            *at == place && (has_id || *known == item)
        };
        match self.items.iter_mut().find(is_same) {
            Some((_, known)) => *known = item,
            None => self.items.push((place, item)),
        }
    }

    /// The number of the call in this place, of this id where the server says one.
    fn call(&self, place: u64, id: &Value) -> Option<u32> {
        let is_it = |(at, known): &(u64, Value)| {
            *at == place && (known == id || !id.is_string() || !known.is_string())
        };
        let index = self.calls.iter().rposition(is_it)?;
        u32::try_from(index).ok()
    }

    /// Takes the response that ends the answer.
    fn end(&mut self, whole: Value) -> Result<(), Failure> {
        self.told = usage(&whole["usage"]);
        if let Some(failure) = Failure::in_answer(&whole) {
            return Err(failure);
        }
        let status = whole["status"].as_str().unwrap_or_default();
        match status {
            "failed" | "cancelled" => return Err(Failure::broken_off(status)),
            "queued" | "in_progress" if whole["background"] == true => {
                let what = "it goes on in the background; remove `background` from `extra`";
                return Err(Failure::Malformed(what.to_owned()));
            }
            "queued" | "in_progress" => return Err(Failure::Cut),
            _ => {}
        }
        let is_response = whole["object"] == "response" || whole["output"].is_array();
        if !is_response {
            return Err(Failure::Malformed(NO_RESPONSE.to_owned()));
        }
        self.whole = Some(whole);
        Ok(())
    }

    /// The whole answer of this server, as the next message of this conversation.
    pub(super) fn complete(
        self,
        server: &str,
        conversation: &Transcript,
    ) -> Result<ModelResponse, Failure> {
        let Some(mut whole) = self.whole else {
            return Err(Failure::Cut);
        };
        let mut items = match whole["output"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        // Some servers leave the items out of the last event.
        if items.is_empty() {
            let mut whole = self.items;
            whole.sort_by_key(|(place, _)| *place);
            items = whole.into_iter().map(|(_, item)| item).collect();
        }
        let mut drafted = Drafted {
            server,
            parts: Vec::new(),
            is_refused: false,
        };
        for item in items {
            drafted.add(item)?;
        }
        let mut message = Message::assistant("");
        message.parts = drafted.parts;
        if let Some(id) = whole["id"].as_str()
            && !message.parts.is_empty()
        {
            let own = Map::from_iter([(RESPONSE.to_owned(), json!(id))]);
            message.parts.insert(0, kept::fields(server, own));
        }
        settle_calls(&mut message, conversation);
        let has_calls = message.tool_calls().next().is_some();
        let mut response = ModelResponse::new(message);
        response.finish = finish(&whole, has_calls, drafted.is_refused);
        response.usage = self.told;
        response.model = whole["model"].as_str().unwrap_or_default().to_owned();
        Ok(response)
    }
}

/// The field of the whole answer under which its id is kept.
pub(super) const RESPONSE: &str = "response_id";

struct Drafted<'a> {
    server: &'a str,
    parts: Vec<Part>,
    is_refused: bool,
}

impl Drafted<'_> {
    fn add(&mut self, item: Value) -> Result<(), Failure> {
        let Value::Object(mut item) = item else {
            return Ok(());
        };
        item.retain(|_, value| !value.is_null());
        match item.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message" => self.message(item),
            "function_call" => self.call(item)?,
            "reasoning" => {
                self.parts.push(Part::Reasoning(Reasoning {
                    text: reasoning(&item),
                    signature: None,
                }));
                self.parts.push(kept::fields(self.server, item));
            }
            "image_generation_call" => self.picture(item),
            _ => self.parts.push(kept::item(self.server, item)),
        }
        Ok(())
    }

    /// A picture that the server made.
    fn picture(&mut self, mut item: Map<String, Value>) {
        let bytes = item.remove("result");
        let format = item.get("output_format").and_then(Value::as_str);
        let media_type = format!("image/{}", format.unwrap_or("png"));
        self.parts.push(kept::item(self.server, item));
        if let Some(Value::String(bytes)) = bytes {
            self.parts.push(Part::Data(Data {
                media_type,
                name: None,
                source: DataSource::Base64(bytes),
            }));
        }
    }

    fn message(&mut self, mut item: Map<String, Value>) {
        let mut text = String::new();
        let mut annotations = Vec::new();
        for part in item.remove("content").iter().flat_map(list) {
            if let Some(refusal) = part["refusal"].as_str() {
                self.is_refused = true;
                text.push_str(refusal);
            }
            text.push_str(part["text"].as_str().unwrap_or_default());
            annotations.extend(list(&part["annotations"]).iter().cloned());
        }
        if text.is_empty() {
            return;
        }
        if !annotations.is_empty() {
            item.insert("annotations".to_owned(), annotations.into());
        }
        let has_said = self.parts.iter().any(|part| part.as_text().is_some());
        let gap = if has_said { GAP } else { "" };
        self.parts.push(Part::Text(format!("{gap}{text}")));
        self.parts.push(kept::fields(self.server, item));
    }

    fn call(&mut self, mut item: Map<String, Value>) -> Result<(), Failure> {
        let mut word = |name: &str| match item.remove(name) {
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let (name, arguments, given) = (word("name"), word("arguments"), word("call_id"));
        if name.is_empty() {
            let what = "it calls a tool without a name";
            return Err(Failure::Malformed(what.to_owned()));
        }
        let own = item.get("id").and_then(Value::as_str).unwrap_or_default();
        let id = if given.is_empty() {
            own.to_owned()
        } else {
            given
        };
        self.parts
            .push(Part::ToolCall(ToolCall::new(id, name, arguments)));
        self.parts.push(kept::fields(self.server, item));
        Ok(())
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The text of a piece of reasoning: its summary, else its text.
fn reasoning(item: &Map<String, Value>) -> String {
    let texts = |name: &str| {
        let parts = item.get(name).map_or(&[][..], list).iter();
        let texts = parts.filter_map(|part| part["text"].as_str());
        texts
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(GAP)
    };
    let summary = texts("summary");
    if summary.is_empty() {
        texts("content")
    } else {
        summary
    }
}

fn finish(whole: &Value, has_calls: bool, is_refused: bool) -> FinishReason {
    let reason = whole["incomplete_details"]["reason"].as_str();
    match (whole["status"].as_str(), reason) {
        (_, Some("content_filter")) => FinishReason::ContentFilter,
        (_, Some("max_output_tokens" | "max_tokens")) => FinishReason::Length,
        (Some("incomplete"), reason) => {
            FinishReason::Other(reason.unwrap_or("incomplete").to_owned())
        }
        _ if is_refused => FinishReason::ContentFilter,
        _ if has_calls => FinishReason::ToolCalls,
        _ => FinishReason::Stop,
    }
}

fn usage(told: &Value) -> Usage {
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    Usage {
        input_tokens: count(&told["input_tokens"]),
        output_tokens: count(&told["output_tokens"]),
        cached_tokens: count(&told["input_tokens_details"]["cached_tokens"]),
        cache_write_tokens: count(&told["input_tokens_details"]["cache_write_tokens"]),
        reasoning_tokens: count(&told["output_tokens_details"]["reasoning_tokens"]),
        ..Usage::default()
    }
}
