//! How a server is reached, and what the team says of its tools.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use ghostlight_actors::vocabulary::Effect;
use serde::Deserialize;

use super::{authorization::OAuthSettings, error::SettingsError, import};

/// How long a connection may take, where nothing else is said: a server that a package manager fetches
/// first is slow.
const CONNECT: Duration = Duration::from_secs(30);

/// How a server is reached, and what the team says of its tools. In a team file it stands below `mcp`.
///
/// The values of [`env`](Self::env) and [`headers`](Self::headers) may hold `${NAME}` for an environment
/// variable, which is looked up when the server is connected: so no secret is stored with a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerSettings {
    /// The program that is the server and speaks on its standard input and output: its name, or a list of
    /// its name and arguments.
    pub command: Option<Command>,
    /// Further arguments of the program.
    pub args: Vec<String>,
    /// Variables of its environment. Of ours it gets those that programs need to find things, such as
    /// `PATH` and `HOME`, and no other.
    pub env: BTreeMap<String, String>,
    /// The folder in which it works; the program's own, when left out.
    pub cwd: Option<PathBuf>,
    /// The address of a server that speaks streamable HTTP.
    pub url: Option<String>,
    /// Headers of each request to it.
    pub headers: BTreeMap<String, String>,
    /// How to sign in at it, where the server's own metadata is not enough.
    pub oauth: OAuthSettings,
    /// The file that keeps what its authorization server gave us, for its user alone; in memory, when left
    /// out. Nothing of it is in a journal.
    pub tokens: Option<PathBuf>,
    /// A file of another client with `mcpServers`, which says how the server is reached.
    pub from: Option<PathBuf>,
    /// The server's name in that file; the toolset's, when left out.
    pub server: Option<String>,
    /// The effect of a tool, by its name, in which `*` stands for any text. The longest name that fits counts; a tool
    /// that fits none is called at most once.
    pub effects: BTreeMap<String, Effect>,
    /// Whether the server's annotations about the effect of a tool are believed where `effects` says nothing.
    pub trust_annotations: bool,
    /// Whether the model can list and read the server's resources, by tools of their own.
    pub resources: bool,
    /// Whether the model can list and get the server's prompts, by tools of their own.
    pub prompts: bool,
    /// The file in which the tools are remembered as they were first seen.
    pub pins: Option<PathBuf>,
    /// How long a connection may take, in seconds; 30, when left out.
    pub connect_timeout_s: Option<f64>,
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

/// How a server is reached, without what other settings say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A child process.
    Process {
        program: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        url: String,
        headers: BTreeMap<String, String>,
    },
}

impl ServerSettings {
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

    /// A server of this name in a file of another client, which has `mcpServers`.
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

    /// Believes the server's annotations about the effects of its tools.
    #[must_use]
    pub fn trust_annotations(mut self) -> Self {
        self.trust_annotations = true;
        self
    }

    /// Lets the model list and read the server's resources, by tools of their own.
    #[must_use]
    pub fn resources(mut self) -> Self {
        self.resources = true;
        self
    }

    /// Lets the model list and get the server's prompts, by tools of their own.
    #[must_use]
    pub fn prompts(mut self) -> Self {
        self.prompts = true;
        self
    }

    /// Sets how to sign in.
    #[must_use]
    pub fn oauth(mut self, oauth: OAuthSettings) -> Self {
        self.oauth = oauth;
        self
    }

    /// Keeps the tokens of authorization servers in this file.
    #[must_use]
    pub fn tokens(mut self, file: impl Into<PathBuf>) -> Self {
        self.tokens = Some(file.into());
        self
    }

    /// Sets how long a connection may take.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout_s = Some(timeout.as_secs_f64());
        self
    }

    /// Remembers the tools in this file as they were first seen.
    #[must_use]
    pub fn pins(mut self, file: impl Into<PathBuf>) -> Self {
        self.pins = Some(file.into());
        self
    }

    pub(super) fn connects_within(&self) -> Duration {
        let seconds = self.connect_timeout_s.map(Duration::try_from_secs_f64);
        seconds.and_then(Result::ok).unwrap_or(CONNECT)
    }

    /// How the server is reached.
    pub(super) fn endpoint(&self, name: &str) -> Result<Endpoint, SettingsError> {
        let ways = [
            self.command.is_some(),
            self.url.is_some(),
            self.from.is_some(),
        ];
        if ways.into_iter().filter(|way| *way).count() != 1 {
            return Err(SettingsError::Ways);
        }
        if let Some(file) = &self.from {
            let server = self.server.as_deref().unwrap_or(name);
            return import::read(file, server)?.endpoint(name);
        }
        if let Some(url) = &self.url {
            if !(url.starts_with("https://") || url.starts_with("http://")) {
                return Err(SettingsError::Address(url.clone()));
            }
            let (url, headers) = (url.clone(), self.headers.clone());
            return Ok(Endpoint::Http { url, headers });
        }
        let (program, mut args) = match self.command.clone() {
            Some(Command::Program(program)) => (program, Vec::new()),
            Some(Command::Line(mut line)) if !line.is_empty() => (line.remove(0), line),
            _ => return Err(SettingsError::NoProgram),
        };
        if program.is_empty() {
            return Err(SettingsError::NoProgram);
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
