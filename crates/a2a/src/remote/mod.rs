//! Remote agents as members of a team.

mod behavior;
mod standing;
mod tools;

use ghostlight_actors::{contract::ToolsetHandle, definition::AgentSpec, run::Agent};

pub use behavior::RemoteBehavior;
pub use tools::RemoteToolset;

use crate::client::{ClientOptions, ClientOptionsError};

/// A remote agent that speaks A2A, as a member of a team.
///
/// The message to it is a recorded call that is made once, so its task is known after a restart, and the member waits
/// for it again. Its answer becomes the member's answer, its questions are asked here, its failures are failures, and a
/// cancelled run cancels its task.
///
/// ```
/// use ghostlight_a2a::{ClientOptions, RemoteAgent};
/// # fn main() -> Result<(), ghostlight_a2a::ClientOptionsError> {
/// let settings = ClientOptions::new("https://agents.example.org/a2a/translator").header("authorization", "Bearer …");
/// let translator = RemoteAgent::new("translator", settings).description("translates").into_agent()?;
/// # let _ = translator; Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RemoteAgent {
    name: String,
    description: String,
    state: Vec<String>,
    settings: ClientOptions,
}

impl RemoteAgent {
    /// A member with this name, for the agent at the address in these settings.
    pub fn new(name: impl Into<String>, settings: ClientOptions) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            state: Vec::new(),
            settings,
        }
    }

    /// Sends the values of these keys of the session's state with each task.
    pub fn state<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.state = keys.into_iter().map(Into::into).collect();
        self
    }

    /// Describes its purpose to other agents' models.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// The member, to be added to a team. Nothing is sent to the agent yet.
    ///
    /// # Errors
    /// The settings are invalid.
    pub fn into_agent(self) -> Result<Agent, ClientOptionsError> {
        let behavior = RemoteBehavior::new(self.settings.task_timeout).state(self.state);
        let toolset = RemoteToolset::new(&self.name, self.settings)?;
        Ok(Agent::new(&self.name)
            .description(self.description)
            .toolset(&self.name, ToolsetHandle::new(toolset))
            .behavior(behavior))
    }
}

/// The name of a member's tool.
fn tool_name(agent: &str, what: &str) -> String {
    format!("{agent}_{what}")
}

/// The member's tools, which its behavior calls.
const SEND: &str = "send_message";
const AWAIT: &str = "await_task";
const CANCEL: &str = "cancel_task";

/// Why an agent cannot be a remote one; `None` if it can.
fn fault(agent: &AgentSpec) -> Option<String> {
    let named = agent
        .tools
        .iter()
        .any(|tool| *tool == agent.name || *tool == tool_name(&agent.name, SEND));
    (!named).then(|| {
        format!(
            "it needs the tools of the agent elsewhere: a tool of the kind `a2a` with its own name, {:?}, among its tools",
            agent.name
        )
    })
}
