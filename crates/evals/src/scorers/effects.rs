//! Calls whose effect is in doubt.

use ghostlight_actors::vocabulary::ToolStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Score, Scorer};
use crate::{recording::Recording, suite::Sample};

/// Looks for calls whose effect is in doubt, or happened twice.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EffectsSpec {
    /// Its name; `effects` where it is left out.
    pub name: Option<String>,
    /// Whether it also fails a cell whose agents ask twice, with the same arguments, for a call that must not be repeated.
    pub once: bool,
}

pub(super) struct EffectsScorer {
    name: String,
    once: bool,
}

impl EffectsScorer {
    pub(super) fn new(spec: &EffectsSpec) -> Self {
        Self {
            name: spec.name.clone().unwrap_or_else(|| String::from("effects")),
            once: spec.once,
        }
    }
}

impl Scorer for EffectsScorer {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, recording: &Recording, _: &Sample) -> Score {
        if let Some(call) = recording
            .calls
            .iter()
            .find(|call| call.status == ToolStatus::Unknown)
        {
            return Score::fail(format!("it is unknown whether {} happened", call.tool));
        }
        if !self.once {
            return Score::pass("no effect is in doubt");
        }
        let mut made = Vec::new();
        for call in &recording.calls {
            if call.status != ToolStatus::Success || !recording.once_tools.contains(&call.tool) {
                continue;
            }
            let this = (&call.tool, call.arguments.value().ok());
            if made.contains(&this) {
                return Score::fail(format!(
                    "{} was done twice with the same arguments",
                    call.tool
                ));
            }
            made.push(this);
        }
        Score::pass("no effect is in doubt, and none was repeated")
    }
}
