//! Replay says where today's code does something else than what is recorded.

use std::time::Duration;

use ghostlight_actors::{
    actor::System,
    run::{Agent, Recording, RunContext, Team, replay},
    vocabulary::{Effect, Outcome, ToolCall, Transfer},
};
use serde_json::json;

use crate::{
    stage::{Stage, ask, call, outcome},
    time_travel::{recorded, thinker},
};

/// Code of which there are several versions.
fn versions(version: u8) -> Team {
    let agent = Agent::from_fn("a", move |cx: RunContext| async move {
        let words = if version == 1 { "other words" } else { "words" };
        let request = cx.model_request(cx.conversation()).instructions(words);
        let thought = cx.model(request).await?;
        let id = if version == 2 { "changed" } else { "1" };
        cx.tool_unasked(ToolCall::new("1", "look", json!({"id": id})))
            .await?;
        if version == 3 {
            cx.now().await?;
        }
        let helped = cx.delegate("helper", "help").await?;
        if version == 4 {
            return Ok(Outcome::answer("another answer"));
        }
        let said = format!("{} {}", thought.content(), helped.text);
        Ok(Outcome::Transfer(Transfer::to("closing").request(said)))
    });
    let helper = Agent::from_fn("helper", move |cx: RunContext| async move {
        let looked = cx
            .tool_unasked(call("h", if version == 5 { "put" } else { "look" }))
            .await?;
        Ok(Outcome::answer(looked.text))
    });
    let closing = Agent::from_fn("closing", move |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(1)).await?;
        assert!(version != 6, "no luck");
        let request = cx.request().unwrap_or_default().to_owned();
        Ok(Outcome::answer(if version == 7 {
            "end".into()
        } else {
            request
        }))
    });
    let helper = helper.tool_named("look").tool_named("put");
    let agent = agent.tool_named("look").agent(helper).agent(closing);
    agent.into_team().unwrap()
}

#[tokio::test(start_paused = true)]
async fn replay_tells_where_todays_code_does_something_else_and_touches_nothing() {
    let stage = Stage::new();
    let system = System::builder(stage.store.clone())
        .model("default", thinker())
        .tool(stage.tool("look", Effect::Read, 1))
        .tool(stage.tool("put", Effect::Idempotent, 1))
        .team(versions(0))
        .start()
        .await
        .unwrap();
    let run = ask(&system, "a", "go").await;
    outcome(&run).await;
    let recorded = recorded(&stage, run.id()).await;
    let (effects, rows) = (stage.log.effects(), stage.rows().await);
    let again = Recording::from_json_lines(&recorded.to_json_lines()).unwrap();
    assert_eq!(again, recorded, "the text holds all of it");
    let team = versions(0);
    let replayed = replay(&again, &team.registry, None).unwrap();
    assert!(
        replayed.is_faithful() && !replayed.has_drifted(),
        "{replayed}"
    );
    assert_eq!(replayed.runs.len(), 2);
    let team = versions(1);
    let replayed = replay(&again, &team.registry, None).unwrap();
    assert!(
        replayed.is_faithful() && replayed.has_drifted(),
        "{replayed}"
    );
    for (version, agent, recorded, found) in [
        (
            2,
            "a",
            "tool \"look\" with input",
            "tool \"look\" with input",
        ),
        (3, "a", "delegate \"helper\"", "now \"\""),
        (
            4,
            "a",
            "a transfer to closing",
            "the answer \"another answer\"",
        ),
        (5, "helper", "tool \"look\"", "tool \"put\""),
        (6, "a", "the answer \"thought look", "a panic: no luck"),
        (7, "a", "the answer \"thought look", "the answer \"end\""),
    ] {
        let team = versions(version);
        let replayed = replay(&again, &team.registry, None).unwrap();
        let diverged = replayed.runs.iter().find(|run| run.divergence.is_some());
        let diverged = diverged.unwrap_or_else(|| panic!("version {version}: {replayed}"));
        assert_eq!(diverged.agent, agent, "{replayed}");
        let divergence = diverged.divergence.as_ref().unwrap();
        assert!(
            divergence.recorded.starts_with(recorded),
            "{version}: {replayed}"
        );
        assert!(divergence.found.starts_with(found), "{version}: {replayed}");
        assert!(divergence.entry.is_some());
    }
    let other = Agent::from_fn("b", |_| async { Ok(Outcome::answer("b")) });
    let other = other.into_team().unwrap();
    let missing = replay(&again, &other.registry, None).unwrap_err();
    assert!(
        missing.to_string().contains("the code of its behavior"),
        "{missing}"
    );
    assert_eq!(stage.log.effects(), effects);
    assert_eq!(stage.rows().await, rows);
}
