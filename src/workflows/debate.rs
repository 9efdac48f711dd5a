//! Agents argue, and a judge decides.

use std::time::Duration;

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, ErrorKind, OperationError, Outcome, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    OnFailure, Utterance,
    conversation::{together, transcript, with_transcript},
    ends::{Ends, stopped},
    member::{Part, ask, ask_all, at_least_one, check_members, members, task},
};
use crate::behaviors::Prompt;

const REBUT: &str = "\
{task}

This is what was answered in the last round:

{said}

Answer again: take over what is right in the others' answers, and say where they are wrong.";

/// The debaters answer side by side; in each further round they see all answers of the round
/// before, and answer again. The judge sees the last round and decides. After Du et al.,
/// "Improving Factuality and Reasoning through Multiagent Debate" (2023).
///
/// ```yaml
/// behavior: { name: debate, judge: editor, rounds: 2 }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Debate {
    /// The debaters; all agents below but the judge when left out.
    pub members: Vec<String>,
    /// The agent below that decides.
    pub judge: String,
    /// How many rounds.
    pub rounds: u32,
    /// The question to a debater from the second round on: `{task}`, `{said}`.
    pub rebut: Prompt,
    /// The reaction to a debater that fails: the debate stops, or continues without its answer.
    pub on_failure: OnFailure,
    /// The longest that one answer may take.
    #[serde(rename = "turn_timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub turn_timeout: Option<Duration>,
}

impl Default for Debate {
    fn default() -> Self {
        Self {
            members: Vec::new(),
            judge: "judge".to_owned(),
            rounds: 2,
            rebut: Prompt::new(REBUT),
            on_failure: OnFailure::Stop,
            turn_timeout: None,
        }
    }
}

impl Behavior for Debate {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let task = task(&cx);
        let debaters = members(cx.spec(), &self.members, &[Some(&self.judge)]);
        let wait = self.turn_timeout;
        let mut said: Vec<Utterance> = Vec::new();
        // The last word of each debater, whatever became of it afterwards.
        let mut words = Ends::default();
        for round in 0..self.rounds {
            let asked = match round {
                0 => task.clone(),
                _ => self
                    .rebut
                    .fill(&[("task", task.as_str()), ("said", &transcript(&said))]),
            };
            let parts: Vec<Part> = debaters
                .iter()
                .map(|debater| Part::new(debater, asked.as_str()))
                .collect();
            let ends = ask_all(&cx, parts, None, wait, |end| self.on_failure.ends_by(end)).await?;
            words.take_over(&ends);
            let made = || together(&words.made());
            if let Some(end) = ends.iter().find(|end| self.on_failure.ends_by(end)) {
                return end.clone().into_outcome(made());
            }
            said = ends.answers();
            if said.is_empty() {
                if let Some(reason) = ends.stop_reason() {
                    return Ok(stopped(reason.clone(), made()));
                }
                let message = format!("every debater failed in round {}", round + 1);
                return Err(OperationError::new(ErrorKind::Delegation, message).into());
            }
        }
        let decided = ask(&cx, &self.judge, with_transcript(&task, &said), wait).await?;
        decided.into_outcome_after(&self.judge, said)
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        at_least_one("rounds", Some(self.rounds))?;
        check_members(agent, &self.members, &[("judge", Some(&self.judge))], 1)
    }
}
