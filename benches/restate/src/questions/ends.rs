//! Cancellation, undo steps, questions, words to a run under way, and sleep.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep as pause;

use crate::{
    engine::Failure,
    log::now_ms,
    probe::{Probe, found, measured},
};

/// A cancellation that is accepted is durable, and its caller learns whether it came before the end.
pub async fn cancel(probe: &mut Probe) -> Result<(), Failure> {
    let (mut accepted, mut answered) = (0, 0);
    for round in 0..60_u64 {
        let invocation = probe
            .engine
            .send(
                "desk",
                &format!("race{round}."),
                &json!({ "do": "finish", "ms": 20 }),
            )
            .await?;
        pause(Duration::from_millis(12 + round / 3)).await;
        let (status, _) = probe.engine.command(&invocation, "cancel").await?;
        let (end, _) = probe.engine.end(&invocation).await?;
        accepted += usize::from(status < 300);
        answered += usize::from(status < 300 && end == 200);
    }
    found(
        "of finishing and cancelling one wins, and its sender is told",
        answered == 0,
        &format!(
            "of 60 cancellations around the end {accepted} were accepted, and {answered} of those runs ended with their answer"
        ),
    );
    let invocation = probe
        .engine
        .send("desk", "ended", &json!({ "do": "finish", "ms": 0 }))
        .await?;
    probe.engine.end(&invocation).await?;
    let (status, answer) = probe.engine.command(&invocation, "cancel").await?;
    found(
        "a run that has ended cannot be cancelled",
        status >= 400,
        &format!("{status} {answer}"),
    );

    let (mut told, mut lost) = (0, 0);
    for round in 0..8 {
        let invocation = probe
            .engine
            .send(
                "desk",
                &format!("lasting{round}"),
                &json!({ "do": "sleep", "ms": 3_600_000 }),
            )
            .await?;
        probe.until(&invocation, &["running", "suspended"]).await?;
        let (status, _) = probe.engine.command(&invocation, "cancel").await?;
        probe.engine.kill()?;
        probe.engine.start().await?;
        told += usize::from(status < 300);
        lost += usize::from(
            status < 300
                && tokio::time::timeout(Duration::from_secs(6), probe.engine.end(&invocation))
                    .await
                    .is_err(),
        );
    }
    found(
        "a cancellation is durable when it returns",
        lost == 0,
        &format!("of {told} accepted ones before a kill -9 of the server {lost} had no effect"),
    );

    let invocation = probe
        .engine
        .send("desk", "away", &json!({ "do": "undo", "ms": 10 }))
        .await?;
    probe.lines.wait("done effect 3 away", 1).await?;
    pause(Duration::from_millis(200)).await;
    probe.kill_service()?;
    let (status, _) = probe.engine.command(&invocation, "cancel").await?;
    pause(Duration::from_millis(1_000)).await;
    probe.serve(1).await?;
    let (end, answer) = probe.engine.end(&invocation).await?;
    let undone = probe.lines.count("done undo 1 away");
    found(
        "a run that is cancelled while its service is away is undone when it is back",
        undone == 1,
        &format!("{status}, then {end} {answer}"),
    );
    Ok(())
}

/// An undo step has its time, is not interrupted, and is not done twice.
pub async fn undo(probe: &mut Probe) -> Result<(), Failure> {
    for once in [false, true] {
        let key = format!("undo-{once}.");
        let invocation = probe
            .engine
            .send(
                "desk",
                &key,
                &json!({ "do": "undo", "ms": 600, "once": once }),
            )
            .await?;
        probe.lines.wait(&format!("done effect 3 {key}"), 1).await?;
        pause(Duration::from_millis(200)).await;
        probe.engine.command(&invocation, "cancel").await?;
        probe.lines.wait(&format!("begun undo 2 {key}"), 1).await?;
        // Cancelled once more, and killed, in the middle of the second undo step.
        probe.engine.command(&invocation, "cancel").await?;
        pause(Duration::from_millis(100)).await;
        let before = probe.lines.count(&format!("function {key}"));
        probe.kill_service()?;
        probe.serve(1).await?;
        let (status, answer) = probe.engine.end(&invocation).await?;
        let counts: Vec<String> = (1..=3)
            .rev()
            .map(|no| {
                format!(
                    "{no}: {}/{}",
                    probe.lines.count(&format!("begun undo {no} {key}")),
                    probe.lines.count(&format!("done undo {no} {key}"))
                )
            })
            .collect();
        let again = probe.lines.count(&format!("function {key}")) - before;
        let twice = (1..=3).any(|no| probe.lines.count(&format!("begun undo {no} {key}")) > 1);
        let text = format!("begun/ended {}; {status} {answer}", counts.join(", "));
        if once {
            found(
                "undo steps with starts of their own are begun once, whoever cancels again",
                !twice,
                &text,
            );
        } else {
            measured("undo steps that may be repeated", &text);
        }
        found(
            "the function is not run again once it is cancelled",
            again == 0,
            &format!("it ran {again} more times from its top"),
        );
    }
    let invocation = probe
        .engine
        .send("desk", "u2", &json!({ "do": "undo", "ms": 10 }))
        .await?;
    probe.lines.wait("done effect 3 u2", 1).await?;
    pause(Duration::from_millis(200)).await;
    probe.kill_service()?;
    probe.engine.command(&invocation, "cancel").await?;
    probe.serve(2).await?;
    let row = probe.until(&invocation, &["paused", "completed"]).await?;
    let undone = probe.lines.count("done undo 1 u2");
    found(
        "a cancelled run is undone also where the code of its function changed",
        undone == 1,
        &format!("{}, {undone} last undo step", row["status"]),
    );
    Ok(())
}

/// A question has one answer, also over crashes, and a later one is refused.
pub async fn answers(probe: &mut Probe) -> Result<(), Failure> {
    let invocation = probe
        .engine
        .send("desk", "q", &json!({ "do": "ask" }))
        .await?;
    probe.lines.wait("asks q ", 1).await?;
    let id = probe.lines.with("asks q ")[0]
        .1
        .rsplit(' ')
        .next()
        .unwrap_or("")
        .to_owned();
    probe.kill_service()?;
    probe.engine.kill()?;
    probe.engine.start().await?;
    let path = format!("/restate/awakeables/{id}/resolve");
    let (first, _) = probe.engine.ingress(&path, &[], &json!("yes")).await?;
    let (second, text) = probe.engine.ingress(&path, &[], &json!("no")).await?;
    probe.serve(1).await?;
    let (status, answer) = probe.engine.end(&invocation).await?;
    found(
        "an answer while everything is down lasts",
        answer == "yes",
        &format!("{first}, then the run ended with {status} {answer}"),
    );
    found(
        "a second answer is refused",
        second >= 400,
        &format!("{second} {text}"),
    );
    let (third, text) = probe.engine.ingress(&path, &[], &json!("no")).await?;
    found(
        "an answer to a run that has ended is refused",
        third >= 400,
        &format!("{third} {text}"),
    );
    Ok(())
}

/// A message to a run under way is heard once, by that run or by the next one.
pub async fn words(probe: &mut Probe) -> Result<(), Failure> {
    let invocation = probe
        .engine
        .send("desk", "w", &json!({ "do": "listen", "words": 100 }))
        .await?;
    probe.lines.wait("listens w", 1).await?;
    for word in 0..100 {
        let body = json!({ "to": invocation, "word": word });
        probe.engine.ingress("/desk/w/say", &[], &body).await?;
        if word == 50 {
            probe.kill_service()?;
            probe.serve(1).await?;
        }
    }
    let (_, heard) = probe.engine.end(&invocation).await?;
    let all: Vec<String> = (0..100).map(|word| word.to_string()).collect();
    found(
        "words to a run under way are heard in order, over a crash",
        heard == json!(all),
        &format!("{} of 100", heard.as_array().map_or(0, Vec::len)),
    );
    let (mut told, mut heard) = (0, 0);
    for round in 0..20 {
        let key = format!("gone{round}");
        let invocation = probe
            .engine
            .send("desk", &key, &json!({ "do": "listen", "words": 1 }))
            .await?;
        probe.lines.wait(&format!("listens {key}"), 1).await?;
        for word in 0..3 {
            let (status, _) = probe
                .engine
                .ingress(
                    &format!("/desk/{key}/say"),
                    &[],
                    &json!({ "to": invocation, "word": word }),
                )
                .await?;
            told += usize::from(status == 200);
        }
        heard += probe
            .engine
            .end(&invocation)
            .await?
            .1
            .as_array()
            .map_or(0, Vec::len);
    }
    found(
        "a word is heard by the run or becomes a turn",
        told == heard,
        &format!(
            "of {told} acknowledged words {heard} were heard; the others came after the end of their run and are gone"
        ),
    );
    Ok(())
}

/// Long sleeps pass while both processes are down.
pub async fn sleep(probe: &mut Probe) -> Result<(), Failure> {
    let began = now_ms();
    let mut all = Vec::new();
    for no in 0..300 {
        all.push(
            probe
                .engine
                .send(
                    "desk",
                    &format!("z{no}."),
                    &json!({ "do": "sleep", "ms": 8_000 }),
                )
                .await?,
        );
    }
    let far = probe
        .engine
        .send(
            "desk",
            "far",
            &json!({ "do": "sleep", "ms": 10_u64 * 365 * 86_400_000 }),
        )
        .await?;
    probe.lines.wait("attempt 1 z299.", 1).await?;
    probe.kill_service()?;
    probe.engine.kill()?;
    pause(Duration::from_millis(500)).await;
    let took = probe.engine.start().await?;
    probe.serve(1).await?;
    let wait = Instant::now();
    let mut late: Vec<u64> = Vec::new();
    for invocation in &all {
        late.push(
            probe
                .engine
                .end(invocation)
                .await?
                .1
                .as_u64()
                .unwrap_or(u64::MAX),
        );
    }
    late.sort_unstable();
    found(
        "300 sleeps of 8 s over a kill -9 of both",
        late.iter().all(|ms| *ms < 60_000),
        &format!(
            "server back in {} ms; late by {} ms (median), {} ms (worst); {} s after the first began",
            took.as_millis(),
            late[150],
            late[299],
            (now_ms() - began) / 1_000
        ),
    );
    let row: Value = probe
        .engine
        .rows(&format!(
            "SELECT status FROM sys_invocation WHERE id = '{far}'"
        ))
        .await?
        .pop()
        .unwrap_or_default();
    measured(
        "a sleep of ten years",
        &format!("{} ({} s)", row["status"], wait.elapsed().as_secs()),
    );
    Ok(())
}
