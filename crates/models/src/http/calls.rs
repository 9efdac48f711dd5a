//! The calls of an answer.

use std::{borrow::Cow, collections::HashSet};

use ghostlight_actors::vocabulary::{Message, Part, Transcript};

/// Settles the calls of the next message of a conversation. A call that the server sent twice is left out. An id that is
/// missing or taken is replaced by `call_<n>` with the first free number, so that the same answer to the same conversation
/// always has the same ids.
pub(crate) fn settle_calls(message: &mut Message, conversation: &Transcript) {
    message.drop_repeated_calls();
    if message.tool_calls().next().is_none() {
        return;
    }
    let messages = conversation.messages();
    let past = messages.iter().flat_map(|message| message.tool_calls());
    let mut taken: HashSet<Cow<'_, str>> = past.map(|call| Cow::from(&*call.id)).collect();
    for part in &mut message.parts {
        let Part::ToolCall(call) = part else { continue };
        let fresh = (0..).map(|number| format!("call_{number}"));
        let mut ids = std::iter::once(std::mem::take(&mut call.id)).chain(fresh);
        let is_free = |id: &String| !id.is_empty() && !taken.contains(id.as_str());
        call.id = ids.find(is_free).unwrap_or_default();
        taken.insert(Cow::from(call.id.clone()));
    }
}
