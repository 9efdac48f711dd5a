//! A client of HTTP/1.1 that can also misbehave.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    time::timeout,
};

/// How long a test waits for what must come, on the busiest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Sends requests to one server, with one key.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) to: SocketAddr,
    pub(crate) key: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Checks the status, showing everything where it is another.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

impl Client {
    /// The head of a request, without its end.
    pub(crate) fn head(&self, method: &str, path: &str, more: &str) -> String {
        let key = self
            .key
            .as_ref()
            .map(|key| format!("Authorization: Bearer {key}\r\n"));
        let key = key.unwrap_or_default();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{key}{more}",
            self.to
        )
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.request("GET", path, "", None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.request("POST", path, "", Some(&body.to_string()))
            .await
    }

    /// One request on a connection of its own; a body is JSON.
    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        more: &str,
        body: Option<&str>,
    ) -> Answer {
        let text = self.whole(method, path, more, body);
        let answer = timeout(PATIENCE, self.send(text.as_bytes())).await;
        answer.expect("an answer in time").expect("an answer")
    }

    /// The same, with the first piece of the body alone where the answer is a stream, which may have no end.
    pub(crate) async fn begun(
        &self,
        method: &str,
        path: &str,
        more: &str,
        body: Option<&str>,
    ) -> Answer {
        let text = self.whole(method, path, more, body);
        let mut stream = TcpStream::connect(self.to).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut reader = BufReader::new(stream);
        let answer = timeout(PATIENCE, read_answer(&mut reader, 1)).await;
        answer.expect("an answer in time").expect("an answer")
    }

    /// The bytes of a request that is alone on its connection.
    fn whole(&self, method: &str, path: &str, more: &str, body: Option<&str>) -> String {
        let mut more = format!("{more}Connection: close\r\n");
        if let Some(body) = body {
            more += &format!(
                "Content-Type: application/json\r\nContent-Length: {}\r\n",
                body.len()
            );
        }
        format!(
            "{}\r\n{}",
            self.head(method, path, &more),
            body.unwrap_or_default()
        )
    }

    /// Sends these bytes as they are; `None` where the server closes without an answer.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Option<Answer> {
        let mut stream = TcpStream::connect(self.to).await.unwrap();
        // The server may close before it has read everything.
        let _ = stream.write_all(bytes).await;
        read_answer(&mut BufReader::new(stream), usize::MAX).await
    }

    /// A stream of events from a GET, or from a POST with a body.
    pub(crate) async fn events(
        &self,
        path: &str,
        last: Option<&str>,
        body: Option<Value>,
    ) -> Events {
        let mut more = "Accept: text/event-stream\r\n".to_owned();
        if let Some(last) = last {
            more += &format!("Last-Event-ID: {last}\r\n");
        }
        let body = body.map(|body| body.to_string());
        if let Some(body) = &body {
            more += &format!(
                "Content-Type: application/json\r\nContent-Length: {}\r\n",
                body.len()
            );
        }
        let method = if body.is_some() { "POST" } else { "GET" };
        let text = format!(
            "{}\r\n{}",
            self.head(method, path, &more),
            body.unwrap_or_default()
        );
        let mut stream = TcpStream::connect(self.to).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut reader = BufReader::new(stream);
        let (status, headers) = read_head(&mut reader).await.expect("a head");
        Events {
            reader,
            status,
            headers,
            left: String::new(),
        }
    }
}

async fn read_head(reader: &mut BufReader<TcpStream>) -> Option<(u16, BTreeMap<String, String>)> {
    let mut line = String::new();
    reader.read_line(&mut line).await.ok()?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line).await.ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
            None => return Some((status, headers)),
        }
    }
}

async fn read_chunk(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).await.ok()?;
    let size = usize::from_str_radix(line.trim_end(), 16).ok()?;
    let mut chunk = vec![0; size + 2];
    reader.read_exact(&mut chunk).await.ok()?;
    chunk.truncate(size);
    (size > 0).then_some(chunk)
}

/// An answer, with at most so many pieces of a body that comes in pieces.
async fn read_answer(reader: &mut BufReader<TcpStream>, mut pieces: usize) -> Option<Answer> {
    let (status, headers) = read_head(reader).await?;
    let mut body = Vec::new();
    if headers
        .get("transfer-encoding")
        .is_some_and(|coding| coding == "chunked")
    {
        while pieces > 0
            && let Some(chunk) = read_chunk(reader).await
        {
            body.extend(chunk);
            pieces -= 1;
        }
    } else if let Some(length) = headers.get("content-length") {
        body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).await.ok()?;
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    Some(Answer {
        status,
        headers,
        body,
    })
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// An open stream of events.
#[derive(Debug)]
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    left: String,
}

impl Events {
    /// The next event; `None` where the stream or its connection ends.
    pub(crate) async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some((block, rest)) = self.left.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.left = rest;
                if let Some(sent) = read_event(&block) {
                    return Some(sent);
                }
                continue;
            }
            let chunk = timeout(PATIENCE, read_chunk(&mut self.reader)).await;
            let chunk = chunk.expect("an event or an end in time")?;
            self.left += std::str::from_utf8(&chunk).unwrap();
        }
    }

    /// All recorded events that are left.
    pub(crate) async fn recorded(&mut self) -> Vec<Sent> {
        let mut all = Vec::new();
        while let Some(sent) = self.next().await {
            if sent.id.is_some() {
                all.push(sent);
            }
        }
        all
    }
}

fn read_event(block: &str) -> Option<Sent> {
    let (mut id, mut name, mut data) = (None, String::new(), String::new());
    for line in block.lines() {
        match line.split_once(':') {
            Some(("id", value)) => id = Some(value.trim().to_owned()),
            Some(("event", value)) => name = value.trim().to_owned(),
            Some(("data", value)) => data += value.trim(),
            _ => {}
        }
    }
    let data = serde_json::from_str(&data).ok()?;
    Some(Sent { id, name, data })
}
