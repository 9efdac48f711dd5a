//! The actor that gathers requests for batches.

use std::sync::Arc;

use ghostlight_actors::{contract::ModelError, vocabulary::ErrorKind};
use parking_lot::RwLock;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::JoinSet;

use super::desk::{Desk, Request};

/// The collector of the batches of one model at one account of a server. All its incarnations share the desk.
#[derive(Clone)]
pub(super) struct Collector(pub(super) Arc<RwLock<Desk>>);

pub(super) enum CollectorMessage {
    /// A request for the batch that is being gathered.
    Join(Request),
    /// The window is over that began with this batch.
    WindowEnds(u64),
    /// Of these requests nobody knows yet whether they are submitted.
    Undecided(Vec<Request>),
    /// The model has these settings from now on.
    Settings(Desk),
}

/// The requests that are being gathered, and the work that is under way.
pub(super) struct Gathered {
    requests: Vec<Request>,
    bytes: u64,
    /// How many batches were closed.
    batch: u64,
    work: JoinSet<()>,
}

impl Actor for Collector {
    type Msg = CollectorMessage;
    type State = Gathered;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<CollectorMessage>,
        (): (),
    ) -> Result<Gathered, ActorProcessingErr> {
        let mut work = JoinSet::new();
        work.spawn(self.clone().keep_looking());
        Ok(Gathered {
            requests: Vec::new(),
            bytes: 0,
            batch: 0,
            work,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<CollectorMessage>,
        message: CollectorMessage,
        gathered: &mut Gathered,
    ) -> Result<(), ActorProcessingErr> {
        while gathered.work.try_join_next().is_some() {}
        match message {
            CollectorMessage::Join(request) => self.gather(&myself, request, gathered),
            CollectorMessage::Undecided(requests) => {
                for request in requests {
                    self.gather(&myself, request, gathered);
                }
            }
            CollectorMessage::WindowEnds(batch) => {
                if batch == gathered.batch {
                    self.close(&myself, gathered);
                }
            }
            CollectorMessage::Settings(desk) => *self.0.write() = desk,
        }
        Ok(())
    }
}

impl Collector {
    fn desk(&self) -> Desk {
        self.0.read().clone()
    }

    fn gather(
        &self,
        myself: &ActorRef<CollectorMessage>,
        request: Request,
        gathered: &mut Gathered,
    ) {
        let Desk { host, spec, .. } = self.desk();
        let bytes = request.line.len() as u64;
        if bytes > spec.max_bytes {
            let message = format!(
                "the request has {bytes} bytes, and a batch {} at most: raise batch.max_bytes or shorten the \
                 conversation",
                spec.max_bytes
            );
            let _ = request
                .reply
                .send(Err(ModelError::new(ErrorKind::TooLarge, message)));
            return;
        }
        if gathered.bytes + bytes > spec.max_bytes {
            self.close(myself, gathered);
        }
        if gathered.requests.is_empty() {
            let clock = host.clock().clone();
            let end = clock.now().after(spec.window);
            let (batch, myself) = (gathered.batch, myself.clone());
            gathered.work.spawn(async move {
                clock.sleep_until(end).await;
                let _ = myself.cast(CollectorMessage::WindowEnds(batch));
            });
        }
        gathered.bytes += bytes;
        gathered.requests.push(request);
        if gathered.requests.len() >= spec.max_requests.max(1) as usize {
            self.close(myself, gathered);
        }
    }

    /// Submits what was gathered.
    fn close(&self, myself: &ActorRef<CollectorMessage>, gathered: &mut Gathered) {
        gathered.batch += 1;
        gathered.bytes = 0;
        let requests = std::mem::take(&mut gathered.requests);
        let (desk, myself) = (self.desk(), myself.clone());
        gathered.work.spawn(async move {
            let undecided = desk.submit(requests).await;
            if !undecided.is_empty() {
                let clock = desk.host.clock();
                clock.sleep_until(desk.next_look()).await;
                let _ = myself.cast(CollectorMessage::Undecided(undecided));
            }
        });
    }

    /// Looks after what was submitted, by this process or an earlier one.
    async fn keep_looking(self) {
        loop {
            let desk = self.desk();
            let due = match desk.look().await {
                Ok(due) => due,
                Err(error) => {
                    tracing::warn!(%error, "the batches under way cannot be read");
                    None
                }
            };
            let next = desk.next_look();
            let due = due.map_or(next, |due| due.min(next));
            desk.host.clock().sleep_until(due).await;
        }
    }
}
