//! The bounds on what clients may take of the server.

use std::time::Duration;

/// The bounds of a [`Server`](crate::Server). What is past one of them is refused, and holds up nobody else.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The most bytes of a request's body; past it the answer is 413. 8 MiB.
    pub body_bytes: usize,
    /// The time in which a whole body must have come; past it the answer is 408. 30 seconds.
    pub body_time: Duration,
    /// The most bytes of a request's line and headers; past it the answer is 431 (what comes in one
    /// piece may be up to twice as long). 64 KiB.
    pub header_bytes: usize,
    /// The time in which all headers of a request must have come, and for which an idle connection is kept.
    /// 30 seconds.
    pub header_time: Duration,
    /// The most connections at once; more wait until one ends. 1,024.
    pub connections: usize,
    /// The longest that a client may refuse to read before its connection is closed. 60 seconds.
    pub stall: Duration,
    /// The longest that a request waits for the end of a run. 10 minutes.
    pub wait: Duration,
    /// The pause after which a silent event stream says that it is still there. 15 seconds.
    pub heartbeat: Duration,
    /// How long requests that are under way may take to end when the server stops. 5 seconds.
    pub shutdown: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_bytes: 8 << 20,
            body_time: Duration::from_secs(30),
            header_bytes: 64 << 10,
            header_time: Duration::from_secs(30),
            connections: 1024,
            stall: Duration::from_secs(60),
            wait: Duration::from_secs(600),
            heartbeat: Duration::from_secs(15),
            shutdown: Duration::from_secs(5),
        }
    }
}
