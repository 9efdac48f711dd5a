//! The runs that are live in this process, and how to reach them.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use ractor::ActorRef;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::agent_command::{AgentCommand, Place};
use crate::{
    contract::{RunRow, StoreError},
    run::{Command, ParentSender, RunSender},
    vocabulary::{RunEnd, RunId},
};

/// The live runs of a System. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveRuns(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    /// Ordered by id, so that a simulation tells them the same in the same order.
    runs: BTreeMap<RunId, Route>,
    /// Those that went on from another journal, by the run as which they began.
    gone_on: HashMap<RunId, RunId>,
    /// How many of them are roots.
    roots: usize,
    /// How many places are kept for roots that are about to be live.
    kept: Arc<AtomicUsize>,
    /// Whether interrupted runs were left because all places were taken.
    leaves_runs: bool,
    /// Tells the one that waits for places for them that a root is no longer live.
    root_left: Arc<Notify>,
    /// Rings when a run comes to rest, for the callers that wait for it.
    watched: HashMap<RunId, watch::Sender<Rings>>,
    /// The last roots that this process had to stop, each with the reason, the oldest at the front.
    failed: VecDeque<(RunId, StoreError)>,
}

/// How many stopped roots keep their reason. A caller that waits for an older one waits until a
/// process takes it up.
const FAILED: usize = 1024;

/// The knowledge of a run that its waiting callers share.
#[derive(Debug, Default)]
struct Rings {
    count: u64,
    /// The run's end, if it ended in this process.
    end: Option<Arc<RunEnd>>,
}

/// How to reach a live run.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) root: RunId,
    /// The run as which it began, to whose mailbox it listens.
    pub(crate) begun_as: RunId,
    /// The run's row when it was taken up; before that it shows nothing.
    pub(crate) row: Option<Arc<RunRow>>,
    /// The actor that hosts the run.
    pub(crate) host: ActorRef<AgentCommand>,
    pub(crate) sender: RunSender,
    pub(crate) cancelled: CancellationToken,
    /// The way to the run's parent, for a child.
    pub(crate) parent: Option<ParentSender>,
}

impl Route {
    /// The agents from the root's to the run's.
    pub(crate) fn path(&self) -> Vec<String> {
        let row = self.row.as_ref();
        row.map_or_else(Vec::new, |row| row.path.clone())
    }
}

impl Table {
    /// How many places are taken: by live roots, and by those that are about to be live.
    fn taken(&self) -> usize {
        self.roots + self.kept.load(Ordering::Acquire)
    }

    fn ring(&mut self, run: RunId) {
        if let Some(watch) = self.watched.get(&run) {
            watch.send_modify(|rings| rings.count += 1);
        }
    }
}

/// Waits for a run to come to rest. The table forgets the run's rings with the last watch.
#[derive(Debug)]
pub(crate) struct OutcomeWatch {
    run: RunId,
    /// `None` only while it is dropped.
    rings: Option<watch::Receiver<Rings>>,
    live: LiveRuns,
}

impl OutcomeWatch {
    /// From here on only later rings count.
    pub(crate) fn mark(&mut self) {
        if let Some(rings) = &mut self.rings {
            rings.borrow_and_update();
        }
    }

    /// Waits for a ring since the last mark.
    pub(crate) async fn rung(&mut self) {
        if let Some(rings) = &mut self.rings {
            // The sender stays as long as a watch exists.
            let _ = rings.changed().await;
        }
    }

    /// The run's end, if it has ended in this process since this watch was made.
    pub(crate) fn end(&self) -> Option<Arc<RunEnd>> {
        self.rings.as_ref()?.borrow().end.clone()
    }
}

impl Drop for OutcomeWatch {
    fn drop(&mut self) {
        let mut table = self.live.0.lock();
        // Under the lock: of two watches that go at once, the second finds that it is the last.
        self.rings = None;
        let watch = table.watched.get(&self.run);
        if watch.is_some_and(|watch| watch.receiver_count() == 0) {
            table.watched.remove(&self.run);
        }
    }
}

impl LiveRuns {
    /// How many of this many places are free.
    pub(crate) fn free(&self, places: usize) -> usize {
        let table = self.0.lock();
        places.saturating_sub(table.taken())
    }

    /// Keeps one of this many places, if one is free.
    pub(crate) fn keep(&self, places: usize) -> Option<Place> {
        // Under the lock, so that two do not keep the last one.
        let table = self.0.lock();
        (table.taken() < places).then(|| Place::among(&table.kept))
    }

    pub(crate) fn insert(&self, run: RunId, route: Route) {
        let mut table = self.0.lock();
        let root = route.parent.is_none();
        if route.begun_as != run {
            table.gone_on.insert(route.begun_as, run);
        }
        table.failed.retain(|(failed, _)| *failed != run);
        if table.runs.insert(run, route).is_none() && root {
            table.roots += 1;
        }
    }

    pub(crate) fn get(&self, run: RunId) -> Option<Route> {
        self.0.lock().runs.get(&run).cloned()
    }

    /// Forgets a run, and rings for the callers that wait for it.
    pub(crate) fn remove(&self, run: RunId) {
        let mut table = self.0.lock();
        if let Some(route) = table.runs.remove(&run) {
            if table.gone_on.get(&route.begun_as) == Some(&run) {
                table.gone_on.remove(&route.begun_as);
            }
            if route.parent.is_none() {
                table.roots -= 1;
                if table.leaves_runs {
                    table.root_left.notify_one();
                }
            }
        }
        table.ring(run);
    }

    /// Tells the callers that wait for a run how it ended, before the run is forgotten.
    pub(crate) fn ended(&self, run: RunId, end: Arc<RunEnd>) {
        if let Some(watch) = self.0.lock().watched.get(&run) {
            watch.send_if_modified(|rings| {
                rings.end = Some(end);
                false
            });
        }
    }

    /// Whether a run is live here.
    pub(crate) fn is_live(&self, run: RunId) -> bool {
        self.0.lock().runs.contains_key(&run)
    }

    /// Notes that this process cannot continue with a run.
    pub(crate) fn fail(&self, run: RunId, error: StoreError) {
        let mut table = self.0.lock();
        table.failed.retain(|(failed, _)| *failed != run);
        if table.failed.len() == FAILED {
            table.failed.pop_front();
        }
        table.failed.push_back((run, error));
        table.ring(run);
    }

    /// Why this process could not continue with a run, if it tried.
    pub(crate) fn failure(&self, run: RunId) -> Option<StoreError> {
        let table = self.0.lock();
        let failed = table.failed.iter().find(|(failed, _)| *failed == run);
        failed.map(|(_, error)| error.clone())
    }

    /// Whether it is in vain to take up a run again before somebody asks for it.
    pub(crate) fn is_stuck(&self, run: RunId) -> bool {
        self.failure(run).is_some_and(|error| error.is_lasting())
    }

    /// Forgets all runs of a tree.
    pub(crate) fn remove_tree(&self, root: RunId) {
        let below: Vec<RunId> = {
            let table = self.0.lock();
            let runs = table.runs.iter().filter(|(_, route)| route.root == root);
            runs.map(|(run, _)| *run).collect()
        };
        below.into_iter().for_each(|run| self.remove(run));
    }

    /// Tries the parked runs of a tree again.
    pub(crate) fn retry_tree(&self, root: RunId) {
        let table = self.0.lock();
        for (run, route) in table.runs.iter().filter(|(_, route)| route.root == root) {
            // A host that is gone has a next incarnation, which tries all again.
            let _ = route.host.cast(AgentCommand::Retry(*run));
        }
    }

    /// Rings when the run comes to rest in this process.
    pub(crate) fn watch(&self, run: RunId) -> OutcomeWatch {
        let mut table = self.0.lock();
        let watch = table.watched.entry(run);
        let rings = watch
            .or_insert_with(|| watch::channel(Rings::default()).0)
            .subscribe();
        let (rings, live) = (Some(rings), self.clone());
        OutcomeWatch { run, rings, live }
    }

    /// Sends a message to the agent that hosts a run, if the run is live here.
    pub(crate) fn tell_host(&self, run: RunId, message: AgentCommand) {
        if let Some(route) = self.0.lock().runs.get(&run) {
            let _ = route.host.cast(message);
        }
    }

    /// Sends a run a command, in whatever journal it goes on. `false` when the run is not live here.
    pub(crate) fn tell(&self, run: RunId, command: Command) -> bool {
        // Under the lock: a run that is forgotten gets no more commands.
        let table = self.0.lock();
        let run = table.gone_on.get(&run).unwrap_or(&run);
        let route = table.runs.get(run);
        route.is_some_and(|route| route.sender.tell(command))
    }

    /// How many root runs are live.
    pub(crate) fn roots(&self) -> usize {
        self.0.lock().roots
    }

    /// Whether interrupted runs were left because all places were taken.
    pub(crate) fn leaves_runs(&self) -> bool {
        self.0.lock().leaves_runs
    }

    /// Notes whether interrupted runs are left because all places are taken. Only then is it told that a root leaves:
    /// a task that is woken at each run's end goes to another thread, and takes that thread from the run's caller.
    pub(crate) fn leave_runs(&self, left: bool) {
        self.0.lock().leaves_runs = left;
    }

    /// Waits until a root is no longer live, while runs are left. For one that waits at a time.
    pub(crate) async fn root_left(&self) {
        let root_left = self.0.lock().root_left.clone();
        root_left.notified().await;
    }

    /// All live root runs.
    pub(crate) fn live_roots(&self) -> Vec<RunId> {
        let table = self.0.lock();
        let runs = table.runs.iter();
        let roots = runs.filter(|(_, route)| route.parent.is_none());
        roots.map(|(run, _)| *run).collect()
    }

    /// Lets go of all runs, and rings for all callers that wait: the System stops.
    pub(crate) fn let_go(&self) {
        let table = self.0.lock();
        for route in table.runs.values() {
            route.sender.tell(Command::LetGo);
        }
        for watch in table.watched.values() {
            watch.send_modify(|rings| rings.count += 1);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::FutureExt;
    use ractor::{Actor, ActorProcessingErr};

    use super::*;

    struct Host;

    impl Actor for Host {
        type Msg = AgentCommand;
        type State = ();
        type Arguments = ();

        async fn pre_start(
            &self,
            _: ActorRef<AgentCommand>,
            (): (),
        ) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn an_end_wakes_who_waits_for_places_only_while_runs_were_left() {
        let (host, _) = Actor::spawn(None, Host, ()).await.unwrap();
        let (live, run) = (LiveRuns::default(), RunId::from_random(1));
        let end_a_root = || {
            let route = Route {
                root: run,
                begun_as: run,
                row: None,
                host: host.clone(),
                sender: RunSender::channel().0,
                cancelled: CancellationToken::new(),
                parent: None,
            };
            live.insert(run, route);
            live.remove(run);
            live.root_left().now_or_never()
        };
        assert_eq!(end_a_root(), None);
        live.leave_runs(true);
        assert_eq!(end_a_root(), Some(()));
        live.leave_runs(false);
        assert_eq!(end_a_root(), None);
    }

    #[test]
    fn of_all_runs_that_were_stopped_the_last_are_remembered() {
        let live = LiveRuns::default();
        for number in 0..10_000 {
            live.fail(RunId::from_random(number << 100), StoreError::Closed);
            live.fail(RunId::from_random(number << 100), StoreError::Closed);
        }
        assert_eq!(live.0.lock().failed.len(), FAILED);
        let failure = |number: u128| live.failure(RunId::from_random(number << 100));
        assert!(failure(9_999).is_some() && failure(0).is_none());
    }
}
