//! `ghostlight runs`.

use ghostlight_actors::contract::{Clock as _, RunFilter, RunRow, SystemClock};

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
    if arguments.show.json {
        for row in &rows {
            print_json(row)?;
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
    Ok(Exit::Done)
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
