//! Several objects: calls between them, what they keep together, and turns that come twice or in heaps.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use crate::{
    engine::Failure,
    probe::{Probe, found, measured},
};

/// A task for another object survives crashes, and is cancelled with its parent.
pub async fn delegation(probe: &mut Probe) -> Result<(), Failure> {
    let mut once = 0;
    for round in 0..10_u64 {
        let key = format!("d{round}.");
        let invocation = probe
            .engine
            .send(
                "desk",
                &key,
                &json!({ "do": "delegate", "task": { "do": "once", "ms": 5 } }),
            )
            .await?;
        sleep(Duration::from_millis(round * 4)).await;
        if round % 2 == 0 {
            probe.kill_service()?;
            probe.serve(1).await?;
        } else {
            probe.engine.kill()?;
            probe.engine.start().await?;
        }
        probe.engine.end(&invocation).await?;
        once += usize::from(probe.lines.count(&format!("begun once {key}-child")) <= 1);
    }
    found(
        "a delegated task is done at most once",
        once == 10,
        &format!("{once} of 10 over kills of the service and of the server"),
    );
    let invocation = probe
        .engine
        .send(
            "desk",
            "dc",
            &json!({ "do": "delegate", "task": { "do": "undo", "ms": 300 } }),
        )
        .await?;
    probe.lines.wait("done effect 3 dc-child", 1).await?;
    sleep(Duration::from_millis(200)).await;
    probe.engine.command(&invocation, "cancel").await?;
    let (status, answer) = probe.engine.end(&invocation).await?;
    let undone = probe.lines.count("done undo 1 dc-child");
    found(
        "a cancellation reaches the child and waits for its undo steps",
        undone == 1,
        &format!("{undone} last undo step before the parent's end {status} {answer}"),
    );
    // A parent that an operator kills: the function has no say.
    let invocation = probe
        .engine
        .send("desk", "dk", &json!({ "do": "undo", "ms": 10 }))
        .await?;
    probe.lines.wait("done effect 3 dk", 1).await?;
    probe.engine.command(&invocation, "kill").await?;
    probe.engine.end(&invocation).await?;
    sleep(Duration::from_millis(500)).await;
    let undone: usize = (1..=3)
        .map(|no| probe.lines.count(&format!("begun undo {no} dk")))
        .sum();
    measured(
        "an invocation that an operator kills",
        &format!("begins {undone} of its 3 undo steps"),
    );
    Ok(())
}

/// A turn that is sent twice is one run, at once and later.
pub async fn ids(probe: &Probe) -> Result<(), Failure> {
    let header = [("idempotency-key", "turn-1")];
    let body = json!({ "do": "once", "ms": 100 });
    let (one, two) = futures_util::future::join(
        probe.engine.ingress("/hasty/i/turn", &header, &body),
        probe.engine.ingress("/hasty/i/turn", &header, &body),
    )
    .await;
    let (one, two) = (one?, two?);
    let times = probe.lines.count("begun once i");
    found(
        "a turn that is sent twice at once is one run",
        times == 1,
        &format!("{times} run, answers {} and {}", one.1, two.1),
    );
    sleep(Duration::from_secs(6)).await;
    probe
        .engine
        .ingress("/hasty/i/turn", &header, &body)
        .await?;
    let times = probe.lines.count("begun once i");
    found(
        "and later, whenever that is",
        times == 1,
        &format!(
            "{times} runs when it was sent again 6 s later, where ids are kept for 2 s (a day unless set)"
        ),
    );
    let kept = json!({ "do": "keep id", "id": "turn-1" });
    for _ in 0..3 {
        probe
            .engine
            .ingress("/hasty/k/turn", &header, &kept)
            .await?;
        sleep(Duration::from_secs(3)).await;
    }
    found(
        "with the ids kept in the object's state",
        probe.lines.count("begun kept k") == 1,
        &format!(
            "{} run for 3 sendings over 9 s",
            probe.lines.count("begun kept k")
        ),
    );
    Ok(())
}

/// Turns beyond a bound are refused at once.
pub async fn queue(probe: &Probe) -> Result<(), Failure> {
    probe
        .engine
        .send("desk", "full", &json!({ "do": "naive", "ms": 600_000 }))
        .await?;
    let began = Instant::now();
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..20 {
        let turn = json!({ "do": "naive", "ms": 0 });
        let sends = (0..100).map(|_| probe.engine.send("desk", "full", &turn));
        for sent in futures_util::future::join_all(sends).await {
            if sent.is_ok() {
                taken += 1
            } else {
                refused += 1
            }
        }
    }
    found(
        "turns beyond a bound are refused",
        refused > 0,
        &format!(
            "{taken} of 2000 turns for one session that is busy were taken, {refused} refused, in {:.1} s",
            began.elapsed().as_secs_f64()
        ),
    );
    Ok(())
}

/// A result and what it changes are recorded together.
pub async fn atomic(probe: &Probe) -> Result<(), Failure> {
    for of in ["own", "others"] {
        let key = format!("atomic-{of}");
        let invocation = probe
            .engine
            .send(
                "desk",
                &key,
                &json!({ "do": "tool and state", "of": of, "ms": 2_000 }),
            )
            .await?;
        probe.lines.wait(&format!("recorded {key}"), 1).await?;
        sleep(Duration::from_millis(500)).await;
        let recorded = probe.engine.rows(&format!("SELECT index, entry_type FROM sys_journal WHERE id = '{invocation}' AND entry_type LIKE '%Run%'")).await?.len();
        let (object, at) = if of == "own" {
            ("desk", key.as_str())
        } else {
            ("other", "others")
        };
        let seen = probe.engine.rows(&format!("SELECT value_utf8 FROM state WHERE service_name = '{object}' AND service_key = '{at}'")).await?.len();
        probe.engine.command(&invocation, "kill").await?;
        probe.engine.end(&invocation).await?;
        sleep(Duration::from_millis(2_500)).await;
        let after = probe.engine.rows(&format!("SELECT value_utf8 FROM state WHERE service_name = '{object}' AND service_key = '{at}'")).await?.len();
        found(
            &format!("a result and its change of state ({of})"),
            recorded == 0 || seen == 1,
            &format!(
                "{recorded} entries of the result are durable and {seen} values; after a kill of the invocation {after} values"
            ),
        );
    }
    Ok(())
}
