//! A planner divides the task, workers do the parts, an aggregator answers.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt as _};
use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, ErrorKind, OperationError, Outcome, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    OnFailure, Utterance,
    conversation::with_transcript,
    ends::MemberEnd,
    member::{Part, ask, ask_all, at_least_one, check_members, members, task},
};
use crate::behaviors::Prompt;

const PLAN: &str = "\
{task}

Do not do this yourself. Divide it into parts that can be done side by side by these workers:
{workers}

Answer with one line for each part: `worker: what it is to do`, and nothing else.";

/// A planner divides the task into parts, the workers do them side by side, and the aggregator
/// answers from their results.
///
/// Each line of the plan is a part. A line that begins with a worker's name and a colon, perhaps
/// behind the mark of a list or in Markdown (`1. **beta**: …`), goes to that worker; the others go to the workers in turn, in the order of their names.
///
/// ```yaml
/// behavior: { name: fan_out, planner: lead, aggregator: editor, max_at_once: 4 }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FanOut {
    /// The agent below that divides the task.
    pub planner: String,
    /// The agent below that answers.
    pub aggregator: String,
    /// The workers; all other agents below when left out.
    pub members: Vec<String>,
    /// How the plan is asked for: `{task}`, `{workers}`.
    pub plan: Prompt,
    /// The most parts; a longer plan fails before any work.
    pub max_parts: u32,
    /// How many parts are done at once.
    pub max_at_once: u32,
    /// The reaction to a worker that fails: the whole work stops, or the aggregator is told.
    pub on_failure: OnFailure,
    /// The longest that one part may take.
    #[serde(rename = "part_timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub part_timeout: Option<Duration>,
    /// Functions instead of our own.
    #[serde(skip)]
    own: Own,
}

type Parse = Arc<dyn Fn(&str, &[&str]) -> Vec<(Option<String>, String)> + Send + Sync>;
type Aggregate = Arc<
    dyn Fn(RunContext, String, Vec<Utterance>) -> BoxFuture<'static, Result<String, AgentError>>
        + Send
        + Sync,
>;

/// A program's own functions. They are equal if they are the same.
#[derive(Clone, Default)]
struct Own {
    parse: Option<Parse>,
    aggregate: Option<Aggregate>,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own")
            .field("parse", &self.parse.is_some())
            .field("aggregate", &self.aggregate.is_some())
            .finish()
    }
}

impl PartialEq for Own {
    fn eq(&self, other: &Self) -> bool {
        let parse = match (&self.parse, &other.parse) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        parse
            && match (&self.aggregate, &other.aggregate) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (one, other) => one.is_none() && other.is_none(),
            }
    }
}

impl FanOut {
    /// Reads plans by this function, from the planner's text and the names of the workers. Each part is a task, with the
    /// worker that does it; without one, or with an unknown one, the workers get it in turn. It must come to the same for the
    /// same text, since it is called again in replay.
    #[must_use]
    pub fn parse_by<F>(mut self, parse: F) -> Self
    where
        F: Fn(&str, &[&str]) -> Vec<(Option<String>, String)> + Send + Sync + 'static,
    {
        self.own.parse = Some(Arc::new(parse));
        self
    }

    /// Answers by this function, instead of an aggregator: from the task, and what each worker said.
    #[must_use]
    pub fn aggregate_by<F, Fut>(mut self, aggregate: F) -> Self
    where
        F: Fn(RunContext, String, Vec<Utterance>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, AgentError>> + Send + 'static,
    {
        let aggregate: Aggregate =
            Arc::new(move |cx, task, said| aggregate(cx, task, said).boxed());
        self.own.aggregate = Some(aggregate);
        self
    }

    /// The parts of a plan. `workers` is not empty.
    fn parts(&self, plan: &str, workers: &[&str]) -> Vec<Part> {
        let Some(parse) = &self.own.parse else {
            return parts(plan, workers);
        };
        let mut sorted = workers.to_vec();
        sorted.sort_unstable();
        let mut in_turn = sorted.iter().cycle();
        let parts = parse(plan, workers).into_iter();
        parts
            .filter_map(|(worker, task)| {
                let known = workers
                    .iter()
                    .find(|known| worker.as_deref() == Some(**known));
                let worker = known.or_else(|| in_turn.next())?;
                Some(Part::new(worker, &task).named(format!("{worker}: {task}")))
            })
            .collect()
    }
}

impl Default for FanOut {
    fn default() -> Self {
        Self {
            planner: "planner".to_owned(),
            aggregator: "aggregator".to_owned(),
            members: Vec::new(),
            plan: Prompt::new(PLAN),
            max_parts: 32,
            max_at_once: 8,
            on_failure: OnFailure::Stop,
            part_timeout: None,
            own: Own::default(),
        }
    }
}

/// A line without the marks of a list before it: `-`, `*`, `•`, `1.`, `2)`, `(3)`, `[ ]`.
fn without_marks(line: &str) -> &str {
    let mut line = line.trim();
    loop {
        let number = line.trim_start_matches('(');
        let after = number.trim_start_matches(|c: char| c.is_ascii_digit());
        let rest = if after.len() < number.len() {
            after.strip_prefix(['.', ')'])
        } else {
            let mark = line
                .strip_prefix("[ ]")
                .or_else(|| line.strip_prefix("[x]"));
            // `**name**` is not a mark of a list, but `* name` is.
            mark.or_else(|| line.strip_prefix(['-', '*', '+', '•', '–', '#', '>']))
        };
        match rest {
            Some(rest) if rest.starts_with(char::is_whitespace) || rest.starts_with('#') => {
                line = rest.trim_start();
            }
            _ => return line,
        }
    }
}

/// A text without the marks of Markdown around it.
fn without_emphasis(text: &str) -> &str {
    text.trim_matches(['`', '*', '_', '"', ' '])
}

/// The worker that a line names before a colon, and its task.
fn named<'w, 'l>(line: &'l str, workers: &[&'w str]) -> Option<(&'w str, &'l str)> {
    let (name, task) = line.split_once([':', '：'])?;
    // Inside of the emphasis there may be a mark too: `**1. beta**`.
    let name = without_emphasis(without_marks(without_emphasis(name)));
    let exact = workers.iter().find(|worker| **worker == name);
    let alike = || {
        workers
            .iter()
            .find(|worker| worker.eq_ignore_ascii_case(name))
    };
    let worker = exact.or_else(alike)?;
    Some((worker, without_emphasis(task)))
}

/// The parts of a plan. `workers` is not empty.
fn parts(plan: &str, workers: &[&str]) -> Vec<Part> {
    let mut sorted = workers.to_vec();
    sorted.sort_unstable();
    let mut in_turn = sorted.iter().cycle();
    let lines = plan.lines().map(without_marks);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("```"))
        .filter_map(|line| named(line, workers).or_else(|| Some((*in_turn.next()?, line))))
        .map(|(worker, task)| Part::new(worker, task).named(format!("{worker}: {task}")))
        .collect()
}

impl Behavior for FanOut {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let task = task(&cx);
        let workers = members(
            cx.spec(),
            &self.members,
            &[Some(&self.planner), Some(&self.aggregator)],
        );
        let about: BTreeMap<&str, &str> = cx
            .spec()
            .agents
            .iter()
            .map(|agent| (agent.name.as_str(), agent.description.as_str()))
            .collect();
        let list: Vec<String> = workers
            .iter()
            .map(|worker| format!("- {worker}: {}", about.get(worker).unwrap_or(&"")))
            .collect();
        let asked = self
            .plan
            .fill(&[("task", task.as_str()), ("workers", &list.join("\n"))]);
        let wait = self.part_timeout;
        let planned = ask(&cx, &self.planner, asked, wait).await?;
        if !planned.is_answer() {
            return planned.into_outcome(String::new());
        }
        let parts = self.parts(&planned.told(), &workers);
        if parts.is_empty() || parts.len() > self.max_parts as usize {
            let message = format!(
                "the plan of {} has {} parts, and must have 1 to {} (`max_parts`)",
                self.planner,
                parts.len(),
                self.max_parts
            );
            return Err(OperationError::new(ErrorKind::Plan, message).into());
        }
        let told: Vec<_> = parts
            .iter()
            .map(|part| serde_json::json!({"worker": part.member, "task": part.task}))
            .collect();
        cx.emit("plan", &serde_json::json!({ "parts": told }));
        let stops = |end: &MemberEnd| self.on_failure.ends_by(end);
        let ends = ask_all(&cx, parts, Some(self.max_at_once), wait, stops).await?;
        if let Some(end) = ends.ending(stops) {
            return end;
        }
        if let Some(aggregate) = &self.own.aggregate {
            let text = aggregate(cx.lane("aggregator"), task, ends.told()).await?;
            return Ok(Outcome::answer(text));
        }
        let asked = with_transcript(&task, &ends.told());
        let answered = ask(&cx, &self.aggregator, asked, wait).await?;
        answered.into_outcome_after(&self.aggregator, ends.made())
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        at_least_one("max_parts", Some(self.max_parts))?;
        at_least_one("max_at_once", Some(self.max_at_once))?;
        let others = [
            ("planner", Some(self.planner.as_str())),
            (
                "aggregator",
                Some(self.aggregator.as_str()).filter(|_| self.own.aggregate.is_none()),
            ),
        ];
        check_members(agent, &self.members, &others, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_lines_go_to_their_worker_and_others_in_turn() {
        let plan = "- beta: look\n\n```\nread it: twice\n* write\n`alpha`: add\nagain";
        let parts = parts(plan, &["beta", "alpha"]);
        let parts: Vec<(&str, &str)> = parts
            .iter()
            .map(|part| (part.member.as_str(), part.task.as_str()))
            .collect();
        assert_eq!(
            parts,
            [
                ("beta", "look"),
                ("alpha", "read it: twice"),
                ("beta", "write"),
                ("alpha", "add"),
                ("alpha", "again"),
            ]
        );
    }

    #[test]
    fn a_name_is_read_behind_the_marks_of_a_list_and_in_markdown() {
        for line in [
            "1. **beta**: weigh",
            "2) `beta`: weigh",
            "(3) beta: weigh",
            "- [ ] **beta:** weigh",
            "**4. beta**: weigh",
            "### Beta: weigh",
            "• __beta__：weigh",
            "**beta**: weigh",
        ] {
            let parts = parts(line, &["alpha", "beta"]);
            let parts: Vec<(&str, &str)> = parts
                .iter()
                .map(|part| (part.member.as_str(), part.task.as_str()))
                .collect();
            assert_eq!(parts, [("beta", "weigh")], "{line}");
        }
        let parts = parts("1. read\n2.5 litres of water", &["alpha"]);
        assert_eq!(parts[0].task, "read");
        assert_eq!(parts[1].task, "2.5 litres of water");
    }
}
