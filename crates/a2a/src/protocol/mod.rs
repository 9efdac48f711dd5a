//! What goes over the wire: the messages of A2A 1.0 in their JSON form.
//!
//! Fields that are unknown are passed over, as the protocol wants it, and fields that are left out have their empty
//! values.

mod card;
mod error;
mod message;
mod request;
mod rpc;
mod task;

pub use card::{
    AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill, Binding,
    SecurityRequirement,
};
pub use error::{ErrorCode, ProtocolError};
pub use message::{Message, Part, Role};
pub use request::{ListTasks, ListTasksResponse, SendConfiguration, SendMessage, TaskQuery};
pub use rpc::{Method, RpcRequest};
pub use task::{
    Artifact, ArtifactUpdate, SendResponse, StatusUpdate, StreamResponse, Task, TaskState,
    TaskStatus, time_of, timestamp_of,
};

/// The version of the protocol that is spoken.
pub const VERSION: &str = "1.0";
/// The header, and the name in a query, in which a client says which version it speaks.
pub const VERSION_HEADER: &str = "a2a-version";
/// The media type of bodies of the HTTP+JSON binding.
pub const MEDIA_TYPE: &str = "application/a2a+json";
/// Where the card of an agent is, below the agent's address.
pub const CARD_PATH: &str = "/.well-known/agent-card.json";
/// An extension of ours that a server announces: a message that is sent again under its id is told once.
pub const MESSAGES_ARE_TOLD_ONCE: &str = "urn:ghostlight:a2a:messages-are-told-once";
/// The key of a message's metadata that names the operation that asks, or that is answered.
pub const QUESTION: &str = "ghostlight/question";

/// Whether a version that a client names is one that is spoken: `1.0`, whatever patch. A client that names none speaks
/// 0.3, says the protocol.
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
