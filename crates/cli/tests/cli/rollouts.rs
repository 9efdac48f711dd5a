//! `ghostlight eval rollouts` does what waits at a trainer's gateway: each model call goes to the rollout's own address, and
//! its reward is told once.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};

use crate::own_command::Desk;

/// A gateway: its rollouts with their states and rewards, and the addresses of the model calls.
#[derive(Clone, Default)]
struct Gateway {
    rollouts: Arc<Mutex<Vec<Value>>>,
    rewards: Arc<Mutex<Vec<(String, f64)>>>,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Gateway {
    fn with(inputs: &[(&str, Value)]) -> (Self, String) {
        let gateway = Self::default();
        let rollouts = inputs.iter().map(|(id, input)| {
            json!({ "rollout_id": id, "input": input, "is_train": *id != "validated", "config": {}, "metadata": {},
                "status": { "state": "queuing", "created_at": 0.0, "updated_at": 0.0 } })
        });
        gateway.rollouts.lock().unwrap().extend(rollouts);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let serving = gateway.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                serving.serve(BufReader::new(stream.unwrap()));
            }
        });
        (gateway, address)
    }

    fn serve(&self, mut stream: BufReader<std::net::TcpStream>) {
        let (mut first, mut length) = (String::new(), 0);
        stream.read_line(&mut first).unwrap();
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
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut words = first.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap_or("/"));
        let answer = self.answer(method, path, &body).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            answer.len()
        );
        stream
            .get_mut()
            .write_all((head + &answer).as_bytes())
            .unwrap();
    }

    fn answer(&self, method: &str, path: &str, body: &Value) -> Value {
        let parts: Vec<&str> = path.split(['/', '?']).collect();
        match (method, parts.as_slice()) {
            ("GET", [_, "api", "rollouts", query]) => {
                let rollouts = self.rollouts.lock().unwrap();
                let wanted = |rollout: &&Value| {
                    let state = rollout["status"]["state"].as_str().unwrap();
                    query.contains(&format!("state_in={state}"))
                };
                rollouts.iter().filter(wanted).cloned().collect()
            }
            ("PATCH", [_, "api", "rollouts", id]) => {
                let mut rollouts = self.rollouts.lock().unwrap();
                let found = rollouts
                    .iter_mut()
                    .find(|rollout| rollout["rollout_id"] == *id);
                let found = found.unwrap();
                found["status"]["state"] = body["status"]["state"].clone();
                found.clone()
            }
            ("GET", [_, "api", "rollouts", id, "events", _]) => {
                let rewards = self.rewards.lock().unwrap();
                rewards
                    .iter()
                    .filter(|(known, _)| known == id)
                    .map(|(_, value)| json!(value))
                    .collect()
            }
            ("POST", [_, "api", "rollouts", id, "attempt", "0", "events"]) => {
                assert_eq!(body["event_type"], "reward");
                let value = body["data"]["value"].as_f64().unwrap();
                self.rewards.lock().unwrap().push(((*id).to_owned(), value));
                body.clone()
            }
            ("POST", [_, "proxy", ..]) => {
                self.calls.lock().unwrap().push(path.to_owned());
                let said = body["messages"].as_array().unwrap().last().unwrap();
                let text = said["content"].as_str().unwrap().replace("say ", "");
                json!({ "choices": [{ "message": { "content": text }, "finish_reason": "stop" }] })
            }
            other => panic!("{other:?}"),
        }
    }

    fn states(&self) -> Vec<String> {
        let rollouts = self.rollouts.lock().unwrap();
        let states = rollouts
            .iter()
            .map(|rollout| rollout["status"]["state"].as_str().unwrap().to_owned());
        states.collect()
    }
}

fn desk() -> Desk {
    let desk = Desk::new("says", json!({}));
    desk.write(
        "desk.yaml",
        "name: desk\nmodels: { default: { provider: openai, model: small, base_url: 'http://127.0.0.1:9/v1' } }\nagent: { name: desk }\n",
    );
    desk.write(
        "suite.yaml",
        "evaluation: trained\nteam: desk.yaml\ndata: [{ inline: [{ id: known, input: say yes, expected: yes }] }]\n\
         scorers: [{ answer: {} }]\nreward: { sum: [{ of: answer, weight: 2 }, { of: model_calls, weight: -0.5 }] }\n",
    );
    desk
}

#[test]
fn each_rollout_is_done_at_its_own_address_and_its_reward_is_told_once() {
    let desk = desk();
    let (gateway, address) = Gateway::with(&[
        ("first", json!({ "input": "say yes", "expected": "yes" })),
        ("second", json!({ "input": "say no", "expected": "yes" })),
        ("validated", json!({ "data_id": "known" })),
    ]);
    let words = ["eval", "rollouts", "suite.yaml", "--gateway", &address];
    let done = desk.shipped(&words).exits(0);
    assert!(
        done.out.contains("3 rollouts with a reward, 0 without"),
        "{}",
        done.out
    );
    assert_eq!(gateway.states(), ["succeeded"; 3]);
    let mut rewards = gateway.rewards.lock().unwrap().clone();
    rewards.sort_by(|a, b| a.0.cmp(&b.0));
    let wanted = [("first", 1.5), ("second", -0.5), ("validated", 1.5)];
    assert_eq!(rewards, wanted.map(|(id, value)| (id.to_owned(), value)));
    let mut calls = gateway.calls.lock().unwrap().clone();
    calls.sort();
    let wanted = [
        ("first", "train"),
        ("second", "train"),
        ("validated", "val"),
    ]
    .map(|(id, mode)| {
        format!("/proxy/rollout/{id}/attempt/0/mode/{mode}/openai/v1/chat/completions")
    });
    assert_eq!(calls, wanted);

    // A runner that was killed before it told the state asks no model again, and tells no reward again.
    for rollout in gateway.rollouts.lock().unwrap().iter_mut() {
        rollout["status"]["state"] = json!("running");
    }
    let nothing = desk.shipped(&words).exits(0);
    assert!(nothing.out.contains("0 rollouts"), "{}", nothing.out);
    let again: Vec<&str> = words.iter().chain(&["--take-running"]).copied().collect();
    desk.shipped(&again).exits(0);
    assert_eq!(gateway.states(), ["succeeded"; 3]);
    assert_eq!(gateway.calls.lock().unwrap().len(), 3);
    assert_eq!(gateway.rewards.lock().unwrap().len(), 3);
}

#[test]
fn what_cannot_be_rolled_out_is_told() {
    let desk = desk();
    let (gateway, address) = Gateway::with(&[("odd", json!({ "data_id": "nobody" }))]);
    let words = ["eval", "rollouts", "suite.yaml", "--gateway", &address];
    let told = desk.shipped(&words).exits(1);
    assert!(told.err.contains("no sample \"nobody\""), "{}", told.err);
    assert_eq!(gateway.states(), ["failed"]);
    desk.write("desk.yaml", "name: desk\nagent: { name: desk }\n");
    let told = desk.shipped(&words).exits(2);
    assert!(
        told.err.contains("no model of the provider `openai`"),
        "{}",
        told.err
    );
    let nowhere = [
        "eval",
        "rollouts",
        "suite.yaml",
        "--gateway",
        "http://127.0.0.1:9",
    ];
    let told = self::desk().shipped(&nowhere);
    let wanted = "the gateway http://127.0.0.1:9, asked for rollouts";
    assert!(told.err.contains(wanted), "{}", told.err);
}
