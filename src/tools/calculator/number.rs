//! Numbers: exact fractions, and doubles that know how wrong they may be.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

use super::CalculationError::{self, Imprecise, Overflow, Undefined};

/// The size up to which a fraction is kept exact, in bits of its numerator and denominator.
const MAX_BITS: u64 = 4096;
/// How many decimals an exact number may have to be shown whole.
const MAX_DECIMALS: usize = 40;
/// How many digits of a fraction are shown where it is not a short decimal.
const FRACTION_DIGITS: usize = 20;
/// How many digits of a double can be right.
const DOUBLE_DIGITS: usize = 15;
/// Below this an unresolved difference is shown as zero: it is the noise of rounding.
const NOISE: f64 = 1e-12;

#[derive(Clone, Debug)]
pub(super) enum Number {
    /// The number itself.
    Exact(BigRational),
    /// A number that is at most `error` away.
    Rounded { value: f64, error: f64 },
}

type Result<T = Number> = std::result::Result<T, CalculationError>;

/// The most that rounding a result to a double, and the last digit of a library function, may cost.
pub(super) fn rounding(value: f64) -> f64 {
    value.abs() * f64::EPSILON + f64::MIN_POSITIVE
}

impl Number {
    pub(super) fn whole(value: impl Into<BigInt>) -> Self {
        Self::Exact(BigRational::from_integer(value.into()))
    }

    /// A double; the error of rounding it is added to the given one.
    pub(super) fn rounded(value: f64, error: f64) -> Result {
        let error = error + rounding(value);
        match value.is_finite() && error.is_finite() {
            true => Ok(Self::Rounded { value, error }),
            false => Err(Overflow),
        }
    }

    /// An exact number, or a double where it became too large.
    pub(super) fn exact(number: BigRational) -> Result {
        if number.numer().bits().max(number.denom().bits()) <= MAX_BITS {
            return Ok(Self::Exact(number));
        }
        let value = number.to_f64().ok_or(Overflow)?;
        Self::rounded(value, 0.0)
    }

    pub(super) fn as_exact(&self) -> Option<&BigRational> {
        match self {
            Self::Exact(number) => Some(number),
            Self::Rounded { .. } => None,
        }
    }

    /// The number as a whole number, where it is exactly one.
    pub(super) fn as_whole(&self) -> Option<&BigInt> {
        let number = self.as_exact()?;
        number.is_integer().then(|| number.numer())
    }

    /// The number as a double, and how wrong that may be.
    pub(super) fn double(&self) -> Result<(f64, f64)> {
        match self {
            Self::Rounded { value, error } => Ok((*value, *error)),
            Self::Exact(number) => {
                let value = number.to_f64().filter(|v| v.is_finite()).ok_or(Overflow)?;
                let same = BigRational::from_float(value).is_some_and(|same| same == *number);
                Ok((value, if same { 0.0 } else { rounding(value) }))
            }
        }
    }

    /// Whether it is certainly zero.
    pub(super) fn is_zero(&self) -> bool {
        self.as_exact().is_some_and(Zero::is_zero)
    }

    pub(super) fn negate(self) -> Self {
        match self {
            Self::Exact(number) => Self::Exact(-number),
            Self::Rounded { value, error } => Self::Rounded {
                value: -value,
                error,
            },
        }
    }

    pub(super) fn add(&self, other: &Self) -> Result {
        if let (Self::Exact(a), Self::Exact(b)) = (self, other) {
            return Self::exact(a + b);
        }
        let ((a, a_error), (b, b_error)) = (self.double()?, other.double()?);
        Self::rounded(a + b, a_error + b_error)
    }

    pub(super) fn multiply(&self, other: &Self) -> Result {
        if let (Self::Exact(a), Self::Exact(b)) = (self, other) {
            return Self::exact(a * b);
        }
        if self.is_zero() || other.is_zero() {
            return Ok(Self::whole(0));
        }
        let ((a, a_error), (b, b_error)) = (self.double()?, other.double()?);
        let error = a.abs() * b_error + b.abs() * a_error + a_error * b_error;
        Self::rounded(a * b, error)
    }

    pub(super) fn divide(&self, other: &Self) -> Result {
        if other.is_zero() {
            return Err(Undefined(String::from("division by zero is not defined")));
        }
        if let (Self::Exact(a), Self::Exact(b)) = (self, other) {
            return Self::exact(a / b);
        }
        let ((a, a_error), (b, b_error)) = (self.double()?, other.double()?);
        let smallest = b.abs() - b_error;
        if smallest <= 0.0 {
            return Err(Imprecise("whether this divides by zero"));
        }
        let quotient = a / b;
        Self::rounded(quotient, (a_error + quotient.abs() * b_error) / smallest)
    }

    /// The remainder, with the sign of the divisor.
    pub(super) fn modulo(&self, other: &Self) -> Result {
        match (self, other) {
            (_, other) if other.is_zero() => Err(Undefined(String::from(
                "a remainder of division by zero is not defined",
            ))),
            (Self::Exact(a), Self::Exact(b)) => Self::exact(a - (a / b).floor() * b),
            _ => Err(Imprecise("a remainder")),
        }
    }

    pub(super) fn power(&self, exponent: &Self) -> Result {
        if self.is_zero() {
            return zero_power(exponent);
        }
        if let Some(whole) = exponent.as_whole() {
            let (size, negative) = (whole.magnitude().to_u32(), whole.is_negative());
            if let (Self::Exact(base), Some(size)) = (self, size)
                && let Some(power) = exact_power(base, size)
            {
                return Self::exact(if negative { power.recip() } else { power });
            }
            if exponent.double()?.1 > 0.0 {
                return Err(Overflow);
            }
            return self.whole_power(exponent.double()?.0);
        }
        let ((a, a_error), (b, b_error)) = (self.double()?, exponent.double()?);
        if a < 0.0 {
            let message = "a negative number has no real power with a fractional exponent; \
                           cbrt(x) is the cube root";
            return Err(Undefined(message.to_owned()));
        }
        let smallest = a - a_error;
        if smallest <= 0.0 {
            return Err(Imprecise("whether this is a power of zero"));
        }
        let power = a.powf(b);
        let relative = b.abs() * a_error / smallest + (a.ln().abs() + a_error / smallest) * b_error;
        Self::rounded(power, power * (relative.exp_m1() + f64::EPSILON))
    }

    /// A power of a double, or of a number that became too large.
    fn whole_power(&self, exponent: f64) -> Result {
        let (base, base_error) = self.double()?;
        let size = exponent.abs();
        let power = base.powf(size);
        let most = (base.abs() + base_error).powf(size);
        let least = (base.abs() - base_error).max(0.0).powf(size);
        let error = (most - power.abs()).max(power.abs() - least) + rounding(power);
        let power = Self::rounded(power, error)?;
        match exponent < 0.0 {
            true => Self::whole(1).divide(&power),
            false => Ok(power),
        }
    }

    /// The digits, and whether they are all.
    pub(super) fn format(&self) -> Result<(String, bool)> {
        match self {
            Self::Exact(number) => Ok(format_exact(number)),
            Self::Rounded { value, error } => Ok((format_rounded(*value, *error)?, false)),
        }
    }
}

fn zero_power(exponent: &Number) -> Result {
    let (value, error) = exponent.double()?;
    if exponent.is_zero() {
        Err(Undefined(String::from("0^0 is not defined")))
    } else if value < 0.0 {
        Err(Undefined(String::from(
            "a negative power of zero is not defined",
        )))
    } else if value <= error {
        Err(Imprecise("whether this is 0^0"))
    } else {
        Ok(Number::whole(0))
    }
}

/// The power, unless it has more bits than are kept.
fn exact_power(base: &BigRational, exponent: u32) -> Option<BigRational> {
    if base.abs().is_one() {
        let odd = exponent % 2 == 1;
        return Some(if odd {
            base.clone()
        } else {
            BigRational::one()
        });
    }
    let bits = base.numer().bits().max(base.denom().bits());
    (bits.saturating_mul(u64::from(exponent)) <= MAX_BITS).then(|| Pow::pow(base, exponent))
}

fn format_exact(number: &BigRational) -> (String, bool) {
    if number.is_integer() {
        return (number.numer().to_string(), true);
    }
    if let Some(decimals) = decimals(number.denom()).filter(|count| *count <= MAX_DECIMALS) {
        let scaled = number * power_of_ten(decimals);
        return (place_point(&scaled.to_integer(), decimals), true);
    }
    // The first guess at the exponent is one too small or right.
    let length = |n: &BigInt| n.magnitude().to_string().len() as i64;
    let mut exponent = length(number.numer()) - length(number.denom()) - 1;
    loop {
        let decimals = FRACTION_DIGITS as i64 - 1 - exponent;
        let power = power_of_ten(decimals.unsigned_abs() as usize);
        let scaled = if decimals < 0 {
            number / power
        } else {
            number * power
        };
        let digits = scaled.round().to_integer();
        if length(&digits) > FRACTION_DIGITS as i64 {
            exponent += 1;
            continue;
        }
        return (plain_or_scientific(&digits, exponent), false);
    }
}

fn power_of_ten(exponent: usize) -> BigRational {
    BigRational::from_integer(Pow::pow(BigInt::from(10), exponent))
}

/// How many decimals a fraction with this denominator has, where it has an end.
fn decimals(denominator: &BigInt) -> Option<usize> {
    let mut rest = denominator.clone();
    let mut strip = |factor: u32| {
        let mut count = 0;
        while (&rest % factor).is_zero() {
            rest /= factor;
            count += 1;
        }
        count
    };
    let count = strip(2).max(strip(5));
    rest.is_one().then_some(count)
}

/// Digits with the point before the last `decimals` of them, without zeros at the end.
fn place_point(digits: &BigInt, decimals: usize) -> String {
    let sign = if digits.is_negative() { "-" } else { "" };
    let digits = format!(
        "{:0>width$}",
        digits.magnitude().to_string(),
        width = decimals + 1
    );
    let (whole, fraction) = digits.split_at(digits.len() - decimals);
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    }
}

/// Significant digits of a number whose first one stands for this power of ten.
fn plain_or_scientific(digits: &BigInt, exponent: i64) -> String {
    let count = digits.magnitude().to_string().len() as i64;
    let decimals = count - 1 - exponent;
    if (-7..=20).contains(&exponent) {
        return match usize::try_from(decimals) {
            Ok(decimals) => place_point(digits, decimals),
            Err(_) => {
                let zeros = power_of_ten(decimals.unsigned_abs() as usize).to_integer();
                (digits * zeros).to_string()
            }
        };
    }
    format!(
        "{}e{exponent}",
        place_point(digits, count.unsigned_abs() as usize - 1)
    )
}

fn format_rounded(value: f64, error: f64) -> Result<String> {
    if value.abs() <= error {
        return match error <= NOISE {
            true => Ok(String::from("0")),
            false => Err(Imprecise("the result")),
        };
    }
    let certain = -(error / value.abs()).log10();
    let digits = certain.floor().clamp(0.0, DOUBLE_DIGITS as f64) as usize;
    if digits == 0 {
        return Err(Imprecise("the result"));
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    match (digits.parse::<BigInt>(), exponent.parse::<i64>()) {
        (Ok(digits), Ok(exponent)) => Ok(plain_or_scientific(&digits, exponent)),
        _ => Ok(scientific),
    }
}
