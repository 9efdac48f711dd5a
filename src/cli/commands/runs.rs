//! `ghostlight runs`.

use std::collections::BTreeMap;

use ghostlight_actors::{
    actor::newer_runs,
    contract::{Clock as _, RunFilter, RunRow, SystemClock},
    vocabulary::RunId,
};
use serde::Serialize;

use crate::cli::{
    arguments::Runs,
    exit::{Exit, Failure},
    follow::print_json,
    keeping::Keeping,
    plain_text, when,
};

pub(super) async fn runs(arguments: Runs) -> Result<Exit, Failure> {
    let Some(keeping) = Keeping::open_to_read(&arguments.store)? else {
        return super::no_runs_yet(&arguments.store);
    };
    let mut filter = RunFilter::default();
    (filter.roots, filter.open) = (true, !arguments.all);
    let rows = keeping.store.runs(filter).await?;
    let open = rows.iter().filter(|row| !row.status.is_ended()).cloned();
    let newer = newer_runs(&keeping.store, &open.collect::<Vec<_>>()).await?;
    let newer: BTreeMap<RunId, String> = newer
        .into_iter()
        .map(|(row, error)| (row.run, error.to_string()))
        .collect();
    if arguments.show.json {
        for row in &rows {
            let left_alone = newer.get(&row.run).map(String::as_str);
            print_json(&Listed { row, left_alone })?;
        }
        return Ok(Exit::Done);
    }
    super::note(&format!("store {}", keeping.store.description()));
    if rows.is_empty() {
        let more = if arguments.all {
            ""
        } else {
            "; `ghostlight runs --all` lists the ended ones"
        };
        super::note(&format!(
            "no {}runs{more}",
            if arguments.all { "" } else { "open " }
        ));
        return Ok(Exit::Done);
    }
    super::print(&table(&rows).join("\n"))?;
    for (run, error) in &newer {
        super::note(&format!("{} is left alone: {error}", run.short()));
    }
    Ok(Exit::Done)
}

/// A run as a line of JSON.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    row: &'a RunRow,
    /// Why this program leaves it to a newer one.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_alone: Option<&'a str>,
}

pub(super) fn table(rows: &[RunRow]) -> Vec<String> {
    let now = SystemClock::new().now();
    let team = |row: &RunRow| plain_text::line(&row.team, 24);
    let width = rows
        .iter()
        .map(|row| team(row).chars().count())
        .max()
        .unwrap_or(0)
        .max(4);
    let line = |id: &str, status: &str, begun: &str, team: &str, title: &str| {
        format!("{id:8}  {status:10}  {begun:>10}  {team:width$}  {title}")
            .trim_end()
            .to_owned()
    };
    let heading = line("run", "status", "begun", "team", "task");
    let of = |row: &RunRow| {
        let begun = when::ago(row.started_at, now);
        let title = plain_text::line(&row.title, 60);
        line(
            &row.run.short(),
            row.status.as_str(),
            &begun,
            &team(row),
            &title,
        )
    };
    std::iter::once(heading)
        .chain(rows.iter().map(of))
        .collect()
}
