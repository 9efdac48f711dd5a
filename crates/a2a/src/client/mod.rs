//! The client of remote agents.

mod channel;
mod error;
mod exchange;
mod settings;
mod stream;

use std::{sync::Arc, time::Duration};

use reqwest::Url;
use serde_json::{Value, json};
use tokio::sync::Mutex;

pub use error::ClientError;
pub use settings::{ClientOptions, ClientOptionsError};

use self::exchange::Exchange;
use crate::{
    protocol::{
        AgentCard, Binding, CARD_PATH, ListTasks, ListTasksResponse, Message, Method,
        SendConfiguration, SendMessage, SendResponse, StreamResponse, Task,
    },
    signing::verify_card,
};

/// The answer to a message: the task that it began or continued, or a message if there is no task.
pub type Sent = SendResponse;

/// The first and the longest pause between two polls of a task.
const LOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A client of one agent. Clones share it.
///
/// The agent's card is read when it is first needed, and again after a failure: it names the agent's address and
/// bindings. The client talks to no other origins than those of its settings, since the headers hold secrets.
#[derive(Clone, Debug)]
pub struct A2aClient {
    exchange: Exchange,
    reached: Arc<Mutex<Option<Arc<Reached>>>>,
}

/// An agent's address and binding.
#[derive(Debug)]
struct Reached {
    card: AgentCard,
    url: Url,
    binding: Binding,
    /// The credentials that requests must carry; empty for nothing.
    tenant: String,
}

impl A2aClient {
    /// A client with these settings; it sends nothing yet.
    ///
    /// # Errors
    /// The settings are invalid.
    pub fn new(settings: ClientOptions) -> Result<Self, ClientOptionsError> {
        let exchange = Exchange::new(settings)?;
        Ok(Self {
            exchange,
            reached: Arc::default(),
        })
    }

    /// The settings.
    pub fn settings(&self) -> &ClientOptions {
        &self.exchange.settings
    }

    /// The agent's card.
    ///
    /// # Errors
    /// The agent cannot be reached, or its card is invalid.
    pub async fn card(&self) -> Result<AgentCard, ClientError> {
        Ok(self.reached().await?.card.clone())
    }

    /// Sends a message. The answer comes when the task is recorded, not when it ends.
    ///
    /// # Errors
    /// The agent cannot be reached, or refuses; [`ClientError::was_sent`] tells whether it may have got the message.
    pub async fn send(&self, message: Message) -> Result<Sent, ClientError> {
        let configuration = SendConfiguration {
            return_immediately: true,
            ..Default::default()
        };
        let request = SendMessage {
            message,
            configuration: Some(configuration),
            metadata: None,
        };
        self.call(Method::SendMessage, None, json!(request)).await
    }

    /// The current state of a task, with all of its history.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub async fn task(&self, id: &str) -> Result<Task, ClientError> {
        self.call(Method::GetTask, Some(id), json!({ "id": id }))
            .await
    }

    /// Lists tasks.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub async fn tasks(&self, which: &ListTasks) -> Result<ListTasksResponse, ClientError> {
        self.call(Method::ListTasks, None, json!(which)).await
    }

    /// Cancels a task.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub async fn cancel(&self, id: &str) -> Result<Task, ClientError> {
        self.call(Method::CancelTask, Some(id), json!({ "id": id }))
            .await
    }

    /// Waits until a task has ended or needs input, across lost connections and restarts of the agent, for as long as
    /// the caller waits. Pieces of the agent's answer are shown meanwhile.
    ///
    /// # Errors
    /// The agent refuses to show the task.
    pub async fn settled(&self, id: &str, mut show: impl FnMut(&str)) -> Result<Task, ClientError> {
        let (mut pause, most) = LOOK;
        loop {
            match self.task(id).await {
                Ok(task)
                    if task.status.state.is_terminal() || task.status.state.is_interrupted() =>
                {
                    return Ok(task);
                }
                Ok(_) => {}
                Err(error) if error.may_pass() => self.forget().await,
                Err(error) => return Err(error),
            }
            match self.follow(id, &mut show).await {
                // There is news, so the next poll is soon.
                Ok(true) => pause = LOOK.0,
                Ok(false) => {}
                Err(error) if error.may_pass() => self.forget().await,
                // The task ended between the two requests, or the agent does not stream after all: the next poll tells.
                Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(most);
        }
    }

    /// Follows a task while it is under way and the connection lasts; returns whether there was news.
    async fn follow(&self, id: &str, show: &mut impl FnMut(&str)) -> Result<bool, ClientError> {
        let reached = self.reached().await?;
        if !reached.card.capabilities.streaming {
            return Ok(false);
        }
        let mut following = self.exchange.follow(&reached, id).await?;
        let mut has_news = false;
        while let Some(told) = following.next().await? {
            has_news = true;
            let state = match &told {
                StreamResponse::Task(task) => task.status.state,
                StreamResponse::StatusUpdate(update) => update.status.state,
                StreamResponse::ArtifactUpdate(update) => {
                    let texts = update.artifact.parts.iter();
                    texts
                        .filter_map(|part| part.text.as_deref())
                        .for_each(&mut *show);
                    continue;
                }
                StreamResponse::Message(_) => continue,
            };
            if state.is_terminal() || state.is_interrupted() {
                break;
            }
        }
        Ok(has_news)
    }

    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        id: Option<&str>,
        params: Value,
    ) -> Result<T, ClientError> {
        let reached = self.reached().await?;
        let called = self.exchange.call(&reached, method, id, params).await;
        if matches!(&called, Err(error) if !matches!(error, ClientError::Refused(_))) {
            // The agent may have moved.
            self.forget().await;
        }
        let answer = called?;
        serde_json::from_value(answer).map_err(|error| ClientError::Malformed(error.to_string()))
    }

    async fn forget(&self) {
        *self.reached.lock().await = None;
    }

    async fn reached(&self) -> Result<Arc<Reached>, ClientError> {
        let mut kept = self.reached.lock().await;
        if let Some(reached) = &*kept {
            return Ok(reached.clone());
        }
        let at = self.exchange.card_address();
        let card = self.exchange.fetch(at.clone()).await?;
        let card = match self.exchange.settings.trusted.as_slice() {
            [] => serde_json::from_value(card)
                .map_err(|error| ClientError::Malformed(format!("its card: {error}")))?,
            keys => verify_card(&card, keys).map_err(ClientError::Untrusted)?,
        };
        let wanted = self.exchange.settings.binding;
        let spoken = card
            .spoken()
            .filter(|(_, binding)| wanted.is_none_or(|wanted| wanted == *binding));
        let mut elsewhere = None;
        let mut found = None;
        for (interface, binding) in spoken {
            let url = match interface.url.contains("://") {
                true => at.join(&interface.url),
                // The address of a gRPC server is often a host and a port alone.
                false if binding == Binding::Grpc => {
                    Url::parse(&format!("{}://{}", at.scheme(), interface.url))
                }
                false => at.join(&interface.url),
            };
            let url = url
                .map_err(|_| ClientError::Malformed("an address in its card is none".to_owned()))?;
            if self.exchange.may_reach(&url) {
                found = Some((url, binding, interface.tenant.clone()));
                break;
            }
            elsewhere.get_or_insert(url);
        }
        let (url, binding, tenant) = found.ok_or_else(|| match elsewhere {
            Some(agent) => ClientError::OtherOrigin {
                card: at.to_string(),
                agent: agent.to_string(),
            },
            None => {
                let offered = card.supported_interfaces.iter();
                let offered =
                    offered.map(|i| format!("{} {}", i.protocol_binding, i.protocol_version));
                ClientError::NotSpoken(offered.collect::<Vec<_>>().join(", "))
            }
        })?;
        let reached = Arc::new(Reached {
            card,
            url,
            binding,
            tenant,
        });
        *kept = Some(reached.clone());
        Ok(reached)
    }
}
