//! The one check of arguments, before anybody is asked about a call and before it is made.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use jsonschema::{ValidationError, Validator};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    contract::ToolHandle,
    vocabulary::{Arguments, ToolDefinition, legal_parameters},
};

/// How many faults of its arguments a model is told.
const TOLD_FAULTS: usize = 8;
/// How many characters of the faults a model or a person reads.
const TOLD: usize = 2_000;
/// How many compiled schemas are kept.
const KEPT: usize = 1_024;

/// Compiled schemas of tools by the addresses of their definitions, which are kept with them, so that no other definition
/// comes to stand there. The agents of a team share their definitions, and so do all runs.
#[derive(Default)]
struct Compiled(Mutex<HashMap<usize, Fitting>>);

type Fitting = (Arc<ToolDefinition>, Arc<Validator>);

static COMPILED: LazyLock<Compiled> = LazyLock::new(Compiled::default);

impl Compiled {
    fn of(&self, definition: &Arc<ToolDefinition>) -> Result<Arc<Validator>, String> {
        let address = Arc::as_ptr(definition).addr();
        if let Some((_, validator)) = self.0.lock().get(&address) {
            return Ok(validator.clone());
        }
        // Compiled outside of the lock: a large schema keeps no other call waiting.
        let given = &definition.parameters;
        let validator = jsonschema::validator_for(given).or_else(|fault| {
            // The model was told the schema as providers accept it.
            let legal = legal_parameters(given).ok();
            let legal = legal.and_then(|legal| jsonschema::validator_for(&legal).ok());
            legal.ok_or_else(|| format!("The schema of {} is wrong: {fault}.", definition.name))
        })?;
        let validator = Arc::new(validator);
        let mut compiled = self.0.lock();
        if compiled.len() >= KEPT {
            // Most are of turns and teams that are over.
            compiled.retain(|_, (of, _)| Arc::strong_count(of) > 1);
            if compiled.len() >= KEPT {
                compiled.clear();
            }
        }
        compiled.insert(address, (definition.clone(), validator.clone()));
        Ok(validator)
    }
}

/// The arguments as the tool gets them, if they are JSON that fits its schema, or why they do not fit. `null` for what may
/// be left out, and must not be `null`, counts as left out: models write it for arguments that they do not want to give.
pub(crate) fn fits(
    definition: &Arc<ToolDefinition>,
    arguments: &Arguments,
) -> Result<Arguments, String> {
    let validator = COMPILED.of(definition)?;
    let value = arguments
        .value()
        .map_err(|fault| format!("The arguments are not valid JSON ({fault})."))?;
    if validator.is_valid(value) {
        return Ok(arguments.clone());
    }
    if let Some(fitting) = without_nulls(&validator, value) {
        return Ok(Arguments::from(fitting));
    }
    let faults = validator.iter_errors(value).take(TOLD_FAULTS);
    let faults: Vec<String> = faults
        .map(|fault| {
            let place = fault.instance_path().to_string();
            let place = match place.as_str() {
                "" => "the arguments",
                place => place,
            };
            format!("{place}: {}", schema_fault(&fault))
        })
        .collect();
    let faults = faults.join("; ");
    Err(told(&format!(
        "The arguments do not fit the tool: {faults}."
    )))
}

/// Whether the arguments fit the schema, and the tool's code can read them: nobody is asked about a call that would be
/// refused afterwards. A tool that is not there is told of when the call is made.
pub(super) fn is_readable(
    (definition, tool): (&Arc<ToolDefinition>, Option<&ToolHandle>),
    arguments: &Arguments,
) -> Result<(), String> {
    let arguments = fits(definition, arguments)?;
    let read = tool.map_or(Ok(()), |tool| tool.reads(&arguments));
    read.map_err(|fault| told(&format!("The arguments do not fit the tool: {fault}.")))
}

/// The value without the members that are `null` and may not be, if it fits then.
fn without_nulls(validator: &Validator, value: &Value) -> Option<Value> {
    let mut without = value.clone();
    for fault in validator.iter_errors(value) {
        let place = fault.instance_path().to_string();
        if value.pointer(&place).is_none_or(|found| !found.is_null()) {
            continue;
        }
        let (above, name) = place.rsplit_once('/')?;
        let name = name.replace("~1", "/").replace("~0", "~");
        if let Some(Value::Object(members)) = without.pointer_mut(above) {
            members.remove(&name);
        }
    }
    validator.is_valid(&without).then_some(without)
}

fn told(faults: &str) -> String {
    ghostlight_safety::sanitize_line(faults, TOLD)
}

/// Why a value does not fit a schema, in words that a model and a person may read.
pub(super) fn misfit(schema: &Value, value: &Value) -> Option<String> {
    let validator = match jsonschema::validator_for(schema) {
        Ok(validator) => validator,
        Err(fault) => return Some(format!("the schema is wrong: {fault}")),
    };
    let fault = validator.iter_errors(value).next()?;
    Some(told(&schema_fault(&fault)))
}

/// The fault of a value. The value itself is left out if it stands under the name of a secret.
pub(crate) fn schema_fault(fault: &ValidationError<'_>) -> String {
    let place = fault.instance_path().to_string();
    let is_secret = place.split('/').any(ghostlight_safety::is_secret_key);
    let fault = match is_secret {
        true => fault.masked().to_string(),
        false => fault.to_string(),
    };
    ghostlight_safety::redact_text(&fault).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_a_definition_is_compiled_once_and_few_are_kept() {
        let compiled = Compiled::default();
        let definition = Arc::new(ToolDefinition::new("look", ""));
        let first = compiled.of(&definition).unwrap();
        assert!(Arc::ptr_eq(&first, &compiled.of(&definition).unwrap()));
        for _ in 0..=KEPT {
            let other = Arc::new(ToolDefinition::new("look", ""));
            compiled.of(&other).unwrap();
        }
        // Those of definitions that nobody has any more went first.
        assert!(compiled.0.lock().len() <= KEPT);
        assert!(Arc::ptr_eq(&first, &compiled.of(&definition).unwrap()));
        let held: Vec<_> = (0..=KEPT)
            .map(|_| Arc::new(ToolDefinition::new("look", "")))
            .collect();
        for other in &held {
            compiled.of(other).unwrap();
        }
        assert!(compiled.0.lock().len() <= KEPT);
    }
}
