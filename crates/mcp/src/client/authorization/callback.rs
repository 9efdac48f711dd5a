//! The local address to which a browser returns after a person has signed in; it takes one request.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// The path to which browsers are sent back.
const PATH: &str = "/callback";
/// The longest request that is read, in bytes.
const MAX_BYTES: usize = 16 << 10;
/// How long one request may take.
const ONE_REQUEST: Duration = Duration::from_secs(10);
/// The page that a person sees after signing in.
const DONE: &str = "Thank you. You can close this page and go back to the program.";

/// Listens for the browser.
pub(super) struct Callback {
    listener: TcpListener,
    port: u16,
}

impl Callback {
    /// Listens at this port of this machine; at any that is free, for 0.
    pub(super) async fn listen(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// The address to which browsers are sent back.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the browser, and returns the address that it requested.
    pub(super) async fn came(&self) -> io::Result<String> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            // Any other request is answered, but does not count.
            if let Ok(Ok(Some(query))) = timeout(ONE_REQUEST, serve(stream)).await {
                return Ok(format!("{}?{query}", self.address()));
            }
        }
    }
}

/// Answers one request; returns its query, if the request is the browser's.
async fn serve(mut stream: TcpStream) -> io::Result<Option<String>> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_BYTES {
        if stream.read_buf(&mut request).await? == 0 {
            break;
        }
    }
    let query = query_of(&request);
    let (status, text) = match query {
        Some(_) => ("200 OK", DONE),
        None => ("404 Not Found", "There is nothing here."),
    };
    let length = text.len();
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n\
         cache-control: no-store\r\nconnection: close\r\n\r\n{text}"
    );
    stream.write_all(response.as_bytes()).await?;
    let _ = stream.shutdown().await;
    Ok(query)
}

/// The query of a request for [`PATH`].
fn query_of(request: &[u8]) -> Option<String> {
    let line = request.split(|byte| *byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let target = line.strip_prefix("GET ")?.strip_suffix(" HTTP/1.1")?;
    let (path, query) = target.split_once('?')?;
    let printable = query.bytes().all(|byte| byte.is_ascii_graphic());
    (path == PATH && printable).then(|| query.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::query_of;

    #[test]
    fn only_the_browsers_request_counts() {
        let query = |line: &str| query_of(format!("{line}\r\nhost: x\r\n\r\n").as_bytes());
        assert_eq!(
            query("GET /callback?code=a&state=b HTTP/1.1").as_deref(),
            Some("code=a&state=b")
        );
        for other in [
            "GET /callback HTTP/1.1",
            "GET /favicon.ico?code=a HTTP/1.1",
            "POST /callback?code=a HTTP/1.1",
            "GET /callback?code=a",
            "",
        ] {
            assert_eq!(query(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_request_ends_the_program(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = query_of(&bytes);
        }
    }
}
