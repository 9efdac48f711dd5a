//! The code behind names, by the places that give them.
//!
//! An agent's own things are for it and the agents below it, a team's for all its agents, and a
//! System's for all its teams; the nearest place wins. So what one place calls by a name is never
//! used for the same name of another.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::makers::{MakeBehavior, MakeInterceptor, MakeModel, MakePolicy, MakeTool, MakeToolset};
use crate::{
    contract::{ModelHandle, ToolHandle, ToolsetHandle},
    definition::DefinitionError,
    vocabulary::listed,
};

/// Something that has a name.
pub(super) trait Named: Clone + 'static {
    /// The kind of thing, in words.
    const WHAT: &'static str;

    fn table(names: &Names) -> &BTreeMap<String, Self>;
    fn table_mut(names: &mut Names) -> &mut BTreeMap<String, Self>;
    /// Whether both are one thing.
    fn is_same(&self, other: &Self) -> bool;
}

macro_rules! named {
    ($($type:ty: $table:ident, $what:literal, $same:path;)*) => {
        /// The named things of one place.
        #[derive(Clone, Default)]
        pub(super) struct Names {
            $(pub(super) $table: BTreeMap<String, $type>,)*
            /// The names that were given to two different things. The last thing is kept.
            pub(super) twice: Vec<(&'static str, String)>,
        }

        impl Names {
            /// Adds the names of another place, which is the nearer one.
            fn extend(&mut self, other: Names) {
                $(self.$table.extend(other.$table);)*
                self.twice.extend(other.twice);
            }

            /// Tells each name with its kind.
            fn each_name(&self, mut take: impl FnMut(&'static str, &str)) {
                $(self.$table.keys().for_each(|name| take($what, name));)*
            }
        }

        $(impl Named for $type {
            const WHAT: &'static str = $what;

            fn table(names: &Names) -> &BTreeMap<String, Self> {
                &names.$table
            }

            fn table_mut(names: &mut Names) -> &mut BTreeMap<String, Self> {
                &mut names.$table
            }

            fn is_same(&self, other: &Self) -> bool {
                $same(self, other)
            }
        })*
    };
}

named! {
    ModelHandle: models, "model", ModelHandle::is;
    MakeModel: providers, "provider", Arc::ptr_eq;
    ToolHandle: tools, "tool", ToolHandle::is;
    MakeTool: tool_kinds, "kind of tool", Arc::ptr_eq;
    ToolsetHandle: toolsets, "toolset", ToolsetHandle::is;
    MakeToolset: toolset_kinds, "kind of toolset", Arc::ptr_eq;
    MakeBehavior: behaviors, "behavior", Arc::ptr_eq;
    MakePolicy: policies, "policy", Arc::ptr_eq;
    MakeInterceptor: interceptor_kinds, "interceptor", Arc::ptr_eq;
}

impl Names {
    /// Gives a name. Two different things under one are found when a team is resolved.
    pub(super) fn give<T: Named>(&mut self, name: String, thing: T) {
        let table = T::table_mut(self);
        let before = table.insert(name.clone(), thing.clone());
        if before.is_some_and(|before| !before.is_same(&thing)) {
            self.twice.push((T::WHAT, name));
        }
    }
}

/// The names of a registry, by place.
#[derive(Clone, Default)]
pub(super) struct Places {
    /// For all agents.
    pub(super) all: Names,
    /// For an agent and those below it.
    pub(super) agents: BTreeMap<String, Names>,
    /// The agents that have a thing of their own, by its kind and name: a team may have thousands of agents, and most names
    /// are nobody's own.
    owners: BTreeMap<&'static str, BTreeMap<String, BTreeSet<String>>>,
}

impl Places {
    pub(super) fn extend(&mut self, other: Self) {
        self.all.extend(other.all);
        for (agent, names) in other.agents {
            self.extend_agent(agent, names);
        }
    }

    fn extend_agent(&mut self, agent: String, names: Names) {
        names.each_name(|what, name| self.own(what, name, &agent));
        self.agents.entry(agent).or_default().extend(names);
    }

    /// Restricts the names for all agents to this agent and those below it.
    pub(super) fn narrow_to(&mut self, agent: &str) {
        let own = std::mem::take(&mut self.all);
        self.extend_agent(agent.to_owned(), own);
    }

    fn own(&mut self, what: &'static str, name: &str, agent: &str) {
        let names = self.owners.entry(what).or_default();
        let owners = names.entry(name.to_owned()).or_default();
        owners.insert(agent.to_owned());
    }

    /// Gives an agent a thing of its own.
    pub(super) fn give_to<T: Named>(&mut self, agent: &str, name: &str, thing: T) {
        let own = self.agents.entry(agent.to_owned()).or_default();
        T::table_mut(own).insert(name.to_owned(), thing);
        self.own(T::WHAT, name, agent);
    }

    /// Takes a thing of an agent's own from it.
    pub(super) fn take<T: Named>(&mut self, agent: &str, name: &str) {
        if let Some(own) = self.agents.get_mut(agent) {
            T::table_mut(own).remove(name);
        }
        if let Some(names) = self.owners.get_mut(T::WHAT)
            && let Some(owners) = names.get_mut(name)
        {
            owners.remove(agent);
            if owners.is_empty() {
                names.remove(name);
            }
        }
    }

    /// Whether an agent has a thing of its own of this name.
    pub(super) fn has<T: Named>(&self, agent: &str, name: &str) -> bool {
        let own = self.agents.get(agent);
        own.is_some_and(|own| T::table(own).contains_key(name))
    }

    /// The meaning of this name in the last of these agents, each of which is below the one
    /// before it. What only other agents have is found when they all have the same.
    ///
    /// # Errors
    /// The other agents, where they have different things of this name.
    pub(super) fn look_up<T: Named>(
        &self,
        path: &[String],
        name: &str,
    ) -> Result<Option<&T>, String> {
        let of = |agent: &String| {
            self.agents
                .get(agent)
                .and_then(|own| T::table(own).get(name))
        };
        let near = path.iter().rev().find_map(of);
        if let Some(found) = near.or_else(|| T::table(&self.all).get(name)) {
            return Ok(Some(found));
        }
        let owners = self.owners.get(T::WHAT).and_then(|names| names.get(name));
        let others = owners.into_iter().flatten();
        let others: Vec<(&String, &T)> = others
            .filter_map(|agent| Some((agent, of(agent)?)))
            .collect();
        let Some((_, first)) = others.first() else {
            return Ok(None);
        };
        if others.iter().all(|(_, other)| other.is_same(first)) {
            return Ok(Some(first));
        }
        let agents: Vec<String> = others
            .iter()
            .map(|(agent, _)| format!("{agent:?}"))
            .collect();
        Err(agents.join(", "))
    }

    /// The same, in a team's definition that is checked.
    pub(super) fn wanted<T: Named>(
        &self,
        path: &[String],
        name: &str,
        wanted_by: impl FnOnce() -> String,
    ) -> Result<&T, DefinitionError> {
        match self.look_up(path, name) {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(DefinitionError::Unknown {
                wanted_by: wanted_by(),
                what: T::WHAT,
                name: name.to_owned(),
                known: self.known::<T>(),
            }),
            Err(agents) => Err(DefinitionError::Ambiguous {
                wanted_by: wanted_by(),
                what: T::WHAT,
                name: name.to_owned(),
                agents,
            }),
        }
    }

    /// All things of a kind with their names, from the widest place on.
    pub(super) fn each<T: Named>(&self) -> impl Iterator<Item = (&str, &T)> {
        let all = std::iter::once(&self.all).chain(self.agents.values());
        let each = all.flat_map(|names| T::table(names));
        each.map(|(name, thing)| (name.as_str(), thing))
    }

    /// All names of a kind, in order.
    pub(super) fn names_of<T: Named>(&self) -> Vec<&str> {
        let own = self.owners.get(T::WHAT).into_iter().flatten();
        let own = own.map(|(name, _)| name.as_str());
        let all = T::table(&self.all).keys().map(String::as_str);
        let names: BTreeSet<&str> = all.chain(own).collect();
        names.into_iter().collect()
    }

    /// All names of a kind, in words.
    pub(super) fn known<T: Named>(&self) -> String {
        let names = self.names_of::<T>();
        let way = match T::WHAT {
            _ if !names.is_empty() => return listed(names),
            "behavior" | "policy" => "those of the library by `.registry(ghostlight::builtin())`",
            "model" => "one by `.model(\"default\", ..)`, or the agent by `Agent::model`",
            _ => return listed(names),
        };
        format!("none (give the System's builder {way})")
    }
}
