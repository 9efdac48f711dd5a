//! Durations in files: numbers of seconds, with or without decimals.
//!
//! ```
//! use std::time::Duration;
//!
//! use ghostlight_supervisor::seconds;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Call {
//!     #[serde(rename = "timeout_s", with = "seconds", default)]
//!     timeout: Option<Duration>,
//! }
//!
//! let call: Call = serde_json::from_str(r#"{ "timeout_s": 1.5 }"#)?;
//! assert_eq!(call.timeout, Some(Duration::from_millis(1_500)));
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::{fmt, time::Duration};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Unexpected, Visitor},
};

/// The longest duration that a file may name. It has a whole number of milliseconds in 64 bits.
const LONGEST: Duration = Duration::from_millis(u64::MAX);

/// A duration, or one that may be left out.
pub trait InSeconds: Sized {
    /// Writes it as a number of seconds.
    ///
    /// # Errors
    /// The serializer's.
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error>;

    /// Reads it from a number of seconds.
    ///
    /// # Errors
    /// The value is no number of seconds.
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;
}

/// Writes a duration as a number of seconds, without decimals where it has none.
///
/// # Errors
/// The serializer's.
pub fn serialize<T: InSeconds, S: Serializer>(time: &T, to: S) -> Result<S::Ok, S::Error> {
    time.write(to)
}

/// Reads a duration from a number of seconds.
///
/// # Errors
/// The value is no number of seconds.
pub fn deserialize<'de, T: InSeconds, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    T::read(from)
}

impl InSeconds for Duration {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.subsec_nanos() {
            0 => to.serialize_u64(self.as_secs()),
            _ => to.serialize_f64(self.as_secs_f64()),
        }
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_f64(Number)
    }
}

impl InSeconds for Option<Duration> {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.map(Seconds).serialize(to)
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = Option::<Seconds>::deserialize(from)?;
        Ok(read.map(|Seconds(time)| time))
    }
}

struct Seconds(Duration);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.write(to)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Duration::read(from).map(Self)
    }
}

struct Number;

impl Visitor<'_> for Number {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of seconds, 0 or more")
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<Duration, E> {
        let time = Some(Duration::from_secs(seconds)).filter(|time| *time <= LONGEST);
        time.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(seconds), &self))
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Duration, E> {
        match u64::try_from(seconds) {
            Ok(seconds) => self.visit_u64(seconds),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(seconds), &self)),
        }
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Duration, E> {
        let time = Duration::try_from_secs_f64(seconds).ok();
        let time = time.filter(|time| *time <= LONGEST);
        time.ok_or_else(|| E::invalid_value(Unexpected::Float(seconds), &self))
    }
}
