//! Times in words.

use ghostlight_actors::vocabulary::Timestamp;

/// The date and time in UTC, such as `2026-03-01 12:00:00 UTC`.
pub(super) fn date(at: Timestamp) -> String {
    let seconds = at.0 / 1000;
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Year, month and day of a number of days since 1970-01-01 (Howard Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms", `civil_from_days`): years begin in March, so that a leap day is a
/// year's last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    (year, month, day)
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
            assert_eq!(date(Timestamp(seconds * 1000)), expected);
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
