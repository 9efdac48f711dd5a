//! Secrets of many kinds, planted wherever an event can hold a text, and each way by which events are shown.

use ghostlight_actors::vocabulary::{
    AgentError, Changed, Delta, Event, EventRecord, FinishReason, OperationId, Preview, Question,
    RunId, RunResult, Scope, Spent, StopReason, Timestamp, ToolCall, ToolResult, ToolStatus, Usage,
};
use ghostlight_safety::{log_line, redact, redact_json, redact_text};
use serde_json::{Value, json};

/// A text that holds a secret, and the secret.
const PLANTED: [(&str, &str); 44] = [
    ("sk-proj-abcdefghijklmnop1234", "abcdefghijklmnop1234"),
    ("sk_live_abcdefghijklmnop1234", "abcdefghijklmnop1234"),
    (
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "nopqrstuvwxyz0123",
    ),
    (
        "github_pat_11ABCDEFG0abcdefghijklmnop",
        "ABCDEFG0abcdefghijk",
    ),
    ("glpat-abcdefghij0123456789", "abcdefghij0123456789"),
    ("xoxb-1234567890-abcdefghij", "1234567890-abcdefghij"),
    ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN7EXAMPLE"),
    (
        "AIzaSyA1234567890abcdefghijklmnopqrstuv",
        "SyA1234567890abcdef",
    ),
    (
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc123",
        "eyJzdWIiOiIxMjM0In0",
    ),
    (
        "npm_abcdefghijklmnopqrstuvwxyz0123456789",
        "nopqrstuvwxyz0123",
    ),
    ("hvs.CAESIJabcdefghijklmnopqrstuv", "CAESIJabcdefghijkl"),
    (
        "dapi0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123",
    ),
    (
        "AGE-SECRET-KEY-1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
        "QQPZRY9X8GF2TVDW0S3",
    ),
    (
        "123456789:AAabcdefghijklmnopqrstuvwxyz0123456",
        "AAabcdefghijklmnopq",
    ),
    (
        "https://hooks.slack.com/services/T00000000/B00000000/XXXXYYYYZZZZ",
        "XXXXYYYYZZZZ",
    ),
    ("Ab3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY", "dE5fG7hJ9kL1mN3pQ5"),
    ("Authorization: Bearer abcd1234efgh5678", "abcd1234efgh5678"),
    (
        "Authorization: Basic dXNlcjpwYXNzd29yZA==",
        "dXNlcjpwYXNzd29yZA",
    ),
    ("Authorization: ApiKey zxcvbnmasdfgh", "zxcvbnmasdfgh"),
    ("Proxy-Authorization: Token qwertyuiop99", "qwertyuiop99"),
    (
        "Authorization: Digest username=\"ada\", response=\"6629fae49393a053\"",
        "6629fae49393a053",
    ),
    (
        "Authorization: AWS4-HMAC-SHA256 Credential=X/20130524, SignedHeaders=host, Signature=fe5f80f77d5fa3",
        "fe5f80f77d5fa3",
    ),
    ("Cookie: theme=dark; session=s3cr3tcookie", "s3cr3tcookie"),
    (
        "Set-Cookie: sid=s3cr3tcookie; Path=/; HttpOnly",
        "s3cr3tcookie",
    ),
    ("X-Api-Key: qwertyuiop", "qwertyuiop"),
    ("password=hunter2xyz", "hunter2xyz"),
    ("password: swordfishes", "swordfishes"),
    ("PASSWORD = 'hunter two xyz'", "hunter two xyz"),
    ("{\"password\":\"hunter2xyz\"}", "hunter2xyz"),
    ("{\\\"token\\\":\\\"hunter2xyz\\\"}", "hunter2xyz"),
    ("note: password=hunter2xyz", "hunter2xyz"),
    (
        "the answer was {\"credentials\": {\"user\": \"adalovelace\", \"n\": [1]}} today",
        "adalovelace",
    ),
    ("db_pass=hunter2xyz", "hunter2xyz"),
    ("client-secret: 'hunter2xyz'", "hunter2xyz"),
    ("export OPENAI_API_KEY=qwertyuiop12", "qwertyuiop12"),
    ("AccountKey=hunter2xyz==;EndpointSuffix=core", "hunter2xyz"),
    ("curl -u ada:hunter2xyz example.com", "hunter2xyz"),
    ("mysql --password hunter2xyz -h host", "hunter2xyz"),
    ("tool --api-key \"hunter2 xyz\" go", "hunter2 xyz"),
    ("postgres://ada:hunter2xyz@host/db", "hunter2xyz"),
    ("redis://:hunter2xyz@host", "hunter2xyz"),
    (
        "https://host/path?access_token=hunter2xyz&a=b",
        "hunter2xyz",
    ),
    ("<password>hunter2xyz</password>", "hunter2xyz"),
    (
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----",
        "b3BlbnNzaC1rZXktdjEA",
    ),
];

/// Where a text may stand inside of another.
fn surroundings(text: &str) -> Vec<String> {
    vec![
        text.to_owned(),
        format!("Use this: {text}"),
        format!("first line\n{text}\nlast line"),
        format!("- {text}\n- other"),
        format!("```\n{text}\n```"),
        format!("({text})"),
        format!("{} {text}", "word ".repeat(30)),
    ]
}

fn record(event: Event) -> EventRecord {
    EventRecord::new(RunId::from_random(1), Timestamp(0), vec!["a".into()], event)
}

/// The text in every place of an event where one can stand.
fn planted(text: &str) -> Vec<(&'static str, Event)> {
    let operation = OperationId::default();
    let call = ToolCall::new(
        "c",
        "tool",
        json!({ "note": text, "n": [{ "deep": text }] }),
    );
    let torn = ToolCall::new("c", "tool", format!("{{\"note\": {text}"));
    let asked = |prompt: &str| {
        let mut question = Question::new(prompt);
        question.call = Some(call.clone());
        question
    };
    // No count is taken for a secret.
    let names = [
        "input",
        "output",
        "cached",
        "cache_write",
        "reasoning",
        "estimated",
    ];
    let counts = names.map(|name| (format!("{name}_tokens"), json!(7)));
    let usage: Usage = serde_json::from_value(counts.into_iter().collect()).unwrap();
    let model_called =
        |text: &str, reasoning: &str, tool_calls: Vec<ToolCall>| Event::ModelCalled {
            operation,
            model: "m".into(),
            text: text.into(),
            reasoning: reasoning.into(),
            tool_calls,
            sources: Vec::new(),
            finish: FinishReason::Stop,
            usage,
            attempts: 1,
            latency_ms: 1,
        };
    let ended = |end| {
        let spent = Spent {
            usage,
            ..Spent::default()
        };
        Event::RunEnded { end, spent }
    };
    vec![
        (
            "input",
            Event::RunStarted {
                agent: "a".into(),
                input: text.into(),
                parent: None,
            },
        ),
        (
            "request",
            Event::LegStarted {
                agent: "a".into(),
                request: Some(text.into()),
            },
        ),
        ("said", model_called(text, "", Vec::new())),
        ("reasoning", model_called("", text, Vec::new())),
        ("arguments", model_called("", "", vec![call.clone()])),
        ("torn arguments", model_called("", "", vec![torn.clone()])),
        (
            "result",
            Event::ToolCalled {
                operation,
                result: ToolResult::new(&call, ToolStatus::Success, text),
                call: None,
            },
        ),
        (
            "delegation",
            Event::DelegationEnded {
                operation,
                agent: "a".into(),
                text: text.into(),
            },
        ),
        (
            "question",
            Event::QuestionAsked {
                operation,
                question: asked(text),
            },
        ),
        (
            "answer",
            Event::QuestionAnswered {
                operation,
                answer: json!(text),
            },
        ),
        (
            "edited",
            Event::QuestionAnswered {
                operation,
                answer: json!({ "approved": true, "arguments": { "x": [text] } }),
            },
        ),
        (
            "custom",
            Event::Custom {
                name: "n".into(),
                data: json!({ "x": text }),
            },
        ),
        (
            "failure",
            Event::OperationFailed {
                operation,
                kind: "tool".into(),
                name: "t".into(),
                error: AgentError::failed(text),
            },
        ),
        (
            "state",
            Event::Changed {
                operation,
                changed: Changed::State {
                    scope: Scope::Session,
                    key: "k".into(),
                    value: Some(json!({ "x": text })),
                    version: 1,
                },
            },
        ),
        (
            "restart",
            Event::Restarted {
                reason: text.into(),
            },
        ),
        (
            "cancel",
            Event::Cancelling {
                reason: text.into(),
            },
        ),
        ("answered", ended(RunResult::Answered(text.into()))),
        (
            "stopped",
            ended(RunResult::Stopped(StopReason::Other(text.into()))),
        ),
        ("failed", ended(RunResult::Failed(AgentError::failed(text)))),
        (
            "tool preview",
            Event::Preview(Preview::ToolStarted {
                operation,
                call: call.clone(),
            }),
        ),
        (
            "output",
            Event::Preview(Preview::ToolOutput {
                operation,
                text: text.into(),
            }),
        ),
        (
            "progress",
            Event::Preview(Preview::ToolProgress {
                operation,
                fraction: None,
                message: text.into(),
            }),
        ),
        (
            "retry",
            Event::Preview(Preview::ModelRetry {
                operation,
                attempt: 1,
                error: text.into(),
                pause_ms: 1,
            }),
        ),
        (
            "delta",
            Event::Preview(Preview::Delta {
                operation,
                attempt: 1,
                delta: Delta::Text(text.into()),
            }),
        ),
    ]
}

#[test]
fn no_secret_is_in_a_line_or_in_json_that_is_shown_of_an_event() {
    for (text, secret) in PLANTED {
        // All surroundings are tried with the functions themselves.
        for whole in surroundings(text).into_iter().skip(2).take(1) {
            for (place, event) in planted(&whole) {
                let record = record(event);
                let line = record.to_string();
                assert!(!line.contains(secret), "{place}: {whole:?}: {line}");
                let json = redact_json(&serde_json::to_value(&record).unwrap()).to_string();
                assert!(!json.contains(secret), "{place}: {whole:?}: {json}");
                if place != "question" {
                    // As every protocol shows it: the same JSON, and an event still.
                    let shown = record.clone().redacted();
                    assert_eq!(serde_json::to_value(&shown).unwrap().to_string(), json);
                    let kind = std::mem::discriminant(&shown.event);
                    assert_eq!(
                        kind,
                        std::mem::discriminant(&record.event),
                        "{place}: {json}"
                    );
                }
            }
        }
    }
}

#[test]
fn no_secret_is_in_what_is_logged() {
    for (text, secret) in PLANTED {
        for whole in surroundings(text) {
            let value = json!({ "note": whole, "list": [whole], "inner": json!({ "a": whole }).to_string() });
            for shown in [
                redact_text(&whole).into_owned(),
                log_line(&whole, 400),
                redact(&value).to_string(),
                redact_json(&value).to_string(),
            ] {
                assert!(!shown.contains(secret), "{whole:?}: {shown}");
            }
        }
    }
    for name in [
        "password",
        "apiKey",
        "Authorization",
        "Set-Cookie",
        "client_secret",
        "DB_PASS",
    ] {
        for value in [
            json!("qwerty"),
            json!(991_177),
            json!(["qwerty"]),
            json!({ "x": "qwerty" }),
        ] {
            let value = json!({ "in": [{ name: value }] });
            for shown in [redact(&value), redact_json(&value)] {
                let shown = shown.to_string();
                assert!(
                    !shown.contains("qwerty") && !shown.contains("991177"),
                    "{shown}"
                );
            }
        }
    }
}

#[test]
fn what_is_no_secret_is_shown_as_it_is() {
    let value: Value = json!({
        "text": "two\nlines of a plain text, with /etc/hosts and C:\\x", "path": "/etc/hosts",
        "json": "{ \"a\":  1 }", "max_tokens": 100, "long": "word ".repeat(1000),
        "digest": "da39a3ee5e6b4b0d3255bfef95601890afd80709", "escape": "\u{1b}[0m",
    });
    assert_eq!(redact_json(&value), value);
}

#[test]
fn a_piece_of_an_answer_is_told_by_its_length_as_it_may_be_a_part_of_a_secret() {
    let operation = OperationId::default();
    let said = |text: &str| {
        let delta = Delta::Text(text.into());
        let attempt = 1;
        let preview = Preview::Delta {
            operation,
            attempt,
            delta,
        };
        Event::Preview(preview).to_string()
    };
    let put_out = |text: &str| {
        let text = text.into();
        Event::Preview(Preview::ToolOutput { operation, text }).to_string()
    };
    for tell in [&said as &dyn Fn(&str) -> String, &put_out] {
        let told: Vec<String> = ["the password=", "hunt", "er2 is new"].map(tell).into();
        let told = told.join("");
        assert!(!told.contains("hunt") && !told.contains("er2"), "{told}");
        assert!(told.contains("13 characters"), "{told}");
    }
}
