//! The operations on a remote agent as tools, so that each of them is recorded, bounded, shown and refused like any
//! other call.

use std::time::Duration;

use ghostlight_actors::{
    contract::{
        Credential, Reconciled, Tool, ToolContext, ToolError, ToolHandle, ToolOutput, Toolset,
    },
    vocabulary::{Arguments, Data, Effect, ToolCall, ToolDefinition},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AWAIT, CANCEL, SEND, standing::Standing, tool_name};
use crate::{
    client::{A2aClient, ClientError, ClientOptions, ClientOptionsError, Sent},
    protocol::{ErrorCode, ListTasks, Message, Part, QUESTION, Role},
};

/// The most characters of a result: the limit of what is taken from an agent, as JSON.
const OUTPUT_LIMIT: u32 = 16 << 20;
/// How long after the task's time limit its call is aborted.
const SLACK: Duration = Duration::from_secs(30);
/// How many of the latest tasks are searched for a message that may have been sent.
const LOOKED_THROUGH: u32 = 100;

/// The tools of one remote agent; their names begin with the name of its member of the team.
#[derive(Debug)]
pub struct RemoteToolset {
    tools: Vec<ToolHandle>,
}

impl RemoteToolset {
    /// The tools of the member with this name. Nothing is sent to the agent yet.
    ///
    /// # Errors
    /// The settings are invalid.
    pub fn new(agent: &str, settings: ClientOptions) -> Result<Self, ClientOptionsError> {
        let client = A2aClient::new(settings)?;
        let name = |what| tool_name(agent, what);
        let send = Send {
            name: name(SEND),
            client: client.clone(),
        };
        let wait = Await {
            name: name(AWAIT),
            client: client.clone(),
        };
        let cancel = Cancel {
            name: name(CANCEL),
            client,
        };
        let tools = vec![
            ToolHandle::new(send),
            ToolHandle::new(wait),
            ToolHandle::new(cancel),
        ];
        Ok(Self { tools })
    }
}

impl Toolset for RemoteToolset {
    fn tools(&self) -> Result<Vec<ToolHandle>, ToolError> {
        Ok(self.tools.clone())
    }
}

/// The message, and where it was said.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Said {
    /// The message.
    pub(super) parts: Vec<Part>,
    /// The conversation.
    pub(super) context: Option<String>,
    /// The task that it continues with.
    pub(super) task: Option<String>,
    /// The operation that it answers.
    pub(super) question: Option<String>,
}

/// One task.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskId {
    /// Its id.
    pub(super) task: String,
}

fn read<T: for<'de> Deserialize<'de>>(arguments: &Arguments) -> Result<T, ToolError> {
    Ok(arguments.parse()?)
}

fn output((standing, files): (Standing, Vec<Data>)) -> Result<ToolOutput, ToolError> {
    let mut output = ToolOutput::of(&standing)?;
    output.attachments = files;
    Ok(output)
}

/// Says something.
struct Send {
    name: String,
    client: A2aClient,
}

impl Send {
    /// The call's message. Its id is the call's, so that it stays the same message however often it is sent.
    fn message(said: Said, cx: &ToolContext) -> Message {
        let metadata = said
            .question
            .map(|operation| (QUESTION.to_owned(), operation.into()));
        Message {
            message_id: cx.idempotency_key(),
            context_id: said.context,
            task_id: said.task,
            role: Role::User,
            parts: said.parts,
            metadata: metadata.map(|named| [named].into_iter().collect()),
            ..Message::default()
        }
    }
}

impl Tool for Send {
    fn definition(&self) -> ToolDefinition {
        let about = "Says something to the agent elsewhere and gives the task that it makes of it.";
        ToolDefinition::new(&self.name, about)
            .parameters_of::<Said>()
            .effect(Effect::Once)
            .timeout(self.client.settings().request_timeout * 3)
            .output_limit(OUTPUT_LIMIT)
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let message = Self::message(read(&arguments)?, &cx);
        // If the card cannot be read, the message was certainly not sent.
        self.client.card().await?;
        let sent = match self.client.send(message).await {
            Ok(sent) => sent,
            Err(error) if error.was_sent() => return Err(ToolError::in_doubt(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        if let (Sent::Task(task), true) = (&sent, cx.cancelled().is_cancelled()) {
            // The task's id is returned to no caller, so no other code can cancel it.
            let _ = self.client.cancel(&task.id).await;
        }
        output(Standing::of(&sent))
    }

    /// Checks whether the agent has got the message.
    async fn reconcile(&self, call: &ToolCall, cx: ToolContext) -> Reconciled {
        let Ok(said) = read::<Said>(&call.arguments) else {
            return Reconciled::Unknown;
        };
        match self.client.card().await {
            // This agent handles a message only once, so the message is sent again.
            Ok(card) if card.tells_messages_once() => return Reconciled::DidNotHappen,
            Ok(_) => {}
            Err(_) => return Reconciled::Unknown,
        }
        let id = cx.idempotency_key();
        let which = ListTasks {
            context_id: said.context.unwrap_or_default(),
            page_size: Some(LOOKED_THROUGH),
            include_artifacts: true,
            ..ListTasks::default()
        };
        let Ok(page) = self.client.tasks(&which).await else {
            return Reconciled::Unknown;
        };
        let has_it = |message: &Message| message.message_id == id;
        let found = page
            .tasks
            .iter()
            .find(|task| task.history.iter().any(has_it));
        // An agent that shows no such message may still have got it.
        match found.map(|task| output(Standing::of_task(task))) {
            Some(Ok(output)) => Reconciled::Happened(output),
            _ => Reconciled::Unknown,
        }
    }

    fn secrets(&self) -> Vec<Credential> {
        self.client.settings().secrets()
    }
}

/// Waits for a task.
struct Await {
    name: String,
    client: A2aClient,
}

impl Tool for Await {
    fn definition(&self) -> ToolDefinition {
        let about = "Waits until a task of the agent elsewhere has ended or needs an answer.";
        ToolDefinition::new(&self.name, about)
            .parameters_of::<TaskId>()
            .effect(Effect::Read)
            .timeout(self.client.settings().task_timeout + SLACK)
            .output_limit(OUTPUT_LIMIT)
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let TaskId { task } = read(&arguments)?;
        let task = self.client.settled(&task, |text| cx.output(text)).await?;
        output(Standing::of_task(&task))
    }

    fn secrets(&self) -> Vec<Credential> {
        self.client.settings().secrets()
    }
}

/// Cancels a task.
struct Cancel {
    name: String,
    client: A2aClient,
}

impl Tool for Cancel {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new(&self.name, "Cancels a task of the agent elsewhere.")
            .parameters_of::<TaskId>()
            .effect(Effect::Idempotent)
            .timeout(self.client.settings().request_timeout * 3)
    }

    async fn call(&self, arguments: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let TaskId { task } = read(&arguments)?;
        match self.client.cancel(&task).await {
            Ok(_) => Ok(ToolOutput::text("cancelled")),
            // The task had ended already, so there is nothing to cancel.
            Err(ClientError::Refused(error))
                if matches!(
                    error.code,
                    ErrorCode::TaskNotCancelable | ErrorCode::TaskNotFound
                ) =>
            {
                Ok(ToolOutput::text("it had ended"))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn secrets(&self) -> Vec<Credential> {
        self.client.settings().secrets()
    }
}
