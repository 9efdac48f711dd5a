//! `ghostlight steer`.

use ghostlight_actors::contract::RunRow;
use ghostlight_safety::unambiguous_json;
use serde_json::Value;

use crate::{
    exit::{Exit, Failure},
    interrupt::Interrupt,
    keeping::Keeping,
    more_arguments::Steer,
};

/// Says something to the agent of a run, or sends its function a typed message, whichever process carries it.
pub(super) async fn steer(arguments: Steer) -> Result<Exit, Failure> {
    let message = match &arguments.message {
        None => None,
        Some(name) => Some((name, typed(&arguments.text)?)),
    };
    let keeping = Keeping::open_to_change(&arguments.store).await?;
    let row = open_run(&keeping, &arguments.run).await?;
    let system = super::start_to_post(&keeping).await?;
    let carried = super::is_carried(&keeping, row.root).await?;
    let run = system.run(row.run);
    let told = match message {
        None => run.steer(arguments.text).await,
        Some((name, value)) => run.tell_named(name, value).await,
    };
    let told = told.map(|()| super::say_when(&keeping, row.root, carried, "told"));
    let mut interrupt = Interrupt::new()?;
    let told = told.map(|()| Exit::Done).map_err(Failure::from);
    super::stop(&system, &mut interrupt, told).await
}

/// A typed message: JSON, or else a text.
fn typed(text: &str) -> Result<Value, Failure> {
    match unambiguous_json(text) {
        Err(error) if error.is_data() => Err(Failure::Usage(error.to_string())),
        read => Ok(read.unwrap_or_else(|_| text.into())),
    }
}

async fn open_run(keeping: &Keeping, run: &str) -> Result<RunRow, Failure> {
    let row = keeping.find(run).await?;
    if row.status.is_ended() {
        let (id, status) = (row.run.short(), row.status);
        let text = format!("run {id} has ended ({status}): its agent reads no more messages");
        return Err(Failure::Usage(text));
    }
    Ok(row)
}
