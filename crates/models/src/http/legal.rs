//! A conversation as every provider accepts it.
//!
//! A model may have called a tool by a name that no provider takes back, a fallback may have given ids that are too
//! long, and a tool may have answered nothing. The provider would refuse the conversation at every later turn. So what
//! is sent is made legal here, for all adapters, and stays the same from request to request.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use ghostlight_actors::vocabulary::{
    Digest, Message, Part, ProviderPartKind, Role, ToolCall, ToolResult, ToolStatus, Transcript,
};

/// The most characters of a tool's name.
const LONGEST_NAME: usize = 64;
/// A call without a name gets this one.
const UNNAMED: &str = "unnamed";
/// The user's message where a provider requires one and there is none.
pub(crate) const GO_ON: &str = "Go on.";
const NOTHING: &str = "(no output)";
const ATTACHED: &str = "(see what is attached)";
const INTERRUPTED: &str = "(no result: the call was interrupted)";

/// Which ids of calls a provider accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallIds {
    /// The fewest and the most bytes.
    length: (usize, usize),
    characters: Characters,
}

/// Which characters may stand in an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // Each provider has its own.
enum Characters {
    Any,
    /// Letters, digits, `_` and `-`.
    Plain,
    /// Letters and digits.
    Alphanumeric,
}

impl CallIds {
    /// Those of OpenAI's Responses.
    #[cfg(feature = "openai")]
    pub(crate) const RESPONSES: Self = Self {
        length: (1, 64),
        characters: Characters::Any,
    };
    /// Those that every server takes, such as Anthropic's.
    pub(crate) const PLAIN: Self = Self {
        length: (1, 64),
        characters: Characters::Plain,
    };
    /// Gemini's, which gets only the ids that it gave.
    #[cfg(feature = "gemini")]
    pub(crate) const GEMINI: Self = Self {
        length: (1, usize::MAX),
        characters: Characters::Any,
    };

    /// Ids of at most this many bytes, or of exactly this many letters and digits. Some models know their calls by ids of their
    /// own form (Kimi), so where nothing else is known any character stays.
    #[cfg(feature = "openai")]
    pub(crate) fn of(longest: usize, plain: bool, exact: bool) -> Self {
        let (shortest, characters) = match (exact, plain) {
            (true, _) => (longest, Characters::Alphanumeric),
            (false, true) => (1, Characters::Plain),
            (false, false) => (1, Characters::Any),
        };
        Self {
            length: (shortest, longest),
            characters,
        }
    }

    /// The id under which a call and its result are sent: always the same for the same id.
    pub(crate) fn sent(self, id: &str) -> Cow<'_, str> {
        let (shortest, longest) = self.length;
        let hash = || format!("{:016x}", Digest::of(id.as_bytes()).short());
        let fits = |c: char| match self.characters {
            Characters::Any => true,
            Characters::Plain => is_plain(c),
            Characters::Alphanumeric => c.is_ascii_alphanumeric(),
        };
        let has_length = (shortest..=longest).contains(&id.len());
        if !id.trim().is_empty() && has_length && id.chars().all(fits) {
            return Cow::Borrowed(id);
        }
        if self.characters == Characters::Alphanumeric {
            return Cow::Owned(format!("{:0<longest$.longest$}", hash()));
        }
        // Each other character is replaced by its code point, so that different ids stay different.
        let mut escaped = String::new();
        for c in id.chars() {
            match is_plain(c) {
                true => escaped.push(c),
                false => escaped.push_str(&format!("_{:x}_", u32::from(c))),
            }
        }
        if escaped.is_empty() || escaped.len() > longest {
            let hash = format!("_{}", hash());
            escaped.truncate(longest.saturating_sub(hash.len()));
            escaped.push_str(&hash);
            escaped.truncate(longest);
        }
        Cow::Owned(escaped)
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// The name under which a past call of a tool is sent.
pub(crate) fn sent_name(name: &str) -> Cow<'_, str> {
    if is_name(name) {
        return Cow::Borrowed(name);
    }
    let name: String = name
        .trim()
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .take(LONGEST_NAME)
        .collect();
    Cow::Owned(if name.is_empty() {
        UNNAMED.to_owned()
    } else {
        name
    })
}

/// Whether every provider accepts this name of a tool.
pub(super) fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(is_plain)
}

/// The conversation, in which each call has a legal name, an id of its own and one result right after it, and each
/// message says something. Messages that are legal are shared and not copied. A result without a call is left out
/// with a warning. Of what only a provider can read, that of this one counts as something said.
pub(crate) fn legal(conversation: &Transcript, ids: CallIds, provider: &str) -> Vec<Arc<Message>> {
    let messages = conversation.messages();
    let mut drafted = Drafted {
        ids,
        provider,
        taken: HashSet::new(),
        sent: Vec::with_capacity(messages.len()),
    };
    let mut rest = &messages[..];
    while let Some((first, others)) = rest.split_first() {
        if first.role != Role::Assistant {
            drafted.others(std::slice::from_ref(first), &HashSet::new());
            rest = others;
            continue;
        }
        let mut later = others.iter();
        let end = later.position(|message| message.role == Role::Assistant);
        let (replies, next) = others.split_at(end.unwrap_or(others.len()));
        drafted.answer(first, replies);
        rest = next;
    }
    if drafted.sent.is_empty() {
        drafted.sent.push(Arc::new(Message::user(GO_ON)));
    }
    drafted.sent
}

struct Drafted<'m> {
    ids: CallIds,
    provider: &'m str,
    /// The ids that calls have so far.
    taken: HashSet<Cow<'m, str>>,
    sent: Vec<Arc<Message>>,
}

impl<'m> Drafted<'m> {
    /// Adds a message of the model, the results of its calls, and what else was said until its next message.
    fn answer(&mut self, message: &'m Arc<Message>, replies: &[Arc<Message>]) {
        let calls: Vec<&ToolCall> = message.tool_calls().collect();
        let sent_ids: Vec<Cow<'_, str>> = calls.iter().map(|call| self.id(&call.id)).collect();
        let is_legal = |part: &Part| match part {
            Part::Text(text) => !text.trim().is_empty(),
            Part::ToolCall(call) => is_name(&call.name),
            Part::Reasoning(_) | Part::Data(_) | Part::Provider(_) => true,
            _ => false,
        };
        let same_ids = calls.iter().zip(&sent_ids).all(|(call, id)| call.id == *id);
        if same_ids && message.parts.iter().all(is_legal) {
            if says_something(&message.parts, self.provider) {
                self.sent.push(message.clone());
            }
        } else {
            let rewritten = rewritten(message, &sent_ids);
            if says_something(&rewritten.parts, self.provider) {
                self.sent.push(Arc::new(rewritten));
            }
        }
        if let Some(count) = legal_results(&calls, &sent_ids, replies) {
            let (results, others) = replies.split_at(count);
            self.sent.extend_from_slice(results);
            return self.others(others, &HashSet::new());
        }
        let used = self.results(&calls, &sent_ids, replies);
        self.others(replies, &used);
    }

    /// The id under which the next call is sent; an id that is taken gets a number.
    fn id(&mut self, id: &'m str) -> Cow<'m, str> {
        let mut sent = self.ids.sent(id);
        let mut number = 1;
        while sent.is_empty() || self.taken.contains(&sent) {
            number += 1;
            let numbered = format!("{id}_{number}");
            sent = Cow::Owned(self.ids.sent(&numbered).into_owned());
        }
        self.taken.insert(sent.clone());
        sent
    }

    /// Adds the results of these calls in their order, and returns the results that were used.
    fn results(
        &mut self,
        calls: &[&ToolCall],
        sent_ids: &[Cow<'_, str>],
        replies: &[Arc<Message>],
    ) -> HashSet<*const ToolResult> {
        let mut used = HashSet::new();
        let given: Vec<&ToolResult> = replies
            .iter()
            .flat_map(|reply| reply.tool_results())
            .collect();
        let mut results = Vec::with_capacity(calls.len());
        for (call, id) in calls.iter().zip(sent_ids) {
            let is_its = |result: &&&ToolResult| {
                result.call_id == call.id && !used.contains(&std::ptr::from_ref(**result))
            };
            let mut result = match given.iter().find(is_its) {
                Some(result) => {
                    used.insert(std::ptr::from_ref(*result));
                    ToolResult::clone(result)
                }
                None => ToolResult::new(call, ToolStatus::Error, INTERRUPTED),
            };
            result.call_id = id.to_string();
            result.name = sent_name(&call.name).into_owned();
            if result.text.trim().is_empty() {
                let said = if result.attachments.is_empty() {
                    NOTHING
                } else {
                    ATTACHED
                };
                said.clone_into(&mut result.text);
            }
            results.push(result);
        }
        self.sent.push(Arc::new(Message::results(results)));
        used
    }

    /// Adds messages that are not the model's, without results.
    fn others(&mut self, messages: &[Arc<Message>], used: &HashSet<*const ToolResult>) {
        for message in messages {
            for result in message.tool_results() {
                if !used.contains(&std::ptr::from_ref(result)) {
                    tracing::warn!(tool = result.name, "a result without a call is not sent");
                }
            }
            let role = match message.role {
                Role::System if self.sent.is_empty() => Role::System,
                _ => Role::User,
            };
            let is_legal = |part: &Part| match part {
                Part::Text(text) => !text.trim().is_empty(),
                Part::Data(_) => true,
                _ => false,
            };
            if !message.parts.iter().any(is_legal) {
                continue;
            }
            self.sent.push(
                if message.role == role && message.parts.iter().all(is_legal) {
                    message.clone()
                } else {
                    let parts = message.parts.iter().filter(|part| is_legal(part)).cloned();
                    Arc::new(Message {
                        role,
                        author: message.author.clone(),
                        parts: parts.collect(),
                        synthetic: message.synthetic,
                    })
                },
            );
        }
    }
}

/// How many messages of tools hold exactly the results of these calls, in a form that needs no change.
fn legal_results(
    calls: &[&ToolCall],
    sent_ids: &[Cow<'_, str>],
    replies: &[Arc<Message>],
) -> Option<usize> {
    let mut open = calls.iter().zip(sent_ids);
    let mut count = 0;
    while open.len() > 0 {
        let reply = replies
            .get(count)
            .filter(|reply| reply.role == Role::Tool)?;
        for part in &reply.parts {
            let (Part::ToolResult(result), (call, id)) = (part, open.next()?) else {
                return None;
            };
            let is_its = result.call_id == *id && call.id == *id && result.name == call.name;
            if !is_its || !is_name(&result.name) || result.text.trim().is_empty() {
                return None;
            }
        }
        count += 1;
    }
    Some(count)
}

/// Whether a message of the model has more than reasoning and what another provider put into it.
fn says_something(parts: &[Part], provider: &str) -> bool {
    parts.iter().any(|part| match part {
        Part::Reasoning(_) => false,
        Part::Provider(own) => own.kind == ProviderPartKind::Block && own.provider == provider,
        _ => true,
    })
}

/// A message of the model with these ids of its calls.
fn rewritten(message: &Message, sent_ids: &[Cow<'_, str>]) -> Message {
    let mut sent_ids = sent_ids.iter();
    let mut is_kept = true;
    let part = |part: &Part| {
        let kept = match part {
            Part::Text(text) if !text.trim().is_empty() => Some(part.clone()),
            Part::Reasoning(_) | Part::Data(_) => Some(part.clone()),
            Part::ToolCall(call) => sent_ids.next().map(|id| {
                let name = sent_name(&call.name).into_owned();
                Part::ToolCall(ToolCall::new(&**id, name, call.arguments.clone()))
            }),
            // Fields go with the part before them.
            Part::Provider(own) if own.kind == ProviderPartKind::Fields => {
                return is_kept.then(|| part.clone());
            }
            Part::Provider(_) => Some(part.clone()),
            _ => None,
        };
        is_kept = kept.is_some();
        kept
    };
    Message {
        role: Role::Assistant,
        author: message.author.clone(),
        parts: message.parts.iter().filter_map(part).collect(),
        synthetic: message.synthetic,
    }
}

#[cfg(all(test, feature = "openai"))]
mod tests {
    use super::*;

    #[test]
    fn mistral_gets_ids_of_nine_letters_and_digits() {
        let sent = |id: &str| CallIds::of(9, true, true).sent(id).into_owned();
        assert_eq!(sent("D681PevKs"), "D681PevKs");
        for id in ["", "call_0", "call_1", "toolu_01ABC", "a-b_c.d:e"] {
            let new = sent(id);
            assert!(
                new.len() == 9 && new.chars().all(|c| c.is_ascii_alphanumeric()),
                "{new}"
            );
            assert_eq!(new, sent(id));
        }
        assert_ne!(sent("call_0"), sent("call_1"));
    }
}
