//! The ten agents, for every test that wants agents as different as they come.
#![allow(dead_code, unreachable_pub)]

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use ghostlight_actors::{
    actor::Delegation,
    contract::ToolHandle,
    ractor::{Actor, ActorProcessingErr, ActorRef},
    run::{
        Agent, RunContext,
        operations::{AgentMessage, Scope},
    },
    vocabulary::{AgentError, Effect, Message, Outcome, Question, ToolCall, Transfer},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What the long-lived agents are told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub pieces: u32,
}

impl AgentMessage for Order {
    const NAME: &'static str = "order";
}

/// A race, and a timeout that strikes.
pub fn racer() -> Agent {
    Agent::from_fn("racer", |cx: RunContext| async move {
        let fast = cx.lane("fast");
        let slow = cx.lane("slow");
        let contestants = vec![
            fast.sleep(Duration::from_secs(1)),
            slow.sleep(Duration::from_secs(3600)),
        ];
        let (place, result) = cx.race(contestants).await;
        result?;
        let late = cx
            .timeout(Duration::from_secs(5), cx.sleep(Duration::from_secs(60)))
            .await;
        Ok(Outcome::answer(format!(
            "winner {place}, late {}",
            late.is_err()
        )))
    })
}

/// A parallel batch in which one tool needs approval.
pub fn keeper(risky: impl Into<ToolHandle>, safe: impl Into<ToolHandle>) -> Agent {
    let agent = Agent::from_fn("keeper", |cx: RunContext| async move {
        let calls = vec![
            ToolCall::new("1", "look", json!({})),
            ToolCall::new("2", "delete", json!({"path": "tmp/x"})),
            ToolCall::new("3", "delete", json!({"path": "tmp/y"})),
        ];
        let results = cx.tools(calls).await?;
        let text: Vec<String> = results
            .iter()
            .map(|r| format!("{}:{:?}", r.call_id, r.status))
            .collect();
        Ok(Outcome::answer(text.join(" ")))
    });
    agent.tool(risky).tool(safe)
}

/// A desk that hands every conversation to billing.
pub fn desk() -> Agent {
    let billing = Agent::from_fn("billing", |cx: RunContext| async move {
        let said = cx
            .conversation()
            .messages()
            .iter()
            .map(|m| m.content())
            .collect::<Vec<_>>();
        Ok(Outcome::answer(format!(
            "billing saw: {}",
            said.join(" | ")
        )))
    });
    Agent::from_fn("desk", |_cx: RunContext| async move {
        let said = vec![Arc::new(Message::assistant("one moment").by("desk"))];
        Ok(Outcome::Transfer(
            Transfer::to("billing").with_messages(said),
        ))
    })
    .agent(billing)
}

/// A writer with a critic who fails at times.
pub fn writer() -> Agent {
    let critic = Agent::from_fn("critic", |cx: RunContext| async move {
        match cx.input().content().as_str() {
            "bad" => Err(AgentError::failed("no idea")),
            task => Ok(Outcome::answer(format!("reviewed {task}"))),
        }
    });
    Agent::from_fn("writer", |cx: RunContext| async move {
        let (good, bad) =
            futures_util::join!(cx.delegate("critic", "good"), cx.delegate("critic", "bad"));
        let nobody = cx.delegate("nobody", "x").await;
        Ok(Outcome::answer(format!(
            "{} / {} / {}",
            good?.text,
            bad.unwrap_err(),
            nobody.unwrap_err()
        )))
    })
    .agent(critic)
}

/// A shop that takes orders until ten pieces are sold.
pub fn shop() -> Agent {
    Agent::from_fn("shop", |cx: RunContext| async move {
        let mut total = 0;
        while total < 10 {
            let order: Order = cx.receive().await?;
            total += order.pieces;
            cx.emit("sold", &json!({"total": total}));
        }
        Ok(Outcome::answer(total.to_string()))
    })
}

/// A loop over the nodes of a small graph, with a model.
pub fn graph() -> Agent {
    #[derive(Clone, Copy)]
    enum Node {
        Draft,
        Check,
        Done,
    }
    Agent::from_fn("graph", |cx: RunContext| async move {
        let (mut node, mut text, mut rounds) = (Node::Draft, String::new(), 0);
        let mut conversation = cx.conversation();
        loop {
            node = match node {
                Node::Draft => {
                    let request = cx.model_request(conversation.clone());
                    let response = cx.model(request).await?;
                    text = response.content();
                    conversation.push(response.message.clone());
                    rounds += 1;
                    Node::Check
                }
                Node::Check if text.contains("good") => Node::Done,
                Node::Check => Node::Draft,
                Node::Done => return Ok(Outcome::answer(format!("{text} after {rounds}"))),
            };
        }
    })
}

/// A tree that falls back from one branch to the next, over a shared memory.
pub fn tree() -> Agent {
    let worker = Agent::from_fn("node", |cx: RunContext| async move {
        let goal = cx.input().content();
        let tried = cx.memory().update("tried", {
            let goal = goal.clone();
            move |tried: Option<Vec<String>>| {
                let mut tried = tried.unwrap_or_default();
                tried.push(goal.clone());
                tried
            }
        });
        let tried = tried.await?;
        if goal == "find the apple in the fridge" {
            return Err(AgentError::failed("there is none"));
        }
        Ok(Outcome::answer(format!("{goal} after {}", tried.len())))
    });
    Agent::from_fn("tree", |cx: RunContext| async move {
        // fallback[a, b]: the first that does not fail.
        for goal in [
            "find the apple in the fridge",
            "find the apple on the table",
        ] {
            if let Ok(done) = cx.delegate("node", goal).await {
                return Ok(Outcome::answer(done.text));
            }
        }
        Err(AgentError::failed("every branch failed"))
    })
    .agent(worker)
}

/// A coordinator that hands out work over rounds, as workers become free.
pub fn coordinator() -> Agent {
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        let task = cx.input().content();
        let seconds = task.len() as u64;
        cx.sleep(Duration::from_secs(seconds)).await?;
        Ok(Outcome::answer(format!("<{task}>")))
    });
    Agent::from_fn("boss", |cx: RunContext| async move {
        let mut done = Vec::new();
        for round in 0..3 {
            let mut under_way: FuturesUnordered<_> = (0..4)
                .map(|place| {
                    let task = format!("{round}{}", "x".repeat(4 - place));
                    cx.delegate("worker", task)
                })
                .collect();
            while let Some(result) = under_way.next().await {
                done.push(result?.text);
            }
        }
        Ok(Outcome::answer(done.concat()))
    })
    .agent(worker)
}

/// An actor of the user's own that counts how often it is asked.
pub struct Oracle;

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
        message: Delegation,
        asked: &mut u32,
    ) -> Result<(), ActorProcessingErr> {
        *asked += 1;
        let _ = message
            .reply
            .send(Ok(format!("{} #{asked}", message.task.content())));
        Ok(())
    }
}

/// One who asks an actor of the user's own.
pub fn seeker(oracle: ActorRef<Delegation>, effect: Effect) -> Agent {
    let member = Agent::from_actor("oracle", oracle, effect);
    Agent::from_fn("seeker", |cx: RunContext| async move {
        let first = cx.delegate("oracle", "why").await?;
        let second = cx.delegate("oracle", "how").await?;
        Ok(Outcome::answer(format!("{} {}", first.text, second.text)))
    })
    .agent(member)
}

/// One that goes on in a fresh journal, five times.
pub fn counter() -> Agent {
    Agent::from_fn("counter", |cx: RunContext| async move {
        let count: u32 = cx.input().content().parse().unwrap();
        let total = cx
            .state(Scope::App)
            .update("total", move |total: Option<u32>| {
                total.unwrap_or(0) + count
            })
            .await?;
        if count == 5 {
            return Ok(Outcome::answer(total.to_string()));
        }
        Ok(cx.continue_as((count + 1).to_string()))
    })
}

/// One that asks a person for a choice.
pub fn asker() -> Agent {
    Agent::from_fn("asker", |cx: RunContext| async move {
        let question = Question::choice("Which?", ["red", "blue"]);
        let answer = cx.ask(question).await?;
        Ok(Outcome::answer(answer.as_str().unwrap_or_default()))
    })
}

/// A boss whose workers go on beside it and are told things.
pub fn spawner() -> Agent {
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        let order: Order = cx.receive().await?;
        Ok(Outcome::answer(format!("made {}", order.pieces)))
    });
    Agent::from_fn("boss", |cx: RunContext| async move {
        let first = cx.spawn("worker", "a").await?;
        let second = cx.spawn("worker", "b").await?;
        cx.tell(&first, &Order { pieces: 1 }).await?;
        cx.tell("worker", &Order { pieces: 2 }).await?;
        let (first, second) = (cx.join(&first).await?, cx.join(&second).await?);
        Ok(Outcome::answer(format!("{} {}", first.text, second.text)))
    })
    .agent(worker)
}
