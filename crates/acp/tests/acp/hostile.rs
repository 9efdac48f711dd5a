//! A client that means no good, or is broken.

use ghostlight_acp::{AcpServer, wire::RpcError};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::{Desk, client::texts};

#[tokio::test]
async fn what_is_no_request_is_refused_and_the_next_one_is_served() {
    let desk = Desk::by_hand().await;
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let server = AcpServer::new(desk.system.clone(), "clerk");
    let served = tokio::spawn(async move {
        let (read, write) = tokio::io::split(theirs);
        server.serve(read, write).await.unwrap();
    });
    let (read, mut write) = tokio::io::split(ours);
    let mut answers = BufReader::new(read).lines();
    for (line, code) in [
        ("garbage", RpcError::PARSE),
        ("\u{0}\u{1b}[31m", RpcError::PARSE),
        ("[{}]", RpcError::INVALID_REQUEST),
        (
            r#"{"id":1,"result":{"outcome":{"optionId":"no","optionId":"yes"}}}"#,
            RpcError::PARSE,
        ),
        (r#"{"id":1}x"#, RpcError::PARSE),
        (
            r#"{"id":[],"method":"initialize"}"#,
            RpcError::INVALID_REQUEST,
        ),
        (
            r#"{"id":1,"method":"session/rob"}"#,
            RpcError::METHOD_NOT_FOUND,
        ),
        (
            r#"{"id":1,"method":"fs/read_text_file","params":{}}"#,
            RpcError::METHOD_NOT_FOUND,
        ),
        (
            r#"{"id":1,"method":"initialize"}"#,
            RpcError::INVALID_PARAMS,
        ),
        (
            r#"{"id":1,"method":"session/new","params":{"cwd":7}}"#,
            RpcError::INVALID_PARAMS,
        ),
        (
            r#"{"id":1,"method":"session/new","params":{"cwd":"shop"}}"#,
            RpcError::INVALID_PARAMS,
        ),
        (
            r#"{"id":1,"method":"session/new","params":{"cwd":"/a\u0007"}}"#,
            RpcError::INVALID_PARAMS,
        ),
        (
            r#"{"id":1,"method":"session/load","params":{"cwd":"/"}}"#,
            RpcError::INVALID_PARAMS,
        ),
        (
            r#"{"id":1,"method":"session/load","params":{"cwd":"/","sessionId":"x"}}"#,
            RpcError::NOT_FOUND,
        ),
        (
            r#"{"id":1,"method":"session/prompt","params":{"sessionId":"x","prompt":[]}}"#,
            RpcError::NOT_FOUND,
        ),
        (
            r#"{"id":1,"method":"session/fork","params":{"cwd":"/","sessionId":"../x"}}"#,
            RpcError::NOT_FOUND,
        ),
        (
            r#"{"id":1,"method":"session/close","params":{"sessionId":"x"}}"#,
            RpcError::NOT_FOUND,
        ),
    ] {
        // Notifications of every kind are no reason to stop either, and get no answer.
        let noise = "{\"method\":\"session/cancel\",\"params\":9}\n{\"method\":\"x\"}\n{\"id\":77,\"result\":{}}\n";
        write
            .write_all(noise.replace(":9}", ":[9]}").as_bytes())
            .await
            .unwrap();
        write
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
        let answer = answers.next_line().await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
    }
    drop((write, answers));
    served.await.unwrap();
    assert_eq!(desk.runs().await, 0);
}

#[tokio::test]
async fn a_prompt_that_is_no_turn_is_refused() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    for prompt in [
        json!([]),
        json!([{ "type": "text", "text": " " }]),
        json!([{ "type": "text" }]),
        json!([{ "type": "film", "data": "" }]),
        json!([{ "type": "image", "data": "%", "mimeType": "image/png" }]),
        json!([{ "type": "image", "data": "QUJD", "mimeType": "png" }]),
        json!([{ "type": "resource", "resource": { "uri": "file:///a" } }]),
        json!(vec![json!({ "type": "text", "text": "x" }); 300]),
    ] {
        let params = json!({ "sessionId": session, "prompt": prompt });
        let error = editor.request("session/prompt", params).await.unwrap_err();
        assert_eq!(error.code, RpcError::INVALID_PARAMS, "{prompt}: {error}");
    }
    let prompt = json!([
        { "type": "resource_link", "uri": "file:///a.rs", "name": "a.rs" },
        { "type": "resource", "resource": { "uri": "file:///b.rs", "text": "fn b() {}" } },
    ]);
    let params = json!({ "sessionId": session, "prompt": prompt });
    editor.request("session/prompt", params).await.unwrap();
    let said = texts(&editor.updates(&session));
    assert!(
        said.contains("[a.rs](file:///a.rs)") && said.contains("fn b() {}"),
        "{said}"
    );
    assert_eq!(desk.runs().await, 1);
}

#[tokio::test]
async fn a_client_cannot_take_more_than_its_share() {
    let desk = Desk::by_hand().await;
    let editor = desk.editor().await;
    let session = editor.begin().await;
    let _prompt = editor.prompts(&session, "confirm");
    editor.until(|editor| editor.asked().len() == 1).await;
    let error = editor.prompt(&session, "hello").await.unwrap_err();
    assert!(error.message.contains("under way"), "{error}");
    let params = json!({ "cwd": "/", "mcpServers": [] });
    for _ in 1..1_000 {
        editor.request("session/new", params.clone()).await.unwrap();
    }
    let error = editor.request("session/new", params).await.unwrap_err();
    assert!(error.message.contains("close some"), "{error}");
    // What is open still works.
    editor
        .request("session/close", json!({ "sessionId": session }))
        .await
        .unwrap();
    let session = editor.begin().await;
    editor.prompt(&session, "hello").await.unwrap();
}
