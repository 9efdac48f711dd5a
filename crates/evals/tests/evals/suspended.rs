//! Agents and judges whose models answer hours later, as in a batch, are waited for.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::System,
    contract::{InMemoryStore, Model, ModelContext, ModelError, ModelHost},
    definition::{AgentSpec, TeamSpec},
    run::{BehaviorHandle, Registry, RunContext},
    vocabulary::{AgentError, ModelRequest, ModelResponse, ModelTicket, Outcome},
};
use ghostlight_evals::{CellResult, Evaluation, suite::SuiteSpec};
use serde_json::json;

use crate::judging::samples;

/// A provider that answers after more than a minute, and that outlives each process.
#[derive(Clone, Default)]
struct Provider {
    asked: Arc<Mutex<BTreeMap<ModelTicket, String>>>,
    /// The number of the process that lives.
    process: Arc<AtomicUsize>,
}

impl Provider {
    fn answer_later(&self, host: &ModelHost) {
        for (ticket, text) in self.asked.lock().unwrap().clone() {
            let (host, process) = (host.clone(), self.process.clone());
            let own = process.load(Ordering::SeqCst);
            tokio::spawn(async move {
                host.clock().sleep(Duration::from_secs(90)).await;
                if process.load(Ordering::SeqCst) == own {
                    let _ = host.answer(&ticket, text).await;
                }
            });
        }
    }
}

impl Model for Provider {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let suspension = cx.suspension().unwrap();
        if let Some(answer) = suspension.take_answer() {
            return Ok(ModelResponse::text(answer));
        }
        let answer = match request.output {
            Some(_) => json!({ "reason": "kind", "score": 5 }).to_string(),
            None => "hello".to_owned(),
        };
        let before = self
            .asked
            .lock()
            .unwrap()
            .insert(suspension.ticket(), answer);
        assert_eq!(before, None, "it is asked again");
        self.answer_later(suspension.host());
        match suspension.suspend().await {}
    }

    async fn attend(&self, host: &ModelHost) {
        self.answer_later(host);
    }
}

async fn think(cx: RunContext) -> Result<Outcome, AgentError> {
    Ok(Outcome::answer(cx.think().await?.content()))
}

fn evaluation() -> Evaluation {
    let mut agent = AgentSpec::new("desk");
    agent.model = Some("model".to_owned());
    agent.behavior = serde_json::from_value(json!("think")).unwrap();
    let suite: SuiteSpec = serde_json::from_value(json!({
        "evaluation": "desk", "team": "desk.yaml", "data": [], "concurrency": 10,
        "scorers": [{ "judge": { "rubric": "Is it kind?", "by": ["judge"] } }],
    }))
    .unwrap();
    Evaluation::new(suite, &TeamSpec::new(agent), samples(&["a", "b", "c"])).unwrap()
}

async fn start(store: InMemoryStore, evaluation: &Evaluation, provider: &Provider) -> System {
    let registry = Registry::new()
        .model("model", provider.clone().into())
        .model("judge", provider.clone().into())
        .behavior("think", |_| Ok(BehaviorHandle::from_fn(think)));
    let mut builder = System::builder(store).recover(false);
    for team in evaluation.teams(&registry) {
        builder = builder.team(team);
    }
    builder.start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_cell_whose_model_answers_hours_later_is_scored_also_in_the_next_process() {
    let (store, provider, evaluation) = (InMemoryStore::new(), Provider::default(), evaluation());
    let system = start(store.clone(), &evaluation, &provider).await;
    let run = evaluation.run(&system, |_| {});
    let ended = tokio::time::timeout(Duration::from_secs(60), run).await;
    assert!(ended.is_err(), "{ended:?}");
    // It ends before anything is answered.
    system.stop().await.unwrap();
    provider.process.fetch_add(1, Ordering::SeqCst);
    let system = start(store.another_process(), &evaluation, &provider).await;
    let cells = evaluation.run(&system, |_| {}).await.unwrap();
    let all = cells.len();
    let scored = cells
        .iter()
        .filter(|cell| matches!(cell.result, CellResult::Scored { .. }));
    assert_eq!((all, scored.count()), (3, 3), "{cells:#?}");
    assert_eq!(provider.asked.lock().unwrap().len(), 6);
}
