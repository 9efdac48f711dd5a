//! Times in words, and ages as people write them.

use std::time::Duration;

use ghostlight_actors::vocabulary::Timestamp;
use jiff::tz::TimeZone;

/// The local date and time, such as `2026-03-01 12:00:00 CET`.
pub(super) fn date(at: Timestamp) -> String {
    date_in(at, TimeZone::system())
}

fn date_in(at: Timestamp, zone: TimeZone) -> String {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_millisecond(millis) {
        Ok(time) => time
            .to_zoned(zone)
            .strftime("%Y-%m-%d %H:%M:%S %Z")
            .to_string(),
        // The time is beyond the calendar's range.
        Err(_) => format!("{millis} ms"),
    }
}

/// How long ago, such as `5 min ago`.
pub(super) fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(then).as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// The time from one point to another, such as `+0.012 s`.
pub(super) fn since(then: Timestamp, now: Timestamp) -> String {
    let elapsed = now.since(then);
    match elapsed.as_secs() {
        0..3600 => format!("+{:.3} s", elapsed.as_secs_f64()),
        seconds => format!(
            "+{}:{:02}:{:02}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        ),
    }
}

/// The length of time that a number with a unit tells, such as `30d`.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let seconds = match &text[number.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err("give a number with s, m, h, d or w, such as 30d".to_owned()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("`{text}` has no whole number"))?;
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_their_zone() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let date = date_in(Timestamp(1_709_164_800_000), zone);
        assert!(date.starts_with("2024-02-29 02:00:00"), "{date}");
        assert_eq!(
            date_in(Timestamp(u64::MAX), TimeZone::UTC),
            format!("{} ms", i64::MAX)
        );
    }

    #[test]
    fn dates_are_right_around_leap_days() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_709_164_800, "2024-02-29 00:00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(date_in(Timestamp(seconds * 1000), TimeZone::UTC), expected);
        }
    }

    #[test]
    fn spans_are_told_in_the_unit_that_fits() {
        let then = Timestamp(1_000_000);
        let after = |seconds: u64| Timestamp(1_000_000 + seconds * 1000);
        assert_eq!(ago(then, after(59)), "59 s ago");
        assert_eq!(ago(then, after(3599)), "59 min ago");
        assert_eq!(ago(then, after(86_400)), "24 h ago");
        assert_eq!(ago(then, after(259_200)), "3 d ago");
        assert_eq!(ago(then, Timestamp(0)), "0 s ago", "clocks may differ");
        assert_eq!(since(then, Timestamp(1_000_012)), "+0.012 s");
        assert_eq!(since(then, after(3_661)), "+1:01:01");
    }

    #[test]
    fn an_age_is_a_number_with_a_unit() {
        for (text, seconds) in [
            ("10s", 10),
            ("90m", 5_400),
            ("12h", 43_200),
            ("30d", 2_592_000),
        ] {
            assert_eq!(age(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(age("2w"), age("14d"));
        for wrong in [
            "",
            "30",
            "d",
            "-3d",
            "3 d",
            "3days",
            "99999999999999999999d",
        ] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
