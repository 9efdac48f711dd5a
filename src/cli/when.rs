//! Times in words.

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
}
