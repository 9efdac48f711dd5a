use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::vocabulary::{Budget, Data, Message, Part, RunStart, Timestamp, ToolDefinition};

/// A user's message to a session, with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Turn {
    /// The message.
    pub message: Arc<Message>,
    /// The caller's id of the turn: a turn that is sent twice under one id is one run. Without one
    /// the turn gets a fresh id.
    pub id: Option<String>,
    /// The user who sends it. A session belongs to the owner that its first turn names; turns with
    /// another owner, or without one, are refused. A session whose first turn names none belongs to
    /// nobody, also later: everybody may speak in it, and the run of each turn is its speaker's.
    pub owner: Option<String>,
    /// The bounds of this turn's run, beyond the team's.
    pub budget: Budget,
    /// When the run must have ended.
    pub deadline: Option<Timestamp>,
    /// Whether this is a dry run: tools with an effect are not called, and their results tell what
    /// each would do.
    pub dry_run: bool,
    /// Whether models show their answers piece by piece; without it each agent's own setting
    /// counts.
    pub streaming: Option<bool>,
    /// Tools of the caller, beside those of the agents that carry the turn.
    pub tools: Vec<Arc<ToolDefinition>>,
}

impl Turn {
    /// A turn of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::from(Message::user(text))
    }

    /// Adds a file behind what the turn says; models see it in the form that their provider takes.
    ///
    /// ```
    /// use ghostlight_actors::{session::Turn, vocabulary::Data};
    ///
    /// let table = Data::from_bytes("prices.csv", "pear,2")?;
    /// let turn = Turn::text("What is dearest?").attach(table);
    /// # let _ = turn;
    /// # Ok::<(), ghostlight_actors::vocabulary::FileError>(())
    /// ```
    #[must_use]
    pub fn attach(mut self, file: impl Into<Data>) -> Self {
        Arc::make_mut(&mut self.message)
            .parts
            .push(Part::Data(file.into()));
        self
    }

    /// Sets the caller's id of the turn.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the owner who sends the turn.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets the bounds of this turn's run.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Makes the turn's run a dry run: tools with an effect are not called, and no approval is
    /// asked for; their results tell what each would do. Tools that only read are called, and so
    /// are models. Child runs are dry runs too.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Sets whether models show their answers piece by piece to the observers of the run, whatever
    /// its agents' settings are ([`Agent::streaming`](crate::run::Agent::streaming)). It holds for
    /// child runs too.
    #[must_use]
    pub fn streaming(mut self, streaming: bool) -> Self {
        self.streaming = Some(streaming);
        self
    }

    /// Adds a tool of the caller's: each call of it is a question
    /// ([`QuestionKind::ToolResult`](crate::vocabulary::QuestionKind::ToolResult)), whose answer is
    /// its result. The tool is offered to the agents that carry the turn, and not to those to which
    /// they delegate. An agent's own tool of the same name takes precedence.
    #[must_use]
    pub fn tool(mut self, definition: ToolDefinition) -> Self {
        self.tools.retain(|known| known.name != definition.name);
        self.tools.push(Arc::new(definition));
        self
    }

    /// Sets when the run must have ended.
    #[must_use]
    pub fn deadline(mut self, deadline: Timestamp) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Whether only a run of its own can carry the turn: the one under way may have effects, which a dry run must not have,
    /// and it lacks the turn's tools and its bounds.
    pub(crate) fn needs_own_run(&self) -> bool {
        let is_bounded = self.budget != Budget::default() || self.deadline.is_some();
        self.dry_run || is_bounded || !self.tools.is_empty()
    }

    /// Whether a run with this start may hear the turn: a run acts with the rights of its owner, so nobody else's words
    /// drive it.
    pub(crate) fn is_for(&self, start: &RunStart) -> bool {
        self.owner == start.owner
    }
}

impl From<Message> for Turn {
    fn from(message: Message) -> Self {
        let budget = Budget::default();
        Self {
            message: Arc::new(message),
            id: None,
            owner: None,
            budget,
            deadline: None,
            dry_run: false,
            streaming: None,
            tools: Vec::new(),
        }
    }
}

impl From<&str> for Turn {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Turn {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}
