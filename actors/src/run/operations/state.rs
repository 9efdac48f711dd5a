use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::PlainOperation;
use crate::{
    contract::{ItemBody, MailboxItem, StateSlot, StateValue},
    run::{
        Attempt, Begin, Changes, Composed, Gate, OperationContext, Performing, RunContext, Write,
        recorded_change::{UPDATE, Updated},
        temp::Temp,
    },
    vocabulary::{
        AgentError, Digest, ErrorKind, OperationError, OperationId, RunId, RunStart, Scope,
        SessionId, canonical, is_reserved_key, key_of_engine,
    },
};

/// Shared values of one scope. Every read and write is an operation. A write becomes durable and
/// visible to others together with its entry.
#[derive(Debug)]
pub struct Shared<'a> {
    cx: &'a RunContext,
    place: Place,
    /// Whether it is the engine that writes.
    of_engine: bool,
}

/// The place of a scope's values, seen from a run.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The store's name of the scope.
    pub(crate) store: String,
    /// The scope as the run names it. Journals use this name and not the id of a run or a session,
    /// so that a fork asks for the same.
    pub(crate) scope: Scope,
}

impl Place {
    /// The place of this scope for this run. A delegated run has no session and uses the working
    /// memory of its tree instead.
    pub(crate) fn of(start: &RunStart, scope: &Scope) -> Self {
        let (store, scope) = match (scope, &start.session) {
            (Scope::Session, Some(session)) => (session_scope(session), Scope::Session),
            (Scope::Run | Scope::Session, _) => (run_scope(start.root), Scope::Run),
            (Scope::User(owner), _) => (user_scope(&start.team, owner), scope.clone()),
            (Scope::App, _) => (app_scope(&start.team), Scope::App),
            // No store is asked for it.
            (Scope::Temp, _) => (String::new(), Scope::Temp),
        };
        Self { store, scope }
    }

    /// The journal's name of an operation on this key.
    pub(crate) fn recorded(&self, key: &str) -> String {
        format!("{}/{key}", self.scope)
    }
}

fn versioned(slot: StateSlot) -> Option<(Value, u64)> {
    let found = slot.present()?;
    Some((found.value, found.version))
}

/// Decides the new value from the present one. `None` deletes it.
pub(crate) type Decide =
    Arc<dyn Fn(Option<&StateValue>) -> Result<Option<Value>, OperationError> + Send + Sync>;

/// Makes messages about the written value: the receiving runs, with a name and a content each.
pub(super) type Tell = fn(&Value) -> Vec<(RunId, String, Value)>;

/// Begins a read, a decision and a write.
fn begin_update(
    cx: &OperationContext,
    place: Place,
    key: String,
    decide: Decide,
    tell: Option<Tell>,
) -> Begin<Updated> {
    let ports = cx.ports.clone();
    if place.scope == Scope::Temp {
        let temp = cx.leg.temp.clone();
        // The change is recorded only by the entry of its end.
        return Begin::deferred(move || update_temp(&temp, key, &decide));
    }
    let value = (place.store.clone(), key.clone());
    let from = (cx.run, cx.id);
    let attempt: Attempt<Updated> = Arc::new(move || {
        let (place, key, decide) = (place.clone(), key.clone(), decide.clone());
        let read = ports.state(place.store.clone(), key.clone());
        let now = ports.clock().now();
        Box::pin(async move {
            let found = read.await?;
            // A deleted value's version counts on.
            let before = found.version;
            let found = found.present();
            let value = decide(found.as_ref())?;
            if value.is_none() && found.is_none() {
                return Ok((Updated::nothing(), Changes::none()));
            }
            let mut changes = Changes::none();
            changes.write(&place, &key, value.as_ref(), before);
            let version = before + 1;
            let told = value.as_ref().zip(tell);
            let told = told.map_or_else(Vec::new, |(value, tell)| tell(value));
            let posts = told.into_iter().enumerate();
            changes.posts = posts
                .map(|(number, (run, name, value))| {
                    let id = format!("{}/{}/{number}", from.0, from.1);
                    let body = ItemBody::Message { name, value };
                    (run, MailboxItem::new(id, now, body))
                })
                .collect();
            Ok((Updated { value, version }, changes))
        })
    });
    Begin::Write(Write::new(value, attempt))
}

/// Writes the decision about the present value of a run's temporary state.
fn update_temp(temp: &Temp, key: String, decide: &Decide) -> Result<Updated, OperationError> {
    let found = temp.get(&key);
    let version = found.version + 1;
    let found = found.present();
    let value = decide(found.as_ref())?;
    if value.is_none() && found.is_none() {
        return Ok(Updated::nothing());
    }
    let slot = StateSlot {
        value: value.clone(),
        version,
    };
    temp.set(key, slot);
    Ok(Updated { value, version })
}

impl Shared<'_> {
    /// The value under this key.
    ///
    /// # Errors
    /// An error when the value is not of this type. The run is parked then, as for any recorded
    /// result of another type than the code expects.
    pub fn get<T: DeserializeOwned + Send + 'static>(
        &self,
        key: impl Into<String>,
    ) -> Composed<Option<T>> {
        let get = self.get_versioned(key);
        let (id, leg) = (get.id(), self.cx.leg().clone());
        Composed(Box::pin(async move {
            let found = get.await?.map(|(value, _)| serde_json::from_value(value));
            // The run is parked and not failed, so that code that knows the type can go on from
            // here.
            found
                .transpose()
                .map_err(|error| leg.unreadable(id, &error))
        }))
    }

    /// The value under this key with its version, for a later
    /// [`set_if`](Self::set_if).
    pub fn get_versioned(
        &self,
        key: impl Into<String>,
    ) -> Performing<PlainOperation<Option<(Value, u64)>>> {
        let (place, key) = (self.place.clone(), key.into());
        let name = place.recorded(&key);
        let digest = Digest::of(name.as_bytes());
        self.cx
            .perform(PlainOperation::new("state_get", name, digest, move |cx| {
                if place.scope == Scope::Temp {
                    return Begin::deferred(move || Ok(versioned(cx.leg.temp.get(&key))));
                }
                let read = cx.ports.state(place.store, key);
                Begin::act(Gate::After, async move { read.await.map(versioned) })
            }))
    }

    /// Writes a value, whatever the present one is, and returns its version: how often it has been
    /// written or deleted.
    ///
    /// # Errors
    /// An error when the value cannot be written as JSON.
    pub fn set<T: Serialize>(&self, key: impl Into<String>, value: &T) -> Composed<u64> {
        let value = serde_json::to_value(value).map_err(|error| mistyped(&error));
        self.write(key.into(), value, None)
    }

    /// Writes a value if the present one has this version (`None`: if there is none).
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
        let text = value.as_ref().map(canonical::to_vec).unwrap_or_default();
        let name = key.clone();
        let update = self.operation(key, &text, None, move |found| {
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
        let update = self.cx.perform(update);
        Composed(Box::pin(async move { Ok(update.await?.version) }))
    }

    /// Deletes a value.
    pub fn delete(&self, key: impl Into<String>) -> Composed<()> {
        let update = self.operation(key.into(), b"delete", None, |_| Ok(None));
        let update = self.cx.perform(update);
        Composed(Box::pin(async move { update.await.map(drop) }))
    }

    /// Changes a value by a function of the present one, as one operation. The function may be
    /// called several times, so it must have no other effect.
    ///
    /// # Errors
    /// An error when the present value is not of this type.
    pub fn update<T, F>(&self, key: impl Into<String>, change: F) -> Composed<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Option<T>) -> T + Send + Sync + 'static,
    {
        self.update_as(self.cx.allocate(), key, change, None)
    }

    /// Changes a value as [`update`](Self::update) does, under this id, and sends messages about it
    /// to other runs.
    pub(super) fn update_as<T, F>(
        &self,
        id: OperationId,
        key: impl Into<String>,
        change: F,
        tell: Option<Tell>,
    ) -> Composed<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Option<T>) -> T + Send + Sync + 'static,
    {
        let update = self.operation(key.into(), b"update", tell, move |found| {
            let found = found.map(|found| T::deserialize(&found.value)).transpose();
            let changed = change(found.map_err(|error| mistyped(&error))?);
            serde_json::to_value(changed)
                .map(Some)
                .map_err(|error| mistyped(&error))
        });
        let update = self.cx.perform_as(id, update);
        Composed(Box::pin(async move {
            let updated = update.await?;
            serde_json::from_value(updated.value.unwrap_or_default())
                .map_err(|error| AgentError::Operation(mistyped(&error)))
        }))
    }

    /// A read, a decision and a write, as one operation. When somebody else writes in between, the
    /// decision is made again.
    fn operation<F>(
        &self,
        key: String,
        input: &[u8],
        tell: Option<Tell>,
        decide: F,
    ) -> PlainOperation<Updated>
    where
        F: Fn(Option<&StateValue>) -> Result<Option<Value>, OperationError> + Send + Sync + 'static,
    {
        let decide: Decide = if is_reserved_key(&key) && !self.of_engine {
            let message = key_of_engine(&key);
            let refused = OperationError::new(ErrorKind::InvalidInput, message);
            Arc::new(move |_| Err(refused.clone()))
        } else {
            Arc::new(decide)
        };
        let (place, name) = (self.place.clone(), self.place.recorded(&key));
        let digest = Digest::of_parts(&[name.as_bytes(), &Digest::of(input).0]);
        PlainOperation::new(UPDATE, name, digest, move |cx| {
            begin_update(&cx, place, key, decide, tell)
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

/// The store's name of a scope: that of a session, of a user, or of the session's whole team.
/// `None` for a run's own scopes.
pub fn stored_scope(session: &SessionId, scope: &Scope) -> Option<String> {
    match scope {
        Scope::Session => Some(session_scope(session)),
        Scope::User(owner) => Some(user_scope(&session.team, owner)),
        Scope::App => Some(app_scope(&session.team)),
        Scope::Run | Scope::Temp => None,
    }
}

impl RunContext {
    /// Shared values of a scope. A write of a key that begins with `topic:`, `approval:` or `passed_on:`
    /// is refused: under such keys the engine keeps topics, remembered decisions about calls, and the
    /// number of moves of mailbox items.
    pub fn state(&self, scope: Scope) -> Shared<'_> {
        Shared {
            cx: self,
            place: Place::of(self.start(), &scope),
            of_engine: false,
        }
    }

    /// Shared values of a scope for the engine's own keys.
    pub(super) fn engine_state(&self, scope: Scope) -> Shared<'_> {
        let of_engine = true;
        Shared {
            of_engine,
            ..self.state(scope)
        }
    }

    /// The working memory that all runs of the tree share.
    pub fn memory(&self) -> Shared<'_> {
        self.state(Scope::Run)
    }
}
