//! The messages of `a2a.proto` (package `lf.a2a.v1`), with the JSON of the other bindings.
//!
//! A field that JSON may leave out is an `Option`, also where Protocol Buffers would take the empty value for it: both are
//! the same bytes. The members of a `oneof` are options as well, since on the wire a `oneof` is no more than that.

use prost::Message as Encoded;
use serde::{Deserialize, Serialize};

use super::value::{Struct, Timestamp, Value, bytes, role, task_state};

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Part {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
    #[prost(bytes = "vec", optional, tag = "2")]
    #[serde(with = "bytes")]
    raw: Option<Vec<u8>>,
    #[prost(string, optional, tag = "3")]
    url: Option<String>,
    #[prost(message, optional, tag = "4")]
    // Here `null` is a value, too.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    data: Option<Value>,
    #[prost(message, optional, tag = "5")]
    metadata: Option<Struct>,
    #[prost(string, optional, tag = "6")]
    filename: Option<String>,
    #[prost(string, optional, tag = "7")]
    media_type: Option<String>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Message {
    #[prost(string, tag = "1")]
    message_id: String,
    #[prost(string, optional, tag = "2")]
    context_id: Option<String>,
    #[prost(string, optional, tag = "3")]
    task_id: Option<String>,
    #[prost(int32, tag = "4")]
    #[serde(with = "role")]
    role: i32,
    #[prost(message, repeated, tag = "5")]
    parts: Vec<Part>,
    #[prost(message, optional, tag = "6")]
    metadata: Option<Struct>,
    #[prost(string, repeated, tag = "7")]
    extensions: Vec<String>,
    #[prost(string, repeated, tag = "8")]
    reference_task_ids: Vec<String>,
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TaskStatus {
    #[prost(int32, tag = "1")]
    #[serde(with = "task_state")]
    state: i32,
    #[prost(message, optional, tag = "2")]
    message: Option<Message>,
    #[prost(message, optional, tag = "3")]
    timestamp: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Artifact {
    #[prost(string, tag = "1")]
    artifact_id: String,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(string, optional, tag = "3")]
    description: Option<String>,
    #[prost(message, repeated, tag = "4")]
    parts: Vec<Part>,
    #[prost(message, optional, tag = "5")]
    metadata: Option<Struct>,
    #[prost(string, repeated, tag = "6")]
    extensions: Vec<String>,
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Task {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    context_id: String,
    #[prost(message, required, tag = "3")]
    status: TaskStatus,
    #[prost(message, repeated, tag = "4")]
    artifacts: Vec<Artifact>,
    #[prost(message, repeated, tag = "5")]
    history: Vec<Message>,
    #[prost(message, optional, tag = "6")]
    metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct StatusUpdate {
    #[prost(string, tag = "1")]
    task_id: String,
    #[prost(string, tag = "2")]
    context_id: String,
    #[prost(message, required, tag = "3")]
    status: TaskStatus,
    #[prost(message, optional, tag = "4")]
    metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ArtifactUpdate {
    #[prost(string, tag = "1")]
    task_id: String,
    #[prost(string, tag = "2")]
    context_id: String,
    #[prost(message, required, tag = "3")]
    artifact: Artifact,
    #[prost(bool, tag = "4")]
    append: bool,
    #[prost(bool, tag = "5")]
    last_chunk: bool,
    #[prost(message, optional, tag = "6")]
    metadata: Option<Struct>,
}

/// `StreamResponse`, and `SendMessageResponse`, which has its first two members.
#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Payload {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<Task>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    status_update: Option<StatusUpdate>,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact_update: Option<ArtifactUpdate>,
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Authentication {
    #[prost(string, tag = "1")]
    scheme: String,
    #[prost(string, tag = "2")]
    credentials: String,
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PushConfig {
    #[prost(string, tag = "1")]
    tenant: String,
    #[prost(string, tag = "2")]
    id: String,
    #[prost(string, tag = "3")]
    task_id: String,
    #[prost(string, tag = "4")]
    url: String,
    #[prost(string, tag = "5")]
    token: String,
    #[prost(message, optional, tag = "6")]
    authentication: Option<Authentication>,
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PushConfigs {
    #[prost(message, repeated, tag = "1")]
    configs: Vec<PushConfig>,
    #[prost(string, tag = "2")]
    next_page_token: String,
}

/// `GetTaskPushNotificationConfigRequest`, and the request to delete one.
#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PushQuery {
    #[prost(string, tag = "1")]
    tenant: String,
    #[prost(string, tag = "2")]
    task_id: String,
    #[prost(string, tag = "3")]
    id: String,
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListPushConfigs {
    #[prost(string, tag = "1")]
    task_id: String,
    #[prost(int32, tag = "2")]
    page_size: i32,
    #[prost(string, tag = "3")]
    page_token: String,
    #[prost(string, tag = "4")]
    tenant: String,
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SendConfiguration {
    #[prost(string, repeated, tag = "1")]
    accepted_output_modes: Vec<String>,
    #[prost(message, optional, tag = "2")]
    task_push_notification_config: Option<PushConfig>,
    #[prost(int32, optional, tag = "3")]
    history_length: Option<i32>,
    #[prost(bool, tag = "4")]
    return_immediately: bool,
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SendMessage {
    #[prost(string, tag = "1")]
    tenant: String,
    #[prost(message, required, tag = "2")]
    message: Message,
    #[prost(message, optional, tag = "3")]
    configuration: Option<SendConfiguration>,
    #[prost(message, optional, tag = "4")]
    metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TaskQuery {
    #[prost(string, tag = "1")]
    tenant: String,
    #[prost(string, tag = "2")]
    id: String,
    #[prost(int32, optional, tag = "3")]
    history_length: Option<i32>,
}

/// `CancelTaskRequest`, whose metadata nobody reads, and `SubscribeToTaskRequest`.
#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TaskId {
    #[prost(string, tag = "1")]
    tenant: String,
    #[prost(string, tag = "2")]
    id: String,
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListTasks {
    #[prost(string, tag = "1")]
    tenant: String,
    #[prost(string, tag = "2")]
    context_id: String,
    #[prost(int32, tag = "3")]
    #[serde(with = "task_state")]
    status: i32,
    #[prost(int32, optional, tag = "4")]
    page_size: Option<i32>,
    #[prost(string, tag = "5")]
    page_token: String,
    #[prost(int32, optional, tag = "6")]
    history_length: Option<i32>,
    #[prost(message, optional, tag = "7")]
    status_timestamp_after: Option<Timestamp>,
    #[prost(bool, tag = "8")]
    include_artifacts: bool,
}

#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Tasks {
    #[prost(message, repeated, tag = "1")]
    tasks: Vec<Task>,
    #[prost(string, tag = "2")]
    next_page_token: String,
    #[prost(int32, tag = "3")]
    page_size: i32,
    #[prost(int32, tag = "4")]
    total_size: i32,
}

/// `GetExtendedAgentCardRequest`.
#[derive(Clone, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Tenant {
    #[prost(string, tag = "1")]
    tenant: String,
}

/// `google.protobuf.Empty`.
#[derive(Clone, Copy, PartialEq, Encoded, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Empty {}
