//! `ghostlight store prune`.

use ghostlight_actors::{
    actor::{Retention, Sessions},
    contract::{Clock as _, SessionRow, SystemClock},
    vocabulary::Timestamp,
};

use crate::{
    exit::{Exit, Failure},
    follow::print_json,
    keeping::Keeping,
    plain_text,
    retention_arguments::Prune,
    when,
};

/// Deletes ended runs and idle sessions, or lists those that would be deleted.
pub(super) async fn prune(arguments: Prune) -> Result<Exit, Failure> {
    let retention = arguments.retention.retention();
    if !retention.deletes() {
        let which = "say which ended runs may go: --older-than AGE, --keep NUMBER, or both; and which sessions: \
                     --sessions-idle-for AGE";
        return Err(Failure::Usage(which.to_owned()));
    }
    if arguments.dry_run {
        return list(&arguments, retention).await;
    }
    let Some(keeping) = Keeping::open_if_there(&arguments.store).await? else {
        return super::no_runs_yet(&arguments.store);
    };
    let pruned = Sessions::of(keeping.store.clone()).prune(retention).await;
    keeping.store.close().await?;
    let pruned = pruned?;
    if arguments.show.json {
        print_json(&pruned)?;
        return Ok(Exit::Done);
    }
    let sessions = match retention.sessions_idle_for {
        Some(_) => format!("{} and ", super::counted(pruned.sessions, "session")),
        None => String::new(),
    };
    super::note(&format!(
        "deleted {sessions}{} with all below, {} entries in all; what was said in other sessions stays",
        super::counted(pruned.trees, "run"),
        pruned.entries,
    ));
    Ok(Exit::Done)
}

async fn list(arguments: &Prune, retention: Retention) -> Result<Exit, Failure> {
    let now = SystemClock::new().now();
    let Some(keeping) = Keeping::open_to_read(&arguments.store).await? else {
        return super::no_runs_yet(&arguments.store);
    };
    let expired = retention.expired(&keeping.store, now).await?;
    let mut idle: Vec<SessionRow> = Vec::new();
    loop {
        let after = idle.last().cloned();
        let page = retention.idle_sessions(&keeping.store, now, after).await?;
        if page.is_empty() {
            break;
        }
        idle.extend(page);
    }
    if arguments.show.json {
        expired.iter().try_for_each(print_json)?;
        idle.iter().try_for_each(print_json)?;
    } else if expired.is_empty() && idle.is_empty() {
        super::note("nothing would be deleted");
    } else {
        let mut lines = match expired.is_empty() {
            true => Vec::new(),
            false => super::runs::table(&expired),
        };
        lines.extend(idle.iter().map(|row| line(row, now)));
        super::print(&lines.join("\n"))?;
    }
    Ok(Exit::Done)
}

/// A session that would be deleted, unless a run of it is open or another process holds it.
fn line(row: &SessionRow, now: Timestamp) -> String {
    let name = plain_text::line(&row.session.to_string(), 80);
    format!(
        "session {name}, idle since {}",
        when::ago(row.updated_at, now)
    )
}
