//! The function of a leg's agent.

use std::sync::Arc;

use futures_util::FutureExt;

use super::{RunContext, leg::Leg, policy};
use crate::{
    contract::BoxFuture,
    vocabulary::{AgentError, Outcome},
};

/// The return of an agent's function.
pub(crate) type Returned = Result<Outcome, AgentError>;

/// The function of a leg's agent, under way.
pub(crate) type AgentFunction = BoxFuture<'static, Returned>;

/// The function of a leg's agent, with the policies around it. The error says what is missing.
pub(super) fn function_of(leg: &Arc<Leg>) -> Result<AgentFunction, String> {
    let behavior = leg.code.behavior_of(&leg.agent)?;
    let policies = leg.code.policies_of(&leg.agent)?;
    let cx = RunContext::watched(leg.clone(), &policies);
    let Some(watch) = cx.watch().cloned() else {
        let ended = behavior.run(cx);
        return Ok(Box::pin(ended.map(|end| end.or_else(AgentError::or_early))));
    };
    Ok(Box::pin(async move {
        policy::around(&behavior, cx, &watch).await
    }))
}
