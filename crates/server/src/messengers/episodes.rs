//! Pending episodes: which message told a person of them, and what that person makes of it.

use ghostlight_actors::{
    actor::System,
    vocabulary::{RunId, Scope, SessionId},
};
use ghostlight_memory::{
    EpisodeStatus, Memory, REACTION_TIME, Reacted, Reaction, StoredMemory, StoredMemoryError,
};

use crate::{api::memory_names, deliveries::ChatRecipient};

/// The scopes of the team's memories that a run for this person may have written.
fn memories(system: &System, session: &SessionId, owner: &str) -> Vec<StoredMemory> {
    let team = system.team(&session.team);
    let scopes = [Scope::User(owner.to_owned()), Scope::Session, Scope::App];
    let names = team.as_ref().map(memory_names).unwrap_or_default();
    let mut found = Vec::new();
    for name in names {
        for scope in &scopes {
            let store = system.store().clone();
            found.extend(StoredMemory::new(store, Memory::new(&name), session, scope));
        }
    }
    found
}

/// Notes that this message tells a person of a run's result: from now on their reactions to it count.
pub(crate) async fn note(
    system: &System,
    run: RunId,
    session: &SessionId,
    to: &ChatRecipient,
    message: &str,
) -> Result<(), StoredMemoryError> {
    for memory in memories(system, session, &to.owner) {
        memory
            .sent(run, message, &to.place(), REACTION_TIME)
            .await?;
    }
    Ok(())
}

/// Counts a reaction, and says what became of the episodes that the message told of.
pub(super) async fn react(
    system: &System,
    (session, of): (&SessionId, &ChatRecipient),
    message: &str,
    emoji: &str,
    removed: bool,
) -> Result<&'static str, StoredMemoryError> {
    let mut reaction = Reaction::new(message, of.place(), emoji);
    reaction.removed = removed;
    let mut counted = Reacted::Unknown;
    for memory in memories(system, session, &of.owner) {
        match (memory.react(&reaction).await?, counted) {
            (Reacted::Unknown, _) | (_, Reacted::Counted(_)) => {}
            (became, _) => counted = became,
        }
    }
    Ok(match counted {
        Reacted::Counted(EpisodeStatus::Success) => "success",
        Reacted::Counted(EpisodeStatus::Failure) => "failure",
        Reacted::Counted(_) => "pending",
        Reacted::Neutral => "neutral",
        Reacted::Foreign => "foreign",
        _ => "unknown",
    })
}
