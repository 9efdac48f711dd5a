//! Planning first, then solving one step after another.

mod plan;

use ghostlight_actors::{
    run::{Behavior, GoalEnd, GoalStatus, HookContext, RunContext},
    vocabulary::{AgentError, Message, Outcome, StopReason, Transcript},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::plan::{PlanReader, numbered};
use super::{
    Checked, LoopOptions, Prompt,
    agent_loop::Thread,
    answering, at_least_one, no_plan, planner,
    prompt::{BuiltIn, task, tool_list},
    want_of_a_plan,
};

/// The beginning of the result of a step that could not be done.
const FAILED: &str = "FAILED:";

const PLAN: BuiltIn = BuiltIn {
    version: 1,
    text: "\
Do not do the task yet. Make a plan for it: at most {max_steps} steps in the order in which they \
are done, each one sentence that says what to find out or to do. Do not plan a step that only \
sums up: that is done in the end. Each step is done with these tools, where it needs one:
{tools}

Answer with JSON only: {\"steps\": [\"…\", \"…\"]}",
};

const STEP: BuiltIn = BuiltIn {
    version: 1,
    text: "\
Do this step of the plan now, and nothing else: {step}

Results of the steps before it:
{results}

Answer with the result of the step only. If it cannot be done, answer `FAILED:` and the reason.",
};

const REPLAN: BuiltIn = BuiltIn {
    version: 1,
    text: "\
The plan cannot go on: {failure}

Results so far:
{results}

Plan again, from here on: only the steps that are still to be done, in another way where this one \
failed, and none if the results are enough for the task. Answer with JSON only: \
{\"steps\": [\"…\", \"…\"]}",
};

const SOLVE: BuiltIn = BuiltIn {
    version: 1,
    text: "\
The steps are done. Their results:
{results}

Now answer: {task}",
};

/// Makes a plan, does its steps one after another, and answers from their results.
///
/// Each step is its own loop with the agent's tools, as in
/// [`FunctionCalling`](super::FunctionCalling), and sees the results of the steps before it. After
/// a failed step the rest is planned again, up to a limit; then the answer is made from the results
/// so far, including failures. Each step also gets what the agent's memory holds about similar
/// steps. A step that transfers the conversation ends the plan. After Wang et al., "Plan-and-Solve
/// Prompting" (2023).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PlanAndSolve {
    /// The most steps of a plan.
    pub max_plan_steps: u32,
    /// How often the rest is planned again.
    pub max_replans: u32,
    /// The most steps (model calls with their tool calls) for one step of the plan; by default the
    /// agent's own limit.
    pub max_steps: Option<u32>,
    /// The prompt for a plan, after the agent's instructions: `{tools}`, `{max_steps}`.
    pub plan: Prompt,
    /// The prompt for a step: `{step}`, `{results}`, `{task}`, `{plan}`.
    pub step: Prompt,
    /// The prompt for planning the rest again: `{failure}`, `{results}`, `{task}`.
    pub replan: Prompt,
    /// The prompt for the answer: `{results}`, `{task}`.
    pub solve: Prompt,
}

impl Default for PlanAndSolve {
    fn default() -> Self {
        Self {
            max_plan_steps: 8,
            max_replans: 2,
            max_steps: None,
            plan: PLAN.into(),
            step: STEP.into(),
            replan: REPLAN.into(),
            solve: SOLVE.into(),
        }
    }
}

impl Checked for PlanAndSolve {
    fn check(&self) -> Result<(), String> {
        at_least_one("max_plan_steps", Some(self.max_plan_steps))?;
        at_least_one("max_steps", self.max_steps)?;
        self.step.needs("step", &["step", "results"])?;
        self.replan.needs("replan", &["failure", "results"])?;
        self.solve.needs("solve", &["results"])
    }
}

impl Behavior for PlanAndSolve {
    fn asks_model(&self) -> bool {
        true
    }

    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let mut work = Work::new(&cx);
        let mut steps = self.plan(&mut work, 1).await.map_err(no_plan)?;
        let mut replans = 0;
        while !steps.is_empty() {
            let step = steps.remove(0);
            let failure = match self.solve_step(&mut work, &step, &steps).await? {
                StepEnd::Done(_) => continue,
                StepEnd::Failed(reason) => format!("the step {step:?} failed: {reason}"),
            };
            if replans == self.max_replans {
                break;
            }
            replans += 1;
            cx.emit("replanned", &serde_json::json!({ "failure": failure }));
            let (results, task) = (work.results(), task(&cx));
            let texts = [
                ("failure", failure.as_str()),
                ("results", &results),
                ("task", &task),
            ];
            work.thread
                .conversation
                .push(Message::synthetic(self.replan.fill(&texts)));
            steps = match self.plan(&mut work, 0).await {
                Ok(steps) => steps,
                // Without another plan the answer is made from the results so far.
                Err(end) if want_of_a_plan(&end).is_some() => break,
                Err(end) => return Err(end.map_early(|outcome| work.stopped(outcome))),
            };
        }
        self.solve(&mut work).await
    }
}

/// How a step of the plan ended.
enum StepEnd {
    Done(String),
    Failed(String),
}

impl PlanAndSolve {
    /// Asks for a plan, or for the rest of one.
    async fn plan(&self, work: &mut Work<'_>, min: usize) -> Result<Vec<String>, AgentError> {
        let tools = tool_list(work.thread.cx.tools_offered().iter());
        let max = self.max_plan_steps.to_string();
        let prompt = self.plan.fill(&[("tools", &tools), ("max_steps", &max)]);
        let reader = PlanReader {
            min,
            max: self.max_plan_steps as usize,
        };
        let planner = work.thread.next()?;
        let steps = planner::plan(
            work.thread.cx,
            planner,
            &prompt,
            reader,
            &mut work.thread.conversation,
        )
        .await?;
        work.plan = numbered(&steps);
        Ok(steps)
    }

    /// Does one step. An outcome of its loop other than an answer ends the plan.
    async fn solve_step(
        &self,
        work: &mut Work<'_>,
        step: &str,
        rest: &[String],
    ) -> Result<StepEnd, AgentError> {
        let (results, task) = (work.results(), task(work.thread.cx));
        let texts = [
            ("step", step),
            ("results", results.as_str()),
            ("task", task.as_str()),
            ("plan", work.plan.as_str()),
        ];
        let limits = LoopOptions::of(work.thread.cx, self.max_steps);
        let mut solver = work.thread.next()?.options(limits).inner().free_text();
        let begin = solver.transcript().len();
        let moment = HookContext {
            transcript: solver.transcript(),
            steps: 0,
        };
        let known = work
            .thread
            .cx
            .loop_context()
            .goal_begins(moment, step)
            .await?;
        let asked = self.step.fill(&texts);
        solver.say(match known {
            Some(known) => format!("{asked}\n\nWhat came of steps like it:\n{known}"),
            None => asked,
        });
        let outcome = solver.run().await?;
        let said = solver.steered().to_vec();
        work.thread.conversation.extend(said);
        let end = match outcome {
            Outcome::Answer(answer) => match answer.text.trim().strip_prefix(FAILED) {
                Some(reason) => StepEnd::Failed(reason.trim().to_owned()),
                None => {
                    work.done.push((step.to_owned(), answer.text.clone()));
                    StepEnd::Done(answer.text)
                }
            },
            Outcome::Stopped {
                reason:
                    reason @ (StopReason::MaxSteps(_)
                    | StopReason::EmptyTurns(_)
                    | StopReason::NoToolCalls
                    | StopReason::GaveUp(_)),
                ..
            } => StepEnd::Failed(reason.to_string()),
            outcome => return Err(AgentError::early(work.stopped(outcome))),
        };
        let (status, result) = match &end {
            StepEnd::Done(result) => (GoalStatus::Reached, result),
            StepEnd::Failed(reason) => (GoalStatus::Missed, reason),
        };
        let trajectory: Transcript = solver.transcript().since(begin).into_iter().collect();
        let moment = HookContext {
            transcript: &trajectory,
            steps: solver.steps(),
        };
        let ended = GoalEnd::new(step, status, result.as_str());
        work.thread
            .cx
            .loop_context()
            .goal_ended(moment, &ended)
            .await?;
        if let StepEnd::Failed(reason) = &end {
            work.done
                .push((step.to_owned(), format!("{FAILED} {reason}")));
            let skipped = rest.len();
            work.thread.cx.emit(
                "step_failed",
                &serde_json::json!({"step": step, "reason": reason, "skipped": skipped}),
            );
        }
        Ok(end)
    }

    /// Answers from the results.
    async fn solve(&self, work: &mut Work<'_>) -> Result<Outcome, AgentError> {
        let (results, task) = (work.results(), task(work.thread.cx));
        let prompt = self.solve.fill(&[("results", &results), ("task", &task)]);
        let mut solver = answering(work.thread.cx, work.thread.next()?);
        solver.say(prompt);
        let outcome = solver.run().await?;
        Ok(match outcome {
            Outcome::Stopped {
                reason: StopReason::FinishOverBudget(_),
                ..
            } => outcome,
            Outcome::Stopped { .. } => work.stopped(outcome),
            outcome => outcome,
        })
    }
}

/// The plan and its progress.
struct Work<'a> {
    thread: Thread<'a>,
    plan: String,
    /// Each step with its result.
    done: Vec<(String, String)>,
}

impl<'a> Work<'a> {
    fn new(cx: &'a RunContext) -> Self {
        Self {
            thread: Thread::new(cx),
            plan: String::new(),
            done: Vec::new(),
        }
    }

    fn results(&self) -> String {
        if self.done.is_empty() {
            return "none yet".to_owned();
        }
        let lines = self.done.iter().enumerate();
        let lines: Vec<String> = lines
            .map(|(place, (step, result))| format!("{}. {step}\n   {result}", place + 1))
            .collect();
        lines.join("\n")
    }

    /// The same stop, with the results so far as the partial answer.
    fn stopped(&mut self, outcome: Outcome) -> Outcome {
        let Outcome::Stopped { reason, .. } = outcome else {
            return outcome;
        };
        let text = match self.done.is_empty() {
            true => String::new(),
            false => self.results(),
        };
        self.thread.stop(reason, text)
    }
}
