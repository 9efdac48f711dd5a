//! Toolsets of a team, and the tools that its agents have from them.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::future::join_all;
use serde_json::{Map, Value};

use super::{
    Registry,
    makers::MakeToolset,
    members::{Members, ToolSources, owners_in, sources_of},
    names::Named,
    registry::{path_of, tools_of},
    tool_names::Given,
};
use crate::{
    contract::{ToolHandle, ToolsetHandle},
    definition::{AgentSpec, DefinitionError, TeamSpec, ToolSpec},
    vocabulary::{legal_parameters, listed},
};

impl Registry {
    /// Registers a toolset: agents that name it are given all its tools.
    #[must_use]
    pub fn toolset(self, name: impl Into<String>, toolset: impl Into<ToolsetHandle>) -> Self {
        self.given(name, toolset.into())
    }

    /// Registers a kind of toolset: what makes one from the settings of a team file, where it stands
    /// among the `tools`. What is said there of `only`, `prefix` and `limits` is applied to what it
    /// makes.
    #[must_use]
    pub fn toolset_kind<F>(self, name: impl Into<String>, make: F) -> Self
    where
        F: Fn(&str, &Map<String, Value>) -> Result<ToolsetHandle, String> + Send + Sync + 'static,
    {
        self.given::<MakeToolset>(name, Arc::new(make))
    }

    /// The names of all kinds of toolsets.
    pub fn toolset_kind_names(&self) -> Vec<&str> {
        self.places.names_of::<MakeToolset>()
    }

    /// All toolsets by name.
    pub fn toolsets(&self) -> impl Iterator<Item = (&str, &ToolsetHandle)> {
        self.places.each()
    }

    /// Connects all toolsets to what has their tools, all at once.
    pub(crate) async fn open_toolsets(&self) {
        let open = self.toolsets().map(|(name, toolset)| async move {
            if let Err(error) = toolset.open().await {
                tracing::warn!(toolset = %name, %error, "a toolset cannot be opened");
            }
        });
        join_all(open).await;
    }

    /// Has all toolsets let go of what they hold open, but for those that another registry has too.
    pub(crate) async fn close_toolsets(&self, but_for: Option<&Registry>) {
        let kept = |toolset: &ToolsetHandle| {
            let mut others = but_for.into_iter().flat_map(Self::toolsets);
            others.any(|(_, other)| other.is(toolset))
        };
        let closed = self.toolsets().filter(|(_, toolset)| !kept(toolset));
        join_all(closed.map(|(_, toolset)| toolset.close())).await;
    }

    /// Makes the toolset that a team defines, where its kind is one of a toolset.
    pub(super) fn make_toolset(
        &self,
        name: &str,
        spec: &ToolSpec,
        path: &[String],
    ) -> Result<Option<ToolsetHandle>, DefinitionError> {
        let Ok(Some(make)) = self.places.look_up::<MakeToolset>(path, &spec.kind) else {
            return Ok(None);
        };
        let wanted_by = format!("tool {name:?}");
        let refused = DefinitionError::refuses(wanted_by, "kind of tool", &spec.kind);
        let mut made = make(name, &spec.settings).map_err(refused)?;
        if let Some(only) = &spec.only {
            made = made.only(only.clone());
        }
        if let Some(prefix) = &spec.prefix {
            made = made.prefixed(prefix);
        }
        for (pattern, limits) in &spec.limits {
            made = made.limited(pattern, limits.clone());
        }
        Ok(Some(made))
    }

    /// Gives each agent the tools of the toolsets that it names, instead of those that it had
    /// from them before.
    ///
    /// # Errors
    /// Where an agent has two tools of one name, and it is not known which of them it had first. With `leave_out` such a
    /// tool is left out, with a warning, so that what a server adds does not end a team.
    pub(crate) fn ask_toolsets(
        &mut self,
        team: &TeamSpec,
        leave_out: bool,
    ) -> Result<(), DefinitionError> {
        let before = std::mem::take(&mut self.members);
        for ((agent, _), tools) in &before.of {
            for tool in tools {
                self.places.take::<ToolHandle>(agent, tool);
            }
        }
        let known = self.still_there(before.owners, team);
        let mut members = Members {
            owners: known.clone(),
            known,
            ..Members::default()
        };
        let mut asked: BTreeMap<String, (ToolsetHandle, u64)> = BTreeMap::new();
        for lineage in team.agent.lineages() {
            let Some(&agent) = lineage.last() else {
                continue;
            };
            let path = path_of(&lineage);
            let own: BTreeSet<&String> = tools_of(agent).collect();
            // Without `leave_out` the checks of the whole team refuse what is called like a given tool.
            let given_otherwise = match leave_out {
                true => Some(self.given_tools(team, &lineage, &path)?),
                false => None,
            };
            for name in own {
                let Ok(Some(toolset)) = self.places.look_up::<ToolsetHandle>(&path, name) else {
                    if let Some((set, toolset)) =
                        self.set_of_single(&members, &path, agent, name)?
                    {
                        asked.insert(
                            format!("{name} alone at {}", agent.name),
                            (toolset.clone(), toolset.revision()),
                        );
                        self.give_single(&mut members, agent, name, (set, toolset));
                    }
                    continue;
                };
                let toolset = toolset.clone();
                if matches!(self.places.look_up::<ToolHandle>(&path, name), Ok(Some(_))) {
                    return Err(collision(agent, name));
                }
                asked.insert(name.clone(), (toolset.clone(), toolset.revision()));
                self.give_all(
                    &mut members,
                    agent,
                    (name, toolset),
                    given_otherwise.as_ref(),
                )?;
            }
        }
        members.asked = asked.into_values().collect();
        self.members = members;
        Ok(())
    }

    /// Says from which toolsets the agents had their tools before, so that these names stay theirs.
    #[must_use]
    pub(crate) fn knowing(mut self, sources: ToolSources) -> Self {
        self.members.owners.extend(owners_in(sources));
        self
    }

    /// From which toolsets the agents have had their tools.
    pub(crate) fn tool_sources(&self) -> ToolSources {
        sources_of(self.members.owners.clone())
    }

    /// The same, beside a record of them: it wins for every name that the agents of the team may still have, and the rest of it
    /// is left out.
    pub(crate) fn tool_sources_beside(
        &self,
        recorded: ToolSources,
        team: &TeamSpec,
    ) -> ToolSources {
        let mut owners = self.members.owners.clone();
        owners.extend(self.still_there(owners_in(recorded).collect(), team));
        sources_of(owners)
    }

    /// Those sources of tools that the agents of a team still name.
    fn still_there(
        &self,
        mut owners: BTreeMap<(String, String), String>,
        team: &TeamSpec,
    ) -> BTreeMap<(String, String), String> {
        if owners.is_empty() {
            return owners;
        }
        let lineages = team.agent.lineages();
        let mut of_agent: BTreeMap<&str, Vec<&Vec<&AgentSpec>>> = BTreeMap::new();
        for lineage in &lineages {
            let last = lineage.last().map_or("", |agent| &agent.name);
            of_agent.entry(last).or_default().push(lineage);
        }
        let names = |lineage: &Vec<&AgentSpec>, tool: &String, toolset: &String| {
            let agent = lineage.last().copied();
            let mut named = agent.into_iter().flat_map(tools_of);
            let found = self
                .places
                .look_up::<ToolsetHandle>(&path_of(lineage), toolset);
            matches!(found, Ok(Some(_))) && named.any(|name| name == toolset || name == tool)
        };
        owners.retain(|(agent, tool), toolset| {
            let mut lineages = of_agent.get(agent.as_str()).into_iter().flatten();
            lineages.any(|lineage| names(lineage, tool, toolset))
        });
        owners
    }

    /// Gives an agent the tools of a toolset that it names. With the tools that it is given otherwise, a tool whose name
    /// is taken is left out; without them, it is refused.
    fn give_all(
        &mut self,
        members: &mut Members,
        agent: &AgentSpec,
        (name, toolset): (&String, ToolsetHandle),
        given_otherwise: Option<&Given<'_>>,
    ) -> Result<(), DefinitionError> {
        let tools = match toolset.tools() {
            Ok(tools) => tools,
            Err(error) => {
                tracing::warn!(toolset = %name, agent = %agent.name, %error, "a toolset has no tools now; the agent goes on without them");
                members.failed.insert(name.clone());
                self.reserve(members, agent, (name, &toolset), given_otherwise.is_none())?;
                [].into()
            }
        };
        let mut given = Vec::new();
        for tool in tools.iter() {
            let called = &tool.definition().name;
            let key = (agent.name.clone(), called.clone());
            let is_known = members.is_known_of_another(&key, name);
            let is_taken = self.places.has::<ToolHandle>(&agent.name, called)
                || (agent.tools.contains(called) && agent.tools.contains(name))
                || given_otherwise.is_some_and(|given| given.source_of(called).is_some())
                || members.owners.get(&key).is_some_and(|owner| owner != name);
            if is_taken && !is_known && given_otherwise.is_none() {
                return Err(collision(agent, called));
            }
            if is_taken {
                tracing::warn!(tool = %called, toolset = %name, agent = %agent.name, "a tool of a toolset is left out: the agent has another one of its name, or had it first from another toolset");
                continue;
            }
            let Some(tool) = offered_from(tool, name) else {
                continue;
            };
            self.places.give_to(&agent.name, called, tool);
            members.owners.insert(key, name.clone());
            given.push(called.clone());
        }
        members.of.insert((agent.name.clone(), name.clone()), given);
        Ok(())
    }

    /// Keeps the names that the tools of a toolset will have for it, so that no other server takes them while it has none.
    fn reserve(
        &self,
        members: &mut Members,
        agent: &AgentSpec,
        (name, toolset): (&String, &ToolsetHandle),
        is_first: bool,
    ) -> Result<(), DefinitionError> {
        for called in toolset.named() {
            let key = (agent.name.clone(), called);
            let owner = members.owners.entry(key.clone());
            let is_others = owner.or_insert_with(|| name.clone()) != name;
            if is_others && is_first && !members.is_known_of_another(&key, name) {
                return Err(collision(agent, &key.1));
            }
        }
        Ok(())
    }

    /// Gives an agent a tool of a toolset that it names alone, where the toolset has it now.
    fn give_single(
        &mut self,
        members: &mut Members,
        agent: &AgentSpec,
        name: &String,
        (set, toolset): (String, ToolsetHandle),
    ) {
        let key = (agent.name.clone(), name.clone());
        let tool = offered_by(&toolset, name);
        let Some(tool) = tool.and_then(|tool| offered_from(&tool, &set)) else {
            tracing::warn!(tool = %name, toolset = %set, agent = %agent.name, "a toolset no longer has a tool that an agent names; the agent goes on without it");
            return;
        };
        self.places.give_to(&agent.name, name, tool);
        members.owners.insert(key.clone(), set);
        members.of.insert(key, vec![name.clone()]);
    }

    /// The toolset that has a tool of this name, where nothing else is called so: a team may name single tools of a
    /// toolset, and the team of a run names all that it had when the run began. The toolset from which the agent had
    /// the tool before keeps it.
    ///
    /// # Errors
    /// Where several toolsets have a tool of this name: the order of their names must not decide which one is called.
    fn set_of_single(
        &self,
        members: &Members,
        path: &[String],
        agent: &AgentSpec,
        name: &str,
    ) -> Result<Option<(String, ToolsetHandle)>, DefinitionError> {
        let look_up = |set: &str| {
            Some(
                self.places
                    .look_up::<ToolsetHandle>(path, set)
                    .ok()??
                    .clone(),
            )
        };
        let recorded = agent.tool_sources.get(name);
        if let Some((owner, toolset)) = recorded.and_then(|owner| Some((owner, look_up(owner)?))) {
            return Ok(Some((owner.clone(), toolset)));
        }
        if !matches!(self.places.look_up::<ToolHandle>(path, name), Ok(None)) {
            return Ok(None);
        }
        let key = (agent.name.clone(), name.to_owned());
        if let Some(owner) = members.owners.get(&key) {
            return Ok(look_up(owner).map(|toolset| (owner.clone(), toolset)));
        }
        let sets = self.places.names_of::<ToolsetHandle>().into_iter();
        let mut sets = sets.filter_map(|set| {
            let toolset = look_up(set)?;
            offered_by(&toolset, name)?;
            Some((set.to_owned(), toolset))
        });
        let Some(first) = sets.next() else {
            return Ok(None);
        };
        match sets.find(|(_, toolset)| !toolset.is(&first.1)) {
            None => Ok(Some(first)),
            Some((other, _)) => Err(DefinitionError::ToolCollision {
                agent: agent.name.clone(),
                tool: name.to_owned(),
                source_of_one: format!("the toolset {:?}", first.0),
                source_of_other: format!("the toolset {other:?}"),
            }),
        }
    }

    /// Whether a toolset has other tools than when it was asked.
    pub(crate) fn toolsets_changed(&self) -> bool {
        let mut asked = self.members.asked.iter();
        asked.any(|(toolset, at)| toolset.revision() != *at)
    }

    /// A team whose agents name the tools of their toolsets instead of the toolsets.
    pub(super) fn with_members(&self, team: &TeamSpec) -> TeamSpec {
        let mut team = team.clone();
        if self.members.of.is_empty() {
            return team;
        }
        let mut open = vec![&mut team.agent];
        while let Some(agent) = open.pop() {
            self.name_members(agent);
            open.extend(agent.agents.iter_mut());
        }
        team
    }

    /// The names of an agent's own tools, with those of its toolsets.
    pub(super) fn own_tools_of<'a>(
        &'a self,
        agent: &'a AgentSpec,
    ) -> impl Iterator<Item = &'a String> {
        let tools = agent.tools.iter();
        tools.flat_map(|name| self.members.all(&agent.name, name))
    }

    fn name_members(&self, agent: &mut AgentSpec) {
        let named = agent.name.clone();
        let replaced = |tools: &mut Vec<String>| {
            let each = tools.iter().flat_map(|name| self.members.all(&named, name));
            *tools = each.cloned().collect();
        };
        replaced(&mut agent.tools);
        // Several toolsets may have a tool of one name: a run that is taken up goes on with the one that it had.
        for tool in &agent.tools {
            if let Some(set) = self.members.owners.get(&(named.clone(), tool.clone())) {
                agent.tool_sources.insert(tool.clone(), set.clone());
            }
        }
        let given = agent.create_agent.as_mut();
        let given = given.and_then(|create| create.tools.as_mut());
        given.into_iter().for_each(replaced);
        // A rule for a toolset applies to each of its tools that has no rule of its own.
        for (name, rule) in std::mem::take(&mut agent.approval) {
            match self.members.named(&named, &name) {
                Some(members) => {
                    for member in members {
                        agent
                            .approval
                            .entry(member.clone())
                            .or_insert_with(|| rule.clone());
                    }
                }
                None => {
                    agent.approval.insert(name, rule);
                }
            }
        }
    }

    /// Whether an agent may be said to have a tool of this name: it has it, or a toolset of it that
    /// has no tools now may.
    pub(super) fn may_have(&self, agent: &AgentSpec, tool: &str) -> bool {
        tools_of(agent).any(|name| {
            let members = self.members.named(&agent.name, name);
            name == tool
                || members.is_some_and(|members| members.iter().any(|member| member == tool))
                || self.members.failed.contains(name)
        })
    }

    /// The tools of an agent, and the toolsets, in words.
    pub(super) fn known_to(&self, agent: &AgentSpec) -> String {
        let each = tools_of(agent).flat_map(|name| {
            let members = self.members.named(&agent.name, name).unwrap_or_default();
            std::iter::once(name).chain(members)
        });
        listed(each)
    }
}

/// The tool of this name that a toolset has now.
fn offered_by(toolset: &ToolsetHandle, name: &str) -> Option<ToolHandle> {
    let tools = toolset.tools().ok()?;
    tools
        .iter()
        .find(|tool| tool.definition().name == name)
        .cloned()
}

/// The same tool, which says from which toolset it is, with a schema that providers accept. A tool that nothing could
/// call is left out with a warning, and the others of its toolset stay.
fn offered_from(tool: &ToolHandle, toolset: &str) -> Option<ToolHandle> {
    let mut definition = (**tool.definition()).clone();
    match legal_parameters(&definition.parameters) {
        Ok(Cow::Borrowed(_)) => {}
        Ok(Cow::Owned(legal)) => definition.parameters = legal,
        Err(reason) => {
            tracing::warn!(tool = %definition.name, %toolset, %reason, "a tool of a toolset is left out");
            return None;
        }
    }
    definition.source = Some(toolset.to_owned());
    Some(tool.clone().defined(definition))
}

fn collision(agent: &AgentSpec, tool: &str) -> DefinitionError {
    DefinitionError::Collision {
        place: format!("agent {:?}", agent.name),
        what: ToolHandle::WHAT,
        name: tool.to_owned(),
    }
}
