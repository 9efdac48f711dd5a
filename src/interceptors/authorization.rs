use std::sync::OnceLock;

use ghostlight_actors::{
    contract::{Interceptor, NextTool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, Effect},
};
use regex::RegexSet;
use serde::Deserialize;

use super::{GUARDED, GuardAction, GuardDecision, GuardedPoint};

/// Decides which agents may call which tools. What is said of an agent holds for the agents that it makes too, whatever
/// they are called. A forbidden call is not made: the model reads that it
/// was denied, and observers get a [`GuardDecision`].
///
/// Names are patterns, in which `*` stands for any characters and `?` for one. A blocked tool stays
/// blocked even if another rule allows it. Without a rule that allows names, every tool that is not
/// blocked is allowed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Authorization {
    agents: Vec<String>,
    allowed: Vec<String>,
    blocked: Vec<String>,
    effects: Vec<Effect>,
    #[serde(skip)]
    names: OnceLock<Result<Names, String>>,
}

#[derive(Clone, Debug)]
struct Names {
    agents: RegexSet,
    allowed: RegexSet,
    blocked: RegexSet,
}

impl Authorization {
    /// An authorization without rules, which allows everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies the rules to the agents of these names only; to all agents if there are no names.
    #[must_use]
    pub fn agents<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.agents.extend(names.into_iter().map(Into::into));
        self
    }

    /// Allows tools of these names, and no others.
    #[must_use]
    pub fn allow<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.allowed.extend(names.into_iter().map(Into::into));
        self
    }

    /// Blocks tools of these names.
    #[must_use]
    pub fn block<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.blocked.extend(names.into_iter().map(Into::into));
        self
    }

    /// Allows tools with these effects, and no others.
    #[must_use]
    pub fn effects(mut self, effects: impl IntoIterator<Item = Effect>) -> Self {
        self.effects.extend(effects);
        self
    }

    pub(super) fn checked(self) -> Result<Self, String> {
        self.names()?;
        Ok(self)
    }

    fn names(&self) -> Result<&Names, String> {
        let names = self.names.get_or_init(|| {
            Ok(Names {
                agents: patterns(&self.agents)?,
                allowed: patterns(&self.allowed)?,
                blocked: patterns(&self.blocked)?,
            })
        });
        names.as_ref().map_err(Clone::clone)
    }

    /// Why a call may not be made by an agent with these names, of which the first is its own.
    fn refusal<'a>(
        &self,
        mut agents: impl Iterator<Item = &'a str> + Clone,
        tool: &str,
        effect: Effect,
    ) -> Option<String> {
        let names = match self.names() {
            Ok(names) => names,
            Err(fault) => return Some(format!("nothing may be called: {fault}")),
        };
        if !self.agents.is_empty() && !agents.clone().any(|agent| names.agents.is_match(agent)) {
            return None;
        }
        let allowed = self.allowed.is_empty() || names.allowed.is_match(tool);
        let effective = self.effects.is_empty() || self.effects.contains(&effect);
        let may = allowed && effective && !names.blocked.is_match(tool);
        (!may).then(|| {
            let agent = agents.next().unwrap_or_default();
            let made_by: Vec<&str> = agents.collect();
            match made_by.is_empty() {
                true => format!("the agent {agent} is not authorised to call {tool}"),
                false => format!(
                    "the agent {agent}, which {} made, is not authorised to call {tool}",
                    made_by.join(" and ")
                ),
            }
        })
    }
}

/// Names in which `*` stands for any characters and `?` for one.
fn patterns(names: &[String]) -> Result<RegexSet, String> {
    let pattern = |name: &String| {
        let name = regex::escape(name).replace(r"\*", ".*").replace(r"\?", ".");
        format!("(?s)^{name}$")
    };
    RegexSet::new(names.iter().map(pattern)).map_err(|error| error.to_string())
}

impl Interceptor for Authorization {
    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let definition = next.definition();
        match self.refusal(cx.agents(), &definition.name, definition.effect) {
            Some(reason) => {
                let (at, did) = (GuardedPoint::Arguments, GuardAction::Refused);
                let decision = GuardDecision::new("authorization", at, did, &*reason);
                next.emit(GUARDED, &decision);
                Err(ToolError::denied(reason))
            }
            None => next.call(arguments, cx).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_blocked_stays_blocked_and_what_nobody_names_is_left_alone() {
        let rules = Authorization::new()
            .agents(["desk*"])
            .allow(["read_*", "file.?"])
            .block(["*_admin"]);
        let may = |agent, tool| {
            rules
                .refusal([agent].into_iter(), tool, Effect::Read)
                .is_none()
        };
        for (agent, tool, expected) in [
            ("desk", "read_mail", true),
            ("desk", "file.a", true),
            ("desk", "fileXa", false),
            ("desk", "file.ab", false),
            ("desk-2", "write_mail", false),
            ("desk", "read_admin", false),
            ("clerk", "read_admin", true),
        ] {
            assert_eq!(may(agent, tool), expected, "{agent} {tool}");
        }
        let readers = Authorization::new().effects([Effect::Read, Effect::Idempotent]);
        assert!(
            readers
                .refusal(["a"].into_iter(), "x", Effect::Once)
                .is_some()
        );
        assert!(
            readers
                .refusal(["a"].into_iter(), "x", Effect::Idempotent)
                .is_none()
        );
    }
}
