//! The error that a server reports, in any of the shapes in use.

use std::time::Duration;

use serde_json::Value;

/// The error that a server reports, in any of the shapes in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    code: Option<String>,
    kind: Option<String>,
    /// The status in the body, where the code is a word.
    status: Option<u16>,
    param: Option<String>,
    /// The delay that the body asks for, as Google's errors do.
    retry_delay: Option<Duration>,
    pub(crate) message: String,
}

impl Report {
    /// Reads `{"error": {…}}`, `{"error": "…"}`, `{"object": "error", …}`, `{"detail": …}`, `{"base_resp": {…}}` or plain
    /// text.
    pub(crate) fn read(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::from_value(&value),
            Err(_) => Self {
                message: String::from_utf8_lossy(body).into_owned(),
                ..Self::default()
            },
        }
    }

    pub(crate) fn from_value(value: &Value) -> Self {
        // Google's server wraps the error in a list.
        let value = value.get(0).unwrap_or(value);
        let error = match (&value["error"], &value["base_resp"]) {
            (Value::Null, Value::Null) => value,
            // MiniMax's form.
            (Value::Null, error) | (error, _) => error,
        };
        let word = |key: &str| match &error[key] {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let message = match error {
            Value::String(text) => Some(text.clone()),
            _ => upstream(error)
                .or_else(|| word("message"))
                .or_else(|| details(&error["message"]))
                .or_else(|| details(&error["detail"]))
                .or_else(|| word("detail"))
                .or_else(|| word("status_msg")),
        };
        Self {
            code: word("code").or_else(|| word("status_code")),
            status: error["status_code"]
                .as_u64()
                .and_then(|status| u16::try_from(status).ok()),
            kind: word("type").or_else(|| word("status")),
            param: word("param"),
            retry_delay: delay(&error["details"]),
            message: message.unwrap_or_default(),
        }
    }

    /// The HTTP status in the error's code, if there is one: several servers send it as a number or
    /// as text.
    pub(crate) fn status(&self) -> Option<u16> {
        let code = self.code.as_deref().and_then(|code| code.parse().ok());
        let status = code.or(self.status)?;
        (400..=599).contains(&status).then_some(status)
    }

    /// The delay that the body asks for.
    pub(crate) fn retry_delay(&self) -> Option<Duration> {
        self.retry_delay
    }

    pub(crate) fn says(&self, words: &[&str]) -> bool {
        let fields = [
            self.code.as_deref(),
            self.kind.as_deref(),
            Some(self.message.as_str()),
        ];
        let texts = fields.into_iter().flatten().map(str::to_lowercase);
        texts
            .into_iter()
            .any(|text| words.iter().any(|word| text.contains(word)))
    }

    /// Whether the request was too long for the model's context, by the wording of OpenAI, vLLM,
    /// llama.cpp, Ollama, LiteLLM, Anthropic, Google, Mistral, Groq, xAI, Bedrock and TGI.
    pub(crate) fn is_overflow(&self) -> bool {
        self.says(&[
            "context_length_exceeded",
            "contextwindowexceeded",
            "exceed_context_size",
            "maximum context length",
            "maximum model length",
            "maximum prompt length",
            "maximum input length",
            "available context size",
            "exceeds the context length",
            "exceeds context window",
            "exceeds the context window",
            "exceeds the model's context",
            "exceeds the maximum number of tokens",
            "greater than the context length",
            "too large for model",
            "prompt is too long",
            "prompt too long",
            "input is too long",
            "reduce the length of the",
            "`max_new_tokens` must be <=",
        ])
    }

    /// Whether the model wrote a call of a tool that its server refused, as Groq's does.
    pub(crate) fn is_malformed_call(&self) -> bool {
        self.code.as_deref() == Some("tool_use_failed")
    }

    pub(crate) fn is_out_of_funds(&self) -> bool {
        self.says(&[
            "insufficient_quota",
            "billing",
            "insufficient balance",
            "insufficient_balance",
            "insufficient funds",
            "insufficient credits",
            "credit balance",
        ])
    }

    /// The code, type and parameter of the error, where they are single words and not text.
    pub(crate) fn labels(&self) -> Vec<&str> {
        let is_label = |text: &&str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.[]".contains(&byte);
            text.len() <= 64 && text.bytes().all(fits)
        };
        let fields = [&self.kind, &self.code, &self.param];
        fields
            .into_iter()
            .flatten()
            .map(String::as_str)
            .filter(is_label)
            .collect()
    }
}

/// The words of the server behind the one that answered, as OpenRouter passes them on.
fn upstream(error: &Value) -> Option<String> {
    let raw = &error["metadata"]["raw"];
    let report = match raw {
        Value::String(text) => Report::read(text.as_bytes()),
        Value::Object(_) => Report::from_value(raw),
        _ => return None,
    };
    Some(report.message).filter(|message| !message.trim().is_empty())
}

/// The words of a list of faults, each with its place, as FastAPI and Mistral send them.
fn details(detail: &Value) -> Option<String> {
    let faults = match detail {
        Value::Object(fields) => &fields.get("detail")?.clone(),
        list => list,
    };
    let of_fault = |fault: &Value| {
        let said = fault["msg"].as_str()?;
        let place = fault["loc"].as_array().into_iter().flatten();
        let place = place.map(|step| match step {
            Value::String(step) => step.clone(),
            other => other.to_string(),
        });
        let place = place.collect::<Vec<_>>().join(".");
        Some(match place.is_empty() {
            true => said.to_owned(),
            false => format!("{place}: {said}"),
        })
    };
    let faults = faults.as_array()?.iter().filter_map(of_fault);
    let faults = faults.collect::<Vec<_>>().join("; ");
    (!faults.is_empty()).then_some(faults)
}

/// The delay in the details of a Google error, such as `"retryDelay": "34.07s"`.
fn delay(details: &Value) -> Option<Duration> {
    let details = details.as_array()?.iter();
    let text = details
        .filter_map(|detail| detail["retryDelay"].as_str())
        .next()?;
    let seconds = text.trim().trim_end_matches('s').parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The delay that the headers ask for: `retry-after-ms`, or `retry-after` in seconds or as a date.
/// A date is compared with the server's own `date`, so that no clock has to agree with the
/// server's.
pub(crate) fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    if let Some(millis) = number("retry-after-ms") {
        return Duration::try_from_secs_f64(millis / 1_000.0).ok();
    }
    if let Some(seconds) = number("retry-after") {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = |name: &str| httpdate::parse_http_date(text(name)?).ok();
    date("retry-after")?.duration_since(date("date")?).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_read_in_all_its_forms_and_nonsense_is_none() {
        let pause = |pairs: &[(&'static str, &str)]| {
            let mut headers = http::HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            retry_after(&headers)
        };
        assert_eq!(
            pause(&[("retry-after", "3600")]),
            Some(Duration::from_secs(3600))
        );
        assert_eq!(
            pause(&[("retry-after", "0.5")]),
            Some(Duration::from_millis(500))
        );
        assert_eq!(
            pause(&[("retry-after", "9"), ("retry-after-ms", "20")]),
            Some(Duration::from_millis(20))
        );
        let date = [
            ("date", "Sun, 06 Nov 1994 08:49:07 GMT"),
            ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ];
        assert_eq!(pause(&date), Some(Duration::from_secs(30)));
        assert_eq!(pause(&date[1..]), None);
        for nonsense in ["-1", "NaN", "1e300", "soon", ""] {
            assert_eq!(pause(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
    }
}
