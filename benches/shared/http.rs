//! A server on this machine that plays a model, and the bare loop over async-openai that asks it.

use std::{net::SocketAddr, thread};

use async_openai::{Client, config::OpenAIConfig};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    runtime::Builder,
};

use super::stepping;

/// The name of the model that it plays.
pub(crate) const MODEL: &str = "test-model";

/// A server on a thread of its own, so that its work weighs on both sides alike.
pub(crate) fn serve() -> SocketAddr {
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(answer_all(socket));
            }
        });
    });
    receiver.recv().unwrap()
}

async fn answer_all(socket: TcpStream) -> Option<()> {
    socket.set_nodelay(true).ok()?;
    let mut socket = BufReader::new(socket);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if socket.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await.ok()?;
        let answer = answer(&String::from_utf8(body).ok()?);
        socket.get_mut().write_all(answer.as_bytes()).await.ok()?;
    }
}

fn answer(request: &str) -> String {
    // What was said in earlier turns of the session is not counted.
    let turn = request.rfind(r#""role":"user""#);
    let turn = turn.map_or(request, |at| &request[at..]);
    let done = turn.matches(r#""role":"tool""#).count();
    let message = if done < stepping::TOOLS {
        let function =
            json!({"name": "add_vat", "arguments": "{\"net\": 80.0, \"percent\": 19.0}"});
        let call = json!({"id": format!("call_{done}"), "type": "function", "function": function});
        json!({"role": "assistant", "content": null, "tool_calls": [call]})
    } else {
        json!({"role": "assistant", "content": stepping::ANSWER})
    };
    let finish = if done < stepping::TOOLS {
        "tool_calls"
    } else {
        "stop"
    };
    let body = json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    })
    .to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// A client of that server, with nothing around it.
pub(crate) fn client(address: &str) -> Client<OpenAIConfig> {
    // Nothing here is encrypted, but a client is not made without.
    rustls::crypto::ring::default_provider()
        .install_default()
        .unwrap();
    let config = OpenAIConfig::new()
        .with_api_base(address)
        .with_api_key("none");
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    Client::with_config(config).with_http_client(http)
}

/// The tools as the bare loop sends them.
pub(crate) fn tools() -> Value {
    let spec = stepping::agent("desk", 1).into_team().unwrap();
    let tool = spec.registry.tools().next().unwrap().1.definition().clone();
    let function = json!({
        "name": tool.name, "description": tool.description, "parameters": tool.parameters,
    });
    json!([{"type": "function", "function": function}])
}

/// The bare loop.
pub(crate) async fn bare(client: &Client<OpenAIConfig>, tools: &Value) {
    let mut messages = vec![
        json!({"role": "system", "content": stepping::INSTRUCTIONS}),
        json!({"role": "user", "content": stepping::QUESTION}),
    ];
    loop {
        let body = json!({"model": MODEL, "messages": messages, "stream": false, "tools": tools});
        let answer: Value = client.chat().create_byot(body).await.unwrap();
        let message = answer["choices"][0]["message"].clone();
        let calls = message["tool_calls"].as_array().cloned();
        messages.push(message);
        let Some(calls) = calls else { return };
        for call in calls {
            let text = call["function"]["arguments"].as_str().unwrap();
            let arguments: Value = serde_json::from_str(text).unwrap();
            let net = arguments["net"].as_f64().unwrap();
            let gross = stepping::gross(net, arguments["percent"].as_f64().unwrap());
            let content = gross.to_string();
            messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": content}));
        }
    }
}
