//! An editor on the other side of a pipe.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use ghostlight_acp::{
    AcpServer,
    wire::{Incoming, Peer, RequestError, RpcError, connect},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::BufReader,
    task::{AbortHandle, JoinHandle},
};

/// What an editor does with a permission request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decision {
    /// It chooses the option of this kind.
    Choose(&'static str),
    /// It knows no such request.
    Refuse,
    /// It says that the turn was cancelled.
    Cancel,
    /// It does not answer.
    Wait,
}

type Told = Arc<Mutex<Vec<(String, Value)>>>;

pub(crate) struct Editor {
    pub(crate) peer: Peer,
    told: Told,
    asked: Arc<Mutex<Vec<Value>>>,
    decisions: Arc<Mutex<VecDeque<Decision>>>,
    served: JoinHandle<()>,
    reading: JoinHandle<()>,
    prompted: Mutex<Vec<AbortHandle>>,
}

impl Editor {
    pub(crate) fn connect(server: AcpServer) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let served = tokio::spawn(async move {
            let (read, write) = tokio::io::split(theirs);
            server.serve(read, write).await.unwrap();
        });
        let (read, write) = tokio::io::split(ours);
        let (mut lines, peer) = connect(BufReader::new(read), write);
        let (told, asked) = (Told::default(), Arc::new(Mutex::new(Vec::new())));
        let decisions = Arc::new(Mutex::new(VecDeque::new()));
        let reading = tokio::spawn({
            let (told, asked, peer) = (told.clone(), asked.clone(), peer.clone());
            let decisions = decisions.clone();
            async move {
                while let Ok(Some(incoming)) = lines.next().await {
                    match incoming {
                        Incoming::Notification { method, params } => {
                            assert_eq!(method, "session/update");
                            let session = params["sessionId"].as_str().unwrap().to_owned();
                            told.lock().push((session, params["update"].clone()));
                        }
                        Incoming::Request { id, method, params } => {
                            assert_eq!(method, "session/request_permission");
                            let decision = decisions.lock().pop_front().unwrap_or(Decision::Wait);
                            let answer = decide(decision, &params);
                            asked.lock().push(params);
                            if let Some(answer) = answer {
                                peer.respond(&id, answer).await.unwrap();
                            }
                        }
                    }
                }
            }
        });
        Self {
            peer,
            told,
            asked,
            decisions,
            served,
            reading,
            prompted: Mutex::default(),
        }
    }

    /// What the editor decides next.
    pub(crate) fn decides(&self, decision: Decision) {
        self.decisions.lock().push_back(decision);
    }

    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().clone()
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        match self.peer.request::<Value>(method, &params).await {
            Ok(result) => Ok(result),
            Err(RequestError::Refused(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn begin(&self) -> String {
        let params = json!({ "cwd": "/home/ada/shop", "mcpServers": [] });
        let begun = self.request("session/new", params).await.unwrap();
        assert_eq!(begun["modes"]["currentModeId"], "run");
        begun["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn open(&self, method: &str, session: &str) -> Result<Value, RpcError> {
        let params = json!({ "sessionId": session, "cwd": "/home/ada/shop", "mcpServers": [] });
        self.request(method, params).await
    }

    pub(crate) async fn prompt(&self, session: &str, text: &str) -> Result<Value, RpcError> {
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": session, "prompt": prompt });
        self.request("session/prompt", params).await
    }

    /// Says a prompt whose end is not waited for here.
    pub(crate) fn prompts(&self, session: &str, text: &str) -> JoinHandle<Option<Value>> {
        let prompt = json!([{ "type": "text", "text": text }]);
        let (peer, params) = (
            self.peer.clone(),
            json!({ "sessionId": session, "prompt": prompt }),
        );
        let prompt =
            tokio::spawn(async move { peer.request("session/prompt", &params).await.ok() });
        self.prompted.lock().push(prompt.abort_handle());
        prompt
    }

    pub(crate) async fn cancel(&self, session: &str) {
        let params = json!({ "sessionId": session });
        self.peer.notify("session/cancel", &params).await.unwrap();
    }

    /// The updates of a session so far.
    pub(crate) fn updates(&self, session: &str) -> Vec<Value> {
        let told = self.told.lock();
        let of_session = told.iter().filter(|(of, _)| of == session);
        of_session.map(|(_, update)| update.clone()).collect()
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..2_000 {
            if is_so(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!(
            "it does not come: {:?} {:?}",
            self.told.lock(),
            self.asked()
        );
    }

    /// Goes away without a word.
    pub(crate) async fn goes(self) {
        self.prompted
            .lock()
            .drain(..)
            .for_each(|prompt| prompt.abort());
        self.reading.abort();
        drop((self.peer, self.reading.await));
        let served = tokio::time::timeout(Duration::from_secs(10), self.served);
        served.await.expect("it serves nobody").unwrap();
    }
}

fn decide(decision: Decision, params: &Value) -> Option<Result<Value, RpcError>> {
    match decision {
        Decision::Wait => None,
        Decision::Refuse => Some(Err(RpcError::unknown_method("session/request_permission"))),
        Decision::Cancel => Some(Ok(json!({ "outcome": { "outcome": "cancelled" } }))),
        Decision::Choose(kind) => {
            let mut options = params["options"].as_array().unwrap().iter();
            let option = options.find(|option| option["kind"] == kind || option["name"] == kind);
            let outcome = json!({ "outcome": "selected", "optionId": option.unwrap()["optionId"] });
            Some(Ok(json!({ "outcome": outcome })))
        }
    }
}

/// What the agent says in these updates.
pub(crate) fn texts(updates: &[Value]) -> String {
    let said = updates
        .iter()
        .filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    said.filter_map(|update| update["content"]["text"].as_str())
        .collect()
}
