//! The messages of a server, read as far as they can be: one bad member does not take the others with it.
//!
//! The SDK reads a result as a whole. Where that fails, it is read here once more, member by member.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    future::{self, Future},
};

use rmcp::{
    RoleClient,
    model::{
        CallToolResult, ClientJsonRpcMessage, ClientNotification, ClientRequest, ContentBlock,
        ErrorData, GetPromptResult, Implementation, InitializeResult, JsonRpcMessage,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult,
        ListToolsResult, Prompt, PromptArgument, PromptMessage, ReadResourceResult, RequestId,
        Resource, ResourceContents, ResourceTemplate, ServerCapabilities, ServerJsonRpcMessage,
        ServerResult, Skill, Tool,
    },
    transport::Transport,
};
use serde::{Deserialize as _, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use tokio::{sync::watch, time::sleep_until};

use super::{overhearing::Overheard, wire::is_a_request};
use crate::{ambiguous, form_secrets};

/// How many members that are left out a warning names.
const NAMED: usize = 20;
/// The longest such name, in characters.
const NAME: usize = 100;

/// The transport to a process, whose results are read member by member where they do not read as a whole. An error that
/// names no request is about the only one, if there is only one.
pub(super) struct Lenient<T> {
    transport: T,
    server: String,
    /// The output of the process beside the protocol since its last answer.
    heard: watch::Sender<Option<Overheard>>,
    /// The numbers of the requests without an answer.
    open: BTreeSet<i64>,
}

impl<T> Lenient<T> {
    pub(super) fn new(transport: T, server: &str, heard: watch::Sender<Option<Overheard>>) -> Self {
        Self {
            heard,
            transport,
            server: server.to_owned(),
            open: BTreeSet::new(),
        }
    }

    fn sends(&mut self, message: &ClientJsonRpcMessage) {
        let open = &mut self.open;
        match message {
            // It stays open until the subscription ends.
            JsonRpcMessage::Request(request)
                if matches!(
                    request.request,
                    ClientRequest::SubscriptionsListenRequest(_)
                ) => {}
            JsonRpcMessage::Request(request) => open.extend(number(&request.id)),
            JsonRpcMessage::Notification(told) => {
                if let ClientNotification::CancelledNotification(cancelled) = &told.notification
                    && let Some(number) = cancelled.params.request_id.as_ref().and_then(number)
                {
                    open.remove(&number);
                }
            }
            _ => {}
        }
    }

    fn reads(&mut self, message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
        let mut message = mended(message, &self.server);
        let answered = match &mut message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => {
                let only: Vec<i64> = self.open.iter().take(2).copied().collect();
                if !error.id.as_ref().is_some_and(is_a_request)
                    && let [only] = only[..]
                {
                    error.id = Some(RequestId::Number(only));
                }
                error.id.as_ref()
            }
            _ => None,
        };
        if let Some(number) = answered.and_then(number) {
            self.open.remove(&number);
            self.heard.send_replace(None);
        }
        message
    }
}

/// A message of a server as it may be read: an ambiguous one is replaced, and in a form each field that takes a secret
/// says so.
pub(super) fn screened(message: &[u8]) -> Cow<'_, [u8]> {
    let message = ambiguous::screened(message);
    // A key can be written otherwise only with escapes of this form.
    if let Ok(text) = std::str::from_utf8(&message)
        && (text.contains("requestedSchema") || text.contains("\\u"))
        && let Ok(mut asked) = serde_json::from_str(text)
        && form_secrets::mark(&mut asked)
    {
        return asked.to_string().into_bytes().into();
    }
    message
}

/// The message, with a result that reads where it can be made so.
pub(super) fn mended(mut message: ServerJsonRpcMessage, server: &str) -> ServerJsonRpcMessage {
    if let JsonRpcMessage::Response(response) = &mut message
        && let ServerResult::CustomResult(result) = &response.result
        && let Some(read) = read(&result.0, server)
    {
        response.result = read;
    }
    message
}

/// The number of a request of ours, which some servers give back as a string.
fn number(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Number(number) => Some(*number),
        RequestId::String(text) => text.parse().ok(),
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Lenient<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.sends(&message);
        self.transport.send(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let mut changes = self.heard.subscribe();
        loop {
            let open = self.open.iter().take(2).copied().collect::<Vec<_>>();
            let heard = changes.borrow_and_update().clone();
            // Where several requests are open, nobody knows to which one an error without a number belongs.
            let due = match (heard, &open[..]) {
                (Some(heard), [only]) => Some((heard, *only)),
                _ => None,
            };
            let message = tokio::select! {
                biased;
                message = self.transport.receive() => message?,
                _ = changes.changed() => continue,
                (heard, only) = said_enough(due) => {
                    let error = ErrorData::internal_error(heard.words(), None);
                    ServerJsonRpcMessage::error(error, Some(RequestId::Number(only)))
                }
            };
            return Some(self.reads(message));
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.transport.close().await
    }
}

/// Waits until the process has said nothing more after an error.
async fn said_enough(due: Option<(Overheard, i64)>) -> (Overheard, i64) {
    match due {
        Some(due) => {
            sleep_until(due.0.due).await;
            due
        }
        None => future::pending().await,
    }
}

/// A kind of listing: where its members are, what each must have, and whether a member and the whole read.
struct Listing {
    key: &'static str,
    needs: &'static [&'static str],
    one: fn(&Value) -> bool,
    whole: fn(&Value) -> bool,
}

const LISTINGS: [Listing; 5] = [
    Listing {
        key: "tools",
        needs: &["name", "inputSchema"],
        one: reads::<Tool>,
        whole: reads::<ListToolsResult>,
    },
    Listing {
        key: "resources",
        needs: &["uri", "name"],
        one: reads::<Resource>,
        whole: reads::<ListResourcesResult>,
    },
    Listing {
        key: "resourceTemplates",
        needs: &["uriTemplate", "name"],
        one: reads::<ResourceTemplate>,
        whole: reads::<ListResourceTemplatesResult>,
    },
    Listing {
        key: "prompts",
        needs: &["name"],
        one: reads::<Prompt>,
        whole: reads::<ListPromptsResult>,
    },
    Listing {
        key: "skills",
        needs: &["uri", "frontmatter", "resources"],
        one: reads::<Skill>,
        whole: reads::<ListSkillsResult>,
    },
];

fn reads<T: DeserializeOwned>(value: &Value) -> bool {
    T::deserialize(value).is_ok()
}

/// A result that does not read as a whole, without its bad members; nothing, if it is of no known kind.
fn read(result: &Value, server: &str) -> Option<ServerResult> {
    let mut fields = result.as_object()?.clone();
    let mut left_out = Vec::new();
    let listing = LISTINGS.iter().find(|one| fields.contains_key(one.key));
    let (needs, whole): (&[&str], fn(&Value) -> bool) = if let Some(listing) = listing {
        let members = members(fields.remove(listing.key)?)?;
        let mut kept = Vec::new();
        for mut member in members {
            complete(&mut member, listing.key);
            let name = name(&member, listing.needs);
            match repaired(member, listing.needs, listing.one) {
                Some(member) => kept.push(member),
                None => left_out.push(name),
            }
        }
        fields.insert(listing.key.to_owned(), kept.into());
        (&[listing.key], listing.whole)
    } else if fields.contains_key("protocolVersion") {
        introduced(&mut fields, server);
        let needs = &["protocolVersion", "capabilities", "serverInfo"];
        (needs, reads::<InitializeResult>)
    } else if let Some(contents) = fields.remove("contents") {
        let fits = reads::<ResourceContents>;
        let members = members(contents)?.into_iter();
        let kept = members.filter_map(|one| repaired(one, &["uri", "text", "blob"], fits));
        let kept: Vec<Value> = kept.collect();
        // A resource without contents would be taken for an empty one.
        if kept.is_empty() {
            return None;
        }
        fields.insert("contents".to_owned(), kept.into());
        (&["contents"], reads::<ReadResourceResult>)
    } else if let Some(messages) = fields.remove("messages") {
        let kept: Vec<Value> = members(messages)?
            .into_iter()
            .flat_map(prompt_messages)
            .collect();
        fields.insert("messages".to_owned(), kept.into());
        (&["messages"], reads::<GetPromptResult>)
    } else if fields.contains_key("content") || fields.contains_key("isError") {
        let is_open = |kind: &Value| kind == "input_required" || kind == "task";
        if fields.get("resultType").is_some_and(is_open) && !fields.contains_key("isError") {
            return None;
        }
        let content = fields.remove("content").unwrap_or_default();
        fields.insert("content".to_owned(), blocks(content).into());
        if let Some(said) = fields.get("isError") {
            // What is not plainly no failure is one.
            let is_none = matches!(said, Value::Null | Value::Bool(false)) || said == "false";
            fields.insert("isError".to_owned(), (!is_none).into());
        }
        let needs = &["content", "isError", "structuredContent"];
        (needs, reads::<CallToolResult>)
    } else {
        return None;
    };
    let read = repaired(Value::Object(fields), needs, whole)?;
    if !left_out.is_empty() {
        let (count, key) = (left_out.len(), needs[0]);
        left_out.truncate(NAMED);
        let names = left_out.join(", ");
        tracing::warn!(%server, "{count} of its {key} do not read, and are left out: {names}");
    }
    serde_json::from_value(read).ok()
}

/// Makes a server's introduction read: of its capabilities and of what it says of itself, what reads stays.
fn introduced(fields: &mut Map<String, Value>, server: &str) {
    let capabilities = match fields.remove("capabilities") {
        Some(Value::Object(given)) => given,
        _ => Map::new(),
    };
    // Some servers say `true` for what they have without more to say of it.
    let capabilities = capabilities
        .into_iter()
        .filter_map(|(name, said)| match said {
            Value::Bool(true) => Some((name, json!({}))),
            Value::Bool(false) => None,
            said => Some((name, said)),
        });
    let capabilities = Value::Object(capabilities.collect());
    let capabilities = repaired(capabilities, &[], reads::<ServerCapabilities>);
    fields.insert("capabilities".to_owned(), capabilities.unwrap_or(json!({})));
    let mut of_itself = match fields.remove("serverInfo") {
        Some(Value::Object(given)) => given,
        _ => Map::new(),
    };
    for (key, other) in [("name", server), ("version", "")] {
        if !of_itself.get(key).is_some_and(Value::is_string) {
            of_itself.insert(key.to_owned(), other.into());
        }
    }
    let of_itself = Value::Object(of_itself);
    let of_itself = repaired(of_itself, &["name", "version"], reads::<Implementation>);
    fields.insert("serverInfo".to_owned(), of_itself.unwrap_or_default());
}

/// The result of a call, which a task gives as a value.
///
/// # Errors
/// It is none.
pub(super) fn call_result(
    result: Map<String, Value>,
    server: &str,
) -> Result<CallToolResult, serde_json::Error> {
    let result = Value::Object(result);
    CallToolResult::deserialize(&result).or_else(|error| match read(&result, server) {
        Some(ServerResult::CallToolResult(result)) => Ok(result),
        _ => Err(error),
    })
}

/// The members of a list. Some servers send one member without its list, and nothing for an empty list.
fn members(list: Value) -> Option<Vec<Value>> {
    match list {
        Value::Array(members) => Some(members),
        Value::Null => Some(Vec::new()),
        one @ Value::Object(_) => Some(vec![one]),
        _ => None,
    }
}

/// Adds to a member what follows from the rest of it.
fn complete(member: &mut Value, key: &str) {
    let Value::Object(fields) = member else {
        return;
    };
    let lacks =
        |fields: &Map<String, Value>, name: &str| fields.get(name).is_none_or(Value::is_null);
    match key {
        // A tool without a schema says nothing of its arguments.
        "tools" if lacks(fields, "inputSchema") => {
            fields.insert("inputSchema".to_owned(), json!({ "type": "object" }));
        }
        "resources" | "resourceTemplates" if lacks(fields, "name") => {
            let address = fields.get("uri").or_else(|| fields.get("uriTemplate"));
            if let Some(address) = address.cloned() {
                fields.insert("name".to_owned(), address);
            }
        }
        "prompts" => {
            if let Some(Value::Array(arguments)) = fields.get_mut("arguments") {
                let all = std::mem::take(arguments).into_iter();
                arguments.extend(
                    all.filter_map(|one| repaired(one, &["name"], reads::<PromptArgument>)),
                );
            }
        }
        _ => {}
    }
}

/// The value if it fits, or else what it needs with those of its other fields with which it fits.
fn repaired(value: Value, needs: &[&str], fits: fn(&Value) -> bool) -> Option<Value> {
    if fits(&value) {
        return Some(value);
    }
    let Value::Object(mut fields) = value else {
        return None;
    };
    let needed = needs
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), fields.remove(*name)?)));
    let mut kept = Value::Object(needed.collect());
    if !fits(&kept) {
        return None;
    }
    for (name, value) in fields {
        kept[&name] = value;
        if !fits(&kept)
            && let Value::Object(kept) = &mut kept
        {
            kept.remove(&name);
            tracing::debug!(%name, "a field of what a server sent does not read, and is left out");
        }
    }
    Some(kept)
}

/// The name of a member that is left out.
fn name(member: &Value, needs: &[&str]) -> String {
    let named = ["name", "uri"].iter().chain(needs);
    let mut named = named.filter_map(|key| member.get(*key)?.as_str());
    match named.next() {
        Some(name) => ghostlight_safety::sanitize_line(name, NAME),
        None => "one without a name".to_owned(),
    }
}

/// Content, in which what does not read has left a note.
fn blocks(content: Value) -> Vec<Value> {
    match content {
        Value::Array(blocks) => blocks.into_iter().map(block).collect(),
        Value::Null => Vec::new(),
        one => vec![block(one)],
    }
}

fn block(value: Value) -> Value {
    let text = |text: String| json!({ "type": "text", "text": text });
    let kind = match &value {
        Value::String(said) => return text(said.clone()),
        Value::Object(fields) => fields.get("type").and_then(Value::as_str),
        _ => None,
    };
    let said = value.get("text").filter(|said| !said.is_null());
    match (kind, said) {
        (None | Some("text"), Some(Value::String(said))) => return text(said.clone()),
        (Some("text"), Some(said)) => return text(said.to_string()),
        _ => {}
    }
    let kind = ghostlight_safety::sanitize_line(kind.unwrap_or("unknown"), NAME);
    let needs = ["type", "data", "mimeType", "resource", "uri", "name"];
    repaired(value, &needs, reads::<ContentBlock>).unwrap_or_else(|| {
        text(format!(
            "[content of the kind {kind:?} does not read, and is left out]"
        ))
    })
}

/// A message of a prompt, which some servers send with several blocks.
fn prompt_messages(message: Value) -> Vec<Value> {
    let role = match message.get("role").and_then(Value::as_str) {
        Some("assistant") => "assistant",
        _ => "user",
    };
    let content = message.get("content").cloned().unwrap_or_default();
    let messages = blocks(content).into_iter();
    let messages = messages.map(|content| json!({ "role": role, "content": content }));
    messages.filter(reads::<PromptMessage>).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_for_a_secret_is_marked_however_the_keys_are_written() {
        for key in ["requestedSchema", "requested\\u0053chema"] {
            let asked = format!(
                r#"{{"id": 1, "method": "elicitation/create", "params": {{"message": "Sign in", "{key}": {{"type": "object", "properties": {{"x": {{"type": "string", "writeOnly": true}}}}}}}}}}"#
            );
            let read: Value =
                serde_json::from_slice(&screened(asked.as_bytes())).unwrap_or_default();
            let title = read.pointer("/params/requestedSchema/properties/x/title");
            assert!(title.is_some(), "{read}");
        }
        let plain = br#"{"id": 1, "result": {"text": "\u0053"}}"#;
        assert_eq!(&*screened(plain), plain);
    }

    #[test]
    fn whatever_a_server_sends_it_reads_or_is_no_known_kind() {
        let pieces = [
            json!(null),
            json!(7),
            json!("x"),
            json!([]),
            json!({}),
            json!([null]),
            json!({ "name": 7, "uri": {} }),
            json!([{ "name": "a", "uri": "b:c", "text": "d" }, { "type": "text" }]),
        ];
        let keys = [
            "tools",
            "resources",
            "resourceTemplates",
            "prompts",
            "skills",
            "contents",
            "messages",
            "content",
            "isError",
        ];
        for key in keys {
            for piece in &pieces {
                for other in &pieces {
                    let result = json!({ key: piece, "nextCursor": other, "_meta": other });
                    let _ = read(&result, "s");
                }
            }
        }
    }
}
