//! `ghostlight cancel`.

use std::time::Duration;

use ghostlight_actors::{actor::System, contract::RunRow, run::Registry, vocabulary::OperationId};
use serde_json::json;

use crate::{
    arguments::Cancel,
    exit::{Exit, Failure},
    follow::{Follow, print_json},
    interrupt::Interrupt,
    keeping::Keeping,
};

/// Cancels a run, and carries the cancellation out unless another process carries the run.
pub(super) async fn cancel(arguments: Cancel, registry: Registry) -> Result<Exit, Failure> {
    let keeping = Keeping::open_to_change(&arguments.store).await?;
    let run = match (&arguments.run, arguments.silent) {
        (Some(run), _) => run,
        (None, Some(time)) => return cancel_silent(&keeping, &arguments, time).await,
        (None, None) => {
            let message = "name a run, or a time with --silent".to_owned();
            return Err(Failure::Usage(message));
        }
    };
    let row = keeping.find(run).await?;
    if row.status.is_ended() {
        super::note(&format!(
            "run {} has ended already ({})",
            row.run.short(),
            row.status
        ));
        // An ended run needs no cancelling; its calls can no longer be cancelled.
        return Ok(match arguments.call {
            Some(_) => Exit::Failed,
            None => Exit::Done,
        });
    }
    let mut interrupt = Interrupt::new()?;
    let (system, follow) = match super::start_for(&keeping, &row, registry).await {
        Ok(started) => started,
        Err(failure) if super::lacks_code(&failure) => {
            let system = super::start_to_post(&keeping).await?;
            let result = post(&system, &keeping, &row, &arguments).await;
            return super::stop(&system, &mut interrupt, result).await;
        }
        Err(failure) => return Err(failure),
    };
    if let Some(call) = arguments.call {
        let mut follow = follow.json(arguments.show.json);
        let result = cancel_call(&system, &row, call, &mut follow, &mut interrupt).await;
        return super::stop(&system, &mut interrupt, result).await;
    }
    let result = async {
        system.run(row.run).cancel(arguments.reason.clone()).await?;
        if !super::recover_or_leave(&system, row.root, row.begun_as()).await? {
            super::note("the process that carries the run is told to cancel it");
            return Ok(Exit::Done);
        }
        let mut follow = follow.json(arguments.show.json);
        let exit = follow
            .run(&system, &system.run(row.root), &mut interrupt)
            .await?;
        // A stop before the end is what was asked for.
        Ok(if exit == Exit::Stopped {
            Exit::Done
        } else {
            exit
        })
    }
    .await;
    super::stop(&system, &mut interrupt, result).await
}

/// Tells all runs that recorded nothing for a time that they are cancelled. Whoever carries a run, or continues with it,
/// closes it.
async fn cancel_silent(
    keeping: &Keeping,
    arguments: &Cancel,
    time: Duration,
) -> Result<Exit, Failure> {
    let mut interrupt = Interrupt::new()?;
    let system = super::start_to_post(keeping).await?;
    let result = async {
        let silent = system.open_runs(time).await?.expired;
        for run in &silent {
            if !system.run(*run).cancel(arguments.reason.clone()).await? {
                continue;
            }
            if arguments.show.json {
                print_json(&json!({ "run": run }))?;
            }
            let carried = super::is_carried(keeping, *run).await?;
            super::say_when(keeping, *run, carried, "told to cancel");
        }
        if silent.is_empty() {
            super::note("no open run is silent for so long");
        }
        Ok(Exit::Done)
    }
    .await;
    super::stop(&system, &mut interrupt, result).await
}

/// Posts the cancellation to the process that carries the run, since this program lacks code of its
/// team.
async fn post(
    system: &System,
    keeping: &Keeping,
    row: &RunRow,
    arguments: &Cancel,
) -> Result<Exit, Failure> {
    let run = system.run(row.run);
    let carried = super::is_carried(keeping, row.root).await?;
    let Some(call) = arguments.call else {
        run.cancel(arguments.reason.clone()).await?;
        super::say_when(keeping, row.root, carried, "told to cancel");
        return Ok(Exit::Done);
    };
    if !carried {
        let id = row.run.short();
        return Err(Failure::Usage(format!(
            "nobody carries run {id}, so no call of it is under way: cancel the run, or resume it first with \
             the program that has its tools"
        )));
    }
    let cancelled = run.cancel_call(call).await?;
    let told = if cancelled {
        "is cancelled"
    } else {
        "is not under way"
    };
    super::note(&format!("call {call} of run {} {told}", row.run.short()));
    Ok(if cancelled { Exit::Done } else { Exit::Failed })
}

/// Cancels one call, and resumes the run unless another process carries it.
async fn cancel_call(
    system: &System,
    row: &RunRow,
    call: OperationId,
    follow: &mut Follow,
    interrupt: &mut Interrupt,
) -> Result<Exit, Failure> {
    let run = system.run(row.run);
    let (cancelled, recovered) = tokio::join!(
        run.cancel_call(call),
        super::recover_or_leave(system, row.root, row.begun_as()),
    );
    let cancelled = cancelled?;
    super::note(&if cancelled {
        format!("call {call} of run {} is cancelled", row.run.short())
    } else {
        format!("run {} has no call {call} under way", row.run.short())
    });
    if recovered? {
        let exit = follow.run(system, &system.run(row.root), interrupt).await?;
        // The run may fail without the call, although the call was cancelled.
        return Ok(if cancelled && exit == Exit::Failed {
            Exit::Done
        } else {
            exit
        });
    }
    Ok(if cancelled { Exit::Done } else { Exit::Failed })
}
