//! The index of runs.

use super::checking::{
    Checked, Found, Place, commit, ensure, lines, making, row, run, same, session,
};
use crate::{
    contract::{Append, Batch, Index, Journals, Line, RunFilter, RunRow, RunStatus, SessionFilter},
    vocabulary::{OperationId, RunId, SessionId, Timestamp},
};

pub(super) async fn rows(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let mut full = row(1);
    full.session = Some(session("ключ/2"));
    full.team = "équipe".to_owned();
    full.agent = "writer".to_owned();
    full.path = vec!["desk".to_owned(), "writer".to_owned()];
    full.title = "“80 €”\u{0}".to_owned();
    full.wake_at = Some(Timestamp(77));
    full.owner = Some("acme/ада\u{0}".to_owned());
    full.version = u32::MAX;
    commit(&store, making(full.clone(), &["a"])).await?;
    same!(
        store.run(run(1)).await?,
        Some(full.clone()),
        "the row as it was made"
    );
    let statuses = [
        RunStatus::Waiting,
        RunStatus::Parked,
        RunStatus::Cancelling,
        RunStatus::Running,
        RunStatus::Answered,
        RunStatus::Stopped,
        RunStatus::Failed,
        RunStatus::Cancelled,
        RunStatus::Continued,
    ];
    for (before, status) in statuses.into_iter().enumerate() {
        full.status = status;
        full.wake_at = None;
        full.asks = vec![(OperationId::default(), before as u64); before.min(1)];
        full.updated_at = Timestamp(full.updated_at.0 + 1);
        let append = Append::new(run(1), before as u64 + 1, 1, lines(&["b"]));
        commit(&store, Batch::of(append.row(full.clone()))).await?;
        same!(
            store.run(run(1)).await?,
            Some(full.clone()),
            "the row as it was changed"
        );
    }
    let append = Append::new(run(1), 10, 1, lines(&["c"]));
    commit(&store, Batch::of(append)).await?;
    same!(
        store.run(run(1)).await?,
        Some(full.clone()),
        "the row after entries without one"
    );
    // A row may come without an entry.
    full.title = "changed".to_owned();
    let append = Append::new(run(1), 11, 1, vec![]).row(full.clone());
    commit(&store, Batch::of(append)).await?;
    same!(
        store.run(run(1)).await?,
        Some(full),
        "the row that came alone"
    );
    Ok(())
}

/// Runs 1 to 8. Runs 1 and 5 are roots of trees, and 6 continues 5. Even runs have ended, 3 and 4 belong to a
/// session, 2 belongs to another team, and 7 and 8 began at the same time.
fn forest() -> Vec<RunRow> {
    let rows = (1..=8).map(|number| {
        let mut row = row(number);
        row.root = if number < 5 { run(1) } else { run(5) };
        row.parent = (row.root != row.run && number != 6).then_some(row.root);
        row.session = (number == 3 || number == 4).then(|| session("s"));
        if number % 2 == 0 {
            row.status = RunStatus::Answered;
        }
        if number == 8 {
            row.started_at = Timestamp(1_007);
        }
        if number == 2 {
            row.team = "other".to_owned();
        }
        row
    });
    rows.collect()
}

pub(super) async fn filters(place: &impl Place) -> Checked {
    let store = place.open().await?;
    // Except for 7 and 8, runs are not made in the order in which they began.
    let mut rows = forest();
    rows.swap(1, 3);
    for row in rows {
        commit(&store, making(row, &["a"])).await?;
    }
    let found = async |filter: RunFilter| {
        let rows = store.runs(filter).await?;
        Ok::<_, Found>(rows.iter().map(|row| row.run).collect::<Vec<RunId>>())
    };
    let all = RunFilter::default;
    let prefix = |digits: &str| RunFilter {
        prefix: Some(digits.to_owned()),
        ..all()
    };
    let standing = |statuses: &[RunStatus]| RunFilter {
        statuses: statuses.to_vec(),
        ..all()
    };
    let of_team = |team: &str, limit| RunFilter {
        team: Some(team.to_owned()),
        limit,
        ..all()
    };
    // The page after a run, of which only the id and the time count.
    let behind = |number: u8, began: u64, limit| {
        let mut last = row(number);
        last.started_at = Timestamp(began);
        RunFilter {
            after: Some(last),
            limit,
            ..all()
        }
    };
    let some = |numbers: &[u8]| numbers.iter().map(|n| run(*n)).collect::<Vec<RunId>>();
    let cases = [
        (all(), some(&[8, 7, 6, 5, 4, 3, 2, 1])),
        (
            RunFilter {
                open: true,
                ..all()
            },
            some(&[7, 5, 3, 1]),
        ),
        (
            RunFilter {
                roots: true,
                ..all()
            },
            some(&[6, 5, 1]),
        ),
        (
            RunFilter {
                session: Some(session("s")),
                ..all()
            },
            some(&[4, 3]),
        ),
        (
            RunFilter {
                session: Some(session("t")),
                ..all()
            },
            some(&[]),
        ),
        (
            RunFilter {
                root: Some(run(1)),
                ..all()
            },
            some(&[4, 3, 2, 1]),
        ),
        (
            RunFilter {
                root: Some(run(3)),
                ..all()
            },
            some(&[]),
        ),
        (RunFilter { limit: 3, ..all() }, some(&[8, 7, 6])),
        (
            RunFilter {
                limit: 100,
                ..all()
            },
            some(&[8, 7, 6, 5, 4, 3, 2, 1]),
        ),
        (
            RunFilter {
                open: true,
                root: Some(run(5)),
                limit: 1,
                ..all()
            },
            some(&[7]),
        ),
        (
            RunFilter {
                open: true,
                session: Some(session("s")),
                ..all()
            },
            some(&[3]),
        ),
        (of_team("other", 0), some(&[2])),
        (of_team("team", 2), some(&[8, 7])),
        (of_team("nobody", 0), some(&[])),
        (standing(&[RunStatus::Running]), some(&[7, 5, 3, 1])),
        (
            standing(&[RunStatus::Parked, RunStatus::Answered]),
            some(&[8, 6, 4, 2]),
        ),
        (standing(&[RunStatus::Failed]), some(&[])),
        (
            RunFilter {
                since: Some(Timestamp(1_006)),
                ..all()
            },
            some(&[8, 7, 6]),
        ),
        (behind(8, 1_007, 2), some(&[7, 6])),
        (behind(7, 1_007, 2), some(&[6, 5])),
        (behind(2, 1_002, 0), some(&[1])),
        (behind(1, 1_001, 0), some(&[])),
        (behind(9, 1_004, 0), some(&[3, 2, 1])),
        (prefix("0"), some(&[8, 7, 6, 5, 4, 3, 2, 1])),
        (prefix("03"), some(&[3])),
        (prefix(""), some(&[8, 7, 6, 5, 4, 3, 2, 1])),
        (prefix("1"), some(&[])),
        (prefix("%"), some(&[])),
        (prefix("zz"), some(&[])),
        (prefix(&run(6).to_string()), some(&[6])),
        (prefix(&run(6).to_string().to_uppercase()), some(&[6])),
        (prefix(&run(6).to_string()[..9]), some(&[6])),
        (
            prefix(&run(6).to_string().replace('-', "")[..20]),
            some(&[6]),
        ),
        (prefix(&format!("{}0", run(6))), some(&[])),
    ];
    for (filter, wanted) in cases {
        same!(
            found(filter.clone()).await?,
            wanted,
            format!("runs of {filter:?}")
        );
    }
    let rows = store.runs(all()).await?;
    ensure!(
        rows.iter().all(|row| forest().contains(row)),
        "rows came back changed: {rows:?}"
    );
    Ok(())
}

pub(super) async fn awake(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let waits_until = |at| (RunStatus::Waiting, Some(Timestamp(at)));
    // The time by which each goes on by itself: 0 if it is under way, none if it waits for somebody.
    let standings = [
        ((RunStatus::Running, None), Some(0)),
        ((RunStatus::Cancelling, Some(Timestamp(9_000))), Some(0)),
        ((RunStatus::Waiting, None), None),
        (waits_until(9_000), Some(9_000)),
        (waits_until(9_001), Some(9_001)),
        (waits_until(u64::MAX >> 1), Some(u64::MAX >> 1)),
        ((RunStatus::Parked, Some(Timestamp(9_000))), None),
        ((RunStatus::Answered, Some(Timestamp(9_000))), None),
    ];
    for (number, ((status, wake_at), _)) in (1..).zip(standings) {
        let mut row = row(number);
        (row.status, row.wake_at) = (status, wake_at);
        commit(&store, making(row, &["a"])).await?;
    }
    let awake_by = async |time: u64| {
        let filter = RunFilter {
            awake_by: Some(Timestamp(time)),
            ..RunFilter::default()
        };
        let rows = store.runs(filter).await?;
        let is_awake = rows.iter().all(|row| row.is_awake_by(Timestamp(time)));
        ensure!(is_awake, "runs that sleep beyond {time}: {rows:?}");
        Ok::<_, Found>(rows.iter().map(|row| row.run).collect::<Vec<RunId>>())
    };
    for time in [0, 8_999, 9_000, 9_001, u64::MAX] {
        let wanted = (1..)
            .zip(standings)
            .filter(|(_, (_, by))| by.is_some_and(|by| by <= time));
        let mut wanted: Vec<RunId> = wanted.map(|(number, _)| run(number)).collect();
        wanted.reverse();
        let told = format!("runs that go on by themselves by {time}");
        same!(awake_by(time).await?, wanted, told);
    }
    // A run that falls asleep leaves the list, and a run that is to wake earlier enters it.
    let mut asleep = row(1);
    asleep.status = RunStatus::Waiting;
    let append = Append::new(run(1), 1, 1, vec![]).row(asleep);
    commit(&store, Batch::of(append)).await?;
    let mut earlier = row(5);
    (earlier.status, earlier.wake_at) = waits_until(5);
    let append = Append::new(run(5), 1, 1, vec![]).row(earlier);
    commit(&store, Batch::of(append)).await?;
    same!(
        awake_by(8_999).await?,
        vec![run(5), run(2)],
        "runs that go on by themselves after one fell asleep"
    );
    Ok(())
}

pub(super) async fn sessions(place: &impl Place) -> Checked {
    let store = place.open().await?;
    let id = |team: &str, key: &str| SessionId {
        team: team.into(),
        key: key.into(),
    };
    let make = async |session: SessionId, times: &[u64]| {
        let line = |at: &u64| Line {
            at: Timestamp(*at),
            text: "1".into(),
        };
        let lines = times.iter().map(line).collect();
        commit(&store, Batch::of(Append::new(session, 0, 1, lines))).await
    };
    make(id("t", "old"), &[10, 20]).await?;
    make(id("t", "new/er"), &[5, 15, 30]).await?;
    make(id("t", "b"), &[20]).await?;
    make(id("t2", "other"), &[25]).await?;
    // A session that was only claimed is not listed, and a run is no session.
    store.claim(id("t", "empty").into(), false).await?;
    commit(&store, making(row(1), &["a"])).await?;
    let found = async |filter: SessionFilter| {
        let rows = store.sessions(filter).await?.into_iter();
        let told = rows.map(|row| (row.session.to_string(), row.entries, row.updated_at.0));
        Ok::<Vec<_>, Found>(told.collect())
    };
    let owned = |rows: &[(&str, u64, u64)]| -> Vec<(String, u64, u64)> {
        let rows = rows.iter();
        rows.map(|(name, entries, at)| ((*name).to_owned(), *entries, *at))
            .collect()
    };
    let all = [
        ("t/new/er", 3, 30),
        ("t2/other", 1, 25),
        ("t/b", 1, 20),
        ("t/old", 2, 20),
    ];
    same!(
        found(SessionFilter::default()).await?,
        owned(&all),
        "all sessions"
    );
    let of_team = SessionFilter {
        team: Some("t".to_owned()),
        ..SessionFilter::default()
    };
    let own = [all[0], all[2], all[3]];
    same!(
        found(of_team.clone()).await?,
        owned(&own),
        "sessions of a team"
    );
    let mut since = of_team.clone();
    since.since = Some(Timestamp(21));
    same!(
        found(since).await?,
        owned(&all[..1]),
        "sessions since a time"
    );
    let mut page = of_team;
    page.limit = 1;
    let mut paged = Vec::new();
    while let Some(row) = store.sessions(page.clone()).await?.pop() {
        paged.push((row.session.to_string(), row.entries, row.updated_at.0));
        ensure!(paged.len() <= 3, "pages do not end: {paged:?}");
        page.after = Some(row);
    }
    same!(paged, owned(&own), "sessions page by page");
    Ok(())
}
