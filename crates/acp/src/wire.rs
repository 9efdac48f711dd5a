//! JSON-RPC 2.0 in lines: one JSON object a line, requests and notifications in both directions.
//!
//! Several requests may be under way at once in each direction; a response is matched with its request by its id. A
//! line that is too long, or no JSON, is answered with an error and skipped, and the connection goes on.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ghostlight_safety::unambiguous_json;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::{mpsc, oneshot},
};

/// The longest line that is read, in bytes.
pub const MAX_LINE_BYTES: usize = 16 << 20;
/// How many messages may wait to be written; who sends more waits.
const OUTGOING: usize = 64;
/// The longest id of a request, in bytes of JSON.
const MAX_ID_BYTES: usize = 256;

/// An error of JSON-RPC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
#[non_exhaustive]
pub struct RpcError {
    /// The code: of JSON-RPC, or of the protocol.
    pub code: i64,
    /// The reason.
    pub message: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// The code for a line that is not JSON.
    pub const PARSE: i64 = -32700;
    /// The code for JSON that is not a request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The code for an unknown method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The code for unfit parameters.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The code for a failure of the one who was asked.
    pub const INTERNAL: i64 = -32603;
    /// The protocol's code for something that does not exist.
    pub const NOT_FOUND: i64 = -32002;

    /// An error with this code.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// The error for an unknown method.
    pub fn unknown_method(method: &str) -> Self {
        let method = ghostlight_safety::sanitize_line(method, 100);
        Self::new(
            Self::METHOD_NOT_FOUND,
            format!("there is no method {method:?}"),
        )
    }

    /// The error for unfit parameters.
    pub fn invalid_params(reason: impl std::fmt::Display) -> Self {
        Self::new(Self::INVALID_PARAMS, reason.to_string())
    }

    /// The error for a failure.
    pub fn internal(reason: impl std::fmt::Display) -> Self {
        Self::new(Self::INTERNAL, reason.to_string())
    }
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The other side answered with an error.
    #[error("the other side refuses: {0}")]
    Refused(RpcError),
    /// The result has another form.
    #[error("the result cannot be read: {0}")]
    Unreadable(String),
    /// The connection is closed. The other side may have got the request.
    #[error("the connection is closed")]
    Closed,
}

/// A message from the other side that wants something.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// A request, which gets a response under its id.
    Request {
        /// The id, as the other side wrote it.
        id: Value,
        /// The method.
        method: String,
        /// The parameters; `null` without any.
        params: Value,
    },
    /// A notification, which gets no response.
    Notification {
        /// The method.
        method: String,
        /// The parameters; `null` without any.
        params: Value,
    },
}

/// Takes the response to a request, before the line after it is read.
type Heard = Box<dyn FnOnce(Result<Value, RpcError>) + Send>;

/// The requests that wait for their responses; `None` once the connection is closed.
type Waiting = Mutex<Option<HashMap<u64, Heard>>>;

/// The other side of a connection. Clones speak to the same one.
#[derive(Clone)]
pub struct Peer(Arc<Ends>);

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer").finish_non_exhaustive()
    }
}

struct Ends {
    outgoing: mpsc::Sender<Vec<u8>>,
    waiting: Waiting,
    next: AtomicU64,
}

/// A request that is no longer waited for is forgotten.
struct Forgets<'a>(&'a Waiting, u64);

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        self.0
            .lock()
            .as_mut()
            .map(|waiting| waiting.remove(&self.1));
    }
}

impl Peer {
    /// Sends a request and waits for its result. Dropping the future forgets the request; its response is then
    /// ignored.
    ///
    /// # Errors
    /// [`RequestError`]
    pub async fn request<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, RequestError> {
        let result = self.request_then(method, params, |_| ()).await?;
        serde_json::from_value(result).map_err(|error| RequestError::Unreadable(error.to_string()))
    }

    /// Sends a request and waits for its result as [`Peer::request`] does. `then` sees the result before the other side's
    /// next message is read, so what depends on the order of messages is done there.
    pub(crate) async fn request_then(
        &self,
        method: &str,
        params: &impl Serialize,
        then: impl FnOnce(&Value) + Send + 'static,
    ) -> Result<Value, RequestError> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let heard: Heard = Box::new(move |result| {
            if let Ok(result) = &result {
                then(result);
            }
            // The request may be forgotten meanwhile.
            let _ = answer.send(result);
        });
        match &mut *self.0.waiting.lock() {
            Some(waiting) => waiting.insert(id, heard),
            None => return Err(RequestError::Closed),
        };
        let _forgets = Forgets(&self.0.waiting, id);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&message)
            .await
            .map_err(|Closed| RequestError::Closed)?;
        let result = answered.await.map_err(|_| RequestError::Closed)?;
        result.map_err(RequestError::Refused)
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn notify(&self, method: &str, params: &impl Serialize) -> Result<(), Closed> {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.send(&message).await
    }

    /// Answers a request of the other side.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn respond(&self, id: &Value, result: Result<Value, RpcError>) -> Result<(), Closed> {
        let message = match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        };
        self.send(&message).await
    }

    async fn send(&self, message: &Value) -> Result<(), Closed> {
        // JSON has no line breaks outside of its texts, and escapes those within.
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        self.0.outgoing.send(line).await.map_err(|_| Closed)
    }

    fn answered(&self, id: u64, result: Result<Value, RpcError>) {
        let mut waiting = self.0.waiting.lock();
        let heard = waiting.as_mut().and_then(|waiting| waiting.remove(&id));
        drop(waiting);
        if let Some(heard) = heard {
            heard(result);
        }
    }

    /// Ends all requests that wait.
    fn close(&self) {
        *self.0.waiting.lock() = None;
    }
}

/// The connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Closed;

/// The reading end of a connection.
#[derive(Debug)]
pub struct Lines<R> {
    read: R,
    line: Vec<u8>,
    /// Whether the rest of a line that was too long is being skipped.
    skips: bool,
    peer: Peer,
}

/// A connection over two streams: the reading end, and the other side to speak to. Writing is done by a task of its own,
/// which ends when the last [`Peer`] is dropped or the stream fails.
pub fn connect<R, W>(read: R, write: W) -> (Lines<R>, Peer)
where
    R: AsyncBufRead + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (outgoing, messages) = mpsc::channel(OUTGOING);
    let peer = Peer(Arc::new(Ends {
        outgoing,
        waiting: Mutex::new(Some(HashMap::new())),
        next: AtomicU64::new(1),
    }));
    tokio::spawn(write_all(write, messages));
    let lines = Lines {
        read,
        line: Vec::new(),
        skips: false,
        peer: peer.clone(),
    };
    (lines, peer)
}

async fn write_all<W: AsyncWrite + Unpin>(mut write: W, mut messages: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = messages.recv().await {
        if write.write_all(&line).await.is_err() || write.flush().await.is_err() {
            return;
        }
    }
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// The next request or notification; `None` when the other side has closed the stream. Responses are delivered to
    /// those who wait for them, and what is not a message is answered with an error.
    ///
    /// It may be dropped while it waits (in `select!`) without losing a message.
    ///
    /// # Errors
    /// The stream fails.
    pub async fn next(&mut self) -> std::io::Result<Option<Incoming>> {
        loop {
            let Some(complete) = self.line().await? else {
                self.peer.close();
                return Ok(None);
            };
            let refused = match complete {
                true => {
                    let line = std::mem::take(&mut self.line);
                    match self.read_message(&line) {
                        Ok(Some(incoming)) => return Ok(Some(incoming)),
                        Ok(None) => continue,
                        Err(refused) => refused,
                    }
                }
                false => {
                    let reason = format!("a line has at most {MAX_LINE_BYTES} bytes");
                    (
                        Value::Null,
                        RpcError::new(RpcError::INVALID_REQUEST, reason),
                    )
                }
            };
            // A full queue means that the other side does not read: then it is not told.
            let (id, error) = refused;
            let message = json!({ "jsonrpc": "2.0", "id": id, "error": error });
            let mut line = message.to_string().into_bytes();
            line.push(b'\n');
            let _ = self.peer.0.outgoing.try_send(line);
        }
    }

    /// Reads a line into `self.line`: `true` if it is there, `false` if it was too long and is skipped, `None` at the
    /// end of the stream.
    async fn line(&mut self) -> std::io::Result<Option<bool>> {
        loop {
            let available = self.read.fill_buf().await?;
            if available.is_empty() {
                return Ok(None);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(available.len());
            let fits = self.line.len() + taken <= MAX_LINE_BYTES;
            if !self.skips && fits {
                self.line.extend_from_slice(&available[..taken]);
            } else {
                self.skips = true;
                self.line = Vec::new();
            }
            self.read.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                let skipped = std::mem::take(&mut self.skips);
                if skipped || !self.line.iter().all(u8::is_ascii_whitespace) {
                    return Ok(Some(!skipped));
                }
                self.line.clear();
            }
        }
    }

    fn read_message(&self, line: &[u8]) -> Result<Option<Incoming>, (Value, RpcError)> {
        let refuse = |id: &Value, code: i64, reason: &str| {
            (id.clone(), RpcError::new(code, reason.to_owned()))
        };
        let unread = |error: &dyn std::fmt::Display| {
            let reason = format!("the line is not JSON: {error}");
            refuse(&Value::Null, RpcError::PARSE, &reason)
        };
        let text = std::str::from_utf8(line).map_err(|error| unread(&error))?;
        let message = unambiguous_json(text).map_err(|error| unread(&error))?;
        let Value::Object(mut fields) = message else {
            let reason = "a message is an object; batches are not supported";
            return Err(refuse(&Value::Null, RpcError::INVALID_REQUEST, reason));
        };
        let id = fields.remove("id");
        let params = fields.remove("params").unwrap_or_default();
        let named = id.clone().filter(is_id).unwrap_or_default();
        if !matches!(params, Value::Null | Value::Object(_) | Value::Array(_)) {
            let reason = "`params` is an object";
            return Err(refuse(&named, RpcError::INVALID_REQUEST, reason));
        }
        match (fields.remove("method"), id) {
            (Some(Value::String(method)), None) => {
                Ok(Some(Incoming::Notification { method, params }))
            }
            (Some(Value::String(method)), Some(id)) if is_id(&id) => {
                Ok(Some(Incoming::Request { id, method, params }))
            }
            (None, Some(id)) => {
                let result = match (fields.remove("result"), fields.remove("error")) {
                    (_, Some(error)) => Err(serde_json::from_value(error).unwrap_or_else(|_| {
                        RpcError::internal("the other side gives an error that cannot be read")
                    })),
                    (result, None) => Ok(result.unwrap_or_default()),
                };
                if let Some(id) = id.as_u64() {
                    self.peer.answered(id, result);
                }
                Ok(None)
            }
            _ => {
                let reason = "a message has a `method`, which is a text, and perhaps an `id`, which is a number or a \
                              short text";
                Err(refuse(&named, RpcError::INVALID_REQUEST, reason))
            }
        }
    }
}

/// Whether a value may be the id of a request.
fn is_id(id: &Value) -> bool {
    match id {
        Value::Number(_) => true,
        Value::String(text) => text.len() <= MAX_ID_BYTES,
        _ => false,
    }
}
