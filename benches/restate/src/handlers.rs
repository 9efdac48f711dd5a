//! What the probe's virtual objects do: one handler for a turn, whose input says which.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use restate_sdk_shared_core::{
    CANCEL_NOTIFICATION_HANDLE, Error, NonEmptyValue, PayloadOptions, RunExitResult,
    TerminalFailure, VM, Value,
};
use serde_json::{Value as Json, json};
use tokio::time::sleep;

use crate::{
    log::{Log, now_ms},
    service::{Stop, Turn},
};

fn number(body: &Json, name: &str) -> u64 {
    body[name].as_u64().unwrap_or(0)
}

fn text<'a>(body: &'a Json, name: &str) -> &'a str {
    body[name].as_str().unwrap_or("")
}

fn bytes(value: &Value) -> Bytes {
    match value {
        Value::Success(bytes) => bytes.clone(),
        _ => Bytes::new(),
    }
}

fn good(value: impl ToString) -> NonEmptyValue {
    NonEmptyValue::Success(value.to_string().into())
}

fn bad(message: &str) -> NonEmptyValue {
    NonEmptyValue::Failure(failure(message))
}

fn failure(message: &str) -> TerminalFailure {
    TerminalFailure {
        code: 409,
        message: message.to_owned(),
        metadata: Vec::new(),
    }
}

/// An effect in the world: two lines, with a time in between.
async fn effect(log: Arc<Log>, name: String, ms: u64) -> Bytes {
    log.line(&format!("begun {name}"));
    sleep(Duration::from_millis(ms)).await;
    log.line(&format!("done {name}"));
    Bytes::from_static(b"\"done\"")
}

fn chance(below: u64) -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mixed = u64::from(now.subsec_nanos()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 24) % below.max(1)
}

pub async fn handle(turn: &mut Turn, handler: &str, body: &Json) -> Result<NonEmptyValue, Stop> {
    let log = turn.log.clone();
    let key = turn.key.clone();
    log.line(&format!(
        "attempt {} {key} {}",
        turn.attempt, turn.invocation
    ));
    if handler == "say" {
        let to = text(body, "to").to_owned();
        turn.vm
            .sys_complete_signal(to, "word".to_owned(), good(&body["word"]))?;
        return Ok(good("true"));
    }
    match text(body, "do") {
        "steps" => steps(turn, body).await,
        "order" => order(turn, body).await,
        "naive" => {
            turn.step(
                "pay",
                effect(log, format!("naive {key}"), number(body, "ms")),
            )
            .await?;
            Ok(good("\"paid\""))
        }
        "failing" => failing(turn, body).await,
        "once" => {
            let paid = once(
                turn,
                "pay",
                effect(log, format!("once {key}"), number(body, "ms")),
            )
            .await?;
            Ok(if paid {
                good("\"paid\"")
            } else {
                bad("in doubt")
            })
        }
        "undo" => undo(turn, body).await,
        "finish" => {
            let work = effect(log, format!("finish {key}"), number(body, "ms"));
            let (work, _) = turn.run("work", async { RunExitResult::Success(work.await) })?;
            let (first, _) = turn.next(&[CANCEL_NOTIFICATION_HANDLE, work]).await?;
            Ok(if first == work {
                good("\"answered\"")
            } else {
                bad("cancelled")
            })
        }
        "sleep" => {
            let ms = number(body, "ms");
            let began = turn
                .step("now", async { now_ms().to_string().into() })
                .await?;
            let began: u64 = serde_json::from_slice(&bytes(&began)).unwrap_or(0);
            let until = Duration::from_millis(began + ms);
            let handle = turn.vm.sys_sleep("pause".to_owned(), until, None)?;
            let (first, _) = turn.next(&[CANCEL_NOTIFICATION_HANDLE, handle]).await?;
            let late = now_ms().saturating_sub(began + ms);
            log.line(&format!("woke {key} {late}"));
            Ok(if first == handle {
                good(late)
            } else {
                bad("cancelled")
            })
        }
        "ask" => {
            let question = turn.vm.sys_awakeable()?;
            log.line(&format!("asks {key} {}", question.id));
            let answer = turn.wait(question.handle).await?;
            Ok(NonEmptyValue::Success(bytes(&answer)))
        }
        "listen" => {
            let mut heard = Vec::new();
            log.line(&format!("listens {key}"));
            for _ in 0..number(body, "words") {
                let word = turn.vm.create_signal_handle("word".to_owned())?;
                let word = turn.wait(word).await?;
                heard.push(String::from_utf8_lossy(&bytes(&word)).into_owned());
            }
            Ok(good(json!(heard)))
        }
        "delegate" => {
            let (id, end) = turn.call("other", &format!("{key}-child"), &body["task"])?;
            match turn.next(&[CANCEL_NOTIFICATION_HANDLE, end]).await? {
                (first, Value::Failure(failure)) if first == end => {
                    Ok(bad(&format!("child: {}", failure.message)))
                }
                (first, value) if first == end => Ok(NonEmptyValue::Success(bytes(&value))),
                _ => {
                    if let Value::InvocationId(child) = turn.wait(id).await? {
                        turn.vm.sys_cancel_invocation(child)?;
                    }
                    let end = turn.wait(end).await?;
                    Ok(bad(&format!("cancelled, child {end:?}")))
                }
            }
        }
        "tool and state" => {
            turn.step("tool", effect(log.clone(), format!("tool {key}"), 0))
                .await?;
            log.line(&format!("recorded {key}"));
            sleep(Duration::from_millis(number(body, "ms"))).await;
            if text(body, "of") == "own" {
                turn.vm.sys_state_set(
                    "value".to_owned(),
                    Bytes::from_static(b"1"),
                    None,
                    PayloadOptions::default(),
                )?;
            } else {
                let (_, end) = turn.call(
                    "other",
                    text(body, "of"),
                    &json!({ "do": "put", "value": 1 }),
                )?;
                turn.wait(end).await?;
            }
            Ok(good("true"))
        }
        "put" => {
            let value = body["value"].to_string().into();
            turn.vm
                .sys_state_set("value".to_owned(), value, None, PayloadOptions::default())?;
            Ok(good("true"))
        }
        "get" => {
            let handle =
                turn.vm
                    .sys_state_get("value".to_owned(), None, PayloadOptions::default())?;
            Ok(match turn.wait(handle).await? {
                Value::Success(bytes) => NonEmptyValue::Success(bytes),
                _ => good("null"),
            })
        }
        "keep id" => keep_id(turn, body).await,
        "changing" => changing(turn, body).await,
        other => Ok(bad(&format!("nobody knows how to do {other:?}"))),
    }
}

/// Steps one after the other; its first attempt in each process ends behind them.
async fn steps(turn: &mut Turn, body: &Json) -> Result<NonEmptyValue, Stop> {
    let (count, size) = (number(body, "count"), number(body, "bytes"));
    let began = Instant::now();
    let mut live = 0_u64;
    for step in 0..count {
        let piece = vec![b'x'; usize::try_from(size).unwrap_or(0)];
        let (handle, replayed) = turn.run(&format!("step {step}"), async move {
            RunExitResult::Success(piece.into())
        })?;
        live += u64::from(!replayed);
        turn.wait(handle).await?;
    }
    let took = began.elapsed().as_micros();
    turn.log.line(&format!(
        "steps {} live {live} took {took} attempt {}",
        turn.key, turn.attempt
    ));
    if turn.attempt == 1 {
        return Err(Stop::Gone);
    }
    Ok(good(count))
}

/// Many operations side by side, of which each third result begins another one. The first attempts end
/// after some results.
async fn order(turn: &mut Turn, body: &Json) -> Result<NonEmptyValue, Stop> {
    let total = number(body, "count");
    let mut open = Vec::new();
    let mut names = std::collections::HashMap::new();
    let mut begun = 0;
    let mut results = Vec::new();
    loop {
        let wanted = if results.is_empty() {
            total / 3
        } else {
            begun + u64::from(results.len() % 3 != 0)
        };
        while begun < wanted.min(total) {
            let handle = if begun % 5 == 4 {
                let until = Duration::from_millis(now_ms() + chance(40));
                turn.vm.sys_sleep(format!("{begun}"), until, None)?
            } else {
                let work = async {
                    RunExitResult::Success({
                        sleep(Duration::from_millis(chance(40))).await;
                        Bytes::new()
                    })
                };
                turn.run(&format!("{begun}"), work)?.0
            };
            names.insert(handle, begun);
            open.push(handle);
            begun += 1;
        }
        if open.is_empty() {
            break;
        }
        let (handle, _) = turn.next(&open).await?;
        open.retain(|other| *other != handle);
        results.push(names[&handle]);
        let dies = u64::from(turn.attempt) * total / 5;
        if turn.attempt < 5 && u64::try_from(results.len()).unwrap_or(0) >= dies {
            turn.log
                .line(&format!("order {} {}", turn.key, json!(results)));
            return Err(Stop::Gone);
        }
    }
    turn.log
        .line(&format!("order {} {}", turn.key, json!(results)));
    Ok(good(json!(results)))
}

/// An effect that fails in a way that may pass, without a policy of its own.
async fn failing(turn: &mut Turn, body: &Json) -> Result<NonEmptyValue, Stop> {
    let (log, key, times) = (turn.log.clone(), turn.key.clone(), number(body, "times"));
    let (handle, _) = turn.run("pay", async move {
        log.line(&format!("begun failing {key}"));
        if u64::from(log.attempt(&format!("failing {key}"))) > times {
            return RunExitResult::Success(Bytes::new());
        }
        let error =
            Error::internal("not now").with_next_retry_delay_override(Duration::from_millis(20));
        RunExitResult::RetryableFailure {
            attempt_duration: Duration::ZERO,
            error,
        }
    })?;
    turn.wait(handle).await?;
    Ok(good("true"))
}

/// A call that is begun at most once: its start is a step of its own that records who begins, and only
/// the attempt that recorded it carries the call out. Says whether its end is known.
async fn once(
    turn: &mut Turn,
    name: &str,
    work: impl Future<Output = Bytes> + Send + 'static,
) -> Result<bool, Stop> {
    let mine = format!("{}.{}.{}", std::process::id(), turn.attempt, now_ms());
    let starter = mine.clone();
    let start = turn
        .step(&format!("start of {name}"), async move { starter.into() })
        .await?;
    let may = bytes(&start) == mine.as_bytes();
    let (end, _) = turn.run(name, async move {
        if may {
            RunExitResult::Success(work.await)
        } else {
            RunExitResult::TerminalFailure(failure("in doubt"))
        }
    })?;
    Ok(matches!(turn.wait(end).await?, Value::Success(_)))
}

/// Three effects, then a wait for a cancellation, then what undoes them in reverse order.
async fn undo(turn: &mut Turn, body: &Json) -> Result<NonEmptyValue, Stop> {
    let (log, key, ms) = (turn.log.clone(), turn.key.clone(), number(body, "ms"));
    log.line(&format!("function {key}"));
    if turn.version == 2 {
        turn.step("what is new", async { Bytes::new() }).await?;
    }
    for effect_no in 1..=3 {
        turn.step(
            "effect",
            effect(log.clone(), format!("effect {effect_no} {key}"), 0),
        )
        .await?;
    }
    let question = turn.vm.sys_awakeable()?;
    turn.next(&[CANCEL_NOTIFICATION_HANDLE, question.handle])
        .await?;
    for undone in (1..=3).rev() {
        let work = effect(log.clone(), format!("undo {undone} {key}"), ms);
        if body["once"] == true {
            once(turn, "undo", work).await?;
        } else {
            turn.step("undo", work).await?;
        }
    }
    Ok(bad("cancelled, and undone"))
}

/// A turn that keeps the ids of turns in its session's state.
async fn keep_id(turn: &mut Turn, body: &Json) -> Result<NonEmptyValue, Stop> {
    let id = format!("turn {}", text(body, "id"));
    let handle = turn
        .vm
        .sys_state_get(id.clone(), None, PayloadOptions::default())?;
    if let Value::Success(answer) = turn.wait(handle).await? {
        return Ok(NonEmptyValue::Success(answer));
    }
    let key = turn.key.clone();
    let done = turn
        .step("work", effect(turn.log.clone(), format!("kept {key}"), 0))
        .await?;
    turn.vm
        .sys_state_set(id, bytes(&done), None, PayloadOptions::default())?;
    Ok(NonEmptyValue::Success(bytes(&done)))
}

/// Code of two versions: the second asks for something before the question, as `cx.version` would.
async fn changing(turn: &mut Turn, body: &Json) -> Result<NonEmptyValue, Stop> {
    let (log, key, version) = (turn.log.clone(), turn.key.clone(), turn.version);
    turn.step("a", effect(log.clone(), format!("a {key}"), 0))
        .await?;
    if version == 2 {
        turn.step("version of the greeting", async {
            Bytes::from_static(b"2")
        })
        .await?;
    }
    turn.step("b", effect(log.clone(), format!("b {key}"), 0))
        .await?;
    let until = Duration::from_millis(number(body, "until"));
    let pause = turn.vm.sys_sleep("pause".to_owned(), until, None)?;
    turn.wait(pause).await?;
    turn.step("c", effect(log, format!("c {key} by version {version}"), 0))
        .await?;
    Ok(good(version))
}
