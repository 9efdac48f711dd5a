//! Follows one subscription: reads the events behind its place, and posts the messages about them.

use std::{
    pin::pin,
    time::{Duration, SystemTime},
};

use ghostlight_actors::{
    actor::System,
    contract::StoreError,
    vocabulary::{Digest, EventRecord, RunId},
};

use super::{
    Deliveries,
    news::NewsReader,
    subscription::{Recipient, Subscription, Subscriptions},
};
use crate::{sse::Place, webhooks::signed};

/// The longest pause before a message is posted again.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);
/// How long an attempt is this server's alone. It is made longer while the receiver does not answer, so that another server
/// takes over soon after this one has died.
const CLAIM: Duration = Duration::from_secs(3);
/// A status by which a receiver says that it wants no more.
const GONE: u16 = 410;

pub(super) struct Following {
    deliveries: Deliveries,
    system: System,
    subscriptions: Subscriptions,
}

/// How an attempt at a message ended.
enum Attempt {
    Arrived,
    /// The receiver wants no more.
    Refused,
    /// It is to be tried again later.
    Failed(String),
}

/// What became of a change to a subscription.
enum Put {
    Done,
    /// Another server has changed it first.
    Outrun,
    /// It has ended.
    Ended,
}

/// A subscription as it stands in the store.
struct Standing {
    subscription: Subscription,
    version: u64,
}

impl Following {
    pub(super) fn new(
        deliveries: Deliveries,
        system: System,
        subscriptions: Subscriptions,
    ) -> Self {
        Self {
            deliveries,
            system,
            subscriptions,
        }
    }

    /// Follows a subscription to its end: that of the run, or of the receiver's interest.
    pub(super) async fn follow(self, key: &str) -> Result<(), StoreError> {
        let Some(mut standing) = self.read(key).await? else {
            return Ok(());
        };
        let run = standing.subscription.run;
        let Some(mut words) = self.words(run, &standing.subscription.to).await? else {
            // The run was deleted, and nothing becomes of it any more.
            return self.end(key, standing.version).await;
        };
        // What an event means depends on those before it, so they are read from the first on.
        let mut events = self.system.run(run).events().recorded();
        while let Some(record) = events.next().await {
            let record = record?;
            let messages = words.read(&record).await;
            let Some(place) = Place::of(&record).filter(|_| !messages.is_empty()) else {
                continue;
            };
            for (number, body) in messages.into_iter().enumerate() {
                let id = standing.subscription.message_id(place, number);
                if !self.tell(key, &mut standing, place, (&id, body)).await? {
                    return Ok(());
                }
            }
            while !standing.subscription.has_told(place) {
                standing.subscription.told = Some((place.position, place.part));
                if let Put::Ended = self.put(key, &mut standing).await? {
                    return Ok(());
                }
            }
        }
        self.end(key, standing.version).await
    }

    /// Posts a message until it has arrived; whether the subscription goes on.
    async fn tell(
        &self,
        key: &str,
        standing: &mut Standing,
        place: Place,
        (id, body): (&str, String),
    ) -> Result<bool, StoreError> {
        let settings = &self.deliveries.0.settings;
        let (first, give_up) = (settings.first_pause, millis(settings.give_up));
        loop {
            let now = &mut standing.subscription;
            if now.has_told(place) {
                return Ok(true);
            }
            let wait = now.not_before_ms.saturating_sub(now_ms());
            if wait > 0 {
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
            let _room = self.deliveries.0.room.acquire().await;
            // Another server may have tried meanwhile; the one that writes this down first tries now.
            if now.attempts == 0 {
                now.since_ms = now_ms();
            }
            now.attempts = now.attempts.saturating_add(1);
            now.not_before_ms = now_ms().saturating_add(millis(CLAIM));
            match self.put(key, standing).await? {
                Put::Done => {}
                Put::Outrun => continue,
                Put::Ended => return Ok(false),
            }
            let attempt = self.attempt(key, standing, (id, &body)).await?;
            let now = &mut standing.subscription;
            match attempt {
                Attempt::Arrived => {
                    (now.attempts, now.not_before_ms) = (0, 0);
                    return Ok(true);
                }
                Attempt::Refused => {
                    self.end(key, standing.version).await?;
                    return Ok(false);
                }
                Attempt::Failed(why) => {
                    let is_over = now_ms().saturating_sub(now.since_ms) >= give_up;
                    tracing::warn!(run = %now.run, message = id, attempt = now.attempts, is_over, why, "a message does not arrive");
                    if is_over {
                        (now.attempts, now.not_before_ms) = (0, 0);
                        return Ok(true);
                    }
                    now.not_before_ms = now_ms().saturating_add(pause(first, id, now.attempts));
                    if let Put::Ended = self.put(key, standing).await? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Posts a message once, and keeps the claim meanwhile.
    async fn attempt(
        &self,
        key: &str,
        standing: &mut Standing,
        (id, body): (&str, &str),
    ) -> Result<Attempt, StoreError> {
        let to = standing.subscription.to.clone();
        let mut posting = pin!(self.post(&to, id, body));
        loop {
            tokio::select! {
                attempt = &mut posting => return Ok(attempt),
                () = tokio::time::sleep(CLAIM / 3) => {
                    let until = now_ms().saturating_add(millis(CLAIM));
                    standing.subscription.not_before_ms = until;
                    self.put(key, standing).await?;
                }
            }
        }
    }

    async fn post(&self, to: &Recipient, id: &str, body: &str) -> Attempt {
        let inner = &self.deliveries.0;
        let (poster, url, headers) = match to {
            Recipient::Signed {
                url,
                secret,
                is_asked,
                ..
            } => {
                let found = std::env::var(secret).unwrap_or_default();
                let Some(headers) = signed(found.trim(), id, now_ms() / 1_000, body) else {
                    return Attempt::Failed(format!("the variable {secret} holds no secret"));
                };
                let poster = if *is_asked { &inner.asked } else { &inner.own };
                (poster, url, headers)
            }
        };
        match poster.post(url, &headers, body.to_owned()).await {
            Ok(200..=299) => Attempt::Arrived,
            Ok(GONE) => Attempt::Refused,
            Ok(status) => Attempt::Failed(format!("the receiver answers {status}")),
            Err(error) => Attempt::Failed(error.to_string()),
        }
    }

    async fn read(&self, key: &str) -> Result<Option<Standing>, StoreError> {
        let found = self.subscriptions.get(key).await?;
        Ok(found.map(|(subscription, version)| Standing {
            subscription,
            version,
        }))
    }

    /// Writes a subscription down. Where another server was faster, its standing is taken over.
    async fn put(&self, key: &str, standing: &mut Standing) -> Result<Put, StoreError> {
        let row = Some(&standing.subscription);
        if self.subscriptions.put(key, row, standing.version).await? {
            standing.version += 1;
            return Ok(Put::Done);
        }
        let found = self.read(key).await?;
        Ok(match found {
            Some(found) => {
                *standing = found;
                Put::Outrun
            }
            None => Put::Ended,
        })
    }

    async fn end(&self, key: &str, version: u64) -> Result<(), StoreError> {
        self.subscriptions.put(key, None, version).await.map(drop)
    }

    async fn words(&self, run: RunId, to: &Recipient) -> Result<Option<Words>, StoreError> {
        let Some(row) = self.system.store().run(run).await? else {
            return Ok(None);
        };
        Ok(Some(match to {
            Recipient::Signed { events, .. } => {
                Words::News(NewsReader::new(run, row.session), events.clone())
            }
        }))
    }
}

/// In whose words events are told.
enum Words {
    News(NewsReader, Vec<ghostlight_actors::definition::RunNews>),
}

impl Words {
    /// The messages about an event.
    async fn read(&mut self, record: &EventRecord) -> Vec<String> {
        match self {
            Self::News(reader, wanted) => {
                let news = reader.read(record);
                let news = news.filter(|(news, _)| wanted.is_empty() || wanted.contains(news));
                news.map(|(_, message)| message.to_string())
                    .into_iter()
                    .collect()
            }
        }
    }
}

/// The pause before the next attempt, in milliseconds: doubled each time, and up to a quarter longer, so that messages that
/// failed together do not come back together.
fn pause(first: Duration, id: &str, attempts: u32) -> u64 {
    let doubled = first.saturating_mul(1 << attempts.saturating_sub(1).min(20));
    let pause = millis(doubled.min(LONGEST_PAUSE));
    let drawn = Digest::of(format!("{id}/{attempts}").as_bytes()).to_string();
    let drawn = u64::from_str_radix(&drawn[..4], 16).unwrap_or_default();
    pause + pause * drawn / (4 << 16)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, millis)
}
