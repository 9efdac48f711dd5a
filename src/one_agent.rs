//! One agent, asked in one call.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::{FutureExt as _, stream::Stream};
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
        Ok(outcome(alone.run.clone()).await?.into_answer()?)
    }

    async fn run_as<T: DeserializeOwned + JsonSchema>(
        &self,
        input: impl Into<Turn> + Send,
    ) -> Result<T, Error> {
        let alone = Alone::start(self.clone().output::<T>(), input.into()).await?;
        Ok(outcome(alone.run.clone()).await?.into_value()?)
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
            end: None,
            alone: Some(alone),
        })
    }
}

/// The text of one agent, piece by piece: see [`AgentExt::stream`]. Dropping it stops the work, but
/// undoes nothing that a tool has already done. It is a [`Stream`], for the adapters of `futures` and
/// `tokio-stream`; [`next`](Self::next) needs none of them.
pub struct AnswerStream {
    text: TextStream,
    asks: BoxFuture<'static, Error>,
    /// The end of the run, once all its text was given.
    end: Option<BoxFuture<'static, Result<Outcome, Error>>>,
    /// `None` after the end.
    alone: Option<Alone>,
}

impl AnswerStream {
    /// The next piece; `None` when the agent has answered.
    ///
    /// # Errors
    /// The errors of [`AgentExt::run`]; nothing comes after one.
    pub async fn next(&mut self) -> Option<Result<TextDelta, Error>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for AnswerStream {
    type Item = Result<TextDelta, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = self.get_mut();
        let Some(alone) = &stream.alone else {
            return Poll::Ready(None);
        };
        let end = match &mut stream.end {
            Some(end) => ready!(end.poll_unpin(cx)),
            None => match Pin::new(&mut stream.text).poll_next(cx) {
                Poll::Ready(Some(Ok(piece))) => return Poll::Ready(Some(Ok(piece))),
                Poll::Ready(Some(Err(error))) => Err(error),
                Poll::Ready(None) => {
                    let end = stream.end.insert(Box::pin(outcome(alone.run.clone())));
                    ready!(end.poll_unpin(cx))
                }
                Poll::Pending => Err(ready!(stream.asks.poll_unpin(cx))),
            },
        };
        stream.alone = None;
        let answer = end.and_then(|outcome| Ok(outcome.into_answer()?));
        Poll::Ready(answer.err().map(Err))
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
}

/// The outcome of a run that nobody can answer.
async fn outcome(run: Run) -> Result<Outcome, Error> {
    tokio::select! {
        biased;
        outcome = run.outcome() => outcome,
        error = asks(run.clone()) => Err(error),
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
