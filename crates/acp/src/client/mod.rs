//! Agents in child processes as members of a team.
//!
//! Each request to such an agent has a process of its own, which ends with it: so several requests may be under way at
//! once, a process that dies takes one request with it, and nothing is lost with ours.

mod behavior;
mod process;
mod prompt;
mod tools;

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use ghostlight_actors::{contract::ToolsetHandle, definition::AgentSpec, run::Agent};

pub use behavior::ProcessBehavior;
pub use tools::ProcessToolset;

/// The longest time limit of a task: a year.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3_600);

/// A value of the environment, looked up when a process starts.
type Variable = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// How the process of an agent is started.
#[derive(Clone)]
#[must_use]
pub struct ProcessOptions {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, Variable>,
    pub(super) directory: Option<PathBuf>,
    pub(super) task_timeout: Duration,
}

impl fmt::Debug for ProcessOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessOptions")
            .field("program", &self.program)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl ProcessOptions {
    /// A program that speaks the protocol on its standard streams. It inherits the variables by which programs find
    /// things (such as `PATH` and `HOME`) and no others.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            directory: None,
            task_timeout: Duration::from_secs(600),
        }
    }

    /// Adds an argument.
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets a variable of its environment to what this function returns when a process starts, so that no secret is kept
    /// here. An error keeps the process from being started.
    pub fn variable(
        mut self,
        name: impl Into<String>,
        value: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.environment.insert(name.into(), Arc::new(value));
        self
    }

    /// Sets its directory; ours, when left out.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Sets the time limit of a task, after which it is cancelled; 10 minutes when left out, and a year at most. The time in
    /// which a person is asked does not count.
    pub fn task_timeout(mut self, time: Duration) -> Self {
        self.task_timeout = time.min(LONGEST);
        self
    }
}

/// An agent in a child process that speaks the Agent Client Protocol, as a member of a team.
///
/// Its answer becomes the member's answer and its failures are failures. A cancelled run cancels its task. An agent that
/// knows prompts by name, as our own do, gets a prompt again after a crash of its process or ours, and continues with it; of
/// another agent it is then reported that nobody knows what became of the prompt.
///
/// ```
/// use ghostlight_acp::{ProcessAgent, ProcessOptions};
///
/// let settings = ProcessOptions::new("ghostlight").argument("protocol").argument("acp").argument("clerk.yaml");
/// let clerk = ProcessAgent::new("clerk", settings).description("knows the shelves").into_agent();
/// # let _ = clerk;
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ProcessAgent {
    name: String,
    description: String,
    settings: ProcessOptions,
}

impl ProcessAgent {
    /// A member with this name, for the agent in such a process.
    pub fn new(name: impl Into<String>, settings: ProcessOptions) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            settings,
        }
    }

    /// Describes its purpose to other agents' models.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// The member, to be added to a team. No process is started yet.
    pub fn into_agent(self) -> Agent {
        let toolset = ProcessToolset::new(&self.name, self.settings);
        Agent::new(&self.name)
            .description(self.description)
            .toolset(&self.name, ToolsetHandle::new(toolset))
            .behavior(ProcessBehavior::default())
    }
}

/// The member's tools, which its behavior calls.
const OPEN: &str = "open_session";
const PROMPT: &str = "prompt";
const CANCEL: &str = "cancel_prompt";

/// The name of a member's tool.
fn tool_name(agent: &str, what: &str) -> String {
    format!("{agent}_{what}")
}

/// Why an agent cannot be one in a process; `None` if it can.
fn fault(agent: &AgentSpec) -> Option<String> {
    let named = agent
        .tools
        .iter()
        .any(|tool| *tool == agent.name || *tool == tool_name(&agent.name, PROMPT));
    (!named).then(|| {
        format!(
            "it needs the tools of its process: a tool of the kind `acp` with its own name, {:?}, among its tools",
            agent.name
        )
    })
}
