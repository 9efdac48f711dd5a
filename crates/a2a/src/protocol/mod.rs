//! The wire format: the messages of A2A 1.0 as JSON.
//!
//! Unknown fields are ignored, as the protocol demands, and missing fields have their default values.

mod card;
mod error;
mod message;
mod push;
mod request;
mod rpc;
mod task;

pub use card::{
    AgentCapabilities, AgentCard, AgentCardSignature, AgentExtension, AgentInterface, AgentSkill,
    Binding, SecurityRequirement,
};
pub use error::{ErrorCode, ProtocolError};
pub use message::{Message, Part, Role};
pub use push::{ListPushConfigsResponse, PushAuthentication, PushConfig, PushQuery};
pub use request::{ListTasks, ListTasksResponse, SendConfiguration, SendMessage, TaskQuery};
pub use rpc::{Method, RpcRequest};
pub use task::{
    Artifact, ArtifactUpdate, SendResponse, StatusUpdate, StreamResponse, Task, TaskState,
    TaskStatus, time_of, timestamp_of,
};

/// The supported version of the protocol.
pub const VERSION: &str = "1.0";
/// The header, and the query parameter, with the client's version of the protocol.
pub const VERSION_HEADER: &str = "a2a-version";
/// The media type of bodies of the HTTP+JSON binding.
pub const MEDIA_TYPE: &str = "application/a2a+json";
/// The path of an agent's card, below the agent's address.
pub const CARD_PATH: &str = "/.well-known/agent-card.json";
/// Our extension, by which a server announces that it handles a message that is sent again under its id only once.
pub const MESSAGES_ARE_TOLD_ONCE: &str = "urn:ghostlight:a2a:messages-are-told-once";
/// The metadata key of a message for the operation that asks or is answered.
pub const QUESTION: &str = "ghostlight/question";

/// Whether a client's version is supported: `1.0`, with any patch number. By the protocol, a client that names no
/// version uses 0.3.
pub fn speaks(version: &str) -> bool {
    let mut numbers = version.trim().split('.');
    (numbers.next(), numbers.next()) == (Some("1"), Some("0"))
        && numbers.all(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::speaks;

    #[test]
    fn one_version_is_spoken_whatever_its_patch() {
        for (version, spoken) in [
            ("1.0", true),
            (" 1.0 ", true),
            ("1.0.1", true),
            ("", false),
            ("0.3", false),
            ("1", false),
            ("1.1", false),
            ("1.0.x", false),
            ("1.0.", false),
            ("10.0", false),
        ] {
            assert_eq!(speaks(version), spoken, "{version:?}");
        }
    }
}
