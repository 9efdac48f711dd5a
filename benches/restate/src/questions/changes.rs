//! Code that changes while runs are open, and forks.

use serde_json::{Value, json};

use crate::{
    engine::{Failure, free_port},
    log::now_ms,
    probe::{Probe, found, measured, reachable, spawn},
};

/// Other code at the same address, and at another one.
pub async fn code(probe: &mut Probe) -> Result<(), Failure> {
    let until = now_ms() + 4_000;
    let invocation = probe
        .engine
        .send("desk", "c", &json!({ "do": "changing", "until": until }))
        .await?;
    probe.lines.wait("done b c", 1).await?;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    probe.kill_service()?;
    probe.serve(2).await?;
    let row = probe.until(&invocation, &["paused", "completed"]).await?;
    found(
        "code that does not fit the record is told and parks",
        row["status"] == "paused",
        &format!("{} ({})", row["status"], short(&row["last_failure"])),
    );
    found(
        "code that asks for a version where an older run is past it goes on",
        row["status"] == "completed",
        "a step for the version is a command, and commands are compared by their places",
    );
    probe.kill_service()?;
    probe.serve(1).await?;
    let (status, _) = probe.engine.command(&invocation, "resume").await?;
    let (end, answer) = probe.engine.end(&invocation).await?;
    found(
        "it goes on with the code that fits",
        end == 200,
        &format!(
            "resume {status}, end {end} {answer}, b done {} times",
            probe.lines.count("done b c")
        ),
    );

    let until = now_ms() + 4_000;
    let invocation = probe
        .engine
        .send("desk", "d", &json!({ "do": "changing", "until": until }))
        .await?;
    probe.lines.wait("done b d", 1).await?;
    let port = free_port()?;
    let mut second = spawn(port, 2, probe.log())?;
    reachable(port).await?;
    let deployment = probe.engine.register(port, false).await?;
    let later = probe
        .engine
        .send("desk", "e", &json!({ "do": "changing", "until": now_ms() }))
        .await?;
    let (_, version) = probe.engine.end(&later).await?;
    let (_, pinned) = probe.engine.end(&invocation).await?;
    found(
        "a run stays with the code it began with, new ones take the new code",
        pinned == 1 && version == 2,
        &format!("old run: version {pinned}, new run: version {version} ({deployment})"),
    );
    second.kill()?;
    second.wait()?;
    Ok(())
}

/// A run goes on anew from an entry of a recorded one.
pub async fn fork(probe: &Probe) -> Result<(), Failure> {
    let open = probe
        .engine
        .send("desk", "open", &json!({ "do": "undo", "ms": 10 }))
        .await?;
    probe.lines.wait("done effect 3 open", 1).await?;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let (status, answer) = restart(probe, &open, 3).await?;
    found(
        "an open run is forked",
        status < 300,
        &format!("{status} {}", short(&answer)),
    );
    let ended = probe
        .engine
        .send(
            "desk",
            "done",
            &json!({ "do": "changing", "until": now_ms() }),
        )
        .await?;
    probe.engine.end(&ended).await?;
    let rows = probe
        .engine
        .rows(&format!(
            "SELECT index, entry_type, name FROM sys_journal WHERE id = '{ended}' ORDER BY index"
        ))
        .await?;
    measured(
        "its journal",
        &rows
            .iter()
            .map(|row| {
                format!(
                    "{} {}",
                    row["index"],
                    row["entry_type"].as_str().unwrap_or("")
                )
            })
            .collect::<Vec<_>>()
            .join(", "),
    );
    for from in 0..rows.len() {
        let before = [
            probe.lines.count("done a done"),
            probe.lines.count("done b done"),
            probe.lines.count("done c done"),
        ];
        let (status, answer) = restart(probe, &ended, from).await?;
        let mut text = format!("{status} {}", short(&answer));
        if let Some(new) = answer["new_invocation_id"].as_str() {
            let (end, _) = probe.engine.end(new).await?;
            let after = [
                probe.lines.count("done a done"),
                probe.lines.count("done b done"),
                probe.lines.count("done c done"),
            ];
            text = format!(
                "{status}, end {end}, done anew: a {} b {} c {}",
                after[0] - before[0],
                after[1] - before[1],
                after[2] - before[2]
            );
        }
        found(
            &format!("an ended run is forked at entry {from}"),
            status < 300,
            &text,
        );
    }
    let parent = probe
        .engine
        .send(
            "desk",
            "tree",
            &json!({ "do": "delegate", "task": { "do": "changing", "until": 0 } }),
        )
        .await?;
    probe.engine.end(&parent).await?;
    let children = "SELECT id FROM sys_invocation WHERE target_service_name = 'other'";
    let before = probe.engine.rows(children).await?.len();
    let (status, answer) = restart(probe, &parent, 1).await?;
    let new = answer["new_invocation_id"]
        .as_str()
        .ok_or("the run with a child is not forked")?;
    probe.engine.end(new).await?;
    let key = probe
        .engine
        .rows(&format!(
            "SELECT target_service_key FROM sys_invocation WHERE id = '{new}'"
        ))
        .await?
        .pop()
        .unwrap_or_default();
    let after = probe.engine.rows(children).await?.len();
    found(
        "a fork has a session of its own",
        key["target_service_key"] != "tree",
        &format!(
            "{status}, the fork of the session \"tree\" has the key {}",
            key["target_service_key"]
        ),
    );
    measured(
        "children of a run that is forked behind its delegation",
        &format!("{before} before and {after} after"),
    );
    Ok(())
}

async fn restart(probe: &Probe, invocation: &str, from: usize) -> Result<(u16, Value), Failure> {
    probe
        .engine
        .admin(
            "PATCH",
            &format!("/invocations/{invocation}/restart-as-new?from={from}"),
            &Value::Null,
        )
        .await
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(300).collect()
}
