//! Choosing a behavior for each task.

use ghostlight_actors::{
    definition::BehaviorSpec,
    run::{Behavior, BehaviorHandle, RunContext},
    vocabulary::{AgentError, Outcome},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Checked, built_in, prompt::task};

/// Words that indicate work in several parts.
const COMPLEX_WORDS: [&str; 12] = [
    "analyze",
    "analyse",
    "compare",
    "evaluate",
    "research",
    "investigate",
    "plan",
    "several",
    "multiple",
    "comprehensive",
    "step",
    "steps",
];
/// The complexity of every task before anything is added.
const BASE: f64 = 0.5;
/// The complexity that a long task adds.
const LONG: f64 = 0.2;
/// The number of characters above which a task is long.
const LONG_CHARACTERS: usize = 200;
/// The complexity that each complex word adds.
const WORD: f64 = 0.1;
/// The complexity that many tools add.
const TOOLED: f64 = 0.1;
/// The number of tools from which an agent has many.
const MANY_TOOLS: usize = 6;

/// Chooses another behavior for each task: the first matching rule decides, and without one, the
/// complexity of the task.
///
/// The complexity is 0.5, plus 0.2 for a task of over 200 characters, plus 0.1 for each of the
/// `words` in it, plus 0.1 if the agent has over five tools, up to 1.0. A task above the threshold
/// gets the behavior `complex`, any other `simple`. The choice depends on nothing else, and is
/// reported to observers as the event `behavior_chosen`.
///
/// ```yaml
/// behavior:
///   name: adaptive
///   rules:
///     - { words: [translate], use: simple }
///   complex: { name: plan_and_solve, max_plan_steps: 5 }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Adaptive {
    /// Rules; the first that matches decides.
    pub rules: Vec<Rule>,
    /// The complexity above which a task is complex, from 0 to 1.
    pub threshold: f64,
    /// The words that make a task more complex, in lower case.
    pub words: Vec<String>,
    /// The behavior for tasks that are not complex.
    pub simple: BehaviorSpec,
    /// The behavior for complex tasks.
    pub complex: BehaviorSpec,
}

/// A rule of [`Adaptive`]. It matches when all its conditions hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Rule {
    /// The task contains one of these words, in upper or lower case; any task if empty.
    #[serde(default)]
    pub words: Vec<String>,
    /// The task has more characters than this.
    #[serde(default)]
    pub longer_than: Option<u32>,
    /// The task has at most this many characters.
    #[serde(default)]
    pub at_most: Option<u32>,
    /// The behavior for such a task.
    #[serde(rename = "use")]
    pub behavior: BehaviorSpec,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            threshold: 0.7,
            words: COMPLEX_WORDS.map(str::to_owned).to_vec(),
            simple: BehaviorSpec::new("function_calling"),
            complex: BehaviorSpec::new("rewoo"),
        }
    }
}

impl Checked for Adaptive {
    fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.threshold) {
            return Err("threshold must be from 0 to 1".to_owned());
        }
        let rules = self.rules.iter().enumerate();
        let rules = rules.map(|(place, rule)| (format!("rules[{place}].use"), &rule.behavior));
        let own = [("simple", &self.simple), ("complex", &self.complex)];
        let own = own.map(|(setting, spec)| (setting.to_owned(), spec));
        for (setting, spec) in rules.chain(own) {
            made(spec).map_err(|reason| format!("{setting}: {reason}"))?;
        }
        Ok(())
    }
}

fn made(spec: &BehaviorSpec) -> Result<BehaviorHandle, String> {
    if spec.name == "adaptive" {
        return Err("adaptive cannot choose itself".to_owned());
    }
    built_in(&spec.name, &spec.settings)
}

impl Adaptive {
    /// How complex a task is, from 0.5 to 1, for an agent with this many tools.
    pub fn complexity(&self, task: &str, tools: usize) -> f64 {
        let words = words_of(task);
        let found = self
            .words
            .iter()
            .filter(|word| words.contains(&word.to_lowercase()))
            .count();
        let mut complexity = BASE + WORD * found as f64;
        if task.chars().count() > LONG_CHARACTERS {
            complexity += LONG;
        }
        if tools >= MANY_TOOLS {
            complexity += TOOLED;
        }
        complexity.min(1.0)
    }

    /// The behavior for a task.
    fn choose(&self, task: &str, tools: usize) -> &BehaviorSpec {
        if let Some(rule) = self.rules.iter().find(|rule| rule.fits(task)) {
            return &rule.behavior;
        }
        // Sums of tenths are not exact in binary.
        if self.complexity(task, tools) > self.threshold + 1e-9 {
            &self.complex
        } else {
            &self.simple
        }
    }
}

impl Rule {
    fn fits(&self, task: &str) -> bool {
        let length = task.chars().count();
        let words = words_of(task);
        let has_word = || {
            self.words
                .iter()
                .any(|word| words.contains(&word.to_lowercase()))
        };
        (self.words.is_empty() || has_word())
            && self.longer_than.is_none_or(|bound| length > bound as usize)
            && self.at_most.is_none_or(|bound| length <= bound as usize)
    }
}

fn words_of(task: &str) -> Vec<String> {
    let words = task.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

impl Behavior for Adaptive {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let (task, tools) = (task(&cx), cx.agent().tools.len());
        let chosen = self.choose(&task, tools);
        let complexity = self.complexity(&task, tools);
        let event = serde_json::json!({"behavior": chosen.name, "complexity": complexity});
        cx.emit("behavior_chosen", &event);
        let behavior = made(chosen).map_err(AgentError::failed)?;
        behavior.run(cx).await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::behaviors::settings;

    #[test]
    fn complexity_adds_up() {
        let adaptive = Adaptive::default();
        let complexity = |task: &str, tools| (adaptive.complexity(task, tools) * 10.0).round();
        assert_eq!(complexity("hello", 0), 5.0);
        assert_eq!(complexity("Compare them.", 5), 6.0);
        assert_eq!(complexity("compare and Research them", 6), 8.0);
        assert_eq!(complexity("a companion, not a plane", 0), 5.0);
        assert_eq!(complexity(&"é".repeat(200), 0), 5.0);
        assert_eq!(complexity(&"é".repeat(201), 0), 7.0);
        let all = COMPLEX_WORDS.join(" ");
        assert_eq!(complexity(&all, 9), 10.0);
    }

    #[test]
    fn a_rule_goes_before_complexity_and_the_threshold_is_not_above_itself() {
        let set = json!({
            "rules": [
                {"words": ["Translate"], "use": "simple"},
                {"longer_than": 5, "at_most": 9, "use": {"name": "react", "max_steps": 3}},
            ],
            "complex": "plan_and_solve",
        });
        let adaptive = settings::<Adaptive>(&set).unwrap();
        let chosen = |task: &str| adaptive.choose(task, 0).name.as_str();
        assert_eq!(
            chosen("compare, research and TRANSLATE several plans"),
            "simple"
        );
        assert_eq!(chosen("sixsix"), "react");
        assert_eq!(
            chosen("compare and research what there is"),
            "function_calling"
        );
        assert_eq!(
            chosen("compare, research and plan what there is"),
            "plan_and_solve"
        );
    }

    #[test]
    fn wrong_settings_are_refused_with_the_place() {
        for (set, reason) in [
            (json!({"threshold": 2}), "threshold must be from 0 to 1"),
            (
                json!({"simple": "reakt"}),
                "simple: there is no built-in behavior \"reakt\"; there are: adaptive, function_calling",
            ),
            (
                json!({"complex": {"name": "react", "max_steps": 0}}),
                "complex: max_steps must be at least 1",
            ),
            (
                json!({"rules": [{"use": "adaptive"}]}),
                "rules[0].use: adaptive cannot choose itself",
            ),
            (json!({"rules": [{"words": ["x"]}]}), "missing field `use`"),
        ] {
            let told = settings::<Adaptive>(&set).unwrap_err();
            assert!(told.contains(reason), "{told}");
        }
    }
}
