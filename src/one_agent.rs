//! One agent, asked in one call.

use std::fmt;

use futures_util::stream::{Stream, unfold};
use ghostlight_actors::{
    actor::{Run, System, TextDelta, TextStream},
    contract::{BoxFuture, InMemoryStore},
    definition::PolicySpec,
    run::Agent,
    session::Turn,
    vocabulary::{Answer, Event, Outcome},
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::Error;

/// The registered name of the policy that bounds the calls of single tools.
const LIMITS: &str = "tool_limits";
/// The key of the one session.
const SESSION: &str = "one";

/// Methods that this package adds to [`Agent`]: one question and its answer, without setting up a
/// System. The prelude exports it.
///
/// ```
/// use ghostlight::prelude::*;
///
/// /// Adds 19% VAT to a net price in euro.
/// #[tool(effect = "read")]
/// async fn add_vat(net: f64) -> Result<f64, ToolError> {
///     Ok(net * 119.0 / 100.0)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ghostlight::Error> {
/// let desk = Agent::new("desk").model(OfflineModel).tool(add_vat);
/// let answer = desk.run("80 euro with VAT?").await?;
/// assert!(answer.text.contains("95.2"), "{answer}");
/// # Ok(())
/// # }
/// ```
///
/// Each call stands alone: it sets up a System in memory with everything that is [built
/// in](crate::builtin), and stops it at the end, or when the call is dropped. Its records are gone
/// then, and the next call does not know them. For a conversation that continues, or that survives
/// the process, make the same agent the team of a System:
///
/// ```no_run
/// # use ghostlight::prelude::*;
/// # async fn long(desk: Agent) -> Result<(), ghostlight::Error> {
/// # #[cfg(feature = "sqlite")] {
/// let system = System::open("desk.db")?.team(desk.into_team()?).start().await?;
/// let answer = system.session("desk", "ada").ask("80 euro with VAT?").await?;
/// # let _ = answer; system.stop().await?; }
/// # Ok(())
/// # }
/// ```
///
/// Nobody can answer a question here, so an agent that asks a person (for an approval, say) ends
/// the call with [`Error::NobodyAnswers`]. An agent without a model would use the model `default` of a
/// System, which does not exist here: give it one by [`Agent::model`].
pub trait AgentExt {
    /// Asks the agent and waits for its answer.
    ///
    /// # Errors
    /// A fault in the agent's definition; [`Error::Failed`]; [`Error::NoAnswer`] if it stopped
    /// before its end; [`Error::NobodyAnswers`].
    fn run(
        &self,
        input: impl Into<Turn> + Send,
    ) -> impl Future<Output = Result<Answer, Error>> + Send;

    /// Asks the agent, whose model must follow the schema of this type, and waits for the value.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run); [`Error::NoAnswer`] if the answer is not such a value.
    fn run_as<T: DeserializeOwned + JsonSchema>(
        &self,
        input: impl Into<Turn> + Send,
    ) -> impl Future<Output = Result<T, Error>> + Send;

    /// Bounds the calls of this tool in a run and in all runs below its root. A call beyond the
    /// bound is refused, the model is told so, and the run continues. This is the built-in policy
    /// [`ToolLimits`](crate::policies::ToolLimits); in a team file it stands under `policies`, as
    /// `{ name: tool_limits, calls: { search: 5 } }`.
    #[must_use]
    fn call_limit(self, tool: impl Into<String>, calls: u32) -> Self;

    /// Asks the agent and streams the text of its model, piece by piece.
    ///
    /// # Errors
    /// A fault in the agent's definition.
    fn stream(
        &self,
        input: impl Into<Turn> + Send,
    ) -> impl Future<Output = Result<AnswerStream, Error>> + Send;
}

impl AgentExt for Agent {
    async fn run(&self, input: impl Into<Turn> + Send) -> Result<Answer, Error> {
        let alone = Alone::start(self.clone(), input.into()).await?;
        Ok(alone.outcome().await?.into_answer()?)
    }

    async fn run_as<T: DeserializeOwned + JsonSchema>(
        &self,
        input: impl Into<Turn> + Send,
    ) -> Result<T, Error> {
        let alone = Alone::start(self.clone().output::<T>(), input.into()).await?;
        Ok(alone.outcome().await?.into_value()?)
    }

    fn call_limit(self, tool: impl Into<String>, calls: u32) -> Self {
        self.define(|spec| {
            let tool = tool.into();
            let known = spec
                .policies
                .iter_mut()
                .find(|policy| policy.name == LIMITS)
                .and_then(|policy| policy.settings.get_mut("calls")?.as_object_mut());
            match known {
                Some(limits) => {
                    limits.insert(tool, calls.into());
                }
                None => {
                    let settings = json!({ "calls": { tool: calls } });
                    let policy = PolicySpec::new(LIMITS).settings(settings);
                    spec.policies.push(policy);
                }
            }
        })
    }

    async fn stream(&self, input: impl Into<Turn> + Send) -> Result<AnswerStream, Error> {
        let turn = input.into().streaming(true);
        let alone = Alone::start(self.clone(), turn).await?;
        Ok(AnswerStream {
            text: alone.run.text_stream(),
            asks: Box::pin(asks(alone.run.clone())),
            alone: Some(alone),
        })
    }
}

/// The text of one agent, piece by piece: see [`AgentExt::stream`]. Dropping it stops the work, but
/// undoes nothing that a tool has already done.
pub struct AnswerStream {
    text: TextStream,
    asks: BoxFuture<'static, Error>,
    /// `None` after the end.
    alone: Option<Alone>,
}

impl AnswerStream {
    /// The next piece; `None` when the agent has answered.
    ///
    /// # Errors
    /// The errors of [`AgentExt::run`]; nothing comes after one.
    pub async fn next(&mut self) -> Option<Result<TextDelta, Error>> {
        let alone = self.alone.as_ref()?;
        let piece = tokio::select! {
            biased;
            piece = self.text.next() => piece,
            error = &mut self.asks => Some(Err(error)),
        };
        let end = match piece {
            Some(Ok(piece)) => return Some(Ok(piece)),
            Some(Err(error)) => Err(error),
            None => alone.outcome().await,
        };
        self.alone = None;
        let answer = end.and_then(|outcome| Ok(outcome.into_answer()?));
        answer.err().map(Err)
    }
}

impl AnswerStream {
    /// The same as a [`Stream`], for the adapters of `futures` and `tokio-stream`.
    pub fn into_stream(self) -> impl Stream<Item = Result<TextDelta, Error>> + Send {
        unfold(self, |mut answer| async move {
            Some((answer.next().await?, answer))
        })
    }
}

impl fmt::Debug for AnswerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerStream")
            .field("text", &self.text)
            .finish_non_exhaustive()
    }
}

/// A run in a System of its own.
struct Alone {
    run: Run,
    /// Stops the System with it.
    _stops: Stops,
}

impl Alone {
    async fn start(agent: Agent, turn: Turn) -> Result<Self, Error> {
        let name = agent.spec().name.clone();
        let system = System::builder(InMemoryStore::new())
            .registry(crate::builtin())
            .team(agent.into_team()?)
            .start()
            .await?;
        let stops = Stops(system.clone());
        let run = system.session(name, SESSION).send(turn).await?;
        Ok(Self { run, _stops: stops })
    }

    async fn outcome(&self) -> Result<Outcome, Error> {
        tokio::select! {
            biased;
            outcome = self.run.outcome() => outcome,
            error = asks(self.run.clone()) => Err(error),
        }
    }
}

/// Waits until a person is asked, which may be never.
async fn asks(run: Run) -> Error {
    let mut events = run.events().recorded();
    while let Some(Ok(record)) = events.next().await {
        if let Event::QuestionAsked { question, .. } = record.event {
            return Error::NobodyAnswers {
                question: question.prompt,
            };
        }
    }
    std::future::pending().await
}

/// Stops a System when it is dropped, so that an abandoned call leaves nothing running.
struct Stops(System);

impl Drop for Stops {
    fn drop(&mut self) {
        let system = self.0.clone();
        // Without a runtime there is nothing left that could run.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // A store in memory has nothing to lose.
                let _ = system.stop().await;
            });
        }
    }
}
