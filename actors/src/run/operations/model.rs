use std::sync::{Arc, Weak};

use crate::{
    contract::{Attempts, ModelHost},
    definition::Durability,
    run::{
        Arrival, Begin, Composed, Gate, InputDigest, Kept, Leg, ModelCall, ModelEnd, Operation,
        OperationContext, OperationInput, Ports, RunContext, Wait, WaitFor, calls::NotesLoss,
    },
    vocabulary::{
        AgentError, Begun, Digest, ErrorKind, Message, ModelRequest, ModelResponse, Resource,
        Retry, Spent,
    },
};

/// A model call.
#[derive(Debug)]
struct CallModel(ModelRequest);

impl Operation for CallModel {
    type Output = ModelResponse;

    fn kind(&self) -> &'static str {
        "model"
    }

    fn name(&self) -> &str {
        &self.0.model
    }

    fn digest(&self) -> Digest {
        self.0.digest()
    }

    fn input(&self) -> InputDigest {
        // Until it is hashed, the journal keeps what the digest is of. The function has its conversation anyway; one that
        // was made for this request alone would be kept for each request of a long run.
        if !self.0.conversation.is_shared() {
            return self.digest().into();
        }
        InputDigest::later(self.0.clone())
    }

    fn resource(&self) -> Option<Resource> {
        Some(Resource::ModelCalls)
    }

    fn drifts(&self) -> bool {
        true
    }

    fn spent(response: &ModelResponse) -> Spent {
        Spent {
            model_calls: 1,
            usage: response.usage,
            ..Spent::default()
        }
    }

    fn kept(response: &ModelResponse) -> Option<Kept> {
        let mut said = response.steering.iter().chain([&*response.message]);
        let has_files = said.any(Message::has_files_apart);
        Some(Kept::of(response.clone(), has_files))
    }

    fn begin(self, cx: OperationContext) -> Begin<ModelResponse> {
        let code = match cx.leg.code.model_of(&cx.leg.agent, &self.0.model) {
            Ok(code) => code,
            Err(reason) => return Begin::failed(ErrorKind::NotFound, reason),
        };
        let (started, before) = (cx.started.clone(), before(&cx));
        let books: Weak<Leg> = Arc::downgrade(&cx.leg);
        let call = ModelCall {
            run: cx.run,
            root: cx.start().root,
            operation: cx.id,
            awaited: awaited(&cx),
            digest: cx.digest,
            origin: cx.leg.origin.clone(),
            previews: cx.leg.previews(&*cx.ports),
            request: self.0,
            code,
            cancelled: cx.cancelled,
            host: ModelHost::new(cx.ports.clone()),
            books,
            attempts: Attempts::of(Vec::new(), before.as_ref()),
        };
        let asking = Asking {
            call: Arc::new(call),
            answers: Vec::new(),
            before,
            ports: cx.ports,
            leg: cx.leg,
        };
        match started {
            Some(Begun::Ticket) => asking.wait(),
            Some(Begun::Retry(retry)) => asking.pause(retry),
            _ => asking.ask(),
        }
    }
}

impl OperationInput for ModelRequest {
    fn name(&self) -> &str {
        &self.model
    }

    fn digest(&self) -> Digest {
        Self::digest(self)
    }
}

/// The digest of the request whose answers the call may wait for. A call that waits already keeps the request that an
/// earlier incarnation submitted, whatever the function asks for now: what is different in each incarnation, such as the
/// time of day, would be submitted and paid for again and again.
fn awaited(cx: &OperationContext) -> Option<InputDigest> {
    if cx.leg.pinned.team.durability == Durability::Memory {
        // Batches and the like are in the store of all processes, and no other one knows this run.
        return None;
    }
    let machine = cx.leg.machine();
    let recorded = machine.recorded(cx.id).filter(|call| call.begun.is_some());
    Some(recorded.map_or_else(|| cx.digest.clone(), |call| call.identity.digest.clone()))
}

/// The consumption of the call in an earlier incarnation, as far as it is recorded.
fn before(cx: &OperationContext) -> Option<Retry> {
    let machine = cx.leg.machine();
    machine.recorded(cx.id)?.retry.as_deref().copied()
}

/// A call that can be made again, after it was suspended or paused.
struct Asking {
    call: Arc<ModelCall>,
    /// The answers that came since it was suspended first.
    answers: Vec<String>,
    /// Its consumption before its last pause.
    before: Option<Retry>,
    ports: Arc<dyn Ports>,
    leg: Arc<Leg>,
}

impl Asking {
    /// Makes the call again.
    fn again(mut self) -> Begin<ModelResponse> {
        let again = self.call.again(self.answers.clone(), self.before.as_ref());
        self.call = Arc::new(again);
        self.ask()
    }

    fn ask(self) -> Begin<ModelResponse> {
        let answer = self.ports.model(self.call.clone(), self.before);
        // The request may be on its way while earlier entries are being committed.
        Begin::act_then(Gate::After, async move {
            let called = answer.await;
            let (leg, id) = (&self.leg, self.call.operation);
            leg.tell(id, called.told);
            match called.end {
                ModelEnd::Over(mut response) => {
                    // Before the journal shares the answer with the function, so that none is copied for it.
                    self.leg.name_causes(id, &mut response);
                    Begin::Ready(Ok(response))
                }
                ModelEnd::Failed(error, lost) => {
                    self.leg.lost(id, lost);
                    Begin::Ready(Err(error))
                }
                ModelEnd::Suspended => self.wait(),
                ModelEnd::Paused(retry) => self.pause(retry),
            }
        })
    }

    /// Waits for an answer, and makes the call again with it.
    fn wait(mut self) -> Begin<ModelResponse> {
        Begin::Wait(Wait::going_on(WaitFor::Result, move |arrival| {
            if let Arrival::Result(Ok(answer)) = arrival {
                self.answers.push(answer);
            }
            self.again()
        }))
    }

    /// Waits until the model is to be asked again.
    fn pause(mut self, retry: Box<Retry>) -> Begin<ModelResponse> {
        self.leg.lost(self.call.operation, retry.usage);
        self.before = Some(*retry);
        Begin::Wait(Wait::going_on(WaitFor::Retry(retry), move |_| self.again()))
    }
}

impl RunContext {
    /// Asks a model. A request that names no model goes to the agent's own.
    ///
    /// The agent's policies see the request first, and its context shapes the request. Deferred
    /// messages and reminders of policies stand at the end of the request. Policies add no tools to
    /// a request that offers none.
    ///
    /// # Errors
    /// The error of the call, or [`AgentError::Early`](crate::vocabulary::AgentError::Early) if a
    /// policy wants the function to stop before the model is asked.
    pub fn model(&self, request: ModelRequest) -> Composed<ModelResponse> {
        if self.watch().is_none() {
            return Composed(Box::pin(self.call_model(request)));
        }
        let cx = self.handle();
        Composed(Box::pin(async move { cx.watched_model(request).await }))
    }

    /// Asks the agent's model for the next step of the conversation, with the agent's instructions,
    /// tools and settings: short for [`model`](Self::model) with the
    /// [`model_request`](Self::model_request) of the [`conversation`](Self::conversation).
    ///
    /// # Errors
    /// The errors of [`model`](Self::model).
    pub fn think(&self) -> Composed<ModelResponse> {
        self.model(self.model_request(self.conversation()))
    }

    /// Asks a model without asking policies.
    pub(crate) fn call_model(
        &self,
        mut request: ModelRequest,
    ) -> impl Future<Output = Result<ModelResponse, AgentError>> + Send + 'static {
        if request.model.is_empty() {
            request.model.clone_from(&self.agent().model);
        }
        let (leg, asked) = (self.leg().clone(), self.perform(CallModel(request)));
        let lane = asked.id().lane;
        async move {
            let mut response = asked.await?;
            let mut books = leg.books.lock();
            let unheard = books.words.take_unheard(lane);
            response.steering.splice(..0, unheard);
            let heard = response.steering.iter().cloned().map(Arc::new);
            books.heard[1].extend(heard);
            Ok(response)
        }
    }
}
