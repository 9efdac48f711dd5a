//! Calls of a client's tools: they are questions of a run, and the client's results are the answers.

use ghostlight_actors::{
    actor::SystemError,
    vocabulary::{OperationId, RunId, ToolCall},
};

use super::{
    dialog::{Dialog, words},
    said::{Returned, Said},
};
use crate::{api::Asked, problem::Problem};

/// The prefix of a call's id.
const PREFIX: &str = "call_";

/// The id by which a client answers a call: the run and its operation, in characters that both interfaces allow.
pub(super) fn call_id(run: RunId, operation: OperationId) -> String {
    let operation = operation.to_string().replace('.', "-");
    format!("{PREFIX}{run}_{operation}")
}

fn asker(id: &str) -> Option<(RunId, OperationId)> {
    let (run, operation) = id.strip_prefix(PREFIX)?.split_once('_')?;
    let operation = operation.replace('-', ".");
    Some((run.parse().ok()?, operation.parse().ok()?))
}

/// The arguments of a call as JSON text; arguments that are not an object become an empty one.
pub(super) fn arguments(call: &ToolCall) -> String {
    match call.arguments.value() {
        Ok(value) if value.is_object() => value.to_string(),
        _ => "{}".to_owned(),
    }
}

/// Gives results, and the user's words beside them, to the run that asked for the results.
pub(super) async fn go_on(
    asked: &Asked,
    team: &str,
    returned: Vec<Returned>,
    last: Vec<Said>,
) -> Result<Dialog, Problem> {
    let mut answers = Vec::new();
    let mut dialog: Option<Dialog> = None;
    for Returned { call, answer } in returned {
        let unknown = || {
            let call: String = call.chars().take(100).collect();
            Problem::not_found(format!("call {call:?} that waits for a result"))
        };
        let (asker, operation) = asker(&call).ok_or_else(unknown)?;
        let (run, row) = asked.run(&asker.to_string()).await.map_err(|_| unknown())?;
        if row.team != team || run.unredacted(operation).await?.is_none() {
            return Err(unknown());
        }
        let dialog = dialog.get_or_insert_with(|| Dialog {
            run: asked.system.run(row.root),
            session: String::new(),
            answered: Some(Vec::new()),
        });
        if dialog.run.id() != row.root {
            let detail = "the results are of calls of several runs: send each run its own";
            return Err(Problem::invalid(detail));
        }
        if let Some(session) = &row.session {
            let key = asked.caller.key_of(session).unwrap_or_default();
            dialog.session = key.to_owned();
        }
        dialog
            .answered
            .get_or_insert_default()
            .push((asker, operation));
        answers.push((run, operation, answer));
    }
    let Some(dialog) = dialog else {
        return Err(Problem::invalid("there is no result"));
    };
    let mut words = words(&last)?;
    for said in last.into_iter().filter(Said::is_instruction) {
        words.push(said.retold()?.0);
    }
    let open = dialog.run.questions().await?;
    let is_new = answers
        .iter()
        .any(|(_, operation, _)| open.iter().any(|(_, asked, _)| asked == operation));
    if is_new && !words.is_empty() {
        dialog.run.steer(words.join("\n")).await?;
    }
    for (run, operation, answer) in answers {
        match run.answer(operation, answer).await {
            Ok(()) => {}
            // The request was sent again, and the run has its results.
            Err(SystemError::Answer { error, .. }) if error.is_settled() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(dialog)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_call_names_its_run_and_its_operation() {
        let session = ghostlight_actors::vocabulary::SessionId {
            team: "t".into(),
            key: "s".into(),
        };
        let (run, operation) = (RunId::of_turn(&session, "1"), "3.0.12".parse().unwrap());
        let id = call_id(run, operation);
        assert!(id.len() <= 64, "{id}");
        assert_eq!(asker(&id), Some((run, operation)));
        for wrong in [
            "",
            "call_",
            "call_x_0-0-0",
            "toolu_1",
            &id[..id.len() - 1].replace("12", ""),
        ] {
            assert_eq!(asker(wrong.trim_end_matches('1')), None, "{wrong}");
        }
    }
}
