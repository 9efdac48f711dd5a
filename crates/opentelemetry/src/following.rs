//! Follows the trees of a store, and exports what ends.

mod batch;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, SystemTime},
};

use ghostlight_actors::{
    actor::{OpenRuns, System},
    contract::{RunFilter, RunRow, StoreError, StoreHandle},
    vocabulary::{RunId, Timestamp},
};
use opentelemetry::trace::SpanKind;
use opentelemetry_sdk::trace::SamplingDecision;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::AbortHandle,
    time::{Instant, MissedTickBehavior},
};

use self::batch::Batch;
use crate::{
    definitions::Definitions,
    ids,
    metrics::COUNTED,
    places::{Found, Places, Right, Row},
    telemetry::OpenTelemetry,
    tree::TreeReader,
};

/// How often the store is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// By how much the clocks of processes that begin runs may differ, in milliseconds.
const SKEW_MS: u64 = 60_000;
/// How many rows or entries are read at once.
const PAGE: usize = 256;
/// How many trees are remembered as found. The store knows the others.
const KNOWN: usize = 100_000;
/// For how many looks a tree without news is read at each of them.
const WARM: u32 = 20;
/// How many trees that had no news for longer are read at each look.
const COLD: usize = 200;
/// How long the last export may take.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// Why a flush did not export what is recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlushError {
    /// Another process exports for this store.
    #[error("another process exports the runs of this store")]
    Standby,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The exporter has been stopped.
    #[error("the exporter has been stopped")]
    Stopped,
}

ghostlight_actors::parts_of_system_error!(FlushError);

/// A System that is followed, until this is dropped.
pub struct Following {
    commands: mpsc::UnboundedSender<Command>,
    task: AbortHandle,
    telemetry: OpenTelemetry,
    /// Whether it is to end.
    ends: watch::Sender<bool>,
}

enum Command {
    Flush(oneshot::Sender<Result<(), FlushError>>),
    /// Tells whether the collector took everything.
    Stop(oneshot::Sender<bool>),
}

impl Following {
    pub(crate) async fn start(
        telemetry: OpenTelemetry,
        system: &System,
    ) -> Result<Self, StoreError> {
        let places = Places::of(system.store().clone(), telemetry.purpose());
        places.begin().await?;
        let (commands, given) = mpsc::unbounded_channel();
        let (ends, is_ending) = watch::channel(false);
        let store = system.store().clone();
        let follower = Follower::new(telemetry.clone(), store, places, is_ending);
        let task = tokio::spawn(follower.go_on(given)).abort_handle();
        Ok(Self {
            commands,
            task,
            telemetry,
            ends,
        })
    }

    /// Exports what is recorded up to now. While the collector takes nothing, it waits.
    ///
    /// # Errors
    /// When another process exports, or the store fails.
    pub async fn flush(&self) -> Result<(), FlushError> {
        let (done, is_done) = oneshot::channel();
        let _ = self.commands.send(Command::Flush(done));
        is_done.await.unwrap_or(Err(FlushError::Stopped))?;
        if let Some(provider) = self.telemetry.provider().cloned() {
            // It waits for its own thread, which waits for this runtime.
            let flushed = tokio::task::spawn_blocking(move || provider.force_flush());
            let _ = flushed.await;
        }
        Ok(())
    }

    /// Exports what is recorded up to now, for at most five seconds, and ends. What was not taken by then stays in the store,
    /// and is exported by the next process that follows it. Call it before [`System::stop`], which closes the store. The
    /// metrics of an exporter [from the environment](OpenTelemetry::from_env) end with it.
    pub async fn shutdown(self) {
        let began = Instant::now();
        let (done, is_done) = oneshot::channel();
        let _ = self.commands.send(Command::Stop(done));
        self.ends.send_replace(true);
        let exported = tokio::time::timeout(SHUTDOWN, is_done).await;
        if !matches!(exported, Ok(Ok(true))) {
            tracing::warn!("the collector of OpenTelemetry did not take everything before the end");
        }
        if let Some(provider) = self.telemetry.provider().cloned() {
            let left = SHUTDOWN.saturating_sub(began.elapsed());
            let left = left.max(Duration::from_millis(500));
            let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(left));
            let _ = tokio::time::timeout(left, ended).await;
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Following").finish_non_exhaustive()
    }
}

/// Why a look ended before its end.
enum Halt {
    Store(StoreError),
    /// Another process exports.
    Lost,
    /// The collector takes nothing, and the exporter is to end.
    Ends,
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A tree whose root has not ended, as far as it was exported.
struct Tree {
    row: Row,
    is_sampled: bool,
    /// The state of its open runs. It is read anew from the entries when there is news after a pause.
    reader: Option<TreeReader>,
    /// For how many looks there was no news.
    quiet: u32,
    /// When one of its runs was last seen to write.
    wrote: Timestamp,
}

struct Follower {
    telemetry: OpenTelemetry,
    store: StoreHandle,
    places: Places,
    right: Right,
    definitions: Definitions,
    trees: BTreeMap<RunId, Tree>,
    /// Whether the trees are those of the store.
    is_loaded: bool,
    known: BTreeSet<RunId>,
    /// Trees that this program cannot read.
    unread: BTreeSet<RunId>,
    /// The last of the quiet trees that was read.
    turn: Option<RunId>,
    counted: Option<Instant>,
    ends: watch::Receiver<bool>,
}

impl Follower {
    fn new(
        telemetry: OpenTelemetry,
        store: StoreHandle,
        places: Places,
        ends: watch::Receiver<bool>,
    ) -> Self {
        Self {
            right: Right::of(store.clone(), telemetry.purpose()),
            telemetry,
            definitions: Definitions::of(store.clone()),
            places,
            store,
            trees: BTreeMap::new(),
            is_loaded: false,
            known: BTreeSet::new(),
            unread: BTreeSet::new(),
            turn: None,
            counted: None,
            ends,
        }
    }

    async fn go_on(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_failing = false;
        loop {
            let command = tokio::select! {
                _ = look.tick() => None,
                Some(command) = commands.recv() => Some(command),
            };
            let looked = self.look(command.is_some()).await;
            let failed = matches!(looked, Err(FlushError::Store(_)));
            if let (Err(error), false) = (&looked, is_failing)
                && failed
            {
                tracing::warn!(%error, "runs cannot be read for OpenTelemetry; tried again");
            }
            is_failing = failed;
            match command {
                None => {}
                Some(Command::Flush(done)) => {
                    let _ = done.send(looked);
                }
                Some(Command::Stop(done)) => {
                    let _ = done.send(!matches!(looked, Err(FlushError::Stopped)));
                    return;
                }
            }
        }
    }

    /// Exports what is new; with `all`, of all trees.
    async fn look(&mut self, all: bool) -> Result<(), FlushError> {
        let looked = self.looked(all).await;
        if matches!(looked, Err(Halt::Lost)) && self.counted.take().is_some() {
            // Another process counts them now, and they are to be counted once.
            self.telemetry.metrics().open(&OpenRuns::default());
        }
        if looked.is_err() {
            // The entries that were read and not exported are read again.
            self.trees.clear();
            self.is_loaded = false;
        }
        looked.map_err(|halt| match halt {
            Halt::Store(error) => FlushError::Store(error),
            Halt::Lost => FlushError::Standby,
            Halt::Ends => FlushError::Stopped,
        })
    }

    async fn looked(&mut self, all: bool) -> Result<(), Halt> {
        if !self.right.hold(all).await? {
            return Err(Halt::Lost);
        }
        if !self.is_loaded {
            self.known.clear();
            for (root, row) in self.places.all().await? {
                self.add(root, row);
            }
            // A tree may have begun long ago, and nobody has found it.
            let mut open = RunFilter::default();
            (open.open, open.roots) = (true, true);
            let found = self.places.found().await?;
            self.find(open, found).await?;
            self.is_loaded = true;
        }
        let found = self.places.found().await?;
        let mut since = RunFilter::default();
        since.roots = true;
        since.since = Some(Timestamp(found.until_ms.saturating_sub(SKEW_MS)));
        let until_ms = self.find(since, found).await?;
        self.wake().await?;
        self.export(all).await?;
        // Each tree that was found has its row now, so none is forgotten if the process dies.
        if until_ms > found.until_ms {
            let found = Found { until_ms, ..found };
            self.places.put_found(found).await?;
        }
        self.count_open(all).await?;
        Ok(())
    }

    fn add(&mut self, root: RunId, row: Row) {
        self.known.insert(root);
        if self.unread.contains(&root) {
            return;
        }
        let trace = ids::sampled_by(root);
        let sampling = self.telemetry.sampling();
        let sampled = sampling.should_sample(None, trace, "", &SpanKind::Internal, &[], &[]);
        let tree = Tree {
            row,
            is_sampled: sampled.decision == SamplingDecision::RecordAndSample,
            reader: None,
            quiet: 0,
            wrote: Timestamp(0),
        };
        self.trees.insert(root, tree);
    }

    /// Finds trees among these rows, and tells when the last of them began, in milliseconds since 1970.
    async fn find(&mut self, mut filter: RunFilter, found: Found) -> Result<u64, Halt> {
        let mut latest = found.until_ms;
        filter.limit = PAGE;
        loop {
            let rows = self.store.runs(filter.clone()).await?;
            filter.after = rows.last().cloned();
            for row in &rows {
                latest = latest.max(row.started_at.0);
                let is_news = row.started_at.0 > found.began_ms || !row.status.is_ended();
                if is_news && self.is_new(row) {
                    match self.places.tree(row.run).await? {
                        Some(place) => self.add(row.run, place),
                        None => drop(self.known.insert(row.run)),
                    }
                }
            }
            if rows.len() < PAGE {
                break;
            }
        }
        if self.known.len() > KNOWN {
            self.known = self.trees.keys().copied().collect();
        }
        Ok(latest)
    }

    /// Notices which of the quiet trees are at work again.
    async fn wake(&mut self) -> Result<(), Halt> {
        let mut filter = RunFilter::default();
        (filter.awake_by, filter.limit) = (Some(Timestamp(0)), PAGE);
        loop {
            let rows = self.store.runs(filter.clone()).await?;
            filter.after = rows.last().cloned();
            for row in &rows {
                if let Some(tree) = self.trees.get_mut(&row.root)
                    && row.updated_at > tree.wrote
                {
                    (tree.wrote, tree.quiet) = (row.updated_at, 0);
                }
            }
            if rows.len() < PAGE {
                return Ok(());
            }
        }
    }

    fn is_new(&self, row: &RunRow) -> bool {
        row.run == row.root && !self.known.contains(&row.run)
    }

    async fn export(&mut self, all: bool) -> Result<(), Halt> {
        let mut batch = Batch::default();
        for root in self.due(all) {
            match self.read(root, &mut batch).await {
                Ok(()) => {}
                Err(Halt::Store(
                    error @ (StoreError::Damaged { .. }
                    | StoreError::Newer { .. }
                    | StoreError::NoLongerRead { .. }),
                )) => {
                    tracing::warn!(run = %root, %error, "a tree is not exported to OpenTelemetry any more");
                    // Whatever of it was read before stays in the batch, and its place is where it was.
                    batch.forget(root);
                    self.trees.remove(&root);
                    self.unread.insert(root);
                }
                Err(halt) => return Err(halt),
            }
        }
        self.send(&mut batch).await
    }

    /// The trees to be read at this look.
    fn due(&mut self, all: bool) -> Vec<RunId> {
        let is_warm = |tree: &Tree| all || tree.quiet < WARM;
        let trees = self.trees.iter();
        let mut due: Vec<RunId> = trees
            .filter(|(_, tree)| is_warm(tree))
            .map(|(root, _)| *root)
            .collect();
        if !all {
            let turn = self.turn.take();
            let after = |root: &RunId| turn.is_none_or(|turn| *root > turn);
            let cold = self.trees.iter().filter(|(_, tree)| !is_warm(tree));
            let cold: Vec<RunId> = cold
                .map(|(root, _)| *root)
                .filter(after)
                .take(COLD)
                .collect();
            // Once all had their turn, the first is next.
            self.turn = cold.last().copied().filter(|_| cold.len() == COLD);
            due.extend(cold);
        }
        due
    }

    /// Reads the news of a tree.
    async fn read(&mut self, root: RunId, batch: &mut Batch) -> Result<(), Halt> {
        loop {
            let Some(tree) = self.trees.get_mut(&root) else {
                return Ok(());
            };
            let (after, is_sampled) = (tree.row.after, tree.is_sampled);
            let lines = self.store.read_tree(root, after, PAGE).await?;
            if lines.is_empty() {
                tree.quiet = tree.quiet.saturating_add(1);
                if tree.quiet >= WARM {
                    tree.reader = None;
                }
                let may_be_gone = tree.quiet % WARM == 0;
                if may_be_gone && self.store.run(root).await?.is_none() {
                    // It was deleted before it was exported to its end.
                    batch.moved(root, true);
                }
                return Ok(());
            }
            let mut reader = match tree.reader.take() {
                Some(reader) => reader,
                None => self.primed(root, after).await?,
            };
            for line in &lines {
                let finished = reader.read(line, &mut self.definitions).await?;
                batch.take(finished, is_sampled);
            }
            let is_over = reader.is_over();
            if let Some(tree) = self.trees.get_mut(&root) {
                tree.row.after = lines.last().map_or(after, |line| line.stored.position);
                (tree.reader, tree.quiet) = (Some(reader), 0);
            }
            batch.moved(root, is_over);
            if batch.is_full() {
                self.send(batch).await?;
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// The knowledge of a tree up to this position.
    async fn primed(&mut self, root: RunId, until: u64) -> Result<TreeReader, Halt> {
        let mut reader = TreeReader::new(root, self.telemetry.has_contents());
        let mut passed = 0;
        while passed < until {
            let lines = self.store.read_tree(root, passed, PAGE).await?;
            for line in &lines {
                passed = line.stored.position;
                if passed > until {
                    break;
                }
                reader.read(line, &mut self.definitions).await?;
            }
            if lines.is_empty() {
                break;
            }
        }
        Ok(reader)
    }

    /// Counts the runs that have not ended, now and then.
    async fn count_open(&mut self, now: bool) -> Result<(), Halt> {
        if now || self.counted.is_none_or(|at| at.elapsed() >= COUNTED) {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let since = since.unwrap_or_default().as_millis();
            let at = Timestamp(u64::try_from(since).unwrap_or_default());
            let open = OpenRuns::read(&self.store, at, Duration::MAX).await?;
            self.telemetry.metrics().open(&open);
            self.counted = Some(Instant::now());
        }
        Ok(())
    }
}
