//! Routing of a task to the agent that fits it.

use std::{collections::BTreeMap, time::Duration};

use ghostlight_actors::{
    contract::ModelError,
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, Effect, Outcome, StopReason, ToolSet, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::member::{ask, check_members, check_name, members, task};
use crate::{
    behaviors::{AgentLoop, Prompt, below_instructions},
    models::EmbedderSpec,
    retrieval::routing::ExampleRouter,
};

const CHOOSE: &str = "\
Choose who is to do the user's task. Do not do it yourself. There are:
{members}

Answer with JSON only: {\"agent\": \"…\"}";

/// Gives the task to the one member that fits it, and returns that member's answer. The first rule
/// with a word in the task decides. If no rule fits, the member whose examples are nearest to the
/// task is chosen; if none is near enough, the agent's own model chooses by the members'
/// descriptions.
///
/// ```yaml
/// behavior:
///   name: router
///   rules: [{ words: [invoice, price], agent: billing }]
///   examples:
///     billing: [What do I owe you?, My card was charged twice.]
///     travel: [I need a hotel in Rome., When does the train leave?]
///   otherwise: front_desk
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Router {
    /// The members; all agents below when left out.
    pub members: Vec<String>,
    /// The rules; the first that fits decides.
    pub rules: Vec<Route>,
    /// Examples of the tasks of members: for each member a few, as people would write them.
    pub examples: BTreeMap<String, Vec<String>>,
    /// The embedder that compares a task with the examples. When left out, it compares by words,
    /// which needs no model.
    pub embedder: EmbedderSpec,
    /// How near the examples must be, from 0 to 1: the mean cosine of the nearest three.
    pub least_nearness: f64,
    /// How much nearer they must be than those of the next member.
    pub least_lead: f64,
    /// The member that takes a task that no rule fits, if the model is not asked or chooses nobody.
    pub otherwise: Option<String>,
    /// Whether the model is asked where no rule fits.
    pub ask_model: bool,
    /// How the model is asked: `{members}`.
    pub prompt: Prompt,
    /// The longest that the member may take.
    #[serde(rename = "member_timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub member_timeout: Option<Duration>,
}

/// A rule of a [`Router`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Route {
    /// The task has one of these words, whatever their letters' case. A word may have several parts, with spaces or
    /// hyphens between them, which follow each other in the task: `credit note`, `e-mail`.
    pub words: Vec<String>,
    /// The member that takes the task then.
    pub agent: String,
}

impl Route {
    /// Tasks with one of these words go to this agent.
    pub fn new<W: Into<String>>(
        words: impl IntoIterator<Item = W>,
        agent: impl Into<String>,
    ) -> Self {
        Self {
            words: words.into_iter().map(Into::into).collect(),
            agent: agent.into(),
        }
    }
}

impl Default for Router {
    fn default() -> Self {
        Self {
            members: Vec::new(),
            rules: Vec::new(),
            examples: BTreeMap::new(),
            embedder: EmbedderSpec::default(),
            least_nearness: 0.2,
            least_lead: 0.02,
            otherwise: None,
            ask_model: true,
            prompt: Prompt::new(CHOOSE),
            member_timeout: None,
        }
    }
}

#[derive(Deserialize)]
struct Choice {
    agent: String,
}

/// Whether this is a model that did not come to a choice. What a policy, a budget or a person stops
/// ends the router.
fn chose_nobody(error: &AgentError) -> bool {
    matches!(
        error.early_stop(),
        Some(
            StopReason::GaveUp(_)
                | StopReason::EmptyTurns(_)
                | StopReason::MaxSteps(_)
                | StopReason::Truncated
                | StopReason::ContentFilter
        )
    )
}

/// The parts of a text between all that is neither a letter nor a digit.
fn parts(text: &str) -> Vec<&str> {
    let parts = text.split(|c: char| !c.is_alphanumeric());
    parts.filter(|part| !part.is_empty()).collect()
}

/// Whether a character is of a script that writes words without spaces between them.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{2e80}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}')
}

impl Router {
    fn rule(&self, task: &str) -> Option<&str> {
        let task = task.to_lowercase();
        let said = parts(&task);
        let fits = |route: &&Route| {
            let mut wanted = route.words.iter().map(|word| word.to_lowercase());
            wanted.any(|word| {
                let wanted = parts(&word);
                let in_turn = || said.windows(wanted.len()).any(|parts| parts == wanted);
                // Without spaces a word has no bounds that could be seen.
                let is_inside = || word.chars().any(is_unspaced) && task.contains(word.trim());
                !wanted.is_empty() && (in_turn() || is_inside())
            })
        };
        self.rules
            .iter()
            .find(fits)
            .map(|route| route.agent.as_str())
    }

    /// The member with the nearest examples, if they are near enough. The choice is recorded, so a
    /// replay compares nothing again.
    async fn exemplified(&self, cx: &RunContext, task: &str) -> Result<Option<String>, AgentError> {
        if self.examples.is_empty() {
            return Ok(None);
        }
        let embedder = self.embedder.embedder().map_err(AgentError::failed)?;
        let examples = self.examples.iter().flat_map(|(member, examples)| {
            examples
                .iter()
                .map(move |example| (member.clone(), example.clone()))
        });
        let router = ExampleRouter::new(embedder, examples);
        let asked = task.to_owned();
        let nearest = cx.step("compare with examples", Effect::Read, async move {
            let nearest = router.nearest(&asked).await?;
            let pairs = nearest.into_iter().map(|near| (near.route, near.score));
            Ok::<_, ModelError>(pairs.collect::<Vec<_>>())
        });
        let nearest = match nearest.await {
            Ok(nearest) => nearest,
            // Without vectors, the model or `otherwise` decides.
            Err(error) => {
                cx.emit("examples_not_compared", &error.to_string());
                return Ok(None);
            }
        };
        let next = nearest
            .get(1)
            .map_or(f64::NEG_INFINITY, |(_, score)| *score);
        let best = nearest.into_iter().next();
        let near = best
            .filter(|(_, score)| *score >= self.least_nearness && score - next >= self.least_lead);
        Ok(near.map(|(member, _)| member))
    }

    /// The model's choice.
    async fn chosen(&self, cx: &RunContext) -> Result<String, AgentError> {
        let members = members(cx.spec(), &self.members, &[]);
        let about = |name: &&str| {
            let agent = cx.spec().agents.iter().find(|agent| agent.name == **name);
            let description = agent.map_or("", |agent| agent.description.as_str());
            format!("- {name}: {description}")
        };
        let list: Vec<String> = members.iter().map(about).collect();
        let prompt = self.prompt.fill(&[("members", &list.join("\n"))]);
        let schema = json!({
            "type": "object",
            "properties": {"agent": {"type": "string", "enum": members}},
            "required": ["agent"],
            "additionalProperties": false,
        });
        let mut chooser = AgentLoop::new(cx)?
            .instructions(below_instructions(&cx.agent().instructions, &prompt))
            .tools(ToolSet::default())
            .inner()
            .schema("choice", schema)?;
        let choice: Choice = chooser.run_as().await?;
        Ok(choice.agent)
    }
}

impl Behavior for Router {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let task = task(&cx);
        let decided = match self.rule(&task) {
            Some(agent) => Some(agent.to_owned()),
            None => self.exemplified(&cx, &task).await?,
        };
        let chosen = match (decided, &self.otherwise) {
            (Some(agent), _) => agent,
            (None, Some(otherwise)) if !self.ask_model => otherwise.clone(),
            (None, otherwise) => match (self.chosen(&cx).await, otherwise) {
                (Err(error), Some(otherwise)) if chose_nobody(&error) => otherwise.clone(),
                (chosen, _) => chosen?,
            },
        };
        cx.emit("routed", &json!({ "agent": chosen }));
        let wait = self.member_timeout;
        ask(&cx, &chosen, task.as_str(), wait)
            .await?
            .into_outcome(String::new())
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        for (place, route) in self.rules.iter().enumerate() {
            check_name(agent, &format!("rules[{place}]"), &route.agent)?;
            if route.words.is_empty() {
                return Err(format!("rules[{place}] needs at least one word"));
            }
            if let Some(word) = route.words.iter().find(|word| parts(word).is_empty()) {
                return Err(format!(
                    "rules[{place}]: the word {word:?} has no letter and no digit, so no task has it"
                ));
            }
        }
        for (member, examples) in &self.examples {
            check_name(agent, "examples", member)?;
            if examples.iter().all(|example| example.trim().is_empty()) {
                return Err(format!("examples.{member} needs at least one example"));
            }
        }
        if !self.examples.is_empty() {
            self.embedder
                .embedder()
                .map_err(|error| format!("embedder: {error}"))?;
        }
        if !self.ask_model && self.otherwise.is_none() {
            return Err("without ask_model it needs `otherwise`".to_owned());
        }
        if let Some(otherwise) = &self.otherwise {
            check_name(agent, "otherwise", otherwise)?;
        }
        check_members(agent, &self.members, &[], 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_several_parts_and_of_scripts_without_spaces_fire() {
        let rules = vec![
            Route::new(["credit note", "e-mail"], "billing"),
            Route::new(["发票"], "china"),
            Route::new(["art"], "museum"),
        ];
        let router = Router {
            rules,
            ..Router::default()
        };
        for (task, agent) in [
            ("Where is my Credit  Note?", Some("billing")),
            ("Send it by E-Mail.", Some("billing")),
            ("Send it by e mail.", Some("billing")),
            ("A note on my credit", None),
            ("我要发票", Some("china")),
            ("My cart is empty", None),
            ("Is this art?", Some("museum")),
        ] {
            assert_eq!(router.rule(task), agent, "{task}");
        }
    }
}
