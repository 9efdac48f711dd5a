//! Functions that do what was drawn. They tell all that came of it, so that what reached a function otherwise than it
//! is recorded shows in what it asks for next.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all, select_all},
    stream::FuturesUnordered,
};
use ghostlight_actors::{
    run::{
        RunContext, Task,
        operations::{AgentMessage, Scope, Subscription},
    },
    testing::EffectLog,
    vocabulary::{AgentError, Effect, ParentPolicy, Question, Resource, ToolCall},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::{
    drawing::{Act, Leaf, Node},
    drawn::talk,
};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order(pub(crate) u64);

impl AgentMessage for Order {
    const NAME: &'static str = "order";
}

/// What a function goes by in one leg of a run.
#[derive(Clone)]
pub(crate) struct Work {
    /// Whether its code has what was added.
    pub(crate) is_changed: bool,
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) log: EffectLog,
    /// Tells the legs of one run apart.
    pub(crate) part: String,
}

type Said = Result<String, AgentError>;

fn slots() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(2))
}

impl Work {
    pub(crate) fn new(is_changed: bool, log: EffectLog, part: String) -> Self {
        Self {
            is_changed,
            slots: slots(),
            log,
            part,
        }
    }
}

/// A failed operation is told; what ends the function ends it.
fn tell(result: Said) -> Said {
    match result {
        Err(AgentError::Operation(error)) => Ok(format!("{:?}", error.kind)),
        other => other,
    }
}

fn joined(all: Vec<Said>) -> Said {
    Ok(all.into_iter().collect::<Result<Vec<_>, _>>()?.join(" "))
}

pub(crate) fn follow<'a>(
    cx: &'a RunContext,
    node: &'a Node,
    work: &'a Work,
) -> BoxFuture<'a, Said> {
    async move {
        Ok(match node {
            Node::Leaf(leaf) => tell(take(cx, *leaf, work).await)?,
            Node::Seq(nodes) => {
                let mut said = Vec::new();
                for node in nodes {
                    said.push(follow(cx, node, work).await?);
                }
                format!("({})", said.join(" "))
            }
            Node::Join(nodes) => {
                let all = join_all(nodes.iter().map(|node| follow(cx, node, work)));
                format!("[{}]", joined(all.await)?)
            }
            Node::Unordered(nodes) => {
                let all = nodes.iter().map(|node| follow(cx, node, work));
                let mut all: FuturesUnordered<_> = all.collect();
                let mut said = Vec::new();
                while let Some(one) = all.next().await {
                    said.push(one?);
                }
                format!("{{{}}}", said.join(" "))
            }
            Node::Branches(nodes) => {
                let branches: Vec<_> = nodes.iter().map(|_| cx.lane("b")).collect();
                let all = branches.iter().zip(nodes);
                let all = join_all(all.map(|(cx, node)| follow(cx, node, work)));
                format!("<{}>", joined(all.await)?)
            }
            Node::Race(nodes) => {
                let all = nodes.iter().map(|node| follow(cx, node, work));
                let (won, place, losers) = select_all(all).await;
                drop(losers);
                format!("{place}:{}", won?)
            }
            Node::Within(millis, node) => {
                let all = cx.timeout(Duration::from_millis(*millis), follow(cx, node, work));
                match all.await {
                    Ok(done) => done?,
                    Err(_) => "late".to_owned(),
                }
            }
            Node::Slots(nodes) => {
                let all = nodes.iter().map(|node| in_slot(cx, node, work));
                format!("|{}|", joined(join_all(all).await)?)
            }
            Node::Held(leaf, node) => {
                let mut held = take(cx, *leaf, work).boxed();
                let first = (&mut held).now_or_never();
                let meanwhile = follow(cx, node, work).await?;
                let held = match first {
                    Some(done) => done,
                    None => held.await,
                };
                format!("{meanwhile}+{}", tell(held)?)
            }
            Node::Dropped(node) => match follow(cx, node, work).now_or_never() {
                Some(done) => done?,
                None => "dropped".to_owned(),
            },
        })
    }
    .boxed()
}

/// In a slot no other slot of the same semaphore is waited for: a function would wait for itself.
async fn in_slot(cx: &RunContext, node: &Node, work: &Work) -> Said {
    let _slot = work.slots.acquire().await.unwrap();
    tokio::task::yield_now().await;
    let inside = Work {
        slots: slots(),
        ..work.clone()
    };
    follow(cx, node, &inside).await
}

pub(crate) fn call(id: &str, name: &str) -> ToolCall {
    ToolCall::new(id, name, json!({"id": id}))
}

async fn take(cx: &RunContext, leaf: Leaf, work: &Work) -> Said {
    let number = leaf.number;
    let id = format!("c{number}");
    Ok(match leaf.act {
        Act::Tool(name) => cx.tool_unasked(call(&id, name)).await?.text,
        Act::Batch => {
            let names = ["charge", "look", "wipe", "put", "nothing"];
            let calls = names.iter().map(|name| call(&format!("{id}-{name}"), name));
            let all = cx.tools(calls).await?;
            let all = all.iter().map(|result| format!("{:?}", result.status));
            all.collect::<Vec<_>>().join(",")
        }
        Act::Think => {
            let mut conversation = cx.conversation();
            let heard = cx.hear();
            let before = heard.len();
            conversation.extend(heard);
            let said = cx.model(cx.model_request(conversation)).await?;
            format!("{} {before} {}", said.content(), said.steering.len())
        }
        Act::Talk => talk(cx).await?,
        Act::Sleep(millis) => {
            cx.sleep(Duration::from_millis(millis)).await?;
            "slept".to_owned()
        }
        Act::Random => format!("{:.3} {}", cx.random().await?, cx.uuid().await?),
        Act::Now => format!("{:?}", cx.now().await?),
        Act::Own(effect) => own(cx, number, effect, work).await?,
        Act::Update | Act::Passing => {
            let passing = matches!(leaf.act, Act::Passing);
            let state = cx.state(if passing { Scope::Temp } else { Scope::App });
            let counted = state.update("n", |n: Option<u64>| n.unwrap_or(0) + 1);
            counted.await?.to_string()
        }
        Act::Remember => {
            cx.memory().set("last", &number).await?;
            format!("{:?}", cx.memory().get::<u32>("last").await?)
        }
        Act::Emit => {
            cx.emit("note", &number);
            "noted".to_owned()
        }
        Act::Undo => {
            cx.on_cancel(call(&id, "put"));
            "undo".to_owned()
        }
        Act::Added => {
            if work.is_changed && cx.version(format!("added {number}"), 1).await? > 0 {
                cx.tool_unasked(call(&id, "look")).await?.text
            } else {
                "as it was".to_owned()
            }
        }
        Act::Ask => {
            let question = Question::choice("Which?", ["red", "blue"]);
            cx.ask(question).await?.to_string()
        }
        Act::Receive => {
            let got = cx.timeout(Duration::from_millis(300), cx.receive::<Order>());
            match got.await {
                Ok(order) => format!("got {}", order?.0),
                Err(_) => "none".to_owned(),
            }
        }
        Act::Unpolled => {
            drop(cx.tool_unasked(call(&id, "charge")));
            "not polled".to_owned()
        }
        Act::Yield => {
            tokio::task::yield_now().await;
            "yielded".to_owned()
        }
        Act::Delegate(agent) => {
            let task = Task::from(id).hears_parent();
            cx.delegate(agent, task).await?.text
        }
        Act::Share(percent) => {
            let task = Task::from(id).share(percent);
            cx.delegate("one", task).await?.text
        }
        Act::Spawn(agent, policy) => spawn(cx, agent, id, policy).await?,
        Act::SpawnJoin(agent) => {
            let child = cx.spawn(agent, id).await?;
            cx.tell(&child, &Order(7)).await?;
            cx.join(&child).await?.text
        }
        Act::TellSelf => {
            cx.tell(cx.run(), &Order(u64::from(number))).await?;
            "told".to_owned()
        }
        Act::Topic => {
            let topic = cx.topic::<u32>(format!("t{number}"));
            let mut queue = topic.subscribe(Subscription::new("q")).await?;
            topic.publish(&number).await?;
            queue.next().await?.event.to_string()
        }
        Act::Publish => {
            cx.topic::<u32>("news").publish(&number).await?;
            "published".to_owned()
        }
        Act::Hear => {
            let topic = cx.topic::<u32>("news");
            let queue = Subscription::new(format!("q{number}"));
            let mut queue = topic.subscribe(queue).await?;
            match cx.timeout(Duration::from_millis(300), queue.next()).await {
                Ok(word) => format!("heard {}", word?.event),
                Err(_) => "silence".to_owned(),
            }
        }
        Act::Allowance => format!("{:?}", cx.budget().await?.left(Resource::ToolCalls)),
        Act::Save => {
            let name = format!("a{number}");
            let artifacts = cx.artifacts(Scope::Session);
            let content = vec![b'x'; 20_000];
            artifacts.save(&name, "text/plain", content).await?;
            artifacts.load(name).await?.is_some().to_string()
        }
    })
}

/// Its result is the key of the effect, so that the journal says which effects have their result.
async fn own(cx: &RunContext, number: u32, effect: Effect, work: &Work) -> Said {
    let key = format!("{}/{}/own-{number}", cx.run(), work.part);
    let log = work.log.clone();
    let act = async move {
        let brief = Duration::from_millis(25);
        log.perform(key.clone(), "own", effect, brief).await;
        Ok::<_, Infallible>(key)
    };
    cx.step("own", effect, act).await?;
    Ok("own".to_owned())
}

async fn spawn(cx: &RunContext, agent: &str, task: String, policy: ParentPolicy) -> Said {
    let task = Task::from(task).when_parent_ends(policy);
    cx.spawn(agent, task).await?;
    Ok("spawned".to_owned())
}
