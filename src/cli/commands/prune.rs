//! `ghostlight prune`.

use ghostlight_actors::contract::{Clock as _, SystemClock};

use crate::cli::{
    exit::{Exit, Failure},
    follow::print_json,
    keeping::Keeping,
    retention_arguments::Prune,
};

/// Deletes ended runs, or lists those that would be deleted.
pub(super) async fn prune(arguments: Prune) -> Result<Exit, Failure> {
    let retention = arguments.retention.retention();
    if !retention.deletes() {
        let which = "say which ended runs may go: --older-than AGE, --keep NUMBER, or both";
        return Err(Failure::Usage(which.to_owned()));
    }
    let now = SystemClock::new().now();
    if arguments.dry_run {
        let Some(keeping) = Keeping::open_to_read(&arguments.store).await? else {
            return super::no_runs_yet(&arguments.store);
        };
        let expired = retention.expired(&keeping.store, now).await?;
        if arguments.show.json {
            expired.iter().try_for_each(print_json)?;
        } else if expired.is_empty() {
            super::note("nothing would be deleted");
        } else {
            super::print(&super::runs::table(&expired).join("\n"))?;
        }
        return Ok(Exit::Done);
    }
    let Some(keeping) = Keeping::open_if_there(&arguments.store).await? else {
        return super::no_runs_yet(&arguments.store);
    };
    let pruned = retention.prune(&keeping.store, now).await;
    keeping.store.close().await?;
    let pruned = pruned?;
    if arguments.show.json {
        print_json(&pruned)?;
    } else {
        super::note(&format!(
            "deleted {} with all below, {} entries in all; what was said stays in its sessions",
            super::counted(pruned.trees, "run"),
            pruned.entries,
        ));
    }
    Ok(Exit::Done)
}
