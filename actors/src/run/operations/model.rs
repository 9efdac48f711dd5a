use crate::{
    run::{
        Begin, Composed, Gate, InputDigest, Kept, ModelCall, Operation, OperationContext,
        RunContext,
        leg::{Delivery, ResultSlot},
        read_result,
    },
    vocabulary::{
        AgentError, Digest, ErrorKind, Message, ModelRequest, ModelResponse, OperationError,
        Resource, Spent,
    },
};

/// A model call.
#[derive(Debug)]
pub struct CallModel(pub ModelRequest);

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
        let request = self.0.clone();
        InputDigest::later(move || request.digest())
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
        Some(Kept::of(response.clone()))
    }

    fn begin(self, cx: OperationContext) -> Begin<ModelResponse> {
        let answer = match cx.leg.registry.model_of(&cx.leg.agent, &self.0.model) {
            Ok(code) => cx.ports.model(ModelCall {
                run: cx.run,
                root: cx.start().root,
                operation: cx.id,
                digest: cx.digest,
                origin: cx.leg.origin.clone(),
                request: self.0,
                code,
                cancelled: cx.cancelled.clone(),
            }),
            Err(reason) => {
                let error = OperationError::new(ErrorKind::NotFound, reason);
                Box::pin(async move { Err(error).into() })
            }
        };
        let (leg, id) = (cx.leg, cx.id);
        // The request may be on its way while earlier entries are being committed.
        Begin::act_then(Gate::After, async move {
            let called = answer.await;
            leg.tell(id, called.told);
            match called.end {
                // Messages that people sent meanwhile are taken when the answer that brings them is
                // recorded. An answer that is cancelled or dropped before leaves them.
                Ok(mut response) => Begin::Deferred(Box::new(move || {
                    response.steering.extend(leg.words.with_answer(id.lane));
                    Ok(response)
                })),
                failed => Begin::Ready(failed),
            }
        })
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

    /// Asks a model and streams its answer to the observers of the run. The function itself gets
    /// the whole answer, since the pieces are not recorded.
    pub fn model_stream(&self, request: ModelRequest) -> Composed<ModelResponse> {
        self.model(request.streaming())
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
            response.steering.splice(..0, leg.words.take_unheard(lane));
            Ok(response)
        }
    }
}

/// The messages of people that came with an answer which is still in its slot.
pub(crate) fn words_in(slot: ResultSlot) -> Vec<Message> {
    let response: Option<ModelResponse> = match slot {
        ResultSlot::Delivered(Delivery::Live(Ok(output))) => {
            output.downcast().ok().map(|response| *response)
        }
        ResultSlot::Delivered(Delivery::Recorded(json))
            if json.get().contains("\"steering\":[{") =>
        {
            read_result(&json)
        }
        _ => None,
    };
    response.map_or_else(Vec::new, |response| response.steering)
}
