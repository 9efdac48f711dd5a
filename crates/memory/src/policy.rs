//! The memory policy of an agent: recall, the model's tool, and the records of its runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::future::join_all;
use ghostlight_actors::{
    contract::EmbedderHandle,
    definition::{MemoryAccess, MemorySpec},
    run::{
        BeforeTool, GoalEnd, GoalStatus, OwnTool, Policy, PolicyContext, PolicyHandle, Registry,
    },
    vocabulary::{
        AgentError, Digest, ModelRequest, ModelResponse, Outcome, ToolCall, ToolResult, ToolStatus,
    },
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    Episode, EpisodeStatus, LookBack, Memory, MemoryHit, MemoryKind, MemoryQuery, MemoryScope,
    TaskRecord, citations, clean_line,
    learning::{helped, of_scope},
    looking_back::{self, Finished},
    scoring::quality,
    showing::{advice, brief, recalled},
    task::SUMMARY,
    tool,
    trajectory::trajectory,
    wisdom,
};

/// The name of the policy and of its tool.
pub const MEMORY: &str = "memory";
/// How many of a run's actions and errors its record contains.
const ACTS: usize = 40;
/// The relevance that a recalled item must have.
const RELEVANCE: f64 = 0.2;
/// How many notes of wisdom the advice for a goal contains.
const NOTES: u32 = 2;
/// For how many messages the recalled items are kept: the branches of a run ask in turns.
const MESSAGES: usize = 64;

/// Registers the policy `memory`, which serves agents with a memory. Items are found by their words; for vectors use
/// [`register_with`].
#[must_use]
pub fn register(registry: Registry) -> Registry {
    register_with(registry, |_| {
        Err("no embedders are known here: leave `embedder` out, so that things are found by their words".to_owned())
    })
}

/// Registers the policy `memory` with a factory of embedders, which gets the `embedder` of a definition. It is called
/// for each leg of a run, so it should return the same embedder for the same settings.
#[must_use]
pub fn register_with(
    registry: Registry,
    embedder: impl Fn(&Value) -> Result<EmbedderHandle, String> + Send + Sync + 'static,
) -> Registry {
    registry.policy(MEMORY, move |given: &Value| {
        let spec = MemorySpec::deserialize(given).map_err(|error| error.to_string())?;
        spec.check()?;
        let memory = Memory::of(&spec);
        let memory = match &spec.embedder {
            None => memory,
            Some(settings) => {
                let made = embedder(settings).map_err(|error| format!("embedder: {error}"))?;
                memory.embedder_handle(made)
            }
        };
        Ok(policy(spec, memory))
    })
}

/// The policy of a definition over another memory, such as one with an embedder:
///
/// ```
/// use ghostlight_actors::{definition::MemorySpec, run::{Agent, AgentPolicy}};
/// use ghostlight_memory::{Memory, policy};
///
/// let spec = MemorySpec::default();
/// let memory = Memory::of(&spec);
/// let agent = Agent::new("desk").policy("memory", AgentPolicy::Own(policy(spec, memory)));
/// # let _ = agent;
/// ```
#[must_use]
pub fn policy(spec: MemorySpec, memory: Memory) -> PolicyHandle {
    let spec = Arc::new(spec);
    PolicyHandle::new(move || MemoryPolicy {
        spec: spec.clone(),
        memory: memory.clone(),
        tool: tool::own(),
        recalled: BTreeMap::new(),
        goals: BTreeSet::new(),
        shown: BTreeSet::new(),
        cited: BTreeSet::new(),
        acts: Vec::new(),
        errors: Vec::new(),
    })
}

struct MemoryPolicy {
    spec: Arc<MemorySpec>,
    memory: Memory,
    tool: OwnTool,
    /// The items recalled for a user's message, by the conversation up to it.
    recalled: BTreeMap<Digest, String>,
    /// The goals of this run that were recorded as episodes.
    goals: BTreeSet<String>,
    /// The codes of the learnings that the model was shown, with their scopes.
    shown: BTreeSet<String>,
    /// The codes of those that it cited.
    cited: BTreeSet<String>,
    acts: Vec<String>,
    errors: Vec<String>,
}

/// The end of a run, as its record tells it.
struct Ended<'a> {
    text: &'a str,
    is_flagged: bool,
    is_error: bool,
    /// Why it is a failure; `None` for an answer to which no gate objects.
    failure: Option<String>,
}

/// A failure of the memory does not fail the run: only errors that end every operation are passed on.
pub(crate) fn degraded<T>(result: Result<T, AgentError>) -> Result<Option<T>, AgentError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(AgentError::Operation(error)) => {
            tracing::warn!(%error, "the run goes on without its memory");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The agent's rights in a scope.
pub(crate) fn access(spec: &MemorySpec, scope: MemoryScope) -> MemoryAccess {
    match scope {
        MemoryScope::Run => MemoryAccess::Write,
        MemoryScope::Session => spec.session,
        MemoryScope::User => spec.user,
        MemoryScope::Tenant => spec.tenant,
        MemoryScope::Team => spec.team,
    }
}

/// The lasting scopes in which an agent has this right, the narrowest first.
pub(crate) fn scopes(
    spec: &MemorySpec,
    cx: &PolicyContext<'_>,
    may: MemoryAccess,
) -> Vec<MemoryScope> {
    let scopes = MemoryScope::LASTING.into_iter();
    scopes
        .filter(|scope| access(spec, *scope) >= may && scope.of(cx.start()).is_ok())
        .collect()
}

/// The scope of an item that names none: the user's, if there is a user.
pub(crate) fn kept_in(spec: &MemorySpec, cx: &PolicyContext<'_>) -> Option<MemoryScope> {
    let scopes = scopes(spec, cx, MemoryAccess::Write);
    let user = scopes.iter().find(|scope| **scope == MemoryScope::User);
    user.or(scopes.first()).copied()
}

/// The items of several scopes that answer a query, the best first. A scope that fails is left out. Found items count
/// as used.
pub(crate) async fn search_all(
    memory: &Memory,
    cx: &PolicyContext<'_>,
    scopes: &[MemoryScope],
    query: &MemoryQuery,
) -> Result<Vec<(MemoryScope, MemoryHit)>, AgentError> {
    let searches = scopes.iter().map(|scope| {
        let search = memory.on(cx, *scope).search(query.clone().unseen());
        async move { (*scope, search.await) }
    });
    let mut found = Vec::new();
    for (scope, hits) in join_all(searches).await {
        let hits = degraded(hits)?.unwrap_or_default();
        found.extend(hits.into_iter().map(|hit| (scope, hit)));
    }
    // The sort is stable: of equals the narrower scope comes first.
    found.sort_by(|(_, a), (_, b)| b.score.total_cmp(&a.score));
    found.truncate(query.k as usize);
    for scope in scopes {
        let of_scope = found.iter().filter(|(of, _)| of == scope);
        let ids: Vec<String> = of_scope.map(|(_, hit)| hit.item.id.clone()).collect();
        if !ids.is_empty() {
            degraded(memory.on(cx, *scope).used(ids).await)?;
        }
    }
    Ok(found)
}

impl MemoryPolicy {
    /// The text recalled for a message.
    async fn recall(&mut self, cx: &PolicyContext<'_>, asked: &str) -> Result<String, AgentError> {
        if asked.trim().is_empty() {
            return Ok(String::new());
        }
        let mut query = MemoryQuery::new(clean_line(asked, SUMMARY)).k(self.spec.recall);
        query.min_relevance = RELEVANCE;
        if self.goals.contains(asked) {
            // The agent that works on the goal has got items of the other kinds before.
            query.kinds.extend([
                MemoryKind::Working,
                MemoryKind::Semantic,
                MemoryKind::Task,
                MemoryKind::Learning,
            ]);
        }
        let scopes = scopes(&self.spec, cx, MemoryAccess::Read);
        let found = search_all(&self.memory, cx, &scopes, &query).await?;
        let (text, codes) = recalled(&found, self.spec.max_tokens);
        self.shown.extend(codes);
        Ok(text)
    }

    /// Credits or blames the learnings that were cited, each in its own scope.
    async fn credit(&self, cx: &PolicyContext<'_>, succeeded: bool) -> Result<(), AgentError> {
        let cited: Vec<_> = self
            .cited
            .iter()
            .filter_map(|code| of_scope(code))
            .collect();
        for scope in scopes(&self.spec, cx, MemoryAccess::Write) {
            let of_scope = cited.iter().filter(|(of, _)| *of == scope);
            let codes: String = of_scope.map(|(_, code)| format!("[{code}]")).collect();
            if !codes.is_empty() {
                let memory = self.memory.on(cx, scope);
                degraded(memory.credit(codes, succeeded).await)?;
            }
        }
        Ok(())
    }

    /// Records the run, as far as the agent's settings want it. An answer that a gate flagged is known to be wrong; any
    /// other one is unchecked until a person says what it is worth.
    async fn keep(&mut self, cx: &PolicyContext<'_>, ended: &Ended<'_>) -> Result<(), AgentError> {
        let Some(scope) = kept_in(&self.spec, cx) else {
            return Ok(());
        };
        let succeeded = ended.failure.is_none();
        if !ended.is_flagged {
            let is_partial = !ended.is_error && !ended.text.trim().is_empty();
            let failed = self.errors.len() as f64 / self.acts.len().max(1) as f64;
            let quality = quality(succeeded, cx.steps(), 1.0 - failed, self.errors.is_empty());
            if let Some(helped) = helped(succeeded, is_partial, quality) {
                self.credit(cx, helped).await?;
            }
        }
        let memory = self.memory.on(cx, scope);
        let task = cx.input().content();
        let acts = match self.acts.is_empty() {
            true => "answered without tools".to_owned(),
            false => self.acts.join(" → "),
        };
        let failure = ended.failure.iter().cloned();
        let errors: Vec<String> = self.errors.iter().cloned().chain(failure).collect();
        let errors = errors.join("; ");
        // A run that only answered teaches nothing, and its answer would be recalled as if it were still true.
        if self.spec.learn && (!self.acts.is_empty() || !succeeded) {
            let mut record = match succeeded {
                true => TaskRecord::unchecked(acts.as_str(), ended.text),
                false => TaskRecord::new(acts.as_str(), ended.text, false),
            };
            if !errors.is_empty() {
                record = record.error_analysis(errors.as_str());
            }
            let threshold = self.spec.learn_threshold;
            degraded(memory.add_task(task.as_str(), record, threshold).await)?;
        }
        // A failure that is to be reflected on leaves an episode, which the lesson stands in.
        let keeps = self.spec.episodes || (self.spec.reflect && !succeeded);
        if keeps && !self.goals.contains(&task) {
            let status = match succeeded {
                true => EpisodeStatus::Pending,
                false => EpisodeStatus::Failure,
            };
            let episode = Episode::new(format!("{acts}\n{}", ended.text), status);
            degraded(memory.add_episode(task.as_str(), episode, 0.5).await)?;
        }
        // After a failed run no model is asked: it may be what failed.
        if ended.is_error {
            return Ok(());
        }
        if self.spec.extract || self.spec.reflect {
            let finished = Finished {
                said: cx.transcript(),
                acts: &acts,
                errors: &errors,
                outcome: ended.text,
                succeeded,
            };
            self.look_back(cx, scope, &finished).await?;
        }
        if self.spec.wisdom {
            self.sum_up(cx, scope).await?;
        }
        Ok(())
    }

    /// Lets a model look back at the run.
    async fn look_back(
        &self,
        cx: &PolicyContext<'_>,
        scope: MemoryScope,
        finished: &Finished<'_>,
    ) -> Result<(), AgentError> {
        let (extract, reflect) = (self.spec.extract, self.spec.reflect);
        let memory = self.memory.on(cx, scope);
        let known = match extract {
            true => degraded(memory.facts_about(cx.input().content()).await)?.unwrap_or_default(),
            false => Vec::new(),
        };
        let request = looking_back::request(finished, &known, extract, reflect);
        let Some(mut look) = self.asked::<LookBack>(cx, request).await? else {
            return Ok(());
        };
        if !extract {
            (look.facts, look.no_longer) = (Vec::new(), Vec::new());
        }
        if !reflect {
            (look.importance, look.lesson, look.learnings) = (None, None, Vec::new());
        }
        if look != LookBack::default() {
            degraded(memory.look_back(look).await)?;
        }
        Ok(())
    }

    /// Lets a model sum up the lessons of the last day's runs, once a day.
    async fn sum_up(&self, cx: &PolicyContext<'_>, scope: MemoryScope) -> Result<(), AgentError> {
        let memory = self.memory.on(cx, scope);
        let runs = degraded(memory.wisdom_due().await)?.unwrap_or_default();
        if runs.is_empty() {
            return Ok(());
        }
        let summed_up = self.asked::<wisdom::Notes>(cx, wisdom::request(&runs));
        if let Some(wisdom::Notes { notes }) = summed_up.await? {
            degraded(memory.add_wisdom(notes).await)?;
        }
        Ok(())
    }

    /// The model's answer as JSON; `None` if it fails or answers something else.
    async fn asked<T: for<'de> Deserialize<'de>>(
        &self,
        cx: &PolicyContext<'_>,
        request: ModelRequest,
    ) -> Result<Option<T>, AgentError> {
        let Some(response) = degraded(cx.model(request).await)? else {
            return Ok(None);
        };
        let read = looking_back::read(&response.content());
        if read.is_none() {
            tracing::warn!("what a model answered about a finished run is not JSON of its kind");
        }
        Ok(read)
    }
}

impl Policy for MemoryPolicy {
    fn tools(&self) -> Vec<String> {
        let offers = self.spec.tool;
        offers.then(|| self.tool.name()).into_iter().collect()
    }

    fn is_inherited(&self) -> bool {
        false
    }

    async fn before_model(
        &mut self,
        cx: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        if self.spec.tool {
            self.tool.offer(request);
        }
        if self.spec.recall == 0 {
            return Ok(None);
        }
        let said = cx.transcript();
        let Some(place) = said.last_from_user() else {
            return Ok(None);
        };
        let asked = said.truncated(place + 1).digest();
        if !self.recalled.contains_key(&asked) {
            let text = said.get(place).map(|said| said.content());
            let found = self.recall(cx, &text.unwrap_or_default()).await?;
            if self.recalled.len() >= MESSAGES {
                self.recalled.clear();
            }
            self.recalled.insert(asked, found);
        }
        if let Some(found) = self.recalled.get(&asked).filter(|found| !found.is_empty()) {
            cx.remind(found.as_str());
        }
        Ok(None)
    }

    async fn after_model(
        &mut self,
        _cx: &PolicyContext<'_>,
        response: &ModelResponse,
    ) -> Result<Option<ModelResponse>, AgentError> {
        let cited = citations(&response.message.content());
        self.cited.extend(cited.intersection(&self.shown).cloned());
        Ok(None)
    }

    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        if call.name != MEMORY || !self.spec.tool {
            return Ok(BeforeTool::Go);
        }
        let answer = tool::answer(&self.spec, &self.memory, cx, call).await?;
        Ok(match answer {
            Ok((text, codes)) => {
                self.shown.extend(codes);
                BeforeTool::done(call, text)
            }
            Err(why) => BeforeTool::failed(call, why),
        })
    }

    async fn after_tools(
        &mut self,
        _cx: &PolicyContext<'_>,
        calls: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        let of_others = calls
            .iter()
            .zip(results)
            .filter(|(call, _)| call.name != MEMORY);
        for (call, result) in of_others {
            if self.acts.len() < ACTS {
                self.acts.push(call.name.clone());
            }
            if result.status != ToolStatus::Success && self.errors.len() < ACTS {
                self.errors
                    .push(format!("{}: {}", call.name, brief(&result.text)));
            }
        }
        Ok(())
    }

    async fn before_goal(
        &mut self,
        cx: &PolicyContext<'_>,
        goal: &str,
    ) -> Result<Option<String>, AgentError> {
        if self.spec.recall == 0 || goal.trim().is_empty() {
            return Ok(None);
        }
        self.goals.insert(goal.to_owned());
        let scopes = scopes(&self.spec, cx, MemoryAccess::Read);
        let mut query = MemoryQuery::new(clean_line(goal, SUMMARY)).k(self.spec.recall);
        query.min_relevance = RELEVANCE;
        // Unconfirmed episodes are shown and marked as such: the agent that set the goal checks the result.
        let episodes = query.clone().kind(MemoryKind::Episodic).pending();
        let mut found = search_all(&self.memory, cx, &scopes, &episodes).await?;
        let notes = query.kind(MemoryKind::Wisdom).k(NOTES);
        found.extend(search_all(&self.memory, cx, &scopes, &notes).await?);
        let text = advice(&found, self.spec.max_tokens);
        Ok((!text.is_empty()).then_some(text))
    }

    async fn after_goal(
        &mut self,
        cx: &PolicyContext<'_>,
        ended: &GoalEnd,
    ) -> Result<(), AgentError> {
        let Some(scope) = kept_in(&self.spec, cx) else {
            return Ok(());
        };
        if !self.spec.episodes || cx.start().dry_run || ended.goal.trim().is_empty() {
            return Ok(());
        }
        self.goals.insert(ended.goal.clone());
        let status = match ended.status {
            GoalStatus::Missed => EpisodeStatus::Failure,
            GoalStatus::Divided => EpisodeStatus::Expand,
            _ => EpisodeStatus::Pending,
        };
        let episode = Episode::new(trajectory(cx.transcript(), &ended.result), status);
        let memory = self.memory.on(cx, scope);
        degraded(memory.add_episode(ended.goal.as_str(), episode, 0.5).await)?;
        Ok(())
    }

    async fn after_run(
        &mut self,
        cx: &PolicyContext<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Outcome>, AgentError> {
        let is_end = matches!(outcome, Outcome::Answer(_) | Outcome::Stopped { .. });
        if is_end && !cx.start().dry_run {
            let flagged = outcome
                .as_answer()
                .and_then(|answer| answer.flagged.as_ref());
            let stopped = outcome
                .stop_reason()
                .map(|reason| format!("stopped: {reason:?}"));
            let ended = Ended {
                text: outcome.text(),
                is_flagged: flagged.is_some(),
                is_error: false,
                failure: flagged.map(|why| format!("flagged: {why}")).or(stopped),
            };
            self.keep(cx, &ended).await?;
        }
        Ok(None)
    }

    async fn after_failure(
        &mut self,
        cx: &PolicyContext<'_>,
        error: &AgentError,
    ) -> Result<(), AgentError> {
        if cx.start().dry_run {
            return Ok(());
        }
        let failure = format!("failed: {error}");
        let ended = Ended {
            text: &failure,
            is_flagged: false,
            is_error: true,
            failure: Some(failure.clone()),
        };
        self.keep(cx, &ended).await
    }
}
