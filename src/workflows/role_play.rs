//! One agent instructs, another one acts.

use std::time::Duration;

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, Answer, Outcome, StopReason, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Utterance,
    ends::MemberEnd,
    member::{ask, at_least_one, check_members, members, task},
};
use crate::behaviors::Prompt;

const INSTRUCT: &str = "\
You lead somebody who does a task for you. The task: {task}

Give one instruction at a time, and wait for the answer. When the task is done, say {done} and \
nothing else.

{last}";

const ASSIST: &str = "\
You do a task for somebody who leads you. The task: {task}

Follow this instruction, and give the whole result of it:

{last}";

/// Two members: the first instructs, the second acts, turn by turn, until the first says that the
/// task is done. Each sees the task and the other's last message. The second's last answer is the
/// workflow's. After Li et al., "CAMEL" (2023).
///
/// ```yaml
/// behavior: { name: role_play, done: "<TASK_DONE>" }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RolePlay {
    /// The member that instructs and the member that acts; the two agents below when left out.
    pub members: Vec<String>,
    /// The words by which the first ends the talk when the task is done. The prompts tell it.
    pub done: String,
    /// The most turns of both together.
    pub max_turns: u32,
    /// The question to the first: `{task}`, `{done}`, `{last}`.
    pub instruct: Prompt,
    /// The question to the second: `{task}`, `{done}`, `{last}`.
    pub assist: Prompt,
    /// The longest that one turn may take.
    #[serde(rename = "turn_timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub turn_timeout: Option<Duration>,
}

impl Default for RolePlay {
    fn default() -> Self {
        Self {
            members: Vec::new(),
            done: "<TASK_DONE>".to_owned(),
            max_turns: 30,
            instruct: Prompt::new(INSTRUCT),
            assist: Prompt::new(ASSIST),
            turn_timeout: None,
        }
    }
}

impl Behavior for RolePlay {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let task = task(&cx);
        let pair = members(cx.spec(), &self.members, &[]);
        let parts = pair
            .iter()
            .zip([(&self.instruct, false), (&self.assist, true)]);
        let mut said = "Begin.".to_owned();
        let mut result = String::new();
        for (member, (prompt, does)) in parts.cycle().take(self.max_turns as usize) {
            let asked = prompt.fill(&[
                ("task", task.as_str()),
                ("done", &self.done),
                ("last", &said),
            ]);
            let end = ask(&cx, member, asked, self.turn_timeout).await?;
            if matches!(end, MemberEnd::Stopped(StopReason::LoopExited, _)) {
                return Ok(Outcome::answer(result));
            }
            if !end.is_answer() {
                // What the second has done stands, whichever of them stops.
                let before = (!result.is_empty()).then(|| Utterance::new(pair[1], result));
                return end.into_outcome_after(member, before.into_iter().collect());
            }
            said = end.told();
            if does {
                result.clone_from(&said);
            } else if said.contains(&self.done) {
                return Ok(Outcome::answer(result));
            }
        }
        Ok(Outcome::Stopped {
            reason: StopReason::MaxSteps(self.max_turns),
            partial: Some(Answer::text(result)),
        })
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        at_least_one("max_turns", Some(self.max_turns))?;
        check_members(agent, &self.members, &[], 2)?;
        if members(agent, &self.members, &[]).len() > 2 {
            return Err("it has two members: name the two in `members`".to_owned());
        }
        if self.done.trim().is_empty() {
            return Err("done must not be empty".to_owned());
        }
        Ok(())
    }
}
