//! Reads the usage of an answer.

use ghostlight_actors::vocabulary::Usage;
use serde_json::Value;

/// Reads a `usage` object; missing counts are 0.
pub(super) fn read(usage: &Value) -> Usage {
    // A JSON pointer would be split and unescaped anew for each answer.
    let count = |places: &[&[&str]]| {
        let found = |place: &&[&str]| place.iter().try_fold(usage, |value, name| value.get(name));
        places.iter().find_map(|place| number(found(place)?))
    };
    let input = count(&[&["prompt_tokens"], &["input_tokens"]]).unwrap_or(0);
    let output = count(&[&["completion_tokens"], &["output_tokens"]]).unwrap_or(0);
    let cached = count(&[
        &["prompt_tokens_details", "cached_tokens"],
        &["input_tokens_details", "cached_tokens"],
        &["prompt_cache_hit_tokens"],
        &["cached_tokens"],
        &["num_cached_tokens"],
    ]);
    let written = count(&[
        &["prompt_tokens_details", "cache_write_tokens"],
        &["input_tokens_details", "cache_write_tokens"],
        &["prompt_tokens_details", "cache_creation_tokens"],
        &["cache_creation_input_tokens"],
    ]);
    let reasoning = count(&[
        &["completion_tokens_details", "reasoning_tokens"],
        &["output_tokens_details", "reasoning_tokens"],
        &["reasoning_tokens"],
    ])
    .unwrap_or(0);
    // xAI counts reasoning apart from the answer, as its total shows.
    let total = count(&[&["total_tokens"]]);
    let beside = total
        == input
            .checked_add(output)
            .and_then(|sum| sum.checked_add(reasoning));
    Usage {
        input_tokens: input,
        output_tokens: if beside {
            output.saturating_add(reasoning)
        } else {
            output
        },
        cached_tokens: cached.unwrap_or(0),
        cache_write_tokens: written.unwrap_or(0),
        reasoning_tokens: reasoning,
        ..Usage::default()
    }
}

/// A count. Some servers send it as a float or as text.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number
            .as_u64()
            .or_else(|| Some(number.as_f64().filter(|n| *n >= 0.0)? as u64)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_servers_counts_are_read() {
        let cases = [
            (
                json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
                    "prompt_tokens_details": {"cached_tokens": 4},
                    "completion_tokens_details": {"reasoning_tokens": 3}}),
                (10, 5, 4, 3),
            ),
            (
                json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 18,
                    "completion_tokens_details": {"reasoning_tokens": 3}}),
                (10, 8, 0, 3),
            ),
            (
                json!({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 8,
                    "prompt_cache_miss_tokens": 1}),
                (9, 1, 8, 0),
            ),
            (
                json!({"prompt_tokens": 9, "completion_tokens": null, "prompt_tokens_details": null}),
                (9, 0, 0, 0),
            ),
            (
                json!({"input_tokens": 7.0, "output_tokens": "2"}),
                (7, 2, 0, 0),
            ),
            (
                json!({"prompt_tokens": -1, "completion_tokens": 1e300}),
                (0, u64::MAX, 0, 0),
            ),
            (json!(null), (0, 0, 0, 0)),
        ];
        for (usage, expected) in cases {
            let read = read(&usage);
            let counts = (
                read.input_tokens,
                read.output_tokens,
                read.cached_tokens,
                read.reasoning_tokens,
            );
            assert_eq!(counts, expected, "{usage}");
        }
    }
}
