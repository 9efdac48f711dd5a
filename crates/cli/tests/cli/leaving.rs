//! What leaves the machine holds no secret, wherever the team's definition or an artifact has it.

use serde_json::json;

use crate::own_command::Desk;

const KEY: &str = "sk-proj-abcdefghijklmnop1234";

#[test]
fn no_export_holds_a_secret_of_the_definition() {
    let desk = Desk::new("asks", json!({ "kind": "choice" }));
    desk.write(".env", &format!("MYKEY={KEY}\nPLACE=hunter2\n"));
    let team = json!({
        "models": {
            "default": { "provider": "offline" },
            "far": {
                "provider": "openai", "model": "m", "api_key": "${MYKEY}",
                "headers": { "authorization": "Bearer ${MYKEY}" },
                "base_url": "http://127.0.0.1:9/${PLACE}/v1",
            },
        },
        "agent": { "name": "desk", "instructions": "The key is ${MYKEY}.", "behavior": "simple" },
    });
    desk.write("team.yaml", &team.to_string());
    desk.run(&["run", "team.yaml", "hello", "--session", "s"])
        .exits(0);
    let run = desk.only_run();
    let refused = desk.run(&["recording", "export", &run]).exits(2);
    assert!(refused.err.contains("--with-secrets"), "{}", refused.err);
    let whole = desk
        .run(&["recording", "export", &run, "--with-secrets"])
        .exits(0);
    assert!(whole.out.contains(KEY) && whole.out.contains("${PLACE}"));
    let shown = desk
        .run(&["recording", "export", &run, "--redact"])
        .exits(0);
    assert!(!shown.out.contains(KEY), "{}", shown.out);
    for kept in ["\"${MYKEY}\"", "Bearer ${MYKEY}", "The key is [redacted]"] {
        assert!(shown.out.contains(kept), "{kept}: {}", shown.out);
    }
    // What stands in an address is looked up when it is sent, so nothing keeps or shows it.
    for words in [
        &["recording", "export", &run, "--with-secrets"][..],
        &["show", &run, "--json"],
        &["team", "check", "team.yaml"],
        &["team", "draw", "team.yaml"],
        &["doctor", "team.yaml", "--offline"],
    ] {
        let told = desk.run(words);
        assert!(
            !told.out.contains("hunter2") && !told.err.contains("hunter2"),
            "{words:?}: {}{}",
            told.out,
            told.err
        );
    }
    for suffix in ["", "-wal"] {
        let bytes = std::fs::read(desk.path(&format!("runs.db{suffix}"))).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains("hunter2"));
    }
}
