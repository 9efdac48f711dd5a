//! A team that wakes by itself.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ghostlight_actors::{
    actor::{System, SystemError},
    contract::SystemClock,
    definition::{Missed, Schedule},
    run::{Agent, RunContext, Team},
    vocabulary::{Outcome, Timestamp},
};

use crate::stage::{Stage, pause, silent};

const HOUR: u64 = 3_600_000;
/// 2025-03-29 at 12:00 UTC.
const NOON: u64 = 1_743_249_600_000;

/// What was said, and when, in milliseconds after noon.
type Heard = Arc<Mutex<Vec<(String, u64)>>>;

fn team(heard: &Heard) -> Team {
    let heard = heard.clone();
    let agent = Agent::from_fn("a", move |cx: RunContext| {
        let heard = heard.clone();
        async move {
            let at = cx.now().await?;
            let said = cx.input().content();
            heard.lock().unwrap().push((said, at.0 - NOON));
            Ok(Outcome::answer("heard"))
        }
    });
    agent.into_team().unwrap()
}

/// Processes over one store and one clock.
struct House {
    stage: Stage,
    clock: SystemClock,
    heard: Heard,
}

impl House {
    fn new() -> Self {
        let (mut stage, heard) = (Stage::new(), Heard::default());
        stage.limits.poll_interval = Duration::from_secs(60);
        let clock = SystemClock::starting_at(Timestamp(NOON));
        Self {
            stage,
            clock,
            heard,
        }
    }

    async fn start(&self, schedules: impl IntoIterator<Item = Schedule>) -> System {
        self.start_in(&self.stage, schedules).await
    }

    async fn start_in(
        &self,
        stage: &Stage,
        schedules: impl IntoIterator<Item = Schedule>,
    ) -> System {
        let team = schedules
            .into_iter()
            .fold(team(&self.heard), Team::schedule);
        let builder = System::builder(stage.store.clone()).options(stage.limits);
        let builder = builder.clock(self.clock.clone()).model("default", silent());
        builder.team(team).start().await.unwrap()
    }

    /// The minutes after noon at which something was said since the last time.
    fn minutes(&self) -> Vec<u64> {
        let heard = std::mem::take(&mut *self.heard.lock().unwrap());
        heard.into_iter().map(|(_, at)| at / 60_000).collect()
    }
}

fn hourly() -> Schedule {
    Schedule::every("pulse", Duration::from_millis(HOUR), "wake")
}

#[tokio::test(start_paused = true)]
async fn a_schedule_says_a_turn_at_each_of_its_times() {
    let house = House::new();
    let morning = Schedule::cron("morning", "30 9 * * *", "plan").zone("Europe/Berlin");
    let system = house.start([morning.session("office")]).await;
    system.schedule("a", hourly()).await.unwrap();
    pause(3 * HOUR + 1000).await;
    assert_eq!(house.minutes(), [60, 120, 180]);
    assert!(system.unschedule("a", "pulse").await.unwrap());
    assert!(!system.unschedule("a", "pulse").await.unwrap());
    // Clocks go forward in between: half past nine is 7:30 UTC on the next day.
    pause(20 * HOUR).await;
    assert_eq!(house.minutes(), [19 * 60 + 30]);
    let kept = system.schedules().await.unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].next, Some(Timestamp(NOON + 43 * HOUR + HOUR / 2)));
    let office = system.session("a", "office").transcript().await.unwrap();
    assert_eq!(office.messages()[0].content(), "plan");
}

#[tokio::test(start_paused = true)]
async fn what_a_team_names_is_kept_from_its_start_on() {
    let house = House::new();
    let often = Schedule::every("often", Duration::from_secs(10), "wake");
    let _system = house.start([often]).await;
    pause(35_000).await;
    assert_eq!(house.minutes(), [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_outlasts_its_process_and_missed_times_are_one_turn_or_none() {
    for (missed, wanted) in [(Missed::Once, vec![270, 300]), (Missed::Skip, vec![300])] {
        let mut house = House::new();
        let system = house.start([]).await;
        system.schedule("a", hourly().missed(missed)).await.unwrap();
        pause(HOUR + HOUR / 2).await;
        assert_eq!(house.minutes(), [60]);
        house.stage.crash(&system).await;
        pause(3 * HOUR).await;
        let system = house.start([]).await;
        pause(HOUR / 2 + 1000).await;
        assert_eq!(house.minutes(), wanted, "{missed:?}");
        assert_eq!(system.schedules().await.unwrap()[0].schedule.missed, missed);
    }
}

#[tokio::test(start_paused = true)]
async fn no_time_is_said_twice_whenever_the_process_dies() {
    for moment in (0..40).step_by(3) {
        let mut house = House::new();
        let system = house.start([hourly()]).await;
        pause(HOUR - 1).await;
        // The turn is said within the next moments; the process dies in the middle of that.
        for _ in 0..moment {
            tokio::task::yield_now().await;
        }
        pause(u64::from(moment % 2 == 0)).await;
        for _ in 0..moment {
            tokio::task::yield_now().await;
        }
        house.stage.crash(&system).await;
        let system = house.start([hourly()]).await;
        pause(HOUR / 2).await;
        let runs = system.runs(Default::default()).await.unwrap();
        assert_eq!(runs.len(), 1, "moment {moment}");
        assert!(runs[0].status.is_ended(), "moment {moment}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_processes_say_each_time_once() {
    let house = House::new();
    let other = Stage {
        store: house.stage.store.another_process(),
        log: house.stage.log.clone(),
        limits: house.stage.limits,
        clock: house.stage.clock.clone(),
        code: house.stage.code.clone(),
    };
    let one = house.start([hourly()]).await;
    let two = house.start_in(&other, [hourly()]).await;
    pause(24 * HOUR + HOUR / 2).await;
    assert_eq!(house.minutes().len(), 24);
    // One ends; the other keeps the time, once it may have the session.
    one.stop().await.unwrap();
    pause(2 * HOUR).await;
    assert_eq!(house.minutes(), [25 * 60, 26 * 60]);
    two.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_team_no_longer_names_is_let_go_and_what_it_changes_is_changed() {
    let mut house = House::new();
    let system = house.start([hourly()]).await;
    system
        .schedule("a", Schedule::every("own", Duration::from_secs(60), "x"))
        .await
        .unwrap();
    house.stage.crash(&system).await;
    let system = house.start([]).await;
    let kept = system.schedules().await.unwrap();
    assert_eq!(kept.len(), 1, "what code keeps stays");
    assert_eq!(kept[0].schedule.name, "own");
    house.stage.crash(&system).await;
    let system = house.start([hourly()]).await;
    let changed = hourly().missed(Missed::Skip);
    system.schedule("a", changed.clone()).await.unwrap();
    let kept = system.schedules().await.unwrap();
    assert_eq!(kept[1].schedule, changed);
    let refused = system.schedule("b", hourly()).await.unwrap_err();
    assert!(matches!(refused, SystemError::UnknownTeam { .. }));
    let nonsense = Schedule::cron("x", "soon", "x");
    let refused = system.schedule("a", nonsense).await.unwrap_err();
    assert!(matches!(refused, SystemError::Definition(_)), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_schedule_whose_last_turn_is_still_under_way_says_one_turn_for_all_it_missed() {
    let house = House::new();
    let heard = house.heard.clone();
    let slow = Agent::from_fn("a", move |cx: RunContext| {
        let heard = heard.clone();
        async move {
            let at = cx.now().await?;
            cx.sleep(Duration::from_millis(5 * HOUR + HOUR / 2)).await?;
            heard.lock().unwrap().push((String::new(), at.0 - NOON));
            Ok(Outcome::answer("done"))
        }
    });
    let builder = System::builder(house.stage.store.clone()).clock(house.clock.clone());
    let builder = builder
        .model("default", silent())
        .options(house.stage.limits);
    let team = slow.into_team().unwrap().schedule(hourly());
    let system = builder.team(team).start().await.unwrap();
    pause(24 * HOUR).await;
    // One under way, one that waits; never a heap of them.
    assert!(system.runs(Default::default()).await.unwrap().len() <= 5);
    assert_eq!(house.minutes().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_older_definition_leaves_the_schedules_of_a_newer_one_alone() {
    let house = House::new();
    let start = async |version: u32, schedules: &[Schedule]| {
        let team = schedules
            .iter()
            .cloned()
            .fold(team(&house.heard), Team::schedule);
        let builder = System::builder(house.stage.store.clone()).options(house.stage.limits);
        let builder = builder
            .clock(house.clock.clone())
            .model("default", silent());
        let team = team.define(|team| team.version = version);
        let system = builder.team(team).start().await.unwrap();
        let kept = system.schedules().await.unwrap().into_iter();
        let kept = kept.map(|kept| (kept.schedule.name, kept.schedule.say, kept.next));
        kept.collect::<Vec<_>>()
    };
    let every = |name: &str, say: &str| Schedule::every(name, Duration::from_millis(HOUR), say);
    let old = [every("both", "both"), every("changed", "old")];
    let new = [
        every("added", "new"),
        every("both", "both"),
        every("changed", "new"),
    ];
    start(1, &old).await;
    pause(1000).await;
    let kept = start(2, &new).await;
    let names: Vec<&str> = kept.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["added", "both", "changed"]);
    assert_eq!(kept[2].1, "new");
    assert!(kept[1].2 < kept[2].2, "it keeps its time");
    pause(1000).await;
    // Version 1, also one that names nothing, is started again: by a deployment that is rolled out.
    assert_eq!(start(1, &old).await, kept);
    assert_eq!(start(1, &[]).await, kept);
    assert_eq!(start(3, &[]).await, []);
}
