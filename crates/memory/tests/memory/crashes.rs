//! A crash at every write.

use ghostlight_actors::testing::{CrashOptions, Scenario, crash_everywhere};
use ghostlight_memory::{Episode, EpisodeStatus, MemoryKind, MemoryQuery, MemoryScope, NewMemory};

use crate::stage::{agent, fact, memory, session};

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_loses_nothing_and_does_nothing_twice() {
    let scenario = Scenario::new("desk", |builder, _log| {
        let desk = agent(|cx| async move {
            let (own, her) = (session(&cx), memory().on(&cx, MemoryScope::Team));
            for number in 0..3 {
                own.add(NewMemory::of(
                    MemoryKind::Working,
                    format!("step{number} lamp"),
                ))
                .await?;
            }
            her.add(fact("lives in Köln").about("city")).await?;
            her.add(fact("lives in Rome").about("city")).await?;
            let found = own.search(MemoryQuery::new("lamp").k(2)).await?;
            own.consolidate(0.5, std::time::Duration::ZERO).await?;
            own.remove(found[0].item.id.as_str()).await?;
            let episode = Episode::new("looked", EpisodeStatus::Success);
            own.add_episode("find the lamp", episode, 0.7).await?;
            let mut told: Vec<String> = own
                .list([])
                .await?
                .into_iter()
                .map(|item| format!("{} {} {}", item.content, item.kind.as_str(), item.accesses))
                .collect();
            told.sort();
            let city = her.list([]).await?;
            told.push(format!(
                "{}",
                serde_json::to_value(&city[0].detail).unwrap()
            ));
            Ok(told.join("\n"))
        });
        builder.team(desk.into_team().unwrap())
    })
    .turn("go");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.commits >= 10, "{report}");
    assert_eq!(report.crashes, 2 * report.commits);
}
