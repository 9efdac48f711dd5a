//! Regular expressions. The crate `regex` takes time linear in the text, so no input can stall it.

use std::{borrow::Cow, ops::Range, sync::LazyLock};

use regex::{Captures, Regex};

/// How often a search may resume inside a rejected match.
const MAX_RESTARTS: usize = 10_000;
/// How many bytes of a rejected match are searched again.
const MAX_WITHIN: usize = 4096;

/// A pattern; empty if it is not a regular expression, which a test excludes.
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

    /// Gives each match to the function. If the function rejects a match, the search resumes inside the match's
    /// value. The number of such resumptions is bounded, so that the search ends.
    pub(super) fn each(&self, text: &str, mut take: impl FnMut(&Captures<'_>) -> bool) {
        let (mut from, mut restarts) = (0, MAX_RESTARTS);
        let Some(pattern) = &*self.0 else { return };
        // Most texts have no match, and testing for one is faster than finding its groups.
        while pattern.is_match_at(text, from)
            && let Some(found) = pattern.captures_at(text, from)
        {
            let Some(whole) = found.get(0) else { return };
            // No pattern matches an empty text.
            from = whole.end();
            if take(&found) || restarts == 0 {
                continue;
            }
            let value = ["secret", "plain", "d", "s", "e"];
            let value = value.iter().find_map(|name| found.name(name));
            if let Some(value) = value.filter(|value| value.len() <= MAX_WITHIN)
                && value.start() > whole.start()
            {
                restarts -= 1;
                from = value.start();
            }
        }
    }

    /// The places of the pattern in the text, from this byte on.
    pub(super) fn places(&self, text: &str, mut from: usize) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        while let Some(found) = self.0.as_ref().and_then(|p| p.find_at(text, from)) {
            // No pattern matches an empty text.
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
    /// A private key in its armour, even if it is cut off.
    PRIVATE_KEY = r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\z)";
    /// Keys of well-known services, by their prefixes, and JSON web tokens.
    KNOWN_KEY = concat!(
        r"\b(?:(?:sk|pk|rk)[-_](?:live|test|proj|ant|or|svcacct)?[-_A-Za-z0-9]{16,}",
        r"|(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}",
        r"|gl(?:pat|rt|dt|ptt)-[-_A-Za-z0-9]{16,}|xox[abeoprs]-[-A-Za-z0-9]{10,}|xapp-[-A-Za-z0-9]{16,}",
        r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[-_A-Za-z0-9]{30,}|ya29\.[-_A-Za-z0-9]{16,}|1//[-_A-Za-z0-9]{30,}",
        r"|hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}",
        r"|pypi-[-_A-Za-z0-9]{30,}|whsec_[A-Za-z0-9+/=]{16,}|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{20,}",
        r"|SG\.[-_A-Za-z0-9]{16,}\.[-_A-Za-z0-9]{16,}|do[por]_v1_[a-f0-9]{32,}|dapi[a-f0-9]{32}",
        r"|hv[sbr]\.[-_A-Za-z0-9]{20,}|glsa_[A-Za-z0-9_]{20,}|lin_api_[A-Za-z0-9]{20,}|nvapi-[-_A-Za-z0-9]{20,}",
        r"|pplx-[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}|ATATT3[-_=A-Za-z0-9]{20,}|sq0(?:csp|atp)-[-_A-Za-z0-9]{20,}",
        r"|PMAK-[-a-f0-9]{20,}|AGE-SECRET-KEY-1[0-9A-Z]{30,}|[0-9]{8,10}:AA[-_A-Za-z0-9]{30,}",
        r"|eyJ[-_A-Za-z0-9]{8,}\.[-_A-Za-z0-9]{8,}(?:\.[-_A-Za-z0-9]*)?)",
    );
    /// `Bearer …` and `Basic …`.
    AUTHORIZATION = r"(?i)\b(?:bearer|basic)[ \t]+(?P<secret>[-._~+/=A-Za-z0-9]{8,})";
    /// The value of `Authorization:`, after the name of a scheme.
    HEADER = concat!(
        r#"(?i)\bauthorization\\*["']?[ \t]*[:=][ \t]*\\*["']?(?P<scheme>[A-Za-z][-A-Za-z0-9]{1,30}[ \t]+)?"#,
        r#"(?P<secret>[^\s"'\\,;]+(?:"[^"\r\n]*")?(?:,[ \t]*[A-Za-z_-]+=(?:"[^"\r\n]*"|[^\s"'\\,;]*))*)"#,
    );
    /// The whole value of `Cookie:` and `Set-Cookie:`.
    COOKIES = concat!(
        r#"(?i)\bcookie\\*["']?[ \t]*[:=][ \t]*\\*["']?(?P<secret>[^\s=;"'\\,]+=[^\s;"'\\]*"#,
        r#"(?:;[ \t]*[^\s=;"'\\]+(?:=[^;"'\\\r\n]*)?)*)"#,
    );
    /// `-u user:password`, as curl takes it.
    USER_FLAG = r#"(?:^|\s)(?:-u|--user)[ \t=]+["']?(?P<secret>[^\s:"'\[]+:[^\s"']+)"#;
    /// `--name value`.
    FLAG = concat!(
        r#"(?:^|[\s"'])--?(?P<name>[A-Za-z][-A-Za-z0-9_]{1,63})[ \t]+"#,
        r#"(?:"(?P<d>[^"\r\n]*)|'(?P<s>[^'\r\n]*)|(?P<secret>[^\s"'\[\-][^\s"']*))"#,
    );
    /// `<name>value</name>`.
    TAGGED = r"<(?P<name>[A-Za-z][-A-Za-z0-9_.:]{1,63})(?:\s[^<>]{0,200})?>(?P<secret>[^<>]+)</";
    /// Addresses with a key in them.
    SECRET_ADDRESS = concat!(
        r"(?i)(?:hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/|api\.telegram\.org/bot)",
        r"(?P<secret>[-A-Za-z0-9_/:]+)",
    );
    /// The user and password of an address.
    USER_INFO = r"://(?P<secret>[^/\s:@\[\]]*:[^/\s@\[\]]+)@";
    /// A name and its value: `name=value`, `"name": "value"`, even escaped inside a string.
    ASSIGNMENT = concat!(
        r#"(?P<name>[A-Za-z][-A-Za-z0-9_.]{1,63})(?P<between>\\*["']?[ \t]*[:=][ \t]*)"#,
        r#"(?:(?P<escaped>\\+")(?P<e>[^"\r\n]*)|(?P<double>")(?P<d>(?:[^"\\\r\n]|\\.)*)"#,
        r#"|(?P<single>')(?P<s>[^'\r\n]*)|(?P<plain>[^\s,;&"'\\{}()\[\]]+))"#,
    );
    /// A field with a name, followed by a field with its value: `"name": "password", "value": "…"`, in JSON or YAML.
    NAME_THEN_VALUE = concat!(
        r#"(?i)\b(?:name|key|field|header|variable|var|parameter|param|env|label)\\*["']?[ \t]*[:=][ \t]*\\*["']?"#,
        r#"(?P<name>[a-z][-a-z0-9_.]{1,63})\\*["']?\s*,?\s*\\*["']?(?:values?|val|content|data|default)\\*["']?"#,
        r#"[ \t]*[:=][ \t]*(?:\\+"(?P<e>[^"\r\n]*)|"(?P<d>(?:[^"\\\r\n]|\\.)*)|'(?P<s>[^'\r\n]*)"#,
        r#"|(?P<secret>[^\s,;&"'\\{}()\[\]]+))"#,
    );
    /// The same fields in the opposite order.
    VALUE_THEN_NAME = concat!(
        r#"(?i)\b(?:values?|val|content|data|default)\\*["']?[ \t]*[:=][ \t]*"#,
        r#"(?:\\+"(?P<e>[^"\r\n]*?)\\+"|"(?P<d>(?:[^"\\\r\n]|\\.)*)"|'(?P<s>[^'\r\n]*)'"#,
        r#"|(?P<secret>[^\s,;&"'\\{}()\[\]]+))\s*,?\s*\\*["']?"#,
        r#"(?:name|key|field|header|variable|var|parameter|param|env|label)\\*["']?[ \t]*[:=][ \t]*\\*["']?"#,
        r#"(?P<name>[a-z][-a-z0-9_.]{1,63})"#,
    );
    /// Invisible characters, the marks around a token, and a backslash that would make an escape.
    UNSEEN = r"\\u\{|[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\x{2800}\x{1d159}\x{27e6}\x{27e7}--[ \n\t]]";
    /// A row of letters and digits that is long enough to be a key.
    LONG_WORD = r"\b[A-Za-z0-9]{32,}\b";
    /// An e-mail address.
    EMAIL = concat!(
        r"[\p{L}\p{N}._%+\-]+(?:@|[\[({](?i:at)[\])}])",
        r"(?:[\p{L}\p{N}\-]+(?:\.|[\[({](?i:dot)[\])}]))+\p{L}{2,}",
    );
    /// A possible international bank account number, in groups of four or without groups.
    BANK_ACCOUNT = r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b";
    /// The marks with which chat templates of common models separate messages, roles and tools.
    TEMPLATE_MARK = concat!(
        // OpenAI, Qwen, Llama 3, Phi, Cohere, Granite, and others in the same style.
        r"<\|/?[A-Za-z0-9_]{2,40}\|>",
        // DeepSeek, with wide bars.
        "|<\u{ff5c}[^<>\u{ff5c}\\[\\]]{1,40}\u{ff5c}>",
        // Llama 2 and Mistral.
        r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|IMG)\]",
        r"|<</?SYS>>",
        // Gemma, and tool calls as Hermes, Qwen and others write them.
        r"|(?i:</?(?:start_of_turn|end_of_turn|tool_calls?|tool_response|function_calls?|function_results)>)",
    );
    /// The marks for the beginning and the end of a text. HTML has the same tags, in pairs.
    TEXT_MARK = r"</?s>|<(?:bos|eos)>";
    /// A line by which older templates begin another speaker's words, with or without the marks of a heading. It is
    /// the first line or follows an empty one.
    FORGED_ROLE = concat!(
        r"(?P<before>\A\s*|\n[ \t]*\n)(?P<role>(?:(?:#{2,3}[ \t]*)?(?:\*\*)?",
        r"(?:Human|Assistant|System|User|Developer|HUMAN|ASSISTANT|SYSTEM|USER|DEVELOPER)(?:\*\*)?[ \t]*:",
        r"|#{2,3}[ \t]*(?:Instructions?|Response|Human|Assistant|System|User)[ \t]*:?[ \t]*\n))",
    );
    /// The best-known phrases with which a text tries to overrule its reader's instructions.
    OVERRULING = concat!(
        r"(?i)\b(?:ignore|disregard|forget|override|overrule|bypass)[\s\-_.*]+(?:(?:all|any|everything|of|the|your|my|these|those)[\s\-_.*]+){0,4}",
        r"(?:previous|prior|above|earlier|preceding|foregoing|former|initial|original)[\s\-_.*]+",
        r"(?:system[\s\-_.*]+)?(?:instructions?|prompts?|directions?|directives?|messages?|commands?|guidelines?|orders?)",
    );
}
