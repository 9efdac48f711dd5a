//! `ghostlight eval fork`.

use ghostlight::evals::{Reach, Report};
use ghostlight_actors::{actor::SystemError, run::Registry};

use super::{Chosen, Files, tell};
use crate::{
    commands::{note, stop},
    eval_fork_arguments::EvalFork,
    exit::{Exit, Failure},
    interrupt::Interrupt,
    keeping::Keeping,
};

/// Lets the recorded runs of an evaluation continue from one point in each of its variants, and compares them.
pub(super) async fn fork(arguments: EvalFork, registry: Registry) -> Result<Exit, Failure> {
    let chosen = Chosen {
        only: arguments.only.as_deref(),
        ..Chosen::default()
    };
    let (file, store) = (&arguments.file, &arguments.store);
    let model = &arguments.model;
    let (evaluation, _) = super::evaluation(file, chosen, model, store, &registry).await?;
    let keeping = Keeping::open_to_change(store).await?;
    let system = super::start(&keeping, evaluation.teams(&registry)).await?;
    let mut interrupt = Interrupt::new()?;
    let work = async {
        let forked = evaluation.fork(&system, arguments.steps, |_| {}).await?;
        let judged = evaluation.judge(&system, Reach::Try, &forked.cells).await?;
        Ok(Some((forked, judged)))
    };
    let forked: Result<_, SystemError> = tokio::select! {
        forked = work => forked,
        () = interrupt.fired() => Ok(None),
    };
    let result = match forked {
        Ok(Some((forked, judged))) => {
            if !forked.left_out.is_empty() {
                note(&format!(
                    "left out, since no run of so many steps is recorded: {}",
                    forked.left_out.join(", ")
                ));
            }
            match forked.cells.is_empty() {
                true => Err(Failure::Usage(String::from(
                    "there is nothing to fork: carry the evaluation out first, or keep fewer --steps",
                ))),
                false => {
                    let report = Report::with_judged(&evaluation, forked.cells, &judged);
                    let files = Files {
                        html: arguments.html.as_deref(),
                        ..Files::default()
                    };
                    tell(&report, files, arguments.show.json)
                }
            }
        }
        Ok(None) => {
            note(
                "interrupted: the same command continues with the forks that are not recorded yet",
            );
            Ok(Exit::Interrupted)
        }
        Err(error) => Err(error.into()),
    };
    stop(&system, &mut interrupt, result).await
}
