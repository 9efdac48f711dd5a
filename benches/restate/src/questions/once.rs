//! Effects that must not happen twice.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::time::sleep;

use crate::{
    engine::Failure,
    log::now_ms,
    probe::{Probe, found, measured, reachable, spawn},
};

async fn killed(probe: &mut Probe, kind: &str, rounds: u64) -> Result<(usize, usize), Failure> {
    let (mut twice, mut unknown) = (0, 0);
    for round in 0..rounds {
        let key = format!("{kind}{round}.");
        let invocation = probe
            .engine
            .send("desk", &key, &json!({ "do": kind, "ms": 60 }))
            .await?;
        // Killed at different moments: before, in the middle of and after the effect.
        if round % 2 == 0 {
            probe.lines.wait(&format!("begun {kind} {key}"), 1).await?;
            sleep(Duration::from_millis(round * 70 / rounds)).await;
        } else {
            sleep(Duration::from_millis(round)).await;
        }
        probe.kill_service()?;
        probe.serve(1).await?;
        let (status, _) = probe.engine.end(&invocation).await?;
        unknown += usize::from(status != 200);
        twice += usize::from(probe.lines.count(&format!("begun {kind} {key}")) > 1);
    }
    Ok((twice, unknown))
}

/// A service that is killed around an effect: as a step of Restate, and with its start recorded first.
pub async fn once(probe: &mut Probe) -> Result<(), Failure> {
    let (twice, _) = killed(probe, "naive", 40).await?;
    found(
        "`once` as one step",
        twice == 0,
        &format!("of 40 effects whose service was killed {twice} were carried out twice"),
    );
    let (twice, unknown) = killed(probe, "once", 40).await?;
    found(
        "`once` with a start of its own",
        twice == 0,
        &format!("of 40 effects {twice} were carried out twice, {unknown} told as in doubt"),
    );
    for kind in ["naive", "once"] {
        let began = Instant::now();
        for round in 0..100 {
            probe
                .engine
                .call(
                    "desk",
                    &format!("cost-{kind}-{round}"),
                    &json!({ "do": kind, "ms": 0 }),
                )
                .await?;
        }
        measured(
            &format!("a turn with one {kind} step"),
            &format!("{:.1} ms", began.elapsed().as_secs_f64() * 10.0),
        );
    }
    probe
        .engine
        .call("desk", "f", &json!({ "do": "failing", "times": 3 }))
        .await?;
    measured(
        "an effect that fails in a way that may pass",
        &format!(
            "carried out {} times by the server's default policy",
            probe.lines.count("begun failing f")
        ),
    );
    Ok(())
}

/// A service that is frozen in the middle of an effect, and wakes when another has taken over.
pub async fn frozen(probe: &mut Probe) -> Result<(), Failure> {
    let signal = |id: u32, name: &str| Command::new("kill").args([name, &id.to_string()]).status();
    for kind in ["naive", "once"] {
        let invocation = probe
            .engine
            .send("desk", kind, &json!({ "do": kind, "ms": 1_500 }))
            .await?;
        probe.lines.wait(&format!("begun {kind} {kind}"), 1).await?;
        let old = probe.service_id();
        signal(old, "-STOP")?;
        let began = now_ms();
        // The second process has an address of its own; the deployment is told of it.
        let port = crate::engine::free_port()?;
        let mut second = spawn(port, 1, probe.log())?;
        reachable(port).await?;
        let rows = probe.engine.rows("SELECT id FROM sys_deployment").await?;
        let deployment = rows
            .first()
            .and_then(|row| row["id"].as_str())
            .unwrap_or("")
            .to_owned();
        let body = json!({ "uri": format!("http://127.0.0.1:{port}") });
        let (status, answer) = probe
            .engine
            .admin("PATCH", &format!("/deployments/{deployment}"), &body)
            .await?;
        if status >= 300 {
            return Err(format!("the deployment is not moved: {status} {answer}").into());
        }
        probe.lines.wait(&format!("attempt 1 {kind} "), 2).await?;
        let taken = now_ms() - began;
        sleep(Duration::from_millis(200)).await;
        signal(old, "-CONT")?;
        let (status, answer) = probe.engine.end(&invocation).await?;
        sleep(Duration::from_millis(2_000)).await;
        let times = probe.lines.count(&format!("begun {kind} {kind}"));
        found(
            &format!("a frozen service, `{kind}`"),
            times == 1,
            &format!(
                "taken over after {taken} ms with a keep-alive of 2 + 2 s (40 + 20 s unless set); begun {times} times; end {status} {answer}"
            ),
        );
        probe.kill_service()?;
        second.kill()?;
        second.wait()?;
        probe.serve(1).await?;
        let body = json!({ "uri": format!("http://127.0.0.1:{}", probe.port) });
        probe
            .engine
            .admin("PATCH", &format!("/deployments/{deployment}"), &body)
            .await?;
    }
    Ok(())
}

/// An effect that takes longer than the server's bounds on silence.
pub async fn slow(probe: &Probe) -> Result<(), Failure> {
    let invocation = probe
        .engine
        .send("hasty", "s", &json!({ "do": "naive", "ms": 5_000 }))
        .await?;
    sleep(Duration::from_secs(12)).await;
    let times = probe.lines.count("begun naive s");
    let row = probe
        .until(
            &invocation,
            &["running", "backing-off", "completed", "paused", "ready"],
        )
        .await?;
    found(
        "a call that takes long",
        times == 1,
        &format!(
            "a call of 5 s with bounds of 1 s + 1 s (1 + 10 minutes unless set) was begun {times} times in 12 s, its invocation is {}",
            row["status"]
        ),
    );
    let invocation = probe
        .engine
        .send("hasty", "o", &json!({ "do": "once", "ms": 5_000 }))
        .await?;
    let (status, answer) = probe.engine.end(&invocation).await?;
    found(
        "the same with a start of its own",
        status == 200,
        &format!(
            "begun {} times, end {status} {answer}, though nothing crashed",
            probe.lines.count("begun once o")
        ),
    );
    Ok(())
}
