//! Agent2Agent over gRPC, with a client that can also misbehave.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use ghostlight_a2a::{
    grpc::{Codec, EVENT, SERVICE, error_of, path},
    protocol::{self, Method},
};
use ghostlight_actors::actor::SystemOptions;
use ghostlight_server::{Scope, ServerOptions};
use http_body_util::{BodyExt as _, Full};
use hyper_util::{client::legacy, rt::TokioExecutor};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tonic::{Code, Extensions, Request, Status, Streaming, client::Grpc, metadata::MetadataMap};

use crate::{
    a2a::{Binding, message, state},
    client::{Client, PATIENCE},
    desk::{Desk, text_at},
};

fn headers(client: &Client) -> axum::http::HeaderMap {
    let mut headers = axum::http::HeaderMap::new();
    headers.insert("a2a-version", "1.0".parse().unwrap());
    if let Some(key) = &client.key {
        let key = format!("Bearer {key}").parse().unwrap();
        headers.insert("authorization", key);
    }
    headers
}

/// Calls a method of the agent `desk`, and gives the stream of its answers.
pub(crate) async fn open(
    client: &Client,
    method: &str,
    mut params: Value,
    last: Option<&str>,
) -> Result<Streaming<Value>, Status> {
    let method = Method::of(method).unwrap();
    if params.get("tenant").is_none() {
        params["tenant"] = "desk".into();
    }
    let mut headers = headers(client);
    if let Some(last) = last {
        headers.insert("last-event-id", last.parse().unwrap());
    }
    let metadata = MetadataMap::from_headers(headers);
    let request = Request::from_parts(metadata, Extensions::default(), params);
    let builder = legacy::Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http();
    let origin = format!("http://{}", client.to).parse().unwrap();
    let mut grpc = Grpc::with_origin(builder, origin);
    grpc.ready().await.unwrap();
    let at = path(method).parse().unwrap();
    let answer = grpc.server_streaming(request, at, Codec::of_client(method));
    Ok(answer.await?.into_inner())
}

/// The first answer of a method, as the other bindings write it.
pub(crate) async fn ask(client: &Client, method: &str, params: Value) -> Result<Value, Status> {
    let mut answers = open(client, method, params, None).await?;
    let answer = answers.message().await?.unwrap();
    Ok(match Method::of(method).unwrap() {
        Method::SendMessage => written::<protocol::SendResponse>(answer),
        Method::GetTask | Method::CancelTask => written::<protocol::Task>(answer),
        Method::ListTasks => written::<protocol::ListTasksResponse>(answer),
        Method::CreatePushConfig | Method::GetPushConfig => written::<protocol::PushConfig>(answer),
        Method::ListPushConfigs => written::<protocol::ListPushConfigsResponse>(answer),
        Method::GetExtendedAgentCard => written::<protocol::AgentCard>(answer),
        Method::DeletePushConfig => answer,
        _ => written::<protocol::StreamResponse>(answer),
    })
}

fn written<T: Serialize + DeserializeOwned>(answer: Value) -> Value {
    let answer: T = serde_json::from_value(answer).unwrap();
    serde_json::to_value(answer).unwrap()
}

/// The reason of a refusal.
pub(crate) fn reason(status: &Status) -> String {
    error_of(status).code.reason().to_owned()
}

/// The place of the event that an update completes.
fn place(told: &Value) -> Option<String> {
    let (_, update) = told.as_object().unwrap().iter().next().unwrap();
    Some(update["metadata"][EVENT].as_str()?.to_owned())
}

async fn next(stream: &mut Streaming<Value>) -> Option<Value> {
    let told = timeout(PATIENCE, stream.message()).await.unwrap();
    told.unwrap().map(written::<protocol::StreamResponse>)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_grpc_goes_on_behind_every_place_that_it_told() {
    let desk = Desk::open().await;
    let send = json!({ "message": message("g-1", "ask your name?") });
    let mut stream = open(&desk.client, "SendStreamingMessage", send, None)
        .await
        .unwrap();
    let mut told = Vec::new();
    while let Some(update) = next(&mut stream).await {
        told.push(update);
    }
    let task = told[0]["task"].clone();
    assert_eq!(state(&task), "submitted");
    let last = told.last().unwrap();
    assert_eq!(state(&last["statusUpdate"]), "input_required");
    let id = json!({ "id": task["id"] });
    let mut resumed = 0;
    for (number, update) in told.iter().enumerate() {
        let Some(place) = place(update) else { continue };
        let rest = open(&desk.client, "SubscribeToTask", id.clone(), Some(&place)).await;
        let mut rest = rest.unwrap();
        for expected in &told[number + 1..] {
            assert_eq!(next(&mut rest).await.unwrap(), *expected, "behind {place}");
        }
        resumed += 1;
    }
    assert!(resumed >= 2, "{told:?}");
    // What becomes of the task comes to those that follow it.
    let mut following = open(&desk.client, "SubscribeToTask", id.clone(), None)
        .await
        .unwrap();
    assert_eq!(
        state(&next(&mut following).await.unwrap()["task"]),
        "input_required"
    );
    let mut answer = message("g-2", "Ada");
    answer["taskId"] = task["id"].clone();
    Binding::Grpc.send(&desk.client, answer).await.unwrap();
    let mut states = Vec::new();
    while let Some(update) = next(&mut following).await {
        states.extend(update.get("statusUpdate").map(state));
    }
    assert_eq!(states, ["working", "completed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_grpc_ends_with_an_error_when_the_server_stops() {
    let mut desk = Desk::open().await;
    let send = json!({ "message": message("g-1", "hang") });
    let stream = open(&desk.client, "SendStreamingMessage", send, None).await;
    let mut stream = stream.unwrap();
    assert_eq!(
        state(&next(&mut stream).await.unwrap()["task"]),
        "submitted"
    );
    desk.stop().await;
    let end = loop {
        match timeout(PATIENCE, stream.next()).await.unwrap().unwrap() {
            Ok(_) => {}
            Err(status) => break status,
        }
    };
    assert_eq!(end.code(), Code::Unavailable, "{end}");
}

/// Posts bytes over HTTP/2, and gives the statuses of HTTP and gRPC.
async fn post(client: &Client, method: &str, kind: &str, body: Vec<u8>) -> (u16, Option<Code>) {
    let http = legacy::Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http::<Full<Bytes>>();
    let mut request = axum::http::Request::post(format!("http://{}/{SERVICE}/{method}", client.to))
        .body(Full::from(body))
        .unwrap();
    *request.headers_mut() = headers(client);
    let kind = kind.parse().unwrap();
    request.headers_mut().insert("content-type", kind);
    let answer = timeout(PATIENCE, http.request(request)).await.unwrap();
    let (head, body) = answer.unwrap().into_parts();
    let trailers = body
        .collect()
        .await
        .ok()
        .and_then(|body| body.trailers().cloned());
    let status = head.headers.get("grpc-status").cloned();
    let status = status.or_else(|| trailers?.get("grpc-status").cloned());
    let code = status.map(|status| Code::from_bytes(status.as_bytes()));
    (head.status.as_u16(), code)
}

/// A message with its frame.
fn framed(message: &[u8]) -> Vec<u8> {
    let mut frame = BytesMut::from(&[0_u8][..]);
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(message);
    frame.to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_of_grpc_is_refused_with_its_status() {
    let mut limits = ServerOptions::default();
    limits.max_body_bytes = 64 << 10;
    let desk = Desk::start(SystemOptions::default(), |server, keys| {
        server.keys(keys.clone()).options(limits)
    })
    .await;
    let ada = desk.client_of("ada", &[Scope::Read, Scope::Run]);
    let grpc = "application/grpc+proto";
    let nested = |tag: u8, of: &[u8]| {
        let mut bytes = vec![tag];
        prost::encode_length_delimiter(of.len(), &mut bytes).unwrap();
        bytes.extend_from_slice(of);
        bytes
    };
    // A `Struct` in a `Struct`, again and again: field 4 is the metadata of a request, 5 a value that is a `Struct`.
    let deep = (0..2_000).fold(Vec::new(), |inner, _| {
        let value = nested(0x2a, &inner);
        nested(0x0a, &[nested(0x0a, b"k"), nested(0x12, &value)].concat())
    });
    let deeper = nested(0x22, &deep);
    // A request with metadata of these names, which a user's message of one part needs beside it.
    let named = |names: [&str; 2]| {
        let text = nested(0x2a, &nested(0x0a, b"well"));
        let message = [nested(0x0a, b"m-1"), vec![0x20, 1], text].concat();
        let [one, other] = names.map(|name| {
            let entry = [nested(0x0a, name.as_bytes()), nested(0x12, &[0x20, 1])];
            nested(0x0a, &entry.concat())
        });
        let (tenant, metadata) = (nested(0x0a, b"desk"), [one, other].concat());
        [tenant, nested(0x12, &message), nested(0x22, &metadata)].concat()
    };
    for (method, kind, body, expected) in [
        (
            "Nothing",
            grpc,
            framed(b""),
            (200, Some(Code::Unimplemented)),
        ),
        ("GetTask", "application/json", b"{}".to_vec(), (415, None)),
        (
            "GetTask",
            grpc,
            framed(b"\xff\xff\xff"),
            (200, Some(Code::InvalidArgument)),
        ),
        ("GetTask", grpc, framed(b""), (200, Some(Code::NotFound))),
        (
            "SendMessage",
            grpc,
            framed(&deeper),
            (200, Some(Code::InvalidArgument)),
        ),
        (
            "SendMessage",
            grpc,
            framed(&named(["a", "b"])),
            (200, Some(Code::Ok)),
        ),
        (
            "SendMessage",
            grpc,
            framed(&named(["a", "a"])),
            (200, Some(Code::InvalidArgument)),
        ),
        (
            "SendMessage",
            grpc,
            framed(&vec![0; 80 << 10]),
            (200, Some(Code::ResourceExhausted)),
        ),
    ] {
        assert_eq!(post(&ada, method, kind, body).await, expected, "{method}");
    }
    // Frames that end nowhere, that are said to be longer than anything, and of a compression that was not agreed on.
    for body in [
        vec![],
        vec![0, 0, 0],
        vec![0, 0xff, 0xff, 0xff, 0xff, 1],
        vec![1, 0, 0, 0, 0],
    ] {
        let (_, code) = post(&ada, "GetTask", grpc, body.clone()).await;
        assert!(!matches!(code, None | Some(Code::Ok)), "{body:?}: {code:?}");
    }
    let none = post(&desk.client, "GetTask", grpc, framed(b"")).await;
    assert_eq!(none, (200, Some(Code::Unauthenticated)));
    let unknown = ask(&ada, "GetTask", json!({ "id": "x" }))
        .await
        .unwrap_err();
    assert_eq!(
        (unknown.code(), reason(&unknown).as_str()),
        (Code::NotFound, "TASK_NOT_FOUND")
    );
    for tenant in ["secret", "nobody"] {
        let refused = ask(&ada, "GetTask", json!({ "tenant": tenant, "id": "x" })).await;
        assert_eq!(
            reason(&refused.unwrap_err()),
            "METHOD_NOT_FOUND",
            "{tenant}"
        );
    }
    // The caller is who the key says, whatever the metadata claims.
    let task = Binding::Grpc
        .send(&ada, message("m", "well"))
        .await
        .unwrap();
    let run = desk.system.run(text_at(&task, "/id").parse().unwrap());
    let session = run.status().await.unwrap().session.unwrap();
    assert!(session.key.starts_with("ada/"), "{session}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_the_version_is_told_so_over_grpc() {
    let desk = Desk::open().await;
    for version in [None, Some("0.3")] {
        let mut request = Request::new(json!({ "id": "x" }));
        if let Some(version) = version {
            let version = version.parse().unwrap();
            request.metadata_mut().insert("a2a-version", version);
        }
        let http = legacy::Client::builder(TokioExecutor::new())
            .http2_only(true)
            .build_http();
        let mut grpc =
            Grpc::with_origin(http, format!("http://{}", desk.client.to).parse().unwrap());
        grpc.ready().await.unwrap();
        let (at, codec) = (path(Method::GetTask), Codec::of_client(Method::GetTask));
        let refused = grpc.unary(request, at.parse().unwrap(), codec).await;
        assert_eq!(reason(&refused.unwrap_err()), "VERSION_NOT_SUPPORTED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_of_http2_is_closed() {
    let mut limits = ServerOptions::default();
    limits.header_time = Duration::from_millis(300);
    let desk = Desk::limited(limits).await;
    // Nothing at all, a beginning of the preface, and a whole one with settings: none of them asks for anything.
    for sent in [
        &b""[..],
        b"PRI * HTT",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    ] {
        let mut stream = TcpStream::connect(desk.client.to).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let mut heard = Vec::new();
        let end = timeout(Duration::from_secs(20), stream.read_to_end(&mut heard)).await;
        assert!(end.is_ok(), "{sent:?} is kept open");
    }
    // A request that is under way is not idle.
    let task = Binding::Grpc
        .send(&desk.client, message("m", "count 400"))
        .await
        .unwrap();
    assert_eq!(state(&task), "completed");
}
