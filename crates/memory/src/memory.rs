//! A memory, and the operations of a run on it.

use std::{fmt, sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::Companion,
    contract::{Embedder, EmbedderHandle, EmbeddingPurpose},
    definition::MemorySpec,
    run::{
        Attempt, Begin, Changes, Gate, Operation, OperationContext, Performing, RunContext, Write,
        operations::ScopedState,
    },
    vocabulary::{Digest, ErrorKind, OperationError, RunStart, Scope, Timestamp, tenant_of},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    DuplicateCheck, MemoryHit, MemoryQuery, WritePolicy,
    actor::{MemoryActor, MemoryMessage, Search},
    draft::{Bounds, Draft},
    vectors::missing_vectors,
    view::{Head, Keys, View, text_of},
};

/// Whose memory it is. A run reaches only those of its own session, user, tenant and team.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MemoryScope {
    /// This run's, and that of all runs of its tree.
    Run,
    /// This conversation's, over all its turns.
    #[default]
    Session,
    /// The user's, in all conversations with the team.
    User,
    /// That of all users of a tenant: of owners with the same text before the first `/`, or before the colon as in
    /// `acme:ada`.
    Tenant,
    /// That of all conversations with the team, whoever has them.
    Team,
}

impl MemoryScope {
    /// All scopes that outlast a run, the narrowest first.
    pub const LASTING: [Self; 4] = [Self::Session, Self::User, Self::Tenant, Self::Team];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Session => "session",
            Self::User => "user",
            Self::Tenant => "tenant",
            Self::Team => "team",
        }
    }

    /// Its scope of shared state for a run.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if the run has no user, or the user no tenant.
    pub fn of(self, start: &RunStart) -> Result<Scope, OperationError> {
        let nobody = |what: &str| {
            let message = format!(
                "this run {what}, so there is no memory of the scope `{}`; use another scope",
                self.as_str()
            );
            OperationError::new(ErrorKind::Denied, message)
        };
        let owner = || start.owner.as_deref().filter(|owner| !owner.is_empty());
        Ok(match self {
            Self::Run => Scope::Run,
            Self::Session => Scope::Session,
            Self::Team => Scope::App,
            Self::User => {
                let owner = owner().ok_or_else(|| nobody("belongs to nobody"))?;
                // The key would be the tenant's own scope.
                if owner.ends_with('/') {
                    return Err(nobody("belongs to a tenant and to no user of it"));
                }
                Scope::User(owner.to_owned())
            }
            Self::Tenant => {
                let tenant = owner().and_then(|owner| match owner.split_once('/') {
                    Some((tenant, _)) => Some(tenant).filter(|tenant| !tenant.is_empty()),
                    // The owners of a server.
                    None => tenant_of(owner),
                });
                let tenant = tenant.ok_or_else(|| nobody("belongs to no tenant"))?;
                Scope::User(format!("{tenant}/"))
            }
        })
    }
}

/// A memory by its name, with its limits and its embedder. Clones share it.
///
/// ```
/// use ghostlight_actors::{run::{Agent, RunContext}, vocabulary::Outcome};
/// use ghostlight_memory::{Memory, MemoryQuery, MemoryScope, NewMemory};
///
/// let memory = Memory::new("memory");
/// let desk = Agent::from_fn("desk", move |cx: RunContext| {
///     let memory = memory.clone();
///     async move {
///         let user = memory.on(&cx, MemoryScope::User);
///         user.add(NewMemory::fact("Ada lives in Köln").about("where Ada lives")).await?;
///         let found = user.search(MemoryQuery::new("Where does Ada live?")).await?;
///         Ok(Outcome::answer(found[0].item.content.as_str()))
///     }
/// });
/// # let _ = desk;
/// ```
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    name: String,
    bounds: Bounds,
    embedder: Option<EmbedderHandle>,
    writes: Option<Arc<dyn WritePolicy>>,
    same: Option<Arc<dyn DuplicateCheck>>,
}

impl Memory {
    /// The memory with this name: letters, digits, `_` and `-`. All values with the same name share one memory.
    pub fn new(name: impl Into<String>) -> Self {
        let allowed = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let name: String = name.into().chars().filter(allowed).take(64).collect();
        Self(Arc::new(Inner {
            name: if name.is_empty() {
                "memory".to_owned()
            } else {
                name
            },
            bounds: Bounds {
                all: 1_000,
                working: 50,
                decay_hours: 24.0,
            },
            embedder: None,
            writes: None,
            same: None,
        }))
    }

    /// The memory that a definition describes.
    pub fn of(spec: &MemorySpec) -> Self {
        Self::new(spec.name.as_str())
            .capacity(spec.capacity as usize)
            .working_capacity(spec.working_capacity as usize)
            .working_decay(Duration::from_secs_f64(spec.working_decay_h * 3600.0))
    }

    /// Sets how many items a scope keeps; beyond that the item least worth keeping that is not pinned is forgotten.
    #[must_use]
    pub fn capacity(self, items: usize) -> Self {
        self.with(|inner| inner.bounds.all = items.max(1))
    }

    /// Sets how many working memories a scope keeps; 50 when left out.
    #[must_use]
    pub fn working_capacity(self, items: usize) -> Self {
        self.with(|inner| inner.bounds.working = items.max(1))
    }

    /// Sets the time in which a working memory fades to a third; a day when left out.
    #[must_use]
    pub fn working_decay(self, time: Duration) -> Self {
        self.with(|inner| inner.bounds.decay_hours = time.as_secs_f64() / 3600.0)
    }

    /// Finds items by meaning, with vectors of this embedder. Without one, items are found by the words that they share
    /// with the question.
    #[must_use]
    pub fn embedder(self, embedder: impl Embedder) -> Self {
        self.embedder_handle(EmbedderHandle::new(embedder))
    }

    /// The same, with a shared embedder.
    #[must_use]
    pub fn embedder_handle(self, embedder: EmbedderHandle) -> Self {
        self.with(|inner| inner.embedder = Some(embedder))
    }

    /// Decides which finished tasks are kept; otherwise they are by their worth and the threshold of
    /// [`add_task`](ScopedMemory::add_task).
    #[must_use]
    pub fn write_policy(self, policy: impl WritePolicy) -> Self {
        self.with(|inner| inner.writes = Some(Arc::new(policy)))
    }

    /// Decides which items say the same.
    #[must_use]
    pub fn duplicate_check(self, check: impl DuplicateCheck) -> Self {
        self.with(|inner| inner.same = Some(Arc::new(check)))
    }

    pub(crate) fn embedder_of(&self) -> Option<&EmbedderHandle> {
        self.0.embedder.as_ref()
    }

    pub(crate) fn writes(&self) -> Option<&dyn WritePolicy> {
        self.0.writes.as_deref()
    }

    pub(crate) fn same(&self) -> Option<Arc<dyn DuplicateCheck>> {
        self.0.same.clone()
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Inner::clone(&self.0);
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn keys(&self) -> Keys {
        Keys::new(&self.0.name)
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.0.bounds
    }

    /// The memory of a run in this scope.
    pub fn on<'c>(&self, cx: &'c RunContext, scope: MemoryScope) -> ScopedMemory<'c> {
        let memory = self.clone();
        ScopedMemory { memory, cx, scope }
    }

    async fn companion(
        &self,
        cx: &OperationContext,
    ) -> Result<Companion<MemoryMessage>, OperationError> {
        let space = self.space().cloned();
        // Vectors of two spaces cannot be compared, so each space has a cache of its own.
        let id = match &space {
            Some(space) => format!("memory {} by {}", self.0.name, space.name),
            None => format!("memory {}", self.0.name),
        };
        let keys = self.keys();
        let make = move || {
            let (keys, space) = (keys.clone(), space.clone());
            (MemoryActor { keys, space }, ())
        };
        cx.companion(&id, make).await
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({})", self.0.name)
    }
}

/// One scope of a [`Memory`], for a run. Its methods are operations: a write is committed together with its entry in
/// the run's journal, and each read is recorded there.
#[derive(Debug)]
pub struct ScopedMemory<'c> {
    pub(crate) memory: Memory,
    pub(crate) cx: &'c RunContext,
    pub(crate) scope: MemoryScope,
}

/// A function that decides a change and the operation's result.
pub(crate) type Decide<T> =
    Arc<dyn Fn(&mut Draft, &[Option<Vec<f32>>]) -> Result<T, OperationError> + Send + Sync>;

/// An operation on one scope of a memory.
#[must_use = "an operation starts when it is polled"]
pub struct MemoryOperation<T> {
    memory: Memory,
    scope: MemoryScope,
    kind: &'static str,
    name: String,
    digest: Digest,
    /// The texts whose vectors the decision needs.
    texts: Vec<String>,
    decide: Decide<T>,
}

impl<'c> ScopedMemory<'c> {
    /// Performs an operation whose change depends on the scope's content. `input` identifies it among the run's
    /// operations.
    pub(crate) fn perform<T>(
        &self,
        kind: &'static str,
        input: &impl Serialize,
        texts: Vec<String>,
        decide: impl Fn(&mut Draft, &[Option<Vec<f32>>]) -> Result<T, OperationError>
        + Send
        + Sync
        + 'static,
    ) -> Performing<MemoryOperation<T>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let input = serde_json::to_vec(input).unwrap_or_default();
        self.cx.perform(MemoryOperation {
            memory: self.memory.clone(),
            scope: self.scope,
            kind,
            name: format!("{}/{}", self.scope.as_str(), self.memory.name()),
            digest: Digest::of(&input),
            texts,
            decide: Arc::new(decide),
        })
    }

    /// The items that answer a question best, the best first. Each found item counts as used, unless the query says
    /// otherwise.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an empty question.
    pub fn search(&self, query: MemoryQuery) -> Performing<SearchMemory> {
        self.cx.perform(SearchMemory {
            memory: self.memory.clone(),
            scope: self.scope,
            name: format!("{}/{}", self.scope.as_str(), self.memory.name()),
            query,
        })
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Operation for MemoryOperation<T> {
    type Output = T;

    fn kind(&self) -> &'static str {
        self.kind
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> Digest {
        Digest::of_parts(&[self.name.as_bytes(), &self.digest.0])
    }

    fn begin(self, cx: OperationContext) -> Begin<T> {
        act(async move {
            let Self {
                memory,
                scope,
                texts,
                decide,
                ..
            } = self;
            let state = state_of(&cx, scope)?;
            let companion = memory.companion(&cx).await?;
            let vectors = memory.embed(&texts, EmbeddingPurpose::Document).await;
            let vectors: Arc<[_]> = vectors.into();
            let decide: Decide<T> = decide;
            Ok(Begin::Write(writing(
                memory,
                cx,
                state,
                companion,
                move |draft| decide(draft, &vectors),
            )))
        })
    }
}

/// The engine's attempt of a change that a function decides.
fn writing<T: Send + 'static>(
    memory: Memory,
    cx: OperationContext,
    state: ScopedState,
    companion: Companion<MemoryMessage>,
    decide: impl Fn(&mut Draft) -> Result<T, OperationError> + Send + Sync + 'static,
) -> Write<T> {
    let place = (
        state.stored_as().to_owned(),
        memory.keys().head().to_owned(),
    );
    let decide = Arc::new(decide);
    let attempt: Attempt<T> = Arc::new(move || {
        let (memory, cx, state) = (memory.clone(), cx.clone(), state.clone());
        let (companion, decide) = (companion.clone(), decide.clone());
        Box::pin(async move {
            let view = see(&memory, &companion, &state).await?;
            let draft = Draft::new(view, memory.keys(), cx.now(), memory.bounds());
            let draft = draft.compared_by(memory.same());
            let mut draft = draft.by(cx.run, cx.id, &cx.agent().name);
            let result = decide(&mut draft)?;
            if draft.is_empty() {
                return Ok((result, Changes::none()));
            }
            let (changes, view) = draft.changes(cx.id, &state).await?;
            let scope = state.stored_as().to_owned();
            companion.tell(MemoryMessage::Writing(scope, Arc::new(view)));
            Ok((result, changes))
        })
    });
    Write::new(place, attempt)
}

/// The current content of a scope.
async fn see(
    memory: &Memory,
    companion: &Companion<MemoryMessage>,
    state: &ScopedState,
) -> Result<Arc<View>, OperationError> {
    let head = head_of(memory, state).await?;
    let asked = companion.ask(|reply| MemoryMessage::View(state.clone(), head.clone(), reply));
    asked.await?
}

/// The current head of a scope. The actor answers with the content of that write, or of a later one.
async fn head_of(memory: &Memory, state: &ScopedState) -> Result<Head, OperationError> {
    let slot = state.get(memory.keys().head()).await?;
    Head::read(slot.version, slot.value.as_ref())
}

fn state_of(cx: &OperationContext, scope: MemoryScope) -> Result<ScopedState, OperationError> {
    cx.state(&scope.of(cx.start())?)
}

pub(crate) fn act<T: Serialize + Send + 'static>(
    work: impl Future<Output = Result<Begin<T>, OperationError>> + Send + 'static,
) -> Begin<T> {
    Begin::act_then(Gate::After, async move {
        work.await.unwrap_or_else(|error| Begin::Ready(Err(error)))
    })
}

/// A search in one scope of a memory.
#[must_use = "an operation starts when it is polled"]
#[derive(Debug)]
pub struct SearchMemory {
    memory: Memory,
    scope: MemoryScope,
    name: String,
    query: MemoryQuery,
}

impl Operation for SearchMemory {
    type Output = Vec<MemoryHit>;

    fn kind(&self) -> &'static str {
        "memory_search"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> Digest {
        let query = serde_json::to_vec(&self.query).unwrap_or_default();
        Digest::of_parts(&[self.name.as_bytes(), &query])
    }

    fn begin(self, cx: OperationContext) -> Begin<Vec<MemoryHit>> {
        act(async move {
            let Self {
                memory,
                scope,
                mut query,
                ..
            } = self;
            query.k = query.k.min(MemoryQuery::MOST);
            let asked = query.parsed();
            if asked.is_empty() {
                let message = "a search needs a question: words, or `tag:` with tags";
                return Err(OperationError::new(ErrorKind::InvalidInput, message));
            }
            let state = state_of(&cx, scope)?;
            let companion = memory.companion(&cx).await?;
            let mut made = Vec::new();
            let mut vector = None;
            if memory.0.embedder.is_some() {
                vector = memory
                    .embed(&[asked.text], EmbeddingPurpose::Query)
                    .await
                    .pop()
                    .flatten();
                made = missing_vectors(&memory, &*see(&memory, &companion, &state).await?).await;
            }
            let (counts, decay_hours) = (query.counts, memory.bounds().decay_hours);
            let search = Search {
                query,
                vector,
                decay_hours,
                now: cx.now(),
            };
            let head = head_of(&memory, &state).await?;
            let asked = companion.ask(|reply| {
                let (state, head) = (state.clone(), head.clone());
                MemoryMessage::Search(state, head, Box::new(search.clone()), reply)
            });
            let hits = asked.await??;
            if made.is_empty() && (!counts || hits.is_empty()) {
                return Ok(Begin::Ready(Ok(hits)));
            }
            let space = memory.space().cloned();
            Ok(Begin::Write(writing(
                memory,
                cx,
                state,
                companion,
                move |draft| {
                    let mut found = hits.clone();
                    for hit in found.iter_mut().filter(|_| counts) {
                        draft.touch(&hit.item.id);
                        if let Some(item) = draft.view().get(&hit.item.id) {
                            (hit.item.accessed_at, hit.item.accesses) =
                                (item.accessed_at, item.accesses);
                        }
                    }
                    for (id, text, vector) in &made {
                        let same = draft
                            .view()
                            .get(id)
                            .is_some_and(|item| text_of(item) == *text);
                        if let (true, Some(space)) = (same, &space) {
                            draft.put_vector(id, space, vector);
                        }
                    }
                    Ok(found)
                },
            )))
        })
    }
}

impl<T> fmt::Debug for MemoryOperation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// The point in time that many seconds later.
pub(crate) fn later(now: Timestamp, seconds: u64) -> Timestamp {
    now.after(Duration::from_secs(seconds))
}
