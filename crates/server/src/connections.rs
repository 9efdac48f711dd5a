//! Accepts connections, holds each to the limits, and closes them when the server stops.

use std::{io, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{metrics::Metrics, options::ServerOptions, requests::Requests, stall::Stall};

/// The pause after a connection could not be accepted: without it a process that is out of file descriptors would spin.
const PAUSE: Duration = Duration::from_millis(50);

/// The first bytes of a connection of HTTP/2 (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The most requests at once on one connection of HTTP/2; more wait.
const STREAMS: u32 = 100;
/// The most bytes of a response of HTTP/2 that wait for its reader.
const SEND_BYTES: usize = 64 << 10;

/// The state that all connections share.
pub(crate) struct Connections {
    /// Finds out by itself which version of HTTP a client speaks. It reads the first bytes for that, and then the read
    /// buffer of a connection of HTTP/1.1 is twice as big.
    http: auto::Builder<TokioExecutor>,
    http1: auto::Builder<TokioExecutor>,
    router: Router,
    limits: ServerOptions,
    metrics: Arc<Metrics>,
    tls: Option<TlsAcceptor>,
    /// Cancelled when no more connections are accepted, and streams and waiting requests are to end.
    stopping: CancellationToken,
}

impl Connections {
    pub(crate) fn new(
        router: Router,
        limits: ServerOptions,
        metrics: Arc<Metrics>,
        tls: Option<TlsAcceptor>,
        stopping: CancellationToken,
    ) -> Self {
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_time)
            .max_buf_size(limits.max_header_bytes.max(8 << 10))
            // A client may close its side after its request and still read the response.
            .half_close(true);
        http.http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(limits.max_header_bytes).unwrap_or(u32::MAX))
            .max_concurrent_streams(STREAMS)
            .max_send_buf_size(SEND_BYTES)
            // A client that is gone answers no ping.
            .keep_alive_interval(limits.stall)
            .keep_alive_timeout(limits.header_time);
        Self {
            http1: http.clone().http1_only(),
            http,
            router,
            limits,
            metrics,
            tls,
            stopping,
        }
    }

    /// Serves until `stop`, and then until the requests under way have ended or their time is up.
    pub(crate) async fn serve(self, listener: TcpListener, stop: impl Future) -> io::Result<()> {
        let this = Arc::new(self);
        let room = Arc::new(Semaphore::new(this.limits.max_connections));
        let open = TaskTracker::new();
        tokio::pin!(stop);
        loop {
            // A connection is accepted when there is room for it; further ones wait in the kernel's queue.
            let accept = async {
                let permit = room.clone().acquire_owned().await;
                (permit, listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                _ = &mut stop => break,
                accepted = accept => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let this = this.clone();
            open.spawn(async move {
                this.metrics.connected(1);
                this.connection(stream).await;
                this.metrics.connected(-1);
                drop(permit);
            });
        }
        drop(listener);
        this.stopping.cancel();
        open.close();
        let _ = timeout(this.limits.shutdown, open.wait()).await;
        Ok(())
    }

    async fn connection(&self, stream: TcpStream) {
        // Events are small, and are to be sent at once.
        let _ = stream.set_nodelay(true);
        match &self.tls {
            None => {
                let mut first = [0; PREFACE.len()];
                let peeked = timeout(self.limits.header_time, stream.peek(&mut first));
                let peeked = tokio::select! {
                    peeked = peeked => peeked,
                    () = self.stopping.cancelled() => return,
                };
                let Ok(Ok(length)) = peeked else { return };
                let is_http1 = first[..length] != PREFACE[..length];
                self.speak(is_http1, stream).await;
            }
            // Connections without TLS need no room for one with it.
            Some(acceptor) => Box::pin(self.speak_tls(acceptor, stream)).await,
        }
    }

    async fn speak_tls(&self, acceptor: &TlsAcceptor, stream: TcpStream) {
        match timeout(self.limits.header_time, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let is_http1 = stream.get_ref().1.alpn_protocol() == Some(b"http/1.1");
                self.speak(is_http1, stream).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "no TLS connection"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    async fn speak(
        &self,
        is_http1: bool,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) {
        let limits = &self.limits;
        let http = if is_http1 { &self.http1 } else { &self.http };
        let requests = Requests::new();
        let service = requests.counted(TowerToHyperService::new(self.router.clone()));
        let stream = TokioIo::new(Stall::new(stream, limits.stall));
        let mut connection = pin!(http.serve_connection(stream, service));
        // A client of HTTP/2 may hold a connection without any request: it is closed like one of HTTP/1.1, first by word
        // and then by force.
        let mut idle = pin!(requests.idle(limits.header_time));
        let mut closes = false;
        loop {
            tokio::select! {
                served = connection.as_mut() => {
                    if let Err(error) = served {
                        tracing::debug!(%error, "a connection ended early");
                    }
                    return;
                }
                () = self.stopping.cancelled(), if !closes => {
                    closes = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = idle.as_mut() => {
                    if closes {
                        return;
                    }
                    closes = true;
                    connection.as_mut().graceful_shutdown();
                    idle.set(requests.idle(limits.header_time));
                }
            }
        }
    }
}
