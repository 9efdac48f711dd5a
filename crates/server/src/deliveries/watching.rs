//! Finds the runs whose news are to be posted, and keeps a task for each subscription.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use ghostlight_actors::{
    actor::System,
    contract::{RunFilter, StoreError},
    vocabulary::{Digest, RunId, Timestamp},
};
use tokio::{
    task::{Id, JoinSet},
    time::{Instant, MissedTickBehavior},
};

use super::{
    Deliveries,
    following::Following,
    subscription::{Recipient, Subscription, Subscriptions},
};
use crate::{
    served::{Notification, ServedSpec},
    variables::Variables,
};

/// How often new runs are looked for.
const LOOK: Duration = Duration::from_millis(500);
/// How often the store is searched for subscriptions that nobody here follows, such as those that other servers left.
const SEARCH: Duration = Duration::from_secs(10);
/// By how much the clocks of processes that begin runs may differ, in milliseconds.
const SKEW_MS: u64 = 60_000;
/// By how much a System's clock may be behind the machine's, in milliseconds.
const BEHIND_MS: u64 = 2_000;
/// How many subscriptions are followed at once; others wait.
const FOLLOWED: usize = 10_000;
/// How many runs are read at once.
const PAGE: usize = 500;
/// How many runs are remembered as found. The store knows the others.
const KNOWN: usize = 100_000;

pub(super) struct Watching {
    deliveries: Deliveries,
    system: System,
    variables: Variables,
    subscriptions: Subscriptions,
    tasks: JoinSet<()>,
    followed: HashMap<String, Id>,
    known: BTreeSet<RunId>,
}

impl Watching {
    pub(super) fn new(deliveries: Deliveries, system: System, variables: Variables) -> Self {
        Self {
            deliveries,
            subscriptions: Subscriptions::of(&system),
            system,
            variables,
            tasks: JoinSet::new(),
            followed: HashMap::new(),
            known: BTreeSet::new(),
        }
    }

    /// Goes on until it is dropped, with all of its tasks.
    pub(super) async fn go_on(mut self) {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut searched: Option<Instant> = None;
        loop {
            let deliveries = self.deliveries.clone();
            let is_added = tokio::select! {
                _ = look.tick() => false,
                () = deliveries.0.added.notified() => true,
                Some(ended) = self.tasks.join_next_with_id() => {
                    let id = match ended {
                        Ok((id, ())) => id,
                        Err(error) => error.id(),
                    };
                    self.followed.retain(|_, task| *task != id);
                    continue;
                }
            };
            let looked = async {
                let is_found = self.find().await?;
                let is_due = searched.is_none_or(|at| at.elapsed() >= SEARCH);
                if is_added || is_found || is_due {
                    self.follow_all().await?;
                    searched = Some(Instant::now());
                }
                Ok::<(), StoreError>(())
            };
            if let Err(error) = looked.await {
                tracing::warn!(%error, "the runs that others want to hear of cannot be read; tried again");
            }
        }
    }

    /// Subscribes the receivers of notifications to new runs; whether there were any.
    async fn find(&mut self) -> Result<bool, StoreError> {
        let mut any = false;
        for team in self.system.teams() {
            // A server is not started where a section cannot be read.
            let served = ServedSpec::of(&team).unwrap_or_default();
            if !served.notifications.is_empty() {
                any |= self.find_of(&team.name, &served.notifications).await?;
            }
        }
        Ok(any)
    }

    async fn find_of(&mut self, team: &str, wanted: &[Notification]) -> Result<bool, StoreError> {
        let Some(until) = self.subscriptions.found(team).await? else {
            // The first time: earlier runs are not news. The System's clock may be behind the machine's by a moment.
            let began = self.deliveries.0.began_ms + SKEW_MS - BEHIND_MS;
            self.subscriptions.put_found(team, began).await?;
            return Ok(false);
        };
        let mut filter = RunFilter::default();
        (filter.roots, filter.team) = (true, Some(team.to_owned()));
        filter.since = Some(Timestamp(until.saturating_sub(SKEW_MS)));
        filter.limit = PAGE;
        let (mut any, mut latest) = (false, until);
        loop {
            let mut rows = self.system.store().runs(filter.clone()).await?;
            let is_last = rows.len() < PAGE;
            filter.after = rows.last().cloned();
            rows.retain(|row| row.run == row.root && !self.known.contains(&row.run));
            let new = rows.iter().flat_map(|row| {
                let to = wanted.iter();
                let to = to.filter(|to| to.enabled.unwrap_or(true));
                to.map(|to| subscription(row.run, to))
            });
            self.subscriptions.add(new.collect()).await?;
            any |= !rows.is_empty();
            if self.known.len() > KNOWN {
                self.known.clear();
            }
            for row in rows {
                latest = latest.max(row.started_at.0);
                self.known.insert(row.run);
            }
            if is_last {
                break;
            }
        }
        if latest > until {
            self.subscriptions.put_found(team, latest).await?;
        }
        Ok(any)
    }

    async fn follow_all(&mut self) -> Result<(), StoreError> {
        for subscription in self.subscriptions.all().await? {
            let key = subscription.key();
            if self.followed.len() >= FOLLOWED || self.followed.contains_key(&key) {
                continue;
            }
            let following = Following::new(
                self.deliveries.clone(),
                (self.system.clone(), self.variables),
                self.subscriptions.clone(),
            );
            let task = self.tasks.spawn({
                let key = key.clone();
                async move {
                    if let Err(error) = following.follow(&key).await {
                        tracing::warn!(subscription = %key, %error, "a delivery is interrupted; it goes on later");
                    }
                }
            });
            self.followed.insert(key, task.id());
        }
        Ok(())
    }
}

fn subscription(run: RunId, to: &Notification) -> Subscription {
    let events: Vec<&str> = to.events.iter().map(|news| news.as_str()).collect();
    let mut name = format!("{} {}", to.url, events.join(" "));
    if let Some(payload) = &to.payload {
        name.push_str(&format!(" {payload}"));
    }
    let name = format!("team-{:.16}", Digest::of(name.as_bytes()).to_string());
    let to = Recipient::Signed {
        url: to.url.clone(),
        secret: to.secret_variable().unwrap_or_default().to_owned(),
        events: to.events.clone(),
        is_asked: false,
        payload: to.payload.clone(),
    };
    Subscription::new(run, name, to)
}
