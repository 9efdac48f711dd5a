//! The state of an unfinished call, which the engine stores.

use std::collections::BTreeMap;

use ghostlight_actors::{
    contract::{ToolError, ToolOutput},
    vocabulary::Continuation,
};
use rmcp::model::{ElicitRequestParams, InputRequest, InputRequests, InputResponses};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::form;

/// The most bytes of the state.
const MAX_BYTES: usize = 256 << 10;
/// How many times a person may answer again after an answer that does not fit.
const TRIES: u32 = 3;
/// How many times one call may ask for input.
const ROUNDS: u32 = 10;

/// The state of an unfinished call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    /// The server wants input, and then the same call again.
    Input {
        state: Option<String>,
        wanted: Wanted,
        round: u32,
    },
    /// The call stays open at a server of an older revision, which waits for this answer.
    Standing {
        key: String,
        asked: Box<ElicitRequestParams>,
        tries: u32,
    },
    /// The server made a task of the call.
    Task {
        id: String,
        /// How many parts of the call have waited for the task.
        looks: u32,
        /// The input that the task wants.
        wanted: Option<Wanted>,
    },
}

/// The input that a server wants, with the answers so far.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Wanted {
    open: Vec<(String, ElicitRequestParams)>,
    answers: InputResponses,
    tries: u32,
}

impl Wanted {
    /// Reads a server's requests for input.
    ///
    /// # Errors
    /// It asks for something that this client does not offer.
    pub(super) fn of(requests: Option<InputRequests>) -> Result<Self, ToolError> {
        let mut wanted = Self::default();
        for (key, request) in requests.unwrap_or_default() {
            match request {
                InputRequest::Elicitation(asked) => match form::refused(&asked.params) {
                    None => wanted.open.push((key, asked.params)),
                    Some(reason) => {
                        tracing::warn!(%reason, "the question of an MCP server is declined");
                        wanted.answers.insert(key, json!({ "action": "decline" }));
                    }
                },
                // This client offers no roots.
                InputRequest::ListRoots(_) => {
                    wanted.answers.insert(key, json!({ "roots": [] }));
                }
                _ => {
                    return Err(ToolError::new(
                        "The server wants an answer of a model, which this client does not give. It has done \
                         nothing.",
                    ));
                }
            }
        }
        Ok(wanted)
    }

    /// Takes a person's answer to the first open question; returns what is wrong with it.
    pub(super) fn take(&mut self, answer: Option<&Value>) -> Option<String> {
        let (key, asked) = self.open.first()?;
        let answer = match self.tries >= TRIES {
            true => None,
            false => answer,
        };
        match form::result(asked, answer) {
            Ok(result) => {
                let result = serde_json::to_value(result).unwrap_or_default();
                self.answers.insert(key.clone(), result);
                self.open.remove(0);
                self.tries = 0;
                None
            }
            Err(fault) => {
                self.tries += 1;
                Some(fault)
            }
        }
    }

    /// Whether everything is answered.
    pub(super) fn is_answered(&self) -> bool {
        self.open.is_empty()
    }

    /// The answers.
    pub(super) fn into_answers(self) -> BTreeMap<String, Value> {
        self.answers
    }
}

impl Place {
    /// Builds the state for a server's next request for input.
    pub(super) fn input(
        state: Option<String>,
        wanted: Wanted,
        round: u32,
    ) -> Result<Self, ToolError> {
        if round > ROUNDS {
            let message = format!("The server wanted input {ROUNDS} times and came to no end.");
            return Err(ToolError::new(message));
        }
        Ok(Self::Input {
            state,
            wanted,
            round,
        })
    }

    /// Reads the stored state.
    pub(super) fn read(kept: &str) -> Result<Self, ToolError> {
        let wrong = |error| ToolError::in_doubt(format!("what was kept of it is lost: {error}"));
        serde_json::from_str(kept).map_err(wrong)
    }

    /// The call's output until then: the next question, and the state to store.
    pub(super) fn goes_on(
        self,
        server: &str,
        fault: Option<&str>,
    ) -> Result<ToolOutput, ToolError> {
        let state = serde_json::to_string(&self)
            .map_err(|error| ToolError::in_doubt(format!("it cannot be kept: {error}")))?;
        if state.len() > MAX_BYTES {
            return Err(ToolError::in_doubt(format!(
                "the server wants more than {MAX_BYTES} bytes to be kept"
            )));
        }
        let (asked, looks) = match &self {
            Self::Input { wanted, .. } => (wanted.open.first().map(|(_, asked)| asked), false),
            Self::Standing { asked, .. } => (Some(&**asked), false),
            Self::Task { wanted, .. } => {
                let open = wanted.as_ref().and_then(|wanted| wanted.open.first());
                (open.map(|(_, asked)| asked), true)
            }
        };
        let mut continuation = match asked {
            Some(asked) => Continuation::asking(form::question(server, asked, fault), state),
            None => Continuation::of(state),
        };
        if looks {
            continuation = continuation.repeatable();
        }
        Ok(ToolOutput::goes_on(continuation))
    }
}
