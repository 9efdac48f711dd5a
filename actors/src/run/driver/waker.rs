//! How the function is polled.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::{FutureExt, task::AtomicWaker};

use crate::{
    contract::BoxFuture,
    vocabulary::{AgentError, Outcome},
};

/// Wakes the driver when the function can go on.
pub(in crate::run) struct FunctionWaker {
    pub(in crate::run) woken: AtomicBool,
    pub(super) driver: AtomicWaker,
}

impl Wake for FunctionWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.driver.wake();
    }
}

impl FunctionWaker {
    pub(in crate::run) fn new(woken: bool) -> Arc<Self> {
        let driver = AtomicWaker::new();
        Arc::new(Self {
            woken: AtomicBool::new(woken),
            driver,
        })
    }
}

/// Polls the function until it can go no further. `Some` when it returned.
pub(in crate::run) fn poll_function(
    function: &mut Option<BoxFuture<'static, Result<Outcome, AgentError>>>,
    waker: &Arc<FunctionWaker>,
) -> Option<Result<Outcome, AgentError>> {
    let task_waker = Waker::from(waker.clone());
    let mut cx = Context::from_waker(&task_waker);
    while waker.woken.swap(false, Ordering::AcqRel) {
        if let Poll::Ready(returned) = function.as_mut()?.poll_unpin(&mut cx) {
            *function = None;
            return Some(returned);
        }
    }
    None
}
