//! Topics: events that agents publish and receive, through shared state and mailboxes.

mod copied;
mod looking;
mod signal;
mod state;

use std::{fmt, marker::PhantomData, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{AgentMessage, Scope, Spawned, message::receive_on};
use crate::{
    run::{RunContext, Task, recorded_result::as_result},
    vocabulary::{
        AgentError, Arguments, ErrorKind, OperationError, OperationId, ParentPolicy, RunId,
        ToolCall, ToolResult, ToolStatus, as_text,
    },
};

pub(crate) use copied::{copied_result, copied_value};
pub(crate) use looking::topics_among;
pub(crate) use signal::outlasts_journal;
use signal::{Response, ended, posting, signal_on, told};
use state::{Item, Reply, Report, TopicState};
pub use state::{Overflow, QueueCounts, Subscription, TopicCounts};

/// The prefix of the keys of topics in shared state.
const KEY: &str = "topic:";

/// How long a publisher waits for room before it checks whether its receivers still live.
const PATIENCE: Duration = Duration::from_secs(30);

/// A topic. Publishers of events need not know the receivers. Its queues are shared state and its
/// signals go through mailboxes, so events are neither lost nor received twice when a process dies,
/// and a run that waits for one can sleep.
///
/// ```
/// use ghostlight_actors::run::{RunContext, operations::{Overflow, Subscription}};
/// use ghostlight_actors::vocabulary::{AgentError, Outcome};
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Price { euro: u32 }
///
/// async fn watch(cx: RunContext) -> Result<Outcome, AgentError> {
///     let queue = Subscription::new("watcher").capacity(8).overflow(Overflow::DropOldest);
///     let prices = cx.topic::<Price>("prices").subscribe(queue).await?;
///     let mut high = prices.filter(|price| price.euro > 100).map(|price| price.euro);
///     let first = high.next().await?;
///     Ok(Outcome::answer(format!("{} euro, says {}", first.event, first.from)))
/// }
/// ```
pub struct Topic<'a, E> {
    at: Place<'a>,
    event: PhantomData<fn() -> E>,
}

/// A topic's place in shared state, seen from a run.
#[derive(Clone)]
struct Place<'a> {
    cx: &'a RunContext,
    topic: String,
    scope: Scope,
}

/// The result of publishing an event.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Published {
    /// The event's number on its topic, from 1.
    pub sequence: u64,
    /// How many queues took it.
    pub delivered: u32,
    /// How many events were dropped for it, including the event itself.
    pub dropped: u32,
    /// How many queues were full and did not take it.
    pub held_back: u32,
    /// The runs that the event started, for agents that [start
    /// on](crate::definition::AgentSpec::starts_on) the topic.
    pub started: Vec<Spawned>,
    /// The agents that start on the topic and did not start, each with the reason, such as an event that does not fit its
    /// input.
    pub not_started: Vec<(String, OperationError)>,
}

/// An event that was received.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Received<E> {
    /// The event.
    pub event: E,
    /// Its number on its topic.
    pub sequence: u64,
    /// The agent that published it.
    pub from: String,
    reply: Option<Reply>,
}

type Read<E> = Box<dyn Fn(Value) -> Result<Option<E>, serde_json::Error> + Send + Sync>;

/// A receiver of a topic's events.
pub struct Subscriber<'a, E> {
    at: Place<'a>,
    name: String,
    /// The mailbox channel on which only this receiver of its run gets signals.
    channel: String,
    read: Read<E>,
}

impl Place<'_> {
    async fn change<F>(&self, change: F) -> Result<TopicState, AgentError>
    where
        F: Fn(&mut TopicState) + Send + Sync + 'static,
    {
        self.change_as(self.cx.allocate(), change).await
    }

    async fn change_as<F>(&self, id: OperationId, change: F) -> Result<TopicState, AgentError>
    where
        F: Fn(&mut TopicState) + Send + Sync + 'static,
    {
        if self.scope == Scope::Temp {
            let message = "a topic is shared, so it cannot be of the scope `temp`; use `run`";
            return Err(OperationError::new(ErrorKind::InvalidInput, message).into());
        }
        let change = move |found: Option<TopicState>| {
            let mut state = found.unwrap_or_default();
            state.report = Report::default();
            change(&mut state);
            state
        };
        let state = self.cx.engine_state(self.scope.clone());
        state.update_as(id, self.key(), change, Some(told)).await
    }

    fn key(&self) -> String {
        format!("{KEY}{}", self.topic)
    }

    /// Removes those of the given receivers that have ended. `true` if there were any.
    async fn let_the_dead_go(&self, runs: Vec<RunId>) -> Result<bool, AgentError> {
        let dead = self.cx.perform(ended(runs)).await?;
        if dead.is_empty() {
            return Ok(false);
        }
        self.change(move |state| state.forget(&dead)).await?;
        Ok(true)
    }

    fn mistyped(&self, fault: &serde_json::Error) -> AgentError {
        let message = format!(
            "what is said on the topic {:?} does not fit: {fault}",
            self.topic
        );
        OperationError::new(ErrorKind::Malformed, message).into()
    }
}

impl RunContext {
    /// A topic that the runs of this tree share; [`Topic::in_scope`] shares it with others.
    pub fn topic<E: Serialize + DeserializeOwned>(&self, name: impl Into<String>) -> Topic<'_, E> {
        let at = Place {
            cx: self,
            topic: name.into(),
            scope: Scope::Run,
        };
        let event = PhantomData;
        Topic { at, event }
    }

    /// Publishes the event of a model's call.
    pub(super) async fn publish_call(self, call: ToolCall) -> Result<ToolResult, AgentError> {
        #[derive(Deserialize)]
        struct Wanted {
            topic: String,
            event: String,
            #[serde(default)]
            priority: i32,
        }
        let read = |arguments: Arguments| arguments.parse().map_err(|fault| fault.to_string());
        let wanted: Wanted = match self.fits_offered(&call).and_then(read) {
            Ok(wanted) => wanted,
            Err(fault) => return Ok(ToolResult::new(&call, ToolStatus::Error, fault)),
        };
        let topic = self.topic::<String>(wanted.topic);
        let published = topic.publish_with_priority(&wanted.event, wanted.priority);
        let told = |published: Published| match published.held_back {
            0 => {
                let faults = published.not_started.iter();
                let faults =
                    faults.map(|(agent, fault)| format!(" {agent} did not start: {fault}."));
                let text = format!("Published.{}", faults.collect::<String>());
                ToolResult::new(&call, ToolStatus::Success, text)
            }
            held_back => {
                let queues = held_back + published.delivered;
                let text = format!(
                    "Held back: {held_back} of {queues} receivers have too much waiting for them \
                     and do not get it."
                );
                ToolResult::new(&call, ToolStatus::Blocked, text)
            }
        };
        as_result(&call, published.await.map(told))
    }
}

impl<'a, E: Serialize + DeserializeOwned> Topic<'a, E> {
    /// Shares the topic with all runs that share this state: of the session, the user or the team.
    /// With [`Scope::Temp`], which no other run shares, publishing and subscribing fail with
    /// [`ErrorKind::InvalidInput`].
    #[must_use]
    pub fn in_scope(mut self, scope: Scope) -> Self {
        self.at.scope = scope;
        self
    }

    /// Publishes an event to each queue of the topic. A full queue drops an event according to its
    /// [`Overflow`]. If a full queue blocks, the publisher waits for room.
    ///
    /// # Errors
    /// An error when the event cannot be written as JSON.
    pub async fn publish(&self, event: &E) -> Result<Published, AgentError> {
        self.publish_with_priority(event, 0).await
    }

    /// Publishes an event of this priority. Events of a higher priority are kept longer: see
    /// [`Overflow::DropLowestPriority`].
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub async fn publish_with_priority(
        &self,
        event: &E,
        priority: i32,
    ) -> Result<Published, AgentError> {
        self.offer(self.value_of(event)?, priority, None).await
    }

    /// Publishes an event that asks for an answer, and waits for the first answer, at most for the
    /// given time.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] when nobody answers in time; [`ErrorKind::Malformed`] when the answer
    /// is not of this type.
    pub async fn request<R: DeserializeOwned>(
        &self,
        event: &E,
        limit: Duration,
    ) -> Result<R, AgentError> {
        let cx = self.at.cx;
        let ticket = cx.uuid().await?.to_string();
        let reply = Some((cx.run(), ticket.clone()));
        let event = self.value_of(event)?;
        let asked = async {
            self.offer(event, 0, reply).await?;
            cx.perform(receive_on::<Response>(&ticket, None)).await
        };
        let Ok(answer) = cx.timeout(limit, asked).await else {
            let message = format!("nobody answered on the topic {:?} in time", self.at.topic);
            return Err(OperationError::new(ErrorKind::Timeout, message).into());
        };
        let Response(value) = answer?;
        serde_json::from_value(value).map_err(|fault| self.at.mistyped(&fault))
    }

    fn value_of(&self, event: &E) -> Result<Value, AgentError> {
        serde_json::to_value(event).map_err(|fault| self.at.mistyped(&fault))
    }

    async fn offer(
        &self,
        event: Value,
        priority: i32,
        reply: Option<Reply>,
    ) -> Result<Published, AgentError> {
        let cx = self.at.cx;
        let item = Item {
            sequence: 0,
            from: cx.spec().name.clone(),
            priority,
            reply,
            event: event.clone(),
        };
        let mut ticket: Option<String> = None;
        let state = loop {
            let waiter = ticket.clone().map(|ticket| (cx.run(), ticket));
            let item = item.clone();
            let offered = self
                .at
                .change(move |state| state.offer(&item, waiter.clone()));
            let state = offered.await?;
            if state.report.full.is_empty() {
                break state;
            }
            let Some(channel) = &ticket else {
                ticket = Some(cx.uuid().await?.to_string());
                continue;
            };
            let is_known = state.holds_up(&(cx.run(), channel.clone()));
            if !self.at.let_the_dead_go(state.members_of_full()).await? {
                // After a signal or the timeout, the publisher looks again.
                let look = cx.perform(signal_on(channel, is_known));
                let _ = cx.timeout(PATIENCE, look).await;
            }
        };
        let mut published = Published {
            sequence: state.published,
            delivered: state.report.delivered,
            dropped: state.report.dropped,
            held_back: u32::try_from(state.queues.len())
                .unwrap_or(u32::MAX)
                .saturating_sub(state.report.delivered),
            started: Vec::new(),
            not_started: Vec::new(),
        };
        self.start_agents(&event, &mut published).await?;
        let started: Vec<&str> = published.started.iter().map(|s| s.agent.as_str()).collect();
        cx.emit(
            "published",
            &json!({
                "topic": self.at.topic,
                "sequence": published.sequence,
                "delivered": published.delivered,
                "dropped": published.dropped,
                "held_back": published.held_back,
                "started": started,
            }),
        );
        Ok(published)
    }

    /// Starts the agents that start on the topic. The event is out by now, so one that cannot start is no failure.
    async fn start_agents(
        &self,
        event: &Value,
        published: &mut Published,
    ) -> Result<(), AgentError> {
        let text = as_text(event);
        let cx = self.at.cx;
        for (_, agent) in cx.leg().pinned.team.agent.walk() {
            if agent.starts_on.contains(&self.at.topic) {
                let task = Task::from(text.as_str()).when_parent_ends(ParentPolicy::Continue);
                match cx.spawn(agent.name.as_str(), task).await {
                    Ok(spawned) => published.started.push(spawned),
                    Err(AgentError::Operation(error)) => {
                        published.not_started.push((agent.name.clone(), error));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Receives the topic's events from here on, through the queue of this name. Subscribers with
    /// the same name share a queue, and each event goes to one of them. A queue exists until it is
    /// [closed](Subscriber::close), and takes events even while nobody receives. So in a lasting
    /// scope, use a name that later runs use again, and not a name for one run.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn subscribe(
        &self,
        subscription: Subscription,
    ) -> Result<Subscriber<'a, E>, AgentError>
    where
        E: 'static,
    {
        let (name, at) = (subscription.name.clone(), self.at.clone());
        let (run, id) = (at.cx.run(), at.cx.allocate());
        let joined = at.change_as(id, move |state| state.join(&subscription, run));
        let crowd = joined.await?.report.crowd;
        if !crowd.is_empty() {
            at.let_the_dead_go(crowd).await?;
        }
        Ok(Subscriber {
            channel: format!("{}/{name}/{id}", at.topic),
            at,
            name,
            read: Box::new(|value| serde_json::from_value(value).map(Some)),
        })
    }

    /// The number of published events, and the counts of each queue.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn counts(&self) -> Result<TopicCounts, AgentError> {
        let state = self.at.cx.state(self.at.scope.clone());
        let state = state.get::<TopicState>(self.at.key()).await?;
        Ok(state.unwrap_or_default().counts())
    }
}

impl<'a, E: 'static> Subscriber<'a, E> {
    /// Leaves out events for which this function is false. The function must be pure.
    #[must_use]
    pub fn filter(self, keep: impl Fn(&E) -> bool + Send + Sync + 'static) -> Self {
        let read = self.read;
        Self {
            read: Box::new(move |value| Ok(read(value)?.filter(|event| keep(event)))),
            ..self
        }
    }

    /// Transforms each event. The function must be pure.
    pub fn map<F>(self, transform: impl Fn(E) -> F + Send + Sync + 'static) -> Subscriber<'a, F> {
        let read = self.read;
        Subscriber {
            at: self.at,
            name: self.name,
            channel: self.channel,
            read: Box::new(move |value| Ok(read(value)?.map(&transform))),
        }
    }

    /// Waits for the next event and returns it.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`] when an event is not of this type. The event is taken off the queue
    /// all the same.
    /// [`ErrorKind::NotFound`] when the queue was closed.
    pub async fn next(&mut self) -> Result<Received<E>, AgentError> {
        let cx = self.at.cx;
        loop {
            let (name, receiver) = (self.name.clone(), (cx.run(), self.channel.clone()));
            let waits = receiver.clone();
            let taken = self.at.change(move |state| state.take(&name, &receiver));
            let state = taken.await?;
            match state.report.taken {
                Some(item) => {
                    let read = (self.read)(item.event);
                    if let Some(event) = read.map_err(|fault| self.at.mistyped(&fault))? {
                        return Ok(Received {
                            event,
                            sequence: item.sequence,
                            from: item.from,
                            reply: item.reply,
                        });
                    }
                }
                None if state.queues.contains_key(&self.name) => {
                    let is_known = state.has_waiter(&self.name, &waits);
                    cx.perform(signal_on(&self.channel, is_known)).await?;
                }
                None => {
                    let (queue, topic) = (&self.name, &self.at.topic);
                    let message = format!("the queue {queue:?} of {topic:?} is closed");
                    return Err(OperationError::new(ErrorKind::NotFound, message).into());
                }
            }
        }
    }

    /// Closes the queue for all subscribers that share it. The events in it are lost.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn close(self) -> Result<(), AgentError> {
        let name = self.name;
        let closed = self.at.change(move |state| state.close(&name));
        closed.await.map(drop)
    }
}

impl<E> Received<E> {
    /// Whether the event's publisher waits for an answer.
    pub fn asks(&self) -> bool {
        self.reply.is_some()
    }

    /// Answers the event, if its publisher waits for an answer. `false` if the publisher does not
    /// wait or has ended.
    ///
    /// # Errors
    /// An error when the answer cannot be written as JSON.
    pub async fn respond<R: Serialize>(
        &self,
        cx: &RunContext,
        answer: &R,
    ) -> Result<bool, AgentError> {
        let Some((run, ticket)) = &self.reply else {
            return Ok(false);
        };
        let value = serde_json::to_value(Response(
            serde_json::to_value(answer).map_err(AgentError::failed)?,
        ));
        let sent = cx.perform(posting(
            *run,
            format!("{}/{ticket}", Response::NAME),
            value.map_err(AgentError::failed)?,
        ));
        match sent.await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == Some(&ErrorKind::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl<E> fmt::Debug for Topic<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topic({:?})", self.at.topic)
    }
}

impl<E> fmt::Debug for Subscriber<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscriber({:?} of {:?})", self.name, self.at.topic)
    }
}
