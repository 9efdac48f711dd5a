//! A calculator that gives the right number or an error.
//!
//! The usual libraries were no choice: one computes `sin(pi/4)^2` wrongly, one carries a
//! copyleft licence, and the rest work in binary floating point, where `0.1 + 0.2` is not `0.3`.
//!
//! **Precision.** Sums, products, quotients, remainders and powers with whole exponents are
//! exact fractions of whole numbers of up to 4096 bits, so `1/3*3` is 1 and `2^200` has all its
//! digits. Everything else (`pi`, `sin`, `2^0.5`, a root that does not come out even) is a double
//! with a bound on its error that every operation carries on. A result shows only digits that
//! the bound allows, at most 15, and begins with `≈`; a fraction that is not a short decimal shows
//! 20 digits and `≈`. A question that rounding leaves open, such as the tangent of a right angle,
//! is an error.
//!
//! **What has two readings is an error**, not a guess: `200 + 10%`, `17 % 5`, `log(100)`,
//! `1,234`, `2(3)`. The message says how to write what was meant.

mod functions;
mod number;
mod parser;
#[cfg(test)]
mod tests;
mod token;

use std::fmt;

use ghostlight_actors::{
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, Effect, ToolDefinition},
};
use schemars::JsonSchema;
use serde::Deserialize;

/// The longest expression, in characters.
pub const MAX_EXPRESSION_CHARS: usize = 1000;
/// How deep parentheses, functions and signs may nest.
pub const MAX_EXPRESSION_DEPTH: usize = 64;

/// A `read` tool named `calculator` with one argument, `expression`. See [`calculate`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Calculator;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CalculatorArguments {
    /// The arithmetic expression, such as `17% of 2340`, `2^10 - 1` or `sqrt(2) * pi`.
    expression: String,
}

impl Tool for Calculator {
    fn definition(&self) -> ToolDefinition {
        let description = "Calculates an arithmetic expression and gives the number: \
            + - * / ^ mod, parentheses, percentages such as `17% of 2340`, factorial, the \
            constants pi, tau, e, and the functions sqrt, cbrt, abs, sign, round(x, digits), \
            floor, ceil, trunc, exp, ln, log2, log10, log(x, base), sin, cos, tan, asin, acos, \
            atan (radians), degrees, radians, min, max, sum, mean, gcd, lcm. No units, no \
            thousands separators.";
        ToolDefinition::new("calculator", description)
            .effect(Effect::Read)
            .parameters_of::<CalculatorArguments>()
    }

    async fn call(&self, arguments: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments: CalculatorArguments = arguments.read()?;
        Ok(ToolOutput::text(
            calculate(&arguments.expression)?.to_string(),
        ))
    }
}

/// The number that an expression comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calculation {
    digits: String,
    exact: bool,
}

impl Calculation {
    /// The number in decimal digits, in scientific notation where it is very large or small.
    pub fn digits(&self) -> &str {
        &self.digits
    }

    /// Whether the digits are the whole number, and not rounded.
    pub fn is_exact(&self) -> bool {
        self.exact
    }
}

impl fmt::Display for Calculation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.exact {
            f.write_str("≈ ")?;
        }
        f.write_str(&self.digits)
    }
}

/// Why an expression has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CalculationError {
    /// There is nothing to calculate.
    #[error("the expression is empty")]
    Empty,
    /// The expression is too long.
    #[error("the expression has more than {MAX_EXPRESSION_CHARS} characters: split it")]
    TooLong,
    /// The expression nests too deep.
    #[error("the expression nests deeper than {MAX_EXPRESSION_DEPTH}: split it")]
    TooDeep,
    /// The expression cannot be read, or has two readings.
    #[error("at character {at}: {problem}")]
    Syntax {
        /// Where, in characters from 1.
        at: usize,
        /// The fault, and how to write what was meant.
        problem: String,
    },
    /// There is no such number.
    #[error("{0}")]
    Undefined(String),
    /// The number is too large.
    #[error("the result is too large to be represented")]
    Overflow,
    /// Rounding leaves the answer open.
    #[error("{0} is not certain because of rounding: use whole numbers and fractions, or round()")]
    Imprecise(&'static str),
}

ghostlight_actors::parts_of_system_error!(CalculationError);

/// Calculates an expression.
///
/// - `+ - * /`, also `× · ÷ −`; `mod` takes the divisor's sign.
/// - `^`, also `**` and superscripts, groups from the right and binds tighter than a sign:
///   `-2^2` is -4, `2^3^2` is 512.
/// - `17%` is 17/100 and `17% of 2340` its share; `x + 10%` is refused where the share of `x`
///   would be another number.
/// - `5!`, `√2`, the constants `pi`, `tau`, `e`, and the functions that the tool's description
///   lists; angles are in radians.
///
/// ```
/// use ghostlight::tools::calculator::calculate;
///
/// assert_eq!(calculate("17% of 2340")?.to_string(), "397.8");
/// assert_eq!(calculate("sqrt(2)")?.to_string(), "≈ 1.4142135623731");
/// assert!(calculate("1/0").is_err());
/// # Ok::<(), ghostlight::tools::calculator::CalculationError>(())
/// ```
///
/// # Errors
/// The fault in the expression, or why it has no result.
pub fn calculate(expression: &str) -> Result<Calculation, CalculationError> {
    let tokens = token::tokens(expression)?;
    let (digits, exact) = parser::evaluate(&tokens)?.format()?;
    Ok(Calculation { digits, exact })
}
