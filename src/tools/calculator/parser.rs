//! Reads and evaluates an expression by operator precedence.
//!
//! The method is Vaughan Pratt's (*Top down operator precedence*, 1973): each operator has a
//! strength with which it pulls the operand beside it.

use super::{
    CalculationError::{self, TooDeep},
    MAX_EXPRESSION_DEPTH, functions,
    number::Number,
    token::{Kind, Token, syntax},
};

type Result<T> = std::result::Result<T, CalculationError>;

/// Strengths, from the weakest.
const SUM: u8 = 10;
const PRODUCT: u8 = 20;
const SHARE: u8 = 30;
const SIGN: u8 = 40;
const POWER: u8 = 50;
const ROOT: u8 = 60;

const REMAINDER: &str = "`a % b` has two readings: write `a mod b` for the remainder, or `a% of b` \
                         for the share";

#[derive(Clone, Debug)]
struct Operand {
    number: Number,
    /// Whether it is written as a percentage, so that a sum with it may mean a share.
    percent: bool,
}

impl Operand {
    fn plain(number: Number) -> Self {
        Self {
            number,
            percent: false,
        }
    }
}

pub(super) fn evaluate(tokens: &[Token]) -> Result<Number> {
    let mut parser = Parser {
        tokens,
        place: 0,
        depth: 0,
    };
    let operand = parser.expression(0)?;
    match parser.peek() {
        None => Ok(operand.number),
        Some(Kind::Close) => Err(parser.refuse("this parenthesis was never opened")),
        Some(Kind::Comma) => Err(parser.refuse(
            "a comma separates the arguments of a function; write numbers without thousands \
             separators and with a decimal point",
        )),
        Some(_) => Err(parser.refuse("an operator is missing before this")),
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    place: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.place).map(|token| &token.kind)
    }

    fn refuse(&self, problem: impl Into<String>) -> CalculationError {
        let last = self.tokens.last().map_or(1, |token| token.at + 1);
        let at = self.tokens.get(self.place).map_or(last, |token| token.at);
        syntax(at, problem)
    }

    /// Everything from here on that is held together more strongly than by `least`.
    fn expression(&mut self, least: u8) -> Result<Operand> {
        self.depth += 1;
        if self.depth > MAX_EXPRESSION_DEPTH {
            return Err(TooDeep);
        }
        let mut left = self.operand()?;
        loop {
            left = match self.postfix(left)? {
                (left, true) => left,
                (left, false) => match self.infix(left, least)? {
                    (left, true) => left,
                    (left, false) => {
                        self.depth -= 1;
                        return Ok(left);
                    }
                },
            };
        }
    }

    fn operand(&mut self) -> Result<Operand> {
        let Some(kind) = self.peek().cloned() else {
            return Err(self.refuse("the expression ends where a number is expected"));
        };
        let start = self.place;
        self.place += 1;
        match kind {
            Kind::Number(number) => Ok(Operand::plain(Number::exact(number)?)),
            Kind::Minus => {
                let operand = self.expression(SIGN)?;
                let (number, percent) = (operand.number.negate(), operand.percent);
                Ok(Operand { number, percent })
            }
            Kind::Plus => self.expression(SIGN),
            Kind::Root => {
                let operand = self.expression(ROOT)?;
                let root = functions::call("sqrt", &[operand.number])?;
                Ok(Operand::plain(root))
            }
            Kind::Open => {
                let operand = self.expression(0)?;
                self.close()?;
                Ok(operand)
            }
            Kind::Name(name) => self.name(&name, start),
            _ => {
                self.place = start;
                Err(self.refuse("a number is expected here"))
            }
        }
    }

    fn close(&mut self) -> Result<()> {
        match self.peek() {
            Some(Kind::Close) => self.place += 1,
            Some(Kind::Comma) => {
                return Err(self.refuse("write numbers without thousands separators"));
            }
            Some(_) => return Err(self.refuse("an operator is missing before this")),
            None => return Err(self.refuse("a closing parenthesis is missing")),
        }
        Ok(())
    }

    fn name(&mut self, name: &str, start: usize) -> Result<Operand> {
        if let Some(constant) = functions::constant(name) {
            return Ok(Operand::plain(constant?));
        }
        if !functions::is_function(name) {
            self.place = start;
            let hint = match name {
                "x" => "; write `*` for a multiplication",
                _ => "",
            };
            return Err(self.refuse(format!("there is no constant or function `{name}`{hint}")));
        }
        if self.peek() != Some(&Kind::Open) {
            return Err(self.refuse(format!("write the arguments in parentheses: {name}(..)")));
        }
        self.place += 1;
        let mut arguments = Vec::new();
        if self.peek() != Some(&Kind::Close) {
            arguments.push(self.expression(0)?.number);
            while self.peek() == Some(&Kind::Comma) {
                self.place += 1;
                arguments.push(self.expression(0)?.number);
            }
        }
        self.close()?;
        Ok(Operand::plain(functions::call(name, &arguments)?))
    }

    /// Reads the operators behind an operand that belong to it alone. It tells whether there were any.
    fn postfix(&mut self, left: Operand) -> Result<(Operand, bool)> {
        let operand = match self.peek().cloned() {
            Some(Kind::Percent) if left.percent => {
                return Err(self.refuse("a percentage of a percentage: write `of` between them"));
            }
            Some(Kind::Percent) if self.looks_like_remainder() => {
                return Err(self.refuse(REMAINDER));
            }
            Some(Kind::Percent) => Operand {
                number: left.number.divide(&Number::whole(100))?,
                percent: true,
            },
            Some(Kind::Factorial) => Operand::plain(functions::factorial(&left.number)?),
            Some(Kind::Superscript(exponent)) => {
                Operand::plain(left.number.power(&Number::Exact(exponent))?)
            }
            _ => return Ok((left, false)),
        };
        self.place += 1;
        Ok((operand, true))
    }

    /// Whether this is the `%` of `17 % -5`, and not that of `17 % - 5` or `17% -5`.
    fn looks_like_remainder(&self) -> bool {
        match self.tokens.get(self.place..).unwrap_or_default() {
            [percent, sign, operand, ..] => {
                let is_sign = matches!(sign.kind, Kind::Minus | Kind::Plus);
                percent.spaced && is_sign && sign.spaced && !operand.spaced
            }
            _ => false,
        }
    }

    /// An operator between two operands, where it is stronger than `least`.
    fn infix(&mut self, left: Operand, least: u8) -> Result<(Operand, bool)> {
        let kind = self.peek().cloned();
        let (strength, right_least) = match &kind {
            Some(Kind::Plus | Kind::Minus) => (SUM, SUM),
            Some(Kind::Times | Kind::Divide) => (PRODUCT, PRODUCT),
            Some(Kind::Name(name)) if name == "mod" => (PRODUCT, PRODUCT),
            // One less for the right side, so that they group from there.
            Some(Kind::Name(name)) if name == "of" => (SHARE, SHARE - 1),
            Some(Kind::Power) => (POWER, POWER - 1),
            Some(Kind::Number(_)) if left.percent => {
                return Err(self.refuse(REMAINDER));
            }
            _ => return Ok((left, false)),
        };
        if strength <= least {
            return Ok((left, false));
        }
        let operator = self.place;
        self.place += 1;
        let right = self.expression(right_least)?;
        let number = match kind {
            Some(Kind::Plus) => return Ok((self.sum(left, right, operator)?, true)),
            Some(Kind::Minus) => {
                let (number, percent) = (right.number.negate(), right.percent);
                let right = Operand { number, percent };
                return Ok((self.sum(left, right, operator)?, true));
            }
            Some(Kind::Times) => left.number.multiply(&right.number)?,
            Some(Kind::Divide) => left.number.divide(&right.number)?,
            Some(Kind::Power) => left.number.power(&right.number)?,
            Some(Kind::Name(name)) if name == "mod" => left.number.modulo(&right.number)?,
            _ if left.percent => left.number.multiply(&right.number)?,
            _ => {
                self.place = operator;
                let problem = "`of` needs a percentage before it; write `*` or `/` instead";
                return Err(self.refuse(problem));
            }
        };
        Ok((Operand::plain(number), true))
    }

    /// A sum. `200 + 10%` is 200.1 to a mathematician and 220 to a shop, so it is refused,
    /// unless both read the same.
    fn sum(&mut self, left: Operand, right: Operand, operator: usize) -> Result<Operand> {
        let sum = left.number.add(&right.number)?;
        let percent = left.percent && right.percent;
        if right.percent && !left.percent {
            let share = left.number.multiply(&right.number)?;
            let shop = left.number.add(&share)?;
            let same = match (sum.as_exact(), shop.as_exact()) {
                (Some(sum), Some(shop)) => sum == shop,
                _ => false,
            };
            if !same {
                self.place = operator;
                let problem = "adding a percentage has two readings: write `x * (1 + 10%)` for \
                               x and 10% of it, or `x + 10/100`";
                return Err(self.refuse(problem));
            }
        }
        Ok(Operand {
            number: sum,
            percent,
        })
    }
}
