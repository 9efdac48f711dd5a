//! The answers to runs, which ask for the code behind names.

use std::{collections::BTreeSet, sync::Arc};

use super::{Registry, makers::MakeBehavior, registry::path_of};
use crate::{
    contract::{InterceptorHandle, ModelHandle, ToolHandle},
    definition::{AgentSpec, DefinitionError, Pinned, PinnedAgent, PolicySpec, TeamSpec},
    run::{AgentCode, BehaviorHandle, Code, ModelCode, PolicyHandle, ToolCode},
};

impl Code for Registry {
    fn model_of(&self, agent: &PinnedAgent, name: &str) -> Result<ModelCode, String> {
        let found = self.places.look_up::<ModelHandle>(&agent.places, name);
        let Some(model) = found.map_err(|agents| several(name, &agents))? else {
            let known = self.places.known::<ModelHandle>();
            return Err(format!("there is no model {name:?}; there are: {known}"));
        };
        let (model, chain) = (model.clone(), self.model_chain(name));
        Ok(ModelCode { model, chain })
    }

    fn tool_of(&self, agent: &PinnedAgent, name: &str) -> Result<ToolCode, String> {
        let found = self.places.look_up::<ToolHandle>(&agent.places, name);
        let Some(tool) = found.map_err(|agents| several(name, &agents))? else {
            let known = self.places.known::<ToolHandle>();
            return Err(format!(
                "There is no tool {name:?} in this program. There are: {known}."
            ));
        };
        let (tool, chain) = (tool.clone(), self.tool_chain(name));
        Ok(ToolCode { tool, chain })
    }

    fn tool_chain(&self, name: &str) -> Arc<[InterceptorHandle]> {
        self.chain(|intercept| intercept.wraps_tool(name, &self.members))
    }

    fn received_by(
        &self,
        team: &TeamSpec,
        agent: &str,
        is_child: bool,
    ) -> Option<BTreeSet<String>> {
        let top = is_child.then_some(agent);
        if let Some(said) = team.received_by(agent) {
            return Some(said.into_iter().map(str::to_owned).collect());
        }
        let (mut open, mut seen) = (vec![agent], BTreeSet::from([agent]));
        let mut received = BTreeSet::new();
        while let Some(name) = open.pop() {
            let lineage = team.agent.lineage(name)?;
            let spec = lineage.last()?;
            let make = self.places.look_up(&path_of(&lineage), &spec.behavior.name);
            let make: &MakeBehavior = make.ok().flatten()?;
            let behavior = make(&spec.behavior.settings).ok()?;
            if spec.receives.is_empty() && behavior.receives_any() {
                return None;
            }
            received.extend(spec.receives.iter().cloned());
            let next = team.transfer_targets(name, top).into_iter();
            open.extend(
                next.map(|agent| agent.name.as_str())
                    .filter(|name| seen.insert(name)),
            );
        }
        Some(received)
    }

    fn pin_made(
        &self,
        mut agent: AgentSpec,
        creator: (&Pinned, &PinnedAgent),
    ) -> Result<Pinned, DefinitionError> {
        self.inherit(&mut agent, creator);
        let (pinned, creator) = creator;
        let team = TeamSpec {
            agent: AgentSpec {
                model: agent.model.or_else(|| Some(creator.model.to_string())),
                ..agent
            },
            schedules: Vec::new(),
            webhooks: Vec::new(),
            notifications: Vec::new(),
            messengers: Vec::new(),
            ..pinned.team.clone()
        };
        team.check()?;
        for lineage in team.agent.lineages() {
            self.check_agent(&team, &lineage, &creator.places)?;
        }
        let mut made = self.pin_in(&team, Some(&creator.places));
        made.made_by = Some(creator.spec.name.clone());
        made.places.clone_from(&creator.places);
        made.makers.clone_from(&creator.makers);
        made.makers.push(creator.spec.name.clone());
        for (name, tool) in &mut made.tools {
            if let Some(pinned) = pinned.tool(&creator.spec.name, name) {
                tool.clone_from(pinned);
            }
        }
        Ok(made)
    }
}

impl AgentCode for Registry {
    fn behavior_of(&self, agent: &PinnedAgent) -> Result<BehaviorHandle, String> {
        let behavior = &agent.spec.behavior;
        let make = self.places.look_up(&agent.places, &behavior.name);
        let make: Option<&MakeBehavior> = make.ok().flatten();
        let make = make.ok_or_else(|| {
            let (wanted, known) = (&behavior.name, self.places.known::<MakeBehavior>());
            format!("the code of its behavior {wanted:?}; there are: {known}")
        })?;
        make(&behavior.settings).map_err(|reason| format!("a behavior that works ({reason})"))
    }

    fn policies_of(&self, agent: &PinnedAgent) -> Result<Vec<(String, PolicyHandle)>, String> {
        let made = self.make_policies(&agent.spec, &agent.places);
        made.map_err(|reason| format!("policies that work ({reason})"))
    }
}

impl Registry {
    /// Gives an agent that is made, and all below it, the rules of its maker: the policies that are inherited, before its
    /// own, and, where it has none itself, the approval of each tool and the bounds on calls and rejections. A policy that
    /// cannot be made is kept too: it is refused with the agent.
    fn inherit(&self, agent: &mut AgentSpec, (pinned, maker): (&Pinned, &PinnedAgent)) {
        // The team's own policies apply to the agent anyway, as it belongs to the same team.
        let policies = maker.spec.policies.iter().skip(pinned.team.policies.len());
        let inherited = |policy: &&PolicySpec| {
            let made = self.make_policy(policy, &maker.places, String::new);
            made.map_or(true, |(_, policy)| policy.is_inherited())
        };
        let inherited: Vec<PolicySpec> = policies.filter(inherited).cloned().collect();
        let mut open = vec![agent];
        while let Some(agent) = open.pop() {
            agent.policies.splice(..0, inherited.iter().cloned());
            agent.max_calls = agent.max_calls.or(maker.spec.max_calls);
            agent.max_rejections = agent.max_rejections.or(maker.spec.max_rejections);
            for (tool, rule) in &maker.spec.approval {
                let own = agent.approval.entry(tool.clone());
                own.or_insert_with(|| rule.clone());
            }
            open.extend(agent.agents.iter_mut());
        }
    }
}

/// Why a name is not known although other agents have it.
fn several(name: &str, agents: &str) -> String {
    format!("{name:?} stands for different things at the agents {agents}, and for nothing here.")
}
