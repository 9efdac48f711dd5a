//! Which calls a person approves, as it is forced on the command line.

use clap::Args;
use ghostlight_actors::definition::{AgentSpec, ApprovalRule, TeamSpec};

use super::exit::Failure;

/// The tools whose calls ask, or do not, whatever the team file says of them.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Approval")]
pub(super) struct ApprovalArguments {
    /// Ask before each call of these tools or toolsets, named as in the team file; `*` is all that have no rule
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(super) ask: Vec<String>,
    /// Do not ask before calls of these tools or toolsets
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(super) no_ask: Vec<String>,
}

impl ApprovalArguments {
    /// Changes the rules of all agents that have the tools.
    ///
    /// # Errors
    /// A name that no agent's `tools` has, or that both lists have.
    pub(super) fn force(&self, team: &mut TeamSpec) -> Result<(), Failure> {
        if let Some(name) = self.ask.iter().find(|name| self.no_ask.contains(name)) {
            let text = format!("`{name}` is in --ask and in --no-ask: take it out of one");
            return Err(Failure::Usage(text));
        }
        for (names, is_asked) in [(&self.ask, true), (&self.no_ask, false)] {
            for name in names {
                if !rule(&mut team.agent, name, is_asked) {
                    return Err(Failure::Usage(format!(
                        "no agent of the team {} has {name:?} among its `tools`",
                        team.name
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Sets the rule of this agent and all below it; whether one of them has the tool.
fn rule(agent: &mut AgentSpec, name: &str, is_asked: bool) -> bool {
    let has_it = name == "*" || agent.tools.iter().any(|tool| tool == name);
    if has_it {
        let rule = agent.approval.entry(name.to_owned());
        rule.or_insert_with(ApprovalRule::required).required = is_asked;
    }
    let below = agent.agents.iter_mut();
    below.fold(has_it, |found, agent| rule(agent, name, is_asked) || found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn team() -> TeamSpec {
        let mut desk = AgentSpec::new("desk");
        desk.tools = vec!["notes".into(), "shell".into()];
        let prompt = ApprovalRule::required().prompt("Really?");
        desk.approval.insert("shell".into(), prompt);
        let mut below = AgentSpec::new("below");
        below.tools = vec!["notes".into()];
        desk.agents.push(below);
        TeamSpec::new(desk)
    }

    fn forced(ask: &[&str], no_ask: &[&str]) -> Result<TeamSpec, Failure> {
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (ask, no_ask) = (named(ask), named(no_ask));
        let mut team = team();
        ApprovalArguments { ask, no_ask }.force(&mut team)?;
        Ok(team)
    }

    #[test]
    fn a_list_stands_above_the_file_for_each_agent_that_has_the_tool() {
        let team = forced(&["notes"], &["shell"]).unwrap();
        assert!(team.agent.approval["notes"].required);
        assert!(team.agent.agents[0].approval["notes"].required);
        assert!(!team.agent.approval["shell"].required);
        assert!(!team.agent.agents[0].approval.contains_key("shell"));
        let team = forced(&["shell"], &["*"]).unwrap();
        let shell = &team.agent.approval["shell"];
        assert_eq!(
            shell.prompt.as_deref(),
            Some("Really?"),
            "its question stays"
        );
        assert!(!team.agent.agents[0].approval["*"].required);
    }

    #[test]
    fn a_name_that_is_misspelt_or_in_both_lists_is_refused() {
        for (ask, no_ask) in [(&["note"], &["shell"]), (&["notes"], &["notes"])] {
            assert!(matches!(forced(ask, no_ask), Err(Failure::Usage(_))));
        }
    }
}
