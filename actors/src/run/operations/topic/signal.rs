//! Messages between the runs of a topic, beside its state.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    super::{
        AgentMessage, PlainOperation,
        message::{post, receive_on},
    },
    state::Report,
};
use crate::{
    contract::ItemBody,
    run::{Begin, Gate},
    vocabulary::{Digest, RunId, canonical},
};

/// The signal that a queue has room or an event.
#[derive(Serialize, Deserialize)]
pub(super) struct Signal {}

impl AgentMessage for Signal {
    const NAME: &'static str = "signal";
}

/// The operation that waits for a signal. A run that the topic does not know as waiting looks at
/// once: it is a fork, and signals to the original run do not reach it.
pub(super) fn signal_on(channel: &str, is_known: bool) -> PlainOperation<Signal> {
    let at_once: fn() -> Signal = || Signal {};
    receive_on(channel, (!is_known).then_some(at_once))
}

/// An answer to an event that asked for one.
#[derive(Serialize, Deserialize)]
pub(super) struct Response(pub(super) Value);

impl AgentMessage for Response {
    const NAME: &'static str = "response";
}

/// Whether this is the name of a message that topics send on channels.
fn is_of_topic(name: &str) -> bool {
    let kind = name.split_once('/').map(|(kind, _)| kind);
    kind.is_some_and(|kind| kind == Signal::NAME || kind == Response::NAME)
}

/// Whether a mailbox item stays with the run when it goes on in another journal. Other items are for
/// an operation of this journal, whose id may be the id of another operation in the next journal.
pub(crate) fn outlasts_journal(body: &ItemBody) -> bool {
    match body {
        ItemBody::Answer { .. }
        | ItemBody::Result { .. }
        | ItemBody::ForwardedTurn(_)
        | ItemBody::ForwardedTurnEnded { .. }
        | ItemBody::CancelCall { .. } => false,
        ItemBody::Message { name, .. } => !is_of_topic(name),
        ItemBody::Steer(_) | ItemBody::SteeringTurn(_) | ItemBody::Cancel { .. } => true,
    }
}

/// A message to a run on a channel of its mailbox. Its digest does not cover the run, so that a fork
/// asks for the same.
pub(super) fn posting(run: RunId, channel: String, value: Value) -> PlainOperation<()> {
    let (name, digest) = (channel.clone(), canonical::digest_of(&value));
    PlainOperation::new("tell", name, digest, move |cx| {
        post(&cx, run, channel, value)
    })
}

/// The operation that finds which of the given runs have ended. Its digest does not cover the runs,
/// so that a fork asks for the same.
pub(super) fn ended(runs: Vec<RunId>) -> PlainOperation<Vec<RunId>> {
    let digest = Digest::of(&runs.len().to_le_bytes());
    PlainOperation::new("ended", "", digest, move |cx| {
        Begin::act(Gate::After, cx.ports.ended(runs))
    })
}

/// The signals of a change of a topic. They are sent in the commit of the change, so no run waits
/// for a signal from a run that has died since.
pub(super) fn told(state: &Value) -> Vec<(RunId, String, Value)> {
    #[derive(Deserialize)]
    struct Changed {
        report: Report,
    }
    let changed = Changed::deserialize(state);
    let wake = changed.map_or_else(|_| Vec::new(), |changed| changed.report.wake);
    let told = |(run, channel)| (run, format!("{}/{channel}", Signal::NAME), json!({}));
    wake.into_iter().map(told).collect()
}
