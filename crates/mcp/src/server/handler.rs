//! What a client asks for.

use std::{collections::HashMap, sync::Arc};

use ghostlight_actors::actor::{Run, System};
use parking_lot::Mutex;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
        CompleteRequestParams, CompleteResult, CompletionInfo, GetPromptRequestParams,
        GetPromptResponse, GetTaskParams, GetTaskResult, Implementation, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, Reference, RequestId,
        ServerCapabilities, ServerConfig, Tool, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::{Value, json};

use super::{
    Owner, Served,
    call::Call,
    prompts,
    resources::{self, Resources},
    tasks,
};

/// Serves one client, or over HTTP one session or request of it.
#[derive(Clone, Debug)]
pub struct Handler {
    pub(super) served: Arc<Served>,
    /// The runs of calls that are under way, by request.
    under_way: Arc<Mutex<HashMap<RequestId, Run>>>,
}

impl Handler {
    pub(super) fn new(served: Arc<Served>) -> Self {
        Self {
            served,
            under_way: Arc::default(),
        }
    }

    /// The System, acting for whom the request comes from.
    pub(super) fn system(&self, context: &RequestContext<RoleServer>) -> System {
        let parts = context.extensions.get::<http::request::Parts>();
        match parts.and_then(|parts| parts.extensions.get::<Owner>()) {
            Some(Owner(owner)) => self.served.system.acting_for(owner.clone()),
            None => self.served.system.clone(),
        }
    }

    /// What there is to read for whom the request comes from.
    pub(super) fn resources(&self, context: &RequestContext<RoleServer>) -> Resources<'_> {
        Resources {
            system: self.system(context),
            teams: &self.served.teams,
            documents: &self.served.documents,
        }
    }

    /// Keeps the run of a request, for as long as what is given back.
    pub(super) fn keep(&self, request: &RequestId, run: &Run) -> UnderWay {
        self.under_way.lock().insert(request.clone(), run.clone());
        UnderWay {
            runs: self.under_way.clone(),
            request: request.clone(),
        }
    }
}

/// A call that is under way.
pub(super) struct UnderWay {
    runs: Arc<Mutex<HashMap<RequestId, Run>>>,
    request: RequestId,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.runs.lock().remove(&self.request);
    }
}

/// The tool that is a team.
fn tool(served: &Served, name: &str, description: &str) -> Tool {
    let schema = served.input_of(name).unwrap_or_else(message_schema);
    let schema = schema.as_object().cloned().unwrap_or_default();
    let tool = Tool::new(name.to_owned(), description.to_owned(), Arc::new(schema));
    match served.output_of(name) {
        Some(Value::Object(schema)) => tool.with_raw_output_schema(Arc::new(schema)),
        _ => tool,
    }
}

/// What a team takes that does not say it.
fn message_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "message": { "type": "string", "description": "What the team is to do, complete in itself." },
            "session": {
                "type": "string",
                "description": "The conversation to go on with, as an earlier result names it; a new one when left out.",
            },
            "turn_id": {
                "type": "string",
                "description": "An id of this call: the same call made again with it is not done twice.",
            },
        },
        "required": ["message"],
        "additionalProperties": false,
    })
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .enable_completions()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
            .with_server_info(Implementation::new("ghostlight", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "Each tool is a team of agents. What they do is recorded and survives a crash: a call \
                 that was lost is made again with the same `turn_id`, and goes on where it was.",
            )
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.served.teams.iter();
        let tools = tools.map(|(name, description)| tool(&self.served, name, description));
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Call::read(self, params, &context)?
            .carry(self, context)
            .await
    }

    async fn on_cancelled(
        &self,
        params: CancelledNotificationParam,
        _: NotificationContext<RoleServer>,
    ) {
        let Some(request) = params.request_id else {
            return;
        };
        let run = self.under_way.lock().get(&request).cloned();
        if let Some(run) = run
            && let Err(error) = run.cancel("the client cancelled the call").await
        {
            tracing::warn!(run = %run.id(), %error, "a cancelled call goes on");
        }
    }

    async fn list_resources(
        &self,
        params: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = params.and_then(|params| params.cursor);
        self.resources(&context).list(cursor).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.resources(&context).read(&params.uri).await
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(prompts::list(&self.served.prompts))
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let prompt = prompts::get(&self.served.prompts, &params.name, params.arguments);
        Ok(prompt?.into())
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let (argument, known) = (&params.argument, params.context.as_ref());
        let known = known.and_then(|known| known.arguments.as_ref());
        let team = known.and_then(|known| known.get("team"));
        let completed = match &params.r#ref {
            Reference::Resource(template) => {
                let resources = self.resources(&context);
                let completing = resources.complete(
                    &template.uri,
                    &argument.name,
                    &argument.value,
                    team.map(String::as_str),
                );
                completing.await?
            }
            // Nobody but the client's person knows what stands in a template's places.
            _ => CompletionInfo::default(),
        };
        Ok(CompleteResult::new(completed))
    }

    async fn get_task(
        &self,
        params: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        tasks::get(self, &context, &params.task_id).await
    }

    async fn update_task(
        &self,
        params: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::update(self, &context, &params.task_id, &params.input_responses).await
    }

    async fn cancel_task(
        &self,
        params: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::cancel(self, &context, &params.task_id).await
    }
}
