//! A server with control over each byte, and over when it is silent.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ghostlight::models::OpenAi;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// What the server does for one request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Waits.
    Pause(Duration),
    /// Waits until the client goes away.
    Silence,
    /// Closes the connection.
    Close,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// The request line and the headers.
    pub(crate) head: String,
    /// The body.
    pub(crate) body: Value,
    /// The body as it came.
    pub(crate) text: String,
}

#[derive(Default)]
struct Seen {
    received: Vec<Received>,
    connections: usize,
}

/// A running server. Each request gets the next reply; the last one is repeated.
pub(crate) struct Fake {
    address: String,
    seen: Arc<Mutex<Seen>>,
    gone: watch::Receiver<usize>,
    server: JoinHandle<()>,
}

impl Fake {
    pub(crate) async fn start(replies: impl IntoIterator<Item = Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let replies: Arc<[Vec<Act>]> = replies.into_iter().collect();
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (went, gone) = watch::channel(0);
        let server = tokio::spawn({
            let seen = seen.clone();
            async move {
                loop {
                    let (socket, _) = listener.accept().await.unwrap();
                    seen.lock().unwrap().connections += 1;
                    let serve = serve(socket, replies.clone(), seen.clone(), went.clone());
                    tokio::spawn(serve);
                }
            }
        });
        Self {
            address,
            seen,
            gone,
            server,
        }
    }

    /// A server that answers every request with this JSON and status 200.
    pub(crate) async fn json(body: Value) -> Self {
        Self::start([vec![json(200, &body.to_string())]]).await
    }

    /// The model of this server.
    pub(crate) fn model(&self) -> OpenAi {
        OpenAi::new("test-model").base_url(&self.address)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.seen.lock().unwrap().received.clone()
    }

    /// The body of the only request.
    pub(crate) fn only_body(&self) -> Value {
        let received = self.received();
        assert_eq!(received.len(), 1);
        received[0].body.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    /// Waits until a client left before its answer was whole.
    pub(crate) async fn client_left(&mut self) {
        self.gone.wait_for(|gone| *gone > 0).await.unwrap();
    }

    pub(crate) async fn request_came(&self) {
        while self.received().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(
    socket: TcpStream,
    replies: Arc<[Vec<Act>]>,
    seen: Arc<Mutex<Seen>>,
    went: watch::Sender<usize>,
) {
    let mut socket = BufReader::new(socket);
    while let Some(received) = receive(&mut socket).await {
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.received.push(received);
            seen.received.len() - 1
        };
        for act in replies[number.min(replies.len() - 1)].clone() {
            match act {
                Act::Send(bytes) => {
                    if socket.get_mut().write_all(&bytes).await.is_err() {
                        went.send_modify(|gone| *gone += 1);
                        return;
                    }
                }
                Act::Pause(pause) => tokio::time::sleep(pause).await,
                Act::Silence => {
                    let _ = socket.read(&mut [0; 1]).await;
                    went.send_modify(|gone| *gone += 1);
                    return;
                }
                Act::Close => return,
            }
        }
    }
}

async fn receive(socket: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if socket.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    socket.read_exact(&mut body).await.ok()?;
    let text = String::from_utf8(body).ok()?;
    Some(Received {
        head,
        body: serde_json::from_str(&text).unwrap_or_default(),
        text,
    })
}

/// An answer of this status and text, with these headers.
pub(crate) fn reply(status: u16, headers: &[(&str, &str)], body: &str) -> Act {
    let mut text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    Act::Send(format!("{text}\r\n{body}").into_bytes())
}

/// An answer of this status and JSON.
pub(crate) fn json(status: u16, body: &str) -> Act {
    reply(status, &[("content-type", "application/json")], body)
}

/// The head of a stream.
pub(crate) fn stream_head() -> Act {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                transfer-encoding: chunked\r\n\r\n";
    Act::Send(head.into())
}

/// A piece of a stream.
pub(crate) fn piece(text: impl AsRef<[u8]>) -> Act {
    let text = text.as_ref();
    let mut chunk = format!("{:x}\r\n", text.len()).into_bytes();
    chunk.extend_from_slice(text);
    chunk.extend_from_slice(b"\r\n");
    Act::Send(chunk)
}

/// The end of a stream's body.
pub(crate) fn stream_end() -> Act {
    Act::Send(b"0\r\n\r\n".to_vec())
}

/// A whole stream of these events, in one piece each.
pub(crate) fn events<'a>(events: impl IntoIterator<Item = &'a str>) -> Vec<Act> {
    let mut acts = vec![stream_head()];
    acts.extend(
        events
            .into_iter()
            .map(|event| piece(format!("data: {event}\n\n"))),
    );
    acts.push(stream_end());
    acts
}
