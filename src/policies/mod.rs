//! The built-in policies, which watch over agents.
//!
//! | name | policy |
//! |---|---|
//! | `planning` | [`Planning`]: the tool `create_tasks`, a least number of plan revisions, and a reflection when the plan stagnates |
//! | `recovery` | [`Recovery`]: has the model reflect on a failed call, and make it good or mention it in the answer |
//! | `synthesis` | [`Synthesis`]: has the answer written once more from what the tools found, with citations |
//! | `cited_answers` | [`CitedAnswers`]: holds an answer's citations to what was found in its run, and to what it supports |
//! | `verification` | [`Verification`]: asks for enough distinct evidence of enough weight before an answer |
//! | `repetition` | [`Repetition`]: notices when the agent goes round in circles, tells its model, and ends it |
//! | `self_reflection` | [`SelfReflection`]: tells the model of patterns in what the agent really did, in this turn and before |
//! | `todos` | [`Todos`]: the tool `todo_write`, whose list lives in the session |
//! | `control` | [`Control`]: the tools `exit_loop` and `escalate` |
//! | `instructions` | [`Instructions`]: instructions as templates over state and artifacts, a provider, the order of their parts |
//! | `input_files` | [`InputFiles`]: keeps the files of a turn as artifacts |
//! | `output_key` | [`OutputKey`]: keeps the answer in state, where other agents can read it |
//! | `keep_state` | [`KeepState`]: keeps what agents below wrote beyond their tree |
//! | `throttle` | [`Throttle`]: holds back messages that come too soon after another one, and tells the agent so |
//! | `tool_search` | [`ToolSearch`]: puts only the fitting ones of many tools into a request; the tool `search_tools` finds others |
//! | `soft_budget` | [`SoftBudget`]: warns the model, or has it answer, before a budget stops the run |
//! | `board` | [`Board`]: the tool `board`, whose entries all agents of a tree share |
//! | `skill_tools` | [`SkillTools`]: allows only the tools that a skill names while it is in use |
//! | `tool_limits` | [`ToolLimits`]: bounds how often single tools are called in a run |
//!
//! Each is a [`Policy`] around a state machine that is plain data and can be used alone. They may
//! be combined at will: every policy judges an answer, their reasons reach the model as one
//! message, and after `max_rejections` of an agent its best draft is the answer, flagged.
//!
//! ```
//! use ghostlight::policies::{Planning, Verification};
//! use ghostlight_actors::run::Agent;
//!
//! let researcher = Agent::new("researcher")
//!     .policy("planning", Planning::default)
//!     .policy("verification", || Verification::default().min_sources(2));
//! assert_eq!(researcher.spec().policies.len(), 2);
//! ```

mod board;
mod cited_answers;
mod control;
mod evidence;
mod input_files;
mod keep_state;
mod plan;
mod planning;
mod recovery;
mod repetition;
mod self_reflection;
mod skill_tools;
mod soft_budget;
mod synthesis;
mod throttle;
mod todos;
mod tool_limits;
mod tool_search;
mod unknown;
mod verification;

use ghostlight_actors::{
    run::{BeforeTool, Policy, PolicyContext, PolicyHandle, Registry},
    vocabulary::ToolCall,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::instructions::{Instructions, OutputKey};

pub use board::{BOARD, Board, BoardConflicts, BoardEntries, BoardEntry, BoardWritten, WhenFull};
pub use cited_answers::CitedAnswers;
pub use control::Control;
pub use evidence::EvidenceItem;
pub use input_files::InputFiles;
pub use keep_state::KeepState;
pub use plan::{CREATE_TASKS, Plan, PlanDifference, PlanTask, TaskStatus};
pub use planning::{Planning, PlanningEvent, PlanningState};
pub use recovery::{Attempt, Failure, Recovery, RecoveryEvent, RecoveryState};
pub use repetition::{Repetition, RepetitionState};
pub use self_reflection::{Finding, SelfReflection, SelfReflectionState};
pub use skill_tools::SkillTools;
pub use soft_budget::{AfterSoftBudget, Overrun, SoftBudget, SoftBudgetState};
pub use synthesis::{Observation, Synthesis, SynthesisState};
pub use throttle::Throttle;
pub use todos::{TODO_WRITE, Todo, TodoList, TodoStatus, Todos};
pub use tool_limits::ToolLimits;
pub use tool_search::{SEARCH_TOOLS, ToolSearch};
pub use verification::{Verification, VerificationState};

type Make = fn(&Value) -> Result<PolicyHandle, String>;

/// Every policy that is built in, by its name.
const BUILT_IN: [(&str, Make); 19] = [
    ("board", make::<Board>),
    ("cited_answers", make::<CitedAnswers>),
    ("control", make::<Control>),
    ("input_files", make::<InputFiles>),
    ("instructions", make::<Instructions>),
    ("keep_state", make::<KeepState>),
    ("output_key", make::<OutputKey>),
    ("throttle", make::<Throttle>),
    ("planning", make::<Planning>),
    ("recovery", make::<Recovery>),
    ("repetition", make::<Repetition>),
    ("self_reflection", make::<SelfReflection>),
    ("skill_tools", make::<SkillTools>),
    ("soft_budget", make::<SoftBudget>),
    ("synthesis", make::<Synthesis>),
    ("todos", make::<Todos>),
    ("tool_limits", make::<ToolLimits>),
    ("tool_search", make::<ToolSearch>),
    ("verification", make::<Verification>),
];

/// Registers every policy that is built in under its name.
#[must_use]
pub fn register(registry: Registry) -> Registry {
    let named = BUILT_IN.into_iter();
    named.fold(registry, |registry, (name, make)| {
        registry.policy(name, make)
    })
}

/// Settings that hold more than their types say.
trait Checked {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// Which setting is wrong, and what it must be.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

fn make<P>(given: &Value) -> Result<PolicyHandle, String>
where
    P: Policy + Checked + Clone + Sync + DeserializeOwned,
{
    let policy = P::deserialize(given).map_err(|error| error.to_string())?;
    policy.check()?;
    Ok(PolicyHandle::new(move || policy.clone()))
}

impl Checked for Instructions {}

impl Checked for OutputKey {
    fn check(&self) -> Result<(), String> {
        if self.key == todos::KEY {
            let key = &self.key;
            return Err(format!(
                "key {key:?} is where the policy `todos` keeps its list"
            ));
        }
        OutputKey::check(self)
    }
}

fn at_least_one(setting: &str, value: u32) -> Result<(), String> {
    match value {
        0 => Err(format!("{setting} must be at least 1")),
        _ => Ok(()),
    }
}

/// Tools that keep books and find nothing out: what they say is not an observation and no evidence,
/// and that they refused something is not a failure. Models write their names in other letters too.
const BOOKKEEPING: [&str; 6] = [
    CREATE_TASKS,
    TODO_WRITE,
    "finish",
    control::EXIT_LOOP,
    control::ESCALATE,
    SEARCH_TOOLS,
];

fn is_bookkeeping(tool: &str) -> bool {
    let tool = tool.trim();
    BOOKKEEPING
        .iter()
        .any(|name| tool.eq_ignore_ascii_case(name))
}

/// The mark that tells a call from another: the tool and the arguments, however they are spaced.
fn signature(call: &ToolCall) -> String {
    match call.arguments.value() {
        Ok(arguments) => format!("{} {arguments}", call.name),
        Err(_) => format!("{} {}", call.name, call.arguments.text()),
    }
}

/// Holds a call back while a reflection is needed, which this asks for. `None` when it is not.
fn held_back(
    cx: &PolicyContext<'_>,
    call: &ToolCall,
    needed: bool,
    reflect: &str,
) -> Option<BeforeTool> {
    needed.then(|| {
        cx.defer(reflect);
        BeforeTool::blocked(call, "Blocked: a reflection comes first.")
    })
}

/// Whether a reflection says something: it is not a repetition, and longer than a word or two.
fn says_something(text: &str, before: Option<&String>) -> bool {
    let is_new = before.is_none_or(|before| before.trim() != text.trim());
    is_new && text.chars().filter(|c| c.is_alphanumeric()).count() >= 12
}

/// Tells observers what a state machine noted, each as an event of its own name.
fn tell<E: Serialize>(cx: &PolicyContext<'_>, events: &[E]) {
    for event in events {
        let Ok(value) = serde_json::to_value(event) else {
            continue;
        };
        match value {
            Value::Object(fields) => {
                for (name, data) in fields {
                    cx.emit(name, &data);
                }
            }
            Value::String(name) => cx.emit(name, &serde_json::json!({})),
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_read_strictly_and_checked() {
        let cases = [
            (
                "planning",
                json!({"min_revisoins": 2}),
                "unknown field `min_revisoins`",
            ),
            (
                "recovery",
                json!({"max_tries": 0}),
                "max_tries must be at least 1",
            ),
            ("verification", json!({"min_score": "high"}), "invalid type"),
            ("verification", json!({"min_coverage": 2}), "from 0 to 1"),
            (
                "repetition",
                json!({"warn_after": 5, "stop_after": 3}),
                "stop_after",
            ),
            ("repetition", json!({"stop_after": 2000}), "at most 1000"),
            (
                "self_reflection",
                json!({"least_answered": 2}),
                "from 0 to 1",
            ),
            ("self_reflection", json!({"after_turns": 21}), "at most 20"),
            ("output_key", json!({"key": ""}), "cannot be read"),
            ("output_key", json!({"key": "my-plan"}), "cannot be read"),
            (
                "output_key",
                json!({"key": "context:desk"}),
                "cannot be read",
            ),
            ("output_key", json!({"key": "todos"}), "keeps its list"),
        ];
        for (name, settings, reason) in cases {
            let (_, make) = BUILT_IN.iter().find(|(known, _)| *known == name).unwrap();
            let told = make(&settings).unwrap_err();
            assert!(told.contains(reason), "{told}");
        }
        for (name, make) in BUILT_IN {
            let settings = match name {
                "output_key" => json!({"key": "k"}),
                "keep_state" => json!({"keys": ["k"]}),
                "throttle" => json!({"tools": {"send": "to"}}),
                "tool_limits" => json!({"calls": {"send": 1}}),
                "soft_budget" => json!({"budget": {"tokens": 1}}),
                _ => json!({}),
            };
            assert!(make(&settings).is_ok(), "{name} needs no other settings");
        }
    }
}
