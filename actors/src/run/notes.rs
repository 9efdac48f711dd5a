//! Notes of a function, which need no answer: events for observers, undo steps, and the variant of
//! its code.

use super::{
    leg::Leg,
    recorded_note::{ANSWERS, RecordedNote},
};
use crate::{
    contract::{Origin, Unattempted},
    vocabulary::{
        AgentError, AnsweredBy, CallReport, Cause, Entry, OperationId, Timestamp, ToolResult,
    },
};

impl Leg {
    /// Notes an entry for which nobody waits, once over all lives. If something else is recorded in
    /// its place, that is a divergence.
    pub(crate) fn note(&self, entry: Entry) {
        let Some((at, found)) = RecordedNote::of(&entry) else {
            return;
        };
        let mut books = self.books.lock();
        if books.machine.note(at, &found) == Ok(true) {
            if let Entry::UndoRegistered { call, .. } = &entry {
                let agent = self.agent.spec.name.clone();
                books.undo.push((agent, call.clone()));
            }
            books.machine.notes.push(entry);
        }
    }

    /// Takes down how a call of a step was answered that no operation of a tool has the result of,
    /// once over all lives.
    pub(crate) fn answered(&self, cause: Cause, call: CallReport, result: ToolResult) {
        let op = {
            let mut books = self.books.lock();
            books.answered += 1;
            OperationId {
                leg: self.number,
                lane: ANSWERS,
                number: books.answered - 1,
            }
        };
        let (result, call) = (Box::new(result), Box::new(call));
        let asked_by = cause.within(self.run);
        self.note(Entry::CallAnswered {
            op,
            result,
            call,
            asked_by,
        });
    }

    /// Tells the tool's interceptors of a call that has its result without an attempt.
    pub(crate) fn tell_unattempted(
        &self,
        at: Timestamp,
        operation: OperationId,
        result: &ToolResult,
        call: &CallReport,
    ) {
        if matches!(call.by, AnsweredBy::Tool | AnsweredBy::Agent(_)) {
            return;
        }
        let mut origin = Origin::clone(&self.origin);
        origin.approval.clone_from(&call.approval);
        let told = Unattempted {
            at,
            run: self.run,
            operation,
            origin: &origin,
            result,
            call,
        };
        let chain = self.code.tool_chain(&result.name);
        chain.iter().for_each(|one| one.unattempted(&told));
    }

    /// Which variant of changed code the run goes by: the recorded one, else the oldest where
    /// the function is past this place, else the newest.
    pub(crate) fn version(&self, at: OperationId, name: &str, max: u32) -> Result<u32, AgentError> {
        let mut machine = self.machine();
        if let Some(end) = &machine.end {
            return Err(end.clone());
        }
        let mut versions = self.versions.0.lock();
        if let Some(version) = versions.get(name).copied() {
            if version <= max {
                return Ok(version);
            }
            let recorded = format!("version {version} of {name:?}");
            let found = format!("code that knows its versions up to {max}");
            let error = AgentError::diverged(at, recorded, found);
            return Err(machine.end_with(error));
        }
        let is_past = machine.is_past();
        let version = if is_past { 0 } else { max };
        versions.insert(name.to_owned(), version);
        let name = name.to_owned();
        machine.notes.push(Entry::VersionChosen { name, version });
        Ok(version)
    }
}
