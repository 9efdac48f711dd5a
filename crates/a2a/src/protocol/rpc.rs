//! The JSON-RPC binding: methods and requests.

use ghostlight_safety::{cut, unambiguous_json};
use serde_json::{Map, Value};

use super::{ErrorCode, ProtocolError};

/// The methods of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// Sends a message.
    SendMessage,
    /// Sends a message, and streams the updates of its task.
    SendStreamingMessage,
    /// Gets a task.
    GetTask,
    /// Lists tasks.
    ListTasks,
    /// Cancels a task.
    CancelTask,
    /// Streams the updates of a task.
    SubscribeToTask,
    /// Adds a receiver of a task's push notifications.
    CreatePushConfig,
    /// Gets a receiver of a task's push notifications.
    GetPushConfig,
    /// Lists the receivers of a task's push notifications.
    ListPushConfigs,
    /// Removes a receiver of a task's push notifications.
    DeletePushConfig,
    /// Gets the extended card, for authenticated clients.
    GetExtendedAgentCard,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 11] = [
        Self::SendMessage,
        Self::SendStreamingMessage,
        Self::GetTask,
        Self::ListTasks,
        Self::CancelTask,
        Self::SubscribeToTask,
        Self::CreatePushConfig,
        Self::GetPushConfig,
        Self::ListPushConfigs,
        Self::DeletePushConfig,
        Self::GetExtendedAgentCard,
    ];

    /// Its name in JSON-RPC.
    pub fn name(self) -> &'static str {
        match self {
            Self::SendMessage => "SendMessage",
            Self::SendStreamingMessage => "SendStreamingMessage",
            Self::GetTask => "GetTask",
            Self::ListTasks => "ListTasks",
            Self::CancelTask => "CancelTask",
            Self::SubscribeToTask => "SubscribeToTask",
            Self::CreatePushConfig => "CreateTaskPushNotificationConfig",
            Self::GetPushConfig => "GetTaskPushNotificationConfig",
            Self::ListPushConfigs => "ListTaskPushNotificationConfigs",
            Self::DeletePushConfig => "DeleteTaskPushNotificationConfig",
            Self::GetExtendedAgentCard => "GetExtendedAgentCard",
        }
    }

    /// The method of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcRequest {
    /// The client's id of the request, a text or a number; the response has the same.
    pub id: Value,
    /// The method.
    pub method: Method,
    /// The parameters.
    pub params: Value,
}

impl RpcRequest {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// The error, with the request's id if the body has a readable one.
    pub fn read(body: &[u8]) -> Result<Self, (Value, ProtocolError)> {
        let unread = |error: &dyn std::fmt::Display| {
            let message = format!("the body is not JSON: {error}");
            (Value::Null, ProtocolError::new(ErrorCode::Parse, message))
        };
        let text = std::str::from_utf8(body).map_err(|error| unread(&error))?;
        let request = unambiguous_json(text).map_err(|error| unread(&error))?;
        let wrong = |id: &Value, message: &str| {
            (
                id.clone(),
                ProtocolError::new(ErrorCode::InvalidRequest, message),
            )
        };
        let Value::Object(mut request) = request else {
            return Err(wrong(
                &Value::Null,
                "a request is one object; several at once are not taken",
            ));
        };
        let id = match request.remove("id") {
            Some(id @ (Value::String(_) | Value::Number(_))) => id,
            _ => return Err(wrong(&Value::Null, "`id` is a text or a number")),
        };
        if request.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(wrong(&id, "`jsonrpc` is \"2.0\""));
        }
        let Some(Value::String(name)) = request.remove("method") else {
            return Err(wrong(&id, "`method` is a text"));
        };
        let params = match request.remove("params") {
            None => Value::Object(Map::new()),
            Some(params @ Value::Object(_)) => params,
            Some(_) => {
                let error = ProtocolError::invalid("`params` is an object");
                return Err((id, error));
            }
        };
        let Some(method) = Method::of(&name) else {
            let message = format!("there is no method {:?}", cut(&name, 64));
            return Err((id, ProtocolError::new(ErrorCode::MethodNotFound, message)));
        };
        Ok(Self { id, method, params })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_with_a_request_is_told_with_its_code_and_id() {
        for (body, id, code) in [
            ("", json!(null), -32700),
            ("{\"jsonrpc\"", json!(null), -32700),
            ("[]", json!(null), -32600),
            ("[{}]", json!(null), -32600),
            ("1", json!(null), -32600),
            ("{}", json!(null), -32600),
            (
                r#"{"jsonrpc":"2.0","method":"GetTask"}"#,
                json!(null),
                -32600,
            ),
            (
                r#"{"jsonrpc":"2.0","id":{},"method":"GetTask"}"#,
                json!(null),
                -32600,
            ),
            (
                r#"{"jsonrpc":"1.0","id":1,"method":"GetTask"}"#,
                json!(1),
                -32600,
            ),
            (r#"{"id":"a","method":"GetTask"}"#, json!("a"), -32600),
            (r#"{"jsonrpc":"2.0","id":1}"#, json!(1), -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, json!(1), -32600),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}"#,
                json!(1),
                -32602,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get"}"#,
                json!(1),
                -32601,
            ),
        ] {
            let (told, error) = RpcRequest::read(body.as_bytes()).unwrap_err();
            assert_eq!((told, error.code.number()), (id, code), "{body}");
        }
        let request =
            RpcRequest::read(br#"{"jsonrpc":"2.0","id":"a","method":"GetTask"}"#).unwrap();
        assert_eq!(
            (request.id, request.method, request.params),
            (json!("a"), Method::GetTask, json!({}))
        );
    }

    proptest! {
        #[test]
        fn no_body_ends_the_program(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = RpcRequest::read(&body);
        }
    }
}
