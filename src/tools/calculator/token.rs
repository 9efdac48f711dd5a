//! From characters to tokens.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Zero};

use super::{CalculationError, MAX_EXPRESSION_CHARS};

/// The largest exponent of ten that a number may be written with.
const MAX_EXPONENT: i32 = 1000;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Number(BigRational),
    /// A run of superscript digits.
    Superscript(BigRational),
    Name(String),
    Plus,
    Minus,
    Times,
    Divide,
    Power,
    Percent,
    Factorial,
    Root,
    Open,
    Close,
    Comma,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// Where it begins, in characters from 1.
    pub(super) at: usize,
    /// Whether there is a space before it.
    pub(super) spaced: bool,
}

pub(super) fn syntax(at: usize, problem: impl Into<String>) -> CalculationError {
    let problem = problem.into();
    CalculationError::Syntax { at, problem }
}

pub(super) fn tokens(expression: &str) -> Result<Vec<Token>, CalculationError> {
    if expression.chars().nth(MAX_EXPRESSION_CHARS).is_some() {
        return Err(CalculationError::TooLong);
    }
    // `2 + 2 =` asks the same as `2 + 2`.
    let expression = expression.trim_end();
    let expression = expression.strip_suffix('=').unwrap_or(expression);
    let characters: Vec<char> = expression.chars().collect();
    let mut tokens = Vec::new();
    let mut place = 0;
    while let Some(&character) = characters.get(place) {
        if character.is_whitespace() {
            place += 1;
            continue;
        }
        let (kind, end) = token(&characters, place)?;
        let spaced = place > 0 && characters[place - 1].is_whitespace();
        tokens.push(Token {
            kind,
            at: place + 1,
            spaced,
        });
        place = end;
    }
    match tokens.is_empty() {
        true => Err(CalculationError::Empty),
        false => Ok(tokens),
    }
}

/// The token that begins here, and where it ends.
fn token(characters: &[char], start: usize) -> Result<(Kind, usize), CalculationError> {
    let next = characters.get(start + 1);
    let kind = match characters[start] {
        '*' if next == Some(&'*') => return Ok((Kind::Power, start + 2)),
        '0'..='9' | '.' => return number(characters, start),
        '+' | '＋' => Kind::Plus,
        '-' | '−' | '–' | '﹣' | '－' => Kind::Minus,
        '*' | '×' | '·' | '⋅' | '∗' | '✕' => Kind::Times,
        '/' | '÷' | '∕' | '⁄' => Kind::Divide,
        '^' => Kind::Power,
        '%' | '％' => Kind::Percent,
        '!' => Kind::Factorial,
        '√' => Kind::Root,
        '(' => Kind::Open,
        ')' => Kind::Close,
        ',' | ';' => Kind::Comma,
        'π' => Kind::Name(String::from("pi")),
        'τ' => Kind::Name(String::from("tau")),
        character if superscript(character).is_some() => {
            return superscripts(characters, start);
        }
        character if character.is_alphabetic() => {
            let rest = &characters[start..];
            let fits = |c: &&char| c.is_alphanumeric() && superscript(**c).is_none();
            let name: String = rest.iter().take_while(fits).collect();
            let end = start + name.chars().count();
            return Ok((Kind::Name(name.to_lowercase()), end));
        }
        other => {
            let problem = format!("`{other}` is not part of an arithmetic expression");
            return Err(syntax(start + 1, problem));
        }
    };
    Ok((kind, start + 1))
}

fn number(characters: &[char], start: usize) -> Result<(Kind, usize), CalculationError> {
    let digits_from = |from: usize| {
        let rest = characters.get(from..).unwrap_or_default();
        rest.iter().take_while(|c| c.is_ascii_digit()).count()
    };
    let mut end = start + digits_from(start);
    let mut digits: String = characters[start..end].iter().collect();
    let mut exponent = 0;
    if characters.get(end) == Some(&'.') {
        let decimals = digits_from(end + 1);
        digits.extend(&characters[end + 1..end + 1 + decimals]);
        // The bound on the length of an expression makes it small.
        exponent -= decimals as i32;
        end += 1 + decimals;
    }
    if let Some('e' | 'E') = characters.get(end) {
        let sign = usize::from(matches!(characters.get(end + 1), Some('+' | '-')));
        let written = digits_from(end + 1 + sign);
        if written > 0 {
            let after = end + 1 + sign + written;
            let text: String = characters[end + 1..after].iter().collect();
            let value: i32 = text.parse().map_err(|_| CalculationError::Overflow)?;
            exponent = exponent.saturating_add(value);
            end = after;
        }
    }
    let follows = characters.get(end);
    if digits.is_empty()
        || follows.is_some_and(|c| c.is_alphanumeric() && superscript(*c).is_none() || *c == '.')
    {
        let problem = "this is not a number; write an operator between a number and what follows, \
                       such as `2*pi`";
        return Err(syntax(start + 1, problem));
    }
    if exponent.abs() > MAX_EXPONENT {
        return Err(CalculationError::Overflow);
    }
    let digits: BigInt = digits.parse().unwrap_or_else(|_| BigInt::zero());
    Ok((Kind::Number(scaled(digits, exponent)), end))
}

/// Digits times a power of ten.
fn scaled(digits: BigInt, exponent: i32) -> BigRational {
    let power = BigInt::from(10).pow(exponent.unsigned_abs());
    match exponent {
        0.. => BigRational::from_integer(digits * power),
        _ => BigRational::new(digits, power),
    }
}

fn superscript(character: char) -> Option<u32> {
    let digits = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    if character == '⁻' {
        return Some(10);
    }
    let place = digits.iter().position(|digit| *digit == character);
    place.and_then(|place| u32::try_from(place).ok())
}

fn superscripts(characters: &[char], start: usize) -> Result<(Kind, usize), CalculationError> {
    let run = characters[start..].iter().map_while(|c| superscript(*c));
    let run: Vec<u32> = run.collect();
    let (negative, digits) = match run.as_slice() {
        [10, digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.contains(&10) {
        return Err(syntax(
            start + 1,
            "this is not an exponent; write it as `^(..)`",
        ));
    }
    let fold = |number: BigInt, digit: &u32| number * 10u32 + *digit;
    let value = BigRational::from_integer(digits.iter().fold(BigInt::zero(), fold));
    let sign = if negative {
        -BigRational::one()
    } else {
        BigRational::one()
    };
    Ok((Kind::Superscript(value * sign), start + run.len()))
}
