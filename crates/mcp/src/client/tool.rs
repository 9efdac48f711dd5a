//! A tool of a server.

use ghostlight_actors::{
    contract::{Credential, Tool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, Continued, Effect, ToolDefinition},
};
use rmcp::{
    Peer, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, ClientRequest, RequestMetaObject, ServerResult,
    },
    service::{PeerRequestOptions, ServiceError},
};
use serde_json::Value;

use super::{
    connection::Connection,
    content, failure, form,
    place::{Place, Wanted},
    tasks,
    under_way::{Heard, UnderWay},
};

/// The metadata key of a call's idempotency key.
const IDEMPOTENCY_KEY: &str = "ghostlight/idempotencyKey";
/// The metadata key of the session that a call belongs to.
const SESSION: &str = "ghostlight/session";
/// How many times a person may correct an answer that does not fit, in a call that stays open.
const TRIES: u32 = 3;

/// A tool of a server.
pub(super) struct McpTool {
    pub(super) connection: Connection,
    /// Its name on the server.
    pub(super) remote: String,
    pub(super) definition: ToolDefinition,
    /// Whether the server's description differs from the accepted one.
    pub(super) is_changed: bool,
}

impl Tool for McpTool {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let approved = cx.origin().is_some_and(|origin| origin.approval.is_some());
        if self.is_changed && !approved {
            return Err(ToolError::denied(
                "The server changed what it says of this tool since it was accepted, and no person has \
                 approved this call. From the next run on a person is asked.",
            ));
        }
        let arguments = match arguments.value() {
            Ok(Value::Object(fields)) => fields.clone(),
            Ok(Value::Null) => serde_json::Map::new(),
            _ => return Err(ToolError::new("The arguments must be an object.")),
        };
        let mut params = CallToolRequestParams::new(self.remote.clone());
        params.arguments = Some(arguments);
        match cx.continued().cloned() {
            None => self.exchange(params, 0, &cx).await,
            Some(continued) => self.go_on(params, &continued, &cx).await,
        }
    }

    fn secrets(&self) -> Vec<Credential> {
        let shared = self.connection.shared();
        shared.endpoint.secrets(shared.settings.variables)
    }
}

/// The reason why a call has no answer.
struct Failure {
    error: ServiceError,
    was_sent: bool,
}

impl Failure {
    fn is_lost(&self) -> bool {
        failure::is_lost(&self.error)
    }
}

impl McpTool {
    /// Continues an unfinished call.
    async fn go_on(
        &self,
        mut params: CallToolRequestParams,
        continued: &Continued,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let server = &self.connection.shared().name;
        let answer = continued.answer.as_ref();
        match Place::read(&continued.state)? {
            Place::Input {
                state,
                mut wanted,
                round,
            } => {
                let fault = wanted.take(answer);
                if fault.is_some() || !wanted.is_answered() {
                    let place = Place::input(state, wanted, round)?;
                    return place.goes_on(server, fault.as_deref());
                }
                params.input_responses = Some(wanted.into_answers());
                params.request_state = state;
                self.exchange(params, round, cx).await
            }
            Place::Standing { key, asked, tries } => {
                let answer = answer.filter(|_| tries < TRIES);
                let result = match form::result(&asked, answer) {
                    Ok(result) => result,
                    Err(fault) => {
                        let tries = tries + 1;
                        let place = Place::Standing { key, asked, tries };
                        return place.goes_on(server, Some(&fault));
                    }
                };
                let shared = self.connection.shared();
                if let Some((call, asked)) = shared.calls.take(&key) {
                    call.shown_by(cx);
                    asked.answer(result);
                    return self.hear(call.goes_on(cx).await, 0, cx);
                }
                if self.definition.effect == Effect::Once {
                    return Err(ToolError::in_doubt(
                        "the connection to the server was lost while a person was asked in the middle of it",
                    ));
                }
                // The server asks again, and gets the same answer to the same question.
                let known = (*asked, result);
                self.exchange_knowing(params, 0, Some(known), cx).await
            }
            Place::Task { id, looks, wanted } => {
                let (_, peer) = self.connection.peer_after(0).await?;
                let task = tasks::Task {
                    server,
                    peer: &peer,
                    id,
                };
                task.go_on(looks, wanted, answer, cx).await
            }
        }
    }

    async fn exchange(
        &self,
        params: CallToolRequestParams,
        round: u32,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        self.exchange_knowing(params, round, None, cx).await
    }

    /// Calls the tool, and once more if the connection is lost and a repeated call does no harm.
    async fn exchange_knowing(
        &self,
        params: CallToolRequestParams,
        round: u32,
        known: Option<(rmcp::model::ElicitRequestParams, rmcp::model::ElicitResult)>,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let repeatable = self.definition.effect != Effect::Once;
        let (first, peer) = self.connection.peer_after(0).await?;
        let mut heard = self.send(&peer, params.clone(), cx).await;
        // A call without an effect or with a known key is sent again in the server's next life, and so is a call that
        // was never sent.
        if let Err(failure) = &heard
            && failure.is_lost()
            && (repeatable || !failure.was_sent)
        {
            // Over HTTP only the request was lost: the next one may well be served.
            let over_http = self.connection.shared().authorization.is_some();
            let peer = match over_http && !peer.is_transport_closed() {
                true => peer,
                false => self.connection.peer_after(first).await?.1,
            };
            heard = self.send(&peer, params, cx).await;
        }
        let mut heard = heard.map_err(|failure| self.failed(failure.error))?;
        if let Some((asked, result)) = known
            && let Heard::Asks(asks) = heard
        {
            let (call, now) = *asks;
            heard = match now.params == asked {
                true => {
                    now.answer(result);
                    call.goes_on(cx).await
                }
                false => Heard::Asks(Box::new((call, now))),
            };
        }
        self.hear(heard, round, cx)
    }

    /// Sends the call and waits until it ends or the server asks a person.
    async fn send(
        &self,
        peer: &Peer<RoleClient>,
        params: CallToolRequestParams,
        cx: &ToolContext,
    ) -> Result<Heard, Failure> {
        let mut options = PeerRequestOptions::no_options();
        let mut meta = RequestMetaObject::default();
        if self.definition.effect == Effect::Idempotent {
            meta.insert(IDEMPOTENCY_KEY.to_owned(), cx.idempotency_key().into());
        }
        if self.connection.shared().settings.sessions
            && let Some(session) = cx.origin().and_then(|origin| origin.session.as_ref())
        {
            meta.insert(SESSION.to_owned(), session.to_string().into());
        }
        if !meta.is_empty() {
            options = options.with_meta(meta);
        }
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let handle = peer.send_cancellable_request(request, options).await;
        let handle = handle.map_err(|error| Failure {
            error,
            was_sent: false,
        })?;
        let call = UnderWay::begin(self.connection.shared(), handle, cx);
        match call.goes_on(cx).await {
            Heard::End(end) => match *end {
                Err(error) => Err(Failure {
                    error,
                    was_sent: true,
                }),
                end => Ok(Heard::End(Box::new(end))),
            },
            heard => Ok(heard),
        }
    }

    /// The output for a call's end or question.
    fn hear(&self, heard: Heard, round: u32, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let shared = self.connection.shared();
        let result = match heard {
            Heard::End(end) => match *end {
                Ok(result) => result,
                Err(error) => return Err(self.failed(error)),
            },
            Heard::Asks(asks) => {
                let (call, asked) = *asks;
                let key = call.key(cx);
                let place = Place::Standing {
                    key: key.clone(),
                    asked: Box::new(asked.params.clone()),
                    tries: 0,
                };
                call.stand(key, asked);
                return place.goes_on(&shared.name, None);
            }
        };
        shared.served();
        match result {
            ServerResult::CallToolResult(result) => content::output(result),
            ServerResult::InputRequiredResult(required) => {
                let wanted = Wanted::of(required.input_requests)?;
                Place::input(required.request_state, wanted, round + 1)?.goes_on(&shared.name, None)
            }
            ServerResult::CreateTaskResult(made) => {
                let place = Place::Task {
                    id: made.task.task_id,
                    looks: 0,
                    wanted: None,
                };
                place.goes_on(&shared.name, None)
            }
            // Servers of older revisions may send an empty result.
            ServerResult::EmptyResult(_) => Ok(ToolOutput::default()),
            other => match serde_json::to_value(other) {
                Ok(other) => Ok(ToolOutput::text(other.to_string())),
                Err(error) => Err(ToolError::in_doubt(format!("its answer is none: {error}"))),
            },
        }
    }

    /// The error of a call without a result. It counts as certainly failed only if the server said so.
    fn failed(&self, error: ServiceError) -> ToolError {
        if let Some(challenge) = error.auth_challenge() {
            return ToolError::new(self.connection.shared().refused(challenge));
        }
        failure::failed(error)
    }
}
