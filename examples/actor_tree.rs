//! The tree of supervisors as plain data, a kill, and an actor of your own as a member of a team (takes 1 s).
//!
//!     cargo run --example actor_tree
#![allow(clippy::print_stdout)]

use std::sync::atomic::{AtomicU32, Ordering};

use ghostlight::{
    actor::{
        Delegation,
        supervisor::{
            Change, Child, ChildInfo, ChildSpec, ChildState, Strategy, Supervisor, SupervisorSpec,
        },
    },
    prelude::*,
    ractor::{Actor, ActorProcessingErr, ActorRef},
    vocabulary::Question,
};
use serde_json::json;
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// An ordinary ractor actor. It takes a `Delegation`, so it can be an agent of a team.
struct Oracle;

impl Actor for Oracle {
    type Msg = Delegation;
    type State = u32;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Delegation>, (): ()) -> Result<u32, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _: ActorRef<Delegation>,
        question: Delegation,
        asked: &mut u32,
    ) -> Result<(), ActorProcessingErr> {
        *asked += 1;
        let answer = format!("42, says the oracle (question {asked})");
        // Nobody there to hear it means that the run is gone.
        let _ = question.reply.send(Ok(answer));
        Ok(())
    }
}

/// How often the desk's function was really run, which is not how often its effects were done.
static LIVES: AtomicU32 = AtomicU32::new(0);

async fn desk(cx: RunContext) -> Result<Outcome, AgentError> {
    LIVES.fetch_add(1, Ordering::SeqCst);
    let told = cx
        .delegate("oracle", cx.input().content().as_str())
        .await?
        .text;
    let answer = cx
        .ask(Question::choice("Believe it?", ["yes", "no"]))
        .await?;
    Ok(Outcome::answer(format!("{told}; believed: {answer}")))
}

fn print(children: &[ChildInfo], depth: usize) {
    for child in children {
        let (id, state, restarts) = (&child.id, &child.state, child.restarts);
        let indent = 4 + 2 * depth;
        println!("{:indent$}{id:<30} {state:?}, {restarts} restarts", "");
        print(&child.children, depth + 1);
    }
}

/// Waits until a child runs again.
async fn runs_again(changes: &mut Receiver<Change>, id: &str) -> Result<(), RecvError> {
    loop {
        let change = changes.recv().await?;
        if change.id == id && change.state == ChildState::Running {
            return Ok(());
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A supervisor of one's own, for any ractor actor.
    let own = SupervisorSpec::new(Strategy::OneForOne);
    let oracle = Child::of(ChildSpec::worker("oracle"), || (Oracle, ()));
    let (own, task) = Supervisor::builder(own).child(oracle).start().await?;
    let oracle = own.child("oracle");

    let member = Agent::from_actor("oracle", oracle.clone(), Effect::Read);
    let team = Agent::from_fn("desk", desk).agent(member).into_team()?;
    let system = System::builder(InMemoryStore::new())
        .team(team)
        .start()
        .await?;

    let run = system.session("desk", "ada").send("Why?").await?;
    run.wait().await?; // it waits for an answer
    println!("the System, while a run waits:");
    print(&system.tree().await, 0);

    // Killed, not stopped: no handler of it runs any more. The run lives in a child of the agent,
    // and dies with it.
    let root = system.supervisor().ok_or("no root supervisor")?;
    let teams = root.find_child("teams").await?.ok_or("no teams")?;
    let teams = Supervisor::from_actor(teams).ok_or("no supervisor")?;
    let mut changes = teams.watch().await?;
    let agent = teams.find_child("desk/ada").await?.ok_or("no agent")?;
    agent.kill();
    runs_again(&mut changes, "desk/ada").await?;
    println!("\nafter the kill of desk/ada:");
    print(&system.tree().await, 0);

    let (asking, operation, question) = run.questions().await?.remove(0);
    println!("\n{} -> yes", question.prompt);
    system.run(asking).answer(operation, json!("yes")).await?;
    println!("{}", run.outcome().await?.text());
    println!("lives of the function: {}", LIVES.load(Ordering::SeqCst));

    let mut changes = own.watch().await?;
    oracle.actor().await?.kill();
    runs_again(&mut changes, "oracle").await?;
    println!("\nthe supervisor of one's own, after a kill of the oracle:");
    print(&own.which_children().await?, 0);
    // The team finds the new oracle, which has counted no question yet.
    let run = system.session("desk", "bob").send("And how?").await?;
    run.wait().await?;
    let (asking, operation, _) = run.questions().await?.remove(0);
    system.run(asking).answer(operation, json!("no")).await?;
    println!("{}", run.outcome().await?.text());

    system.stop().await?;
    own.stop().await;
    task.await?;
    Ok(())
}
