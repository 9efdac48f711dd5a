//! Schedules in team files.

use std::time::Duration;

use ghostlight_actors::{
    definition::{Durability, Missed, Schedule},
    vocabulary::Timestamp,
};

use crate::{fault, spec};

#[test]
fn a_file_says_when_its_team_is_woken_and_how_durable_its_runs_are() {
    let team = spec(
        "
durability: async
agent: { name: desk }
schedules:
  - name: morning
    cron: 0 9 * * 1-5
    zone: Europe/Berlin
    say: Plan the day.
    session: diary
    missed: skip
  - { name: pulse, every_s: 60, say: Look for new mail. }
",
    );
    assert_eq!(team.durability, Durability::Async);
    let morning = Schedule::cron("morning", "0 9 * * 1-5", "Plan the day.");
    let morning = morning.zone("Europe/Berlin").session("diary");
    let pulse = Schedule::every("pulse", Duration::from_secs(60), "Look for new mail.");
    assert_eq!(team.schedules, [morning.missed(Missed::Skip), pulse]);
    // Nine o'clock in Berlin, on the Monday after a Saturday in winter.
    let saturday = Timestamp(1_736_596_800_000);
    let next = team.schedules[0].next(saturday, saturday);
    assert_eq!(next, Some(Timestamp(1_736_755_200_000)));

    for (schedule, told) in [
        ("{ name: a, say: x, cron: 0 9 * * 8-9 }", "cannot be kept"),
        (
            "{ name: a, say: x, cron: 0 9 * * *, zone: Mars/Olympus }",
            "Mars/Olympus",
        ),
        ("{ name: a, say: x }", "`every_s` or `cron`"),
        ("{ name: a, say: x, every_s: 0 }", "`every_s` is 0"),
        ("{ name: a, cron: 0 9 * * * }", "says nothing"),
        (
            "{ name: not good, say: x, every_s: 0.001 }",
            "schedule name",
        ),
        (
            "{ say: x, every_s: 0.001 }",
            "the schedule's key `name` is missing",
        ),
    ] {
        let text = format!("agent: {{ name: desk }}\nschedules:\n- {schedule}\n");
        let (_, line, column, message) = fault(&text);
        assert_eq!((line, column), (3, 3), "{message}");
        assert!(message.contains(told), "{message}");
    }
}
