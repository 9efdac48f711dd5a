//! Messages to other programs: what becomes of runs, posted until it arrives.
//!
//! A subscription says which run's news go where. It is a row in the store, with the place of the last event that was
//! told. The messages themselves are kept nowhere: they are made of the recorded events behind that place. So a server that
//! is killed goes on where it was, and a message has the same id whenever it is made.

mod counts;
mod following;
mod news;
mod payload;
mod room;
mod subscription;
mod watching;

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::System,
    contract::StoreError,
    vocabulary::{Digest, RunId},
};
use ghostlight_tools::{
    WebSpec,
    web::{PostError, Poster},
};
use serde_json::Value;
use tokio::sync::Notify;

#[cfg(feature = "a2a")]
pub(crate) use subscription::TaskRecipient;
pub(crate) use subscription::{ChatRecipient, SentTurn};
use subscription::{Recipient, Subscription, Subscriptions};

#[cfg(feature = "a2a")]
use crate::sse::Place;
use crate::{served::RunNews, variables::Variables};

/// The rules by which messages are posted to other programs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeliveryOptions {
    /// The hosts that a request may name as receivers, such as `example.org` or `*.example.org`; none when empty. Addresses in
    /// a team's definition are the operator's own and need no entry.
    pub hosts: Vec<String>,
    /// Addresses and networks that are allowed although they are not public, such as `10.1.0.0/16`. Where there are any,
    /// addresses may begin with `http://`, too.
    pub networks: Vec<String>,
    /// How long a receiver may take to answer; 10 seconds when left out.
    pub timeout: Duration,
    /// The pause before a message is posted again; 1 second when left out. It doubles each time, up to an hour.
    pub first_pause: Duration,
    /// After which time a message that does not arrive is left out; a day when left out.
    pub give_up: Duration,
}

impl Default for DeliveryOptions {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            networks: Vec::new(),
            timeout: Duration::from_secs(10),
            first_pause: Duration::from_secs(1),
            give_up: Duration::from_secs(24 * 3_600),
        }
    }
}

ghostlight_actors::setters!(DeliveryOptions {
    hosts: Vec<String>,
    networks: Vec<String>,
    timeout: Duration,
    first_pause: Duration,
    give_up: Duration,
});

/// Why messages cannot be posted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeliveryError {
    /// A setting is not valid.
    #[error("{0}")]
    Setting(String),
}

ghostlight_actors::parts_of_system_error!(DeliveryError);

/// Posts what becomes of runs to other programs: a team's notifications, and the answers of webhooks that want them posted.
///
/// A message is signed, and posted until its receiver answers with a status from 200 to 299, with growing pauses. A receiver
/// may get it more than once, with the same id each time. A receiver that answers 410 gets no more of that run. Addresses
/// are checked by the rules of [`Web`](ghostlight_tools::Web), so a private one is refused unless it is allowed. Several
/// servers over one store share the work.
#[derive(Clone, Debug)]
pub struct Deliveries(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: DeliveryOptions,
    /// For addresses of the operator, and for those that requests name.
    own: Poster,
    asked: Poster,
    room: room::Room,
    counts: counts::Counts,
    began_ms: u64,
    /// Wakes the watcher for a new subscription.
    added: Notify,
}

impl Deliveries {
    /// Deliveries by these rules, for [`Server::deliveries`](crate::Server::deliveries).
    ///
    /// # Errors
    /// [`DeliveryError::Setting`] for a network that is not valid.
    pub fn new(settings: DeliveryOptions) -> Result<Self, DeliveryError> {
        let mut web = WebSpec::default();
        web.ports = Vec::new();
        web.timeout = settings.timeout;
        web.allow_addresses.clone_from(&settings.networks);
        if !settings.networks.is_empty() {
            web.schemes.push("http".to_owned());
        }
        let poster =
            |web| Poster::new(web).map_err(|error| DeliveryError::Setting(error.to_string()));
        let own = poster(web.clone())?;
        web.hosts = Some(settings.hosts.clone());
        Ok(Self(Arc::new(Inner {
            asked: poster(web)?,
            own,
            settings,
            room: room::Room::default(),
            counts: counts::Counts::default(),
            began_ms: following::now_ms(),
            added: Notify::new(),
        })))
    }

    /// The counts of messages by their result since the process began, in the text format of Prometheus.
    pub(crate) fn metrics(&self) -> String {
        self.0.counts.text()
    }

    /// Checks an address that a request names.
    pub(crate) fn check(&self, address: &str) -> Result<(), PostError> {
        self.0.asked.check(address)
    }

    /// Posts the news of a turn, which began this run or was said to it, to an address that a request named, signed with the
    /// secret of this environment variable, in this form where it is the receiver's own. When this returns it is durable;
    /// told twice it is the same.
    pub(crate) async fn call_back(
        &self,
        system: &System,
        (run, turn): (RunId, &SentTurn),
        address: &str,
        (secret, payload): (&str, Option<Value>),
    ) -> Result<(), StoreError> {
        let name = format!(
            "callback-{:.16}",
            Digest::of(address.as_bytes()).to_string()
        );
        let to = Recipient::Signed {
            url: address.to_owned(),
            secret: secret.to_owned(),
            events: vec![
                RunNews::Waiting,
                RunNews::Parked,
                RunNews::Completed,
                RunNews::Failed,
                RunNews::Cancelled,
            ],
            is_asked: true,
            payload,
        };
        self.subscribe(system, Subscription::of_turn(run, turn, name, to))
            .await
    }

    /// Whether requests may name any receiver.
    #[cfg(feature = "a2a")]
    pub(crate) fn may_be_asked(&self) -> bool {
        !self.0.settings.hosts.is_empty()
    }

    /// Tells a receiver of a task what happens behind this place, or all. One of the same id is replaced, and goes on where
    /// it was.
    #[cfg(feature = "a2a")]
    pub(crate) async fn push(
        &self,
        system: &System,
        run: RunId,
        to: TaskRecipient,
        after: Option<Place>,
    ) -> Result<(), StoreError> {
        let mut new = Subscription::of_task(run, to);
        new.told = after.map(|place| (place.position, place.part));
        Subscriptions::of(system).set(new).await?;
        self.0.added.notify_one();
        Ok(())
    }

    /// The receivers of a task.
    #[cfg(feature = "a2a")]
    pub(crate) async fn pushes(
        &self,
        system: &System,
        run: RunId,
    ) -> Result<Vec<ghostlight_a2a::protocol::PushConfig>, StoreError> {
        Subscriptions::of(system).of_task(run).await
    }

    /// Tells a receiver of a task nothing more.
    #[cfg(feature = "a2a")]
    pub(crate) async fn end_push(
        &self,
        system: &System,
        run: RunId,
        id: &str,
    ) -> Result<(), StoreError> {
        Subscriptions::of(system).end_of_task(run, id).await
    }

    /// Tells a person in a messenger what becomes of their message. When this returns it is durable; told twice it is the
    /// same.
    pub(crate) async fn reply(
        &self,
        system: &System,
        (run, turn): (RunId, &SentTurn),
        to: ChatRecipient,
    ) -> Result<(), StoreError> {
        let name = format!("chat-{:.16}", Digest::of(to.message.as_bytes()).to_string());
        let to = Recipient::Chat(to);
        self.subscribe(system, Subscription::of_turn(run, turn, name, to))
            .await
    }

    async fn subscribe(
        &self,
        system: &System,
        subscription: Subscription,
    ) -> Result<(), StoreError> {
        Subscriptions::of(system).add(vec![subscription]).await?;
        self.0.added.notify_one();
        Ok(())
    }

    /// Delivers until it is dropped.
    pub(crate) async fn run(self, system: &System, variables: Variables) {
        let watching = watching::Watching::new(self, system.as_operator(), variables);
        watching.go_on().await;
    }
}
