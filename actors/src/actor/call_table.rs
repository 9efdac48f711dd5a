//! Calls to the world, and the tasks and actors that carry them.
//!
//! The task of the run that asks for a call carries the call. So a call costs no message, and it
//! has a task of its own only where code that blocks is to be kept off the run. When the run goes
//! away in the middle of the call (a panic, a kill), the call's keeper, an actor, carries it to its
//! end, and the run's next incarnation joins it there.

use std::{
    collections::{HashMap, VecDeque},
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::supervised_ref::SupervisedRef;
use crate::{
    contract::BoxFuture,
    run::{CallKey, Carried, InputDigest, Keeper, Manner},
    vocabulary::RunId,
};

/// The calls of one kind, and the way to their keeper.
pub(crate) struct CallTable<T: Send + 'static> {
    pub(crate) keeper: SupervisedRef<KeeperMessage<T>>,
    /// How many calls are with the keeper, or on their way to it.
    away: Arc<AtomicUsize>,
}

impl<T: Send + 'static> Default for CallTable<T> {
    fn default() -> Self {
        Self {
            keeper: SupervisedRef::default(),
            away: Arc::default(),
        }
    }
}

impl<T: Send + 'static> CallTable<T> {
    /// Carries a call in the task that polls the returned future. If that future is dropped before
    /// the end, the keeper takes the call over, unless its result is unwanted.
    pub(crate) fn carry(
        self: &Arc<Self>,
        manner: Manner,
        call: BoxFuture<'static, T>,
    ) -> Carried<T> {
        Carried::kept(call, manner, self.clone())
    }

    /// Whether a call may be with the keeper. If none is, there is nothing to join.
    pub(crate) fn is_away(&self) -> bool {
        self.away.load(Ordering::Acquire) > 0
    }

    /// The end of a call that an earlier incarnation of the run began, if the keeper has it. A call that asked for something
    /// else is ended: nobody wants it.
    pub(crate) async fn join(&self, Manner { key, asked, .. }: &Manner) -> Option<T> {
        self.ask(|reply| KeeperMessage::Join(*key, asked.digest(), reply))
            .await
    }

    /// The end of an unwanted call, if the keeper has it and it settles.
    pub(crate) async fn abort(&self, key: CallKey) -> Option<T> {
        self.ask(|reply| KeeperMessage::Abort(key, reply)).await
    }

    /// Ends a call that does not come to its end by itself.
    pub(crate) fn forget(&self, key: CallKey) {
        // A keeper that is gone has taken its calls along.
        let _ = self.keeper.send(KeeperMessage::Forget(key));
    }

    /// Ends the calls of a run that is about to end and that the keeper still has: an earlier incarnation
    /// began them on an answer that was lost on its way to the disk.
    pub(crate) async fn forget_run(&self, run: RunId) {
        self.ask(|reply| KeeperMessage::ForgetRun(run, reply)).await;
    }

    async fn ask(
        &self,
        message: impl FnOnce(oneshot::Sender<Option<T>>) -> KeeperMessage<T>,
    ) -> Option<T> {
        if !self.is_away() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        self.keeper.send(message(sender)).ok()?;
        // A keeper that died has taken its calls along.
        receiver.await.ok().flatten()
    }
}

impl<T: Send + 'static> Keeper<T> for CallTable<T> {
    fn take_over(&self, call: BoxFuture<'static, T>, manner: Manner) {
        let away = Counted::among(&self.away);
        let adopted = Box::new(Adopted { call, manner, away });
        // Without a keeper the call ends here, as it does when the process ends.
        let _ = self.keeper.send(KeeperMessage::Adopt(adopted));
    }
}

/// One of those that are counted there, as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted(Arc<AtomicUsize>);

impl Counted {
    pub(crate) fn among(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A call whose run is gone.
pub(crate) struct Adopted<T> {
    call: BoxFuture<'static, T>,
    manner: Manner,
    away: Counted,
}

/// Keeps the calls whose run is gone: carries them to their ends, and keeps the ends for a run that
/// comes back. It is an actor, so that every call has an owner.
pub(crate) struct CallKeeper<T>(pub(crate) PhantomData<fn() -> T>);

pub(crate) enum KeeperMessage<T> {
    /// The run that carried this call is gone.
    Adopt(Box<Adopted<T>>),
    /// The run is back and asks for this call's end; `None` at once when the keeper does not have
    /// the call.
    Join(CallKey, InputDigest, oneshot::Sender<Option<T>>),
    /// This call is unwanted: the answer is its end, if it settles.
    Abort(CallKey, oneshot::Sender<Option<T>>),
    /// This call's end is not waited for any more.
    Forget(CallKey),
    /// The ends of this run's calls are not waited for any more; the answer is `None`.
    ForgetRun(RunId, oneshot::Sender<Option<T>>),
    /// This call has ended; `None` for an unwanted call that stopped.
    Ended(CallKey, Option<T>),
}

pub(crate) struct KeeperState<T> {
    calls: HashMap<CallKey, UnclaimedEnd<T>>,
    ended: VecDeque<UnclaimedResult<T>>,
    /// The bound on the ends that are kept until a run takes them.
    bound: usize,
}

struct UnclaimedResult<T> {
    key: CallKey,
    asked: InputDigest,
    end: T,
    _away: Counted,
}

struct UnclaimedEnd<T> {
    manner: Manner,
    waiter: Option<oneshot::Sender<Option<T>>>,
    away: Counted,
    _task: AbortOnDropHandle<()>,
}

impl<T: Send + 'static> Actor for CallKeeper<T> {
    type Msg = KeeperMessage<T>;
    type State = KeeperState<T>;
    type Arguments = usize;

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        bound: usize,
    ) -> Result<KeeperState<T>, ActorProcessingErr> {
        Ok(KeeperState {
            calls: HashMap::new(),
            ended: VecDeque::new(),
            bound,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: KeeperMessage<T>,
        state: &mut KeeperState<T>,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            KeeperMessage::Adopt(adopted) => state.adopt(&myself, *adopted),
            KeeperMessage::Join(key, asked, reply) => {
                state.forget_others(key, &asked);
                state.join(key, reply);
            }
            KeeperMessage::Abort(key, reply) => state.abort(key, reply),
            KeeperMessage::Forget(key) => {
                state.calls.remove(&key);
            }
            KeeperMessage::ForgetRun(run, reply) => {
                state.calls.retain(|(of, _), _| *of != run);
                state.ended.retain(|ended| ended.key.0 != run);
                // The caller may have gone.
                let _ = reply.send(None);
            }
            KeeperMessage::Ended(key, end) => state.ended(key, end),
        }
        Ok(())
    }
}

impl<T: Send + 'static> KeeperState<T> {
    fn adopt(&mut self, myself: &ActorRef<KeeperMessage<T>>, adopted: Adopted<T>) {
        let Adopted { call, manner, away } = adopted;
        let (key, settles) = (manner.key, manner.settles);
        let (myself, unwanted) = (myself.clone(), manner.unwanted.clone());
        let task = tokio::spawn(async move {
            let end = if settles {
                Some(call.await)
            } else {
                unwanted.run_until_cancelled(call).await
            };
            let _ = myself.cast(KeeperMessage::Ended(key, end));
        });
        let kept = UnclaimedEnd {
            manner,
            waiter: None,
            away,
            _task: AbortOnDropHandle::new(task),
        };
        self.calls.insert(key, kept);
    }

    /// Ends the call of this key if it asked for something else.
    fn forget_others(&mut self, key: CallKey, asked: &InputDigest) {
        self.ended
            .retain(|kept| kept.key != key || kept.asked == *asked);
        let kept = self.calls.get(&key);
        if kept.is_some_and(|kept| kept.manner.asked.digest() != *asked) {
            self.calls.remove(&key);
        }
    }

    fn join(&mut self, key: CallKey, reply: oneshot::Sender<Option<T>>) {
        if let Some(place) = self.ended.iter().position(|kept| kept.key == key)
            && let Some(kept) = self.ended.remove(place)
        {
            if let Err(Some(end)) = reply.send(Some(kept.end)) {
                // The run is gone again.
                self.ended.push_back(UnclaimedResult { end, ..kept });
            }
            return;
        }
        match self.calls.get_mut(&key) {
            Some(kept) => kept.waiter = Some(reply),
            None => {
                let _ = reply.send(None);
            }
        }
    }

    fn abort(&mut self, key: CallKey, reply: oneshot::Sender<Option<T>>) {
        if let Some(kept) = self.calls.get(&key) {
            kept.manner.unwanted.cancel();
        }
        self.join(key, reply);
    }

    fn ended(&mut self, key: CallKey, end: Option<T>) {
        let Some(kept) = self.calls.remove(&key) else {
            return;
        };
        let untaken = match kept.waiter {
            Some(waiter) => waiter.send(end).err().flatten(),
            None => end,
        };
        if let Some(end) = untaken {
            if self.ended.len() >= self.bound {
                self.ended.pop_front();
            }
            self.ended.push_back(UnclaimedResult {
                key,
                asked: kept.manner.asked.digest(),
                end,
                _away: kept.away,
            });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        run::Asked,
        vocabulary::{CallDigest, OperationId},
    };

    /// A run asks its model again when the answer was lost on its way to the disk, and the next answer may ask for other
    /// calls than the ones that are under way.
    #[tokio::test]
    async fn a_life_joins_what_it_asked_for_and_ends_what_an_earlier_life_asked_for_instead() {
        let keeper = CallKeeper::<&str>(PhantomData);
        let (keeper, _) = Actor::spawn(None, keeper, 8).await.unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let key = (RunId::from_random(1), OperationId::default());
        let join = async |asked: u64| {
            let asked = CallDigest(asked).into();
            let (reply, end) = oneshot::channel();
            keeper.cast(KeeperMessage::Join(key, asked, reply)).unwrap();
            end.await.unwrap()
        };
        let calls: [fn() -> BoxFuture<'static, &'static str>; 2] = [
            || Box::pin(std::future::ready("looked")),
            || Box::pin(std::future::pending()),
        ];
        for (call, same) in [(calls[0], true), (calls[0], false), (calls[1], false)] {
            let manner = Manner {
                key,
                asked: Asked::Model(CallDigest(1).into()),
                unwanted: CancellationToken::new(),
                settles: false,
            };
            let adopted = Box::new(Adopted {
                call: call(),
                manner,
                away: Counted::among(&count),
            });
            keeper.cast(KeeperMessage::Adopt(adopted)).unwrap();
            tokio::task::yield_now().await;
            let end = join(if same { 1 } else { 2 }).await;
            assert_eq!(end, same.then_some("looked"));
            assert_eq!(count.load(Ordering::Acquire), 0, "it is away for ever");
        }
        keeper.stop(None);
    }
}
