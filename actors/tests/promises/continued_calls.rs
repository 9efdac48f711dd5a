//! A call that goes on in parts: which of them are made again after a crash.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_actors::{
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    run::{Agent, RunContext},
    session::Turn,
    testing::ScriptedModel,
    vocabulary::{
        Arguments, Budget, Continuation, Effect, Message, ModelResponse, Outcome, Part,
        ToolDefinition, Usage,
    },
};

use crate::stage::{Stage, ask, call, outcome, pause, text};

/// Pays in parts of a second each. The process may die in a part that only reads, or in one that may not be repeated.
#[derive(Clone)]
struct Pays {
    effect: Effect,
    /// Which of the further parts are marked as ones that only read.
    reads: &'static [bool],
    /// The number of times that a part was begun.
    begun: Arc<AtomicU32>,
}

impl Pays {
    /// The call goes on with this part, or has come to its end.
    fn goes_on_with(&self, part: usize) -> ToolOutput {
        let next = Continuation::of(part.to_string());
        match self.reads.get(part) {
            Some(true) => ToolOutput::goes_on(next.repeatable()),
            Some(false) => ToolOutput::goes_on(next),
            None => ToolOutput::text("paid"),
        }
    }
}

impl Tool for Pays {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("pay", "pays").effect(self.effect)
    }

    async fn call(&self, _: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let Some(part) = cx.continued() else {
            return Ok(self.goes_on_with(0));
        };
        let part: usize = part.state.parse()?;
        self.begun.fetch_add(1, SeqCst);
        pause(1_000).await;
        Ok(self.goes_on_with(part + 1))
    }
}

fn agent(pays: &Pays) -> Agent {
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let results = cx.tools([call("1", "pay")]).await?;
        Ok(Outcome::answer(format!("{:?}", results[0].status)))
    });
    agent.tool(pays.clone())
}

#[tokio::test(start_paused = true)]
async fn of_a_call_that_must_not_be_made_twice_the_parts_that_only_read_are_made_again() {
    for (effect, reads, dies_after, begun, end) in [
        (Effect::Once, &[true][..], 500, 2, "Success"),
        (Effect::Once, &[false], 500, 1, "Unknown"),
        // The mark is for one part, and not for those after it.
        (Effect::Once, &[true, false], 1_500, 2, "Unknown"),
        (Effect::Once, &[false, true], 1_500, 3, "Success"),
        (Effect::Idempotent, &[false], 500, 2, "Success"),
        (Effect::Read, &[false, true], 1_500, 3, "Success"),
    ] {
        let mut stage = Stage::new();
        let pays = Pays {
            effect,
            reads,
            begun: Arc::default(),
        };
        let system = stage.start(agent(&pays)).await;
        let run = ask(&system, "a", "go").await;
        pause(dies_after).await;
        stage.crash(&system).await;
        let system = stage.start(agent(&pays)).await;
        let told = text(&system.run(run.id())).await;
        let place = format!("{effect:?} {reads:?}");
        assert_eq!(told, end, "{place}");
        assert_eq!(pays.begun.load(SeqCst), begun, "{place}");
    }
}

/// Pays after a second.
struct PaysLater;

impl Tool for PaysLater {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("pay", "pays")
    }

    async fn call(&self, _: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(match cx.continued() {
            Some(_) => ToolOutput::text("paid"),
            None => {
                let later = Continuation::of("later").after(Duration::from_secs(1));
                ToolOutput::goes_on(later.repeatable())
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cut_off_while_it_goes_on_reads_as_interrupted_and_one_that_ended_as_it_ended()
 {
    for (cancelled_after, expected) in [
        (500, "Interrupted: this call has no recorded result."),
        (1_500, "paid"),
    ] {
        let stage = Stage::new();
        let model = ScriptedModel::from_reply_fn(|_, _| {
            let mut message = Message::assistant("I pay.");
            message.parts.push(Part::ToolCall(call("1", "pay")));
            ModelResponse::new(message).into()
        });
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            let answer = cx.model(cx.model_request(cx.conversation())).await?;
            cx.tools(answer.calls()).await?;
            cx.sleep(Duration::from_secs(60)).await?;
            Ok(Outcome::answer("done"))
        });
        let system = stage.start_with(agent.tool(PaysLater), model).await;
        let run = ask(&system, "a", "go").await;
        pause(cancelled_after).await;
        run.cancel("enough").await.unwrap();
        outcome(&run).await;
        let session = system.session("a", "s");
        let said = session.transcript().await.unwrap().messages();
        let results: Vec<String> = said
            .iter()
            .flat_map(|message| message.tool_results())
            .map(|result| result.text.clone())
            .collect();
        assert_eq!(results, [expected]);
    }
}

/// Asks the model for advice before it ends.
struct Advised;

impl Tool for Advised {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("advised", "takes advice").effect(Effect::Read)
    }

    async fn call(&self, _: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(match cx.continued() {
            None => ToolOutput::goes_on(Continuation::consulting("Which way?", "asked")),
            Some(continued) => {
                assert_eq!(continued.state, "asked");
                let answer = continued.answer.as_ref().and_then(|answer| answer.as_str());
                let failure = continued.failure.as_deref();
                ToolOutput::text(format!("advice: {answer:?}, failure: {failure:?}"))
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_a_tool_asks_is_recorded_paid_for_and_not_asked_again() {
    let mut usage = Usage::default();
    (usage.input_tokens, usage.output_tokens) = (90, 10);
    let model = ScriptedModel::from_fn(|request, _| {
        assert_eq!(request.conversation.messages().len(), 1);
        let said = request.conversation.last().unwrap().content();
        assert_eq!(said, "Which way?");
        Ok(ModelResponse::text("north"))
    })
    .usage(usage);
    let agent = || {
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            let results = cx.tools([call("1", "advised")]).await?;
            cx.sleep(Duration::from_secs(5)).await?;
            Ok(Outcome::answer(results[0].text.as_str()))
        });
        agent.tool(Advised)
    };
    let mut stage = Stage::new();
    let system = stage.start_with(agent(), model.clone()).await;
    let run = ask(&system, "a", "go").await;
    pause(1_000).await;
    stage.crash(&system).await;
    let system = stage.start_with(agent(), model.clone()).await;
    let run = system.run(run.id());
    let told = text(&run).await;
    assert_eq!(told, r#"advice: Some("north"), failure: None"#);
    assert_eq!(model.calls(), 1);
    let (_, spent) = run.outcome_and_spent().await.unwrap();
    assert_eq!((spent.model_calls, spent.usage.input_tokens), (1, 90));
}

#[tokio::test(start_paused = true)]
async fn a_tool_whose_question_no_budget_allows_goes_on_without_an_answer() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let results = cx.tools([call("1", "advised")]).await?;
        Ok(Outcome::answer(results[0].text.as_str()))
    });
    let system = stage.start(agent.tool(Advised)).await;
    let budget = Budget {
        model_calls: Some(0),
        ..Budget::default()
    };
    let turn = Turn::text("go").budget(budget);
    let run = system.session("a", "s").send(turn).await.unwrap();
    let told = text(&run).await;
    assert!(told.starts_with("advice: None, failure: Some("), "{told}");
    assert!(told.contains("model calls"), "{told}");
}
