//! `ghostlight cancel`.

use ghostlight_actors::run::Registry;

use crate::cli::{
    arguments::Cancel,
    exit::{Exit, Failure},
    interrupt::Interrupt,
    keeping::Keeping,
};

/// Cancels a run, and carries the cancelling out where no other process carries the run.
pub(super) async fn cancel(arguments: Cancel, registry: Registry) -> Result<Exit, Failure> {
    let keeping = Keeping::open(&arguments.store)?;
    let row = keeping.find(&arguments.run).await?;
    if row.status.is_ended() {
        super::note(&format!(
            "run {} has ended already ({})",
            row.run.short(),
            row.status
        ));
        return Ok(Exit::Done);
    }
    let (system, follow) = super::start_for(&keeping, &row, registry).await?;
    let mut interrupt = Interrupt::new()?;
    let result = async {
        system.run(row.run).cancel(arguments.reason.clone()).await?;
        if !super::take_up_or_leave(&system, row.root, row.run).await? {
            super::note("the process that carries the run is told to cancel it");
            return Ok(Exit::Done);
        }
        let mut follow = follow.json(arguments.show.json);
        let exit = follow
            .run(&system, &system.run(row.root), &mut interrupt)
            .await?;
        // That it stopped before its end is what was asked for.
        Ok(if exit == Exit::Stopped {
            Exit::Done
        } else {
            exit
        })
    }
    .await;
    super::stop(&system, &mut interrupt, result).await
}
