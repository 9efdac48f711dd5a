//! Nobody reads another's.

use ghostlight_actors::{run::RunContext, vocabulary::AgentError};
use ghostlight_memory::{MemoryQuery, MemoryScope};

use crate::stage::{Stage, agent, fact, memory, say};

async fn act(cx: RunContext) -> Result<String, AgentError> {
    let said = cx.input().content();
    let (scope, rest) = said.split_once(' ').unwrap();
    let scope = match scope {
        "session" => MemoryScope::Session,
        "user" => MemoryScope::User,
        "tenant" => MemoryScope::Tenant,
        _ => MemoryScope::Team,
    };
    let memory = memory().on(&cx, scope);
    if let Some(what) = rest.strip_prefix("keep ") {
        memory.add(fact(what)).await?;
        return Ok("kept".into());
    }
    let found = memory.search(MemoryQuery::new(rest)).await;
    Ok(match found {
        Ok(found) => found
            .into_iter()
            .map(|hit| hit.item.content)
            .collect::<Vec<_>>()
            .join("; "),
        Err(error) => format!("refused: {error}"),
    })
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_is_found_in_its_own_scope_alone() {
    let system = Stage::new().start(agent(act)).await;
    for owner in ["acme/ada", "acme/bob", "other/ada", "eve"] {
        for scope in ["session", "user"] {
            say(
                &system,
                owner,
                &format!("{scope} keep secret {scope} of {owner}"),
            )
            .await;
        }
    }
    say(&system, "acme/ada", "tenant keep secret of acme").await;
    say(&system, "other/ada", "tenant keep secret of other").await;
    say(&system, "eve", "team keep secret of team").await;
    for owner in ["acme/ada", "acme/bob", "other/ada", "eve"] {
        assert_eq!(
            say(&system, owner, "session secret").await,
            format!("secret session of {owner}")
        );
        assert_eq!(
            say(&system, owner, "user secret").await,
            format!("secret user of {owner}")
        );
        assert_eq!(say(&system, owner, "team secret").await, "secret of team");
    }
    assert_eq!(
        say(&system, "acme/bob", "tenant secret").await,
        "secret of acme"
    );
    assert_eq!(
        say(&system, "other/ada", "tenant secret").await,
        "secret of other"
    );
    assert!(
        say(&system, "eve", "tenant secret")
            .await
            .contains("no tenant")
    );
    // A server puts a tenant before its users with a colon.
    assert_eq!(
        say(&system, "acme:eve", "tenant secret").await,
        "secret of acme"
    );
    for nobody in ["messenger:acme:eve", "acme:"] {
        let answer = say(&system, nobody, "tenant secret").await;
        assert!(answer.contains("no tenant"), "{answer}");
    }
    // An owner that is called as a tenant's scope is does not get at it.
    assert!(
        say(&system, "acme/", "user secret")
            .await
            .starts_with("refused")
    );
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_of_nobody_has_no_memory_of_a_user() {
    let system = Stage::new().start(agent(act)).await;
    let run = system
        .session("desk", "open")
        .send("user keep x")
        .await
        .unwrap();
    let error = run.outcome().await.unwrap_err().to_string();
    assert!(error.contains("belongs to nobody"), "{error}");
    system.stop().await.unwrap();
}
