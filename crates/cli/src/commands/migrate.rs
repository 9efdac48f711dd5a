//! `ghostlight store migrate` and `ghostlight store verify`: the form of a store, and whether it is sound.

use super::{note, print};
use crate::{
    arguments::StoreArguments,
    exit::{Exit, Failure},
    keeping, location,
    more_arguments::Migrate,
};

/// Applies the migrations that are not applied yet, or lists them.
pub(super) async fn migrate(arguments: Migrate) -> Result<Exit, Failure> {
    let location = keeping::location_of(&arguments.store)?;
    let Some(migrations) = location::migrate(&location, arguments.pending).await? else {
        return Err(Failure::Usage(format!(
            "{location} is a file, which is migrated when it is opened: name a store in PostgreSQL with \
             --store postgres://USER@HOST/DATABASE"
        )));
    };
    let (none, done) = match arguments.pending {
        true => ("nothing is pending", "pending"),
        false => ("nothing was pending", "applied"),
    };
    for migration in &migrations.steps {
        print(&format!("{done}  {migration}"))?;
    }
    let number = migrations.version;
    match migrations.steps.is_empty() {
        true => note(&format!("{location} has version {number}: {none}")),
        false if arguments.pending => return Ok(Exit::Failed),
        false => note(&format!("{location} has version {number} now")),
    }
    Ok(Exit::Done)
}

/// Reads everything and checks every hash.
pub(super) async fn verify(arguments: StoreArguments) -> Result<Exit, Failure> {
    let location = keeping::location_of(&arguments)?;
    if !location.is_there()? {
        return Err(keeping::no_store(&location));
    }
    let found = location.verify().await?;
    print(&format!("{location}: {found}"))?;
    Ok(Exit::Done)
}
