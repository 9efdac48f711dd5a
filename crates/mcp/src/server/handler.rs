//! The handler of clients' requests.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use ghostlight_actors::{
    actor::{Run, Session, System},
    session::Turn,
};
use ghostlight_safety::redact_text;
use parking_lot::Mutex;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    handler::server::skill_catalog::SkillCatalog,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
        CompleteRequestParams, CompleteResult, CompletionInfo, ConstString, CustomRequest,
        CustomResult, GetPromptRequestParams, GetPromptResponse, GetSkillRequestMethod,
        GetSkillRequestParams, GetSkillResult, GetTaskParams, GetTaskResult, Implementation,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListSkillsRequestMethod, ListSkillsResult, ListToolsResult, PaginatedRequestParams,
        ProtocolVersion, ReadResourceDirectoryRequestMethod, ReadResourceDirectoryRequestParams,
        ReadResourceDirectoryResult, ReadResourceRequestParams, ReadResourceResponse, Reference,
        RequestId, ServerCapabilities, ServerConfig, SetLevelRequestMethod, SubscribeRequestParams,
        SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::{Value, json};

use super::{
    Owner, Sender, Served,
    call::Call,
    logging::{self, SetLevel},
    prompts, questions,
    resources::{self, Resources, internal},
    space::Space,
    subscriptions::{self, Changes, MAX_WATCHED, Watched},
    tasks,
};
use crate::ambiguous;

/// Serves one client; over HTTP, one of its sessions or requests.
#[derive(Clone, Debug)]
pub struct Handler {
    pub(super) served: Arc<Served>,
    /// The runs of calls that are under way, by request.
    under_way: Arc<Mutex<HashMap<RequestId, Run>>>,
    /// Whether a client of an older revision wants log messages.
    logs: Arc<AtomicBool>,
    /// The addresses that a client of an older revision watches.
    watched: Arc<Watched>,
}

impl Handler {
    pub(super) fn new(served: Arc<Served>) -> Self {
        Self {
            served,
            under_way: Arc::default(),
            logs: Arc::default(),
            watched: Arc::default(),
        }
    }

    /// The System, acting for the owner of the request.
    pub(super) fn system(&self, context: &RequestContext<RoleServer>) -> System {
        match owner(context) {
            Some(owner) => self.served.system.acting_for(owner),
            None => self.served.system.clone(),
        }
    }

    /// The resources that the owner of the request may read.
    pub(super) fn resources(&self, context: &RequestContext<RoleServer>) -> Resources<'_> {
        Resources {
            system: self.system(context),
            space: space(context),
            teams: &self.served.teams,
            documents: &self.served.documents,
            skills: self.served.skills.as_deref(),
            document_templates: &self.served.document_templates,
        }
    }

    /// The skills, for the method `M`, which a server without skills does not have.
    fn skills<M: ConstString>(&self) -> Result<&SkillCatalog, ErrorData> {
        let skills = self.served.skills.as_deref();
        skills.ok_or_else(ErrorData::method_not_found::<M>)
    }

    /// Whether the client wants log messages for this request.
    pub(super) fn logs(&self, context: &RequestContext<RoleServer>) -> bool {
        match questions::is_newest(context) {
            true => context.meta.log_level().is_some_and(logging::are_wanted),
            false => self.logs.load(Relaxed),
        }
    }

    /// Registers the run of a request until the returned value is dropped.
    pub(super) fn keep(&self, request: &RequestId, run: &Run) -> UnderWay {
        self.under_way.lock().insert(request.clone(), run.clone());
        UnderWay {
            runs: self.under_way.clone(),
            request: request.clone(),
        }
    }
}

/// The owner for whom a request acts.
fn owner(context: &RequestContext<RoleServer>) -> Option<&str> {
    let parts = context.extensions.get::<http::request::Parts>()?;
    let Owner(owner) = parts.extensions.get::<Owner>()?;
    Some(owner)
}

/// Sends a turn for a request.
///
/// # Errors
/// The reason why the turn was not sent.
pub(super) async fn send(
    context: &RequestContext<RoleServer>,
    session: &Session,
    turn: Turn,
) -> Result<Run, String> {
    let parts = context.extensions.get::<http::request::Parts>();
    match parts.and_then(|parts| parts.extensions.get::<Sender>()) {
        Some(Sender(send)) => send(session.id().clone(), turn).await,
        None => session
            .send(turn)
            .await
            .map_err(|error| redact_text(&error.to_string()).into_owned()),
    }
}

/// The names that the owner of a request has for sessions.
pub(super) fn space(context: &RequestContext<RoleServer>) -> Space {
    Space::of(owner(context))
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

/// The tool of a team.
fn tool(served: &Served, name: &str, description: &str) -> Tool {
    let schema = served.input_of(name).unwrap_or_else(message_schema);
    let schema = schema.as_object().cloned().unwrap_or_default();
    let tool = Tool::new(name.to_owned(), description.to_owned(), Arc::new(schema));
    match served.output_of(name) {
        Some(Value::Object(schema)) => tool.with_raw_output_schema(Arc::new(schema)),
        _ => tool,
    }
}

/// The input schema of a team that has none of its own.
fn message_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "message": { "type": "string", "description": "What the team is to do, complete in itself." },
            "session": {
                "type": "string",
                "description": "The conversation: a name that you choose, the same in each call that goes on with it; a new one when left out.",
            },
            "turn_id": {
                "type": "string",
                "description": "An id of this call, which you choose: the same call made again with it is not done twice.",
            },
        },
        "required": ["message"],
        "additionalProperties": false,
    })
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        #[expect(deprecated, reason = "older clients have messages of a log")]
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_completions()
            .enable_tasks();
        let capabilities = match &self.served.skills {
            Some(_) => capabilities.enable_skills_with_directory_read().build(),
            None => capabilities.build(),
        };
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

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        ambiguous::refuse(request)
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
        Ok(resources::templates(&self.served.document_templates))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.resources(&context).read(&params.uri).await
    }

    async fn read_resource_directory(
        &self,
        params: ReadResourceDirectoryRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        self.skills::<ReadResourceDirectoryRequestMethod>()?
            .read_resource_directory(&params.uri)
    }

    async fn list_skills(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        Ok(self.skills::<ListSkillsRequestMethod>()?.list_skills())
    }

    async fn get_skill(
        &self,
        params: GetSkillRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        self.skills::<GetSkillRequestMethod>()?
            .get_skill(&params.uri)
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
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let resources = self.resources(&context);
        prompts::get(&self.served.prompts, params, &resources, &context).await
    }

    async fn set_level(
        &self,
        params: SetLevel,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if questions::is_newest(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        self.logs.store(logging::wants(&params), Relaxed);
        Ok(())
    }

    async fn subscribe(
        &self,
        params: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let wrong = |reason: String| ErrorData::invalid_params(reason, None);
        if !self.served.is_watchable(&params.uri) {
            return Err(wrong(format!("there is no resource {:?}", params.uri)));
        }
        let changes = Changes::of(self.system(&context), space(&context)).await;
        let changes = changes.map_err(|error| internal(&error))?;
        let mut watched = self.watched.lock();
        let is_first = watched.is_empty();
        if watched.len() >= MAX_WATCHED && !watched.contains(&params.uri) {
            return Err(wrong(format!(
                "at most {MAX_WATCHED} resources are watched"
            )));
        }
        watched.insert(params.uri);
        if is_first {
            let watched = Arc::downgrade(&self.watched);
            tokio::spawn(subscriptions::tell(changes, watched, context.peer.clone()));
        }
        Ok(())
    }

    async fn unsubscribe(
        &self,
        params: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watched.lock().remove(&params.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let wanted = requested.resource_subscriptions.iter().flatten();
        let wanted = wanted.filter(|uri| self.served.is_watchable(uri));
        let wanted = wanted.take(MAX_WATCHED);
        let filter = SubscriptionFilter::builder().resource_subscriptions(wanted);
        Some(filter.build())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let context = subscription.request_context();
        let (system, space) = (self.system(context), space(context));
        let wanted = subscription.accepted().resource_subscriptions.clone();
        let wanted = wanted.into_iter().flatten().collect();
        let changes = Changes::of(system, space).await;
        let mut changes = changes.map_err(|error| internal(&error))?;
        loop {
            tokio::select! {
                biased;
                () = subscription.cancelled() => return Ok(()),
                () = tokio::time::sleep(subscriptions::LOOK) => {}
            }
            for uri in changes.among(&wanted).await {
                if subscription
                    .sink()
                    .notify_resource_updated(uri)
                    .await
                    .is_err()
                {
                    return Ok(());
                }
            }
        }
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
            // Only the client's user knows the values of a document template.
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
