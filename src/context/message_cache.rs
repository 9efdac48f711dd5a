//! The layout of a message, worked out once however often it is used.

use std::{collections::HashMap, sync::Arc};

use ghostlight_actors::vocabulary::Message;
use parking_lot::Mutex;

/// The tokens of messages and their compacted forms, by the messages themselves: a long conversation is laid out again at
/// each of its steps, and its messages stay the same. It belongs to one counter and to one table of compaction.
#[derive(Debug, Default)]
pub(super) struct MessageCache {
    /// By the address of the message, which the entry keeps alive, so that no other message gets it.
    known: Mutex<HashMap<usize, Known>>,
}

#[derive(Debug)]
struct Known {
    message: Arc<Message>,
    tokens: Option<u64>,
    compacted: Option<Option<Arc<Message>>>,
}

impl MessageCache {
    /// Forgets everything once it holds far more than a conversation of this many messages needs, so that it cannot grow
    /// where messages are made anew for each request.
    pub(super) fn bound(&self, messages: usize) {
        let mut known = self.known.lock();
        if known.len() > 4 * messages + 64 {
            known.clear();
        }
    }

    /// The tokens of a message.
    pub(super) fn tokens(&self, message: &Arc<Message>, count: impl FnOnce() -> u64) -> u64 {
        // A message that nothing else has is made for one layout.
        if Arc::strong_count(message) == 1 {
            return count();
        }
        let known = |known: &Known| known.tokens;
        self.get_or_make(
            message,
            known,
            |known, tokens| known.tokens = Some(tokens),
            count,
        )
    }

    /// The compacted form of a message; `None` if it stays as it is.
    pub(super) fn compacted(
        &self,
        message: &Arc<Message>,
        make: impl FnOnce() -> Option<Message>,
    ) -> Option<Arc<Message>> {
        let known = |known: &Known| known.compacted.clone();
        let keep = |known: &mut Known, made| known.compacted = Some(made);
        self.get_or_make(message, known, keep, || make().map(Arc::new))
    }

    fn get_or_make<T: Clone>(
        &self,
        message: &Arc<Message>,
        get: impl FnOnce(&Known) -> Option<T>,
        keep: impl FnOnce(&mut Known, T),
        make: impl FnOnce() -> T,
    ) -> T {
        let address = Arc::as_ptr(message).addr();
        if let Some(found) = self.known.lock().get(&address).and_then(get) {
            return found;
        }
        let made = make();
        let mut known = self.known.lock();
        let entry = known.entry(address).or_insert_with(|| Known {
            message: message.clone(),
            tokens: None,
            compacted: None,
        });
        debug_assert!(Arc::ptr_eq(&entry.message, message));
        keep(entry, made.clone());
        made
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::atomic::{AtomicU64, Ordering::Relaxed},
    };

    use ghostlight_actors::{
        definition::{Compact, CompactRule, ContextSpec, ContextStrategy},
        vocabulary::{ModelResponse, ToolCall, ToolResult, ToolStatus, Transcript},
    };
    use serde_json::json;

    use super::*;
    use crate::context::{
        TokenCounter,
        draft::Draft,
        layout::{Layout, View},
    };

    /// Counts what it was asked to count.
    #[derive(Default)]
    struct Counting(AtomicU64);

    impl TokenCounter for Counting {
        fn name(&self) -> &str {
            "counting"
        }

        fn count(&self, text: &str) -> u64 {
            let bytes = text.len() as u64;
            self.0.fetch_add(bytes, Relaxed);
            bytes / 4
        }
    }

    #[test]
    fn the_work_of_compaction_grows_with_what_is_said_and_not_with_its_square() {
        let rule = CompactRule {
            arguments: Vec::new(),
            result: Some("left out".to_owned()),
        };
        let table = Compact {
            keep_recent: 2,
            min_tokens: 20,
            tools: BTreeMap::from([("*".to_owned(), rule)]),
        };
        let spec = ContextSpec::new(1_000_000).strategy(ContextStrategy::Compact(table.clone()));
        let (cache, counter) = (MessageCache::default(), Counting::default());
        let mut conversation = Transcript::from_iter([Message::user("go")]);
        let (mut layout, mut said) = (Layout::default(), 0);
        for step in 0..400 {
            let call = ToolCall::new(step.to_string(), "look", json!({ "step": step }));
            let result = ToolResult::new(&call, ToolStatus::Success, "word ".repeat(2_000));
            said += result.text.len() as u64;
            conversation.push(ModelResponse::tool_calls([call]).message);
            conversation.push(Message::results([result]));
            let view = View::new(conversation.clone(), &[]);
            let mut draft = Draft::new(view, layout, 0, &spec, &counter, &cache);
            draft.compact(&table);
            layout = draft.layout.clone();
        }
        let counted = counter.0.load(Relaxed);
        assert!(counted < 3 * said, "{counted} bytes counted of {said}");
    }

    #[test]
    fn a_message_that_is_kept_is_worked_out_once_and_one_of_a_moment_is_not_kept() {
        let cache = MessageCache::default();
        let kept = Arc::new(Message::user("hello"));
        let mut counted = 0;
        let _other = kept.clone();
        for _ in 0..3 {
            let tokens = cache.tokens(&kept, || {
                counted += 1;
                7
            });
            assert_eq!(tokens, 7);
            assert_eq!(cache.compacted(&kept, || None), None);
        }
        assert_eq!(counted, 1);
        for tokens in 0..3 {
            let moment = Arc::new(Message::user("hello"));
            assert_eq!(cache.tokens(&moment, || tokens), tokens);
        }
        assert_eq!(cache.known.lock().len(), 1);
    }
}
