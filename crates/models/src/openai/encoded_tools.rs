//! The tools of requests as JSON.

use std::{collections::VecDeque, sync::Arc};

use ghostlight_actors::vocabulary::{Digest, ToolSet};
use parking_lot::Mutex;
use serde_json::value::{RawValue, to_raw_value};

use super::request::Tool;
use crate::http::offered;

/// How many sets of tools are kept: one for each agent that asks the model at the same time.
const KEPT: usize = 64;

/// The tools of the last requests as JSON. An agent offers the same tools in each request, and there may be many.
#[derive(Debug, Default)]
pub(super) struct EncodedTools(Mutex<VecDeque<(Digest, Arc<RawValue>)>>);

impl EncodedTools {
    /// The JSON of these tools, of this many at most, which is the same number each time.
    ///
    /// # Errors
    /// A tool that cannot be written as JSON.
    pub(super) fn of(&self, tools: &ToolSet, max: usize) -> serde_json::Result<Arc<RawValue>> {
        let digest = tools.digest();
        if let Some((_, json)) = self.0.lock().iter().find(|(kept, _)| *kept == digest) {
            return Ok(json.clone());
        }
        let offered = offered(tools, max);
        let all: Vec<Tool<'_>> = offered.iter().map(|tool| Tool::new(tool)).collect();
        let json: Arc<RawValue> = to_raw_value(&all)?.into();
        let mut kept = self.0.lock();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((digest, json.clone()));
        Ok(json)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::vocabulary::ToolDefinition;

    use super::*;

    fn tools(names: &[String]) -> ToolSet {
        let tool = |name: &String| ToolDefinition::new(name, "what it does");
        names.iter().map(tool).collect()
    }

    #[test]
    fn the_same_tools_are_encoded_once_and_others_never_taken_for_them() {
        let encoded = EncodedTools::default();
        let first = encoded.of(&tools(&["a".into(), "b".into()]), 9).unwrap();
        let again = encoded.of(&tools(&["a".into(), "b".into()]), 9).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(
            first.get(),
            concat!(
                r#"[{"type":"function","function":{"name":"a","description":"what it does","#,
                r#""parameters":{"properties":{},"type":"object"}}},"#,
                r#"{"type":"function","function":{"name":"b","description":"what it does","#,
                r#""parameters":{"properties":{},"type":"object"}}}]"#,
            )
        );
        let other = encoded.of(&tools(&["b".into(), "a".into()]), 9).unwrap();
        assert_ne!(first.get(), other.get());
    }

    #[test]
    fn tools_beyond_the_bound_are_left_out() {
        let names: Vec<String> = (0..200).map(|number| format!("t{number}")).collect();
        let json = EncodedTools::default().of(&tools(&names), 128).unwrap();
        let sent: Vec<serde_json::Value> = serde_json::from_str(json.get()).unwrap();
        assert_eq!(sent.len(), 128);
        assert_eq!(sent[127]["function"]["name"], "t127");
    }

    #[test]
    fn of_many_sets_of_tools_only_the_last_are_kept() {
        let encoded = EncodedTools::default();
        for number in 0..10 * KEPT {
            encoded.of(&tools(&[number.to_string()]), 9).unwrap();
        }
        assert_eq!(encoded.0.lock().len(), KEPT);
    }
}
