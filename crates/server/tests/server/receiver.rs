//! Another program: gets what the server posts, and answers as it is told.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ghostlight_server::axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
};
use parking_lot::Mutex;
use ring::hmac;
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::client::PATIENCE;

/// A message that was posted.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    /// What it was answered with.
    pub(crate) status: u16,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> String {
        let value = self.headers.get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default().to_owned()
    }

    pub(crate) fn id(&self) -> String {
        self.header("webhook-id")
    }

    pub(crate) fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap_or_default().to_owned()
    }

    /// Checks the signature of Standard Webhooks, by the words of its specification.
    #[track_caller]
    pub(crate) fn is_signed_with(&self, secret: &str) {
        let time = self.header("webhook-timestamp");
        assert!(
            time.parse::<u64>()
                .unwrap()
                .abs_diff(crate::webhooks::now_s())
                < 300
        );
        let signed = format!("{}.{time}.{}", self.id(), self.body);
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let tag = STANDARD.encode(hmac::sign(&key, signed.as_bytes()));
        assert_eq!(self.header("webhook-signature"), format!("v1,{tag}"));
    }
}

#[derive(Debug, Default)]
struct Inner {
    got: Mutex<Vec<Got>>,
    /// The answers to come; afterwards all is well.
    answers: Mutex<VecDeque<u16>>,
}

pub(crate) struct Receiver {
    pub(crate) at: SocketAddr,
    inner: Arc<Inner>,
    task: JoinHandle<()>,
}

impl Receiver {
    /// A receiver that gives these answers first.
    pub(crate) async fn open(answers: &[u16]) -> Self {
        let inner = Arc::new(Inner::default());
        inner.answers.lock().extend(answers);
        let router = Router::new().fallback(get).with_state(inner.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let served = ghostlight_server::axum::serve(listener, router);
            served.await.unwrap();
        });
        Self { at, inner, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.at)
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.inner.got.lock().clone()
    }

    /// What was answered with success.
    pub(crate) fn taken(&self) -> Vec<Got> {
        let mut got = self.got();
        got.retain(|got| got.status == 200);
        got
    }

    pub(crate) fn answers(&self, answers: &[u16]) {
        *self.inner.answers.lock() = answers.iter().copied().collect();
    }

    /// Waits until this many messages were answered with success.
    #[track_caller]
    pub(crate) fn until_taken(&self, most: usize) -> impl Future<Output = Vec<Got>> {
        self.until(move |got| got.iter().filter(|got| got.status == 200).count() >= most)
    }

    pub(crate) async fn until(&self, is_enough: impl Fn(&[Got]) -> bool) -> Vec<Got> {
        let waiting = async {
            while !is_enough(&self.got()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "not enough was posted: {:#?}", self.got());
        self.taken()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn get(
    State(inner): State<Arc<Inner>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let status = inner.answers.lock().pop_front().unwrap_or(200);
    inner.got.lock().push(Got {
        path: uri.path().to_owned(),
        headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
        status,
    });
    StatusCode::from_u16(status).unwrap()
}
