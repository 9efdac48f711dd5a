//! The questions, each with a run against a real server.

mod changes;
mod ends;
mod journal;
mod once;
mod sharing;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    engine::Failure,
    probe::{Probe, measured},
};

const NAMES: [&str; 16] = [
    "order",
    "once",
    "frozen",
    "slow",
    "cancel",
    "undo",
    "answers",
    "words",
    "delegation",
    "ids",
    "queue",
    "atomic",
    "position",
    "code",
    "fork",
    "sleep",
];
const SIZES: [&str; 2] = ["steps", "megabytes"];

/// Asks the questions of these names, or all.
pub async fn ask(program: &Path, names: &[String]) -> Result<(), Failure> {
    let program = std::fs::canonicalize(program)?;
    for name in NAMES.iter().chain(&SIZES) {
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        println!("\n# {name}");
        let folder =
            std::env::temp_dir().join(format!("restate-probe-{}-{name}", std::process::id()));
        let began = Instant::now();
        let result =
            tokio::time::timeout(Duration::from_secs(240), one(name, &program, &folder)).await;
        match result {
            Ok(Ok(())) => std::fs::remove_dir_all(&folder)?,
            Ok(Err(failure)) => {
                println!("       not answered: {failure} (see {})", folder.display())
            }
            Err(_) => println!(
                "       not answered within 240 s (see {})",
                folder.display()
            ),
        }
        measured(
            "asked in",
            &format!("{:.1} s", began.elapsed().as_secs_f64()),
        );
    }
    Ok(())
}

async fn one(name: &str, program: &Path, folder: &Path) -> Result<(), Failure> {
    // A service that is away or frozen is tried again and noticed quickly; else the server's defaults hold.
    let settings = [
        ("DEFAULT_RETRY_POLICY__INITIAL_INTERVAL", "50ms"),
        ("DEFAULT_RETRY_POLICY__MAX_INTERVAL", "200ms"),
        ("WORKER__CLEANUP_INTERVAL", "1s"),
    ];
    let frozen = [
        settings[0],
        settings[1],
        ("WORKER__INVOKER__HTTP2_KEEP_ALIVE_INTERVAL", "2s"),
        ("WORKER__INVOKER__HTTP2_KEEP_ALIVE_TIMEOUT", "2s"),
    ];
    let mut probe = Probe::new(
        program,
        folder,
        if name == "frozen" { &frozen } else { &settings },
    )
    .await?;
    match name {
        "order" => journal::order(&probe).await,
        "steps" => journal::steps(&probe).await,
        "megabytes" => journal::megabytes(&probe).await,
        "position" => journal::position(&probe).await,
        "once" => once::once(&mut probe).await,
        "frozen" => once::frozen(&mut probe).await,
        "slow" => once::slow(&probe).await,
        "cancel" => ends::cancel(&mut probe).await,
        "undo" => ends::undo(&mut probe).await,
        "answers" => ends::answers(&mut probe).await,
        "words" => ends::words(&mut probe).await,
        "sleep" => ends::sleep(&mut probe).await,
        "delegation" => sharing::delegation(&mut probe).await,
        "ids" => sharing::ids(&probe).await,
        "queue" => sharing::queue(&probe).await,
        "atomic" => sharing::atomic(&probe).await,
        "code" => changes::code(&mut probe).await,
        "fork" => changes::fork(&probe).await,
        other => Err(format!("there is no question {other:?}").into()),
    }
}
