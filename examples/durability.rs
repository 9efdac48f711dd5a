//! What runs leave behind: synced, in the background or in memory only, and how ended runs are deleted (takes 1 s).
//!
//!     cargo run --example durability
//!
//! Three teams do the same work over one file, each with another durability. Then the next
//! process looks at what is there, and deletes all runs but the last.
#![allow(clippy::print_stdout)]

use ghostlight::{actor::Retention, definition::Durability, prelude::*, run::Team};

/// Twenty notes, each an effect of its own.
async fn take_notes(cx: RunContext) -> Result<Outcome, AgentError> {
    let mut taken = 0;
    for note in 1..=20 {
        let write = async move { Ok::<_, std::io::Error>(note) };
        taken = cx.step("note", Effect::Idempotent, write).await?;
    }
    Ok(Outcome::answer(format!("{taken} notes")))
}

fn team(name: &str, durability: Durability) -> Result<Team, ghostlight::Error> {
    let agent = Agent::from_fn(name, take_notes);
    Ok(agent.into_team()?.durability(durability))
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let file =
        std::env::temp_dir().join(format!("ghostlight-durability-{}.db", std::process::id()));
    let system = System::open(&file)?
        // No effect begins before every entry that precedes it is on the disk.
        .team(team("sync", Durability::Sync)?)
        // Effects may run ahead of the disk by up to `Durability::WINDOW` entries of their run.
        .team(team("async", Durability::Async)?)
        // Nothing is written.
        .team(team("memory", Durability::Memory)?)
        .start()
        .await?;
    for name in ["sync", "async", "memory"] {
        let clock = std::time::Instant::now();
        let run = system.session(name, "ada").send("Take notes.").await?;
        let answer = run.outcome().await?;
        println!("{name:6}  {}  in {:?}", answer.text(), clock.elapsed());
    }
    system.stop().await?;

    let system = System::open(&file)?.start().await?;
    for run in system.runs(Default::default()).await? {
        println!(
            "after the process: a run of team {}, {}",
            run.team, run.status
        );
    }
    // Ended runs go after their time or beyond a number, and what was said stays. With `SystemOptions::retention` a System
    // does this by itself; `ghostlight store prune` does it for a file.
    let pruned = system.prune(Retention::default().keep(1)).await?;
    println!("deleted {} run, {} entries", pruned.runs, pruned.entries);
    for kept in system.runs(Default::default()).await? {
        println!("kept: a run of team {}", kept.team);
    }
    for session in system.sessions().list(Default::default()).await?.sessions {
        println!("{}: {} turn", session.session, session.turns);
    }
    system.stop().await?;
    for suffix in ["", "-wal", "-shm", ".anchor"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", file.display()));
    }
    let _ = std::fs::remove_dir_all(format!("{}.owners", file.display()));
    Ok(())
}
