//! The tool with which a model uses its memory.

use std::{collections::BTreeSet, time::Duration};

use ghostlight_actors::{
    definition::{MemoryAccess, MemorySpec},
    run::{OwnTool, PolicyContext},
    vocabulary::{AgentError, Effect, ToolCall, ToolDefinition},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    Forget, LearningCategory, Memory, MemoryHit, MemoryKind, MemoryPatch, MemoryQuery, MemoryScope,
    NewMemory, ScopedMemory, Triple,
    policy::{MEMORY, access, degraded, kept_in, scopes, search_all},
    showing::{brief, described, listed},
};

/// The operations of a model on its memory.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    /// Remember `content`; with `about`, in the place of what was known about the same.
    Add,
    /// Find what answers `query`.
    Search,
    /// Read the item `id`.
    Get,
    /// Change the item `id`: its `content`, `tags`, `importance` or `pinned`.
    Update,
    /// Forget the item `id`.
    Remove,
    /// Move working memories of at least `importance` (0.7 when left out) to what happened.
    Consolidate,
    /// Forget what matters less than `importance` (0.2 when left out) and is not pinned.
    Forget,
    /// Tell how much is remembered.
    Stats,
    /// Keep `content` as a learning, which is cited by its code.
    Learn,
    /// Add the relation `from`, `relation`, `to` to the knowledge graph.
    Relate,
    /// Walk the knowledge graph from the entity `from`, up to `depth` relations.
    Walk,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Call {
    action: Action,
    /// Whose memory is meant. Left out, all that may be read are searched, and what is added is kept for the
    /// user.
    #[serde(default)]
    scope: Option<MemoryScope>,
    #[serde(default)]
    content: Option<String>,
    /// What a fact is about, in a few words, such as `where Ada lives`.
    #[serde(default)]
    about: Option<String>,
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    kind: Option<MemoryKind>,
    #[serde(default)]
    tags: Option<BTreeSet<String>>,
    /// From 0 to 1.
    #[serde(default)]
    importance: Option<f64>,
    #[serde(default)]
    pinned: Option<bool>,
    /// How many items are found at most.
    #[serde(default)]
    limit: Option<u32>,
    #[serde(default)]
    category: Option<LearningCategory>,
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    relation: Option<String>,
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    depth: Option<u32>,
}

/// The tool.
pub(crate) fn own() -> OwnTool {
    let description = "Remembers things from one conversation to the next. `add` what will matter later, with \
                       `about` where it may change; `search` before you say that you do not know.";
    let definition = ToolDefinition::new(MEMORY, description);
    OwnTool::new(definition.parameters_of::<Call>().effect(Effect::Read))
}

/// The result of a call, with the codes of learnings in it; or the reason of its failure.
type Answer = Result<(String, BTreeSet<String>), String>;

fn said(text: impl Into<String>) -> Answer {
    Ok((text.into(), BTreeSet::new()))
}

/// The model reads the failure of an operation; errors that end every operation are passed on.
fn read<T>(result: Result<T, AgentError>) -> Result<Result<T, String>, AgentError> {
    match result {
        Ok(found) => Ok(Ok(found)),
        Err(AgentError::Operation(error)) => Ok(Err(format!("Not done: {}.", error.message))),
        Err(error) => Err(error),
    }
}

macro_rules! done {
    ($operation:expr) => {
        match read($operation.await)? {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        }
    };
}

/// Carries out a call, within the agent's rights.
pub(crate) async fn answer(
    spec: &MemorySpec,
    memory: &Memory,
    cx: &PolicyContext<'_>,
    call: &ToolCall,
) -> Result<Answer, AgentError> {
    let call: Call = match call.arguments.parse() {
        Ok(call) => call,
        Err(reason) => return Ok(Err(format!("Not done: {reason}."))),
    };
    let reads = matches!(
        call.action,
        Action::Search | Action::Get | Action::Stats | Action::Walk
    );
    let may = if reads {
        MemoryAccess::Read
    } else {
        MemoryAccess::Write
    };
    if cx.start().dry_run && !reads {
        return Ok(said(
            "It would be done; this is a dry run, so nothing is changed.",
        ));
    }
    if let Some(scope) = call.scope {
        if access(spec, scope) < may {
            let doing = if reads { "read" } else { "change" };
            let scope = scope.as_str();
            return Ok(Err(format!(
                "Not done: you may not {doing} the memory of the scope `{scope}`."
            )));
        }
        if let Err(error) = scope.of(cx.start()) {
            return Ok(Err(format!("Not done: {}.", error.message)));
        }
    }
    if let Action::Search = call.action {
        return search(spec, memory, cx, &call).await;
    }
    let wanted = call.scope.or_else(|| match reads {
        true => scopes(spec, cx, may).first().copied(),
        false => kept_in(spec, cx),
    });
    let Some(scope) = wanted else {
        return Ok(Err(
            "Not done: there is no memory that you may use for this.".to_owned(),
        ));
    };
    // The item is looked up in all scopes, so that its id is enough.
    let scope = match (&call.id, call.scope) {
        (Some(id), None) => match holder(spec, memory, cx, id, may).await? {
            Some(scope) => scope,
            None => {
                return Ok(Err(format!(
                    "Not done: there is no memory {:?} that you may use.",
                    brief(id)
                )));
            }
        },
        _ => scope,
    };
    perform(&memory.on(cx, scope), &call, scope).await
}

async fn search(
    spec: &MemorySpec,
    memory: &Memory,
    cx: &PolicyContext<'_>,
    call: &Call,
) -> Result<Answer, AgentError> {
    let Some(text) = call
        .query
        .as_ref()
        .or(call.content.as_ref())
        .filter(|text| !text.trim().is_empty())
    else {
        return Ok(Err("Not done: a search needs a `query`.".to_owned()));
    };
    let mut query = MemoryQuery::new(text.as_str()).k(call.limit.unwrap_or(5).clamp(1, 50));
    query.kinds.extend(call.kind);
    let scopes = match call.scope {
        Some(scope) => vec![scope],
        None => scopes(spec, cx, MemoryAccess::Read),
    };
    let mut found = search_all(memory, cx, &scopes, &query).await?;
    if spec.conversations && call.kind == Some(MemoryKind::Conversation) {
        // Those of a user include this one.
        let widest = [MemoryScope::User, MemoryScope::Session];
        if let Some(scope) = widest.into_iter().find(|scope| scopes.contains(scope)) {
            let turns = memory.on(cx, scope).conversations(query.clone()).await;
            let turns = degraded(turns)?.unwrap_or_default();
            found.extend(turns.into_iter().map(|hit| (scope, hit)));
            found.sort_by(|(_, a), (_, b)| b.score.total_cmp(&a.score));
            found.truncate(query.k as usize);
        }
    }
    Ok(Ok(listed(&found)))
}

/// The scope that holds an item.
async fn holder(
    spec: &MemorySpec,
    memory: &Memory,
    cx: &PolicyContext<'_>,
    id: &str,
    may: MemoryAccess,
) -> Result<Option<MemoryScope>, AgentError> {
    for scope in scopes(spec, cx, may) {
        let held = degraded(memory.on(cx, scope).holds(id).await)?;
        if held == Some(true) {
            return Ok(Some(scope));
        }
    }
    Ok(None)
}

async fn perform(
    memory: &ScopedMemory<'_>,
    call: &Call,
    scope: MemoryScope,
) -> Result<Answer, AgentError> {
    let needs = |what: &str| Ok(Err(format!("Not done: this needs `{what}`.")));
    let id = call.id.as_deref();
    Ok(match call.action {
        Action::Search => needs("query")?,
        Action::Add => {
            let Some(content) = &call.content else {
                return needs("content");
            };
            let mut new = NewMemory::of(call.kind.unwrap_or_default(), content.as_str());
            new.tags = call.tags.clone().unwrap_or_default();
            (new.importance, new.about) = (call.importance, call.about.clone());
            new.pinned = call.pinned.unwrap_or_default();
            if matches!(
                new.kind,
                MemoryKind::Entity | MemoryKind::Relation | MemoryKind::Learning | MemoryKind::Task
            ) {
                return Ok(Err(
                    "Not done: use `relate` for the graph and `learn` for learnings.".to_owned(),
                ));
            }
            let added = done!(memory.add(new));
            let verb = if added.merged {
                "brought up to date"
            } else {
                "remembered"
            };
            said(format!(
                "{verb} as {} for the {}",
                added.item.id,
                scope.as_str()
            ))
        }
        Action::Get => {
            let Some(id) = id else { return needs("id") };
            match done!(memory.get(id)) {
                Some(item) => {
                    let hit = MemoryHit { score: 1.0, item };
                    Ok(listed(&[(scope, hit)]))
                }
                None => Err(format!("There is no memory {:?}.", brief(id))),
            }
        }
        Action::Update => {
            let Some(id) = id else { return needs("id") };
            let mut change = MemoryPatch::default();
            (change.content, change.tags) = (call.content.clone(), call.tags.clone());
            (change.importance, change.pinned) = (call.importance, call.pinned);
            let item = done!(memory.update(id, change));
            said(format!("it is now: {}", described(&item, scope)))
        }
        Action::Remove => {
            let Some(id) = id else { return needs("id") };
            match done!(memory.remove(id)) {
                true => said("forgotten"),
                false => Err(format!("There is no memory {:?}.", brief(id))),
            }
        }
        Action::Consolidate => {
            let moved = done!(memory.consolidate(call.importance.unwrap_or(0.7), Duration::ZERO));
            said(format!(
                "{} moved from working memory to what happened",
                moved.len()
            ))
        }
        Action::Forget => {
            let below = call.importance.unwrap_or(0.2);
            let gone = done!(memory.forget(Forget::Importance { below }));
            said(format!("{} forgotten", gone.len()))
        }
        Action::Stats => {
            let stats = done!(memory.stats());
            said(serde_json::to_string(&stats).unwrap_or_default())
        }
        Action::Learn => {
            let Some(content) = &call.content else {
                return needs("content");
            };
            match done!(memory.add_learning(call.category.unwrap_or_default(), content.as_str())) {
                Some(item) => said(described(&item, scope)),
                None => Err("Not done: the learning is empty.".to_owned()),
            }
        }
        Action::Relate => {
            let (Some(from), Some(relation), Some(to)) = (&call.from, &call.relation, &call.to)
            else {
                return needs("from`, `relation` and `to");
            };
            let triple = Triple::new(from.as_str(), relation.as_str(), to.as_str());
            said(described(&done!(memory.relate(triple)), scope))
        }
        Action::Walk => {
            let Some(from) = &call.from else {
                return needs("from");
            };
            let found = done!(memory.walk(from.as_str(), call.depth.unwrap_or(2)));
            let line = |found: &crate::Found| {
                let triple = &found.triple;
                format!(
                    "{}. {} —{}→ {}",
                    found.depth,
                    brief(&triple.from),
                    brief(&triple.relation),
                    brief(&triple.to)
                )
            };
            let lines: Vec<String> = found.iter().map(line).collect();
            said(match lines.is_empty() {
                true => "nothing is known of it".to_owned(),
                false => lines.join("\n"),
            })
        }
    })
}
