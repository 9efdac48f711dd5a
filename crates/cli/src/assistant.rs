//! The team that a command works with: that of a file, or one agent with the built-in tools.

use std::path::Path;

use ghostlight::config::{self, TeamFile};
use ghostlight_actors::{
    actor::SystemError,
    definition::{AgentSpec, DefinitionError, TeamSpec},
    run::Registry,
};

use super::{
    approval_arguments::ApprovalArguments,
    default_model::{self, ModelArguments},
    exit::Failure,
};

/// The name of the agent where there is no team file.
const ASSISTANT: &str = "assistant";
const INSTRUCTIONS: &str = "\
You work for a person at a terminal. Answer briefly, in plain text without Markdown. Use your tools where \
they help, and say what you do not know.";

/// A team, and the file that it was read from.
pub(super) struct Chosen {
    file: Option<TeamFile>,
    team: TeamSpec,
}

impl Chosen {
    /// The team of this file, or the assistant, with the model and the approvals that the arguments name.
    pub(super) fn new(
        file: Option<&Path>,
        registry: &Registry,
        model: &ModelArguments,
        approval: &ApprovalArguments,
    ) -> Result<Self, Failure> {
        let mut file = file.map(config::load).transpose()?;
        let mut team = match &mut file {
            Some(file) => file.spec_mut().clone(),
            None => assistant(registry),
        };
        default_model::define(&mut team, registry, model)?;
        approval.force(&mut team)?;
        if let Some(file) = &mut file {
            *file.spec_mut() = team.clone();
        }
        Ok(Self { file, team })
    }

    pub(super) fn team(&self) -> &TeamSpec {
        &self.team
    }

    /// The code behind the team's names.
    pub(super) fn resolve(&self, registry: Registry) -> Result<Registry, Failure> {
        match &self.file {
            Some(file) => Ok(file.resolve(registry)?),
            None => registry
                .resolve(&self.team)
                .map_err(|error| self.locate(error)),
        }
    }

    /// The failure of starting this team's System, with the place in the file.
    pub(super) fn failed(&self, error: SystemError) -> Failure {
        match error {
            SystemError::Definition(error) => self.locate(error),
            error => error.into(),
        }
    }

    fn locate(&self, error: DefinitionError) -> Failure {
        match &self.file {
            Some(file) => Failure::Config(file.locate(&error)),
            None => error.into(),
        }
    }
}

/// A team of one agent with all tools of the program.
fn assistant(registry: &Registry) -> TeamSpec {
    let mut agent = AgentSpec::new(ASSISTANT);
    agent.instructions = INSTRUCTIONS.to_owned();
    agent.tools = registry.tools().map(|(name, _)| name.to_owned()).collect();
    agent.tools.sort_unstable();
    agent.tools.dedup();
    TeamSpec::new(agent)
}
