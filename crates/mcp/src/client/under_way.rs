//! Calls under way at a server, and those that stay open there while a person is asked.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use ghostlight_actors::contract::{BoxFuture, ToolContext};
use parking_lot::Mutex;
use rmcp::{
    Peer, RoleClient,
    model::{
        CancelledNotification, CancelledNotificationParam, ClientNotification, ElicitRequestParams,
        ElicitResult, ElicitationAction, ProgressToken, RequestId, ServerResult,
    },
    service::{RequestHandle, ServiceError},
};
use tokio::sync::{mpsc, oneshot};

use super::connection::Shared;

/// How long a call stays open for a person's answer. After that the call is cancelled.
const STANDING: Duration = Duration::from_secs(3_600);
/// How many calls of one server may stay open at once.
const MOST_STANDING: usize = 256;

/// A server's question in the middle of a call, and the channel for the answer.
pub(super) struct Asked {
    pub(super) params: ElicitRequestParams,
    answer: oneshot::Sender<ElicitResult>,
}

impl Asked {
    pub(super) fn answer(self, result: ElicitResult) {
        // The server may have stopped waiting.
        let _ = self.answer.send(result);
    }
}

/// The calls of one server.
#[derive(Default)]
pub(super) struct Calls {
    /// The channels through which calls get the server's questions, the oldest first.
    asked: Mutex<(u64, BTreeMap<u64, mpsc::Sender<Asked>>)>,
    /// The calls that stay open, by the call's key.
    standing: Mutex<HashMap<String, (UnderWay, Asked)>>,
}

impl Calls {
    /// Asks through the oldest call without an open question, since a server of an older revision does not say which
    /// call causes the question. If there is no call, or the call ends before the answer, the question is cancelled.
    pub(super) async fn ask(&self, mut params: ElicitRequestParams) -> ElicitResult {
        let answer = {
            let calls = self.asked.lock();
            let mut waiting = None;
            for call in calls.1.values() {
                let (answer, answered) = oneshot::channel();
                match call.try_send(Asked { params, answer }) {
                    Ok(()) => {
                        waiting = Some(answered);
                        break;
                    }
                    Err(refused) => params = refused.into_inner().params,
                }
            }
            waiting
        };
        let nobody = || ElicitResult::new(ElicitationAction::Cancel);
        match answer {
            Some(answer) => answer.await.unwrap_or_else(|_| nobody()),
            None => nobody(),
        }
    }

    /// Keeps a call open until its question is answered.
    fn stand(shared: &Arc<Shared>, key: String, call: UnderWay, asked: Asked) {
        let number = call.number;
        {
            let mut standing = shared.calls.standing.lock();
            if standing.len() >= MOST_STANDING {
                return;
            }
            standing.insert(key.clone(), (call, asked));
        }
        let weak = Arc::downgrade(shared);
        tokio::spawn(async move {
            tokio::time::sleep(STANDING).await;
            let Some(shared) = weak.upgrade() else { return };
            let mut standing = shared.calls.standing.lock();
            if standing
                .get(&key)
                .is_some_and(|(call, _)| call.number == number)
            {
                let let_go = standing.remove(&key);
                drop(standing);
                drop(let_go);
            }
        });
    }

    /// The open call with this key, if there still is one.
    pub(super) fn take(&self, key: &str) -> Option<(UnderWay, Asked)> {
        self.standing.lock().remove(key)
    }

    /// Drops all calls when the connection is over.
    pub(super) fn clear(&self) {
        let standing = std::mem::take(&mut *self.standing.lock());
        drop(standing);
    }
}

/// The progress of a call.
pub(super) enum Heard {
    /// It ended with this result.
    End(Box<Result<ServerResult, ServiceError>>),
    /// The server asks a person first.
    Asks(Box<(UnderWay, Asked)>),
}

/// A call under way. Dropping it before its end tells the server that the result is not wanted any more.
pub(super) struct UnderWay {
    shared: Arc<Shared>,
    peer: Peer<RoleClient>,
    id: RequestId,
    token: ProgressToken,
    number: u64,
    asked: mpsc::Receiver<Asked>,
    response: BoxFuture<'static, Result<ServerResult, ServiceError>>,
    is_over: bool,
}

impl UnderWay {
    pub(super) fn begin(
        shared: &Arc<Shared>,
        handle: RequestHandle<RoleClient>,
        cx: &ToolContext,
    ) -> Self {
        let (asks, asked) = mpsc::channel(1);
        let number = {
            let mut calls = shared.calls.asked.lock();
            calls.0 += 1;
            let number = calls.0;
            calls.1.insert(number, asks);
            number
        };
        let call = Self {
            shared: shared.clone(),
            peer: handle.peer.clone(),
            id: handle.id.clone(),
            token: handle.progress_token.clone(),
            number,
            asked,
            response: Box::pin(handle.await_response()),
            is_over: false,
        };
        call.shown_by(cx);
        call
    }

    /// Shows the call's progress in this context.
    pub(super) fn shown_by(&self, cx: &ToolContext) {
        if cx.is_watched() {
            let cx = cx.clone();
            let show = move |share, message: String| cx.progress(share, message);
            let mut progress = self.shared.progress.lock();
            progress.insert(self.token.clone(), Box::new(show));
        }
    }

    /// Waits until it ends or the server asks a person. On cancellation it tells the server.
    pub(super) async fn goes_on(mut self, cx: &ToolContext) -> Heard {
        let cancelled = cx.cancelled();
        let result = tokio::select! {
            biased;
            result = &mut self.response => result,
            Some(asked) = self.asked.recv() => return Heard::Asks(Box::new((self, asked))),
            () = cancelled.cancelled() => {
                self.is_over = true;
                let _ = self.peer.send_notification(cancelled_by(&self.id)).await;
                // The SDK ends the request when it tells the server.
                (&mut self.response).await
            }
        };
        self.is_over = true;
        Heard::End(Box::new(result))
    }

    /// The key of this call among all calls.
    pub(super) fn key(&self, cx: &ToolContext) -> String {
        format!("{}#{}", cx.idempotency_key(), self.number)
    }

    /// Keeps it open under this key until its question is answered.
    pub(super) fn stand(self, key: String, asked: Asked) {
        let shared = self.shared.clone();
        Calls::stand(&shared, key, self, asked);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.shared.progress.lock().remove(&self.token);
        self.shared.calls.asked.lock().1.remove(&self.number);
        if !self.is_over
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (peer, told) = (self.peer.clone(), cancelled_by(&self.id));
            runtime.spawn(async move {
                // The server may be gone.
                let _ = peer.send_notification(told).await;
            });
        }
    }
}

fn cancelled_by(id: &RequestId) -> ClientNotification {
    let mut params = CancelledNotificationParam::new(Some(id.clone()), None);
    params.reason = Some("nobody wants the result any more".to_owned());
    ClientNotification::CancelledNotification(CancelledNotification::new(params))
}
