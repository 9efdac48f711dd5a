//! Finding the arithmetic in a sentence.

use std::sync::LazyLock;

use regex::Regex;

/// How deep parentheses, signs and functions nest in what is taken for an expression.
const MAX_DEPTH: usize = 32;
/// How much of a text is looked at, in characters.
const MAX_CHARS: usize = 20_000;

/// Words and characters that stand for signs, in lower case, and the signs.
const SIGNS: &[(&str, &str)] = &[
    (r"\bto the power of\b|\*\*", "^"),
    (r"\bsquare root of\b|√", " sqrt "),
    (r"\bmultiplied by\b|\btimes\b|[×·]", "*"),
    (r"\bdivided by\b|÷", "/"),
    (r"\bper ?cent\b", "%"),
    (r"\bplus\b", "+"),
    (r"\bminus\b|[−–]", "-"),
    (r"\bmodulo\b", "mod"),
    (r"\bsquared\b|²", "^2"),
    (r"\bcubed\b|³", "^3"),
    (r"[$€£]", ""),
    // The sign of `3x4`, and not that of `0x4`.
    (r"([1-9]|[0-9][0-9])\s*x\s*([0-9])", "$1*$2"),
];

/// Tokens, the more special ones first: dates, times, versions, words that begin with a digit; numbers, which may
/// be several between commas; words; anything else.
const TOKENS: &str = r"(?x)
    (?<other> [0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}\b | [0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{4}\b
            | [0-9]+(?::[0-9]+)+ | [0-9]+(?:\.[0-9]+){2,} | [0-9][0-9.,]*[\p{Alphabetic}_]\w* )
  | (?<numbers> [0-9]+(?:,[0-9]+)*(?:\.[0-9]+)? )
  | (?<word> [\p{Alphabetic}_][\w'’]* )
  | \S";

/// What is found in a text, compiled once.
struct Patterns {
    /// What stands for a sign, and the sign.
    signs: Vec<(Regex, &'static str)>,
    tokens: Regex,
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    let signs = SIGNS
        .iter()
        .map(|(pattern, sign)| Some((Regex::new(pattern).ok()?, *sign)));
    Some(Patterns {
        signs: signs.collect::<Option<_>>()?,
        tokens: Regex::new(TOKENS).ok()?,
    })
});

const FUNCTIONS: &[&str] = &[
    "sqrt", "cbrt", "abs", "round", "floor", "ceil", "exp", "ln", "log2", "log10", "sin", "cos",
    "tan",
];

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(String),
    /// A word, or a character that stands for itself.
    Other(String),
}

impl Token {
    fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Other(text) if text == wanted)
    }
}

/// A number in a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FoundNumber {
    /// Its digits, without thousands separators.
    pub(super) digits: String,
    /// Whether a percent sign or the word stands behind it.
    pub(super) percent: bool,
}

/// The numbers of a text, in order.
pub(super) fn numbers(text: &str) -> Vec<FoundNumber> {
    let tokens = tokens(text);
    let found = tokens.iter().enumerate().filter_map(|(at, token)| {
        let Token::Number(digits) = token else {
            return None;
        };
        Some(FoundNumber {
            digits: digits.clone(),
            percent: tokens.get(at + 1).is_some_and(|next| next.is("%")),
        })
    });
    found.collect()
}

/// The longest arithmetic expression of a text, in signs that a calculator reads.
pub(super) fn expression(text: &str) -> Option<String> {
    let tokens = tokens(text);
    let (mut longest, mut at) = (None::<Parsed>, 0);
    while at < tokens.len() {
        let Some(parsed) = parse(&tokens[at..], 0) else {
            at += 1;
            continue;
        };
        at += parsed.length;
        // Of two equally long ones the first is meant.
        if parsed.computes && longest.as_ref().is_none_or(|l| parsed.length > l.length) {
            longest = Some(parsed);
        }
    }
    match longest {
        Some(parsed) => Some(parsed.text),
        None => named_operation(&tokens),
    }
}

/// An expression at the beginning of some tokens.
struct Parsed {
    text: String,
    /// How many tokens it has.
    length: usize,
    /// Whether anything is computed in it.
    computes: bool,
}

/// Operands with operators between them, as many as there are.
fn parse(tokens: &[Token], depth: usize) -> Option<Parsed> {
    let mut left = operand(tokens, depth)?;
    while let Some(Token::Other(sign)) = tokens.get(left.length) {
        let share = sign == "of" && left.text.ends_with('%');
        if !share && !["+", "-", "*", "/", "^", "mod"].contains(&sign.as_str()) {
            break;
        }
        let Some(right) = operand(&tokens[left.length + 1..], depth) else {
            break;
        };
        left.text.push_str(&format!(" {sign} {}", right.text));
        left.length += 1 + right.length;
        left.computes = true;
    }
    Some(left)
}

/// A number, an expression in parentheses or a function, with its sign and percent signs.
fn operand(tokens: &[Token], depth: usize) -> Option<Parsed> {
    let (first, rest) = tokens.split_first().filter(|_| depth < MAX_DEPTH)?;
    let mut parsed = match first {
        Token::Number(digits) => Parsed {
            text: digits.clone(),
            length: 1,
            computes: false,
        },
        Token::Other(sign) if sign == "-" => within(operand(rest, depth + 1)?, "-", "", 1),
        Token::Other(sign) if sign == "(" => {
            let inner = parse(rest, depth + 1)?;
            rest.get(inner.length).filter(|end| end.is(")"))?;
            within(inner, "(", ")", 2)
        }
        Token::Other(name) if FUNCTIONS.contains(&name.as_str()) => {
            let argument = operand(rest, depth + 1)?;
            // *square root of 2* has no parentheses.
            let mut called = match argument.text.starts_with('(') {
                true => within(argument, name, "", 1),
                false => within(argument, &format!("{name}("), ")", 1),
            };
            called.computes = true;
            called
        }
        Token::Other(_) => return None,
    };
    while tokens.get(parsed.length).is_some_and(|next| next.is("%")) {
        parsed.text.push('%');
        parsed.length += 1;
    }
    Some(parsed)
}

fn within(inner: Parsed, before: &str, behind: &str, more: usize) -> Parsed {
    Parsed {
        text: format!("{before}{}{behind}", inner.text),
        length: inner.length + more,
        computes: inner.computes,
    }
}

/// Operations that are said before their operands: *the sum of 3, 4 and 5*.
fn named_operation(tokens: &[Token]) -> Option<String> {
    let operation = |token: &Token| match token {
        Token::Other(word) => Some(match word.as_str() {
            "sum" | "add" | "total" => "+",
            "product" | "multiply" => "*",
            "divide" | "quotient" => "/",
            "difference" => "-",
            "subtract" => "from",
            "average" | "mean" => "mean",
            _ => return None,
        }),
        Token::Number(_) => None,
    };
    let (at, operation) = tokens
        .iter()
        .enumerate()
        .find_map(|(at, token)| Some((at, operation(token)?)))?;
    let numbers = tokens[at..].iter().filter_map(|token| match token {
        Token::Number(digits) => Some(digits.as_str()),
        Token::Other(_) => None,
    });
    let numbers: Vec<&str> = numbers.collect();
    match (operation, numbers.as_slice()) {
        ("mean", [_, _, ..]) => Some(format!("mean({})", numbers.join(", "))),
        ("from", [less, more]) => Some(format!("{more} - {less}")),
        ("-" | "/", [_, _]) | ("+" | "*", [_, _, ..]) => {
            Some(numbers.join(&format!(" {operation} ")))
        }
        _ => None,
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let Some(patterns) = &*PATTERNS else {
        return Vec::new();
    };
    let text: String = text.chars().take(MAX_CHARS).collect();
    let mut text = text.to_lowercase();
    for (words, sign) in &patterns.signs {
        text = words.replace_all(&text, *sign).into_owned();
    }
    let mut tokens = Vec::new();
    for found in patterns.tokens.captures_iter(&text) {
        match found.name("numbers") {
            Some(numbers) => tokens.extend(between_commas(numbers.as_str())),
            None => tokens.push(Token::Other(found[0].to_owned())),
        }
    }
    tokens
}

/// One number with thousands separators, or several.
fn between_commas(text: &str) -> Vec<Token> {
    let whole = text.split('.').next().unwrap_or_default();
    if whole.split(',').skip(1).all(|group| group.len() == 3) {
        return vec![Token::Number(text.replace(',', ""))];
    }
    let numbers = text
        .split(',')
        .map(|digits| Token::Number(digits.to_owned()));
    numbers
        .flat_map(|number| [Token::Other(",".to_owned()), number])
        .skip(1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_found_in_sentences() {
        let cases = [
            ("what is 17% of 2340?", "17% of 2340"),
            ("what is 17 percent of 2,340.50 euro", "17% of 2340.50"),
            ("Calculate 3 + 4 * (2 - 1), please.", "3 + 4 * (2 - 1)"),
            ("How much is 12 times 12 minus 4?", "12 * 12 - 4"),
            ("what is 144 divided by 12", "144 / 12"),
            ("2 to the power of 10", "2 ^ 10"),
            ("the square root of 2", "sqrt(2)"),
            ("sqrt(16) + 5²", "sqrt(16) + 5 ^ 2"),
            ("10x4", "10 * 4"),
            ("add 3,4 and 1,000", "3 + 4 + 1000"),
            ("3x4", "3 * 4"),
            ("$80 plus 5", "80 + 5"),
            ("is -5 + 3 negative", "-5 + 3"),
            ("the sum of 3, 4 and 5", "3 + 4 + 5"),
            ("subtract 3 from 10", "10 - 3"),
            ("the average of 2 and 4", "mean(2, 4)"),
            ("(see 1 + 1", "1 + 1"),
            ("7 mod 3", "7 mod 3"),
        ];
        for (text, expected) in cases {
            assert_eq!(expression(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_arithmetic_is_left_alone() {
        for text in [
            "How do I resume a run after a crash?",
            "the meeting on 2024-05-01 at 12:30",
            "version 1.2.3 and/or v2-beta",
            "80 euro with 19% VAT",
            "the 3rd - and last - follow-up",
            "add a file",
            "on 01/02/2024",
            "the address 0x10",
            "",
        ] {
            assert_eq!(expression(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_come_without_separators_and_know_percent() {
        let found = numbers("80.5 euro, 1,234 pieces, 19% and 7 percent in 2024-01-01 of v2");
        let found: Vec<(&str, bool)> = found
            .iter()
            .map(|n| (n.digits.as_str(), n.percent))
            .collect();
        assert_eq!(
            found,
            [("80.5", false), ("1234", false), ("19", true), ("7", true)]
        );
    }
}
