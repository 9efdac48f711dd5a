//! A server on this machine that remembers what it was asked.

use std::{future::Future, io, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
};

pub(crate) struct Server {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// A server whose answers are written by this function, which is given the whole request and the server's port.
    pub(crate) async fn start<A, F>(answer: A) -> Self
    where
        A: Fn(TcpStream, String, u16) -> F + Clone + Send + 'static,
        F: Future<Output = io::Result<()>> + Send,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (asked, answer) = (told.clone(), answer.clone());
                tokio::spawn(async move {
                    if let Some(request) = request(&mut stream).await {
                        asked.lock().push(request.clone());
                        let _ = answer(stream, request, port).await;
                    }
                });
            }
        });
        Self { port, asked }
    }

    /// The requests since it was looked last.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().drain(..).collect()
    }
}

/// A request with its body.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(count @ 1..) => request.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let length = value.trim().parse::<usize>().ok();
            length.filter(|_| name.eq_ignore_ascii_case("content-length"))
        });
        if body.len() >= length.unwrap_or(0) {
            return Some(text);
        }
    }
}
