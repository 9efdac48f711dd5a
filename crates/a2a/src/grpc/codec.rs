//! Messages of gRPC from and to the JSON of the other bindings.

use std::fmt;

use prost::Message;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tonic::{
    Status,
    codec::{DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use super::{card::Card, wire};
use crate::protocol::Method;

/// How a kind of message is written and read.
#[derive(Clone, Copy)]
struct Shape {
    check: fn(&Value) -> Result<(), Status>,
    write: fn(Value, &mut EncodeBuf<'_>) -> Result<(), Status>,
    read: fn(&mut DecodeBuf<'_>) -> Result<Value, UnreadError>,
}

impl Shape {
    fn of<T: Message + Default + Serialize + DeserializeOwned>() -> Self {
        Self {
            check: |json| T::deserialize(json).map(drop).map_err(unfit),
            write: |json, to| {
                let message: T = serde_json::from_value(json).map_err(unfit)?;
                message.encode(to).map_err(unfit)
            },
            read: |from| {
                let message = T::decode(from).map_err(UnreadError::of)?;
                serde_json::to_value(message).map_err(UnreadError::of)
            },
        }
    }

    fn of_request(method: Method) -> Self {
        match method {
            Method::SendMessage | Method::SendStreamingMessage => Self::of::<wire::SendMessage>(),
            Method::GetTask => Self::of::<wire::TaskQuery>(),
            Method::ListTasks => Self::of::<wire::ListTasks>(),
            Method::CancelTask | Method::SubscribeToTask => Self::of::<wire::TaskId>(),
            Method::CreatePushConfig => Self::of::<wire::PushConfig>(),
            Method::GetPushConfig | Method::DeletePushConfig => Self::of::<wire::PushQuery>(),
            Method::ListPushConfigs => Self::of::<wire::ListPushConfigs>(),
            Method::GetExtendedAgentCard => Self::of::<wire::Tenant>(),
        }
    }

    fn of_answer(method: Method) -> Self {
        match method {
            Method::SendMessage | Method::SendStreamingMessage | Method::SubscribeToTask => {
                Self::of::<wire::Payload>()
            }
            Method::GetTask | Method::CancelTask => Self::of::<wire::Task>(),
            Method::ListTasks => Self::of::<wire::Tasks>(),
            Method::CreatePushConfig | Method::GetPushConfig => Self::of::<wire::PushConfig>(),
            Method::ListPushConfigs => Self::of::<wire::PushConfigs>(),
            Method::DeletePushConfig => Self::of::<wire::Empty>(),
            Method::GetExtendedAgentCard => Self::of::<Card>(),
        }
    }
}

fn unfit(error: impl fmt::Display) -> Status {
    Status::invalid_argument(format!("the message does not fit the protocol: {error}"))
}

/// A message that does not fit the protocol. The cause of a status that an answer gets which does not read, so that it is not
/// taken for the agent's refusal.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnreadError(String);

impl UnreadError {
    pub(crate) fn of(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// The codec of a method: its parameters and results are those that JSON-RPC has, and messages of `a2a.proto` on the wire.
#[derive(Clone, Copy)]
pub struct Codec {
    written: Shape,
    read: Shape,
    unread: fn(UnreadError) -> Status,
}

impl Codec {
    /// The codec of a client, which writes requests.
    pub fn of_client(method: Method) -> Self {
        Self {
            written: Shape::of_request(method),
            read: Shape::of_answer(method),
            unread: |error| Status::from_error(Box::new(error)),
        }
    }

    /// Checks that a message can be written. One that cannot would be noticed when its request is on its way already.
    ///
    /// # Errors
    /// The fault.
    pub fn check(&self, json: &Value) -> Result<(), Status> {
        (self.written.check)(json)
    }

    /// The codec of a server, which writes answers.
    pub fn of_server(method: Method) -> Self {
        Self {
            written: Shape::of_answer(method),
            read: Shape::of_request(method),
            unread: unfit,
        }
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec").finish_non_exhaustive()
    }
}

impl tonic::codec::Codec for Codec {
    type Encode = Value;
    type Decode = Value;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Codec {
    type Item = Value;
    type Error = Status;

    fn encode(&mut self, json: Value, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        (self.written.write)(json, to)
    }
}

impl Decoder for Codec {
    type Item = Value;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Value>, Status> {
        (self.read.read)(from).map(Some).map_err(self.unread)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::{collection::vec, option, prelude::*};
    use serde_json::{Map, json};

    use super::*;
    use crate::protocol::{
        Artifact, Message as Said, Part, Role, StreamResponse, Task, TaskState, TaskStatus,
    };

    /// A message after it was encoded and decoded.
    fn carried<T: Serialize + DeserializeOwned, M>(of: &T) -> T
    where
        M: Message + Default + Serialize + DeserializeOwned,
    {
        let message: M = serde_json::from_value(json!(of)).unwrap();
        let message = M::decode(message.encode_to_vec().as_slice()).unwrap();
        serde_json::from_value(serde_json::to_value(message).unwrap()).unwrap()
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            (-1e9..1e9).prop_map(|number: f64| json!(number.trunc() + 0.5)),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..3).prop_map(Value::from),
                any_map(inner).prop_map(Value::from),
            ]
        })
    }

    fn any_map(of: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
        vec((".{0,4}", of), 0..3).prop_map(Map::from_iter)
    }

    fn any_part() -> impl Strategy<Value = Part> {
        let content = prop_oneof![
            ".{0,9}".prop_map(Part::text),
            any_json().prop_map(Part::data),
            vec(any::<u8>(), 0..9).prop_map(|bytes| {
                use base64::{Engine as _, engine::general_purpose::STANDARD};
                Part {
                    raw: Some(STANDARD.encode(bytes)),
                    ..Part::default()
                }
            }),
        ];
        let more = (option::of(any_map(any_json())), option::of(".{1,5}"));
        (content, more).prop_map(|(part, (metadata, filename))| Part {
            metadata,
            filename,
            ..part
        })
    }

    prop_compose! {
        fn any_message()(
            message_id in ".{0,5}", context_id in option::of(".{1,5}"), task_id in option::of(".{1,5}"),
            is_user in any::<bool>(), parts in vec(any_part(), 0..3),
            metadata in option::of(any_map(any_json())), extensions in vec(".{0,5}", 0..3),
        ) -> Said {
            let role = if is_user { Role::User } else { Role::Agent };
            let reference_task_ids = extensions.clone();
            Said { message_id, context_id, task_id, role, parts, metadata, extensions, reference_task_ids }
        }
    }

    prop_compose! {
        fn any_task()(
            id in ".{1,5}", context_id in ".{0,5}", history in vec(any_message(), 0..3),
            message in option::of(any_message()), millis in 0..4_000_000_000_000_u64,
            parts in vec(any_part(), 0..3), metadata in option::of(any_map(any_json())),
        ) -> Task {
            let timestamp = crate::protocol::time_of(ghostlight_actors::vocabulary::Timestamp(millis));
            let status = TaskStatus { state: TaskState::InputRequired, message, timestamp };
            let artifact = Artifact { artifact_id: id.clone(), parts, ..Artifact::default() };
            Task { id, context_id, status, artifacts: vec![artifact], history, metadata }
        }
    }

    #[test]
    fn a_map_that_names_something_twice_does_not_read() {
        // What stands twice on the wire is one message with all entries of both.
        fn twice<M>(one: &Value) -> serde_json::Result<Value>
        where
            M: Message + Default + Serialize + DeserializeOwned,
        {
            let message: M = serde_json::from_value(one.clone()).unwrap();
            let bytes = message.encode_to_vec();
            assert!(serde_json::to_value(M::decode(bytes.as_slice()).unwrap()).is_ok());
            let both = [bytes.as_slice(), bytes.as_slice()].concat();
            serde_json::to_value(M::decode(both.as_slice()).unwrap())
        }
        let read = [
            twice::<wire::SendMessage>(&json!({ "metadata": { "a": 1 } })),
            twice::<wire::Task>(&json!({ "metadata": { "b": { "a": [] } } })),
            twice::<Card>(&json!({ "securitySchemes": { "a": {} } })),
        ];
        for (read, name) in read.into_iter().zip(["a", "b", "a"]) {
            let error = read.unwrap_err().to_string();
            assert_eq!(error, format!("{name} stands twice in one object"));
        }
        // The same name in two objects is two.
        let parts = json!({ "message": { "parts": [{ "metadata": { "a": 1 } }] } });
        assert!(twice::<wire::SendMessage>(&parts).is_ok());
    }

    proptest! {
        #[test]
        fn a_task_is_the_same_when_it_was_on_the_wire(task in any_task()) {
            let told = StreamResponse::Task(task.clone());
            prop_assert_eq!(&carried::<_, wire::Task>(&task), &task);
            prop_assert_eq!(&carried::<_, wire::Payload>(&told), &told);
        }

        #[test]
        fn no_bytes_end_the_program(bytes in vec(any::<u8>(), 0..200)) {
            let _ = wire::SendMessage::decode(bytes.as_slice());
            if let Ok(payload) = wire::Payload::decode(bytes.as_slice()) {
                let told = serde_json::to_value(payload);
                let _ = told.map(serde_json::from_value::<StreamResponse>);
            }
        }
    }
}
