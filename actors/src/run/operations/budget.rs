use super::{PlainOperation, time::NO_INPUT};
use crate::{
    run::{Begin, Composed, Performing, RunContext, ledger::Allowance},
    vocabulary::Outcome,
};

impl RunContext {
    /// The budget of the run, its consumption, and the time at which it must end.
    pub fn budget(&self) -> Performing<PlainOperation<Allowance>> {
        self.perform(PlainOperation::new("budget", "", NO_INPUT, |cx| {
            Begin::Ready(Ok(cx.allowance))
        }))
    }

    /// The variant of changed code that this run uses: from 0, for the code before it asked for
    /// this name, up to `max`, the newest. The variant is recorded under its name and takes no
    /// place in the order of operations, so it can be added to code whose runs are open.
    ///
    /// - A run whose journal holds the name uses the recorded variant, in all its legs and wherever
    ///   it asks.
    /// - Otherwise it is 0 if the run is past this place: the journal holds an operation of this
    ///   leg that the function has not asked for in this incarnation.
    /// - Otherwise it is `max`.
    ///
    /// A delegated task, and the journal in which a run goes on
    /// ([`continue_as`](Self::continue_as)), are runs of their own and decide anew.
    ///
    /// # Errors
    /// [`AgentError::Diverged`](crate::vocabulary::AgentError::Diverged) when the recorded variant
    /// is later than this code knows.
    pub fn version(&self, name: impl Into<String>, max: u32) -> Composed<u32> {
        let name = name.into();
        let at = self.next_id();
        let leg = self.leg().clone();
        Composed(Box::pin(async move { leg.version(at, &name, max) }))
    }

    /// Ends this journal and goes on in a fresh one with this input, in one transaction. The
    /// function must return this outcome. An agent that runs for ever keeps its journal short by
    /// this.
    ///
    /// Messages that it has not received, its deadline and its consumption continue with it. Children
    /// and undo steps stay behind, as when a run ends: a child is cancelled or goes on according to
    /// its [`ParentPolicy`](crate::vocabulary::ParentPolicy), and nothing is undone.
    pub fn continue_as(&self, input: impl Into<super::super::Task>) -> Outcome {
        Outcome::ContinueAs(Box::new(input.into().message))
    }
}
