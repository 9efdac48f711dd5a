//! The start of a turn's run, and the answer to the caller that woke a run.

use crate::{
    actor::{SystemError, agent_message::WakeReply, shared::TeamEntry},
    session::{SessionFold, Turn},
    vocabulary::{RunId, RunStart, SessionId, Timestamp},
};

/// The start of the run that carries this turn.
pub(super) fn first_start(
    run: RunId,
    turn: &Turn,
    team: &TeamEntry,
    fold: &SessionFold,
    session: &SessionId,
    now: Timestamp,
) -> RunStart {
    let spec = &team.pinned.team;
    let active = fold
        .active_agent
        .as_deref()
        .filter(|name| spec.find(name).is_some());
    let agent = active.unwrap_or(&spec.agent.name).to_owned();
    let mut start = RunStart::new(
        run,
        session.team.clone(),
        agent,
        team.digest,
        turn.message.clone(),
    );
    start.display_name = team.pinned.display_name_of(&start.agent);
    start.session = Some(session.clone());
    start.history = fold.entries;
    start.budget = spec.budget.narrowed(&turn.budget);
    start.deadline = turn.deadline;
    start.at = now;
    start.owner = turn.owner.clone().or_else(|| fold.owner.clone());
    (start.dry_run, start.streaming) = (turn.dry_run, turn.streaming);
    start.tools.clone_from(&turn.tools);
    start
}

/// Answers the caller that woke a run, if there is one.
pub(super) fn answer(reply: Option<WakeReply>, result: Result<RunId, SystemError>) {
    if let Some(reply) = reply {
        // The caller may have gone.
        let _ = reply.send(result);
    }
}
