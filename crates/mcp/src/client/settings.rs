//! How to reach a server, and the team's rules for its tools.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use ghostlight_actors::{
    contract::Credential,
    vocabulary::{Effect, seconds},
};
use ghostlight_safety::is_secret_key;
use serde::Deserialize;

use super::{
    authorization::OAuthSpec,
    error::ServerSpecError,
    import,
    references::{Variables, names},
};

/// The default time limit for connecting: a server that a package manager has to fetch first is slow.
const CONNECT: Duration = Duration::from_secs(30);

/// How to reach a server, and the team's rules for its tools. In a team file these settings are below `mcp`.
///
/// The address and the values of [`env`](Self::env) and [`headers`](Self::headers) may contain `${NAME}` for an environment
/// variable, which is looked up where the server is connected, so no secret is stored with a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerSpec {
    /// The server's program, which speaks on its standard input and output: its name, or a list of its name and
    /// arguments.
    pub command: Option<Command>,
    /// Further arguments of the program.
    pub args: Vec<String>,
    /// Variables of its environment. From the agent's process it inherits only the variables that programs need to find
    /// things, such as `PATH` and `HOME`.
    pub env: BTreeMap<String, String>,
    /// The working folder of the program; that of the agent's process, when left out.
    pub cwd: Option<PathBuf>,
    /// The address of a server that speaks streamable HTTP.
    pub url: Option<String>,
    /// Headers of each request to the address.
    pub headers: BTreeMap<String, String>,
    /// How to sign in at the server, if the server's own metadata is not enough.
    pub oauth: OAuthSpec,
    /// The file that stores the tokens from the authorization server, readable only by its user; in memory, when left
    /// out. Tokens are never in a journal.
    pub tokens: Option<PathBuf>,
    /// A file of another client with `mcpServers`, from which the server's settings are read.
    pub from: Option<PathBuf>,
    /// The server's name in that file; the toolset's, when left out.
    pub server: Option<String>,
    /// The effect of tools, by their names, in which `*` stands for any text. The longest matching name decides; a tool
    /// that matches none is called at most once.
    pub effects: BTreeMap<String, Effect>,
    /// Whether to trust the server's annotations about a tool's effect if `effects` does not name the tool.
    pub trust_annotations: bool,
    /// Whether each call of a tool names its session, as `TEAM/KEY` in `ghostlight/session` of the call's `_meta`, so that the
    /// server can keep a state for each. The calls of delegated agents belong to no session. A key may name its owner.
    pub sessions: bool,
    /// Whether the model can list and read the server's resources, with separate tools.
    pub resources: bool,
    /// Whether the model can list and get the server's prompts, with separate tools.
    pub prompts: bool,
    /// Whether the model can list and use the server's skills, with separate tools.
    pub skills: bool,
    /// The file that pins the tools as they were first seen.
    pub pins: Option<PathBuf>,
    /// The time limit for connecting; 30 seconds, when left out.
    #[serde(rename = "connect_timeout_s", with = "seconds")]
    pub connect_timeout: Option<Duration>,
    #[serde(skip)]
    pub(super) variables: Variables,
}

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected the name of a program, or a list of its name and arguments"
)]
pub enum Command {
    /// The program alone. It is not read by a shell.
    Program(String),
    /// The program and its arguments.
    Line(Vec<String>),
}

/// The way to reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A child process.
    Process {
        program: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP, at an address with the references that it has.
    Http {
        url: String,
        headers: BTreeMap<String, String>,
    },
}

impl Endpoint {
    /// The secrets in the address, the headers and the environment, which the server may repeat.
    pub(super) fn secrets(&self, variables: Variables) -> Vec<Credential> {
        let revealed = |(name, value): (&String, &String)| {
            let value = variables.reveal(value).unwrap_or_default();
            Credential::of_header(name, &value)
        };
        match self {
            Self::Process { env, .. } => {
                let env = env.iter().filter(|(name, _)| is_secret_key(name));
                env.flat_map(revealed).collect()
            }
            Self::Http { url, headers } => {
                let mut secrets: Vec<Credential> = headers.iter().flat_map(revealed).collect();
                secrets.extend(names(url).filter_map(|name| {
                    let value = variables.get(name)?;
                    Credential::of_variable(name, &value)
                }));
                secrets
            }
        }
    }
}

impl ServerSpec {
    /// A server that is a child process.
    pub fn command(program: impl Into<String>) -> Self {
        Self {
            command: Some(Command::Program(program.into())),
            ..Self::default()
        }
    }

    /// A server that speaks streamable HTTP.
    pub fn url(url: impl Into<String>) -> Self {
        Self {
            url: Some(url.into()),
            ..Self::default()
        }
    }

    /// The server of this name in the file of another client, which has `mcpServers`.
    pub fn from_file(file: impl Into<PathBuf>, server: impl Into<String>) -> Self {
        Self {
            from: Some(file.into()),
            server: Some(server.into()),
            ..Self::default()
        }
    }

    /// Adds an argument of the program.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds a variable of the program's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Adds a header of each request.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets the effect of the tools of this name; `*` stands for any text.
    #[must_use]
    pub fn effect(mut self, tools: impl Into<String>, effect: Effect) -> Self {
        self.effects.insert(tools.into(), effect);
        self
    }

    /// Trusts the server's annotations about the effects of its tools.
    #[must_use]
    pub fn trust_annotations(mut self) -> Self {
        self.trust_annotations = true;
        self
    }

    /// Names its session with each call of a tool.
    #[must_use]
    pub fn sessions(mut self) -> Self {
        self.sessions = true;
        self
    }

    /// Lets the model list and read the server's resources, with separate tools.
    #[must_use]
    pub fn resources(mut self) -> Self {
        self.resources = true;
        self
    }

    /// Lets the model list and get the server's prompts, with separate tools.
    #[must_use]
    pub fn prompts(mut self) -> Self {
        self.prompts = true;
        self
    }

    /// Lets the model list and use the server's skills, with separate tools.
    #[must_use]
    pub fn skills(mut self) -> Self {
        self.skills = true;
        self
    }

    /// Sets how to sign in.
    #[must_use]
    pub fn oauth(mut self, oauth: OAuthSpec) -> Self {
        self.oauth = oauth;
        self
    }

    /// Stores the tokens from authorization servers in this file.
    #[must_use]
    pub fn tokens(mut self, file: impl Into<PathBuf>) -> Self {
        self.tokens = Some(file.into());
        self
    }

    /// Sets the time limit for connecting.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Looks up the variables of references by this function, instead of in the environment.
    #[must_use]
    pub fn variables(mut self, look_up: fn(&str) -> Option<String>) -> Self {
        self.variables = Variables::of(look_up);
        self
    }

    /// Pins the tools in this file as they were first seen.
    #[must_use]
    pub fn pins(mut self, file: impl Into<PathBuf>) -> Self {
        self.pins = Some(file.into());
        self
    }

    pub(super) fn connects_within(&self) -> Duration {
        self.connect_timeout.unwrap_or(CONNECT)
    }

    /// The way to reach the server.
    pub(super) fn endpoint(&self, name: &str) -> Result<Endpoint, ServerSpecError> {
        let ways = [
            self.command.is_some(),
            self.url.is_some(),
            self.from.is_some(),
        ];
        if ways.into_iter().filter(|way| *way).count() != 1 {
            return Err(ServerSpecError::Ways);
        }
        if let Some(file) = &self.from {
            let server = self.server.as_deref().unwrap_or(name);
            let mut read = import::read(file, server)?;
            read.variables = self.variables;
            return read.endpoint(name);
        }
        if let Some(url) = &self.url {
            let revealed = self.variables.reveal(url)?;
            if !(revealed.starts_with("https://") || revealed.starts_with("http://")) {
                return Err(ServerSpecError::Address(url.clone()));
            }
            let (url, headers) = (url.clone(), self.headers.clone());
            return Ok(Endpoint::Http { url, headers });
        }
        let (program, mut args) = match self.command.clone() {
            Some(Command::Program(program)) => (program, Vec::new()),
            Some(Command::Line(mut line)) if !line.is_empty() => (line.remove(0), line),
            _ => return Err(ServerSpecError::NoProgram),
        };
        if program.is_empty() {
            return Err(ServerSpecError::NoProgram);
        }
        args.extend(self.args.iter().cloned());
        Ok(Endpoint::Process {
            program,
            args,
            env: self.env.clone(),
            cwd: self.cwd.clone(),
        })
    }
}
