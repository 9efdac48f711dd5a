//! The receivers of a task's push notifications.

use ghostlight_a2a::protocol::{
    ErrorCode, ListPushConfigsResponse, ProtocolError, PushConfig, PushQuery,
};
use ghostlight_actors::{actor::Run, contract::RunRow, vocabulary::Digest};

use super::{refused, tasks::Agent};
use crate::{
    deliveries::{Deliveries, TaskRecipient},
    problem::Problem,
    sse::Place,
};

/// The most receivers of one task.
const MOST: usize = 16;
/// The most bytes of a receiver's id and scheme, and of its address, token and credentials.
const MAX_NAME: usize = 64;
const MAX_TEXT: usize = 4_096;

/// The refusal of push notifications.
pub(super) fn no_push() -> ProtocolError {
    let text = "there are no push notifications: subscribe to the task";
    ProtocolError::new(ErrorCode::PushNotificationNotSupported, text)
}

impl Agent {
    fn deliveries(&self) -> Result<&Deliveries, ProtocolError> {
        let deliveries = self.asked.state.deliveries().ok();
        deliveries
            .filter(|deliveries| deliveries.may_be_asked())
            .ok_or_else(no_push)
    }

    /// Checks that messages can be posted to a receiver.
    pub(super) fn check_push(&self, config: &PushConfig) -> Result<(), ProtocolError> {
        let deliveries = self.deliveries()?;
        let invalid = |text: &str| Err(ProtocolError::invalid(text));
        let is_of_id = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if config.id.len() > MAX_NAME || !config.id.chars().all(is_of_id) {
            return invalid("the `id` of a receiver is up to 64 letters, digits, `-`, `_` and `.`");
        }
        let is_visible = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let authentication = config.authentication.clone().unwrap_or_default();
        let texts = [&config.url, &config.token, &authentication.credentials];
        if authentication.scheme.len() > MAX_NAME
            || texts.iter().any(|text| text.len() > MAX_TEXT)
            || ![
                &config.token,
                &authentication.scheme,
                &authentication.credentials,
            ]
            .into_iter()
            .all(|text| is_visible(text))
        {
            return invalid("`token` and `authentication` are visible ASCII, up to 4,096 bytes");
        }
        let checked = deliveries.check(&config.url);
        checked.map_err(|error| ProtocolError::invalid(format!("`url`: {error}")))
    }

    /// Adds a receiver of the messages behind a place, or of all. One of the same id is replaced, and goes on where it was.
    pub(super) async fn push(
        &self,
        (run, row): (&Run, &RunRow),
        mut config: PushConfig,
        after: Option<Place>,
    ) -> Result<PushConfig, ProtocolError> {
        let deliveries = self.deliveries()?;
        if config.id.is_empty() {
            // The same each time that the request is sent.
            config.id = format!("{:.32}", Digest::of(config.url.as_bytes()).to_string());
        }
        config.task_id = run.id().to_string();
        let known = deliveries.pushes(&self.asked.system, run.id()).await;
        let known = known.map_err(|error| refused(&error.into()))?;
        if known.len() >= MOST && !known.iter().any(|known| known.id == config.id) {
            let text = format!("a task has {MOST} receivers at the most: delete one");
            return Err(ProtocolError::new(ErrorCode::UnsupportedOperation, text));
        }
        let to = TaskRecipient {
            config: config.clone(),
            context: row
                .session
                .as_ref()
                .map(|id| self.context(id))
                .unwrap_or_default(),
            message: self.message_of(run, row).await?,
            is_json: self.is_json,
        };
        let pushed = deliveries
            .push(&self.asked.system, run.id(), to, after)
            .await;
        pushed.map_err(|error| refused(&error.into()))?;
        Ok(self.shown(config))
    }

    /// A receiver as it is shown: without its credentials, and without its token to a caller that cannot set one.
    fn shown(&self, mut config: PushConfig) -> PushConfig {
        if let Some(authentication) = &mut config.authentication {
            authentication.credentials.clear();
        }
        if self.may_run().is_err() {
            config.token.clear();
        }
        config
    }

    pub(super) async fn create_push(
        &self,
        config: PushConfig,
    ) -> Result<PushConfig, ProtocolError> {
        self.may_run()?;
        let (run, row) = self.run(&config.task_id).await?;
        self.check_push(&config)?;
        // Earlier events are not news to it.
        let after = self.seen(&run, &row, None).await?.last;
        self.push((&run, &row), config, after).await
    }

    pub(super) async fn pushes(
        &self,
        task: &str,
    ) -> Result<ListPushConfigsResponse, ProtocolError> {
        let (run, _) = self.run(task).await?;
        let found = self
            .deliveries()?
            .pushes(&self.asked.system, run.id())
            .await;
        let found = found.map_err(|error| refused(&Problem::from(error)))?;
        Ok(ListPushConfigsResponse {
            configs: found.into_iter().map(|config| self.shown(config)).collect(),
            ..ListPushConfigsResponse::default()
        })
    }

    pub(super) async fn get_push(&self, query: &PushQuery) -> Result<PushConfig, ProtocolError> {
        let found = self.pushes(&query.task_id).await?.configs;
        let found = found.into_iter().find(|config| config.id == query.id);
        found.ok_or_else(|| {
            let text = "the task has no receiver of this id";
            ProtocolError::new(ErrorCode::TaskNotFound, text)
        })
    }

    /// Removes a receiver. One that is not there is removed already.
    pub(super) async fn delete_push(&self, query: &PushQuery) -> Result<(), ProtocolError> {
        self.may_run()?;
        let (run, _) = self.run(&query.task_id).await?;
        let deliveries = self.deliveries()?;
        let removed = deliveries.end_push(&self.asked.system, run.id(), &query.id);
        removed.await.map_err(|error| refused(&error.into()))
    }
}
