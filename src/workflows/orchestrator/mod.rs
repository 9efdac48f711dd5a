//! A model divides the task into parts that depend on each other.

mod plan;
mod schedule;
mod xml;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt};
use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{
        AgentError, Effect, ErrorKind, OperationError, Outcome, StopReason, ToolCall, ToolSet,
        seconds,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use self::schedule::{Schedule, TaskEnd};
use super::{
    Utterance,
    conversation::{transcript, with_transcript},
    ends::{MemberEnd, stopped},
    member::{ask, at_least_one, called, check_name, task},
    tool_chain::{filled, first_argument},
};
use crate::behaviors::{AgentLoop, LoopOptions, Prompt, below_instructions};

pub use plan::{PlanError, PlannedTask, TaskPlan};
pub use xml::{XmlError, read_xml};

const PLAN: &str = "\
Do not do the user's task yourself. Break it down into tasks, each of which one of these does:
{processors}

A task gets the results of the tasks that it depends on, and begins when they are done; tasks that \
do not depend on each other are done side by side, those with the lower priority first.

{format}";

const AS_JSON: &str = "\
Answer with JSON only: {\"analysis\": \"…\", \"tasks\": [{\"id\": \"1\", \"processor\": \"…\", \
\"description\": \"…\", \"dependencies\": [], \"priority\": 0}]}. For a tool, put its arguments \
into \"metadata\"; in their texts {id} stands for the result of the task with that id.";

const AS_XML: &str = "\
Answer with your analysis and then:
<tasks>
<task id=\"1\" type=\"…\" processor=\"…\" priority=\"0\">
<description>…</description>
<dependencies><dep>…</dep></dependencies>
<metadata><item key=\"…\">…</item></metadata>
</task>
</tasks>
For a tool, put its arguments into the metadata; in their texts {id} stands for the result of the \
task with that id.";

/// A function that does tasks; see [`Orchestrator::function`].
type Process = Arc<
    dyn Fn(
            RunContext,
            PlannedTask,
            BTreeMap<String, String>,
        ) -> BoxFuture<'static, Result<String, AgentError>>
        + Send
        + Sync,
>;

/// The agent's own model divides the task into a plan. Each part is done by an agent below, a tool,
/// or a function, as soon as the parts that it depends on are done. Then an aggregator answers;
/// without one, the answer is a JSON object with all results.
///
/// A plan with a fault (an unknown dependency or processor, a circle) is returned to the model with
/// a description of the fault, up to a bound. A task whose dependency failed is skipped, and the
/// others continue. What the model wrote as its analysis goes to the aggregator, or stands in the answer. If a budget ended a task and there is no aggregator, or if the work ends early,
/// the results are the partial answer.
///
/// ```yaml
/// behavior: { name: orchestrator, max_at_once: 4, max_attempts: 2, aggregator: editor }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Orchestrator {
    /// How the model writes its plan.
    pub format: PlanFormat,
    /// How the plan is asked for, below the agent's instructions: `{processors}`, `{format}`.
    pub plan: Prompt,
    /// The agent below that answers from the task and all results.
    pub aggregator: Option<String>,
    /// The most tasks of a plan.
    pub max_tasks: u32,
    /// How often a plan with a fault is given back.
    pub max_repairs: u32,
    /// How many tasks are done at once.
    pub max_at_once: u32,
    /// Whether a task waits until all tasks of earlier phases have ended, and not only for its
    /// dependencies.
    pub phases: bool,
    /// The longest that one attempt of a task may take.
    #[serde(rename = "task_timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub task_timeout: Option<Duration>,
    /// How often a task is tried. A task is not tried again if its effect may have happened already
    /// (a call in doubt, or one with the effect `once` that took too long), or if somebody refused
    /// or cancelled it.
    pub max_attempts: u32,
    /// The longest pause before the second attempt; the real one is random.
    #[serde(rename = "retry_pause_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub retry_pause: Duration,
    /// By how much each further pause is longer.
    pub retry_multiplier: f64,
    /// Functions that do tasks.
    #[serde(skip)]
    functions: Functions,
    /// A function that reads plans.
    #[serde(skip)]
    parse: Parser,
}

type Parse = Arc<dyn Fn(&str) -> Result<Vec<PlannedTask>, String> + Send + Sync>;

#[derive(Clone, Default)]
struct Parser(Option<Parse>);

impl fmt::Debug for Parser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parser").field(&self.0.is_some()).finish()
    }
}

/// How a model writes its plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PlanFormat {
    /// As JSON, held to a schema where the server can.
    #[default]
    Json,
    /// As XML within its analysis, for models that write XML better.
    Xml,
}

#[derive(Clone, Default)]
struct Functions(BTreeMap<String, Process>);

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Default for Orchestrator {
    fn default() -> Self {
        Self {
            format: PlanFormat::Json,
            plan: Prompt::new(PLAN),
            aggregator: None,
            max_tasks: 32,
            max_repairs: 3,
            max_at_once: 8,
            phases: false,
            task_timeout: None,
            max_attempts: 1,
            retry_pause: Duration::from_secs(1),
            retry_multiplier: 2.0,
            functions: Functions::default(),
            parse: Parser::default(),
        }
    }
}

#[derive(Deserialize)]
struct Planned {
    #[serde(default)]
    analysis: String,
    tasks: Vec<PlannedTask>,
}

/// The most characters of a model's analysis that are kept.
const ANALYSIS: usize = 4_000;

/// The model's words around the section `<tasks>`.
fn around(text: &str) -> String {
    let before = text.split("<tasks").next().unwrap_or_default().trim_end();
    let fence = ["```xml", "```"].into_iter();
    let before = fence.fold(before, |said, fence| {
        said.strip_suffix(fence).unwrap_or(said)
    });
    let after = text
        .rsplit("</tasks>")
        .next()
        .unwrap_or_default()
        .trim_start();
    let after = after.strip_prefix("```").unwrap_or(after);
    let said = [before, after].map(str::trim).into_iter();
    let said = said.filter(|said| !said.is_empty());
    said.collect::<Vec<_>>().join("\n\n")
}

impl Orchestrator {
    /// Adds a function that does tasks under this name. It gets its own context, the task, and the
    /// results of the task's dependencies by their ids.
    #[must_use]
    pub fn function<F, Fut>(mut self, name: impl Into<String>, function: F) -> Self
    where
        F: Fn(RunContext, PlannedTask, BTreeMap<String, String>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, AgentError>> + Send + 'static,
    {
        let process: Process = Arc::new(move |cx, task, inputs| function(cx, task, inputs).boxed());
        self.functions.0.insert(name.into(), process);
        self
    }

    /// Every processor, with its description.
    fn processors<'a>(&'a self, cx: &'a RunContext) -> BTreeMap<&'a str, &'a str> {
        let aggregator = self.aggregator.as_deref();
        let agents = cx.spec().agents.iter();
        let agents = agents
            .filter(|agent| Some(agent.name.as_str()) != aggregator)
            .map(|agent| (agent.name.as_str(), agent.description.as_str()));
        let tools = cx.agent().tools.iter();
        let tools = tools.map(|tool| (tool.name.as_str(), tool.description.as_str()));
        let functions = self.functions.0.keys().map(|name| (name.as_str(), ""));
        functions.chain(tools).chain(agents).collect()
    }

    /// Reads plans by this function, whatever the format. The fault of a plan that cannot be read goes back to the model.
    /// It must come to the same for the same text, since it is called again in replay.
    #[must_use]
    pub fn parse_by<F>(mut self, parse: F) -> Self
    where
        F: Fn(&str) -> Result<Vec<PlannedTask>, String> + Send + Sync + 'static,
    {
        self.parse = Parser(Some(Arc::new(parse)));
        self
    }

    /// The model's analysis and the plan in its text, or the message that tells the model what to mend.
    fn read(&self, text: &str, known: &BTreeMap<&str, &str>) -> Result<(String, TaskPlan), String> {
        let (analysis, tasks) = match (&self.parse.0, self.format) {
            (Some(parse), _) => (String::new(), parse(text)?),
            (None, PlanFormat::Json) => {
                let planned: Planned =
                    serde_json::from_str(text).map_err(|error| error.to_string())?;
                (planned.analysis, planned.tasks)
            }
            (None, PlanFormat::Xml) => {
                let tasks = read_xml(text).map_err(|error| error.to_string())?;
                (around(text), tasks)
            }
        };
        let analysis = analysis.trim().chars().take(ANALYSIS).collect();
        let plan =
            TaskPlan::new(tasks, self.max_tasks as usize).map_err(|error| error.to_string())?;
        let unknown = plan
            .tasks()
            .iter()
            .find(|task| !known.contains_key(task.processor.as_str()));
        match unknown {
            Some(task) => {
                let names: Vec<&str> = known.keys().copied().collect();
                let error = PlanError::Processor {
                    task: task.id.clone(),
                    processor: task.processor.clone(),
                    known: names.join(", "),
                };
                Err(error.to_string())
            }
            None => Ok((analysis, plan)),
        }
    }

    /// The model's analysis, and its plan.
    async fn planned(&self, cx: &RunContext) -> Result<(String, TaskPlan), AgentError> {
        let known = self.processors(cx);
        let list: Vec<String> = known
            .iter()
            .map(|(name, about)| format!("- {name}: {about}"))
            .collect();
        let format = match self.format {
            PlanFormat::Json => AS_JSON,
            PlanFormat::Xml => AS_XML,
        };
        let prompt = self
            .plan
            .fill(&[("processors", &list.join("\n")), ("format", format)]);
        let mut planner = AgentLoop::new(cx)?
            .instructions(below_instructions(&cx.agent().instructions, &prompt))
            .tools(ToolSet::default())
            .options(LoopOptions::of_steps(self.max_repairs.saturating_add(8)))
            .inner();
        planner = match self.format {
            _ if self.parse.0.is_some() => planner.free_text(),
            PlanFormat::Json => planner.schema("plan", schema(&known))?,
            PlanFormat::Xml => planner.free_text(),
        };
        let mut reason = String::new();
        for _ in 0..=self.max_repairs {
            let text = match planner.run().await? {
                Outcome::Answer(answer) => answer.text,
                outcome => return Err(AgentError::early(outcome)),
            };
            match self.read(&text, &known) {
                Ok(read) => return Ok(read),
                Err(fault) => reason = fault,
            }
            cx.emit("plan_rejected", &json!({ "reason": reason }));
            planner.say(format!(
                "The plan cannot be carried out: {reason}. Write it again, whole."
            ));
        }
        let message = format!("the model made no plan that can be carried out: {reason}");
        Err(OperationError::new(ErrorKind::Plan, message).into())
    }

    /// Gives a task to its processor.
    async fn process(
        &self,
        cx: &RunContext,
        task: &PlannedTask,
        inputs: &BTreeMap<String, String>,
    ) -> Result<MemberEnd, AgentError> {
        let wait = self.task_timeout;
        let PlannedTask { processor, .. } = task;
        let is_function = self.functions.0.contains_key(processor);
        let is_agent = cx
            .spec()
            .agents
            .iter()
            .any(|agent| agent.name == *processor);
        if is_agent && !is_function {
            let said: Vec<Utterance> = inputs
                .iter()
                .map(|(id, text)| Utterance::new(format!("task {id}"), text.as_str()))
                .collect();
            return ask(
                cx,
                processor,
                with_transcript(&task.description, &said),
                wait,
            )
            .await;
        }
        let work = match self.functions.0.get(processor) {
            Some(function) => {
                let done = function(cx.lane(task.id.as_str()), task.clone(), inputs.clone());
                done.map(ended).boxed()
            }
            None => self.call(cx, task, inputs),
        };
        let Some(limit) = wait else {
            return work.await;
        };
        let elapsed = match cx.timeout(limit, work).await {
            Ok(end) => return end,
            Err(elapsed) => elapsed,
        };
        let tool = cx.agent().tools.get(processor);
        let error = match tool.filter(|_| !is_function) {
            Some(tool) if tool.effect == Effect::Once => {
                let message = format!("{elapsed}; it may or may not have happened");
                OperationError::new(ErrorKind::InDoubt, message)
            }
            _ => OperationError::new(ErrorKind::Timeout, elapsed.to_string()),
        };
        Ok(MemberEnd::Failed(error))
    }

    /// Calls the tool that does a task.
    fn call<'a>(
        &self,
        cx: &'a RunContext,
        task: &PlannedTask,
        inputs: &BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<MemberEnd, AgentError>> {
        let arguments = if task.metadata.is_empty() {
            let argument = first_argument(cx, &task.processor);
            json!({ argument: task.description })
        } else {
            filled(&Value::Object(task.metadata.clone()), &|id| {
                Some(inputs.get(id)?.as_str().into())
            })
        };
        let call = ToolCall::new(format!("task-{}", task.id), &task.processor, arguments);
        cx.tools([call]).map(called).boxed()
    }
}

/// The end of a task that a function did.
fn ended(done: Result<String, AgentError>) -> Result<MemberEnd, AgentError> {
    let error = match done {
        Ok(text) => return Ok(MemberEnd::Answered(text)),
        Err(error @ (AgentError::Diverged { .. } | AgentError::Ended)) => return Err(error),
        Err(AgentError::Early(outcome)) => {
            let text = outcome.text().to_owned();
            return match outcome.stop_reason() {
                Some(reason) => Ok(MemberEnd::Stopped(reason.clone(), text)),
                None => Ok(MemberEnd::Answered(text)),
            };
        }
        Err(AgentError::Operation(error)) => error,
        Err(error) => OperationError::new(ErrorKind::Other, error.to_string()),
    };
    match error.kind {
        ErrorKind::InDoubt | ErrorKind::Store => Err(error.into()),
        ErrorKind::Budget(resource) => {
            let reason = StopReason::BudgetExhausted(resource);
            Ok(MemberEnd::Stopped(reason, String::new()))
        }
        _ => Ok(MemberEnd::Failed(error)),
    }
}

/// The schema of a plan over these processors.
fn schema(known: &BTreeMap<&str, &str>) -> Value {
    let names: Vec<&str> = known.keys().copied().collect();
    json!({
        "type": "object",
        "properties": {
            "analysis": {"type": "string"},
            "tasks": {"type": "array", "minItems": 1, "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "type": {"type": "string"},
                    "processor": {"type": "string", "enum": names},
                    "description": {"type": "string"},
                    "dependencies": {"type": "array", "items": {"type": "string"}},
                    "priority": {"type": "integer"},
                    "metadata": {"type": "object"},
                },
                "required": ["id", "processor", "description"],
            }},
        },
        "required": ["tasks"],
    })
}

/// The results of a plan, as an answer, with the model's analysis if it gave one.
fn report(plan: &TaskPlan, ends: &[Option<TaskEnd>], analysis: &str) -> String {
    let (mut done, mut failed, mut skipped) = (Map::new(), Map::new(), Map::new());
    for (task, end) in plan.tasks().iter().zip(ends) {
        let (group, told) = match end {
            None => (&mut skipped, "the work ended before".to_owned()),
            Some(TaskEnd::Tried(end)) if end.is_answer() => (&mut done, end.told()),
            Some(TaskEnd::Tried(end)) => (&mut failed, end.told()),
            Some(TaskEnd::Skipped(need)) => (&mut skipped, format!("needs {need}")),
        };
        group.insert(task.id.clone(), told.into());
    }
    let mut report = json!({ "completed": done, "failed": failed, "skipped": skipped });
    if !analysis.is_empty() {
        report["analysis"] = analysis.into();
    }
    report.to_string()
}

impl Behavior for Orchestrator {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let (analysis, plan) = self.planned(&cx).await?;
        let mut told = json!({ "tasks": plan.tasks() });
        if !analysis.is_empty() {
            told["analysis"] = analysis.clone().into();
        }
        cx.emit("plan", &told);
        let schedule = Schedule {
            cx: &cx,
            plan: &plan,
            settings: self,
        };
        let ends = schedule.run().await?;
        let report = report(&plan, &ends, &analysis);
        let mut tried = ends.iter().flatten().filter_map(|end| match end {
            TaskEnd::Tried(end) => Some(end),
            TaskEnd::Skipped(_) => None,
        });
        if let Some(leaves) = tried.find(|end| end.leaves()) {
            // What the one made that ends the work is its own answer, if nobody else made any.
            let made = ends.iter().flatten().filter(|end| end.has_made()).count();
            let others = made > usize::from(leaves.made().is_some());
            return leaves
                .clone()
                .into_outcome(if others { report } else { String::new() });
        }
        let Some(aggregator) = &self.aggregator else {
            return Ok(match ends.iter().flatten().find_map(TaskEnd::exhausted) {
                Some(reason) => stopped(reason.clone(), report),
                None => Outcome::answer(report),
            });
        };
        let told = |end: &TaskEnd| match end {
            TaskEnd::Tried(end) => end.told(),
            TaskEnd::Skipped(need) => format!("[not done: it needs task {need}]"),
        };
        let said: Vec<Utterance> = plan
            .tasks()
            .iter()
            .zip(ends.iter().flatten())
            .map(|(task, end)| {
                Utterance::new(format!("task {}: {}", task.id, task.description), told(end))
            })
            .collect();
        let analysis = match analysis.is_empty() {
            true => String::new(),
            false => format!("\n\nThe analysis:\n\n{analysis}"),
        };
        let asked = format!(
            "{}{analysis}\n\nThe results:\n\n{}",
            task(&cx),
            transcript(&said)
        );
        let answered = ask(&cx, aggregator, asked, self.task_timeout).await?;
        answered.into_outcome_after(aggregator, vec![Utterance::new("the tasks", report)])
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        at_least_one("max_tasks", Some(self.max_tasks))?;
        at_least_one("max_at_once", Some(self.max_at_once))?;
        at_least_one("max_attempts", Some(self.max_attempts))?;
        if !(1.0..=100.0).contains(&self.retry_multiplier) {
            return Err("retry_multiplier must be from 1 to 100".to_owned());
        }
        if let Some(aggregator) = &self.aggregator {
            check_name(agent, "aggregator", aggregator)?;
        }
        let agents = agent.agents.len() - usize::from(self.aggregator.is_some());
        if agents + agent.tools.len() + self.functions.0.len() == 0 {
            return Err(format!(
                "nobody can do its tasks: put agents below {}, or give it tools",
                agent.name
            ));
        }
        Ok(())
    }
}
