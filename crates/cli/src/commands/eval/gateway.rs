//! A trainer's gateway, as Agent Lightning 1.0 has it: rollouts wait there to be done, each has an address for the model's
//! calls of its own, and its reward is told there.

use std::time::Duration;

use ghostlight::{environment, models::http_client};
use ghostlight_safety::cut;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::exit::Failure;

/// How long the gateway may take to answer.
const TIME: Duration = Duration::from_secs(30);
/// How often a request is sent that the gateway did not answer.
const TRIES: u32 = 5;
/// The attempt under which everything of a rollout is kept.
const ATTEMPT: &str = "0";

/// A gateway.
pub(super) struct Gateway {
    client: reqwest::Client,
    address: String,
    key: Option<String>,
}

/// A rollout that is to be done.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Rollout {
    #[serde(rename = "rollout_id")]
    pub(super) id: String,
    pub(super) input: Value,
    #[serde(default = "yes")]
    pub(super) is_train: bool,
    status: Status,
}

#[derive(Clone, Debug, Deserialize)]
struct Status {
    state: String,
}

const fn yes() -> bool {
    true
}

impl Rollout {
    /// Whether a runner has taken it already.
    pub(super) fn is_running(&self) -> bool {
        self.status.state == "running"
    }
}

impl Gateway {
    pub(super) fn new(address: &str, key_env: &str) -> Result<Self, Failure> {
        let client = http_client(address)
            .map_err(|error| Failure::Usage(format!("--gateway {address}: {error}")))?;
        Ok(Self {
            client,
            address: address.trim_end_matches('/').to_owned(),
            key: environment::variable(key_env).filter(|key| !key.trim().is_empty()),
        })
    }

    /// The address at which the model of a rollout is called.
    pub(super) fn model_address(&self, rollout: &Rollout) -> String {
        let mode = if rollout.is_train { "train" } else { "val" };
        let (address, id) = (&self.address, &rollout.id);
        format!("{address}/proxy/rollout/{id}/attempt/{ATTEMPT}/mode/{mode}/openai/v1")
    }

    /// Rollouts that wait, and those that are said to be running where these are wanted, too.
    pub(super) async fn rollouts(&self, running: bool, most: u32) -> Result<Vec<Rollout>, Failure> {
        let also = if running { "&state_in=running" } else { "" };
        let path = format!("rollouts?state_in=queuing{also}&limit={most}");
        let found = self.ask(reqwest::Method::GET, &path, None).await?;
        let found: Vec<Rollout> = serde_json::from_value(found)
            .map_err(|error| self.failed(&path, &error.to_string()))?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        match found
            .iter()
            .find(|rollout| !rollout.id.chars().all(is_plain))
        {
            Some(odd) => {
                Err(self.failed(&path, &format!("no address can hold the id {:?}", odd.id)))
            }
            None => Ok(found),
        }
    }

    /// Says in which state a rollout is, and why.
    pub(super) async fn state(
        &self,
        id: &str,
        state: &str,
        why: Option<&str>,
    ) -> Result<(), Failure> {
        let mut status = json!({ "state": state, "last_attempt_id": ATTEMPT });
        if let Some(why) = why {
            status["error_message"] = json!(why);
        }
        let path = format!("rollouts/{id}");
        let body = json!({ "status": status });
        self.ask(reqwest::Method::PATCH, &path, Some(&body)).await?;
        Ok(())
    }

    /// Tells the reward of a rollout, unless it has been told.
    pub(super) async fn reward(&self, id: &str, value: f64, why: &str) -> Result<(), Failure> {
        let path = format!("rollouts/{id}/events?event_type=reward");
        let told = self.ask(reqwest::Method::GET, &path, None).await?;
        if told.as_array().is_some_and(|told| !told.is_empty()) {
            return Ok(());
        }
        let body = json!({
            "event_type": "reward",
            "data": { "value": value, "message": why, "source": "agent" },
        });
        let path = format!("rollouts/{id}/attempt/{ATTEMPT}/events");
        self.ask(reqwest::Method::POST, &path, Some(&body)).await?;
        Ok(())
    }

    /// One request; a gateway that does not answer is asked again, with growing waits. The answer to a POST that was lost is
    /// not asked for again, since the event would be there twice.
    async fn ask(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let mut number = 1;
        loop {
            let address = format!("{}/api/{path}", self.address);
            let mut request = self.client.request(method.clone(), address).timeout(TIME);
            if let Some(key) = &self.key {
                request = request.bearer_auth(key);
            }
            if let Some(body) = body {
                request = request.json(body);
            }
            let answer = match request.send().await {
                Ok(answer) => answer,
                Err(error)
                    if number < TRIES
                        && (error.is_connect() || method != reqwest::Method::POST) =>
                {
                    tokio::time::sleep(Duration::from_millis(100 << number)).await;
                    number += 1;
                    continue;
                }
                Err(error) => return Err(self.failed(path, &error.without_url().to_string())),
            };
            let status = answer.status();
            let text = answer
                .text()
                .await
                .map_err(|error| self.failed(path, &error.without_url().to_string()))?;
            if !status.is_success() {
                return Err(self.failed(path, &format!("{status}: {}", cut(&text, 300))));
            }
            return serde_json::from_str(&text)
                .map_err(|error| self.failed(path, &error.to_string()));
        }
    }

    fn failed(&self, path: &str, why: &str) -> Failure {
        let address = &self.address;
        Failure::Io(std::io::Error::other(format!(
            "the gateway {address}, asked for {path}: {why}"
        )))
    }
}
