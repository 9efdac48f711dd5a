//! Confined commands.
//!
//! A command is a program with its arguments; no shell reads it. Rules say which programs may run with which arguments.
//! Each command runs in a process group of its own, which is ended as a whole, with an environment of its own, and
//! below a launcher ([`crate::launcher`]) that takes away its rights: on Linux it reads the system's programs and the
//! folder, changes only the folder, reaches no process that it did not start, and has no network.

mod growth;
pub(crate) mod output;
mod policy;
mod processes;
pub(crate) mod running;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    slice,
    sync::Arc,
    time::Duration,
};

use ghostlight_actors::{
    contract::{ToolContext, ToolError, ToolHandle, ToolOutput, Toolset},
    vocabulary::{Approval, Effect, ToolDefinition, seconds},
};
use schemars::JsonSchema;
use serde::Deserialize;

pub use policy::{ArgumentRule, Ask, CommandRule};

use crate::launcher::{self, Confinement, FAILED, Launch, Rlimits, SAYS};
use growth::Bound;
use policy::Verdict;
use processes::Processes;
use running::{End, Ran, Start};

/// The folders in which programs are looked up.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
/// The paths that every command may read and run beside what is installed below `/usr`: files and folders in which
/// programs are, and settings of the system that hold no secrets. A folder is listed only where this is true of all that is
/// in it.
const SYSTEM: &[&str] = &[
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/sbin",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    // The certificates of authorities. Keys stand beside them, in `private`.
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/dev/random",
    "/dev/urandom",
];
/// The devices that every command may write to.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];

/// The permissions of [`Terminal`], and its confinement.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TerminalSpec {
    /// The folder in which commands run, and the only one that they may change. It must exist.
    pub root: PathBuf,
    /// The commands that may run, by their names; no other may.
    pub commands: BTreeMap<String, CommandRule>,
    /// Whether commands can reach the network; they cannot when left out.
    pub network: bool,
    /// Further files and folders that commands may read.
    pub read: Vec<PathBuf>,
    /// Further files and folders that commands may read and change.
    pub write: Vec<PathBuf>,
    /// Further environment variables. Otherwise the environment has only the variables that programs need.
    pub env: BTreeMap<String, String>,
    /// The reaction where the machine cannot confine commands.
    pub confinement: Demand,
    /// Whether commands are confined by bubblewrap as well: in namespaces of their own they see no other files,
    /// processes and network interfaces. It has to be installed; it is not used when left out.
    pub bubblewrap: bool,
    /// How long one command may take; 60 seconds when left out.
    #[serde(rename = "timeout_s", with = "seconds")]
    pub timeout: Duration,
    /// How many bytes of its output are kept; 64 KiB when left out.
    pub max_output_bytes: usize,
    /// How many bytes all the files that a command may change may grow by while it runs; 1 GiB when left out. They are
    /// measured before and after it and five times a second between (less often in large folders), within its time. A command
    /// that lets them grow further is ended with an error. Its files are not removed, and what others write there meanwhile
    /// counts too. `null` measures nothing.
    pub max_growth_bytes: Option<u64>,
    /// How many commands may run in the background at once, as processes with tools of their own; none when left out.
    pub processes: usize,
    /// The effect of a repeated command; `once` when left out. Set `read` only if no command that may run changes
    /// anything.
    pub effect: Effect,
    /// The limits of each process.
    pub rlimits: Rlimits,
    /// The launcher; found beside the program when left out.
    pub launcher: Option<PathBuf>,
}

/// The demand for confinement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Demand {
    /// All of it: the tools cannot be opened if a part is missing.
    #[default]
    Required,
    /// As much as the machine offers. The tool's description says how much.
    BestEffort,
    /// None but the rules, the environment and the process group.
    Off,
}

impl Default for TerminalSpec {
    fn default() -> Self {
        Self {
            root: PathBuf::new(),
            commands: BTreeMap::new(),
            network: false,
            read: Vec::new(),
            write: Vec::new(),
            env: BTreeMap::new(),
            confinement: Demand::default(),
            bubblewrap: false,
            timeout: Duration::from_secs(60),
            max_output_bytes: 64 << 10,
            max_growth_bytes: Some(1 << 30),
            processes: 0,
            effect: Effect::Once,
            rlimits: Rlimits::default(),
            launcher: None,
        }
    }
}

impl TerminalSpec {
    /// Settings for running these commands, with any safe arguments, in a folder.
    pub fn running<N: Into<String>>(
        root: impl Into<PathBuf>,
        commands: impl IntoIterator<Item = N>,
    ) -> Self {
        let allowed = |name: N| (name.into(), CommandRule::Allowed(true));
        Self {
            root: root.into(),
            commands: commands.into_iter().map(allowed).collect(),
            ..Self::default()
        }
    }
}

/// Why commands cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TerminalError {
    /// The folder cannot be used.
    #[error("the folder {root:?} cannot be used: {source}; name one that exists in `root`")]
    Root {
        /// The folder.
        root: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A setting is invalid.
    #[error("{0}")]
    Setting(String),
    /// The machine lacks confinement that the settings demand.
    #[error(
        "commands cannot be confined as `confinement: required` demands: {reason}; run on Linux 6.2 or newer \
         with Landlock, install what is missing, or set `confinement: best_effort` and trust the commands"
    )]
    Confinement {
        /// The part that is missing.
        reason: String,
    },
}

ghostlight_actors::parts_of_system_error!(TerminalError);

/// The tool `run_command`; if a rule says `ask`, `run_command_with_approval`; and if processes may run in the
/// background, `start_process`, `read_process`, `write_process` and `stop_process`.
#[derive(Clone, Debug)]
pub struct Terminal {
    shared: Arc<Shared>,
    tools: Vec<ToolHandle>,
}

#[derive(Debug)]
struct Shared {
    settings: TerminalSpec,
    /// The folder's path, with links resolved.
    root: PathBuf,
    launcher: Option<(PathBuf, [String; 2])>,
    confinement: Confinement,
    growth: Option<Bound>,
    environment: Vec<(String, String)>,
    processes: Processes,
}

/// A command: the program and its arguments, each as it is given; no shell reads them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CommandLine {
    /// The program's name, such as `ls`.
    command: String,
    /// Its arguments, each one text, such as ["-l", "src"]. Quotes, `|`, `>` and `$` have no meaning.
    #[serde(default)]
    args: Vec<String>,
    /// The folder in which it runs, from the root folder; the root folder when left out.
    #[serde(default)]
    dir: String,
}

impl Terminal {
    /// The tools for running commands.
    ///
    /// # Errors
    /// The folder or a setting is invalid, or the machine lacks the demanded confinement.
    pub fn open(settings: TerminalSpec) -> Result<Self, TerminalError> {
        let failed = |source| TerminalError::Root {
            root: settings.root.clone(),
            source,
        };
        let root = settings.root.canonicalize().map_err(failed)?;
        if root.parent().is_none() {
            return Err(TerminalError::Setting(
                "`root` must not be the root of all files".to_owned(),
            ));
        }
        // These folders are out of reach of the file tools, since programs read settings from them.
        let (home, temporary) = (root.join(".ghostlight/home"), root.join(".ghostlight/tmp"));
        for folder in [&home, &temporary] {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let environment = environment(&settings, &home, &temporary)?;
        let (launcher, confinement) = find_launcher(&settings, &root)?;
        let growth = settings.max_growth_bytes.map(|max_bytes| {
            let changeable = [slice::from_ref(&root), &settings.write[..]].concat();
            Bound::new(changeable, max_bytes)
        });
        let shared = Arc::new(Shared {
            growth,
            processes: Processes::new(settings.processes),
            settings,
            root,
            launcher,
            confinement,
            environment,
        });
        let tools = tools(&shared);
        Ok(Self { shared, tools })
    }

    /// The confinement of the commands.
    pub fn confinement(&self) -> &Confinement {
        &self.shared.confinement
    }
}

impl Toolset for Terminal {
    fn tools(&self) -> Result<Vec<ToolHandle>, ToolError> {
        Ok(self.tools.clone())
    }
}

/// All variables that a command sees.
fn environment(
    settings: &TerminalSpec,
    home: &Path,
    temporary: &Path,
) -> Result<Vec<(String, String)>, TerminalError> {
    let mut variables: BTreeMap<String, String> = [
        ("PATH", PATH),
        ("LANG", "C.UTF-8"),
        ("TERM", "dumb"),
        ("NO_COLOR", "1"),
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    variables.insert("HOME".to_owned(), home.display().to_string());
    variables.insert("TMPDIR".to_owned(), temporary.display().to_string());
    variables.extend(settings.env.clone());
    let is_bad = |(name, value): &(&String, &String)| {
        name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
    };
    if let Some((name, _)) = variables.iter().find(is_bad) {
        return Err(TerminalError::Setting(format!(
            "`env` holds {name:?}, which is not a variable"
        )));
    }
    Ok(variables.into_iter().collect())
}

type Launcher = Option<(PathBuf, [String; 2])>;

fn find_launcher(
    settings: &TerminalSpec,
    root: &Path,
) -> Result<(Launcher, Confinement), TerminalError> {
    if settings.confinement == Demand::Off {
        return match settings.bubblewrap {
            true => Err(TerminalError::Setting(
                "`bubblewrap` confines nothing where `confinement` is `off`: leave one of the two out".to_owned(),
            )),
            false => Ok((None, Confinement::default())),
        };
    }
    let required = settings.confinement == Demand::Required;
    let missing = |reason: &str| match required {
        true => Err(TerminalError::Confinement {
            reason: reason.to_owned(),
        }),
        false => {
            let bubblewrap = settings.bubblewrap.then_some(false);
            let none = Confinement {
                bubblewrap,
                ..Confinement::default()
            };
            Ok((None, none))
        }
    };
    let Some(program) = settings.launcher.clone().or_else(launcher::find) else {
        return missing(
            "there is no launcher: begin `main` with `launcher::run`, or put `ghostlight-launcher` beside the program",
        );
    };
    let probed = std::process::Command::new(&program)
        .args(launcher::probing(settings.bubblewrap))
        .env_clear()
        .output();
    let probed = probed.ok().filter(|probed| probed.status.success());
    let found: Option<Confinement> =
        probed.and_then(|probed| serde_json::from_slice(&probed.stdout).ok());
    let Some(found) = found else {
        return missing(&format!(
            "the launcher {} does not work here",
            program.display()
        ));
    };
    if required && !found.is_whole() {
        return missing(&format!("what is there is {found}"));
    }
    let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
    let launch = Launch {
        read: [launcher::installed(), paths(SYSTEM), settings.read.clone()].concat(),
        write: [
            vec![root.to_owned()],
            paths(DEVICES),
            settings.write.clone(),
        ]
        .concat(),
        network: settings.network,
        required,
        alone: false,
        bubblewrap: found.bubblewrap == Some(true),
        own_mounts: false,
        limits: settings.rlimits,
    };
    let arguments = launcher::arguments(&launch);
    let arguments = arguments.map_err(|error| TerminalError::Setting(error.to_string()))?;
    Ok((Some((program, arguments)), found))
}

fn tools(shared: &Arc<Shared>) -> Vec<ToolHandle> {
    let settings = &shared.settings;
    let names: Vec<&str> = settings.commands.keys().map(String::as_str).collect();
    let confinement = &shared.confinement;
    let keeps_metadata =
        confinement.seccomp && !confinement.mounts && confinement.bubblewrap != Some(true);
    let about = format!(
        "Runs a program without a shell, and gives its output. The programs are: {}. Network: {}. Confined by: {confinement}.{}",
        names.join(", "),
        if settings.network { "yes" } else { "no" },
        match keeps_metadata {
            true =>
                " Programs cannot change modes, owners and times of files here (`chmod`, `chown`, `cp -p`, `touch`).",
            false => "",
        },
    );
    // Leaves time to end the command's processes, and to read their last output.
    let timeout = shared.settings.timeout + Duration::from_secs(10);
    let define = |name: &str, about: &str| {
        ToolDefinition::new(name, about)
            .effect(settings.effect)
            .timeout(timeout)
    };
    let runs = |definition: ToolDefinition, approved: bool| {
        let shared = shared.clone();
        ToolHandle::typed(definition, move |line: CommandLine, cx: ToolContext| {
            let shared = shared.clone();
            async move { shared.run(&line, approved, &cx).await }
        })
    };
    let mut tools = vec![runs(define("run_command", &about), false)];
    let asks = |rule: &CommandRule| match rule {
        CommandRule::Word(Ask::Ask) => true,
        CommandRule::Arguments(rule) => !rule.ask.is_empty(),
        CommandRule::Allowed(_) => false,
    };
    if settings.commands.values().any(asks) {
        let about =
            "Runs a program that a person must approve first. Use it when `run_command` says so.";
        let mut definition = define("run_command_with_approval", about);
        definition.approval = Approval::Required {
            prompt: Some("Run {command} {args} in the folder {dir}?".to_owned()),
        };
        tools.push(runs(definition, true));
    }
    if settings.processes > 0 {
        tools.extend(processes::tools(shared));
    }
    tools
}

impl Shared {
    /// The command to start, if the rules allow it.
    fn start(&self, line: &CommandLine, approved: bool) -> Result<Start, ToolError> {
        let settings = &self.settings;
        let open = [&settings.read[..], &settings.write[..]].concat();
        match policy::judge(
            &settings.commands,
            &line.command,
            &line.args,
            &self.root,
            &open,
        ) {
            Verdict::Allowed => {}
            Verdict::Asks if approved => {}
            Verdict::Asks => {
                return Err(ToolError::denied(
                    "a person must approve this: use `run_command_with_approval`",
                ));
            }
            Verdict::Refused(why) => return Err(ToolError::denied(why)),
        }
        let program = self.program(&line.command)?;
        let folder = self.folder(&line.dir)?;
        let (program, arguments) = match &self.launcher {
            None => (program, line.args.clone()),
            Some((launcher, first)) => {
                let own = [program.display().to_string()];
                let arguments = first.iter().chain(&own).chain(&line.args);
                (launcher.clone(), arguments.cloned().collect())
            }
        };
        Ok(Start {
            program,
            arguments,
            folder,
            environment: self.environment.clone(),
        })
    }

    /// The path of the program with this name: a program of the system, or one in the folder that the rules name by its
    /// path.
    fn program(&self, name: &str) -> Result<PathBuf, ToolError> {
        if name.contains('/') {
            let path = self.root.join(name).canonicalize();
            let path = path.map_err(|error| ToolError::new(format!("{name}: {error}")))?;
            return match path.starts_with(&self.root) {
                true => Ok(path),
                false => Err(ToolError::denied(format!("{name} is not in the folder"))),
            };
        }
        let found = PATH
            .split(':')
            .map(|folder| Path::new(folder).join(name))
            .find(|path| path.is_file());
        found.ok_or_else(|| ToolError::new(format!("{name} is not installed on this machine")))
    }

    fn folder(&self, name: &str) -> Result<PathBuf, ToolError> {
        let refused =
            || ToolError::denied(format!("{name:?} is not a folder below the root folder"));
        if name.contains('\0') || Path::new(name).is_absolute() {
            return Err(refused());
        }
        let folder = self.root.join(name).canonicalize().map_err(|_| refused())?;
        match folder.starts_with(&self.root) && folder.is_dir() {
            true => Ok(folder),
            false => Err(refused()),
        }
    }

    async fn run(
        &self,
        line: &CommandLine,
        approved: bool,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let start = self.start(line, approved)?;
        let ran = running::run(
            &start,
            self.settings.max_output_bytes,
            (self.settings.timeout, self.growth.as_ref()),
            cx,
        )
        .await?;
        self.told(&ran)
    }

    fn told(&self, ran: &Ran) -> Result<ToolOutput, ToolError> {
        let (out, err) = (ran.stdout.text(), ran.stderr.text());
        let mut told = match &ran.end {
            End::Exited(status, _)
                if self.launcher.is_some()
                    && status.code() == Some(FAILED)
                    && err.starts_with(SAYS) =>
            {
                return Err(ToolError::denied(format!(
                    "the command was not started: {}",
                    err.trim()
                )));
            }
            End::Exited(status, grown) => running::exited(*status, grown.as_ref()),
            End::TimedOut => format!(
                "ended after {} s, which is its bound",
                self.settings.timeout.as_secs_f64()
            ),
            End::Cancelled => "ended because the call was cancelled".to_owned(),
            End::Endless => "ended because it wrote without end".to_owned(),
            End::Grown(exceeded) => format!("ended because {exceeded}"),
        };
        for (name, text) in [("stdout", out), ("stderr", err)] {
            if !text.is_empty() {
                // Writing to a text cannot fail.
                let _ = write!(told, "\n[{name}]\n{}", text.trim_end_matches('\n'));
            }
        }
        match ran.end {
            End::Exited(status, None) if status.success() => Ok(ToolOutput::text(told)),
            // The command ran and reported its failure, so the outcome is known.
            _ => Err(ToolError::new(told)),
        }
    }
}
