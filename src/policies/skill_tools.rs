//! The tools of the skill that is in use.

use ghostlight_actors::{
    run::{BeforeTool, Policy, PolicyContext},
    vocabulary::{AgentError, ToolCall, ToolResult, ToolStatus},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Checked;

/// The tool that begins the use of a skill, and the one that reads its files.
const SKILL_TOOLS: [&str; 2] = ["use_skill", "read_skill_file"];
/// How the result of `use_skill` begins and ends the line that names the skill's tools.
const NAMED: (&str, &str) = ("(It is written for the tools ", ".)");

/// Holds an agent to the `allowed-tools` of the skill that it uses: from the end of `use_skill` to the end of the run, or
/// to the next skill, other tools than those are refused, and the model reads why. A skill that names no tools allows
/// all that the agent has.
///
/// A tool is named by its name, in any case of letters; what stands in brackets behind it, as in `Bash(git:*)`, is for other programs.
/// The names never give an agent a tool, or a call its approval: only the team does that.
///
/// ```yaml
/// policies: [{ name: skill_tools, always: [write_note] }]
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SkillTools {
    /// The tools that may be called whatever a skill names.
    pub always: Vec<String>,
    /// The tools that the skill in use names, if there is one that names some.
    #[serde(skip)]
    allowed: Option<Vec<String>>,
}

impl SkillTools {
    /// Lets this tool be called whatever a skill names.
    #[must_use]
    pub fn always(mut self, tool: impl Into<String>) -> Self {
        self.always.push(tool.into());
        self
    }
}

impl Checked for SkillTools {}

/// The tools that the result of `use_skill` names, on the last such line: what is above it is the skill's own text.
fn named(text: &str) -> Option<Vec<String>> {
    let line = text.lines().rev().find_map(|line| {
        let names = line.strip_prefix(NAMED.0)?;
        names.strip_suffix(NAMED.1)
    })?;
    let names = line.split(", ").map(|name| {
        let name = name.split('(').next().unwrap_or_default();
        name.trim().to_lowercase()
    });
    Some(names.filter(|name| !name.is_empty()).collect())
}

impl Policy for SkillTools {
    async fn before_tool(
        &mut self,
        _cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        let name = call.name.to_lowercase();
        let always = self.always.iter().map(|name| name.to_lowercase());
        let is_free =
            SKILL_TOOLS.contains(&name.as_str()) || always.into_iter().any(|free| free == name);
        let Some(allowed) = self.allowed.as_ref().filter(|_| !is_free) else {
            return Ok(BeforeTool::Go);
        };
        Ok(match allowed.contains(&name) {
            true => BeforeTool::Go,
            false => BeforeTool::blocked(
                call,
                format!(
                    "Not called: the skill in use is for {} alone. Go on with these, or use another skill.",
                    allowed.join(", ")
                ),
            ),
        })
    }

    async fn after_tools(
        &mut self,
        _cx: &PolicyContext<'_>,
        _calls: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        let used = results
            .iter()
            .rfind(|result| result.name == SKILL_TOOLS[0] && result.status == ToolStatus::Success);
        if let Some(used) = used {
            self.allowed = named(&used.text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_names_tools_counts_and_brackets_are_for_others() {
        let text = "(It is written for the tools everything.)\n\nDo it.\n\n(It is written for the tools Read, Bash(git:*).)\n\n\
                    (Its files, for `read_skill_file`: a.md.)";
        assert_eq!(named(text).unwrap(), ["read", "bash"]);
        assert_eq!(named("Do it."), None);
    }
}
