//! A client of HTTP/1.1 that does as little as a client can: one connection, which it keeps.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

/// The headers that make a response an event stream.
const STREAM: &str = "accept: text/event-stream\r\n";

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    to: SocketAddr,
    text: String,
}

impl Client {
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream: BufReader::new(stream),
            to,
            text: String::new(),
        }
    }

    /// Sends JSON, and returns the body of the response.
    pub(crate) async fn post(&mut self, path: &str, headers: &str, body: &str) -> String {
        self.send("POST", path, headers, body).await;
        let length = self.read_head().await.expect("a body of known length");
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.unwrap();
        String::from_utf8(body).unwrap()
    }

    /// Asks for an event stream.
    pub(crate) async fn open(&mut self, method: &str, path: &str, body: &str) {
        self.send(method, path, STREAM, body).await;
        assert_eq!(self.read_head().await, None, "not a stream");
    }

    /// The id and the name of the next recorded event; `None` at the end of the stream.
    pub(crate) async fn recorded(&mut self) -> Option<(String, String)> {
        loop {
            let Some(end) = self.text.find("\n\n") else {
                let chunk = self.chunk().await?;
                self.text.push_str(&chunk);
                continue;
            };
            let block: String = self.text.drain(..end + 2).collect();
            let field = |name: &str| {
                let line = block.lines().find_map(|line| line.strip_prefix(name))?;
                Some(line.trim_start_matches(':').trim().to_owned())
            };
            if let Some(id) = field("id") {
                return Some((id, field("event").unwrap_or_default()));
            }
        }
    }

    async fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) {
        let (to, length) = (self.to, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {to}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
             {headers}\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await.unwrap();
    }

    /// The length of the body; `None` where it comes in chunks.
    async fn read_head(&mut self) -> Option<usize> {
        let (mut length, mut line) = (None, String::new());
        self.stream.read_line(&mut line).await.unwrap();
        assert!(line.starts_with("HTTP/1.1 20"), "{line}");
        while line != "\r\n" {
            line.clear();
            self.stream.read_line(&mut line).await.unwrap();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = Some(value.trim().parse().unwrap());
            }
        }
        length
    }

    async fn chunk(&mut self) -> Option<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        let length = usize::from_str_radix(line.trim(), 16).unwrap();
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).await.unwrap();
        chunk.truncate(length);
        (length > 0).then(|| String::from_utf8(chunk).unwrap())
    }
}
