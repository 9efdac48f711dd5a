//! A fork keeps what was decided about calls before its place.

use std::sync::Arc;

use ghostlight_actors::{
    actor::{Fork, SystemError},
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    definition::ApprovalRule,
    run::ForkError,
    testing::EffectLog,
    vocabulary::{Arguments, Effect, RunId, ToolDefinition},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    approvals::caller,
    stage::{Stage, ask, call, text},
};

/// A tool that approves everything, and keeps of which runs it was asked.
#[derive(Clone, Debug, Default)]
struct Approver {
    asked: Arc<Mutex<Vec<(RunId, Value)>>>,
}

impl Tool for Approver {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("approver", "approves")
            .parameters(json!({ "type": "object" }))
            .effect(Effect::Idempotent)
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let asked = arguments.value().cloned().map_err(ToolError::new)?;
        self.asked.lock().push((cx.run(), asked));
        ToolOutput::of(&json!({ "approved": true }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_forked_past_a_decision_of_an_approver_who_is_not_asked_again() {
    let stage = Stage::new();
    let approver = Approver::default();
    let agent = caller(vec![call("1", "pay")])
        .tool(stage.tool("pay", Effect::Once, 1))
        .approval("pay", ApprovalRule::required().by("approver"))
        .tool(approver.clone());
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    let answer = text(&run).await;
    let decided = |log: &EffectLog| (approver.asked.lock().len(), log.count("pay"));
    assert_eq!(decided(&stage.log), (1, 1));

    let entries = stage.entries(run.id()).await.len() as u64;
    let mut kept = 0;
    for at in 1..entries {
        let before = decided(&stage.log);
        let fork = match run.fork(Fork::at(at)).await {
            Ok(fork) => fork,
            Err(SystemError::Fork(ForkError::UnderWay { .. })) => continue,
            Err(error) => panic!("forked at {at}: {error}"),
        };
        assert_eq!(text(&fork).await, answer, "forked at {at}");
        let after = decided(&stage.log);
        let (asked, paid) = (after.0 - before.0, after.1 - before.1);
        assert!(
            asked <= paid,
            "forked at {at}, it was asked and nothing was paid"
        );
        kept += usize::from(asked < paid);
    }
    assert!(
        kept > 0,
        "no fork was made between the decision and the call"
    );
    // The approver knows the run from its context, and nothing that is compared in replay names it.
    for (asking, asked) in approver.asked.lock().iter() {
        let text = asked.to_string();
        assert!(!text.contains(&run.id().to_string()), "{asking}: {text}");
    }
    let first = approver.asked.lock()[0].0;
    assert_eq!(first, run.id());
}
