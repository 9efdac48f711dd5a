//! Files that go with a turn.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::mpsc::{Receiver, channel},
    thread,
};

use serde_json::{Value, json};

use crate::own_command::Desk;

fn server() -> (String, Receiver<Value>) {
    let answer = json!({"choices": [{"message": {"content": "A lamp."}, "finish_reason": "stop"}]});
    server_with("200 OK", &answer)
}

/// A server of chat completions that answers everything so, and tells what it was sent.
pub(crate) fn server_with(status: &'static str, answer: &Value) -> (String, Receiver<Value>) {
    let answer = answer.to_string();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let (sender, received) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut length = 0;
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                let line = line.trim().to_ascii_lowercase();
                if let Some(given) = line.strip_prefix("content-length:") {
                    length = given.trim().parse().unwrap();
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            sender.send(serde_json::from_slice(&body).unwrap()).unwrap();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                answer.len()
            );
            let stream = stream.get_mut();
            stream.write_all((head + &answer).as_bytes()).unwrap();
        }
    });
    (address, received)
}

/// A desk whose agent asks this server's model.
pub(crate) fn desk(address: &str) -> Desk {
    let desk = Desk::new("simple", json!({}));
    let model = json!({"provider": "openai", "model": "seer", "base_url": address});
    let team =
        json!({"models": {"default": model}, "agent": {"name": "desk", "behavior": "simple"}});
    desk.write("team.yaml", &team.to_string());
    desk
}

const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n....";
const SENT: &str = "data:image/png;base64,iVBORw0KGgouLi4u";

#[test]
fn files_go_with_what_is_said_and_a_wrong_one_is_refused_before_anything_is_done() {
    let (address, received) = server();
    let desk = desk(&address);
    std::fs::write(desk.path("a.bin"), PICTURE).unwrap();
    desk.write("b.csv", "pear,2");
    let (picture, table) = (desk.path("a.bin"), desk.path("b.csv"));
    let done = desk.run(&[
        "run",
        "team.yaml",
        "What is it?",
        "--file",
        picture.to_str().unwrap(),
        "--file",
        table.to_str().unwrap(),
        "--file",
        "https://example.com/c.png",
    ]);
    assert_eq!(done.exits(0).out.trim(), "A lamp.");
    let content = received.recv().unwrap()["messages"][0]["content"].clone();
    assert_eq!(
        content,
        json!([
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": SENT}},
            {"type": "text", "text": "[b.csv (text/csv)]\npear,2"},
            {"type": "image_url", "image_url": {"url": "https://example.com/c.png"}},
        ])
    );
    for (given, told) in [
        ("none.png", "none.png"),
        ("file:///etc/hosts", "\"file\""),
        ("https://example.com/c", "media type"),
    ] {
        let done = desk.run(&["run", "team.yaml", "What is it?", "--file", given]);
        let err = done.exits(2).err;
        assert!(err.contains(told), "{err}");
    }
    assert!(received.try_recv().is_err(), "no more was asked");
}

#[test]
fn a_file_in_a_chat_goes_with_the_next_text_only() {
    let (address, received) = server();
    let desk = desk(&address);
    std::fs::write(desk.path("a.png"), PICTURE).unwrap();
    let picture = desk.path("a.png");
    let lines = format!(
        "/file none.png\n/file {}\nWhat is it?\nAnd now?\n",
        picture.display()
    );
    let done = desk.run_with(&["chat", "team.yaml"], &lines).exits(0);
    assert!(done.err.contains("none.png"), "{}", done.err);
    assert!(
        done.err.contains("a.png (image/png, 12 bytes) goes with"),
        "{}",
        done.err
    );
    let first = received.recv().unwrap()["messages"][0]["content"].clone();
    assert_eq!(first[1]["image_url"]["url"], SENT);
    let second = received.recv().unwrap()["messages"].clone();
    assert_eq!(second[0]["content"], first, "the conversation keeps it");
    assert_eq!(second[2]["content"], "And now?");
}

#[test]
fn the_doctor_tries_what_a_model_can_do() {
    let (address, received) = server();
    let desk = desk(&address);
    let out = desk.run(&["doctor", "team.yaml", "--try"]).exits(0).out;
    for told in [
        "tools: no call came, but \"A lamp.\"",
        "answers: no JSON that fits, but \"A lamp.\"",
        "images: it took a red picture for \"A lamp.\"",
        "streams: yes",
    ] {
        assert!(out.contains(told), "{told} is missing in\n{out}");
    }
    let asked: Vec<Value> = received.try_iter().collect();
    assert_eq!(asked.len(), 5);
    assert_eq!(asked[1]["tools"][0]["function"]["name"], "ready");
    assert_eq!(asked[2]["response_format"]["type"], "json_schema");
    assert_eq!(asked[3]["messages"][0]["content"][1]["type"], "image_url");
    assert_eq!(asked[4]["stream"], true);
    desk.run(&["doctor", "team.yaml"]).exits(0);
    assert_eq!(received.try_iter().count(), 1);
}
