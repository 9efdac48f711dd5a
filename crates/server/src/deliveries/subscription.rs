//! Subscriptions in the store.

use ghostlight_actors::{
    actor::System,
    contract::{Batch, Expected, StateSlot, StateWrite, StoreError, StoreHandle},
    vocabulary::{Digest, Event, EventRecord, RunId, SessionId},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::to_raw_value};

use super::following::now_ms;
use crate::{served::RunNews, sse::Place};

/// The scope of the subscriptions in the store, and that of the places up to which runs were found; agents have no scopes
/// of these names.
const SCOPE: &str = "server-deliveries";
const FOUND: &str = "server-deliveries-found";

/// The receivers of news of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Recipient {
    /// Gets news that are signed by Standard Webhooks.
    Signed {
        url: String,
        /// The environment variable that holds the secret.
        secret: String,
        events: Vec<RunNews>,
        /// Whether a request named the address.
        is_asked: bool,
        /// The form of the messages, where it is the receiver's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload: Option<Value>,
    },
    /// Gets what is said to a person in a messenger.
    Chat(ChatRecipient),
    /// Gets the updates of a task of A2A.
    #[cfg(feature = "a2a")]
    Task(TaskRecipient),
}

impl Recipient {
    /// Its address, as the team or the request names it.
    pub(super) fn url(&self) -> &str {
        match self {
            Self::Signed { url, .. } => url,
            Self::Chat(to) => &to.url,
            #[cfg(feature = "a2a")]
            Self::Task(to) => &to.config.url,
        }
    }
}

/// A person in a chat of a messenger, and the message that is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChatRecipient {
    /// The owner of the person's sessions.
    pub(crate) owner: String,
    pub(crate) messenger: String,
    pub(crate) url: String,
    /// The environment variable that holds the secret.
    pub(crate) secret: String,
    /// Of a bot of Telegram: the environment variable that holds its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    pub(crate) chat: String,
    pub(crate) sender: String,
    pub(crate) message: String,
    /// The reaction to the message when work on it begins.
    pub(crate) emoji: Option<String>,
}

#[cfg(feature = "memory")]
impl ChatRecipient {
    /// The person and the chat, in the words of memories.
    pub(crate) fn place(&self) -> String {
        format!("{}/{}", self.owner, self.chat)
    }
}

/// The receivers of news of a task of A2A, and how its client sees the task.
#[cfg(feature = "a2a")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskRecipient {
    pub(crate) config: ghostlight_a2a::protocol::PushConfig,
    pub(crate) context: String,
    /// The message that began it.
    pub(crate) message: String,
    pub(crate) is_json: bool,
}

/// A turn that was sent to a session.
#[derive(Clone, Debug)]
pub(crate) struct SentTurn {
    pub(crate) session: SessionId,
    pub(crate) id: String,
}

/// A turn that was said to a run under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) turn: String,
    /// The run that it becomes where no other takes it.
    own: RunId,
    /// When it was said, in milliseconds since 1970.
    at_ms: u64,
}

/// One receiver of one run's news, and how far they have come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Subscription {
    pub(super) run: RunId,
    /// Tells the receivers of one run apart.
    pub(super) name: String,
    pub(super) to: Recipient,
    /// The turn that was said to this run, which was under way. The news are those of the run that takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) said: Option<Said>,
    /// The last event that was told, by its position and part.
    pub(super) told: Option<(u64, u32)>,
    /// How often the next message was tried, the first time, and the time before which nobody tries it again, in
    /// milliseconds since 1970.
    pub(super) attempts: u32,
    pub(super) since_ms: u64,
    pub(super) not_before_ms: u64,
}

impl Subscription {
    pub(super) fn new(run: RunId, name: String, to: Recipient) -> Self {
        Self {
            run,
            name,
            to,
            said: None,
            told: None,
            attempts: 0,
            since_ms: 0,
            not_before_ms: 0,
        }
    }

    /// The news of a turn that began this run, or was said to it.
    pub(super) fn of_turn(run: RunId, turn: &SentTurn, name: String, to: Recipient) -> Self {
        let own = RunId::of_turn(&turn.session, &turn.id);
        let said = || Said {
            turn: turn.id.clone(),
            own,
            at_ms: now_ms(),
        };
        Self {
            said: (run != own).then(said),
            ..Self::new(run, name, to)
        }
    }

    #[cfg(feature = "a2a")]
    pub(super) fn of_task(run: RunId, to: TaskRecipient) -> Self {
        Self::new(run, format!("task-{}", to.config.id), Recipient::Task(to))
    }

    pub(super) fn key(&self) -> String {
        // A turn that is sent again may be found in another run by then.
        let run = self.said.as_ref().map_or(self.run, |said| said.own);
        format!("{run}/{}", self.name)
    }

    /// Whether this is a question of a run that was answered before the turn was said to it.
    pub(super) fn is_past(&self, record: &EventRecord) -> bool {
        let is_question = matches!(record.event, Event::QuestionAsked { .. });
        is_question
            && self
                .said
                .as_ref()
                .is_some_and(|said| record.at.0 < said.at_ms)
    }

    /// Whether this event was told before.
    pub(super) fn has_told(&self, place: Place) -> bool {
        self.told >= Some((place.position, place.part))
    }

    /// The id of a message about this event: the same whenever it is made, and another for each receiver.
    pub(super) fn message_id(&self, place: Place, number: usize) -> String {
        let of = format!("{}/{place}/{number}", self.key());
        format!("msg_{:.32}", Digest::of(of.as_bytes()).to_string())
    }
}

/// The subscriptions in a store.
#[derive(Clone, Debug)]
pub(super) struct Subscriptions(StoreHandle);

impl Subscriptions {
    pub(super) fn of(system: &System) -> Self {
        Self(system.store().clone())
    }

    /// Adds subscriptions that were never there. One that was there before, ended or not, stays as it is.
    pub(super) async fn add(&self, new: Vec<Subscription>) -> Result<(), StoreError> {
        let batch = |subscription: Subscription| {
            let key = subscription.key();
            write(SCOPE, key, Some(&subscription), Expected::Version(0))
        };
        let batches = new.into_iter().map(batch).collect::<Result<Vec<_>, _>>()?;
        for committed in self.0.commit(batches).await? {
            match committed {
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds a receiver of a task, or replaces the one of its id, which goes on where it was.
    #[cfg(feature = "a2a")]
    pub(super) async fn set(&self, mut new: Subscription) -> Result<(), StoreError> {
        let key = new.key();
        loop {
            let slot = self.0.state(SCOPE.to_owned(), key.clone()).await?;
            if let Some(known) = slot.value {
                let known: Subscription = read(&key, known)?;
                (new.told, new.attempts) = (known.told, known.attempts);
                (new.since_ms, new.not_before_ms) = (known.since_ms, known.not_before_ms);
            }
            if self.put(&key, Some(&new), slot.version, &new).await? {
                return Ok(());
            }
        }
    }

    /// The receivers of a task that have not ended.
    #[cfg(feature = "a2a")]
    pub(super) async fn of_task(
        &self,
        run: RunId,
    ) -> Result<Vec<ghostlight_a2a::protocol::PushConfig>, StoreError> {
        let rows = self.0.scope(of_task(run)).await?;
        let rows = rows.into_iter();
        rows.map(|(key, row)| read(&key, row.value)).collect()
    }

    #[cfg(feature = "a2a")]
    pub(super) async fn end_of_task(&self, run: RunId, id: &str) -> Result<(), StoreError> {
        let key = format!("{run}/task-{id}");
        while let Some((found, version)) = self.get(&key).await? {
            if self.put(&key, None, version, &found).await? {
                break;
            }
        }
        Ok(())
    }

    pub(super) async fn all(&self) -> Result<Vec<Subscription>, StoreError> {
        let rows = self.0.scope(SCOPE.to_owned()).await?;
        let read = |(key, row): (String, _)| {
            let ghostlight_actors::contract::StateValue { value, .. } = row;
            read(&key, value)
        };
        rows.into_iter().map(read).collect()
    }

    /// A subscription with its version; `None` where it has ended.
    pub(super) async fn get(&self, key: &str) -> Result<Option<(Subscription, u64)>, StoreError> {
        let slot = self.0.state(SCOPE.to_owned(), key.to_owned()).await?;
        let StateSlot { value, version } = slot;
        let found = value.map(|value| read(key, value)).transpose()?;
        Ok(found.map(|found| (found, version)))
    }

    /// Changes a subscription, or ends it, unless somebody has changed it since `version`; whether it was changed.
    pub(super) async fn put(
        &self,
        key: &str,
        subscription: Option<&Subscription>,
        version: u64,
        of: &Subscription,
    ) -> Result<bool, StoreError> {
        let expected = Expected::Version(version);
        #[cfg_attr(not(feature = "a2a"), expect(unused_mut))]
        let mut batch = write(SCOPE, key.to_owned(), subscription, expected)?;
        match &of.to {
            Recipient::Signed { .. } | Recipient::Chat(_) => {}
            // A second row, by which the receivers of one task are listed.
            #[cfg(feature = "a2a")]
            Recipient::Task(to) => {
                let listed = subscription.map(|_| &to.config);
                let id = to.config.id.clone();
                let row = write(&of_task(of.run), id, listed, Expected::Any)?;
                batch.writes.extend(row.writes);
            }
        }
        self.commit(batch).await
    }

    /// The time up to which a team's runs were found; `None` before the first time.
    pub(super) async fn found(&self, team: &str) -> Result<Option<u64>, StoreError> {
        let slot = self.0.state(FOUND.to_owned(), team.to_owned()).await?;
        slot.value.map(|value| read(team, value)).transpose()
    }

    pub(super) async fn put_found(&self, team: &str, until: u64) -> Result<(), StoreError> {
        let batch = write(FOUND, team.to_owned(), Some(&until), Expected::Any)?;
        self.commit(batch).await.map(drop)
    }

    async fn commit(&self, batch: Batch) -> Result<bool, StoreError> {
        match self.0.commit(vec![batch]).await?.pop() {
            Some(Err(StoreError::Conflict { .. })) => Ok(false),
            Some(Err(error)) => Err(error),
            Some(Ok(_)) | None => Ok(true),
        }
    }
}

/// The scope of the receivers of a task.
#[cfg(feature = "a2a")]
fn of_task(run: RunId) -> String {
    format!("server-deliveries-of/{run}")
}

fn read<T: DeserializeOwned>(key: &str, value: Value) -> Result<T, StoreError> {
    serde_json::from_value(value).map_err(|error| StoreError::Damaged {
        place: format!("the delivery {key:?}"),
        reason: error.to_string(),
    })
}

fn write<T: Serialize>(
    scope: &str,
    key: String,
    value: Option<&T>,
    expected: Expected,
) -> Result<Batch, StoreError> {
    let value = value.map(to_raw_value).transpose();
    let value = value.map_err(|error| StoreError::Unwritable {
        reason: error.to_string(),
    })?;
    let mut batch = Batch::default();
    batch.writes.push(StateWrite {
        scope: scope.to_owned(),
        key,
        value,
        expected,
    });
    Ok(batch)
}
