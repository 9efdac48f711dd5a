//! Follows one subscription: reads the events behind its place, and posts the messages about them.

use std::{
    pin::pin,
    time::{Duration, SystemTime},
};

#[cfg(feature = "a2a")]
use ghostlight_a2a::{
    protocol::{MEDIA_TYPE, PushConfig},
    translation::TaskReader,
};
use ghostlight_actors::{
    actor::{Run, System},
    contract::StoreError,
    vocabulary::{Digest, Event, EventRecord, RunId, RunResult},
};

use serde_json::{Value, json};

use super::{
    Deliveries,
    news::NewsReader,
    payload::filled,
    subscription::{ChatRecipient, Recipient, Subscription, Subscriptions},
};
#[cfg(feature = "a2a")]
use crate::a2a::{News, TaskEvents};
#[cfg(feature = "memory")]
use crate::messengers::episodes;
use crate::{
    messengers::telegram, served::RunNews, sse::Place, variables::Variables, webhooks::signed,
};

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
    variables: Variables,
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

/// The result of a change to a subscription.
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
        (system, variables): (System, Variables),
        subscriptions: Subscriptions,
    ) -> Self {
        Self {
            deliveries,
            system,
            variables,
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
            return self.end(key, &standing).await;
        };
        // What an event means depends on those before it, so they are read from the first on.
        let mut events = self.run(&standing.subscription).await?.events().recorded();
        while let Some(record) = events.next().await {
            let mut record = record?;
            // The end of a run is that of a turn which was said to it, unless the events of another run follow.
            if standing.subscription.said.is_some()
                && is_end(&record)
                && let Some(next) = events.next().await
            {
                record = next?;
                let Some(of_taker) = self.words(record.run, &standing.subscription.to).await?
                else {
                    break;
                };
                words = of_taker;
                standing.subscription.run = record.run;
            }
            if standing.subscription.is_past(&record) {
                continue;
            }
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
        self.end(key, &standing).await
    }

    /// The run of a subscription: of a turn that was said to it, the handle that goes on to the run which takes it.
    async fn run(&self, subscription: &Subscription) -> Result<Run, StoreError> {
        let run = self.system.run(subscription.run);
        let Some(said) = &subscription.said else {
            return Ok(run);
        };
        let row = self.system.store().run(run.id()).await?;
        Ok(match row.and_then(|row| row.session) {
            Some(session) => {
                let session = self.system.session(session.team, session.key);
                session.said_to(run.id(), &said.turn)
            }
            None => run,
        })
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
        let counts = &self.deliveries.0.counts;
        let _pending = counts.pending();
        loop {
            let now = &mut standing.subscription;
            if now.has_told(place) {
                return Ok(true);
            }
            let wait = now.not_before_ms.saturating_sub(now_ms());
            if wait > 0 {
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
            let _place = self.deliveries.0.room.place(now.to.url()).await;
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
            #[cfg(feature = "memory")]
            let noted = self.note(&standing.subscription, id).await;
            #[cfg(not(feature = "memory"))]
            let noted = Ok::<(), String>(());
            let attempt = match noted {
                Ok(()) => self.attempt(key, standing, (id, &body)).await?,
                Err(why) => Attempt::Failed(why),
            };
            let now = &mut standing.subscription;
            match attempt {
                Attempt::Arrived => {
                    counts.delivered();
                    (now.attempts, now.not_before_ms) = (0, 0);
                    return Ok(true);
                }
                Attempt::Refused => {
                    self.end(key, standing).await?;
                    return Ok(false);
                }
                Attempt::Failed(why) => {
                    let is_over = now_ms().saturating_sub(now.since_ms) >= give_up;
                    counts.failed(is_over);
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

    /// Notes in the team's memories that a person in a messenger is about to hear of a run. It is noted first, so that no
    /// reaction comes before it.
    #[cfg(feature = "memory")]
    async fn note(&self, subscription: &Subscription, id: &str) -> Result<(), String> {
        let Recipient::Chat(to) = &subscription.to else {
            return Ok(());
        };
        let run = subscription.run;
        let row = self.system.store().run(run).await;
        let row = row.map_err(|error| error.to_string())?;
        let Some(session) = row.and_then(|row| row.session) else {
            return Ok(());
        };
        let noted = episodes::note(&self.system, run, &session, to, id).await;
        noted.map_err(|error| error.to_string())
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
        let json = || vec![("content-type".to_owned(), "application/json".to_owned())];
        let (poster, url, headers) = match to {
            Recipient::Chat(ChatRecipient {
                token: Some(variable),
                url,
                ..
            }) => {
                let token = self.variables.secret(variable);
                if token.is_empty() {
                    return Attempt::Failed(format!("the variable {variable} holds no token"));
                }
                let url = self.variables.reveal(url);
                let address = url.map(|url| telegram::address(&url, &token, body));
                (&inner.own, address, json())
            }
            Recipient::Chat(to) => {
                let found = self.variables.secret(&to.secret);
                let Some(headers) = signed(&found, id, now_ms() / 1_000, body) else {
                    return Attempt::Failed(format!("the variable {} holds no secret", to.secret));
                };
                (&inner.own, self.variables.reveal(&to.url), headers)
            }
            Recipient::Signed {
                url,
                secret,
                is_asked,
                ..
            } => {
                let found = self.variables.secret(secret);
                let Some(headers) = signed(&found, id, now_ms() / 1_000, body) else {
                    return Attempt::Failed(format!("the variable {secret} holds no secret"));
                };
                let poster = if *is_asked { &inner.asked } else { &inner.own };
                (poster, self.variables.reveal(url), headers)
            }
            #[cfg(feature = "a2a")]
            Recipient::Task(to) => {
                let url = Ok(to.config.url.clone());
                (&inner.asked, url, headers_of(&to.config, id))
            }
        };
        let url = match url {
            Ok(url) => url,
            Err(reason) => return Attempt::Failed(reason),
        };
        match poster.post(&url, &headers, body.to_owned()).await {
            Ok(200..=299) => Attempt::Arrived,
            Ok(GONE) => Attempt::Refused,
            Ok(status) => Attempt::Failed(format!("the receiver answers {status}")),
            // What fails may repeat the address, which may hold a key.
            Err(error) => Attempt::Failed(error.to_string().replace(&url, "the receiver")),
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
        let (of, version) = (&standing.subscription, standing.version);
        if self.subscriptions.put(key, row, version, of).await? {
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

    async fn end(&self, key: &str, standing: &Standing) -> Result<(), StoreError> {
        let (of, version) = (&standing.subscription, standing.version);
        self.subscriptions
            .put(key, None, version, of)
            .await
            .map(drop)
    }

    async fn words(&self, run: RunId, to: &Recipient) -> Result<Option<Words>, StoreError> {
        let Some(row) = self.system.store().run(run).await? else {
            return Ok(None);
        };
        Ok(Some(match to {
            Recipient::Chat(to) => Words::Chat(NewsReader::new(run, row.session), to.clone()),
            Recipient::Signed {
                events, payload, ..
            } => Words::News {
                reader: NewsReader::new(run, row.session),
                wanted: events.clone(),
                payload: payload.clone(),
            },
            #[cfg(feature = "a2a")]
            Recipient::Task(to) => {
                let Some(id) = row.session else {
                    return Ok(None);
                };
                let reader = TaskReader::new(run, to.context.clone(), to.message.clone());
                Words::Task(TaskEvents {
                    reader: reader.structured(to.is_json),
                    artifacts: format!("/api/v1/sessions/{}/{}/artifacts", id.team, to.context),
                    session: self.system.session(id.team, id.key),
                })
            }
        }))
    }
}

/// Whether this is the last event of a root run, which goes on in no other journal.
fn is_end(record: &EventRecord) -> bool {
    let Event::RunEnded { end, .. } = &record.event else {
        return false;
    };
    record.path.len() == 1 && !matches!(end, RunResult::Continued(_))
}

/// The message to a person in a messenger, if any.
fn said(news: RunNews, message: &Value, to: &ChatRecipient) -> Option<Value> {
    let data = &message["data"];
    let (kind, text) = match news {
        RunNews::Started => {
            let emoji = to.emoji.as_ref()?;
            return Some(json!({
                "type": "reaction", "chat": to.chat, "message": to.message, "emoji": emoji,
            }));
        }
        RunNews::Waiting => ("question", data["question"]["prompt"].clone()),
        RunNews::Completed => ("answer", data["answer"].clone()),
        // What went wrong is for those who look after the team.
        _ => ("failure", json!("This could not be finished.")),
    };
    Some(json!({
        "type": "message", "kind": kind, "text": text,
        "chat": to.chat, "to": to.sender, "reply_to": to.message,
    }))
}

/// In whose words events are told.
enum Words {
    News {
        reader: NewsReader,
        wanted: Vec<RunNews>,
        payload: Option<Value>,
    },
    Chat(NewsReader, ChatRecipient),
    #[cfg(feature = "a2a")]
    Task(TaskEvents),
}

impl Words {
    /// The messages about an event. The news are for those who look after the team, so they hold no secret; a person in a
    /// chat and another agent have asked, so their answer is whole.
    async fn read(&mut self, record: &EventRecord) -> Vec<String> {
        match self {
            Self::Chat(reader, to) => {
                let news = reader.read(record);
                let said = news.and_then(|(news, message)| said(news, &message, to));
                let Some(said) = said else {
                    return Vec::new();
                };
                match to.token {
                    Some(_) => telegram::calls(&said)
                        .iter()
                        .map(Value::to_string)
                        .collect(),
                    None => vec![said.to_string()],
                }
            }
            Self::News {
                reader,
                wanted,
                payload,
            } => {
                let news = reader.read(&record.clone().redacted());
                let news = news.filter(|(news, _)| wanted.is_empty() || wanted.contains(news));
                let told = news.map(|(_, message)| match payload {
                    Some(payload) => filled(payload, &message).to_string(),
                    None => message.to_string(),
                });
                told.into_iter().collect()
            }
            #[cfg(feature = "a2a")]
            Self::Task(events) => {
                let news = events.read(record).await.into_iter();
                let told = news.filter_map(|news| match news {
                    News::Told(update) => serde_json::to_string(&update).ok(),
                    News::Heard(_) => None,
                });
                told.collect()
            }
        }
    }
}

/// The headers of a message to a receiver of A2A.
#[cfg(feature = "a2a")]
fn headers_of(config: &PushConfig, id: &str) -> Vec<(String, String)> {
    let header = |name: &str, value: String| (name.to_owned(), value);
    let mut headers = vec![
        header("content-type", MEDIA_TYPE.to_owned()),
        header("webhook-id", id.to_owned()),
    ];
    if !config.token.is_empty() {
        headers.push(header("x-a2a-notification-token", config.token.clone()));
    }
    if let Some(authentication) = &config.authentication
        && !authentication.credentials.is_empty()
    {
        let value = format!("{} {}", authentication.scheme, authentication.credentials);
        headers.push(header("authorization", value));
    }
    headers
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
