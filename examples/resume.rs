//! A run that survives two deaths of its process, and does nothing twice (takes 1 s).
//!
//!     cargo run --example resume
//!
//! This program starts itself as a child process, over and over, with the same SQLite file. The first
//! life aborts in the middle of a page, the second in the middle of sending a mail. The third goes on
//! from what was recorded and ends. `work.txt` shows which work was done, and by which life.
#![allow(clippy::print_stdout)]

use std::{
    env, fs,
    io::Write as _,
    process::{self, Command},
};

use ghostlight::{prelude::*, vocabulary::ErrorKind};

const STORE: &str = "resume.db";
const WORK: &str = "work.txt";

/// The world outside: one line for each thing that was really done.
fn done(life: u32, what: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(WORK)?;
    writeln!(file, "life {life}: {what}")?;
    file.sync_all()
}

async fn translate(cx: RunContext, life: u32) -> Result<Outcome, AgentError> {
    for page in 1..=4 {
        // Safe to repeat, so a life that finds it begun and not ended does it again.
        let step = cx.step(format!("page {page}"), Effect::Idempotent, async move {
            if (life, page) == (1, 3) {
                process::abort(); // as by SIGKILL: nothing is flushed, no destructor runs
            }
            done(life, &format!("translated page {page}"))
        });
        step.await?;
    }
    // Never to be repeated: its start is recorded first.
    let mail = cx.step("send the mail", Effect::Once, async move {
        done(life, "sent the mail")?;
        if life == 2 {
            process::abort(); // the mail is out, and nobody has heard of it
        }
        Ok::<_, std::io::Error>(())
    });
    let mail = match mail.await {
        Ok(()) => "sent",
        Err(error) if error.kind() == Some(&ErrorKind::InDoubt) => {
            "perhaps sent, and not sent twice"
        }
        Err(error) => return Err(error),
    };
    Ok(Outcome::answer(format!("4 pages translated; mail: {mail}")))
}

/// One life of the program. Every life is the same program; only where it dies differs.
#[tokio::main]
async fn live(life: u32) -> Result<(), ghostlight::Error> {
    let translator = Agent::from_fn("translator", move |cx| translate(cx, life));
    let system = System::open(STORE)?
        .team(translator.into_team()?)
        .start()
        .await?;
    // Sent in each life, under one id: it is one run.
    let turn = Turn::text("Translate the book.").id("book-1");
    let run = system.session("translator", "ada").send(turn).await?;
    println!("life {life}: {}", run.outcome().await?.text());
    let entries = run.events().so_far().await?;
    println!("life {life}: the run's events, over all lives:");
    for event in entries {
        println!("    {event}");
    }
    system.stop().await
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(life) = env::args().nth(1) {
        return Ok(live(life.parse()?)?);
    }
    let folder = env::temp_dir().join(format!("ghostlight-resume-{}", process::id()));
    fs::create_dir_all(&folder)?;
    for life in ["1", "2", "3"] {
        let child = Command::new(env::current_exe()?)
            .arg(life)
            .current_dir(&folder)
            .stderr(process::Stdio::null())
            .status()?;
        println!("life {life} ended: {child}");
    }
    let work = fs::read_to_string(folder.join(WORK))?;
    println!("\n{WORK}, what was really done:\n{work}");
    fs::remove_dir_all(&folder)?;
    let lines: Vec<&str> = work.lines().collect();
    let once = lines.iter().filter(|line| line.contains("mail")).count();
    if lines.len() != 5 || once != 1 {
        return Err("something ran twice".into());
    }
    println!("nothing ran twice");
    Ok(())
}
