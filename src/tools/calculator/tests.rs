#![allow(clippy::unwrap_used)]

use num_bigint::BigInt;
use num_rational::{BigRational, Ratio};
use num_traits::{CheckedAdd, CheckedDiv, CheckedMul, CheckedSub, ToPrimitive, Zero};
use proptest::prelude::*;

use super::{calculate, number::Number, parser, token};

fn shown(expression: &str) -> String {
    match calculate(expression) {
        Ok(result) => result.to_string(),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn what_is_exact_is_shown_exactly() {
    let cases = [
        ("17% of 2340", "397.8"),
        ("17/100*2340", "397.8"),
        ("0.1 + 0.2", "0.3"),
        ("1/3*3", "1"),
        (
            "2^200",
            "1606938044258990275541962092341162602522202993782792835301376",
        ),
        (
            "12345678901234567890 * 98765432109876543210",
            "1219326311370217952237463801111263526900",
        ),
        ("-2^2", "-4"),
        ("2^3^2", "512"),
        ("2^-2", "0.25"),
        ("2**10", "1024"),
        ("8 ÷ 2 × 3 − 1", "11"),
        ("8-3-2", "3"),
        ("100/10/5", "2"),
        ("3 + 4 * 2", "11"),
        ("(3 + 4) * 2 =", "14"),
        ("5²³", "11920928955078125"),
        ("2⁻¹", "0.5"),
        ("-5!", "-120"),
        ("√16 + 9", "13"),
        ("sqrt(9/4)", "1.5"),
        ("sqrt(0.0001)", "0.01"),
        ("cbrt(-27)", "-3"),
        ("-7 mod 3", "2"),
        ("10 mod 4 * 2", "4"),
        ("80 * (1 + 19%)", "95.2"),
        ("1 + 19%", "1.19"),
        ("5% + 3%", "0.08"),
        ("10% of 5% of 200", "1"),
        ("100 / 10% of 50", "20"),
        ("200 - 10% of 200", "180"),
        ("round(2.345, 2)", "2.35"),
        ("round(-2.5)", "-3"),
        ("round(1234, -2)", "1200"),
        ("round(sqrt(2), 3)", "1.414"),
        ("floor(-0.5)", "-1"),
        ("log10(1000) + log2(1/8)", "0"),
        ("log(81, 3)", "4"),
        ("max(1, 2.5, -3) + min(4, 2)", "4.5"),
        ("mean(1, 2, 6)", "3"),
        ("gcd(12, 18) + lcm(4, 6)", "18"),
        ("abs(-3) * sign(-2)", "-3"),
        ("1e3 + .5 + 5.", "1005.5"),
        ("1.5E-3", "0.0015"),
        ("cos(0) + sin(0) + exp(0) + ln(1)", "2"),
        ("1/1024", "0.0009765625"),
        ("0 * pi", "0"),
    ];
    for (expression, expected) in cases {
        assert_eq!(shown(expression), expected, "{expression}");
    }
}

#[test]
fn what_is_rounded_says_so_and_shows_no_noise() {
    let cases = [
        ("1/3", "≈ 0.33333333333333333333"),
        ("-200000/3", "≈ -66666.666666666666667"),
        ("1e-30/3", "≈ 3.3333333333333333333e-31"),
        ("pi", "≈ 3.14159265358979"),
        ("2*π", "≈ 6.28318530717959"),
        ("e", "≈ 2.71828182845905"),
        ("sqrt(2)", "≈ 1.4142135623731"),
        ("sqrt(2)^2", "≈ 2"),
        ("sin(pi)", "≈ 0"),
        ("sin(pi/4)^2", "≈ 0.5"),
        ("sin(radians(30))", "≈ 0.5"),
        ("8^(1/3)", "≈ 2"),
        ("exp(1) - e", "≈ 0"),
        ("1.05^40", "≈ 7.0399887121246462449"),
        ("2^0.5 * 1e30", "≈ 1.4142135623731e30"),
        ("exp(-50)", "≈ 1.92874984796392e-22"),
    ];
    for (expression, expected) in cases {
        assert_eq!(shown(expression), expected, "{expression}");
    }
}

#[test]
fn what_has_no_number_is_an_error() {
    let cases = [
        ("1/0", "division by zero"),
        ("1/(2-2)", "division by zero"),
        ("5 mod 0", "division by zero"),
        ("0^0", "0^0"),
        ("0^-1", "negative power of zero"),
        ("sqrt(-1)", "square root of a negative"),
        ("(-8)^(1/3)", "negative number has no real power"),
        ("ln(0)", "positive numbers only"),
        ("ln(-1)", "positive numbers only"),
        ("log(5, 1)", "division by zero"),
        ("asin(1.0001)", "from -1 to 1"),
        ("(-1)!", "whole numbers from 0"),
        ("2.5!", "whole numbers from 0"),
        ("10^10^10", "too large"),
        ("500!", "too large"),
        ("exp(1000)", "too large"),
        ("1e2000", "too large"),
        ("1e99999999999", "too large"),
        ("tan(pi/2)", "not certain"),
        ("floor(sqrt(2)^2)", "not certain"),
        ("1/(sqrt(2)^2 - 2)", "not certain"),
        ("1e20*sqrt(2) - 1e20*2^0.5", "not certain"),
        ("sin(1e30*pi)", "not certain"),
        ("gcd(1.5, 2)", "whole numbers only"),
        ("round(1, 1e9)", "whole number of digits"),
    ];
    for (expression, expected) in cases {
        let said = shown(expression);
        assert!(
            said.starts_with("error") && said.contains(expected),
            "{expression}: {said}"
        );
    }
}

#[test]
fn what_cannot_be_read_or_has_two_readings_is_an_error() {
    let cases = [
        ("", "empty"),
        ("  = ", "empty"),
        ("1 2", "operator is missing"),
        ("2(3)", "operator is missing"),
        ("(1)(2)", "operator is missing"),
        ("2pi", "write an operator"),
        ("0x10", "write an operator"),
        ("1.2.3", "not a number"),
        (".", "not a number"),
        ("1,234 * 2", "thousands separators"),
        ("(1,234)", "thousands separators"),
        ("1 +", "ends where a number"),
        ("* 2", "a number is expected"),
        ("(1 + 2", "closing parenthesis"),
        ("1 + 2)", "never opened"),
        ("3 x 4", "operator is missing"),
        ("x + 1", "no constant or function `x`"),
        ("sqrt 4", "in parentheses"),
        ("sqrt()", "does not take 0"),
        ("sin(1, 2)", "does not take 2"),
        ("log(100)", "two readings"),
        ("17 % 5", "two readings"),
        ("17 % -5", "two readings"),
        ("200 + 10%", "two readings"),
        ("200 - 10%", "two readings"),
        ("5%%", "percentage of a percentage"),
        ("17 of 20", "needs a percentage"),
        ("5 $", "`$` is not part"),
        ("1; drop table", "thousands"),
        ("2^⁻", "not an exponent"),
    ];
    for (expression, expected) in cases {
        let said = shown(expression);
        assert!(
            said.starts_with("error") && said.contains(expected),
            "{expression}: {said}"
        );
    }
    assert_eq!(shown("17 % - 5"), "-4.83");
}

#[test]
fn length_depth_and_size_are_bounded() {
    let long = "1+".repeat(500) + "1";
    assert!(shown(&long).contains("more than 1000 characters"));
    let deep = format!("{}1{}", "(".repeat(65), ")".repeat(65));
    assert!(shown(&deep).contains("nests deeper"));
    assert!(shown(&"-".repeat(900)).contains("nests deeper"));
    assert!(shown(&"√".repeat(900)).contains("nests deeper"));
    assert!(
        matches!(super::functions::factorial(&Number::whole(480)).unwrap(),
        Number::Exact(value) if value.numer().bits() < 4096)
    );
    let tower = format!("{}1", "9^".repeat(60));
    assert!(calculate(&tower).is_err());
}

/// An expression with its meaning: what the parser must find again in its text.
#[derive(Clone, Debug)]
enum Tree {
    Number(i64, u32),
    Negative(Box<Tree>),
    Binary(char, Box<Tree>, Box<Tree>),
    Power(Box<Tree>, u8),
}

impl Tree {
    /// How strongly it holds together: 1 sum, 2 product, 3 sign, 4 power, 5 number.
    fn strength(&self) -> u8 {
        match self {
            Self::Binary('+' | '-', ..) => 1,
            Self::Binary(..) => 2,
            Self::Negative(_) => 3,
            Self::Power(..) => 4,
            Self::Number(..) => 5,
        }
    }

    /// The text, with parentheses only where they are needed.
    fn text(&self) -> String {
        let within = |tree: &Tree, least: u8| match tree.strength() < least {
            true => format!("({})", tree.text()),
            false => tree.text(),
        };
        match self {
            Self::Number(digits, 0) => digits.to_string(),
            Self::Number(digits, decimals) => {
                let scale = 10_i64.pow(*decimals);
                let width = *decimals as usize;
                format!("{}.{:0width$}", digits / scale, digits % scale)
            }
            Self::Negative(tree) => format!("-{}", within(tree, 3)),
            Self::Binary(operator, left, right) => {
                let strength = self.strength();
                // Both group from the left.
                format!(
                    "{}{operator}{}",
                    within(left, strength),
                    within(right, strength + 1)
                )
            }
            Self::Power(base, exponent) => format!("{}^{exponent}", within(base, 5)),
        }
    }

    /// The value by fractions of 128 bits: `None` where they do not suffice, an inner `None`
    /// where the value is not defined.
    fn value(&self) -> Option<Option<Ratio<i128>>> {
        let both = |left: &Tree, right: &Tree| Some((left.value()?, right.value()?));
        match self {
            Self::Number(digits, decimals) => {
                let denominator = 10_i128.pow(*decimals);
                Some(Some(Ratio::new(i128::from(*digits), denominator)))
            }
            Self::Negative(tree) => Some(tree.value()?.map(|value| -value)),
            Self::Binary(operator, left, right) => {
                let (Some(left), Some(right)) = both(left, right)? else {
                    return Some(None);
                };
                match operator {
                    '+' => left.checked_add(&right).map(Some),
                    '-' => left.checked_sub(&right).map(Some),
                    '*' => left.checked_mul(&right).map(Some),
                    _ if right.is_zero() => Some(None),
                    _ => left.checked_div(&right).map(Some),
                }
            }
            Self::Power(base, exponent) => {
                let Some(base) = base.value()? else {
                    return Some(None);
                };
                if base.is_zero() && *exponent == 0 {
                    return Some(None);
                }
                let mut power = Ratio::from_integer(1);
                for _ in 0..*exponent {
                    power = power.checked_mul(&base)?;
                }
                Some(Some(power))
            }
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let number = (0..2000_i64, 0..3_u32).prop_map(|(n, decimals)| Tree::Number(n, decimals));
    number.prop_recursive(5, 24, 2, |inner| {
        let operator = prop_oneof![Just('+'), Just('-'), Just('*'), Just('/')];
        prop_oneof![
            inner
                .clone()
                .prop_map(|tree| Tree::Negative(Box::new(tree))),
            (operator, inner.clone(), inner.clone()).prop_map(|(o, a, b)| Tree::Binary(
                o,
                Box::new(a),
                Box::new(b)
            )),
            (inner, 0..4_u8).prop_map(|(tree, power)| Tree::Power(Box::new(tree), power)),
        ]
    })
}

fn evaluated(text: &str) -> Result<Number, super::CalculationError> {
    parser::evaluate(&token::tokens(text)?)
}

/// Whether a number may be this one, as far as its error bound tells.
fn holds(number: &Number, truth: f64) -> bool {
    let (value, error) = number.double().unwrap();
    (value - truth).abs() <= error
}

proptest! {
    #[test]
    fn arithmetic_agrees_with_a_reference(tree in trees()) {
        let text = tree.text();
        let Some(expected) = tree.value() else { return Ok(()) };
        match (evaluated(&text), expected) {
            (Ok(number), Some(expected)) => {
                let (numer, denom) = (*expected.numer(), *expected.denom());
                let expected = BigRational::new(BigInt::from(numer), BigInt::from(denom));
                prop_assert_eq!(number.as_exact(), Some(&expected), "{}", text);
            }
            (Err(_), None) => {}
            (found, expected) => prop_assert!(false, "{}: {:?} for {:?}", text, found, expected),
        }
    }

    #[test]
    fn what_is_shown_is_within_a_unit_of_its_last_digit(tree in trees()) {
        let Some(Some(expected)) = tree.value() else { return Ok(()) };
        let result = calculate(&tree.text()).unwrap();
        let shown: f64 = result.digits().parse().unwrap();
        let expected = BigRational::new(BigInt::from(*expected.numer()), BigInt::from(*expected.denom()));
        let expected = expected.to_f64().unwrap();
        prop_assert!((shown - expected).abs() <= expected.abs() * 1e-15, "{shown} {expected}");
    }

    #[test]
    fn error_bounds_hold_for_what_undoes_itself(x in 0.001..1000.0_f64) {
        for expression in [
            format!("sqrt({x})^2"),
            format!("cbrt({x})^3"),
            format!("exp(ln({x}))"),
            format!("10^log10({x})"),
            format!("({x}^(1/7))^7"),
            format!("({x}^2.5)^0.4"),
            format!("degrees(radians({x}))"),
            format!("{x} * (sin({x})^2 + cos({x})^2)"),
            format!("tan(atan({x}))"),
            format!("{x} / pi * pi"),
        ] {
            let number = evaluated(&expression).unwrap();
            prop_assert!(holds(&number, x), "{expression}: {number:?} for {x}");
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "[0-9a-z+*/^%!(),. √²πe-]{0,40}") {
        if let Ok(result) = calculate(&text) {
            prop_assert!(result.digits().parse::<f64>().is_ok(), "{text}: {result}");
        }
    }

    #[test]
    fn no_foreign_text_makes_it_panic(text in "\\PC{0,60}") {
        let _ = calculate(&text);
    }
}
