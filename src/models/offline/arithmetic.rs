//! Finding the arithmetic in a sentence.

/// A piece of a sentence, as far as arithmetic is concerned.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Number(String),
    /// An operator between two operands.
    Operator(&'static str),
    Percent,
    /// An operator behind its operand.
    Postfix(&'static str),
    /// A function's name, before its operand.
    Function(String),
    Open,
    Close,
    /// Anything else.
    Word(String),
}

/// A number in a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FoundNumber {
    /// Its digits, without thousands separators.
    pub(super) digits: String,
    /// Whether a percent sign or the word stands behind it.
    pub(super) percent: bool,
}

const FUNCTIONS: &[&str] = &[
    "sqrt", "cbrt", "abs", "round", "floor", "ceil", "exp", "ln", "log2", "log10", "sin", "cos",
    "tan",
];

/// The numbers of a text, in order.
pub(super) fn numbers(text: &str) -> Vec<FoundNumber> {
    let pieces = pieces(text);
    let mut numbers = Vec::new();
    for (place, piece) in pieces.iter().enumerate() {
        if let Piece::Number(digits) = piece {
            let percent = pieces.get(place + 1) == Some(&Piece::Percent);
            let digits = digits.clone();
            numbers.push(FoundNumber { digits, percent });
        }
    }
    numbers
}

/// The longest arithmetic expression of a text, in signs that a calculator reads.
pub(super) fn expression(text: &str) -> Option<String> {
    let pieces = pieces(text);
    let runs = pieces.split(|piece| matches!(piece, Piece::Word(_)));
    let mut best: Option<&[Piece]> = None;
    for run in runs.filter_map(trimmed) {
        // Of two equally long ones the first is meant.
        if best.is_none_or(|best| run.len() > best.len()) {
            best = Some(run);
        }
    }
    match best {
        Some(run) => Some(written(run)),
        None => named_operation(&pieces),
    }
}

/// The part of a run that can be an expression, where there is one.
fn trimmed(mut run: &[Piece]) -> Option<&[Piece]> {
    loop {
        let balance = |piece: &Piece| match piece {
            Piece::Open => 1,
            Piece::Close => -1,
            _ => 0,
        };
        let open: i32 = run.iter().map(balance).sum();
        run = match run {
            [Piece::Operator("-"), Piece::Number(_) | Piece::Open, ..] if ends_well(run) => break,
            [
                Piece::Operator(_) | Piece::Percent | Piece::Postfix(_) | Piece::Close,
                rest @ ..,
            ] => rest,
            [
                rest @ ..,
                Piece::Operator(_) | Piece::Open | Piece::Function(_),
            ] => rest,
            [Piece::Open, rest @ ..] if open > 0 => rest,
            [rest @ .., Piece::Close] if open < 0 => rest,
            _ => break,
        };
    }
    let computes = run
        .iter()
        .skip(1)
        .any(|p| matches!(p, Piece::Operator(_) | Piece::Postfix(_)))
        || matches!(run, [Piece::Function(_), ..]);
    (computes && is_well_formed(run)).then_some(run)
}

fn ends_well(run: &[Piece]) -> bool {
    !matches!(
        run.last(),
        Some(Piece::Operator(_) | Piece::Open | Piece::Function(_))
    )
}

/// Whether operands and operators take turns and parentheses match.
fn is_well_formed(run: &[Piece]) -> bool {
    let (mut depth, mut operand_before) = (0_usize, false);
    for piece in run {
        let fits = match piece {
            Piece::Number(_) => !operand_before,
            Piece::Operator("-") => true,
            Piece::Operator(_) | Piece::Percent | Piece::Postfix(_) => operand_before,
            Piece::Function(_) | Piece::Open => !operand_before,
            Piece::Close => operand_before && depth > 0,
            Piece::Word(_) => false,
        };
        if !fits {
            return false;
        }
        match piece {
            Piece::Open => depth += 1,
            Piece::Close => depth -= 1,
            _ => {}
        }
        operand_before = matches!(
            piece,
            Piece::Number(_) | Piece::Close | Piece::Percent | Piece::Postfix(_)
        );
    }
    operand_before && depth == 0
}

fn written(run: &[Piece]) -> String {
    let mut text = String::new();
    let mut to_close = false;
    for (place, piece) in run.iter().enumerate() {
        match piece {
            Piece::Number(digits) => text.push_str(digits),
            Piece::Operator("-") if place == 0 => text.push('-'),
            Piece::Operator(operator) => {
                text.push(' ');
                text.push_str(operator);
                text.push(' ');
            }
            Piece::Percent => text.push('%'),
            Piece::Postfix(operator) => text.push_str(operator),
            Piece::Open => text.push('('),
            Piece::Close => text.push(')'),
            Piece::Function(name) => {
                text.push_str(name);
                // *square root of 2* has no parentheses.
                if run.get(place + 1) != Some(&Piece::Open) {
                    text.push('(');
                    to_close = true;
                    continue;
                }
            }
            Piece::Word(_) => {}
        }
        if to_close && matches!(piece, Piece::Number(_)) {
            text.push(')');
            to_close = false;
        }
    }
    text
}

/// Operations that are said before their operands: *the sum of 3, 4 and 5*.
fn named_operation(pieces: &[Piece]) -> Option<String> {
    let is_operation = |word: &str| operation(word).is_some();
    let at = pieces
        .iter()
        .position(|p| matches!(p, Piece::Word(w) if is_operation(w)))?;
    let Piece::Word(word) = &pieces[at] else {
        return None;
    };
    let numbers = pieces[at..].iter().filter_map(|piece| match piece {
        Piece::Number(digits) => Some(digits.as_str()),
        _ => None,
    });
    let numbers: Vec<&str> = numbers.collect();
    match (operation(word)?, numbers.as_slice()) {
        ("mean", [_, _, ..]) => Some(format!("mean({})", numbers.join(", "))),
        ("from", [less, more]) => Some(format!("{more} - {less}")),
        ("-" | "/", numbers) if numbers.len() != 2 => None,
        (operator @ ("+" | "-" | "*" | "/"), [_, _, ..]) => {
            Some(numbers.join(&format!(" {operator} ")))
        }
        _ => None,
    }
}

fn operation(word: &str) -> Option<&'static str> {
    match word {
        "sum" | "add" | "total" => Some("+"),
        "product" | "multiply" => Some("*"),
        "divide" | "quotient" => Some("/"),
        "difference" => Some("-"),
        "subtract" => Some("from"),
        "average" | "mean" => Some("mean"),
        _ => None,
    }
}

fn pieces(text: &str) -> Vec<Piece> {
    let characters: Vec<char> = text.chars().collect();
    let mut pieces = Vec::new();
    let mut place = 0;
    while place < characters.len() {
        let (piece, end) = piece(&characters, place);
        pieces.extend(piece);
        place = end;
    }
    joined(pieces)
}

/// The piece that begins here, and where it ends.
fn piece(characters: &[char], start: usize) -> (Option<Piece>, usize) {
    let character = characters[start];
    if character.is_ascii_digit() {
        return number(characters, start);
    }
    if is_times(characters, start) {
        return (Some(Piece::Operator("*")), start + 1);
    }
    if character.is_alphabetic() {
        let fits = |c: &&char| c.is_alphanumeric() || matches!(c, '\'' | '’' | '_');
        let rest = characters[start..].iter();
        let word: String = rest.take_while(fits).collect();
        let end = start + word.chars().count();
        return (Some(Piece::Word(word.to_lowercase())), end);
    }
    let piece = match character {
        '+' => Piece::Operator("+"),
        '-' | '−' | '–' => Piece::Operator("-"),
        '*' if characters.get(start + 1) == Some(&'*') => {
            return (Some(Piece::Operator("^")), start + 2);
        }
        '*' | '×' | '·' => Piece::Operator("*"),
        '/' | '÷' => Piece::Operator("/"),
        '^' => Piece::Operator("^"),
        '%' => Piece::Percent,
        '²' => Piece::Postfix("^2"),
        '³' => Piece::Postfix("^3"),
        '√' => Piece::Function(String::from("sqrt")),
        '(' => Piece::Open,
        ')' => Piece::Close,
        character if character.is_whitespace() || "$€£".contains(character) => {
            return (None, start + 1);
        }
        other => Piece::Word(other.to_string()),
    };
    (Some(piece), start + 1)
}

/// A number, or a word that begins with a digit: a date, a version, a time, an ordinal.
fn number(characters: &[char], start: usize) -> (Option<Piece>, usize) {
    let belongs = |c: &&char| c.is_alphanumeric() || matches!(c, '.' | ',' | ':' | '-' | '/' | '_');
    let rest = &characters[start..];
    let whole: String = rest.iter().take_while(belongs).collect();
    let whole = whole.trim_end_matches(['.', ',', ':', '-', '/']);
    if is_date_or_time(whole) || whole.matches('.').count() > 1 && !whole.contains(['-', '/']) {
        return (
            Some(Piece::Word(whole.to_owned())),
            start + whole.chars().count(),
        );
    }
    let mut digits = String::new();
    let mut end = 0;
    while let Some(&character) = rest.get(end) {
        let digit_follows = rest.get(end + 1).is_some_and(char::is_ascii_digit);
        match character {
            '0'..='9' => digits.push(character),
            '.' if digit_follows && !digits.contains('.') => digits.push('.'),
            ',' if !digits.contains('.') && is_group(&rest[end + 1..]) => {}
            _ => break,
        }
        end += 1;
    }
    let glued = rest
        .get(end)
        .is_some_and(|c| c.is_alphabetic() || *c == '_');
    if glued && !is_times(characters, start + end) {
        let fits = |c: &&char| c.is_alphanumeric() || **c == '_';
        let word: String = rest.iter().take_while(fits).collect();
        let end = start + word.chars().count();
        return (Some(Piece::Word(word)), end);
    }
    (Some(Piece::Number(digits)), start + end)
}

/// Whether this is the sign of `3x4`, and not that of `0x4`.
fn is_times(characters: &[char], place: usize) -> bool {
    let before = &characters[..place];
    let digit_after = characters.get(place + 1).is_some_and(char::is_ascii_digit);
    let number_before = match before {
        ['0'] | [.., ' ', '0'] => false,
        [.., digit] => digit.is_ascii_digit(),
        [] => false,
    };
    characters[place] == 'x' && digit_after && number_before
}

/// Whether three digits follow, and then no more.
fn is_group(rest: &[char]) -> bool {
    let digits = rest.iter().take_while(|c| c.is_ascii_digit()).count();
    digits == 3
}

fn is_date_or_time(word: &str) -> bool {
    if word.contains(':') {
        return true;
    }
    ['-', '/', '.'].into_iter().any(|separator| {
        let parts: Vec<&str> = word.split(separator).collect();
        let numeric = parts
            .iter()
            .all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
        let year = |part: &str| part.len() == 4;
        parts.len() == 3 && numeric && (year(parts[0]) || year(parts[2]))
    })
}

/// Turns words that stand for signs into them.
fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    const PHRASES: &[(&[&str], Piece)] = &[
        (&["to", "the", "power", "of"], Piece::Operator("^")),
        (&["square", "root", "of"], Piece::Word(String::new())),
        (&["multiplied", "by"], Piece::Operator("*")),
        (&["divided", "by"], Piece::Operator("/")),
        (&["per", "cent"], Piece::Percent),
        (&["percent"], Piece::Percent),
        (&["plus"], Piece::Operator("+")),
        (&["minus"], Piece::Operator("-")),
        (&["times"], Piece::Operator("*")),
        (&["modulo"], Piece::Operator("mod")),
        (&["mod"], Piece::Operator("mod")),
        (&["squared"], Piece::Postfix("^2")),
        (&["cubed"], Piece::Postfix("^3")),
    ];
    let mut joined: Vec<Piece> = Vec::with_capacity(pieces.len());
    let mut rest = pieces.as_slice();
    while let Some(first) = rest.first() {
        let starts = |phrase: &[&str]| {
            let mut pairs = phrase.iter().zip(rest);
            rest.len() >= phrase.len()
                && pairs.all(|(word, piece)| matches!(piece, Piece::Word(w) if w == word))
        };
        if let Some((phrase, piece)) = PHRASES.iter().find(|(phrase, _)| starts(phrase)) {
            joined.push(match piece {
                Piece::Word(_) => Piece::Function(String::from("sqrt")),
                piece => piece.clone(),
            });
            rest = &rest[phrase.len()..];
            continue;
        }
        let between_numbers = matches!(joined.last(), Some(Piece::Number(_)))
            && matches!(rest.get(1), Some(Piece::Number(_)));
        joined.push(match first {
            Piece::Word(word) if word == "of" && joined.last() == Some(&Piece::Percent) => {
                Piece::Operator("of")
            }
            Piece::Word(word) if word == "x" && between_numbers => Piece::Operator("*"),
            Piece::Word(word) if FUNCTIONS.contains(&word.as_str()) => {
                Piece::Function(word.clone())
            }
            other => other.clone(),
        });
        rest = &rest[1..];
    }
    joined
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
            ("sqrt(16) + 5²", "sqrt(16) + 5^2"),
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
