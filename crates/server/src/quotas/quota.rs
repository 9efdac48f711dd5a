//! Quotas: their amounts, and the callers to which they apply.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

/// The longest window, in seconds: 31 days.
const MAX_WINDOW_S: u32 = 31 * 24 * 3_600;
/// The most turns or tokens: multiplied by the milliseconds of the longest window they fit into 62 bits.
const MAX_AMOUNT: u64 = 1_000_000_000;
/// The most money, in millionths: multiplied by the seconds of the longest window it fits into 62 bits.
const MAX_MICROS: u64 = 1_000_000_000_000;
/// The millionths in one unit of the currency, and how many digits they have.
const MICROS: u64 = 1_000_000;
const DIGITS: usize = 6;

/// The unit that a quota counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Measure {
    /// Turns that are said, and forks.
    #[default]
    Turns,
    /// Tokens of model calls, of requests and responses together. They are reserved when a turn begins (what its budget
    /// allows, or 4,096, and beside others 4,096 at least, since a call may cost them) and settled when its run has ended.
    Tokens,
    /// The cost of model calls, in millionths of the currency of the models' prices. It is reserved when a turn begins (what
    /// its budget allows, or a hundredth of the currency, and beside others that at least) and settled when its run has ended. Models without prices cost
    /// nothing.
    Cost,
}

impl Measure {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
        }
    }

    /// Whether what a run really used is known only at its end.
    pub(super) fn is_settled(self) -> bool {
        self != Self::Turns
    }

    /// An amount as people write it: money as a decimal number of the currency.
    pub(super) fn write(self, amount: u64) -> String {
        if self != Self::Cost {
            return amount.to_string();
        }
        let text = format!("{}.{:06}", amount / MICROS, amount % MICROS);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    /// The amount of a text that [`write`](Self::write) may have written; `None` for any other.
    fn read(self, text: &str) -> Option<u64> {
        if self != Self::Cost {
            return text.parse().ok();
        }
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let is_number = part.len() <= DIGITS && part.bytes().all(|byte| byte.is_ascii_digit());
        let part: u64 = format!("{part:0<DIGITS$}").parse().ok()?;
        let whole = whole.parse::<u64>().ok()?.checked_mul(MICROS)?;
        is_number.then(|| whole.saturating_add(part))
    }

    fn most(self) -> u64 {
        match self {
            Self::Turns | Self::Tokens => MAX_AMOUNT,
            Self::Cost => MAX_MICROS,
        }
    }
}

/// An amount within a time. It is parsed from a text such as `100/1h` (turns), `200000tokens/1d` or `2.50cost/1d` (money).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[non_exhaustive]
pub struct Quota {
    /// The unit.
    pub measure: Measure,
    /// How much of it is allowed; money in millionths of the currency.
    pub amount: u64,
    /// The window, in seconds.
    pub window_s: u32,
}

impl Quota {
    /// So many turns within this time.
    ///
    /// # Errors
    /// A message, unless the amount is 1 to 1,000,000,000 and the time a second to 31 days.
    pub fn turns(amount: u64, window: Duration) -> Result<Self, String> {
        Self::new(Measure::Turns, amount, window)
    }

    /// So many tokens within this time.
    ///
    /// # Errors
    /// As [`turns`](Self::turns).
    pub fn tokens(amount: u64, window: Duration) -> Result<Self, String> {
        Self::new(Measure::Tokens, amount, window)
    }

    /// So much money within this time, in millionths of the currency of the models' prices.
    ///
    /// # Errors
    /// A message, unless the amount is 1 to 1,000,000,000,000 and the time a second to 31 days.
    pub fn cost(micros: u64, window: Duration) -> Result<Self, String> {
        Self::new(Measure::Cost, micros, window)
    }

    fn new(measure: Measure, amount: u64, window: Duration) -> Result<Self, String> {
        let window_s = u32::try_from(window.as_secs()).unwrap_or(u32::MAX);
        let most = measure.most();
        if !(1..=most).contains(&amount) || !(1..=MAX_WINDOW_S).contains(&window_s) {
            let (least, most) = (measure.write(1), measure.write(most));
            return Err(format!(
                "a quota is {least} to {most} within 1 second to 31 days, such as 100/1h"
            ));
        }
        Ok(Self {
            measure,
            amount,
            window_s,
        })
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (amount, measure) = (self.measure.write(self.amount), self.measure.as_str());
        write!(f, "{amount}{measure}/{}s", self.window_s)
    }
}

impl From<Quota> for String {
    fn from(quota: Quota) -> Self {
        quota.to_string()
    }
}

impl TryFrom<String> for Quota {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Quota {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a quota: write it as 100/1h, 200000tokens/1d or 2.50cost/1d, with s, m, h, d or w"
            )
        };
        let (amount, window) = text.split_once('/').ok_or_else(wrong)?;
        let digits = amount.trim_end_matches(|c: char| !c.is_ascii_digit());
        let measure = match amount[digits.len()..].trim() {
            "" | "turns" => Measure::Turns,
            "tokens" => Measure::Tokens,
            "cost" => Measure::Cost,
            _ => return Err(wrong()),
        };
        let number = window.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = match &window[number.len()..] {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 24 * 3_600,
            "w" => 7 * 24 * 3_600,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let window = Duration::from_secs(number.saturating_mul(unit));
        Self::new(measure, measure.read(digits).ok_or_else(wrong)?, window)
    }
}

/// The scope of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum QuotaFor {
    /// Each subject.
    Subject,
    /// Each tenant, all of its subjects together.
    Tenant,
    /// Each team, all of its callers together.
    Team,
    /// Each subject at each team.
    SubjectAndTeam,
    /// Each session, whoever speaks in it.
    Session,
}

impl QuotaFor {
    const ALL: [Self; 5] = [
        Self::Subject,
        Self::Tenant,
        Self::Team,
        Self::SubjectAndTeam,
        Self::Session,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Subject => "subject",
            Self::Tenant => "tenant",
            Self::Team => "team",
            Self::SubjectAndTeam => "subject-and-team",
            Self::Session => "session",
        }
    }
}

impl FromStr for QuotaFor {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|whose| whose.as_str() == word);
        found.ok_or_else(|| {
            format!(
                "{word:?} has no quotas: give subject, tenant, team, subject-and-team or session"
            )
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_read_as_it_is_written() {
        for (text, measure, amount, window_s) in [
            ("1/1s", Measure::Turns, 1, 1),
            ("100/1h", Measure::Turns, 100, 3_600),
            ("5turns/10m", Measure::Turns, 5, 600),
            ("200000tokens/1d", Measure::Tokens, 200_000, 86_400),
            ("7 tokens/1w", Measure::Tokens, 7, 604_800),
            ("2.50cost/1d", Measure::Cost, 2_500_000, 86_400),
            ("0.000001cost/1s", Measure::Cost, 1, 1),
            ("1000000cost/31d", Measure::Cost, MAX_MICROS, MAX_WINDOW_S),
        ] {
            let quota: Quota = text.parse().unwrap();
            let read = (quota.measure, quota.amount, quota.window_s);
            assert_eq!(read, (measure, amount, window_s), "{text}");
            assert_eq!(quota.to_string().parse(), Ok(quota));
        }
        for wrong in [
            "",
            "/",
            "1",
            "1/",
            "/1h",
            "0/1h",
            "1/0s",
            "1/1y",
            "x/1h",
            "1/h",
            "1/32d",
            "-1/1h",
            "1euro/1h",
            "1.5/1h",
            "1.5tokens/1h",
            "0cost/1h",
            ".5cost/1h",
            "1.cost/1h",
            "1.0000001cost/1h",
            "1.+5cost/1h",
            "1.1.1cost/1h",
            "1000001cost/1h",
            "99999999999999999999cost/1h",
            "19000000000000cost/1h",
            "1/1hé",
            "2000000000/1h",
            "99999999999/1h",
            "1/99999999999999999999d",
        ] {
            assert!(wrong.parse::<Quota>().is_err(), "{wrong}");
        }
    }
}
