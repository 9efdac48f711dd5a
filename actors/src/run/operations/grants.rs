//! Decisions about calls that hold for a session.

use serde_json::{Map, Value, json};

use super::{Decision, Scope};
use crate::{
    run::RunContext,
    vocabulary::{AgentError, Digest, ToolCall, ToolDefinition, canonical, wildcard},
};

/// How many decisions of a session are remembered for one tool.
const REMEMBERED: usize = 64;
/// The prefix of the keys of remembered decisions. Only the engine writes such keys.
const KEY: &str = "approval:";
/// How many characters of a pattern are shown.
const SHOWN: usize = 200;

impl RunContext {
    pub(super) async fn remembered(
        &self,
        call: &ToolCall,
        definition: &ToolDefinition,
    ) -> Result<Option<Decision>, AgentError> {
        let key = self.key_of_grants(call, definition);
        let kept: Option<Vec<Value>> = self.engine_state(Scope::Session).get(key).await?;
        let arguments = call.arguments.value().cloned().unwrap_or_default();
        let found = kept.unwrap_or_default().into_iter().rev().find(|kept| {
            match (&kept["exactly"], &kept["like"]) {
                (Value::String(digest), _) => *digest == exact(&arguments),
                (_, Value::Object(pattern)) => like(pattern, &arguments),
                _ => false,
            }
        });
        Ok(found.map(|mut kept| Decision::from(kept["decision"].take())))
    }

    /// Keeps a decision for the session: for exactly these arguments, of which only a digest is
    /// kept, or for all arguments that fit the person's patterns.
    pub(super) async fn remember(
        &self,
        call: &ToolCall,
        definition: &ToolDefinition,
        arguments: &Value,
        pattern: &Value,
        decision: &Decision,
    ) -> Result<(), AgentError> {
        let made = json!({
            "approved": decision.approved, "reason": decision.reason, "by": decision.by,
        });
        let kept = match pattern {
            Value::Bool(true) => json!({ "exactly": exact(arguments), "decision": made }),
            Value::Object(pattern) => json!({ "like": pattern, "decision": made }),
            _ => return Ok(()),
        };
        let change = move |found: Option<Vec<Value>>| {
            let mut all = found.unwrap_or_default();
            all.push(kept.clone());
            let surplus = all.len().saturating_sub(REMEMBERED);
            all.drain(..surplus);
            all
        };
        let key = self.key_of_grants(call, definition);
        let state = self.engine_state(Scope::Session);
        state.update(key, change).await.map(drop)
    }

    /// The key under which decisions about a tool are kept.
    fn key_of_grants(&self, call: &ToolCall, definition: &ToolDefinition) -> String {
        let key = format!("{KEY}{}", call.name);
        // A tool of a server is decided about as the server describes it: another server's tool of this name, and what
        // this one changes later, are asked about again.
        match &definition.source {
            Some(source) => {
                let said = json!([
                    source,
                    definition.description,
                    definition.parameters,
                    definition.approval,
                ]);
                format!("{key} {}", Digest::of(said.to_string().as_bytes()))
            }
            None => key,
        }
    }
}

/// Whether a key of state holds remembered decisions.
pub(crate) fn is_grant(key: &str) -> bool {
    key.starts_with(KEY)
}

/// The calls that a remembered decision covers, in words for the person who decides. `None` if the
/// decision holds for its own call alone. `remember` is the field of the answer: `true`, or
/// patterns by the names of arguments.
///
/// ```
/// use ghostlight_actors::run::operations::covers;
/// use serde_json::json;
///
/// let covered = covers("wipe", &json!({ "path": "src/*" })).unwrap();
/// assert_eq!(
///     covered,
///     "every call of wipe in this conversation whose path fits \"src/*\", where `*` stands for \
///      any text and a path with `..` never fits"
/// );
/// assert!(covers("wipe", &json!({ "path": "src/../*" })).unwrap().starts_with("no call"));
/// ```
pub fn covers(tool: &str, remember: &Value) -> Option<String> {
    let pattern = match remember {
        Value::Bool(true) => {
            return Some(format!(
                "every call of {tool} in this conversation with these very arguments"
            ));
        }
        Value::Object(pattern) => pattern,
        _ => return None,
    };
    if pattern.is_empty() {
        return Some(format!(
            "every call of {tool} in this conversation, whatever its arguments"
        ));
    }
    let never = |(name, pattern): &(&String, &Value)| {
        let text = pattern.as_str();
        text.is_some_and(|text| is_path(name, text) && normal(text).is_none())
    };
    if let Some((name, pattern)) = pattern.iter().find(never) {
        let pattern = ghostlight_safety::sanitize_line(&pattern.to_string(), SHOWN);
        return Some(format!(
            "no call: the pattern {pattern} of {name} leads elsewhere by `..`"
        ));
    }
    let shown = |(name, pattern): (&String, &Value)| {
        let pattern = ghostlight_safety::sanitize_line(&pattern.to_string(), SHOWN);
        format!("{name} fits {pattern}")
    };
    let shown: Vec<String> = pattern.iter().map(shown).collect();
    Some(format!(
        "every call of {tool} in this conversation whose {}, where `*` stands for any text and a \
         path with `..` never fits",
        shown.join(" and whose ")
    ))
}

fn exact(arguments: &Value) -> String {
    canonical::digest_of(arguments).to_string()
}

/// Whether each argument that the patterns name exists and fits. `*` stands for any text.
fn like(pattern: &Map<String, Value>, arguments: &Value) -> bool {
    pattern.iter().all(|(name, pattern)| {
        let Some(argument) = arguments.get(name) else {
            return false;
        };
        match (pattern.as_str(), argument.as_str()) {
            (Some(pattern), Some(text)) if is_path(name, pattern) => {
                match (normal(pattern), normal(text)) {
                    (Some(pattern), Some(text)) => wildcard(&pattern, &text),
                    _ => false,
                }
            }
            (Some(pattern), Some(text)) => wildcard(pattern, text) && !leads_up(text),
            _ => pattern == argument,
        }
    })
}

/// Whether an argument is compared as a path, or as a text with paths or addresses in it.
fn is_path(argument: &str, pattern: &str) -> bool {
    ghostlight_safety::is_path_key(argument) || pattern.contains(['/', '\\'])
}

/// A path without `.` and doubled separators. `None` for a path that goes up, also in the
/// percent-encoding of addresses, and for one with a control character.
fn normal(path: &str) -> Option<String> {
    if path.chars().any(char::is_control) {
        return None;
    }
    let mut parts = Vec::new();
    for (place, part) in path.split(['/', '\\']).enumerate() {
        if goes_up(part) {
            return None;
        }
        if (part.is_empty() && place > 0) || part == "." {
            continue;
        }
        parts.push(part);
    }
    Some(parts.join("/"))
}

/// Whether a text that is not known to be a path contains a path that goes up.
fn leads_up(text: &str) -> bool {
    // Of a text of several words without a separator, `..` is only punctuation.
    let is_one_word = !text.trim().contains(char::is_whitespace);
    let is_path = is_one_word || text.contains(['/', '\\']);
    is_path && text.split(['/', '\\']).any(goes_up)
}

/// Whether a part of a path is `..`, also inside other text, or hides a separator in the way of
/// addresses.
fn goes_up(part: &str) -> bool {
    let lower = part.to_ascii_lowercase();
    let plain = lower.replace("%2e", ".");
    let ends = |c: char| c.is_whitespace() || "\"'`=:;,&|()<>".contains(c);
    plain.split(ends).any(|word| word == "..") || ["%2f", "%5c"].iter().any(|c| lower.contains(c))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, fits) in [
            ("src/*", "src/a/b.rs", true),
            ("src/*", "etc/src/", false),
            ("*.rs", "a.rs", true),
            ("*.rs", "a.rs.x", false),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "acb", false),
            ("exact", "exact", true),
            ("exact", "exactly", false),
            ("*", "", true),
            ("a*a", "a", false),
            ("", "", true),
        ] {
            assert_eq!(wildcard(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_over_paths_covers_what_is_below_it_and_nothing_else() {
        let fits = |name: &str, pattern: &str, text: &str| {
            let pattern = json!({ name: pattern });
            like(pattern.as_object().unwrap(), &json!({ name: text }))
        };
        for text in [
            "src/a",
            "./src/a",
            "src//a",
            "src/./a/b",
            "src/..a",
            "src/a..",
            "src/a...b",
        ] {
            assert!(fits("path", "src/*", text), "{text}");
        }
        for text in [
            "src/../../etc/x",
            "src/..",
            "src/a/../../etc/x",
            "src\\..\\..\\etc",
            "src/%2e%2e/etc",
            "src/%2E./etc",
            "src/%2e%2e%2fetc",
            "src/..\n/etc",
            "src/a\n/etc/x",
            "/etc/x",
            "srcs/a",
            "src",
        ] {
            assert!(!fits("path", "src/*", text), "{text}");
        }
        // An argument named as a path is a path even if the pattern has no slash. A command is one
        // if its pattern has a slash.
        assert!(!fits("path", "src*", "src/../etc"));
        assert!(!fits("path", "*", "../etc"));
        assert!(!fits("command", "cat src/*", "cat src/../etc/x"));
        assert!(!fits("command", "cat src/*", "cat src/a ../etc/x"));
        assert!(fits("command", "cat src/*", "cat src/a"));
        assert!(fits("query", "what*", "what is .. in a path?"));
        assert!(!fits("path", "src/../*", "src/../x"), "nor in a pattern");
        // Only the text shows that this is a path.
        assert!(!fits("name", "*", "../x"));
        assert!(!fits("name", "a*", "a/../../b"));
        for text in ["..", " .. ", "%2e%2e", "..%2fx", "..;x"] {
            assert!(!fits("name", "*", text), "{text}");
        }
        assert!(fits("name", "*", "a/b\nc/d"));
    }
}
