//! Actors of the user's own as members: a supervised one is found again, and asked again where that is right.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{
        Delegation, MemberRef, System,
        supervisor::{
            Backoff, Child, ChildRef, ChildSpec, ChildState, Strategy, Supervisor, SupervisorSpec,
        },
    },
    ractor::{Actor, ActorProcessingErr, ActorRef},
    run::{Agent, RunContext},
    vocabulary::{AgentError, Effect, ErrorKind, Outcome},
};

use crate::stage::{Stage, ask, text};

/// Answers with the number of the question, but dies over those before `from`.
#[derive(Clone)]
struct Mortal {
    asked: Arc<AtomicU32>,
    from: u32,
}

impl Mortal {
    fn new(from: u32) -> Self {
        Self {
            asked: Arc::default(),
            from,
        }
    }

    fn child(&self) -> Child {
        let actor = self.clone();
        Child::of(ChildSpec::worker("oracle"), move || (actor.clone(), ()))
    }
}

impl Actor for Mortal {
    type Msg = Delegation;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Delegation>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Delegation>,
        message: Delegation,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let number = self.asked.fetch_add(1, SeqCst) + 1;
        if number < self.from {
            return Err("it is too hard".into());
        }
        let _ = message.reply.send(Ok(format!("#{number}")));
        Ok(())
    }
}

async fn supervised(actor: &Mortal) -> (Supervisor, ChildRef) {
    let spec = SupervisorSpec::new(Strategy::OneForOne).intensity(10, Duration::from_secs(5));
    let supervisor = Supervisor::builder(spec).child(actor.child()).start().await;
    let supervisor = supervisor.unwrap().0;
    let child = supervisor.child("oracle");
    (supervisor, child)
}

/// Asks twice, and tells how each ended.
async fn twice(actor: impl Into<MemberRef>, effect: Effect) -> System {
    let seeker = Agent::from_fn("seeker", |cx: RunContext| async move {
        let mut ends = Vec::new();
        for task in ["why", "how"] {
            ends.push(match cx.delegate("oracle", task).await {
                Ok(answer) => answer.text,
                Err(AgentError::Operation(error)) => {
                    let cause = error.cause.as_deref().and_then(AgentError::kind);
                    match cause == Some(&ErrorKind::InDoubt) {
                        true => "in doubt".to_owned(),
                        false => error.message,
                    }
                }
                Err(error) => return Err(error),
            });
        }
        Ok(Outcome::answer(ends.join(" ")))
    });
    let member = Agent::from_actor("oracle", actor, effect);
    Stage::new().start(seeker.agent(member)).await
}

#[tokio::test(start_paused = true)]
async fn a_supervised_member_that_dies_over_a_task_is_asked_again_if_it_may_be() {
    for effect in [Effect::Read, Effect::Idempotent] {
        let mortal = Mortal::new(3);
        let system = twice(supervised(&mortal).await.1, effect).await;
        let run = ask(&system, "seeker", "go").await;
        assert_eq!(text(&run).await, "#3 #4", "{effect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_must_not_be_done_twice_is_in_doubt_when_its_member_dies_over_it() {
    let mortal = Mortal::new(2);
    let system = twice(supervised(&mortal).await.1, Effect::Once).await;
    let run = ask(&system, "seeker", "go").await;
    assert_eq!(text(&run).await, "in doubt #2", "the next task finds it");
    let mortal = Mortal::new(2);
    let (actor, _) = Actor::spawn(None, mortal, ()).await.unwrap();
    let system = twice(actor, Effect::Once).await;
    let run = ask(&system, "seeker", "go").await;
    let ends = text(&run).await;
    assert!(ends.starts_with("in doubt "), "{ends}");
    assert!(ends.contains("cannot be reached"), "{ends}");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_dies_over_every_task_is_asked_three_times() {
    let mortal = Mortal::new(u32::MAX);
    let (supervisor, child) = supervised(&mortal).await;
    let system = twice(child.clone(), Effect::Read).await;
    let run = ask(&system, "seeker", "go").await;
    let ends = text(&run).await;
    assert_eq!(ends.matches("ended without an answer").count(), 2, "{ends}");
    assert!(!ends.contains("oracle: oracle"), "{ends}");
    assert_eq!(mortal.asked.load(SeqCst), 6);
    supervisor.terminate_child("oracle").await.unwrap();
    let run = ask(&system, "seeker", "again").await;
    let ends = text(&run).await;
    assert_eq!(ends.matches("the child is stopped").count(), 2, "{ends}");
    supervisor.stop().await;
    let run = ask(&system, "seeker", "and again").await;
    let ends = text(&run).await;
    assert_eq!(ends.matches("supervisor has ended").count(), 2, "{ends}");
}

#[tokio::test(start_paused = true)]
async fn a_task_waits_while_its_member_or_the_supervisor_above_it_is_being_restarted() {
    let mortal = Mortal::new(0);
    let below = SupervisorSpec::new(Strategy::OneForOne);
    let below = Supervisor::builder(below).child(mortal.child());
    let pause = Duration::from_secs(60);
    let spec = SupervisorSpec::new(Strategy::OneForOne).backoff(Backoff::exponential(pause, pause));
    let (top, _) = Supervisor::builder(spec)
        .child(below.into_child(ChildSpec::supervisor("below")))
        .start()
        .await
        .unwrap();
    let child = top.child("below").child("oracle");
    let system = twice(child.clone(), Effect::Once).await;
    let first = child.actor().await.unwrap();
    top.find_child("below").await.unwrap().unwrap().kill();
    first.wait(None).await.unwrap();
    let begun = tokio::time::Instant::now();
    let run = ask(&system, "seeker", "go").await;
    assert_eq!(text(&run).await, "#1 #2");
    assert!(begun.elapsed() > Duration::from_secs(20));
    let state = top.which_children().await.unwrap()[0].state;
    assert_eq!(state, ChildState::Running);
}
