//! A service that Restate invokes over HTTP/2, on the state machine of `restate-sdk-shared-core`.

use std::{collections::HashMap, convert::Infallible, sync::Arc};

use bytes::Bytes;
use futures_util::{
    StreamExt,
    future::BoxFuture,
    stream::{FuturesUnordered, unfold},
};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Request, Response,
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use restate_sdk_shared_core::{
    AwaitResponse, CoreVM, Error, ImplicitCancellationOption, JournalMismatchRetryBehavior,
    NotificationHandle, PayloadOptions, RetryPolicy, RunExitResult, Target, UnresolvedFuture, VM,
    VMOptions, Value,
};
use serde_json::{Value as Json, json};
use tokio::{net::TcpListener, sync::mpsc};

use crate::{engine::Failure, handlers, log::Log};

/// Why an attempt ends without an end of its invocation.
#[derive(Debug)]
pub enum Stop {
    /// It waits, and goes on in another attempt.
    Suspended,
    /// The state machine refused: above all a journal that does not fit the code.
    Refused(Error),
    /// The connection is gone, or the attempt plays a crash.
    Gone,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        if error.is_suspended_error() {
            Self::Suspended
        } else {
            Self::Refused(error)
        }
    }
}

type Call = BoxFuture<'static, RunExitResult>;

/// One attempt at an invocation.
pub struct Turn {
    pub vm: CoreVM,
    input: Incoming,
    input_ended: bool,
    output: mpsc::Sender<Result<Bytes, Failure>>,
    waiting: HashMap<NotificationHandle, Call>,
    running: FuturesUnordered<BoxFuture<'static, (NotificationHandle, RunExitResult)>>,
    pub log: Arc<Log>,
    pub version: u32,
    pub invocation: String,
    pub key: String,
    /// How often this process began it, from 1.
    pub attempt: u32,
}

impl Turn {
    /// Begins a recorded step. Says whether its result is recorded already.
    pub fn run(
        &mut self,
        name: &str,
        work: impl Future<Output = RunExitResult> + Send + 'static,
    ) -> Result<(NotificationHandle, bool), Stop> {
        let step = self.vm.sys_run(name.to_owned())?;
        if !step.replayed {
            self.waiting.insert(step.handle, Box::pin(work));
        }
        Ok((step.handle, step.replayed))
    }

    /// A recorded step, waited for.
    pub async fn step(
        &mut self,
        name: &str,
        work: impl Future<Output = Bytes> + Send + 'static,
    ) -> Result<Value, Stop> {
        let (handle, _) = self.run(name, async move { RunExitResult::Success(work.await) })?;
        self.wait(handle).await
    }

    pub fn call(
        &mut self,
        object: &str,
        key: &str,
        body: &Json,
    ) -> Result<(NotificationHandle, NotificationHandle), Stop> {
        let target = Target {
            service: object.to_owned(),
            handler: "turn".to_owned(),
            key: Some(key.to_owned()),
            idempotency_key: None,
            scope: None,
            limit_key: None,
            headers: Vec::new(),
        };
        let call = self.vm.sys_call(
            target,
            body.to_string().into(),
            None,
            PayloadOptions::default(),
        )?;
        Ok((
            call.invocation_id_notification_handle,
            call.call_notification_handle,
        ))
    }

    pub async fn wait(&mut self, handle: NotificationHandle) -> Result<Value, Stop> {
        Ok(self.next(&[handle]).await?.1)
    }

    /// The next result of these, in the order of the journal.
    pub async fn next(
        &mut self,
        of: &[NotificationHandle],
    ) -> Result<(NotificationHandle, Value), Stop> {
        loop {
            let tree = of.iter().copied().map(UnresolvedFuture::Single).collect();
            let answer = self.vm.do_await(UnresolvedFuture::FirstCompleted(tree));
            match answer {
                Ok(AwaitResponse::AnyCompleted) => {
                    for handle in of {
                        if self.vm.is_completed(*handle)
                            && let Some(value) = self.vm.take_notification(*handle)?
                        {
                            return Ok((*handle, value));
                        }
                    }
                }
                Ok(AwaitResponse::ExecuteRun(handle)) => {
                    let Some(work) = self.waiting.remove(&handle) else {
                        return Err(Stop::Gone);
                    };
                    self.running
                        .push(Box::pin(async move { (handle, work.await) }));
                }
                Ok(AwaitResponse::WaitingExternalProgress { .. }) => {
                    self.flush().await?;
                    tokio::select! {
                        frame = self.input.frame(), if !self.input_ended => match frame {
                            Some(Ok(frame)) => if let Ok(data) = frame.into_data() { self.vm.notify_input(data) },
                            Some(Err(_)) => return Err(Stop::Gone),
                            None => { self.input_ended = true; self.vm.notify_input_closed(); }
                        },
                        Some((handle, end)) = self.running.next() => {
                            self.vm.propose_run_completion(handle, end, RetryPolicy::Infinite)?;
                        }
                        () = self.output.closed() => return Err(Stop::Gone),
                    }
                }
                Ok(_) => return Err(Stop::Gone),
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub async fn flush(&mut self) -> Result<(), Stop> {
        let bytes = self.vm.take_output();
        if bytes.is_empty() {
            return Ok(());
        }
        self.output.send(Ok(bytes)).await.map_err(|_| Stop::Gone)
    }

    async fn read_journal(&mut self) -> Result<(), Stop> {
        while !self.vm.is_ready_to_execute()? {
            match self.input.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.vm.notify_input(data);
                    }
                }
                Some(Err(_)) => return Err(Stop::Gone),
                None => {
                    self.input_ended = true;
                    self.vm.notify_input_closed();
                }
            }
        }
        Ok(())
    }
}

async fn carry(mut turn: Turn, handler: String) {
    let end = async {
        turn.read_journal().await?;
        let input = turn.vm.sys_input()?;
        turn.attempt = turn.log.attempt(&input.invocation_id);
        turn.invocation = input.invocation_id;
        turn.key = input.key;
        let body: Json = serde_json::from_slice(&input.input).unwrap_or(Json::Null);
        let answer = handlers::handle(&mut turn, &handler, &body).await?;
        turn.vm
            .sys_write_output(answer, PayloadOptions::default())?;
        turn.vm.sys_end()?;
        Ok::<_, Stop>(())
    }
    .await;
    match end {
        Err(Stop::Gone) => {
            let _ = turn.output.send(Err("the attempt ends here".into())).await;
        }
        other => {
            if let Err(Stop::Refused(error)) = other {
                turn.log
                    .line(&format!("refused {} {}", turn.invocation, error.message()));
            }
            let _ = turn.flush().await;
        }
    }
}

fn manifest() -> Json {
    let object = |name: &str, more: Json| {
        let mut object = json!({ "name": name, "ty": "VIRTUAL_OBJECT", "handlers": [
            { "name": "turn", "ty": "EXCLUSIVE" }, { "name": "say", "ty": "SHARED" },
        ]});
        if let (Some(object), Some(more)) = (object.as_object_mut(), more.as_object()) {
            object.extend(more.clone());
        }
        object
    };
    json!({
        "protocolMode": "BIDI_STREAM", "minProtocolVersion": 5, "maxProtocolVersion": 7,
        "services": [
            object("desk", json!({})),
            object("other", json!({})),
            object("hasty", json!({ "inactivityTimeout": 1000, "abortTimeout": 1000, "idempotencyRetention": 2000 })),
        ],
    })
}

async fn answer(
    request: Request<Incoming>,
    log: Arc<Log>,
    version: u32,
) -> Result<Response<UnsyncBoxBody<Bytes, Failure>>, Infallible> {
    let whole = |status: u16, kind: &str, text: String| {
        let body = Full::new(Bytes::from(text))
            .map_err(Failure::from)
            .boxed_unsync();
        Response::builder()
            .status(status)
            .header("content-type", kind)
            .body(body)
    };
    let path = request.uri().path().to_owned();
    let response = if path == "/discover" {
        whole(
            200,
            "application/vnd.restate.endpointmanifest.v3+json",
            manifest().to_string(),
        )
    } else if let Some(handler) = path
        .strip_prefix("/invoke/")
        .and_then(|rest| rest.split('/').nth(1))
    {
        let options = VMOptions {
            implicit_cancellation: ImplicitCancellationOption::Disabled,
            journal_mismatch_retry_behavior: JournalMismatchRetryBehavior::Pause,
            ..VMOptions::default()
        };
        match CoreVM::new(request.headers().clone(), options) {
            Err(error) => whole(error.code(), "text/plain", error.message().to_owned()),
            Ok(vm) => {
                let head = vm.get_response_head();
                log.line(&format!("protocol {:?}", head.version));
                let (output, pieces) = mpsc::channel(16);
                let turn = Turn {
                    vm,
                    input: request.into_body(),
                    input_ended: false,
                    output,
                    waiting: HashMap::new(),
                    running: FuturesUnordered::new(),
                    log,
                    version,
                    invocation: String::new(),
                    key: String::new(),
                    attempt: 0,
                };
                tokio::spawn(carry(turn, handler.to_owned()));
                let body = unfold(pieces, |mut pieces| async move {
                    let piece: Result<Bytes, Failure> = pieces.recv().await?;
                    Some((piece.map(Frame::data), pieces))
                });
                let mut response = Response::builder().status(head.status_code);
                for header in &head.headers {
                    response = response.header(&*header.key, &*header.value);
                }
                response.body(StreamBody::new(body).boxed_unsync())
            }
        }
    } else {
        whole(404, "text/plain", String::new())
    };
    Ok(response.unwrap_or_default())
}

/// Serves until the process ends.
pub async fn serve(port: u16, version: u32, log: Arc<Log>) -> Result<(), Failure> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let log = log.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, log.clone(), version));
            let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .max_concurrent_streams(1_000)
                .initial_stream_window_size(4 << 20)
                .initial_connection_window_size(16 << 20)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
