//! The function of a leg's agent.

use std::sync::Arc;

use futures_util::FutureExt;

use super::{BehaviorHandle, Code, HookContext, PolicyHandle, RunContext, leg::Leg, policy::Watch};
use crate::{
    contract::BoxFuture,
    definition::PinnedAgent,
    vocabulary::{AgentError, Outcome},
};

/// The return of an agent's function.
pub(crate) type Returned = Result<Outcome, AgentError>;

/// The function of a leg's agent, under way.
pub(crate) type AgentFunction = BoxFuture<'static, Returned>;

/// The code of agents too, of which their functions are made.
pub(crate) trait AgentCode: Code {
    /// An agent's behavior, made from its settings. The error says what is missing.
    fn behavior_of(&self, agent: &PinnedAgent) -> Result<BehaviorHandle, String>;

    /// An agent's policies by name, made from their settings. The error says what is missing.
    fn policies_of(&self, agent: &PinnedAgent) -> Result<Vec<(String, PolicyHandle)>, String>;
}

/// The function of a leg's agent, with the policies around it. The error says what is missing.
pub(super) fn function_of(leg: &Arc<Leg>, code: &dyn AgentCode) -> Result<AgentFunction, String> {
    let behavior = code.behavior_of(&leg.agent)?;
    let policies = code.policies_of(&leg.agent)?;
    let cx = RunContext::watched(leg.clone(), &policies);
    let Some(watch) = cx.watch().cloned() else {
        let ended = behavior.run(cx);
        return Ok(Box::pin(ended.map(|end| end.or_else(AgentError::or_early))));
    };
    Ok(Box::pin(async move { around(&behavior, cx, &watch).await }))
}

/// Runs an agent's function between the hooks of a run's start and end.
async fn around(
    behavior: &BehaviorHandle,
    cx: RunContext,
    watch: &Watch,
) -> Result<Outcome, AgentError> {
    let transcript = cx.conversation();
    let moment = HookContext {
        transcript: &transcript,
        steps: 0,
    };
    let policies = &watch.policies;
    let outcome = match policies.before_run(moment).await? {
        Some(outcome) => outcome,
        None => match cx.loop_context().stopping() {
            Some(reason) => Outcome::stopped(reason),
            None => {
                let own = cx.handle();
                let ended = behavior.run(cx).await.or_else(AgentError::or_early);
                if let Err(error) = &ended
                    && error.is_failure()
                {
                    let told = policies.after_failure(moment, error).await;
                    // The first error tells why the run failed; only one that ends every operation comes before it.
                    told.or_else(|later| match later.is_failure() {
                        true => Ok(()),
                        false => Err(later),
                    })?;
                }
                own.last_word(ended?).await?
            }
        },
    };
    Ok(match policies.after_run(moment, &outcome).await? {
        Some(other) => other,
        None => outcome,
    })
}
