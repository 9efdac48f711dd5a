//! The server's bounds on its clients.

use std::time::Duration;

/// The bounds of a [`Server`](crate::Server). A request past a bound is refused, without holding up others.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The most bytes of a request's body; past it the answer is 413. 8 MiB.
    pub max_body_bytes: usize,
    /// The time in which the whole body must arrive; past it the answer is 408. 30 seconds.
    pub body_time: Duration,
    /// The most bytes of a request's line and headers; past it the answer is 431 (if they arrive at once they may be up
    /// to twice as long). 64 KiB.
    pub max_header_bytes: usize,
    /// The time in which all headers of a request must arrive, and for which an idle connection is kept. 30 seconds.
    pub header_time: Duration,
    /// The most connections at once; more wait until one ends. 1,024.
    pub max_connections: usize,
    /// The most requests of one subject at once, event streams among them; past it the answer is 429. The operator has no
    /// such bound. 128.
    pub max_subject_requests: usize,
    /// The most bytes of bodies at once whose senders only the bodies themselves can prove (webhooks, messengers); past it the
    /// answer is 503. 32 MiB.
    pub max_unverified_bytes: usize,
    /// How long a client may stop reading before its connection is closed. 60 seconds.
    pub stall: Duration,
    /// The longest that a request waits for the end of a run. 10 minutes.
    pub max_wait: Duration,
    /// The pause after which a silent event stream sends a sign of life. 15 seconds.
    pub heartbeat: Duration,
    /// How long requests that are under way may take to end when the server stops. 5 seconds.
    pub shutdown: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            max_body_bytes: 8 << 20,
            body_time: Duration::from_secs(30),
            max_header_bytes: 64 << 10,
            header_time: Duration::from_secs(30),
            max_connections: 1024,
            max_subject_requests: 128,
            max_unverified_bytes: 32 << 20,
            stall: Duration::from_secs(60),
            max_wait: Duration::from_secs(600),
            heartbeat: Duration::from_secs(15),
            shutdown: Duration::from_secs(5),
        }
    }
}

ghostlight_actors::setters!(ServerOptions {
    max_body_bytes: usize,
    body_time: Duration,
    max_header_bytes: usize,
    header_time: Duration,
    max_connections: usize,
    max_subject_requests: usize,
    max_unverified_bytes: usize,
    stall: Duration,
    max_wait: Duration,
    heartbeat: Duration,
    shutdown: Duration,
});
