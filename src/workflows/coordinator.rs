//! A model that assigns tasks over several rounds.

use std::time::Duration;

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, Message, Outcome, StopReason, ToolSet, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Utterance,
    conversation::transcript,
    ends::{Ends, MemberEnd},
    member::{Part, ask_all, at_least_one, check_members, members},
};
use crate::behaviors::{AgentLoop, LoopOptions, Prompt, below_instructions};

const LEAD: &str = "\
You coordinate these workers, and do none of the work yourself:
{members}

In each round answer with JSON only. To hand out work that can be done side by side:
{\"tasks\": [{\"worker\": \"…\", \"task\": \"…\"}]}
A worker sees only its task, so write it complete. When the results are enough, answer the user:
{\"answer\": \"…\"}";

const LAST: &str = "\
There are no more rounds. Answer the user now from the results that there are, and say what is \
missing: {\"answer\": \"…\"}";

const BLANK: &str = "\
That hands out no task and gives no answer. Give one of both.";

/// The agent's own model assigns tasks to the members, round after round, reads their results, and
/// answers. After the last round it is asked for an answer from the results so far.
///
/// A coordinator that neither assigns a task nor answers is asked again.
///
/// A worker that fails does not end the work: the model is told, and can hand the task to
/// another one.
///
/// ```yaml
/// behavior: { name: coordinator, max_rounds: 4, max_at_once: 4 }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Coordinator {
    /// The workers; all agents below when left out.
    pub members: Vec<String>,
    /// The most rounds of work.
    pub max_rounds: u32,
    /// The most tasks of one round; those beyond it are told not to have run.
    pub max_tasks: u32,
    /// How many tasks are done at once.
    pub max_at_once: u32,
    /// The prompt for the model, below the agent's instructions: `{members}`.
    pub lead: Prompt,
    /// How the answer is asked for after the last round.
    pub last: Prompt,
    /// The longest that one task may take.
    #[serde(rename = "task_timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub task_timeout: Option<Duration>,
}

impl Default for Coordinator {
    fn default() -> Self {
        Self {
            members: Vec::new(),
            max_rounds: 5,
            max_tasks: 16,
            max_at_once: 8,
            lead: Prompt::new(LEAD),
            last: Prompt::new(LAST),
            task_timeout: None,
        }
    }
}

#[derive(Deserialize)]
struct Round {
    #[serde(default)]
    tasks: Vec<Handed>,
    answer: Option<String>,
}

impl Round {
    fn is_blank(&self) -> bool {
        let answer = self.answer.as_deref().unwrap_or_default();
        self.tasks.is_empty() && answer.trim().is_empty()
    }
}

#[derive(Deserialize)]
struct Handed {
    worker: String,
    task: String,
}

impl Coordinator {
    fn instructions(&self, cx: &RunContext, workers: &[&str]) -> String {
        let about = |name: &&str| {
            let agent = cx.spec().agents.iter().find(|agent| agent.name == **name);
            format!("- {name}: {}", agent.map_or("", |agent| &agent.description))
        };
        let list: Vec<String> = workers.iter().map(about).collect();
        let prompt = self.lead.fill(&[("members", &list.join("\n"))]);
        below_instructions(&cx.agent().instructions, &prompt)
    }

    /// Does these tasks of a round, and returns the end of each. A worker that ends the whole work
    /// stops the others.
    async fn work(&self, cx: &RunContext, tasks: Vec<Handed>) -> Result<Ends, AgentError> {
        let parts: Vec<Part> = tasks
            .into_iter()
            .map(|Handed { worker, task }| {
                let name = format!("{worker}: {task}");
                Part::new(&worker, task).named(name)
            })
            .collect();
        let wait = self.task_timeout;
        ask_all(cx, parts, Some(self.max_at_once), wait, leaves).await
    }
}

/// Whether a worker's end ends the whole work. An escalation goes to the model that assigned the task.
fn leaves(end: &MemberEnd) -> bool {
    matches!(end, MemberEnd::Stopped(StopReason::LoopExited, _))
}

/// A stop with the workers' results as its partial answer, if there are any.
fn with_results(mut outcome: Outcome, done: &[String]) -> Outcome {
    if let Outcome::Stopped { partial, .. } = &mut outcome
        && !done.is_empty()
    {
        partial.get_or_insert_default().text = done.join("\n\n");
    }
    outcome
}

impl Behavior for Coordinator {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let workers = members(cx.spec(), &self.members, &[]);
        let instructions = self.instructions(&cx, &workers);
        let schema = json!({
            "type": "object",
            "properties": {
                "tasks": {"type": "array", "items": {
                    "type": "object",
                    "properties": {
                        "worker": {"type": "string", "enum": workers},
                        "task": {"type": "string", "minLength": 1},
                    },
                    "required": ["worker", "task"],
                }},
                "answer": {"type": "string"},
            },
        });
        let mut conversation = cx.conversation();
        let begin = conversation.len();
        let mut done: Vec<String> = Vec::new();
        for round in 1..=self.max_rounds.saturating_add(1) {
            let mut lead = AgentLoop::new(&cx)?
                .instructions(instructions.as_str())
                .tools(ToolSet::default())
                .conversation(conversation)
                .begun_at(begin)
                .options(LoopOptions::of_steps(8))
                .inner()
                .schema("round", schema.clone())?;
            let handed = loop {
                let handed = lead.run_as::<Round>().await;
                match handed.map_err(|end| end.map_early(|end| with_results(end, &done)))? {
                    handed if handed.is_blank() => lead.say(BLANK),
                    handed => break handed,
                }
            };
            if handed.tasks.is_empty() {
                return Ok(lead.answer(handed.answer.unwrap_or_default()));
            }
            if round > self.max_rounds {
                let stopped = lead.stop(StopReason::MaxSteps(self.max_rounds));
                let partial = handed.answer.filter(|answer| !answer.trim().is_empty());
                return Ok(with_results(
                    stopped,
                    &partial.map_or(done, |answer| vec![answer]),
                ));
            }
            cx.emit(
                "round",
                &json!({ "round": round, "tasks": handed.tasks.len() }),
            );
            conversation = lead.transcript().clone();
            let mut tasks = handed.tasks;
            let beyond = tasks.split_off(tasks.len().min(self.max_tasks as usize));
            let ends = self.work(&cx, tasks).await?;
            if let Some(end) = ends.iter().find(|end| leaves(end)) {
                let made = transcript(&ends.made());
                done.extend((!made.is_empty()).then_some(made));
                return end.clone().into_outcome(done.join("\n\n"));
            }
            let mut told = ends.told();
            told.extend(beyond.into_iter().map(|Handed { worker, task }| {
                let bound = self.max_tasks;
                let told = format!("[not done: a round has at most {bound} tasks]");
                Utterance::new(format!("{worker}: {task}"), told)
            }));
            let mut results = transcript(&told);
            done.push(results.clone());
            if round == self.max_rounds {
                results = format!("{results}\n\n{}", self.last);
            }
            conversation.push(Message::synthetic(results));
        }
        let stopped = Outcome::stopped(StopReason::MaxSteps(self.max_rounds));
        Ok(with_results(stopped, &done))
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        at_least_one("max_rounds", Some(self.max_rounds))?;
        at_least_one("max_tasks", Some(self.max_tasks))?;
        at_least_one("max_at_once", Some(self.max_at_once))?;
        check_members(agent, &self.members, &[], 1)
    }
}
