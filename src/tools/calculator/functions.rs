//! Constants and functions.

use std::f64::consts;

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

use super::{
    CalculationError::{self, Imprecise, Overflow, Undefined},
    number::{Number, rounding},
};

type Result<T = Number> = std::result::Result<T, CalculationError>;

/// The largest number whose factorial is kept exact, which is 3987 bits long.
const MAX_FACTORIAL: u32 = 480;
/// How many digits `round` may be asked for on either side of the point.
const MAX_ROUND_DIGITS: i32 = 100;

pub(super) fn constant(name: &str) -> Option<Result> {
    let value = match name {
        "pi" => consts::PI,
        "tau" => consts::TAU,
        "e" => consts::E,
        _ => return None,
    };
    Some(Number::rounded(value, 0.0))
}

pub(super) fn is_function(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "sqrt",
        "cbrt",
        "abs",
        "sign",
        "round",
        "floor",
        "ceil",
        "trunc",
        "exp",
        "ln",
        "log2",
        "log10",
        "log",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "degrees",
        "radians",
        "factorial",
        "pow",
        "mod",
        "min",
        "max",
        "sum",
        "mean",
        "avg",
        "gcd",
        "lcm",
    ];
    NAMES.contains(&name)
}

/// Calls a function by its name.
pub(super) fn call(name: &str, arguments: &[Number]) -> Result {
    match (name, arguments) {
        ("min" | "max" | "sum" | "mean" | "avg" | "gcd" | "lcm", [first, rest @ ..]) => {
            fold(name, first, rest)
        }
        ("round", [x, digits]) => round_digits(x, digits),
        ("log", [x, base]) => {
            let whole = base.as_whole().and_then(ToPrimitive::to_u32);
            match whole.and_then(|base| whole_logarithm(x, base)) {
                Some(exact) => exact,
                None => logarithm(x)?.divide(&logarithm(base)?),
            }
        }
        ("pow", [base, exponent]) => base.power(exponent),
        ("mod", [a, b]) => a.modulo(b),
        ("log", [_]) => {
            let message = "log(x) has two readings: write ln(x), log10(x) or log(x, base)";
            Err(Undefined(message.to_owned()))
        }
        (_, [x]) => unary(name, x),
        (_, arguments) => {
            let count = arguments.len();
            Err(Undefined(format!("{name} does not take {count} arguments")))
        }
    }
}

fn unary(name: &str, x: &Number) -> Result {
    match name {
        "sqrt" => root(x, 2),
        "cbrt" => root(x, 3),
        "abs" => Ok(if is_negative(x) {
            x.clone().negate()
        } else {
            x.clone()
        }),
        "sign" => sign(x),
        "round" => step(x, |number| number.round(), |double| double.round()),
        "floor" => step(x, |number| number.floor(), |double| double.floor()),
        "ceil" => step(x, |number| number.ceil(), |double| double.ceil()),
        "trunc" => step(x, |number| number.trunc(), |double| double.trunc()),
        "factorial" => factorial(x),
        "ln" => logarithm(x),
        "log2" => whole_logarithm(x, 2).unwrap_or_else(|| positive(x, f64::log2)),
        "log10" => whole_logarithm(x, 10).unwrap_or_else(|| positive(x, f64::log10)),
        "exp" => monotone(x, f64::exp),
        "sin" => wave(x, f64::sin),
        "cos" => wave(x, f64::cos),
        "tan" => tangent(x),
        "asin" => arc(x, f64::asin),
        "acos" => arc(x, f64::acos),
        "atan" => monotone(x, f64::atan),
        "sinh" => monotone(x, f64::sinh),
        // It is no monotone function, but a convex one, so its ends bound it as well.
        "cosh" => monotone(x, f64::cosh),
        "tanh" => monotone(x, f64::tanh),
        "degrees" => x.multiply(&Number::whole(180))?.divide(&pi()?),
        "radians" => x.multiply(&pi()?)?.divide(&Number::whole(180)),
        _ => Err(Undefined(format!("{name} does not take 1 argument"))),
    }
}

fn pi() -> Result {
    Number::rounded(consts::PI, 0.0)
}

fn is_negative(x: &Number) -> bool {
    match x {
        Number::Exact(number) => number.is_negative(),
        Number::Rounded { value, .. } => *value < 0.0,
    }
}

/// A function that only rises or only falls: its values at the ends bound the error. Where an
/// end lies outside of its domain, it has no value there and the other end serves.
fn monotone(x: &Number, function: fn(f64) -> f64) -> Result {
    if x.is_zero() {
        return exact_at_zero(function(0.0));
    }
    let (value, error) = x.double()?;
    let result = function(value);
    if result.is_nan() {
        return Err(Undefined(String::from("the function is not defined there")));
    }
    let off = |end: f64| match (function(end) - result).abs() {
        distance if distance.is_nan() => 0.0,
        distance => distance,
    };
    let error = off(value - error).max(off(value + error));
    // Library functions are right to within one unit of the last place, not half of one.
    Number::rounded(result, error + rounding(result))
}

/// sin, tan, sinh.. of 0 are 0, and exp, cos, cosh of 0 are 1.
fn exact_at_zero(result: f64) -> Result {
    match result {
        0.0 => Ok(Number::whole(0)),
        1.0 => Ok(Number::whole(1)),
        other => Number::rounded(other, 0.0),
    }
}

fn wave(x: &Number, function: fn(f64) -> f64) -> Result {
    if x.is_zero() {
        return exact_at_zero(function(0.0));
    }
    let (value, error) = x.double()?;
    if error > 0.1 {
        return Err(Imprecise("the angle"));
    }
    // Neither sine nor cosine is ever steeper than 1.
    let result = function(value);
    Number::rounded(result, error + rounding(result))
}

fn tangent(x: &Number) -> Result {
    let sine = wave(x, f64::sin)?;
    sine.divide(&wave(x, f64::cos)?)
}

/// Arc sine and arc cosine, which end at 1 and -1.
fn arc(x: &Number, function: fn(f64) -> f64) -> Result {
    let (value, error) = x.double()?;
    let outside = match x {
        Number::Exact(number) => number.abs() > BigRational::one(),
        Number::Rounded { .. } => value.abs() - error > 1.0,
    };
    if outside {
        let message = "arc sine and arc cosine are defined from -1 to 1 only";
        return Err(Undefined(message.to_owned()));
    }
    let value = value.clamp(-1.0, 1.0);
    match x {
        Number::Exact(_) => monotone(x, function),
        Number::Rounded { .. } => monotone(&Number::Rounded { value, error }, function),
    }
}

fn positive(x: &Number, function: fn(f64) -> f64) -> Result {
    let (value, error) = x.double()?;
    if x.is_zero() || value < 0.0 && value + error < 0.0 {
        let message = "a logarithm is defined for positive numbers only";
        return Err(Undefined(message.to_owned()));
    }
    if value <= error {
        return Err(Imprecise(
            "whether this is the logarithm of a positive number",
        ));
    }
    monotone(x, function)
}

fn logarithm(x: &Number) -> Result {
    match x.as_exact() {
        Some(number) if number.is_one() => Ok(Number::whole(0)),
        _ => positive(x, f64::ln),
    }
}

/// The logarithm of a power of a base, where the number is one.
fn whole_logarithm(x: &Number, base: u32) -> Option<Result> {
    let number = x.as_exact().filter(|n| n.is_positive() && base > 1)?;
    let (value, negative) = match number.is_integer() {
        true => (number.numer(), false),
        false if number.numer().is_one() => (number.denom(), true),
        false => return None,
    };
    let exponent = value.to_f64()?.log(f64::from(base)).round();
    let exponent = exponent.to_u32()?;
    let same = Pow::pow(BigInt::from(base), exponent) == *value;
    let exponent = Number::whole(exponent);
    same.then(|| {
        Ok(if negative {
            exponent.negate()
        } else {
            exponent
        })
    })
}

/// A square or cube root, exact where it comes out even.
fn root(x: &Number, degree: u32) -> Result {
    if degree == 2 {
        let (value, error) = x.double()?;
        let negative = match x {
            Number::Exact(number) => number.is_negative(),
            Number::Rounded { .. } => value + error < 0.0,
        };
        if negative {
            let message = "the square root of a negative number is not a real number";
            return Err(Undefined(message.to_owned()));
        }
        if value < 0.0 {
            return Err(Imprecise("whether this is the root of a negative number"));
        }
    }
    if let Some(number) = x.as_exact() {
        let (numer, denom) = (
            number.numer().nth_root(degree),
            number.denom().nth_root(degree),
        );
        let even = |root: &BigInt, power: &BigInt| Pow::pow(root, degree) == *power;
        if even(&numer, number.numer()) && even(&denom, number.denom()) {
            return Ok(Number::Exact(BigRational::new(numer, denom)));
        }
    }
    monotone(x, if degree == 2 { f64::sqrt } else { f64::cbrt })
}

fn sign(x: &Number) -> Result {
    match x {
        Number::Exact(number) => Ok(Number::Exact(number.signum())),
        Number::Rounded { value, error } if value.abs() > *error => {
            Ok(Number::whole(if *value > 0.0 { 1 } else { -1 }))
        }
        Number::Rounded { .. } => Err(Imprecise("the sign")),
    }
}

/// Rounding to a whole number, where the error leaves only one.
fn step(x: &Number, exact: fn(&BigRational) -> BigRational, double: fn(f64) -> f64) -> Result {
    match x {
        Number::Exact(number) => Ok(Number::Exact(exact(number))),
        Number::Rounded { value, error } => {
            let (low, high) = (double(value - error), double(value + error));
            match BigRational::from_float(low) {
                Some(whole) if low == high => Ok(Number::Exact(whole)),
                _ => Err(Imprecise("what this rounds to")),
            }
        }
    }
}

fn round_digits(x: &Number, digits: &Number) -> Result {
    let count = digits.as_whole().and_then(ToPrimitive::to_i32);
    let Some(count) = count.filter(|count| count.abs() <= MAX_ROUND_DIGITS) else {
        let message = format!(
            "round(x, digits) takes a whole number of digits from -{MAX_ROUND_DIGITS} to \
             {MAX_ROUND_DIGITS}"
        );
        return Err(Undefined(message));
    };
    let scale = Number::whole(10).power(&Number::whole(count))?;
    unary("round", &x.multiply(&scale)?)?.divide(&scale)
}

pub(super) fn factorial(x: &Number) -> Result {
    let refused = "a factorial is defined for whole numbers from 0 only";
    let whole = x.as_whole().filter(|whole| !whole.is_negative());
    let whole = whole.ok_or_else(|| Undefined(refused.to_owned()))?;
    let largest = whole
        .to_u32()
        .filter(|n| *n <= MAX_FACTORIAL)
        .ok_or(Overflow)?;
    let product = (2..=largest).fold(BigInt::one(), |product, factor| product * factor);
    Ok(Number::whole(product))
}

fn fold(name: &str, first: &Number, rest: &[Number]) -> Result {
    let mut result = first.clone();
    for next in rest {
        result = match name {
            "min" => extreme(&result, next, true)?,
            "max" => extreme(&result, next, false)?,
            "gcd" => Number::whole(whole(&result)?.gcd(whole(next)?)),
            "lcm" => lcm(whole(&result)?, whole(next)?)?,
            _ => result.add(next)?,
        };
    }
    match name {
        "mean" | "avg" => result.divide(&Number::whole(rest.len() + 1)),
        "gcd" | "lcm" => Ok(Number::whole(whole(&result)?.abs())),
        _ => Ok(result),
    }
}

fn whole(x: &Number) -> Result<&BigInt> {
    let refused = "gcd and lcm are defined for whole numbers only";
    x.as_whole().ok_or_else(|| Undefined(refused.to_owned()))
}

fn lcm(a: &BigInt, b: &BigInt) -> Result {
    if a.is_zero() && b.is_zero() {
        return Ok(Number::whole(0));
    }
    Number::exact(BigRational::from_integer(a.lcm(b)))
}

fn extreme(a: &Number, b: &Number, smaller: bool) -> Result {
    if let (Some(x), Some(y)) = (a.as_exact(), b.as_exact()) {
        return Ok(if (x <= y) == smaller {
            a.clone()
        } else {
            b.clone()
        });
    }
    let ((x, x_error), (y, y_error)) = (a.double()?, b.double()?);
    let nearest = if (x <= y) == smaller { a } else { b };
    if (x - y).abs() > x_error + y_error {
        return Ok(nearest.clone());
    }
    Number::rounded(nearest.double()?.0, x_error.max(y_error))
}
