//! Planning all tool calls at once, running them in parallel, and answering from their results.

mod plan;

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt, stream::FuturesUnordered};
use ghostlight_actors::{
    contract::BoxFuture,
    definition::TRANSFER_PREFIX,
    run::{Behavior, RunContext},
    vocabulary::{
        AgentError, ErrorKind, Message, OperationError, Outcome, StopReason, ToolCall, ToolSet,
        ToolStatus, Transcript,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::plan::{MODEL, PlanReader, Step};
use super::{
    AgentLoop, Checked, LoopOptions, Prompt,
    agent_loop::{Thread, exhausted},
    answering, at_least_one, no_plan, planner,
    prompt::{BuiltIn, task, tool_list},
    want_of_a_plan,
};

const PLAN: BuiltIn = BuiltIn {
    version: 1,
    text: "\
Do not do the task yet. Plan all tool calls that it takes, at most {max_steps}. The result of each \
call is evidence with a name: E1, E2 and so on. Where a call needs earlier evidence, write #E1 in \
its input: the evidence is put there. Calls that need nothing of each other run at the same time. \
You do not see any evidence before all calls are done. These are the tools:
{tools}
- llm: answers a question from the texts in it, without tools
  Args: {\"prompt\": \"…\"}

Answer with JSON only:
{\"steps\": [{\"id\": \"E1\", \"purpose\": \"…\", \"tool\": \"…\", \"input\": {…}}, …]}",
};

const REPLAN: BuiltIn = BuiltIn {
    version: 1,
    text: "\
Some calls of the plan failed. The evidence so far:
{evidence}

Plan again: only calls that are still needed, in another way where one failed, under names that \
are not used yet; evidence that is there can be named. Give no steps if the evidence is enough \
for the task. Answer with JSON only, as before.",
};

const SOLVE: BuiltIn = BuiltIn {
    version: 1,
    text: "\
The calls are done. The evidence:
{evidence}

Now answer, from this evidence: {task}",
};

/// ReWOO, reasoning without observation. One model call plans all tool calls, with placeholders for
/// their results; calls that do not depend on each other run in parallel; and one more model call
/// answers from the evidence. It needs few model calls, where function calling needs one for each
/// step.
///
/// When a call fails, the steps that need its evidence are left out and the rest is planned again,
/// up to a limit; then the answer is made from the evidence so far, including failures. A plan may
/// use the agent's tools and delegate to other agents, but not transfer the conversation. After Xu
/// et al., "ReWOO: Decoupling Reasoning from Observations" (2023), with plans as graphs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Rewoo {
    /// The most steps of a plan.
    pub max_plan_steps: u32,
    /// How often the rest is planned again.
    pub max_replans: u32,
    /// The prompt for a plan, after the agent's instructions: `{tools}`, `{max_steps}`.
    pub plan: Prompt,
    /// The prompt for planning the rest again: `{evidence}`, `{task}`.
    pub replan: Prompt,
    /// The prompt for the answer: `{evidence}`, `{task}`.
    pub solve: Prompt,
}

impl Default for Rewoo {
    fn default() -> Self {
        Self {
            max_plan_steps: 16,
            max_replans: 2,
            plan: PLAN.into(),
            replan: REPLAN.into(),
            solve: SOLVE.into(),
        }
    }
}

impl Checked for Rewoo {
    fn check(&self) -> Result<(), String> {
        at_least_one("max_plan_steps", Some(self.max_plan_steps))?;
        self.replan.needs("replan", &["evidence"])?;
        self.solve.needs("solve", &["evidence"])
    }
}

impl Behavior for Rewoo {
    fn asks_model(&self) -> bool {
        true
    }

    fn tools(&self) -> Vec<String> {
        vec![MODEL.to_owned()]
    }

    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let mut work = Work::new(&cx);
        let mut steps = self.plan(&mut work, 1).await.map_err(no_plan)?;
        for replan in 0.. {
            if let Err(error) = work.gather(&steps).await {
                return Ok(work.stop(exhausted(error)?));
            }
            if let Some(reason) = work.stopping.take() {
                return Ok(work.stop(reason));
            }
            if work.failed_in(&steps).is_empty() || replan == self.max_replans {
                break;
            }
            cx.emit(
                "replanned",
                &serde_json::json!({ "failed": work.failed_in(&steps) }),
            );
            let (evidence, task) = (work.as_text(), task(&cx));
            let prompt = self
                .replan
                .fill(&[("evidence", &evidence), ("task", &task)]);
            work.thread.conversation.push(Message::synthetic(prompt));
            steps = match self.plan(&mut work, 0).await {
                Ok(steps) if steps.is_empty() => break,
                Ok(steps) => steps,
                // Without another plan the answer is made from the evidence so far.
                Err(end) if want_of_a_plan(&end).is_some() => break,
                Err(end) => return Err(end.map_early(|outcome| work.stopped(outcome))),
            };
            work.reflect().await?;
        }
        self.solve(&mut work).await
    }
}

impl Rewoo {
    /// Asks for a plan, or for the rest of one.
    async fn plan(&self, work: &mut Work<'_>, min: usize) -> Result<Vec<Step>, AgentError> {
        let (tools, max) = (
            tool_list(work.tools.iter()),
            self.max_plan_steps.to_string(),
        );
        let prompt = self.plan.fill(&[("tools", &tools), ("max_steps", &max)]);
        let reader = PlanReader {
            tools: work.tools.clone(),
            known: work.evidence.keys().cloned().collect(),
            min,
            max: self.max_plan_steps as usize,
        };
        let planner = work.next()?;
        planner::plan(
            work.thread.cx,
            planner,
            &prompt,
            reader,
            &mut work.thread.conversation,
        )
        .await
    }

    /// Answers from the evidence.
    async fn solve(&self, work: &mut Work<'_>) -> Result<Outcome, AgentError> {
        let (evidence, task) = (work.as_text(), task(work.thread.cx));
        let tools = work.tools.clone();
        let mut solver = answering(work.thread.cx, work.next()?.tools(tools));
        solver.say(self.solve.fill(&[("evidence", &evidence), ("task", &task)]));
        let outcome = solver.run().await?;
        Ok(match outcome.stop_reason() {
            None | Some(StopReason::FinishOverBudget(_)) => outcome,
            Some(_) => work.stopped(outcome),
        })
    }
}

/// The evidence of a step.
struct Evidence {
    /// The purpose of the step.
    purpose: String,
    /// The result, or why the step failed.
    text: String,
    found: bool,
}

/// The progress of the work.
struct Work<'a> {
    thread: Thread<'a>,
    /// The tools that plans may use: all except transfers.
    tools: ToolSet,
    evidence: BTreeMap<String, Evidence>,
    /// Why a policy wants to stop.
    stopping: Option<StopReason>,
}

impl<'a> Work<'a> {
    fn new(cx: &'a RunContext) -> Self {
        let offered = cx.tools_offered();
        let tools = offered
            .iter()
            .filter(|tool| !tool.name.starts_with(TRANSFER_PREFIX));
        Self {
            thread: Thread::new(cx),
            tools: tools.cloned().collect(),
            evidence: BTreeMap::new(),
            stopping: None,
        }
    }

    /// A loop without tools that continues this conversation.
    fn next(&self) -> Result<AgentLoop<'a>, AgentError> {
        Ok(self.thread.next()?.tools(ToolSet::default()))
    }

    /// Gives the new plan to policies that require a reflection before further tools: the plan says
    /// what is done differently. Their feedback is not used, because the plan is carried out at
    /// once.
    async fn reflect(&self) -> Result<(), AgentError> {
        if let Some(plan) = self.thread.conversation.last() {
            let worker = self.next()?.tools(self.tools.clone());
            worker.reflected(&plan.content()).await?;
        }
        Ok(())
    }

    /// Runs steps that are sorted so that each comes after the steps it needs. As many run at once
    /// as are ready, up to the agent's limit on parallel tools.
    async fn gather(&mut self, steps: &[Step]) -> Result<(), AgentError> {
        let parallel = self.thread.cx.spec().tools_at_once();
        // Each step has its own lane, so its operations are numbered independently of the order
        // in which steps start.
        let lanes = steps
            .iter()
            .map(|step| (step, self.thread.cx.lane(step.id.as_str())));
        let mut waiting: Vec<(&Step, RunContext)> = lanes.collect();
        let mut running = FuturesUnordered::new();
        let mut refused = None;
        loop {
            while running.len() < parallel
                && let Some(place) = waiting.iter().position(|(step, _)| self.is_free(step))
            {
                let (step, lane) = waiting.remove(place);
                match self.missing(step) {
                    None => running.push(carry_out(step, self.texts_for(step), lane)),
                    Some(missing) => self.keep(step, Err(format!("#{missing} is missing"))),
                }
            }
            match running.next().await {
                Some(Ok(done)) => {
                    self.keep(&done.step, done.end);
                    self.thread.conversation.extend(done.steered);
                    if done.stop.is_some() {
                        self.stopping = done.stop;
                        waiting.clear();
                    }
                }
                // Steps under way end first: their evidence is worth keeping.
                Some(Err(error)) => {
                    exhausted(error.clone())?;
                    refused.get_or_insert(error);
                    waiting.clear();
                }
                None => return refused.map_or(Ok(()), Err),
            }
        }
    }

    /// Whether all steps that it needs have ended, with or without success.
    fn is_free(&self, step: &Step) -> bool {
        step.needs().iter().all(|id| self.evidence.contains_key(id))
    }

    /// The evidence that the step needs and cannot get.
    fn missing(&self, step: &Step) -> Option<String> {
        let is_missing = |id: &String| self.evidence.get(id).is_none_or(|found| !found.found);
        step.needs().into_iter().find(is_missing)
    }

    fn keep(&mut self, step: &Step, end: Result<String, String>) {
        let found = end.is_ok();
        let evidence = Evidence {
            purpose: step.purpose.clone(),
            text: end.unwrap_or_else(|reason| reason),
            found,
        };
        self.evidence.insert(step.id.clone(), evidence);
    }

    /// The evidence that a step needs.
    fn texts_for(&self, step: &Step) -> BTreeMap<String, String> {
        let needs = step.needs().into_iter();
        let found = needs.filter_map(|id| {
            let evidence = self.evidence.get(&id).filter(|evidence| evidence.found)?;
            Some((id, evidence.text.clone()))
        });
        found.collect()
    }

    /// The names of the failed steps.
    fn failed_in<'s>(&self, steps: &'s [Step]) -> Vec<&'s str> {
        let failed = |step: &&Step| self.evidence.get(&step.id).is_none_or(|found| !found.found);
        steps
            .iter()
            .filter(failed)
            .map(|step| step.id.as_str())
            .collect()
    }

    /// The evidence for the model, ordered by its numbers.
    fn as_text(&self) -> String {
        if self.evidence.is_empty() {
            return "none".to_owned();
        }
        let mut all: Vec<_> = self.evidence.iter().collect();
        all.sort_by_key(|(id, _)| (id.len(), id.as_str()));
        let line = |(id, evidence): (&String, &Evidence)| {
            let Evidence {
                purpose,
                text,
                found,
            } = evidence;
            let purpose = if purpose.is_empty() {
                String::new()
            } else {
                format!(" ({purpose})")
            };
            let failed = if *found { "" } else { "FAILED: " };
            format!("#{id}{purpose}: {failed}{text}")
        };
        let lines: Vec<String> = all.into_iter().map(line).collect();
        lines.join("\n")
    }

    fn stop(&mut self, reason: StopReason) -> Outcome {
        let text = match self.evidence.is_empty() {
            true => String::new(),
            false => self.as_text(),
        };
        self.thread.stop(reason, text)
    }

    /// The same stop, with the evidence so far as the partial answer.
    fn stopped(&mut self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Stopped { reason, .. } => self.stop(reason),
            outcome => outcome,
        }
    }
}

/// A finished step.
struct Done {
    step: Step,
    /// The result, or why the step failed.
    end: Result<String, String>,
    /// The messages that people sent meanwhile.
    steered: Vec<Arc<Message>>,
    /// Why a policy wants to stop.
    stop: Option<StopReason>,
}

/// Runs one step on its own lane.
fn carry_out(
    step: &Step,
    evidence: BTreeMap<String, String>,
    cx: RunContext,
) -> BoxFuture<'static, Result<Done, AgentError>> {
    let step = step.clone();
    let input = step.filled(&evidence);
    Box::pin(async move {
        if step.tool == MODEL {
            return ask_model(&cx, step, &input).await;
        }
        let call = ToolCall::new(step.id.as_str(), step.tool.as_str(), input);
        let mut acted = AgentLoop::new(&cx)?.free_text().call(&[call]).await?;
        if let Some(error) = acted.exhausted {
            return Err(error.into());
        }
        let end = match acted.results.pop() {
            Some(result) if result.status == ToolStatus::Success => Ok(result.text),
            Some(result) => Err(result.text),
            None => Err("it was not run".to_owned()),
        };
        Ok(Done {
            step,
            end,
            steered: Vec::new(),
            stop: acted.stop,
        })
    })
}

/// Asks the model for one piece of evidence.
async fn ask_model(cx: &RunContext, step: Step, input: &Value) -> Result<Done, AgentError> {
    let prompt = input.get("prompt").and_then(Value::as_str);
    let prompt = prompt.map_or_else(|| input.to_string(), str::to_owned);
    let conversation = Transcript::from_iter([Message::user(prompt)]);
    let mut agent = AgentLoop::new(cx)?
        .conversation(conversation)
        .tools(ToolSet::default())
        .options(LoopOptions::of_steps(4))
        .inner()
        .free_text();
    let end = match agent.run().await? {
        Outcome::Answer(answer) => Ok(answer.text),
        Outcome::Stopped {
            reason: reason @ StopReason::BudgetExhausted(resource),
            ..
        } => {
            let message = reason.to_string();
            return Err(OperationError::new(ErrorKind::Budget(resource), message).into());
        }
        Outcome::Stopped { reason, .. } => Err(reason.to_string()),
        _ => Err("it came to no answer".to_owned()),
    };
    Ok(Done {
        step,
        end,
        steered: agent.steered().to_vec(),
        stop: None,
    })
}
