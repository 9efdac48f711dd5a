//! Durations of definitions that were recorded when they were whole milliseconds, under keys that end in `_ms`.

use std::time::Duration;

use serde_json::{Map, Value};

use super::AgentSpec;
use crate::vocabulary::canonical;

/// The keys without their units, by the keys under which the settings stand that have them: directly, in a list, or by
/// names.
const DURATIONS: [(&str, &[&str]); 7] = [
    ("budget", &["wall_time"]),
    ("schedules", &["every"]),
    ("schedule", &["every"]),
    ("timeouts", &["connect", "first_byte", "idle", "total"]),
    ("interceptors", &["base_pause", "max_pause", "after"]),
    ("nodes", &["timeout"]),
    (
        "behavior",
        &[
            "member_timeout",
            "turn_timeout",
            "task_timeout",
            "stage_timeout",
            "part_timeout",
            "item_timeout",
            "retry_pause",
        ],
    ),
];

/// The key that every definition has in one of the two forms.
const BOUND: [&str; 2] = ["\"wall_time_ms\":", "\"wall_time_s\":"];

/// Whether this is the text of a definition with milliseconds.
pub(super) fn is_in_milliseconds(text: &str) -> bool {
    text.contains(BOUND[0])
}

/// Rewrites the durations of a definition as seconds.
pub(crate) fn in_seconds(definition: &mut Value) {
    rewrite(definition, ["", ""]);
}

/// Rewrites a value that stands under the last of these keys, which stands under the first.
fn rewrite(value: &mut Value, under: [&str; 2]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite(item, under)),
        Value::Object(settings) => {
            let here = DURATIONS.iter().filter(|(place, _)| under.contains(place));
            for key in here.flat_map(|(_, keys)| *keys) {
                rename(settings, key);
            }
            for (key, value) in settings {
                rewrite(value, [under[1], key]);
            }
        }
        _ => {}
    }
}

fn rename(settings: &mut Map<String, Value>, key: &str) {
    let old = format!("{key}_ms");
    let seconds = match settings.get(&old) {
        Some(Value::Null) => Value::Null,
        Some(Value::Number(ms)) => match (ms.as_u64(), ms.as_f64()) {
            (Some(ms), _) if ms % 1_000 == 0 => (ms / 1_000).into(),
            (_, ms) => ms.map(|ms| ms / 1e3).into(),
        },
        // It stands there for something else.
        _ => return,
    };
    settings.remove(&old);
    settings.insert(format!("{key}_s"), seconds);
}

/// The text of an agent of which operations' digests are computed. It still has milliseconds where budgets had them, so
/// that the digests in older journals are found again.
pub(crate) fn identity(agent: &AgentSpec) -> Vec<u8> {
    let text = canonical::to_vec(agent);
    let Ok(text) = str::from_utf8(&text) else {
        return text;
    };
    let mut pieces = text.split(BOUND[1]);
    let mut old = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find([',', '}']).unwrap_or(piece.len());
        let (bound, rest) = piece.split_at(end);
        let time = bound.parse().ok().map(Duration::try_from_secs_f64);
        old.push_str(BOUND[0]);
        match time {
            Some(Ok(time)) => old.push_str(&time.as_millis().to_string()),
            _ => old.push_str(bound),
        }
        old.push_str(rest);
    }
    old.into_bytes()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::definition::{CreateAgentSpec, TeamSpec};

    #[test]
    fn durations_in_milliseconds_are_read_where_definitions_had_them() {
        let mut recorded = json!({
            "budget": { "tokens": 5, "wall_time_ms": 90_000 },
            "schedules": [{ "name": "a", "say": "x", "every_ms": 1_500 }],
            "models": { "m": { "provider": "openai", "timeouts": { "idle_ms": 250, "total_ms": null } } },
            "interceptors": ["logging", { "name": "retry", "base_pause_ms": 10 }],
            "agent": {
                "name": "a",
                "output": { "properties": { "budget": { "wall_time_ms": { "type": "integer" } } } },
                "behavior": {
                    "name": "graph", "timeout_ms": 7, "member_timeout_ms": 30_000,
                    "nodes": { "b": { "agent": "b", "timeout_ms": 2_000 } },
                },
            },
        });
        in_seconds(&mut recorded);
        let expected = json!({
            "budget": { "tokens": 5, "wall_time_s": 90 },
            "schedules": [{ "name": "a", "say": "x", "every_s": 1.5 }],
            "models": { "m": { "provider": "openai", "timeouts": { "idle_s": 0.25, "total_s": null } } },
            "interceptors": ["logging", { "name": "retry", "base_pause_s": 0.01 }],
            "agent": {
                "name": "a",
                "output": { "properties": { "budget": { "wall_time_ms": { "type": "integer" } } } },
                "behavior": {
                    "name": "graph", "timeout_ms": 7, "member_timeout_s": 30,
                    "nodes": { "b": { "agent": "b", "timeout_s": 2 } },
                },
            },
        });
        assert_eq!(recorded, expected);
        let team: TeamSpec = serde_json::from_value(recorded).unwrap();
        assert_eq!(team.budget.wall_time, Some(Duration::from_secs(90)));
    }

    #[test]
    fn an_agent_is_identified_as_when_budgets_were_in_milliseconds() {
        let mut agent = AgentSpec::new("a");
        agent.instructions = "Say \"wall_time_s\":1}".to_owned();
        agent.budget.wall_time = Some(Duration::from_millis(1_250));
        agent.agents = vec![AgentSpec::new("b")];
        let mut made = CreateAgentSpec::default();
        made.budget.wall_time = Some(Duration::from_secs(60));
        agent.create_agent = Some(made);
        let text = String::from_utf8(identity(&agent)).unwrap();
        for (part, times) in [
            ("\"wall_time_ms\":1250", 1),
            ("\"wall_time_ms\":60000", 1),
            ("\"wall_time_ms\":null", 1),
            ("\"wall_time_s\":", 0),
            ("Say \\\"wall_time_s\\\":1}", 1),
            ("\"timeout_s\":300", 1),
        ] {
            assert_eq!(text.matches(part).count(), times, "{part} in {text}");
        }
    }
}
