//! The memory of an agent: what is recalled for it, its model's tool, and what is kept of its runs.

use std::{collections::BTreeSet, sync::Arc};

use futures_util::future::join_all;
use ghostlight_actors::{
    definition::{MemoryAccess, MemorySpec},
    run::{BeforeTool, OwnTool, Policy, PolicyContext, PolicyHandle, Registry},
    vocabulary::{
        AgentError, Digest, ModelRequest, ModelResponse, Outcome, ToolCall, ToolResult, ToolStatus,
    },
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    Episode, EpisodeStatus, Memory, MemoryHit, MemoryQuery, MemoryScope, TaskRecord, citations,
    clean_line,
    showing::{brief, recalled},
    task::SUMMARY,
    tool,
};

/// The name of the policy, and of the tool that it brings.
pub const MEMORY: &str = "memory";
/// How many of a run's acts and errors are told of in what is kept of it.
const ACTS: usize = 40;
/// How much a recalled memory must have to do with the message.
const RELEVANCE: f64 = 0.2;

/// Registers the policy `memory`, which serves agents that have one.
#[must_use]
pub fn register(registry: Registry) -> Registry {
    registry.policy(MEMORY, make)
}

fn make(given: &Value) -> Result<PolicyHandle, String> {
    let spec = MemorySpec::deserialize(given).map_err(|error| error.to_string())?;
    spec.check()?;
    let memory = Memory::of(&spec);
    Ok(policy(spec, memory))
}

/// The policy of a definition over a memory of one's own, such as one with an embedder:
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
        asked: None,
        found: String::new(),
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
    /// The conversation up to the user's message for which something was recalled.
    asked: Option<Digest>,
    found: String,
    /// The codes of the learnings that the model was shown.
    shown: BTreeSet<String>,
    /// Those of them that it cited.
    cited: BTreeSet<String>,
    acts: Vec<String>,
    errors: Vec<String>,
}

/// A failure of the memory is none of the run: only what ends every operation is passed on.
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

/// What an agent may do in a scope.
pub(crate) fn access(spec: &MemorySpec, scope: MemoryScope) -> MemoryAccess {
    match scope {
        MemoryScope::Run => MemoryAccess::Write,
        MemoryScope::Session => spec.session,
        MemoryScope::User => spec.user,
        MemoryScope::Tenant => spec.tenant,
        MemoryScope::Team => spec.team,
    }
}

/// The scopes that outlast the run in which an agent may do this, the narrowest first.
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

/// Where something is kept that names no scope: with the user, where there is one.
pub(crate) fn kept_in(spec: &MemorySpec, cx: &PolicyContext<'_>) -> Option<MemoryScope> {
    let scopes = scopes(spec, cx, MemoryAccess::Write);
    let user = scopes.iter().find(|scope| **scope == MemoryScope::User);
    user.or(scopes.first()).copied()
}

/// What several scopes of a memory hold that answers a query, the best first. A scope that fails is left out.
/// What is given back counts as used.
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
    // The sort is stable: of equals the narrower scope's goes first.
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
    async fn recall(&mut self, cx: &PolicyContext<'_>, asked: &str) -> Result<(), AgentError> {
        self.found.clear();
        if asked.trim().is_empty() {
            return Ok(());
        }
        let scopes = scopes(&self.spec, cx, MemoryAccess::Read);
        let mut query = MemoryQuery::new(clean_line(asked, SUMMARY)).k(self.spec.recall);
        query.min_relevance = RELEVANCE;
        let found = search_all(&self.memory, cx, &scopes, &query).await?;
        let (text, codes) = recalled(&found, self.spec.max_tokens);
        self.found = text;
        self.shown.extend(codes);
        Ok(())
    }

    /// Keeps what the run did, as far as the agent's settings want it.
    async fn keep(&mut self, cx: &PolicyContext<'_>, outcome: &Outcome) -> Result<(), AgentError> {
        let Some(scope) = kept_in(&self.spec, cx) else {
            return Ok(());
        };
        let succeeded = matches!(outcome, Outcome::Answer(_));
        let cited: Vec<String> = self.cited.iter().map(|code| format!("[{code}]")).collect();
        if !cited.is_empty() {
            for scope in scopes(&self.spec, cx, MemoryAccess::Write) {
                degraded(
                    self.memory
                        .on(cx, scope)
                        .credit(cited.concat(), succeeded)
                        .await,
                )?;
            }
        }
        let memory = self.memory.on(cx, scope);
        let task = cx.input().content();
        let acts = match self.acts.is_empty() {
            true => "answered without tools".to_owned(),
            false => self.acts.join(" → "),
        };
        if self.spec.learn {
            let mut record = TaskRecord::new(acts.as_str(), outcome.text(), succeeded);
            let stopped = outcome
                .stop_reason()
                .map(|reason| format!("stopped: {reason:?}"));
            let errors: Vec<String> = self.errors.iter().cloned().chain(stopped).collect();
            if !errors.is_empty() {
                record = record.error_analysis(errors.join("; "));
            }
            let threshold = self.spec.learn_threshold;
            degraded(memory.add_task(task.as_str(), record, threshold).await)?;
        }
        if self.spec.episodes {
            let status = match succeeded {
                true => EpisodeStatus::Pending,
                false => EpisodeStatus::Failure,
            };
            let told = format!("{acts}\n{}", outcome.text());
            degraded(
                memory
                    .add_episode(task.as_str(), Episode::new(told, status), 0.5)
                    .await,
            )?;
        }
        Ok(())
    }
}

impl Policy for MemoryPolicy {
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
        let is_asked = |place: &usize| said.get(*place).is_some_and(|said| said.is_from_user());
        let place = (0..said.len()).rev().find(is_asked);
        let asked = place.map(|place| said.truncated(place + 1).digest());
        if asked != self.asked {
            let text = place.and_then(|place| said.get(place));
            let text = text.map(|said| said.content().to_string());
            self.recall(cx, &text.unwrap_or_default()).await?;
            self.asked = asked;
        }
        if !self.found.is_empty() {
            cx.remind(self.found.as_str());
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

    async fn after_run(
        &mut self,
        cx: &PolicyContext<'_>,
        outcome: &Outcome,
    ) -> Result<Option<Outcome>, AgentError> {
        let is_end = matches!(outcome, Outcome::Answer(_) | Outcome::Stopped { .. });
        if is_end && !cx.start().dry_run {
            self.keep(cx, outcome).await?;
        }
        Ok(None)
    }
}
