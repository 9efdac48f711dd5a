//! A board that all agents of a tree share.

use ghostlight::{
    policies::{Board, BoardConflicts},
    prelude::*,
    vocabulary::ToolCall,
};
use serde_json::{Value, json};

/// What this call of the board came to.
async fn board(cx: &RunContext, arguments: Value) -> Result<String, AgentError> {
    let call = ToolCall::new("b", "board", arguments);
    Ok(cx.tools([call]).await?.remove(0).text)
}

async fn write(cx: &RunContext, key: &str, value: &str) -> Result<String, AgentError> {
    board(cx, json!({ "action": "write", "key": key, "value": value })).await
}

/// Tells what it sees, and writes under two keys.
async fn clerk(cx: RunContext) -> Result<Outcome, AgentError> {
    let seen = board(&cx, json!({ "action": "keys" })).await?;
    write(&cx, "found", "two lamps").await?;
    let plan = write(&cx, "plan", "my own plan").await?;
    Ok(Outcome::answer(format!("{seen} | {plan}")))
}

async fn boss(cx: RunContext) -> Result<Outcome, AgentError> {
    write(&cx, "plan", "count lamps").await?;
    let secret = json!({ "action": "write", "key": "secret", "value": "ask Bob", "below": true });
    board(&cx, secret).await?;
    let clerk = cx.delegate("clerk", "go").await?;
    let read = board(&cx, json!({ "action": "read" })).await?;
    let cleared = board(&cx, json!({ "action": "clear" })).await?;
    let left = board(&cx, json!({ "action": "keys" })).await?;
    Ok(Outcome::answer(format!(
        "{}\n{read}\n{cleared}\n{left}",
        clerk.text
    )))
}

/// The root, which sees less than those below the boss.
async fn root(cx: RunContext) -> Result<Outcome, AgentError> {
    let told = cx.delegate("boss", "go").await?.text;
    Ok(Outcome::answer(told))
}

async fn told(board: Board) -> Vec<String> {
    let clerk = Agent::from_fn("clerk", clerk);
    let boss = Agent::from_fn("boss", boss).agent(clerk);
    let team = Agent::from_fn("root", root)
        .agent(boss)
        .into_team()
        .unwrap();
    let team = team.policy("board", move || board.clone());
    let system = System::builder(InMemoryStore::new())
        .team(team)
        .start()
        .await
        .unwrap();
    let answer = system.session("root", "s").ask("go").await.unwrap();
    system.stop().await.unwrap();
    answer.text.lines().map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn all_agents_of_a_tree_share_a_board_and_those_below_see_more() {
    let lines = told(Board::default()).await;
    // The clerk works for the boss, so it sees what the boss shows to those below alone.
    assert_eq!(
        lines[0],
        r#"["plan","secret"] | written as plan; it replaces "count lamps" of boss"#
    );
    let read: Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(read["plan"]["value"], "my own plan");
    assert_eq!(read["found"]["by"], "clerk");
    assert!(read["found"]["at_ms"].as_u64().unwrap() > 0, "{read}");
    assert_eq!(lines[2..], ["1 taken down", r#"["found","plan"]"#]);

    let lines = told(Board::default().conflicts(BoardConflicts::Refuse)).await;
    assert!(
        lines[0].ends_with("Not done: plan is of boss; take another key."),
        "{lines:?}"
    );
    let lines = told(Board::default().conflicts(BoardConflicts::Separate)).await;
    assert_eq!(
        lines[0],
        r#"["boss/plan","boss/secret"] | written as clerk/plan"#
    );
    let lines = told(Board::default().entries(2)).await;
    let read: Value = serde_json::from_str(&lines[1]).unwrap();
    assert!(read.get("found").is_none(), "a full board refuses: {read}");
}

#[tokio::test(start_paused = true)]
async fn a_team_file_gives_every_agent_the_board_and_wrong_bounds_are_refused() {
    let resolved = |settings: &str| {
        let text = format!(
            "models: {{ default: {{ provider: offline }} }}\npolicies: [{{ name: board, {settings} }}]\nagent: {{ name: a }}\n"
        );
        let team = ghostlight::config::parse(text, "team.yaml").unwrap();
        team.resolve(ghostlight::builtin())
            .map(drop)
            .map_err(|error| error.to_string())
    };
    resolved("entries: 10, when_full: evict, conflicts: separate").unwrap();
    for (wrong, why) in [
        ("entries: 0", "from 1 to 1000"),
        ("characters: 0", "from 1 to 20000"),
        ("when_full: explode", "explode"),
    ] {
        let error = resolved(wrong).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
