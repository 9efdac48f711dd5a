//! A System with one team on the stage, and what happened there.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight::{behaviors, tools::tool_fn, workflows};
use ghostlight_actors::{
    actor::{Run, System, SystemError},
    contract::{Store, ToolError, ToolHandle},
    definition::BehaviorSpec,
    run::{Agent, BeforeTool, Policy, PolicyContext, Registry, Team},
    session::Turn,
    testing::{InMemoryStore, Reply, ScriptedModel, check_transcript},
    vocabulary::{
        AgentError, Effect, Event, Message, ModelRequest, ModelResponse, Outcome, Part, Question,
        Role, ToolCall, ToolDefinition,
    },
};
use serde_json::{Value, json};

pub(crate) struct Stage {
    pub(crate) system: System,
    pub(crate) model: ScriptedModel,
}

impl Stage {
    /// Puts a team on the stage whose model gives these replies in turn.
    pub(crate) async fn of<R: Into<Reply>>(
        agent: Agent,
        replies: impl IntoIterator<Item = R>,
    ) -> Self {
        Self::with(agent, ScriptedModel::replies(replies)).await
    }

    pub(crate) async fn with(agent: Agent, model: ScriptedModel) -> Self {
        Self::on(&InMemoryStore::new(), agent, model).await
    }

    pub(crate) async fn on(store: &InMemoryStore, agent: Agent, model: ScriptedModel) -> Self {
        Self::of_team(store, agent.into_team().unwrap(), model).await
    }

    pub(crate) async fn of_team(
        store: &(impl Store + Clone),
        team: Team,
        model: ScriptedModel,
    ) -> Self {
        let registry = workflows::register(behaviors::register(Registry::new()));
        let builder = System::builder(store.clone()).registry(registry);
        let builder = builder.model("default", model.clone()).team(team);
        let system = builder.start().await.unwrap();
        Self { system, model }
    }

    /// Says something to the team's one session.
    pub(crate) async fn say(&self, turn: impl Into<Turn>) -> Run {
        self.system
            .session("desk", "session")
            .send(turn)
            .await
            .unwrap()
    }

    pub(crate) async fn try_ask(&self, turn: impl Into<Turn>) -> Result<Outcome, SystemError> {
        let outcome = self.say(turn).await.outcome().await;
        self.check();
        outcome
    }

    /// The outcome of a turn. Every request until then keeps the providers' rules.
    pub(crate) async fn ask(&self, turn: impl Into<Turn>) -> Outcome {
        self.try_ask(turn).await.unwrap()
    }

    /// Every request so far is one that a provider accepts, and leaves the model to speak.
    pub(crate) fn check(&self) {
        for (number, request) in self.model.requests().iter().enumerate() {
            let messages = request.conversation.messages();
            if let Err(breach) = check_transcript(&messages) {
                panic!("request {number}: {breach}\n{messages:#?}");
            }
            let last = messages.last().unwrap().role;
            assert!(
                matches!(last, Role::User | Role::Tool),
                "request {number} ends with {last:?}"
            );
        }
    }

    /// What a request's messages said, each as `role: text`.
    pub(crate) fn said(&self, request: usize) -> Vec<String> {
        said(&self.model.requests()[request].conversation.messages())
    }

    pub(crate) fn request(&self, number: usize) -> ModelRequest {
        self.model.requests()[number].clone()
    }

    /// The last message of a request.
    pub(crate) fn last(&self, request: usize) -> String {
        self.said(request).pop().unwrap()
    }

    pub(crate) fn calls(&self) -> usize {
        self.model.calls()
    }
}

/// Messages in one line each: texts as they are, calls as `name(arguments)`, results as
/// `name=status:text`.
pub(crate) fn said(messages: &[Arc<Message>]) -> Vec<String> {
    let part = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::ToolCall(call) => format!("{}({})", call.name, call.arguments.text()),
        Part::ToolResult(result) => {
            format!("{}={:?}:{}", result.name, result.status, result.text)
        }
        other => format!("{other:?}"),
    };
    let line = |message: &Arc<Message>| {
        let parts: Vec<String> = message.parts.iter().map(part).collect();
        format!("{:?}: {}", message.role, parts.join(" | ")).to_lowercase()
    };
    messages.iter().map(line).collect()
}

/// An agent called `desk` that works by this behavior.
pub(crate) fn desk(behavior: &str, settings: Value) -> Agent {
    Agent::new("desk").behavior(BehaviorSpec::new(behavior).settings(settings))
}

/// A tool that returns what it is given, and fails where it is told to.
pub(crate) fn echo() -> ToolHandle {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Echo {
        text: String,
    }
    let definition = ToolDefinition::new("echo", "Says it again.").effect(Effect::Read);
    tool_fn(definition, |echo: Echo| async move {
        match echo.text.strip_prefix("fail ") {
            Some(reason) => Err(ToolError::new(reason)),
            None => Ok(echo.text),
        }
    })
}

/// A tool that answers at once.
pub(crate) fn tool(
    definition: ToolDefinition,
    answer: impl Fn(Value) -> String + Send + Sync + 'static,
) -> ToolHandle {
    tool_fn(definition, move |arguments: Value| {
        let said = answer(arguments);
        async move { Ok(said) }
    })
}

pub(crate) fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall::new(id, name, arguments)
}

pub(crate) fn echo_call(id: &str, text: &str) -> ToolCall {
    call(id, "echo", json!({ "text": text }))
}

/// Asks a person about the call with the id `2`.
pub(crate) struct AskAboutSecond;

impl Policy for AskAboutSecond {
    async fn before_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        let question = Question::approval(format!("May {}?", call.id), call.clone());
        Ok(match call.id.as_str() {
            "2" => BeforeTool::ask(question),
            _ => BeforeTool::Go,
        })
    }
}

/// A response that says something and asks for tools.
pub(crate) fn with_text(text: &str, calls: impl IntoIterator<Item = ToolCall>) -> ModelResponse {
    let calls = calls.into_iter().map(Part::ToolCall);
    ModelResponse::new(Message {
        role: Role::Assistant,
        author: None,
        parts: [Part::Text(text.to_owned())]
            .into_iter()
            .chain(calls)
            .collect(),
        synthetic: false,
    })
}

/// The names of the events that the run's functions told.
pub(crate) async fn told(run: &Run) -> Vec<(String, Value)> {
    let records = run.events().so_far().await.unwrap();
    let custom = records.into_iter().filter_map(|record| match record.event {
        Event::Custom { name, data } => Some((name, data)),
        _ => None,
    });
    custom.collect()
}

/// A tool that takes a second, and how many calls of it were under way at once at most.
pub(crate) fn crowded() -> (ToolHandle, Arc<AtomicU32>) {
    let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let told = most.clone();
    let definition = ToolDefinition::new("wait", "Takes a second.").effect(Effect::Read);
    let tool = tool_fn(definition, move |_: Value| {
        let (now, most) = (now.clone(), most.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok("waited")
        }
    });
    (tool, told)
}
