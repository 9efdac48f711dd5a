//! How much of its beginning a request shares with the one before.

use ghostlight_actors::vocabulary::{Digest, ModelRequest, Transcript};
use serde::{Deserialize, Serialize};

use super::TokenCounter;

/// The common beginning of a request and the request before it: the part that a provider's cache
/// may serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PrefixReport {
    /// The tokens of the request.
    pub tokens: u64,
    /// The tokens of the common beginning: instructions and tools, followed by the first messages.
    pub stable_tokens: u64,
    /// The messages in the common beginning.
    pub stable_messages: usize,
    /// The hash of the common beginning.
    pub hash: Digest,
}

impl PrefixReport {
    /// The stable share of the request, in percent.
    pub fn stable_percent(&self) -> u64 {
        self.stable_tokens * 100 / self.tokens.max(1)
    }
}

/// Finds the common beginning of successive requests. The cost is that of the new messages, and of
/// a few comparisons of digests.
///
/// ```
/// use ghostlight::context::{Estimate, StablePrefix};
/// use ghostlight_actors::vocabulary::{Message, ModelRequest, Transcript};
///
/// let mut prefix = StablePrefix::default();
/// let mut conversation = Transcript::from_iter([Message::user("Where is my parcel?")]);
/// prefix.observe(&ModelRequest::new(conversation.clone()), &Estimate);
/// conversation.push(Message::assistant("In Ulm."));
/// conversation.push(Message::user("Since when?"));
/// let report = prefix.observe(&ModelRequest::new(conversation), &Estimate);
/// assert_eq!(report.stable_messages, 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct StablePrefix {
    /// The part before the conversation.
    fixed: Option<(Digest, u64)>,
    conversation: Transcript,
    /// The tokens of the first message, of the first two, and so on.
    sums: Vec<u64>,
}

impl StablePrefix {
    /// Compares a request with the previous one. The first request has no stable part.
    pub fn observe(&mut self, request: &ModelRequest, counter: &dyn TokenCounter) -> PrefixReport {
        let output = request.output.as_ref();
        let output = output
            .map(|output| output.schema.to_string())
            .unwrap_or_default();
        let fixed = Digest::of_parts(&[
            request.model.as_bytes(),
            request.instructions.as_bytes(),
            &request.tools.digest().0,
            output.as_bytes(),
        ]);
        let known = self.fixed.filter(|(known, _)| *known == fixed);
        let fixed_tokens = known.map_or_else(|| counter.fixed(request), |(_, tokens)| tokens);
        let is_first = self.fixed.replace((fixed, fixed_tokens)).is_none();
        let common = common_beginning(&self.conversation, &request.conversation);
        self.sums.truncate(common);
        let mut sum = self.sums.last().copied().unwrap_or(0);
        for message in request.conversation.since(common) {
            sum += counter.message(&message);
            self.sums.push(sum);
        }
        self.conversation = request.conversation.clone();
        // After a change of instructions or tools, a cache can serve nothing.
        let is_stable = known.is_some() && !is_first;
        let messages = if is_stable { common } else { 0 };
        let said = messages.checked_sub(1).map_or(0, |last| self.sums[last]);
        PrefixReport {
            tokens: fixed_tokens + sum,
            stable_tokens: if is_stable { fixed_tokens + said } else { 0 },
            stable_messages: messages,
            hash: Digest::of_parts(&[
                &fixed.0,
                &request.conversation.truncated(messages).digest().0,
            ]),
        }
    }
}

/// The number of messages that two conversations have in common at their beginning. Each digest
/// covers all messages up to its place, so this is a binary search.
fn common_beginning(a: &Transcript, b: &Transcript) -> usize {
    let (mut alike, mut differs) = (0, a.len().min(b.len()) + 1);
    while differs - alike > 1 {
        let middle = usize::midpoint(alike, differs);
        match a.truncated(middle).digest() == b.truncated(middle).digest() {
            true => alike = middle,
            false => differs = middle,
        }
    }
    alike
}

#[cfg(test)]
mod tests {
    use ghostlight_actors::vocabulary::Message;
    use proptest::prelude::{prop, prop_assert_eq, proptest};

    use super::*;
    use crate::context::Estimate;

    fn conversation(said: &[u8]) -> Transcript {
        said.iter()
            .map(|said| Message::user(format!("message {said}")))
            .collect()
    }

    proptest! {
        /// The report equals a comparison of messages one by one.
        #[test]
        fn it_is_the_longest_common_beginning(
            requests in prop::collection::vec(prop::collection::vec(0_u8..3, 0..12), 2..6),
        ) {
            let mut prefix = StablePrefix::default();
            let mut before: Option<Vec<u8>> = None;
            for said in requests {
                let request = ModelRequest::new(conversation(&said)).instructions("Be brief.");
                let report = prefix.observe(&request, &Estimate);
                let common = before.map_or(0, |before| {
                    before.iter().zip(&said).take_while(|(a, b)| a == b).count()
                });
                prop_assert_eq!(report.stable_messages, common);
                prop_assert_eq!(report.tokens, Estimate.request(&request));
                before = Some(said);
            }
        }
    }

    #[test]
    fn other_instructions_or_tools_leave_nothing_stable() {
        let mut prefix = StablePrefix::default();
        let request = ModelRequest::new(conversation(&[1, 2])).instructions("Be brief.");
        assert_eq!(prefix.observe(&request, &Estimate).stable_percent(), 0);
        let again = prefix.observe(&request, &Estimate);
        assert_eq!((again.stable_percent(), again.stable_messages), (100, 2));
        let other = request.clone().instructions("Be long.");
        let changed = prefix.observe(&other, &Estimate);
        assert_eq!((changed.stable_tokens, changed.stable_messages), (0, 0));
        assert_ne!(changed.hash, again.hash);
    }
}
