//! One node of the tree.

use futures_util::{
    future::{BoxFuture, FutureExt},
    stream::{self, StreamExt},
};
use ghostlight_actors::{
    run::{GoalEnd, GoalStatus, HookContext, RunContext},
    vocabulary::{AgentError, Message, StopReason, ToolCall, ToolResult, ToolStatus, Transcript},
};
use serde_json::json;

use super::{
    Counts, Tree,
    acts::{self, Act, Flow},
    notes,
};
use crate::behaviors::{AgentLoop, BatchResult, ModelTurn, below_instructions, exhausted};

const GO_ON: &str = "If the goal is reached, call `done` with the result; otherwise go on.";

/// The goal of a node, and its place in the tree.
pub(super) struct Goal {
    text: String,
    /// The goals above, the root's first.
    above: Vec<String>,
    /// The flow among its sibling goals, and these goals.
    beside: Option<(Flow, Vec<String>)>,
}

/// The end of the work on a goal.
#[derive(Debug)]
pub(super) enum NodeEnd {
    /// It was reached.
    Reached(String),
    /// It was not reached, for this reason; the node above may know another way.
    Missed(String),
    /// The whole tree stops, for this reason, with what was made for the goal so far.
    Stopped(StopReason, String),
}

impl Goal {
    pub(super) fn root(text: String) -> Self {
        Self {
            text,
            above: Vec::new(),
            beside: None,
        }
    }

    fn below(&self, flow: Flow, goals: &[String], text: &str) -> Self {
        let above = self.above.iter().cloned().chain([self.text.clone()]);
        Self {
            text: text.to_owned(),
            above: above.collect(),
            beside: Some((flow, goals.to_vec())),
        }
    }

    fn depth(&self) -> u32 {
        u32::try_from(self.above.len()).unwrap_or(u32::MAX)
    }

    /// Its place, in words.
    fn place(&self) -> String {
        let (Some(above), Some((flow, goals))) = (self.above.last(), &self.beside) else {
            return String::new();
        };
        let list: Vec<String> = goals.iter().map(|goal| format!("- {goal}")).collect();
        format!(
            "It is one of the sub-goals of {above:?}, which are worked on as a {}:\n{}\nWork on \
             your own goal only.\n",
            flow.name(),
            list.join("\n")
        )
    }
}

/// The end of a node when the tree stops during a request to its model, with the last text of that
/// model.
fn stopped(agent: &mut AgentLoop<'_>, reason: StopReason) -> NodeEnd {
    let said = agent.stop(reason.clone());
    NodeEnd::Stopped(reason, said.text().to_owned())
}

/// The result of a node's turn.
enum Step {
    GoesOn,
    Ends(NodeEnd),
    Expands(Flow, Vec<String>),
}

impl Tree<'_> {
    /// Works on a goal until its end, and keeps the work as an episode.
    pub(super) fn walk<'a>(
        &'a self,
        cx: &'a RunContext,
        goal: Goal,
    ) -> BoxFuture<'a, Result<NodeEnd, AgentError>> {
        async move {
            if !Counts::one_more(&self.counts.nodes, self.settings.max_nodes) {
                let most = self.settings.max_nodes;
                return Ok(NodeEnd::Missed(format!("the tree may have {most} nodes")));
            }
            let cx = cx.lane("node");
            let depth = goal.depth();
            cx.emit(
                "node",
                &json!({ "goal": goal.text, "depth": depth, "is": "begun" }),
            );
            let mut agent = self.node(&cx, &goal).await?;
            let (end, reached) = match self.work(&cx, &goal, &mut agent).await? {
                Step::Expands(flow, goals) => {
                    let end = self.expand(&cx, &goal, flow, &goals).await?;
                    (end, GoalStatus::Divided)
                }
                Step::Ends(end) => (end, GoalStatus::Reached),
                Step::GoesOn => {
                    let most = self.settings.max_decisions;
                    let why = format!("it was not reached within {most} turns");
                    (NodeEnd::Missed(why), GoalStatus::Missed)
                }
            };
            let (is, status, result) = match &end {
                NodeEnd::Reached(result) => ("reached", reached, result),
                NodeEnd::Missed(reason) => ("missed", GoalStatus::Missed, reason),
                NodeEnd::Stopped(..) => return Ok(end),
            };
            cx.emit(
                "node",
                &json!({ "goal": goal.text, "depth": depth, "is": is, "result": result }),
            );
            let moment = HookContext {
                transcript: agent.transcript(),
                steps: agent.steps(),
            };
            let ended = GoalEnd::new(goal.text.as_str(), status, result.as_str());
            cx.loop_context().goal_ended(moment, &ended).await?;
            Ok(end)
        }
        .boxed()
    }

    /// A node before its first turn.
    async fn node<'c>(&self, cx: &'c RunContext, goal: &Goal) -> Result<AgentLoop<'c>, AgentError> {
        let may_expand = goal.depth() + 1 < self.settings.max_depth;
        let mut conversation = Transcript::new();
        conversation.push(Message::user(goal.text.as_str()));
        let moment = HookContext {
            transcript: &conversation,
            steps: 0,
        };
        let known = cx.loop_context().goal_begins(moment, &goal.text).await?;
        let notes = notes::shown(&notes::all(cx).await?);
        let mut agent = AgentLoop::new(cx)?
            .instructions(self.instructions(cx, goal, known, !notes.is_empty()))
            .tools(acts::offered(&cx.tools_offered(), may_expand))
            .conversation(conversation)
            .free_text()
            .inner();
        // A note may repeat what a tool found, so it is not part of the instructions.
        if !notes.is_empty() {
            agent.say(notes);
        }
        Ok(agent)
    }

    /// Takes turns until one ends the work or divides the goal, or until no turns are left.
    async fn work(
        &self,
        cx: &RunContext,
        goal: &Goal,
        agent: &mut AgentLoop<'_>,
    ) -> Result<Step, AgentError> {
        let missed = |reason: String| Ok(Step::Ends(NodeEnd::Missed(reason)));
        let mut said_only = false;
        for _ in 0..self.settings.max_decisions {
            if !Counts::one_more(&self.counts.decisions, self.settings.max_total_decisions) {
                let most = self.settings.max_total_decisions;
                return missed(format!("all nodes together have {most} turns"));
            }
            let turn = match agent.think().await {
                Ok(turn) => turn,
                Err(error) => return Ok(Step::Ends(stopped(agent, exhausted(error)?))),
            };
            if let ModelTurn::Answer(text) = &turn
                && let Some(next) = agent.reflected(text).await?
            {
                agent.say(next);
                continue;
            }
            match turn {
                ModelTurn::Calls(calls) => {
                    said_only = false;
                    match self.act(cx, goal, agent, &calls).await? {
                        Step::GoesOn => {}
                        end => return Ok(end),
                    }
                }
                // A model that answers in words a second time means them as its answer.
                ModelTurn::Answer(text) if said_only => {
                    return Ok(Step::Ends(NodeEnd::Reached(text)));
                }
                turn => {
                    said_only = matches!(turn, ModelTurn::Answer(_));
                    agent.say(GO_ON);
                }
            }
        }
        Ok(Step::GoesOn)
    }

    fn instructions(
        &self,
        cx: &RunContext,
        goal: &Goal,
        known: Option<String>,
        has_notes: bool,
    ) -> String {
        let titled = |title: &str, text: String| match text.as_str() {
            "" => String::new(),
            text => format!("\n{title}\n{text}\n"),
        };
        let notes = match has_notes {
            true => "The notes so far stand below the goal.\n",
            false => "",
        };
        let episodes = titled("What came of goals like it:", known.unwrap_or_default());
        // A model wrote the goals, perhaps after what a tool gave it.
        let (place, text) = (goal.place(), ghostlight_safety::sanitize(&goal.text));
        let place = ghostlight_safety::sanitize(&place);
        let prompt = self.settings.prompt.fill(&[
            ("goal", &text),
            ("place", &place),
            ("notes", notes),
            ("episodes", &episodes),
        ]);
        below_instructions(&cx.agent().instructions, &prompt)
    }

    /// Does what a turn asks for: first the agent's tools, then the acts in their order.
    async fn act(
        &self,
        cx: &RunContext,
        goal: &Goal,
        agent: &mut AgentLoop<'_>,
        calls: &[ToolCall],
    ) -> Result<Step, AgentError> {
        let own: Vec<ToolCall> = calls
            .iter()
            .filter(|call| !acts::is_act(&call.name))
            .cloned()
            .collect();
        let acted = match own.is_empty() {
            true => BatchResult::default(),
            false => agent.call(&own).await?,
        };
        let mut results = acted.results;
        let stop = match acted.exhausted {
            Some(error) => Some(exhausted(error.into())?),
            None => acted.stop,
        };
        if let Some(reason) = stop {
            let made: Vec<String> = results
                .iter()
                .filter(|result| result.status == ToolStatus::Success)
                .map(|result| format!("{}: {}", result.name, result.text))
                .collect();
            agent.record(results);
            return Ok(Step::Ends(NodeEnd::Stopped(reason, made.join("\n"))));
        }
        let mut ends = Vec::new();
        for call in calls.iter().filter(|call| acts::is_act(&call.name)) {
            let told = match acts::read(call, self.settings.max_subgoals) {
                Err(fault) => {
                    results.push(ToolResult::new(call, ToolStatus::Error, fault));
                    continue;
                }
                Ok(Act::Remember { key, value }) => {
                    notes::remember(cx, &key, &value, &goal.text).await?
                }
                Ok(Act::Recall(key)) => {
                    let mut notes = notes::all(cx).await?;
                    notes.retain(|name, _| key.as_ref().is_none_or(|key| key == name));
                    let notes = notes.into_iter().map(|(key, note)| (key, note.value));
                    json!(notes.collect::<std::collections::BTreeMap<_, _>>()).to_string()
                }
                Ok(Act::Expand(..)) if goal.depth() + 1 >= self.settings.max_depth => {
                    let told = "the tree is at its deepest level: reach the goal by tools, or fail";
                    results.push(ToolResult::new(call, ToolStatus::Error, told));
                    continue;
                }
                Ok(Act::Done(result)) => {
                    ends.push(Step::Ends(NodeEnd::Reached(result)));
                    "told".to_owned()
                }
                Ok(Act::Fail(reason)) => {
                    ends.push(Step::Ends(NodeEnd::Missed(reason)));
                    "told".to_owned()
                }
                Ok(Act::Expand(flow, goals)) => {
                    ends.push(Step::Expands(flow, goals));
                    "begun".to_owned()
                }
            };
            results.push(ToolResult::new(call, ToolStatus::Success, told));
        }
        agent.record(results);
        Ok(ends.into_iter().next().unwrap_or(Step::GoesOn))
    }

    /// Works on the sub-goals in the given flow.
    async fn expand(
        &self,
        cx: &RunContext,
        goal: &Goal,
        flow: Flow,
        goals: &[String],
    ) -> Result<NodeEnd, AgentError> {
        cx.emit(
            "expanded",
            &json!({ "goal": goal.text, "flow": flow.name(), "subgoals": goals }),
        );
        if flow == Flow::Parallel {
            return self.side_by_side(cx, goal, goals).await;
        }
        let mut told = Vec::new();
        for text in goals {
            let end = self.walk(cx, goal.below(flow, goals, text)).await?;
            match (flow, end) {
                (_, NodeEnd::Stopped(reason, made)) => {
                    told.extend((!made.is_empty()).then(|| format!("{text}: {made}")));
                    return Ok(NodeEnd::Stopped(reason, told.join("\n")));
                }
                (Flow::Sequence, NodeEnd::Missed(reason)) => {
                    told.push(format!("{text}: {reason}"));
                    return Ok(NodeEnd::Missed(told.join("\n")));
                }
                (Flow::Fallback, NodeEnd::Reached(result)) => return Ok(NodeEnd::Reached(result)),
                (_, NodeEnd::Reached(told_of) | NodeEnd::Missed(told_of)) => {
                    told.push(format!("{text}: {told_of}"));
                }
            }
        }
        let told = told.join("\n");
        Ok(match flow {
            Flow::Fallback => NodeEnd::Missed(told),
            _ => NodeEnd::Reached(told),
        })
    }

    async fn side_by_side(
        &self,
        cx: &RunContext,
        goal: &Goal,
        goals: &[String],
    ) -> Result<NodeEnd, AgentError> {
        let walks: Vec<_> = goals
            .iter()
            .enumerate()
            .map(|(place, text)| {
                let end = self.walk(cx, goal.below(Flow::Parallel, goals, text));
                end.map(move |end| (place, end)).boxed()
            })
            .collect();
        let mut ends = Vec::with_capacity(goals.len());
        let mut working = stream::iter(walks).buffer_unordered(self.settings.max_at_once as usize);
        let mut stopped = None;
        while let Some((place, end)) = working.next().await {
            match end? {
                NodeEnd::Stopped(reason, made) => {
                    ends.extend((!made.is_empty()).then_some((place, NodeEnd::Reached(made))));
                    stopped = Some(reason);
                    break;
                }
                end => ends.push((place, end)),
            }
        }
        ends.sort_by_key(|(place, _)| *place);
        let reached = ends
            .iter()
            .filter(|(_, end)| matches!(end, NodeEnd::Reached(_)))
            .count();
        let told: Vec<String> = ends
            .into_iter()
            .map(|(place, end)| match end {
                NodeEnd::Reached(told) => format!("{}: {told}", goals[place]),
                NodeEnd::Missed(told) => format!("{}: not reached: {told}", goals[place]),
                NodeEnd::Stopped(reason, _) => format!("{}: {reason}", goals[place]),
            })
            .collect();
        let told = told.join("\n");
        if let Some(reason) = stopped {
            return Ok(NodeEnd::Stopped(reason, told));
        }
        Ok(if self.settings.vote.is_won(reached, goals.len()) {
            NodeEnd::Reached(told)
        } else {
            NodeEnd::Missed(told)
        })
    }
}
