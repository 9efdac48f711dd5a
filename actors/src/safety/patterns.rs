//! Regular expressions. The engine of the crate `regex` takes time linear in the text, so that no
//! input can stall it.

use std::{borrow::Cow, ops::Range, sync::LazyLock};

use regex::{Captures, Regex};

/// A pattern, or none if it is no regular expression, which a test rules out.
pub(super) struct Pattern(LazyLock<Option<Regex>>);

impl Pattern {
    const fn new(make: fn() -> Option<Regex>) -> Self {
        Self(LazyLock::new(make))
    }

    /// The text with each match replaced.
    pub(super) fn replace<'t>(
        &self,
        text: Cow<'t, str>,
        by: impl Fn(&Captures<'_>) -> String,
    ) -> Cow<'t, str> {
        let Some(pattern) = &*self.0 else {
            return text;
        };
        if !pattern.is_match(&text) {
            return text;
        }
        Cow::Owned(pattern.replace_all(&text, by).into_owned())
    }

    /// Where the pattern is found in the text from this byte on, one place after the other.
    pub(super) fn places(&self, text: &str, mut from: usize) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        while let Some(found) = self.0.as_ref().and_then(|p| p.find_at(text, from)) {
            // None of them matches an empty text.
            from = found.end();
            places.push(found.range());
        }
        places
    }

    #[cfg(test)]
    fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

macro_rules! patterns {
    ($($(#[$about:meta])* $name:ident = $pattern:expr;)*) => {
        $($(#[$about])* pub(super) static $name: Pattern =
            Pattern::new(|| Regex::new($pattern).ok());)*

        #[cfg(test)]
        #[test]
        fn every_pattern_is_a_regular_expression() {
            $(assert!($name.is_some(), stringify!($name));)*
        }
    };
}

patterns! {
    /// A private key in PEM, also one that was cut off.
    PRIVATE_KEY = r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\z)";
    /// Keys of well-known services, by how they begin, and JSON web tokens.
    KNOWN_KEY = concat!(
        r"\b(?:(?:sk|pk|rk)[-_](?:live|test|proj|ant|or|svcacct)?[-_A-Za-z0-9]{16,}",
        r"|(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}",
        r"|glpat-[-_A-Za-z0-9]{16,}|xox[abeoprs]-[-A-Za-z0-9]{10,}",
        r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[-_A-Za-z0-9]{30,}|ya29\.[-_A-Za-z0-9]{16,}",
        r"|hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}",
        r"|pypi-[-_A-Za-z0-9]{30,}|whsec_[A-Za-z0-9+/=]{16,}|shpat_[A-Fa-f0-9]{20,}",
        r"|SG\.[-_A-Za-z0-9]{16,}\.[-_A-Za-z0-9]{16,}|dop_v1_[a-f0-9]{32,}",
        r"|eyJ[-_A-Za-z0-9]{8,}\.[-_A-Za-z0-9]{8,}(?:\.[-_A-Za-z0-9]*)?)",
    );
    /// `Bearer …` and `Basic …`.
    AUTHORIZATION = r"(?i)\b(bearer|basic)[ \t]+([-._~+/=A-Za-z0-9]{8,})";
    /// The user and password of an address.
    USER_INFO = r"://[^/\s:@\[\]]*:[^/\s@\[\]]+@";
    /// A name and its value: `name=value`, `"name": "value"`, also escaped inside of a string.
    ASSIGNMENT = concat!(
        r#"(?P<name>[A-Za-z][-A-Za-z0-9_.]{1,63})(?P<between>\\*["']?[ \t]*[:=][ \t]*)"#,
        r#"(?:(?P<escaped>\\+")(?P<e>[^"\r\n]*)|(?P<double>")(?P<d>(?:[^"\\\r\n]|\\.)*)"#,
        r#"|(?P<single>')(?P<s>[^'\r\n]*)|(?P<plain>[^\s,;&"'\\{}()\[\]]+))"#,
    );
    /// Letters and digits in a row, long enough to be a key.
    LONG_WORD = r"\b[A-Za-z0-9]{32,}\b";
    /// An address of electronic mail.
    EMAIL = r"[\p{L}\p{N}._%+\-]+@(?:[\p{L}\p{N}\-]+\.)+\p{L}{2,}";
    /// What may be an international bank account number, in groups of four or without.
    BANK_ACCOUNT = r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b";
    /// The marks by which chat templates of common models tell messages, roles and tools apart.
    TEMPLATE_MARK = concat!(
        // OpenAI, Qwen, Llama 3, Phi, Cohere, Granite, and whoever writes marks in this way.
        r"<\|/?[A-Za-z0-9_]{2,40}\|>",
        // DeepSeek, with wide bars.
        "|<\u{ff5c}[^<>\u{ff5c}\\[\\]]{1,40}\u{ff5c}>",
        // Llama 2 and Mistral.
        r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|IMG)\]",
        r"|<</?SYS>>",
        // Gemma, and calls of tools as Hermes and Qwen write them.
        r"|</?(?:start_of_turn|end_of_turn|tool_call|tool_response|function_calls|function_results)>",
    );
    /// A line after an empty one, or with the marks of a heading, by which older templates begin
    /// the words of somebody else.
    FORGED_ROLE = r"(?P<before>\n[ \t]*\n)(?P<role>(?:###[ \t]*)?(?:Human|Assistant|System|HUMAN|ASSISTANT|SYSTEM)[ \t]*:)";
    /// The best-known words by which a text tries to take over.
    OVERRULING = r"(?i)(?:ignore|disregard|forget)\s+(?:all\s+|any\s+)?(?:of\s+)?(?:the\s+|your\s+|my\s+)?(?:previous|prior|above|earlier|preceding)\s+(?:instructions?|prompts?|directions|messages)";
}
