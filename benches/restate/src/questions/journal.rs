//! How long a journal may be, what replaying it costs, and in which order results come.

use std::time::Instant;

use serde_json::{Value, json};

use crate::{
    engine::Failure,
    probe::{Probe, found, measured},
};

/// Results come in one order in every life, with 300 operations side by side.
pub async fn order(probe: &Probe) -> Result<(), Failure> {
    let (mut lives, mut orders) = (0, 0);
    for round in 0..10 {
        let key = format!("order{round}.");
        let (status, answer) = probe
            .engine
            .call("desk", &key, &json!({ "do": "order", "count": 300 }))
            .await?;
        let whole: Vec<u64> =
            serde_json::from_value(answer.clone()).map_err(|_| format!("{status} {answer}"))?;
        for (_, line) in probe.lines.with(&format!("order {key} ")) {
            let part: Vec<u64> = serde_json::from_str(line.rsplit(' ').next().unwrap_or(""))?;
            lives += 1;
            orders += usize::from(whole.starts_with(&part));
        }
    }
    let protocol = probe
        .lines
        .with("protocol")
        .pop()
        .map(|(_, line)| line)
        .unwrap_or_default();
    found(
        "replay order",
        lives == orders,
        &format!(
            "in {orders} of {lives} lives of 10 runs the results of 300 operations side by side came in the recorded order ({protocol})"
        ),
    );
    Ok(())
}

/// Thousands of steps: what one costs, and what replaying costs.
pub async fn steps(probe: &Probe) -> Result<(), Failure> {
    for count in [1_000, 5_000, 20_000] {
        let key = format!("steps{count}.");
        let began = Instant::now();
        let (status, answer) = probe
            .engine
            .call(
                "desk",
                &key,
                &json!({ "do": "steps", "count": count, "bytes": 200 }),
            )
            .await?;
        let lives = probe.lines.with(&format!("steps {key} "));
        let took: Vec<String> = lives
            .iter()
            .map(|(_, line)| {
                let words: Vec<&str> = line.split(' ').collect();
                format!(
                    "{} µs a step with {} made",
                    words[5].parse::<u64>().unwrap_or(0) / count,
                    words[3]
                )
            })
            .collect();
        measured(
            &format!("{count} steps"),
            &format!(
                "{status} {}, {} lives: {}; {:.1} s together; server {} MB",
                short(&answer),
                lives.len(),
                took.join("; "),
                began.elapsed().as_secs_f64(),
                probe.engine.memory() >> 20
            ),
        );
    }
    Ok(())
}

/// Results of a megabyte, and one that is beyond the server's bound.
pub async fn megabytes(probe: &Probe) -> Result<(), Failure> {
    for (count, size) in [
        (10, 1 << 20),
        (20, 1 << 20),
        (40, 1 << 20),
        (100, 1 << 20),
        (1, 31 << 20),
        (1, 40 << 20),
    ] {
        let key = format!("mb{count}x{size}.");
        let began = Instant::now();
        let invocation = probe
            .engine
            .send(
                "desk",
                &key,
                &json!({ "do": "steps", "count": count, "bytes": size }),
            )
            .await?;
        let mut last = Value::Null;
        for _ in 0..200 {
            last = probe.engine.rows(&format!("SELECT status, completion_result, completion_failure, last_failure, retry_count FROM sys_invocation WHERE id = '{invocation}'")).await?.pop().unwrap_or_default();
            if last["status"] == "completed"
                || last["status"] == "paused"
                || last["retry_count"].as_u64() > Some(25)
            {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let done = last["status"] == "completed" && last["completion_result"] == "success";
        found(
            &format!("{count} results of {} MB", size >> 20),
            done,
            &format!(
                "{} after {:.1} s, {} attempts and {} lives that passed all steps, server {} MB{}",
                last["status"],
                began.elapsed().as_secs_f64(),
                probe.lines.count(&format!(" {key} inv_")),
                probe.lines.count(&format!("steps {key} ")),
                probe.engine.memory() >> 20,
                if done {
                    String::new()
                } else {
                    format!(": {}", short(&last["last_failure"]))
                }
            ),
        );
        if !done {
            probe.engine.command(&invocation, "kill").await?;
        }
    }
    Ok(())
}

/// Whether entries have a place over all journals.
pub async fn position(probe: &Probe) -> Result<(), Failure> {
    for key in ["p1", "p2", "p3"] {
        probe
            .engine
            .call("desk", key, &json!({ "do": "naive", "ms": 0 }))
            .await?;
    }
    let rows = probe
        .engine
        .rows("SELECT column_name FROM information_schema.columns WHERE table_name = 'sys_journal'")
        .await?;
    let columns: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["column_name"].as_str())
        .collect();
    let rows = probe
        .engine
        .rows("SELECT id, index, entry_type, appended_at FROM sys_journal ORDER BY appended_at")
        .await?;
    let partitions = probe
        .engine
        .rows("SELECT DISTINCT partition_key FROM sys_invocation_status")
        .await?
        .len();
    let indexes: Vec<String> = rows.iter().map(|row| row["index"].to_string()).collect();
    let unique = indexes
        .iter()
        .collect::<std::collections::HashSet<_>>()
        .len()
        == indexes.len();
    found(
        "a position over the whole store",
        unique,
        &format!(
            "3 runs, {partitions} partition keys, {} entries with the indexes {}; columns: {}",
            rows.len(),
            indexes.join(" "),
            columns.join(", ")
        ),
    );
    Ok(())
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(400).collect()
}
