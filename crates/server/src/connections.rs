//! Accepts connections, holds each to the limits, and closes them when the server stops.

use std::{io, sync::Arc, time::Duration};

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

use crate::{limits::ServerLimits, metrics::Metrics, requests::Requests, stall::Stall};

/// The pause after a connection could not be accepted: without it a process that is out of file descriptors would spin.
const PAUSE: Duration = Duration::from_millis(50);

/// The most requests at once on one connection of HTTP/2; more wait.
const STREAMS: u32 = 100;
/// The most bytes of a response of HTTP/2 that wait for its reader.
const SEND_BYTES: usize = 64 << 10;

/// The settings of every connection.
#[derive(Clone)]
pub(crate) struct Connections {
    pub(crate) router: Router,
    pub(crate) limits: ServerLimits,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tls: Option<TlsAcceptor>,
    /// Cancelled when no more connections are accepted, and streams and waiting requests are to end.
    pub(crate) stopping: CancellationToken,
}

impl Connections {
    /// Serves until `stop`, and then until the requests under way have ended or their time is up.
    pub(crate) async fn serve(self, listener: TcpListener, stop: impl Future) -> io::Result<()> {
        let room = Arc::new(Semaphore::new(self.limits.connections));
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
            let connection = self.clone();
            open.spawn(async move {
                connection.metrics.connected(1);
                connection.connection(stream).await;
                connection.metrics.connected(-1);
                drop(permit);
            });
        }
        drop(listener);
        self.stopping.cancel();
        open.close();
        let _ = timeout(self.limits.shutdown, open.wait()).await;
        Ok(())
    }

    async fn connection(&self, stream: TcpStream) {
        // Events are small, and are to be sent at once.
        let _ = stream.set_nodelay(true);
        match &self.tls {
            None => self.speak(stream).await,
            Some(acceptor) => {
                match timeout(self.limits.header_time, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => self.speak(stream).await,
                    Ok(Err(error)) => tracing::debug!(%error, "no TLS connection"),
                    Err(_) => tracing::debug!("a TLS handshake took too long"),
                }
            }
        }
    }

    async fn speak(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let limits = &self.limits;
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_time)
            .max_buf_size(limits.header_bytes.max(8 << 10))
            // A client may close its side after its request and still read the response.
            .half_close(true);
        http.http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
            .max_concurrent_streams(STREAMS)
            .max_send_buf_size(SEND_BYTES)
            // A client that is gone answers no ping.
            .keep_alive_interval(limits.stall)
            .keep_alive_timeout(limits.header_time);
        let requests = Requests::new();
        let service = requests.counted(TowerToHyperService::new(self.router.clone()));
        let stream = TokioIo::new(Stall::new(stream, limits.stall));
        let connection = http.serve_connection(stream, service);
        tokio::pin!(connection);
        // A client of HTTP/2 may hold a connection without any request: it is closed like one of HTTP/1.1, first by word
        // and then by force.
        let idle = requests.idle(limits.header_time);
        tokio::pin!(idle);
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
