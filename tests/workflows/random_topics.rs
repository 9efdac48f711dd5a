//! Topics under random use, against queues that are plain lists.

use std::collections::BTreeMap;

use ghostlight_actors::{
    actor::System,
    run::{
        Agent, RunContext,
        operations::{Overflow, Subscription},
    },
    testing::InMemoryStore,
    vocabulary::{AgentError, Outcome},
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What is done to a topic; queues are called by numbers.
#[derive(Clone, Debug)]
enum Act {
    Subscribe(u8, u32, Overflow),
    Publish(i32),
    Next(u8),
    Close(u8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let overflow = prop::sample::select(vec![
        Overflow::Block,
        Overflow::DropOldest,
        Overflow::DropNewest,
        Overflow::DropLowestPriority,
    ]);
    let act = prop_oneof![
        2 => (0u8..3, 1u32..4, overflow).prop_map(|(queue, most, full)| Act::Subscribe(queue, most, full)),
        6 => (-2i32..3).prop_map(Act::Publish),
        3 => (0u8..3).prop_map(Act::Next),
        1 => (0u8..3).prop_map(Act::Close),
    ];
    prop::collection::vec(act, 1..30)
}

/// A queue as a plain list of numbers with their priorities.
struct Queue {
    capacity: u32,
    overflow: Overflow,
    waiting: Vec<(u64, i32)>,
    counts: [u64; 2],
}

impl Queue {
    fn is_full(&self) -> bool {
        self.waiting.len() >= self.capacity as usize
    }

    /// Whether it takes an event.
    fn offer(&mut self, event: (u64, i32)) -> bool {
        let goes = match self.overflow {
            _ if !self.is_full() => None,
            Overflow::DropOldest => Some(0),
            Overflow::DropLowestPriority => {
                let lowest = self.waiting.iter().map(|(_, priority)| *priority).min();
                let newest = self.waiting.iter().rposition(|(_, p)| Some(*p) == lowest);
                newest.filter(|_| lowest < Some(event.1))
            }
            _ => None,
        };
        if self.is_full() {
            self.counts[1] += 1;
            let Some(goes) = goes else { return false };
            self.waiting.remove(goes);
        }
        self.waiting.push(event);
        true
    }
}

/// What may be done at its time (nobody waits for what does not come), with what comes of it.
fn reference(acts: &[Act]) -> (Vec<Act>, Vec<Value>) {
    let mut queues: BTreeMap<u8, Queue> = BTreeMap::new();
    let (mut published, mut done, mut told) = (0, Vec::new(), Vec::new());
    for act in acts {
        let seen = match act {
            Act::Subscribe(name, capacity, overflow) => {
                let queue = queues.entry(*name).or_insert(Queue {
                    capacity: 0,
                    overflow: *overflow,
                    waiting: Vec::new(),
                    counts: [0, 0],
                });
                (queue.capacity, queue.overflow) = (*capacity, *overflow);
                json!(null)
            }
            Act::Publish(priority) => {
                let blocks = |queue: &Queue| queue.overflow == Overflow::Block && queue.is_full();
                if queues.values().any(blocks) {
                    continue;
                }
                published += 1;
                let (mut taken, mut lost) = (0, 0);
                for queue in queues.values_mut() {
                    let dropped = queue.counts[1];
                    taken += u32::from(queue.offer((published, *priority)));
                    lost += queue.counts[1] - dropped;
                }
                json!([published, taken, lost, queues.len() - taken as usize])
            }
            Act::Next(name) => match queues.get_mut(name) {
                Some(queue) if !queue.waiting.is_empty() => {
                    let (number, priority) = queue.waiting.remove(0);
                    queue.counts[0] += 1;
                    json!([number, priority])
                }
                _ => continue,
            },
            Act::Close(name) => match queues.remove(name) {
                Some(_) => json!(null),
                None => continue,
            },
        };
        done.push(act.clone());
        told.push(seen);
    }
    let counts = queues.iter().map(|(name, queue)| {
        let [received, dropped] = queue.counts;
        json!([name.to_string(), queue.waiting.len(), received, dropped])
    });
    told.push(json!([published, counts.collect::<Vec<_>>()]));
    (done, told)
}

async fn performed(cx: &RunContext, acts: &[Act]) -> Result<Vec<Value>, AgentError> {
    let topic = cx.topic::<i32>("numbers");
    let mut receivers = BTreeMap::new();
    let mut told = Vec::new();
    for act in acts {
        told.push(match act {
            Act::Subscribe(name, capacity, overflow) => {
                let queue = Subscription::new(name.to_string());
                let queue = queue.capacity(*capacity).overflow(*overflow);
                receivers.insert(*name, topic.subscribe(queue).await?);
                json!(null)
            }
            Act::Publish(priority) => {
                let done = topic.publish_with_priority(priority, *priority).await?;
                json!([done.sequence, done.delivered, done.dropped, done.held_back])
            }
            Act::Next(name) => {
                let next = receivers.get_mut(name).unwrap().next().await?;
                json!([next.sequence, next.event])
            }
            Act::Close(name) => {
                receivers.remove(name).unwrap().close().await?;
                json!(null)
            }
        });
    }
    let counts = topic.counts().await?;
    let queues = counts
        .queues
        .iter()
        .map(|(name, queue)| json!([name, queue.waiting, queue.received, queue.dropped]));
    told.push(json!([counts.published, queues.collect::<Vec<_>>()]));
    Ok(told)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_use_of_a_topic_comes_to_what_plain_lists_say(acts in acts()) {
        let (acts, expected) = reference(&acts);
        let boss = Agent::from_fn("boss", move |cx: RunContext| {
            let acts = acts.clone();
            async move {
                let told = performed(&cx, &acts).await?;
                Ok(Outcome::answer(Value::Array(told).to_string()))
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let told = runtime.block_on(async {
            let system = System::builder(InMemoryStore::new())
                .team(boss.into_team().unwrap())
                .start()
                .await
                .unwrap();
            let run = system.session("boss", "s").send("go").await.unwrap();
            let outcome = run.outcome().await.unwrap();
            system.stop().await.unwrap();
            serde_json::from_str::<Vec<Value>>(outcome.text()).unwrap()
        });
        prop_assert_eq!(told, expected);
    }
}
