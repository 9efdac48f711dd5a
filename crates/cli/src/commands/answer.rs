//! `ghostlight answer`.

use ghostlight_actors::{
    actor::{Run, System, SystemError},
    contract::StoreError,
    run::{Registry, operations::covers},
    vocabulary::{OperationId, Question, QuestionKind, RunId},
};

use crate::{
    arguments::Answer,
    asking::{Asked, Fold},
    echo::Echo,
    exit::{Exit, Failure},
    interrupt::Interrupt,
    keeping::Keeping,
    questions::{self, Open},
    telemetry::Exporter,
    typing::Typing,
};

/// Answers a question, and resumes the run unless another process carries it.
pub(super) async fn answer(arguments: Answer, registry: Registry) -> Result<Exit, Failure> {
    let (operation, value) = arguments.parts().map_err(Failure::Usage)?;
    let is_named = operation.is_some();
    let keeping = Keeping::open_to_change(&arguments.store).await?;
    let row = keeping.find(&arguments.run).await?;
    if row.status.is_ended() {
        let text = format!(
            "run {} has ended ({}): it asks nothing",
            row.run.short(),
            row.status
        );
        return Err(Failure::Usage(text));
    }
    let (system, follow) = match super::start_for(&keeping, &row, registry).await {
        Ok((system, follow)) => (system, Some(follow)),
        // Posting needs no code; the process that carries the run has it.
        Err(failure) if super::lacks_code(&failure) => {
            (super::start_to_post(&keeping).await?, None)
        }
        Err(failure) => return Err(failure),
    };
    let exporter = Exporter::begin(&system).await?;
    let mut interrupt = Interrupt::new()?;
    let carried = super::is_carried(&keeping, row.root).await?;
    let root = system.run(row.root);
    let result = async {
        let (asking, operation, question) = choose(&root, row.run, operation, &keeping).await?;
        if let Some(digest) = &arguments.digest {
            check(&question, digest)?;
        }
        let secret = question.kind == QuestionKind::Authentication;
        if secret && follow.is_none() {
            let run = row.root.short();
            return Err(Failure::Elsewhere(format!(
                "this program lacks what run {run} calls, so the secret was not given: give it with the \
                 program that has it"
            )));
        }
        if secret {
            // The secret stays in the memory of the process that receives it.
            recover(&system, row.root).await?;
        }
        let value = match value {
            Some("-") if secret => {
                let mut echo = Echo::default();
                if echo.hide() {
                    let asked = Asked::of(&question, Fold::Long).text();
                    super::note(&format!("{asked} [is not shown; nothing refuses]"));
                }
                let mut typing = Typing::new()?;
                let text = tokio::select! {
                    biased;
                    () = interrupt.fired() => return Ok(Exit::Interrupted),
                    text = typing.line() => text.unwrap_or_default(),
                };
                questions::answer_of(&question, &text)
            }
            Some(text) => questions::answer_of(&question, text),
            None => questions::decided(&question, &arguments.decision),
        };
        let value = questions::bound(&question, value.map_err(Failure::Usage)?);
        let tool = question.call.as_ref().map_or("", |call| &call.name);
        let covered = value.get("remember").and_then(|kept| covers(tool, kept));
        // An operation that is named may be one that another run of the tree asked in before.
        let answering = if is_named { row.run } else { asking };
        system.run(answering).answer(operation, value).await?;
        if let Some(covered) = covered {
            super::note(&format!("where the rule remembers, this covers {covered}"));
        }
        let Some(follow) = follow else {
            super::say_when(&keeping, row.root, carried, "answered");
            return Ok(Exit::Done);
        };
        if !secret && !super::recover_or_leave(&system, row.root, asking).await? {
            super::note("answered; the run continues in the process that carries it");
            return Ok(Exit::Done);
        }
        let mut follow = follow.json(arguments.show.json);
        follow.run(&system, &root, &mut interrupt).await
    }
    .await;
    exporter.end().await;
    super::stop(&system, &mut interrupt, result).await
}

/// Resumes a run for the secret that it asks for.
///
/// # Errors
/// [`Failure::Elsewhere`] if another process carries the run.
async fn recover(system: &System, root: RunId) -> Result<(), Failure> {
    match system.resume(root, false).await {
        Ok(_) => Ok(()),
        Err(SystemError::Store(StoreError::Owned { owner, .. })) => {
            let run = root.short();
            Err(Failure::Elsewhere(format!(
                "{owner} carries run {run}, so the secret was not given: give it at the terminal \
                 of that process, or stop it there and answer again"
            )))
        }
        Err(error) => Err(error.into()),
    }
}

/// Checks that the question is about the call of this digest, which may be shortened.
fn check(question: &Question, digest: &str) -> Result<(), Failure> {
    let asked = question.digest.map(|digest| digest.to_string());
    let begins = |asked: &String| asked.starts_with(&digest.to_lowercase());
    if digest.len() >= 8 && asked.as_ref().is_some_and(begins) {
        return Ok(());
    }
    let asked = asked.unwrap_or_else(|| String::from("none"));
    let shown = Asked::of(question, Fold::Long).text();
    Err(Failure::Usage(format!(
        "it asks about another call, whose digest is {asked}; look at it again:\n{shown}"
    )))
}

/// The question to answer: the one of the operation, or else the only one.
async fn choose(
    root: &Run,
    named: RunId,
    operation: Option<OperationId>,
    keeping: &Keeping,
) -> Result<Open, Failure> {
    let below_root = named != root.id();
    let meant = |open: &Open| {
        (!below_root || open.0 == named) && operation.is_none_or(|operation| open.1 == operation)
    };
    let all = root.questions().await?;
    let mut open: Vec<Open> = all.iter().filter(|open| meant(open)).cloned().collect();
    match open.len() {
        1 => Ok(open.remove(0)),
        0 if all.is_empty() => Err(Failure::Usage(format!(
            "run {} asks nothing",
            root.id().short()
        ))),
        0 => Err(Failure::Usage(format!(
            "that is not asked; what is asked:{}",
            list(&all)
        ))),
        _ => {
            let mut text = String::from("it asks several things; name one:");
            for open in &open {
                let command = questions::how_to_answer(root.id(), open, true, &keeping.option);
                text += &format!(
                    "\n  {}\n    {command}",
                    Asked::of(&open.2, Fold::Long).text()
                );
            }
            Err(Failure::Usage(text))
        }
    }
}

fn list(open: &[Open]) -> String {
    let line = |(run, operation, question): &Open| {
        format!(
            "\n  {} {operation}: {}",
            run.short(),
            Asked::of(question, Fold::Long).text()
        )
    };
    open.iter().map(line).collect()
}
