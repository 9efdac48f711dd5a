//! Conversations as one agent reads them: with the words of other agents marked, tool results
//! rephrased, and each result directly after its call.

use std::{collections::BTreeMap, sync::Arc};

use ghostlight_actors::vocabulary::{
    Message, Part, Role, ToolCall, ToolResult, ToolStatus, Transcript,
};

/// A conversation with some messages rewritten. It has the same length as the original, and grows
/// with it.
#[derive(Debug, Default)]
struct Retold {
    of: Transcript,
    told: Transcript,
    is_changed: bool,
}

impl Retold {
    /// Whether the conversation extends the one that was rewritten.
    fn is_extended_by(&self, conversation: &Transcript) -> bool {
        conversation.truncated(self.of.len()) == self.of
    }

    /// The conversation, with this rewriting applied to the new messages.
    fn extend(
        &mut self,
        conversation: &Transcript,
        mut retell: impl FnMut(&Message) -> Option<Message>,
    ) -> Transcript {
        let known = self.of.len();
        for (place, message) in conversation.since(known).into_iter().enumerate() {
            let told = retell(&message);
            if told.is_some() && !self.is_changed {
                self.told = conversation.truncated(known + place);
                self.is_changed = true;
            }
            if self.is_changed {
                self.told.push(told.map_or(message, Arc::new));
            }
        }
        self.of = conversation.clone();
        match self.is_changed {
            true => self.told.clone(),
            false => conversation.clone(),
        }
    }
}

/// Rewrites the messages of other agents: their words, calls and results become messages of a user,
/// `[Message from agent "…"]`, so that the model does not take them for its own.
#[derive(Debug, Default)]
pub(super) struct OtherAgents {
    retold: Retold,
    /// The other agent that made the last calls.
    caller: Option<String>,
}

impl OtherAgents {
    /// The conversation as this agent reads it.
    pub(super) fn told_to(&mut self, me: &str, conversation: &Transcript) -> Transcript {
        if !self.retold.is_extended_by(conversation) {
            *self = Self::default();
        }
        let Self { retold, caller } = self;
        retold.extend(conversation, |message| Self::told(caller, me, message))
    }

    fn told(caller: &mut Option<String>, me: &str, message: &Message) -> Option<Message> {
        match message.role {
            Role::Assistant => {
                let other = message.author.as_deref().filter(|author| *author != me);
                *caller = other.map(str::to_owned);
                other.map(|other| flattened(&format!("[Message from agent {other:?}]"), message))
            }
            Role::Tool => {
                let caller = caller.as_ref()?;
                Some(flattened(
                    &format!("[What the calls of agent {caller:?} came to]"),
                    message,
                ))
            }
            _ => None,
        }
    }
}

/// Rewrites tool results by several phrasings in turn, so that a model does not repeat itself only
/// because everything it reads looks the same. The phrasing of a result depends only on the
/// messages before it, so successive requests keep a common beginning.
#[derive(Debug, Default)]
pub(super) struct Phrasings {
    retold: Retold,
    /// The number of results of each tool so far.
    results: BTreeMap<String, usize>,
}

impl Phrasings {
    /// The conversation with these phrasings.
    pub(super) fn told_in(
        &mut self,
        phrasings: &[String],
        conversation: &Transcript,
    ) -> Transcript {
        if phrasings.is_empty() {
            return conversation.clone();
        }
        if !self.retold.is_extended_by(conversation) {
            *self = Self::default();
        }
        let Self { retold, results } = self;
        retold.extend(conversation, |message| {
            message.tool_results().next()?;
            let mut told = message.clone();
            for part in &mut told.parts {
                if let Part::ToolResult(result) = part {
                    let number = results.entry(result.name.clone()).or_default();
                    result.text = phrased(&phrasings[*number % phrasings.len()], result);
                    *number += 1;
                }
            }
            Some(told)
        })
    }
}

/// A result in this phrasing. Placeholders inside the result are not replaced.
fn phrased(phrasing: &str, result: &ToolResult) -> String {
    let pieces: Vec<String> = phrasing
        .split("{result}")
        .map(|piece| piece.replace("{tool}", &result.name))
        .collect();
    pieces.join(&result.text)
}

/// A message as a user's text, with its calls and results in words. Files stay.
fn flattened(head: &str, message: &Message) -> Message {
    let mut lines = vec![head.to_owned()];
    let mut data = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text(text) => lines.push(text.clone()),
            Part::ToolCall(call) => {
                lines.push(format!(
                    "It calls {}({}).",
                    call.name,
                    call.arguments.text()
                ));
            }
            Part::ToolResult(result) => {
                let failed = match result.status {
                    ToolStatus::Success => "",
                    _ => " [not done]",
                };
                // No line of a result can pass for one of ours.
                let text = result.text.replace('\n', "\n| ");
                lines.push(format!("{}:{failed} {text}", result.name));
                data.extend(result.attachments.iter().cloned().map(Part::Data));
            }
            Part::Data(found) => data.push(Part::Data(found.clone())),
            _ => {}
        }
    }
    let mut told = Message::synthetic(lines.join("\n"));
    told.parts.append(&mut data);
    told
}

/// The conversation with each result directly after its call, in the order of the calls. Use it for
/// conversations from elsewhere, where results may be separated, doubled, reordered or missing.
///
/// A call without a result gets one that says so. A result without a call, or a second result of a
/// call, is left out. Messages between a call and its result follow the results. A conversation
/// that is already in order is shared unchanged.
///
/// ```
/// use ghostlight::context::paired;
/// use ghostlight_actors::{
///     testing::check_transcript,
///     vocabulary::{Message, ModelResponse, ToolCall, Transcript},
/// };
///
/// let asks = ModelResponse::tool_calls([ToolCall::new("1", "search", "{}")]).message;
/// let mut open = Transcript::from_iter([Message::user("Where is my parcel?")]);
/// open.push(asks);
/// open.push(Message::user("Hello?"));
/// assert!(check_transcript(&open.messages()).is_err());
/// assert!(check_transcript(&paired(&open).messages()).is_ok());
/// ```
pub fn paired(conversation: &Transcript) -> Transcript {
    let messages = conversation.messages();
    let mut ordered: Vec<Arc<Message>> = Vec::with_capacity(messages.len());
    for (place, message) in messages.iter().enumerate() {
        if message.role == Role::Tool {
            continue;
        }
        ordered.push(message.clone());
        let calls: Vec<&ToolCall> = message.tool_calls().collect();
        if message.role != Role::Assistant || calls.is_empty() {
            continue;
        }
        // Ids are unique only within a step, so results after the next step belong to other calls.
        let later = &messages[place + 1..];
        let has_calls = |said: &Arc<Message>| said.tool_calls().next().is_some();
        let end = later.iter().position(has_calls).unwrap_or(later.len());
        let results = later[..end].iter().flat_map(|said| said.tool_results());
        let mut found: BTreeMap<&str, &ToolResult> = BTreeMap::new();
        for result in results {
            found.entry(&result.call_id).or_insert(result);
        }
        let result = |call: &&ToolCall| match found.get(call.id.as_str()) {
            Some(result) => {
                let mut result = ToolResult::clone(result);
                result.name.clone_from(&call.name);
                result
            }
            None => {
                let text = "No result of this call is known.";
                ToolResult::new(call, ToolStatus::Unknown, text)
            }
        };
        ordered.push(Arc::new(Message::results(calls.iter().map(result))));
    }
    let ordered: Transcript = ordered.into_iter().collect();
    match ordered == *conversation {
        true => conversation.clone(),
        false => ordered,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::testing::check_transcript;
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn asks(ids: &[&str]) -> Message {
        let mut asks = Message::assistant("I look.");
        let calls = ids.iter().map(|id| ToolCall::new(*id, "search", "{}"));
        asks.parts.extend(calls.map(Part::ToolCall));
        asks
    }

    fn answers(id: &str, text: &str) -> ToolResult {
        ToolResult::new(
            &ToolCall::new(id, "search", "{}"),
            ToolStatus::Success,
            text,
        )
    }

    fn texts(conversation: &Transcript) -> Vec<String> {
        let messages = conversation.messages();
        let results = messages.iter().flat_map(|said| {
            said.tool_results()
                .map(|result| result.text.clone())
                .collect::<Vec<_>>()
        });
        results.collect()
    }

    #[test]
    fn merging_results_keeps_every_part_in_call_order() {
        let mut apart = Transcript::from_iter([Message::user("go")]);
        apart.push(asks(&["a", "b", "c"]));
        apart.push(Message::results([
            answers("c", "third"),
            answers("x", "nobody's"),
        ]));
        apart.push(Message::user("meanwhile"));
        apart.push(Message::results([
            answers("a", "first"),
            answers("a", "again"),
        ]));
        let ordered = paired(&apart);
        assert_eq!(check_transcript(&ordered.messages()), Ok(()));
        assert_eq!(
            texts(&ordered),
            ["first", "No result of this call is known.", "third"]
        );
        assert_eq!(ordered.last().unwrap().content(), "meanwhile");
        assert_eq!(paired(&ordered), ordered);
    }

    #[test]
    fn results_read_in_turn_and_what_was_told_stays() {
        let phrasings = ["{result}".to_owned(), "{tool} gave: {result}".to_owned()];
        let mut told = Phrasings::default();
        let mut said = Transcript::from_iter([Message::user("go {result}")]);
        assert_eq!(told.told_in(&[], &said), said);
        assert_eq!(told.told_in(&phrasings, &said), said);
        said.push(asks(&["a", "b"]));
        said.push(Message::results([
            answers("a", "{tool} one"),
            answers("b", "two {result}"),
        ]));
        let first = told.told_in(&phrasings, &said);
        assert_eq!(texts(&first), ["{tool} one", "search gave: two {result}"]);
        said.push(asks(&["c"]));
        said.push(Message::results([answers("c", "three")]));
        let longer = told.told_in(&phrasings, &said);
        assert_eq!(longer.truncated(first.len()), first);
        assert_eq!(texts(&longer)[2], "three");
        // Another conversation is rewritten from its beginning.
        let other = said.truncated(3);
        assert_eq!(told.told_in(&phrasings, &other), first);
        assert_eq!(check_transcript(&longer.messages()), Ok(()));
    }

    proptest! {
        /// The result is one that providers accept, whatever a conversation contains.
        #[test]
        fn any_order_becomes_one_that_providers_accept(
            acts in prop::collection::vec((0_u8..3, prop::collection::btree_set("[a-d]", 1..4)), 0..12),
        ) {
            let mut any = Transcript::new();
            for (act, ids) in acts {
                let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                match act {
                    0 => any.push(asks(&ids)),
                    1 => any.push(Message::results(ids.iter().map(|id| answers(id, id)))),
                    _ => any.push(Message::user("hm")),
                }
            }
            let ordered = paired(&any);
            prop_assert_eq!(check_transcript(&ordered.messages()), Ok(()));
            prop_assert!(paired(&ordered) == ordered);
        }
    }

    #[test]
    fn what_another_agent_said_reads_as_such() {
        let mut said = Transcript::from_iter([Message::user("go")]);
        let mut history = OtherAgents::default();
        assert_eq!(history.told_to("desk", &said), said);
        said.push(asks(&["a"]).by("clerk"));
        said.push(Message::results([answers("a", "found")]));
        said.push(Message::assistant("Over to you.").by("clerk"));
        let told = history.told_to("desk", &said);
        said.push(asks(&["b"]).by("desk"));
        said.push(Message::results([answers("b", "mine")]));
        let longer = history.told_to("desk", &said);
        assert_eq!(longer.truncated(4), told);
        let messages = longer.messages();
        assert_eq!(check_transcript(&messages), Ok(()));
        let texts: Vec<String> = messages[1..4].iter().map(|said| said.content()).collect();
        assert_eq!(
            texts,
            [
                "[Message from agent \"clerk\"]\nI look.\nIt calls search({}).",
                "[What the calls of agent \"clerk\" came to]\nsearch: found",
                "[Message from agent \"clerk\"]\nOver to you.",
            ]
        );
        assert!(messages[1..4].iter().all(|said| said.role == Role::User));
        assert_eq!(messages[4..], said.since(4)[..]);
        // For the clerk the roles are reversed.
        assert_eq!(
            OtherAgents::default().told_to("clerk", &said).truncated(4),
            said.truncated(4)
        );
    }
}
