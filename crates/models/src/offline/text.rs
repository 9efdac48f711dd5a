//! Questions, arithmetic, numbers, quotations and paths in a text.

use std::sync::LazyLock;

use regex::Regex;

/// How much of a text is searched for arithmetic, in characters.
const MAX_CHARS: usize = 20_000;

/// Words that begin a question.
const QUESTION_WORDS: &str = "what|how|why|when|where|who|which|is|are|do|does|did|can|should";

/// Words and characters that stand for an operator.
const SIGNS: &[(&str, &str)] = &[
    ("multiplied by", "*"),
    ("times", "*"),
    ("×", "*"),
    ("divided by", "/"),
    ("÷", "/"),
    ("plus", "+"),
    ("minus", "-"),
    ("−", "-"),
    (" percent", "%"),
];

/// The end of a sentence, or an *and* that is followed by another question.
static ENDS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r"(?i)[.?!]\s+|[,;]?\s+and\s+({QUESTION_WORDS})\b")).ok());

static ASKS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r"(?i)^({QUESTION_WORDS})\b|\?$")).ok());

/// Numbers with operators between them, and parentheses, which are balanced afterwards.
static ARITHMETIC: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let number = r"\(*-?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?\)*";
    let sign = r"(?:%?\)*\s*(?:[-+*/^]|mod\b)|%\s*of\b)\s*";
    Regex::new(&format!(
        r"(?:^|[^\w.:])({number}(?:{sign}{number})+%?)(?:$|[^\w.:]|[.:](?:\s|$))"
    ))
    .ok()
});

/// A text in quotation marks. An apostrophe inside a word neither opens nor closes one.
static QUOTED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?:^|\W)(?:"([^"]+)"|“([^”]+)”|'(.+?)')(?:\W|$)"#).ok());

/// The questions of a text: its sentences, divided where *and* joins two questions. A quotation is
/// not divided.
pub(super) fn questions(text: &str) -> impl Iterator<Item = &str> {
    let mut questions = Vec::new();
    let (mut start, mut seen, mut quoted) = (0, 0, false);
    let ends = ENDS.iter().flat_map(|ends| ends.captures_iter(text));
    for found in ends {
        let Some(end) = found.get(0) else { continue };
        quoted ^= text[seen..end.start()].matches('"').count() % 2 == 1;
        seen = end.start();
        if quoted {
            continue;
        }
        // The mark at the end of a sentence belongs to that sentence. A question word belongs to
        // the next.
        let (stop, next) = match found.get(1) {
            Some(word) => (end.start(), word.start()),
            None => (end.start() + 1, end.end()),
        };
        questions.push(&text[start..stop]);
        start = next;
    }
    questions.push(&text[start..]);
    let questions = questions.into_iter().map(str::trim);
    questions.filter(|question| question.chars().any(char::is_alphanumeric))
}

/// Whether a text asks a question rather than for an action.
pub(super) fn asks(text: &str) -> bool {
    ASKS.as_ref().is_some_and(|asks| asks.is_match(text))
}

/// The longest arithmetic expression of a text, in signs that a calculator reads.
pub(super) fn arithmetic(text: &str) -> Option<String> {
    let text: String = text.chars().take(MAX_CHARS).collect();
    let text = SIGNS
        .iter()
        .fold(text.to_lowercase(), |text, (word, sign)| {
            text.replace(word, sign)
        });
    let mut longest: Option<&str> = None;
    for found in ARITHMETIC.as_ref()?.captures_iter(&text) {
        let Some(found) = found.get(1).and_then(|found| balanced(found.as_str())) else {
            continue;
        };
        if !is_date(found) && longest.is_none_or(|longest| found.len() > longest.len()) {
            longest = Some(found);
        }
    }
    longest.map(|expression| expression.replace(',', ""))
}

/// An expression with balanced parentheses. Unbalanced ones at its ends are removed.
fn balanced(expression: &str) -> Option<&str> {
    let closes = |text: &str| text.matches('(').count() == text.matches(')').count();
    let inner = expression.trim_matches(['(', ')']);
    [expression, inner].into_iter().find(|text| closes(text))
}

/// Whether a text is a date such as `2024-05-01` or `01/02/2024`.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split(['-', '/']).collect();
    let digits = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(digits) && parts.iter().any(|part| part.len() == 4)
}

/// A number in a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FoundNumber {
    /// Its digits, without thousands separators.
    pub(super) digits: String,
    /// Whether a percent sign or the word follows.
    pub(super) percent: bool,
}

/// The numbers of a text, in order.
pub(super) fn numbers(text: &str) -> Vec<FoundNumber> {
    let mut words = text.split_whitespace().peekable();
    let mut numbers = Vec::new();
    while let Some(word) = words.next() {
        let next = words.peek().is_some_and(|next| next.starts_with("percent"));
        let digits = word.trim_matches(|c: char| !c.is_alphanumeric());
        let digits = digits.replace(',', "");
        if digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
            && digits.parse::<f64>().is_ok()
        {
            let percent = next || word.contains('%');
            numbers.push(FoundNumber { digits, percent });
        }
    }
    numbers
}

/// The texts in quotation marks, in order.
pub(super) fn quotations(text: &str) -> Vec<String> {
    let found = QUOTED.iter().flat_map(|quoted| quoted.captures_iter(text));
    let inner = found.filter_map(|found| found.iter().skip(1).flatten().next());
    inner.map(|inner| inner.as_str().to_owned()).collect()
}

/// The first word that names a file or a folder.
pub(super) fn path(text: &str) -> Option<&str> {
    let around = |c: char| !c.is_alphanumeric() && !"/._~".contains(c);
    let words = text.split_whitespace();
    let mut words = words.map(|word| word.trim_matches(around).trim_end_matches('.'));
    words.find(|word| {
        let inside = word.trim_matches(['/', '.']);
        inside.chars().any(char::is_alphabetic)
            && (word.contains('/') || inside.contains('.'))
            && !word.contains(['@', ':'])
    })
}

/// The first address of the web, without what ends the sentence behind it.
pub(super) fn address(text: &str) -> Option<&str> {
    let mut words = text.split(|c: char| c.is_whitespace() || "<>\"'()[]".contains(c));
    let found = words.find(|word| word.starts_with("https://") || word.starts_with("http://"));
    found.map(|word| word.trim_end_matches(['.', ',', ';', ':', '!', '?']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_divided_into_its_questions() {
        let cases: [(&str, &[&str]); 6] = [
            (
                "How do I resume a run after a crash, and what is 17% of 2340?",
                &[
                    "How do I resume a run after a crash",
                    "what is 17% of 2340?",
                ],
            ),
            ("What are cats and dogs?", &["What are cats and dogs?"]),
            (
                "Pay 12.5 euro. What is left?",
                &["Pay 12.5 euro.", "What is left?"],
            ),
            (
                "Send \"x and what. y\" to Bob. Is it there?",
                &["Send \"x and what. y\" to Bob.", "Is it there?"],
            ),
            ("What is \n2 * 4?", &["What is \n2 * 4?"]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(questions(text).collect::<Vec<_>>(), expected, "{text}");
        }
        assert!(asks("How do I delete a file") && asks("80 euro with VAT?"));
        assert!(!asks("Delete the file a.txt") && !asks("Please delete it."));
    }

    #[test]
    fn arithmetic_is_found_in_sentences() {
        let cases = [
            ("what is 17% of 2340?", "17% of 2340"),
            ("what is 17 percent of 2,340.50 euro", "17% of 2340.50"),
            ("Calculate 3 + 4 * (2 - 1), please.", "3 + 4 * (2 - 1)"),
            ("How much is 12 times 12 minus 4?", "12 * 12 - 4"),
            ("(see 1 + 1), or (2*2)", "1 + 1"),
            ("is -5 + 3. or", "-5 + 3"),
            ("what is 1/0?", "1/0"),
            ("What is \n2 * 4?", "2 * 4"),
        ];
        for (text, expected) in cases {
            assert_eq!(arithmetic(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "the meeting on 2024-05-01 at 12:30 - 14:00",
            "version 1.2.3 and/or v2-3",
            "80 euro with 19% VAT, 3 of 4",
            "the 3rd - and last - follow-up on 01/02/2024",
            "",
        ] {
            assert_eq!(arithmetic(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_quotations_and_paths_are_taken_whole() {
        let found = numbers("$80.5, 1,234 pieces, (19%) and 7 percent in 2024-01-01 of v2, 3rd");
        let found: Vec<(&str, bool)> = found
            .iter()
            .map(|n| (n.digits.as_str(), n.percent))
            .collect();
        let expected = [("80.5", false), ("1234", false), ("19", true), ("7", true)];
        assert_eq!(found, expected);
        let text = "Publish an event: 'two of Ada's chairs', don't wait";
        assert_eq!(quotations(text), ["two of Ada's chairs"]);
        assert_eq!(
            quotations("refund \"tok_4711\", “now”."),
            ["tok_4711", "now"]
        );
        assert_eq!(quotations("the users' names and Ada's, 5\" wide"), [""; 0]);
        assert_eq!(path("Delete the file docs/a.txt."), Some("docs/a.txt"));
        assert_eq!(path("Read (`a.txt`) at 12.5 or x@y.z"), Some("a.txt"));
        assert_eq!(path("Delete the file. See https://a.b/c"), None);
        assert_eq!(
            address("Delete the file. See (https://a.b/c?d=1)."),
            Some("https://a.b/c?d=1")
        );
        assert_eq!(address("Read a.b/c"), None);
    }
}
