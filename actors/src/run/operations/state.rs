use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::to_raw_value};

use crate::{
    contract::{Expected, StateValue, StateWrite},
    run::{
        Act, Attempt, Begin, Changes, Composed, Gate, Operation, OperationContext, Performing,
        Progress, RunContext, Write,
    },
    vocabulary::{
        AgentError, Digest, Entry, ErrorKind, OperationError, RunId, RunStart, Scope, SessionId,
    },
};

/// Shared values of one scope. Every read and write is an operation; a write is durable, and
/// seen by others, together with its entry.
#[derive(Debug)]
pub struct Shared<'a> {
    cx: &'a RunContext,
    place: Place,
}

/// Where values of a scope stand, seen from a run.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// How the store calls the scope.
    pub(crate) store: String,
    /// How journals call it: not by the id of a run or a session, so that a fork asks for the
    /// same.
    pub(crate) label: String,
}

impl Place {
    /// Where this run has this scope. A delegated run has no session: its tree's working memory
    /// stands for it.
    pub(crate) fn of(start: &RunStart, scope: &Scope) -> Self {
        let (store, label) = match (scope, &start.session) {
            (Scope::Session, Some(session)) => (session_scope(session), Scope::Session),
            (Scope::Run | Scope::Session, _) => (run_scope(start.root), Scope::Run),
            (Scope::User(owner), _) => (user_scope(&start.team, owner), scope.clone()),
            (Scope::App, _) => (app_scope(&start.team), Scope::App),
        };
        Self {
            store,
            label: label.to_string(),
        }
    }

    /// How an operation on this key is called in the journal.
    pub(crate) fn recorded(&self, key: &str) -> String {
        format!("{}/{key}", self.label)
    }
}

/// A look at a shared value.
#[derive(Clone, Debug)]
pub struct Get {
    scope: String,
    key: String,
    name: String,
}

impl Operation for Get {
    type Output = Option<(Value, u64)>;

    fn kind(&self) -> &'static str {
        "state_get"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> Digest {
        Digest::of(self.name.as_bytes())
    }

    fn begin(self, cx: OperationContext) -> Begin<Self::Output> {
        let read = cx.ports.state(self.scope, self.key);
        Begin::Act(Act {
            record_start: false,
            gate: Gate::After,
            future: Box::pin(async move {
                let read = read.await;
                Progress::Done(read.map(|found| found.map(|found| (found.value, found.version))))
            }),
        })
    }
}

/// Decides a shared value from the one that is there; `None` deletes it.
type Decide =
    Arc<dyn Fn(Option<&StateValue>) -> Result<Option<Value>, OperationError> + Send + Sync>;

/// A read, a decision and a write, as one operation: when somebody else writes in between, the
/// decision is made again.
pub struct Update {
    scope: String,
    key: String,
    name: String,
    digest: Digest,
    decide: Decide,
}

impl std::fmt::Debug for Update {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Update")
            .field("scope", &self.scope)
            .field("key", &self.key)
            .finish()
    }
}

impl Operation for Update {
    /// The value that was written, and its version.
    type Output = (Option<Value>, u64);

    fn kind(&self) -> &'static str {
        "state_update"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> Digest {
        Digest::of_parts(&[self.name.as_bytes(), &self.digest.0])
    }

    fn begin(self, cx: OperationContext) -> Begin<Self::Output> {
        let ports = cx.ports.clone();
        let Self {
            scope, key, decide, ..
        } = self;
        let place = (scope.clone(), key.clone());
        let attempt: Attempt<Self::Output> = Arc::new(move || {
            let (scope, key, decide) = (scope.clone(), key.clone(), decide.clone());
            let read = ports.state(scope.clone(), key.clone());
            Box::pin(async move {
                let found = match read.await {
                    Ok(found) => found,
                    Err(error) => return (Err(error), Changes::none()),
                };
                let value = match decide(found.as_ref()) {
                    Ok(value) => value,
                    Err(error) => return (Err(error), Changes::none()),
                };
                let (expected, version) = match &found {
                    Some(found) => (Expected::Version(found.version), found.version + 1),
                    None => (Expected::Absent, 1),
                };
                if value.is_none() && found.is_none() {
                    return (Ok((None, 0)), Changes::none());
                }
                let raw = value.as_ref().and_then(|value| to_raw_value(value).ok());
                let write = StateWrite {
                    scope,
                    key,
                    value: raw,
                    expected,
                };
                (Ok((value, version)), Changes::of(vec![write]))
            })
        });
        Begin::Write(Write { place, attempt })
    }
}

impl Shared<'_> {
    /// The value under this key.
    ///
    /// # Errors
    /// When it is not of this type.
    pub fn get<T: DeserializeOwned + Send + 'static>(
        &self,
        key: impl Into<String>,
    ) -> Composed<Option<T>> {
        let get = self.get_versioned(key);
        Composed(Box::pin(async move {
            let found = get.await?.map(|(value, _)| serde_json::from_value(value));
            found
                .transpose()
                .map_err(|error| AgentError::Operation(mistyped(&error)))
        }))
    }

    /// The value under this key with its version, for a later
    /// [`set_if`](Self::set_if).
    pub fn get_versioned(&self, key: impl Into<String>) -> Performing<Get> {
        let key = key.into();
        self.cx.perform(Get {
            scope: self.place.store.clone(),
            name: self.place.recorded(&key),
            key,
        })
    }

    /// Writes a value, whatever is there, and gives its version.
    ///
    /// # Errors
    /// When the value is no JSON.
    pub fn set<T: Serialize>(&self, key: impl Into<String>, value: &T) -> Composed<u64> {
        let value = serde_json::to_value(value).map_err(|error| mistyped(&error));
        self.write(key.into(), value, None)
    }

    /// Writes a value if the one that is there has this version (`None`: if there is none).
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] when it has another one.
    pub fn set_if<T: Serialize>(
        &self,
        key: impl Into<String>,
        value: &T,
        version: Option<u64>,
    ) -> Composed<u64> {
        let value = serde_json::to_value(value).map_err(|error| mistyped(&error));
        self.write(key.into(), value, Some(version))
    }

    fn write(
        &self,
        key: String,
        value: Result<Value, OperationError>,
        expected: Option<Option<u64>>,
    ) -> Composed<u64> {
        let text = value.as_ref().map(Value::to_string).unwrap_or_default();
        let name = key.clone();
        let update = self.perform_update(key, Digest::of(text.as_bytes()), move |found| {
            let have = found.map(|found| found.version);
            match expected {
                Some(expected) if expected != have => {
                    let message =
                        format!("{name:?} has version {have:?}, but {expected:?} was expected");
                    Err(OperationError::new(ErrorKind::Conflict, message).retryable())
                }
                _ => value.clone().map(Some),
            }
        });
        Composed(Box::pin(async move { Ok(update.await?.1) }))
    }

    /// Deletes a value.
    pub fn delete(&self, key: impl Into<String>) -> Composed<()> {
        let update = self.perform_update(key.into(), Digest::of(b"delete"), |_| Ok(None));
        Composed(Box::pin(async move { update.await.map(drop) }))
    }

    /// Changes a value by a function of the one that is there, as one operation. The function
    /// may be called several times, so it must do nothing else.
    ///
    /// # Errors
    /// When the value that is there is not of this type.
    pub fn update<T, F>(&self, key: impl Into<String>, change: F) -> Composed<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Option<T>) -> T + Send + Sync + 'static,
    {
        let update = self.perform_update(key.into(), Digest::of(b"update"), move |found| {
            let found = found.map(|found| T::deserialize(&found.value)).transpose();
            let changed = change(found.map_err(|error| mistyped(&error))?);
            serde_json::to_value(changed)
                .map(Some)
                .map_err(|error| mistyped(&error))
        });
        Composed(Box::pin(async move {
            let (value, _) = update.await?;
            serde_json::from_value(value.unwrap_or_default())
                .map_err(|error| AgentError::Operation(mistyped(&error)))
        }))
    }

    fn perform_update<F>(&self, key: String, digest: Digest, decide: F) -> Performing<Update>
    where
        F: Fn(Option<&StateValue>) -> Result<Option<Value>, OperationError> + Send + Sync + 'static,
    {
        let (scope, name) = (self.place.store.clone(), self.place.recorded(&key));
        self.cx.perform(Update {
            scope,
            key,
            name,
            digest,
            decide: Arc::new(decide),
        })
    }
}

fn mistyped(error: &serde_json::Error) -> OperationError {
    OperationError::new(
        ErrorKind::Malformed,
        format!("the shared value does not fit: {error}"),
    )
}

/// The scope of a tree's working memory.
pub(crate) fn run_scope(root: RunId) -> String {
    format!("run:{root}")
}

/// The scope of a session's state.
pub(crate) fn session_scope(session: &SessionId) -> String {
    format!("session:{session}")
}

/// The scope of a user's state with a team, whose name holds no slash.
pub(crate) fn user_scope(team: &str, owner: &str) -> String {
    format!("user:{team}/{owner}")
}

/// The scope of a team's state.
pub(crate) fn app_scope(team: &str) -> String {
    format!("app:{team}")
}

/// The scope, as a store calls it, of a session's or what it shares; a run's own is none of them.
pub(crate) fn scope_of_session(session: &SessionId, scope: &Scope) -> Option<String> {
    match scope {
        Scope::Session => Some(session_scope(session)),
        Scope::User(owner) => Some(user_scope(&session.team, owner)),
        Scope::App => Some(app_scope(&session.team)),
        Scope::Run => None,
    }
}

/// The label of the scope and the key of a value, from how journals call it.
pub(crate) fn recorded_at(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
}

/// A change of shared state that a journal records: how its scope is called there, the key, the
/// value and its version. `None` when the entry records no change.
pub(crate) fn recorded_write(entry: &Entry) -> Option<(&str, &str, Option<Value>, u64)> {
    let Entry::Completed {
        kind, name, result, ..
    } = entry
    else {
        return None;
    };
    if kind != "state_update" {
        return None;
    }
    let written: Result<(Option<Value>, u64), OperationError> =
        serde_json::from_str(result.get()).ok()?;
    let (value, version) = written.ok()?;
    let (label, key) = recorded_at(name)?;
    Some((label, key, value, version))
}

impl RunContext {
    /// Shared values of a scope.
    pub fn state(&self, scope: Scope) -> Shared<'_> {
        Shared {
            cx: self,
            place: Place::of(self.start(), &scope),
        }
    }

    /// The working memory that all runs of the tree share.
    pub fn memory(&self) -> Shared<'_> {
        self.state(Scope::Run)
    }
}
