//! JSON-RPC in lines, against bytes of every kind.

use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, BufReader};

use ghostlight_acp::wire::{Incoming, MAX_LINE_BYTES, RequestError, RpcError, connect};
use serde_json::{Value, json};

async fn read(bytes: &[u8]) -> (Vec<Incoming>, Vec<Value>) {
    let (ours, mut theirs) = tokio::io::duplex(1 << 16);
    let (mut lines, peer) = connect(BufReader::new(bytes), ours);
    let mut incoming = Vec::new();
    while let Some(message) = lines.next().await.unwrap() {
        incoming.push(message);
    }
    drop((lines, peer));
    let mut answers = String::new();
    theirs.read_to_string(&mut answers).await.unwrap();
    let answers = answers
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    (incoming, answers.collect())
}

fn codes(answers: &[Value]) -> Vec<i64> {
    let code = |answer: &Value| answer["error"]["code"].as_i64().unwrap();
    answers.iter().map(code).collect()
}

#[tokio::test]
async fn what_is_no_message_is_answered_with_an_error_and_the_next_one_is_read() {
    let lines = concat!(
        "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\r\n\n",
        "garbage\n",
        "[]\n",
        "{\"id\":7,\"method\":3}\n",
        "{\"id\":{},\"method\":\"a\"}\n",
        "{\"id\":1,\"method\":\"a\",\"params\":9}\n",
        "{\"id\":99,\"result\":1}\n",
        "{\"id\":\"x\",\"method\":\"b\",\"params\":{\"c\":1}}\n",
    );
    let (incoming, answers) = read(lines.as_bytes()).await;
    assert_eq!(codes(&answers), [-32700, -32600, -32600, -32600, -32600]);
    assert_eq!(
        (&answers[2]["id"], &answers[3]["id"]),
        (&json!(7), &Value::Null)
    );
    let request = Incoming::Request {
        id: json!("x"),
        method: "b".to_owned(),
        params: json!({ "c": 1 }),
    };
    assert_eq!((incoming.len(), &incoming[1]), (2, &request));
}

#[tokio::test]
async fn a_line_that_is_too_long_is_skipped_and_takes_no_memory() {
    let mut bytes = vec![b'x'; MAX_LINE_BYTES + 1];
    bytes.extend(b"\n{\"method\":\"after\"}\n");
    let (incoming, answers) = read(&bytes).await;
    assert_eq!(codes(&answers), [RpcError::INVALID_REQUEST]);
    assert!(matches!(&incoming[..], [Incoming::Notification { method, .. }] if method == "after"));
}

#[tokio::test]
async fn responses_find_their_requests_in_whatever_order_they_come() {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(ours);
    let (mut lines, peer) = connect(BufReader::new(read), write);
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next().await {} });
    let (read, write) = tokio::io::split(theirs);
    let (mut asked, other) = connect(BufReader::new(read), write);
    let requests: Vec<_> = (0..50_u32)
        .map(|number| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.request::<u32>("double", &[number]).await })
        })
        .collect();
    let mut got = Vec::new();
    while got.len() < 50 {
        if let Some(Incoming::Request { id, params, .. }) = asked.next().await.unwrap() {
            got.push((id, params[0].as_u64().unwrap()));
        }
    }
    for (id, number) in got.into_iter().rev() {
        other.respond(&id, Ok(json!(number * 2))).await.unwrap();
    }
    for (number, request) in requests.into_iter().enumerate() {
        assert_eq!(request.await.unwrap(), Ok(number as u32 * 2));
    }
    // The other side goes away: what waits, and what comes later, ends.
    let waits = tokio::spawn({
        let peer = peer.clone();
        async move { peer.request::<u32>("double", &[1]).await }
    });
    asked.next().await.unwrap();
    drop((asked, other));
    assert_eq!(waits.await.unwrap(), Err(RequestError::Closed));
    assert_eq!(
        peer.request::<u32>("double", &[1]).await,
        Err(RequestError::Closed)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_bytes_end_a_connection(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut bytes = bytes;
        bytes.extend(b"\n{\"method\":\"after\"}\n");
        let (incoming, _) = runtime.block_on(read(&bytes));
        let after = Incoming::Notification { method: "after".to_owned(), params: Value::Null };
        prop_assert_eq!(incoming.last(), Some(&after));
    }
}
