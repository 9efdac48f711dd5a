//! `ghostlight steer`.

use ghostlight_actors::contract::RunRow;
use serde_json::Value;

use crate::{
    exit::{Exit, Failure},
    interrupt::Interrupt,
    keeping::Keeping,
    more_arguments::Steer,
};

/// Says something to the agent of a run, or sends its function a typed message, whichever process carries it.
pub(super) async fn steer(arguments: Steer) -> Result<Exit, Failure> {
    let keeping = Keeping::open_to_change(&arguments.store).await?;
    let row = open_run(&keeping, &arguments.run).await?;
    let system = super::start_to_post(&keeping).await?;
    let carried = super::is_carried(&keeping, row.root).await?;
    let run = system.run(row.run);
    let told = match &arguments.message {
        None => run.steer(arguments.text).await,
        Some(name) => {
            let value = serde_json::from_str(&arguments.text);
            let value = value.unwrap_or(Value::String(arguments.text));
            run.tell_named(name, value).await
        }
    };
    let told = told.map(|()| super::say_when(&keeping, row.root, carried, "told"));
    let mut interrupt = Interrupt::new()?;
    let told = told.map(|()| Exit::Done).map_err(Failure::from);
    super::stop(&system, &mut interrupt, told).await
}

async fn open_run(keeping: &Keeping, run: &str) -> Result<RunRow, Failure> {
    let row = keeping.find(run).await?;
    if row.status.is_ended() {
        let (id, status) = (row.run.short(), row.status);
        let text = format!("run {id} has ended ({status}): nobody reads what it is told");
        return Err(Failure::Usage(text));
    }
    Ok(row)
}
