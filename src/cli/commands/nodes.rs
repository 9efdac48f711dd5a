//! `ghostlight nodes`: the processes that have a shared store open.

use super::note;
use crate::cli::{
    arguments::StoreArguments,
    exit::{Exit, Failure},
    keeping, location,
};

pub(super) async fn nodes(arguments: StoreArguments) -> Result<Exit, Failure> {
    let location = keeping::location_of(&arguments)?;
    match location::nodes(&location).await? {
        None => Err(Failure::Usage(format!(
            "{location} is a file, whose processes are those of one machine: name a store in PostgreSQL with \
             --store postgres://USER@HOST/DATABASE"
        ))),
        Some(nodes) if nodes.is_empty() => {
            note(&format!("no other process has {location} open"));
            Ok(Exit::Done)
        }
        Some(nodes) => {
            for node in nodes {
                super::print(&node)?;
            }
            Ok(Exit::Done)
        }
    }
}
