//! Previews of runs that other processes over the store carry, for those who follow them here.
//!
//! Recorded events are read from the store, whichever process carries a run. Previews are not recorded, so the
//! server asks the process that carries a followed tree for its event stream, and passes them on. A failure on the way
//! costs previews and nothing else.

use std::{collections::VecDeque, fmt, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, future::BoxFuture, stream::BoxStream};
use ghostlight_actors::{
    actor::{Relay, System},
    contract::StoreError,
    vocabulary::{EventRecord, JournalId},
};
use ghostlight_safety::{EventParser, ServerEvent};
use tokio::{task::JoinSet, time};

/// The shortest and the longest pause between two looks for the process that carries a tree.
const LOOK: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// After how long a silence the server looks whether another process carries the tree by now.
const SILENCE: Duration = Duration::from_secs(2);
/// The largest event that is passed on, in bytes.
const LARGEST: usize = 16 << 20;

type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// How a server reaches the other processes over its store, and they this one.
#[derive(Clone)]
pub struct Peers {
    address: String,
    open: Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Pieces>> + Send + Sync>,
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peers({})", self.address)
    }
}

impl Peers {
    /// Peers to which this server is known by this address, such as `http://10.0.0.1:8080`. `open` sends a GET request
    /// for an event stream to a URL below a peer's address, with a key of the scope `admin`, and gives the pieces of the
    /// response.
    pub fn new<F, O, S>(address: &str, open: F) -> Self
    where
        F: Fn(String) -> O + Send + Sync + 'static,
        O: Future<Output = io::Result<S>> + Send + 'static,
        S: Stream<Item = io::Result<Bytes>> + Send + 'static,
    {
        Self {
            address: address.trim_end_matches('/').to_owned(),
            open: Arc::new(move |url| {
                let opened = open(url);
                Box::pin(async move { Ok(opened.await?.boxed()) })
            }),
        }
    }

    /// Tells the others the address, and passes on the previews of trees that are followed here, until it is dropped.
    pub(crate) async fn serve(self, system: System) {
        if let Some(membership) = system.store().membership()
            && let Err(error) = membership.advertise(Some(self.address.clone())).await
        {
            // Each renewal of the lease tells it again.
            tracing::warn!(%error, "the other processes do not know the address of this one yet");
        }
        let (mut relays, mut tasks) = (system.relays(), JoinSet::new());
        loop {
            tokio::select! {
                relay = relays.next() => match relay {
                    Some(relay) => {
                        tasks.spawn(self.clone().follow(system.clone(), relay));
                    }
                    None => return,
                },
                Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            }
        }
    }

    /// Passes on the previews of a tree as long as somebody follows it, whichever process carries it.
    async fn follow(self, system: System, mut relay: Relay) {
        let journal = JournalId::Run(relay.root());
        let mut pause = LOOK.0;
        loop {
            time::sleep(pause).await;
            pause = (pause * 2).min(LOOK.1);
            if !relay.is_followed() {
                return;
            }
            if relay.is_carried_here() {
                continue;
            }
            let found = carrier(&system, journal.clone()).await;
            if let Ok(Some(address)) = found {
                let passed = self.pass_on(&system, &mut relay, &address).await;
                if let Err(error) = passed {
                    tracing::debug!(run = %relay.root(), address, %error, "no previews of another process");
                }
            }
        }
    }

    /// Passes on what the process at an address shows of a tree, as long as it carries the tree.
    async fn pass_on(&self, system: &System, relay: &mut Relay, address: &str) -> io::Result<()> {
        let (root, after) = (relay.root(), relay.position());
        let url = format!("{address}/api/v1/runs/{root}/events?own=true&after={after}");
        let mut pieces = (self.open)(url).await?;
        let mut events = Events::default();
        while relay.is_followed() && !relay.is_carried_here() {
            let piece = match time::timeout(SILENCE, pieces.next()).await {
                Ok(Some(piece)) => piece?,
                Ok(None) => return Ok(()),
                Err(_) => match carrier(system, JournalId::Run(root)).await {
                    Ok(Some(carrier)) if carrier != address => return Ok(()),
                    Ok(None) => return Ok(()),
                    _ => continue,
                },
            };
            for record in events.records(&piece)? {
                relay.show(record);
            }
        }
        Ok(())
    }
}

/// Where the server of the other process is reached that carries a journal, if the store lists such processes.
async fn carrier(system: &System, journal: JournalId) -> Result<Option<String>, StoreError> {
    match system.store().membership() {
        Some(membership) => membership.address_of(journal).await,
        None => Ok(None),
    }
}

/// The events of another process, as the pieces of its stream come.
#[derive(Debug, Default)]
struct Events {
    parser: EventParser,
    ready: VecDeque<ServerEvent>,
}

impl Events {
    /// The events that a piece completes. Others are passed over: a later program may send them.
    fn records(&mut self, piece: &[u8]) -> io::Result<Vec<EventRecord>> {
        self.parser.push(piece, &mut self.ready);
        if self.parser.held() > LARGEST {
            return Err(io::Error::other("an event is too large"));
        }
        let data = self.ready.drain(..).map(|event| event.data);
        Ok(data
            .filter_map(|data| serde_json::from_slice(&data).ok())
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use ghostlight_actors::vocabulary::{Event, OperationId, Preview, RunId, Timestamp};

    use super::*;

    #[test]
    fn events_are_read_however_their_stream_is_cut() {
        let run = RunId::from_random(7);
        let record = |text: &str| {
            let preview = Preview::ModelStarted {
                operation: OperationId::default(),
                attempt: 1,
                model: text.to_owned(),
            };
            EventRecord::new(run, Timestamp(1), Vec::new(), Event::Preview(preview))
        };
        let wanted = vec![record("one"), record("two\n")];
        let mut text = ": heartbeat\n\nevent: later\ndata: {}\n\n".to_owned();
        for record in &wanted {
            let data = serde_json::to_string(record).unwrap();
            text.push_str(&format!("event: preview\ndata: {data}\n\n"));
        }
        for size in 1..text.len() {
            let mut events = Events::default();
            let pieces = text.as_bytes().chunks(size);
            let read = pieces.flat_map(|piece| events.records(piece).unwrap());
            assert_eq!(read.collect::<Vec<_>>(), wanted, "pieces of {size} bytes");
        }
        let endless = Events::default().records(&vec![b'x'; LARGEST + 1]);
        assert!(endless.is_err());
    }
}
